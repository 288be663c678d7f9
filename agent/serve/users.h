/*
 * Names in the configuration that were not found when the agent started: config/accounts.h looks
 * them up again once a minute, and sooner when a process is refused whose user may be one of them.
 * A name that is found counts for processes that connect from then on.
 */
#ifndef AGENT_SERVE_USERS_H
#define AGENT_SERVE_USERS_H

#include "agent.h"

/* Logs the names that are not found, and makes the loop wait for answers of the process that looks
 * names up. Returns false if libuv refused, or if there is no memory. */
bool users_start(struct agent *agent) __attribute__((warn_unused_result));
/* Once the loop is closed. */
void users_destroy(struct agent *agent);
/* Called in each upkeep. */
void users_look(struct agent *agent, int64_t now_ns);
/* A process was refused, or may not use some namespace. */
void users_refused(struct agent *agent, int64_t now_ns);

#endif
