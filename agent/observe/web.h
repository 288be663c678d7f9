/*
 * The HTTP server of the section [http]: /metrics, /healthz, and the page / for a person (/still:
 * the same, without refreshing itself). See metrics.h, page.h, io/http_thread.h, docs/METRICS.md.
 *
 * A thread handles the connections, and the loop writes the answers. So HTTP costs next to nothing
 * while no client asks. An agent whose loop hangs does not answer, so a monitor must treat a
 * missing answer as unhealthy, too.
 */
#ifndef AGENT_WEB_H
#define AGENT_WEB_H

#include <stdint.h>

struct agent;
struct web;

/* Begins to listen, if the configuration has [http]. On failure the agent goes on without HTTP, the
 * log says why, and web_look() tries again. */
void web_open(struct agent *agent);
/* Called in each upkeep: adds to the history that the page shows. If the agent does not listen for
 * HTTP, because the address does not exist yet or another program still has the port, it tries
 * again: at first after a second, later with pauses of up to a minute. */
void web_look(struct agent *agent, int64_t now_ns);
/* Returns why this agent does not listen for HTTP although the configuration has [http]; NULL: it
 * listens, or the configuration has no [http]. */
const char *web_down(const struct agent *agent);
/* Ends the serving. Called before the loop is closed. */
void web_shut(struct agent *agent);
/* Frees the server. Called after the loop is closed. */
void web_close(struct agent *agent);

#endif
