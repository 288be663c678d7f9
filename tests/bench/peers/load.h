/*
 * The load: worker processes that take and release locks of a peer, all in the same loop, timed by
 * the same clock, with a check that exclusion held.
 *
 * Workers are forked, connect, open their locks, gather at a barrier and warm up; then they gather
 * again and measure. A *closed* loop begins the next pair when the last pair is done, and so
 * measures how many pairs are possible. An *open* loop has intended start times at a fixed rate,
 * drawn beforehand: a pair's latency counts from its intended start, so a stall counts for every
 * pair that should have started meanwhile (no coordinated omission).
 *
 * Under every lock lies a plain record in shared memory: the worker that is inside, and a sum that
 * is read and written without any atomic operation. If two workers are inside at once, the record
 * shows another worker inside, or a lost update at the end. Tokens must rise from one exclusive
 * hold of a lock to the next.
 */
#ifndef PEERS_LOAD_H
#define PEERS_LOAD_H

#include "guard.h"
#include "histogram.h"
#include "peer.h"

enum { LOAD_WORKERS_MAX = 32 };

enum load_names {
    LOAD_OWN,   /* each worker has a lock of its own, opened once */
    LOAD_SAME,  /* all have one lock, opened once */
    LOAD_FRESH, /* open, acquire, release, close of a name never used before */
};

struct load {
    uint32_t workers;
    uint32_t hosts; /* worker i is on host i % hosts */
    enum load_names names;
    uint32_t reader_percent; /* of the pairs are shared */
    bool alternate;          /* a worker that had it twice in a row waits for another */
    double rate;             /* pairs a second of all workers together; 0: a closed loop */
    int64_t warm_ns;
    int64_t measure_ns;
    const char *tag; /* goes into the names; differs between any two loads of a run */
};

struct load_result {
    int64_t took_ns;
    uint64_t pairs;
    uint64_t handovers; /* pairs whose predecessor in the lock was another worker */
    uint64_t least;     /* pairs of the worker that had fewest, and most */
    uint64_t most;
    uint64_t timeouts;          /* acquires given up */
    uint64_t strangers;         /* how often another worker was inside: exclusion is broken */
    uint64_t lost_updates;      /* updates of the plain sums that were lost */
    uint64_t tokens_not_rising; /* exclusive holds whose token was not above the previous one */
    uint64_t holds_lost;        /* holds that release() reported as lost */
    int64_t cpu_ns;             /* processor time of the servers during the measurement */
    struct histogram pair;      /* acquire + release (fresh names: with open and close) */
    struct histogram wait;      /* acquire alone */
    struct histogram handover;  /* from one worker's release to the return of another's acquire */
};

/* Runs the load on a peer that is up. Returns -1 after complain(). In either case no worker is left
 * behind. */
int load_run(struct peer_run *run, const struct load *load, struct load_result *out) MUST_CHECK;

/* Returns the cost of two readings of the clock, in ns. Every latency contains it. */
double load_clock_cost_ns(void);

/* Returns the time that one pair of the closed loop of own locks takes with a lock that does
 * nothing, in ns: the calls and the check of exclusion. Every such pair contains it. Returns -1
 * after complain(). */
double load_loop_cost_ns(void);

#endif
