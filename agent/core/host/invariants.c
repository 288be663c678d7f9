/*
 * Whether the host core's private state contradicts itself. Every list is walked from both of its
 * ends, every count is counted again. What lies in the region is not looked at: that may be
 * anything. For tests and the simulator; each call costs as much as there is state.
 */
#include "burials.h"
#include "clients.h"
#include "delays.h"
#include "hub.h"
#include "limits.h"
#include "listing.h"
#include "openings.h"
#include "pending.h"
#include "requests.h"
#include "seats.h"
#include "state.h"
#include "watches.h"

static void check_handle(const struct host *host, uint32_t index)
{
    const struct handle *handle = &host->handles[index];
    const struct space *space = &host->spaces[handle->space];
    HF_CHECK(handle->flags & HANDLE_USED);
    HF_CHECK(handle->client < clients_capacity(&host->config));
    HF_CHECK(client_flags(host, handle->client) & CLIENT_USED);
    HF_CHECK(client_has_id(host, handle->client, handle->holder));
    if (handle->flags & HANDLE_LEFT) {
        HF_CHECK(handle->slot == NONE && handle->seat == HFI_SEAT_NONE);
        HF_CHECK(!(handle->flags & (HANDLE_FOUND | HANDLE_LIMITED)));
        return;
    }
    HF_CHECK(handle->space < host->config.namespace_count && space->used);
    HF_CHECK(handle->slot < space->slots_used);
    HF_CHECK(space->locks[handle->slot].state != LOCK_FREE);
    if (handle->seat != HFI_SEAT_NONE) {
        HF_CHECK(seat_is_of(host, (struct lock_ref){handle->space, handle->slot}, handle->seat));
        HF_CHECK(seat_holder(host, handle->space, handle->seat) == handle->holder);
        HF_CHECK(seat_handle(host, handle->space, handle->seat) == index);
    }
    HF_CHECK(handle->seat != HFI_SEAT_NONE || !(handle->flags & HANDLE_LIMITED));
    struct lock_ref at = {handle->space, handle->slot};
    HF_CHECK(!delays_are_noted(host) || (handle->flags & (HANDLE_ZOMBIE | HANDLE_FOUND)) ||
             !lock_is_named(lock_at(host, at)) ||
             delay_noted_ms(host, at) >= handle->lock_delay_ms);
}

/* The handles of each client, from both ends. */
static void check_client_handles(const struct host *host, uint32_t handles_used)
{
    uint32_t handles = 0;
    for (uint32_t i = 0; i < clients_capacity(&host->config); i++) {
        uint32_t previous = NONE;
        uint32_t before = handles;
        for (uint32_t at = host->client_handles[i].first; at != NONE;
             at = host->handles[at].client_next) {
            HF_CHECK(client_flags(host, i) & CLIENT_USED);
            HF_CHECK(at < host->handles_used && host->handles[at].client == i);
            HF_CHECK(host->handles[at].client_previous == previous);
            HF_CHECK(++handles <= handles_used);
            previous = at;
        }
        HF_CHECK(handles - before == host->client_handles[i].count);
    }
    HF_CHECK(handles == handles_used && handles == host->handle_count);
}

/* The handles of one lock; they have different ids. */
static uint32_t check_lock_handles(const struct host *host, struct lock_ref at)
{
    const struct lock *lock = lock_at(host, at);
    uint32_t count = 0;
    for (uint32_t i = lock->handles; i != NONE; i = host->handles[i].lock_next) {
        HF_CHECK(i < host->handles_used && host->handles[i].slot == at.slot);
        HF_CHECK(host->handles[i].space == at.space);
        HF_CHECK(handle_of(host, at, host->handles[i].holder) == i);
        HF_CHECK(++count <= host->config.limits.handles);
    }
    return count;
}

static void check_lock_request(const struct host *host, struct lock_ref at)
{
    const struct lock *lock = lock_at(host, at);
    const struct request *request = request_of(host, at);
    bool waits = lock->state == LOCK_ASKING || lock->state == LOCK_AMENDING ||
                 lock->state == LOCK_RETURNING;
    HF_CHECK(lock->state == LOCK_ADOPTED || waits == (request != NULL));
    if (request == NULL) {
        return;
    }
    HF_CHECK(request_kind(request) == (lock->state == LOCK_AMENDING    ? MESSAGE_AMEND
                                       : lock->state == LOCK_RETURNING ? MESSAGE_GIVE_BACK
                                                                       : MESSAGE_ACQUIRE));
}

static void check_lock(const struct host *host, struct lock_ref at)
{
    const struct lock *lock = lock_at(host, at);
    check_lock_request(host, at);
    if (lock->state == LOCK_FREE) {
        HF_CHECK(lock->handles == NONE);
        HF_CHECK(seats_first_block(host, at) == 0);
        return;
    }
    if (lock->state == LOCK_RETIRED) {
        return; /* without handles too: retired by the agent before */
    }
    size_t size = 0;
    struct lock_ref found = {0};
    const uint8_t *name = names_bytes(host->names, lock->name, &size);
    HF_CHECK(lock_find(host, name, size, &found));
    HF_CHECK(found.space == at.space && found.slot == at.slot);
    if (lock_is_granted(lock)) {
        HF_CHECK(lock->mode != HFI_GRANT_NONE && lock->token_last != 0);
        HF_CHECK(lock->ballot != 0 && lock->sequence != 0);
    }
}

static uint32_t check_space(const struct host *host, uint32_t index)
{
    const struct space *space = &host->spaces[index];
    uint32_t handles = 0;
    uint32_t free = 0;
    uint32_t chained = 0;
    HF_CHECK(space->slots_used <= space->region.slot_count);
    for (uint32_t slot = 0; slot < space->slots_used; slot++) {
        struct lock_ref at = {index, slot};
        free += space->locks[slot].state == LOCK_FREE;
        check_lock(host, at);
        handles += check_lock_handles(host, at);
    }
    for (uint32_t slot = space->free_slot; slot != 0; slot = space->locks[slot - 1].name) {
        HF_CHECK(slot <= space->slots_used && space->locks[slot - 1].state == LOCK_FREE);
        HF_CHECK(++chained <= space->free_slots);
    }
    HF_CHECK(chained == space->free_slots);
    HF_CHECK(!host->started || free == chained);
    seats_check(host, index);
    return handles;
}

static void check_counts(const struct host *host, uint32_t zombies)
{
    HF_CHECK(zombies == host->zombie_count);
}

static uint32_t named_locks(const struct host *host)
{
    uint32_t named = 0;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        const struct space *space = &host->spaces[i];
        uint32_t first = space->leaving ? space->leave_slot : 0;
        for (uint32_t slot = first; slot < space->slots_used; slot++) {
            named += lock_is_named(&space->locks[slot]);
        }
    }
    return named;
}

void host_check_invariants(const struct host *host)
{
    uint32_t used = 0;
    uint32_t zombies = 0;
    uint32_t of_locks = 0; /* or of none, its region being given up */
    for (uint32_t i = 0; i < host->handles_used; i++) {
        const struct handle *handle = &host->handles[i];
        if (handle->flags & HANDLE_USED) {
            check_handle(host, i);
            used++;
            of_locks += (handle->flags & HANDLE_LEFT) != 0;
            zombies += (handle->flags & HANDLE_ZOMBIE) != 0;
        }
    }
    uint32_t free = 0;
    for (uint32_t i = host->free_handle; i != NONE; i = host->handles[i].slot) {
        HF_CHECK(i < host->handles_used && !(host->handles[i].flags & HANDLE_USED));
        HF_CHECK(++free <= host->handles_used);
    }
    HF_CHECK(used + free == host->handles_used);
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        of_locks += host->spaces[i].used ? check_space(host, i) : 0;
    }
    HF_CHECK(of_locks == used);
    check_client_handles(host, used);
    clients_check(host);
    openings_check(host);
    requests_check(host);
    watches_check(host);
    listing_check(host, named_locks(host));
    check_counts(host, zombies);
    limits_check(host);
    pending_check(host);
    burials_check(host);
}
