/*
 * Shared by voters.c and voters_detector.c. These two files call each other. The detector computes
 * the suspicion timeout from heartbeats, and voters.c suspects a voter by that timeout. The
 * detector in turn leaves out voters that voters.c suspects. And when the detector finds that a
 * round of this voter is stuck, this voter coordinates nothing for a while, which a heartbeat has
 * to report at once.
 */
#ifndef QUORUM_VOTERS_PRIVATE_H
#define QUORUM_VOTERS_PRIVATE_H

#include "voters.h"

enum { HEARTBEATS_KEPT = 1024 }; /* sent_ns has the times of this many of the newest heartbeats */

/* The longest and the second-longest delay of the present window of measurements [0], and of the
 * window before [1]. */
struct lag {
    int64_t worst_ns[2];
    int64_t second_ns[2];
    /* when the last delay ended; a delay taken for a part of an earlier one does not count */
    int64_t counted_ns;
};

/* Another voter, as its heartbeats and its link show it. */
struct other_voter {
    /* the number of the voter's last heartbeat; 0: none came since this process, or the link,
     * started */
    uint64_t number;
    /* when the voter's last heartbeat came, or this process started; INT64_MIN: the link broke */
    int64_t seen_ns;
    /* until this time the other voter is not suspected, because this voter was late itself */
    int64_t excused_ns;
    int64_t first_ns; /* when the first heartbeat of the other voter's process came */
    /* when this voter sent the newest heartbeat that the other voter echoed; INT64_MIN: none */
    int64_t echoed_ns;
    int64_t good_ns; /* since when the other voter can coordinate; NEVER: it cannot */
    /* how long the other voter must be able to coordinate before it gets its partitions back */
    int64_t settle_ns;
    int64_t passed_ns; /* when a queued request was last passed on to the other voter; INT64_MIN:
                        * never */
    struct message_partitions owned;
    uint32_t leaves; /* the voter that the other voter is about to remove, as an index plus one; 0:
                      * none */
    bool broken;     /* the link to the other voter is broken */
    bool joined;     /* the other voter was added by a change, and has not coordinated yet */
    bool votes;
    bool majority;
    bool had_majority; /* a heartbeat of the other voter's process has reported a majority */
    struct lag lag;
};

struct voters {
    struct other_voter others[MESSAGE_VOTERS_MAX]; /* this voter's own entry is not used */
    uint64_t number;                               /* the number of this voter's last heartbeat */
    /* when each of this voter's newest heartbeats was sent, by number */
    int64_t sent_ns[HEARTBEATS_KEPT];
    int64_t next_ns;    /* when to send the next heartbeat */
    int64_t last_ns;    /* when the last heartbeat was sent */
    int64_t timeout_ns; /* the suspicion timeout */
    int64_t window_ns;  /* when the next window of measurements begins */
    bool slow_logged;
    int64_t slept_ns;
    struct lag round_lag;
    /* the last round that was given up as stuck; a majority may still answer it */
    struct voters_round given_up;
    int64_t idle_until_ns;
    uint32_t idle_ms; /* how long this voter coordinates nothing, next time a round is stuck */
    bool resigned;
};

/* ---- voters_detector.c ---- */

void voters_detector_start(struct quorum *quorum);
void voters_detector_tick(struct quorum *quorum);
/* Call it for each heartbeat of the voter. If the voter echoes a newer heartbeat of this voter,
 * age_ns is the age of the heartbeat that it had echoed before; otherwise 0. */
void voters_detector_echoed(struct quorum *quorum, uint32_t voter, int64_t age_ns);

#endif
