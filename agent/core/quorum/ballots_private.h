/* The structs of ballots.c. They are in a header so that tests can begin with round numbers that no
 * test would reach by running. */
#ifndef QUORUM_BALLOTS_PRIVATE_H
#define QUORUM_BALLOTS_PRIVATE_H

#include "ballots.h"

struct ballot {
    uint64_t ballot;     /* this voter's own ballot */
    int64_t began_ns;    /* PREPARING: when the take-over began; a try soon after a refusal belongs
                          * to the same take-over */
    int64_t prepared_ns; /* PREPARED: since when */
    /* when a voter last refused a PREPARE because another voter coordinates the partition */
    int64_t refused_ns;
    int64_t retry_ns; /* OTHERS: do not prepare before this time; 0: at any time */
    /* when the partition last left the state PREPARED; long ago if it never was PREPARED */
    int64_t left_ns;
    uint8_t state;
    uint8_t mask;   /* the voters that promised, by bit */
    uint8_t synced; /* PREPARED: the voters of mask whose registers were all read, by bit */
    /* PREPARED: this voter and the voters of `synced` are a majority, so a name without a register
     * here has no value. */
    bool complete;
    bool anew; /* PREPARING: the partition needs a new ballot */
    /* PREPARED: this voter does not claim the partition any more, and coordinates it only until
     * another voter has prepared it */
    bool yields;
    int64_t yields_ns; /* when `yields` was set */
    /* PREPARED under the previous record of voters; `mask` has the present voters that have
     * promised the same ballot */
    bool carried;
    uint32_t number; /* PREPARED: the number of the record under which a majority promised */
    /* the next try needs a new ballot: the present one was prepared, or a voter refused it because
     * of a higher promise */
    bool spent;
    uint8_t order[MESSAGE_VOTERS_MAX]; /* the voters, the preferred one first */
};

struct ballots {
    struct ballot of[MESSAGE_PARTITIONS];
    uint32_t round;      /* the highest round that this voter used; durable */
    uint32_t seen_round; /* the highest round that any voter named */
    uint64_t sequence;
    uint32_t number;     /* the number of the record of voters */
    uint32_t preparing;  /* how many partitions are PREPARING */
    uint32_t carried;    /* how many partitions are PREPARED and carried */
    uint32_t incomplete; /* how many partitions are PREPARED and not complete */
    /* This voter prepares nothing before this time: it does not know other voters' claims yet. */
    int64_t begin_ns;
    int64_t prepare_ns;     /* when to send PREPARE the next time; NEVER: no time is set */
    int64_t retry_ns;       /* when to review all partitions the next time; NEVER: no time is set */
    bool announcing;        /* MESSAGE_OWNER is being sent to the hosts, one after the other */
    uint32_t announce_next; /* the index of the agent that gets MESSAGE_OWNER next */
    struct message_partitions announce;
    uint64_t announce_ballot;
};

#endif
