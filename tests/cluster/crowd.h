/*
 * Workers on every host of a cell: processes that take a few locks again and again, wait for them
 * with or without a limit, read, write, and record what they do (history.h). The test makes faults
 * at the same time. At the end all faults are healed, each worker takes every lock once more, and
 * the record is checked. It must show that by true time no two holds that exclude each other
 * overlapped, that tokens rose, that each lock-delay was over before the next hold, and that no
 * worker still waits. True time is the machine's one clock, and a hold lasts until the deadline
 * that its worker knew.
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
    unsigned shared_percent; /* the percentage of holds that are shared */
    unsigned lock_delay_ms;
    unsigned hold_ms; /* most holds last at most this long */
    unsigned long_ms; /* a few holds last up to this long, so that faults meet holders */
    uint64_t seed;
    struct faults *faults;    /* the file with each host's faults, for its workers; NULL: no
                               * faults */
    const char *history_path; /* a new file for the record; NULL: memory */
    unsigned guard_ms;        /* how long a worker may wait when no fault is left; 0: GUARD_MS */
    bool starved;             /* agents may lack memory or descriptors, so a worker repeats a
                               * refused call */
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
    uint64_t holds_seen; /* the worker's holds at the last call of crowd_tell_waiting() */
    /* when crowd_tell_waiting() first saw that the worker had holds_seen holds */
    int64_t seen_ns;
    bool told; /* crowd_tell_waiting() has printed the worker's present wait */
};

struct crowd {
    struct cell *cell;
    struct crowd_plan plan;
    struct crowd_shared *shared;
    struct history *history;
    unsigned count;
    struct crowd_worker workers[CROWD_WORKERS_MAX];
    uint64_t seed;              /* the seed of the next worker */
    struct crowd_result result; /* set by crowd_finish() */
};

/* Starts the workers, and waits until each has held a lock. */
void crowd_start(struct crowd *crowd, struct cell *cell, const struct crowd_plan *plan);

/* Returns the name of one of the workers' locks, in a static buffer. */
const char *crowd_lock(unsigned lock);

/* Kills a worker (SIGKILL), and starts another in its place. The worker may hold locks. */
void crowd_replace(struct crowd *crowd, unsigned worker);

/* Waits until the workers of a host have had `holds` more holds together. */
void crowd_await_progress(struct crowd *crowd, unsigned host, uint64_t holds);
/* The same as crowd_await_progress(), for every host of the cell in turn, or for every host except
 * `but`. */
void crowd_await_all(struct crowd *crowd, uint64_t holds);
void crowd_await_others(struct crowd *crowd, unsigned but, uint64_t holds);
/* Returns the number of holds that a host's workers have had. */
uint64_t crowd_holds(const struct crowd *crowd, unsigned host);

/* Prints on stderr each worker that has had no lock for longer_than_ns, once, and prints it again
 * when it gets a lock. So a reader can see later which wait was long, and when. A test calls this
 * from time to time. */
void crowd_tell_waiting(struct crowd *crowd, int64_t longer_than_ns);

/* Checks that no worker has ended before crowd_finish() asks it to, for example by a crash. */
void crowd_look(struct crowd *crowd);

/* Lets each worker take every lock once more and end, checks the record, and prints one line about
 * the run. All faults must be healed before the call. */
void crowd_finish(struct crowd *crowd, const char *what);

/* Returns a random number below `below`, and advances *state, which must not be 0. */
uint64_t crowd_draw(uint64_t *state, uint64_t below);

#endif
