/*
 * A simulated process. It connects, opens locks, takes, waits, holds and releases with the real
 * code of the lock word, as libholdfast does. It may be killed, stopped, cancelled and woken at
 * every atomic step, and may lose its connection between its calls.
 */
#include <string.h>

#include "holdfast/holdfast.h"
#include "proto/check.h"
#include "sim.h"

/* TRY_MS and SLICE_MS are the same as in libclient: how long a try waits for its host's grant, and
 * the time between two looks at the lock word. UPGRADE_ASKS: how often an upgrade is repeated. */
enum { TRY_MS = 1000, SLICE_MS = 20, UPGRADE_ASKS = 8 };

static int64_t now_of(const struct sim_process *process)
{
    return clock_now(process->agent);
}

bool packets_put(struct packets *packets, const void *bytes, size_t size, int32_t region)
{
    HF_CHECK(size <= PACKET_MAX);
    if (packets->count == PACKETS) {
        return false;
    }
    struct packet *packet = &packets->ring[(packets->first + packets->count++) % PACKETS];
    packet->size = (uint32_t)size;
    packet->region = region;
    memcpy(packet->bytes, bytes, size);
    return true;
}

bool packets_take(struct packets *packets, struct packet *out)
{
    if (packets->count == 0) {
        return false;
    }
    *out = packets->ring[packets->first];
    packets->first = (packets->first + 1) % PACKETS;
    packets->count--;
    return true;
}

/* ---- the socket to the agent ---- */

static bool say(struct sim_process *process, struct hfi_frame *frame)
{
    unsigned char bytes[PACKET_MAX];
    frame->request = ++process->last_request;
    size_t size = hfi_frame_encode(frame, bytes, sizeof(bytes));
    if (size == 0) {
        sim_fail("a %s cannot be encoded", hfi_frame_name(frame->kind));
    }
    if (process->connection.broken) {
        return false;
    }
    if (!packets_put(&process->connection.to_agent, bytes, size, -1)) {
        sim_fail("an agent does not read its socket");
    }
    fiber_tell(&process->agent->fiber);
    return true;
}

/* Sends a request and waits for its answer. The texts in *answer must not be read, because they
 * point into a packet that no longer exists. Returns false if the connection broke. */
static bool ask(struct sim_process *process, struct hfi_frame *frame, struct hfi_frame *answer)
{
    struct packet packet;
    struct hfi_frame_error error;
    if (!say(process, frame)) {
        return false;
    }
    process->asking = frame->kind;
    sim_tell("process %u asks %s %llu", process->index, hfi_frame_name(frame->kind),
             (unsigned long long)frame->request);
    for (;;) { /* the loop ends when the answer comes, or when the connection breaks */
        while (packets_take(&process->connection.to_client, &packet)) {
            if (hfi_frame_decode(packet.bytes, packet.size, answer, NULL, &error) != 0) {
                sim_fail("an answer is not understood: %s", error.text);
            }
            if (answer->kind == HFI_FRAME_REGION) {
                process->region_came = packet.region;
            } else if (answer->request == frame->request) {
                process->asking = (enum hfi_frame_kind)0;
                sim_tell("process %u is answered %s %llu", process->index,
                         hfi_frame_name(answer->kind), (unsigned long long)answer->request);
                return true;
            }
        }
        if (process->connection.broken) {
            process->asking = (enum hfi_frame_kind)0;
            return false;
        }
        fiber_wait(INT64_MAX);
    }
}

static struct hfi_region *region_of(const struct sim_process *process,
                                    const struct sim_handle *handle)
{
    return &process->agent->regions[handle->region].region;
}

static struct hfi_actor actor_of(struct sim_process *process, const struct sim_handle *handle)
{
    return (struct hfi_actor){region_of(process, handle), &process->kernel, handle->holder};
}

static struct hfi_request request_of(const struct sim_handle *handle)
{
    return (struct hfi_request){.slot = handle->slot,
                                .seat = handle->seat,
                                .limit_ns = handle->limit_ns,
                                .barging = handle->barging};
}

/* ---- opening a lock ---- */

/* Opens a handle, or resumes it after a reconnection. Returns false if the connection broke, or a
 * table is full. */
static bool handle_open_at(struct sim_process *process, struct sim_handle *handle, bool resume)
{
    char name[32];
    struct hfi_frame answer;
    struct hfi_frame frame = {.kind = HFI_FRAME_OPEN};
    lock_name_of(handle->lock, name, sizeof(name));
    frame.open.name = (struct hfi_text){name, (uint32_t)strlen(name)};
    frame.open.lock_delay_ns = handle->delay_ms * SIM_MS;
    frame.open.lease_ns = handle->limit_ns;
    frame.open.flags = (handle->barging ? HFI_OPEN_BARGING : 0) |
                       (handle->limit_ns ? HFI_OPEN_SEAT : 0);
    if (resume) {
        frame.open.flags |= HFI_OPEN_RESUME;
        frame.open.holder = handle->holder;
        frame.open.slot = handle->slot;
        frame.open.seat = handle->seat;
        frame.open.incarnation = region_of(process, handle)->header->incarnation;
    }
    if (!ask(process, &frame, &answer)) {
        return false;
    }
    process->refused = answer.kind == HFI_FRAME_OPENED ? 0 : answer.error;
    if (process->refused != 0) {
        sim_tell("process %u: open refused: %d", process->index, answer.error);
        fiber_sleep_ns(20 * SIM_MS); /* a program tries again after a while */
        return false;
    }
    bool same = resume && process->region_came == handle->region &&
                answer.opened.slot == handle->slot && answer.opened.holder == handle->holder &&
                (handle->seat == HFI_SEAT_NONE || answer.opened.seat == handle->seat);
    if (!same) {
        handle->left_takes_ns = 0;
        if (handle->holds) {
            sim_tell("process %u: its hold of lock %u is over: another place", process->index,
                     handle->lock);
            check_gave_up(handle->hold);
        }
        handle->holds = false;
        handle->ticket = 0;
        handle->shared_ready = false;
    }
    handle->region = process->region_came;
    handle->slot = answer.opened.slot;
    handle->holder = answer.opened.holder;
    handle->seat = answer.opened.seat;
    handle->number = answer.opened.handle;
    handle->open = true;
    return true;
}

static void handle_forget(struct sim_handle *handle)
{
    if (handle->holds) {
        check_gave_up(handle->hold);
    }
    handle->holds = false;
    handle->open = false;
    handle->ticket = 0;
}

/* Makes sure that the process is connected and that its handles are open. Returns false if one of
 * them failed; the call may have slept before it failed. */
static bool connect_agent(struct sim_process *process)
{
    struct connection *connection = &process->connection;
    struct hfi_frame answer;
    struct hfi_frame frame = {.kind = HFI_FRAME_HELLO};
    if (connection->number != 0 && !connection->broken) {
        return true;
    }
    if (!process->agent->up ||
        (connection->number != 0 && connection->welcomed && !connection->told)) {
        fiber_sleep_ns(5 * SIM_MS);
        return false;
    }
    memset(connection, 0, sizeof(*connection));
    connection->number = ++world.connections;
    frame.hello = (struct hfi_hello){.version = HFI_PROTOCOL_VERSION,
                                     .pid = process->index + 1,
                                     .client = process->client,
                                     .nonce = process->nonce,
                                     .library = {"sim", 3}};
    if (!ask(process, &frame, &answer)) {
        return false;
    }
    if (answer.kind != HFI_FRAME_WELCOME) {
        sim_tell("process %u: not welcome: %d", process->index, answer.error);
        connection->broken = true;
        fiber_sleep_ns(100 * SIM_MS);
        return false;
    }
    process->client = answer.welcome.client;
    process->nonce = answer.welcome.nonce;
    bool resumed = answer.welcome.resumed;
    for (uint32_t i = 0; i < HANDLES; i++) {
        struct sim_handle *handle = &process->handles[i];
        if (handle->open && !resumed) {
            handle_forget(handle);
        } else if (handle->open && !handle_open_at(process, handle, true)) {
            if (connection->broken) {
                return false;
            }
            handle_forget(handle);
        }
    }
    frame = (struct hfi_frame){.kind = HFI_FRAME_RESUMED};
    return !resumed || ask(process, &frame, &answer);
}

/* Gets a seat for the handle, if it has no suitable one. */
static bool have_seat(struct sim_process *process, struct sim_handle *handle, bool shared)
{
    struct hfi_frame answer;
    struct hfi_frame frame = {.kind = HFI_FRAME_SEAT};
    if (handle->seat != HFI_SEAT_NONE && (!shared || handle->shared_ready)) {
        return true;
    }
    frame.seat.handle = handle->number;
    frame.seat.flags = shared ? HFI_SEAT_SHARED : 0;
    if (!ask(process, &frame, &answer) || answer.kind != HFI_FRAME_SEATED) {
        return false;
    }
    handle->seat = answer.seated;
    handle->shared_ready = handle->shared_ready || shared;
    return true;
}

/* Opens the lock anew. Must be called if the slot is used up, or if the agent treated the process
 * as dead. Returns false if the agent refuses with an error on which the library ends the take. */
static bool reopen(struct sim_process *process, struct sim_handle *handle)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_CLOSE, .handle = handle->number};
    handle->ticket = 0;
    process->refused = 0;
    if (handle_open_at(process, handle, false)) {
        (void)say(process, &frame);
    }
    return process->refused == 0 || process->refused == HF_EUNSERVED;
}

/* ---- taking a lock ---- */

static void took(struct sim_process *process, struct sim_handle *handle)
{
    order_took(process, handle);
    handle->hold = check_held(process, handle);
    handle->holds = handle->hold != UINT32_MAX;
    handle->served = handle->served || world.healing;
    sim_tell("process %u holds lock %u %s, slot %u seat %d id %u limit %d, token %llx%s",
             process->index, handle->lock, handle->held.cell ? "shared" : "exclusively",
             handle->slot, (int)handle->seat, handle->holder, (int)(handle->limit_ns / SIM_MS),
             (unsigned long long)handle->held.token, handle->holds ? "" : " (over already)");
    if (!handle->holds) { /* the hold is already over: like a real caller, the process sees that no
                           * time remains */
        struct hfi_actor actor = actor_of(process, handle);
        if (handle->held.cell) {
            (void)hfi_release_shared(&actor, handle->slot, handle->seat, handle->held.cell);
        } else {
            (void)hfi_release(&actor, handle->slot, handle->held.token);
        }
    }
}

/* Handles a wait that ended without the lock. Returns false if the take is over. */
static bool go_on(struct sim_process *process, struct sim_handle *handle, enum hfi_outcome outcome,
                  const struct hfi_wait_limit *patience)
{
    if (outcome == HFI_CANCELED || outcome == HFI_TIMED_OUT || outcome == HFI_DEADLOCK) {
        return false;
    }
    while (process->connection.broken) {
        if (*patience->cancel != patience->cancel_seen ||
            now_of(process) >= patience->deadline_ns) {
            break;
        }
        if (connect_agent(process) && !handle->open) {
            return false;
        }
    }
    if (*patience->cancel != patience->cancel_seen || now_of(process) >= patience->deadline_ns) {
        if (handle->ticket != 0) {
            struct hfi_actor actor = actor_of(process, handle);
            struct hfi_request request = request_of(handle);
            hfi_leave(&actor, &request, &handle->ticket);
        }
        return false;
    }
    if (outcome == HFI_RETIRED || region_of(process, handle)->header->abandoned) {
        return reopen(process, handle);
    }
    if (outcome == HFI_NO_LEASE) {
        fiber_sleep_ns(20 * SIM_MS);
    }
    return true;
}

static void wait_for(struct sim_process *process, struct sim_handle *handle, bool shared)
{
    bool others = false;
    for (uint32_t i = 0; i < HANDLES; i++) {
        others = others || process->handles[i].holds;
    }
    struct hfi_wait_limit patience = {
        .deadline_ns = INT64_MAX, .cancel = &process->cancel, .cancel_seen = process->cancel};
    if (others || (world.faults.timeouts && sim_draw(2) == 0)) { /* the deadline ends a deadlock */
        patience.deadline_ns = now_of(process) + sim_draw(60) * SIM_MS + sim_draw(1000000);
    }
    for (;;) { /* the loop ends when the process gets the lock or gives up */
        if (!have_seat(process, handle, shared)) {
            return;
        }
        struct hfi_actor actor = actor_of(process, handle);
        struct hfi_request request = request_of(handle);
        if (broken == BREAK_QUEUE) {
            actor.region->slots[handle->slot].ticket_next -= 2;
        }
        enum hfi_outcome outcome = shared ? hfi_wait_shared(&actor, &request, &patience,
                                                            &handle->ticket, &handle->held)
                                          : hfi_wait_exclusive(&actor, &request, &patience,
                                                               &handle->ticket, &handle->held);
        if (outcome == HFI_HELD) {
            took(process, handle);
            return;
        }
        bool goes_on = go_on(process, handle, outcome, &patience);
        if (handle->ticket == 0) {
            handle->left_ns = sim_now();
            handle->left_takes_ns = handle->takes_ns;
        }
        if (!goes_on) {
            return;
        }
    }
}

/* Returns whether a try must wait for its host's grant, as a try of the library does: the host has
 * no grant for that mode or must give its grant back, and the lock is neither held here nor
 * closed. */
static bool grant_is_missing(const struct sim_process *process, const struct sim_handle *handle,
                             bool shared)
{
    uint64_t word = atomic_load(&region_of(process, handle)->words[handle->slot].word);
    return (word & (HFI_W_CLOSED | HFI_W_HOLDER)) == 0 &&
           (hfi_word_mode(word) == HFI_GRANT_NONE || (word & HFI_W_RECALL) != 0 ||
            (hfi_word_mode(word) == HFI_GRANT_SHARED && !shared));
}

/* Tries the lock as the library does: it waits until an idle grant comes from another host, but at
 * most TRY_MS. */
static void try_for(struct sim_process *process, struct sim_handle *handle, bool shared)
{
    struct hfi_actor actor = actor_of(process, handle);
    struct hfi_request request = request_of(handle);
    request.trying = true;
    enum hfi_outcome outcome = HFI_UNGRANTED;
    int64_t began_ns = sim_now();
    int64_t end_ns = now_of(process) + TRY_MS * SIM_MS;
    while (outcome == HFI_UNGRANTED && now_of(process) < end_ns &&
           grant_is_missing(process, handle, shared)) {
        struct hfi_wait_limit slice = {.deadline_ns = now_of(process) + SLICE_MS * SIM_MS,
                                       .cancel = &process->cancel,
                                       .cancel_seen = process->cancel};
        outcome = shared ? hfi_wait_shared(&actor, &request, &slice, &handle->ticket, &handle->held)
                         : hfi_wait_exclusive(&actor, &request, &slice, &handle->ticket,
                                              &handle->held);
    }
    if (outcome == HFI_HELD) {
        took(process, handle);
        return;
    }
    sim_tell("process %u tried lock %u in vain for %lld us%s", process->index, handle->lock,
             (long long)(sim_now() - began_ns) / 1000,
             outcome == HFI_REFUSED ? ": in use elsewhere" : "");
    check_tried(process, handle, began_ns, outcome == HFI_REFUSED);
    if (handle->ticket != 0) {
        hfi_leave(&actor, &request, &handle->ticket);
    }
    handle->left_ns = sim_now();
    handle->left_takes_ns = handle->takes_ns;
}

static void take(struct sim_process *process, struct sim_handle *handle)
{
    bool shared = world.faults.shared && !world.healing && sim_draw(2) == 0;
    bool tries = world.faults.tries && handle->ticket == 0 && sim_draw(2) == 0;
    check_takes(handle);
    if (handle->ticket == 0) { /* a handle that is in the queue keeps its place */
        handle->takes_ns = sim_now();
    }
    if (region_of(process, handle)->header->abandoned) {
        (void)reopen(process, handle);
        return;
    }
    if ((shared || handle->limit_ns) && !have_seat(process, handle, shared)) {
        return;
    }
    if (sim_draw(3) != 0) {
        struct hfi_actor actor = actor_of(process, handle);
        struct hfi_request request = request_of(handle);
        enum hfi_outcome outcome = shared ? hfi_try_shared(&actor, &request, &handle->held)
                                          : hfi_try_exclusive(&actor, &request, &handle->held);
        if (outcome == HFI_HELD) {
            took(process, handle);
            return;
        }
        if (outcome == HFI_DRAINING &&
            (tries || handle->seat == HFI_SEAT_NONE || sim_draw(2) == 0)) {
            (void)hfi_release(&actor, handle->slot, handle->held.token);
        }
        if (outcome == HFI_RETIRED) {
            (void)reopen(process, handle);
            return;
        }
        if (outcome != HFI_DRAINING && !world.healing && sim_draw(3) == 0) {
            return;
        }
    }
    if (tries) {
        if (have_seat(process, handle, shared)) {
            try_for(process, handle, shared);
        }
        return;
    }
    wait_for(process, handle, shared);
}

/* ---- holding a lock ---- */

static void release(struct sim_process *process, struct sim_handle *handle)
{
    struct hfi_actor actor = actor_of(process, handle);
    if (!handle->holds) {
        return;
    }
    sim_tell("process %u releases lock %u", process->index, handle->lock);
    order_releases(process, handle);
    check_releases(handle->hold);
    handle->holds = false;
    enum hfi_outcome outcome = handle->held.cell
                                   ? hfi_release_shared(&actor, handle->slot, handle->seat,
                                                        handle->held.cell)
                                   : hfi_release(&actor, handle->slot, handle->held.token);
    if (outcome == HFI_GONE) {
        sim_tell("process %u finds that its hold of lock %u was over", process->index,
                 handle->lock);
        check_gave_up(handle->hold);
    } else {
        check_released(handle->hold);
    }
}

static void downgrade(struct sim_process *process, struct sim_handle *handle)
{
    struct hfi_actor actor = actor_of(process, handle);
    struct hfi_request request = request_of(handle);
    if (!have_seat(process, handle, true) || !handle->holds) {
        return;
    }
    request = request_of(handle);
    actor = actor_of(process, handle);
    check_changed_mode(handle->hold, true, handle->held.token);
    if (hfi_downgrade(&actor, &request, &handle->held) != HFI_HELD) {
        check_gave_up(handle->hold);
        handle->holds = false;
    }
}

static enum hfi_outcome upgrade_once(struct sim_process *process, struct sim_handle *handle)
{
    struct hfi_actor actor = actor_of(process, handle);
    struct hfi_request request = request_of(handle);
    struct hfi_wait_limit patience = {.deadline_ns = now_of(process) + 20 * SIM_MS,
                                      .cancel = &process->cancel,
                                      .cancel_seen = process->cancel};
    handle->takes_ns = 0;
    check_takes(handle);
    return hfi_upgrade(&actor, &request, &patience, &handle->held);
}

/* Upgrades a shared hold as the library does: as long as the host has only a share, it repeats the
 * upgrade. */
static void upgrade(struct sim_process *process, struct sim_handle *handle)
{
    const struct hfi_held shared = handle->held;
    enum hfi_outcome outcome = upgrade_once(process, handle);
    for (uint32_t i = 0; outcome == HFI_UNGRANTED && i < UPGRADE_ASKS && !world.healing; i++) {
        struct hfi_actor actor = actor_of(process, handle);
        struct hfi_request request = request_of(handle);
        hfi_ask_upgrade(&actor, &request, &shared);
        fiber_sleep_ns(50 * SIM_MS);
        outcome = upgrade_once(process, handle);
        if (outcome != HFI_UNGRANTED || i + 1 == UPGRADE_ASKS) {
            hfi_ask_no_upgrade(&actor, &request, &shared);
        }
    }
    if (outcome == HFI_HELD) {
        check_released(handle->hold);
        took(process, handle);
    }
}

static void hold(struct sim_process *process, struct sim_handle *handle)
{
    bool shared = handle->held.cell != 0;
    if (!check_looked(process, handle)) {
        release(process, handle);
        return;
    }
    uint32_t what = world.healing ? 0 : sim_draw(10);
    if (what < 4) {
        release(process, handle);
    } else if (what == 4 && shared && world.faults.upgrade) {
        upgrade(process, handle);
    } else if (what == 5 && !shared && world.faults.downgrade) {
        downgrade(process, handle);
    } else if (what == 6 && sim_draw(4) == 0) {
        fiber_sleep_ns(sim_draw(1500) * SIM_MS);
    } else {
        fiber_sleep_ns(sim_draw(3000) * 1000);
    }
}

/* ---- the life of a process ---- */

static void leave(struct sim_process *process)
{
    struct hfi_frame bye = {.kind = HFI_FRAME_BYE};
    if (sim_draw(2) == 0) {
        for (uint32_t i = 0; i < HANDLES; i++) {
            release(process, &process->handles[i]);
        }
    }
    sim_tell("process %u says goodbye", process->index);
    check_vanished(process, true);
    (void)say(process, &bye);
    process->alive = false;
    process->starts_ns = sim_now() + sim_draw(200) * SIM_MS;
    fiber_tell(&process->agent->fiber);
    fiber_exit();
}

static void open_one(struct sim_process *process, struct sim_handle *handle)
{
    const struct faults *faults = &world.faults;
    *handle = (struct sim_handle){.lock = sim_draw(world.lock_count),
                                  .seat = HFI_SEAT_NONE,
                                  .served = handle->served,
                                  .barging = faults->barging && sim_draw(3) == 0,
                                  .delay_ms = 20 + sim_draw(100)};
    if (faults->limits && sim_draw(3) == 0) {
        handle->limit_ns = (20 + sim_draw(60)) * SIM_MS;
    }
    if (faults->no_delay && sim_draw(3) == 0) {
        handle->delay_ms = 0;
    }
    if (faults->long_delay) {
        handle->delay_ms = 300 + sim_draw(900);
    }
    (void)handle_open_at(process, handle, false);
}

static void ask_recall(struct sim_process *process)
{
    char name[32];
    struct hfi_frame answer;
    struct hfi_frame frame = {.kind = HFI_FRAME_RECALL};
    lock_name_of(sim_draw(world.lock_count), name, sizeof(name));
    frame.text = (struct hfi_text){name, (uint32_t)strlen(name)};
    (void)ask(process, &frame, &answer);
}

/* Breaks a lock, as an administrator does. */
static void ask_break(struct sim_process *process)
{
    char name[32];
    struct check_break before;
    struct hfi_frame answer;
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    uint32_t lock = sim_draw(world.lock_count);
    lock_name_of(lock, name, sizeof(name));
    frame.break_lock.name = (struct hfi_text){name, (uint32_t)strlen(name)};
    frame.break_lock.flags = sim_draw(3) == 0 ? HFI_BREAK_FRAME_NOW : 0;
    check_breaks(&before, lock);
    bool answered = ask(process, &frame, &answer) && answer.kind == HFI_FRAME_BROKEN;
    if (answered) {
        sim_tell("process %u broke lock %u: %d, %u holds, %u more, %u agents silent",
                 process->index, lock, answer.broken.error, answer.broken.hold_count,
                 answer.broken.more, answer.broken.silent_count);
    }
    if (answered && answer.broken.error == 0) {
        world.breaks++;
        check_break_done(&before);
    }
}

/* After healing: takes the lock of the next handle that has not been served. Returns false if all
 * have been. */
static bool serve_once(struct sim_process *process)
{
    for (uint32_t i = 0; i < HANDLES; i++) {
        release(process, &process->handles[i]);
    }
    for (uint32_t i = 0; i < HANDLES; i++) {
        struct sim_handle *handle = &process->handles[i];
        if (!handle->served) {
            if (!handle->open) {
                open_one(process, handle);
            } else {
                take(process, handle);
            }
            return true;
        }
    }
    return false;
}

/* Releases and closes all handles, and rests for a while. */
static void rest(struct sim_process *process)
{
    for (uint32_t i = 0; i < HANDLES; i++) {
        struct sim_handle *handle = &process->handles[i];
        struct hfi_frame frame = {.kind = HFI_FRAME_CLOSE, .handle = handle->number};
        release(process, handle);
        if (handle->open && !say(process, &frame)) {
            return;
        }
        handle->open = false;
    }
    int64_t until_ns = sim_now() + (2000 + sim_draw(8000)) * SIM_MS;
    while (sim_now() < until_ns && !world.healing && !process->connection.broken) {
        fiber_sleep_ns(100 * SIM_MS);
    }
}

/* Opens lock 0 for the line, on a handle that does not overtake other waiters. */
static bool open_for_line(struct sim_process *process, struct sim_handle *handle)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_CLOSE, .handle = handle->number};
    if (handle->open && !say(process, &frame)) {
        return false;
    }
    *handle = (struct sim_handle){.lock = 0, .seat = HFI_SEAT_NONE, .delay_ms = 20};
    return handle_open_at(process, handle, false);
}

/* Opens lock 0 at joins_ns, takes it once, and holds it until goes_round_ns at least. */
static void stand_in_line(struct sim_process *process)
{
    struct sim_handle *handle = &process->handles[0];
    if (process->line == LINE_SERVED) {
        fiber_wait(INT64_MAX);
    } else if (sim_now() < process->joins_ns) { /* the process must not open the lock earlier,
                                                 * because an open already asks for the grant */
        fiber_sleep_ns(process->joins_ns - sim_now());
    } else if (process->line == LINE_COMES || !handle->open) {
        process->line = open_for_line(process, handle) ? LINE_WAITS : process->line;
    } else if (!handle->holds) {
        check_takes(handle);
        wait_for(process, handle, false);
        if (handle->holds) {
            line_took(process);
        }
    } else if (sim_now() < world.goes_round_ns) {
        fiber_sleep_ns(20 * SIM_MS);
    } else {
        fiber_sleep_ns((1 + sim_draw(100)) * SIM_MS);
        release(process, handle);
        line_released(process);
    }
}

static void live(struct sim_process *process)
{
    struct sim_handle *handle = &process->handles[sim_draw(HANDLES)];
    if (world.lined_up) {
        stand_in_line(process);
    } else if (world.healing) {
        if (!serve_once(process)) {
            process->done = true;
            fiber_wait(INT64_MAX);
        }
    } else if (world.faults.rest && (sim_now() < world.rests_until_ns || sim_draw(15) == 0)) {
        rest(process);
    } else if (sim_draw(400) == 0) {
        leave(process);
    } else if (sim_chance(world.faults.recall)) {
        ask_recall(process);
    } else if (sim_chance(world.faults.breaks)) {
        ask_break(process);
    } else if (!handle->open) {
        open_one(process, handle);
    } else if (handle->holds) {
        hold(process, handle);
    } else if (sim_draw(20) == 0) {
        struct hfi_frame frame = {.kind = HFI_FRAME_CLOSE, .handle = handle->number};
        (void)say(process, &frame);
        handle->open = false;
    } else {
        take(process, handle);
    }
    if (sim_draw(3) == 0) {
        fiber_sleep_ns(sim_draw(2000) * 1000);
    }
}

static void process_main(void *arg)
{
    struct sim_process *process = arg;
    for (;;) { /* the loop runs until the process is killed or leaves */
        if (process->hung_up && process->connection.welcomed && !process->connection.broken) {
            process->connection.broken = true;
            check_vanished(process, false); /* a hang-up ends the holds like a death */
            fiber_tell(&process->agent->fiber);
        }
        process->hung_up = false;
        if (connect_agent(process)) {
            live(process);
        }
    }
}

void process_start(struct sim_process *process)
{
    kernel_fill(&process->kernel, process->agent);
    process->generation++;
    process->alive = true;
    process->hung_up = false;
    process->client = 0;
    process->nonce = 0;
    process->done = false;
    process->asking = (enum hfi_frame_kind)0;
    memset(&process->connection, 0, sizeof(process->connection));
    memset(process->handles, 0, sizeof(process->handles));
    fiber_start(&process->fiber, process_main, process);
}

void process_kill(struct sim_process *process, int64_t down_ns)
{
    if (!process->alive) {
        return;
    }
    sim_tell("process %u is killed", process->index);
    check_vanished(process, true);
    process->alive = false;
    process->starts_ns = sim_now() + down_ns;
    process->connection.broken = true;
    fiber_kill(&process->fiber);
    fiber_tell(&process->agent->fiber);
}

void process_cancel(struct sim_process *process)
{
    process->cancel++;
    fiber_disturb(&process->fiber);
}
