/*
 * [http]: /metrics, /healthz, and / for a person. See metrics.h, io/http_thread.h, docs/METRICS.md.
 *
 * Connections are a thread's, answers the loop's: nothing costs anything as long as nobody asks. An
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

#endif
