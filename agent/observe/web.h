/*
 * [http]: /metrics, /healthz, and / for a person. See metrics.h, io/http.h, docs/METRICS.md.
 *
 * All on the loop's thread: nothing is done, and nothing costs anything, as long as nobody asks. An
 * agent whose loop stands still does not answer, and a monitor has to take that for unhealthy, too.
 */
#ifndef AGENT_WEB_H
#define AGENT_WEB_H

#include <stdint.h>

struct agent;
struct web;

/* Begins to listen, if the configuration says so. If that does not work the agent goes on without,
 * and the log says why. */
void web_open(struct agent *agent);
/* Before the loop is closed. */
void web_shut(struct agent *agent);
/* When the loop is closed. */
void web_close(struct agent *agent);

/* INT64_MAX: never. */
int64_t web_next_tick_ns(const struct agent *agent);
void web_tick(struct agent *agent, int64_t now_ns);

#endif
