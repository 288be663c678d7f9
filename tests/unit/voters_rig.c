/* Quorum cores whose voters change: see voters_rig.h. */
#include "voters_rig.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "hot_assert.h"

static const struct quorum_limits limits = {
    .registers = RIG_ROWS, .agents = 32, .requests = 64, .shares = MESSAGE_SHARES_MAX};
enum { ACTIONS = 2 * QUORUM_STEP_ACTIONS, OWN_MAX = 4096 };

static uint64_t rig_random(struct rig *rig)
{
    rig->random = rig->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return rig->random ^ rig->random >> 29;
}

struct message_agent rig_name(uint32_t node)
{
    char text[7] = {'h', 'o', 's', 't', '-', (char)('a' + node)};
    struct message_agent name;
    message_agent_set(&name, text, 6);
    return name;
}

static uint32_t node_of(const struct message_agent *name)
{
    HOT_ASSERT(name->length == 6 && name->text[5] >= 'a' && name->text[5] < 'a' + RIG_NODES);
    return (uint32_t)(name->text[5] - 'a');
}

struct rig *rig_create(uint32_t voters, uint64_t seed)
{
    struct rig *rig = calloc(1, sizeof(*rig));
    ck_assert_ptr_nonnull(rig);
    rig->voters = voters;
    rig->random = seed;
    rig->now_ns = 1000 * RIG_MS;
    rig->packets = calloc(RIG_PACKETS, sizeof(*rig->packets));
    ck_assert_ptr_nonnull(rig->packets);
    for (uint32_t i = 0; i < RIG_NODES; i++) {
        rig->nodes[i].disk.store_id = 100 + i;
        rig->nodes[i].disk.commits = 1;
        rig->nodes[i].actions.items = calloc(ACTIONS, sizeof(struct action));
        rig->nodes[i].actions.capacity = ACTIONS;
        ck_assert_ptr_nonnull(rig->nodes[i].actions.items);
    }
    return rig;
}

void rig_kill(struct rig *rig, uint32_t node)
{
    struct rig_node *at = &rig->nodes[node];
    free(at->memory);
    free(at->names_memory);
    at->memory = NULL;
    at->names_memory = NULL;
    at->quorum = NULL;
}

void rig_destroy(struct rig *rig)
{
    for (uint32_t i = 0; i < RIG_NODES; i++) {
        rig_kill(rig, i);
        free(rig->nodes[i].actions.items);
    }
    free(rig->packets);
    free(rig);
}

/* ---- The disk ---- */

static void write_register(struct rig_disk *disk, const struct message_name *name,
                           const struct quorum_register *reg)
{
    uint32_t at = 0;
    while (at < disk->register_count &&
           memcmp(&disk->registers[at].name, name, sizeof(*name)) != 0) {
        at++;
    }
    if (reg == NULL && at < disk->register_count) {
        disk->registers[at] = disk->registers[--disk->register_count];
    } else if (reg != NULL) {
        HOT_ASSERT_UINT(at, <, RIG_ROWS);
        disk->register_count += at == disk->register_count;
        disk->registers[at] = *reg;
    }
}

static void write_promise(struct rig_disk *disk, const struct quorum_promise *promise)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (message_partition_has(&promise->partitions, p)) {
            disk->promised[p] = promise->ballot;
        }
    }
}

/* Returns whether the action is one to persist. */
static bool disk_write(struct rig_disk *disk, const struct action *action)
{
    switch (action->kind) {
    case ACTION_PERSIST_ROUND:
        disk->round = action->as.round;
        return true;
    case ACTION_PERSIST_PROMISE:
        write_promise(disk, &action->as.promise);
        return true;
    case ACTION_PERSIST_REGISTER:
        write_register(disk, &action->as.reg.name, &action->as.reg);
        return true;
    case ACTION_PERSIST_DELETED:
        write_register(disk, &action->as.deleted, NULL);
        return true;
    case ACTION_PERSIST_MARK:
        disk->marks[node_of(&action->as.mark.agent)] = action->as.mark.epoch;
        return true;
    case ACTION_PERSIST_CHECKPOINT:
        disk->checkpoints[action->as.checkpoint.partition] = action->as.checkpoint.checkpoint;
        return true;
    case ACTION_PERSIST_MEMBER:
        disk->members[node_of(&action->as.member.voter)] = action->as.member.member;
        return true;
    case ACTION_PERSIST_SEEN:
        disk->seen[node_of(&action->as.seen.voter)] = action->as.seen;
        return true;
    case ACTION_PERSIST_REJOINED:
        disk->rejoin = false;
        return true;
    case ACTION_PERSIST_RECOVERED:
        disk->recovery_wait_ns = 0;
        return true;
    case ACTION_PERSIST_VOTERS:
        HOT_ASSERT(voters_valid(&action->as.voters));
        disk->voters = action->as.voters;
        return true;
    case ACTION_PERSIST_CHANGE:
        disk->change = action->as.change;
        return true;
    case ACTION_VOTERS:
    case ACTION_SEEK:
    case ACTION_LOG:
    case ACTION_SEND:
        break;
    }
    return false;
}

static void disk_load(const struct rig_disk *disk, struct quorum *quorum)
{
    HOT_ASSERT(disk->voters.number == 0 || quorum_load_voters(quorum, &disk->voters));
    if (disk->change.number != 0 && disk->change.number == quorum_voters(quorum)->number + 1) {
        HOT_ASSERT(quorum_load_change(quorum, &disk->change));
    }
    HOT_ASSERT(quorum_load_round(quorum, disk->round));
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct quorum_promise promise = {.ballot = disk->promised[p]};
        struct quorum_checkpoint checkpoint = {p, disk->checkpoints[p]};
        message_partition_add(&promise.partitions, p);
        HOT_ASSERT(promise.ballot == 0 || quorum_load_promise(quorum, &promise));
        HOT_ASSERT(checkpoint.checkpoint.order.ballot == 0 ||
                   quorum_load_checkpoint(quorum, &checkpoint));
    }
    for (uint32_t i = 0; i < disk->register_count; i++) {
        HOT_ASSERT(quorum_load_register(quorum, &disk->registers[i]));
    }
    for (uint32_t i = 0; i < RIG_NODES; i++) {
        struct message_session mark = {.agent = rig_name(i), .epoch = disk->marks[i]};
        struct quorum_member member = {.voter = rig_name(i), .member = disk->members[i]};
        HOT_ASSERT(mark.epoch == 0 || quorum_load_mark(quorum, &mark));
        HOT_ASSERT(member.member.generation == 0 || quorum_load_member(quorum, &member));
        HOT_ASSERT(disk->seen[i].commit == 0 || quorum_load_seen(quorum, &disk->seen[i]));
    }
    quorum_set_commit(quorum, disk->commits);
}

/* ---- Steps and messages ---- */

/* Removes the fields that a version before 5 does not have. Returns false if such a version does
 * not have the message's kind. */
static bool as_older(struct message *message)
{
    message->number = 0;
    message->digest = 0;
    if (message->kind == MESSAGE_RENEW) {
        message->as.renew.durations = 0;
    } else if (message->kind == MESSAGE_ACQUIRE) {
        message->as.acquire.made = (struct message_order){0};
    } else if (message->kind == MESSAGE_HEARTBEAT) {
        memset(&message->as.heartbeat.settled, 0, sizeof(message->as.heartbeat.settled));
        message->as.heartbeat.leaves = 0;
    }
    return !message_is_of_version_5(message->kind);
}

static void send(struct rig *rig, uint32_t from, uint32_t to, const struct message *message)
{
    struct rig_node *at = &rig->nodes[from];
    struct rig_packet *packet = &rig->packets[rig->packet_count];
    at->kinds[message->kind]++;
    message_copy(&at->sent[message->kind], message);
    if ((rig->no_voters && message->kind == MESSAGE_VOTERS) ||
        (rig->no_listings && message->kind == MESSAGE_SYNCED)) {
        return;
    }
    if (rig->no_probes && message->kind == MESSAGE_SYNC &&
        message->as.sync.after == MESSAGE_SYNC_PROBE && message->as.sync.partition == 200) {
        return;
    }
    struct message_agent name = rig_name(to);
    if (rig->nodes[to].hidden && memcmp(&at->sought.voter, &name, sizeof(name)) != 0) {
        return;
    }
    if (at->cut || rig->nodes[to].cut || rig->packet_count == RIG_PACKETS) {
        return;
    }
    packet->to = to;
    packet->arrives_ns = rig->now_ns + (int64_t)(rig_random(rig) % (2 * RIG_MS));
    memset(&packet->message, 0x5a, sizeof(packet->message)); /* shows a read of a byte that was
                                                              * not copied */
    message_copy(&packet->message, message);
    rig->packet_count += (!at->older && !rig->nodes[to].older) || as_older(&packet->message);
}

/* Checks that the row of a vote for a record comes before the vote, so that the vote waits for the
 * disk (rule 3). */
static void expect_row(const struct rig_disk *disk, const struct message *message)
{
    const struct message_change *vote = &message->as.change;
    if (message->kind == MESSAGE_CHANGE_ACCEPTED && vote->higher == 0) {
        HOT_ASSERT(disk->change.accepted == vote->ballot);
    } else if (message->kind == MESSAGE_CHANGE_PROMISE && vote->higher == 0) {
        HOT_ASSERT(disk->change.promised >= vote->ballot);
    }
}

/* Carries out the actions of a step. Returns how many of the node's messages to itself wait in
 * `own`. */
static uint32_t carry_out(struct rig *rig, uint32_t node, struct message *own, uint32_t own_count)
{
    struct rig_node *at = &rig->nodes[node];
    bool wrote = false;
    for (uint32_t i = 0; i < at->actions.count; i++) {
        const struct action *action = &at->actions.items[i];
        wrote = disk_write(&at->disk, action) || wrote;
        if (action->kind == ACTION_SEND) {
            expect_row(&at->disk, &action->as.send.message);
        }
        if (action->kind == ACTION_VOTERS) {
            HOT_ASSERT(memcmp(&action->as.voters, &at->disk.voters, sizeof(at->disk.voters)) == 0);
            at->go_by = action->as.voters;
        }
        if (action->kind == ACTION_SEEK) {
            at->sought = action->as.seek;
        }
    }
    at->disk.commits += wrote;
    quorum_set_commit(at->quorum, at->disk.commits);
    for (uint32_t i = 0; i < at->actions.count; i++) {
        const struct action_send *sent = &at->actions.items[i].as.send;
        if (at->actions.items[i].kind != ACTION_SEND || sent->to == ACTION_STRANGER) {
            continue;
        }
        uint32_t to = node_of(quorum_agent_name(at->quorum, sent->to));
        if (to != node) {
            send(rig, node, to, &sent->message);
        } else {
            HOT_ASSERT_UINT(own_count, <, OWN_MAX);
            message_copy(&own[own_count++], &sent->message);
        }
    }
    at->actions.count = 0;
    return own_count;
}

/* Returns whether the message goes to the host core and not to the quorum core. */
static bool is_for_host(enum message_kind kind)
{
    return message_is_for_host(kind) && kind != MESSAGE_VOTERS && kind != MESSAGE_ASK_VOTERS &&
           kind != MESSAGE_LEARN;
}

static void step(struct rig *rig, uint32_t node, struct quorum_event *event)
{
    static struct message own[OWN_MAX];
    struct rig_node *at = &rig->nodes[node];
    uint32_t first = 0;
    event->now_ns = rig->now_ns;
    event->random = rig_random(rig);
    quorum_step(at->quorum, event, &at->actions);
    uint32_t count = carry_out(rig, node, own, 0);
    while (first < count) {
        const struct message *message = &own[first++];
        if (is_for_host(message->kind)) {
            message_copy(&at->got[message->kind], message);
            continue;
        }
        struct quorum_event next = {.kind = QUORUM_MESSAGE,
                                    .now_ns = rig->now_ns,
                                    .random = rig_random(rig),
                                    .as.message = message};
        HOT_ASSERT(message_valid(message));
        quorum_step(at->quorum, &next, &at->actions);
        count = carry_out(rig, node, own, count);
    }
    quorum_check_invariants(at->quorum);
}

void rig_give(struct rig *rig, uint32_t to, const struct message *message)
{
    struct rig_node *at = &rig->nodes[to];
    if (is_for_host(message->kind)) {
        message_copy(&at->got[message->kind], message);
    } else if (at->quorum != NULL) {
        struct quorum_event event = {.kind = QUORUM_MESSAGE, .as.message = message};
        step(rig, to, &event);
    }
}

void rig_start(struct rig *rig, uint32_t node)
{
    struct rig_node *at = &rig->nodes[node];
    struct quorum_config config = {
        .limits = limits,
        .membership = 1,
        .voter_count = rig->voters,
        .self = node < rig->voters ? node : (uint32_t)QUORUM_NO_VOTER,
        .name = rig_name(node),
        .store_id = {at->disk.store_id, 1},
        .rejoin = at->disk.rejoin,
        .recovery_wait_ns = at->disk.recovery_wait_ns,
        .session_ttl_ns = RIG_TTL_MS * RIG_MS,
        .max_drift_percent = 10,
    };
    if (rig->trusts != 0) {
        config.trusted_count = 1;
        config.trusted[0] = rig_name(rig->trusts);
    }
    for (uint32_t i = 0; i < rig->voters; i++) {
        config.voters[i] = rig_name(i);
        memcpy(config.addresses[i], "tcp://", 6);
        memcpy(config.addresses[i] + 6, config.voters[i].text, 6);
    }
    ck_assert_ptr_null(quorum_config_error(&config));
    at->memory = calloc(1, quorum_size(&limits));
    at->names_memory = calloc(1, names_size(2 * RIG_ROWS));
    ck_assert(at->memory != NULL && at->names_memory != NULL);
    at->names = names_init(at->names_memory, 2 * RIG_ROWS, rig_random(rig));
    at->quorum = quorum_init(at->memory, &config, at->names);
    disk_load(&at->disk, at->quorum);
    struct quorum_event event = {.kind = QUORUM_START};
    step(rig, node, &event);
}

void rig_start_all(struct rig *rig)
{
    for (uint32_t i = 0; i < rig->voters; i++) {
        rig_start(rig, i);
    }
}

static void deliver_due(struct rig *rig)
{
    static struct message message;
    for (uint32_t i = 0; i < rig->packet_count;) {
        if (rig->packets[i].arrives_ns > rig->now_ns) {
            i++;
            continue;
        }
        uint32_t to = rig->packets[i].to;
        message_copy(&message, &rig->packets[i].message);
        rig->packet_count--;
        message_copy(&rig->packets[i].message, &rig->packets[rig->packet_count].message);
        rig->packets[i].to = rig->packets[rig->packet_count].to;
        rig->packets[i].arrives_ns = rig->packets[rig->packet_count].arrives_ns;
        rig_give(rig, to, &message);
    }
}

void rig_run(struct rig *rig, int64_t ms)
{
    int64_t end_ns = rig->now_ns + ms * RIG_MS;
    while (rig->now_ns < end_ns) {
        int64_t next_ns = end_ns;
        deliver_due(rig);
        for (uint32_t i = 0; i < RIG_NODES; i++) {
            struct quorum_event event = {.kind = QUORUM_TICK};
            if (rig->nodes[i].quorum == NULL) {
                continue;
            }
            if (quorum_next_tick_ns(rig->nodes[i].quorum) <= rig->now_ns) {
                step(rig, i, &event);
            }
            int64_t tick_ns = quorum_next_tick_ns(rig->nodes[i].quorum);
            next_ns = tick_ns < next_ns ? tick_ns : next_ns;
        }
        for (uint32_t i = 0; i < rig->packet_count; i++) {
            next_ns = rig->packets[i].arrives_ns < next_ns ? rig->packets[i].arrives_ns : next_ns;
        }
        rig->now_ns = next_ns > rig->now_ns ? next_ns : rig->now_ns + RIG_MS / 10;
    }
}

struct message rig_message(struct rig *rig, uint32_t from, enum message_kind kind)
{
    struct message message;
    memset(&message, 0, sizeof(message));
    message.kind = kind;
    message.from = rig_name(from);
    if (rig->nodes[from].quorum != NULL) {
        quorum_header(rig->nodes[from].quorum, kind, &message);
    }
    return message;
}

struct message_voters rig_next(struct rig *rig, uint32_t node, enum message_member_act act,
                               uint32_t voter)
{
    struct message_voters next;
    struct message_agent name = rig_name(voter);
    message_voters_copy(&next, quorum_voters(rig->nodes[node].quorum));
    uint32_t at = message_voters_find(&next, &name);
    next.number++;
    next.complete = false;
    next.act = (uint8_t)act;
    next.changed = name;
    if (act == MESSAGE_MEMBER_MOVE) {
        memcpy(next.of[at].address, "tcp://elsewhere", sizeof("tcp://elsewhere"));
    } else if (act == MESSAGE_MEMBER_REMOVE) {
        memmove(&next.of[at], &next.of[at + 1], (next.count - at - 1) * sizeof(next.of[0]));
        next.count--;
    } else {
        at = 0;
        while (at < next.count && message_agent_before(&next.of[at].name, &name)) {
            at++;
        }
        memmove(&next.of[at + 1], &next.of[at], (next.count - at) * sizeof(next.of[0]));
        memset(&next.of[at], 0, sizeof(next.of[at]));
        next.of[at].name = name;
        next.of[at].store_id[0] = rig->nodes[voter].disk.store_id;
        next.of[at].store_id[1] = 1;
        next.of[at].ballot_id = next.next_ballot_id++;
        next.count++;
    }
    ck_assert(voters_valid(&next));
    return next;
}

uint32_t rig_number(struct rig *rig, uint32_t node)
{
    return quorum_voters(rig->nodes[node].quorum)->number;
}

enum message_voter_status rig_status(struct rig *rig, uint32_t node)
{
    return quorum_voter_status(rig->nodes[node].quorum);
}
