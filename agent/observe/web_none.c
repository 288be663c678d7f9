/* The pages of [http] in a build without HTTP (-DHOLDFAST_HTTP=OFF): the configuration cannot have
 * [http], so nothing listens. See web.h. */
#include <stddef.h>

#include "observe/web.h"

void web_open(struct agent *agent)
{
    (void)agent;
}

void web_look(struct agent *agent, int64_t now_ns)
{
    (void)agent;
    (void)now_ns;
}

const char *web_down(const struct agent *agent)
{
    (void)agent;
    return NULL;
}

void web_shut(struct agent *agent)
{
    (void)agent;
}

void web_close(struct agent *agent)
{
    (void)agent;
}
