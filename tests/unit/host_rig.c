/* A host core between a fake quorum and fake sockets (host_rig.h). */
#include "host_rig.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "core/quorum.h"

enum { ACTIONS = 512, NAMES = 256 };

static void kernel_sleep(void *arg, _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct rig *rig = arg;
    (void)word;
    (void)expected;
    rig->now_ns += timeout_ns > 0 && timeout_ns < 1000 * RIG_MS ? timeout_ns : RIG_MS;
}

static void kernel_wake(void *arg, _Atomic uint32_t *word, int count)
{
    (void)word;
    (void)count;
    ((struct rig *)arg)->wakes++;
}

static int64_t kernel_now(void *arg)
{
    const struct rig *of = arg;
    return of->now_ns + of->slow_ns;
}

static void kernel_ring(void *arg)
{
    ((struct rig *)arg)->rings++;
}

static void host_make(struct rig *rig, bool adopted)
{
    uint32_t names = rig->config.limits.locks + NAMES;
    rig->names_memory = calloc(1, names_size(names));
    rig->memory = NULL;
    ck_assert_int_eq(posix_memalign(&rig->memory, 64, host_size(&rig->config)), 0);
    memset(rig->memory, 0, host_size(&rig->config));
    ck_assert_ptr_nonnull(rig->names_memory);
    rig->names = names_init(rig->names_memory, names, 7);
    rig->host = host_init(rig->memory, &rig->config, rig->names, &rig->kernel);
    host_set_kept(rig->host, rig->kept, RIG_KEPT);
    host_set_delays(rig->host, rig->delays_ms, RIG_DELAYS);
    rig->agents = rig->region;
    ck_assert_ptr_null(host_add_region(rig->host, 0, &rig->agents, adopted));
    if (rig->orders_memory != NULL) {
        ck_assert_ptr_null(host_add_region(rig->host, 1, &rig->orders, adopted));
    }
}

/* Makes a region for a namespace. All regions have the same size. */
static void *region_make(const struct rig *rig, uint64_t *size, struct hfi_region *region)
{
    struct hfi_region_sizes sizes = {rig->config.limits.locks, 65535, rig->config.limits.blocks};
    struct hfi_region_identity identity = {.incarnation = 99, .cell = "dev"};
    *size = hfi_region_size(&sizes);
    void *memory = calloc(1, *size);
    ck_assert_ptr_nonnull(memory);
    hfi_region_format(memory, &sizes, &identity);
    ck_assert_ptr_null(hfi_region_attach(memory, *size, region));
    return memory;
}

static struct rig *create(const struct host_limits *limits, uint32_t voters, uint32_t self)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    ck_assert_ptr_nonnull(rig);
    rig->config = (struct host_config){
        .limits = *limits,
        .role = "voter",
        .version = "test",
        .session_ttl_ns = 5000 * RIG_MS,
        .grace_ns = 5000 * RIG_MS,
        .max_drift_percent = 10,
        .voter_count = voters,
        .self = self,
        .namespace_count = 2,
        .namespaces = {"default", "orders"},
    };
    rig->config.cell = (struct message_agent){3, "dev"};
    for (uint32_t i = 0; i < voters; i++) {
        rig->config.voters[i] = (struct message_agent){6, "host-a"};
        rig->config.voters[i].text[5] = (char)('a' + i);
    }
    rig->config.agent = self == HOST_OBSERVER ? (struct message_agent){6, "host-x"}
                                              : rig->config.voters[self];
    rig->now_ns = 1000 * RIG_MS;
    rig->token_next = 1;
    rig->kernel = (struct hfi_kernel){kernel_sleep, kernel_wake, kernel_now, kernel_ring, rig};
    rig->replies = calloc(RIG_REPLIES, sizeof(*rig->replies));
    rig->actions = (struct host_actions){.items = calloc(ACTIONS, sizeof(struct host_action)),
                                         .capacity = ACTIONS,
                                         .output = malloc(2 * HOST_STEP_OUTPUT),
                                         .output_size = 2 * HOST_STEP_OUTPUT};
    ck_assert(rig->replies && rig->actions.items && rig->actions.output);
    rig->region_memory = region_make(rig, &rig->region_size, &rig->region);
    host_make(rig, false);
    return rig;
}

struct rig *rig_create(uint32_t locks, uint32_t clients, uint32_t handles, uint32_t blocks)
{
    struct host_limits limits = {locks, clients, handles, blocks, .watches = 4};
    return create(&limits, 1, 0);
}

struct rig *rig_create_cell(uint32_t locks, uint32_t voters, uint32_t self, uint32_t requests)
{
    struct host_limits limits = {locks, 8, 1100, 8, .watches = 4, .requests = requests};
    return create(&limits, voters, self);
}

void rig_add_orders(struct rig *rig)
{
    uint64_t size = 0;
    rig->orders_memory = region_make(rig, &size, &rig->orders);
    ck_assert_ptr_null(host_add_region(rig->host, 1, &rig->orders, false));
}

void rig_destroy(struct rig *rig)
{
    free(rig->orders_memory);
    free(rig->names_memory);
    free(rig->memory);
    free(rig->region_memory);
    free(rig->replies);
    free(rig->actions.items);
    free(rig->actions.output);
    free(rig);
}

void rig_restart(struct rig *rig, uint32_t epoch)
{
    free(rig->names_memory);
    free(rig->memory);
    rig->config.continued_epoch = epoch;
    rig->send_count = 0;
    rig->reply_count = 0;
    rig->restarts++;
    host_make(rig, true);
}

/* ---- steps ---- */

static void keep_reply(struct rig *rig, const struct host_action *action)
{
    struct hfi_frame_error error;
    ck_assert_uint_lt(rig->reply_count, RIG_REPLIES);
    struct rig_reply *reply = &rig->replies[rig->reply_count++];
    reply->client = action->client;
    reply->unasked = action->as.reply.unasked;
    reply->size = action->as.reply.size;
    ck_assert_uint_le(reply->size, HFI_FRAME_MAX);
    memcpy(reply->bytes, rig->actions.output + action->as.reply.offset, reply->size);
    ck_assert_int_eq(
        hfi_frame_decode(reply->bytes, reply->size, &reply->frame, &reply->cursor, &error), 0);
}

/* The clients that the core has forgotten, and whose FORGET the rig has to carry out. */
struct forgets {
    uint32_t clients[ACTIONS];
    uint32_t count;
};

static void take_action(struct rig *rig, const struct host_action *action, struct forgets *forgets)
{
    if (action->kind == HOST_REPLY) {
        keep_reply(rig, action);
    } else if (action->kind == HOST_SEND) {
        ck_assert_uint_lt(rig->send_count, RIG_SENDS);
        rig->ways[rig->send_count].to = action->as.send.to;
        rig->ways[rig->send_count].relay = action->as.send.relay;
        message_copy(&rig->sends[rig->send_count++], &action->as.send.message);
    } else if (action->kind == HOST_FORGET) {
        ck_assert_uint_lt(forgets->count, ACTIONS);
        forgets->clients[forgets->count++] = action->client;
    }
    rig->rows += action->kind == HOST_PERSIST_SLOT;
    rig->rows_gone += action->kind == HOST_PERSIST_NO_SLOT;
    rig->forgotten += action->kind == HOST_FORGET;
    rig->hang_ups += action->kind == HOST_HANG_UP;
}

static void step_once(struct rig *rig, struct host_event event, struct forgets *forgets)
{
    event.now_ns = rig->now_ns;
    event.random = (rig->restarts << 40) + 4242;
    host_step(rig->host, &event, &rig->actions);
    if (!rig->unchecked) {
        host_check_invariants(rig->host);
    }
    for (uint32_t i = 0; i < rig->actions.count; i++) {
        take_action(rig, &rig->actions.items[i], forgets);
    }
    rig->actions.count = 0;
    rig->actions.output_used = 0;
}

void rig_step(struct rig *rig, struct host_event event)
{
    struct forgets forgets = {0};
    step_once(rig, event, &forgets);
    for (uint32_t i = 0; i < forgets.count && !rig->forgets_late; i++) {
        step_once(rig, (struct host_event){.kind = HOST_FORGOTTEN, .client = forgets.clients[i]},
                  &forgets);
    }
}

void rig_forget(struct rig *rig, uint32_t client)
{
    rig_step(rig, (struct host_event){.kind = HOST_FORGOTTEN, .client = client});
}

void rig_lease(struct rig *rig, uint32_t epoch, int64_t deadline_ns, bool lost)
{
    struct host_event event = {.kind = HOST_LEASE};
    rig->epoch = epoch;
    event.as.lease = (struct host_lease){deadline_ns, epoch, lost};
    rig_step(rig, event);
}

void rig_begin(struct rig *rig)
{
    uint32_t epoch = rig->config.continued_epoch ? rig->config.continued_epoch : 1;
    struct host_event event = {.kind = HOST_START};
    event.as.lease.epoch = epoch;
    rig_step(rig, event);
    rig_lease(rig, epoch, rig->now_ns + 100000 * RIG_MS, false);
}

void rig_pass(struct rig *rig, int64_t duration_ns)
{
    int64_t end_ns = rig->now_ns + duration_ns;
    for (uint32_t i = 0; i < 100000; i++) {
        int64_t next_ns = host_next_tick_ns(rig->host);
        if (next_ns > end_ns) {
            rig->now_ns = end_ns;
            return;
        }
        rig->now_ns = next_ns > rig->now_ns ? next_ns : rig->now_ns;
        rig_step(rig, (struct host_event){.kind = HOST_TICK});
    }
    ck_abort_msg("the host never comes to rest");
}

void rig_ring(struct rig *rig)
{
    rig_step(rig, (struct host_event){.kind = HOST_RING});
}

/* ---- clients ---- */

uint32_t rig_connect(struct rig *rig, uint8_t rights)
{
    static const struct hfi_hello hello = {.version = HFI_PROTOCOL_VERSION, .pid = 1};
    struct host_peer peer = {.pid = 77, .uid = rig->uid, .account = rig->uid, .command = "test"};
    struct host_event event = {.kind = HOST_CONNECTED};
    uint32_t before = rig->reply_count;
    memset(peer.rights, rights, sizeof(peer.rights));
    event.as.connected.peer = &peer;
    event.as.connected.hello = &hello;
    event.as.connected.request = ++rig->requests;
    event.as.connected.connection = ++rig->connections;
    rig_step(rig, event);
    const struct rig_reply *reply = &rig->replies[before];
    ck_assert_uint_gt(rig->reply_count, before);
    return reply->frame.kind == HFI_FRAME_WELCOME ? reply->frame.welcome.client : 0;
}

void rig_hang_up(struct rig *rig, uint32_t client)
{
    rig_step(rig, (struct host_event){.kind = HOST_HANGUP, .client = client});
}

void rig_connect_again(struct rig *rig, uint32_t who, uint64_t nonce)
{
    struct hfi_hello hello = {.version = HFI_PROTOCOL_VERSION, .client = who, .nonce = nonce};
    struct host_peer peer = {.pid = 77, .rights = {HOST_MAY_USE}};
    struct host_event event = {.kind = HOST_CONNECTED};
    event.as.connected.peer = &peer;
    event.as.connected.hello = &hello;
    event.as.connected.request = 1000;
    event.as.connected.connection = 50;
    event.as.connected.resumed = true;
    rig_step(rig, event);
    ck_assert(rig_find(rig, who, HFI_FRAME_WELCOME)->frame.welcome.resumed);
}

void rig_die(struct rig *rig, uint32_t client)
{
    rig_step(rig, (struct host_event){.kind = HOST_DIED, .client = client});
}

struct rig_reply *rig_find(struct rig *rig, uint32_t client, enum hfi_frame_kind kind)
{
    for (uint32_t i = rig->reply_count; i > 0; i--) {
        if (rig->replies[i - 1].client == client && rig->replies[i - 1].frame.kind == kind) {
            return &rig->replies[i - 1];
        }
    }
    return NULL;
}

uint32_t rig_count(const struct rig *rig, uint32_t client, enum hfi_frame_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig->reply_count; i++) {
        count += rig->replies[i].client == client && rig->replies[i].frame.kind == kind;
    }
    return count;
}

struct rig_reply *rig_ask(struct rig *rig, uint32_t client, struct hfi_frame *frame)
{
    struct host_event event = {.kind = HOST_FRAME, .client = client};
    frame->request = ++rig->requests;
    event.as.frame.frame = frame;
    rig_step(rig, event);
    for (uint32_t i = rig->reply_count; i > 0; i--) {
        struct rig_reply *reply = &rig->replies[i - 1];
        if (reply->frame.request == frame->request && reply->frame.kind != HFI_FRAME_REGION) {
            return reply;
        }
    }
    return NULL;
}

struct rig_reply *rig_text(struct rig *rig, uint32_t client, enum hfi_frame_kind kind,
                           const char *text)
{
    struct hfi_frame frame = {.kind = kind};
    frame.text = (struct hfi_text){text, (uint32_t)strlen(text)};
    return rig_ask(rig, client, &frame);
}

struct rig_reply *rig_resume(struct rig *rig, uint32_t client, const char *name,
                             const struct hfi_opened *opened)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_OPEN};
    frame.open = (struct hfi_open){.name = {name, strlen(name)},
                                   .flags = HFI_OPEN_RESUME,
                                   .holder = opened->holder,
                                   .slot = opened->slot,
                                   .seat = opened->seat,
                                   .incarnation = 99};
    return rig_ask(rig, client, &frame);
}

struct rig_reply *rig_open(struct rig *rig, uint32_t client, const char *name, int64_t delay_ns)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_OPEN};
    frame.open.name = (struct hfi_text){name, (uint32_t)strlen(name)};
    frame.open.lock_delay_ns = delay_ns;
    return rig_ask(rig, client, &frame);
}

struct hfi_opened rig_open_granted(struct rig *rig, uint32_t client, const char *name,
                                   int64_t delay_ns)
{
    uint32_t before = rig->send_count;
    struct rig_reply *reply = rig_open(rig, client, name, delay_ns);
    if (reply == NULL) {
        uint32_t last = rig->send_count;
        while (last > before && rig->sends[last - 1].kind != MESSAGE_ACQUIRE &&
               rig->sends[last - 1].kind != MESSAGE_AMEND) {
            last--;
        }
        ck_assert_uint_gt(last, before);
        rig_grant(rig, &rig->sends[last - 1], 0, 0);
        reply = rig_find(rig, client, HFI_FRAME_OPENED);
    }
    ck_assert_ptr_nonnull(reply);
    ck_assert_int_eq(reply->frame.kind, HFI_FRAME_OPENED);
    return reply->frame.opened;
}

uint32_t rig_seat(struct rig *rig, uint32_t client, uint32_t handle, bool shared)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_SEAT};
    frame.seat.handle = handle;
    frame.seat.flags = shared ? HFI_SEAT_SHARED : 0;
    struct rig_reply *reply = rig_ask(rig, client, &frame);
    ck_assert_ptr_nonnull(reply);
    return reply->frame.kind == HFI_FRAME_SEATED ? reply->frame.seated : HFI_SEAT_NONE;
}

void rig_close(struct rig *rig, uint32_t client, uint32_t handle)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_CLOSE};
    frame.handle = handle;
    ck_assert_ptr_null(rig_ask(rig, client, &frame));
}

/* ---- the quorum ---- */

const struct message *rig_sent(const struct rig *rig, enum message_kind kind)
{
    for (uint32_t i = rig->send_count; i > 0; i--) {
        if (rig->sends[i - 1].kind == kind) {
            return &rig->sends[i - 1];
        }
    }
    return NULL;
}

uint32_t rig_sent_count(const struct rig *rig, enum message_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < rig->send_count; i++) {
        count += rig->sends[i].kind == kind;
    }
    return count;
}

void rig_receive(struct rig *rig, const struct message *message)
{
    struct host_event event = {.kind = HOST_MESSAGE};
    event.as.message = message;
    rig_step(rig, event);
}

void rig_answer(struct rig *rig, const struct message *asked, enum message_mode mode,
                uint64_t version, uint64_t first, uint64_t last)
{
    struct message message = {.kind = MESSAGE_GRANT};
    struct message_grant *grant = &message.as.grant;
    if (asked->kind == MESSAGE_AMEND) {
        message.kind = MESSAGE_AMENDED;
        *grant = (struct message_grant){.agent = asked->as.amend.agent,
                                        .epoch = asked->as.amend.epoch,
                                        .request_id = asked->as.amend.request_id,
                                        .name = asked->as.amend.name,
                                        .version = asked->as.amend.version,
                                        .lock_delay_ms = asked->as.amend.lock_delay_ms};
    } else {
        ck_assert_int_eq(asked->kind, MESSAGE_ACQUIRE);
        *grant = (struct message_grant){.agent = asked->as.acquire.agent,
                                        .epoch = asked->as.acquire.epoch,
                                        .request_id = asked->as.acquire.request_id,
                                        .name = asked->as.acquire.name,
                                        .version = {1 << 16 | 1, version},
                                        .lock_delay_ms = asked->as.acquire.lock_delay_ms};
    }
    grant->mode = (uint8_t)mode;
    grant->fresh = rig->fresh;
    grant->token_first = first;
    grant->token_last = last;
    rig_receive(rig, &message);
}

void rig_grant(struct rig *rig, const struct message *asked, uint64_t first, uint64_t last)
{
    if (first == 0) {
        first = rig->token_next;
        last = first + 99;
    }
    rig->token_next = last + 1;
    rig->version += asked->kind == MESSAGE_ACQUIRE;
    rig_answer(rig, asked, MESSAGE_MODE_EXCLUSIVE, rig->version, first, last);
}

void rig_recall(struct rig *rig, const char *name, uint64_t version)
{
    struct message message = {.kind = MESSAGE_RECALL};
    message.as.version = (struct message_version){
        .agent = rig->config.agent, .epoch = rig->epoch, .version = {1 << 16 | 1, version}};
    message_name_set(&message.as.version.name, name, strlen(name));
    rig_receive(rig, &message);
}

void rig_refuse(struct rig *rig, const struct message *request, enum message_refusal reason)
{
    struct message message = {.kind = MESSAGE_REFUSED};
    bool amend = request->kind == MESSAGE_AMEND;
    message.as.refused.agent = rig->config.agent;
    message.as.refused.request_id = amend ? request->as.amend.request_id
                                          : request->as.acquire.request_id;
    message.as.refused.name = amend ? request->as.amend.name : request->as.acquire.name;
    message.as.refused.reason = (uint8_t)reason;
    if (reason == MESSAGE_REFUSED_FULL) {
        message_agent_set(&message.as.refused.owner, "host-b", 6);
        message.as.refused.table = HFI_TABLE_VOTER_VALUES;
        message.as.refused.room = 1024;
    }
    rig_receive(rig, &message);
}

void rig_returned(struct rig *rig, const struct message *give_back)
{
    struct message message = {.kind = MESSAGE_GIVE_BACK_ACK};
    message.as.version = (struct message_version){.agent = rig->config.agent,
                                                  .epoch = give_back->as.give_back.epoch,
                                                  .request_id = give_back->as.give_back.request_id,
                                                  .name = give_back->as.give_back.name,
                                                  .version = give_back->as.give_back.version};
    rig_receive(rig, &message);
}

/* ---- the region ---- */

struct hfi_actor rig_actor(struct rig *rig, uint32_t holder)
{
    return (struct hfi_actor){&rig->region, &rig->kernel, holder};
}

struct hfi_held rig_take(struct rig *rig, const struct hfi_opened *opened)
{
    struct hfi_actor actor = rig_actor(rig, opened->holder);
    struct hfi_request request = {.slot = opened->slot, .seat = opened->seat};
    struct hfi_held held = {0};
    ck_assert_int_eq(hfi_try_exclusive(&actor, &request, &held), HFI_HELD);
    return held;
}

uint64_t rig_word(const struct rig *rig, uint32_t slot)
{
    return rig->region.words[slot].word;
}
