/*
 * Telling people what there is: locks with their holders and waiters, the agent's status. Nothing
 * here changes anything.
 */
#include "state.h"

#include "holdfast/admin.h"

enum { PAGE = 32 };

static struct hfi_text text_of(const char *text)
{
    return (struct hfi_text){text, text_size(text, 256)};
}

static void fill_party(const struct host *host, struct place at, uint32_t holder, uint32_t seat,
                       struct hfi_party_frame *out)
{
    const struct message_agent *agent = &host->config.agent;
    uint32_t client = client_of_id(host, holder);
    *out = (struct hfi_party_frame){
        .pid = -1,
        .uid = -1,
        .elapsed_ns = -1,
        .remaining_ns = -1,
        .agent = {agent->text, agent->length},
        .mode = HF_EXCLUSIVE,
    };
    if (client != NONE) {
        const struct host_peer *peer = &host->clients[client].peer;
        out->pid = peer->pid > 0 ? peer->pid : -1;
        out->uid = peer->uid;
        out->command = text_of(peer->command);
    }
    out->remaining_ns = host->lease.deadline_ns - host->now_ns;
    if (seat != HFI_SEAT_NONE) {
        const struct hfi_seat *shared = hfi_seat(&host->spaces[at.space].region, seat);
        uint32_t handle = host->spaces[at.space].seat_handle[seat];
        /* unsigned: hostile bytes must not overflow */
        int64_t own_ns = (int64_t)(atomic_load(&shared->deadline_ns) - (uint64_t)host->now_ns);
        bool limited = handle != NONE && (host->handles[handle].flags & HANDLE_LIMITED);
        out->remaining_ns = limited && own_ns < out->remaining_ns ? own_ns : out->remaining_ns;
        out->elapsed_ns = since_to_elapsed(host->now_ns, atomic_load(&shared->since));
    }
    out->remaining_ns = out->remaining_ns > 0 ? out->remaining_ns : 0;
}

/* Readers inside, as holders. */
static uint32_t fill_readers(const struct host *host, struct place at, uint64_t token,
                             struct hfi_party_frame *parties, uint32_t room)
{
    const struct space *space = &host->spaces[at.space];
    uint32_t count = 0;
    struct seats walk = seats_of(host, at);
    while (seats_next(&walk)) {
        const struct hfi_seat *shared = hfi_seat(&space->region, walk.seat);
        if (!(atomic_load(&shared->reader) & HFI_CELL_COUNT)) {
            continue;
        }
        if (count < room) {
            fill_party(host, at, space->seat_holder[walk.seat], walk.seat, &parties[count]);
            parties[count].mode = HF_SHARED;
            parties[count].token = token;
        }
        count++;
    }
    return count;
}

/* The seat of that holder id; HFI_SEAT_NONE: it has none. */
static uint32_t seat_of_holder(const struct host *host, struct place at, uint32_t holder)
{
    struct seats walk = seats_of(host, at);
    while (holder != 0 && seats_next(&walk)) {
        if (host->spaces[at.space].seat_holder[walk.seat] == holder) {
            return walk.seat;
        }
    }
    return HFI_SEAT_NONE;
}

void lock_look(const struct host *host, struct place at, struct hfi_lock_frame *lock,
               struct hfi_party_frame *parties)
{
    const struct space *space = &host->spaces[at.space];
    uint64_t word = atomic_load(lock_word(host, at));
    uint32_t holder = hfi_word_holder(word) == HFI_HOLDER_AGENT ? 0 : hfi_word_holder(word);
    uint64_t token = hfi_token(lock_at(host, at)->token_last, word);
    uint32_t holder_seat = seat_of_holder(host, at, holder);
    uint32_t readers = fill_readers(host, at, token, parties, HFI_FRAME_PARTIES_MAX);
    uint32_t used = readers < HFI_FRAME_PARTIES_MAX ? readers : HFI_FRAME_PARTIES_MAX;
    lock->state = readers ? HF_STATE_SHARED : holder ? HF_STATE_EXCLUSIVE : HF_STATE_FREE;
    lock->holder_count = used;
    /* Beside readers the word names one of the queue, which tells of him; a reader that wants to
     * write, who is next; or somebody who only tries, and will let go of it: he does not wait. */
    bool upgrades = readers > 1 && holder_seat != HFI_SEAT_NONE &&
                    (atomic_load(&hfi_seat(&space->region, holder_seat)->reader) & HFI_CELL_COUNT);
    bool apart = holder && (!readers || upgrades);
    if (apart && used < HFI_FRAME_PARTIES_MAX) {
        fill_party(host, at, holder, holder_seat, &parties[used]);
        parties[used].token = readers ? 0 : token;
        parties[used].elapsed_ns = since_to_elapsed(
            host->now_ns, atomic_load(&space->region.slots[at.slot].since));
        used++;
        lock->holder_count += readers ? 0 : 1;
    }
    uint32_t seats[HFI_FRAME_PARTIES_MAX];
    size_t queued = hfi_queue(&space->region, at.slot, seats, HFI_FRAME_PARTIES_MAX);
    size_t known = queued < HFI_FRAME_PARTIES_MAX ? queued : HFI_FRAME_PARTIES_MAX;
    for (size_t i = 0; i < known && used < HFI_FRAME_PARTIES_MAX; i++) {
        uint32_t id = space->seat_holder[seats[i]];
        if (id != 0 && !(apart && id == holder)) {
            fill_party(host, at, id, seats[i], &parties[used]);
            uint64_t wait = atomic_load(hfi_seat_wait(&space->region, seats[i]));
            parties[used].mode = wait & HFI_WAIT_SHARED ? HF_SHARED : HF_EXCLUSIVE;
            parties[used].remaining_ns = -1;
            parties[used].command = (struct hfi_text){NULL, 0};
            used++;
        }
    }
    lock->waiter_count = used - lock->holder_count;
    lock->more_parties = used == HFI_FRAME_PARTIES_MAX && queued + readers > used;
    int64_t closed_ns = lock_closed_until_ns(host, at) - host->now_ns;
    if (closed_ns > 0) {
        lock->closed_ns = closed_ns;
    } else if (word & HFI_W_CLOSED) {
        lock->closed_ns = 1;
    }
}

/* Adds one lock to the page; false: the page is full. The first of a page has always room: parties
 * that do not fit are left out. */
static bool list_lock(const struct host *host, const uint8_t *name, size_t size,
                      struct hfi_listed_builder *builder)
{
    struct merged merged;
    struct message_agent coordinator;
    merge_lock(host, name, size, &coordinator, &merged);
    return hfi_listed_add(builder, &merged.lock, merged.parties);
}

/* A page of a LIST; whether there is more. */
static bool list_page(const struct host *host, uint32_t client, const struct hfi_list *list,
                      struct hfi_listed_builder *builder)
{
    struct message_name name = {.length = (uint8_t)list->after.size};
    if (name.length > 0) {
        memcpy(name.bytes, list->after.bytes, name.length);
    }
    for (uint32_t shown = 0; listing_next(host, client, list, &name, &name); shown++) {
        if (shown == PAGE || !list_lock(host, name.bytes, name.length, builder)) {
            return true;
        }
    }
    return false;
}

void inspect_list(struct host *host, uint32_t client, const struct hfi_frame *frame,
                  struct host_actions *actions)
{
    struct hfi_listed_builder builder;
    bool more = false;
    hfi_listed_begin(&builder, actions->output + actions->output_used, HFI_FRAME_MAX,
                     frame->request);
    if (frame->kind == HFI_FRAME_SHOW) {
        uint32_t index = host_namespace(&host->config, frame->text.bytes, frame->text.size);
        int32_t error = rights_check(host, client, index, HOST_MAY_USE | HOST_MAY_ADMIN);
        if (error != 0) {
            reply_done(host, client, frame->request, error, actions);
            return;
        }
        (void)list_lock(host, (const uint8_t *)frame->text.bytes, frame->text.size, &builder);
    } else {
        more = list_page(host, client, &frame->list, &builder);
    }
    size_t size = hfi_listed_finish(&builder, more);
    struct host_action *action = emit(actions, HOST_REPLY);
    action->client = host->clients[client].id;
    action->connection = host->clients[client].connection;
    action->as.reply.offset = (uint32_t)actions->output_used;
    action->as.reply.size = (uint32_t)size;
    actions->output_used += size;
}

static void count_locks(const struct host *host, uint32_t client, struct hfi_stated *out)
{
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        const struct space *space = &host->spaces[i];
        for (uint32_t slot = 0; space->used && slot < space->slots_used; slot++) {
            struct place at = {i, slot};
            if (!lock_is_named(lock_at(host, at)) ||
                rights_check(host, client, i, HOST_MAY_USE | HOST_MAY_ADMIN) != 0) {
                continue;
            }
            uint64_t word = atomic_load(lock_word(host, at));
            bool read = (word & HFI_W_CELLS) &&
                        hfi_has_readers(&space->region, slot, HFI_SEAT_NONE);
            uint32_t holder = hfi_word_holder(word);
            out->locks_held += (holder != 0 && holder != HFI_HOLDER_AGENT) || read;
            if (word & (HFI_W_WAITERS | HFI_W_BARGERS)) {
                uint32_t first = 0;
                out->waiters += hfi_queue(&space->region, slot, &first, 1);
            }
        }
    }
}

void inspect_status(struct host *host, uint32_t client, const struct hfi_frame *frame,
                    struct host_actions *actions)
{
    const struct host_config *config = &host->config;
    struct hfi_frame answer = {.kind = HFI_FRAME_STATED, .request = frame->request};
    struct hfi_stated *stated = &answer.stated;
    stated->agent = (struct hfi_text){config->agent.text, config->agent.length};
    stated->cell = (struct hfi_text){config->cell.text, config->cell.length};
    stated->role = text_of(config->role);
    stated->version = text_of(config->version);
    stated->session_state = host->lease.lost      ? HF_SESSION_LOST
                            : lease_is_safe(host) ? HF_SESSION_SAFE
                                                  : HF_SESSION_JEOPARDY;
    stated->session_epoch = host->lease.epoch;
    stated->session_remaining_ns = host->lease.deadline_ns - host->now_ns;
    stated->clients = host->connected_count;
    count_locks(host, client, stated);
    stated->voter_count = config->voter_count;
    for (uint32_t i = 0; i < config->voter_count; i++) {
        stated->voters[i].name = (struct hfi_text){config->voters[i].text,
                                                   config->voters[i].length};
        stated->voters[i].address = config->addresses[i] ? text_of(config->addresses[i])
                                                         : (struct hfi_text){NULL, 0};
        bool heard = i == config->self || (host->voters_heard >> i & 1);
        stated->voters[i].state = host->voters_refused >> i & 1 ? HF_VOTER_REFUSED
                                  : heard                       ? HF_VOTER_UP
                                                                : HF_VOTER_DOWN;
    }
    reply_frame(host, client, &answer, actions);
}
