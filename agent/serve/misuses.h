/*
 * Log lines about what local processes do wrong: the same text once a minute for a process, and a
 * few lines a minute for a user. A line that was left out is counted, and the next line of that
 * user and event says how many there were.
 *
 * log_limit.h alone does not do: a process that repeats its mistake would use up the lines of its
 * user's other processes.
 */
#ifndef AGENT_SERVE_MISUSES_H
#define AGENT_SERVE_MISUSES_H

#include "io/peer.h"
#include "observe/log.h"

struct misuses;

/* Returns NULL if there is no memory. */
struct misuses *misuses_create(void);
/* NULL is allowed. */
void misuses_destroy(struct misuses *misuses);

/* event: static. peer: NULL if it is not known. */
void misuses_log(struct misuses *misuses, const struct peer *peer, enum log_level level,
                 const char *event, const char *why);

#endif
