/*
 * A turn of the loop: the calls that every part of the agent may make. This header lies below all
 * parts. run/loop.c, which lies above them, implements it.
 */
#ifndef AGENT_TURN_H
#define AGENT_TURN_H

#include "agent.h"
#include "observe/turns.h"

/* Begins a turn, or the next part of it. Each callback of the loop calls it first. */
void agent_turn(struct agent *agent, enum turn_part part);
/* Ends a turn. The loop calls it for each turn that one of its callbacks began. */
void agent_turn_end(struct agent *agent);
/* Calls back when the descriptor is readable. Returns false if libuv refused. */
bool agent_poll(struct agent *agent, uv_poll_t *poll, int fd, uv_poll_cb callback)
    __attribute__((warn_unused_result));
/* To be called around code that touches memory shared with clients, where a client may hold it up:
 * the keeper keeps the session meanwhile (run/keeper.h). The calls may be nested. Between them, no
 * code of the driver, the peers or the lease file may be called. */
void agent_lend(struct agent *agent);
void agent_take_back(struct agent *agent);
/* Lets the loop end after this turn, with that exit code. */
void agent_end(struct agent *agent, int exit_code);
/* Runs the loop, on either thread (io/commit.h). Returns true when it has ended. arg: the agent. */
bool agent_loop(void *arg) __attribute__((warn_unused_result));
/* Returns how many descriptors this agent may need, by its configuration. */
int64_t agent_descriptors_wanted(const struct agent *agent);

#endif
