/*
 * The load: worker processes that take and release locks of a peer, all in the same loop, timed by
 * the same clock, with a check that exclusion held.
 *
 * Workers are forked, connect, open their locks, gather at a barrier and warm up; then they gather
 * again and measure. A *closed* loop begins the next pair when the last one is done: it measures
 * how many are possible. An *open* loop has intended start times at a fixed rate, drawn beforehand:
 * a pair's latency counts from its intended start, so a stall counts for every pair that should
 * have started meanwhile (no coordinated omission).
 *
 * Under every lock lies a plain record in shared memory: the worker that is inside, and a sum that
 * is read and written without any atomic operation. Two inside at once show as a stranger in it, or
 * as a lost update at the end. Tokens must rise from one exclusive hold of a lock to the next.
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
    bool alternate;          /* a worker that had it twice in a row waits until another had it */
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
    uint64_t strangers;         /* somebody else was inside; exclusion is broken */
    uint64_t lost_updates;      /* of the plain sums */
    uint64_t tokens_not_rising; /* exclusive holds with a token not above the one before */
    uint64_t holds_lost;        /* release said that it was not held any more */
    int64_t cpu_ns;             /* of the servers, during the measuring */
    struct histogram pair;      /* acquire + release (fresh names: with open and close) */
    struct histogram wait;      /* acquire alone */
    struct histogram handover;  /* from one worker's release to the return of another's acquire */
};

/* Runs it on a peer that is up. -1 after complain(); no worker is left behind either way. */
int load_run(struct peer_run *run, const struct load *load, struct load_result *out) MUST_CHECK;

/* The cost of two readings of the clock, in ns: it is part of every latency. */
double load_clock_cost_ns(void);

/* The time of the closed loop of own locks for a lock that does nothing, in ns a pair: the calls
 * and the check of exclusion. It is part of every such pair. -1 after complain(). */
double load_loop_cost_ns(void);

#endif
