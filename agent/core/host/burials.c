/* The ends of handles and clients: see burials.h. */
#include "burials.h"

#include "attend.h"
#include "clients.h"
#include "delays.h"
#include "handles.h"
#include "holds.h"
#include "ids.h"
#include "limits.h"
#include "locks.h"
#include "pending.h"
#include "polled.h"
#include "seats.h"
#include "slots.h"
#include "spaces.h"
#include "watches.h"

enum {
    ZOMBIE_MS = 1000,
    SCAN_SLOTS = 4096, /* the number of slots that one piece of a scan looks at */
    HEAL_WALKS = 8,    /* the cost of heal_lock(), in walks over the lock's seats */
};

struct burials {
    int64_t zombies_due_ns;
    uint32_t done; /* the number of pieces that burials_work() did since the last tick */
    uint32_t hand; /* the client with which the next step begins */
    /* by namespace: the ids that are named in the holder records of its region (scratch) */
    struct id_set *named;
    struct lock_ref *scans; /* by client: the slot at which the client's scan continues */
};

struct burials *burials_lay_out(struct arena *arena, const struct host_config *config)
{
    struct burials *burials = arena_take(arena, 1, sizeof(*burials));
    ARENA_TAKE(arena, burials, named, config->namespace_count);
    ARENA_TAKE(arena, burials, scans, clients_capacity(config));
    return burials;
}

void burials_init(struct host *host)
{
    host->burials->zombies_due_ns = INT64_MAX;
}

int64_t burials_due_ns(const struct host *host)
{
    return host->burials->zombies_due_ns;
}

void burials_tick(struct host *host)
{
    host->burials->done = 0;
}

void burial_free(struct host *host, uint32_t handle)
{
    struct lock_ref at = handle_lock(host, handle);
    bool left = handle_flags(host, handle) & HANDLE_LEFT;
    limit_forget(host, handle);
    pending_forget(host, handle);
    delay_gone(host, handle_delay_ms(host, handle));
    if (!left) {
        seat_take_back(host, at.space, handle_seat(host, handle));
    }
    handle_free(host, handle);
    if (!left) {
        slot_unused(host, at);
    }
}

/* Returns whether the handle can be forgotten at once: it was never in the queue, or it has
 * certainly left the queue. */
static bool handle_is_clear(const struct host *host, uint32_t handle)
{
    const struct hfi_region *region = space_region(host, handle_lock(host, handle).space);
    uint32_t seat = handle_seat(host, handle);
    return seat == HFI_SEAT_NONE || atomic_load(hfi_seat_wait(region, seat)) == 0;
}

static void burial_retire(struct host *host, uint32_t handle)
{
    if (handle_flags(host, handle) & HANDLE_ZOMBIE) {
        return;
    }
    handle_set(host, handle, HANDLE_ZOMBIE);
    if (!client_may_use_closed(host, handle_client(host, handle)) &&
        handle_is_clear(host, handle)) {
        burial_free(host, handle);
    } else if (host->burials->zombies_due_ns == INT64_MAX) {
        host->burials->zombies_due_ns = host->now_ns + ZOMBIE_MS * MS;
    }
}

/* Finishes the hand-over that a dead process may have begun on this lock. */
static void heal_lock(struct host *host, struct lock_ref at)
{
    const struct hfi_actor *actor = lock_actor(host, at);
    uint32_t holder = hfi_word_holder(atomic_load(lock_word(host, at)));
    uint32_t handle = holder ? handle_of(host, at, holder) : NONE;
    if (handle != NONE && handle_seat(host, handle) != HFI_SEAT_NONE) {
        hfi_pass_on(actor, at.slot, holder, handle_seat(host, handle));
    }
    hfi_rouse(actor, at.slot);
    hfi_serve(actor, at.slot);
    polled_attend(host, at);
    seats_count_walks(host, at, HEAL_WALKS);
}

/* Ends the hold and the wait of a handle that was closed, or whose client is gone. */
static void burial_of_handle(struct host *host, uint32_t handle, struct host_actions *actions)
{
    struct lock_ref at = handle_lock(host, handle);
    const struct hfi_actor *actor = lock_actor(host, at);
    uint32_t holder = handle_holder(host, handle);
    uint32_t seat = handle_seat(host, handle);
    uint32_t delay_ms = handle_delay_ms(host, handle);
    if (handle_flags(host, handle) & HANDLE_LEFT) {
        burial_free(host, handle);
        return;
    }
    if (seat != HFI_SEAT_NONE) {
        hfi_bury_waiter(actor, seat);
        /* The word may name the handle although the handle's process has not noticed that yet. */
        hfi_pass_on(actor, at.slot, holder, seat);
    }
    uint64_t word = atomic_load(lock_word(host, at));
    if (hfi_word_holder(word) == holder) {
        hold_evict(host, at, holder, word & HFI_W_TOKEN, delay_ms, HOST_LOSS_DEATH, actions);
    }
    if (seat != HFI_SEAT_NONE) {
        hold_evict_reader(host, at, seat, 0, delay_ms, HOST_LOSS_DEATH, actions);
    }
    heal_lock(host, at);
    attend_lock(host, at, actions);
    burial_retire(host, handle);
}

void burial_of_seat(struct host *host, uint32_t client, struct lock_ref at, uint32_t seat,
                    struct host_actions *actions)
{
    uint32_t handle = handle_new(host, client, at);
    if (handle == NONE) { /* without a handle, the seat and its id stay taken */
        hfi_bury_waiter(space_actor(host, at.space), seat);
        return;
    }
    handle_set_holder(host, handle, seat_holder(host, at.space, seat));
    handle_set_seat(host, handle, seat);
    handle_set_delay_ms(host, handle, lock_covered_ms(host, at));
    seat_set_handle(host, at.space, seat, handle);
    burial_of_handle(host, handle, actions);
}

void burial_close(struct host *host, uint32_t handle, struct host_actions *actions)
{
    struct lock_ref at = handle_lock(host, handle);
    uint32_t seat = handle_seat(host, handle);
    if (handle_flags(host, handle) & HANDLE_LEFT) {
        burial_free(host, handle);
        return;
    }
    uint64_t word = atomic_load(lock_word(host, at));
    bool holds = hfi_word_holder(word) == handle_holder(host, handle) ||
                 (seat != HFI_SEAT_NONE &&
                  (atomic_load(&hfi_seat(space_region(host, at.space), seat)->reader) &
                   HFI_CELL_COUNT));
    if (holds || !handle_is_clear(host, handle)) {
        burial_of_handle(host, handle, actions);
    } else {
        burial_free(host, handle);
    }
}

/*
 * Collects the ids that are in the holder records of one region. The owner of such a record may
 * still act on the handle with the named id, so that handle is not freed yet. The records of a
 * region name handles of its own namespace only.
 */
static void collect_named_ids(struct host *host, uint32_t space)
{
    const struct hfi_region *region = space_region(host, space);
    struct id_set *ids = &host->burials->named[space];
    id_set_clear(ids);
    for (uint32_t id = 1; id <= clients_ids_high(host); id++) {
        /* The ids in a dead process's record stay named until all locks that the process had open
         * are healed. */
        uint32_t by = client_of_id(host, id);
        uint32_t flags = by == NONE ? CLIENT_DEAD : client_flags(host, by);
        if ((flags & CLIENT_DEAD) && !(flags & (CLIENT_BURYING | CLIENT_SCANNING))) {
            continue;
        }
        for (unsigned entry = 0; entry < HFI_HANDINGS; entry++) {
            /* seq_cst: this load comes after the waiter's cell was marked LEFT (lockword.h, rule
             * 5), and pairs with record_claim() */
            id_set_add(ids, atomic_load(&region->holders[id].handing_to[entry]));
        }
    }
}

/* Returns whether the lock's word still names a handle that is about to be forgotten. If it does,
 * heals the lock. */
static bool zombie_is_named(struct host *host, uint32_t handle, struct host_actions *actions)
{
    struct lock_ref at = handle_lock(host, handle);
    if (hfi_word_holder(atomic_load(lock_word(host, at))) != handle_holder(host, handle)) {
        return false;
    }
    heal_lock(host, at);
    attend_lock(host, at, actions);
    return true;
}

void burials_free_zombies(struct host *host, struct host_actions *actions)
{
    bool full = false;
    uint64_t collected = 0; /* bits: the namespaces whose named ids were collected already */
    host->burials->zombies_due_ns = INT64_MAX;
    if (handles_zombies(host) == 0) {
        return;
    }
    for (uint32_t handle = 0; handle < handles_end(host); handle++) {
        uint32_t flags = handle_flags(host, handle);
        bool left = flags & HANDLE_LEFT;
        if (!(flags & HANDLE_ZOMBIE)) {
            continue;
        }
        uint32_t space = handle_lock(host, handle).space;
        if (!left && !(collected >> space & 1)) {
            collected |= UINT64_C(1) << space;
            collect_named_ids(host, space);
        }
        if (!left && id_set_has(&host->burials->named[space], handle_holder(host, handle))) {
            continue;
        }
        uint32_t client = handle_client(host, handle);
        if (!left && (client_may_use_closed(host, client) ||
                      (client_flags(host, client) & CLIENT_BURYING))) {
            continue;
        }
        if (!hub_has_room(actions) || host->walked >= HUB_WALK_MAX) {
            full = true; /* the next step, which comes at once, looks at the remaining zombies */
            break;
        }
        if (left || !zombie_is_named(host, handle, actions)) {
            burial_free(host, handle);
            burial_forget_if_done(host, client, actions);
        }
    }
    if (handles_zombies(host) > 0) {
        host->burials->zombies_due_ns = full ? host->now_ns : host->now_ns + ZOMBIE_MS * MS;
    }
}

static void burial_unknown(struct host *host, uint32_t client, struct lock_ref at,
                           struct host_actions *actions)
{
    if (!lock_is_named(host, at)) {
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
        } else if (handle_flags(host, handle) & HANDLE_FOUND) {
            handle_clear(host, handle, HANDLE_FOUND);
            burial_of_handle(host, handle, actions);
        }
    }
    if (holder != 0 && client_has_id(host, client, holder) && handle_of(host, at, holder) == NONE &&
        hfi_word_holder(atomic_load(lock_word(host, at))) == holder) {
        uint64_t word = atomic_load(lock_word(host, at));
        hold_evict(host, at, holder, word & HFI_W_TOKEN, lock_covered_ms(host, at), HOST_LOSS_DEATH,
                   actions);
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

/* Searches the next slots for seats and holds that a survivor's ids have without a handle, or with
 * a handle that the client did not open (HANDLE_FOUND). The survivor has opened all its locks
 * again, or died before that. */
static void scan_piece(struct host *host, uint32_t client, struct host_actions *actions)
{
    struct lock_ref *scan = &host->burials->scans[client];
    uint32_t scanned = 0;
    while (space_is_used(host, scan->space) && scan->slot < locks_end(host, scan->space) &&
           scanned < SCAN_SLOTS) {
        if (!hub_has_room(actions)) {
            return;
        }
        scanned++;
        struct lock_ref at = *scan;
        scan->slot++;
        burial_unknown(host, client, at, actions);
    }
    if (!space_is_used(host, scan->space) || scan->slot >= locks_end(host, scan->space)) {
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
    /* the walk goes to the next handle before the burial, because the burial may free this
     * handle */
    uint32_t handle = handles_walk_next(host, client);
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
    limit_forget(host, handle);
    if (handle_flags(host, handle) & HANDLE_FOUND) {
        handle_set(host, handle, HANDLE_ZOMBIE);
    }
    handle_clear(host, handle, HANDLE_FOUND);
    handle_leave(host, handle);
    if (handle_flags(host, handle) & HANDLE_ZOMBIE) {
        host->burials->zombies_due_ns = host->now_ns;
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
            host->burials->hand = index + 1; /* the next step begins with another client */
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
    HF_CHECK(handles_zombies(host) == 0 || host->burials->zombies_due_ns != INT64_MAX);
}
