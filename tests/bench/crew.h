/*
 * Several processes that compete for one lock, in two jobs that alternate: Holdfast and the lock
 * that it is compared with.
 *
 * The bench forks the processes once, and each process does both jobs in short rounds. Before each
 * round the processes meet at a barrier and start together. They count their operations until a
 * shared flag ends the round. No process is pinned to a processor: the scheduler places them as it
 * places any program.
 */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include <stdatomic.h>

#include "measure.h"

enum { CREW_MAX = 16 };

/* A flag. The bench sets the flag when a round is over. A worker reads the flag before every
 * operation. */
typedef _Atomic uint32_t crew_stop;

struct crew_job {
    /* Each worker calls setup() once, before its first round. *state is for that worker alone.
     * Returns -1 after complain(). */
    int (*setup)(const void *arg, uint32_t worker, void **state);
    /* Each worker calls work() in each round. The function works until *stop is not 0. Returns the
     * count of operations, or -1 after complain(). */
    int64_t (*work)(void *state, crew_stop *stop);
    const void *arg; /* passed to setup(); set before the fork */
    /* gets one value a round: the operations per second of all workers together */
    struct series *out;
    /* The bench's own process calls round_done() after each round of this job, while the workers
     * are idle. May be NULL. */
    void (*round_done)(void *round_arg);
    void *round_arg;
};

/* Returns zeroed, page-aligned memory that the bench shares with the processes it forks. Returns
 * NULL after complain(). */
void *crew_memory(size_t size);
void crew_memory_free(void *memory, size_t size);

/* Runs both jobs. Returns -1 after complain(). All workers have ended when this function returns,
 * even after a failure. */
int crew_run(uint32_t worker_count, const struct crew_job jobs[2], struct effort effort) MUST_CHECK;

#endif
