/*
 * The host core: its memory, its steps, its timers, and the work that one step leaves for later.
 */
#include "state.h"

static void lay_out_space(struct arena *arena, const struct host_limits *limits,
                          struct space *space)
{
    size_t seats = (size_t)limits->blocks * HFI_BLOCK_SEATS;
    space->locks = arena_take(arena, limits->locks, sizeof(struct lock));
    space->guards = arena_take(arena, limits->locks, sizeof(struct guard));
    space->slot_blocks = arena_take(arena, limits->locks, sizeof(uint32_t));
    space->block_next = arena_take(arena, limits->blocks, sizeof(uint32_t));
    space->block_slot = arena_take(arena, limits->blocks, sizeof(uint32_t));
    space->seat_holder = arena_take(arena, seats, sizeof(uint16_t));
    space->seat_handle = arena_take(arena, seats, sizeof(uint32_t));
    space->idle = arena_take(arena, limits->locks, sizeof(uint8_t));
    space->token_first = arena_take(arena, limits->locks, sizeof(uint64_t));
}

/* The one list of what the block holds. */
static struct host *lay_out(struct arena *arena, const struct host_config *config)
{
    const struct host_limits *limits = &config->limits;
    struct space unused;
    struct host *host = arena_take(arena, 1, sizeof(*host));
    struct host nowhere;
    struct host *into = host ? host : &nowhere;
    uint32_t clients = limits->clients * 2; /* the dead and hung-up stay for a while */
    into->client_capacity = clients;
    into->clients = arena_take(arena, clients, sizeof(struct client));
    into->handles = arena_take(arena, limits->handles, sizeof(struct handle));
    into->requests = requests_lay_out(arena, config);
    into->kept = kept_lay_out(arena);
    into->limited = arena_take(arena, limits->handles / LIMITED_GROUP + 1, sizeof(uint64_t));
    into->limited_due_ns = arena_take(arena, limits->handles / LIMITED_GROUP + 1, sizeof(int64_t));
    into->ids = arena_take(arena, HOLDER_IDS + 1, sizeof(struct holder_id));
    into->named_ids = arena_take(arena, (size_t)ID_WORDS * config->namespace_count,
                                 sizeof(uint64_t));
    into->routes = routes_lay_out(arena);
    into->openings = openings_lay_out(arena, config);
    into->watches = watches_lay_out(arena, config);
    into->listing = listing_lay_out(arena, config);
    into->publish = publish_lay_out(arena, config);
    into->remote = remote_lay_out(arena);
    into->delays = delays_lay_out(arena);
    for (uint32_t i = 0; i < config->namespace_count; i++) {
        lay_out_space(arena, limits, host ? &host->spaces[i] : &unused);
    }
    return host;
}

size_t host_size(const struct host_config *config)
{
    struct arena arena = {0};
    lay_out(&arena, config);
    return arena.used + ARENA_ALIGNMENT;
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
    struct arena arena = {.base = memory};
    HF_CHECK(config->namespace_count >= 1 && config->namespace_count <= HOST_NAMESPACES_MAX);
    HF_CHECK(config->limits.clients >= 1 && config->limits.clients <= HOLDER_IDS / 4);
    struct host *host = lay_out(&arena, config);
    host->config = *config;
    host->names = names;
    host->outer = kernel;
    host->kernel = (struct hfi_kernel){
        .wake = kernel_wake, .now_ns = kernel_now_ns, .bell = kernel_bell, .arg = host};
    host->free_handle = NONE;
    host->limits_due_ns = INT64_MAX;
    host->sweep_due_ns = INT64_MAX;
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

/* ---- work that is left over ---- */

/* Everything may be done again. */
static void work_anew(struct host *host)
{
    host->walked = 0;
    host->buried = 0;
    host->opened = 0;
    watches_tick(host);
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        host->spaces[i].attended = 0;
    }
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
            struct lock_ref at = {index, word * 64 + (uint32_t)__builtin_ctzll(bits)};
            space->attend_slot = at.slot;
            if (!hub_has_room(actions) || space->attended >= HUB_PIECES_MAX) {
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
            space->attended += hub_pieces(host, walked);
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
        while (host->buried < HUB_PIECES_MAX &&
               (client->flags & (CLIENT_BURYING | CLIENT_SCANNING))) {
            if (!hub_has_room(actions)) {
                return;
            }
            uint32_t walked = host->walked;
            host->client_hand = index + 1; /* others begin the next step */
            client_bury_piece(host, index, actions);
            host->buried += hub_pieces(host, walked);
        }
        if (client->flags & CLIENT_POKE) {
            if (!hub_has_room(actions)) {
                return;
            }
            client_busy_clear(host, client, CLIENT_POKE);
            struct hfi_frame frame = {.kind = HFI_FRAME_POKE};
            uint32_t count = actions->count;
            client_reply(host, index, &frame, actions);
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
    watches_work(host, actions);
    publish_work(host);
}

static bool work_is_left(const struct host *host)
{
    if (host->clients_busy > 0 || host->rang || watches_are_left(host) || regions_leaving(host)) {
        return true;
    }
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        if (host->spaces[i].used && host->spaces[i].dirty) {
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
    while (openings_due_ns(host) <= host->now_ns && host->opened < HUB_PIECES_MAX &&
           hub_has_room(actions)) {
        uint32_t walked = host->walked;
        lock_open_due(host, opening_take(host), actions);
        /* A client may set their times anew, again and again: limits and burials have their own. */
        host->opened += hub_pieces(host, walked);
    }
    requests_tick(host, actions);
    remote_tick(host, actions);
    if (host->limits_due_ns <= host->now_ns && host->walked < HUB_WALK_MAX &&
        hub_has_room(actions)) {
        limits_check(host, actions);
    }
    if (host->sweep_due_ns <= host->now_ns && host->walked < HUB_WALK_MAX &&
        hub_has_room(actions)) {
        zombies_sweep(host, actions);
    }
    for (uint32_t i = 0; i < host->pending_end; i++) {
        struct pending *pending = &host->pending[i];
        if (!pending->used || pending->ready || pending->due_ns > host->now_ns) {
            continue;
        }
        const struct handle *who = &host->handles[pending->handle];
        struct lock_ref at = {who->space, who->slot};
        pending->due_ns = host->now_ns + OPEN_PATIENCE_MS * MS;
        if (!lock_is_granted(lock_at(host, at))) {
            pending->ready = true; /* the grant takes long: the client may wait itself */
        } else if (hub_has_room(actions)) {
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
    if (openings_due_ns(host) < due_ns) {
        due_ns = openings_due_ns(host);
    }
    if (host->sweep_due_ns < due_ns) {
        due_ns = host->sweep_due_ns;
    }
    if (requests_due_ns(host) < due_ns) {
        due_ns = requests_due_ns(host);
    }
    if (remote_due_ns(host) < due_ns) {
        due_ns = remote_due_ns(host);
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
    bool was_safe = hub_lease_is_safe(host);
    if (lease->lost && !host->lease.lost) {
        host->lease = *lease;
        locks_revoke_all(host, actions);
        clients_poke_all(host);
        host->counts.sessions_lost++;
        hub_log(actions, "session_lost", lease->epoch);
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
    /* At every renewal, so that nothing that is awaited is ever left to a ring that did not come:
     * a refused request, a range of tokens that ran out while no agent was there. */
    handles_settle_delays(host);
    if (hub_lease_is_safe(host)) {
        locks_mark_wanted(host);
    }
    if (was_safe && !hub_lease_is_safe(host)) { /* before the time that clients' own timers know */
        clients_poke_all(host);
    }
    if (!was_safe && hub_lease_is_safe(host)) {
        if (host->started && !other) {
            clients_poke_all(host);
        }
        hub_log(actions, "session_safe", lease->epoch);
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
        client_rang(host, client);
        return;
    case HFI_FRAME_RING:
        client_rang(host, client);
        return;
    case HFI_FRAME_LIST:
    case HFI_FRAME_SHOW:
        inspect_list(host, client, frame, actions);
        return;
    case HFI_FRAME_STATUS:
        inspect_status(host, client, frame, actions);
        return;
    case HFI_FRAME_FACTS: {
        struct host_action *action = hub_emit(actions, HOST_TELL);
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
        error = remote_recall(host, client, &frame->text, actions);
        break;
    case HFI_FRAME_WATCH:
        error = watch_add(host, client, &frame->text);
        break;
    case HFI_FRAME_EVENTS:
        host->clients[client].flags |= CLIENT_EVENTS;
        error = 0;
        break;
    default: { /* a frame that only an agent sends */
        struct host_action *action = hub_emit(actions, HOST_HANG_UP);
        action->client = event->client;
        action->connection = host->clients[client].connection;
        action->as.text = "a frame that only an agent may send";
        return;
    }
    }
    if (error != REMOTE_ANSWERS_LATER) {
        client_reply_done(host, client, frame->request, error, actions);
    }
}

void host_step(struct host *host, const struct host_event *event, struct host_actions *actions)
{
    HF_CHECK(actions->count + HOST_STEP_ACTIONS <= actions->capacity);
    HF_CHECK(actions->output_used + HOST_STEP_OUTPUT <= actions->output_size);
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
            watch_lagged(host, client, actions);
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
        requests_voters_up(host, routes_voters(host, event->as.voters.up, event->as.voters.heard,
                                               event->as.voters.refused));
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
