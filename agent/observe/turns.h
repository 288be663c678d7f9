/*
 * A watchdog of the loop: it measures how long each turn took, which part of the turn took longest,
 * and for which user.
 *
 * While a turn lasts, the loop's thread renews no lease and answers no client. The time that users'
 * requests take is bounded, for each user and for all together (io/socket_share.h). If a bound is
 * ever missing, the watchdog shows where: it logs each turn of more than a twentieth of session_ttl
 * (turn_slow), with the longest part.
 *
 * Every callback of the loop begins a part, and the clock is read when a part begins. The processor
 * time of the turn shows whether the agent was busy. If it was not (it was stopped, got no
 * processor, or waited for the kernel), the log line names no user.
 */
#ifndef AGENT_TURNS_H
#define AGENT_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/base/log_limit.h"

enum turn_part {
    TURN_NONE = 0,
    TURN_USERS, /* packets, connects, hang-ups and deaths of clients */
    TURN_TIMER, /* timers that were due */
    TURN_DISK,  /* durable batches, and the answers that waited for them */
    TURN_PEERS, /* packets of other agents */
    TURN_WEB,   /* HTTP requests */
    TURN_SIGNALS,
    TURN_END, /* the end of the turn: batches, answers, packets */
    TURN_PARTS,
};

struct turns {
    int64_t began_ns; /* 0: no turn is running */
    int64_t cpu_ns;   /* processor time of this thread when the turn began */
    int64_t since_ns; /* when the present part began */
    enum turn_part part;
    int64_t spent_ns[TURN_PARTS];
    /* Counted over all turns. */
    uint64_t slow;
    struct log_limit limit; /* limits the log lines about slow turns */
};

/* The user whose requests took most of a turn. */
struct turns_user {
    uid_t uid;
    int64_t took_ns; /* 0: there is no such user */
};

/* Begins a part of the turn; the first part begins the turn. */
void turns_part(struct turns *turns, enum turn_part part);

/* Ends the turn at now_ns. A turn of more than slow_ns is counted and logged. */
void turns_end(struct turns *turns, int64_t now_ns, int64_t slow_ns, struct turns_user user);

#endif
