/*
 * Several processes that fight for one lock, in two jobs that alternate: Holdfast and what it is
 * compared with.
 *
 * The processes are forked once and do both jobs, in short rounds. Before each round they gather
 * at a shared barrier and start together; they count their operations until a shared flag ends the
 * round. Nothing pins them to a processor: the scheduler does as it would for anybody.
 */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include <stdatomic.h>

#include "measure.h"

enum { CREW_MAX = 16 };

/* Set by the bench when a round is over; a worker looks at it before every operation. */
typedef _Atomic uint32_t crew_stop;

struct crew_job {
    /* Called in each worker once, before the first round. *state is the worker's own. Returns -1
     * after complain(). */
    int (*setup)(const void *arg, uint32_t worker, void **state);
    /* Called in each worker in each round: works until *stop is not 0. Returns the count of
     * operations, or -1 after complain(). */
    int64_t (*work)(void *state, crew_stop *stop);
    const void *arg;    /* passed to setup; it is from before the fork */
    struct series *out; /* gets operations a second of all workers together, one value a round */
    /* Called in the bench's process after each round of this job, while the workers are idle. May
     * be NULL. */
    void (*round_done)(void *round_arg);
    void *round_arg;
};

/* Returns a page-aligned piece of zeroed memory that children of fork share, or NULL after
 * complain(). */
void *crew_memory(size_t size);
void crew_memory_free(void *memory, size_t size);

/* Runs both jobs. Returns -1 after complain(). In either case no worker is left behind. */
int crew_run(uint32_t worker_count, const struct crew_job jobs[2], struct effort effort) MUST_CHECK;

#endif
