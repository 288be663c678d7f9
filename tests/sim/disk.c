/*
 * An agent's store. A batch is one transaction: it is stored as a whole or not at all.
 *
 * This file checks the invariants of the rows themselves: a promise, an accepted order and a mark
 * never fall. watch.c checks messages about the rows.
 */
#include <stdio.h>
#include <string.h>

#include "proto/check.h"
#include "sim.h"

void lock_name_of(uint32_t lock, char *name, size_t size)
{
    int ignored = snprintf(name, size, "lock/%u", lock);
    (void)ignored;
}

uint32_t disk_lock_of(const struct message_name *name)
{
    uint32_t lock = name->length == 6 ? (uint32_t)(name->bytes[5] - '0') : LOCKS;
    return lock < LOCKS ? lock : LOCKS;
}

void disk_new(struct sim_agent *agent)
{
    memset(&agent->disk, 0, sizeof(agent->disk));
    agent->disk.store_id[0] = sim_random() | 1;
    agent->disk.store_id[1] = sim_random();
}

/* ---- rows ---- */

static void write_promise(struct disk *disk, const struct quorum_promise *promise)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (message_partition_has(&promise->partitions, p)) {
            if (promise->ballot < disk->promised[p]) {
                sim_fail("a promise falls");
            }
            disk->promised[p] = promise->ballot;
        }
    }
}

static void write_register(struct disk *disk, const struct quorum_register *reg)
{
    uint32_t lock = disk_lock_of(&reg->name);
    HF_CHECK(lock < LOCKS);
    struct disk_register *row = &disk->registers[lock];
    if (row->used && !message_order_before(row->reg.accepted, reg->accepted)) {
        sim_fail("the accepted value of lock %u is replaced by an older one", lock);
    }
    row->used = true;
    row->reg.name = reg->name;
    row->reg.accepted = reg->accepted;
    message_value_copy(&row->reg.value, &reg->value);
}

static void write_mark(struct disk *disk, const struct message_session *mark)
{
    uint32_t agent = agent_of_name(&mark->agent);
    HF_CHECK(agent < AGENTS);
    if (mark->epoch < disk->marks[agent].epoch) {
        sim_fail("a mark of host %u falls", agent);
    }
    disk->marks[agent] = *mark;
}

static void write_checkpoint(struct disk *disk, const struct quorum_checkpoint *row)
{
    struct message_checkpoint *at = &disk->checkpoints[row->partition];
    if (message_order_before(row->checkpoint.order, at->order) ||
        row->checkpoint.floor < at->floor) {
        sim_fail("the checkpoint of partition %u falls", row->partition);
    }
    *at = row->checkpoint;
    at->floor = broken == BREAK_FLOOR ? 0 : at->floor;
}

static void write_action(struct sim_agent *agent, const struct action *action)
{
    struct disk *disk = &agent->disk;
    uint32_t lock = 0;
    uint32_t voter = 0;
    switch (action->kind) {
    case ACTION_PERSIST_ROUND:
        if (action->as.round <= disk->round) {
            sim_fail("a round is used again");
        }
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
        lock = disk_lock_of(&action->as.deleted);
        HF_CHECK(lock < LOCKS);
        disk->registers[lock].used = false;
        break;
    case ACTION_PERSIST_CHECKPOINT:
        write_checkpoint(disk, &action->as.checkpoint);
        break;
    case ACTION_PERSIST_MEMBER:
        voter = agent_of_name(&action->as.member.voter);
        HF_CHECK(voter < world.agent_count);
        disk->members[voter] = action->as.member;
        break;
    case ACTION_PERSIST_SEEN:
        voter = agent_of_name(&action->as.seen.voter);
        HF_CHECK(voter < world.agent_count);
        disk->seen[voter] = action->as.seen;
        break;
    case ACTION_PERSIST_REJOINED:
        disk->rejoin = false;
        break;
    case ACTION_PERSIST_VOTERS:
        if (action->as.voters.number < disk->voters.number) {
            sim_fail("the number of a record of voters falls");
        }
        if (broken != BREAK_CHANGE_DURABLE || sim_draw(2) == 0) {
            disk->voters = action->as.voters;
        }
        recovery_follow(agent);
        break;
    case ACTION_PERSIST_CHANGE:
        if (action->as.change.number < disk->change.number ||
            (action->as.change.number == disk->change.number &&
             action->as.change.promised < disk->change.promised)) {
            sim_fail("a promise about the voters falls");
        }
        disk->change = action->as.change;
        break;
    case ACTION_PERSIST_RECOVERED:
        disk->recovery_wait_ns = 0;
        break;
    case ACTION_VOTERS:
    case ACTION_SEEK:
    case ACTION_LOG:
    case ACTION_SEND:
        sim_fail("an action of kind %d is to be made durable", action->kind);
    }
}

static void write_slot(struct disk *disk, uint32_t slot, const struct message_name *name)
{
    HF_CHECK(slot < SLOTS);
    disk->slots[slot].used = name != NULL;
    if (name != NULL) {
        disk->slots[slot].name = *name;
    }
}

void disk_apply(struct sim_agent *agent, const struct driver_batch *batch)
{
    struct disk *disk = &agent->disk;
    const struct driver_record *record = NULL;
    size_t at = 0;
    while ((record = driver_batch_next(batch, &at)) != NULL) {
        switch (record->kind) {
        case DRIVER_ACTION:
            write_action(agent, &record->as.action);
            watch_durable(agent, &record->as.action);
            break;
        case DRIVER_SLOT:
            write_slot(disk, record->as.slot.slot, &record->as.slot.name);
            break;
        case DRIVER_NO_SLOT:
            write_slot(disk, record->as.slot.slot, NULL);
            break;
        case DRIVER_EPOCH:
            disk->epoch = record->as.epoch;
            break;
        }
    }
    disk->commit++;
}

/* ---- reading the rows ---- */

static void load_rows(const struct disk *disk, struct quorum *quorum)
{
    for (uint32_t i = 0; i < LOCKS; i++) {
        const struct disk_register *row = &disk->registers[i];
        HF_CHECK(!row->used || quorum_load_register(quorum, &row->reg));
    }
    for (uint32_t i = 0; i < world.agent_count; i++) {
        HF_CHECK(disk->marks[i].epoch == 0 || quorum_load_mark(quorum, &disk->marks[i]));
    }
    for (uint32_t i = 0; i < world.agent_count; i++) {
        HF_CHECK(disk->members[i].voter.length == 0 ||
                 quorum_load_member(quorum, &disk->members[i]));
        HF_CHECK(disk->seen[i].voter.length == 0 || quorum_load_seen(quorum, &disk->seen[i]));
    }
}

void disk_load(const struct disk *disk, struct quorum *quorum)
{
    bool forget = broken == BREAK_PROMISE || broken == BREAK_BALLOT;
    HF_CHECK(disk->voters.number == 0 || quorum_load_voters(quorum, &disk->voters));
    HF_CHECK(disk->change.number == 0 || quorum_load_change(quorum, &disk->change));
    HF_CHECK(quorum_load_round(quorum, broken == BREAK_BALLOT ? 0 : disk->round));
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct quorum_promise promise = {.ballot = forget ? 0 : disk->promised[p]};
        message_partition_add(&promise.partitions, p);
        HF_CHECK(promise.ballot == 0 || quorum_load_promise(quorum, &promise));
        struct quorum_checkpoint checkpoint = {.partition = p, .checkpoint = disk->checkpoints[p]};
        HF_CHECK(disk->checkpoints[p].order.ballot == 0 ||
                 quorum_load_checkpoint(quorum, &checkpoint));
    }
    load_rows(disk, quorum);
    quorum_set_commit(quorum, disk->commit);
}

void disk_preset_tokens(void)
{
    static const uint64_t ballot = UINT64_C(1) << 16 | 1;
    for (uint32_t i = 0; i < world.lock_count; i++) {
        struct quorum_register reg;
        char name[16];
        lock_name_of(i, name, sizeof(name));
        memset(&reg, 0, sizeof(reg));
        message_name_set(&reg.name, name, strlen(name));
        reg.accepted = (struct message_order){ballot, i + 1};
        reg.value.version = reg.accepted;
        reg.value.permits = 1;
        /* All tokens of one slot have the same high bits. The first token of these locks is one of
         * the last four with its high bits, so the lock's slot is soon used up. A used-up slot
         * belongs to no lock until the region is replaced. So at most SLOTS - LOCKS locks begin
         * like that. */
        uint32_t before = sim_draw(4);
        bool high = i < SLOTS - LOCKS;
        reg.value.token_first = high ? 2 * MESSAGE_TOKEN_BLOCK - 1 - before : 1;
        for (uint32_t voter = 0; voter < world.voters; voter++) {
            struct disk *disk = &world.agents[voter].disk;
            disk->round = 1;
            disk->promised[names_partition(name, strlen(name))] = ballot;
            disk->registers[i] = (struct disk_register){true, reg};
        }
    }
    /* A store with a promise belongs to a cell that already exists. So each store also gets the
     * record of all stores. */
    for (uint32_t voter = 0; voter < world.voters * world.voters; voter++) {
        const struct sim_agent *agent = &world.agents[voter % world.voters];
        struct quorum_member *row = &world.agents[voter / world.voters].disk.members[agent->index];
        row->voter = agent->name;
        row->member.generation = 1;
        memcpy(row->member.store_id, agent->disk.store_id, sizeof(row->member.store_id));
    }
}
