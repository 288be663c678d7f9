/*
 * The event loop: timer, signals, orderly end. It also implements turn.h.
 *
 * Each turn ends with a flush of the driver and of the packets to others, and with the timer set to
 * what is due next. So between two turns nothing waits that could go on.
 */
#ifndef AGENT_RUN_LOOP_H
#define AGENT_RUN_LOOP_H

#include "agent.h"

/* Makes libuv's loop. Returns false if that failed; loop_destroy() follows in any case, after
 * agent_close_loop(). */
bool loop_create(struct agent *agent) __attribute__((warn_unused_result));
void loop_destroy(struct agent *agent);
/* Runs the agent until SIGTERM or a failure ends it. Returns the exit code. */
int agent_run(struct agent *agent) __attribute__((warn_unused_result));
/* Closes all handles of libuv, and runs their close callbacks. */
void agent_close_loop(struct agent *agent);
/* Answers systemd's watchdog, if it is time. For the thread that has the driver (run/keeper.h). */
void loop_notify_alive(struct agent *agent, int64_t now_ns);

#endif
