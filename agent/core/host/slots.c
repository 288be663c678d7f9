/* Which name has which slot: see slots.h. */
#include "slots.h"

#include "clients.h"
#include "full.h"
#include "listing.h"
#include "locks.h"
#include "polled.h"
#include "publish.h"
#include "requests.h"
#include "seats.h"
#include "spaces.h"
#include "watches.h"

#include "proto/ending.h"

/* Takes a free slot and resets its word. Returns NONE if all slots are in use. */
static uint32_t slot_take(struct host *host, uint32_t index)
{
    struct lock_ref at = {index, lock_take_slot(host, index, clients_unknown(host))};
    if (at.slot == NONE) {
        return NONE;
    }
    struct hfi_slot *shared = &space_region(host, index)->slots[at.slot];
    /* seq_cst, though no order is needed: no process has the slot open, and no process learns of
     * the slot before this reset. */
    atomic_store(lock_word(host, at), 0);
    lock_forget_word(host, at);
    atomic_store(&shared->token_top, 0);
    atomic_store(&shared->closed_until_ns, 0);
    atomic_store(&shared->blocks, 0);
    hfi_ending_forget(space_region(host, index), at.slot);
    seats_forget_slot(host, at);
    return at.slot;
}

static void slot_free(struct host *host, struct lock_ref at)
{
    seats_release(host, at);
    atomic_store(lock_word(host, at), 0);
    lock_free(host, at);
}

static void watch_mark_slot(struct host *host, struct lock_ref at)
{
    lock_set_watched(host, at, true);
    atomic_fetch_or(lock_word(host, at), HFI_W_WATCHED);
}

/* Drops the lock's reference to its name. */
static void name_drop(struct host *host, struct lock_ref at)
{
    names_set_lock(host->names, lock_name_id(host, at), NAMES_NONE);
    names_drop(host->names, lock_name_id(host, at));
}

bool slot_make(struct host *host, uint32_t index, const uint8_t *name, size_t size,
               struct lock_ref *at)
{
    const struct hfi_region *region = space_region(host, index);
    uint64_t hash = hfi_name_hash((const char *)name, size);
    uint32_t id = names_hold(host->names, name, size);
    uint32_t slot = id == NAMES_NONE ? NONE : slot_take(host, index);
    if (slot == NONE) {
        if (id != NAMES_NONE) {
            names_drop(host->names, id);
            (void)full(host, HFI_TABLE_LOCKS, host->config.limits.locks);
        } else {
            (void)full(host, HFI_TABLE_NAMES, 0);
        }
        return false;
    }
    *at = (struct lock_ref){index, slot};
    lock_make(host, *at, id);
    if (!hfi_index_put(region, slot, hash)) {
        hfi_index_remove(region, slot, hash);
        name_drop(host, *at);
        slot_free(host, *at);
        (void)full(host, HFI_TABLE_INDEX, 0);
        return false;
    }
    listing_add(host, *at);
    if (watch_is_on(host, index, name, size)) {
        watch_mark_slot(host, *at);
    }
    request_inherit(host, *at);
    return true;
}

bool slot_load(struct host *host, struct lock_ref at, const uint8_t *name, size_t size)
{
    uint32_t id = names_hold(host->names, name, size);
    if (id == NAMES_NONE) {
        return false;
    }
    lock_make(host, at, id);
    listing_add(host, at);
    return true;
}

void slot_persist(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct host_action *action = hub_emit(actions, HOST_PERSIST_SLOT);
    action->as.slot.region = at.space;
    action->as.slot.slot = at.slot;
    lock_name(host, at, &action->as.slot.name);
}

void slot_unmake(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct host_action *action = hub_emit(actions, HOST_PERSIST_NO_SLOT);
    HF_CHECK(lock_request(host, at) == 0);
    watch_slot_goes(host, at);
    action->as.slot.region = at.space;
    action->as.slot.slot = at.slot;
    hfi_index_remove(space_region(host, at.space), at.slot, lock_hash(host, at));
    publish_gone(host, at);
    listing_remove(host, at);
    name_drop(host, at);
    slot_free(host, at);
}

void slot_unused(struct host *host, struct lock_ref at)
{
    if (lock_handles(host, at) != NONE || clients_unknown(host)) {
        return;
    }
    if (lock_state(host, at) == LOCK_RETIRED) {
        slot_free(host, at);
    } else if (seats_are_empty(host, at)) {
        /* The name keeps its slot, but the slot's seats are freed: there are fewer seats than
         * slots, and other locks may need them. */
        seats_release(host, at);
    }
}

void slots_known(struct host *host)
{
    if (!host->started || clients_unknown(host)) {
        return;
    }
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        for (uint32_t slot = 0; space_is_used(host, i) && slot < locks_end(host, i); slot++) {
            struct lock_ref at = {i, slot};
            if (seats_first_block(host, at) != 0 || lock_state(host, at) == LOCK_RETIRED) {
                slot_unused(host, at);
            }
        }
    }
}

bool slot_move(struct host *host, struct lock_ref *at, struct host_actions *actions)
{
    const struct hfi_region *region = space_region(host, at->space);
    uint32_t slot = slot_take(host, at->space);
    if (slot == NONE) {
        return false;
    }
    struct lock_ref to = {at->space, slot};
    uint64_t hash = lock_hash(host, *at);
    publish_gone(host, *at);
    listing_remove(host, *at);
    /* from here on the lock is IDLE in its new slot */
    lock_move(host, *at, to);
    hfi_index_remove(region, at->slot, hash);
    hfi_index_put(region, slot, hash);
    listing_add(host, to);
    if (atomic_load(lock_word(host, *at)) & HFI_W_WATCHED) {
        watch_mark_slot(host, to);
    }
    struct host_action *action = hub_emit(actions, HOST_PERSIST_NO_SLOT);
    action->as.slot.region = at->space;
    action->as.slot.slot = at->slot;
    slot_persist(host, to, actions);
    lock_revoke(host, *at, HFI_GRANT_RETIRED, HFI_ENDING_SESSION);
    polled_attend(host, *at);
    lock_retire(host, *at);
    lock_log(host, actions, "slot_retired", to, 0, at->slot);
    slot_unused(host, *at);
    /* this also reports changes of the old slot that were not reported yet */
    watch_changed(host, to);
    *at = to;
    return true;
}

uint64_t slot_token_top(const struct host *host, struct lock_ref at)
{
    uint64_t last = lock_token_last(host, at);
    /* the agent's own record counts, if there is one; a process can write to the region */
    return last != 0 ? last : atomic_load(&space_region(host, at.space)->slots[at.slot].token_top);
}

bool slot_renew(struct host *host, struct lock_ref *at, struct host_actions *actions)
{
    uint64_t generation = host->config.voters_number / MESSAGE_NUMBERS;
    uint64_t top = slot_token_top(host, *at);
    if (lock_state(host, *at) != LOCK_IDLE || top == 0 ||
        top / MESSAGE_TOKEN_GENERATION >= generation || !space_is_sound(host, at->space) ||
        !hub_lease_is_safe(host) || !slot_move(host, at, actions)) {
        return false;
    }
    /* With this value, hf_check_sequencer_local() goes on refusing the tokens of the older
     * generation. It is the present generation's token 0, which no process ever gets. */
    atomic_store(&space_region(host, at->space)->slots[at->slot].token_top,
                 generation * MESSAGE_TOKEN_GENERATION);
    return true;
}

void slot_leave(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    if (lock_is_named(host, at)) {
        struct host_action *action = hub_emit(actions, HOST_PERSIST_NO_SLOT);
        action->as.slot.region = at.space;
        action->as.slot.slot = at.slot;
        watch_slot_goes(host, at);
        publish_gone(host, at);
        listing_remove(host, at);
        name_drop(host, at);
    }
    lock_leave(host, at);
    publish_leave(host, at);
    watch_lock_left(host, at);
    seats_forget_slot(host, at);
}

void slot_adopt_unnamed(struct host *host, struct lock_ref at)
{
    if (hfi_word_mode(atomic_load(lock_word(host, at))) == HFI_GRANT_RETIRED) {
        lock_adopt_retired(host, at);
    } else if (lock_state(host, at) == LOCK_FREE) {
        atomic_store(lock_word(host, at), 0);
        lock_adopt_free(host, at);
    }
}
