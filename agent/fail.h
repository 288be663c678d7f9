/* Records why the agent cannot start, or why work on the store of a stopped agent (such as
 * --recover) fails. */
#ifndef AGENT_FAIL_H
#define AGENT_FAIL_H

#include "agent.h"

/* Writes the reason into agent->error, for main.c, and returns the exit code. */
int agent_fail(struct agent *agent, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
