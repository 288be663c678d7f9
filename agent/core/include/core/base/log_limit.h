/*
 * Rate limits of the log. An event may have `burst` lines at once, and after that one line in each
 * interval. Each line says how often the event has happened since the line before.
 *
 * A table has a limit for each agent, so that the lines about one agent do not use up those about
 * another agent. At most LOG_LIMIT_AGENTS agents get lines in a minute, because without TLS a
 * stranger can invent names. Invented names hide no voter: each voter has a limit of its own.
 *
 * Invariant: since its first line, a limit has allowed at most `burst` lines, and one more line for
 * each interval that has passed.
 *
 * Pure. The caller owns the memory, which is all 0 at first.
 */
#ifndef CORE_BASE_LOG_LIMIT_H
#define CORE_BASE_LOG_LIMIT_H

#include <stdint.h>

#include "proto/message.h"

enum { LOG_LIMIT_AGENTS = 16 };

struct log_rate {
    int64_t interval_ns;
    uint32_t burst;
};

extern const struct log_rate log_once_a_minute;

struct log_limit {
    int64_t regained_ns; /* when the limit last regained lines; 0: nothing was logged yet */
    uint32_t spent;      /* lines of the burst that are used up */
    uint32_t left_out;   /* events since the last line */
};

struct log_limit_agent {
    struct message_agent agent; /* length 0: the entry is free */
    struct log_limit limit;
};

struct log_limits {
    struct log_limit_agent agents[LOG_LIMIT_AGENTS];
    struct log_limit voters[MESSAGE_VOTERS_MAX];
};

/* Counts an event. If a line is due now, returns how often the event has happened since the last
 * line, this time included. Otherwise returns 0. now_ns is above 0. */
uint32_t log_limit_add(struct log_limit *limit, const struct log_rate *rate, int64_t now_ns)
    __attribute__((warn_unused_result));

/* Do what log_limit_add() does with log_once_a_minute, for an event about an agent (whose name must
 * not be empty) or about a voter (an index). Each agent and each voter has its own limit. */
uint32_t log_limits_add(struct log_limits *limits, const struct message_agent *agent,
                        int64_t now_ns) __attribute__((warn_unused_result));
uint32_t log_limits_add_voter(struct log_limits *limits, uint32_t voter, int64_t now_ns)
    __attribute__((warn_unused_result));

#endif
