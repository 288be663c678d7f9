/* What a rung bell asks for: see attend.h. */
#include "attend.h"

#include "clients.h"
#include "grants.h"
#include "holds.h"
#include "limits.h"
#include "openings.h"
#include "pending.h"
#include "requests.h"
#include "slots.h"
#include "state.h"
#include "watches.h"
#include "words.h"

enum {
    RECLAIM_SCAN = 256,
    RECLAIM_MAX = 4,
};

void attend_opening(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    if (!lock_is_named(lock_at(host, at))) {
        return;
    }
    if (!(atomic_load(lock_word(host, at)) & HFI_W_CLOSED)) {
        attend_lock(host, at, actions); /* a give-back may wait for it */
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

/* A word that names somebody who cannot hold: a dead process, or nobody at all. */
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
    uint32_t seat = handle == NONE ? HFI_SEAT_NONE : host->handles[handle].seat;
    if (holder == HFI_HOLDER_AGENT) {
        hfi_evict(lock_actor(host, at), at.slot, holder, word & HFI_W_TOKEN, 0);
    } else if (seat == HFI_SEAT_NONE || !hfi_pass_on(lock_actor(host, at), at.slot, holder, seat)) {
        hold_evict(host, at, holder, word & HFI_W_TOKEN, hold_delay_ms(host, at, holder),
                   HOST_LOSS_DEATH, actions);
    }
}

bool attend_word_is_awaited(const struct host *host, struct lock_ref at)
{
    return atomic_load(lock_word(host, at)) & (HFI_W_WAITERS | HFI_W_BARGERS);
}

bool attend_is_awaited(const struct host *host, struct lock_ref at)
{
    return attend_word_is_awaited(host, at) || pending_is_for(host, at);
}

/* Whether its grant has to be asked for. */
static bool lock_is_missing(const struct host *host, struct lock_ref at)
{
    const struct lock *lock = lock_at(host, at);
    return (lock->state == LOCK_IDLE && !lock->full && attend_is_awaited(host, at)) ||
           (lock->state == LOCK_ADOPTED && lock->request == 0 &&
            (lock->mode != HFI_GRANT_NONE || attend_is_awaited(host, at))) ||
           (lock->request != 0 && request_is_kept(host, request_of(host, at)));
}

void attend_unwanted(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    const struct lock *lock = lock_at(host, at);
    if (attend_is_awaited(host, at)) {
        if (!lock->full) {
            grant_ask(host, at, 0, actions);
        }
    } else if (lock->handles == NONE && !clients_unknown(host)) {
        slot_unmake(host, at, actions);
    }
}

void attend_lock(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    if (!lock_is_named(lock)) {
        return;
    }
    word_repair(host, at, actions);
    if (clients_unknown(host)) {
        limits_find(host, at);
    }
    attend_holder(host, at, actions);
    uint64_t word = atomic_load(lock_word(host, at));
    if (lock_is_granted(lock)) {
        grant_attend(host, at, actions);
    } else if (lock->state == LOCK_ASKING) {
        grant_ask_anew(host, at, actions);
    } else if (lock_is_missing(host, at)) {
        grant_ask(host, at, 0, actions);
    }
    limits_attend(host, at);
    if ((word & HFI_W_WATCHED) && lock_is_named(lock_at(host, at))) {
        watch_bell_rang(host, at);
    }
}

void attend_reclaim(struct host *host, uint32_t index, struct host_actions *actions)
{
    struct space *space = &host->spaces[index];
    uint32_t free = space->region.slot_count - space->slots_used + space->free_slots;
    if (free > space->region.slot_count / 16 || clients_unknown(host)) {
        return;
    }
    uint32_t taken = 0;
    for (uint32_t i = 0; i < RECLAIM_SCAN && i < space->slots_used && taken < RECLAIM_MAX; i++) {
        space->reclaim_hand = space->reclaim_hand + 1 < space->slots_used ? space->reclaim_hand + 1
                                                                          : 0;
        struct lock_ref at = {index, space->reclaim_hand};
        struct lock *lock = lock_at(host, at);
        if (!lock_is_named(lock) || lock->handles != NONE) {
            continue;
        }
        uint64_t word = atomic_load(lock_word(host, at));
        if (lock->state == LOCK_IDLE) {
            slot_unmake(host, at, actions);
            taken++;
        } else if (lock->state == LOCK_ADOPTED && lock->mode == HFI_GRANT_NONE) {
            grant_ask(host, at, 0, actions); /* first to know what it has */
            taken++;
        } else if (lock->state == LOCK_GRANTED && hub_lease_is_safe(host) &&
                   !(word & (HFI_W_HOLDER | HFI_W_WAITERS | HFI_W_CLOSED))) {
            hfi_recall(lock_actor(host, at), at.slot, 0);
            attend_lock(host, at, actions);
            taken++;
        }
    }
}
