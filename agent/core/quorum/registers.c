/* The acceptor's registers of this voter: see registers.h. */
#include "registers.h"

#include <string.h>

#include "proto/check.h"
#include "proto/probe.h"
#include "reactions.h"

/* A register's name, and its neighbours in the list of its partition. */
struct register_link {
    uint32_t name;           /* NAMES_NONE: the entry is free */
    uint32_t next, previous; /* in the partition's list; next also serves the free list */
    uint32_t listing;        /* the number of the last listing, read from another voter, in which
                              * the register was */
};

struct register_partition {
    uint64_t promised;
    uint64_t digest;
    uint64_t live_digest;
    uint32_t first; /* the partition's first register, which is the newest one */
    uint32_t count;
    uint32_t live_count;
    struct message_checkpoint checkpoint;
    uint64_t floor;
};

struct registers {
    struct register_partition partitions[MESSAGE_PARTITIONS];
    struct record *records; /* indexed from 1 */
    struct register_link *links;
    uint32_t top, free, count;
    uint32_t gone, gone_count; /* the list of deleted registers whose rows are still on the disk */
};

struct registers *registers_lay_out(struct arena *arena, const struct quorum_limits *limits)
{
    struct registers *registers = arena_take(arena, 1, sizeof(*registers));
    ARENA_TAKE(arena, registers, records, (size_t)limits->registers + 1);
    ARENA_TAKE(arena, registers, links, (size_t)limits->registers + 1);
    return registers;
}

const struct record *registers_find(const struct quorum *quorum, uint32_t name)
{
    uint32_t index = names_register(quorum->names, name);
    HF_CHECK(index <= quorum->registers->top);
    return index == NONE ? NULL : &quorum->registers->records[index];
}

/* Does what registers_find() does, for a name in a message. */
static const struct record *registers_find_named(const struct quorum *quorum,
                                                 const struct message_name *name)
{
    uint32_t id = names_find(quorum->names, name->bytes, name->length);
    return id == NAMES_NONE ? NULL : registers_find(quorum, id);
}

bool registers_have_room(const struct quorum *quorum, uint32_t name)
{
    return names_register(quorum->names, name) != NONE ||
           quorum->registers->count + quorum->registers->gone_count <
               quorum->config->limits.registers;
}

/* ---- The registers of a partition ---- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 32;
}

/* Returns a register's hash, which is the same at every voter. The accepted (ballot, sequence)
 * identifies the value. Tokens and mode are hashed too: if a fault gives one order to two values,
 * the digests differ. */
static uint64_t register_hash(const struct quorum *quorum, uint32_t index)
{
    const struct record *record = &quorum->registers->records[index];
    struct message_order accepted = record_accepted(record);
    size_t length = 0;
    const uint8_t *bytes = names_bytes(quorum->names, quorum->registers->links[index].name,
                                       &length);
    uint64_t hash = length;
    for (size_t at = 0; at < length; at += 8) {
        uint64_t word = 0;
        for (size_t i = 0; i < 8 && at + i < length; i++) {
            word |= (uint64_t)bytes[at + i] << (8 * i);
        }
        hash = mix(hash, word);
    }
    hash = mix(hash, accepted.ballot);
    hash = mix(hash, accepted.sequence);
    return mix(hash, record->token_first << 2 | record->mode);
}

/* Adds a register to its partition's counts and digests (count 1), or takes it out of them (count
 * -1). A digest is an exclusive or, so it changes the same way in both cases. */
static void digest_change(struct quorum *quorum, uint32_t partition, uint32_t index, int count)
{
    struct register_partition *at = &quorum->registers->partitions[partition];
    uint64_t hash = register_hash(quorum, index);
    at->digest ^= hash;
    at->count += (uint32_t)count;
    records_stored(quorum, count * (int32_t)record_share_count(&quorum->registers->records[index]));
    if (quorum->registers->records[index].mode != MESSAGE_MODE_NONE) {
        at->live_digest ^= hash;
        at->live_count += (uint32_t)count;
    }
}

/* Makes a register for that name and takes over the caller's reference to it. There must be
 * room. */
static uint32_t register_make(struct quorum *quorum, uint32_t partition, uint32_t name)
{
    uint32_t index = quorum->registers->free;
    if (index != NONE) {
        quorum->registers->free = quorum->registers->links[index].next;
    } else {
        index = ++quorum->registers->top;
    }
    quorum->registers->count++;
    struct register_link *link = &quorum->registers->links[index];
    struct register_partition *at = &quorum->registers->partitions[partition];
    *link = (struct register_link){.name = name, .next = at->first};
    if (at->first != NONE) {
        quorum->registers->links[at->first].previous = index;
    }
    at->first = index;
    names_set_register(quorum->names, name, index);
    return index;
}

/* Takes a register out of its partition's list and digests. The register keeps its reference to its
 * name. */
static void take_out(struct quorum *quorum, uint32_t partition, uint32_t index)
{
    struct register_link *link = &quorum->registers->links[index];
    HF_CHECK(link->name != NAMES_NONE && names_register(quorum->names, link->name) == index);
    digest_change(quorum, partition, index, -1);
    record_drop(quorum, &quorum->registers->records[index]);
    if (link->previous != NONE) {
        quorum->registers->links[link->previous].next = link->next;
    } else {
        HF_CHECK(quorum->registers->partitions[partition].first == index);
        quorum->registers->partitions[partition].first = link->next;
    }
    if (link->next != NONE) {
        quorum->registers->links[link->next].previous = link->previous;
    }
    names_set_register(quorum->names, link->name, NONE);
    quorum->registers->count--;
}

static void free_put(struct quorum *quorum, uint32_t index)
{
    struct register_link *link = &quorum->registers->links[index];
    names_drop(quorum->names, link->name);
    link->name = NAMES_NONE;
    link->next = quorum->registers->free;
    quorum->registers->free = index;
}

void registers_delete(struct quorum *quorum, uint32_t partition, uint32_t index)
{
    step_lock_name(quorum, quorum->registers->links[index].name,
                   &step_emit(quorum, ACTION_PERSIST_DELETED)->as.deleted);
    take_out(quorum, partition, index);
    free_put(quorum, index);
}

void registers_delete_later(struct quorum *quorum, uint32_t partition, uint32_t index)
{
    take_out(quorum, partition, index);
    quorum->registers->links[index].next = quorum->registers->gone;
    quorum->registers->gone = index;
    quorum->registers->gone_count++;
}

void registers_delete_rows(struct quorum *quorum, uint32_t room)
{
    while (quorum->registers->gone != NONE && step_has_room(quorum, 1 + room)) {
        uint32_t index = quorum->registers->gone;
        uint32_t name = quorum->registers->links[index].name;
        quorum->registers->gone = quorum->registers->links[index].next;
        quorum->registers->gone_count--;
        /* If the name has a new register by now, the row belongs to that register. */
        if (names_register(quorum->names, name) == NONE) {
            step_lock_name(quorum, name, &step_emit(quorum, ACTION_PERSIST_DELETED)->as.deleted);
        }
        free_put(quorum, index);
    }
}

uint32_t registers_resume(const struct quorum *quorum, uint32_t partition, uint32_t index)
{
    if (index == NONE || index > quorum->registers->top ||
        quorum->registers->links[index].name == NAMES_NONE) {
        return quorum->registers->partitions[partition].first;
    }
    uint32_t name = quorum->registers->links[index].name;
    size_t length = 0;
    const uint8_t *bytes = names_bytes(quorum->names, name, &length);
    if (names_register(quorum->names, name) != index ||
        names_partition(bytes, length) != partition) {
        return quorum->registers->partitions[partition].first;
    }
    return quorum->registers->links[index].next;
}

static bool store(struct quorum *quorum, const struct message_name *name,
                  struct message_order order, const struct message_value *value)
{
    uint32_t id = names_hold(quorum->names, name->bytes, name->length);
    if (id == NAMES_NONE) {
        return false;
    }
    uint32_t partition = names_partition(name->bytes, name->length);
    uint32_t index = names_register(quorum->names, id);
    struct record fresh = {.mode = MESSAGE_MODE_NONE};
    struct record *record = index != NONE ? &quorum->registers->records[index] : &fresh;
    uint32_t had = record_share_count(record);
    bool room = index != NONE || quorum->registers->count + quorum->registers->gone_count <
                                     quorum->config->limits.registers;
    if (value->share_count > had) {
        room = room && records_may_grow(quorum, value->share_count - had);
    }
    if (index != NONE) {
        digest_change(quorum, partition, index, -1);
    }
    bool stored = room && record_from_value(quorum, value, record);
    if (stored) {
        record_set_accepted(record, order);
    }
    if (index == NONE && stored) {
        index = register_make(quorum, partition, id);
        quorum->registers->records[index] = fresh;
    } else {
        names_drop(quorum->names, id); /* the register holds a reference already, or was not made */
    }
    if (index != NONE) {
        digest_change(quorum, partition, index, 1);
    }
    return stored;
}

/* ---- Promises and rounds ---- */

void registers_promise(struct quorum *quorum, const struct message_partitions *partitions,
                       uint64_t ballot)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (message_partition_has(partitions, p)) {
            HF_CHECK(ballot > quorum->registers->partitions[p].promised);
            quorum->registers->partitions[p].promised = ballot;
        }
    }
    HF_PROBE1(promise, ballot);
    struct action *action = step_emit(quorum, ACTION_PERSIST_PROMISE);
    action->as.promise.partitions = *partitions;
    action->as.promise.ballot = ballot;
}

void registers_promise_one(struct quorum *quorum, uint32_t partition, uint64_t ballot)
{
    struct message_partitions partitions = {{0}};
    message_partition_add(&partitions, partition);
    registers_promise(quorum, &partitions, ballot);
}

void registers_prepare(struct quorum *quorum, const struct message *message)
{
    const struct message_prepare *prepare = &message->as.prepare;
    uint32_t voter = 0;
    if (!agents_proposer(quorum, message, prepare->ballot, &voter)) {
        return;
    }
    struct message_promise answer = {.ballot = prepare->ballot};
    struct message_partitions raised = {{0}};
    bool any = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (!message_partition_has(&prepare->partitions, p)) {
            continue;
        }
        uint64_t promised = quorum->registers->partitions[p].promised;
        if (prepare->ballot < promised) {
            message_partition_add(&answer.refused, p);
            answer.higher = promised > answer.higher ? promised : answer.higher;
            continue;
        }
        if (prepare->ballot > promised && !prepare->rejoin && reaction_is_owned(quorum, p, voter)) {
            message_partition_add(&answer.owned, p);
            continue;
        }
        message_partition_add(&answer.promised, p);
        if (prepare->ballot > promised) {
            message_partition_add(&raised, p);
            any = true;
        }
    }
    if (any) {
        registers_promise(quorum, &raised, prepare->ballot);
    }
    agents_send_voter(quorum, voter, MESSAGE_PROMISE)->as.promise = answer;
}

void registers_read(struct quorum *quorum, const struct message *message)
{
    const struct message_read *read = &message->as.read;
    uint32_t voter = 0;
    if (!agents_proposer(quorum, message, read->ballot, &voter)) {
        return;
    }
    uint32_t partition = names_partition(read->name.bytes, read->name.length);
    uint64_t promised = quorum->registers->partitions[partition].promised;
    if (read->ballot > promised) {
        registers_promise_one(quorum, partition, read->ballot);
    }
    struct message_read_value *answer = &agents_send_voter(quorum, voter, MESSAGE_VALUE)->as.value;
    answer->ballot = read->ballot;
    answer->name = read->name;
    answer->checkpoint = quorum->registers->partitions[partition].checkpoint;
    if (read->ballot < promised) {
        answer->higher = promised;
        return;
    }
    const struct record *record = registers_find_named(quorum, &read->name);
    if (record != NULL) {
        answer->known = true;
        answer->accepted = record_accepted(record);
        record_to_value(quorum, record, &answer->value);
    }
}

/* Stores and persists a value; returns false if there is no room. */
static bool accept_value(struct quorum *quorum, const struct message_accept *accept)
{
    if (!store(quorum, &accept->name, accept->order, &accept->value)) {
        return false;
    }
    struct quorum_register *reg = &step_emit(quorum, ACTION_PERSIST_REGISTER)->as.reg;
    reg->name = accept->name;
    reg->accepted = accept->order;
    message_value_copy(&reg->value, &accept->value);
    HF_PROBE4(accept, accept->name.bytes, accept->name.length, accept->order.ballot,
              accept->order.sequence);
    return true;
}

void registers_accept(struct quorum *quorum, const struct message *message)
{
    const struct message_accept *accept = &message->as.accept;
    uint32_t voter = 0;
    if (!agents_proposer(quorum, message, accept->order.ballot, &voter)) {
        return;
    }
    uint32_t partition = names_partition(accept->name.bytes, accept->name.length);
    uint64_t promised = quorum->registers->partitions[partition].promised;
    struct message_accepted answer = {.order = accept->order, .name = accept->name};
    if (accept->order.ballot < promised) {
        answer.higher = promised;
        agents_send_voter(quorum, voter, MESSAGE_ACCEPTED)->as.accepted = answer;
        return;
    }
    const struct record *record = registers_find_named(quorum, &accept->name);
    if (record != NULL && message_order_before(accept->order, record_accepted(record))) {
        /* the coordinator has sent a later value since, so it needs no answer to this ACCEPT */
        return;
    }
    if (record == NULL &&
        !message_order_before(quorum->registers->partitions[partition].checkpoint.order,
                              accept->order)) {
        return; /* the name's register was deleted since */
    }
    if (accept->order.ballot > promised) {
        registers_promise_one(quorum, partition, accept->order.ballot);
    }
    bool again = record != NULL && message_order_equal(accept->order, record_accepted(record));
    if (!again) {
        answer.full = !accept_value(quorum, accept);
    }
    if (!accept->chosen) {
        agents_send_voter(quorum, voter, MESSAGE_ACCEPTED)->as.accepted = answer;
    }
}

bool registers_adopt(struct quorum *quorum, const struct message_accept *value)
{
    uint32_t p = names_partition(value->name.bytes, value->name.length);
    struct register_partition *partition = &quorum->registers->partitions[p];
    const struct record *record = registers_find_named(quorum, &value->name);
    if (record != NULL ? !message_order_before(record_accepted(record), value->order)
                       : !message_order_before(partition->checkpoint.order, value->order)) {
        return true; /* the value is here already, or its name was deleted */
    }
    if (value->order.ballot > partition->promised) {
        registers_promise_one(quorum, p, value->order.ballot);
    }
    if (!accept_value(quorum, value)) {
        return false;
    }
    reaction_preempted(quorum, p, value->order.ballot);
    return true;
}

/* ---- Loading ---- */

bool registers_load_promise(struct quorum *quorum, const struct quorum_promise *promise)
{
    if (promise->ballot == 0 || promise->ballot >= MESSAGE_BALLOT_LIMIT) {
        return false;
    }
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        struct register_partition *partition = &quorum->registers->partitions[p];
        if (message_partition_has(&promise->partitions, p) &&
            partition->promised < promise->ballot) {
            partition->promised = promise->ballot;
        }
    }
    return true;
}

bool registers_load(struct quorum *quorum, const struct quorum_register *reg)
{
    return reg->name.length > 0 && order_valid(reg->accepted) && value_valid(&reg->value) &&
           store(quorum, &reg->name, reg->accepted, &reg->value);
}

bool registers_load_checkpoint(struct quorum *quorum, const struct quorum_checkpoint *row)
{
    const struct message_checkpoint *checkpoint = &row->checkpoint;
    if (row->partition >= MESSAGE_PARTITIONS || !order_valid(checkpoint->order) ||
        checkpoint->floor >= MESSAGE_TOKEN_LIMIT) {
        return false;
    }
    quorum->registers->partitions[row->partition].checkpoint = *checkpoint;
    quorum->registers->partitions[row->partition].floor = checkpoint->floor;
    return true;
}

static uint32_t partition_of(const struct quorum *quorum, uint32_t name)
{
    size_t length = 0;
    const uint8_t *bytes = names_bytes(quorum->names, name, &length);
    return names_partition(bytes, length);
}

void registers_raise_promises(struct quorum *quorum)
{
    uint32_t name = names_next(quorum->names, NAMES_NONE);
    for (; name != NAMES_NONE; name = names_next(quorum->names, name)) {
        const struct record *record = registers_find(quorum, name);
        struct register_partition *partition =
            &quorum->registers->partitions[partition_of(quorum, name)];
        if (record != NULL && record_accepted(record).ballot > partition->promised) {
            partition->promised = record_accepted(record).ballot;
        }
    }
}

/* ---- Questions of other modules ---- */

uint64_t registers_promised(const struct quorum *quorum, uint32_t partition)
{
    return quorum->registers->partitions[partition].promised;
}

uint64_t registers_digest(const struct quorum *quorum, uint32_t partition)
{
    return quorum->registers->partitions[partition].digest;
}

uint64_t registers_live_digest(const struct quorum *quorum, uint32_t partition)
{
    return quorum->registers->partitions[partition].live_digest;
}

uint32_t registers_count_of(const struct quorum *quorum, uint32_t partition)
{
    return quorum->registers->partitions[partition].count;
}

uint32_t registers_idle_of(const struct quorum *quorum, uint32_t partition)
{
    const struct register_partition *at = &quorum->registers->partitions[partition];
    return at->count - at->live_count;
}

const struct message_checkpoint *registers_checkpoint(const struct quorum *quorum,
                                                      uint32_t partition)
{
    return &quorum->registers->partitions[partition].checkpoint;
}

uint64_t registers_floor(const struct quorum *quorum, uint32_t partition)
{
    return quorum->registers->partitions[partition].floor;
}

void registers_raise_floor(struct quorum *quorum, uint32_t partition, uint64_t floor)
{
    struct register_partition *at = &quorum->registers->partitions[partition];
    at->floor = floor > at->floor ? floor : at->floor;
}

void registers_keep_checkpoint(struct quorum *quorum, uint32_t partition,
                               const struct message_checkpoint *checkpoint)
{
    struct quorum_checkpoint *row = &step_emit(quorum, ACTION_PERSIST_CHECKPOINT)->as.checkpoint;
    quorum->registers->partitions[partition].checkpoint = *checkpoint;
    registers_raise_floor(quorum, partition, checkpoint->floor);
    row->partition = partition;
    row->checkpoint = *checkpoint;
}

uint32_t registers_count(const struct quorum *quorum)
{
    return quorum->registers->count;
}

uint32_t registers_first(const struct quorum *quorum, uint32_t partition)
{
    return quorum->registers->partitions[partition].first;
}

uint32_t registers_next(const struct quorum *quorum, uint32_t index)
{
    return quorum->registers->links[index].next;
}

const struct record *registers_at(const struct quorum *quorum, uint32_t index)
{
    return &quorum->registers->records[index];
}

uint32_t registers_name(const struct quorum *quorum, uint32_t index)
{
    return quorum->registers->links[index].name;
}

uint32_t registers_listing(const struct quorum *quorum, uint32_t index)
{
    return quorum->registers->links[index].listing;
}

void registers_set_listing(struct quorum *quorum, const struct message_name *name, uint32_t listing)
{
    uint32_t id = names_find(quorum->names, name->bytes, name->length);
    uint32_t index = id == NAMES_NONE ? NONE : names_register(quorum->names, id);
    if (index != NONE) {
        quorum->registers->links[index].listing = listing;
    }
}

bool registers_have_rows(const struct quorum *quorum)
{
    return quorum->registers->gone != NONE;
}

uint32_t registers_check_invariants(const struct quorum *quorum)
{
    uint32_t count = 0;
    uint32_t shares = 0;
    uint32_t name = names_next(quorum->names, NAMES_NONE);
    for (; name != NAMES_NONE; name = names_next(quorum->names, name)) {
        const struct record *record = registers_find(quorum, name);
        if (record == NULL) {
            continue;
        }
        count++;
        HF_CHECK(!step_started(quorum) ||
                 record_accepted(record).ballot <=
                     registers_promised(quorum, partition_of(quorum, name)));
        struct message_value value;
        record_to_value(quorum, record, &value);
        HF_CHECK(value_valid(&value));
        shares += record_share_count(record);
    }
    HF_CHECK(count == quorum->registers->count);
    return shares;
}
