/*
 * Names in the configuration that were not found when the agent started. The process of
 * config/accounts.h looks them up again once a minute. It looks sooner when a process is refused
 * whose user may have one of these names. A name that is found gives its rights to processes that
 * connect afterwards.
 */
#ifndef AGENT_SERVE_USERS_H
#define AGENT_SERVE_USERS_H

#include "agent.h"

/* Logs the names that are not found, and lets the loop wait for answers of config/accounts.h.
 * Returns false if libuv refused, or if there is no memory. */
bool users_start(struct agent *agent) __attribute__((warn_unused_result));
/* Frees what users_start() made. Called when the loop is closed. */
void users_destroy(struct agent *agent);
/* Called in each upkeep: orders a new lookup of the names if the last one was a minute ago, or if
 * it was some seconds ago and a process has been refused since. */
void users_look(struct agent *agent, int64_t now_ns);
/* Called when a process was refused, or may not use some namespace: has the names looked up again
 * if the last lookup was some seconds ago. */
void users_refused(struct agent *agent, int64_t now_ns);

#endif
