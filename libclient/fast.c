/*
 * The fast path of hf_acquire() and hf_release(). It works only if this host has a grant for the
 * lock, nobody else wants the lock, and the thread has a lane of the handle (client.h). The take is
 * one swap of the lock word and one reading of the clock. The release is one swap. In any other
 * case the thread uses the slow path in acquire.c and hold.c.
 *
 * The inline functions of proto/locktake.h do the steps in the region. client.h describes the steps
 * in the handle, and why they need no swap of their own.
 */
#include "client.h"

#include "proto/probe.h"
#define FAST static inline __attribute__((always_inline))
#define COLD __attribute__((noinline, cold))

static int64_t clock_here(void *arg)
{
    (void)arg;
    return boottime_ns();
}

FAST struct lock_lane *lane_here(struct hf_lock *lock)
{
    uintptr_t self = thread_here();
    for (size_t i = 0; i < LOCK_LANES; i++) {
        /* relaxed: the thread compares the value with its own number only */
        if (atomic_load_explicit(&lock->lanes[i].thread, memory_order_relaxed) == self) {
            return &lock->lanes[i];
        }
    }
    return NULL;
}

FAST void lane_clear(struct lock_lane *lane)
{
    /* release: pairs with the acquire in claim_begin(); the thread has published its hold, or
     * undone its take, before this store */
    atomic_store_explicit(&lane->taking, 0, memory_order_release);
}

/*
 * Returns whether the handle's last hold is over, and no other thread is about to publish one. To
 * be called after the swap of the word or the cell: the swap makes visible what the thread that
 * freed the word had stored before it freed the word.
 */
FAST bool lane_alone(struct hf_lock *lock, const struct lock_lane *lane)
{
    /* relaxed: a thread that used a lane before this swap had counted its lane in lanes_used even
     * earlier */
    uint16_t used = atomic_load_explicit(&lock->lanes_used, memory_order_relaxed);
    for (uint16_t i = 0; i < used; i++) {
        /* acquire: pairs with lane_clear(), so that hold_held() sees the hold that the lane's
         * thread published */
        if (&lock->lanes[i] != lane &&
            atomic_load_explicit(&lock->lanes[i].taking, memory_order_acquire) != 0) {
            return false;
        }
    }
    return !hold_held(&lock->hold);
}

/* Undoes a take, because the handle was claimed before the swap, or because the handle's last hold
 * has not ended yet. */
COLD static bool fast_undo(struct lock_lane *lane, struct binding *binding, uint64_t mine)
{
    const struct hfi_actor actor = binding_actor(binding);
    uint64_t taking = mine & (HFI_W_HOLDER | HFI_W_TOKEN);
    /* seq_cst: pairs with the swap in take_ours(). If this swap succeeds, this thread must release
     * the word; if the swap in take_ours() succeeds, the word is the claimant's. */
    if (atomic_compare_exchange_strong(&lane->taking, &taking, taking | LANE_UNDOING)) {
        /* relaxed: the high bits of a slot's tokens do not change */
        uint64_t top = atomic_load_explicit(&binding->region.slots[binding->slot].token_top,
                                            memory_order_relaxed);
        hfi_release(&actor, binding->slot, hfi_token(top, mine));
        lane_clear(lane);
    }
    return false;
}

/* Makes the full checks after a take (hfi_take_check()). They are needed if there are readers'
 * cells or watchers, if the lease is over, or if the word has changed since the swap. */
COLD static bool fast_check(hf_lock *lock, struct lock_lane *lane, struct binding *binding,
                            uint64_t mine, struct hf_hold *out)
{
    const struct hfi_actor actor = binding_actor(binding);
    const struct hfi_request request = {.slot = binding->slot, .seat = binding->seat};
    struct hfi_held held;
    enum hfi_outcome outcome = hfi_take_check(&actor, &request, hfi_aim(&actor, request.slot), mine,
                                              clock_here, &held);
    if (outcome != HFI_HELD) {
        if (outcome == HFI_DRAINING) {
            hfi_release(&actor, request.slot, held.token);
        }
        lane_clear(lane);
        return false;
    }
    if (!lane_alone(lock, lane)) {
        return fast_undo(lane, binding, mine);
    }
    hold_put(&lock->hold, binding, HF_EXCLUSIVE, &held);
    lane_clear(lane);
    hold_report(&held, out);
    return true;
}

/* The fast path passes no struct to a function that is not inline. The compiler would store the
 * struct in memory, and a swap waits for every store before it. */
FAST bool fast_exclusive(hf_lock *lock, struct lock_lane *lane, struct binding *binding,
                         uint64_t claims, struct hf_hold *out)
{
    const struct hfi_aim aim = binding->aim;
    /* acquire: pairs with hfi_grant(), as in hfi_take_look(). The word is read before the cell
     * (rule 4 of lockword.h), then the top bits of the token; the swap checks that the word has not
     * changed. */
    uint64_t seen = atomic_load_explicit(aim.word, memory_order_acquire);
    if (atomic_load(binding->wait) != 0) {
        return false;
    }
    uint64_t top = atomic_load_explicit(&aim.slot->token_top, memory_order_relaxed);
    if (!hfi_take_clear(seen, top)) {
        return false;
    }
    uint64_t mine = seen + 1 + ((uint64_t)binding->holder << HFI_W_HOLDER_SHIFT);
    /* relaxed: published by the swap */
    atomic_store_explicit(&lane->taking, mine & (HFI_W_HOLDER | HFI_W_TOKEN), memory_order_relaxed);
    /* seq_cst (at least acquire: pairs with the release of the last holder's swap) */
    if (!atomic_compare_exchange_strong(aim.word, &seen, mine)) {
        lane_clear(lane);
        return false;
    }
    /* seq_cst: this load follows the swap; pairs with claim_begin() */
    if (__builtin_expect(atomic_load(&lock->claims) != claims, 0)) {
        return fast_undo(lane, binding, mine);
    }
    uint64_t lease;
    if (__builtin_expect(!hfi_take_plain(aim, mine, clock_here, &lease), 0)) {
        return fast_check(lock, lane, binding, mine, out);
    }
    if (__builtin_expect(!lane_alone(lock, lane), 0)) {
        return fast_undo(lane, binding, mine);
    }
    const struct hfi_held held = {.token = hfi_token(top, mine),
                                  .epoch = hfi_lease_epoch(lease),
                                  .deadline_ns = hfi_lease_deadline_ns(lease)};
    hold_put(&lock->hold, binding, HF_EXCLUSIVE, &held);
    lane_clear(lane);
    hold_report(&held, out);
    return true;
}

FAST bool fast_shared(hf_lock *lock, struct lock_lane *lane, struct binding *binding,
                      uint64_t claims, struct hf_hold *out)
{
    const struct hfi_actor actor = binding_actor(binding);
    const struct hfi_request request = {.slot = binding->slot, .seat = binding->seat};
    struct hfi_held held = {0};
    if (!binding->shared_ready) {
        return false;
    }
    /* relaxed: published by the swap of the cell */
    atomic_store_explicit(&lane->taking, LANE_SHARED, memory_order_relaxed);
    bool taken = hfi_take_shared(&actor, &request, 0, clock_here, &held) == HFI_HELD;
    /* seq_cst: this load follows the swap; pairs with claim_begin() */
    bool claimed = atomic_load(&lock->claims) != claims;
    if (__builtin_expect(taken && !claimed && lane_alone(lock, lane), 1)) {
        hold_put(&lock->hold, binding, HF_SHARED, &held);
        lane_clear(lane);
        hold_report(&held, out);
        return true;
    }
    if (taken) {
        hfi_release_shared(&actor, request.slot, request.seat, held.cell);
    }
    lane_clear(lane);
    if (claimed) {
        binding_nudge(binding); /* the claimant may sleep because it has seen the cell of this
                                 * take */
    }
    return false;
}

/* Returns the error of an acquire whose arguments are wrong. */
COLD static int acquire_refuse(const hf_lock *lock, enum hf_mode mode)
{
    if (lock == NULL) {
        return failure_null(NULL, "lock");
    }
    if (!alive_here(lock->alive)) {
        return failure_forked(lock->client);
    }
    return failure_mode(lock, mode);
}

HFI_PUBLIC int hf_acquire(hf_lock *lock, enum hf_mode mode, int64_t timeout_ns, struct hf_hold *out)
{
    if (lock == NULL || (mode != HF_EXCLUSIVE && mode != HF_SHARED) || !alive_here(lock->alive)) {
        return acquire_refuse(lock, mode);
    }
    struct lock_lane *lane = lane_here(lock);
    /* acquire: pairs with the release in claim_end(), so that this thread sees what the previous
     * claimant did */
    uint64_t claims = atomic_load_explicit(&lock->claims, memory_order_acquire);
    if (lane != NULL && (claims & 1) == 0 && !hold_held(&lock->hold)) {
        /* relaxed: only compared; the load of claims has made the binding's contents visible */
        struct binding *binding = atomic_load_explicit(&lock->fast_binding, memory_order_relaxed);
        if (binding != NULL &&
            binding == atomic_load_explicit(&lock->binding, memory_order_relaxed) &&
            (mode == HF_EXCLUSIVE ? fast_exclusive(lock, lane, binding, claims, out)
                                  : fast_shared(lock, lane, binding, claims, out))) {
            HF_PROBE2(acquire_fast, lock->name, mode);
            return 0;
        }
    }
    return acquire_slow(lock, mode, timeout_ns, out);
}

/* Frees a word that other handles want, or that the agent may have taken away. */
COLD static bool fast_free_slowly(struct binding *binding, uint64_t token)
{
    const struct hfi_actor actor = binding_actor(binding);
    return hfi_release_slowly(&actor, binding->slot, token) == HFI_RELEASED;
}

COLD static void fast_reader_left(struct binding *binding, uint64_t word)
{
    const struct hfi_actor actor = binding_actor(binding);
    hfi_reader_left(&actor, binding->slot, word);
}

/* Frees the word or the cell of a hold. */
FAST bool fast_free(const struct hold_view *view)
{
    struct binding *binding = view->binding;
    if (view->mode == HF_EXCLUSIVE) {
        return hfi_free(binding->aim.word, binding->holder, view->held.token) ||
               fast_free_slowly(binding, view->held.token);
    }
    if (!hfi_clear_cell(hfi_seat(&binding->region, binding->seat), view->held.cell)) {
        return false;
    }
    /* seq_cst: this load follows the change of the cell, as in hfi_free_shared() */
    uint64_t word = atomic_load(binding->aim.word);
    if (word & (HFI_W_HOLDER | HFI_W_RECALL | HFI_W_WATCHED)) {
        fast_reader_left(binding, word);
    }
    return true;
}

HFI_PUBLIC int hf_release(hf_lock *lock)
{
    struct hold_view view;
    if (lock == NULL) {
        return failure_null(NULL, "lock");
    }
    if (!alive_here(lock->alive)) {
        return failure_forked(lock->client);
    }
    struct lock_lane *lane = lane_here(lock);
    if (lane == NULL || !hold_read(lock, &view) || hold_marked_lost(lock, view.number)) {
        return release_slow(lock, 0);
    }
    /* acquire: pairs with the release store of ended by the thread that ended the hold */
    if (atomic_load_explicit(&lock->hold.ended, memory_order_acquire) == view.number) {
        return failure_unheld(lock);
    }
    if (__builtin_expect(!lease_in_force(view.binding, view.held.epoch), 0)) {
        return release_slow(lock, view.number); /* this call also keeps the reason of the loss */
    }
    /* relaxed: published by the swap; pairs with the acquire in hold_changing() */
    atomic_store_explicit(&lane->changing, view.number, memory_order_relaxed);
    bool freed = fast_free(&view);
    if (__builtin_expect(freed, 1)) {
        /* release: pairs with the acquire in hold_held() */
        atomic_store_explicit(&lock->hold.ended, view.number, memory_order_release);
    }
    /* release: pairs with the acquire in hold_changing(). A thread that reads 0 in `changing` also
     * sees ended, if the hold is over. */
    atomic_store_explicit(&lane->changing, 0, memory_order_release);
    if (__builtin_expect(!freed, 0)) {
        return release_slow(lock, view.number);
    }
    HF_PROBE2(release_fast, lock->name, view.held.token);
    return 0;
}
