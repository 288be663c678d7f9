/*
 * A turn of the loop: the calls that every part of the agent may make. Every part may include this
 * header. run/loop.c implements it, and includes the headers of the parts.
 */
#ifndef AGENT_TURN_H
#define AGENT_TURN_H

#include "agent.h"
#include "observe/turns.h"

/* Begins a turn, or the next part of a turn. Each callback of the loop calls this first. */
void agent_turn(struct agent *agent, enum turn_part part);
/* Ends a turn. The loop calls this for each turn that one of its callbacks began. */
void agent_turn_end(struct agent *agent);
/* Calls callback when the descriptor is readable. Returns false if libuv refused. */
bool agent_poll(struct agent *agent, uv_poll_t *poll, int fd, uv_poll_cb callback)
    __attribute__((warn_unused_result));
/* Called around code that touches memory shared with clients, because a client may hold up such
 * code. Between the two calls the keeper renews the session (run/keeper.h), and no code of the
 * driver, the peers or the lease file may be called. Pairs of calls may be nested. */
void agent_lend(struct agent *agent);
void agent_take_back(struct agent *agent);
/* Runs the loop, on the loop's thread or the committer's (io/commit.h). Returns true when the loop
 * has ended. arg: the agent. */
bool agent_loop(void *arg) __attribute__((warn_unused_result));
/* Returns libuv's loop, on which other parts open their handles. */
uv_loop_t *agent_uv(struct agent *agent);
/* Returns the exit code so far. */
int agent_exit_code(const struct agent *agent);

/* For display and for log lines: what the loop has counted since the start. */
struct agent_seen {
    int64_t began_ns;       /* when the agent began */
    uint64_t interruptions; /* how often the session was interrupted */
    int64_t interrupted_ns; /* when the last interruption ended; 0: there was none */
    uint64_t stalls;        /* how often this process stood still */
    int64_t stalled_ns;     /* when the last stall was seen */
    int64_t stall_ns;       /* how long the last stall lasted */
    uint64_t slow_turns;
    const struct histogram *turn; /* durations of turns; borrowed */
    bool clock_astray;            /* the kernel adjusts the clock by more than max_drift */
};
struct agent_seen agent_seen(const struct agent *agent);
/* Writes the facts for `holdfast doctor`: facts_write() of observe/facts.h. */
size_t agent_facts(struct agent *agent, uint64_t request, unsigned char *buffer);
/* Returns how many descriptors this agent may need under its configuration. */
int64_t agent_descriptors_wanted(const struct agent *agent);

#endif
