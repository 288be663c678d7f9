/* The handles that clients open: see opens.h. */
#include "opens.h"

#include "attend.h"
#include "burials.h"
#include "clients.h"
#include "delays.h"
#include "full.h"
#include "grants.h"
#include "handles.h"
#include "ids.h"
#include "limits.h"
#include "locks.h"
#include "look.h"
#include "notes.h"
#include "pending.h"
#include "publish.h"
#include "ringing.h"
#include "seats.h"
#include "slots.h"
#include "spaces.h"
#include "watches.h"

struct opens {
    struct id_set named; /* the ids that the handles and seats of one lock have (scratch) */
};

struct opens *opens_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct opens));
}

/* Returns whether the client may have one more handle, and one is free. */
static bool handle_is_left(const struct host *host, uint32_t client)
{
    return handles_may_open(host, client) && handles_count(host) < host->config.limits.handles;
}

/* Completes the note about a table that is full of handles: adds the namespace (NONE: all
 * namespaces) and the process with the most handles. */
static void full_of_handles(struct host *host, uint32_t space)
{
    struct full_note *note = full_last(host);
    uint32_t most = handles_most(host, &note->handles);
    note->space = space;
    if (most != NONE) {
        const struct host_peer *peer = client_peer(host, most);
        note->pid = peer->pid;
        note->uid = peer->uid;
        note->account = peer->account;
    }
}

/* Notes that the client gets no more handles, because this client, or all clients together, have as
 * many as they may have. Returns HF_EFULL. */
static int32_t handles_are_full(struct host *host, uint32_t client)
{
    bool share = !handles_may_open(host, client);
    uint32_t room = host->config.limits.handles;
    (void)full(host, HFI_TABLE_HANDLES, share ? (room + 1) / 2 : room);
    full_last(host)->share = share;
    full_of_handles(host, NONE);
    return HF_EFULL;
}

/* Notes that the namespace has no more seats. Returns HF_EFULL. */
static int32_t seats_are_full(struct host *host, uint32_t space)
{
    (void)full(host, HFI_TABLE_BLOCKS, host->config.limits.blocks);
    full_of_handles(host, space);
    return HF_EFULL;
}

/* Collects the ids of this lock's handles, and of its seats without a handle. One walk collects all
 * ids. A walk for each id would take too long, because a process may open a lock as often as it
 * likes. */
static void collect_lock_ids(struct host *host, struct lock_ref at)
{
    uint32_t handle = lock_handles(host, at);
    struct id_set *ids = &host->opens->named;
    id_set_clear(ids);
    for (uint32_t i = 0; handle != NONE && i <= host->config.limits.handles; i++) {
        id_set_add(ids, handle_holder(host, handle));
        handle = handle_next(host, handle);
    }
    struct seat_walk walk = seats_of(host, at);
    while (seats_next(&walk)) {
        if (seat_handle(host, at.space, walk.seat) == NONE) {
            id_set_add(ids, seat_holder(host, at.space, walk.seat));
        }
    }
}

/* Returns an id of the client that no handle and no seat of this lock has, and that the word does
 * not name. Gives the client one more id if necessary. Returns 0 if no id is left. */
static uint32_t handle_id(struct host *host, uint32_t client, struct lock_ref at,
                          struct host_actions *actions)
{
    uint32_t id = client_id(host, client);
    collect_lock_ids(host, at);
    for (uint32_t i = 0; id != 0 && i < HUB_HOLDER_IDS; i++) {
        if (!id_set_has(&host->opens->named, id) &&
            hfi_word_holder(atomic_load(lock_word(host, at))) != id) {
            return id;
        }
        id = client_next_id(host, id);
    }
    return client_add_id(host, client, actions);
}

static void send_region(struct host *host, uint32_t client, uint32_t index,
                        struct host_actions *actions)
{
    if (!client_region_sent(host, client, index)) {
        return;
    }
    const char *name = host->config.namespaces[index];
    struct hfi_frame frame = {.kind = HFI_FRAME_REGION};
    frame.region.region = index;
    frame.region.incarnation = space_incarnation(host, index);
    frame.region.namespace_name = (struct hfi_text){name, hub_text_size(name, HFI_LABEL_MAX)};
    frame.request = client_region_request(host, client);
    uint32_t count = actions->count;
    client_reply(host, client, &frame, actions);
    if (actions->count > count) {
        actions->items[count].as.reply.fds = HOST_FD_REGION;
        actions->items[count].as.reply.region = index;
        actions->items[count].as.reply.birth = space_birth(host, index);
    }
    ring_arrived(host, index); /* the client may have rung while it was not connected */
}

static void reply_opened(struct host *host, uint32_t handle, uint64_t request,
                         struct host_actions *actions)
{
    struct lock_ref at = handle_lock(host, handle);
    uint32_t client = handle_client(host, handle);
    struct hfi_frame frame = {.kind = HFI_FRAME_OPENED, .request = request};
    if (!space_is_sound(host, at.space)) { /* the handle's seat or bits in the region may be lost */
        client_reply_done(host, client, request, HF_EUNSERVED, actions);
        return;
    }
    frame.opened = (struct hfi_opened){.handle = handle,
                                       .region = at.space,
                                       .slot = at.slot,
                                       .holder = (uint16_t)handle_holder(host, handle),
                                       .seat = handle_seat(host, handle)};
    client_set_region_request(host, client, request);
    send_region(host, client, at.space, actions);
    uint32_t count = actions->count;
    client_reply(host, client, &frame, actions);
    if (actions->count > count) {
        actions->items[count].as.reply.region = at.space;
        actions->items[count].as.reply.birth = space_birth(host, at.space);
        actions->items[count].as.reply.request = request;
    }
}

void opens_work(struct host *host, struct host_actions *actions)
{
    for (uint32_t i = 0; i < pending_end(host); i++) {
        struct pending_open open;
        if (!pending_read(host, i, &open) || !open.ready) {
            continue;
        }
        if (!hub_has_room(actions)) {
            return;
        }
        pending_drop(host, i);
        if (open.error == 0) {
            reply_opened(host, open.handle, open.request, actions);
        } else {
            full_restore(host, &open.full);
            host->counts.opens_refused++;
            client_reply_done(host, handle_client(host, open.handle), open.request, open.error,
                              actions);
            burial_free(host, open.handle);
        }
    }
}

bool opens_are_left(const struct host *host)
{
    for (uint32_t i = 0; i < pending_end(host); i++) {
        struct pending_open open;
        if (pending_read(host, i, &open) && open.ready) {
            return true;
        }
    }
    return false;
}

int64_t opens_due_ns(const struct host *host)
{
    int64_t due_ns = INT64_MAX;
    for (uint32_t i = 0; i < pending_end(host); i++) {
        struct pending_open open;
        if (pending_read(host, i, &open) && open.due_ns < due_ns) {
            due_ns = open.due_ns;
        }
    }
    return due_ns;
}

void opens_tick(struct host *host, struct host_actions *actions)
{
    for (uint32_t i = 0; i < pending_end(host); i++) {
        struct pending_open open;
        if (!pending_read(host, i, &open) || open.ready || open.due_ns > host->now_ns) {
            continue;
        }
        struct lock_ref at = handle_lock(host, open.handle);
        pending_set_due(host, i, host->now_ns + PENDING_ANSWER_MS * MS);
        if (!lock_is_granted(host, at)) {
            /* from now on the client waits for the grant in the lock's queue */
            pending_set_ready(host, i, open.error);
        } else if (hub_has_room(actions)) {
            /* A hold must not begin under a grant that does not cover the lock-delay of the hold's
             * handle. So the OPEN is not answered, and the AMEND is sent if that was not possible
             * before, because the lease was not safe. */
            grant_amend(host, at, handle_delay_ms(host, open.handle), false, actions);
        }
    }
}

/* Gives the client the handle again that it had with the previous agent, or before its connection
 * broke. Returns NONE if the client had no such handle. */
static uint32_t handle_resume(struct host *host, uint32_t client, struct lock_ref at,
                              const struct hfi_open *open)
{
    if (open->incarnation != space_incarnation(host, at.space) || open->slot != at.slot ||
        !client_has_id(host, client, open->holder)) {
        return NONE;
    }
    uint32_t handle = handle_of(host, at, open->holder);
    if (handle != NONE) { /* a handle that the client had before its connection broke */
        if (handle_client(host, handle) != client ||
            !(handle_flags(host, handle) & (HANDLE_ZOMBIE | HANDLE_FOUND)) ||
            handle_seat(host, handle) != open->seat) {
            return NONE;
        }
        handle_clear(host, handle, HANDLE_ZOMBIE | HANDLE_FOUND);
        /* the process may have changed the note meanwhile; if it has one, a NOTE follows */
        (void)handle_set_note(host, handle, (struct hfi_text){NULL, 0}, 0);
        return handle;
    }
    bool seated = open->seat != HFI_SEAT_NONE;
    if (seated && (!seat_is_of(host, at, open->seat) ||
                   seat_holder(host, at.space, open->seat) != open->holder ||
                   seat_handle(host, at.space, open->seat) != NONE)) {
        return NONE;
    }
    handle = handle_new(host, client, at);
    if (handle != NONE) {
        /* The previous agent may have given the client a seat, and died before it answered the
         * SEAT. */
        uint32_t seat = seated ? open->seat : seat_orphan(host, at, open->holder);
        handle_set_holder(host, handle, open->holder);
        handle_set_seat(host, handle, seat);
        if (seat != HFI_SEAT_NONE) {
            seat_set_handle(host, at.space, seat, handle);
        }
    }
    return handle;
}

/* Gives this handle a free seat if it has none. Returns false if no seat is free. */
static bool handle_give_seat(struct host *host, uint32_t handle)
{
    if (handle_seat(host, handle) == HFI_SEAT_NONE) {
        uint32_t seat = seat_give(host, handle_lock(host, handle), handle_holder(host, handle),
                                  handle);
        handle_set_seat(host, handle, seat);
    }
    return handle_seat(host, handle) != HFI_SEAT_NONE;
}

/* Gives the handle what the options ask for: a lock-delay, a limit, a seat. Returns HF_EFULL if
 * there is no free seat, or 0. */
static int32_t handle_options(struct host *host, uint32_t handle, const struct hfi_open *open)
{
    delay_gone(host, handle_delay_ms(host, handle));
    handle_set_delay_ms(host, handle, (uint32_t)((open->lock_delay_ns + MS - 1) / MS));
    delay_note(host, handle_lock(host, handle), handle_delay_ms(host, handle));
    handle_set(host, handle, open->flags & HFI_OPEN_BARGING ? HANDLE_BARGING : 0);
    int64_t limit_ns = open->lease_ns;
    if (open->max_stall_ns > 0 && (limit_ns == 0 || open->max_stall_ns < limit_ns)) {
        limit_ns = open->max_stall_ns;
        handle_set(host, handle, HANDLE_STALLS);
    }
    bool limited = limit_ns > 0;
    if (((open->flags & HFI_OPEN_SEAT) || limited) && !handle_give_seat(host, handle)) {
        return seats_are_full(host, handle_lock(host, handle).space);
    }
    if (limited) {
        int64_t limit_ms = limit_ns / MS + (limit_ns % MS != 0);
        handle_set_limit_ms(host, handle, limit_ms > UINT32_MAX ? UINT32_MAX : (uint32_t)limit_ms);
        limit_begin(host, handle);
        /* The client may hold the lock by the handle that it opens again. */
        limit_attend(host, handle);
    }
    return 0;
}

/* Returns the error that keeps locks of the namespace from being opened; 0: they can be opened. */
static int32_t space_error(struct host *host, uint32_t index)
{
    bool served = !space_is_given_up(host, index) &&
                  (!space_is_used(host, index) || space_is_sound(host, index));
    return !served                      ? HF_EUNSERVED
           : space_is_used(host, index) ? 0
                                        : full(host, HFI_TABLE_MEMORY, 0);
}

/* Makes a new handle for the client. Returns HF_EFULL if no handle or no holder id is left. */
static int32_t handle_made(struct host *host, uint32_t client, struct lock_ref at, uint32_t *handle,
                           struct host_actions *actions)
{
    if (!handle_is_left(host, client)) {
        return handles_are_full(host, client);
    }
    uint32_t holder = handle_id(host, client, at, actions);
    if (holder == 0) {
        full_of_handles(host, NONE);
        return HF_EFULL;
    }
    *handle = handle_new(host, client, at);
    HF_CHECK(*handle != NONE); /* handle_is_left() has checked this */
    handle_set_holder(host, *handle, holder);
    return 0;
}

void opens_open(struct host *host, uint32_t client, const struct hfi_frame *frame,
                struct host_actions *actions)
{
    const struct hfi_open *open = &frame->open;
    const uint8_t *name = (const uint8_t *)open->name.bytes;
    uint32_t index = host_namespace(&host->config, open->name.bytes, open->name.size);
    int32_t error = client_rights_error(host, client, index, HOST_MAY_USE);
    struct lock_ref at = {0};
    bool made = false;
    HF_PROBE3(client_open, name, open->name.size, client_id(host, client));
    if (error == 0) {
        error = space_error(host, index);
    }
    if (error == 0 && lock_find(host, name, open->name.size, &at)) {
        (void)slot_renew(host, &at, actions);
    } else if (error == 0) {
        /* No process has the lock open. If the client cannot have a handle of it, no lock is
         * made. */
        if (!handle_is_left(host, client)) {
            error = handles_are_full(host, client);
        } else {
            attend_reclaim(host, index, actions);
            made = slot_make(host, index, name, open->name.size, &at);
            if (!made) {
                full_of_handles(host, index);
                error = HF_EFULL;
            }
        }
    }
    host->counts.opens++;
    if (error != 0) {
        host->counts.opens_refused++;
        client_reply_done(host, client, frame->request, error, actions);
        return;
    }
    uint32_t handle = open->flags & HFI_OPEN_RESUME ? handle_resume(host, client, at, open) : NONE;
    if (handle == NONE) {
        error = handle_made(host, client, at, &handle, actions);
    }
    error = error != 0 ? error : handle_options(host, handle, open);
    if (error != 0) {
        host->counts.opens_refused++;
        client_reply_done(host, client, frame->request, error, actions);
        if (handle != NONE) {
            burial_free(host, handle);
        }
        if (made) {
            slot_persist(host, at, actions);
        }
        return;
    }
    uint32_t delay_ms = handle_delay_ms(host, handle);
    if (lock_is_granted(host, at) && delay_ms <= lock_covered_ms(host, at)) {
        reply_opened(host, handle, frame->request, actions);
        return;
    }
    bool granted = lock_is_granted(host, at);
    bool pends = pending_add(host, handle, frame->request);
    if (granted && !pends) {
        host->counts.opens_refused++;
        client_reply_done(host, client, frame->request, full(host, HFI_TABLE_OPENS, PENDING_MAX),
                          actions);
        burial_free(host, handle);
    } else if (granted) {
        grant_amend(host, at, delay_ms, false, actions);
    } else {
        grant_ask(host, at, delay_ms, actions);
    }
    if (made) {
        /* The request stands before the row in the list of actions, because it does not depend on
         * the row. So it does not wait for the row's commit. */
        slot_persist(host, at, actions);
    }
    if (!granted && !pends) {
        /* Too many OPENs wait for grants. So this OPEN is answered now, and the client waits for
         * the grant in the lock's queue. The OPEN is not refused, because a client that opens its
         * locks again would lose its holds. */
        reply_opened(host, handle, frame->request, actions);
    }
}

int32_t opens_map(struct host *host, uint32_t client, const struct hfi_frame *frame,
                  struct host_actions *actions)
{
    uint32_t index = host_namespace(&host->config, frame->text.bytes, frame->text.size);
    int32_t error = client_rights_error(host, client, index, HOST_MAY_USE);
    if (error == 0) {
        error = space_error(host, index);
    }
    /* Sends the region even if the client has it: MAP asks which region the name belongs to. */
    if (error == 0) {
        client_region_forget(host, client, index);
        client_set_region_request(host, client, frame->request);
        send_region(host, client, index, actions);
    }
    return error;
}

void opens_seat(struct host *host, uint32_t client, const struct hfi_frame *frame,
                struct host_actions *actions)
{
    uint32_t handle = handle_check_own(host, client, frame->seat.handle);
    if (handle == NONE) {
        client_reply_done(host, client, frame->request, HF_EINVAL, actions);
        return;
    }
    if (handle_flags(host, handle) & HANDLE_LEFT) {
        client_reply_done(host, client, frame->request, HF_EUNSERVED, actions);
        return;
    }
    if (!handle_give_seat(host, handle)) {
        client_reply_done(host, client, frame->request,
                          seats_are_full(host, handle_lock(host, handle).space), actions);
        return;
    }
    struct lock_ref at = handle_lock(host, handle);
    if (frame->seat.flags & HFI_SEAT_SHARED) {
        lock_set_cells(host, at);
        /* seq_cst: the bit is set before the answer; from now on writers look for readers */
        atomic_fetch_or(lock_word(host, at), HFI_W_CELLS);
    }
    /* in a region that is not sound, writers may not find this reader */
    if (!space_is_sound(host, at.space)) {
        client_reply_done(host, client, frame->request, HF_EUNSERVED, actions);
        return;
    }
    struct hfi_frame answer = {
        .kind = HFI_FRAME_SEATED, .request = frame->request, .seated = handle_seat(host, handle)};
    client_reply(host, client, &answer, actions);
}

int32_t opens_note(struct host *host, uint32_t client, const struct hfi_frame *frame)
{
    uint32_t handle = handle_check_own(host, client, frame->note.handle);
    if (handle == NONE || (handle_flags(host, handle) & HANDLE_LEFT)) {
        return handle == NONE ? HF_EINVAL : HF_EUNSERVED;
    }
    struct lock_ref at = handle_lock(host, handle);
    uint64_t mark = look_mark(host, at, handle_holder(host, handle), handle_seat(host, handle));
    bool now = frame->note.flags & HFI_NOTE_NOW;
    if (!handle_set_note(host, handle, frame->note.note, now ? 0 : mark)) {
        bool share = notes_count(host) < notes_room(host);
        (void)full(host, HFI_TABLE_NOTES, share ? notes_share(host) : notes_room(host));
        full_last(host)->share = share;
        return HF_EFULL;
    }
    if (now && mark != 0) {
        publish_again(host, at); /* the hold has a note that other hosts do not know yet */
        watch_changed(host, at);
    }
    return 0;
}
