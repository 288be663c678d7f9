/*
 * The hold of a handle: how it is stored, how long it counts, and how it ends.
 *
 * The region alone determines how long a hold counts (hfi_remaining_ns()). There is one exception:
 * a hold that was reported lost never counts again. A release first compares the lease's deadline
 * with CLOCK_MONOTONIC_COARSE. Reading this clock takes at most a third of the time that
 * CLOCK_BOOTTIME takes. The release reads the exact clock only if half of a ttl or less is left, or
 * if the lease was renewed after the offset between the two clocks was measured. An agent renews a
 * lease every third of its ttl, so the margin of half a ttl costs nothing.
 *
 * Nothing bounds the lag of the coarse clock. It moves with the ticks of one processor. That
 * processor may stand still, because its host does not run it (if it is virtual) or because its
 * interrupts are off. In newer kernels another processor then takes over after five of its own
 * ticks, which is 50 ms at 100 Hz. In older kernels no processor takes over. The coarse clock does
 * not count the time of a suspend, either. So a release can return 0 although the lease is over: if
 * the coarse clock lags by more than half a ttl, or after a suspend until the agent has run. Only
 * the exact clock would make a release certain, and that would cost 20 ns more. hf_remaining_ns()
 * and hf_acquire() always read the exact clock.
 */
#include "client.h"

#include "proto/probe.h"
void hold_store(hf_lock *lock, struct binding *binding, enum hf_mode mode,
                const struct hfi_held *held, bool same_hold)
{
    struct hold *hold = &lock->hold;
    if (lock->lease_ns != 0 && !same_hold) {
        /* When the lock was taken, the seat's deadline was set to limit_ns after the take. limit_ns
         * is the shorter of lease_ns and max_stall_ns. */
        int64_t end_ns = (int64_t)atomic_load(
            &hfi_seat(&binding->map->region, binding->seat)->deadline_ns);
        /* Any process that maps the region can write any value here. */
        end_ns = end_ns > lock->limit_ns ? end_ns : lock->limit_ns;
        /* relaxed: only hf_progress() reads this field, after it has read the hold */
        atomic_store_explicit(&hold->lease_end_ns,
                              add_saturated(end_ns - lock->limit_ns, lock->lease_ns),
                              memory_order_relaxed);
    }
    if (same_hold) {
        /* relaxed: only the owner of the claim writes this field now */
        uint64_t number = atomic_load_explicit(&hold->number, memory_order_relaxed);
        hold_put_fields(hold, binding, mode, held, number);
        return;
    }
    hold_put(hold, binding, mode, held);
}

/* Returns whether a thread is ending or changing this hold, or has just done so. During this time
 * the word or the cell need not name the hold, although the hold is not lost. */
static bool hold_changing(const struct hf_lock *lock, uint64_t number)
{
    for (size_t i = 0; i <= LOCK_LANES; i++) {
        /* acquire: pairs with the release stores of 0, so that the caller sees how the hold was
         * ended or changed */
        if (atomic_load_explicit(&lock->lanes[i].changing, memory_order_acquire) == number) {
            return true;
        }
    }
    return false;
}

void hold_mark_lost(struct hf_lock *lock, uint64_t number)
{
    HF_PROBE2(hold_marked_lost, lock->name, number);
    /* release: pairs with the acquire in hold_marked_lost() */
    atomic_store_explicit(&lock->hold.lost, number, memory_order_release);
}

enum hold_worth hold_judge(const struct hf_lock *lock, const struct hold_view *view, int64_t now_ns,
                           int64_t *remaining_ns)
{
    const struct hfi_region *region = &view->binding->map->region;
    struct hfi_request request = binding_request(lock, view->binding);
    bool gone = false;
    int64_t left_ns = hfi_remaining_ns(region, &request, view->binding->holder, &view->held, now_ns,
                                       &gone);
    if (remaining_ns != NULL) {
        *remaining_ns = left_ns;
    }
    if (gone || hold_marked_lost(lock, view->number)) {
        if (remaining_ns != NULL && left_ns > 0) {
            *remaining_ns = 0;
        }
        return HOLD_LOST;
    }
    if (left_ns > 0) {
        return HOLD_COUNTS;
    }
    /* relaxed: the value is only compared with a clock, and no other memory depends on it */
    uint64_t lease = atomic_load_explicit(&region->header->lease, memory_order_relaxed);
    int64_t grace_ns = (int64_t)(region->header->grace_ns & INT64_MAX);
    int64_t end_ns = add_saturated(hfi_lease_deadline_ns(lease), grace_ns);
    return now_ns >= end_ns ? HOLD_LOST : HOLD_JEOPARDY;
}

bool hold_look(const struct hf_lock *lock, int64_t now_ns, struct hold_view *view,
               enum hold_worth *worth)
{
    if (!hold_read(lock, view) || !hold_held(&lock->hold)) {
        return false;
    }
    *worth = hold_judge(lock, view, now_ns, NULL);
    /* A thread that ends or changes the hold sets `changing` before it swaps the word. hold_judge()
     * has read the word. So if `changing` is not set now, no thread of this process freed the word:
     * the hold is lost. */
    if (*worth == HOLD_LOST && hold_changing(lock, view->number)) {
        return false;
    }
    /* acquire, both: after the loads above; pair with the release stores of the thread that ended
     * the hold, or that began another hold */
    return atomic_load_explicit(&lock->hold.ended, memory_order_acquire) != view->number &&
           atomic_load_explicit(&lock->hold.serial, memory_order_acquire) == view->serial;
}

int64_t hold_own_end_ns(const struct hf_lock *lock, const struct hold_view *view)
{
    if (lock->limit_ns == 0) {
        return INT64_MAX;
    }
    return (int64_t)atomic_load(
        &hfi_seat(&view->binding->map->region, view->binding->seat)->deadline_ns);
}

HFI_PUBLIC int64_t hf_remaining_ns(const hf_lock *lock)
{
    struct hold_view view;
    if (lock == NULL || !alive_here(lock->alive) || !hold_held(&lock->hold) ||
        !hold_read(lock, &view)) {
        return 0;
    }
    int64_t remaining_ns;
    hold_judge(lock, &view, boottime_ns(), &remaining_ns);
    return remaining_ns > 0 ? remaining_ns : 0;
}

bool lease_ahead(struct region_map *map, uint64_t lease, int64_t coarse_ns)
{
    int64_t now_ns = boottime_ns();
    if (hfi_lease_left_ns(&map->trust, lease, now_ns) <= 0) {
        /* clock_lease stays as it is, so that the next call for this lease reads the exact clock,
         * too */
        return false;
    }
    /* relaxed: changes only if an agent starts with another ttl */
    int64_t margin_ns = atomic_load_explicit(&map->trust.ahead_max_ns, memory_order_relaxed) / 2;
    atomic_store_explicit(&map->boot_offset_ns, add_saturated(now_ns - coarse_ns, margin_ns),
                          memory_order_relaxed);
    /* release: pairs with the acquire in lease_in_force() */
    atomic_store_explicit(&map->clock_lease, lease, memory_order_release);
    return true;
}

/* Ends the hold. The caller owns the claim. Returns HF_ENOTHELD if a thread in the fast path ended
 * the hold first. */
static int release_claimed(hf_lock *lock)
{
    struct hold *hold = &lock->hold;
    struct hold_view view;
    if (!hold_read(lock, &view)) { /* only the owner of the claim writes the hold now */
        return HF_ENOTHELD;
    }
    struct hfi_actor actor = binding_actor(view.binding);
    bool counts = !hold_marked_lost(lock, view.number) &&
                  lease_in_force(view.binding, view.held.epoch);
    if (lock->limit_ns != 0) {
        counts = hold_judge(lock, &view, boottime_ns(), NULL) == HOLD_COUNTS;
    }
    if (!counts) {
        /* The reason is noted before the word is freed, because another hold can begin as soon as
         * the word is free. */
        ended_note(lock, &view, false);
    }
    /* release: before the word changes; pairs with the acquire in hold_changing() */
    atomic_store_explicit(&lock->lanes[LOCK_LANES].changing, view.number, memory_order_release);
    enum hfi_outcome outcome = view.mode == HF_EXCLUSIVE
                                   ? hfi_release(&actor, view.binding->slot, view.held.token)
                                   : hfi_release_shared(&actor, view.binding->slot,
                                                        view.binding->seat, view.held.cell);
    bool mine = outcome == HFI_RELEASED;
    for (size_t i = 0; !mine && i < LOCK_LANES; i++) {
        unsigned turns = 0;
        /* acquire: pairs with the release store of 0. After this loop, if the lane's thread freed
         * the word, this thread sees view.number in ended. */
        while (atomic_load_explicit(&lock->lanes[i].changing, memory_order_acquire) ==
               view.number) {
            give_way(&turns); /* the loop ends when the lane's thread has finished its release */
        }
    }
    int result = counts && mine ? 0 : HF_ELOST;
    if (!hold_held(hold)) {
        result = HF_ENOTHELD;
    } else {
        if (result == HF_ELOST) {
            ended_note(lock, &view, false);
        }
        /* release: pairs with the acquire in hold_held() */
        atomic_store_explicit(&hold->ended, view.number, memory_order_release);
    }
    atomic_store_explicit(&lock->lanes[LOCK_LANES].changing, 0, memory_order_release);
    return result;
}

int release_unsaid(hf_lock *lock, uint64_t number)
{
    int result = claim_hold(lock);
    if (result != 0) {
        return result;
    }
    /* relaxed: only the owner of the claim writes the hold now */
    if (number != 0 && atomic_load_explicit(&lock->hold.number, memory_order_relaxed) != number) {
        result = HF_ENOTHELD;     /* another thread ended that hold, and a new one began */
    } else if (lock->depth > 1) { /* this release undoes one acquire of several */
        struct hold_view view;
        lock->depth--;
        result = hold_read(lock, &view) &&
                         hold_judge(lock, &view, boottime_ns(), NULL) == HOLD_COUNTS
                     ? 0
                     : HF_ELOST;
    } else {
        lock->depth = 0;
        result = release_claimed(lock);
    }
    claim_give(lock);
    HF_PROBE2(release_slow, lock->name, result);
    return result;
}

int release_slow(hf_lock *lock, uint64_t number)
{
    int result = release_unsaid(lock, number);
    if (result == 0) {
        return 0;
    }
    return result == HF_ELOST ? failure_lost(lock) : failure_unheld(lock);
}

void hold_drop(hf_lock *lock)
{
    if (claim_hold(lock) == 0) {
        lock->depth = 0;
        int ignored = release_claimed(lock); /* the hold has ended, whatever the result */
        (void)ignored;
        claim_give(lock);
    }
}

/* Changes an exclusive hold to a shared one. The caller owns the claim. */
static int downgrade(hf_lock *lock, struct hold_view *view)
{
    int error = lock_seat(lock, true);
    struct binding *binding = atomic_load(&lock->binding);
    if (error != 0) {
        return error;
    }
    if (binding == NULL || binding->map != view->binding->map ||
        binding->slot != view->binding->slot || binding->holder != view->binding->holder) {
        return HF_ELOST; /* the agent has made a new region since the hold began */
    }
    struct hfi_actor actor = binding_actor(binding);
    struct hfi_request request = binding_request(lock, binding);
    struct lock_lane *lane = &lock->lanes[LOCK_LANES];
    /* release: before the word changes; pairs with the acquire in hold_changing() */
    atomic_store_explicit(&lane->changing, view->number, memory_order_release);
    enum hfi_outcome outcome;
    unsigned turns = 0;
    do { /* the loop ends: a thread in the fast path may have the cell, but only for a moment */
        outcome = hfi_downgrade(&actor, &request, &view->held);
        if (outcome == HFI_HELD) {
            hold_store(lock, binding, HF_SHARED, &view->held, true);
            break;
        }
        give_way(&turns);
    } while (turns < 1000 && hold_judge(lock, view, boottime_ns(), NULL) == HOLD_COUNTS);
    atomic_store_explicit(&lane->changing, 0, memory_order_release);
    for (size_t i = 0; outcome != HFI_HELD && i < LOCK_LANES; i++) {
        /* acquire: pairs with the release store of 0. After this loop, if the lane's thread freed
         * the word, this thread sees view.number in ended. */
        while (atomic_load_explicit(&lock->lanes[i].changing, memory_order_acquire) ==
               view->number) {
            give_way(&turns); /* the loop ends when the lane's thread has finished its release */
        }
    }
    return outcome == HFI_HELD ? 0 : hold_held(&lock->hold) ? HF_ELOST : HF_ENOTHELD;
}

HFI_PUBLIC int hf_downgrade(hf_lock *lock)
{
    if (lock == NULL) {
        return failure_null(NULL, "lock");
    }
    if (!alive_here(lock->alive)) {
        return failure_forked(lock->client);
    }
    int error = claim_hold(lock);
    if (error != 0) {
        return failure_unheld(lock);
    }
    struct hold_view view;
    if (!hold_read(lock, &view)) { /* only the owner of the claim writes the hold now */
        error = HF_ENOTHELD;
    } else if (hold_judge(lock, &view, boottime_ns(), NULL) != HOLD_COUNTS) {
        error = hold_look(lock, boottime_ns(), &view, &(enum hold_worth){0}) ? HF_ELOST
                                                                             : HF_ENOTHELD;
    } else if (view.mode == HF_EXCLUSIVE) {
        error = downgrade(lock, &view);
        /* events.c may have looked at the hold during the change, so it must look again */
        events_look(lock->client);
    }
    claim_give(lock);
    switch (error) {
    case 0:
        return 0;
    case HF_ELOST:
        return failure_lost(lock);
    case HF_ENOTHELD:
        return failure_unheld(lock);
    default:
        return failure_ask(lock->client, error, "get a reader's place for the lock", lock->name);
    }
}

/* Moves the deadline in the seat to max_stall_ns from now, at most to the end of lease_ns. Returns
 * 0 or HF_ELOST. */
static int progress(hf_lock *lock, const struct hold_view *view)
{
    _Atomic uint64_t *deadline =
        &hfi_seat(&view->binding->map->region, view->binding->seat)->deadline_ns;
    uint64_t old_ns = atomic_load(deadline);
    /* the loop repeats, because other threads may move the deadline at the same time */
    for (int tries = 0; tries < 1000; tries++) {
        int64_t now_ns = boottime_ns();
        int64_t next_ns = add_saturated(now_ns, lock->max_stall_ns);
        if (next_ns > view->lease_end_ns) {
            next_ns = view->lease_end_ns;
        }
        if (hold_judge(lock, view, now_ns, NULL) != HOLD_COUNTS) {
            return HF_ELOST;
        }
        if (next_ns <= (int64_t)old_ns) {
            return 0;
        }
        /* seq_cst: this thread moves the deadline before hold_judge() reads the word. The agent
         * first evicts the holder from the word, and then reads the deadline again. So this thread
         * or the agent sees what the other has done. */
        if (atomic_compare_exchange_strong(deadline, &old_ns, (uint64_t)next_ns)) {
            break;
        }
    }
    return hold_judge(lock, view, boottime_ns(), NULL) == HOLD_COUNTS ? 0 : HF_ELOST;
}

HFI_PUBLIC int hf_progress(hf_lock *lock)
{
    struct hold_view view;
    if (lock == NULL) {
        return failure_null(NULL, "lock");
    }
    if (!alive_here(lock->alive)) {
        return failure_forked(lock->client);
    }
    if (!hold_held(&lock->hold) || !hold_read(lock, &view)) {
        return failure_unheld(lock);
    }
    bool counts = lock->max_stall_ns == 0
                      ? hold_judge(lock, &view, boottime_ns(), NULL) == HOLD_COUNTS
                      : progress(lock, &view) == 0;
    return counts ? 0 : failure_lost(lock);
}
