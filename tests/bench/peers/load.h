/*
 * The load: worker processes that take and release locks of a peer. All workers run the same loop
 * and read the same clock, and the harness checks that exclusion held.
 *
 * Workers are forked, connect, open their locks, meet at a barrier and warm up. Then they meet
 * again and measure. A *closed* loop begins the next pair when the last pair is done, so it
 * measures how many pairs are possible. An *open* loop has intended start times at a fixed rate,
 * drawn beforehand. A pair's latency begins at its intended start, so a stall lengthens the latency
 * of every pair that should have started during the stall (no coordinated omission).
 *
 * Each lock protects a plain record in shared memory: the worker that is inside, and a sum that is
 * read and written without atomic operations. If two workers are inside at once, one of them finds
 * the other one in the record, or the sum is too low at the end. Tokens must rise from one
 * exclusive hold of a lock to the next.
 */
#ifndef PEERS_LOAD_H
#define PEERS_LOAD_H

#include "guard.h"
#include "histogram.h"
#include "peer.h"

enum { LOAD_WORKERS_MAX = 32 };

enum load_names {
    LOAD_OWN,   /* each worker has its own lock, which it opens once */
    LOAD_SAME,  /* all workers have the same lock, which each worker opens once */
    LOAD_FRESH, /* each pair opens, acquires, releases and closes a name that was never used */
};

struct load {
    uint32_t workers;
    uint32_t hosts; /* worker i is on host i % hosts */
    enum load_names names;
    uint32_t reader_percent; /* the percentage of pairs that are shared */
    /* a worker that had the lock twice in a row waits until another worker had it */
    bool alternate;
    double rate; /* the pairs per second of all workers together; 0: a closed loop */
    int64_t warm_ns;
    int64_t measure_ns;
    const char *tag; /* a part of the locks' names; differs between any two loads of a run */
};

struct load_result {
    int64_t took_ns;
    uint64_t pairs;
    uint64_t handovers; /* pairs for which the lock's previous holder was another worker */
    uint64_t least;     /* the pairs of the worker with the fewest pairs */
    uint64_t most;
    uint64_t timeouts; /* acquires that timed out */
    /* how often a worker found another one inside, which breaks exclusion */
    uint64_t strangers;
    uint64_t lost_updates;      /* lost updates of the plain sums */
    uint64_t tokens_not_rising; /* exclusive holds whose token was not above the previous one */
    uint64_t holds_lost;        /* holds that release() reported as lost */
    int64_t cpu_ns;             /* processor time of the servers during the measurement */
    struct histogram pair;      /* acquire + release (fresh names: with open and close) */
    struct histogram wait;      /* acquire alone */
    struct histogram handover;  /* from one worker's release to the return of another's acquire */
};

/* Runs the load on a peer that is up. Returns -1 after complain(). All workers have ended when this
 * function returns, even after a failure. */
int load_run(struct peer_run *run, const struct load *load, struct load_result *out) MUST_CHECK;

/* Returns the cost of two readings of the clock, in ns. Every latency contains it. */
double load_clock_cost_ns(void);

/* Returns the time in ns of a pair of a lock that does nothing, in the closed loop of LOAD_OWN: the
 * calls and the check of exclusion. Every pair of that loop contains this time. Returns -1 after
 * complain(). */
double load_loop_cost_ns(void);

#endif
