/* Records why the agent fails: see fail.h. */
#include "fail.h"

#include <stdarg.h>
#include <stdio.h>

int agent_fail(struct agent *agent, int code, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(agent->error, sizeof(agent->error), format, arguments);
    va_end(arguments);
    return code;
}
