/* The event loop: timer, signals; the end. */
#ifndef AGENT_RUN_LOOP_H
#define AGENT_RUN_LOOP_H

#include "agent.h"

/* Runs until SIGTERM, or until it must end. The exit code. */
int agent_run(struct agent *agent) __attribute__((warn_unused_result));
/* Closes what libuv knows of this agent, and lets it call back. */
void agent_close_loop(struct agent *agent);

#endif
