/*
 * Locks: their slots in a region, taking holds away, and what a ring asks for. What is asked
 * of the quorum is in grants.c. The grant stays here when the last hold ends, until another host
 * wants it or nobody has had the lock open for long: that is what makes the next one cost no
 * message.
 */
#include "state.h"

/* The simulator has less patience. */
#ifndef HOST_IDLE_AGE_MS
#define HOST_IDLE_AGE_MS (60 * 1000)
#endif

enum {
    RECLAIM_SCAN = 256,
    RECLAIM_MAX = 4,
    SPACE_SHIFT = 22,
    IDLE_AGE_MS = HOST_IDLE_AGE_MS,
    IDLE_AGES = 10, /* a grant that nobody has open goes back after so many ages */
    IDLE_MAX = 64,  /* at one look at all locks */
};

/*
 * Which state may follow which. A grant is in force in GRANTED and AMENDING only, and both are left
 * by an answer of the quorum, by a give-back (RETURNING), or with the session. So no lock is free,
 * and no name gets another slot, while its word lets anybody in.
 */
#define TO(state) (1U << (state))
static const uint8_t transitions[] = {
    [LOCK_FREE] = TO(LOCK_IDLE) | TO(LOCK_RETIRED),
    [LOCK_IDLE] = TO(LOCK_FREE) | TO(LOCK_ASKING) | TO(LOCK_RETURNING) |
                  TO(LOCK_GRANTED) | /* before START: the own store knows it */
                  TO(LOCK_ADOPTED),
    [LOCK_ASKING] = TO(LOCK_IDLE) | TO(LOCK_GRANTED) | TO(LOCK_RETURNING) | TO(LOCK_RETIRED),
    [LOCK_GRANTED] = TO(LOCK_IDLE) | TO(LOCK_AMENDING) | TO(LOCK_RETURNING),
    [LOCK_AMENDING] = TO(LOCK_IDLE) | TO(LOCK_GRANTED) | TO(LOCK_RETURNING) | TO(LOCK_RETIRED),
    [LOCK_RETURNING] = TO(LOCK_IDLE),
    [LOCK_RETIRED] = TO(LOCK_FREE),
    [LOCK_ADOPTED] = TO(LOCK_IDLE) | TO(LOCK_GRANTED) | TO(LOCK_RETURNING) | TO(LOCK_RETIRED),
};

void lock_set_state(struct host *host, struct lock_ref at, enum lock_state to)
{
    struct lock *lock = lock_at(host, at);
    HF_CHECK(transitions[lock->state] & TO(to));
    lock->state = to;
}

static uint32_t lock_ref_pack(struct lock_ref at)
{
    return (at.space << SPACE_SHIFT | at.slot) + 1;
}

void lock_name(const struct host *host, struct lock_ref at, struct message_name *out)
{
    size_t size = 0;
    const uint8_t *bytes = names_bytes(host->names, lock_at(host, at)->name, &size);
    memset(out, 0, sizeof(*out));
    out->length = (uint8_t)size;
    memcpy(out->bytes, bytes, size);
}

uint64_t lock_hash(const struct host *host, struct lock_ref at)
{
    size_t size = 0;
    const uint8_t *bytes = names_bytes(host->names, lock_at(host, at)->name, &size);
    return hfi_name_hash((const char *)bytes, size);
}

bool lock_find(const struct host *host, const uint8_t *name, size_t size, struct lock_ref *at)
{
    uint32_t id = names_find(host->names, name, size);
    uint32_t packed = id == NAMES_NONE ? 0 : names_lock(host->names, id);
    if (packed == 0) {
        return false;
    }
    *at = (struct lock_ref){(packed - 1) >> SPACE_SHIFT,
                            (packed - 1) & ((UINT32_C(1) << SPACE_SHIFT) - 1)};
    return host->spaces[at->space].used; /* else it is being left: regions.c */
}

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
    space->slot_blocks[slot] = 0;
    return slot;
}

static void slot_free(struct host *host, struct lock_ref at)
{
    struct space *space = &host->spaces[at.space];
    struct lock *lock = lock_at(host, at);
    blocks_release(host, at);
    atomic_store(&space->region.words[at.slot].word, 0);
    space->guards[at.slot] = (struct guard){0};
    lock_set_state(host, at, LOCK_FREE);
    *lock = (struct lock){.handles = NONE, .name = space->free_slot};
    space->free_slot = at.slot + 1;
    space->free_slots++;
}

bool lock_make(struct host *host, uint32_t index, const uint8_t *name, size_t size,
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
    names_set_lock(host->names, id, lock_ref_pack(*at));
    listing_add(host, *at);
    if (watch_is_on(host, index, name, size)) {
        lock_guard(host, *at)->watched = 1;
        atomic_fetch_or(lock_word(host, *at), HFI_W_WATCHED);
    }
    request_inherit(host, *at);
    return true;
}

bool lock_load(struct host *host, struct lock_ref at, const uint8_t *name, size_t size)
{
    struct space *space = &host->spaces[at.space];
    uint32_t id = names_hold(host->names, name, size);
    if (id == NAMES_NONE) {
        return false;
    }
    *lock_at(host, at) = (struct lock){.name = id, .handles = NONE};
    lock_set_state(host, at, LOCK_IDLE);
    names_set_lock(host->names, id, lock_ref_pack(at));
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

bool handles_unknown(const struct host *host)
{
    return host->survivor_count > 0;
}

/* The name gives its slot up. */
static void lock_unmake(struct host *host, struct lock_ref at, struct host_actions *actions)
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

void lock_unused(struct host *host, struct lock_ref at)
{
    const struct lock *lock = lock_at(host, at);
    if (lock->handles != NONE || handles_unknown(host)) {
        return;
    }
    if (lock->state == LOCK_RETIRED) {
        slot_free(host, at);
    } else if (blocks_are_empty(host, at)) {
        /* The name keeps its slot, but seats are fewer than slots: others may need them. */
        blocks_release(host, at);
    }
}

void locks_known(struct host *host)
{
    if (!host->started || handles_unknown(host)) {
        return;
    }
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        const struct space *space = &host->spaces[i];
        for (uint32_t slot = 0; space->used && slot < space->slots_used; slot++) {
            if (space->slot_blocks[slot] != 0) {
                lock_unused(host, (struct lock_ref){i, slot});
            }
        }
    }
}

/* ---- taking holds away ---- */

uint32_t lock_delay_of(const struct host *host, struct lock_ref at, uint32_t holder)
{
    uint32_t handle = handle_of(host, at, holder);
    return handle != NONE ? host->handles[handle].lock_delay_ms
                          : (uint32_t)lock_at(host, at)->lock_delay_ms;
}

static void log_loss(struct host *host, struct lock_ref at, enum host_loss why, uint64_t token,
                     uint32_t delay_ms, struct host_actions *actions)
{
    const char *event = why == HOST_LOSS_DEATH   ? "lock_closed"
                        : why == HOST_LOSS_BREAK ? "lock_broken"
                                                 : "lease_ended";
    host->counts.losses[why]++;
    HF_PROBE4(hold_taken_away, at.space, at.slot, why, token);
    lock_log(host, actions, event, at, token, delay_ms);
}

/*
 * Until when a lock is closed is the agent's own number, in units of 2^17 ns whose low bits are
 * kept: what lies up to two minutes ahead or behind can be told, a lock-delay has a minute at most,
 * and what is over is forgotten by the next pass over all locks. The region's number is what the
 * next agent goes on with; nothing here reads it but adoption.
 */
enum { CLOSED_SHIFT = 17, CLOSED_BITS = 21 };
static const int64_t CLOSED_AHEAD_MAX_MS = MESSAGE_LOCK_DELAY_MAX_MS + 1000;

/* The next moment that can be told; it is never sooner. */
static uint64_t closed_units(int64_t until_ns)
{
    uint64_t units = ((uint64_t)until_ns + (UINT64_C(1) << CLOSED_SHIFT) - 1) >> CLOSED_SHIFT;
    return units + !(units & ((UINT64_C(1) << CLOSED_BITS) - 1)); /* 0 is "not closed" */
}

int64_t lock_closed_until_ns(const struct host *host, struct lock_ref at)
{
    const uint32_t above = 32 - CLOSED_BITS;
    uint32_t closed = lock_guard(host, at)->closed;
    uint64_t now = (uint64_t)host->now_ns >> CLOSED_SHIFT;
    int64_t ahead = (int32_t)((closed - (uint32_t)now) << above) / (1 << above);
    if (closed == 0 || ahead > (CLOSED_AHEAD_MAX_MS * MS) >> CLOSED_SHIFT) {
        return 0; /* of long ago: the agent stood still meanwhile */
    }
    return ((int64_t)now + ahead) << CLOSED_SHIFT;
}

void lock_close(struct host *host, struct lock_ref at, int64_t until_ns)
{
    const uint64_t mask = (UINT64_C(1) << CLOSED_BITS) - 1;
    lock_guard(host, at)->closed = until_ns > 0 ? closed_units(until_ns) & mask : 0;
}

/* The region says what is so. */
static void closing_tell(struct host *host, struct lock_ref at)
{
    atomic_store(&host->spaces[at.space].region.slots[at.slot].closed_until_ns,
                 (uint64_t)lock_closed_until_ns(host, at));
}

void lock_close_told(struct host *host, struct lock_ref at, int64_t until_ns)
{
    lock_close(host, at, until_ns);
    closing_tell(host, at);
}

/* Until when a lock is to be closed behind a hold that ends now: 0: it is not. Noted, too. */
static int64_t closing_end(const struct host *host, struct lock_ref at, uint32_t delay_ms)
{
    region_note_closing(host, at, delay_ms);
    int64_t until_ns = host->now_ns + (int64_t)delay_ms * MS;
    int64_t before_ns = lock_closed_until_ns(host, at);
    until_ns = (int64_t)(closed_units(until_ns) << CLOSED_SHIFT);
    return delay_ms == 0 ? 0 : until_ns > before_ns ? until_ns : before_ns;
}

static void closing_begin(struct host *host, struct lock_ref at, int64_t until_ns)
{
    if (until_ns > 0) {
        lock_close(host, at, until_ns);
        opening_add(host, at, until_ns);
    }
}

void lock_revoke(struct host *host, struct lock_ref at, enum hfi_grant mode)
{
    lock_guard(host, at)->in_force = 0;
    hfi_revoke(lock_actor(host, at), at.slot, mode);
    lock_close_told(host, at, 0);
}

void lock_put_in_force(struct host *host, struct lock_ref at, uint64_t token_first,
                       struct host_actions *actions)
{
    const struct lock *lock = lock_at(host, at);
    struct guard *guard = lock_guard(host, at);
    hfi_grant(lock_actor(host, at), at.slot, (enum hfi_grant)lock->mode, token_first,
              lock->token_last);
    guard->in_force = 1;
    guard->floor = 0; /* a holder that was adopted keeps its token, which is of the range before */
    repair_word(host, at, actions);
}

void lock_evict(struct host *host, struct lock_ref at, uint32_t holder, uint64_t token,
                uint32_t delay_ms, enum host_loss why, struct host_actions *actions)
{
    int64_t until_ns = closing_end(host, at, delay_ms);
    if (!hfi_evict(lock_actor(host, at), at.slot, holder, token, until_ns)) {
        closing_tell(host, at); /* it may have been told, and the hold has ended by itself */
        return;
    }
    closing_begin(host, at, until_ns);
    uint64_t top = lock_at(host, at)->token_last;
    log_loss(host, at, why, hfi_token(top, token), delay_ms, actions);
    uint32_t client = client_of_id(host, holder);
    if (client != NONE) {
        client_poke(host, client);
    }
    watch_changed(host, at);
}

void lock_evict_reader(struct host *host, struct lock_ref at, uint32_t seat, uint64_t cell,
                       uint32_t delay_ms, enum host_loss why, struct host_actions *actions)
{
    const struct hfi_seat *shared = hfi_seat(&host->spaces[at.space].region, seat);
    int64_t until_ns = closing_end(host, at, delay_ms);
    uint64_t reader = atomic_load(&shared->reader);
    if (!(reader & HFI_CELL_COUNT) || (cell && reader != cell)) {
        return;
    }
    bool evicted = hfi_evict_reader(lock_actor(host, at), at.slot, seat, reader, until_ns);
    if (evicted || (atomic_load(lock_word(host, at)) & HFI_W_CLOSED)) {
        closing_begin(host, at, until_ns); /* also if it left by itself, behind the closed bit */
    }
    if (!evicted) {
        return;
    }
    log_loss(host, at, why, 0, delay_ms, actions);
    uint32_t client = client_of_id(host, host->spaces[at.space].seat_holder[seat]);
    if (client != NONE) {
        client_poke(host, client);
    }
    watch_changed(host, at);
}

bool lock_use_up(struct host *host, struct lock_ref at, const struct hfi_range *range,
                 uint32_t delay_ms, struct host_actions *actions)
{
    int64_t until_ns = closing_end(host, at, delay_ms);
    uint64_t before = 0;
    if (!hfi_use_up(lock_actor(host, at), at.slot, range, until_ns, &before)) {
        return false;
    }
    if (before & HFI_W_HOLDER) {
        closing_begin(host, at, until_ns);
        log_loss(host, at, HOST_LOSS_DEATH, hfi_token(lock_at(host, at)->token_last, before),
                 delay_ms, actions);
        uint32_t client = client_of_id(host, hfi_word_holder(before));
        if (client != NONE) {
            client_poke(host, client);
        }
        watch_changed(host, at);
    }
    return true;
}

void lock_open_due(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    if (!lock_is_named(lock_at(host, at))) {
        return;
    }
    if (!(atomic_load(lock_word(host, at)) & HFI_W_CLOSED)) {
        lock_attend(host, at, actions); /* a give-back may wait for it */
        return;
    }
    int64_t until_ns = lock_closed_until_ns(host, at);
    if (until_ns > host->now_ns) {
        opening_add(host, at, until_ns);
        return;
    }
    hfi_open(lock_actor(host, at), at.slot);
    lock_log(host, actions, "lock_opened", at, 0, 0);
    lock_attend(host, at, actions);
    watch_changed(host, at);
}

void lock_bury_unknown(struct host *host, uint32_t client, struct lock_ref at,
                       struct host_actions *actions)
{
    const struct space *space = &host->spaces[at.space];
    struct lock *lock = lock_at(host, at);
    if (!lock_is_named(lock)) {
        return;
    }
    uint32_t holder = hfi_word_holder(atomic_load(lock_word(host, at)));
    struct seats walk = seats_of(host, at);
    while (seats_next(&walk)) {
        uint32_t id = space->seat_holder[walk.seat];
        uint32_t handle = space->seat_handle[walk.seat];
        if (id == 0 || !client_has_id(host, client, id)) {
            continue;
        }
        if (handle == NONE) {
            handle_bury_seat(host, client, at, walk.seat, actions);
        } else if (host->handles[handle].flags & HANDLE_FOUND) {
            host->handles[handle].flags &= (uint8_t)~HANDLE_FOUND;
            handle_bury(host, handle, actions);
        }
    }
    if (holder != 0 && client_has_id(host, client, holder) && handle_of(host, at, holder) == NONE &&
        hfi_word_holder(atomic_load(lock_word(host, at))) == holder) {
        uint64_t word = atomic_load(lock_word(host, at));
        lock_evict(host, at, holder, word & HFI_W_TOKEN, (uint32_t)lock->lock_delay_ms,
                   HOST_LOSS_DEATH, actions);
    }
}

/* ---- what a ring asks for ---- */

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
    bool known = handle != NONE || (lives && (host->clients[client].flags & CLIENT_SURVIVOR));
    if (lives && known) {
        return;
    }
    uint32_t seat = handle == NONE ? HFI_SEAT_NONE : host->handles[handle].seat;
    if (holder == HFI_HOLDER_AGENT) {
        hfi_evict(lock_actor(host, at), at.slot, holder, word & HFI_W_TOKEN, 0);
    } else if (seat == HFI_SEAT_NONE || !hfi_pass_on(lock_actor(host, at), at.slot, holder, seat)) {
        lock_evict(host, at, holder, word & HFI_W_TOKEN, lock_delay_of(host, at, holder),
                   HOST_LOSS_DEATH, actions);
    }
}

static bool word_is_awaited(const struct host *host, struct lock_ref at)
{
    return atomic_load(lock_word(host, at)) & (HFI_W_WAITERS | HFI_W_BARGERS);
}

bool lock_is_awaited(const struct host *host, struct lock_ref at)
{
    if (word_is_awaited(host, at)) {
        return true;
    }
    for (uint32_t i = 0; i < host->pending_end; i++) {
        const struct pending *pending = &host->pending[i];
        if (pending->used && !pending->ready && host->handles[pending->handle].space == at.space &&
            host->handles[pending->handle].slot == at.slot) {
            return true;
        }
    }
    return false;
}

/* Whether its grant has to be asked for. */
static bool lock_is_missing(const struct host *host, struct lock_ref at)
{
    const struct lock *lock = lock_at(host, at);
    return (lock->state == LOCK_IDLE && !lock->full && lock_is_awaited(host, at)) ||
           (lock->state == LOCK_ADOPTED && lock->request == 0 &&
            (lock->mode != HFI_GRANT_NONE || lock_is_awaited(host, at))) ||
           (lock->request != 0 && request_is_kept(host, request_of(host, at)));
}

void lock_look_later(struct host *host, struct lock_ref at)
{
    struct space *space = &host->spaces[at.space];
    atomic_fetch_or(&space->region.dirty[at.slot / 64], UINT64_C(1) << (at.slot % 64));
}

void lock_unwanted(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    const struct lock *lock = lock_at(host, at);
    if (lock_is_awaited(host, at)) {
        if (!lock->full) {
            lock_ask(host, at, 0, actions);
        }
    } else if (lock->handles == NONE && !handles_unknown(host)) {
        lock_unmake(host, at, actions);
    }
}

void lock_attend(struct host *host, struct lock_ref at, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    if (!lock_is_named(lock)) {
        return;
    }
    repair_word(host, at, actions);
    if (handles_unknown(host)) {
        limits_find(host, at);
    }
    attend_holder(host, at, actions);
    uint64_t word = atomic_load(lock_word(host, at));
    if (lock_is_granted(lock)) {
        grant_attend(host, at, actions);
    } else if (lock->state == LOCK_ASKING) {
        lock_ask_anew(host, at, actions);
    } else if (lock_is_missing(host, at)) {
        lock_ask(host, at, 0, actions);
    }
    limits_attend(host, at);
    if ((word & HFI_W_WATCHED) && lock_is_named(lock_at(host, at))) {
        watch_bell_rang(host, at);
    }
}

/*
 * The new tokens have other high bits than the slot's: the name gets another slot. Who waits in
 * the old one is told that it is used up, and opens the name again.
 */
bool lock_move(struct host *host, struct lock_ref *at, struct host_actions *actions)
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
    names_set_lock(host->names, lock->name, lock_ref_pack(to));
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
    lock_unused(host, *at);
    watch_changed(host, to); /* what the old slot was not told yet, too */
    *at = to;
    return true;
}

/* ---- all locks ---- */

void locks_reclaim(struct host *host, uint32_t index, struct host_actions *actions)
{
    struct space *space = &host->spaces[index];
    uint32_t free = space->region.slot_count - space->slots_used + space->free_slots;
    if (free > space->region.slot_count / 16 || handles_unknown(host)) {
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
            lock_unmake(host, at, actions);
            taken++;
        } else if (lock->state == LOCK_ADOPTED && lock->mode == HFI_GRANT_NONE) {
            lock_ask(host, at, 0, actions); /* first to know what it has */
            taken++;
        } else if (lock->state == LOCK_GRANTED && hub_lease_is_safe(host) &&
                   !(word & (HFI_W_HOLDER | HFI_W_WAITERS | HFI_W_CLOSED))) {
            hfi_recall(lock_actor(host, at), at.slot, 0);
            lock_attend(host, at, actions);
            taken++;
        }
    }
}

/* By a process of this host. */
static bool lock_is_held(const struct host *host, struct lock_ref at)
{
    uint64_t word = atomic_load(lock_word(host, at));
    uint32_t holder = hfi_word_holder(word);
    return (holder != 0 && holder != HFI_HOLDER_AGENT) ||
           ((word & HFI_W_CELLS) &&
            hfi_has_readers(&host->spaces[at.space].region, at.slot, HFI_SEAT_NONE));
}

void locks_revoke_all(struct host *host, struct host_actions *actions)
{
    (void)actions;
    requests_end_all(host);
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        struct space *space = &host->spaces[i];
        for (uint32_t slot = 0; space->used && slot < space->slots_used; slot++) {
            struct lock_ref at = {i, slot};
            struct lock *lock = lock_at(host, at);
            if (lock_is_named(lock) && lock->state != LOCK_IDLE) {
                host->counts.losses[HOST_LOSS_LAPSE] += lock_is_held(host, at);
                /* What it was closed for is the quorum's to wait out now: a give-back in the next
                 * session does not. */
                lock_revoke(host, at, HFI_GRANT_NONE);
                lock_set_state(host, at, LOCK_IDLE);
                lock->mode = HFI_GRANT_NONE;
                lock->recalled = 0;
                lock->ballot = 0;
                lock->sequence = 0;
                watch_changed(host, at);
            }
        }
    }
    openings_forget(host);
}

/* A grant that nobody has had open for long goes back, so that its register can be deleted. */
static bool grant_is_idle(struct host *host, struct lock_ref at, uint32_t ages)
{
    const struct lock *lock = lock_at(host, at);
    uint8_t *idle = &host->spaces[at.space].idle[at.slot];
    if (lock->state != LOCK_GRANTED || lock->handles != NONE) {
        *idle = 0;
        return false;
    }
    *idle = *idle + ages < UINT8_MAX ? (uint8_t)(*idle + ages) : UINT8_MAX;
    return *idle > IDLE_AGES; /* more than: it may have become idle just before it was looked at */
}

void locks_mark_wanted(struct host *host)
{
    uint32_t ages = (uint32_t)((host->now_ns - host->aged_ns) / (IDLE_AGE_MS * MS));
    uint32_t idle = 0;
    host->aged_ns += (int64_t)ages * (IDLE_AGE_MS * MS);
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        struct space *space = &host->spaces[i];
        for (uint32_t slot = 0; space->used && slot < space->slots_used; slot++) {
            struct lock_ref at = {i, slot};
            struct lock *lock = lock_at(host, at);
            lock->full = 0;
            if (!lock_is_named(lock)) {
                continue;
            }
            survey_ages(host, at);
            bool look = word_is_awaited(host, at) || lock->state == LOCK_ADOPTED;
            if (grant_is_idle(host, at, ages) && idle < IDLE_MAX && !handles_unknown(host)) {
                hfi_recall(&space->actor, slot, 0);
                look = true;
                idle++;
            }
            if (look) {
                lock_look_later(host, at);
                space->dirty = true;
            }
        }
    }
    for (uint32_t i = 0; i < host->pending_end; i++) {
        const struct pending *pending = &host->pending[i];
        if (pending->used && !pending->ready) {
            const struct handle *who = &host->handles[pending->handle];
            lock_look_later(host, (struct lock_ref){who->space, who->slot});
            host->spaces[who->space].dirty = true;
        }
    }
}

void lock_log(struct host *host, struct host_actions *actions, const char *event,
              struct lock_ref at, uint64_t token, int64_t number)
{
    struct host_action *action = hub_emit(actions, HOST_LOG);
    action->as.log.event = event;
    action->as.log.region = at.space;
    action->as.log.slot = at.slot;
    action->as.log.token = token;
    action->as.log.number = number;
    if (lock_is_named(lock_at(host, at))) {
        lock_name(host, at, &action->as.log.name);
    }
}
