/*
 * The cases of the comparison, each a function that measures one peer once; the harness calls it
 * for every peer in turn, and that again for every repetition.
 */
#ifndef PEERS_CASES_H
#define PEERS_CASES_H

#include "load.h"
#include "peer.h"
#include "results.h"

struct bench_plan {
    const char *directory; /* on the disk that is measured */
    bool quick;
    uint32_t repetitions;
    int64_t warm_ns;
    int64_t measure_ns; /* of one closed or open loop */
    int64_t lease_ns;   /* of peers with leases */
};

struct bench_case {
    const char *name;  /* one word, for --case and the JSON */
    const char *title; /* the title, as in the tables */
    unsigned needs;    /* features of a peer without which the case means nothing */
    bool own_run;      /* starts and stops the peer itself; else it is up when called */
    /* Returns 0, or -1 after complain(). Then the peer's row says that the case failed, and the
     * peer is started anew for the next case. run is up; if own_run, only its kind and lease_ns are
     * set. */
    int (*measure)(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                   struct results *results);
};

/* Returns how many of `total` rounds of a run this repetition does: at least one. */
uint32_t rounds_of(const struct bench_plan *plan, uint32_t repetition, uint32_t total);

/* Cases 1 to 6 (cases_load.c) and 7 to 11 (cases_fault.c); the last one's name is NULL. */
extern const struct bench_case bench_cases_load[];
extern const struct bench_case bench_cases_fault[];

#endif
