/*
 * A simulated agent: the real driver with the real cores. This file has the driver's operations.
 * They send messages into the network. A commit becomes durable some time after the driver asked
 * for it, or never.
 *
 * The agent may be killed at every atomic step of the host core, and between any two other steps.
 * If it is killed during a commit, the batch is on the disk as a whole, or not at all.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/check.h"
#include "proto/wire.h"
#include "sim.h"

static const struct quorum_limits quorum_limits = {
    .registers = 64, .agents = 40, .requests = 192, .shares = 96};
enum { NAMES = 96, STEPS_BEFORE_REST = 200000, STOP_MS = 1000 };

uint32_t agent_of_name(const struct message_agent *name)
{
    for (uint32_t i = 0; i < world.agent_count; i++) {
        if (memcmp(&world.agents[i].name, name, sizeof(*name)) == 0) {
            return i;
        }
    }
    return AGENTS;
}

/* ---- the driver's operations ---- */

static void operation_act(void *arg, const struct host_action *action, const unsigned char *bytes)
{
    host_act(arg, action, bytes);
}

static void operation_send(void *arg, const struct message_agent *to, const struct message *message)
{
    struct sim_agent *agent = arg;
    uint32_t index = agent_of_name(to);
    if (!message_valid(message)) {
        sim_fail("host %u sends a message that makes no sense: kind %d", agent->index,
                 message->kind);
    }
    if (index == agent->index || index == AGENTS) {
        sim_fail("host %u sends a message of kind %d to %s", agent->index, message->kind,
                 index == AGENTS ? "nobody" : "itself");
    }
    watch_sent(agent, index, message);
    if (message->kind == MESSAGE_ACQUIRE) {
        order_asked(message);
    }
    net_send(agent->index, index, message);
    sim_point();
}

static void operation_send_gossip(void *arg, const struct message_agent *to, const void *bytes,
                                  size_t size)
{
    const struct sim_agent *agent = arg;
    uint32_t index = agent_of_name(to);
    if (index != agent->index && index != AGENTS) {
        net_send_gossip(agent->index, index, bytes, size);
    }
}

static void address_of(const struct sim_agent *agent, char *text, size_t size)
{
    int ignored = snprintf(text, size, "sim://%.*s", agent->name.length, agent->name.text);
    (void)ignored;
}

static void operation_address(void *arg, const struct message_agent *agent, const char *address)
{
    char text[MESSAGE_ADDRESS_MAX];
    uint32_t index = agent_of_name(agent);
    (void)arg;
    if (index == AGENTS) {
        sim_fail("an agent that there is not says where it listens");
    }
    address_of(&world.agents[index], text, sizeof(text));
    if (strcmp(text, address) != 0) {
        sim_fail("host %u is said to listen at %s", index, address);
    }
}

/* Ends the agent's commit: the batch reaches the disk, or the commit fails. A failed commit may
 * still have reached the disk. */
static void batch_lands(struct sim_agent *agent)
{
    const struct driver_batch *batch = agent->batch;
    agent->batch = NULL;
    if (agent->batch_fails) {
        if (sim_draw(2) == 0) {
            disk_apply(agent, batch);
        }
        driver_committed(agent->driver, 0, "the disk fails");
        return;
    }
    if (broken != BREAK_COMMIT || sim_chance(3)) {
        disk_apply(agent, batch);
    }
    driver_committed(agent->driver, agent->disk.commit, NULL);
}

static void operation_commit(void *arg, const struct driver_batch *batch)
{
    struct sim_agent *agent = arg;
    HF_CHECK(agent->batch == NULL && driver_batch_next(batch, &(size_t){0}) != NULL);
    int64_t takes_ns = 20000 + sim_draw(2000000);
    if (world.faults.slow_disk && sim_draw(16) == 0) {
        takes_ns = sim_draw(900) * SIM_MS;
    }
    agent->batch = batch;
    agent->batch_fails = sim_chance(world.faults.fail);
    agent->durable_ns = sim_now() + takes_ns;
    sim_point();
    if (world.agent_count == 1) { /* the commit ends within the call, as in a real cell of one
                                   * voter */
        sim_point();
        agent->durable_ns = sim_now();
        batch_lands(agent);
        sim_point();
    }
}

static void operation_log(void *arg, const struct action_log *log)
{
    const struct sim_agent *agent = arg;
    sim_tell("host %u: %s %.*s %lld %s", agent->index, log->event, log->agent.length,
             log->agent.text, (long long)log->number, log->text);
}

static void operation_promise(void *arg, uint32_t epoch, int64_t deadline_ns)
{
    struct sim_agent *agent = arg;
    watch_promise(agent, epoch, deadline_ns);
    agent->lease_file = (struct lease_file){epoch, deadline_ns, true};
    agent->serving = true;
}

static void operation_session(void *arg, enum renewal_state state, uint32_t epoch)
{
    static const char *const words[] = {"safe", "in jeopardy", "lost"};
    const struct sim_agent *agent = arg;
    sim_tell("host %u: session %u is %s", agent->index, epoch, words[state]);
}

/* ---- a host core that is stopped in a region: see agent/run/keeper.h ---- */

/* Keeps the session alive while the loop is stopped in a region. agent->taken stays the packet that
 * the loop was handling. No other fiber runs during this function, so the agent cannot be killed in
 * it. */
static void keep_session(struct sim_agent *agent)
{
    struct net_packet *packet;
    driver_keep_begin(agent->driver);
    while ((packet = net_take(agent->index)) != NULL) {
        const struct message_agent *from = &world.agents[packet->from].name;
        if (packet->kind == NET_LINK) {
            driver_link(agent->driver, from, packet->up);
        } else if (packet->kind == NET_GOSSIP) {
            driver_received_gossip(agent->driver, from, packet->bytes, packet->size);
        } else {
            driver_received(agent->driver, (void *)packet->bytes);
        }
        free(packet);
    }
    driver_keep(agent->driver);
    driver_keep_end(agent->driver);
}

static void operation_lend(void *arg)
{
    struct sim_agent *agent = arg;
    if (!agent->serving || !sim_chance(2 * world.faults.held)) {
        return;
    }
    int64_t until_ns = sim_now() + 1 + (int64_t)(sim_random() % (uint64_t)(4 * SIM_TTL_NS));
    sim_tell("host %u: its host core is held up for %lld us", agent->index,
             (long long)(until_ns - sim_now()) / 1000);
    agent->stalled_ns = agent->stalled_ns == 0 ? sim_now() : agent->stalled_ns;
    while (sim_now() < until_ns) {
        fiber_wait(sim_now() + 20 * SIM_MS);
        keep_session(agent);
    }
}

static void operation_take_back(void *arg)
{
    (void)arg;
}

static void operation_prolong(void *arg, uint32_t epoch, int64_t deadline_ns)
{
    struct sim_agent *agent = arg;
    if (agent->note.given_up == 0) {
        hfi_prolong(agent->mapped.header, &agent->kernel, deadline_ns, epoch);
    }
}

static int64_t operation_now(void *arg)
{
    return clock_now(arg);
}

static uint64_t operation_random(void *arg)
{
    (void)arg;
    return sim_random();
}

/* ---- starts of the agent ---- */

static void *keep(void **memory, size_t *kept, size_t size)
{
    if (*memory == NULL || *kept != size) {
        free(*memory);
        *memory = calloc(1, size);
        HF_CHECK(*memory != NULL);
        *kept = size;
    } else {
        memset(*memory, 0, size);
    }
    return *memory;
}

static void quorum_config_of(const struct sim_agent *agent, struct quorum_config *config)
{
    const struct message_voters *record = voters_of(agent);
    uint32_t self = message_voters_find(record, &agent->name);
    *config = (struct quorum_config){.limits = quorum_limits,
                                     .membership = 1,
                                     .voter_count = record->count,
                                     .self = self < record->count ? self : QUORUM_NO_VOTER,
                                     .name = agent->name,
                                     .rejoin = agent->disk.rejoin,
                                     .recovery_wait_ns = agent->disk.recovery_wait_ns,
                                     .session_ttl_ns = SIM_TTL_NS,
                                     .grace_ns = SIM_GRACE_NS,
                                     .max_drift_percent = SIM_DRIFT_PERCENT};
    memcpy(config->store_id, agent->disk.store_id, sizeof(config->store_id));
    address_of(agent, config->advertise, sizeof(config->advertise));
    int ignored = snprintf(config->release, sizeof(config->release), "0.0-sim%u", agent->index);
    (void)ignored;
    for (uint32_t i = 0; i < record->count; i++) {
        config->voters[i] = record->of[i].name;
    }
    const struct message_voters *written = voters_written(agent);
    for (uint32_t i = 0; i < written->count; i++) {
        config->trusted[config->trusted_count++] = written->of[i].name;
    }
}

static void core_make(struct sim_agent *agent, const struct quorum_config *config)
{
    HF_CHECK(quorum_config_error(config) == NULL);
    agent->quorum = quorum_init(
        keep(&agent->quorum_memory, &agent->quorum_bytes, quorum_size(&quorum_limits)), config,
        agent->names);
    disk_load(&agent->disk, agent->quorum);
}

static void quorum_make(struct sim_agent *agent, struct message_rules *rules,
                        struct message *header)
{
    struct quorum_config config;
    quorum_config_of(agent, &config);
    quorum_rules(&config, rules);
    agent->quorum = NULL;
    if (config.self != QUORUM_NO_VOTER || store_has_voted(agent)) {
        core_make(agent, &config);
        quorum_header(agent->quorum, MESSAGE_RENEW, header);
        return;
    }
    message_zero(header);
    header->kind = MESSAGE_RENEW;
    header->membership = 1;
    header->from = agent->name;
    memcpy(header->store_id, agent->disk.store_id, sizeof(header->store_id));
    header->number = voters_of(agent)->number;
    header->digest = message_voters_digest(voters_of(agent));
}

/* A voter asks this observer to learn. */
static struct quorum *operation_learn(void *arg)
{
    struct sim_agent *agent = arg;
    struct quorum_config config;
    sim_tell("host %u learns", agent->index);
    quorum_config_of(agent, &config);
    core_make(agent, &config);
    return agent->quorum;
}

/* The agent uses another record from now on. It dials the new voters. An observer whose store votes
 * from now on restarts. */
static void operation_record(void *arg, const struct message_voters *record)
{
    struct sim_agent *agent = arg;
    for (uint32_t i = 0; i < record->count; i++) {
        uint32_t other = agent_of_name(&record->of[i].name);
        if (other != agent->index) {
            net_dial(agent->index, other);
        }
    }
    agent->joins = agent->quorum == NULL && voters_has(record, agent);
}

static void renewal_make(struct sim_agent *agent, const struct message_rules *rules,
                         const struct message *header)
{
    const struct message_voters *record = voters_of(agent);
    struct renewal_config config = {.voter_count = record->count,
                                    .session_ttl_ns = SIM_TTL_NS,
                                    .grace_period_ns = SIM_GRACE_NS,
                                    .max_drift_percent = SIM_DRIFT_PERCENT,
                                    .asks_epoch = world.agent_count > 1,
                                    .rules = message_rules_digest(rules),
                                    .durations = message_durations_digest(rules)};
    address_of(agent, config.advertise, sizeof(config.advertise));
    snprintf(config.release, sizeof(config.release), "0.0-sim%u", agent->index);
    for (uint32_t i = 0; i < record->count; i++) {
        config.voters[i] = record->of[i].name;
    }
    agent->renewal = renewal_init(
        keep(&agent->renewal_memory, &agent->renewal_bytes, renewal_size()), &config, header);
}

/* Gives the agent gossip, if the cell has it. Only one cell in four does, because no lock depends
 * on gossip. */
static void gossip_make(struct sim_agent *agent)
{
    struct gossip_config config = {.limits = {.agents = AGENTS + 1, .items = 256, .chunks = 1024},
                                   .self = agent->name,
                                   .voter = message_voters_find(voters_of(agent), &agent->name) <
                                            voters_of(agent)->count,
                                   .silent_ns = SIM_TTL_NS + SIM_GRACE_NS};
    agent->gossip = NULL;
    if (!world.gossip) {
        return;
    }
    address_of(agent, config.address, sizeof(config.address));
    agent->gossip = gossip_init(
        keep(&agent->gossip_memory, &agent->gossip_bytes, gossip_size(&config.limits)), &config,
        sim_random());
    host_set_gossip(agent->host, agent->gossip);
}

static void driver_make(struct sim_agent *agent, const struct message_rules *rules)
{
    struct driver_config config = {.host = agent->host,
                                   .quorum = agent->quorum,
                                   .renewal = agent->renewal,
                                   .gossip = agent->gossip,
                                   .self = agent->name,
                                   .voter_count = voters_of(agent)->count,
                                   .record = *voters_of(agent),
                                   .record_unsure = agent->disk.voters.number == 0 &&
                                                    !voters_has(voters_of(agent), agent),
                                   .rules = *rules,
                                   .operations = {.act = operation_act,
                                                  .send = operation_send,
                                                  .send_gossip = operation_send_gossip,
                                                  .address = operation_address,
                                                  .commit = operation_commit,
                                                  .log = operation_log,
                                                  .record = operation_record,
                                                  .learn = operation_learn,
                                                  .promise = operation_promise,
                                                  .session = operation_session,
                                                  .lend = operation_lend,
                                                  .take_back = operation_take_back,
                                                  .prolong = operation_prolong,
                                                  .now_ns = operation_now,
                                                  .random = operation_random,
                                                  .arg = agent}};
    memcpy(config.store_id, agent->disk.store_id, sizeof(config.store_id));
    for (uint32_t i = 0; i < voters_of(agent)->count; i++) {
        config.voters[i] = voters_of(agent)->of[i].name;
    }
    const struct message_voters *written = voters_written(agent);
    for (uint32_t i = 0; i < written->count; i++) {
        config.written[config.written_count++] = written->of[i].name;
    }
    HF_CHECK(agent->driver == NULL);
    agent->driver = driver_create(&config);
    HF_CHECK(agent->driver != NULL);
}

/* Must be called after each commit of a start. In some runs it kills the agent. */
static void starting(struct sim_agent *agent)
{
    if (world.agent_count == 1) {
        return;
    }
    if (agent->starts_again > 0 && sim_draw(2) == 0) {
        agent->starts_again--;
        agent_crash(agent, sim_draw(20) * SIM_MS);
        fiber_exit();
    }
    sim_point();
}

/* Keeps the commit that the store had when it was opened, as disk_keep_opened() does. */
static void keep_opened(struct sim_agent *agent)
{
    struct disk *disk = &agent->disk;
    struct quorum_seen *row = &disk->seen[agent->index];
    if (agent->quorum != NULL) {
        (void)!quorum_keep_opened(agent->quorum, row);
    } else if (row->commit == 0) {
        quorum_opened_row(&agent->name, disk->store_id, disk->commit, row);
    }
}

/* Begins a new epoch with two commits, as agent/run/start.c does. */
static void begin_epoch(struct sim_agent *agent)
{
    struct disk *disk = &agent->disk;
    memset(disk->slots, 0, sizeof(disk->slots));
    disk->epoch++;
    if (broken != BREAK_OPENED) {
        keep_opened(agent);
    }
    disk->commit++;
    starting(agent);
    agent->note = (struct host_region_note){0};
    agent->spoilt = false;
    region_make(agent);
    disk->commit++;
    starting(agent);
    if (agent->quorum != NULL) {
        quorum_set_commit(agent->quorum, disk->commit);
    }
}

/* Deletes the rows of a region that the agent does not adopt. */
static void leave_rows(struct sim_agent *agent)
{
    struct disk *disk = &agent->disk;
    memset(disk->slots, 0, sizeof(disk->slots));
    keep_opened(agent);
    disk->commit++;
    starting(agent);
    if (agent->quorum != NULL) {
        quorum_set_commit(agent->quorum, disk->commit);
    }
}

/* Dials the voters of `record`: the agent's own record, or that of its configuration, whose voters
 * may know a newer record. */
static void dial(const struct sim_agent *agent, const struct message_voters *record)
{
    for (uint32_t i = 0; i < record->count; i++) {
        uint32_t other = agent_of_name(&record->of[i].name);
        if (other != agent->index) {
            net_dial(agent->index, other);
        }
    }
}

static void agent_begin(struct sim_agent *agent)
{
    struct message_rules rules;
    struct message header;
    bool adopted = agent->lease_file.valid && agent->lease_file.epoch == agent->disk.epoch &&
                   clock_now(agent) <= agent->lease_file.deadline_ns + SIM_GRACE_NS &&
                   agent->region_count > 0 &&
                   agent->regions[agent->region_count - 1].memory != NULL &&
                   agent->regions[agent->region_count - 1].store == agent->disk.store_id[0];
    store_retire(agent);
    watch_starts(agent);
    agent->names = names_init(keep(&agent->names_memory, &agent->names_bytes, names_size(NAMES)),
                              NAMES, sim_random());
    quorum_make(agent, &rules, &header);
    if (!adopted) {
        begin_epoch(agent);
    }
    sim_tell("host %u: agent starts, epoch %u, %s", agent->index, agent->disk.epoch,
             adopted ? "adopted" : "new");
    renewal_make(agent, &rules, &header);
    host_make(agent, adopted);
    if (region_is_given_up(agent)) {
        leave_rows(agent);
    }
    gossip_make(agent);
    host_load(agent);
    driver_make(agent, &rules);
    dial(agent, voters_of(agent));
    dial(agent, voters_written(agent));
    driver_start(agent->driver, agent->disk.epoch, adopted);
}

/* ---- the loop of the agent ---- */

static bool read_network(struct sim_agent *agent)
{
    struct net_packet *packet = agent->taken = net_take(agent->index);
    if (packet == NULL) {
        return false;
    }
    const struct message_agent *from = &world.agents[packet->from].name;
    if (packet->kind == NET_LINK) {
        sim_tell("host %u: the connection to %u is %s", agent->index, packet->from,
                 packet->up ? "there" : "broken");
        driver_link(agent->driver, from, packet->up);
    } else if (packet->kind == NET_GOSSIP) {
        driver_received_gossip(agent->driver, from, packet->bytes, packet->size);
    } else {
        struct message *message = (void *)packet->bytes;
        if (broken == BREAK_FRESH && message->kind == MESSAGE_GRANT) {
            message->as.grant.fresh = true;
        }
        watch_tell("received", packet->from, agent->index, message);
        driver_received(agent->driver, message);
    }
    agent->taken = NULL;
    free(packet);
    return true;
}

static bool look_at_disk(struct sim_agent *agent)
{
    if (agent->batch == NULL || agent->durable_ns > sim_now()) {
        return false;
    }
    batch_lands(agent);
    return true;
}

static bool read_sockets(struct sim_agent *agent)
{
    uint32_t first = sim_draw(world.process_count);
    for (uint32_t i = 0; agent->serving && i < world.process_count; i++) {
        if (host_read_socket(agent, &world.processes[(first + i) % world.process_count])) {
            return true;
        }
    }
    return false;
}

/* Does one thing that is due, which it chooses at random. Returns false if nothing is due. */
static bool turn(struct sim_agent *agent)
{
    if (agent->stalled_ns != 0 && sim_now() - agent->stalled_ns > SIM_TTL_NS / 3) {
        agent->stalled_ns = 0;
        driver_stalled(agent->driver);
        return true;
    }
    agent->stalled_ns = 0;
    if (region_see(agent)) {
        return true;
    }
    if (agent->rung && sim_draw(2) == 0) {
        agent->rung = false;
        struct host_event event = {.kind = HOST_RING};
        driver_event(agent->driver, &event);
        return true;
    }
    if (sim_draw(4) == 0 && host_look_for_dead(agent)) {
        return true; /* the agent may notice the end of a process before the end of its socket */
    }
    if (driver_next_ns(agent->driver) <= clock_now(agent) && sim_draw(2) == 0) {
        driver_tick(agent->driver);
        return true;
    }
    if (sim_draw(2) == 0 && look_at_disk(agent)) {
        return true;
    }
    if (read_network(agent) || read_sockets(agent) || look_at_disk(agent) ||
        host_look_for_dead(agent)) {
        return true;
    }
    if (driver_next_ns(agent->driver) <= clock_now(agent)) {
        driver_tick(agent->driver);
        return true;
    }
    return agent->rung;
}

static void check_cores(struct sim_agent *agent)
{
    host_check_invariants(agent->host);
    /* Checks that the agent has repaired nothing. The values in a region are right, because no
     * process of the simulator writes rubbish. Only a spoilt region needs repairs, because the
     * agent reads zeros from it. */
    uint64_t repairs = host_counts(agent->host)->repairs;
    if (agent->spoilt || repairs < agent->repairs) {
        agent->repairs = repairs;
    }
    if (repairs != agent->repairs && broken == BREAK_NOTHING) {
        sim_fail("host %u puts its region right, where nothing is wrong", agent->index);
    }
    if (agent->quorum != NULL) {
        quorum_check_invariants(agent->quorum);
    }
}

/* Returns the next time at which the agent has something to do, if no event comes earlier. */
static int64_t next_ns(const struct sim_agent *agent)
{
    int64_t at_ns = clock_true(agent, driver_next_ns(agent->driver));
    int64_t due_ns = net_due_ns(agent->index);
    at_ns = due_ns < at_ns ? due_ns : at_ns;
    if (agent->spoilt && agent->noticed_ns > sim_now()) {
        at_ns = agent->noticed_ns < at_ns ? agent->noticed_ns : at_ns;
    }
    if (region_is_given_up(agent)) {
        int64_t anew_ns = clock_true(agent, agent->anew_ns);
        at_ns = anew_ns > sim_now() && anew_ns < at_ns ? anew_ns : at_ns;
    }
    at_ns = agent->stops_ns != 0 && agent->stops_ns < at_ns ? agent->stops_ns : at_ns;
    return agent->batch != NULL && agent->durable_ns < at_ns ? agent->durable_ns : at_ns;
}

/* After SIGTERM: makes the agent resign, and ends it when it has resigned or at stops_ns, as
 * agent/run/loop.c does. */
static void see_to_end(struct sim_agent *agent)
{
    if (agent->stops_ns == 0) {
        return;
    }
    if (!agent->resigns && broken != BREAK_RESIGN) {
        driver_resign(agent->driver);
        driver_flush(agent->driver);
    }
    agent->resigns = true;
    if (sim_now() >= agent->stops_ns || broken == BREAK_RESIGN || driver_resigned(agent->driver)) {
        agent_crash(agent, agent->down_ns);
        fiber_exit();
    }
}

static void agent_main(void *arg)
{
    struct sim_agent *agent = arg;
    uint32_t turns = 0;
    agent_begin(agent);
    for (;;) { /* the loop runs until the agent is killed, or its disk fails */
        bool busy = turn(agent);
        if (!busy || sim_draw(3) == 0) {
            driver_flush(agent->driver);
        }
        check_cores(agent);
        if (driver_failed(agent->driver) != NULL) {
            agent_crash(agent, sim_draw(200) * SIM_MS);
            fiber_exit();
        }
        see_to_end(agent);
        if (agent->joins && voters_has(voters_of(agent), agent)) { /* the record is durable */
            agent_crash(agent, sim_draw(20) * SIM_MS);
            fiber_exit();
        }
        if (busy) {
            if (++turns > STEPS_BEFORE_REST) {
                sim_fail("host %u: an agent never comes to rest", agent->index);
            }
            sim_point();
            continue;
        }
        turns = 0;
        fiber_wait(next_ns(agent));
    }
}

void agent_start(struct sim_agent *agent)
{
    kernel_fill(&agent->kernel, agent);
    agent->up = true;
    agent->serving = false;
    agent->rung = true; /* clients may have sent rings while no agent ran */
    agent->stalled_ns = 0;
    agent->stops_ns = 0;
    agent->resigns = false;
    agent->joins = false;
    agent->starts++;
    agent->version = WIRE_VERSION;
    if (world.faults.older) {
        static const uint8_t older[] = {0, 2, 1, 2}; /* half of the starts use version 3 */
        agent->version -= older[faults_draw_beside(agent->index, agent->starts, 4)];
    }
    fiber_start(&agent->fiber, agent_main, agent);
}

/* ---- ends of the agent ---- */

static void process_ends(struct sim_agent *agent, int64_t down_ns, bool quiet)
{
    if (agent->batch != NULL && (agent->durable_ns <= sim_now() || sim_draw(2) == 0)) {
        disk_apply(agent, agent->batch);
    }
    agent->batch = NULL;
    agent->up = false;
    agent->starts_ns = sim_now() + down_ns;
    if (fiber_current() != &agent->fiber) {
        fiber_kill(&agent->fiber);
    }
    net_gone(agent->index, quiet);
    free(agent->taken);
    agent->taken = NULL;
    driver_destroy(agent->driver);
    agent->driver = NULL;
    for (uint32_t i = 0; i < world.process_count; i++) {
        struct connection *connection = &world.processes[i].connection;
        if (world.processes[i].agent == agent && connection->number != 0) {
            connection->broken = true;
            connection->told = true;
            fiber_tell(&world.processes[i].fiber);
        }
    }
}

void agent_crash(struct sim_agent *agent, int64_t down_ns)
{
    if (agent->up) {
        sim_tell("host %u: agent crashes, down for %lld us", agent->index,
                 (long long)(down_ns / 1000));
        order_killed(agent);
        process_ends(agent, down_ns, false);
    }
}

void agent_stop(struct sim_agent *agent, int64_t down_ns)
{
    if (!agent->up || !agent->serving) { /* an agent that has not begun to serve ends at once */
        agent_crash(agent, down_ns);
    } else if (agent->stops_ns == 0) {
        sim_tell("host %u: agent is told to end", agent->index);
        agent->stops_ns = sim_now() + STOP_MS * SIM_MS;
        agent->down_ns = down_ns;
        fiber_tell(&agent->fiber);
    }
}

void agent_reboot(struct sim_agent *agent, int64_t down_ns)
{
    sim_tell("host %u reboots, down for %lld us", agent->index, (long long)(down_ns / 1000));
    if (agent->up) {
        process_ends(agent, down_ns, true);
    } else if (agent->starts_ns < sim_now() + down_ns) {
        agent->starts_ns = sim_now() + down_ns;
    }
    agent->lease_file.valid = false;
    memset(agent->records, 0, sizeof(agent->records));
    memset(agent->kept, 0, sizeof(agent->kept));
    memset((void *)agent->delays_ms, 0, sizeof(agent->delays_ms));
    if (agent->region_count > 0) { /* no process maps the last region any more */
        struct region_memory *last = &agent->regions[agent->region_count - 1];
        free(last->memory);
        free(last->zeros);
        *last = (struct region_memory){0};
    }
    if (world.agent_count > 1) {
        check_reboots(agent);
        clock_boot(agent);
    }
}

/* ---- the end of a run ---- */

void agent_free(struct sim_agent *agent)
{
    for (uint32_t i = 0; i < agent->region_count; i++) {
        free(agent->regions[i].memory);
        free(agent->regions[i].zeros);
    }
    driver_destroy(agent->driver);
    free(agent->taken);
    free(agent->copy);
    free(agent->old);
    free(agent->names_memory);
    free(agent->quorum_memory);
    free(agent->host_memory);
    free(agent->gossip_memory);
    free(agent->renewal_memory);
    fiber_free(&agent->fiber);
    *agent = (struct sim_agent){.index = agent->index};
}
