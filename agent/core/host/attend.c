/* The agent's work on one lock: see attend.h. */
#include "attend.h"

#include "clients.h"
#include "grants.h"
#include "handles.h"
#include "holds.h"
#include "limits.h"
#include "locks.h"
#include "openings.h"
#include "pending.h"
#include "polled.h"
#include "requests.h"
#include "seats.h"
#include "slots.h"
#include "spaces.h"
#include "watches.h"
#include "words.h"

enum {
    RECLAIM_SCAN = 256,
    RECLAIM_MAX = 4,
    LOOK_WALKS = 9, /* the cost of one look at a lock; the unit is a walk over the lock's seats */
};

struct attend {
    /* by namespace: the slot that attend_reclaim() looked at last */
    uint32_t reclaim_hand[HOST_NAMESPACES_MAX];
};

struct attend *attend_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct attend));
}

void attend_leave(struct host *host, uint32_t space)
{
    host->attend->reclaim_hand[space] = 0;
}

void attend_opening(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    if (!lock_is_named(host, at)) {
        return;
    }
    if (!(atomic_load(lock_word(host, at)) & HFI_W_CLOSED)) {
        attend_lock(host, at, actions); /* a give-back may have waited for the lock to open */
        return;
    }
    int64_t until_ns = lock_closed_until_ns(host, at);
    if (until_ns > host->now_ns) {
        opening_add(host, at, until_ns);
        return;
    }
    hfi_open(lock_actor(host, at), at.slot);
    lock_log(host, actions, "lock_opened", at, 0, 0);
    attend_lock(host, at, actions);
    watch_changed(host, at);
}

/* Takes the hold away if the word names a holder that cannot hold the lock: its process is dead, or
 * it has no handle of this lock. (The handles of a survivor may not be known yet.) */
static void attend_holder(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    uint64_t word = atomic_load(lock_word(host, at));
    uint32_t holder = hfi_word_holder(word);
    if (holder == 0) {
        return;
    }
    uint32_t client = client_of_id(host, holder);
    uint32_t handle = handle_of(host, at, holder);
    bool lives = client != NONE && client_lives(host, client);
    bool known = handle != NONE || (lives && (client_flags(host, client) & CLIENT_SURVIVOR));
    if (lives && known) {
        return;
    }
    uint32_t seat = handle == NONE ? HFI_SEAT_NONE : handle_seat(host, handle);
    if (holder == HFI_HOLDER_AGENT) {
        hfi_evict(lock_actor(host, at), at.slot, holder, word & HFI_W_TOKEN, 0);
    } else if (seat == HFI_SEAT_NONE || !hfi_pass_on(lock_actor(host, at), at.slot, holder, seat)) {
        hold_evict(host, at, holder, word & HFI_W_TOKEN, hold_delay_ms(host, at, holder),
                   HOST_LOSS_DEATH, actions);
    }
}

bool attend_word_is_awaited(const struct host *host, struct lock_ref at)
{
    if (!(atomic_load(lock_word(host, at)) & (HFI_W_WAITERS | HFI_W_BARGERS))) {
        return false;
    }
    /* The word's bits stay set when the last process, or a refused try, leaves the queue. So this
     * function looks at the queue itself. */
    struct hfi_awaited awaited = hfi_awaited(lock_actor(host, at)->region, at.slot);
    return awaited.waits || awaited.tries;
}

bool attend_is_awaited(const struct host *host, struct lock_ref at)
{
    return attend_word_is_awaited(host, at) || pending_is_for(host, at);
}

/* Returns whether the agent has to ask for the lock's grant. */
static bool lock_is_missing(const struct host *host, struct lock_ref at)
{
    return (lock_state(host, at) == LOCK_IDLE && !lock_is_full(host, at) &&
            attend_is_awaited(host, at)) ||
           (lock_state(host, at) == LOCK_ADOPTED && lock_request(host, at) == 0 &&
            (lock_mode(host, at) != HFI_GRANT_NONE || attend_is_awaited(host, at))) ||
           (lock_request(host, at) != 0 && request_is_kept(host, request_of(host, at)));
}

/* Calls slot_renew(). If the name has moved, also answers the OPENs of the old slot at once. So
 * their clients find the slot retired, and open the name again without delay. */
static bool lock_has_moved(struct host *host, struct lock_ref *at, struct host_actions *actions)
{
    struct lock_ref old = *at;
    bool moved = slot_renew(host, at, actions);
    if (moved) {
        pending_give_up(host, old);
    }
    return moved;
}

void attend_unwanted(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    if (attend_is_awaited(host, at)) {
        if (!lock_is_full(host, at) && !lock_has_moved(host, &at, actions)) {
            grant_ask(host, at, 0, actions);
        }
    } else if (lock_handles(host, at) == NONE && !clients_unknown(host)) {
        slot_unmake(host, at, actions);
    }
}

void attend_lock(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    if (!lock_is_named(host, at)) {
        return;
    }
    word_repair(host, at, actions);
    if (clients_unknown(host)) {
        limits_find(host, at);
    }
    attend_holder(host, at, actions);
    uint64_t word = atomic_load(lock_word(host, at));
    if (lock_is_granted(host, at)) {
        grant_attend(host, at, actions);
    } else if (lock_state(host, at) == LOCK_ASKING) {
        grant_ask_anew(host, at, actions);
    } else if (lock_is_missing(host, at) && !lock_has_moved(host, &at, actions)) {
        grant_ask(host, at, 0, actions);
    } else if (lock_state(host, at) == LOCK_ADOPTED && lock_request(host, at) != 0) {
        grant_ask_anew(host, at, actions);
    }
    limits_attend(host, at);
    polled_attend(host, at);
    if (lock_is_named(host, at)) {
        seats_count_walks(host, at, LOOK_WALKS);
    }
    if ((word & HFI_W_WATCHED) && lock_is_named(host, at)) {
        watch_ring_arrived(host, at);
    }
}

void attend_reclaim(struct host *host, uint32_t index, struct host_actions *actions)
{
    uint32_t slots = space_region(host, index)->slot_count;
    uint32_t *hand = &host->attend->reclaim_hand[index];
    if (slots - locks_end(host, index) + locks_free(host, index) > slots / 16 ||
        clients_unknown(host)) {
        return;
    }
    uint32_t taken = 0;
    for (uint32_t i = 0; i < RECLAIM_SCAN && i < locks_end(host, index) && taken < RECLAIM_MAX;
         i++) {
        *hand = *hand + 1 < locks_end(host, index) ? *hand + 1 : 0;
        struct lock_ref at = {index, *hand};
        if (!lock_is_named(host, at) || lock_handles(host, at) != NONE) {
            continue;
        }
        uint64_t word = atomic_load(lock_word(host, at));
        if (lock_state(host, at) == LOCK_IDLE) {
            slot_unmake(host, at, actions);
            taken++;
        } else if (lock_state(host, at) == LOCK_ADOPTED && lock_mode(host, at) == HFI_GRANT_NONE) {
            /* the agent asks here to learn which grant the lock has, not to get a grant */
            grant_ask(host, at, 0, actions);
            taken++;
        } else if (lock_state(host, at) == LOCK_GRANTED && hub_lease_is_safe(host) &&
                   !(word & (HFI_W_HOLDER | HFI_W_WAITERS | HFI_W_CLOSED))) {
            hfi_recall(lock_actor(host, at), at.slot, 0);
            attend_lock(host, at, actions);
            taken++;
        }
    }
}
