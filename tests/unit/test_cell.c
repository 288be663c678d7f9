/*
 * Cells of one, three and five voters under loss, repetition, reordering, partitions, failed
 * commits and crashes, by seed. Hosts, with a small model of a host core, ask for locks, use
 * tokens, and give recalled grants back. After every delivery, the test checks from outside of the
 * core:
 *
 *   - at most one host holds a lock while its session is safe;
 *   - tokens rise from one grant to the next;
 *   - after the faults end, every host that asks is served.
 *
 * At every message that is sent, the test compares it with earlier messages and with the disks:
 *
 *   - a proposal has one value, however often it is sent, and no ballot is used by two processes
 *     of a voter;
 *   - a promise or an accepted value is durable when it is sent, and is never forgotten: no
 *     acceptor accepts below its promise, nor below a promise from before its restart;
 *   - a disk's value for a name is only replaced by a newer one (quorum_cell.c).
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "core/session/renewal.h"
#include "hot_assert.h"
#include "quorum_cell.h"

enum { LOCKS = 4, CHAOS_MS = 60000, STEP_MS = 20, HEALED_MS = 60000 };

enum want { IDLE, ASKING, HOLDING, GIVING };

struct lock_model {
    enum want want;
    uint64_t request_id;
    struct message_order version; /* valid in the states HOLDING and GIVING */
    struct message_order retired; /* the host refuses grants at or below this version */
    uint64_t token_next, token_used;
    uint32_t to;
    bool wanted_back;
};

struct host_model {
    void *renewal_memory;
    struct renewal *renewal;
    struct action items[RENEWAL_ACTIONS];
    struct actions actions;
    uint32_t epoch;
    uint64_t last_id;
    struct lock_model locks[LOCKS];
};

/* A proposal that was seen in a message. */
struct proposal {
    struct message_order order; /* ballot 0: the entry is free */
    uint32_t lock;
    uint64_t value;
};

enum { PROPOSALS = 1 << 17 };

struct world {
    struct proposal *proposals;
    uint64_t ballot_highest[CELL_NODES]; /* the highest ballot that this node prepared */
    /* the highest ballot of this node's earlier processes */
    uint64_t ballot_before[CELL_NODES];
    uint64_t told[CELL_NODES][MESSAGE_PARTITIONS]; /* the highest promise that this node sent */
    struct cell *cell;
    struct host_model hosts[CELL_NODES];
    uint64_t token_highest[LOCKS];
    uint64_t served[CELL_NODES];
};

static const char *lock_name(uint32_t lock)
{
    static const char *const NAMES[LOCKS] = {"a", "b", "orders/c", "orders/d"};
    return NAMES[lock];
}

static uint32_t lock_of(const struct message_name *name)
{
    for (uint32_t i = 0; i < LOCKS; i++) {
        if (name->length == strlen(lock_name(i)) &&
            memcmp(name->bytes, lock_name(i), name->length) == 0) {
            return i;
        }
    }
    ck_abort_msg("a message for a lock that nobody asked for");
    return 0;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *bytes = data;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ bytes[i]) * 1099511628211u;
    }
    return hash;
}

/* Hashes field by field, because the padding between the fields may have any value. */
static uint64_t value_hash(const struct message_value *value)
{
    const uint64_t numbers[] = {
        value->version.ballot, value->version.sequence, value->token_first, value->token_last,
        value->epoch,          value->lock_delay_ms,    value->permits,     value->mode,
        value->closing,        value->share_count};
    uint64_t hash = hash_bytes(14695981039346656037u, numbers, sizeof(numbers));
    hash = hash_bytes(hash, &value->owner, sizeof(value->owner));
    hash = hash_bytes(hash, &value->successor, sizeof(value->successor));
    for (uint32_t i = 0; i < value->share_count; i++) {
        const struct message_share *share = &value->shares[i];
        const uint64_t named[] = {share->version.ballot, share->version.sequence, share->epoch};
        hash = hash_bytes(hash, named, sizeof(named));
        hash = hash_bytes(hash, &share->agent, sizeof(share->agent));
    }
    return hash;
}

static void see_accept(struct world *world, const struct message_accept *accept)
{
    uint64_t at = accept->order.ballot * 31 + accept->order.sequence * 7919;
    for (uint32_t turn = 0; turn < PROPOSALS; turn++) {
        struct proposal *proposal = &world->proposals[(at + turn) % PROPOSALS];
        if (proposal->order.ballot == 0) {
            proposal->order = accept->order;
            proposal->lock = lock_of(&accept->name);
            proposal->value = value_hash(&accept->value);
            return;
        }
        if (message_order_equal(proposal->order, accept->order)) {
            HOT_ASSERT_UINT(proposal->lock, ==, lock_of(&accept->name));
            HOT_ASSERT_UINT(proposal->value, ==, value_hash(&accept->value));
            return;
        }
    }
    ck_abort_msg("too many proposals for this test");
}

static void see_accepted(struct world *world, uint32_t from, const struct message_accepted *answer)
{
    const struct cell_disk *disk = &world->cell->nodes[from].disk;
    uint32_t partition = names_partition(answer->name.bytes, answer->name.length);
    uint64_t *told = &world->told[from][partition];
    if (answer->higher != 0 || answer->full) {
        return;
    }
    HOT_ASSERT_UINT(answer->order.ballot, >=, *told);
    *told = answer->order.ballot;
    HOT_ASSERT_UINT(disk->promised[partition], >=, *told);
    for (uint32_t i = 0; i < disk->register_count; i++) {
        if (memcmp(&disk->registers[i].name, &answer->name, sizeof(answer->name)) == 0) {
            HOT_ASSERT(!message_order_before(disk->registers[i].accepted, answer->order));
            return;
        }
    }
    ck_abort_msg("accepted, and not on the disk");
}

static void see(void *arg, uint32_t from, uint32_t to, const struct message *message)
{
    struct world *world = arg;
    const struct message_promise *promise = &message->as.promise;
    (void)to;
    switch (message->kind) {
    case MESSAGE_ACCEPT:
        see_accept(world, &message->as.accept);
        break;
    case MESSAGE_ACCEPTED:
        see_accepted(world, from, &message->as.accepted);
        break;
    case MESSAGE_PREPARE:
        HOT_ASSERT_UINT(message->as.prepare.ballot, >, world->ballot_before[from]);
        if (message->as.prepare.ballot > world->ballot_highest[from]) {
            world->ballot_highest[from] = message->as.prepare.ballot;
        }
        break;
    case MESSAGE_PROMISE:
        for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
            if (message_partition_has(&promise->promised, p)) {
                HOT_ASSERT_UINT(promise->ballot, >=, world->told[from][p]);
                HOT_ASSERT_UINT(world->cell->nodes[from].disk.promised[p], >=, promise->ballot);
                world->told[from][p] = promise->ballot;
            }
        }
        break;
    default:
        break;
    }
}

static void flush(struct world *world, uint32_t node)
{
    struct host_model *host = &world->hosts[node];
    for (uint32_t i = 0; i < host->actions.count; i++) {
        cell_send(world->cell, node, host->actions.items[i].as.send.to & ~(uint32_t)ACTION_VOTER,
                  &host->actions.items[i].as.send.message);
    }
    host->actions.count = 0;
}

static void host_start(struct world *world, uint32_t node)
{
    struct host_model *host = &world->hosts[node];
    struct renewal_config config = {
        .voter_count = world->cell->config.voter_count,
        .session_ttl_ns = CELL_TTL_NS,
        .grace_period_ns = CELL_TTL_NS,
        .max_drift_percent = 10,
    };
    struct message header;
    struct message_rules rules;
    quorum_rules(&world->cell->config, &rules);
    config.rules = message_rules_digest(&rules);
    memcpy(config.voters, world->cell->config.voters, sizeof(config.voters));
    cell_header(world->cell, node, MESSAGE_RENEW, &header);
    memset(host->locks, 0, sizeof(host->locks));
    host->actions = (struct actions){.items = host->items, .capacity = RENEWAL_ACTIONS};
    host->renewal = renewal_init(host->renewal_memory, &config, &header);
    renewal_start(host->renewal, ++host->epoch, false, world->cell->now_ns,
                  cell_random(world->cell), &host->actions);
    flush(world, node);
}

static void give_back(struct world *world, uint32_t node, uint32_t lock,
                      struct message_order version, uint64_t token_used)
{
    struct host_model *host = &world->hosts[node];
    cell_give_back(world->cell, node, world->hosts[node].locks[lock].to, lock_name(lock),
                   ++host->last_id, host->epoch, version, token_used);
}

static void begin_giving(struct world *world, uint32_t node, uint32_t lock)
{
    struct lock_model *model = &world->hosts[node].locks[lock];
    model->want = GIVING;
    if (message_order_before(model->retired, model->version)) {
        model->retired = model->version;
    }
    give_back(world, node, lock, model->version, model->token_used);
}

static void check_exclusion(struct world *world)
{
    for (uint32_t lock = 0; lock < LOCKS; lock++) {
        uint32_t holders = 0;
        for (uint32_t i = 0; i < world->cell->config.voter_count; i++) {
            const struct host_model *host = &world->hosts[i];
            holders += world->cell->nodes[i].up && host->locks[lock].want == HOLDING &&
                       renewal_state(host->renewal, world->cell->now_ns) == RENEWAL_SAFE;
        }
        HOT_ASSERT_UINT(holders, <=, 1);
    }
}

static void got_grant(struct world *world, uint32_t node, const struct message_grant *grant)
{
    struct host_model *host = &world->hosts[node];
    uint32_t lock = lock_of(&grant->name);
    struct lock_model *model = &host->locks[lock];
    if (grant->epoch != host->epoch || !message_order_before(model->retired, grant->version)) {
        return;
    }
    if (model->want != ASKING) {
        bool repeat = message_order_equal(grant->version, model->version);
        if (!repeat && model->want == IDLE) {
            model->version = grant->version; /* the grant came late, so it goes back */
            model->token_used = 0;
            begin_giving(world, node, lock);
        }
        return;
    }
    model->want = HOLDING;
    model->version = grant->version;
    model->token_next = grant->token_first;
    model->token_used = 0;
    HOT_ASSERT_UINT(grant->token_first, >, world->token_highest[lock]);
    HOT_ASSERT_UINT(grant->token_last, ==, grant->token_first + 4095);
    world->served[node]++;
    check_exclusion(world);
}

static void use_token(struct world *world, uint32_t node, uint32_t lock)
{
    struct host_model *host = &world->hosts[node];
    struct lock_model *model = &host->locks[lock];
    if (model->want != HOLDING ||
        renewal_state(host->renewal, world->cell->now_ns) != RENEWAL_SAFE) {
        return;
    }
    uint64_t token = model->token_next++;
    model->token_used = token;
    HOT_ASSERT_UINT(token, >, world->token_highest[lock]);
    world->token_highest[lock] = token;
}

static void host_receive(void *arg, uint32_t node, const struct message *message)
{
    struct world *world = arg;
    struct host_model *host = &world->hosts[node];
    uint32_t lock = 0;
    switch (message->kind) {
    case MESSAGE_RENEW_ACK:
        renewal_acked(host->renewal, message, world->cell->now_ns, &host->actions);
        flush(world, node);
        break;
    case MESSAGE_GRANT:
        got_grant(world, node, &message->as.grant);
        break;
    case MESSAGE_RECALL:
        lock = lock_of(&message->as.version.name);
        if (message->as.version.epoch == host->epoch && host->locks[lock].want == HOLDING &&
            message_order_equal(message->as.version.version, host->locks[lock].version)) {
            begin_giving(world, node, lock);
        }
        if (message->as.version.epoch == host->epoch && host->locks[lock].want == ASKING) {
            /* The recall has overtaken its grant: the host refuses that grant and all earlier
             * ones. */
            host->locks[lock].version = message->as.version.version;
            host->locks[lock].token_used = 0;
            begin_giving(world, node, lock);
        }
        break;
    case MESSAGE_GIVE_BACK_ACK:
        lock = lock_of(&message->as.version.name);
        if (message->as.version.epoch == host->epoch && host->locks[lock].want == GIVING &&
            message_order_equal(message->as.version.version, host->locks[lock].version)) {
            host->locks[lock].want = IDLE;
        }
        break;
    default:
        break;
    }
    check_exclusion(world);
}

/* Lets a host that is up act on one of its locks, and repeat a request that got no answer. */
static void host_act(struct world *world, uint32_t node)
{
    struct cell *cell = world->cell;
    struct host_model *host = &world->hosts[node];
    renewal_tick(host->renewal, cell->now_ns, &host->actions);
    flush(world, node);
    if (renewal_state(host->renewal, cell->now_ns) == RENEWAL_LOST) {
        host_start(world, node);
        return;
    }
    uint32_t lock = (uint32_t)(cell_random(cell) % LOCKS);
    struct lock_model *model = &host->locks[lock];
    model->to = cell_coordinator(cell, lock_name(lock));
    switch (model->want) {
    case IDLE:
        model->request_id = ++host->last_id;
        model->want = ASKING;
        __attribute__((fallthrough));
    case ASKING:
        cell_acquire(cell, node, model->to, lock_name(lock), model->request_id, host->epoch,
                     MESSAGE_MODE_EXCLUSIVE, 100);
        break;
    case HOLDING:
        use_token(world, node, lock);
        if (cell_random(cell) % 8 == 0) {
            begin_giving(world, node, lock);
        }
        break;
    case GIVING:
        give_back(world, node, lock, model->version, model->token_used);
        break;
    }
}

static void start_node(struct world *world, uint32_t node)
{
    world->ballot_before[node] = world->ballot_highest[node];
    cell_start(world->cell, node);
    if (world->cell->nodes[node].up) {
        host_start(world, node);
    }
}

static void disturb(struct world *world)
{
    struct cell *cell = world->cell;
    uint32_t voters = cell->config.voter_count;
    uint32_t node = (uint32_t)(cell_random(cell) % voters);
    switch (cell_random(cell) % 200) {
    case 0:
        cell_kill(cell, node);
        break;
    case 1:
        cell->nodes[node].fail_commit = true;
        break;
    case 2:
    case 3:
        cell->cut[node][cell_random(cell) % voters] = true;
        break;
    case 4:
    case 5:
        memset(cell->cut, 0, sizeof(cell->cut));
        break;
    case 6:
        if (cell->nodes[node].up) {
            struct quorum_event event = {
                .kind = QUORUM_STALLED, .now_ns = cell->now_ns, .random = cell_random(cell)};
            cell_step(cell, node, event);
        }
        break;
    default:
        break;
    }
    for (uint32_t i = 0; i < voters; i++) {
        if (!cell->nodes[i].up && cell_random(cell) % 50 == 0) {
            start_node(world, i);
        }
    }
}

static void act_all(struct world *world)
{
    bool any = false;
    for (uint32_t i = 0; i < world->cell->config.voter_count; i++) {
        any = any || world->cell->nodes[i].up;
    }
    for (uint32_t i = 0; any && i < world->cell->config.voter_count; i++) {
        if (world->cell->nodes[i].up) {
            host_act(world, i);
        }
    }
    cell_run(world->cell, STEP_MS * CELL_MS);
    check_exclusion(world);
}

static void run(uint32_t voters, uint64_t seed)
{
    struct world *world = calloc(1, sizeof(*world));
    ck_assert_ptr_nonnull(world);
    struct cell *cell = cell_create(voters, seed);
    world->cell = cell;
    cell->host = host_receive;
    cell->host_arg = world;
    cell->loss_percent = (uint32_t)(cell_random(cell) % 30);
    cell->repeat_percent = (uint32_t)(cell_random(cell) % 30);
    static const uint64_t DELAYS_MS[] = {2, 20, 80, 300};
    cell->delay_max_ns = (int64_t)(1 + cell_random(cell) % DELAYS_MS[seed % 4]) * CELL_MS;
    cell->silent = cell_random(cell) % 2 == 0;
    world->proposals = calloc(PROPOSALS, sizeof(*world->proposals));
    ck_assert_ptr_nonnull(world->proposals);
    cell->tap = see;
    cell->tap_arg = world;
    for (uint32_t i = 0; i < voters; i++) {
        world->hosts[i].renewal_memory = malloc(renewal_size());
        ck_assert_ptr_nonnull(world->hosts[i].renewal_memory);
        start_node(world, i);
    }
    for (uint32_t step = 0; step < CHAOS_MS / STEP_MS; step++) {
        disturb(world);
        act_all(world);
    }
    cell->loss_percent = 0;
    cell->repeat_percent = 0;
    cell->delay_max_ns = CELL_MS;
    memset(cell->cut, 0, sizeof(cell->cut));
    memset(world->served, 0, sizeof(world->served));
    for (uint32_t i = 0; i < voters; i++) {
        cell->nodes[i].fail_commit = false;
        if (!cell->nodes[i].up) {
            start_node(world, i);
        }
    }
    for (uint32_t step = 0; step < HEALED_MS / STEP_MS; step++) {
        act_all(world);
    }
    for (uint32_t i = 0; i < voters; i++) {
        if (world->served[i] < 20) {
            ck_abort_msg("seed %llu: host %u was served %llu times after healing",
                         (unsigned long long)seed, i, (unsigned long long)world->served[i]);
        }
    }
    cell_destroy(cell);
    for (uint32_t i = 0; i < voters; i++) {
        free(world->hosts[i].renewal_memory);
    }
    free(world->proposals);
    free(world);
}

START_TEST(one_voter)
{
    run(1, 100 + (uint64_t)_i);
}
END_TEST

START_TEST(three_voters)
{
    run(3, 200 + (uint64_t)_i);
}
END_TEST

START_TEST(five_voters)
{
    run(5, 300 + (uint64_t)_i);
}
END_TEST

int main(void)
{
    const char *few = getenv("HOLDFAST_TEST_SEEDS");
    const char *deep = getenv("HOLDFAST_TEST_DEEP");
    int seeds = few != NULL ? atoi(few) : deep != NULL ? 12 : 3;
    TCase *tests = tcase_create("chaos");
    tcase_add_loop_test(tests, one_voter, 0, seeds);
    tcase_add_loop_test(tests, three_voters, 0, seeds);
    tcase_add_loop_test(tests, five_voters, 0, seeds);
    tcase_set_timeout(tests, 120);
    return suite_main("cell", tests);
}
