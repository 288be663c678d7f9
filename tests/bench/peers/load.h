/*
 * The load: worker processes that take and release locks of a peer, all in the same loop, timed by
 * the same clock, with a check that exclusion held.
 *
 * Workers are forked, connect, open their locks, gather at a barrier and warm up; then they gather
 * again and measure. A *closed* loop begins the next pair when the last one is done: it measures
 * how many are possible. An *open* loop has intended start times at a fixed rate, drawn beforehand:
 * a pair's latency counts from its intended start, so a stall is seen by everyone who should have
 * started meanwhile (no coordinated omission).
 *
 * Under every lock lies a plain record in shared memory: who is inside, and a sum that is read and
 * written without any atomic operation. Two inside at once show as a stranger in it, or as a lost
 * update at the end. Tokens must rise from one exclusive hold of a lock to the next.
 */
#ifndef PEERS_LOAD_H
#define PEERS_LOAD_H

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
    bool alternate;          /* who had it twice in a row waits until another had it */
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

/* What two readings of the clock cost, in ns: it is part of every latency. */
double load_clock_cost_ns(void);

/* The plain record under a lock, for cases with loops of their own. It lies in shared memory. */
struct guard {
    volatile uint64_t inside; /* worker + 1 of the exclusive holder; 0: nobody */
    volatile uint64_t sum;    /* exclusive holds so far */
    volatile uint64_t token;  /* the highest one so far */
    volatile uint64_t last;   /* worker + 1 of the last exclusive holder */
    volatile int64_t left_ns; /* when it began to release */
    _Atomic uint32_t readers; /* shared holders inside */
};

struct guard_findings {
    uint64_t strangers;
    uint64_t tokens_not_rising;
    uint64_t handovers;
};

/* Directly after acquire() and directly before release(). token 0 is not looked at. */
void guard_enter(struct guard *guard, uint32_t worker, enum peer_mode mode, uint64_t token,
                 struct guard_findings *findings);
void guard_leave(struct guard *guard, uint32_t worker, enum peer_mode mode,
                 struct guard_findings *findings);

#endif
