/* The sizes of the agent's tables: see profile.h. */
#include "config/profile.h"

#include <stddef.h>
#include <string.h>

const struct profile profile_standard = {
    .name = "standard",
    .host = {.locks = 131072,
             .clients = 4096,
             .handles = 1048576,
             .blocks = 16384,
             .watches = 1024,
             .holders = HOST_HOLDERS_MAX},
    .quorum = {.registers = 1 << 22, .agents = 1024, .requests = 65536, .shares = 65536},
    .gossip = {.agents = 4096, .items = 1 << 17, .chunks = 1 << 19},
};

const struct profile profile_small = {
    .name = "small",
    .host = {.locks = 512,
             .clients = 64,
             .handles = 1024,
             .blocks = 128,
             .watches = 32,
             .holders = 511},
    .quorum = {.registers = 1024, .agents = 64, .requests = 512, .shares = 512},
    .gossip = {.agents = 64, .items = 256, .chunks = 1024},
};

const struct profile *profile_find(const char *name)
{
    static const struct profile *const profiles[] = {&profile_standard, &profile_small};
    for (size_t i = 0; i < sizeof(profiles) / sizeof(profiles[0]); i++) {
        if (strcmp(profiles[i]->name, name) == 0) {
            return profiles[i];
        }
    }
    return NULL;
}
