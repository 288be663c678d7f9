/* The cell in one process of the unit tests (quorum_cell.h). */
#include "quorum_cell.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hot_assert.h"
#include "quorum/ballots.h"

enum {
    REGISTERS = 64, /* a node's room for registers, unless a test wants more (at most ROWS) */
    ROWS = 512,
    REQUESTS = 64,
    SHARES = 96,
    AGENTS = 80,
    TURNS_MAX = 100000,
};

uint64_t cell_random(struct cell *cell)
{
    cell->seed += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t value = cell->seed;
    value = (value ^ value >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    value = (value ^ value >> 27) * UINT64_C(0x94d049bb133111eb);
    return value ^ value >> 31;
}

struct cell *cell_create(uint32_t voters, uint64_t seed)
{
    struct cell *cell = calloc(1, sizeof(*cell));
    ck_assert_ptr_nonnull(cell);
    cell->seed = seed;
    cell->now_ns = 1000 * CELL_MS;
    cell->delay_max_ns = CELL_MS;
    cell->packets = calloc(CELL_PACKETS, sizeof(*cell->packets));
    cell->others = calloc(CELL_INBOX, sizeof(*cell->others));
    ck_assert_ptr_nonnull(cell->others);
    ck_assert_ptr_nonnull(cell->packets);
    cell->own = calloc(CELL_ACTIONS, sizeof(*cell->own));
    HOT_ASSERT(cell->packets != NULL && cell->own != NULL);
    cell->config = (struct quorum_config){
        .limits = {.registers = REGISTERS,
                   .agents = AGENTS,
                   .requests = REQUESTS,
                   .shares = SHARES},
        .membership = 1,
        .voter_count = voters,
        .session_ttl_ns = CELL_TTL_NS,
        .max_drift_percent = 10,
    };
    for (uint32_t i = 0; i < voters; i++) {
        char text[8] = {'h', 'o', 's', 't', '-', (char)('a' + i)};
        message_agent_set(&cell->config.voters[i], text, 6);
        cell->nodes[i].disk.registers = calloc(ROWS, sizeof(struct quorum_register));
        cell->nodes[i].disk.store_id = 1;
        cell->nodes[i].disk.commits = 1;
        cell->nodes[i].items = calloc(CELL_ACTIONS, sizeof(struct action));
        ck_assert_ptr_nonnull(cell->nodes[i].disk.registers);
        ck_assert_ptr_nonnull(cell->nodes[i].items);
    }
    return cell;
}

static struct cell_packet *packet_put(struct cell *cell, uint32_t to)
{
    if (cell->packet_count == CELL_PACKETS) {
        return NULL; /* full: the message is lost, as on a real network */
    }
    struct cell_packet *packet = &cell->packets[cell->packet_count++];
    packet->to = to;
    packet->is_link = false;
    packet->arrives_ns = cell->now_ns +
                         (int64_t)(cell_random(cell) % (uint64_t)(cell->delay_max_ns + 1));
    return packet;
}

/* Notifies the node, and each other node, that the link between the two broke, or works again. */
static void links_change(struct cell *cell, uint32_t node)
{
    for (uint32_t i = 0; i < cell->config.voter_count && !cell->silent; i++) {
        for (uint32_t way = 0; way < 2 && i != node && cell->nodes[i].up; way++) {
            struct cell_packet *packet = packet_put(cell, way == 0 ? i : node);
            if (packet != NULL) {
                packet->is_link = true;
                packet->from = way == 0 ? node : i;
            }
        }
    }
}

void cell_kill(struct cell *cell, uint32_t node)
{
    struct cell_node *at = &cell->nodes[node];
    if (at->up) {
        links_change(cell, node);
    }
    free(at->memory);
    free(at->names_memory);
    at->memory = NULL;
    at->names_memory = NULL;
    at->quorum = NULL;
    at->up = false;
    at->actions.count = 0;
}

void cell_destroy(struct cell *cell)
{
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        cell_kill(cell, i);
        free(cell->nodes[i].disk.registers);
        free(cell->nodes[i].items);
    }
    free(cell->packets);
    free(cell->others);
    free(cell->own);
    free(cell);
}

/* ---- The disk ---- */

static void disk_promise(struct cell_disk *disk, const struct quorum_promise *promise)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (message_partition_has(&promise->partitions, p)) {
            HOT_ASSERT_UINT(promise->ballot, >, disk->promised[p]);
            disk->promised[p] = promise->ballot;
        }
    }
}

static void disk_register(struct cell_disk *disk, const struct quorum_register *reg)
{
    uint32_t at = 0;
    while (at < disk->register_count &&
           memcmp(&disk->registers[at].name, &reg->name, sizeof(reg->name)) != 0) {
        at++;
    }
    HOT_ASSERT_UINT(at, <, ROWS);
    if (at == disk->register_count) {
        disk->register_count++;
    } else {
        HOT_ASSERT(message_order_before(disk->registers[at].accepted, reg->accepted));
    }
    disk->registers[at].name = reg->name;
    disk->registers[at].accepted = reg->accepted;
    message_value_copy(&disk->registers[at].value, &reg->value);
}

static void disk_mark(struct cell_disk *disk, const struct message_session *mark)
{
    uint32_t at = 0;
    while (at < disk->mark_count &&
           memcmp(&disk->marks[at].agent, &mark->agent, sizeof(mark->agent)) != 0) {
        at++;
    }
    HOT_ASSERT_UINT(at, <, 64);
    if (at == disk->mark_count) {
        disk->mark_count++;
    } else {
        HOT_ASSERT_UINT(mark->epoch, >, disk->marks[at].epoch);
    }
    disk->marks[at] = *mark;
}

static void disk_delete(struct cell_disk *disk, const struct message_name *name)
{
    for (uint32_t i = 0; i < disk->register_count; i++) {
        if (memcmp(&disk->registers[i].name, name, sizeof(*name)) == 0) {
            disk->registers[i] = disk->registers[--disk->register_count];
            return;
        }
    }
}

/* Nodes are called host-a, host-b, ... */
static uint32_t voter_of(const struct message_agent *agent)
{
    HOT_ASSERT(agent->length == 6 && agent->text[5] >= 'a' && agent->text[5] < 'a' + CELL_NODES);
    return (uint32_t)(agent->text[5] - 'a');
}

static void disk_write(struct cell_disk *disk, const struct action *action)
{
    switch (action->kind) {
    case ACTION_PERSIST_ROUND:
        HOT_ASSERT_UINT(action->as.round, >, disk->round);
        disk->round = action->as.round;
        break;
    case ACTION_PERSIST_PROMISE:
        disk_promise(disk, &action->as.promise);
        break;
    case ACTION_PERSIST_REGISTER:
        disk_register(disk, &action->as.reg);
        break;
    case ACTION_PERSIST_MARK:
        disk_mark(disk, &action->as.mark);
        break;
    case ACTION_PERSIST_DELETED:
        disk_delete(disk, &action->as.deleted);
        break;
    case ACTION_PERSIST_CHECKPOINT:
        disk->checkpoints[action->as.checkpoint.partition] = action->as.checkpoint.checkpoint;
        break;
    case ACTION_PERSIST_MEMBER:
        disk->members[voter_of(&action->as.member.voter)] = action->as.member.member;
        break;
    case ACTION_PERSIST_SEEN:
        disk->seen[voter_of(&action->as.seen.voter)] = action->as.seen;
        break;
    case ACTION_PERSIST_REJOINED:
        HOT_ASSERT(disk->rejoin);
        disk->rejoin = false;
        break;
    case ACTION_PERSIST_RECOVERED:
        disk->recovery_wait_ns = 0;
        break;
    case ACTION_PERSIST_VOTERS: /* only changes of the voters need these three actions */
    case ACTION_PERSIST_CHANGE:
    case ACTION_VOTERS:
    case ACTION_SEEK:
    case ACTION_LOG:
    case ACTION_SEND:
        break;
    }
}

static void disk_load(const struct cell_disk *disk, struct quorum *quorum)
{
    HOT_ASSERT(disk->voters.count == 0 || quorum_load_voters(quorum, &disk->voters));
    HOT_ASSERT(quorum_load_round(quorum, disk->round));
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct quorum_promise promise = {.ballot = disk->promised[p]};
        message_partition_add(&promise.partitions, p);
        HOT_ASSERT(promise.ballot == 0 || quorum_load_promise(quorum, &promise));
    }
    for (uint32_t i = 0; i < disk->register_count; i++) {
        HOT_ASSERT(quorum_load_register(quorum, &disk->registers[i]));
    }
    for (uint32_t i = 0; i < disk->mark_count; i++) {
        HOT_ASSERT(quorum_load_mark(quorum, &disk->marks[i]));
    }
    for (uint32_t i = 0; i < CELL_NODES; i++) {
        char text[8] = {'h', 'o', 's', 't', '-', (char)('a' + i)};
        struct quorum_member member = {.member = disk->members[i]};
        message_agent_set(&member.voter, text, 6);
        HOT_ASSERT(member.member.generation == 0 || quorum_load_member(quorum, &member));
        HOT_ASSERT(disk->seen[i].voter.length == 0 || quorum_load_seen(quorum, &disk->seen[i]));
    }
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct quorum_checkpoint checkpoint = {.partition = p, .checkpoint = disk->checkpoints[p]};
        HOT_ASSERT(checkpoint.checkpoint.order.ballot == 0 ||
                   quorum_load_checkpoint(quorum, &checkpoint));
    }
    quorum_set_commit(quorum, disk->commits);
}

/* ---- Driving ---- */

static bool is_late(const struct cell *cell, enum message_kind kind)
{
    return kind < 64 && (cell->late_kinds >> kind & 1) != 0;
}

static void network_put(struct cell *cell, uint32_t to, const struct message *message)
{
    struct cell_packet *packet = packet_put(cell, to);
    if (packet != NULL) {
        message_copy(&packet->message, message);
        packet->arrives_ns += is_late(cell, message->kind) ? cell->late_ns : 0;
    }
}

/* cell->drop has bits for kinds below 64 only, so a message to a host is never dropped. */
static bool is_dropped(const struct cell *cell, uint32_t from, uint32_t to, enum message_kind kind)
{
    return kind < 64 && to < CELL_NODES && (cell->drop[from][to] >> kind & 1) != 0;
}

static void network_send(struct cell *cell, uint32_t from, uint32_t to,
                         const struct message *message)
{
    if (to >= cell->config.voter_count || cell->cut[from][to] ||
        is_dropped(cell, from, to, message->kind) || cell_random(cell) % 100 < cell->loss_percent) {
        return;
    }
    network_put(cell, to, message);
    if (cell_random(cell) % 100 < cell->repeat_percent) {
        network_put(cell, to, message);
    }
}

/* Sends a message to another voter, which passes it on to the receiver. */
static void send_through(struct cell *cell, uint32_t from, const struct action_send *send)
{
    struct message message;
    message_copy(&message, &send->message);
    message.to = cell->config.voters[send->to];
    network_send(cell, from, send->relay, &message);
}

static void host_receive(struct cell *cell, uint32_t node, const struct message *message)
{
    HOT_ASSERT(message_valid(message));
    struct cell_node *at = &cell->nodes[node];
    if (message->kind == MESSAGE_GRANT) {
        at->last_grant = message->as.grant;
    }
    if (cell->host != NULL) {
        cell->host(cell->host_arg, node, message);
    } else if (at->inbox_count < CELL_INBOX) {
        message_copy(&at->inbox[at->inbox_count++], message);
    }
}

/* Returns the node that must handle the message: `node` itself if the envelope names no receiver,
 * else the voter that it names. CELL_NODES: the envelope names an agent that is not a voter. */
static uint32_t addressee(const struct cell *cell, uint32_t node, const struct message *message)
{
    if (message->to.length == 0) {
        return node;
    }
    uint32_t at = 0;
    while (at < cell->config.voter_count &&
           memcmp(&cell->config.voters[at], &message->to, sizeof(message->to)) != 0) {
        at++;
    }
    return at < cell->config.voter_count ? at : CELL_NODES;
}

static void node_receive(struct cell *cell, uint32_t node, const struct message *message)
{
    uint32_t to = addressee(cell, node, message);
    if (to != node && !message->relayed) {
        struct message passed;
        message_copy(&passed, message);
        passed.relayed = true;
        network_send(cell, node, to, &passed);
    }
    if (to != node) {
        return;
    }
    if (message_is_for_host(message->kind)) {
        host_receive(cell, node, message);
        return;
    }
    HOT_ASSERT(message_valid(message));
    struct quorum_event event = {
        .kind = QUORUM_MESSAGE, .now_ns = cell->now_ns, .random = cell_random(cell)};
    event.as.message = message;
    cell_step(cell, node, event);
}

/* Commits the rows that the node has to persist. Returns false if the commit failed, which ends the
 * node. */
static bool node_commit(struct cell *cell, uint32_t node)
{
    struct cell_node *at = &cell->nodes[node];
    bool any = false;
    for (uint32_t i = 0; i < at->actions.count; i++) {
        const struct action *action = &at->actions.items[i];
        any = any || (action->kind != ACTION_SEND && action->kind != ACTION_LOG);
        if (action->kind == ACTION_LOG) {
            snprintf(at->last_log, sizeof(at->last_log), "%s", action->as.log.event);
            snprintf(at->log_text, sizeof(at->log_text), "%s", action->as.log.text);
        }
    }
    if (any && at->fail_commit) {
        at->fail_commit = false;
        cell_kill(cell, node);
        return false;
    }
    for (uint32_t i = 0; i < at->actions.count; i++) {
        disk_write(&at->disk, &at->actions.items[i]);
    }
    at->disk.commits += any;
    quorum_set_commit(at->quorum, at->disk.commits);
    return true;
}

void cell_step(struct cell *cell, uint32_t node, struct quorum_event event)
{
    struct cell_node *at = &cell->nodes[node];
    if (!at->up) {
        return;
    }
    HOT_ASSERT_UINT(at->actions.count, ==, 0);
    struct message *own = cell->own;
    uint32_t first = 0;
    uint32_t last = 0;
    quorum_step(at->quorum, &event, &at->actions);
    for (uint32_t turn = 0; turn < TURNS_MAX; turn++) {
        HOT_ASSERT_UINT(at->actions.count, <=, QUORUM_STEP_ACTIONS);
        quorum_check_invariants(at->quorum);
        if (!node_commit(cell, node)) {
            break;
        }
        for (uint32_t i = 0; i < at->actions.count; i++) {
            const struct action *action = &at->actions.items[i];
            if (action->kind != ACTION_SEND) {
                continue;
            }
            cell->sent[action->as.send.message.kind]++;
            if (action->as.send.later) {
                ck_assert_uint_lt(action->as.send.to, cell->config.voter_count);
                ck_assert_uint_ne(action->as.send.to, node);
                cell->later[action->as.send.to]++;
            }
            if (cell->tap != NULL) {
                cell->tap(cell->tap_arg, node, action->as.send.to, &action->as.send.message);
            }
            if (action->as.send.to >= cell->config.voter_count) {
                message_copy(&cell->others[cell->other_count++ % CELL_INBOX],
                             &action->as.send.message);
            } else if (action->as.send.relay != ACTION_NO_RELAY) {
                send_through(cell, node, &action->as.send);
            } else if (action->as.send.to == node &&
                       is_dropped(cell, node, node, action->as.send.message.kind)) {
                continue;
            } else if (action->as.send.to == node) {
                message_copy(&own[last++ % CELL_ACTIONS], &action->as.send.message);
                HOT_ASSERT_UINT(last - first, <, CELL_ACTIONS);
            } else {
                network_send(cell, node, action->as.send.to, &action->as.send.message);
            }
        }
        at->actions.count = 0;
        while (first != last && message_is_for_host(own[first % CELL_ACTIONS].kind)) {
            host_receive(cell, node, &own[first++ % CELL_ACTIONS]);
        }
        if (first == last || !at->up) {
            break;
        }
        struct message message;
        message_copy(&message, &own[first++ % CELL_ACTIONS]);
        event = (struct quorum_event){
            .kind = QUORUM_MESSAGE, .now_ns = cell->now_ns, .random = cell_random(cell)};
        event.as.message = &message;
        quorum_step(at->quorum, &event, &at->actions);
    }
}

void cell_wipe(struct cell *cell, uint32_t node, bool rejoin)
{
    struct cell_disk *disk = &cell->nodes[node].disk;
    struct quorum_register *registers = disk->registers;
    HOT_ASSERT(!cell->nodes[node].up);
    uint64_t id = disk->store_id;
    memset(disk, 0, sizeof(*disk));
    disk->registers = registers;
    disk->store_id = id + 1000;
    disk->rejoin = rejoin;
    disk->commits = 1;
}

static void fill_id(const struct cell *cell, uint32_t node, uint64_t id[2])
{
    id[0] = cell->nodes[node].disk.store_id;
    id[1] = node + 1;
}

/* Gives the node the answer of every other voter to the node's HELLO. Each answer says that the
 * node may vote. */
static void introduce(struct cell *cell, uint32_t node, uint64_t incarnation)
{
    struct message message;
    struct message_hello *hello = &message.as.hello;
    for (uint32_t from = 0; from < cell->config.voter_count; from++) {
        if (from == node) {
            continue;
        }
        cell_header(cell, from, MESSAGE_HELLO, &message);
        fill_id(cell, from, message.store_id);
        hello->answer = true;
        hello->status = MESSAGE_STATUS_VOTING;
        hello->echo = incarnation;
        hello->incarnation = 1;
        hello->bootstrapped = true;
        quorum_rules(&cell->config, &hello->rules);
        for (uint32_t i = 0; i < cell->config.voter_count; i++) {
            hello->members[i].generation = 1;
            fill_id(cell, i, hello->members[i].store_id);
        }
        node_receive(cell, node, &message);
    }
    ck_assert_int_eq(quorum_voter_status(cell->nodes[node].quorum), MESSAGE_STATUS_VOTING);
}

/* Makes a core with the contents of the node's disk. The core is not started. */
static void node_load(struct cell *cell, uint32_t node)
{
    struct cell_node *at = &cell->nodes[node];
    struct quorum_config config = cell->config;
    config.self = node;
    config.rejoin = at->disk.rejoin;
    config.recovery_wait_ns = at->disk.recovery_wait_ns;
    fill_id(cell, node, config.store_id);
    ck_assert_ptr_null(quorum_config_error(&config));
    at->memory = calloc(1, quorum_size(&config.limits));
    at->names_memory = calloc(1, names_size(2 * config.limits.registers));
    HOT_ASSERT(at->memory != NULL && at->names_memory != NULL);
    at->names = names_init(at->names_memory, 2 * config.limits.registers, cell_random(cell));
    at->quorum = quorum_init(at->memory, &config, at->names);
    at->actions = (struct actions){.items = at->items, .capacity = CELL_ACTIONS};
    disk_load(&at->disk, at->quorum);
}

void cell_start(struct cell *cell, uint32_t node)
{
    struct cell_node *at = &cell->nodes[node];
    node_load(cell, node);
    at->up = true;
    links_change(cell, node);
    struct quorum_event event = {
        .kind = QUORUM_START, .now_ns = cell->now_ns, .random = cell_random(cell)};
    uint64_t incarnation = event.random | 1;
    cell_step(cell, node, event);
    if (!cell->natural && at->up && cell->config.voter_count > 1) {
        introduce(cell, node, incarnation);
    }
}

void cell_start_killed(struct cell *cell, uint32_t node)
{
    struct cell_node *at = &cell->nodes[node];
    struct action action = {.kind = ACTION_PERSIST_SEEN};
    node_load(cell, node);
    if (quorum_keep_opened(at->quorum, &action.as.seen)) {
        disk_write(&at->disk, &action);
    }
    at->disk.commits++;
    at->up = true;
    cell_kill(cell, node);
}

void cell_start_all(struct cell *cell)
{
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        cell_start(cell, i);
    }
}

void cell_send(struct cell *cell, uint32_t from, uint32_t to, const struct message *message)
{
    if (from == to) {
        /* the host's callback runs inside of a step, so it must not call cell_send() */
        network_put(cell, to, message);
    } else {
        network_send(cell, from, to, message);
    }
}

/* Returns when the node runs next, at at_ns or later. */
static int64_t runs_at(const struct cell *cell, uint32_t node, int64_t at_ns)
{
    at_ns = at_ns > cell->now_ns ? at_ns : cell->now_ns;
    if (cell->of_ns[node] == 0 || at_ns == INT64_MAX) {
        return at_ns;
    }
    int64_t into_ns = (at_ns + cell->shift_ns[node]) % cell->of_ns[node];
    return into_ns < cell->runs_ns[node] ? at_ns : at_ns + cell->of_ns[node] - into_ns;
}

static int64_t next_ns(const struct cell *cell)
{
    int64_t next = INT64_MAX;
    for (uint32_t i = 0; i < cell->packet_count; i++) {
        int64_t at_ns = runs_at(cell, cell->packets[i].to, cell->packets[i].arrives_ns);
        next = at_ns < next ? at_ns : next;
    }
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        if (cell->nodes[i].up) {
            int64_t at_ns = runs_at(cell, i, quorum_next_tick_ns(cell->nodes[i].quorum));
            next = at_ns < next ? at_ns : next;
        }
    }
    return next;
}

static void network_take(struct cell *cell, uint32_t index)
{
    struct cell_packet *packet = &cell->packets[index];
    struct cell_packet *last = &cell->packets[--cell->packet_count];
    uint32_t to = packet->to;
    bool is_link = packet->is_link;
    struct quorum_event event = {.kind = QUORUM_LINK, .now_ns = cell->now_ns};
    event.as.link.voter = packet->from;
    event.as.link.up = is_link && cell->nodes[packet->from].up;
    struct message message;
    if (!is_link) {
        message_copy(&message, &packet->message);
    }
    if (packet != last) {
        packet->arrives_ns = last->arrives_ns;
        packet->to = last->to;
        packet->is_link = last->is_link;
        packet->from = last->from;
        message_copy(&packet->message, &last->message);
    }
    if (cell->nodes[to].up && is_link) {
        cell_step(cell, to, event);
    } else if (cell->nodes[to].up) {
        node_receive(cell, to, &message);
    }
}

static bool is_ready(const struct cell *cell)
{
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        if (cell->nodes[i].up && !quorum_ready(cell->nodes[i].quorum)) {
            return false;
        }
    }
    return true;
}

void cell_run_ready(struct cell *cell)
{
    for (uint32_t turn = 0; turn < 1000; turn++) {
        cell_run(cell, 20 * CELL_MS);
        if (is_ready(cell)) {
            return;
        }
    }
    ck_abort_msg("the cell never gets ready");
}

static void tick_all(struct cell *cell)
{
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        if (cell->nodes[i].up &&
            runs_at(cell, i, quorum_next_tick_ns(cell->nodes[i].quorum)) <= cell->now_ns) {
            struct quorum_event event = {
                .kind = QUORUM_TICK, .now_ns = cell->now_ns, .random = cell_random(cell)};
            cell_step(cell, i, event);
        }
    }
}

void cell_run(struct cell *cell, int64_t duration_ns)
{
    int64_t end_ns = cell->now_ns + duration_ns;
    for (uint32_t turn = 0; turn < 50 * TURNS_MAX; turn++) {
        int64_t at_ns = next_ns(cell);
        if (at_ns > end_ns) {
            cell->now_ns = end_ns;
            return;
        }
        cell->now_ns = at_ns > cell->now_ns ? at_ns : cell->now_ns;
        if (cell->tick_first) {
            tick_all(cell);
        }
        for (uint32_t i = 0; i < cell->packet_count;) {
            if (runs_at(cell, cell->packets[i].to, cell->packets[i].arrives_ns) > cell->now_ns) {
                i++;
                continue;
            }
            network_take(cell, i);
        }
        tick_all(cell);
    }
    ck_abort_msg("the cell never comes to rest");
}

/* ---- Messages ---- */

void cell_header(struct cell *cell, uint32_t node, enum message_kind kind, struct message *message)
{
    message_zero(message);
    message->kind = kind;
    message->membership = 1;
    message->from = cell->config.voters[node];
    const struct message_voters *voters = &cell->nodes[node].disk.voters;
    if (voters->count > 0) {
        message->number = voters->number;
        message->digest = message_voters_digest(voters);
    }
}

const struct message *cell_got(struct cell *cell, uint32_t node, enum message_kind kind)
{
    struct cell_node *at = &cell->nodes[node];
    for (uint32_t i = at->inbox_count; i > 0; i--) {
        if (at->inbox[i - 1].kind == kind) {
            return &at->inbox[i - 1];
        }
    }
    return NULL;
}

/* Returns the agent to which a coordinator's answer goes. */
static const struct message_agent *agent_of(const struct message *message)
{
    switch (message->kind) {
    case MESSAGE_GRANT:
    case MESSAGE_AMENDED:
        return &message->as.grant.agent;
    case MESSAGE_GIVE_BACK_ACK:
    case MESSAGE_RECALL:
        return &message->as.version.agent;
    case MESSAGE_REFUSED:
        return &message->as.refused.agent;
    default:
        return NULL;
    }
}

const struct message *cell_other_got(const struct cell *cell, const char *agent,
                                     enum message_kind kind)
{
    struct message_agent name;
    message_agent_set(&name, agent, strlen(agent));
    uint32_t kept = cell->other_count < CELL_INBOX ? cell->other_count : CELL_INBOX;
    for (uint32_t i = 0; i < kept; i++) {
        const struct message *message = &cell->others[(cell->other_count - 1 - i) % CELL_INBOX];
        const struct message_agent *who = agent_of(message);
        if (message->kind == kind && who != NULL && memcmp(who, &name, sizeof(name)) == 0) {
            return message;
        }
    }
    return NULL;
}

uint32_t cell_got_count(struct cell *cell, uint32_t node, enum message_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < cell->nodes[node].inbox_count; i++) {
        count += cell->nodes[node].inbox[i].kind == kind;
    }
    return count;
}

void cell_acquire(struct cell *cell, uint32_t node, uint32_t to, const char *name, uint64_t id,
                  uint32_t epoch, enum message_mode mode, uint16_t lock_delay_ms)
{
    struct message message;
    cell_header(cell, node, MESSAGE_ACQUIRE, &message);
    message.as.acquire.agent = message.from;
    message.as.acquire.epoch = epoch;
    message.as.acquire.request_id = id;
    message_name_set(&message.as.acquire.name, name, strlen(name));
    message.as.acquire.mode = (uint8_t)mode;
    message.as.acquire.lock_delay_ms = lock_delay_ms;
    cell_send(cell, node, to, &message);
}

int64_t cell_served_ns(struct cell *cell, uint32_t host, const char *name, uint64_t id,
                       uint32_t ask_ms)
{
    enum { LOOK_MS = 10, SERVED_MS_MAX = 10000 };
    int64_t began_ns = cell->now_ns;
    cell->nodes[host].inbox_count = 0;
    for (uint32_t ms = 0; ms < SERVED_MS_MAX; ms += LOOK_MS) {
        uint32_t to = cell_coordinator_at(cell, host, name);
        if (to < cell->config.voter_count && ms % ask_ms == 0) {
            cell_acquire(cell, host, to, name, id, 1, MESSAGE_MODE_EXCLUSIVE, 0);
        }
        cell_run(cell, LOOK_MS * CELL_MS);
        const struct message *grant = cell_got(cell, host, MESSAGE_GRANT);
        if (grant != NULL && grant->as.grant.request_id == id) {
            return cell->now_ns - began_ns;
        }
        cell->nodes[host].inbox_count = 0;
    }
    ck_abort_msg("nobody answers");
    return 0;
}

void cell_other_acquire(struct cell *cell, const char *agent, uint32_t to, const char *name,
                        uint64_t id, uint32_t epoch, enum message_mode mode)
{
    struct message message;
    cell_header(cell, 0, MESSAGE_ACQUIRE, &message);
    message_agent_set(&message.from, agent, strlen(agent));
    message.as.acquire.agent = message.from;
    message.as.acquire.epoch = epoch;
    message.as.acquire.request_id = id;
    message_name_set(&message.as.acquire.name, name, strlen(name));
    message.as.acquire.mode = (uint8_t)mode;
    network_put(cell, to, &message);
}

void cell_other_give_back(struct cell *cell, const char *agent, uint32_t to, const char *name,
                          uint64_t id, uint32_t epoch, struct message_order version)
{
    struct message message;
    cell_header(cell, 0, MESSAGE_GIVE_BACK, &message);
    message_agent_set(&message.from, agent, strlen(agent));
    message.as.give_back.agent = message.from;
    message.as.give_back.epoch = epoch;
    message.as.give_back.request_id = id;
    message_name_set(&message.as.give_back.name, name, strlen(name));
    message.as.give_back.version = version;
    network_put(cell, to, &message);
}

void cell_give_back(struct cell *cell, uint32_t node, uint32_t to, const char *name, uint64_t id,
                    uint32_t epoch, struct message_order version, uint64_t token_used)
{
    struct message message;
    cell_header(cell, node, MESSAGE_GIVE_BACK, &message);
    message.as.give_back.agent = message.from;
    message.as.give_back.epoch = epoch;
    message.as.give_back.request_id = id;
    message_name_set(&message.as.give_back.name, name, strlen(name));
    message.as.give_back.version = version;
    message.as.give_back.token_used = token_used;
    cell_send(cell, node, to, &message);
}

void cell_renew(struct cell *cell, uint32_t node, uint32_t to, uint32_t epoch, uint64_t id,
                struct message_echo echo)
{
    struct message message;
    cell_header(cell, node, MESSAGE_RENEW, &message);
    message.as.renew.agent = message.from;
    message.as.renew.epoch = epoch;
    message.as.renew.renewal_id = id;
    message.as.renew.echo = echo;
    struct message_rules rules;
    quorum_rules(&cell->config, &rules);
    message.as.renew.rules = message_rules_digest(&rules);
    message.as.renew.durations = message_durations_digest(&rules);
    cell_send(cell, node, to, &message);
}

void cell_extend(struct cell *cell, uint32_t node, uint32_t to, uint32_t epoch)
{
    cell_renew(cell, node, to, epoch, 1, (struct message_echo){0});
    cell_run(cell, 4 * CELL_MS);
    const struct message *ack = cell_got(cell, node, MESSAGE_RENEW_ACK);
    ck_assert_ptr_nonnull(ack);
    cell_renew(cell, node, to, epoch, 2, ack->as.renew_ack.echo);
    cell_run(cell, 4 * CELL_MS);
    ack = cell_got(cell, node, MESSAGE_RENEW_ACK);
    HOT_ASSERT(ack->as.renew_ack.renewal_id == 2 && ack->as.renew_ack.extended);
}

uint32_t cell_coordinator_of(const struct cell *cell, uint32_t node, uint32_t partition)
{
    return ballots_coordinator(cell->nodes[node].quorum, partition);
}

uint32_t cell_coordinator(const struct cell *cell, const char *name)
{
    for (uint32_t i = 0; i < cell->config.voter_count; i++) {
        if (cell->nodes[i].up) {
            return cell_coordinator_of(cell, i, names_partition(name, strlen(name)));
        }
    }
    ck_abort_msg("no node is up");
    return 0;
}

uint32_t cell_coordinator_at(const struct cell *cell, uint32_t node, const char *name)
{
    HOT_ASSERT(cell->nodes[node].up);
    return cell_coordinator_of(cell, node, names_partition(name, strlen(name)));
}

struct cell *cell_ready(uint32_t voters)
{
    struct cell *cell = cell_create(voters, 1);
    cell_start_all(cell);
    cell_run_ready(cell);
    return cell;
}

void cell_settle(struct cell *cell)
{
    cell_run(cell, 20 * CELL_MS);
}
