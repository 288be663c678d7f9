/*
 * Workers on every host of a cell: processes that take a few locks again and again, wait for them
 * without a limit or with one, read, write, and record what they do (history.h). Faults happen
 * meanwhile; then everything is healed, everybody takes every lock once more, and the record is
 * checked: nobody held together by true time (one machine has one clock, and a hold lasts until the
 * deadline that its worker knew), tokens rose, lock-delays were waited out, nobody waits any more.
 */
#ifndef TESTS_CLUSTER_CROWD_H
#define TESTS_CLUSTER_CROWD_H

#include "cell.h"
#include "faults.h"
#include "history.h"

enum { CROWD_WORKERS_MAX = 40, CROWD_LOCKS_MAX = 24 };

struct crowd_plan {
    unsigned workers_per_host;
    unsigned locks;
    unsigned shared_percent; /* how many of a hundred holds are shared */
    unsigned lock_delay_ms;
    unsigned hold_ms; /* how long most holds last at most */
    unsigned long_ms; /* and some, so that faults meet holders */
    uint64_t seed;
    struct faults *faults;    /* the host's faults for a worker; NULL: none */
    const char *history_path; /* a new file for the record; NULL: none */
    unsigned guard_ms;        /* how long anybody may wait when all is well; 0: GUARD_MS */
    bool starved;             /* agents may lack memory or descriptors: refusals are tried again */
};

/* The outcome of the record's check. */
struct crowd_result {
    uint64_t holds;
    uint64_t lost;
    uint64_t gave_up;
    int64_t longest_wait_ns;
};

struct crowd_worker {
    pid_t pid;
    unsigned host;
    uint64_t holds_seen; /* by crowd_tell_waiting(), and since when there have been so many */
    int64_t seen_ns;
    bool told;
};

struct crowd {
    struct cell *cell;
    struct crowd_plan plan;
    struct crowd_shared *shared;
    struct history *history;
    unsigned count;
    struct crowd_worker workers[CROWD_WORKERS_MAX];
    uint64_t seed;              /* of the next worker */
    struct crowd_result result; /* after crowd_finish() */
};

/* Starts them and waits until each has had a lock. */
void crowd_start(struct crowd *crowd, struct cell *cell, const struct crowd_plan *plan);

/* The name of a lock of theirs. Static buffer. */
const char *crowd_lock(unsigned lock);

/* kill -9 of one of them, with whatever it holds, and a new one in its place. */
void crowd_replace(struct crowd *crowd, unsigned worker);

/* Waits until a host's workers have had so many holds more (all together). */
void crowd_await_progress(struct crowd *crowd, unsigned host, uint64_t holds);
/* The same for one host after the other, all of the cell's, or all but one. */
void crowd_await_all(struct crowd *crowd, uint64_t holds);
void crowd_await_others(struct crowd *crowd, unsigned but, uint64_t holds);
/* How many they had. */
uint64_t crowd_holds(const struct crowd *crowd, unsigned host);

/* Names on stderr, once each, the workers that have had no lock for so long, and each that gets one
 * again, so that one can see afterwards which wait was the long one, and when. Called now and
 * then. */
void crowd_tell_waiting(struct crowd *crowd, int64_t longer_than_ns);

/* That no worker has ended by itself, as one that crashed has. */
void crowd_look(struct crowd *crowd);

/* Each takes every lock once more and ends; then the record is checked. Everything must be healed.
 * Prints one line about what happened. */
void crowd_finish(struct crowd *crowd, const char *what);

/* A number below `below`, from *state (not 0). */
uint64_t crowd_draw(uint64_t *state, uint64_t below);

#endif
