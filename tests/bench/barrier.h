/*
 * The barrier between a bench and its worker processes: one phase number in shared memory.
 *
 * A worker that is ready counts itself as arrived and sleeps on the phase; when all have arrived
 * the bench advances the phase and wakes them. The bench waits for arrivals by looking every half
 * millisecond, which costs nothing while it measures and lets it notice a worker that died.
 */
#ifndef BENCH_BARRIER_H
#define BENCH_BARRIER_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "measure.h"

/* All zero at first, in memory that the workers share. */
struct barrier {
    alignas(64) _Atomic uint32_t phase;
    alignas(64) _Atomic uint32_t arrived;
    alignas(64) _Atomic uint32_t stop; /* for the bench to set, for workers to look at */
};

/* In a worker: reports that it is ready and sleeps until the phase is no longer the given one. The
 * bench sees what the worker wrote before. */
void barrier_arrive_and_wait(struct barrier *barrier, uint32_t phase);

/* Waits until that many have arrived. Returns -1 after complain() if one of the processes ended, on
 * an interrupt, or after a minute. */
int barrier_await(struct barrier *barrier, const pid_t *pids, uint32_t count) MUST_CHECK;

/* Clears the stop flag and lets all workers go on. */
void barrier_open(struct barrier *barrier);

#endif
