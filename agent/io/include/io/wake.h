/*
 * Wakes the sleepers on futex words of the regions.
 *
 * For a wake the kernel walks all entries of the word's hash bucket. A client can put a million
 * entries there, and then a wake takes 70 ms. It does so with futex_waitv(2) on a word of its
 * region, or on any other word with the same hash: the whole machine has 256 buckets for each
 * processor. Nothing can interrupt the walk. So after two costly wakes of a namespace, a separate
 * thread makes the namespace's wakes for a while, in their order. (One costly wake proves nothing,
 * since the agent may have lost the processor during it.) The agent writes to the region before it
 * makes a wake, so a sleeper that wakes later, or twice, loses nothing but time.
 *
 * No wake is left out. If a wake of the same word still waits, that one serves for both. If
 * WAKE_QUEUE words wait, the wake is made at once, as are all wakes without wake_start().
 */
#ifndef IO_WAKE_H
#define IO_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    WAKE_DEAR_MS = 2,     /* a wake that takes longer, in wall time and in processor time, is
                           * costly */
    WAKE_LATE_MS = 10000, /* for how long the thread makes the wakes after a costly one */
    WAKE_QUEUE = 4096,    /* words */
    WAKE_SPACES = 64,     /* the numbers of namespaces are below this */
};

typedef void wake_fn(_Atomic uint32_t *word, int count);

/* Starts the thread, once in a process. No call waits for the thread's end. `wake` is called for
 * each wake; NULL: the futex call is used. On failure returns false with errno. */
bool wake_start(wake_fn *wake) __attribute__((warn_unused_result));

/*
 * Wakes at most count sleepers on that word of a namespace's region, now or soon. The word may be
 * unmapped meanwhile. If this thread made the wake and it was costly, sets *cost_ns to its cost
 * (the other thread makes the next wakes); otherwise to 0.
 */
void wake_sleepers(uint32_t space, _Atomic uint32_t *word, int count, int64_t *cost_ns);

#endif
