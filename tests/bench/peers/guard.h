/*
 * The plain record that a lock protects. It shows when two workers are inside at once. Only the
 * count of readers is atomic; the lock has to protect the other fields. The record lies in memory
 * that the workers share.
 *
 * The functions are inline, so that a loop of some ten nanoseconds makes no calls for them.
 */
#ifndef PEERS_GUARD_H
#define PEERS_GUARD_H

#include <stdatomic.h>

#include "peer.h"

struct guard {
    volatile uint64_t inside; /* the exclusive holder's worker number, plus 1; 0: nobody */
    volatile uint64_t sum;    /* exclusive holds so far */
    volatile uint64_t token;  /* the highest token so far */
    volatile uint64_t last;   /* the last exclusive holder's worker number, plus 1 */
    volatile int64_t left_ns; /* when the last exclusive holder began to release */
    _Atomic uint32_t readers; /* shared holders inside */
};

struct guard_findings {
    uint64_t strangers;
    uint64_t tokens_not_rising;
    uint64_t handovers;
};

/* A worker calls guard_enter_shared() or guard_enter() directly after acquire(), and guard_leave()
 * directly before release(). A token of 0 is not checked. */
static inline void guard_enter_shared(struct guard *guard, struct guard_findings *findings)
{
    /* acq_rel: pairs with the loads in guard_enter and guard_leave; the count only serves the
     * check */
    atomic_fetch_add_explicit(&guard->readers, 1, memory_order_acq_rel);
    findings->strangers += guard->inside != 0 ? 1 : 0;
}

static inline void guard_enter(struct guard *guard, uint32_t worker, enum peer_mode mode,
                               uint64_t token, struct guard_findings *findings)
{
    if (mode == PEER_SHARED) {
        guard_enter_shared(guard, findings);
        return;
    }
    /* acquire: pairs with the additions and subtractions of the readers */
    if (guard->inside != 0 || atomic_load_explicit(&guard->readers, memory_order_acquire) != 0) {
        findings->strangers++;
    }
    guard->inside = worker + 1;
    guard->sum = guard->sum + 1;
    findings->handovers += guard->last != 0 && guard->last != worker + 1 ? 1 : 0;
    guard->last = worker + 1;
    if (token != 0) {
        findings->tokens_not_rising += token <= guard->token ? 1 : 0;
        guard->token = token;
    }
}

static inline void guard_leave(struct guard *guard, uint32_t worker, enum peer_mode mode,
                               struct guard_findings *findings)
{
    if (mode == PEER_SHARED) {
        findings->strangers += guard->inside != 0 ? 1 : 0;
        /* acq_rel: as in guard_enter_shared */
        atomic_fetch_sub_explicit(&guard->readers, 1, memory_order_acq_rel);
        return;
    }
    /* acquire: pairs with the additions and subtractions of the readers */
    if (guard->inside != worker + 1 ||
        atomic_load_explicit(&guard->readers, memory_order_acquire) != 0) {
        findings->strangers++;
    }
    guard->inside = 0;
}

#endif
