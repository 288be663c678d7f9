/* Shared by sessions.c and sessions_end.c. */
#ifndef QUORUM_SESSIONS_PRIVATE_H
#define QUORUM_SESSIONS_PRIVATE_H

#include "sessions.h"

enum ending { ENDING_NOTHING = 0, ENDING_POLL, ENDING_MARK };

/* An agent's sessions. */
struct session {
    /* Voter's side. */
    uint32_t epoch;          /* the highest that renewed here */
    uint64_t store_id[2];    /* of the store that renewed it first */
    bool twice_told;         /* another store renews it too: the log says so */
    uint32_t marked;         /* epochs up to this one have ended, durably; 0: none */
    int64_t heard_ns;        /* last counted receipt of epoch; INT64_MIN: never */
    int64_t heard_older_ns;  /* of any epoch before */
    int64_t echo_counted_ns; /* stamp of the echo counted last */
    /* Coordinator's side. */
    uint32_t ended;    /* epochs up to this one have: a majority marked them */
    int64_t ended_ns;  /* when this coordinator learned of it */
    uint32_t target;   /* phase != NOTHING: the epoch to be marked */
    uint8_t phase;     /* enum ending */
    uint8_t mask;      /* voters that said yes in this phase */
    bool superseded;   /* asked for without a waiter: a newer epoch lives */
    int64_t wanted_ns; /* when a waiter last asked for it */
    int64_t next_ns;   /* when to ask the voters again */
};

struct sessions {
    struct session *of;     /* by agent */
    int64_t fresh_since_ns; /* this voter's start, or the end of its last stall */
    uint64_t incarnation;
    int64_t stamp_ns;  /* of the latest echo */
    uint32_t endings;  /* agents whose phase is not NOTHING */
    int64_t ending_ns; /* when sessions_tick() has something to do */
};

#endif
