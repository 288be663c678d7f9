/*
 * Wakes the sleepers on futex words of the regions.
 *
 * The kernel walks all entries of the word's hash bucket for that, and a client can have a million
 * of them there: by futex_waitv(2) on any word of its region, or, since 256 buckets a processor
 * serve the whole machine, on another word whose hash is the same. Such a call takes 70 ms. Nothing
 * can cut it short, so the loop makes two of them, since what looks like the first may be the
 * processor's being taken away: while a namespace is known to have had them, a thread makes its
 * wakes, in their order. What a wake tells of is in the region before; a sleeper that wakes later,
 * or twice, loses nothing but time.
 *
 * A wake is never left out. One that is still to be made of the same word serves for both, and when
 * WAKE_QUEUE words wait it is made at once.
 *
 * One thread gives. Without wake_start() all are made at once.
 */
#ifndef IO_WAKE_H
#define IO_WAKE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    WAKE_DEAR_MS = 2,     /* of the caller's time and of its processor time */
    WAKE_LATE_MS = 10000, /* so long after a dear one the thread makes them */
    WAKE_QUEUE = 4096,    /* words */
    WAKE_SPACES = 64,     /* namespaces have numbers below */
};

typedef void wake_fn(_Atomic uint32_t *word, int count);

/* Starts the thread, once in a process; it is never waited for. wake: what wakes; NULL: the futex.
 * false: errno says why. */
bool wake_start(wake_fn *wake) __attribute__((warn_unused_result));

/*
 * Wakes at most count sleepers on that word of a namespace's region, now or soon. The word may be
 * unmapped meanwhile. *cost_ns: what it cost, if it was dear and made by this thread (from now on
 * another one makes them), else 0.
 */
void wake_sleepers(uint32_t space, _Atomic uint32_t *word, int count, int64_t *cost_ns);

#endif
