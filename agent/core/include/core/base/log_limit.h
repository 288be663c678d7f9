/*
 * Limits of what the log says: one line a minute about the same thing. The line says how often it
 * happened since the last one.
 *
 * A table has such a limit for each agent, so that what one agent sends hides nothing of another's.
 * There are lines about LOG_LIMIT_AGENTS agents a minute at most: without TLS a stranger invents
 * names as it likes. Invented names hide no voter, which has a limit of its own.
 *
 * Pure; on the caller's storage, all 0 at first.
 */
#ifndef CORE_BASE_LOG_LIMIT_H
#define CORE_BASE_LOG_LIMIT_H

#include <stdint.h>

#include "proto/message.h"

enum { LOG_LIMIT_AGENTS = 16 };

struct log_limit {
    int64_t said_ns; /* when the last line was; 0: never */
    uint32_t count;  /* since then */
};

struct log_limit_agent {
    struct message_agent agent; /* length 0: none */
    struct log_limit limit;
};

struct log_limits {
    struct log_limit_agent agents[LOG_LIMIT_AGENTS];
    struct log_limit voters[MESSAGE_VOTERS_MAX];
};

/* It happened once more. How often since the last line, this time included; 0: no line is due.
 * now_ns is above 0. */
uint32_t log_limit_add(struct log_limit *limit, int64_t now_ns) __attribute__((warn_unused_result));

/* The same about an agent, whose name has a length; about a voter, by its index. */
uint32_t log_limits_add(struct log_limits *limits, const struct message_agent *agent,
                        int64_t now_ns) __attribute__((warn_unused_result));
uint32_t log_limits_add_voter(struct log_limits *limits, uint32_t voter, int64_t now_ns)
    __attribute__((warn_unused_result));

#endif
