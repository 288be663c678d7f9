/* Shared by sessions.c and sessions_end.c. The simulator reads these structs too
 * (tests/sim/order.c, tests/sim/breaks_core.c). */
#ifndef QUORUM_SESSIONS_PRIVATE_H
#define QUORUM_SESSIONS_PRIVATE_H

#include "sessions.h"

enum ending { ENDING_NOTHING = 0, ENDING_POLL, ENDING_MARK };

/* An agent's sessions. */
struct session {
    /* The voter's side. */
    uint32_t epoch;          /* the agent's highest epoch that a renewal has extended here */
    uint64_t store_id[2];    /* the store id in the first renewal of `epoch` */
    bool twice_logged;       /* it was logged that another store renews `epoch` too */
    uint32_t marked;         /* all epochs up to this number are marked, durably; 0: none is */
    int64_t seen_ns;         /* when a renewal last extended `epoch`; INT64_MIN: never */
    int64_t seen_older_ns;   /* when a renewal last extended a lower epoch */
    int64_t echo_counted_ns; /* the stamp that the last extending renewal echoed */
    /* The coordinator's side. */
    uint32_t ended;    /* all epochs up to this number have ended: a majority marked them */
    int64_t ended_ns;  /* when `ended` last rose, or sessions_count_anew() was last called */
    uint32_t target;   /* phase != NOTHING: the epoch to be marked */
    uint8_t phase;     /* enum ending */
    uint8_t mask;      /* the voters that answered yes in this phase, by bit */
    bool superseded;   /* the end is wanted because a newer epoch lives, not for a request */
    int64_t wanted_ns; /* when sessions_want_end() was last called for the agent */
    int64_t next_ns;   /* when to ask the voters again */
};

struct sessions {
    struct session *of;       /* by agent */
    int64_t fresh_since_ns;   /* this process's start, or the last sessions_refresh() */
    int64_t guarded_until_ns; /* see sessions_guard() */
    uint64_t incarnation;
    int64_t stamp_ns;  /* the latest stamp sent; a renewal echoes it */
    uint32_t endings;  /* the number of agents whose phase is not NOTHING */
    int64_t ending_ns; /* when sessions_tick() has something to do */
};

#endif
