/*
 * The event loop: timer, signals, orderly end. It also implements turn.h.
 *
 * A turn ends with a flush of the driver and of the packets to other agents, and sets the timer to
 * the next due time. So between two turns nothing waits that could go on.
 */
#ifndef AGENT_RUN_LOOP_H
#define AGENT_RUN_LOOP_H

#include "agent.h"

/* Makes libuv's loop. Returns false if that failed. In both cases agent_close_loop() and
 * loop_destroy() must be called later. */
bool loop_create(struct agent *agent) __attribute__((warn_unused_result));
void loop_destroy(struct agent *agent);
/* Runs the agent until SIGTERM or a failure ends it. Returns the exit code. */
int agent_run(struct agent *agent) __attribute__((warn_unused_result));
/* Closes all handles of libuv, and runs their close callbacks. */
void agent_close_loop(struct agent *agent);
/* Answers systemd's watchdog if an answer is due. For the thread that has the driver
 * (run/keeper.h). */
void loop_notify_alive(struct agent *agent, int64_t now_ns);

#endif
