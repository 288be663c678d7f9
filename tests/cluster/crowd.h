/*
 * Workers on every host of a cell: processes that take a few locks again and again, wait for them
 * without a limit or with one, read, write, and record what they do (history.h). Faults happen
 * meanwhile. Then all faults are healed, each worker takes every lock once more, and the record is
 * checked. By true time no two holds excluded each other (the machine has one clock, and a hold
 * lasts until the deadline that its worker knew), tokens rose, lock-delays were waited out, and no
 * worker still waits.
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
    unsigned shared_percent; /* percent of the holds that are shared */
    unsigned lock_delay_ms;
    unsigned hold_ms; /* most holds last at most so long */
    unsigned long_ms; /* some holds last so long, so that faults meet holders */
    uint64_t seed;
    struct faults *faults;    /* the faults of each host for its workers; NULL: none */
    const char *history_path; /* a new file for the record; NULL: memory */
    unsigned guard_ms;        /* how long a worker may wait when all is well; 0: GUARD_MS */
    bool starved;             /* agents may lack memory or descriptors, so a refused call is tried
                               * again */
};

/* The result of the check. */
struct crowd_result {
    uint64_t holds;
    uint64_t lost;
    uint64_t gave_up;
    int64_t longest_wait_ns;
};

struct crowd_worker {
    pid_t pid;
    unsigned host;
    uint64_t holds_seen; /* for crowd_tell_waiting(): holds seen, and since when */
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
    struct crowd_result result; /* set by crowd_finish() */
};

/* Starts the workers, and waits until each has held a lock. */
void crowd_start(struct crowd *crowd, struct cell *cell, const struct crowd_plan *plan);

/* The name of one of the workers' locks. Static buffer. */
const char *crowd_lock(unsigned lock);

/* Kills a worker (SIGKILL), with whatever it holds, and starts another in its place. */
void crowd_replace(struct crowd *crowd, unsigned worker);

/* Waits until a host's workers together have had so many more holds. */
void crowd_await_progress(struct crowd *crowd, unsigned host, uint64_t holds);
/* Do what crowd_await_progress() does, for every host of the cell in turn, or for every host but
 * one. */
void crowd_await_all(struct crowd *crowd, uint64_t holds);
void crowd_await_others(struct crowd *crowd, unsigned but, uint64_t holds);
/* The number of holds that a host's workers have had. */
uint64_t crowd_holds(const struct crowd *crowd, unsigned host);

/* Prints on stderr, once each, the workers that have had no lock for so long, and each such worker
 * that gets one again. So a reader sees later which wait was long, and when. To be called from time
 * to time. */
void crowd_tell_waiting(struct crowd *crowd, int64_t longer_than_ns);

/* Checks that no worker has ended by itself, as one that crashed has. */
void crowd_look(struct crowd *crowd);

/* Lets each worker take every lock once more and end, checks the record, and prints one line about
 * the run. All faults must be healed. */
void crowd_finish(struct crowd *crowd, const char *what);

/* A random number below `below`, from *state (not 0). */
uint64_t crowd_draw(uint64_t *state, uint64_t below);

#endif
