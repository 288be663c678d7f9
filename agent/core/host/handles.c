/*
 * Handles: opening a lock, closing, burying; holds with a limit.
 *
 * Within one lock each handle has a holder id of its own, so that a lock word names one handle and
 * no other; a client that opens a lock twice gets another id for the second handle.
 *
 * A handle that ends is buried: its place in the queue first, then what it holds, then whatever a
 * dead process may have left half-done on that lock. It is freed when nothing can name it any more.
 */
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

/* Whether the client may have one more handle, and there is one. */
static bool handle_is_left(const struct host *host, uint32_t client)
{
    return client_may_open(host, client) && host->handle_count < host->config.limits.handles;
}

static uint32_t handle_new(struct host *host, uint32_t client, struct lock_ref at)
{
    uint32_t handle = host->free_handle;
    if (handle != NONE) {
        host->free_handle = host->handles[handle].slot;
    } else if (host->handles_used < host->config.limits.handles) {
        handle = host->handles_used++;
    } else {
        return NONE;
    }
    struct client *who = &host->clients[client];
    struct lock *lock = lock_at(host, at);
    host->handles[handle] = (struct handle){
        .slot = at.slot,
        .space = (uint8_t)at.space,
        .seat = HFI_SEAT_NONE,
        .client = (uint16_t)client,
        .client_next = who->handles,
        .client_previous = NONE,
        .lock_next = lock->handles,
        .flags = HANDLE_USED,
    };
    if (who->handles != NONE) {
        host->handles[who->handles].client_previous = handle;
    }
    who->handles = handle;
    who->handle_count++;
    host->handle_count++;
    lock->handles = handle;
    return handle;
}

static void pending_drop(struct host *host, uint32_t index)
{
    host->pending[index].used = false;
    host->pending_count--;
    while (host->pending_end > 0 && !host->pending[host->pending_end - 1].used) {
        host->pending_end--;
    }
}

/* The handle is to be looked at by then. */
static void limit_due(struct host *host, uint32_t handle, int64_t due_ns)
{
    int64_t *group_ns = &host->limited_due_ns[handle / LIMITED_GROUP];
    *group_ns = due_ns < *group_ns ? due_ns : *group_ns;
    host->limits_due_ns = due_ns < host->limits_due_ns ? due_ns : host->limits_due_ns;
}

/* From now on the hold has to end in time. */
static void handle_limit(struct host *host, uint32_t handle)
{
    struct handle *who = &host->handles[handle];
    uint32_t group = handle / LIMITED_GROUP;
    if (!(who->flags & HANDLE_LIMITED)) {
        if (host->limited[group] == 0) {
            host->limited_due_ns[group] = INT64_MAX;
        }
        who->flags |= HANDLE_LIMITED;
        host->limited[group] |= UINT64_C(1) << (handle % LIMITED_GROUP);
        host->limited_count++;
    }
    limit_due(host, handle, host->now_ns + LIMIT_IDLE_CHECK_MS * MS);
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

static void handle_free(struct host *host, uint32_t handle)
{
    struct handle *who = &host->handles[handle];
    struct lock_ref at = {who->space, who->slot};
    struct client *client = &host->clients[who->client];
    bool left = who->flags & HANDLE_LEFT;
    if (!left) {
        seat_take_back(host, who);
    }
    if (client->bury_next == handle) {
        client->bury_next = who->client_next;
    }
    if (who->client_previous != NONE) {
        host->handles[who->client_previous].client_next = who->client_next;
    } else {
        client->handles = who->client_next;
    }
    if (who->client_next != NONE) {
        host->handles[who->client_next].client_previous = who->client_previous;
    }
    if (!left) {
        lock_unlink(host, at, handle);
    }
    client->handle_count--;
    host->handle_count--;
    delay_gone(host, who->lock_delay_ms);
    if (who->flags & HANDLE_ZOMBIE) {
        host->zombie_count--;
    }
    if (who->flags & HANDLE_LIMITED) {
        host->limited[handle / LIMITED_GROUP] &= ~(UINT64_C(1) << (handle % LIMITED_GROUP));
        host->limited_count--;
    }
    for (uint32_t i = 0; i < host->pending_end; i++) {
        if (host->pending[i].used && host->pending[i].handle == handle) {
            pending_drop(host, i);
        }
    }
    *who = (struct handle){.slot = host->free_handle};
    host->free_handle = handle;
    if (!left) {
        lock_unused(host, at);
    }
}

/* Bits by id, of one namespace. */
static void ids_clear(uint64_t *ids)
{
    memset(ids, 0, ID_WORDS * sizeof(*ids));
}

static void name_id(uint64_t *ids, uint32_t id)
{
    if (id != 0 && id < HOLDER_IDS) {
        ids[id / 64] |= UINT64_C(1) << (id % 64);
    }
}

static bool id_is_named(const uint64_t *ids, uint32_t id)
{
    return ids[id / 64] >> (id % 64) & 1;
}

static uint64_t *ids_of(const struct host *host, uint32_t space)
{
    return &host->named_ids[(size_t)space * ID_WORDS];
}

/* Which ids something of this lock has: a handle, or a seat that is no handle's. One walk for all
 * of them: a process may open a lock as often as it likes. */
static void collect_lock_ids(struct host *host, struct lock_ref at)
{
    const struct space *space = &host->spaces[at.space];
    uint32_t handle = lock_at(host, at)->handles;
    uint64_t *ids = ids_of(host, at.space);
    ids_clear(ids);
    for (uint32_t i = 0; handle != NONE && i <= host->config.limits.handles; i++) {
        name_id(ids, host->handles[handle].holder);
        handle = host->handles[handle].lock_next;
    }
    struct seats walk = seats_of(host, at);
    while (seats_next(&walk)) {
        if (space->seat_handle[walk.seat] == NONE) {
            name_id(ids, space->seat_holder[walk.seat]);
        }
    }
}

/* An id of the client that nothing of this lock has; 0: none. */
static uint32_t handle_id(struct host *host, uint32_t client, struct lock_ref at,
                          struct host_actions *actions)
{
    uint32_t id = host->clients[client].id;
    collect_lock_ids(host, at);
    for (uint32_t i = 0; id != 0 && i < HOLDER_IDS; i++) {
        if (!id_is_named(ids_of(host, at.space), id) &&
            hfi_word_holder(atomic_load(lock_word(host, at))) != id) {
            return id;
        }
        id = host->ids[id].next;
    }
    return client_add_id(host, client, actions);
}

static void send_region(struct host *host, uint32_t client, uint32_t index,
                        struct host_actions *actions)
{
    struct client *who = &host->clients[client];
    if (who->regions_sent >> index & 1) {
        return;
    }
    who->regions_sent |= UINT64_C(1) << index;
    const char *name = host->config.namespaces[index];
    struct hfi_frame frame = {.kind = HFI_FRAME_REGION};
    frame.region.region = index;
    frame.region.incarnation = host->spaces[index].incarnation;
    frame.region.namespace_name = (struct hfi_text){name, hub_text_size(name, HFI_LABEL_MAX)};
    frame.request = who->region_request;
    uint32_t count = actions->count;
    client_reply(host, client, &frame, actions);
    if (actions->count > count) {
        actions->items[count].as.reply.fds = HOST_FD_REGION;
        actions->items[count].as.reply.region = index;
        actions->items[count].as.reply.birth = host->spaces[index].birth;
    }
    host->spaces[index].dirty = true; /* what it asked for while it was not connected */
}

static void reply_opened(struct host *host, uint32_t handle, uint64_t request,
                         struct host_actions *actions)
{
    const struct handle *who = &host->handles[handle];
    struct hfi_frame frame = {.kind = HFI_FRAME_OPENED, .request = request};
    if (!region_is_sound(host, who->space)) { /* what was written for it may not be there */
        client_reply_done(host, who->client, request, HF_EUNSERVED, actions);
        return;
    }
    frame.opened = (struct hfi_opened){.handle = handle,
                                       .region = who->space,
                                       .slot = who->slot,
                                       .holder = who->holder,
                                       .seat = who->seat};
    host->clients[who->client].region_request = request;
    send_region(host, who->client, who->space, actions);
    uint32_t count = actions->count;
    client_reply(host, who->client, &frame, actions);
    if (actions->count > count) {
        actions->items[count].as.reply.region = who->space;
        actions->items[count].as.reply.birth = host->spaces[who->space].birth;
        actions->items[count].as.reply.request = request;
    }
}

/* To be answered later, when the grant is here or patience ends. false: too many are. */
static bool pending_add(struct host *host, uint32_t handle, uint64_t request)
{
    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        if (!host->pending[i].used) {
            host->pending[i] = (struct pending){.request = request,
                                                .due_ns = host->now_ns + OPEN_PATIENCE_MS * MS,
                                                .handle = handle,
                                                .used = true};
            host->pending_count++;
            host->pending_end = i < host->pending_end ? host->pending_end : i + 1;
            return true;
        }
    }
    return false;
}

void pending_resolve(struct host *host, struct lock_ref at, int32_t error)
{
    for (uint32_t i = 0; i < host->pending_end; i++) {
        struct pending *pending = &host->pending[i];
        if (!pending->used || host->handles[pending->handle].space != at.space ||
            host->handles[pending->handle].slot != at.slot) {
            continue;
        }
        const struct lock *lock = lock_at(host, at);
        if (error != 0 || host->handles[pending->handle].lock_delay_ms <= lock->lock_delay_ms) {
            pending->ready = true;
            pending->error = error;
        }
    }
}

void pending_work(struct host *host, struct host_actions *actions)
{
    for (uint32_t i = 0; i < host->pending_end; i++) {
        struct pending pending = host->pending[i];
        if (!pending.used || !pending.ready) {
            continue;
        }
        if (!hub_has_room(actions)) {
            return;
        }
        pending_drop(host, i);
        if (pending.error == 0) {
            reply_opened(host, pending.handle, pending.request, actions);
        } else {
            host->counts.opens_refused++;
            client_reply_done(host, host->handles[pending.handle].client, pending.request,
                              pending.error, actions);
            handle_free(host, pending.handle);
        }
    }
}

/* The client had this handle with the agent before, or before its connection broke. */
static uint32_t handle_resume(struct host *host, uint32_t client, struct lock_ref at,
                              const struct hfi_open *open)
{
    struct space *space = &host->spaces[at.space];
    if (open->incarnation != space->incarnation || open->slot != at.slot ||
        !client_has_id(host, client, open->holder)) {
        return NONE;
    }
    uint32_t handle = handle_of(host, at, open->holder);
    if (handle != NONE) { /* its own, from before it was hung up on */
        struct handle *who = &host->handles[handle];
        if (who->client != client || !(who->flags & (HANDLE_ZOMBIE | HANDLE_FOUND)) ||
            who->seat != open->seat) {
            return NONE;
        }
        host->zombie_count -= (who->flags & HANDLE_ZOMBIE) != 0;
        who->flags &= (uint8_t) ~(HANDLE_ZOMBIE | HANDLE_FOUND);
        return handle;
    }
    bool seated = open->seat != HFI_SEAT_NONE;
    if (seated && (open->seat / HFI_BLOCK_SEATS >= space->blocks_used ||
                   space->block_slot[open->seat / HFI_BLOCK_SEATS] != at.slot + 1 ||
                   space->seat_holder[open->seat] != open->holder ||
                   space->seat_handle[open->seat] != NONE)) {
        return NONE;
    }
    handle = handle_new(host, client, at);
    if (handle != NONE) {
        /* One that it was not told of before the agent died is its own too. */
        uint32_t seat = seated ? open->seat : seat_orphan(host, at, open->holder);
        host->handles[handle].holder = (uint16_t)open->holder;
        host->handles[handle].seat = seat;
        if (seat != HFI_SEAT_NONE) {
            space->seat_handle[seat] = handle;
        }
    }
    return handle;
}

/*
 * What the seat says until when its hold may last. Whoever took the lock stored that before now, so
 * it lies at most a limit ahead of now. What lies farther is written over: to take less for it at
 * each look would move on with the looks, and never end.
 */
static int64_t limit_of_seat(const struct host *host, const struct handle *who)
{
    struct hfi_seat *seat = hfi_seat(&host->spaces[who->space].region, who->seat);
    uint64_t deadline_ns = atomic_load(&seat->deadline_ns);
    uint64_t latest_ns = (uint64_t)host->outer->now_ns(host->outer->arg) +
                         (uint64_t)who->limit_ms * MS;
    /* seq_cst: as whoever changes it (hf_progress); if it just changed, it is looked at again */
    if (deadline_ns > latest_ns &&
        atomic_compare_exchange_strong(&seat->deadline_ns, &deadline_ns, latest_ns)) {
        deadline_ns = latest_ns;
    }
    deadline_ns = deadline_ns < latest_ns ? deadline_ns : latest_ns;
    return deadline_ns > 0 ? (int64_t)deadline_ns : 1;
}

/* The hold's own deadline, or 0 if this handle does not hold. *reads: it is a shared one. */
static int64_t limit_deadline(const struct host *host, const struct handle *who, uint64_t *cell,
                              uint64_t *token)
{
    const struct space *space = &host->spaces[who->space];
    const struct hfi_seat *seat = hfi_seat(&space->region, who->seat);
    /* The word before the deadline, which is stored before the swap: so it is of this token, or of
     * a later one and ends nothing. */
    uint64_t word = atomic_load(&space->region.words[who->slot].word);
    *token = word & HFI_W_TOKEN;
    uint64_t reader = atomic_load(&seat->reader);
    *cell = reader & HFI_CELL_COUNT ? reader : 0;
    if (!*cell && hfi_word_holder(word) != who->holder) {
        return 0;
    }
    return limit_of_seat(host, who);
}

static void limit_attend(struct host *host, uint32_t handle)
{
    const struct handle *who = &host->handles[handle];
    uint64_t cell = 0;
    uint64_t token = 0;
    if ((who->flags & HANDLE_LIMITED) && !(who->flags & HANDLE_ZOMBIE)) {
        int64_t deadline_ns = limit_deadline(host, who, &cell, &token);
        if (deadline_ns > 0) {
            limit_due(host, handle, deadline_ns);
        }
    }
}

/* What the options ask of the handle: lock-delay, limit, a seat. HF_EFULL, or 0. */
static int32_t handle_options(struct host *host, uint32_t handle, const struct hfi_open *open)
{
    struct handle *who = &host->handles[handle];
    delay_gone(host, who->lock_delay_ms);
    who->lock_delay_ms = (uint16_t)((open->lock_delay_ns + MS - 1) / MS);
    delay_note(host, (struct lock_ref){who->space, who->slot}, who->lock_delay_ms);
    who->flags |= open->flags & HFI_OPEN_BARGING ? HANDLE_BARGING : 0;
    int64_t limit_ns = open->lease_ns;
    if (open->max_stall_ns > 0 && (limit_ns == 0 || open->max_stall_ns < limit_ns)) {
        limit_ns = open->max_stall_ns;
        who->flags |= HANDLE_STALLS;
    }
    bool limited = limit_ns > 0;
    if (((open->flags & HFI_OPEN_SEAT) || limited) && who->seat == HFI_SEAT_NONE &&
        seat_give(host, handle) == HFI_SEAT_NONE) {
        return HF_EFULL;
    }
    if (limited) {
        int64_t limit_ms = limit_ns / MS + (limit_ns % MS != 0);
        who->limit_ms = limit_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)limit_ms;
        handle_limit(host, handle);
        limit_attend(host, handle); /* it may hold, opened again */
    }
    return 0;
}

/* Why nothing of the namespace can be opened; 0: it can. */
static int32_t space_error(const struct host *host, uint32_t index)
{
    const struct space *space = &host->spaces[index];
    bool served = !space->given_up && (!space->used || region_is_sound(host, index));
    return !served ? HF_EUNSERVED : space->used ? 0 : HF_EFULL;
}

void handle_open(struct host *host, uint32_t client, const struct hfi_frame *frame,
                 struct host_actions *actions)
{
    const struct hfi_open *open = &frame->open;
    const uint8_t *name = (const uint8_t *)open->name.bytes;
    uint32_t index = host_namespace(&host->config, open->name.bytes, open->name.size);
    int32_t error = client_rights_error(host, client, index, HOST_MAY_USE);
    struct lock_ref at = {0};
    bool made = false;
    HF_PROBE3(client_open, name, open->name.size, host->clients[client].id);
    if (error == 0) {
        error = space_error(host, index);
    }
    if (error == 0 && !lock_find(host, name, open->name.size, &at)) {
        /* Nobody has it open: who can have no handle of it makes no lock either. */
        if (handle_is_left(host, client)) {
            locks_reclaim(host, index, actions);
            made = lock_make(host, index, name, open->name.size, &at);
        }
        error = made ? 0 : HF_EFULL;
    }
    host->counts.opens++;
    if (error != 0) {
        host->counts.opens_refused++;
        client_reply_done(host, client, frame->request, error, actions);
        return;
    }
    uint32_t handle = open->flags & HFI_OPEN_RESUME ? handle_resume(host, client, at, open) : NONE;
    if (handle == NONE && client_may_open(host, client)) {
        uint32_t holder = handle_id(host, client, at, actions);
        handle = holder ? handle_new(host, client, at) : NONE;
        if (handle != NONE) {
            host->handles[handle].holder = (uint16_t)holder;
        }
    }
    error = handle == NONE ? HF_EFULL : handle_options(host, handle, open);
    if (error != 0) {
        host->counts.opens_refused++;
        client_reply_done(host, client, frame->request, error, actions);
        if (handle != NONE) {
            handle_free(host, handle);
        }
        if (made) {
            slot_persist(host, at, actions);
        }
        return;
    }
    struct lock *lock = lock_at(host, at);
    uint32_t delay_ms = host->handles[handle].lock_delay_ms;
    if (lock_is_granted(lock) && delay_ms <= lock->lock_delay_ms) {
        reply_opened(host, handle, frame->request, actions);
        return;
    }
    bool granted = lock_is_granted(lock);
    bool pends = pending_add(host, handle, frame->request);
    if (granted && !pends) {
        host->counts.opens_refused++;
        client_reply_done(host, client, frame->request, HF_EFULL, actions);
        handle_free(host, handle);
    } else if (granted) {
        lock_amend(host, at, delay_ms, false, actions);
    } else {
        lock_ask(host, at, delay_ms, actions);
    }
    if (made) { /* behind the request, which does not depend on it: one commit does for both */
        slot_persist(host, at, actions);
    }
    if (!granted && !pends) {
        /* Too many wait for grants: the client may do that itself. To refuse it would end what it
         * holds, if it is opening again what it had with the agent before. */
        reply_opened(host, handle, frame->request, actions);
    }
}

int32_t handle_map(struct host *host, uint32_t client, const struct hfi_frame *frame,
                   struct host_actions *actions)
{
    uint32_t index = host_namespace(&host->config, frame->text.bytes, frame->text.size);
    int32_t error = client_rights_error(host, client, index, HOST_MAY_USE);
    if (error == 0) {
        error = space_error(host, index);
    }
    if (error == 0) { /* again even if it was sent: the client asks where this name belongs */
        host->clients[client].regions_sent &= ~(UINT64_C(1) << index);
        host->clients[client].region_request = frame->request;
        send_region(host, client, index, actions);
    }
    return error;
}

/* The client's own handle with that number; NONE. */
static uint32_t handle_check(const struct host *host, uint32_t client, uint32_t handle)
{
    return handle < host->handles_used && (host->handles[handle].flags & HANDLE_USED) &&
                   !(host->handles[handle].flags & (HANDLE_ZOMBIE | HANDLE_FOUND)) &&
                   host->handles[handle].client == client
               ? handle
               : NONE;
}

void handle_seat(struct host *host, uint32_t client, const struct hfi_frame *frame,
                 struct host_actions *actions)
{
    uint32_t handle = handle_check(host, client, frame->seat.handle);
    if (handle == NONE) {
        client_reply_done(host, client, frame->request, HF_EINVAL, actions);
        return;
    }
    struct handle *who = &host->handles[handle];
    if (who->flags & HANDLE_LEFT) {
        client_reply_done(host, client, frame->request, HF_EUNSERVED, actions);
        return;
    }
    if (who->seat == HFI_SEAT_NONE && seat_give(host, handle) == HFI_SEAT_NONE) {
        client_reply_done(host, client, frame->request, HF_EFULL, actions);
        return;
    }
    if (frame->seat.flags & HFI_SEAT_SHARED) {
        struct lock_ref at = {who->space, who->slot};
        lock_guard(host, at)->cells = 1;
        /* seq_cst: before the answer; from now on writers look for readers */
        atomic_fetch_or(lock_word(host, at), HFI_W_CELLS);
    }
    if (!region_is_sound(host, who->space)) { /* writers need not look for this reader */
        client_reply_done(host, client, frame->request, HF_EUNSERVED, actions);
        return;
    }
    struct hfi_frame answer = {
        .kind = HFI_FRAME_SEATED, .request = frame->request, .seated = who->seat};
    client_reply(host, client, &answer, actions);
}

/* Whether the handle can be forgotten at once: it never was in the queue, or is known to be out. */
static bool handle_is_clear(const struct host *host, const struct handle *who)
{
    return who->seat == HFI_SEAT_NONE ||
           atomic_load(hfi_seat_wait(&host->spaces[who->space].region, who->seat)) == 0;
}

void handle_retire(struct host *host, uint32_t handle)
{
    struct handle *who = &host->handles[handle];
    if (who->flags & HANDLE_ZOMBIE) {
        return;
    }
    who->flags |= HANDLE_ZOMBIE;
    host->zombie_count++;
    if (!client_may_use_closed(host, who->client) && handle_is_clear(host, who)) {
        handle_free(host, handle);
    } else if (host->sweep_due_ns == INT64_MAX) {
        host->sweep_due_ns = host->now_ns + ZOMBIE_SWEEP_MS * MS;
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

void handle_bury(struct host *host, uint32_t handle, struct host_actions *actions)
{
    struct handle *who = &host->handles[handle];
    struct lock_ref at = {who->space, who->slot};
    const struct hfi_actor *actor = lock_actor(host, at);
    uint32_t holder = who->holder;
    if (who->flags & HANDLE_LEFT) {
        handle_free(host, handle);
        return;
    }
    if (who->seat != HFI_SEAT_NONE) {
        hfi_bury_waiter(actor, who->seat);
        hfi_pass_on(actor, at.slot, holder, who->seat); /* named, but never told so */
    }
    uint64_t word = atomic_load(lock_word(host, at));
    if (hfi_word_holder(word) == holder) {
        lock_evict(host, at, holder, word & HFI_W_TOKEN, who->lock_delay_ms, HOST_LOSS_DEATH,
                   actions);
    }
    if (who->seat != HFI_SEAT_NONE) {
        lock_evict_reader(host, at, who->seat, 0, who->lock_delay_ms, HOST_LOSS_DEATH, actions);
    }
    heal_lock(host, at);
    lock_attend(host, at, actions);
    handle_retire(host, handle);
}

void handle_bury_seat(struct host *host, uint32_t client, struct lock_ref at, uint32_t seat,
                      struct host_actions *actions)
{
    struct space *space = &host->spaces[at.space];
    uint32_t handle = handle_new(host, client, at);
    if (handle == NONE) { /* no room to remember it: the seat and its id stay taken */
        hfi_bury_waiter(&space->actor, seat);
        return;
    }
    host->handles[handle].holder = space->seat_holder[seat];
    host->handles[handle].seat = seat;
    host->handles[handle].lock_delay_ms = (uint16_t)lock_at(host, at)->lock_delay_ms;
    space->seat_handle[seat] = handle;
    handle_bury(host, handle, actions);
}

void handle_close(struct host *host, uint32_t client, uint32_t number, struct host_actions *actions)
{
    uint32_t handle = handle_check(host, client, number);
    if (handle == NONE) {
        return;
    }
    struct handle *who = &host->handles[handle];
    struct lock_ref at = {who->space, who->slot};
    if (who->flags & HANDLE_LEFT) {
        handle_free(host, handle);
        return;
    }
    uint64_t word = atomic_load(lock_word(host, at));
    bool holds = hfi_word_holder(word) == who->holder ||
                 (who->seat != HFI_SEAT_NONE &&
                  (atomic_load(&hfi_seat(&host->spaces[at.space].region, who->seat)->reader) &
                   HFI_CELL_COUNT));
    if (holds || !handle_is_clear(host, who)) {
        handle_bury(host, handle, actions);
    } else {
        handle_free(host, handle);
    }
}

/*
 * Which ids the records of one region name, of processes that may still act there. What a region
 * says is about its own locks: it keeps no handle of another namespace.
 */
static void collect_named_ids(struct host *host, uint32_t space)
{
    const struct hfi_region *region = &host->spaces[space].region;
    uint64_t *ids = ids_of(host, space);
    ids_clear(ids);
    for (uint32_t id = 1; id <= host->ids_high; id++) {
        /* A dead process's record counts until what it had open was healed. */
        uint32_t by = client_of_id(host, id);
        uint32_t flags = by == NONE ? CLIENT_DEAD : host->clients[by].flags;
        if ((flags & CLIENT_DEAD) && !(flags & (CLIENT_BURYING | CLIENT_SCANNING))) {
            continue;
        }
        for (unsigned entry = 0; entry < HFI_HANDINGS; entry++) {
            /* seq_cst: after the marking of the cell (rule 5); pairs with record_claim() */
            name_id(ids, atomic_load(&region->holders[id].handing_to[entry]));
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
    lock_attend(host, at, actions);
    return true;
}

void zombies_sweep(struct host *host, struct host_actions *actions)
{
    bool full = false;
    uint64_t collected = 0; /* bit by space */
    host->sweep_due_ns = INT64_MAX;
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
        if (!left && id_is_named(ids_of(host, who->space), who->holder)) {
            continue;
        }
        uint32_t client = who->client;
        if (!left && (client_may_use_closed(host, client) ||
                      (host->clients[client].flags & CLIENT_BURYING))) {
            continue;
        }
        if (!hub_has_room(actions) || host->walked >= HUB_WALK_MAX) {
            full = true; /* the rest at once, in the next step */
            break;
        }
        if (left || !zombie_is_named(host, handle, actions)) {
            handle_free(host, handle);
            client_forget_if_done(host, client, actions);
        }
    }
    if (host->zombie_count > 0) {
        host->sweep_due_ns = full ? host->now_ns : host->now_ns + ZOMBIE_SWEEP_MS * MS;
    }
}

/* ---- holds with a limit ---- */

static void limit_find(struct host *host, struct lock_ref at, uint32_t seat)
{
    struct space *space = &host->spaces[at.space];
    const struct hfi_seat *shared = hfi_seat(&space->region, seat);
    uint32_t id = space->seat_holder[seat];
    uint32_t client = client_of_id(host, id);
    bool holds = hfi_word_holder(atomic_load(lock_word(host, at))) == id ||
                 (atomic_load(&shared->reader) & HFI_CELL_COUNT);
    uint64_t deadline_ns = atomic_load(&shared->deadline_ns);
    if (id == 0 || !holds || deadline_ns == 0 || client == NONE || !client_lives(host, client) ||
        space->seat_handle[seat] != NONE) {
        return;
    }
    uint32_t handle = handle_new(host, client, at);
    if (handle == NONE) {
        return; /* its own handle, once it opens it, is what ends it */
    }
    uint64_t limit_ms = atomic_load(&shared->limit_ns) / (uint64_t)MS + 1;
    int64_t left_ms = ((int64_t)(deadline_ns & INT64_MAX) - host->now_ns) / MS + 1;
    limit_ms = left_ms > 0 && (uint64_t)left_ms > limit_ms ? (uint64_t)left_ms : limit_ms;
    struct handle *who = &host->handles[handle];
    who->holder = (uint16_t)id;
    who->seat = seat;
    who->flags |= HANDLE_FOUND;
    who->limit_ms = limit_ms < UINT32_MAX ? (uint32_t)limit_ms : UINT32_MAX;
    who->lock_delay_ms = (uint16_t)lock_at(host, at)->lock_delay_ms;
    space->seat_handle[seat] = handle;
    handle_limit(host, handle);
}

void limits_find(struct host *host, struct lock_ref at)
{
    struct seats walk = seats_of(host, at);
    while (seats_next(&walk)) {
        limit_find(host, at, walk.seat);
    }
}

void limits_attend(struct host *host, struct lock_ref at)
{
    uint32_t handle = lock_at(host, at)->handles;
    for (uint32_t i = 0; handle != NONE && i <= host->config.limits.handles; i++) {
        limit_attend(host, handle);
        handle = host->handles[handle].lock_next;
        host->walked++;
    }
}

static enum host_loss loss_of_limit(const struct handle *who)
{
    return who->flags & HANDLE_STALLS ? HOST_LOSS_STALL : HOST_LOSS_LEASE;
}

/* Ends the handle's hold if its time is over. When it is to be looked at next. */
static int64_t limit_check(struct host *host, const struct handle *who,
                           struct host_actions *actions)
{
    struct lock_ref at = {who->space, who->slot};
    uint64_t cell = 0;
    uint64_t token = 0;
    int64_t deadline_ns = who->flags & HANDLE_ZOMBIE ? 0 : limit_deadline(host, who, &cell, &token);
    if (deadline_ns > host->now_ns) {
        return deadline_ns;
    }
    if (deadline_ns > 0 && !hub_has_room(actions)) {
        return host->now_ns;
    }
    if (deadline_ns > 0 && cell) {
        lock_evict_reader(host, at, who->seat, cell, who->lock_delay_ms, loss_of_limit(who),
                          actions);
    } else if (deadline_ns > 0) {
        uint64_t word = atomic_load(lock_word(host, at));
        if (hfi_word_names(word, who->holder, token)) { /* not one that it took since */
            /* One that still waits (it was named while it stood still) loses its place too: else
             * it would be served again and again before those who can run. */
            hfi_bury_waiter(lock_actor(host, at), who->seat);
            lock_evict(host, at, who->holder, token, who->lock_delay_ms, loss_of_limit(who),
                       actions);
        }
    }
    return host->now_ns + LIMIT_IDLE_CHECK_MS * MS;
}

/* Ends what is over in a group of handles. When it is to be looked at next. */
static int64_t limits_check_group(struct host *host, uint32_t group, struct host_actions *actions)
{
    int64_t next_ns = INT64_MAX;
    for (uint64_t bits = host->limited[group]; bits != 0; bits &= bits - 1) {
        uint32_t handle = group * LIMITED_GROUP + (uint32_t)__builtin_ctzll(bits);
        int64_t due_ns = limit_check(host, &host->handles[handle], actions);
        next_ns = due_ns < next_ns ? due_ns : next_ns;
        host->walked++;
    }
    return next_ns;
}

void limits_check(struct host *host, struct host_actions *actions)
{
    int64_t next_ns = INT64_MAX;
    uint32_t groups = host->limited_count > 0 ? host->handles_used / LIMITED_GROUP + 1 : 0;
    uint32_t before = host->walked;
    uint32_t first = host->limits_hand;
    bool left = false;
    host->limits_due_ns = INT64_MAX;
    for (uint32_t i = 0; i < groups; i++) {
        uint32_t group = (first + i) % groups;
        int64_t *due_ns = &host->limited_due_ns[group];
        if (host->limited[group] == 0) {
            continue;
        }
        if (*due_ns <= host->now_ns && host->walked - before < LIMITS_LOOK_MAX &&
            hub_has_room(actions)) {
            *due_ns = INT64_MAX; /* whoever is handed a lock here has it set, too */
            int64_t looked_ns = limits_check_group(host, group, actions);
            *due_ns = looked_ns < *due_ns ? looked_ns : *due_ns;
        } else if (*due_ns <= host->now_ns && !left) {
            left = true;
            host->limits_hand = group;
        }
        next_ns = *due_ns < next_ns ? *due_ns : next_ns;
    }
    host->limits_due_ns = next_ns < host->limits_due_ns ? next_ns : host->limits_due_ns;
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
    if (handles_unknown(host) || !delays_count_begin(host, &hand)) {
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
