/* See box.h: the memory and the disk of the agent in the box, and the driver's operations. */
#include "box.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "proto/wire.h"

enum { NAMES = 40, HANDLES = 12, REGION_HOLDERS = 65535 };

static const struct quorum_limits quorum_limits = {
    .registers = BOX_REGISTERS, .agents = BOX_AGENTS, .requests = 10, .shares = 64};
static const struct gossip_limits gossip_limits = {.agents = 8, .items = 16, .chunks = 256};

struct box *box;

void sim_point(void);

/* ---- memory: fresh zero pages for each input; the page after them is not mapped ---- */

enum { PAGE = 4096 };

static void *pages_take(size_t size)
{
    size_t whole = (size + PAGE - 1) / PAGE * PAGE;
    uint8_t *memory = mmap(NULL, whole + PAGE, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    HF_CHECK(memory != MAP_FAILED && mprotect(memory + whole, PAGE, PROT_NONE) == 0);
    /* The memory ends at the end of its last page, or as near to it as alignment allows. */
    return memory + (whole - (size + 63) / 64 * 64);
}

static void pages_drop(void *memory, size_t size)
{
    size_t whole = (size + PAGE - 1) / PAGE * PAGE;
    if (memory != NULL) {
        munmap((uint8_t *)memory - (whole - (size + 63) / 64 * 64), whole + PAGE);
    }
}

/* ---- the kernel ---- */

void box_strike(const struct box_strike *strike)
{
    uint8_t *at = (uint8_t *)box->region_memory + strike->offset / strike->width * strike->width;
    memcpy(at, &strike->value, strike->width);
}

/* The agent's code calls this before each atomic operation on a word. Carries out the next strike,
 * if there is one: a process writes rubbish into the region. */
void sim_point(void)
{
    if (box == NULL || box->strike_count == 0) {
        return;
    }
    box_strike(&box->strikes[--box->strike_count]);
}

static void kernel_sleep_agent(void *arg, _Atomic uint32_t *word, uint32_t expected,
                               int64_t timeout_ns)
{
    (void)arg;
    (void)word;
    (void)expected;
    (void)timeout_ns;
    HF_CHECK(!"the agent never waits in a region");
}

static void kernel_sleep(void *arg, _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    struct box *at = arg;
    (void)word;
    (void)expected;
    at->now_ns += timeout_ns > 0 && timeout_ns < 10 * BOX_MS ? timeout_ns : BOX_MS;
}

static void kernel_wake(void *arg, _Atomic uint32_t *word, int count)
{
    const struct box *at = arg;
    const uint8_t *start = at->region_memory;
    HF_CHECK((const uint8_t *)word >= start && (const uint8_t *)word < start + at->region_size);
    HF_CHECK(count > 0);
}

static int64_t kernel_now(void *arg)
{
    return ((struct box *)arg)->now_ns;
}

static void kernel_ring(void *arg)
{
    (void)arg;
}

/* ---- the disk ---- */

static void write_promise(struct box_disk *disk, const struct quorum_promise *promise)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (message_partition_has(&promise->partitions, p)) {
            HF_CHECK(promise->ballot >= disk->promised[p]);
            disk->promised[p] = promise->ballot;
        }
    }
}

static uint32_t find_register(const struct box_disk *disk, const struct message_name *name)
{
    uint32_t at = 0;
    while (at < disk->register_count &&
           memcmp(&disk->registers[at].name, name, sizeof(*name)) != 0) {
        at++;
    }
    return at;
}

static void write_register(struct box_disk *disk, const struct quorum_register *reg)
{
    uint32_t at = find_register(disk, &reg->name);
    HF_CHECK(at < BOX_REGISTERS);
    if (at == disk->register_count) {
        disk->register_count++;
    } else {
        HF_CHECK(message_order_before(disk->registers[at].accepted, reg->accepted));
    }
    disk->registers[at].name = reg->name;
    disk->registers[at].accepted = reg->accepted;
    message_value_copy(&disk->registers[at].value, &reg->value);
}

static void write_mark(struct box_disk *disk, const struct message_session *mark)
{
    uint32_t at = 0;
    while (at < disk->mark_count && !box_same_agent(&disk->marks[at].agent, &mark->agent)) {
        at++;
    }
    HF_CHECK(at < BOX_AGENTS);
    if (at == disk->mark_count) {
        disk->mark_count++;
    } else {
        HF_CHECK(mark->epoch >= disk->marks[at].epoch);
    }
    disk->marks[at] = *mark;
}

static uint32_t voter_of(const struct message_agent *agent)
{
    uint32_t voter = 0;
    while (voter < box->voter_count && !box_same_agent(&box->voters[voter], agent)) {
        voter++;
    }
    HF_CHECK(voter < box->voter_count);
    return voter;
}

static void write_checkpoint(struct box_disk *disk, const struct quorum_checkpoint *row)
{
    struct message_checkpoint *at = &disk->checkpoints[row->partition];
    HF_CHECK(!message_order_before(row->checkpoint.order, at->order));
    HF_CHECK(row->checkpoint.floor >= at->floor);
    *at = row->checkpoint;
}

static void write_action(struct box_disk *disk, const struct action *action)
{
    uint32_t at;
    switch (action->kind) {
    case ACTION_PERSIST_ROUND:
        HF_CHECK(action->as.round > disk->round);
        disk->round = action->as.round;
        break;
    case ACTION_PERSIST_PROMISE:
        write_promise(disk, &action->as.promise);
        break;
    case ACTION_PERSIST_REGISTER:
        write_register(disk, &action->as.reg);
        break;
    case ACTION_PERSIST_MARK:
        write_mark(disk, &action->as.mark);
        break;
    case ACTION_PERSIST_DELETED:
        at = find_register(disk, &action->as.deleted);
        if (at < disk->register_count) {
            disk->registers[at] = disk->registers[--disk->register_count];
        }
        break;
    case ACTION_PERSIST_CHECKPOINT:
        write_checkpoint(disk, &action->as.checkpoint);
        break;
    case ACTION_PERSIST_MEMBER:
        disk->members[voter_of(&action->as.member.voter)] = action->as.member;
        break;
    case ACTION_PERSIST_SEEN:
        disk->seen[voter_of(&action->as.seen.voter)] = action->as.seen;
        break;
    case ACTION_PERSIST_REJOINED:
        disk->rejoin = false;
        break;
    case ACTION_PERSIST_RECOVERED:
    case ACTION_PERSIST_VOTERS: /* only changes of the voters cause this action and the next two */
    case ACTION_PERSIST_CHANGE:
    case ACTION_VOTERS:
    case ACTION_SEEK:
    case ACTION_LOG:
    case ACTION_SEND:
        HF_CHECK(!"only what is to be persisted");
    }
}

void box_land(void)
{
    const struct driver_record *record;
    size_t at = 0;
    const struct driver_batch *batch = box->flying;
    if (batch == NULL) {
        return;
    }
    box->flying = NULL;
    if (box->disk_fails) {
        driver_committed(box->driver, 0, "the disk fails");
        return;
    }
    while ((record = driver_batch_next(batch, &at)) != NULL) {
        switch (record->kind) {
        case DRIVER_ACTION:
            write_action(&box->disk, &record->as.action);
            break;
        case DRIVER_SLOT:
            HF_CHECK(record->as.slot.region == 0 && record->as.slot.slot < BOX_SLOTS);
            box->disk.slots[record->as.slot.slot] = record->as.slot.name;
            break;
        case DRIVER_NO_SLOT:
            box->disk.slots[record->as.slot.slot].length = 0;
            break;
        case DRIVER_EPOCH:
            HF_CHECK(record->as.epoch > box->disk.epoch);
            box->disk.epoch = record->as.epoch;
            break;
        }
    }
    driver_committed(box->driver, ++box->disk.commit, NULL);
}

/* ---- the driver's operations ---- */

static void operation_act(void *arg, const struct host_action *action, const unsigned char *bytes)
{
    (void)arg;
    box_take_action(action, bytes);
}

/* Checks that the receiver of a sent message can decode it. */
static void check_sent(const struct message *message)
{
    static unsigned char packet[65536];
    static struct message again;
    struct wire_header header = {.cell = {3, "box"}, .from = message->from};
    struct wire_writer writer;
    struct wire_reader reader;
    enum wire_item_kind kind;
    const unsigned char *gossip;
    size_t gossip_size;
    header.membership = message->membership;
    memcpy(header.store_id, message->store_id, sizeof(header.store_id));
    header.commit = message->commit;
    header.number = message->number;
    header.digest = message->digest;
    HF_CHECK(message_valid(message));
    for (uint32_t version = WIRE_VERSION_OLDEST; version <= WIRE_VERSION; version++) {
        if (!wire_has_kind(version, message->kind)) {
            continue;
        }
        wire_begin(&writer, packet, sizeof(packet), &header, version);
        HF_CHECK(wire_add(&writer, message));
        HF_CHECK(wire_open(&reader, packet, wire_end(&writer), &header.cell) == WIRE_OK);
        HF_CHECK(wire_next(&reader, &kind, &again, &gossip, &gossip_size));
        HF_CHECK(kind == WIRE_MESSAGE && again.kind == message->kind && message_valid(&again));
    }
}

static void operation_send(void *arg, const struct message_agent *to, const struct message *message)
{
    struct box_sent *sent = &box->sent[box->sent_count++ % BOX_SENT];
    (void)arg;
    HF_CHECK(to->length > 0 && !box_same_agent(to, &box->name));
    check_sent(message);
    sent->to = *to;
    message_copy(&sent->message, message);
}

static void operation_send_gossip(void *arg, const struct message_agent *to, const void *bytes,
                                  size_t size)
{
    struct gossip_reader reader;
    (void)arg;
    HF_CHECK(to->length > 0 && gossip_open(&reader, bytes, size));
}

static void operation_address(void *arg, const struct message_agent *agent, const char *address)
{
    (void)arg;
    HF_CHECK(agent->length > 0 && strnlen(address, MESSAGE_ADDRESS_MAX) < MESSAGE_ADDRESS_MAX);
}

static void operation_commit(void *arg, const struct driver_batch *batch)
{
    (void)arg;
    HF_CHECK(box->flying == NULL && driver_batch_next(batch, &(size_t){0}) != NULL);
    box->flying = batch;
    if (!box->slow_disk) {
        box_land();
    }
}

static void operation_log(void *arg, const struct action_log *log)
{
    (void)arg;
    HF_CHECK(log->event != NULL && memchr(log->text, 0, sizeof(log->text)) != NULL);
}

static void operation_promise(void *arg, uint32_t epoch, int64_t deadline_ns)
{
    (void)arg;
    box->disk.lease_epoch = epoch;
    box->disk.lease_ns = deadline_ns;
}

static void operation_session(void *arg, enum renewal_state state, uint32_t epoch)
{
    (void)arg;
    (void)state;
    HF_CHECK(epoch > 0);
}

static int64_t operation_now(void *arg)
{
    (void)arg;
    return box->now_ns;
}

/* SplitMix64, as in mutate.c. */
static uint64_t operation_random(void *arg)
{
    uint64_t z = box->random += UINT64_C(0x9e3779b97f4a7c15);
    (void)arg;
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* ---- starts of the agent ---- */

static void load_disk(struct quorum *quorum)
{
    const struct box_disk *disk = &box->disk;
    HF_CHECK(quorum_load_round(quorum, disk->round));
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct quorum_promise promise = {.ballot = disk->promised[p]};
        struct quorum_checkpoint checkpoint = {p, disk->checkpoints[p]};
        message_partition_add(&promise.partitions, p);
        HF_CHECK(promise.ballot == 0 || quorum_load_promise(quorum, &promise));
        HF_CHECK(checkpoint.checkpoint.order.ballot == 0 ||
                 quorum_load_checkpoint(quorum, &checkpoint));
    }
    for (uint32_t i = 0; i < disk->register_count; i++) {
        HF_CHECK(quorum_load_register(quorum, &disk->registers[i]));
    }
    for (uint32_t i = 0; i < disk->mark_count; i++) {
        HF_CHECK(quorum_load_mark(quorum, &disk->marks[i]));
    }
    for (uint32_t i = 0; i < box->voter_count; i++) {
        HF_CHECK(disk->members[i].voter.length == 0 ||
                 quorum_load_member(quorum, &disk->members[i]));
        HF_CHECK(disk->seen[i].voter.length == 0 || quorum_load_seen(quorum, &disk->seen[i]));
    }
    quorum_set_commit(quorum, disk->commit);
}

static void make_quorum(struct message_rules *rules, struct message *header)
{
    struct quorum_config config = {.limits = quorum_limits,
                                   .membership = 1,
                                   .voter_count = box->voter_count,
                                   .self = box->self,
                                   .rejoin = box->disk.rejoin,
                                   .session_ttl_ns = BOX_TTL_NS,
                                   .grace_ns = BOX_GRACE_NS,
                                   .max_drift_percent = 10,
                                   .advertise = "tcp://box:1"};
    memcpy(config.store_id, box->disk.store_id, sizeof(config.store_id));
    memcpy(config.voters, box->voters, sizeof(box->voters));
    quorum_rules(&config, rules);
    message_zero(header);
    box->quorum = NULL;
    if (box->self == HOST_OBSERVER) {
        header->kind = MESSAGE_RENEW;
        header->membership = 1;
        header->from = box->name;
        memcpy(header->store_id, box->disk.store_id, sizeof(header->store_id));
        return;
    }
    HF_CHECK(quorum_config_error(&config) == NULL);
    box->quorum_memory = pages_take(quorum_size(&quorum_limits));
    box->quorum = quorum_init(box->quorum_memory, &config, box->names);
    load_disk(box->quorum);
    quorum_header(box->quorum, MESSAGE_RENEW, header);
}

static void make_region(void)
{
    struct hfi_region_sizes sizes = {BOX_SLOTS, REGION_HOLDERS, BOX_BLOCKS};
    struct hfi_region_identity identity = {.cell = "box",
                                           .agent = "host-a",
                                           .namespace_name = "default",
                                           .grace_ns = BOX_GRACE_NS,
                                           .incarnation = operation_random(NULL)};
    pages_drop(box->region_memory, box->region_size);
    box->region_size = hfi_region_size(&sizes);
    box->region_memory = pages_take(box->region_size);
    hfi_region_format(box->region_memory, &sizes, &identity);
    HF_CHECK(hfi_region_attach(box->region_memory, box->region_size, &box->client_region) == NULL);
    memset(box->processes, 0, sizeof(box->processes)); /* processes of an earlier region are
                                                        * forgotten */
}

static void fill_host_config(struct host_config *config, bool adopted)
{
    *config = (struct host_config){.limits = {.locks = BOX_SLOTS,
                                              .clients = BOX_PROCESSES + 1,
                                              .handles = HANDLES,
                                              .blocks = BOX_BLOCKS,
                                              .watches = 3,
                                              .requests = 6},
                                   .cell = {3, "box"},
                                   .role = "voter",
                                   .version = "fuzz",
                                   .session_ttl_ns = BOX_TTL_NS,
                                   .grace_ns = BOX_GRACE_NS,
                                   .max_drift_percent = 10,
                                   .voter_count = box->voter_count,
                                   .self = box->self,
                                   .continued_epoch = adopted ? box->disk.epoch : 0,
                                   .namespace_count = 1,
                                   .namespaces = {"default"}};
    config->agent = box->name;
    memcpy(config->store_id, box->disk.store_id, sizeof(config->store_id));
    memcpy(config->voters, box->voters, sizeof(box->voters));
}

/* Makes the host core. Returns false if the region cannot be adopted. */
static bool make_host(bool adopted)
{
    struct host_config config;
    struct host_peer peer = {
        .pid = 1, .uid = 1, .account = 1, .command = "fuzz", .rights = {HOST_MAY_USE}};
    fill_host_config(&config, adopted);
    box->host_memory = pages_take(host_size(&config));
    box->host = host_init(box->host_memory, &config, box->names, &box->kernel);
    box->agent_region = box->client_region;
    HF_CHECK(host_add_region(box->host, 0, &box->agent_region, adopted) == NULL);
    for (uint32_t i = 0; i < BOX_SLOTS && adopted; i++) {
        const struct message_name *name = &box->disk.slots[i];
        HF_CHECK(name->length == 0 || host_load_slot(box->host, 0, i, name->bytes, name->length));
    }
    for (uint32_t i = 0; i < box->disk.register_count && adopted; i++) {
        const struct quorum_register *reg = &box->disk.registers[i];
        host_load_grant(box->host, &reg->name, &reg->value);
    }
    if (adopted && host_check_region(box->host, 0) != NULL) {
        return false;
    }
    for (uint32_t i = 0; i < BOX_PROCESSES && adopted; i++) {
        struct box_process *process = &box->processes[i];
        process->connection = 0;
        for (uint32_t k = 0; process->client != 0 && k < process->id_count; k++) {
            HF_CHECK(host_load_survivor(box->host, process->client, process->ids[k], process->nonce,
                                        &peer));
        }
    }
    return true;
}

static void make_gossip(void)
{
    struct gossip_config config = {.limits = gossip_limits,
                                   .self = box->name,
                                   .voter = box->self != HOST_OBSERVER,
                                   .address = "tcp://box:1",
                                   .silent_ns = BOX_TTL_NS + BOX_GRACE_NS};
    box->gossip_memory = pages_take(gossip_size(&gossip_limits));
    box->gossip = gossip_init(box->gossip_memory, &config, operation_random(NULL));
    host_set_gossip(box->host, box->gossip);
}

static void make_driver(const struct message_rules *rules, const struct message *header)
{
    struct renewal_config renewal = {.voter_count = box->voter_count,
                                     .session_ttl_ns = BOX_TTL_NS,
                                     .grace_period_ns = BOX_GRACE_NS,
                                     .max_drift_percent = 10,
                                     .asks_epoch = box->voter_count > 1,
                                     .rules = message_rules_digest(rules),
                                     .advertise = "tcp://box:1"};
    memcpy(renewal.voters, box->voters, sizeof(box->voters));
    box->renewal_memory = pages_take(renewal_size());
    box->renewal = renewal_init(box->renewal_memory, &renewal, header);
    struct driver_config config = {.host = box->host,
                                   .quorum = box->quorum,
                                   .renewal = box->renewal,
                                   .gossip = box->gossip,
                                   .self = box->name,
                                   .voter_count = box->voter_count,
                                   .rules = *rules,
                                   .operations = {.act = operation_act,
                                                  .send = operation_send,
                                                  .send_gossip = operation_send_gossip,
                                                  .address = operation_address,
                                                  .commit = operation_commit,
                                                  .log = operation_log,
                                                  .promise = operation_promise,
                                                  .session = operation_session,
                                                  .now_ns = operation_now,
                                                  .random = operation_random}};
    memcpy(config.voters, box->voters, sizeof(box->voters));
    memcpy(config.store_id, box->disk.store_id, sizeof(config.store_id));
    box->driver = driver_create(&config);
    HF_CHECK(box->driver != NULL);
}

static void drop_cores(void)
{
    struct host_config config;
    fill_host_config(&config, false);
    driver_destroy(box->driver);
    pages_drop(box->host_memory, host_size(&config));
    pages_drop(box->names_memory, names_size(NAMES));
    pages_drop(box->quorum_memory, quorum_size(&quorum_limits));
    pages_drop(box->gossip_memory, gossip_size(&gossip_limits));
    pages_drop(box->renewal_memory, renewal_size());
    box->driver = NULL;
    box->host_memory = box->names_memory = box->quorum_memory = box->gossip_memory = NULL;
    box->renewal_memory = NULL;
}

/* Begins a new session as agent/run/start.c does: its epoch is durable, and the old region is
 * abandoned. */
static void begin_epoch(void)
{
    memset(box->disk.slots, 0, sizeof(box->disk.slots));
    box->disk.epoch++;
    if (box->quorum != NULL) {
        (void)!quorum_keep_opened(box->quorum, &box->disk.seen[box->self]);
    }
    box->disk.commit++;
    make_region();
    if (box->quorum != NULL) {
        quorum_set_commit(box->quorum, box->disk.commit);
    }
}

/* Starts the agent. adopted: it adopts the present region. Returns false if it cannot adopt the
 * region. */
static bool start(bool adopted)
{
    struct message_rules rules;
    struct message header;
    box->names_memory = pages_take(names_size(NAMES));
    box->names = names_init(box->names_memory, NAMES, operation_random(NULL));
    make_quorum(&rules, &header);
    if (!adopted) {
        begin_epoch();
    }
    if (!make_host(adopted)) {
        return false;
    }
    make_gossip();
    make_driver(&rules, &header);
    driver_start(box->driver, box->disk.epoch, adopted);
    return true;
}

void box_restart(void)
{
    const struct box_disk *disk = &box->disk;
    bool adopted = disk->epoch != 0 && disk->lease_epoch == disk->epoch &&
                   box->now_ns <= disk->lease_ns + BOX_GRACE_NS;
    drop_cores();
    box->flying = NULL;
    box->disk_fails = false;
    box->slow_disk = false;
    if (!start(adopted)) {
        drop_cores();
        HF_CHECK(adopted && start(false));
    }
}

void box_open(struct draw draw)
{
    static const char *const names[] = {"host-a", "host-b", "host-c", "host-x"};
    box = calloc(1, sizeof(*box));
    HF_CHECK(box != NULL);
    box->draw = draw;
    uint8_t shape = draw_byte(&box->draw);
    box->voter_count = (shape & 1) != 0 ? 1 : BOX_VOTERS;
    box->self = (shape & 6) == 6 ? HOST_OBSERVER : 0;
    box->slow_disk = (shape & 8) != 0;
    box->disk.rejoin = (shape & 16) != 0 && box->voter_count > 1 && box->self == 0;
    for (uint32_t i = 0; i < BOX_VOTERS; i++) {
        message_agent_set(&box->voters[i], names[i], 6);
    }
    message_agent_set(&box->name, names[box->self == 0 ? 0 : 3], 6);
    box->disk.store_id[0] = 100;
    box->disk.store_id[1] = 1;
    box->disk.commit = 1;
    box->now_ns = 1000000 * BOX_MS;
    box->random = shape;
    box->tokens = 1;
    box->kernel = (struct hfi_kernel){kernel_sleep_agent, kernel_wake, kernel_now, kernel_ring,
                                      box};
    box->client_kernel = (struct hfi_kernel){kernel_sleep, kernel_wake, kernel_now, kernel_ring,
                                             box};
    HF_CHECK(start(false));
}

void box_close(void)
{
    drop_cores();
    pages_drop(box->region_memory, box->region_size);
    free(box);
    box = NULL;
}

void box_check(void)
{
    host_check_invariants(box->host);
    gossip_check_invariants(box->gossip);
    if (box->quorum != NULL) {
        quorum_check_invariants(box->quorum);
    }
}
