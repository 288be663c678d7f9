/* Which name has which slot: see slots.h. */
#include "slots.h"

#include "clients.h"
#include "listing.h"
#include "publish.h"
#include "requests.h"
#include "seats.h"
#include "state.h"
#include "watches.h"

/*
 * A slot that is nobody's, its word reset. NONE: all are in use. One that the agent before this one
 * retired may still be open somewhere: it stays retired for as long as the region is in use.
 */
static uint32_t slot_take(struct host *host, uint32_t index)
{
    struct space *space = &host->spaces[index];
    uint32_t slot = space->free_slot - 1;
    if (space->free_slot != 0) {
        space->free_slot = space->locks[slot].name;
        space->free_slots--;
    } else {
        while (space->slots_used < space->region.slot_count &&
               hfi_word_mode(atomic_load(&space->region.words[space->slots_used].word)) ==
                   HFI_GRANT_RETIRED) {
            space->locks[space->slots_used].handles = NONE;
            lock_set_state(host, (struct lock_ref){index, space->slots_used++}, LOCK_RETIRED);
        }
        if (space->slots_used == space->region.slot_count) {
            return NONE;
        }
        slot = space->slots_used++;
    }
    struct hfi_slot *shared = &space->region.slots[slot];
    /* Nobody has it open: a plain reset, seq_cst, before anybody is told of the slot. */
    atomic_store(&space->region.words[slot].word, 0);
    space->guards[slot] = (struct guard){0};
    atomic_store(&shared->token_top, 0);
    atomic_store(&shared->closed_until_ns, 0);
    atomic_store(&shared->blocks, 0);
    seats_forget_slot(host, (struct lock_ref){index, slot});
    return slot;
}

static void slot_free(struct host *host, struct lock_ref at)
{
    struct space *space = &host->spaces[at.space];
    struct lock *lock = lock_at(host, at);
    seats_release(host, at);
    atomic_store(&space->region.words[at.slot].word, 0);
    space->guards[at.slot] = (struct guard){0};
    lock_set_state(host, at, LOCK_FREE);
    *lock = (struct lock){.handles = NONE, .name = space->free_slot};
    space->free_slot = at.slot + 1;
    space->free_slots++;
}

bool slot_make(struct host *host, uint32_t index, const uint8_t *name, size_t size,
               struct lock_ref *at)
{
    struct space *space = &host->spaces[index];
    uint32_t id = names_hold(host->names, name, size);
    uint32_t slot = id == NAMES_NONE ? NONE : slot_take(host, index);
    if (slot == NONE) {
        if (id != NAMES_NONE) {
            names_drop(host->names, id);
        }
        return false;
    }
    *at = (struct lock_ref){index, slot};
    struct lock *lock = lock_at(host, *at);
    *lock = (struct lock){.name = id, .handles = NONE};
    lock_set_state(host, *at, LOCK_IDLE);
    if (!hfi_index_put(&space->region, slot, hfi_name_hash((const char *)name, size))) {
        hfi_index_remove(&space->region, slot, hfi_name_hash((const char *)name, size));
        names_drop(host->names, id);
        slot_free(host, *at);
        return false;
    }
    names_set_lock(host->names, id, lock_pack(*at));
    listing_add(host, *at);
    if (watch_is_on(host, index, name, size)) {
        lock_guard(host, *at)->watched = 1;
        atomic_fetch_or(lock_word(host, *at), HFI_W_WATCHED);
    }
    request_inherit(host, *at);
    return true;
}

bool slot_load(struct host *host, struct lock_ref at, const uint8_t *name, size_t size)
{
    struct space *space = &host->spaces[at.space];
    uint32_t id = names_hold(host->names, name, size);
    if (id == NAMES_NONE) {
        return false;
    }
    *lock_at(host, at) = (struct lock){.name = id, .handles = NONE};
    lock_set_state(host, at, LOCK_IDLE);
    names_set_lock(host->names, id, lock_pack(at));
    listing_add(host, at);
    space->slots_used = at.slot >= space->slots_used ? at.slot + 1 : space->slots_used;
    return true;
}

void slot_persist(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct host_action *action = hub_emit(actions, HOST_PERSIST_SLOT);
    action->as.slot.region = at.space;
    action->as.slot.slot = at.slot;
    lock_name(host, at, &action->as.slot.name);
}

/* The name gives its slot up. */
void slot_unmake(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    struct host_action *action = hub_emit(actions, HOST_PERSIST_NO_SLOT);
    HF_CHECK(lock->request == 0);
    watch_slot_goes(host, at);
    action->as.slot.region = at.space;
    action->as.slot.slot = at.slot;
    hfi_index_remove(&host->spaces[at.space].region, at.slot, lock_hash(host, at));
    publish_gone(host, at);
    listing_remove(host, at);
    names_set_lock(host->names, lock->name, NAMES_NONE);
    names_drop(host->names, lock->name);
    slot_free(host, at);
}

void slot_unused(struct host *host, struct lock_ref at)
{
    const struct lock *lock = lock_at(host, at);
    if (lock->handles != NONE || clients_unknown(host)) {
        return;
    }
    if (lock->state == LOCK_RETIRED) {
        slot_free(host, at);
    } else if (seats_are_empty(host, at)) {
        /* The name keeps its slot, but seats are fewer than slots: others may need them. */
        seats_release(host, at);
    }
}

void slots_known(struct host *host)
{
    if (!host->started || clients_unknown(host)) {
        return;
    }
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        const struct space *space = &host->spaces[i];
        for (uint32_t slot = 0; space->used && slot < space->slots_used; slot++) {
            struct lock_ref at = {i, slot};
            if (seats_first_block(host, at) != 0) {
                slot_unused(host, at);
            }
        }
    }
}

/*
 * The new tokens have other high bits than the slot's: the name gets another slot. Who waits in
 * the old one is told that it is used up, and opens the name again.
 */
bool slot_move(struct host *host, struct lock_ref *at, struct host_actions *actions)
{
    struct lock *old = lock_at(host, *at);
    struct space *space = &host->spaces[at->space];
    uint32_t slot = slot_take(host, at->space);
    if (slot == NONE) {
        return false;
    }
    struct lock_ref to = {at->space, slot};
    struct lock *lock = lock_at(host, to);
    uint64_t hash = lock_hash(host, *at);
    publish_gone(host, *at);
    listing_remove(host, *at);
    struct lock moved = *old;
    lock_set_state(host, to, LOCK_IDLE); /* what is granted to it under these tokens goes back */
    moved.state = lock->state;
    moved.handles = NONE;
    moved.token_last = 0;
    *lock = moved;
    hfi_index_remove(&space->region, at->slot, hash);
    hfi_index_put(&space->region, slot, hash);
    names_set_lock(host->names, lock->name, lock_pack(to));
    listing_add(host, to);
    if (atomic_load(lock_word(host, *at)) & HFI_W_WATCHED) {
        lock_guard(host, to)->watched = 1;
        atomic_fetch_or(lock_word(host, to), HFI_W_WATCHED);
    }
    struct host_action *action = hub_emit(actions, HOST_PERSIST_NO_SLOT);
    action->as.slot.region = at->space;
    action->as.slot.slot = at->slot;
    slot_persist(host, to, actions);
    lock_revoke(host, *at, HFI_GRANT_RETIRED);
    lock_set_state(host, *at, LOCK_RETIRED);
    old->name = 0;
    lock_log(host, actions, "slot_retired", to, 0, at->slot);
    slot_unused(host, *at);
    watch_changed(host, to); /* what the old slot was not told yet, too */
    *at = to;
    return true;
}

void slot_leave(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    if (lock_is_named(lock)) {
        struct host_action *action = hub_emit(actions, HOST_PERSIST_NO_SLOT);
        action->as.slot.region = at.space;
        action->as.slot.slot = at.slot;
        watch_slot_goes(host, at);
        publish_gone(host, at);
        listing_remove(host, at);
        names_set_lock(host->names, lock->name, NAMES_NONE);
        names_drop(host->names, lock->name);
    }
    if (lock_is_named(lock) && lock->state != LOCK_IDLE) {
        lock_set_state(host, at, LOCK_IDLE);
    }
    if (lock->state != LOCK_FREE) {
        lock_set_state(host, at, LOCK_FREE);
    }
    *lock = (struct lock){0};
    *lock_guard(host, at) = (struct guard){0};
    publish_leave(host, at);
    watch_lock_left(host, at);
    seats_forget_slot(host, at);
}

void slot_adopt_unnamed(struct host *host, struct lock_ref at)
{
    struct space *space = &host->spaces[at.space];
    struct lock *lock = lock_at(host, at);
    if (hfi_word_mode(atomic_load(lock_word(host, at))) == HFI_GRANT_RETIRED) {
        *lock = (struct lock){.handles = NONE};
        lock_set_state(host, at, LOCK_RETIRED);
    } else if (lock->state == LOCK_FREE) {
        atomic_store(lock_word(host, at), 0);
        *lock = (struct lock){.handles = NONE, .name = space->free_slot};
        space->free_slot = at.slot + 1;
        space->free_slots++;
    }
}
