/*
 * The barrier between a bench and its worker processes: one phase number in shared memory.
 *
 * A worker that is ready counts itself as arrived and sleeps until the phase changes. When all
 * workers have arrived, the bench advances the phase and wakes them. The bench waits for arrivals
 * by looking every half millisecond: this costs nothing while it measures, and lets it notice a
 * worker that died.
 */
#ifndef BENCH_BARRIER_H
#define BENCH_BARRIER_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "measure.h"

/* The barrier lies in memory that all workers share. At the start all its bytes are zero. */
struct barrier {
    alignas(64) _Atomic uint32_t phase;
    alignas(64) _Atomic uint32_t arrived;
    alignas(64) _Atomic uint32_t stop; /* set by the bench, read by the workers */
};

/* In a worker: reports that the worker is ready, and sleeps until the barrier's phase differs from
 * the given one. The bench then sees all that the worker wrote before this call. */
void barrier_arrive_and_wait(struct barrier *barrier, uint32_t phase);

/* Waits until `count` workers have arrived. Returns -1 after complain() if one of the processes
 * ended, if the bench was interrupted, or after a minute. */
int barrier_await(struct barrier *barrier, const pid_t *pids, uint32_t count) MUST_CHECK;

/* Clears the stop flag and lets all workers go on. */
void barrier_open(struct barrier *barrier);

#endif
