/*
 * A simulated agent: the real quorum core, renewal, names and host core, driven as their headers
 * say. Each step's PERSISTs are one commit, which the agent may be killed before or after; what
 * stands behind them is done afterwards. Messages to itself wait in a queue that a crash loses.
 *
 * Regions and lifelines are the host's memory: they outlive the agent, and end with a reboot.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "holdfast/holdfast.h"
#include "proto/check.h"
#include "sim.h"

static const struct quorum_limits quorum_limits = {
    .registers = 64, .agents = 8, .requests = 64, .shares = 64};
enum { NAMES = 64, CLIENTS = 24, SIM_HANDLES = 128, WATCHES = 8, STEPS_BEFORE_REST = 200000 };

static void agent_name(const struct sim_agent *agent, struct message_agent *out)
{
    char text[8];
    int size = snprintf(text, sizeof(text), "host-%c", (char)('a' + agent->index));
    message_agent_set(out, text, (size_t)size);
}

/* ---- the kernel ---- */

static void kernel_sleep(void *arg, _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    (void)arg;
    fiber_futex_sleep(word, expected, timeout_ns);
}

static void kernel_wake(void *arg, _Atomic uint32_t *word, int count)
{
    (void)arg;
    if (broken == BREAK_WAKE && sim_chance(2)) {
        return;
    }
    fiber_futex_wake(world.fibers, AGENTS + PROCESSES, word, count);
}

static int64_t kernel_now(void *arg)
{
    (void)arg;
    return sim_now();
}

void agent_bell(void *arg)
{
    struct sim_agent *agent = arg;
    agent->bell = true;
    fiber_tell(&agent->fiber);
}

void kernel_fill(struct hfi_kernel *kernel, struct sim_agent *agent)
{
    *kernel = (struct hfi_kernel){.sleep = kernel_sleep,
                                  .wake = kernel_wake,
                                  .now_ns = kernel_now,
                                  .bell = agent_bell,
                                  .arg = agent};
}

/* ---- committing, sending ---- */

static void commit(struct sim_agent *agent)
{
    sim_point();
    sim_point();
    if (broken != BREAK_COMMIT || sim_chance(3)) {
        agent->disk = agent->uncommitted;
    }
    sim_point();
    sim_point();
}

static void own_put(struct sim_agent *agent, const struct message *message)
{
    HF_CHECK(agent->own_count < OWN_MESSAGES);
    agent->own[(agent->own_first + agent->own_count++) % OWN_MESSAGES] = *message;
}

static void quorum_act(struct sim_agent *agent)
{
    bool any = false;
    for (uint32_t i = 0; i < agent->actions.count; i++) {
        disk_write(&agent->uncommitted, &agent->actions.items[i]);
        any = any || agent->actions.items[i].kind != ACTION_SEND;
    }
    if (any) {
        commit(agent);
    }
    for (uint32_t i = 0; i < agent->actions.count; i++) {
        const struct action *action = &agent->actions.items[i];
        if (action->kind == ACTION_SEND && action->as.send.to == agent->index) {
            own_put(agent, &action->as.send.message);
        }
    }
    agent->actions.count = 0;
}

static void quorum_do(struct sim_agent *agent, struct quorum_event event)
{
    event.now_ns = sim_now();
    event.random = sim_random();
    quorum_step(agent->quorum, &event, &agent->actions);
    quorum_check_invariants(agent->quorum);
    quorum_act(agent);
}

static struct sim_process *process_of(uint32_t connection)
{
    for (uint32_t i = 0; i < PROCESSES; i++) {
        if (connection != 0 && world.processes[i].connection.number == connection) {
            return &world.processes[i];
        }
    }
    return NULL;
}

static struct lifeline *lifeline_of(struct sim_agent *agent, uint32_t client)
{
    for (uint32_t i = 0; i < LIFELINES; i++) {
        if (agent->lifelines[i].used && agent->lifelines[i].client == client) {
            return &agent->lifelines[i];
        }
    }
    return NULL;
}

static void welcomed(struct sim_agent *agent, const struct host_action *action)
{
    struct sim_process *process = process_of(action->connection);
    struct lifeline *line = lifeline_of(agent, action->client);
    if (line == NULL) {
        for (uint32_t i = 0; i < LIFELINES && line == NULL; i++) {
            line = agent->lifelines[i].used ? NULL : &agent->lifelines[i];
        }
        HF_CHECK(line != NULL);
        *line = (struct lifeline){.used = true,
                                  .client = action->client,
                                  .nonce = action->as.identity.nonce,
                                  .ids = {action->client},
                                  .id_count = 1};
        line->process = process ? process->index : UINT32_MAX;
        line->generation = process ? process->generation : 0;
    }
    if (process != NULL) {
        process->connection.client = action->client;
        process->connection.welcomed = true;
    }
}

static void host_reply(struct sim_agent *agent, const struct host_action *action)
{
    struct sim_process *process = process_of(action->connection);
    if (process == NULL || process->connection.broken) {
        return;
    }
    int32_t region = -1;
    if (action->as.reply.fds == HOST_FD_REGION) {
        region = (int32_t)agent->region_count - 1;
    }
    if (!packets_put(&process->connection.to_client,
                     agent->host_actions.output + action->as.reply.offset, action->as.reply.size,
                     region) &&
        !action->as.reply.unasked) {
        sim_fail("a process has more answers than it asked for");
    }
    fiber_tell(&process->fiber);
}

/* The id may be another's soon: what still comes on the old one's socket is nobody's. */
static void forget(uint32_t client)
{
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct connection *connection = &world.processes[i].connection;
        if (connection->welcomed && connection->client == client) {
            connection->told = true;
            connection->broken = true;
            fiber_tell(&world.processes[i].fiber);
        }
    }
}

static void host_act_one(struct sim_agent *agent, const struct host_action *action)
{
    struct lifeline *line = NULL;
    struct sim_process *process = NULL;
    struct message message;
    switch (action->kind) {
    case HOST_SEND:
        quorum_header(agent->quorum, action->as.send.message.kind, &message);
        message.as = action->as.send.message.as;
        own_put(agent, &message);
        break;
    case HOST_REPLY:
        host_reply(agent, action);
        break;
    case HOST_WELCOMED:
        welcomed(agent, action);
        break;
    case HOST_HANG_UP:
        process = process_of(action->connection);
        if (process != NULL) {
            sim_tell("agent hangs up on process %u: %s", process->index, action->as.text);
            process->connection.broken = true;
            fiber_tell(&process->fiber);
        }
        break;
    case HOST_FORGET:
        line = lifeline_of(agent, action->client);
        if (line != NULL) {
            line->used = false;
        }
        forget(action->client);
        break;
    case HOST_ALIAS:
        line = lifeline_of(agent, action->client);
        HF_CHECK(line != NULL && line->id_count < IDS_MAX);
        line->ids[line->id_count++] = action->as.identity.holder;
        break;
    case HOST_LOG:
        sim_tell("agent: %s region %u slot %d token %llx number %lld", action->as.log.event,
                 action->as.log.region, (int)action->as.log.slot,
                 (unsigned long long)action->as.log.token, (long long)action->as.log.number);
        break;
    case HOST_PERSIST_SLOT:
    case HOST_PERSIST_NO_SLOT:
        break;
    }
}

static void host_act(struct sim_agent *agent)
{
    bool any = false;
    uint32_t done = 0;
    struct host_actions *actions = &agent->host_actions;
    for (uint32_t i = 0; i < actions->count; i++) {
        enum host_action_kind kind = actions->items[i].kind;
        bool persist = kind == HOST_PERSIST_SLOT || kind == HOST_PERSIST_NO_SLOT;
        if (persist) {
            disk_write_host(&agent->uncommitted, &actions->items[i]);
            any = true;
        } else if (!any) { /* nothing durable before it */
            host_act_one(agent, &actions->items[i]);
            done = i + 1;
        }
    }
    if (any) {
        commit(agent);
    }
    for (uint32_t i = done; i < actions->count; i++) {
        host_act_one(agent, &actions->items[i]);
        sim_point();
    }
    actions->count = 0;
    actions->output_used = 0;
}

static void host_do(struct sim_agent *agent, struct host_event event)
{
    event.now_ns = sim_now();
    event.random = sim_random();
    host_step(agent->host, &event, &agent->host_actions);
    host_check_invariants(agent->host);
    host_act(agent);
}

/* ---- the session ---- */

static void new_epoch(struct sim_agent *agent)
{
    agent->uncommitted.epoch++;
    agent->disk.epoch = agent->uncommitted.epoch; /* flushed by itself, before it is used */
}

static void lease_look(struct sim_agent *agent)
{
    struct host_event event = {.kind = HOST_LEASE};
    int64_t now_ns = sim_now();
    enum renewal_state state = renewal_state(&agent->renewal, now_ns);
    struct host_lease lease = {.deadline_ns = renewal_deadline_ns(&agent->renewal),
                               .epoch = renewal_epoch(&agent->renewal),
                               .lost = state == RENEWAL_LOST};
    if (agent->told_any && lease.deadline_ns == agent->told.deadline_ns &&
        lease.epoch == agent->told.epoch && lease.lost == agent->told.lost) {
        return;
    }
    if (!lease.lost && lease.deadline_ns == 0) {
        return; /* never safe yet */
    }
    agent->told = lease;
    agent->told_any = true;
    event.as.lease = lease;
    if (!lease.lost) {
        agent->lease_file = (struct lease_file){
            .epoch = lease.epoch, .deadline_ns = lease.deadline_ns, true};
    }
    host_do(agent, event);
    if (lease.lost) {
        sim_tell("agent: session %u is lost", lease.epoch);
        new_epoch(agent);
        renewal_start(&agent->renewal, agent->disk.epoch, false, sim_now(), sim_random(),
                      &agent->actions);
        quorum_act(agent);
    }
}

/* ---- starting ---- */

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

static void region_make(struct sim_agent *agent)
{
    struct hfi_region_sizes sizes = {
        .slot_count = SLOTS, .holder_count = 65535, .block_count = BLOCKS};
    struct hfi_region_identity identity = {
        .cell = "sim", .agent = "host-a", .namespace_name = "default", .grace_ns = SIM_GRACE_NS};
    identity.incarnation = sim_random();
    if (agent->region_count > 0) {
        struct hfi_header *before = agent->regions[agent->region_count - 1].region.header;
        if (before != NULL) {
            before->abandoned = 1;
            fiber_futex_wake(world.fibers, AGENTS + PROCESSES, &before->lease_wake, INT32_MAX);
        }
    }
    HF_CHECK(agent->region_count < REGIONS_MAX);
    struct region_memory *region = &agent->regions[agent->region_count++];
    uint64_t size = hfi_region_size(&sizes);
    region->memory = calloc(1, size);
    HF_CHECK(region->memory != NULL);
    hfi_region_format(region->memory, &sizes, &identity);
    const char *error = hfi_region_attach(region->memory, size, &region->region);
    HF_CHECK(error == NULL);
}

static void quorum_make(struct sim_agent *agent)
{
    struct quorum_config config = {.limits = quorum_limits,
                                   .membership = 1,
                                   .voter_count = AGENTS,
                                   .self = agent->index,
                                   .store_id = {1, 2},
                                   .session_ttl_ns = SIM_TTL_NS,
                                   .max_drift_percent = 10};
    struct renewal_config renewal = {.voter_count = AGENTS,
                                     .session_ttl_ns = SIM_TTL_NS,
                                     .grace_period_ns = SIM_GRACE_NS,
                                     .max_drift_percent = 10,
                                     .advertise = "sim"};
    struct message header;
    agent_name(agent, &config.voters[0]);
    renewal.voters[0] = config.voters[0];
    HF_CHECK(quorum_config_error(&config) == NULL);
    agent->names = names_init(keep(&agent->names_memory, &agent->names_bytes, names_size(NAMES)),
                              NAMES, sim_random());
    agent->quorum = quorum_init(
        keep(&agent->quorum_memory, &agent->quorum_bytes, quorum_size(&quorum_limits)), &config,
        agent->names);
    disk_load(&agent->disk, agent->quorum);
    quorum_header(agent->quorum, MESSAGE_RENEW, &header);
    memset(&agent->renewal, 0, sizeof(agent->renewal));
    renewal_init(&agent->renewal, &renewal, &header);
}

static void host_make(struct sim_agent *agent, bool adopted)
{
    struct host_config config = {
        .limits = {.locks = SLOTS,
                   .clients = CLIENTS,
                   .handles = SIM_HANDLES,
                   .blocks = BLOCKS,
                   .watches = WATCHES},
        .role = "voter",
        .version = "sim",
        .store_id = {1, 2},
        .session_ttl_ns = SIM_TTL_NS,
        .grace_ns = SIM_GRACE_NS,
        .max_drift_percent = 10,
        .voter_count = AGENTS,
        .continued_epoch = adopted ? agent->disk.epoch : 0,
        .namespace_count = 1,
        .namespaces = {"default"},
    };
    message_agent_set(&config.cell, "sim", 3);
    agent_name(agent, &config.agent);
    agent_name(agent, &config.voters[0]);
    agent->host = host_init(keep(&agent->host_memory, &agent->host_bytes, host_size(&config)),
                            &config, agent->names, &agent->kernel);
    agent->mapped = agent->regions[agent->region_count - 1].region;
    const char *error = host_add_region(agent->host, 0, &agent->mapped, adopted);
    HF_CHECK(error == NULL);
}

static void host_load(struct sim_agent *agent)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct slot_row *row = &agent->disk.slots[i];
        if (row->used && !host_load_slot(agent->host, 0, i, row->name.bytes, row->name.length)) {
            sim_fail("slot %u of the store does not load", i);
        }
    }
    for (uint32_t i = 0; i < agent->disk.register_count; i++) {
        host_load_grant(agent->host, &agent->disk.registers[i].name,
                        &agent->disk.registers[i].value);
    }
    const char *error = host_check_regions(agent->host);
    if (error != NULL) {
        sim_fail("the region cannot be adopted: %s", error);
    }
    struct host_peer peer = {.pid = 1, .uid = 1, .command = "sim", .rights = {HOST_MAY_USE}};
    for (uint32_t i = 0; i < LIFELINES; i++) {
        struct lifeline *line = &agent->lifelines[i];
        bool lives = line->used && line->process < PROCESSES &&
                     world.processes[line->process].alive &&
                     world.processes[line->process].generation == line->generation;
        line->told_dead = false;
        if (!lives && broken != BREAK_DEAD_HOLDERS) {
            line->used = false; /* the file goes: its ids are nobody's */
        }
        for (uint32_t k = 0; line->used && k < line->id_count; k++) {
            if (!host_load_survivor(agent->host, line->client, line->ids[k], line->nonce, &peer)) {
                sim_fail("holder id %u of a living process does not load", line->ids[k]);
            }
        }
        line->told_dead = broken == BREAK_DEAD_HOLDERS && !lives;
    }
}

static void agent_begin(struct sim_agent *agent)
{
    agent->uncommitted = agent->disk;
    bool adopted = agent->lease_file.valid && agent->lease_file.epoch == agent->disk.epoch &&
                   sim_now() <= agent->lease_file.deadline_ns + SIM_GRACE_NS &&
                   agent->region_count > 0 &&
                   agent->regions[agent->region_count - 1].memory != NULL;
    if (!adopted) {
        memset(agent->uncommitted.slots, 0, sizeof(agent->uncommitted.slots));
        agent->disk = agent->uncommitted;
        new_epoch(agent);
        region_make(agent);
    }
    sim_tell("agent starts: epoch %u, %s", agent->disk.epoch, adopted ? "adopted" : "new");
    quorum_make(agent);
    quorum_do(agent, (struct quorum_event){.kind = QUORUM_START});
    host_make(agent, adopted);
    host_load(agent);
    struct host_event start = {.kind = HOST_START};
    start.as.lease.epoch = agent->disk.epoch;
    host_do(agent, start);
    agent->told = start.as.lease;
    agent->told_any = false;
    renewal_start(&agent->renewal, agent->disk.epoch, adopted, sim_now(), sim_random(),
                  &agent->actions);
    quorum_act(agent);
}

/* ---- serving ---- */

static void own_message(struct sim_agent *agent)
{
    struct message message = agent->own[agent->own_first];
    agent->own_first = (agent->own_first + 1) % OWN_MESSAGES;
    agent->own_count--;
    if (!message_valid(&message)) {
        sim_fail("an agent sends itself a message that makes no sense: kind %d", message.kind);
    }
    if (message.kind == MESSAGE_RENEW_ACK) {
        renewal_acked(&agent->renewal, &message, sim_now(), &agent->actions);
        quorum_act(agent);
        lease_look(agent);
    } else if (message_is_for_host(message.kind)) {
        struct host_event event = {.kind = HOST_MESSAGE};
        event.as.message = &message;
        host_do(agent, event);
    } else {
        struct quorum_event event = {.kind = QUORUM_MESSAGE};
        event.as.message = &message;
        quorum_do(agent, event);
    }
}

static void hello(struct sim_agent *agent, struct sim_process *process,
                  const struct hfi_frame *frame)
{
    struct host_peer peer = {.pid = 100 + process->index,
                             .uid = 1,
                             .command = "sim",
                             .rights = {HOST_MAY_USE | HOST_MAY_ADMIN}};
    struct lifeline *line = lifeline_of(agent, frame->hello.client);
    struct host_event event = {.kind = HOST_CONNECTED};
    event.as.connected.peer = &peer;
    event.as.connected.hello = &frame->hello;
    event.as.connected.request = frame->request;
    event.as.connected.connection = process->connection.number;
    event.as.connected.resumed = frame->hello.client != 0 && line != NULL &&
                                 line->nonce == frame->hello.nonce &&
                                 line->process == process->index &&
                                 line->generation == process->generation;
    host_do(agent, event);
}

static bool read_socket(struct sim_agent *agent, struct sim_process *process)
{
    struct connection *connection = &process->connection;
    struct packet packet;
    struct hfi_frame frame;
    struct hfi_frame_error error;
    struct host_event event = {.client = connection->client};
    if (connection->number == 0 || connection->told) {
        return false;
    }
    if (connection->broken && connection->welcomed) {
        connection->told = true;
        event.kind = HOST_HANGUP;
        host_do(agent, event);
        return true;
    }
    if (connection->broken || !packets_take(&connection->to_agent, &packet)) {
        return false;
    }
    if (hfi_frame_decode(packet.bytes, packet.size, &frame, NULL, &error) != 0) {
        sim_fail("a frame is not understood: %s", error.text);
    }
    if (frame.kind == HFI_FRAME_HELLO) {
        hello(agent, process, &frame);
        return true;
    }
    sim_tell("agent reads %s %llu of process %u, client %u", hfi_frame_name(frame.kind),
             (unsigned long long)frame.request, process->index, event.client);
    event.kind = HOST_FRAME;
    event.as.frame.frame = &frame;
    host_do(agent, event);
    return true;
}

static bool look_for_dead(struct sim_agent *agent)
{
    for (uint32_t i = 0; i < LIFELINES; i++) {
        struct lifeline *line = &agent->lifelines[i];
        if (!line->used || line->told_dead ||
            (line->process < PROCESSES && world.processes[line->process].alive &&
             world.processes[line->process].generation == line->generation)) {
            continue;
        }
        line->told_dead = true;
        struct host_event event = {.kind = HOST_DIED, .client = line->client};
        host_do(agent, event);
        return true;
    }
    return false;
}

static bool timers(struct sim_agent *agent)
{
    int64_t now_ns = sim_now();
    if (quorum_next_tick_ns(agent->quorum) <= now_ns) {
        quorum_do(agent, (struct quorum_event){.kind = QUORUM_TICK});
        return true;
    }
    if (renewal_next_tick_ns(&agent->renewal, now_ns) <= now_ns) {
        renewal_tick(&agent->renewal, now_ns, &agent->actions);
        quorum_act(agent);
        lease_look(agent);
        return true;
    }
    if (renewal_state(&agent->renewal, now_ns) == RENEWAL_LOST) {
        lease_look(agent);
        return true;
    }
    if (host_next_tick_ns(agent->host) <= now_ns) {
        host_do(agent, (struct host_event){.kind = HOST_TICK});
        return true;
    }
    return false;
}

/* One thing that is to be done, the choice at random. false: nothing is. */
static bool turn(struct sim_agent *agent)
{
    uint32_t first = sim_draw(PROCESSES);
    if (agent->stalled_ns != 0 && sim_now() - agent->stalled_ns > SIM_TTL_NS / 3) {
        agent->stalled_ns = 0;
        quorum_do(agent, (struct quorum_event){.kind = QUORUM_STALLED});
        return true;
    }
    agent->stalled_ns = 0;
    if (agent->own_count > 0 && sim_draw(4) != 0) {
        own_message(agent);
        return true;
    }
    if (agent->bell && sim_draw(2) == 0) {
        agent->bell = false;
        host_do(agent, (struct host_event){.kind = HOST_BELL});
        return true;
    }
    if (sim_draw(4) == 0 && look_for_dead(agent)) {
        return true; /* a death may be known before the socket's end is */
    }
    if (agent->serving) {
        for (uint32_t i = 0; i < PROCESSES; i++) {
            if (read_socket(agent, &world.processes[(first + i) % PROCESSES])) {
                return true;
            }
        }
    }
    return look_for_dead(agent) || timers(agent) || agent->own_count > 0 || agent->bell;
}

static int64_t next_ns(const struct sim_agent *agent)
{
    int64_t at_ns = quorum_next_tick_ns(agent->quorum);
    int64_t other_ns = renewal_next_tick_ns(&agent->renewal, sim_now());
    at_ns = other_ns < at_ns ? other_ns : at_ns;
    other_ns = host_next_tick_ns(agent->host);
    return other_ns < at_ns ? other_ns : at_ns;
}

static void agent_main(void *arg)
{
    struct sim_agent *agent = arg;
    uint32_t turns = 0;
    agent_begin(agent);
    for (;;) { /* until it is killed */
        if (turn(agent)) {
            if (++turns > STEPS_BEFORE_REST) {
                sim_fail("an agent never comes to rest");
            }
            agent->serving = agent->serving || (quorum_ready(agent->quorum) && agent->told_any);
            sim_point();
            continue;
        }
        turns = 0;
        fiber_wait(next_ns(agent));
    }
}

void agent_start(struct sim_agent *agent)
{
    enum { OUTPUT = 2 * HOST_STEP_OUTPUT };
    kernel_fill(&agent->kernel, agent);
    if (agent->actions.items == NULL) {
        agent->actions.items = calloc(AGENT_ACTIONS, sizeof(struct action));
        agent->actions.capacity = AGENT_ACTIONS;
        agent->host_actions.items = calloc(AGENT_ACTIONS, sizeof(struct host_action));
        agent->host_actions.capacity = AGENT_ACTIONS;
        agent->host_actions.output = malloc(OUTPUT);
        agent->host_actions.output_size = OUTPUT;
        HF_CHECK(agent->actions.items && agent->host_actions.items && agent->host_actions.output);
    }
    agent->actions.count = 0;
    agent->host_actions.count = 0;
    agent->host_actions.output_used = 0;
    agent->own_count = 0;
    agent->up = true;
    agent->serving = false;
    agent->bell = true; /* whoever rang while nobody listened */
    agent->stalled_ns = 0;
    agent->starts++;
    fiber_start(&agent->fiber, agent_main, agent);
}

void agent_crash(struct sim_agent *agent, int64_t down_ns)
{
    if (!agent->up) {
        return;
    }
    sim_tell("agent crashes, down for %lld us", (long long)(down_ns / 1000));
    agent->up = false;
    agent->starts_ns = sim_now() + down_ns;
    fiber_kill(&agent->fiber);
    for (uint32_t i = 0; i < PROCESSES; i++) {
        struct connection *connection = &world.processes[i].connection;
        if (connection->number != 0) {
            connection->broken = true;
            connection->told = true;
            fiber_tell(&world.processes[i].fiber);
        }
    }
}

void agent_reboot(struct sim_agent *agent, int64_t down_ns)
{
    agent_crash(agent, down_ns);
    agent->lease_file.valid = false;
    memset(agent->lifelines, 0, sizeof(agent->lifelines));
    if (agent->region_count > 0) { /* nobody maps it any more */
        free(agent->regions[agent->region_count - 1].memory);
        agent->regions[agent->region_count - 1] = (struct region_memory){0};
    }
}

void agent_free(struct sim_agent *agent)
{
    for (uint32_t i = 0; i < agent->region_count; i++) {
        free(agent->regions[i].memory);
    }
    free(agent->actions.items);
    free(agent->host_actions.items);
    free(agent->host_actions.output);
    free(agent->names_memory);
    free(agent->quorum_memory);
    free(agent->host_memory);
    fiber_free(&agent->fiber);
    *agent = (struct sim_agent){.index = agent->index};
}
