/*
 * Handles: which client has which lock open, under which holder id. How one begins is in opens.c,
 * how it ends in burials.c.
 *
 * Each handle stands in two lists: its client's, and its lock's. Within one lock each has a holder
 * id of its own, so that a lock word names one handle and no other.
 */
#include "clients.h"
#include "delays.h"
#include "hub.h"
#include "seats.h"
#include "slots.h"
#include "state.h"

uint32_t handle_of(const struct host *host, struct lock_ref at, uint32_t holder)
{
    uint32_t handle = lock_at(host, at)->handles;
    for (uint32_t i = 0; handle != NONE && i <= host->config.limits.handles; i++) {
        if (host->handles[handle].holder == holder) {
            return handle;
        }
        handle = host->handles[handle].lock_next;
    }
    return NONE;
}

uint32_t handle_new(struct host *host, uint32_t client, struct lock_ref at)
{
    uint32_t handle = host->free_handle;
    if (handle != NONE) {
        host->free_handle = host->handles[handle].slot;
    } else if (host->handles_used < host->config.limits.handles) {
        handle = host->handles_used++;
    } else {
        return NONE;
    }
    struct client_handles *who = &host->client_handles[client];
    struct lock *lock = lock_at(host, at);
    host->handles[handle] = (struct handle){
        .slot = at.slot,
        .space = (uint8_t)at.space,
        .seat = HFI_SEAT_NONE,
        .client = (uint16_t)client,
        .client_next = who->first,
        .client_previous = NONE,
        .lock_next = lock->handles,
        .flags = HANDLE_USED,
    };
    if (who->first != NONE) {
        host->handles[who->first].client_previous = handle;
    }
    who->first = handle;
    who->count++;
    host->handle_count++;
    lock->handles = handle;
    return handle;
}

static void lock_unlink(struct host *host, struct lock_ref at, uint32_t handle)
{
    uint32_t *link = &lock_at(host, at)->handles;
    for (uint32_t i = 0; *link != handle && i <= host->config.limits.handles; i++) {
        link = &host->handles[*link].lock_next;
        host->walked++;
    }
    *link = host->handles[handle].lock_next;
}

void handle_free(struct host *host, uint32_t handle)
{
    struct handle *who = &host->handles[handle];
    struct lock_ref at = {who->space, who->slot};
    struct client_handles *client = &host->client_handles[who->client];
    bool left = who->flags & HANDLE_LEFT;
    if (!left) {
        seat_take_back(host, at.space, who->seat);
    }
    if (client->next_walked == handle) {
        client->next_walked = who->client_next;
    }
    if (who->client_previous != NONE) {
        host->handles[who->client_previous].client_next = who->client_next;
    } else {
        client->first = who->client_next;
    }
    if (who->client_next != NONE) {
        host->handles[who->client_next].client_previous = who->client_previous;
    }
    if (!left) {
        lock_unlink(host, at, handle);
    }
    client->count--;
    host->handle_count--;
    delay_gone(host, who->lock_delay_ms);
    if (who->flags & HANDLE_ZOMBIE) {
        host->zombie_count--;
    }
    *who = (struct handle){.slot = host->free_handle};
    host->free_handle = handle;
    if (!left) {
        slot_unused(host, at);
    }
}

bool handle_may_take(const struct host *host, const struct handle *who)
{
    return (who->flags & HANDLE_USED) && !(who->flags & (HANDLE_FOUND | HANDLE_LEFT)) &&
           (!(who->flags & HANDLE_ZOMBIE) || client_may_use_closed(host, who->client));
}

uint32_t handle_delay_ms(const struct host *host, const struct handle *who)
{
    struct lock_ref at = {who->space, who->slot};
    uint32_t noted_ms = delays_are_noted(host) && (who->flags & HANDLE_ZOMBIE)
                            ? delay_noted_ms(host, at)
                            : UINT32_MAX;
    return who->lock_delay_ms < noted_ms ? who->lock_delay_ms : noted_ms;
}

void handles_settle_delays(struct host *host)
{
    uint32_t hand = 0;
    if (clients_unknown(host) || !delays_count_begin(host, &hand)) {
        return;
    }
    uint32_t end = hand + HOST_DELAYS_PIECE;
    end = end < host->handles_used ? end : host->handles_used;
    for (uint32_t i = hand; i < end; i++) {
        const struct handle *who = &host->handles[i];
        struct lock_ref at = {who->space, who->slot};
        if (who->lock_delay_ms > LOCK_DELAY_UNKNOWN_MS && handle_may_take(host, who) &&
            lock_is_named(lock_at(host, at))) {
            delays_count(host, at, handle_delay_ms(host, who));
        }
    }
    delays_count_end(host, end < host->handles_used ? end : 0);
}

uint32_t handle_check_own(const struct host *host, uint32_t client, uint32_t handle)
{
    return handle < host->handles_used && (host->handles[handle].flags & HANDLE_USED) &&
                   !(host->handles[handle].flags & (HANDLE_ZOMBIE | HANDLE_FOUND)) &&
                   host->handles[handle].client == client
               ? handle
               : NONE;
}

/* How many handles all clients of a user have. Dead and hung-up clients count. */
static uint32_t share_of(const struct host *host, int64_t account)
{
    uint32_t share = 0;
    for (uint32_t i = 0; i < clients_capacity(&host->config); i++) {
        if ((client_flags(host, i) & CLIENT_USED) && client_peer(host, i)->account == account) {
            share += host->client_handles[i].count;
        }
    }
    return share;
}

bool handles_may_open(const struct host *host, uint32_t client)
{
    int64_t account = client_peer(host, client)->account;
    uint32_t half = (host->config.limits.handles + 1) / 2;
    return account == 0 || host->handle_count < half || share_of(host, account) < half;
}

bool handles_has_any(const struct host *host, uint32_t client)
{
    return host->client_handles[client].first != NONE;
}

void handles_walk_begin(struct host *host, uint32_t client)
{
    host->client_handles[client].next_walked = host->client_handles[client].first;
}

uint32_t handles_walk_next(struct host *host, uint32_t client)
{
    uint32_t handle = host->client_handles[client].next_walked;
    if (handle != NONE) {
        host->client_handles[client].next_walked = host->handles[handle].client_next;
    }
    return handle;
}

uint32_t handle_give_seat(struct host *host, uint32_t handle)
{
    struct handle *who = &host->handles[handle];
    who->seat = seat_give(host, (struct lock_ref){who->space, who->slot}, who->holder, handle);
    return who->seat;
}
