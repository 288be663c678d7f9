/*
 * See box.h. The processes of the box's host: their frames on the socket, their changes of the
 * region, and the rubbish that a process writes into the region.
 */
#include "box.h"

#include <stdlib.h>
#include <string.h>

struct message_name box_draw_name(void)
{
    static const char *const names[BOX_NAMES] = {"a",  "b",   "c",         "d",        "e",
                                                 "f",  "g",   "default/a", "orders/x", "aa",
                                                 "ab", "a/b", "\xc3\xa4",  "zz/yy/xx"};
    struct message_name name;
    const char *text = names[draw_below(&box->draw, BOX_NAMES)];
    message_name_set(&name, text, strlen(text));
    return name;
}

/* ---- what the agent does for the processes ---- */

static struct box_process *process_of(uint32_t connection)
{
    for (uint32_t i = 0; i < BOX_PROCESSES; i++) {
        if (connection != 0 && box->processes[i].connection == connection) {
            return &box->processes[i];
        }
    }
    return NULL;
}

static void keep_handle(struct box_process *process, const struct hfi_opened *opened)
{
    uint32_t at = 0;
    while (at < BOX_HANDLES && process->handles[at].used) {
        at++;
    }
    HF_CHECK(opened->slot < BOX_SLOTS && opened->region == 0 && opened->holder > 0);
    HF_CHECK(opened->seat == HFI_SEAT_NONE || opened->seat < BOX_BLOCKS * HFI_BLOCK_SEATS);
    if (at < BOX_HANDLES) {
        process->handles[at] = (struct box_handle){.used = true, .opened = *opened};
    }
}

static void take_reply(const struct host_action *action, const unsigned char *bytes)
{
    struct box_process *process = process_of(action->connection);
    struct hfi_frame frame;
    struct hfi_listed_cursor cursor;
    struct hfi_frame_error error;
    HF_CHECK(hfi_frame_decode(bytes, action->as.reply.size, &frame, &cursor, &error) == 0);
    HF_CHECK(frame.kind >= HFI_FRAME_WELCOME);
    if (process != NULL && frame.kind == HFI_FRAME_OPENED) {
        keep_handle(process, &frame.opened);
    }
}

static void take_identity(const struct host_action *action)
{
    struct box_process *process = process_of(action->connection);
    if (process == NULL) {
        return;
    }
    if (action->kind == HOST_WELCOMED && !action->as.identity.resumed) {
        process->client = action->client;
        process->nonce = action->as.identity.nonce;
        process->id_count = 0;
        memset(process->handles, 0, sizeof(process->handles));
    }
    uint32_t id = action->kind == HOST_WELCOMED ? action->client : action->as.identity.holder;
    if (process->id_count < BOX_IDS && !(action->kind == HOST_WELCOMED && process->id_count > 0)) {
        process->ids[process->id_count++] = id;
    }
}

void box_take_action(const struct host_action *action, const unsigned char *bytes)
{
    struct box_process *process;
    switch (action->kind) {
    case HOST_REPLY:
        take_reply(action, bytes);
        break;
    case HOST_WELCOMED:
    case HOST_ALIAS:
        take_identity(action);
        break;
    case HOST_HANG_UP:
        process = process_of(action->connection);
        if (process != NULL) {
            process->connection = 0;
            driver_post(box->driver, HOST_HANGUP, action->client);
        }
        break;
    case HOST_FORGET:
        for (uint32_t i = 0; i < BOX_PROCESSES; i++) {
            if (box->processes[i].client == action->client) {
                memset(&box->processes[i], 0, sizeof(box->processes[i]));
            }
        }
        break;
    case HOST_LOG:
        HF_CHECK(action->as.log.event != NULL);
        break;
    default:
        HF_CHECK(!"an action that the driver carries out itself");
    }
}

/* ---- what the processes send ---- */

static struct box_process *draw_process(void)
{
    return &box->processes[draw_below(&box->draw, BOX_PROCESSES)];
}

void box_connect(void)
{
    static const uint8_t rights[] = {HOST_MAY_USE, HOST_MAY_USE | HOST_MAY_ADMIN, 0,
                                     HOST_MAY_ADMIN};
    struct box_process *process = draw_process();
    uint8_t what = draw_byte(&box->draw);
    struct host_peer peer = {
        .pid = what & 4 ? 0 : 7, .uid = what >> 6, .account = what >> 6, .command = "job -x"};
    struct hfi_hello hello = {.version = HFI_PROTOCOL_VERSION, .pid = 7, .library = {"fuzz", 4}};
    struct host_event event = {.kind = HOST_CONNECTED};
    if (process->connection != 0) {
        return;
    }
    process->alive = true;
    process->connection = ++box->connections;
    memset(peer.rights, rights[what & 3], sizeof(peer.rights));
    hello.client = what & 8 ? draw_byte(&box->draw) : process->client;
    hello.nonce = what & 16 ? draw_number(&box->draw) : process->nonce;
    event.as.connected.peer = &peer;
    event.as.connected.hello = &hello;
    event.as.connected.request = ++box->requests;
    event.as.connected.connection = process->connection;
    event.as.connected.resumed = process->client != 0 && hello.client == process->client &&
                                 hello.nonce == process->nonce;
    driver_event(box->driver, &event);
}

static int64_t draw_duration(int64_t most_ns)
{
    uint64_t number = draw_number(&box->draw);
    return number > (uint64_t)most_ns ? most_ns : (int64_t)number;
}

static void fill_open(struct hfi_frame *frame, const struct box_handle *handle)
{
    uint8_t flags = draw_byte(&box->draw);
    frame->open.flags = flags & (HFI_OPEN_BARGING | HFI_OPEN_SEAT | HFI_OPEN_RESUME);
    if (flags & 8) {
        frame->open.lock_delay_ns = draw_duration(60000 * BOX_MS);
    }
    if (flags & 16) {
        frame->open.lease_ns = draw_duration(INT64_C(1) << 50);
    }
    if (flags & 32) {
        frame->open.max_stall_ns = draw_duration(INT64_C(1) << 50);
    }
    if (frame->open.flags & HFI_OPEN_RESUME) {
        frame->open.holder = handle->opened.holder;
        frame->open.slot = handle->opened.slot;
        frame->open.seat = handle->used ? handle->opened.seat : HFI_SEAT_NONE;
        frame->open.incarnation = box->client_region.header->incarnation;
        if (flags & 64) {
            frame->open.holder = 1 + draw_below(&box->draw, HFI_HOLDER_MAX);
            frame->open.slot = (uint32_t)draw_number(&box->draw);
            frame->open.seat = (uint32_t)draw_number(&box->draw);
        }
    }
}

/* Draws one of the process's open handles, or any number. */
static uint32_t draw_handle(const struct box_process *process)
{
    uint8_t what = draw_byte(&box->draw);
    const struct box_handle *handle = &process->handles[what % BOX_HANDLES];
    return handle->used ? handle->opened.handle : what;
}

static void sequencer(char *text, size_t size, uint32_t *length)
{
    struct hfi_sequencer made = {.cell = "box", .agent = "host-a"};
    struct message_name name = box_draw_name();
    struct message_agent agent = box_draw_agent();
    uint8_t what = draw_byte(&box->draw);
    made.shared = what & 1;
    made.token = 1 + draw_number(&box->draw) % (MESSAGE_TOKEN_LIMIT - 1);
    made.epoch = 1 + what / 8 % 4;
    made.holder = 1 + what / 32;
    made.seat = made.shared ? what % 16 : HFI_SEAT_NONE;
    made.cell_word = made.shared ? draw_number(&box->draw) : 0;
    memset(made.agent, 0, sizeof(made.agent));
    memcpy(made.agent, agent.text, agent.length);
    memcpy(made.name, name.bytes, name.length);
    made.name_size = name.length;
    *length = (uint32_t)hfi_sequencer_format(&made, text, size);
}

/* Draws the fields of a frame of that kind. `text` is memory for a sequencer. */
static void fill_frame(struct hfi_frame *frame, const struct box_process *process,
                       const struct message_name *name, char *text, size_t size)
{
    struct hfi_text named = {(const char *)name->bytes, name->length};
    uint32_t length;
    switch ((int)frame->kind) {
    case HFI_FRAME_OPEN:
        frame->open.name = named;
        fill_open(frame, &process->handles[draw_below(&box->draw, BOX_HANDLES)]);
        break;
    case HFI_FRAME_SEAT:
        frame->seat.handle = draw_handle(process);
        frame->seat.flags = draw_byte(&box->draw) & HFI_SEAT_SHARED;
        break;
    case HFI_FRAME_CLOSE:
        frame->handle = draw_handle(process);
        break;
    case HFI_FRAME_NOTE:
        frame->note.handle = draw_handle(process);
        frame->note.flags = draw_byte(&box->draw) & HFI_NOTE_NOW;
        frame->note.note = draw_bool(&box->draw) ? named : (struct hfi_text){named.bytes, 0};
        break;
    case HFI_FRAME_LIST:
        frame->list.prefix = (struct hfi_text){named.bytes, draw_byte(&box->draw) & named.size};
        frame->list.after = draw_bool(&box->draw) ? named : (struct hfi_text){named.bytes, 0};
        break;
    case HFI_FRAME_BREAK:
        frame->break_lock.name = named;
        frame->break_lock.flags = draw_byte(&box->draw) & HFI_BREAK_FRAME_NOW;
        break;
    case HFI_FRAME_CHECK:
        sequencer(text, size, &length);
        frame->text = (struct hfi_text){text, length};
        break;
    default:
        frame->text = named;
    }
}

void box_frame(void)
{
    static const uint8_t kinds[] = {
        HFI_FRAME_OPEN,   HFI_FRAME_OPEN,   HFI_FRAME_OPEN,  HFI_FRAME_SEAT, HFI_FRAME_NOTE,
        HFI_FRAME_CLOSE,  HFI_FRAME_MAP,    HFI_FRAME_CHECK, HFI_FRAME_LIST, HFI_FRAME_SHOW,
        HFI_FRAME_BREAK,  HFI_FRAME_RECALL, HFI_FRAME_WATCH, HFI_FRAME_BYE,  HFI_FRAME_RESUMED,
        HFI_FRAME_STATUS, HFI_FRAME_EVENTS, HFI_FRAME_RING,  HFI_FRAME_DONE, HFI_FRAME_UNWATCH};
    struct box_process *process = draw_process();
    struct hfi_frame frame = {.request = ++box->requests};
    struct host_event event = {.kind = HOST_FRAME, .client = process->client};
    char text[1024];
    uint8_t packet[HFI_FRAME_MAX];
    struct hfi_frame_error error;
    if (process->connection == 0 || process->client == 0) {
        return;
    }
    frame.kind = kinds[draw_below(&box->draw, sizeof(kinds))];
    frame.request = frame.kind == HFI_FRAME_RING ? 0 : frame.request;
    struct message_name name = box_draw_name();
    fill_frame(&frame, process, &name, text, sizeof(text));
    /* The codec encodes and decodes the frame, as on the socket. The core gets only frames that the
     * codec accepts. */
    size_t size = hfi_frame_encode(&frame, packet, sizeof(packet));
    if (size == 0 || hfi_frame_decode(packet, size, &frame, NULL, &error) != 0) {
        return;
    }
    if (frame.kind == HFI_FRAME_CLOSE) {
        for (uint32_t i = 0; i < BOX_HANDLES; i++) {
            if (process->handles[i].opened.handle == frame.handle) {
                process->handles[i].used = false;
            }
        }
    }
    event.as.frame.frame = &frame;
    driver_event(box->driver, &event);
}

void box_end_process(void)
{
    struct box_process *process = draw_process();
    uint8_t what = draw_byte(&box->draw) % 3;
    struct host_event event = {.kind = what == 0   ? HOST_HANGUP
                                       : what == 1 ? HOST_DIED
                                                   : HOST_DRAINED,
                               .client = process->client};
    if (process->client == 0) {
        return;
    }
    if (what == 1) {
        memset(process, 0, sizeof(*process));
    } else if (what == 0) {
        process->connection = 0;
    }
    driver_event(box->driver, &event);
}

/* ---- what the processes do in the region ---- */

static void act(struct box_handle *handle, uint8_t what)
{
    struct hfi_actor actor = {&box->client_region, &box->client_kernel, handle->opened.holder};
    struct hfi_request request = {.slot = handle->opened.slot, .seat = handle->opened.seat};
    bool shared = handle->held.cell != 0;
    if (handle->holds && (what & 3) == 0 && !shared) {
        handle->holds = hfi_downgrade(&actor, &request, &handle->held) == HFI_HELD;
    } else if (handle->holds && shared) {
        (void)hfi_release_shared(&actor, request.slot, request.seat, handle->held.cell);
        handle->holds = false;
    } else if (handle->holds) {
        (void)hfi_release(&actor, request.slot, handle->held.token);
        handle->holds = false;
    } else if ((what & 3) == 1 && request.seat != HFI_SEAT_NONE) {
        handle->holds = hfi_try_shared(&actor, &request, &handle->held) == HFI_HELD;
    } else {
        enum hfi_outcome outcome = hfi_try_exclusive(&actor, &request, &handle->held);
        handle->holds = outcome == HFI_HELD;
        if (outcome == HFI_DRAINING) {
            (void)hfi_release(&actor, request.slot, handle->held.token);
        }
    }
}

/* Makes a process take a place in the queue. The region then shows a waiter that sleeps, although
 * no thread sleeps. */
static void queue(const struct box_handle *handle)
{
    uint32_t seat = handle->opened.seat;
    struct hfi_slot *slot = &box->client_region.slots[handle->opened.slot];
    if (seat != HFI_SEAT_NONE) {
        uint64_t ticket = atomic_fetch_add(&slot->ticket_next, 1);
        atomic_store(hfi_seat_wait(&box->client_region, seat),
                     ticket << HFI_WAIT_TICKET_SHIFT | HFI_WAIT_WAITING);
        atomic_fetch_or(&box->client_region.words[handle->opened.slot].word, HFI_W_WAITERS);
    }
}

void box_act(void)
{
    struct box_process *process = draw_process();
    struct box_handle *handle = &process->handles[draw_below(&box->draw, BOX_HANDLES)];
    uint8_t what = draw_byte(&box->draw);
    if (!handle->used) {
        return;
    }
    if (what < 224) {
        act(handle, what);
    } else {
        queue(handle);
    }
    if (what & 4) { /* the process also sends a ring */
        struct host_event event = {.kind = HOST_RING};
        atomic_fetch_or(&box->client_region.dirty[0], UINT64_C(1) << handle->opened.slot);
        driver_event(box->driver, &event);
    }
}

/* Draws an offset in the region that the agent or a client reads, and a value to write there. */
static struct box_strike draw_strike(void)
{
    static const uint32_t widths[] = {8, 4, 8, 1};
    const struct hfi_region *region = &box->client_region;
    const uint8_t *base = box->region_memory;
    const uint8_t *parts[] = {
        (const uint8_t *)region->words,  (const uint8_t *)region->slots,
        (const uint8_t *)region->blocks, (const uint8_t *)region->holders,
        (const uint8_t *)region->dirty,  (const uint8_t *)region->words,
        (const uint8_t *)region->blocks, base + offsetof(struct hfi_header, lease)};
    static const uint32_t sizes[] = {BOX_SLOTS * 64,
                                     BOX_SLOTS * 48,
                                     BOX_BLOCKS * 512,
                                     16 * 64,
                                     8,
                                     BOX_SLOTS * 64,
                                     BOX_BLOCKS * 512,
                                     80};
    struct box_strike strike;
    uint8_t part = draw_byte(&box->draw);
    uint32_t at = draw_below(&box->draw, sizes[part % 8]);
    strike.width = widths[part / 8 % 4];
    if (part % 8 == 0 || part % 8 == 5) { /* parts 0 and 5 are the slots' cache lines, each of which
                                           * begins with the lock word */
        at = at / 64 * 64;
        strike.width = 8;
    }
    strike.offset = (uint32_t)(parts[part % 8] - base) + at;
    strike.value = draw_number(&box->draw);
    if (part & 64) { /* flags of a word, with a token that may be the right one */
        strike.value = strike.value << 40 | draw_byte(&box->draw);
    }
    return strike;
}

/* Writes rubbish at once, or before the agent's next atomic operations on a word. */
void box_scribble(void)
{
    uint32_t count = 1 + draw_byte(&box->draw) % BOX_STRIKES;
    bool later = draw_bool(&box->draw);
    box->strike_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct box_strike strike = draw_strike();
        if (later) {
            box->strikes[box->strike_count++] = strike;
        } else {
            box_strike(&strike);
        }
    }
    if (draw_bool(&box->draw)) { /* a ring makes the agent look at the region */
        struct host_event event = {.kind = HOST_RING};
        atomic_store(&box->client_region.dirty[0], UINT64_MAX);
        driver_event(box->driver, &event);
    }
}
