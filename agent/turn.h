/*
 * A turn of the loop: the calls that every part of the agent may make. It stands below all parts,
 * and run/loop.c implements it on top of them: the few calls that go up.
 */
#ifndef AGENT_TURN_H
#define AGENT_TURN_H

#include "agent.h"
#include "observe/turns.h"

/* The first thing of each callback. */
void agent_turn(struct agent *agent, enum turn_part part);
/* The last thing of a turn; libuv calls it for those that it began. */
void agent_turn_end(struct agent *agent);
/* Watches a descriptor. */
bool agent_poll(struct agent *agent, uv_poll_t *poll, int fd, uv_poll_cb callback)
    __attribute__((warn_unused_result));
/* Ends the loop. */
void agent_end(struct agent *agent, int exit_code);
/* Goes on with the loop, on either thread (io/commit.h): true when it has ended. arg: the agent. */
bool agent_loop(void *arg) __attribute__((warn_unused_result));
/* How many descriptors this agent may need, by its configuration. */
int64_t agent_descriptors_wanted(const struct agent *agent);

#endif
