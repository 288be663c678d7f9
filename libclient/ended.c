/*
 * Why a hold ended.
 *
 * The agent notes the reason in the region before it takes a hold away (proto/ending.h). A hold can
 * also end before the agent notes anything, because its own limit or the lease of the host's
 * session is over. This file finds these two ends by the clock. It looks for the reason when the
 * library reports the loss, and keeps the reason in the handle, because the next loss of the lock
 * overwrites the note in the region. The reason is for people and decides nothing.
 */
#include "client.h"

#include "proto/ending.h"

#include <string.h>

static enum hf_reason_kind kind_of(enum hfi_ending_kind kind)
{
    switch (kind) {
    case HFI_ENDING_BROKEN:
        return HF_WHY_BROKEN;
    case HFI_ENDING_LEASE:
        return HF_WHY_LEASE_OVER;
    case HFI_ENDING_STALL:
        return HF_WHY_STALLED;
    case HFI_ENDING_SESSION:
        return HF_WHY_SESSION_LOST;
    case HFI_ENDING_DAMAGE:
        return HF_WHY_DAMAGED;
    default:
        return HF_WHY_ENDED;
    }
}

/* Returns whether the hold's own limit ended it. If the session's lease ended earlier, the limit
 * did not end the hold. */
static bool limit_is_over(const struct hf_lock *lock, const struct hold_view *view, int64_t now_ns,
                          struct hold_end *out)
{
    int64_t own_ns = hold_own_end_ns(lock, view);
    int64_t lease_ns = hfi_lease_deadline_ns(
        atomic_load_explicit(&view->binding->map->region.header->lease, memory_order_relaxed));
    if (own_ns > now_ns || (lease_ns <= now_ns && lease_ns < own_ns)) {
        return false;
    }
    bool by_lease = lock->max_stall_ns == 0 || own_ns >= view->lease_end_ns;
    out->kind = by_lease ? HF_WHY_LEASE_OVER : HF_WHY_STALLED;
    out->at_ns = own_ns;
    return true;
}

/* Returns whether the session's lease ended the hold. */
static bool session_is_over(const struct hf_lock *lock, const struct hold_view *view,
                            int64_t now_ns, struct hold_end *out)
{
    uint64_t lease = atomic_load_explicit(&view->binding->map->region.header->lease,
                                          memory_order_relaxed);
    if (hfi_lease_epoch(lease) != view->held.epoch) {
        out->kind = HF_WHY_SESSION_LOST;
        return true;
    }
    if (hfi_lease_deadline_ns(lease) > now_ns) {
        return false;
    }
    /* acquire: pairs with the releases in client.c and socket.c */
    bool down = atomic_load_explicit(&lock->client->down, memory_order_acquire);
    out->kind = down ? HF_WHY_AGENT_GONE : HF_WHY_SESSION_LOST;
    out->at_ns = hfi_lease_deadline_ns(lease);
    return true;
}

/* Finds out why a hold does not count any more. forgotten: the agent does not know the client. */
static void ended_find(const struct hf_lock *lock, const struct hold_view *view, int64_t now_ns,
                       bool forgotten, struct hold_end *out)
{
    const struct binding *binding = view->binding;
    const struct hfi_region *region = &binding->map->region;
    struct hfi_ending ending;
    *out = (struct hold_end){.number = view->number, .kind = HF_WHY_ENDED, .at_ns = -1, .uid = -1};
    if (hfi_ending_read(region, binding->slot, binding->seat, view->held.token, view->held.cell,
                        &ending)) {
        out->kind = kind_of(ending.kind);
        out->at_ns = ending.at_ns;
        out->uid = ending.uid;
        memcpy(out->agent, ending.agent, sizeof(out->agent));
        return;
    }
    if (limit_is_over(lock, view, now_ns, out) || session_is_over(lock, view, now_ns, out)) {
        return;
    }
    if (forgotten) {
        out->kind = HF_WHY_FORGOTTEN;
    } else if (atomic_load(&region->header->abandoned) != 0) {
        out->kind = HF_WHY_DAMAGED;
    }
}

void ended_keep(struct hf_lock *lock, const struct hold_view *view, int64_t now_ns, bool forgotten)
{
    if (lock->end.number != view->number) {
        ended_find(lock, view, now_ns, forgotten, &lock->end);
    }
}

void ended_note(struct hf_lock *lock, const struct hold_view *view, bool forgotten)
{
    pthread_mutex_lock(&lock->client->list_mutex);
    ended_keep(lock, view, boottime_ns(), forgotten);
    pthread_mutex_unlock(&lock->client->list_mutex);
}

void ended_clear(struct hf_lock *lock)
{
    pthread_mutex_lock(&lock->client->list_mutex);
    lock->end.number = 0;
    pthread_mutex_unlock(&lock->client->list_mutex);
}

/* Returns whether a thread waits for the lock. In this case the handle has no hold that could have
 * ended. */
static bool is_awaited(struct hf_lock *lock)
{
    pthread_mutex_lock(&lock->mutex);
    bool awaited = lock->claimed && !hold_held(&lock->hold);
    pthread_mutex_unlock(&lock->mutex);
    return awaited;
}

bool ended_last(struct hf_lock *lock, struct hold_end *out)
{
    struct hold_view view;
    if (is_awaited(lock) || !hold_read(lock, &view)) {
        return false;
    }
    int64_t now_ns = boottime_ns();
    pthread_mutex_lock(&lock->client->list_mutex);
    bool known = lock->end.number == view.number;
    if (known) {
        *out = lock->end;
    }
    pthread_mutex_unlock(&lock->client->list_mutex);
    if (known) {
        return true;
    }
    enum hold_worth worth;
    if (!hold_look(lock, now_ns, &view, &worth) || worth == HOLD_COUNTS) {
        return false;
    }
    ended_find(lock, &view, now_ns, false, out); /* the handle does not keep this reason, because a
                                                  * hold in jeopardy may count again */
    return true;
}
