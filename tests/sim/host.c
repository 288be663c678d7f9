/*
 * A host keeps three things when its agent ends: the regions, the records of clients, and the lease
 * file. A reboot deletes all of them. This file also carries out the host core's actions on them.
 */
#include <stdlib.h>
#include <string.h>

#include "holdfast/holdfast.h"
#include "proto/check.h"
#include "sim.h"

/* CLIENTS: a user may have only half of the clients, and all processes belong to one user and may
 * be on one host. */
enum { CLIENTS = 2 * PROCESSES, SIM_HANDLES = 128, WATCHES = 8, REQUESTS = 16 };

/* ---- the kernel for the processes of a host ---- */

static void kernel_sleep(void *arg, _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    const struct sim_agent *agent = arg;
    if (timeout_ns > 0) { /* the timeout is by this host's clock */
        int64_t now_ns = clock_now(agent);
        int64_t until_ns = timeout_ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + timeout_ns;
        int64_t true_ns = clock_true(agent, until_ns);
        timeout_ns = true_ns == INT64_MAX ? -1 : true_ns - sim_now();
    }
    fiber_futex_sleep(word, expected, timeout_ns);
}

static void kernel_wake(void *arg, _Atomic uint32_t *word, int count)
{
    (void)arg;
    if (broken == BREAK_WAKE && sim_chance(2)) {
        return;
    }
    fiber_futex_wake(world.fibers, world.fiber_count, word, count);
}

static int64_t kernel_now(void *arg)
{
    return clock_now(arg);
}

static void kernel_ring(void *arg)
{
    struct sim_agent *agent = arg;
    agent->rung = true;
    fiber_tell(&agent->fiber);
}

void kernel_fill(struct hfi_kernel *kernel, struct sim_agent *agent)
{
    *kernel = (struct hfi_kernel){.sleep = kernel_sleep,
                                  .wake = kernel_wake,
                                  .now_ns = kernel_now,
                                  .ring = kernel_ring,
                                  .arg = agent};
}

/* ---- actions of the host core ---- */

static struct sim_process *process_of(const struct sim_agent *agent, uint32_t connection)
{
    for (uint32_t i = 0; i < world.process_count; i++) {
        struct sim_process *process = &world.processes[i];
        if (connection != 0 && process->agent == agent &&
            process->connection.number == connection) {
            return process;
        }
    }
    return NULL;
}

static struct client_record *record_of(struct sim_agent *agent, uint32_t client)
{
    for (uint32_t i = 0; i < RECORDS; i++) {
        if (agent->records[i].used && agent->records[i].client == client) {
            return &agent->records[i];
        }
    }
    return NULL;
}

static void welcomed(struct sim_agent *agent, const struct host_action *action)
{
    struct sim_process *process = process_of(agent, action->connection);
    struct client_record *record = record_of(agent, action->client);
    if (record == NULL) {
        for (uint32_t i = 0; i < RECORDS && record == NULL; i++) {
            record = agent->records[i].used ? NULL : &agent->records[i];
        }
        HF_CHECK(record != NULL);
        *record = (struct client_record){.used = true,
                                         .client = action->client,
                                         .nonce = action->as.identity.nonce,
                                         .ids = {action->client},
                                         .id_count = 1};
        record->process = process ? process->index : UINT32_MAX;
        record->generation = process ? process->generation : 0;
    }
    if (process != NULL) {
        process->connection.client = action->client;
        process->connection.welcomed = true;
    }
}

static void reply(struct sim_agent *agent, const struct host_action *action,
                  const unsigned char *bytes)
{
    struct sim_process *process = process_of(agent, action->connection);
    if (process == NULL || process->connection.broken) {
        return;
    }
    int32_t region = -1;
    if (action->as.reply.fds == HOST_FD_REGION) {
        region = (int32_t)agent->region_count - 1;
    }
    if (!packets_put(&process->connection.to_client, bytes, action->as.reply.size, region) &&
        !action->as.reply.unasked) {
        sim_fail("a process has more answers than it asked for");
    }
    fiber_tell(&process->fiber);
}

/* Deletes a client's record and breaks its connection. Another client may soon get the id. Late
 * packets on the old connection must not count as packets of the new client. */
static void forget(struct sim_agent *agent, uint32_t client)
{
    struct client_record *record = record_of(agent, client);
    if (record != NULL) {
        record->used = false;
    }
    for (uint32_t i = 0; i < world.process_count; i++) {
        struct sim_process *process = &world.processes[i];
        struct connection *connection = &process->connection;
        if (process->agent == agent && connection->welcomed && connection->client == client) {
            connection->told = true;
            connection->broken = true;
            fiber_tell(&process->fiber);
        }
    }
}

void host_act(struct sim_agent *agent, const struct host_action *action, const unsigned char *bytes)
{
    struct client_record *record = NULL;
    struct sim_process *process = NULL;
    switch (action->kind) {
    case HOST_REPLY:
        reply(agent, action, bytes);
        break;
    case HOST_WELCOMED:
        welcomed(agent, action);
        break;
    case HOST_HANG_UP:
        process = process_of(agent, action->connection);
        if (process != NULL) {
            sim_tell("host %u hangs up on process %u: %s", agent->index, process->index,
                     action->as.text);
            process->connection.broken = true;
            fiber_tell(&process->fiber);
        }
        break;
    case HOST_FORGET:
        forget(agent, action->client);
        break;
    case HOST_ALIAS:
        record = record_of(agent, action->client);
        HF_CHECK(record != NULL && record->id_count < IDS_MAX);
        record->ids[record->id_count++] = action->as.identity.holder;
        break;
    case HOST_LOG:
        sim_tell("host %u: %s slot %d token %llx number %lld", agent->index, action->as.log.event,
                 (int)action->as.log.slot, (unsigned long long)action->as.log.token,
                 (long long)action->as.log.number);
        break;
    case HOST_BACKUP:
    case HOST_FACTS: /* simulated processes never ask for facts */
    case HOST_SEND:
    case HOST_PERSIST_SLOT:
    case HOST_PERSIST_NO_SLOT:
        sim_fail("the driver hands out an action of kind %d", action->kind);
    }
    sim_point();
}

/* ---- making and adopting a region ---- */

void region_make(struct sim_agent *agent)
{
    struct hfi_region_sizes sizes = {
        .slot_count = SLOTS, .holder_count = 65535, .block_count = BLOCKS};
    struct hfi_region_identity identity = {
        .cell = "sim", .namespace_name = "default", .grace_ns = SIM_GRACE_NS};
    memcpy(identity.agent, agent->name.text, agent->name.length);
    identity.incarnation = sim_random();
    if (agent->region_count > 0) {
        struct hfi_header *before = agent->regions[agent->region_count - 1].region.header;
        if (before != NULL) {
            before->abandoned = 1;
            fiber_futex_wake(world.fibers, world.fiber_count, &before->lease_wake, INT32_MAX);
        }
    }
    HF_CHECK(agent->region_count < REGIONS_MAX);
    struct region_memory *region = &agent->regions[agent->region_count++];
    uint64_t size = hfi_region_size(&sizes);
    region->memory = calloc(1, size);
    region->store = agent->disk.store_id[0];
    HF_CHECK(region->memory != NULL);
    hfi_region_format(region->memory, &sizes, &identity);
    const char *error = hfi_region_attach(region->memory, size, &region->region);
    HF_CHECK(error == NULL);
    region->trust = (struct hfi_trust){
        .ahead_max_ns = SIM_TTL_NS, .now_ns = kernel_now, .arg = agent};
    region->region.trust = &region->trust;
}

static void abandon(struct sim_agent *agent)
{
    struct hfi_header *header = agent->regions[agent->region_count - 1].region.header;
    header->abandoned = 1;
    fiber_futex_wake(world.fibers, world.fiber_count, &header->lease_wake, INT32_MAX);
}

/* Returns whether the agent must not adopt the region in use. (It still adopts the region of its
 * second namespace. No process uses that namespace here.) */
static bool region_is_barred(const struct sim_agent *agent)
{
    return agent->spoilt || agent->note.given_up != 0;
}

static bool region_is_sound(void *arg, uint32_t space)
{
    struct sim_agent *agent = arg;
    (void)space;
    if (agent->spoilt && broken != BREAK_SOUND) {
        agent->noticed_ns = sim_now();
    }
    return !agent->spoilt || broken == BREAK_SOUND;
}

static void give_up(struct sim_agent *agent)
{
    int64_t deadline_ns = agent->lease_file.valid ? agent->lease_file.deadline_ns : 0;
    agent->anew_ns = host_give_up_region(agent->host, 0, deadline_ns);
    if (broken == BREAK_BARRED) {
        agent->anew_ns = 0;
    }
    if (broken == BREAK_ANEW) {
        agent->note.anew_epoch = 0;
    }
    sim_tell("host %u gives its region up, for %lld us", agent->index,
             (long long)(agent->anew_ns - clock_now(agent)) / 1000);
    abandon(agent);
}

bool region_see(struct sim_agent *agent)
{
    if (!region_is_given_up(agent)) {
        bool noticed = agent->spoilt && agent->noticed_ns <= sim_now();
        if (noticed) {
            give_up(agent);
        }
        return noticed;
    }
    if (!host_region_is_left(agent->host, 0) || clock_now(agent) < agent->anew_ns) {
        return false;
    }
    region_make(agent);
    sim_point();
    agent->spoilt = false;
    agent->note.given_up = 0;
    agent->mapped = agent->regions[agent->region_count - 1].region;
    const char *error = host_add_region(agent->host, 0, &agent->mapped, false);
    HF_CHECK(error == NULL);
    sim_tell("host %u has another region", agent->index);
    return true;
}

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

void host_make(struct sim_agent *agent, bool adopted)
{
    const struct message_voters *record = voters_of(agent);
    uint32_t voter = message_voters_find(record, &agent->name);
    struct host_config config = {
        .limits = {.locks = SLOTS,
                   .clients = CLIENTS,
                   .handles = SIM_HANDLES,
                   .blocks = BLOCKS,
                   .watches = WATCHES,
                   .requests = REQUESTS},
        .role = voter < record->count ? "voter" : "observer",
        .version = "sim",
        .session_ttl_ns = SIM_TTL_NS,
        .grace_ns = SIM_GRACE_NS,
        .max_drift_percent = SIM_DRIFT_PERCENT,
        .voter_count = record->count,
        .self = voter < record->count ? voter : HOST_OBSERVER,
        .continued_epoch = adopted ? agent->disk.epoch : 0,
        .namespace_count = 1,
        .namespaces = {"default"},
    };
    message_agent_set(&config.cell, "sim", 3);
    config.agent = agent->name;
    memcpy(config.store_id, agent->disk.store_id, sizeof(config.store_id));
    for (uint32_t i = 0; i < record->count; i++) {
        config.voters[i] = record->of[i].name;
    }
    agent->host = host_init(keep(&agent->host_memory, &agent->host_bytes, host_size(&config)),
                            &config, agent->names, &agent->kernel);
    if (broken == BREAK_PLACE) {
        memset(agent->kept, 0, sizeof(agent->kept));
    }
    if (broken == BREAK_NOTES) {
        memset((void *)agent->delays_ms, 0, sizeof(agent->delays_ms));
    }
    host_set_kept(agent->host, agent->kept, KEPT);
    host_set_delays(agent->host, agent->delays_ms, DELAYS);
    host_set_region_note(agent->host, 0, &agent->note);
    host_set_sound(agent->host, region_is_sound, agent);
    if (adopted && region_is_barred(agent)) {
        give_up(agent);
        return;
    }
    agent->mapped = agent->regions[agent->region_count - 1].region;
    agent->mapped.trust = NULL;
    const char *error = host_add_region(agent->host, 0, &agent->mapped, adopted);
    HF_CHECK(error == NULL);
}

static void load_survivor(struct sim_agent *agent, struct client_record *record)
{
    struct host_peer peer = {
        .pid = 1, .uid = 1, .account = 1, .command = "sim", .rights = {HOST_MAY_USE}};
    bool lives = record->process < PROCESSES && world.processes[record->process].alive &&
                 world.processes[record->process].generation == record->generation;
    if (!lives && broken != BREAK_DEAD_HOLDERS) {
        record->used = false; /* the ids of a deleted record belong to no client */
    }
    for (uint32_t k = 0; record->used && k < record->id_count; k++) {
        if (!host_load_survivor(agent->host, record->client, record->ids[k], record->nonce,
                                &peer)) {
            sim_fail("holder id %u of a living process does not load", record->ids[k]);
        }
    }
    record->told_dead = broken == BREAK_DEAD_HOLDERS && !lives;
}

void host_load(struct sim_agent *agent)
{
    for (uint32_t i = 0; i < SLOTS; i++) {
        const struct slot_row *row = &agent->disk.slots[i];
        if (row->used && !host_load_slot(agent->host, 0, i, row->name.bytes, row->name.length)) {
            sim_fail("slot %u of the store does not load", i);
        }
    }
    for (uint32_t i = 0; i < LOCKS; i++) {
        const struct disk_register *row = &agent->disk.registers[i];
        if (row->used) {
            host_load_grant(agent->host, &row->reg.name, &row->reg.value);
        }
    }
    const char *error = host_check_region(agent->host, 0);
    if (error != NULL &&
        agent->spoilt) { /* the agent cannot adopt the spoilt region, and starts again without it */
        agent_crash(agent, 0);
        fiber_exit();
    }
    if (error != NULL) {
        sim_fail("the region cannot be adopted: %s", error);
    }
    for (uint32_t i = 0; i < RECORDS; i++) {
        if (agent->records[i].used) {
            load_survivor(agent, &agent->records[i]);
        }
    }
}

/* ---- events of the processes' sockets ---- */

static void hello(struct sim_agent *agent, struct sim_process *process,
                  const struct hfi_frame *frame)
{
    struct host_peer peer = {.pid = 100 + process->index,
                             .uid = 1,
                             .account = 1,
                             .command = "sim",
                             .rights = {HOST_MAY_USE | HOST_MAY_ADMIN}};
    struct client_record *record = record_of(agent, frame->hello.client);
    struct host_event event = {.kind = HOST_CONNECTED};
    event.as.connected.peer = &peer;
    event.as.connected.hello = &frame->hello;
    event.as.connected.request = frame->request;
    event.as.connected.connection = process->connection.number;
    event.as.connected.resumed = frame->hello.client != 0 && record != NULL &&
                                 record->nonce == frame->hello.nonce &&
                                 record->process == process->index &&
                                 record->generation == process->generation;
    driver_event(agent->driver, &event);
}

bool host_read_socket(struct sim_agent *agent, struct sim_process *process)
{
    struct connection *connection = &process->connection;
    struct packet packet;
    struct hfi_frame frame;
    struct hfi_frame_error error;
    struct host_event event = {.client = connection->client};
    if (process->agent != agent || connection->number == 0 || connection->told) {
        return false;
    }
    if (connection->broken && connection->welcomed) {
        connection->told = true;
        event.kind = HOST_HANGUP;
        driver_event(agent->driver, &event);
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
    sim_tell("host %u reads %s %llu of process %u, client %u", agent->index,
             hfi_frame_name(frame.kind), (unsigned long long)frame.request, process->index,
             event.client);
    event.kind = HOST_FRAME;
    event.as.frame.frame = &frame;
    driver_event(agent->driver, &event);
    return true;
}

bool host_look_for_dead(struct sim_agent *agent)
{
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct client_record *record = &agent->records[i];
        if (!record->used || record->told_dead ||
            (record->process < PROCESSES && world.processes[record->process].alive &&
             world.processes[record->process].generation == record->generation)) {
            continue;
        }
        record->told_dead = true;
        struct host_event event = {.kind = HOST_DIED, .client = record->client};
        driver_event(agent->driver, &event);
        return true;
    }
    return false;
}
