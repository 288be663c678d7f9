/* Which client has which lock open: see handles.h. */
#include "handles.h"

#include "clients.h"
#include "delays.h"
#include "locks.h"
#include "notes.h"

struct handle {
    uint32_t slot; /* in a free handle: the next free handle; in a HANDLE_LEFT: NONE */
    uint32_t seat; /* HFI_SEAT_NONE: the handle has no seat */
    uint32_t client_next;
    uint32_t client_previous;
    uint32_t lock_next;
    uint32_t limit_ms; /* 0: none */
    uint16_t client;   /* index in clients */
    uint16_t holder;
    uint16_t lock_delay_ms;
    uint8_t space;
    uint8_t flags;
};
_Static_assert(sizeof(struct handle) == 32, "a handle costs 32 bytes");

/* The handles of one client. */
struct client_handles {
    uint32_t first;       /* the client's first handle; NONE: it has no handle */
    uint32_t next_walked; /* the handle at which a walk over the client's handles continues; NONE:
                           * the walk has ended */
    uint32_t count;
};

struct handles {
    struct handle *table;
    struct client_handles *of_client; /* by client */
    uint32_t free;                    /* the first free handle, or NONE */
    uint32_t end;                     /* handles from this index on were never used */
    uint32_t count;
    uint32_t zombies;
};

struct handles *handles_lay_out(struct arena *arena, const struct host_config *config)
{
    struct handles *handles = arena_take(arena, 1, sizeof(*handles));
    ARENA_TAKE(arena, handles, of_client, clients_capacity(config));
    ARENA_TAKE(arena, handles, table, config->limits.handles);
    return handles;
}

void handles_init(struct host *host)
{
    host->handles->free = NONE;
    for (uint32_t i = 0; i < clients_capacity(&host->config); i++) {
        host->handles->of_client[i] = (struct client_handles){.first = NONE, .next_walked = NONE};
    }
}

/* ---- one handle ---- */

static struct handle *handle_at(const struct host *host, uint32_t handle)
{
    return &host->handles->table[handle];
}

/* ---- the two lists that a handle stands in ---- */

/* Puts the handle first in the list of its client's handles. */
static void client_link(struct host *host, uint32_t handle)
{
    struct handle *who = handle_at(host, handle);
    struct client_handles *client = &host->handles->of_client[who->client];
    who->client_next = client->first;
    who->client_previous = NONE;
    if (client->first != NONE) {
        handle_at(host, client->first)->client_previous = handle;
    }
    client->first = handle;
    client->count++;
}

static void client_unlink(struct host *host, uint32_t handle)
{
    const struct handle *who = handle_at(host, handle);
    struct client_handles *client = &host->handles->of_client[who->client];
    if (client->next_walked == handle) {
        client->next_walked = who->client_next;
    }
    if (who->client_previous != NONE) {
        handle_at(host, who->client_previous)->client_next = who->client_next;
    } else {
        client->first = who->client_next;
    }
    if (who->client_next != NONE) {
        handle_at(host, who->client_next)->client_previous = who->client_previous;
    }
    client->count--;
}

/* Puts the handle first in the list of its lock's handles. */
static void lock_link(struct host *host, uint32_t handle)
{
    struct lock_ref at = handle_lock(host, handle);
    handle_at(host, handle)->lock_next = lock_handles(host, at);
    lock_set_handles(host, at, handle);
}

/* The list of a lock has no links backwards, so that a handle stays small. So this function
 * searches for the handle before this one. */
static void lock_unlink(struct host *host, uint32_t handle)
{
    struct lock_ref at = handle_lock(host, handle);
    uint32_t next = handle_at(host, handle)->lock_next;
    uint32_t before = lock_handles(host, at);
    if (before == handle) {
        lock_set_handles(host, at, next);
        return;
    }
    hub_walk(host, 1);
    for (uint32_t i = 1;
         handle_at(host, before)->lock_next != handle && i <= host->config.limits.handles; i++) {
        before = handle_at(host, before)->lock_next;
        hub_walk(host, 1);
    }
    handle_at(host, before)->lock_next = next;
}

/* ---- making and freeing ---- */

uint32_t handle_new(struct host *host, uint32_t client, struct lock_ref at)
{
    struct handles *handles = host->handles;
    uint32_t handle = handles->free;
    if (handle != NONE) {
        handles->free = handles->table[handle].slot;
    } else if (handles->end < host->config.limits.handles) {
        handle = handles->end++;
    } else {
        return NONE;
    }
    handles->table[handle] = (struct handle){
        .slot = at.slot,
        .space = (uint8_t)at.space,
        .seat = HFI_SEAT_NONE,
        .client = (uint16_t)client,
        .flags = HANDLE_USED,
    };
    handles->count++;
    client_link(host, handle);
    lock_link(host, handle);
    return handle;
}

void handle_free(struct host *host, uint32_t handle)
{
    struct handle *who = handle_at(host, handle);
    if (who->flags & HANDLE_NOTED) {
        notes_drop(host, handle);
    }
    client_unlink(host, handle);
    if (!(who->flags & HANDLE_LEFT)) {
        lock_unlink(host, handle);
    }
    host->handles->count--;
    host->handles->zombies -= (who->flags & HANDLE_ZOMBIE) != 0;
    *who = (struct handle){.slot = host->handles->free};
    host->handles->free = handle;
}

void handle_leave(struct host *host, uint32_t handle)
{
    struct handle *who = handle_at(host, handle);
    who->flags |= HANDLE_LEFT;
    who->slot = NONE;
    who->seat = HFI_SEAT_NONE;
    who->lock_next = NONE; /* the lock was forgotten, and its list with it */
}

struct lock_ref handle_lock(const struct host *host, uint32_t handle)
{
    const struct handle *who = handle_at(host, handle);
    return (struct lock_ref){who->space, who->slot};
}

uint32_t handle_client(const struct host *host, uint32_t handle)
{
    return handle_at(host, handle)->client;
}

uint32_t handle_holder(const struct host *host, uint32_t handle)
{
    return handle_at(host, handle)->holder;
}

void handle_set_holder(struct host *host, uint32_t handle, uint32_t holder)
{
    handle_at(host, handle)->holder = (uint16_t)holder;
}

uint32_t handle_seat(const struct host *host, uint32_t handle)
{
    return handle_at(host, handle)->seat;
}

void handle_set_seat(struct host *host, uint32_t handle, uint32_t seat)
{
    handle_at(host, handle)->seat = seat;
}

uint32_t handle_delay_ms(const struct host *host, uint32_t handle)
{
    return handle_at(host, handle)->lock_delay_ms;
}

void handle_set_delay_ms(struct host *host, uint32_t handle, uint32_t delay_ms)
{
    handle_at(host, handle)->lock_delay_ms = (uint16_t)delay_ms;
}

uint32_t handle_limit_ms(const struct host *host, uint32_t handle)
{
    return handle_at(host, handle)->limit_ms;
}

void handle_set_limit_ms(struct host *host, uint32_t handle, uint32_t limit_ms)
{
    handle_at(host, handle)->limit_ms = limit_ms;
}

uint32_t handle_flags(const struct host *host, uint32_t handle)
{
    return handle_at(host, handle)->flags;
}

void handle_set(struct host *host, uint32_t handle, uint32_t flags)
{
    uint32_t before = handle_flags(host, handle);
    host->handles->zombies += (flags & ~before & HANDLE_ZOMBIE) != 0;
    handle_at(host, handle)->flags = (uint8_t)(before | flags);
}

void handle_clear(struct host *host, uint32_t handle, uint32_t flags)
{
    uint32_t before = handle_flags(host, handle);
    host->handles->zombies -= (flags & before & HANDLE_ZOMBIE) != 0;
    handle_at(host, handle)->flags = (uint8_t)(before & ~flags);
}

bool handle_set_note(struct host *host, uint32_t handle, struct hfi_text text, uint64_t mark)
{
    int64_t account = client_peer(host, handle_client(host, handle))->account;
    if (!notes_set(host, handle, account, text, mark)) {
        return false;
    }
    handle_set(host, handle, text.size > 0 ? HANDLE_NOTED : 0);
    return true;
}

struct hfi_text handle_note(const struct host *host, uint32_t handle, uint64_t mark)
{
    return handle_flags(host, handle) & HANDLE_NOTED ? notes_of(host, handle, mark)
                                                     : (struct hfi_text){NULL, 0};
}

bool handle_may_take(const struct host *host, uint32_t handle)
{
    const struct handle *who = handle_at(host, handle);
    return (who->flags & HANDLE_USED) && !(who->flags & (HANDLE_FOUND | HANDLE_LEFT)) &&
           (!(who->flags & HANDLE_ZOMBIE) || client_may_use_closed(host, who->client));
}

uint32_t handle_noted_delay_ms(const struct host *host, uint32_t handle)
{
    const struct handle *who = handle_at(host, handle);
    uint32_t noted_ms = delays_are_noted(host) && (who->flags & HANDLE_ZOMBIE)
                            ? delay_noted_ms(host, handle_lock(host, handle))
                            : UINT32_MAX;
    return who->lock_delay_ms < noted_ms ? who->lock_delay_ms : noted_ms;
}

uint32_t handle_check_own(const struct host *host, uint32_t client, uint32_t handle)
{
    if (handle >= host->handles->end) {
        return NONE;
    }
    const struct handle *who = handle_at(host, handle);
    bool may_use = (who->flags & HANDLE_USED) && !(who->flags & (HANDLE_ZOMBIE | HANDLE_FOUND));
    return may_use && who->client == client ? handle : NONE;
}

/* ---- the handles of a lock ---- */

uint32_t handle_of(const struct host *host, struct lock_ref at, uint32_t holder)
{
    uint32_t handle = lock_handles(host, at);
    for (uint32_t i = 0; handle != NONE && i <= host->config.limits.handles; i++) {
        if (handle_at(host, handle)->holder == holder) {
            return handle;
        }
        handle = handle_at(host, handle)->lock_next;
    }
    return NONE;
}

uint32_t handle_next(const struct host *host, uint32_t handle)
{
    return handle_at(host, handle)->lock_next;
}

/* ---- the handles of a client ---- */

/* Returns how many handles all clients of a user have. Dead and hung-up clients count. */
static uint32_t share_of(const struct host *host, int64_t account)
{
    uint32_t share = 0;
    for (uint32_t i = 0; i < clients_capacity(&host->config); i++) {
        if ((client_flags(host, i) & CLIENT_USED) && client_peer(host, i)->account == account) {
            share += host->handles->of_client[i].count;
        }
    }
    return share;
}

bool handles_may_open(const struct host *host, uint32_t client)
{
    int64_t account = client_peer(host, client)->account;
    uint32_t half = (host->config.limits.handles + 1) / 2;
    return account == 0 || host->handles->count < half || share_of(host, account) < half;
}

uint32_t handles_most(const struct host *host, uint32_t *count)
{
    uint32_t most = NONE;
    *count = 0;
    for (uint32_t i = 0; i < clients_capacity(&host->config); i++) {
        if (host->handles->of_client[i].count > *count) {
            *count = host->handles->of_client[i].count;
            most = i;
        }
    }
    return most;
}

bool handles_has_any(const struct host *host, uint32_t client)
{
    return host->handles->of_client[client].first != NONE;
}

void handles_walk_begin(struct host *host, uint32_t client)
{
    struct client_handles *who = &host->handles->of_client[client];
    who->next_walked = who->first;
}

uint32_t handles_walk_next(struct host *host, uint32_t client)
{
    uint32_t handle = host->handles->of_client[client].next_walked;
    if (handle != NONE) {
        host->handles->of_client[client].next_walked = handle_at(host, handle)->client_next;
    }
    return handle;
}

/* ---- all handles ---- */

uint32_t handles_count(const struct host *host)
{
    return host->handles->count;
}

uint32_t handles_zombies(const struct host *host)
{
    return host->handles->zombies;
}

uint32_t handles_end(const struct host *host)
{
    return host->handles->end;
}

void handles_settle_delays(struct host *host)
{
    uint32_t hand = 0;
    if (clients_unknown(host) || !delays_count_begin(host, &hand)) {
        return;
    }
    uint32_t end = hand + HOST_DELAYS_PIECE;
    end = end < host->handles->end ? end : host->handles->end;
    for (uint32_t i = hand; i < end; i++) {
        struct lock_ref at = handle_lock(host, i);
        if (handle_delay_ms(host, i) > LOCK_DELAY_UNKNOWN_MS && handle_may_take(host, i) &&
            lock_is_named(host, at)) {
            delays_count(host, at, handle_noted_delay_ms(host, i));
        }
    }
    delays_count_end(host, end < host->handles->end ? end : 0);
}

/* Checks that each client's list and the handles' own fields agree. */
static void check_clients(const struct host *host)
{
    const struct handles *handles = host->handles;
    uint32_t listed = 0;
    for (uint32_t i = 0; i < clients_capacity(&host->config); i++) {
        uint32_t previous = NONE;
        uint32_t before = listed;
        for (uint32_t at = handles->of_client[i].first; at != NONE;
             at = handles->table[at].client_next) {
            HF_CHECK(client_flags(host, i) & CLIENT_USED);
            HF_CHECK(at < handles->end && handles->table[at].client == i);
            HF_CHECK(handles->table[at].client_previous == previous);
            HF_CHECK(++listed <= handles->count);
            previous = at;
        }
        HF_CHECK(listed - before == handles->of_client[i].count);
    }
    HF_CHECK(listed == handles->count);
}

void handles_check(const struct host *host)
{
    const struct handles *handles = host->handles;
    uint32_t used = 0;
    uint32_t free = 0;
    uint32_t zombies = 0;
    for (uint32_t i = 0; i < handles->end; i++) {
        used += (handles->table[i].flags & HANDLE_USED) != 0;
        zombies += (handles->table[i].flags & HANDLE_ZOMBIE) != 0;
    }
    for (uint32_t i = handles->free; i != NONE; i = handles->table[i].slot) {
        HF_CHECK(i < handles->end && !(handles->table[i].flags & HANDLE_USED));
        HF_CHECK(++free <= handles->end);
    }
    HF_CHECK(used == handles->count && zombies == handles->zombies);
    HF_CHECK(used + free == handles->end);
    check_clients(host);
}
