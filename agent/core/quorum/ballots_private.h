/* The struct of ballots.c: for it, and for tests that begin with numbers nobody lives to see. */
#ifndef QUORUM_BALLOTS_PRIVATE_H
#define QUORUM_BALLOTS_PRIVATE_H

#include "ballots.h"

struct ballot {
    uint64_t ballot;     /* own ballot */
    int64_t began_ns;    /* PREPARING: since when */
    int64_t prepared_ns; /* PREPARED: since when */
    int64_t refused_ns;  /* the last time for the sake of its owner */
    int64_t retry_ns;    /* OTHERS: not to be prepared before; 0: at any time */
    int64_t left_ns;     /* when it was last PREPARED; long ago: never */
    uint8_t state;
    uint8_t mask;   /* voters that promised */
    uint8_t pulled; /* PREPARED: of those, the voters whose registers are all here */
    bool complete;  /* PREPARED: a majority's are, a name that is not here has no value */
    bool anew;      /* PREPARING: a new ballot is needed */
    bool spent;     /* the ballot was used, or is refused by a higher promise */
    uint8_t order[MESSAGE_VOTERS_MAX]; /* the voters, the preferred one first */
};

struct ballots {
    struct ballot of[MESSAGE_PARTITIONS];
    uint32_t round;       /* the highest used, durable */
    uint32_t heard_round; /* the highest of anybody */
    uint64_t sequence;
    uint32_t preparing;     /* partitions that are */
    uint32_t incomplete;    /* partitions that are PREPARED and not complete */
    int64_t begin_ns;       /* prepares nothing before: it does not know yet what others claim */
    int64_t prepare_ns;     /* when to send PREPARE (again); NEVER */
    int64_t retry_ns;       /* when to look again at who should coordinate what; NEVER */
    bool announcing;        /* MESSAGE_OWNER is on its way to the hosts: */
    uint32_t announce_next; /* an agent */
    struct message_partitions announce;
    uint64_t announce_ballot;
};

#endif
