/* Rings of clients: see serve/rings.h. */
#include "serve/rings.h"

#include "core/host.h"
#include "driver/driver.h"
#include "io/clock.h"
#include "io/socket_share.h"
#include "observe/log.h"
#include "serve/private.h"
#include "serve/regions.h"
#include "turn.h"

static void answer_rings(const struct socket_share *share, struct rings *rings, int64_t now_ns)
{
    struct log_line line;
    if (!rings_log_is_due(rings, now_ns)) {
        return;
    }
    log_begin(&line, LOG_LEVEL_WARN, "rings_held_back");
    log_number(&line, "uid", (int64_t)share->uid);
    log_unsigned(&line, "rings", rings->count);
    log_unsigned(&line, "without_cause", rings->nothings);
    log_text(&line, "text",
             rings->nothings > rings->count / 2
                 ? "a process of this user rings all the time without need"
                 : "processes of this user ring more often than half a processor can answer");
    log_end(&line);
    rings_logged(rings, now_ns);
}

static void answer(struct agent *agent, struct socket_share *share, uint64_t regions)
{
    struct rings *rings = &share->rings;
    int64_t began_ns = clock_boottime_ns();
    regions &= ~regions_given_up(agent);
    for (uint32_t i = 0; i < agent->config.namespace_count; i++) {
        if ((regions >> i & 1) != 0) {
            struct host_event event = {.kind = HOST_RING, .as.region = i};
            driver_event(agent->driver, &event);
        }
    }
    agent_lend(agent);
    uint64_t causes = host_causes(agent->host, rings->rung);
    agent_take_back(agent);
    int64_t now_ns = clock_boottime_ns();
    int64_t resume_ns = rings_answered(rings, now_ns, now_ns - began_ns, causes,
                                       agent->serve->shares.turn);
    if (resume_ns != 0) {
        agent->serve->rings_ns = resume_ns < agent->serve->rings_ns ? resume_ns
                                                                    : agent->serve->rings_ns;
        answer_rings(share, rings, now_ns);
    }
}

void rings_take(struct agent *agent, struct connection *connection)
{
    struct socket_share *share = connection_share(connection);
    uint64_t regions = host_regions_of(agent->host, connection_note(connection)->client);
    if (!rings_wait(&share->rings, regions, clock_boottime_ns())) {
        answer(agent, share, regions);
    }
    if (share->rings.resume_ns != 0 && !connection_is_held(connection)) {
        connection_hold(connection, rings_hold(&share->rings, clock_boottime_ns()));
    }
}

static void resume(void *arg, struct socket_share *share)
{
    struct agent *agent = arg;
    uint64_t regions = rings_resume(&share->rings, clock_boottime_ns());
    if (regions != 0) {
        int64_t began_ns = clock_boottime_ns();
        answer(agent, share, regions);
        (void)socket_share_spend(share, clock_boottime_ns() - began_ns);
    }
}

void rings_tick(struct agent *agent, int64_t now_ns)
{
    if (agent->serve->rings_ns <= now_ns) {
        agent_turn(agent, TURN_USERS);
        agent->serve->rings_ns = INT64_MAX; /* answer() sets an earlier time if a ring waits */
        int64_t next_ns = socket_shares_resume(&agent->serve->shares, now_ns, resume, agent);
        agent->serve->rings_ns = next_ns < agent->serve->rings_ns ? next_ns
                                                                  : agent->serve->rings_ns;
        agent_turn(agent, TURN_TIMER);
    }
}
