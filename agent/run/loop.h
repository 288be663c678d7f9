/* The event loop: timer, signals, orderly end. */
#ifndef AGENT_RUN_LOOP_H
#define AGENT_RUN_LOOP_H

#include "agent.h"

/* Runs the agent until SIGTERM or a failure ends it. Returns the exit code. */
int agent_run(struct agent *agent) __attribute__((warn_unused_result));
/* Closes all handles of libuv, and runs their close callbacks. */
void agent_close_loop(struct agent *agent);

#endif
