/* Shared by voters.c and voters_detector.c. */
#ifndef QUORUM_VOTERS_PRIVATE_H
#define QUORUM_VOTERS_PRIVATE_H

#include "voters.h"

enum { HEARTBEATS_KEPT = 1024 }; /* whose sending times are known */

/* For how long something kept this voter waiting: in this window, and in the one before. */
struct lag {
    int64_t worst_ns[2];
    int64_t second_ns[2];
    int64_t counted_ns; /* when the last one that was counted by itself ended */
};

/* Another voter, as its heartbeats and its link tell. */
struct other_voter {
    uint64_t number;    /* of its last heartbeat; 0: none since it or this process started */
    int64_t heard_ns;   /* when it came, or this process started; INT64_MIN: the link broke */
    int64_t excused_ns; /* until then it counts as heard: this voter has not read yet */
    int64_t first_ns;   /* when the first heartbeat of its process came */
    int64_t echoed_ns;  /* when the newest own heartbeat that it echoed was sent; INT64_MIN */
    int64_t good_ns;    /* since when it could coordinate; NEVER: it cannot */
    int64_t settle_ns;  /* for how long it must, before anything is handed back to it */
    int64_t passed_ns;  /* when a queue's request was last passed on to it; INT64_MIN: never */
    struct message_partitions owned;
    bool broken; /* its link is */
    bool votes;
    bool majority;
    bool had_majority; /* a heartbeat of its said so */
    struct lag lag;
};

struct voters {
    struct other_voter others[MESSAGE_VOTERS_MAX]; /* that of this voter is not used */
    uint64_t number;                               /* of the last heartbeat sent */
    int64_t sent_ns[HEARTBEATS_KEPT];              /* by number */
    int64_t next_ns;                               /* when to send the next */
    int64_t last_ns;                               /* when the last was sent */
    int64_t timeout_ns;                            /* how long silence is borne */
    int64_t window_ns; /* when the next window of what is measured begins */
    bool slow_told;
    int64_t slept_ns;
    struct lag round_lag;
    struct voters_round given_up; /* because it took too long: it may end after all */
    int64_t idle_until_ns;
    uint32_t idle_ms; /* how long it will be idle the next time */
    bool resigned;
};

/* ---- voters_detector.c ---- */

void voters_detector_start(struct quorum *quorum);
void voters_detector_tick(struct quorum *quorum);
/* That voter echoed a newer own heartbeat when the newest that it had echoed was so old. */
void voters_detector_echoed(struct quorum *quorum, uint32_t voter, int64_t age_ns);

#endif
