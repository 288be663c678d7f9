/*
 * The host core: its memory, its steps, its timers, and the work that one step leaves for later.
 */
#include "state.h"

enum { ALIGNMENT = 64 };

/* Hands out parts of the one block; with a NULL base it only counts. */
struct layout {
    unsigned char *base;
    size_t used;
};

static void *part(struct layout *layout, size_t count, size_t size)
{
    size_t at = (layout->used + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    layout->used = at + count * size;
    return layout->base ? layout->base + at : NULL;
}

static void lay_out_space(struct layout *layout, const struct host_limits *limits,
                          struct space *space)
{
    size_t seats = (size_t)limits->blocks * HFI_BLOCK_SEATS;
    space->locks = part(layout, limits->locks, sizeof(struct lock));
    space->guards = part(layout, limits->locks, sizeof(struct guard));
    space->slot_blocks = part(layout, limits->locks, sizeof(uint32_t));
    space->block_next = part(layout, limits->blocks, sizeof(uint32_t));
    space->block_slot = part(layout, limits->blocks, sizeof(uint32_t));
    space->seat_holder = part(layout, seats, sizeof(uint16_t));
    space->seat_handle = part(layout, seats, sizeof(uint32_t));
    space->changed = part(layout, limits->locks / 64 + 1, sizeof(uint64_t));
    space->idle = part(layout, limits->locks, sizeof(uint8_t));
    space->published = part(layout, limits->locks, sizeof(uint64_t));
    space->told = part(layout, limits->locks / 64 + 1, sizeof(uint64_t));
    space->token_first = part(layout, limits->locks, sizeof(uint64_t));
}

static uint32_t request_limit(const struct host_config *config)
{
    uint64_t wanted = config->limits.requests;
    if (wanted == 0) {
        wanted = (uint64_t)config->limits.locks * config->namespace_count;
    }
    return wanted < HOST_REQUESTS_MAX ? (uint32_t)wanted : HOST_REQUESTS_MAX;
}

/* The one list of what the block holds. */
static struct host *lay_out(struct layout *layout, const struct host_config *config)
{
    const struct host_limits *limits = &config->limits;
    struct space unused;
    struct host *host = part(layout, 1, sizeof(*host));
    struct host nowhere;
    struct host *into = host ? host : &nowhere;
    uint32_t clients = limits->clients * 2; /* the dead and hung-up stay for a while */
    into->client_capacity = clients;
    into->clients = part(layout, clients, sizeof(struct client));
    into->handles = part(layout, limits->handles, sizeof(struct handle));
    into->request_capacity = request_limit(config);
    into->requests = part(layout, into->request_capacity, sizeof(struct request));
    into->request_heap = part(layout, into->request_capacity, sizeof(uint32_t));
    into->limited = part(layout, limits->handles / LIMITED_GROUP + 1, sizeof(uint64_t));
    into->limited_due_ns = part(layout, limits->handles / LIMITED_GROUP + 1, sizeof(int64_t));
    into->ids = part(layout, HOLDER_IDS + 1, sizeof(struct holder_id));
    into->named_ids = part(layout, (size_t)ID_WORDS * config->namespace_count, sizeof(uint64_t));
    into->openings = part(layout, (size_t)limits->locks * config->namespace_count,
                          sizeof(struct opening));
    into->watches = part(layout, limits->watches, sizeof(struct watch));
    into->order.nodes = part(layout, (size_t)limits->locks * config->namespace_count + 1,
                             sizeof(struct order_node));
    for (uint32_t i = 0; i < config->namespace_count; i++) {
        lay_out_space(layout, limits, host ? &host->spaces[i] : &unused);
    }
    return host;
}

size_t host_size(const struct host_config *config)
{
    struct layout layout = {0};
    lay_out(&layout, config);
    return layout.used + ALIGNMENT;
}

/* ---- the kernel as the host's own changes of words see it ---- */

static void kernel_wake(void *arg, _Atomic uint32_t *word, int count)
{
    const struct host *host = arg;
    host->outer->wake(host->outer->arg, word, count);
}

static int64_t kernel_now_ns(void *arg)
{
    const struct host *host = arg;
    return host->outer->now_ns(host->outer->arg);
}

/* We rang ourselves: the dirty bit is set, so it only has to be looked for. */
static void kernel_bell(void *arg)
{
    ((struct host *)arg)->rang = true;
}

struct host *host_init(void *memory, const struct host_config *config, struct names *names,
                       const struct hfi_kernel *kernel)
{
    struct layout layout = {.base = memory};
    HF_CHECK(config->namespace_count >= 1 && config->namespace_count <= HOST_NAMESPACES_MAX);
    HF_CHECK(config->limits.clients >= 1 && config->limits.clients <= HOLDER_IDS / 4);
    struct host *host = lay_out(&layout, config);
    host->config = *config;
    host->names = names;
    host->outer = kernel;
    host->kernel = (struct hfi_kernel){
        .wake = kernel_wake, .now_ns = kernel_now_ns, .bell = kernel_bell, .arg = host};
    host->free_handle = NONE;
    host->limits_due_ns = INT64_MAX;
    host->sweep_due_ns = INT64_MAX;
    host->voters_up = UINT32_MAX;
    for (uint32_t i = 0; i < HOST_NAMESPACES_MAX; i++) {
        host->spaces[i].note = &host->spaces[i].own_note;
    }
    routes_init(host);
    listing_init(host);
    return host;
}

void host_set_gossip(struct host *host, struct gossip *gossip)
{
    HF_CHECK(!host->started);
    host->gossip = gossip;
}

/* ---- actions ---- */

bool has_room(const struct host_actions *actions, uint32_t count, size_t output)
{
    return actions->count + count <= actions->capacity &&
           actions->output_used + output <= actions->output_size;
}

struct host_action *emit(struct host_actions *actions, enum host_action_kind kind)
{
    HF_CHECK(actions->count < actions->capacity);
    struct host_action *action = &actions->items[actions->count++];
    /* all of it but the room for shares in a message: no request has any */
    memset(action, 0, offsetof(struct host_action, as.send.message) + MESSAGE_BASE_SIZE);
    action->kind = kind;
    return action;
}

struct message *emit_send(struct host_actions *actions, enum message_kind kind, uint32_t to,
                          uint8_t relay)
{
    struct host_action *action = emit(actions, HOST_SEND);
    action->as.send.to = to;
    action->as.send.relay = relay;
    action->as.send.message.kind = kind;
    return &action->as.send.message;
}

void reply_frame(struct host *host, uint32_t client, const struct hfi_frame *frame,
                 struct host_actions *actions)
{
    const struct client *who = &host->clients[client];
    if (!(who->flags & CLIENT_CONNECTED)) {
        return;
    }
    size_t size = hfi_frame_encode(frame, actions->output + actions->output_used,
                                   actions->output_size - actions->output_used);
    HF_CHECK(size > 0);
    struct host_action *action = emit(actions, HOST_REPLY);
    action->client = who->id;
    action->connection = who->connection;
    action->as.reply.offset = (uint32_t)actions->output_used;
    action->as.reply.size = (uint32_t)size;
    actions->output_used += size;
}

void reply_done(struct host *host, uint32_t client, uint64_t request, int32_t error,
                struct host_actions *actions)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_DONE, .request = request, .error = error};
    reply_frame(host, client, &frame, actions);
}

void emit_log(struct host_actions *actions, const char *event, int64_t number)
{
    struct host_action *action = emit(actions, HOST_LOG);
    action->as.log.event = event;
    action->as.log.slot = UINT32_MAX;
    action->as.log.number = number;
}

void emit_lock_log(struct host *host, struct host_actions *actions, const char *event,
                   struct place at, uint64_t token, int64_t number)
{
    struct host_action *action = emit(actions, HOST_LOG);
    action->as.log.event = event;
    action->as.log.region = at.space;
    action->as.log.slot = at.slot;
    action->as.log.token = token;
    action->as.log.number = number;
    if (lock_is_named(lock_at(host, at))) {
        lock_name(host, at, &action->as.log.name);
    }
}

/* ---- the heap of closed locks, by time ---- */

static void opening_put(struct host *host, uint32_t i, struct opening opening)
{
    while (i > 0 && host->openings[(i - 1) / 2].due_ns > opening.due_ns) {
        host->openings[i] = host->openings[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    host->openings[i] = opening;
}

void opening_add(struct host *host, struct place at, int64_t due_ns)
{
    struct lock *lock = lock_at(host, at);
    uint32_t i = host->opening_count;
    if (lock->opening) {
        /* Its entry may be of a closing that ended before its time: this one may be over sooner.
         * Looked at too early it is put back. */
        for (i = 0; host->openings[i].slot != at.slot || host->openings[i].space != at.space;) {
            i++;
            HF_CHECK(i < host->opening_count);
        }
        if (host->openings[i].due_ns <= due_ns) {
            return;
        }
    } else {
        lock->opening = 1;
        host->opening_count++;
    }
    opening_put(host, i, (struct opening){due_ns, at.slot, at.space});
}

void openings_forget(struct host *host)
{
    uint32_t count = host->opening_count;
    host->opening_count = 0;
    for (uint32_t i = 0; i < count; i++) { /* what stays is put before what is looked at next */
        struct opening opening = host->openings[i];
        struct place at = {opening.space, opening.slot};
        lock_at(host, at)->opening = 0;
        if (atomic_load(lock_word(host, at)) & HFI_W_CLOSED) {
            opening_add(host, at, opening.due_ns);
        }
    }
}

void openings_leave(struct host *host, uint32_t space)
{
    uint32_t count = host->opening_count;
    host->opening_count = 0;
    for (uint32_t i = 0; i < count; i++) { /* as above */
        struct opening opening = host->openings[i];
        if (opening.space == space) {
            lock_at(host, (struct place){opening.space, opening.slot})->opening = 0;
        } else {
            opening_put(host, host->opening_count++, opening);
        }
    }
}

static struct place opening_take(struct host *host)
{
    struct place at = {host->openings[0].space, host->openings[0].slot};
    struct opening last = host->openings[--host->opening_count];
    uint32_t i = 0;
    for (;;) { /* at most as deep as the heap */
        uint32_t child = 2 * i + 1;
        if (child >= host->opening_count) {
            break;
        }
        if (child + 1 < host->opening_count &&
            host->openings[child + 1].due_ns < host->openings[child].due_ns) {
            child++;
        }
        if (host->openings[child].due_ns >= last.due_ns) {
            break;
        }
        host->openings[i] = host->openings[child];
        i = child;
    }
    host->openings[i] = last;
    lock_at(host, at)->opening = 0;
    return at;
}

/* ---- work that is left over ---- */

/* Everything may be done again. */
static void work_anew(struct host *host)
{
    host->walked = 0;
    host->buried = 0;
    host->opened = 0;
    host->told = 0;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        host->spaces[i].attended = 0;
    }
}

void busy_set(struct host *host, struct client *client, uint32_t flag)
{
    const uint32_t busy = CLIENT_BURYING | CLIENT_SCANNING | CLIENT_POKE;
    host->clients_busy += !(client->flags & busy);
    client->flags |= flag;
}

void busy_clear(struct host *host, struct client *client, uint32_t flag)
{
    const uint32_t busy = CLIENT_BURYING | CLIENT_SCANNING | CLIENT_POKE;
    bool was = client->flags & busy;
    client->flags &= ~flag;
    host->clients_busy -= was && !(client->flags & busy);
}

/* Looks at locks whose dirty bits are set, while there is room, and goes on behind the one that was
 * the last: one that always rings is no reason to leave out those behind it. */
static void attend_dirty(struct host *host, uint32_t index, struct host_actions *actions)
{
    struct space *space = &host->spaces[index];
    uint32_t words = (space->region.slot_count + 63) / 64;
    for (uint32_t looked = 0; looked <= words; looked++) { /* the first word's lower bits at last */
        uint32_t word = space->attend_slot / 64;
        /* seq_cst: pairs with the fetch_or in hfi_ring(); what rang it is seen below */
        uint64_t bits = atomic_load(&space->region.dirty[word]);
        bits &= UINT64_MAX << space->attend_slot % 64;
        for (; bits != 0; bits &= bits - 1) {
            struct place at = {index, word * 64 + (uint32_t)__builtin_ctzll(bits)};
            space->attend_slot = at.slot;
            if (!has_room(actions, WORK_ACTIONS, WORK_OUTPUT) ||
                space->attended >= WORK_PIECES_MAX) {
                return; /* space->dirty stays set */
            }
            uint32_t walked = host->walked;
            atomic_fetch_and(&space->region.dirty[word], ~(UINT64_C(1) << at.slot % 64));
            space->causes++;
            if (at.slot < space->slots_used) {
                host->ringing = true;
                lock_attend(host, at, actions);
                host->ringing = false;
            }
            space->attended += 1 + (host->walked - walked) / WALK_PIECE;
            host->walked = walked;
        }
        space->attend_slot = word + 1 < words ? (word + 1) * 64 : 0;
    }
    space->dirty = false;
}

static void work_clients(struct host *host, struct host_actions *actions)
{
    uint32_t first = host->client_hand;
    for (uint32_t i = 0; i < host->client_capacity && host->clients_busy > 0; i++) {
        uint32_t index = (first + i) % host->client_capacity;
        struct client *client = &host->clients[index];
        while (host->buried < WORK_PIECES_MAX &&
               (client->flags & (CLIENT_BURYING | CLIENT_SCANNING))) {
            if (!has_room(actions, WORK_ACTIONS, WORK_OUTPUT)) {
                return;
            }
            uint32_t walked = host->walked;
            host->client_hand = index + 1; /* others begin the next step */
            client_bury_piece(host, index, actions);
            host->buried += 1 + (host->walked - walked) / WALK_PIECE;
            host->walked = walked;
        }
        if (client->flags & CLIENT_POKE) {
            if (!has_room(actions, WORK_ACTIONS, WORK_OUTPUT)) {
                return;
            }
            busy_clear(host, client, CLIENT_POKE);
            struct hfi_frame frame = {.kind = HFI_FRAME_POKE};
            uint32_t count = actions->count;
            reply_frame(host, index, &frame, actions);
            if (actions->count > count) {
                actions->items[count].as.reply.unasked = true;
            }
        }
    }
}

static void work(struct host *host, struct host_actions *actions)
{
    work_clients(host, actions);
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        host->spaces[i].dirty = host->spaces[i].dirty || host->rang;
    }
    host->rang = false;
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        uint32_t index = (host->space_hand + i) % host->config.namespace_count;
        if (host->spaces[index].used && host->spaces[index].dirty) {
            attend_dirty(host, index, actions);
        }
    }
    regions_work(host, actions);
    host->space_hand++; /* one that always has work leaves others the room of a step, too */
    pending_work(host, actions);
    notify_work(host, actions);
    publish_work(host);
}

static bool work_is_left(const struct host *host)
{
    if (host->clients_busy > 0 || host->rang || notify_is_left(host) || regions_leaving(host)) {
        return true;
    }
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (host->spaces[i].used && (host->spaces[i].dirty || host->spaces[i].telling)) {
            return true;
        }
    }
    for (uint32_t i = 0; i < host->pending_end; i++) {
        if (host->pending[i].used && host->pending[i].ready) {
            return true;
        }
    }
    return false;
}

static void tick(struct host *host, struct host_actions *actions)
{
    while (host->opening_count > 0 && host->openings[0].due_ns <= host->now_ns &&
           host->opened < WORK_PIECES_MAX && has_room(actions, WORK_ACTIONS, WORK_OUTPUT)) {
        uint32_t walked = host->walked;
        lock_open_due(host, opening_take(host), actions);
        /* A client may set their times anew, again and again: limits and burials have their own. */
        host->opened += 1 + (host->walked - walked) / WALK_PIECE;
        host->walked = walked;
    }
    requests_tick(host, actions);
    questions_tick(host, actions);
    if (host->limits_due_ns <= host->now_ns && host->walked < WORK_WALK_MAX &&
        has_room(actions, WORK_ACTIONS, WORK_OUTPUT)) {
        limits_check(host, actions);
    }
    if (host->sweep_due_ns <= host->now_ns && host->walked < WORK_WALK_MAX &&
        has_room(actions, WORK_ACTIONS, WORK_OUTPUT)) {
        zombies_sweep(host, actions);
    }
    for (uint32_t i = 0; i < host->pending_end; i++) {
        struct pending *pending = &host->pending[i];
        if (!pending->used || pending->ready || pending->due_ns > host->now_ns) {
            continue;
        }
        const struct handle *who = &host->handles[pending->handle];
        struct place at = {who->space, who->slot};
        pending->due_ns = host->now_ns + OPEN_PATIENCE_MS * MS;
        if (!lock_is_granted(lock_at(host, at))) {
            pending->ready = true; /* the grant takes long: the client may wait itself */
        } else if (has_room(actions, WORK_ACTIONS, WORK_OUTPUT)) {
            /* A hold must not begin under a grant that does not cover its lock-delay; this was
             * not asked for if the lease was not safe then. */
            lock_amend(host, at, who->lock_delay_ms, false, actions);
        }
    }
}

int64_t host_next_tick_ns(const struct host *host)
{
    if (work_is_left(host)) {
        return host->now_ns;
    }
    int64_t due_ns = host->limits_due_ns;
    if (host->opening_count > 0 && host->openings[0].due_ns < due_ns) {
        due_ns = host->openings[0].due_ns;
    }
    if (host->sweep_due_ns < due_ns) {
        due_ns = host->sweep_due_ns;
    }
    if (requests_due_ns(host) < due_ns) {
        due_ns = requests_due_ns(host);
    }
    if (questions_due_ns(host) < due_ns) {
        due_ns = questions_due_ns(host);
    }
    if (publish_due_ns(host) < due_ns) {
        due_ns = publish_due_ns(host);
    }
    if (repair_due_ns(host) < due_ns) {
        due_ns = repair_due_ns(host);
    }
    for (uint32_t i = 0; i < host->pending_end; i++) {
        if (host->pending[i].used && host->pending[i].due_ns < due_ns) {
            due_ns = host->pending[i].due_ns;
        }
    }
    return due_ns;
}

/* ---- steps ---- */

static void lease_changed(struct host *host, const struct host_lease *lease,
                          struct host_actions *actions)
{
    bool was_safe = lease_is_safe(host);
    if (lease->lost && !host->lease.lost) {
        host->lease = *lease;
        locks_revoke_all(host, actions);
        poke_all(host);
        host->counts.sessions_lost++;
        emit_log(actions, "session_lost", lease->epoch);
        return;
    }
    bool other = lease->epoch != host->lease.epoch || host->lease.lost;
    host->lease = *lease;
    if (lease->lost) {
        return;
    }
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (host->spaces[i].used) {
            uint64_t before = host->spaces[i].lease;
            host->spaces[i].lease = hfi_lease(lease->deadline_ns, lease->epoch);
            hfi_publish(&host->spaces[i].actor, lease->deadline_ns, lease->epoch, before);
        }
    }
    /* At every renewal, so that nothing that is awaited is ever left to a bell that did not ring:
     * a refused request, a range of tokens that ran out while no agent was there. */
    delays_settle(host);
    if (lease_is_safe(host)) {
        locks_mark_wanted(host);
    }
    if (was_safe && !lease_is_safe(host)) { /* before the time that clients' own timers know */
        poke_all(host);
    }
    if (!was_safe && lease_is_safe(host)) {
        if (host->started && !other) {
            poke_all(host);
        }
        emit_log(actions, "session_safe", lease->epoch);
    }
}

static void frame_arrived(struct host *host, const struct host_event *event,
                          struct host_actions *actions)
{
    const struct hfi_frame *frame = event->as.frame.frame;
    uint32_t client = client_of_id(host, event->client);
    if (client == NONE || !(host->clients[client].flags & CLIENT_CONNECTED)) {
        return;
    }
    int32_t error = HF_EPROTO;
    switch ((int)frame->kind) {
    case HFI_FRAME_OPEN:
        handle_open(host, client, frame, actions);
        return;
    case HFI_FRAME_SEAT:
        handle_seat(host, client, frame, actions);
        return;
    case HFI_FRAME_CLOSE:
        handle_close(host, client, frame->handle, actions);
        return;
    case HFI_FRAME_LIST:
    case HFI_FRAME_SHOW:
        inspect_list(host, client, frame, actions);
        return;
    case HFI_FRAME_STATUS:
        inspect_status(host, client, frame, actions);
        return;
    case HFI_FRAME_FACTS: {
        struct host_action *action = emit(actions, HOST_TELL);
        action->client = event->client;
        action->connection = host->clients[client].connection;
        action->as.request = frame->request;
        return;
    }
    case HFI_FRAME_BYE:
        client_died(host, client); /* it promises to touch nothing any more */
        return;
    case HFI_FRAME_RESUMED:
        client_resumed(host, client);
        error = 0;
        break;
    case HFI_FRAME_MAP:
        error = handle_map(host, client, frame, actions);
        break;
    case HFI_FRAME_CHECK:
        error = remote_check(host, client, frame, actions);
        break;
    case HFI_FRAME_BREAK:
        error = remote_break(host, client, frame, actions);
        break;
    case HFI_FRAME_RECALL:
        error = admin_recall(host, client, &frame->text, actions);
        break;
    case HFI_FRAME_WATCH:
        error = watch_add(host, client, &frame->text);
        break;
    case HFI_FRAME_EVENTS:
        host->clients[client].flags |= CLIENT_EVENTS;
        error = 0;
        break;
    default: { /* a frame that only an agent sends */
        struct host_action *action = emit(actions, HOST_HANG_UP);
        action->client = event->client;
        action->connection = host->clients[client].connection;
        action->as.text = "a frame that only an agent may send";
        return;
    }
    }
    if (error != ANSWERED_LATER) {
        reply_done(host, client, frame->request, error, actions);
    }
}

void host_step(struct host *host, const struct host_event *event, struct host_actions *actions)
{
    HF_CHECK(has_room(actions, HOST_STEP_ACTIONS, HOST_STEP_OUTPUT));
    HF_CHECK(event->now_ns >= host->now_ns);
    host->now_ns = event->now_ns;
    uint32_t client = event->kind == HOST_CONNECTED ? NONE : client_of_id(host, event->client);
    switch (event->kind) {
    case HOST_START:
        host->lease = event->as.lease;
        host->last_request = event->random >> 20; /* not those of the process before */
        host->aged_ns = event->now_ns;
        adopt_all(host, actions);
        host->started = true;
        locks_known(host);
        break;
    case HOST_CONNECTED:
        client_connected(host, event, actions);
        break;
    case HOST_FRAME:
        frame_arrived(host, event, actions);
        break;
    case HOST_HANGUP:
        if (client != NONE) {
            client_hangup(host, client);
        }
        break;
    case HOST_DIED:
        if (client != NONE) {
            client_died(host, client);
        }
        break;
    case HOST_FORGOTTEN:
        client_forgotten(host, event->client);
        break;
    case HOST_DRAINED:
        if (client != NONE) {
            host->clients[client].flags |= CLIENT_LAGGED;
            notify_lagged(host, client, actions);
        }
        break;
    case HOST_BELL:
        if (event->as.region < host->config.namespace_count) {
            host->spaces[event->as.region].dirty = true;
        }
        break;
    case HOST_MESSAGE:
        if (!remote_message(host, event->as.message, actions)) {
            lock_message(host, event->as.message, actions);
        }
        break;
    case HOST_LEASE:
        lease_changed(host, &event->as.lease, actions);
        break;
    case HOST_VOTERS:
        requests_voters_up(host, event->as.voters.up & ~host->voters_up);
        host->voters_up = event->as.voters.up;
        host->voters_refused = event->as.voters.refused;
        host->voters_heard = event->as.voters.heard;
        break;
    case HOST_TICK:
        work_anew(host);
        repair_work(host, actions);
        break;
    }
    tick(host, actions);
    work(host, actions);
}

uint32_t host_namespace(const struct host_config *config, const char *name, size_t size)
{
    const char *slash = memchr(name, '/', size);
    size_t length = slash ? (size_t)(slash - name) : 0;
    for (uint32_t i = 1; length > 0 && i < config->namespace_count; i++) {
        if (length <= HFI_LABEL_MAX && config->namespaces[i][length] == '\0' &&
            memcmp(config->namespaces[i], name, length) == 0) {
            return i;
        }
    }
    return 0;
}
