/*
 * The cases of the comparison. Each is a function that measures one peer once. In each repetition
 * the harness calls it once for every peer.
 */
#ifndef PEERS_CASES_H
#define PEERS_CASES_H

#include "load.h"
#include "peer.h"
#include "results.h"

struct bench_plan {
    const char *directory; /* a directory on the disk that is measured */
    bool quick;
    uint32_t repetitions;
    int64_t warm_ns;
    int64_t measure_ns; /* the length of one closed or open loop */
    int64_t lease_ns;   /* the lease of peers that have leases */
};

struct bench_case {
    const char *name;  /* one word, for --case and the JSON */
    const char *title; /* the title in the tables */
    unsigned needs;    /* the features that a peer needs for this case */
    /* true: measure() starts and stops the peer; false: the harness has started it */
    bool own_run;
    /* Returns 0, or -1 after complain(). After -1 the peer's row reports a failed case, and the
     * harness starts the peer anew for the next case. If own_run is set, only kind and lease_ns of
     * `run` are set; else the peer of `run` is up. */
    int (*measure)(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                   struct results *results);
};

/* Returns how many of `total` rounds this repetition does: at least one. The repetitions share the
 * rounds. */
uint32_t rounds_of(const struct bench_plan *plan, uint32_t repetition, uint32_t total);

/* Cases 1 to 6 (cases_load.c) and 7 to 11 (cases_fault.c). Each list ends with an entry whose name
 * is NULL. */
extern const struct bench_case bench_cases_load[];
extern const struct bench_case bench_cases_fault[];

#endif
