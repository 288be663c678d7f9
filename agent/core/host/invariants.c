/*
 * Checks that the host core's private state does not contradict itself. Every list is compared with
 * the fields of its entries, and every count is counted again. The contents of regions are not
 * looked at, because processes may write anything into them. For tests and the simulator: each call
 * walks through the whole state.
 */
#include "burials.h"
#include "clients.h"
#include "delays.h"
#include "handles.h"
#include "hub.h"
#include "limits.h"
#include "listing.h"
#include "locks.h"
#include "openings.h"
#include "pending.h"
#include "requests.h"
#include "seats.h"
#include "spaces.h"
#include "watches.h"

static void check_handle(const struct host *host, uint32_t handle)
{
    struct lock_ref at = handle_lock(host, handle);
    uint32_t client = handle_client(host, handle);
    uint32_t flags = handle_flags(host, handle);
    uint32_t seat = handle_seat(host, handle);
    HF_CHECK(client < clients_capacity(&host->config));
    HF_CHECK(client_flags(host, client) & CLIENT_USED);
    HF_CHECK(client_has_id(host, client, handle_holder(host, handle)));
    if (flags & HANDLE_LEFT) {
        HF_CHECK(at.slot == NONE && seat == HFI_SEAT_NONE);
        HF_CHECK(!(flags & (HANDLE_FOUND | HANDLE_LIMITED)));
        return;
    }
    HF_CHECK(at.space < host->config.namespace_count && space_is_used(host, at.space));
    HF_CHECK(at.slot < locks_end(host, at.space));
    HF_CHECK(lock_state(host, at) != LOCK_FREE);
    if (seat != HFI_SEAT_NONE) {
        HF_CHECK(seat_is_of(host, at, seat));
        HF_CHECK(seat_holder(host, at.space, seat) == handle_holder(host, handle));
        HF_CHECK(seat_handle(host, at.space, seat) == handle);
    }
    HF_CHECK(seat != HFI_SEAT_NONE || !(flags & HANDLE_LIMITED));
    HF_CHECK(!delays_are_noted(host) || (flags & (HANDLE_ZOMBIE | HANDLE_FOUND)) ||
             !lock_is_named(host, at) || delay_noted_ms(host, at) >= handle_delay_ms(host, handle));
}

/* Checks the handles of one lock: they have different ids. Returns how many there are. */
static uint32_t check_lock_handles(const struct host *host, struct lock_ref at)
{
    uint32_t count = 0;
    for (uint32_t i = lock_handles(host, at); i != NONE; i = handle_next(host, i)) {
        HF_CHECK(i < handles_end(host));
        HF_CHECK(handle_lock(host, i).slot == at.slot && handle_lock(host, i).space == at.space);
        HF_CHECK(handle_of(host, at, handle_holder(host, i)) == i);
        HF_CHECK(++count <= host->config.limits.handles);
    }
    return count;
}

static void check_lock_request(const struct host *host, struct lock_ref at)
{
    const struct request *request = request_of(host, at);
    bool waits = lock_state(host, at) == LOCK_ASKING || lock_state(host, at) == LOCK_AMENDING ||
                 lock_state(host, at) == LOCK_RETURNING;
    HF_CHECK(lock_state(host, at) == LOCK_ADOPTED || waits == (request != NULL));
    if (request == NULL) {
        return;
    }
    HF_CHECK(request_kind(request) == (lock_state(host, at) == LOCK_AMENDING    ? MESSAGE_AMEND
                                       : lock_state(host, at) == LOCK_RETURNING ? MESSAGE_GIVE_BACK
                                                                                : MESSAGE_ACQUIRE));
}

static uint32_t check_space(const struct host *host, uint32_t index)
{
    uint32_t handles = 0;
    locks_check(host, index);
    for (uint32_t slot = 0; slot < locks_end(host, index); slot++) {
        struct lock_ref at = {index, slot};
        HF_CHECK(lock_state(host, at) != LOCK_FREE || seats_first_block(host, at) == 0);
        check_lock_request(host, at);
        handles += check_lock_handles(host, at);
    }
    seats_check(host, index);
    return handles;
}

static uint32_t named_locks(const struct host *host)
{
    uint32_t named = 0;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        for (uint32_t slot = space_left_slots(host, i); slot < locks_end(host, i); slot++) {
            named += lock_is_named(host, (struct lock_ref){i, slot});
        }
    }
    return named;
}

void host_check_invariants(const struct host *host)
{
    /* Counts handles that stand in a lock's list, and handles without a lock, whose region is given
     * up. */
    uint32_t of_locks = 0;
    handles_check(host);
    for (uint32_t i = 0; i < handles_end(host); i++) {
        if (handle_flags(host, i) & HANDLE_USED) {
            check_handle(host, i);
            of_locks += (handle_flags(host, i) & HANDLE_LEFT) != 0;
        }
    }
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        of_locks += space_is_used(host, i) ? check_space(host, i) : 0;
    }
    HF_CHECK(of_locks == handles_count(host));
    clients_check(host);
    openings_check(host);
    requests_check(host);
    watches_check(host);
    listing_check(host, named_locks(host));
    limits_check(host);
    pending_check(host);
    burials_check(host);
}
