/*
 * The host core: its memory, its steps, its timers, and the work that one step leaves for later.
 */
#include "adoption.h"
#include "answers.h"
#include "attend.h"
#include "behind.h"
#include "breaks.h"
#include "burials.h"
#include "clients.h"
#include "delays.h"
#include "full.h"
#include "grants.h"
#include "handles.h"
#include "hub.h"
#include "inspect.h"
#include "kept.h"
#include "lease.h"
#include "limits.h"
#include "listing.h"
#include "locks.h"
#include "notes.h"
#include "openings.h"
#include "opens.h"
#include "operator.h"
#include "pending.h"
#include "publish.h"
#include "regions.h"
#include "remote.h"
#include "repair.h"
#include "requests.h"
#include "ringing.h"
#include "routes.h"
#include "seats.h"
#include "slots.h"
#include "spaces.h"
#include "tally.h"
#include "watches.h"
#include "words.h"

/* How much work was done since the last tick, and where the next step continues. */
struct work {
    uint32_t opened;     /* the openings since the last tick, in pieces of work */
    uint32_t space_hand; /* the namespace with which the next step begins */
};

/* Lays out the block. This function alone lists what the block holds. */
static struct host *lay_out(struct arena *arena, const struct host_config *config)
{
    struct host *host = arena_take(arena, 1, sizeof(*host));
    struct host nowhere;
    struct host *into = host ? host : &nowhere;
    into->clients = clients_lay_out(arena, config);
    into->work = arena_take(arena, 1, sizeof(struct work));
    into->spaces = spaces_lay_out(arena);
    into->words = words_lay_out(arena);
    into->locks = locks_lay_out(arena, config);
    into->handles = handles_lay_out(arena, config);
    into->notes = notes_lay_out(arena, config);
    into->requests = requests_lay_out(arena, config);
    into->kept = kept_lay_out(arena);
    into->behind = behind_lay_out(arena);
    into->routes = routes_lay_out(arena);
    into->openings = openings_lay_out(arena, config);
    into->watches = watches_lay_out(arena, config);
    into->listing = listing_lay_out(arena, config);
    into->publish = publish_lay_out(arena, config);
    into->remote = remote_lay_out(arena);
    into->operator_asks = operator_lay_out(arena);
    into->tallies = tallies_lay_out(arena, REMOTE_TALLIES);
    into->breaks = breaks_lay_out(arena);
    into->delays = delays_lay_out(arena);
    into->seats = seats_lay_out(arena, config);
    into->ringing = ringing_lay_out(arena);
    into->limits = limits_lay_out(arena, config);
    into->pending = pending_lay_out(arena);
    into->grants = grants_lay_out(arena);
    into->lease_state = lease_lay_out(arena, config);
    into->attend = attend_lay_out(arena);
    into->burials = burials_lay_out(arena, config);
    into->opens = opens_lay_out(arena);
    into->repair = repair_lay_out(arena);
    into->full = full_lay_out(arena);
    return host;
}

size_t host_size(const struct host_config *config)
{
    struct arena arena = {0};
    lay_out(&arena, config);
    return arena.used + ARENA_ALIGNMENT;
}

struct host *host_init(void *memory, const struct host_config *config, struct names *names,
                       const struct hfi_kernel *kernel)
{
    struct arena arena = {.base = memory};
    HF_CHECK(config->namespace_count >= 1 && config->namespace_count <= HOST_NAMESPACES_MAX);
    HF_CHECK(config->limits.clients >= 1 && config->limits.clients <= HUB_HOLDER_IDS / 4);
    HF_CHECK(config->limits.holders <= HOST_HOLDERS_MAX);
    struct host *host = lay_out(&arena, config);
    host->config = *config;
    host->names = names;
    ringing_init(host, kernel);
    limits_init(host);
    burials_init(host);
    handles_init(host);
    notes_init(host);
    spaces_init(host);
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

/* Begins a new tick, in which each kind of work may do its full number of pieces again. */
static void work_anew(struct host *host)
{
    host->walked = 0;
    host->work->opened = 0;
    burials_tick(host);
    watches_tick(host);
    ringing_tick(host);
}

static void work(struct host *host, struct host_actions *actions)
{
    burials_work(host, actions);
    ringing_gather(host);
    for (uint32_t i = 0; i < host->config.namespace_count; i++) {
        uint32_t index = (host->work->space_hand + i) % host->config.namespace_count;
        if (ringing_is_left(host, index)) {
            ringing_work(host, index, attend_lock, actions);
        }
    }
    regions_work(host, actions);
    host->work->space_hand++; /* a namespace that always has work leaves room for other
                               * namespaces */
    opens_work(host, actions);
    watches_work(host, actions);
    publish_work(host);
}

static bool work_is_left(const struct host *host)
{
    return clients_busy(host) > 0 || watches_are_left(host) || regions_are_left(host) ||
           ringing_is_left_anywhere(host) || opens_are_left(host);
}

static void tick(struct host *host, struct host_actions *actions)
{
    while (openings_due_ns(host) <= host->now_ns && host->work->opened < HUB_PIECES_MAX &&
           hub_has_room(actions)) {
        uint32_t walked = host->walked;
        attend_opening(host, opening_take(host), actions);
        /* The number of openings is bounded here, because a client may close locks again and again.
         * Limits and burials bound their work themselves. */
        host->work->opened += hub_pieces(host, walked);
    }
    requests_tick(host, actions);
    remote_tick(host, actions);
    operator_tick(host, actions);
    if (limits_due_ns(host) <= host->now_ns && host->walked < HUB_WALK_MAX &&
        hub_has_room(actions)) {
        limits_end_due(host, actions);
    }
    if (burials_due_ns(host) <= host->now_ns && host->walked < HUB_WALK_MAX &&
        hub_has_room(actions)) {
        burials_free_zombies(host, actions);
    }
    opens_tick(host, actions);
}

int64_t host_next_tick_ns(const struct host *host)
{
    const int64_t due_ns[] = {limits_due_ns(host),   openings_due_ns(host), burials_due_ns(host),
                              requests_due_ns(host), remote_due_ns(host),   operator_due_ns(host),
                              publish_due_ns(host),  repair_due_ns(host),   opens_due_ns(host),
                              ringing_due_ns(host)};
    int64_t first_ns = INT64_MAX;
    if (work_is_left(host)) {
        return host->now_ns;
    }
    for (size_t i = 0; i < sizeof(due_ns) / sizeof(due_ns[0]); i++) {
        first_ns = due_ns[i] < first_ns ? due_ns[i] : first_ns;
    }
    return first_ns;
}

/* ---- steps ---- */

/* Handles CLOSE, which has no answer. If the number is not one of the client's own handles, nothing
 * happens. */
static void close_arrived(struct host *host, uint32_t client, uint32_t number,
                          struct host_actions *actions)
{
    uint32_t handle = handle_check_own(host, client, number);
    if (handle != NONE) {
        burial_close(host, handle, actions);
    }
}

/* Switches to another record of voters. Tables that are indexed by voter are reordered, so that
 * each entry stays with its voter's name. */
static void record_changed(struct host *host, const struct message_voters *record)
{
    struct host_config *config = &host->config;
    struct succession succession;
    struct message_partitions orphaned;
    succession_make(&succession, config->voters, config->voter_count, record);
    config->voters_number = record->number;
    config->voter_count = record->count;
    config->self = HOST_OBSERVER;
    for (uint32_t i = 0; i < record->count; i++) {
        config->voters[i] = record->of[i].name;
        config->addresses[i] = record->of[i].address[0] != '\0' ? record->of[i].address : NULL;
        if (memcmp(&record->of[i].name, &config->agent, sizeof(config->agent)) == 0) {
            config->self = i;
        }
    }
    config->role = config->self == HOST_OBSERVER ? "observer" : "voter";
    routes_record(host, &succession, &orphaned);
    requests_record(host, &succession, &orphaned);
}

/* Leaves the answer to the agent, which knows more than the core. */
static void ask_agent(struct host *host, uint32_t client, enum host_action_kind kind,
                      const struct host_event *event, struct host_actions *actions)
{
    struct host_action *action = hub_emit(actions, kind);
    action->client = event->client;
    action->connection = client_connection(host, client);
    action->as.request = event->as.frame.frame->request;
}

static void frame_arrived(struct host *host, const struct host_event *event,
                          struct host_actions *actions)
{
    const struct hfi_frame *frame = event->as.frame.frame;
    uint32_t client = client_of_id(host, event->client);
    if (client == NONE || !(client_flags(host, client) & CLIENT_CONNECTED)) {
        return;
    }
    int32_t error = HF_EPROTO;
    switch ((int)frame->kind) {
    case HFI_FRAME_OPEN:
        opens_open(host, client, frame, actions);
        return;
    case HFI_FRAME_SEAT:
        opens_seat(host, client, frame, actions);
        return;
    case HFI_FRAME_NOTE:
        error = opens_note(host, client, frame);
        break;
    case HFI_FRAME_CLOSE:
        close_arrived(host, client, frame->handle, actions);
        rings_arrived(host, client_regions(host, client));
        return;
    case HFI_FRAME_RING:
        rings_arrived(host, client_regions(host, client));
        return;
    case HFI_FRAME_LIST:
    case HFI_FRAME_SHOW:
        inspect_list(host, client, frame, actions);
        return;
    case HFI_FRAME_STATUS:
        inspect_status(host, client, event, actions);
        return;
    case HFI_FRAME_BACKUP:
        if ((client_peer(host, client)->rights[0] & HOST_MAY_CHANGE_VOTERS) == 0) {
            error = HF_EACCES;
            break;
        }
        ask_agent(host, client, HOST_BACKUP, event, actions);
        return;
    case HFI_FRAME_FACTS:
        ask_agent(host, client, HOST_FACTS, event, actions);
        return;
    case HFI_FRAME_BYE:
        burial_death(host, client); /* BYE promises that the client no longer touches the region */
        return;
    case HFI_FRAME_RESUMED:
        burial_resumed(host, client);
        error = 0;
        break;
    case HFI_FRAME_MAP:
        error = opens_map(host, client, frame, actions);
        break;
    case HFI_FRAME_CHECK:
        error = remote_check(host, client, frame, actions);
        break;
    case HFI_FRAME_BREAK:
        error = remote_break(host, client, frame, actions);
        break;
    case HFI_FRAME_MEMBER:
        error = operator_ask(host, client, frame, actions);
        break;
    case HFI_FRAME_RECALL:
        error = remote_recall(host, client, &frame->text, actions);
        break;
    case HFI_FRAME_WATCH:
        error = watch_add(host, client, &frame->text);
        break;
    case HFI_FRAME_UNWATCH:
        watch_end(host, client, &frame->text);
        error = 0;
        break;
    case HFI_FRAME_EVENTS:
        client_set(host, client, CLIENT_EVENTS);
        error = 0;
        break;
    default: { /* a frame that only an agent sends */
        struct host_action *action = hub_emit(actions, HOST_HANG_UP);
        action->client = event->client;
        action->connection = client_connection(host, client);
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
        lease_start(host, &event->as.lease);
        breaks_start(host);
        /* The numbers of requests begin at random, so that no request of the previous process has
         * the same number as a request of this process. */
        host->last_request = event->random >> 20;
        adoption_start(host, actions);
        host->started = true;
        slots_known(host);
        break;
    case HOST_CONNECTED:
        client_connected(host, event, actions);
        break;
    case HOST_FRAME:
        frame_arrived(host, event, actions);
        break;
    case HOST_HANGUP:
        if (client != NONE) {
            burial_hangup(host, client);
        }
        break;
    case HOST_DIED:
        if (client != NONE) {
            burial_death(host, client);
        }
        break;
    case HOST_FORGOTTEN:
        client_forgotten(host, event->client);
        break;
    case HOST_DRAINED:
        if (client != NONE) {
            watch_lagged(host, client, actions);
        }
        break;
    case HOST_RING:
        if (event->as.region < host->config.namespace_count) {
            ring_arrived(host, event->as.region);
        }
        break;
    case HOST_MESSAGE:
        if (!remote_message(host, event->as.message, actions) &&
            !operator_message(host, event->as.message, actions)) {
            answers_message(host, event->as.message, actions);
        }
        break;
    case HOST_LEASE:
        lease_changed(host, &event->as.lease, actions);
        break;
    case HOST_VOTERS:
        requests_voters_up(host, event->as.voters.linked | routes_voters(host, event->as.voters.up,
                                                                         event->as.voters.answering,
                                                                         event->as.voters.refused));
        break;
    case HOST_RECORD:
        record_changed(host, event->as.record);
        break;
    case HOST_TICK:
        work_anew(host);
        repair_work(host, actions);
        break;
    }
    tick(host, actions);
    work(host, actions);
}
