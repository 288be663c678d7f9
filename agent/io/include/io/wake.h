/*
 * Wakes the sleepers on futex words of the regions.
 *
 * For a wake the kernel walks all entries of the word's hash bucket. A client can put a million
 * entries into the bucket, and a wake then takes 70 ms. The client does so with futex_waitv(2) on a
 * word of its region, or on any other word with the same hash: the whole machine has 256 buckets
 * for each processor. Nothing can interrupt the walk. So after two costly wakes of a namespace, a
 * separate thread makes the namespace's wakes for a while, in their order. (One costly wake proves
 * nothing, because the agent may have lost the processor during it.) The agent writes to the region
 * before it makes a wake, so a sleeper that wakes later, or twice, loses nothing but time.
 *
 * No wake is left out. If a wake of the same word is still queued, one wake is made for both. If
 * WAKE_QUEUE words wait already, or wake_start() was not called, the caller's thread makes the wake
 * at once.
 */
#ifndef IO_WAKE_H
#define IO_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    WAKE_DEAR_MS = 2,     /* a wake that takes longer, in wall time and in processor time, is
                           * costly */
    WAKE_LATE_MS = 10000, /* for this long after a costly wake, the separate thread makes all wakes
                           * of the namespace */
    WAKE_QUEUE = 4096,    /* how many words may wait */
    WAKE_SPACES = 64,     /* the numbers of namespaces are below this */
};

typedef void wake_fn(_Atomic uint32_t *word, int count);

/* Starts the thread. May be called once in a process. No call waits for the thread's end. `wake` is
 * called for each wake; NULL: the futex call is used. On failure returns false with errno. */
bool wake_start(wake_fn *wake) __attribute__((warn_unused_result));

/*
 * Wakes at most count sleepers on that word of a namespace's region, now or soon. The word may be
 * unmapped meanwhile. If the calling thread itself made the wake and it was costly, sets *cost_ns
 * to its cost, and the separate thread makes the next wakes. Otherwise sets *cost_ns to 0.
 */
void wake_sleepers(uint32_t space, _Atomic uint32_t *word, int count, int64_t *cost_ns);

#endif
