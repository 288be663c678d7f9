/*
 * A watchdog of the loop's own: how long each turn took, in which part of it, and for which user.
 *
 * While a turn lasts no lease is renewed and nobody is answered. The requests of users are bounded,
 * in time and by user (io/socket_share.h). If a bound is ever missing, this shows where: a turn of
 * more than a twentieth of session_ttl is logged (turn_slow), with its longest part.
 *
 * The clock is read where a part begins, which is what every callback of the loop does first. The
 * processor time that the turn took says whether the agent was busy, or stood still because it was
 * stopped, got no processor, or waited for the kernel: then nobody is blamed.
 */
#ifndef AGENT_TURNS_H
#define AGENT_TURNS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum turn_part {
    TURN_NONE = 0,
    TURN_USERS, /* packets of clients, connects, hang-ups, deaths: of a user */
    TURN_TIMER, /* timers that were due */
    TURN_DISK,  /* batches that are durable, and what waited for them */
    TURN_PEERS, /* packets of other agents */
    TURN_WEB,   /* HTTP */
    TURN_SIGNALS,
    TURN_END, /* the results of all of it: batches, answers, packets */
    TURN_PARTS,
};

struct turns {
    int64_t began_ns; /* 0: between two turns */
    int64_t cpu_ns;   /* of this thread, when it began */
    int64_t since_ns; /* when the present part began */
    enum turn_part part;
    int64_t spent_ns[TURN_PARTS];
    /* Over all turns. */
    uint64_t slow;
    int64_t told_ns;
    uint32_t untold; /* since then */
};

/* The user that had most of a turn. */
struct turns_user {
    uid_t uid;
    int64_t took_ns; /* 0: there is none */
};

/* A part begins, and with the first one the turn. */
void turns_part(struct turns *turns, enum turn_part part);

/* The turn is over at now_ns. Logs, and counts, one of more than slow_ns. */
void turns_end(struct turns *turns, int64_t now_ns, int64_t slow_ns, struct turns_user user);

#endif
