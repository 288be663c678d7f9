/*
 * A handle's hold: how it is remembered, what it is worth now, how it ends.
 *
 * What a hold is worth is asked of the region (hfi_remaining_ns) and of nothing else, except that a
 * hold which was told lost is never worth anything again. On release the deadline of the lease is
 * compared with CLOCK_MONOTONIC_COARSE first, which costs a fifth of CLOCK_BOOTTIME; only near the
 * deadline, or when the lease was renewed since the offset between the two was taken, is the real
 * clock read. (The offset changes when the machine was suspended; then the lease has changed too,
 * or its deadline is past by the real clock at the next renewal.)
 */
#include "client.h"

#include <sched.h>

/* The coarse clock lags by up to a tick (10 ms at 100 Hz); this much early it is not trusted. */
#define COARSE_MARGIN_NS (32 * NS_PER_MS)

void hold_store(hf_lock *lock, struct place *place, enum hf_mode mode, const struct hfi_held *held,
                bool same_hold)
{
    struct hold *hold = &lock->hold;
    if (lock->lease_ns != 0 && !same_hold) {
        /* The seat's deadline was counted from the moment of the grant, by the shorter limit. */
        int64_t end_ns = (int64_t)atomic_load(
            &hfi_seat(&place->map->region, place->seat)->deadline_ns);
        /* relaxed: only hf_progress() reads it, after it has seen the hold itself */
        atomic_store_explicit(&hold->lease_end_ns,
                              add_saturated(end_ns - lock->limit_ns, lock->lease_ns),
                              memory_order_relaxed);
    }
    if (same_hold) { /* hold_put() counts one more */
        /* relaxed: between two holds of one claim; see hold_put() */
        uint64_t serial = atomic_load_explicit(&hold->serial, memory_order_relaxed);
        uint64_t number = atomic_load_explicit(&hold->number, memory_order_relaxed);
        atomic_store_explicit(&hold->serial, serial + 1, memory_order_relaxed);
        atomic_store_explicit(&hold->number, number - 1, memory_order_release);
        hold_put_fields(hold, place, mode, held, serial);
        return;
    }
    hold_put(hold, place, mode, held);
}

/* The fields as they are; by the owner of the claim, or checked by the serial. */
static void view_load(const struct hold *hold, struct hold_view *view)
{
    /* acquire, all of them: pair with the releases in hold_store() */
    view->held.token = atomic_load_explicit(&hold->token, memory_order_acquire);
    view->held.cell = atomic_load_explicit(&hold->cell, memory_order_acquire);
    view->held.epoch = atomic_load_explicit(&hold->epoch, memory_order_acquire);
    view->mode = (enum hf_mode)atomic_load_explicit(&hold->mode, memory_order_acquire);
    view->held.deadline_ns = atomic_load_explicit(&hold->deadline_ns, memory_order_acquire);
    view->lease_end_ns = atomic_load_explicit(&hold->lease_end_ns, memory_order_relaxed);
    view->place = atomic_load_explicit(&hold->place, memory_order_acquire);
    view->number = atomic_load_explicit(&hold->number, memory_order_acquire);
}

bool hold_read(const struct hf_lock *lock, struct hold_view *view)
{
    const struct hold *hold = &lock->hold;
    /* acquire: pairs with the last release in hold_store() */
    uint64_t before = atomic_load_explicit(&hold->serial, memory_order_acquire);
    view_load(hold, view);
    /* relaxed: after the acquire loads above; a new value among them brings the odd serial */
    uint64_t after = atomic_load_explicit(&hold->serial, memory_order_relaxed);
    return before == after && (before & 1) == 0 && view->place != NULL;
}

static bool marked_lost(const struct hf_lock *lock, uint64_t number)
{
    /* acquire: pairs with the release in hold_mark_lost() */
    return atomic_load_explicit(&lock->hold.lost, memory_order_acquire) == number;
}

void hold_mark_lost(struct hf_lock *lock, uint64_t number)
{
    /* release: pairs with the acquire in marked_lost() */
    atomic_store_explicit(&lock->hold.lost, number, memory_order_release);
}

enum hold_worth hold_judge(const struct hf_lock *lock, const struct hold_view *view, int64_t now_ns,
                           int64_t *remaining_ns)
{
    const struct hfi_region *region = &view->place->map->region;
    struct hfi_request request = place_request(lock, view->place);
    bool gone = false;
    int64_t left_ns = hfi_remaining_ns(region, &request, view->place->holder, &view->held, now_ns,
                                       &gone);
    if (remaining_ns != NULL) {
        *remaining_ns = left_ns;
    }
    if (gone || marked_lost(lock, view->number)) {
        if (remaining_ns != NULL && left_ns > 0) {
            *remaining_ns = 0;
        }
        return HOLD_LOST;
    }
    if (left_ns > 0) {
        return HOLD_COUNTS;
    }
    /* relaxed: one word, compared with a clock */
    uint64_t lease = atomic_load_explicit(&region->header->lease, memory_order_relaxed);
    int64_t grace_ns = (int64_t)(region->header->grace_ns & INT64_MAX);
    int64_t end_ns = add_saturated(hfi_lease_deadline_ns(lease), grace_ns);
    return now_ns >= end_ns ? HOLD_LOST : HOLD_JEOPARDY;
}

bool hold_look(const struct hf_lock *lock, int64_t now_ns, struct hold_view *view,
               enum hold_worth *worth)
{
    /* acquire: pairs with the release of HELD; the hold's fields are set */
    if (atomic_load_explicit(&lock->state, memory_order_acquire) != STATE_HELD ||
        !hold_read(lock, view)) {
        return false;
    }
    *worth = hold_judge(lock, view, now_ns, NULL);
    /* seq_cst: after the look at the word. Who releases makes the state CHANGING before it frees
     * the word, so a word that was freed is not taken for one that was lost. */
    return atomic_load(&lock->state) == STATE_HELD &&
           atomic_load_explicit(&lock->hold.number, memory_order_relaxed) == view->number;
}

int64_t hold_own_end_ns(const struct hf_lock *lock, const struct hold_view *view)
{
    if (lock->limit_ns == 0) {
        return INT64_MAX;
    }
    return (int64_t)atomic_load(
        &hfi_seat(&view->place->map->region, view->place->seat)->deadline_ns);
}

HFI_PUBLIC int64_t hf_remaining_ns(const hf_lock *lock)
{
    struct hold_view view;
    if (lock == NULL) {
        return 0;
    }
    if (!alive_here(lock->alive)) {
        return HF_EFORKED;
    }
    /* acquire: pairs with the release of HELD */
    uint32_t state = atomic_load_explicit(&lock->state, memory_order_acquire);
    if ((state != STATE_HELD && state != STATE_CHANGING) || !hold_read(lock, &view)) {
        return 0;
    }
    int64_t remaining_ns;
    hold_judge(lock, &view, boottime_ns(), &remaining_ns);
    return remaining_ns;
}

/* Whether the lease of a hold's epoch is in force; cheap unless its deadline is near. */
static bool lease_in_force(struct region_map *map, uint32_t epoch)
{
    /* seq_cst: before the word is looked at by the release that follows */
    uint64_t lease = atomic_load(&map->region.header->lease);
    if (hfi_lease_epoch(lease) != epoch) {
        return false;
    }
    int64_t deadline_ns = hfi_lease_deadline_ns(lease);
    struct timespec coarse;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
    int64_t coarse_ns = (int64_t)coarse.tv_sec * NS_PER_S + coarse.tv_nsec;
    /* acquire: pairs with the release below; the offset is at least as new as this lease */
    if (atomic_load_explicit(&map->clock_lease, memory_order_acquire) == lease) {
        int64_t offset_ns = atomic_load_explicit(&map->boot_offset_ns, memory_order_relaxed);
        if (coarse_ns + offset_ns + COARSE_MARGIN_NS < deadline_ns) {
            return true;
        }
    }
    int64_t now_ns = boottime_ns();
    atomic_store_explicit(&map->boot_offset_ns, now_ns - coarse_ns, memory_order_relaxed);
    /* release: pairs with the acquire above */
    atomic_store_explicit(&map->clock_lease, lease, memory_order_release);
    return now_ns < deadline_ns;
}

/* Ends the hold of a handle whose state is CHANGING; does not change the state. */
static int release_claimed(hf_lock *lock)
{
    struct hold *hold = &lock->hold;
    /* relaxed: the swap to CHANGING has acquired what the last owner of the claim stored */
    struct place *place = atomic_load_explicit(&hold->place, memory_order_relaxed);
    uint64_t number = atomic_load_explicit(&hold->number, memory_order_relaxed);
    uint32_t epoch = atomic_load_explicit(&hold->epoch, memory_order_relaxed);
    uint32_t mode = atomic_load_explicit(&hold->mode, memory_order_relaxed);
    struct hfi_actor actor = place_actor(place);
    bool counts = !marked_lost(lock, number) && lease_in_force(place->map, epoch);
    if (__builtin_expect(lock->limit_ns != 0, 0)) {
        struct hold_view view;
        view_load(hold, &view);
        counts = hold_judge(lock, &view, boottime_ns(), NULL) == HOLD_COUNTS;
    }
    enum hfi_outcome outcome;
    if (mode == HF_EXCLUSIVE) {
        outcome = hfi_release(&actor, place->slot,
                              atomic_load_explicit(&hold->token, memory_order_relaxed));
    } else {
        outcome = hfi_release_shared(&actor, place->slot, place->seat,
                                     atomic_load_explicit(&hold->cell, memory_order_relaxed));
    }
    return counts && outcome == HFI_RELEASED ? 0 : HF_ELOST;
}

/* Gives way to a thread that is about to leave CHANGING: a release, or a downgrade. */
__attribute__((noinline)) static uint32_t changed_state(hf_lock *lock)
{
    uint32_t state;
    /* acquire: pairs with the release of who ends the change; it ends without waiting for us */
    while ((state = atomic_load_explicit(&lock->state, memory_order_acquire)) == STATE_CHANGING) {
        sched_yield();
    }
    return state;
}

/* A reentrant handle: only the last of as many releases as there were acquires ends the hold. */
__attribute__((noinline)) static int release_counted(hf_lock *lock)
{
    int result = HF_ENOTHELD;
    pthread_mutex_lock(&lock->mutex);
    while (lock->claimed && lock->depth > 0) { /* an upgrade: ends by its own patience */
        pthread_cond_wait(&lock->unclaimed, &lock->mutex);
    }
    uint32_t state = STATE_HELD;
    if (atomic_load_explicit(&lock->state, memory_order_acquire) != STATE_HELD) {
        result = HF_ENOTHELD;
    } else if (lock->depth > 1) {
        struct hold_view view;
        view_load(&lock->hold, &view);
        lock->depth--;
        result = hold_judge(lock, &view, boottime_ns(), NULL) == HOLD_COUNTS ? 0 : HF_ELOST;
    } else if (atomic_compare_exchange_strong(&lock->state, &state, STATE_CHANGING)) {
        lock->depth = 0;
        result = release_claimed(lock);
        /* release: pairs with the claim's swap from FREE */
        atomic_store_explicit(&lock->state, STATE_FREE, memory_order_release);
    }
    pthread_mutex_unlock(&lock->mutex);
    return result;
}

HFI_PUBLIC int hf_release(hf_lock *lock)
{
    if (lock == NULL) {
        return HF_EINVAL;
    }
    if (!alive_here(lock->alive)) {
        return HF_EFORKED;
    }
    if (lock->flags & HF_REENTRANT) {
        return release_counted(lock);
    }
    for (;;) { /* goes round only when another thread changed the hold */
        uint32_t state = STATE_HELD;
        /* seq_cst (acquire: pairs with the release of HELD): one thread ends the hold */
        if (atomic_compare_exchange_strong(&lock->state, &state, STATE_CHANGING)) {
            int result = release_claimed(lock);
            /* release: pairs with the claim's swap from FREE */
            atomic_store_explicit(&lock->state, STATE_FREE, memory_order_release);
            return result;
        }
        if (state != STATE_CHANGING || changed_state(lock) != STATE_HELD) {
            return HF_ENOTHELD;
        }
    }
}

void hold_drop(hf_lock *lock)
{
    uint32_t state = STATE_HELD;
    if (atomic_compare_exchange_strong(&lock->state, &state, STATE_CHANGING)) {
        int ignored = release_claimed(lock); /* lost or not, it is over */
        (void)ignored;
        lock->depth = 0;
        atomic_store_explicit(&lock->state, STATE_FREE, memory_order_release);
    }
}

HFI_PUBLIC int hf_downgrade(hf_lock *lock)
{
    if (lock == NULL) {
        return HF_EINVAL;
    }
    if (!alive_here(lock->alive)) {
        return HF_EFORKED;
    }
    uint32_t state = STATE_HELD;
    while (!atomic_compare_exchange_strong(&lock->state, &state, STATE_CHANGING)) {
        if (state != STATE_CHANGING || changed_state(lock) != STATE_HELD) {
            return HF_ENOTHELD;
        }
        state = STATE_HELD;
    }
    struct hold_view view;
    view_load(&lock->hold, &view);
    int error = 0;
    if (hold_judge(lock, &view, boottime_ns(), NULL) != HOLD_COUNTS) {
        error = HF_ELOST;
    } else if (view.mode == HF_EXCLUSIVE) {
        error = lock_seat(lock, true);
        struct place *place = atomic_load(&lock->place);
        if (error == 0 && (place->map != view.place->map || place->slot != view.place->slot ||
                           place->holder != view.place->holder)) {
            error = HF_ELOST; /* the agent came back with another region meanwhile */
        }
        if (error == 0) {
            struct hfi_actor actor = place_actor(place);
            struct hfi_request request = place_request(lock, place);
            error = hfi_downgrade(&actor, &request, &view.held) == HFI_HELD ? 0 : HF_ELOST;
            if (error == 0) {
                hold_store(lock, place, HF_SHARED, &view.held, true);
            }
        }
    }
    /* release: pairs with the acquire of who looks for HELD */
    atomic_store_explicit(&lock->state, STATE_HELD, memory_order_release);
    return error;
}

/* Moves the seat's own deadline on. 0, HF_ELOST. */
static int progress(hf_lock *lock, const struct hold_view *view)
{
    _Atomic uint64_t *deadline =
        &hfi_seat(&view->place->map->region, view->place->seat)->deadline_ns;
    uint64_t old_ns = atomic_load(deadline);
    for (int tries = 0; tries < 1000; tries++) { /* others report progress too */
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
        /* seq_cst: before the look at the word; pairs with the agent, which evicts and then
         * looks at the deadline again */
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
    /* acquire: pairs with the release of HELD */
    uint32_t state = atomic_load_explicit(&lock->state, memory_order_acquire);
    if ((state != STATE_HELD && state != STATE_CHANGING) || !hold_read(lock, &view)) {
        return HF_ENOTHELD;
    }
    if (lock->max_stall_ns == 0) {
        return hold_judge(lock, &view, boottime_ns(), NULL) == HOLD_COUNTS ? 0 : HF_ELOST;
    }
    return progress(lock, &view);
}
