/*
 * Locks: their slots in a region, their grants, and what a rung bell asks for.
 *
 * A lock goes IDLE -> ASKING -> GRANTED (-> AMENDING -> GRANTED) -> RETURNING -> IDLE. The word is
 * opened only by a grant that the quorum gave, and is out of use before a give-back is sent. The
 * grant stays here when the last hold ends: that is what makes the next one cost no message.
 */
#include "state.h"

enum { RECLAIM_SCAN = 256, RECLAIM_MAX = 4, SPACE_SHIFT = 22 };

static uint32_t place_pack(struct place at)
{
    return (at.space << SPACE_SHIFT | at.slot) + 1;
}

void lock_name(const struct host *host, struct place at, struct message_name *out)
{
    size_t size = 0;
    const uint8_t *bytes = names_bytes(host->names, lock_at(host, at)->name, &size);
    memset(out, 0, sizeof(*out));
    out->length = (uint8_t)size;
    memcpy(out->bytes, bytes, size);
}

static uint64_t lock_hash(const struct host *host, struct place at)
{
    size_t size = 0;
    const uint8_t *bytes = names_bytes(host->names, lock_at(host, at)->name, &size);
    return hfi_name_hash((const char *)bytes, size);
}

bool lock_find(const struct host *host, const uint8_t *name, size_t size, struct place *at)
{
    uint32_t id = names_find(host->names, name, size);
    uint32_t packed = id == NAMES_NONE ? 0 : names_lock(host->names, id);
    if (packed == 0) {
        return false;
    }
    *at = (struct place){(packed - 1) >> SPACE_SHIFT,
                         (packed - 1) & ((UINT32_C(1) << SPACE_SHIFT) - 1)};
    return true;
}

/*
 * A slot that is nobody's, its word reset. NONE: all are in use. One that the agent before this one
 * retired may still be open somewhere: it stays retired for as long as the region is in use.
 */
static uint32_t slot_take(struct space *space)
{
    uint32_t slot = space->free_slot - 1;
    if (space->free_slot != 0) {
        space->free_slot = space->locks[slot].name;
        space->free_slots--;
    } else {
        while (space->slots_used < space->region.slot_count &&
               hfi_word_mode(atomic_load(&space->region.words[space->slots_used].word)) ==
                   HFI_GRANT_RETIRED) {
            space->locks[space->slots_used++] = (struct lock){.state = LOCK_RETIRED,
                                                              .handles = NONE};
        }
        if (space->slots_used == space->region.slot_count) {
            return NONE;
        }
        slot = space->slots_used++;
    }
    struct hfi_slot *shared = &space->region.slots[slot];
    /* Nobody has it open: a plain reset, seq_cst, before anybody is told of the slot. */
    atomic_store(&space->region.words[slot].word, 0);
    atomic_store(&shared->token_top, 0);
    atomic_store(&shared->closed_until_ns, 0);
    atomic_store(&shared->blocks, 0);
    space->slot_blocks[slot] = 0;
    return slot;
}

static void slot_free(struct host *host, struct place at)
{
    struct space *space = &host->spaces[at.space];
    struct lock *lock = lock_at(host, at);
    bool opening = lock->opening; /* its entry in the heap is still there */
    blocks_release(host, at);
    atomic_store(&space->region.words[at.slot].word, 0);
    *lock = (struct lock){.handles = NONE, .name = space->free_slot, .opening = opening};
    space->free_slot = at.slot + 1;
    space->free_slots++;
}

bool lock_make(struct host *host, uint32_t index, const uint8_t *name, size_t size,
               struct place *at)
{
    struct space *space = &host->spaces[index];
    uint32_t id = names_hold(host->names, name, size);
    uint32_t slot = id == NAMES_NONE ? NONE : slot_take(space);
    if (slot == NONE) {
        if (id != NAMES_NONE) {
            names_drop(host->names, id);
        }
        return false;
    }
    *at = (struct place){index, slot};
    struct lock *lock = lock_at(host, *at);
    bool opening = lock->opening;
    *lock = (struct lock){.state = LOCK_IDLE, .name = id, .handles = NONE, .opening = opening};
    if (!hfi_index_put(&space->region, slot, hfi_name_hash((const char *)name, size))) {
        hfi_index_remove(&space->region, slot, hfi_name_hash((const char *)name, size));
        names_drop(host->names, id);
        slot_free(host, *at);
        return false;
    }
    names_set_lock(host->names, id, place_pack(*at));
    if (watched(host, index, name, size)) {
        atomic_fetch_or(lock_word(host, *at), HFI_W_WATCHED);
    }
    return true;
}

bool lock_load(struct host *host, struct place at, const uint8_t *name, size_t size)
{
    struct space *space = &host->spaces[at.space];
    uint32_t id = names_hold(host->names, name, size);
    if (id == NAMES_NONE) {
        return false;
    }
    *lock_at(host, at) = (struct lock){.state = LOCK_IDLE, .name = id, .handles = NONE};
    names_set_lock(host->names, id, place_pack(at));
    space->slots_used = at.slot >= space->slots_used ? at.slot + 1 : space->slots_used;
    return true;
}

void slot_persist(struct host *host, struct place at, struct host_actions *actions)
{
    struct host_action *action = emit(actions, HOST_PERSIST_SLOT);
    action->as.slot.region = at.space;
    action->as.slot.slot = at.slot;
    lock_name(host, at, &action->as.slot.name);
}

/*
 * Whether a client of the agent before this one has not said yet all that it has open: it may be
 * any lock, and its handles name slots, which then must not become another lock's.
 */
static bool handles_unknown(const struct host *host)
{
    return host->survivor_count > 0;
}

/* The name gives its slot up. */
static void lock_unmake(struct host *host, struct place at, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    struct host_action *action = emit(actions, HOST_PERSIST_NO_SLOT);
    action->as.slot.region = at.space;
    action->as.slot.slot = at.slot;
    hfi_index_remove(&host->spaces[at.space].region, at.slot, lock_hash(host, at));
    names_set_lock(host->names, lock->name, NAMES_NONE);
    names_drop(host->names, lock->name);
    slot_free(host, at);
}

void lock_unused(struct host *host, struct place at)
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
                lock_unused(host, (struct place){i, slot});
            }
        }
    }
}

/* ---- asking, amending, giving back ---- */

/* A message to the quorum about this lock, with a new request id. */
static struct message *ask_message(struct host *host, struct place at, enum message_kind kind,
                                   struct host_actions *actions)
{
    lock_at(host, at)->request = (uint16_t)++host->last_request;
    return emit_send(actions, kind, 0, HOST_NO_RELAY);
}

/* The longest lock-delay that any handle of the lock asks for. */
static uint16_t longest_delay(const struct host *host, struct place at, uint32_t at_least_ms)
{
    /* Clients that have not opened their handles again may have asked for more than is known. */
    uint32_t unknown_ms = handles_unknown(host) ? LOCK_DELAY_UNKNOWN_MS : 0;
    uint32_t longest_ms = at_least_ms > unknown_ms ? at_least_ms : unknown_ms;
    uint32_t handle = lock_at(host, at)->handles;
    for (uint32_t i = 0; handle != NONE && i <= host->config.limits.handles; i++) {
        const struct handle *who = &host->handles[handle];
        longest_ms = who->lock_delay_ms > longest_ms ? who->lock_delay_ms : longest_ms;
        handle = who->lock_next;
    }
    return (uint16_t)longest_ms;
}

void lock_ask(struct host *host, struct place at, uint32_t lock_delay_ms,
              struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    if (lock->state != LOCK_IDLE || !lease_is_safe(host)) {
        return; /* under way, or asked for as soon as the session is safe */
    }
    struct message_acquire *acquire = &ask_message(host, at, MESSAGE_ACQUIRE, actions)->as.acquire;
    acquire->agent = host->config.agent;
    acquire->epoch = host->lease.epoch;
    acquire->request_id = host->last_request;
    acquire->mode = MESSAGE_MODE_EXCLUSIVE;
    acquire->lock_delay_ms = longest_delay(host, at, lock_delay_ms);
    lock_name(host, at, &acquire->name);
    lock->state = LOCK_ASKING;
}

void lock_amend(struct host *host, struct place at, uint32_t lock_delay_ms, bool tokens,
                struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    if (lock->state != LOCK_GRANTED || !lease_is_safe(host)) {
        return;
    }
    struct message_amend *amend = &ask_message(host, at, MESSAGE_AMEND, actions)->as.amend;
    amend->agent = host->config.agent;
    amend->epoch = host->lease.epoch;
    amend->request_id = host->last_request;
    amend->version = (struct message_order){lock->ballot, lock->sequence};
    amend->mode = MESSAGE_MODE_NONE;
    uint32_t delay_ms = longest_delay(host, at, lock_delay_ms);
    amend->lock_delay_ms = (uint16_t)(delay_ms > lock->lock_delay_ms ? delay_ms
                                                                     : lock->lock_delay_ms);
    amend->token_last = tokens ? lock->token_last : 0;
    lock_name(host, at, &amend->name);
    lock->state = LOCK_AMENDING;
}

static void send_give_back(struct host *host, const struct message_name *name,
                           struct message_order version, uint64_t token_used,
                           struct host_actions *actions)
{
    struct message_give_back *give_back =
        &emit_send(actions, MESSAGE_GIVE_BACK, 0, HOST_NO_RELAY)->as.give_back;
    give_back->agent = host->config.agent;
    give_back->epoch = host->lease.epoch;
    give_back->request_id = ++host->last_request;
    give_back->name = *name;
    give_back->version = version;
    give_back->token_used = token_used;
}

/* The word is out of use: tells the quorum. */
static void lock_return(struct host *host, struct place at, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    struct message_name name;
    lock_name(host, at, &name);
    uint64_t used = hfi_token(lock->token_last, atomic_load(lock_word(host, at)));
    used = used < lock->token_last ? used : lock->token_last; /* hostile bytes */
    send_give_back(host, &name, (struct message_order){lock->ballot, lock->sequence}, used,
                   actions);
    lock->request = (uint16_t)host->last_request;
    lock->state = LOCK_RETURNING;
}

/* ---- taking holds away ---- */

uint32_t lock_delay_of(const struct host *host, struct place at, uint32_t holder)
{
    uint32_t handle = handle_of(host, at, holder);
    return handle != NONE ? host->handles[handle].lock_delay_ms
                          : (uint32_t)lock_at(host, at)->lock_delay_ms;
}

void lock_evict(struct host *host, struct place at, uint32_t holder, uint64_t token,
                uint32_t delay_ms, const char *why, struct host_actions *actions)
{
    int64_t until_ns = delay_ms ? host->now_ns + (int64_t)delay_ms * MS : 0;
    if (!hfi_evict(lock_actor(host, at), at.slot, holder, token, until_ns)) {
        return;
    }
    if (delay_ms) {
        opening_add(host, at, until_ns);
    }
    uint64_t top = lock_at(host, at)->token_last;
    emit_lock_log(host, actions, why, at, hfi_token(top, token), delay_ms);
    uint32_t client = client_of_id(host, holder);
    if (client != NONE) {
        poke(host, client);
    }
    lock_changed(host, at);
}

void lock_evict_reader(struct host *host, struct place at, uint32_t seat, uint64_t cell,
                       uint32_t delay_ms, const char *why, struct host_actions *actions)
{
    int64_t until_ns = delay_ms ? host->now_ns + (int64_t)delay_ms * MS : 0;
    if (!hfi_evict_reader(lock_actor(host, at), at.slot, seat, cell, until_ns)) {
        return;
    }
    if (delay_ms) {
        opening_add(host, at, until_ns);
    }
    emit_lock_log(host, actions, why, at, 0, delay_ms);
    uint32_t client = client_of_id(host, host->spaces[at.space].seat_holder[seat]);
    if (client != NONE) {
        poke(host, client);
    }
    lock_changed(host, at);
}

void lock_open_due(struct host *host, struct place at, struct host_actions *actions)
{
    if (!lock_is_named(lock_at(host, at)) || !(atomic_load(lock_word(host, at)) & HFI_W_CLOSED)) {
        return;
    }
    uint64_t until_ns = atomic_load(&host->spaces[at.space].region.slots[at.slot].closed_until_ns);
    uint64_t latest_ns = (uint64_t)host->now_ns + (uint64_t)MESSAGE_LOCK_DELAY_MAX_MS * MS;
    until_ns = until_ns < latest_ns ? until_ns : latest_ns; /* hostile bytes */
    if (until_ns > (uint64_t)host->now_ns) {
        opening_add(host, at, (int64_t)until_ns);
        return;
    }
    hfi_open(lock_actor(host, at), at.slot);
    emit_lock_log(host, actions, "lock_opened", at, 0, 0);
    lock_attend(host, at, actions);
    lock_changed(host, at);
}

void lock_bury_unknown(struct host *host, uint32_t client, struct place at,
                       struct host_actions *actions)
{
    struct space *space = &host->spaces[at.space];
    struct lock *lock = lock_at(host, at);
    if (!lock_is_named(lock)) {
        return;
    }
    uint32_t holder = hfi_word_holder(atomic_load(lock_word(host, at)));
    uint32_t block = space->slot_blocks[at.slot];
    for (uint32_t i = 0; block != 0 && i <= space->blocks_used; i++) {
        for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
            uint32_t seat = (block - 1) * HFI_BLOCK_SEATS + place;
            uint32_t id = space->seat_holder[seat];
            uint32_t handle = space->seat_handle[seat];
            if (id == 0 || !client_has_id(host, client, id)) {
                continue;
            }
            if (handle == NONE) {
                handle_bury_seat(host, client, at, seat, actions);
            } else if (host->handles[handle].flags & HANDLE_FOUND) {
                host->handles[handle].flags &= (uint8_t)~HANDLE_FOUND;
                handle_bury(host, handle, actions);
            }
        }
        block = space->block_next[block - 1];
    }
    if (holder != 0 && client_has_id(host, client, holder) && handle_of(host, at, holder) == NONE &&
        hfi_word_holder(atomic_load(lock_word(host, at))) == holder) {
        uint64_t word = atomic_load(lock_word(host, at));
        lock_evict(host, at, holder, word & HFI_W_TOKEN, (uint32_t)lock->lock_delay_ms,
                   "lock_closed", actions);
    }
}

/* ---- what a rung bell asks for ---- */

/* A word that names somebody who cannot hold: a dead process, or nobody at all. */
static void attend_holder(struct host *host, struct place at, struct host_actions *actions)
{
    uint64_t word = atomic_load(lock_word(host, at));
    uint32_t holder = hfi_word_holder(word);
    uint32_t client = client_of_id(host, holder);
    uint32_t handle = handle_of(host, at, holder);
    bool lives = client != NONE && client_lives(host, client);
    bool known = handle != NONE || (lives && (host->clients[client].flags & CLIENT_SURVIVOR));
    if (holder == 0 || (lives && known)) {
        return;
    }
    uint32_t seat = handle == NONE ? HFI_SEAT_NONE : host->handles[handle].seat;
    if (holder == HFI_HOLDER_AGENT) {
        hfi_evict(lock_actor(host, at), at.slot, holder, word & HFI_W_TOKEN, 0);
    } else if (seat == HFI_SEAT_NONE || !hfi_pass_on(lock_actor(host, at), at.slot, holder, seat)) {
        lock_evict(host, at, holder, word & HFI_W_TOKEN, lock_delay_of(host, at, holder),
                   "lock_closed", actions);
    }
}

static bool lock_is_awaited(const struct host *host, struct place at)
{
    if (atomic_load(lock_word(host, at)) & (HFI_W_WAITERS | HFI_W_BARGERS)) {
        return true;
    }
    for (uint32_t i = 0; host->pending_count > 0 && i < PENDING_MAX; i++) {
        const struct pending *pending = &host->pending[i];
        if (pending->used && !pending->ready && host->handles[pending->handle].space == at.space &&
            host->handles[pending->handle].slot == at.slot) {
            return true;
        }
    }
    return false;
}

bool lock_lacks_delay(const struct host *host, struct place at)
{
    return hfi_word_mode(atomic_load(lock_word(host, at))) == HFI_GRANT_NONE &&
           longest_delay(host, at, 0) > lock_at(host, at)->lock_delay_ms;
}

static void attend_granted(struct host *host, struct place at, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    const struct hfi_actor *actor = lock_actor(host, at);
    uint64_t word = atomic_load(lock_word(host, at));
    if (lock->state == LOCK_AMENDING && hfi_word_mode(word) == HFI_GRANT_NONE) {
        return; /* not in force before it covers every handle's lock-delay */
    }
    if (!(word & HFI_W_RECALL) && lock_lacks_delay(host, at)) { /* it was refused, or no lease */
        lock_amend(host, at, 0, false, actions);
        return;
    }
    if (hfi_word_mode(word) != (enum hfi_grant)lock->mode) { /* somebody wrote over it */
        hfi_grant(actor, at.slot, (enum hfi_grant)lock->mode, 1, lock->token_last);
    }
    bool used_up = (word & HFI_W_TOKEN) >= (lock->token_last & HFI_W_TOKEN);
    if (used_up && (lock->token_last & HFI_W_TOKEN) == HFI_W_TOKEN && !(word & HFI_W_RECALL)) {
        /* The next tokens need another slot, and a slot is left only when nobody is inside: the
         * grant goes back as if it were recalled, and is asked for again. */
        hfi_recall(actor, at.slot, 0);
        word |= HFI_W_RECALL;
    }
    if (word & HFI_W_RECALL) {
        if (lock->state == LOCK_GRANTED && hfi_retract(actor, at.slot)) {
            lock_return(host, at, actions);
        }
    } else if (used_up) {
        lock_amend(host, at, 0, true, actions);
    } else {
        hfi_serve(actor, at.slot);
    }
}

void lock_attend(struct host *host, struct place at, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    if (!lock_is_named(lock)) {
        return;
    }
    if (handles_unknown(host)) {
        limits_find(host, at);
    }
    attend_holder(host, at, actions);
    uint64_t word = atomic_load(lock_word(host, at));
    if ((word & HFI_W_CLOSED) && !lock->opening) {
        lock_open_due(host, at, actions);
    }
    if (lock_is_granted(lock)) {
        attend_granted(host, at, actions);
    } else if (lock->state == LOCK_IDLE && !lock->full && lock_is_awaited(host, at)) {
        lock_ask(host, at, 0, actions);
    }
    limits_attend(host, at);
    if (word & HFI_W_WATCHED) {
        lock_changed(host, at);
    }
}

/* ---- what the quorum says ---- */

/*
 * The new tokens have other high bits than the slot's: the name gets another slot. Who waits in
 * the old one is told that it is used up, and opens the name again.
 */
static bool lock_move(struct host *host, struct place *at, struct host_actions *actions)
{
    struct lock *old = lock_at(host, *at);
    struct space *space = &host->spaces[at->space];
    uint32_t slot = slot_take(space);
    if (slot == NONE) {
        return false;
    }
    struct place to = {at->space, slot};
    struct lock *lock = lock_at(host, to);
    bool opening = lock->opening;
    uint64_t hash = lock_hash(host, *at);
    *lock = *old;
    lock->handles = NONE;
    lock->token_last = 0;
    lock->opening = opening;
    hfi_index_remove(&space->region, at->slot, hash);
    hfi_index_put(&space->region, slot, hash);
    names_set_lock(host->names, lock->name, place_pack(to));
    struct host_action *action = emit(actions, HOST_PERSIST_NO_SLOT);
    action->as.slot.region = at->space;
    action->as.slot.slot = at->slot;
    slot_persist(host, to, actions);
    hfi_revoke(lock_actor(host, *at), at->slot, HFI_GRANT_RETIRED);
    old->state = LOCK_RETIRED;
    old->name = 0;
    emit_lock_log(host, actions, "slot_retired", to, 0, at->slot);
    lock_unused(host, *at);
    *at = to;
    return true;
}

/* Puts a grant, or a range of it, in force. */
static void grant_apply(struct host *host, struct place at, const struct message_grant *grant,
                        struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    uint64_t top = atomic_load(&host->spaces[at.space].region.slots[at.slot].token_top);
    if (lock->token_last != 0) {
        top = lock->token_last; /* our own number, rather than the region's */
    }
    if (top != 0 && top >> HFI_TOKEN_LOW_BITS != grant->token_last >> HFI_TOKEN_LOW_BITS) {
        /* Not opened before its new slot is durable, or a crash would issue its tokens twice: the
         * grant goes back, behind the row, and is asked for again. */
        bool moved = lock_move(host, &at, actions);
        struct message_name name;
        lock_name(host, at, &name);
        send_give_back(host, &name, grant->version, 0, actions);
        lock_at(host, at)->request = (uint16_t)host->last_request;
        lock_at(host, at)->state = LOCK_RETURNING;
        lock_at(host, at)->full = !moved;
        if (!moved) { /* not asked for at every ring, which would go on for ever: with a renewal */
            pending_resolve(host, at, HF_EFULL);
            locks_reclaim(host, at.space, actions);
        }
        return;
    }
    lock = lock_at(host, at);
    lock->ballot = grant->version.ballot;
    lock->sequence = grant->version.sequence;
    lock->lock_delay_ms = grant->lock_delay_ms;
    lock->mode = grant->mode == MESSAGE_MODE_SHARED ? HFI_GRANT_SHARED : HFI_GRANT_EXCLUSIVE;
    lock->token_last = grant->token_last;
    lock->state = LOCK_GRANTED;
    if (longest_delay(host, at, 0) > lock->lock_delay_ms) {
        /* A hold must not begin under a grant that does not cover its lock-delay: if the word is
         * not open yet, it is opened by the answer to this. Without a lease that waits for a
         * look. */
        lock_amend(host, at, 0, false, actions);
        if (lock_lacks_delay(host, at)) {
            return;
        }
    }
    /* A token whose low bits are 0 cannot be told by a word: the next one is the first. */
    uint64_t first = grant->token_first & HFI_W_TOKEN ? grant->token_first : grant->token_first + 1;
    hfi_grant(lock_actor(host, at), at.slot, (enum hfi_grant)lock->mode, first, grant->token_last);
    pending_resolve(host, at, 0);
    if (atomic_load(lock_word(host, at)) & HFI_W_RECALL) { /* it came while this was under way */
        attend_granted(host, at, actions);
    }
    limits_attend(host, at);
    lock_changed(host, at);
}

static void granted(struct host *host, const struct message_grant *grant,
                    struct host_actions *actions)
{
    struct place at = {0};
    struct lock *lock = NULL;
    if (lock_find(host, grant->name.bytes, grant->name.length, &at)) {
        lock = lock_at(host, at);
    }
    if (lock && lock->state == LOCK_ASKING && grant->epoch == host->lease.epoch &&
        lock->request == (uint16_t)grant->request_id) {
        grant_apply(host, at, grant, actions);
        return;
    }
    bool known = lock && lock->ballot == grant->version.ballot &&
                 lock->sequence == grant->version.sequence;
    if (!known && grant->epoch == host->lease.epoch) { /* late: nobody here wants it any more */
        send_give_back(host, &grant->name, grant->version, 0, actions);
    }
}

static void returned(struct host *host, struct place at, struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    if (lock->state != LOCK_RETURNING) {
        return;
    }
    lock->state = LOCK_IDLE;
    lock->ballot = 0;
    lock->sequence = 0;
    lock->mode = HFI_GRANT_NONE;
    emit_lock_log(host, actions, "grant_returned", at, 0, 0);
    lock_changed(host, at);
    if (lock_is_awaited(host, at)) {
        if (!lock->full) {
            lock_ask(host, at, 0, actions);
        }
    } else if (lock->handles == NONE && !handles_unknown(host)) {
        lock_unmake(host, at, actions);
    }
}

static void refused(struct host *host, struct place at, const struct message_refused *refused,
                    struct host_actions *actions)
{
    struct lock *lock = lock_at(host, at);
    if (lock->request != (uint16_t)refused->request_id) {
        return;
    }
    emit_lock_log(host, actions, "request_refused", at, 0, refused->reason);
    if (lock->state == LOCK_ASKING) {
        lock->state = LOCK_IDLE;
    } else if (lock->state == LOCK_AMENDING && refused->reason == MESSAGE_REFUSED_VERSION) {
        hfi_revoke(lock_actor(host, at), at.slot, HFI_GRANT_NONE); /* it is not ours any more */
        lock->state = LOCK_IDLE;
    } else if (lock->state == LOCK_AMENDING) {
        lock->state = LOCK_GRANTED;
    }
    pending_resolve(host, at, HF_EFULL);
}

void lock_message(struct host *host, const struct message *message, struct host_actions *actions)
{
    struct place at = {0};
    switch ((int)message->kind) {
    case MESSAGE_GRANT:
        granted(host, &message->as.grant, actions);
        break;
    case MESSAGE_AMENDED:
        if (lock_find(host, message->as.grant.name.bytes, message->as.grant.name.length, &at) &&
            lock_at(host, at)->state == LOCK_AMENDING &&
            lock_at(host, at)->request == (uint16_t)message->as.grant.request_id) {
            grant_apply(host, at, &message->as.grant, actions);
        }
        break;
    case MESSAGE_GIVE_BACK_ACK:
        if (lock_find(host, message->as.version.name.bytes, message->as.version.name.length, &at) &&
            lock_at(host, at)->request == (uint16_t)message->as.version.request_id) {
            returned(host, at, actions);
        }
        break;
    case MESSAGE_RECALL:
        if (lock_find(host, message->as.version.name.bytes, message->as.version.name.length, &at) &&
            lock_is_granted(lock_at(host, at)) &&
            lock_at(host, at)->ballot == message->as.version.version.ballot &&
            lock_at(host, at)->sequence == message->as.version.version.sequence) {
            hfi_recall(lock_actor(host, at), at.slot, HANDOVERS_BEFORE_RECALL);
            lock_attend(host, at, actions);
        }
        break;
    case MESSAGE_REFUSED:
        if (lock_find(host, message->as.refused.name.bytes, message->as.refused.name.length, &at)) {
            refused(host, at, &message->as.refused, actions);
        }
        break;
    default:
        break;
    }
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
        struct place at = {index, space->reclaim_hand};
        struct lock *lock = lock_at(host, at);
        if (!lock_is_named(lock) || lock->handles != NONE) {
            continue;
        }
        uint64_t word = atomic_load(lock_word(host, at));
        if (lock->state == LOCK_IDLE) {
            lock_unmake(host, at, actions);
            taken++;
        } else if (lock->state == LOCK_GRANTED && lease_is_safe(host) &&
                   !(word & (HFI_W_HOLDER | HFI_W_WAITERS | HFI_W_CLOSED))) {
            hfi_recall(lock_actor(host, at), at.slot, 0);
            lock_attend(host, at, actions);
            taken++;
        }
    }
}

void locks_revoke_all(struct host *host, struct host_actions *actions)
{
    (void)actions;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        struct space *space = &host->spaces[i];
        for (uint32_t slot = 0; space->used && slot < space->slots_used; slot++) {
            struct place at = {i, slot};
            struct lock *lock = lock_at(host, at);
            if (lock_is_named(lock) && lock->state != LOCK_IDLE) {
                hfi_revoke(&space->actor, slot, HFI_GRANT_NONE);
                lock->state = LOCK_IDLE;
                lock->mode = HFI_GRANT_NONE;
                lock->ballot = 0;
                lock->sequence = 0;
                lock_changed(host, at);
            }
        }
    }
}

void locks_mark_wanted(struct host *host)
{
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        struct space *space = &host->spaces[i];
        for (uint32_t slot = 0; space->used && slot < space->slots_used; slot++) {
            struct place at = {i, slot};
            lock_at(host, at)->full = 0;
            if (lock_is_named(lock_at(host, at)) && lock_is_awaited(host, at)) {
                atomic_fetch_or(&space->region.dirty[slot / 64], UINT64_C(1) << (slot % 64));
                space->dirty = true;
            }
        }
    }
}
