/* What an agent's store keeps. A commit is one assignment, so it happens or it does not. */
#include <string.h>

#include "proto/check.h"
#include "sim.h"

static void write_promise(struct disk *disk, const struct quorum_promise *promise)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (message_partition_has(&promise->partitions, p)) {
            if (promise->ballot <= disk->promised[p]) {
                sim_fail("a promise falls");
            }
            disk->promised[p] = promise->ballot;
        }
    }
}

static void write_register(struct disk *disk, const struct quorum_register *reg)
{
    uint32_t at = 0;
    while (at < disk->register_count &&
           memcmp(&disk->registers[at].name, &reg->name, sizeof(reg->name)) != 0) {
        at++;
    }
    HF_CHECK(at < LOCKS);
    if (at == disk->register_count) {
        disk->register_count++;
    } else if (!message_order_before(disk->registers[at].accepted, reg->accepted)) {
        sim_fail("an accepted value is replaced by an older one");
    }
    disk->registers[at] = *reg;
}

static void write_mark(struct disk *disk, const struct message_session *mark)
{
    uint32_t at = 0;
    while (at < disk->mark_count &&
           memcmp(&disk->marks[at].agent, &mark->agent, sizeof(mark->agent)) != 0) {
        at++;
    }
    HF_CHECK(at < AGENTS + 1);
    disk->mark_count += at == disk->mark_count;
    disk->marks[at] = *mark;
}

void disk_write(struct disk *disk, const struct action *action)
{
    switch (action->kind) {
    case ACTION_PERSIST_ROUND:
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
    case ACTION_PERSIST_CHECKPOINT:
    case ACTION_PERSIST_MEMBER:
    case ACTION_PERSIST_SEEN:
    case ACTION_PERSIST_REJOINED:
    case ACTION_LOG:
    case ACTION_SEND:
        break;
    }
}

void disk_write_host(struct disk *disk, const struct host_action *action)
{
    HF_CHECK(action->as.slot.slot < SLOTS);
    struct slot_row *row = &disk->slots[action->as.slot.slot];
    if (action->kind == HOST_PERSIST_NO_SLOT) {
        row->used = false;
    } else {
        row->used = true;
        row->name = action->as.slot.name;
    }
}

void disk_load(const struct disk *disk, struct quorum *quorum)
{
    HF_CHECK(quorum_load_round(quorum, disk->round));
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct quorum_promise promise = {.ballot = disk->promised[p]};
        message_partition_add(&promise.partitions, p);
        HF_CHECK(promise.ballot == 0 || quorum_load_promise(quorum, &promise));
    }
    for (uint32_t i = 0; i < disk->register_count; i++) {
        HF_CHECK(quorum_load_register(quorum, &disk->registers[i]));
    }
    for (uint32_t i = 0; i < disk->mark_count; i++) {
        HF_CHECK(quorum_load_mark(quorum, &disk->marks[i]));
    }
}

void disk_preset_tokens(struct disk *disk)
{
    disk->round = 1;
    for (uint32_t i = 0; i < LOCKS; i++) {
        struct quorum_register *reg = &disk->registers[disk->register_count++];
        char name[16];
        lock_name_of(i, name, sizeof(name));
        memset(reg, 0, sizeof(*reg));
        message_name_set(&reg->name, name, strlen(name));
        uint64_t ballot = UINT64_C(1) << 16 | 1;
        disk->promised[names_partition(name, strlen(name))] = ballot;
        reg->accepted = (struct message_order){ballot, i + 1};
        reg->value.version = reg->accepted;
        reg->value.permits = 1;
        /* a few tokens before the slot's high bits change */
        reg->value.token_first = 2 * MESSAGE_TOKEN_BLOCK - 1 - sim_draw(4);
    }
}
