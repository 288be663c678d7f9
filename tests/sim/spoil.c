/*
 * A region that is spoilt while the agent runs, for example by a truncation. The fault may begin
 * between any two atomic steps of the agent. From then on the agent reads zeros, and processes
 * still read what they wrote. (In such a case agent/io/region/region.c maps zeros.) The agent
 * notices the fault when the host core checks the region (host_set_sound()), or in region_see().
 */
#include <stdlib.h>

#include "host/spaces_private.h"
#include "proto/check.h"
#include "sim.h"

bool region_is_given_up(const struct sim_agent *agent)
{
    return space_is_given_up(agent->host, 0);
}

void region_spoil(struct sim_agent *agent)
{
    struct region_memory *last = agent->region_count > 0 ? &agent->regions[agent->region_count - 1]
                                                         : NULL;
    if (last == NULL || last->memory == NULL || agent->spoilt) {
        return;
    }
    sim_tell("host %u: its region is spoilt", agent->index);
    agent->spoilt = true;
    agent->noticed_ns = sim_now() + sim_draw(2) * sim_draw(300) * SIM_MS;
    if (agent->up && agent->host != NULL && agent->host->spaces->table[0].used) {
        struct hfi_region *seen = &agent->host->spaces->table[0].region;
        last->zeros = calloc(1, last->region.size);
        HF_CHECK(last->zeros != NULL);
        unsigned char *zeros = last->zeros;
        const unsigned char *base = last->memory;
        seen->header = (void *)zeros;
        seen->words = (void *)(zeros + ((unsigned char *)seen->words - base));
        seen->slots = (void *)(zeros + ((unsigned char *)seen->slots - base));
        seen->index = (void *)(zeros + ((unsigned char *)seen->index - base));
        seen->dirty = (void *)(zeros + ((unsigned char *)seen->dirty - base));
        seen->holders = (void *)(zeros + ((unsigned char *)seen->holders - base));
        seen->blocks = (void *)(zeros + ((unsigned char *)seen->blocks - base));
    }
    fiber_tell(&agent->fiber);
}
