/*
 * Wakes the sleepers on futex words of the regions.
 *
 * For a wake the kernel walks all entries of the word's hash bucket, and a client can put a million
 * entries there, which makes a wake 70 ms long. It does so by futex_waitv(2) on a word of its
 * region, or on any other word with the same hash: the whole machine has 256 buckets for each
 * processor. Nothing can interrupt the walk. So after two costly wakes of a namespace, a thread
 * makes the namespace's wakes for a while, in their order. (One costly wake proves nothing: the
 * processor may have been taken away.) The region has been written before a wake, so a sleeper that
 * wakes later, or twice, loses nothing but time.
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
    WAKE_DEAR_MS = 2,     /* a longer wake is costly: of the caller's time and processor time */
    WAKE_LATE_MS = 10000, /* for so long after a costly wake the thread makes the wakes */
    WAKE_QUEUE = 4096,    /* words */
    WAKE_SPACES = 64,     /* namespaces have numbers below */
};

typedef void wake_fn(_Atomic uint32_t *word, int count);

/* Starts the thread, once in a process. No call waits for the thread's end. `wake` makes a wake;
 * NULL: the futex call does. On failure returns false with errno. */
bool wake_start(wake_fn *wake) __attribute__((warn_unused_result));

/*
 * Wakes at most count sleepers on that word of a namespace's region, now or soon. The word may be
 * unmapped meanwhile. Sets *cost_ns to what the wake cost, if it was costly and this thread made it
 * (the other thread makes the next ones); else to 0.
 */
void wake_sleepers(uint32_t space, _Atomic uint32_t *word, int count, int64_t *cost_ns);

#endif
