/*
 * Log lines about mistakes of local processes. The same text is logged once a minute for a process.
 * For a user there are a few lines a minute. A line that is left out is counted, and the next line
 * of the same user and event has the count.
 *
 * log_limit.h alone is not enough: a process that repeats its mistake would use up the lines of its
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

/* event: a static text. peer: NULL if it is not known. */
void misuses_log(struct misuses *misuses, const struct peer *peer, enum log_level level,
                 const char *event, const char *why);

#endif
