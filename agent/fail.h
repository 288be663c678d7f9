/* Why the agent cannot start, or an offline act such as --recover cannot be done. */
#ifndef AGENT_FAIL_H
#define AGENT_FAIL_H

#include "agent.h"

/* Writes the reason into agent->error, for main.c, and returns the exit code. */
int agent_fail(struct agent *agent, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
