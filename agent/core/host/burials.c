/* The ends of handles and clients: see burials.h. */
#include "burials.h"

#include "attend.h"
#include "clients.h"
#include "holds.h"
#include "ids.h"
#include "limits.h"
#include "pending.h"
#include "seats.h"
#include "slots.h"
#include "state.h"
#include "watches.h"

enum {
    ZOMBIE_SWEEP_MS = 1000,
    SCAN_SLOTS = 4096, /* slots looked at in one piece of a scan */
};

struct burials {
    int64_t sweep_due_ns;
    uint32_t done;          /* pieces since the last tick */
    uint32_t hand;          /* the client whose pieces are the next step's first */
    struct id_set *named;   /* by namespace: ids that its records name (scratch) */
    struct lock_ref *scans; /* by client: where its scan goes on */
};

struct burials *burials_lay_out(struct arena *arena, const struct host_config *config)
{
    struct burials *burials = arena_take(arena, 1, sizeof(*burials));
    struct id_set *named = arena_take(arena, config->namespace_count, sizeof(*named));
    struct lock_ref *scans = arena_take(arena, clients_capacity(config), sizeof(*scans));
    if (burials != NULL) {
        burials->named = named;
        burials->scans = scans;
    }
    return burials;
}

void burials_init(struct host *host)
{
    host->burials->sweep_due_ns = INT64_MAX;
}

int64_t burials_due_ns(const struct host *host)
{
    return host->burials->sweep_due_ns;
}

void burials_tick(struct host *host)
{
    host->burials->done = 0;
}

void burial_free(struct host *host, uint32_t handle)
{
    limit_forget(host, handle);
    pending_forget(host, handle);
    handle_free(host, handle);
}

/* Whether the handle can be forgotten at once: it never was in the queue, or is known to be out. */
static bool handle_is_clear(const struct host *host, const struct handle *who)
{
    return who->seat == HFI_SEAT_NONE ||
           atomic_load(hfi_seat_wait(&host->spaces[who->space].region, who->seat)) == 0;
}

static void burial_retire(struct host *host, uint32_t handle)
{
    struct handle *who = &host->handles[handle];
    if (who->flags & HANDLE_ZOMBIE) {
        return;
    }
    who->flags |= HANDLE_ZOMBIE;
    host->zombie_count++;
    if (!client_may_use_closed(host, who->client) && handle_is_clear(host, who)) {
        burial_free(host, handle);
    } else if (host->burials->sweep_due_ns == INT64_MAX) {
        host->burials->sweep_due_ns = host->now_ns + ZOMBIE_SWEEP_MS * MS;
    }
}

/* What a dead process may have left of a hand-over on this lock. */
static void heal_lock(struct host *host, struct lock_ref at)
{
    const struct hfi_actor *actor = lock_actor(host, at);
    uint32_t holder = hfi_word_holder(atomic_load(lock_word(host, at)));
    uint32_t handle = holder ? handle_of(host, at, holder) : NONE;
    if (handle != NONE && host->handles[handle].seat != HFI_SEAT_NONE) {
        hfi_pass_on(actor, at.slot, holder, host->handles[handle].seat);
    }
    hfi_rouse(actor, at.slot);
    hfi_serve(actor, at.slot);
}

void burial_of_handle(struct host *host, uint32_t handle, struct host_actions *actions)
{
    struct handle *who = &host->handles[handle];
    struct lock_ref at = {who->space, who->slot};
    const struct hfi_actor *actor = lock_actor(host, at);
    uint32_t holder = who->holder;
    if (who->flags & HANDLE_LEFT) {
        burial_free(host, handle);
        return;
    }
    if (who->seat != HFI_SEAT_NONE) {
        hfi_bury_waiter(actor, who->seat);
        hfi_pass_on(actor, at.slot, holder, who->seat); /* named, but never told so */
    }
    uint64_t word = atomic_load(lock_word(host, at));
    if (hfi_word_holder(word) == holder) {
        hold_evict(host, at, holder, word & HFI_W_TOKEN, who->lock_delay_ms, HOST_LOSS_DEATH,
                   actions);
    }
    if (who->seat != HFI_SEAT_NONE) {
        hold_evict_reader(host, at, who->seat, 0, who->lock_delay_ms, HOST_LOSS_DEATH, actions);
    }
    heal_lock(host, at);
    attend_lock(host, at, actions);
    burial_retire(host, handle);
}

void burial_of_seat(struct host *host, uint32_t client, struct lock_ref at, uint32_t seat,
                    struct host_actions *actions)
{
    struct space *space = &host->spaces[at.space];
    uint32_t handle = handle_new(host, client, at);
    if (handle == NONE) { /* no room to remember it: the seat and its id stay taken */
        hfi_bury_waiter(&space->actor, seat);
        return;
    }
    host->handles[handle].holder = seat_holder(host, at.space, seat);
    host->handles[handle].seat = seat;
    host->handles[handle].lock_delay_ms = (uint16_t)lock_at(host, at)->lock_delay_ms;
    seat_set_handle(host, at.space, seat, handle);
    burial_of_handle(host, handle, actions);
}

void burial_close(struct host *host, uint32_t handle, struct host_actions *actions)
{
    struct handle *who = &host->handles[handle];
    struct lock_ref at = {who->space, who->slot};
    if (who->flags & HANDLE_LEFT) {
        burial_free(host, handle);
        return;
    }
    uint64_t word = atomic_load(lock_word(host, at));
    bool holds = hfi_word_holder(word) == who->holder ||
                 (who->seat != HFI_SEAT_NONE &&
                  (atomic_load(&hfi_seat(&host->spaces[at.space].region, who->seat)->reader) &
                   HFI_CELL_COUNT));
    if (holds || !handle_is_clear(host, who)) {
        burial_of_handle(host, handle, actions);
    } else {
        burial_free(host, handle);
    }
}

/*
 * Which ids the records of one region name, of processes that may still act there. What a region
 * says is about its own locks: it keeps no handle of another namespace.
 */
static void collect_named_ids(struct host *host, uint32_t space)
{
    const struct hfi_region *region = &host->spaces[space].region;
    struct id_set *ids = &host->burials->named[space];
    id_set_clear(ids);
    for (uint32_t id = 1; id <= clients_ids_high(host); id++) {
        /* A dead process's record counts until what it had open was healed. */
        uint32_t by = client_of_id(host, id);
        uint32_t flags = by == NONE ? CLIENT_DEAD : client_flags(host, by);
        if ((flags & CLIENT_DEAD) && !(flags & (CLIENT_BURYING | CLIENT_SCANNING))) {
            continue;
        }
        for (unsigned entry = 0; entry < HFI_HANDINGS; entry++) {
            /* seq_cst: after the marking of the cell (rule 5); pairs with record_claim() */
            id_set_add(ids, atomic_load(&region->holders[id].handing_to[entry]));
        }
    }
}

/* Whether the lock's word still names a handle that is about to be forgotten; heals it then. */
static bool zombie_is_named(struct host *host, uint32_t handle, struct host_actions *actions)
{
    const struct handle *who = &host->handles[handle];
    struct lock_ref at = {who->space, who->slot};
    if (hfi_word_holder(atomic_load(lock_word(host, at))) != who->holder) {
        return false;
    }
    heal_lock(host, at);
    attend_lock(host, at, actions);
    return true;
}

void burials_sweep(struct host *host, struct host_actions *actions)
{
    bool full = false;
    uint64_t collected = 0; /* bit by space */
    host->burials->sweep_due_ns = INT64_MAX;
    if (host->zombie_count == 0) {
        return;
    }
    for (uint32_t handle = 0; handle < host->handles_used; handle++) {
        struct handle *who = &host->handles[handle];
        bool left = who->flags & HANDLE_LEFT;
        if (!(who->flags & HANDLE_ZOMBIE)) {
            continue;
        }
        if (!left && !(collected >> who->space & 1)) {
            collected |= UINT64_C(1) << who->space;
            collect_named_ids(host, who->space);
        }
        if (!left && id_set_has(&host->burials->named[who->space], who->holder)) {
            continue;
        }
        uint32_t client = who->client;
        if (!left && (client_may_use_closed(host, client) ||
                      (client_flags(host, client) & CLIENT_BURYING))) {
            continue;
        }
        if (!hub_has_room(actions) || host->walked >= HUB_WALK_MAX) {
            full = true; /* the rest at once, in the next step */
            break;
        }
        if (left || !zombie_is_named(host, handle, actions)) {
            burial_free(host, handle);
            burial_forget_if_done(host, client, actions);
        }
    }
    if (host->zombie_count > 0) {
        host->burials->sweep_due_ns = full ? host->now_ns : host->now_ns + ZOMBIE_SWEEP_MS * MS;
    }
}

static void burial_unknown(struct host *host, uint32_t client, struct lock_ref at,
                           struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    if (!lock_is_named(lock)) {
        return;
    }
    uint32_t holder = hfi_word_holder(atomic_load(lock_word(host, at)));
    struct seat_walk walk = seats_of(host, at);
    while (seats_next(&walk)) {
        uint32_t id = seat_holder(host, at.space, walk.seat);
        uint32_t handle = seat_handle(host, at.space, walk.seat);
        if (id == 0 || !client_has_id(host, client, id)) {
            continue;
        }
        if (handle == NONE) {
            burial_of_seat(host, client, at, walk.seat, actions);
        } else if (host->handles[handle].flags & HANDLE_FOUND) {
            host->handles[handle].flags &= (uint8_t)~HANDLE_FOUND;
            burial_of_handle(host, handle, actions);
        }
    }
    if (holder != 0 && client_has_id(host, client, holder) && handle_of(host, at, holder) == NONE &&
        hfi_word_holder(atomic_load(lock_word(host, at))) == holder) {
        uint64_t word = atomic_load(lock_word(host, at));
        hold_evict(host, at, holder, word & HFI_W_TOKEN, (uint32_t)lock->lock_delay_ms,
                   HOST_LOSS_DEATH, actions);
    }
}

void burial_client_known(struct host *host, uint32_t client)
{
    if (client_is_known_now(host, client)) {
        slots_known(host);
    }
}

static void bury(struct host *host, uint32_t client)
{
    handles_walk_begin(host, client);
    client_set(host, client, CLIENT_BURYING);
}

void burial_hangup(struct host *host, uint32_t client)
{
    if (client_flags(host, client) & CLIENT_CONNECTED) {
        client_disconnected(host, client);
        watch_drop(host, client);
        bury(host, client);
    }
}

void burial_death(struct host *host, uint32_t client)
{
    if (client_flags(host, client) & CLIENT_DEAD) {
        return;
    }
    burial_hangup(host, client);
    client_set(host, client, CLIENT_DEAD);
    bury(host, client);
}

static void scan_begin(struct host *host, uint32_t client)
{
    host->burials->scans[client] = (struct lock_ref){0};
    client_set(host, client, CLIENT_SCANNING);
}

void burial_resumed(struct host *host, uint32_t client)
{
    client_clear(host, client, CLIENT_OPENING);
    if (client_flags(host, client) & CLIENT_SURVIVOR) {
        scan_begin(host, client);
    }
}

/* A survivor died before it said what it has open, or has said all: looks at every slot for what
 * is under its ids without a handle. */
static void scan_piece(struct host *host, uint32_t client, struct host_actions *actions)
{
    struct lock_ref *scan = &host->burials->scans[client];
    const struct space *space = &host->spaces[scan->space];
    uint32_t scanned = 0;
    while (space->used && scan->slot < space->slots_used && scanned < SCAN_SLOTS) {
        if (!hub_has_room(actions)) {
            return;
        }
        scanned++;
        struct lock_ref at = *scan;
        scan->slot++;
        burial_unknown(host, client, at, actions);
    }
    if (!space->used || scan->slot >= space->slots_used) {
        *scan = (struct lock_ref){.space = scan->space + 1};
    }
    if (scan->space >= host->config.namespace_count) {
        client_clear(host, client, CLIENT_SCANNING);
        burial_client_known(host, client);
        burial_forget_if_done(host, client, actions);
    }
}

static void burial_piece(struct host *host, uint32_t client, struct host_actions *actions)
{
    if (!(client_flags(host, client) & CLIENT_BURYING)) {
        scan_piece(host, client, actions);
        return;
    }
    uint32_t handle = handles_walk_next(host, client); /* burying may free it */
    if (handle != NONE) {
        burial_of_handle(host, handle, actions);
        return;
    }
    client_clear(host, client, CLIENT_BURYING);
    uint32_t flags = client_flags(host, client);
    if ((flags & CLIENT_DEAD) && (flags & CLIENT_SURVIVOR)) {
        scan_begin(host, client);
        return;
    }
    burial_forget_if_done(host, client, actions);
}

void burial_forget_if_done(struct host *host, uint32_t client, struct host_actions *actions)
{
    uint32_t flags = client_flags(host, client);
    if ((flags & CLIENT_DEAD) && !handles_has_any(host, client) &&
        !(flags & (CLIENT_BURYING | CLIENT_SCANNING))) {
        burial_client_known(host, client);
        client_forget(host, client, actions);
    }
}

void burial_region_left(struct host *host, uint32_t handle)
{
    struct handle *who = &host->handles[handle];
    limit_forget(host, handle);
    if ((who->flags & HANDLE_FOUND) && !(who->flags & HANDLE_ZOMBIE)) {
        who->flags |= HANDLE_ZOMBIE;
        host->zombie_count++;
    }
    who->flags &= (uint8_t)~HANDLE_FOUND;
    who->flags |= HANDLE_LEFT;
    who->slot = NONE;
    who->seat = HFI_SEAT_NONE;
    who->lock_next = NONE;
    if (who->flags & HANDLE_ZOMBIE) {
        host->burials->sweep_due_ns = host->now_ns;
    }
}

void burials_work(struct host *host, struct host_actions *actions)
{
    uint32_t first = host->burials->hand;
    uint32_t capacity = clients_capacity(&host->config);
    for (uint32_t i = 0; i < capacity && clients_busy(host) > 0; i++) {
        uint32_t index = (first + i) % capacity;
        while (host->burials->done < HUB_PIECES_MAX &&
               (client_flags(host, index) & (CLIENT_BURYING | CLIENT_SCANNING))) {
            if (!hub_has_room(actions)) {
                return;
            }
            uint32_t walked = host->walked;
            host->burials->hand = index + 1; /* others begin the next step */
            burial_piece(host, index, actions);
            host->burials->done += hub_pieces(host, walked);
        }
        if (client_flags(host, index) & CLIENT_POKE) {
            if (!hub_has_room(actions)) {
                return;
            }
            client_clear(host, index, CLIENT_POKE);
            struct hfi_frame frame = {.kind = HFI_FRAME_POKE};
            uint32_t count = actions->count;
            client_reply(host, index, &frame, actions);
            if (actions->count > count) {
                actions->items[count].as.reply.unasked = true;
            }
        }
    }
}

void burials_check(const struct host *host)
{
    HF_CHECK(host->zombie_count == 0 || host->burials->sweep_due_ns != INT64_MAX);
}
