/*
 * A handle's hold: how it is stored, how long it counts, and how it ends.
 *
 * Only the region says how long a hold counts (hfi_remaining_ns()), except that a hold which was
 * reported lost never counts again. A release first compares the lease's deadline with
 * CLOCK_MONOTONIC_COARSE, which costs a third of CLOCK_BOOTTIME or less. It reads the exact clock
 * only if half of a ttl or less is left, or if the lease was renewed since the offset between the
 * two clocks was measured. An agent renews a lease every third of its ttl, so the margin of half a
 * ttl costs nothing.
 *
 * Nothing bounds the lag of the coarse clock. It moves with the ticks of one processor. If that
 * processor stands still (a virtual one that its host does not run, or one with interrupts off),
 * newer kernels let another one take over after five of its own ticks, 50 ms at 100 Hz; older
 * kernels never do. The coarse clock does not count the time of a suspend, either. So a release may
 * return 0 for a lease that is over, if that clock lags by more than half a ttl, or after a suspend
 * until the agent has run. Only the exact clock would be certain, which costs 20 ns more.
 * hf_remaining_ns() and hf_acquire() always read it.
 */
#include "client.h"

#include "proto/probe.h"
void hold_store(hf_lock *lock, struct binding *binding, enum hf_mode mode,
                const struct hfi_held *held, bool same_hold)
{
    struct hold *hold = &lock->hold;
    if (lock->lease_ns != 0 && !same_hold) {
        /* At the grant, the seat's deadline was set to the end of the shorter limit. */
        int64_t end_ns = (int64_t)atomic_load(
            &hfi_seat(&binding->map->region, binding->seat)->deadline_ns);
        /* The region's bytes may be hostile. */
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

/* Returns whether a thread is ending or changing this hold, or has just done so. Then the word or
 * the cell may not show the hold, although it is not lost. */
static bool hold_changing(const struct hf_lock *lock, uint64_t number)
{
    for (size_t i = 0; i <= LOCK_LANES; i++) {
        /* acquire: pairs with the releases of 0, so that this sees what the hold has become */
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
    /* relaxed: a single word, which is compared with a clock */
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
    /* A thread that ends or changes the hold stores that before it touches the word. So a look at
     * it after the word shows whether the word was freed or lost. */
    if (*worth == HOLD_LOST && hold_changing(lock, view->number)) {
        return false;
    }
    /* acquire, both: after the looks above; pair with the thread that ended the hold, or began
     * another */
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
        return false; /* the next look at this lease comes here, too */
    }
    /* relaxed: set with the agent's ttl, and constant afterwards */
    int64_t margin_ns = atomic_load_explicit(&map->trust.ahead_max_ns, memory_order_relaxed) / 2;
    atomic_store_explicit(&map->boot_offset_ns, add_saturated(now_ns - coarse_ns, margin_ns),
                          memory_order_relaxed);
    /* release: pairs with the acquire in lease_in_force() */
    atomic_store_explicit(&map->clock_lease, lease, memory_order_release);
    return true;
}

/* Ends the hold. The caller owns the claim. HF_ENOTHELD: a thread in the fast path ended it
 * first. */
static int release_claimed(hf_lock *lock)
{
    struct hold *hold = &lock->hold;
    struct hold_view view;
    if (!hold_read(lock, &view)) { /* only the owner of the claim writes it now */
        return HF_ENOTHELD;
    }
    struct hfi_actor actor = binding_actor(view.binding);
    bool counts = !hold_marked_lost(lock, view.number) &&
                  lease_in_force(view.binding, view.held.epoch);
    if (lock->limit_ns != 0) {
        counts = hold_judge(lock, &view, boottime_ns(), NULL) == HOLD_COUNTS;
    }
    if (!counts) {
        ended_note(lock, &view, false); /* before the release, which another hold may follow */
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
        /* acquire: pairs with the release of 0: if that thread freed the word, ended shows it */
        while (atomic_load_explicit(&lock->lanes[i].changing, memory_order_acquire) ==
               view.number) {
            give_way(&turns); /* the loop ends with a release */
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

int release_slow(hf_lock *lock, uint64_t number)
{
    int result = claim_hold(lock);
    if (result != 0) {
        return result;
    }
    /* relaxed: only the owner of the claim writes it now */
    if (number != 0 && atomic_load_explicit(&lock->hold.number, memory_order_relaxed) != number) {
        result = HF_ENOTHELD;     /* another thread ended it, and began a new one */
    } else if (lock->depth > 1) { /* the hold ends with as many releases as there were acquires */
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

void hold_drop(hf_lock *lock)
{
    if (claim_hold(lock) == 0) {
        lock->depth = 0;
        int ignored = release_claimed(lock); /* the hold is over in any case */
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
        return HF_ELOST; /* the agent came back with another region meanwhile */
    }
    struct hfi_actor actor = binding_actor(binding);
    struct hfi_request request = binding_request(lock, binding);
    struct lock_lane *lane = &lock->lanes[LOCK_LANES];
    /* release: before the word changes; pairs with the acquire in hold_changing() */
    atomic_store_explicit(&lane->changing, view->number, memory_order_release);
    enum hfi_outcome outcome;
    unsigned turns = 0;
    do { /* the loop ends: a thread in the fast path may have the cell for a moment, and undoes
          * that */
        outcome = hfi_downgrade(&actor, &request, &view->held);
        if (outcome == HFI_HELD) {
            hold_store(lock, binding, HF_SHARED, &view->held, true);
            break;
        }
        give_way(&turns);
    } while (turns < 1000 && hold_judge(lock, view, boottime_ns(), NULL) == HOLD_COUNTS);
    atomic_store_explicit(&lane->changing, 0, memory_order_release);
    for (size_t i = 0; outcome != HFI_HELD && i < LOCK_LANES; i++) {
        /* acquire: pairs with the release of 0: if that thread freed the word, ended shows it */
        while (atomic_load_explicit(&lock->lanes[i].changing, memory_order_acquire) ==
               view->number) {
            give_way(&turns); /* the loop ends with a release */
        }
    }
    return outcome == HFI_HELD ? 0 : hold_held(&lock->hold) ? HF_ELOST : HF_ENOTHELD;
}

HFI_PUBLIC int hf_downgrade(hf_lock *lock)
{
    if (lock == NULL) {
        return HF_EINVAL;
    }
    if (!alive_here(lock->alive)) {
        return HF_EFORKED;
    }
    int error = claim_hold(lock);
    if (error != 0) {
        return error;
    }
    struct hold_view view;
    if (!hold_read(lock, &view)) { /* only the owner of the claim writes it now */
        error = HF_ENOTHELD;
    } else if (hold_judge(lock, &view, boottime_ns(), NULL) != HOLD_COUNTS) {
        error = hold_look(lock, boottime_ns(), &view, &(enum hold_worth){0}) ? HF_ELOST
                                                                             : HF_ENOTHELD;
    } else if (view.mode == HF_EXCLUSIVE) {
        error = downgrade(lock, &view);
        events_look(lock->client); /* as in acquire_again() */
    }
    claim_give(lock);
    return error;
}

/* Moves the seat's own deadline forward. Returns 0 or HF_ELOST. */
static int progress(hf_lock *lock, const struct hold_view *view)
{
    _Atomic uint64_t *deadline =
        &hfi_seat(&view->binding->map->region, view->binding->seat)->deadline_ns;
    uint64_t old_ns = atomic_load(deadline);
    /* other threads may report progress at the same time */
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
        /* seq_cst: before the look at the word. Pairs with the agent, which first evicts and then
         * reads the deadline again. */
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
        return HF_EINVAL;
    }
    if (!alive_here(lock->alive)) {
        return HF_EFORKED;
    }
    if (!hold_held(&lock->hold) || !hold_read(lock, &view)) {
        return HF_ENOTHELD;
    }
    if (lock->max_stall_ns == 0) {
        return hold_judge(lock, &view, boottime_ns(), NULL) == HOLD_COUNTS ? 0 : HF_ELOST;
    }
    return progress(lock, &view);
}
