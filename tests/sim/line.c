/*
 * A rolling restart with a line of waiters. All faults have healed, and every process has been
 * served. Now one process takes lock 0 and keeps it, and processes of all hosts come for the lock
 * one by one. Every agent is restarted, one after another. At some time the holder releases the
 * lock, and it goes from waiter to waiter.
 *
 * The hosts have turns: the host that came first is next. A host's turn ends when another host gets
 * the lock. From then on, the time at which the host came is the later of two times: when one of
 * its processes last got or released the lock, and when the first of its present waiters came. All
 * clocks have the same rate now. (order.c covers different rates and their effect on the times in
 * messages.) No agent is starved, because otherwise the time at which an agent reads a message
 * would decide which host came first.
 *
 * If agents end on SIGTERM, no host that came before its agent ended is passed over. If agents are
 * killed, a host may be passed over only if three things are true. The host's agent is away, or has
 * just come back, while the next owner is chosen. The lock has another coordinator than when that
 * agent ended. The new coordinator has never received the host's request (the check cannot see
 * this). A host that comes back has its old place. A chosen grant stays chosen, however late its
 * message arrives.
 */
#include <string.h>

#include "proto/check.h"
#include "quorum/ballots.h"
#include "sim.h"

enum { LINE_MAX = 12 };                          /* how many processes come at most */
static const int64_t SETTLED_NS = 5000 * SIM_MS; /* the time after which messages that a cut held
                                                  * back have arrived */
static const int64_t GAP_NS = 250 * SIM_MS;      /* the least time between two arrivals; the
                                                  * greatest is twice that */
static const int64_t SLACK_NS = 200 * SIM_MS;    /* an allowance for the time of messages and
                                                  * rounds */
static const int64_t ASKS_NS = 400 * SIM_MS;     /* the time in which a host whose agent is back
                                                  * sends its request */
static const int64_t PAUSE_NS = 700 * SIM_MS;    /* the pause between two restarts */
static const int64_t DOWN_NS = 300 * SIM_MS;     /* the longest absence of an agent; much less than
                                                  * a lease */
static const int64_t ENDS_NS = 60000 * SIM_MS;   /* the time after which every process of the line
                                                  * must have been served */

/* what the line knows of each host */
static struct {
    int64_t left_ns; /* when a process of the host last got or released the lock */
    int64_t gone_ns; /* when the host's agent last ended, or got SIGTERM */
    int64_t back_ns; /* when the host's agent last came back; INT64_MAX: it is away */
    uint64_t reign;  /* the ballot of lock 0's coordinator when the host's agent last ended */
} hosts[AGENTS];
static uint32_t had; /* the host that has the turn */

bool line_is_drawn(void)
{
    return world.rolling && !world.run.starved && world.agent_count > 1 && world.agent_count <= 8 &&
           world.process_count >= 2;
}

/* Returns the later of two times: when the first of the host's present waiters came, and when a
 * process of the host last got or released the lock. INT64_MAX: no process of the host waits. */
static int64_t born_ns(uint32_t host)
{
    int64_t born = INT64_MAX;
    for (uint32_t i = 0; i < world.process_count; i++) {
        const struct sim_process *process = &world.processes[i];
        if (process->agent->index == host && process->line == LINE_WAITS &&
            process->joins_ns < born) {
            born = process->joins_ns;
        }
    }
    return born == INT64_MAX || born > hosts[host].left_ns ? born : hosts[host].left_ns;
}

/* Returns the ballot of lock 0's coordinator, or 0 if there is none. */
static uint64_t reign_of(void)
{
    char name[32];
    uint64_t highest = 0;
    lock_name_of(0, name, sizeof(name));
    uint32_t at = names_partition((const uint8_t *)name, strlen(name));
    for (uint32_t i = 0; i < world.agent_count; i++) {
        const struct quorum *quorum = world.agents[i].up ? world.agents[i].quorum : NULL;
        if (quorum != NULL && ballots_state(quorum, at) == PARTITION_PREPARED &&
            ballots_of(quorum, at) > highest) {
            highest = ballots_of(quorum, at);
        }
    }
    return highest;
}

/* Returns whether the coordinator may not have known at then_ns that the host waits. */
static bool is_unknown(uint32_t host, int64_t then_ns)
{
    bool away = hosts[host].gone_ns <= then_ns &&
                (hosts[host].back_ns == INT64_MAX || hosts[host].back_ns + ASKS_NS > then_ns);
    if (world.orderly) {
        return away && born_ns(host) > hosts[host].gone_ns - SLACK_NS;
    }
    return away && hosts[host].reign != reign_of();
}

void line_took(struct sim_process *process)
{
    uint32_t mine = process->agent->index;
    int64_t born = born_ns(mine);
    process->line = LINE_HOLDS;
    hosts[mine].left_ns = sim_now();
    if (mine == had) {
        return;
    }
    int64_t chosen_ns = order_chosen_ns(mine, 0); /* the grant may have arrived long after the
                                                   * coordinator chose it */
    if (had < AGENTS && chosen_ns < hosts[had].left_ns) {
        chosen_ns = sim_now(); /* chosen_ns belongs to an earlier grant, and the time of the
                                * present grant's choice is unknown */
    }
    had = mine;
    for (uint32_t i = 0; i < world.agent_count; i++) {
        int64_t other = i == mine || is_unknown(i, chosen_ns) ? INT64_MAX : born_ns(i);
        if (other != INT64_MAX && other + SLACK_NS < born) {
            sim_fail("host %u has its turn before host %u, who came %lld us before it%s", mine, i,
                     (long long)(born - other) / 1000,
                     hosts[i].back_ns == INT64_MAX ? ", and is away" : "");
        }
    }
}

void line_released(struct sim_process *process)
{
    process->line = LINE_SERVED;
    hosts[process->agent->index].left_ns = sim_now();
}

static void run_until(int64_t until_ns)
{
    while (sim_now() < until_ns) {
        sim_turn();
    }
}

static void line_up(void)
{
    int64_t when_ns = sim_now() + 100 * SIM_MS;
    uint32_t first = sim_draw(world.process_count);
    had = AGENTS;
    for (uint32_t i = 0; i < world.agent_count; i++) {
        hosts[i].left_ns = hosts[i].gone_ns = hosts[i].back_ns = 0;
        clock_drift(&world.agents[i]);
    }
    world.lined_up = true;
    world.goes_round_ns = INT64_MAX;
    for (uint32_t i = 0; i < world.process_count; i++) {
        struct sim_process *process = &world.processes[(first + i) % world.process_count];
        process->done = false;
        process->line = i < LINE_MAX ? LINE_COMES : LINE_SERVED;
        process->joins_ns = when_ns;
        when_ns += i < LINE_MAX ? GAP_NS + (int64_t)(sim_random() % (uint64_t)GAP_NS) : 0;
        fiber_tell(&process->fiber);
    }
    run_until(when_ns);
}

static void restart(struct sim_agent *agent)
{
    int64_t until_ns = sim_now() + ENDS_NS;
    int64_t down_ns = sim_draw((uint32_t)(DOWN_NS / SIM_MS)) * SIM_MS;
    uint32_t starts = agent->starts;
    hosts[agent->index].gone_ns = sim_now();
    hosts[agent->index].back_ns = INT64_MAX;
    hosts[agent->index].reign = reign_of();
    if (world.orderly) {
        agent_stop(agent, down_ns);
    } else {
        agent_crash(agent, down_ns);
    }
    while (agent->starts == starts || !agent->up || !agent->serving) {
        sim_turn();
        if (sim_now() > until_ns) {
            sim_fail("host %u's agent does not come back", agent->index);
        }
    }
    hosts[agent->index].back_ns = sim_now();
    run_until(sim_now() + PAUSE_NS);
}

static bool all_served(void)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        if (world.processes[i].line != LINE_SERVED) {
            return false;
        }
    }
    return true;
}

void line_play(void)
{
    run_until(world.healed_ns + SETTLED_NS);
    line_up();
    uint32_t order[AGENTS];
    for (uint32_t i = 0; i < world.agent_count; i++) {
        uint32_t at = sim_draw(i + 1);
        order[i] = order[at];
        order[at] = i;
    }
    uint32_t round = sim_draw(2) == 0 ? world.agent_count : sim_draw(world.agent_count);
    for (uint32_t i = 0; i < world.agent_count; i++) {
        if (i == round) {
            world.goes_round_ns = sim_now();
        }
        restart(&world.agents[order[i]]);
    }
    world.goes_round_ns = sim_now();
    for (int64_t until_ns = sim_now() + ENDS_NS; !all_served();) {
        sim_turn();
        if (sim_now() > until_ns) {
            sim_fail("the line is never served");
        }
    }
}
