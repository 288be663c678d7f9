/*
 * The plain record under a lock (load.h). Nothing in it is atomic but the count of readers: the
 * lock is what keeps it whole, and what breaks it shows.
 */
#include "load.h"

#include <stdatomic.h>

static void enter_shared(struct guard *guard, struct guard_findings *findings)
{
    /* acq_rel: pairs with the load in a writer's enter and leave; a count for the check alone */
    atomic_fetch_add_explicit(&guard->readers, 1, memory_order_acq_rel);
    findings->strangers += guard->inside != 0 ? 1 : 0;
}

void guard_enter(struct guard *guard, uint32_t worker, enum peer_mode mode, uint64_t token,
                 struct guard_findings *findings)
{
    if (mode == PEER_SHARED) {
        enter_shared(guard, findings);
        return;
    }
    /* acquire: pairs with the readers' counting */
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

void guard_leave(struct guard *guard, uint32_t worker, enum peer_mode mode,
                 struct guard_findings *findings)
{
    if (mode == PEER_SHARED) {
        findings->strangers += guard->inside != 0 ? 1 : 0;
        /* acq_rel: as in enter_shared */
        atomic_fetch_sub_explicit(&guard->readers, 1, memory_order_acq_rel);
        return;
    }
    /* acquire: pairs with the readers' counting */
    if (guard->inside != worker + 1 ||
        atomic_load_explicit(&guard->readers, memory_order_acquire) != 0) {
        findings->strangers++;
    }
    guard->inside = 0;
}
