/*
 * The acceptor: one promise for each partition, one register for each name.
 *
 * It refuses every ballot below the promised one and says which that is; it keeps the value with
 * the highest (ballot, sequence). An accept under a higher ballot than the promised one is a
 * promise too. Whatever changes is persisted before the answer. Registers hang on their names
 * (core/base/names.h), each holds one reference.
 */
#include <string.h>

#include "proto/check.h"
#include "proto/probe.h"
#include "state.h"

struct record *acceptor_find(const struct quorum *quorum, uint32_t name)
{
    uint32_t index = names_register(quorum->names, name);
    HF_CHECK(index <= quorum->register_top);
    return index == NONE ? NULL : &quorum->registers[index];
}

bool acceptor_has_room(const struct quorum *quorum, uint32_t name)
{
    return names_register(quorum->names, name) != NONE ||
           quorum->register_count + quorum->gone_count < quorum->config->limits.registers;
}

/* ---- The registers of a partition ---- */

static uint64_t mix(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0xd6e8feb86659fd93);
    return hash ^ hash >> 32;
}

/* The same at every voter: (ballot, sequence) names a proposal, the rest is to be sure. */
static uint64_t register_hash(const struct quorum *quorum, uint32_t index)
{
    const struct record *record = &quorum->registers[index];
    struct message_order accepted = record_accepted(record);
    size_t length = 0;
    const uint8_t *bytes = names_bytes(quorum->names, quorum->links[index].name, &length);
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

/* A register is taken out of what its partition's digests say, or put in: it is the same. */
static void digest_change(struct quorum *quorum, uint32_t partition, uint32_t index, int count)
{
    struct partition *at = &quorum->partitions[partition];
    uint64_t hash = register_hash(quorum, index);
    at->digest ^= hash;
    at->register_count += (uint32_t)count;
    quorum->share_stored += (uint32_t)count * record_share_count(&quorum->registers[index]);
    if (quorum->registers[index].mode != MESSAGE_MODE_NONE) {
        at->live ^= hash;
        at->live_count += (uint32_t)count;
    }
}

/* A register for that name, whose reference it takes. There is room. */
static uint32_t register_make(struct quorum *quorum, uint32_t partition, uint32_t name)
{
    uint32_t index = quorum->register_free;
    if (index != NONE) {
        quorum->register_free = quorum->links[index].next;
    } else {
        index = ++quorum->register_top;
    }
    quorum->register_count++;
    struct register_link *link = &quorum->links[index];
    struct partition *at = &quorum->partitions[partition];
    *link = (struct register_link){.name = name, .next = at->first};
    if (at->first != NONE) {
        quorum->links[at->first].previous = index;
    }
    at->first = index;
    names_set_register(quorum->names, name, index);
    return index;
}

/* Out of its partition's list and digests; its name is still held. */
static void take_out(struct quorum *quorum, uint32_t partition, uint32_t index)
{
    struct register_link *link = &quorum->links[index];
    HF_CHECK(link->name != NAMES_NONE && names_register(quorum->names, link->name) == index);
    digest_change(quorum, partition, index, -1);
    record_drop(quorum, &quorum->registers[index]);
    if (link->previous != NONE) {
        quorum->links[link->previous].next = link->next;
    } else {
        HF_CHECK(quorum->partitions[partition].first == index);
        quorum->partitions[partition].first = link->next;
    }
    if (link->next != NONE) {
        quorum->links[link->next].previous = link->previous;
    }
    names_set_register(quorum->names, link->name, NONE);
    quorum->register_count--;
}

static void free_put(struct quorum *quorum, uint32_t index)
{
    struct register_link *link = &quorum->links[index];
    names_drop(quorum->names, link->name);
    link->name = NAMES_NONE;
    link->next = quorum->register_free;
    quorum->register_free = index;
}

void acceptor_delete(struct quorum *quorum, uint32_t partition, uint32_t index)
{
    take_out(quorum, partition, index);
    free_put(quorum, index);
}

void acceptor_delete_later(struct quorum *quorum, uint32_t partition, uint32_t index)
{
    take_out(quorum, partition, index);
    quorum->links[index].next = quorum->register_gone;
    quorum->register_gone = index;
    quorum->gone_count++;
}

void acceptor_delete_rows(struct quorum *quorum, uint32_t room)
{
    while (quorum->register_gone != NONE && step_has_room(quorum, 1 + room)) {
        uint32_t index = quorum->register_gone;
        uint32_t name = quorum->links[index].name;
        quorum->register_gone = quorum->links[index].next;
        quorum->gone_count--;
        if (names_register(quorum->names, name) == NONE) { /* else its row is a newer one */
            step_lock_name(quorum, name, &step_emit(quorum, ACTION_PERSIST_DELETED)->as.deleted);
        }
        free_put(quorum, index);
    }
}

uint32_t acceptor_next(const struct quorum *quorum, uint32_t partition, uint32_t index)
{
    if (index == NONE || index > quorum->register_top || quorum->links[index].name == NAMES_NONE) {
        return quorum->partitions[partition].first;
    }
    uint32_t name = quorum->links[index].name;
    size_t length = 0;
    const uint8_t *bytes = names_bytes(quorum->names, name, &length);
    if (names_register(quorum->names, name) != index ||
        names_partition(bytes, length) != partition) {
        return quorum->partitions[partition].first;
    }
    return quorum->links[index].next;
}

bool acceptor_store(struct quorum *quorum, const struct message_name *name,
                    struct message_order order, const struct message_value *value)
{
    uint32_t id = names_hold(quorum->names, name->bytes, name->length);
    if (id == NAMES_NONE) {
        return false;
    }
    uint32_t partition = names_partition(name->bytes, name->length);
    uint32_t index = names_register(quorum->names, id);
    struct record fresh = {.mode = MESSAGE_MODE_NONE};
    struct record *record = index != NONE ? &quorum->registers[index] : &fresh;
    uint32_t had = record_share_count(record);
    bool room = index != NONE ||
                quorum->register_count + quorum->gone_count < quorum->config->limits.registers;
    if (value->share_count > had) {
        room = room && shares_may_grow(quorum, value->share_count - had);
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
        quorum->registers[index] = fresh;
    } else {
        names_drop(quorum->names, id); /* the register holds it already, or there is none */
    }
    if (index != NONE) {
        digest_change(quorum, partition, index, 1);
    }
    return stored;
}

/* ---- Promises and rounds ---- */

static void promise(struct quorum *quorum, const struct message_partitions *partitions,
                    uint64_t ballot)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (message_partition_has(partitions, p)) {
            HF_CHECK(ballot > quorum->partitions[p].promised);
            quorum->partitions[p].promised = ballot;
        }
    }
    HF_PROBE1(promise, ballot);
    struct action *action = step_emit(quorum, ACTION_PERSIST_PROMISE);
    action->as.promise.partitions = *partitions;
    action->as.promise.ballot = ballot;
}

static void promise_one(struct quorum *quorum, uint32_t partition, uint64_t ballot)
{
    struct message_partitions partitions = {{0}};
    message_partition_add(&partitions, partition);
    promise(quorum, &partitions, ballot);
}

/* Only a voter proposes, and only under its own ballots. */
static bool from_proposer(const struct quorum *quorum, const struct message *message,
                          uint64_t ballot, uint32_t *voter)
{
    return agents_voter(quorum, message, voter) && (ballot & 0xffff) == *voter + 1;
}

/* Whether another voter than that one coordinates the partition, as far as it can be known here. No
 * promise is due to a challenger then; whether it gets one makes nothing unsafe. */
static bool is_owned(const struct quorum *quorum, uint32_t p, uint32_t voter)
{
    const struct partition *partition = &quorum->partitions[p];
    bool own = voter != quorum->config->self && partition->state == PARTITION_PREPARED &&
               beat_majority(quorum);
    return own || coordinator_claimed(quorum, p, voter);
}

void acceptor_prepare(struct quorum *quorum, const struct message *message)
{
    const struct message_prepare *prepare = &message->as.prepare;
    uint32_t voter = 0;
    if (!members_votes(quorum) || !from_proposer(quorum, message, prepare->ballot, &voter)) {
        return;
    }
    struct message_promise answer = {.ballot = prepare->ballot};
    struct message_partitions raised = {{0}};
    bool any = false;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (!message_partition_has(&prepare->partitions, p)) {
            continue;
        }
        uint64_t promised = quorum->partitions[p].promised;
        if (prepare->ballot < promised) {
            message_partition_add(&answer.refused, p);
            answer.higher = promised > answer.higher ? promised : answer.higher;
            continue;
        }
        if (prepare->ballot > promised && !prepare->rejoin && is_owned(quorum, p, voter)) {
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
        promise(quorum, &raised, prepare->ballot);
    }
    step_send(quorum, voter, MESSAGE_PROMISE)->as.promise = answer;
}

void acceptor_read(struct quorum *quorum, const struct message *message)
{
    const struct message_read *read = &message->as.read;
    uint32_t voter = 0;
    if (!members_votes(quorum) || !from_proposer(quorum, message, read->ballot, &voter)) {
        return;
    }
    uint32_t partition = names_partition(read->name.bytes, read->name.length);
    uint64_t promised = quorum->partitions[partition].promised;
    if (read->ballot > promised) {
        promise_one(quorum, partition, read->ballot);
    }
    struct message_read_value *answer = &step_send(quorum, voter, MESSAGE_VALUE)->as.value;
    answer->ballot = read->ballot;
    answer->name = read->name;
    answer->checkpoint = quorum->partitions[partition].checkpoint;
    if (read->ballot < promised) {
        answer->higher = promised;
        return;
    }
    uint32_t name = names_find(quorum->names, read->name.bytes, read->name.length);
    const struct record *record = name == NAMES_NONE ? NULL : acceptor_find(quorum, name);
    if (record != NULL) {
        answer->known = true;
        answer->accepted = record_accepted(record);
        record_to_value(quorum, record, &answer->value);
    }
}

/* Stores and persists; false: no room. */
static bool accept_value(struct quorum *quorum, const struct message_accept *accept)
{
    if (!acceptor_store(quorum, &accept->name, accept->order, &accept->value)) {
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

void acceptor_accept(struct quorum *quorum, const struct message *message)
{
    const struct message_accept *accept = &message->as.accept;
    uint32_t voter = 0;
    if (!members_votes(quorum) || !from_proposer(quorum, message, accept->order.ballot, &voter)) {
        return;
    }
    uint32_t partition = names_partition(accept->name.bytes, accept->name.length);
    uint64_t promised = quorum->partitions[partition].promised;
    struct message_accepted answer = {.order = accept->order, .name = accept->name};
    if (accept->order.ballot < promised) {
        answer.higher = promised;
        step_send(quorum, voter, MESSAGE_ACCEPTED)->as.accepted = answer;
        return;
    }
    uint32_t name = names_find(quorum->names, accept->name.bytes, accept->name.length);
    const struct record *record = name == NAMES_NONE ? NULL : acceptor_find(quorum, name);
    if (record != NULL && message_order_before(accept->order, record_accepted(record))) {
        return; /* overtaken by a later one of the same coordinator, which needs no answer */
    }
    if (record == NULL &&
        !message_order_before(quorum->partitions[partition].checkpoint.order, accept->order)) {
        return; /* deleted since */
    }
    if (accept->order.ballot > promised) {
        promise_one(quorum, partition, accept->order.ballot);
    }
    bool again = record != NULL && message_order_equal(accept->order, record_accepted(record));
    if (!again) {
        answer.full = !accept_value(quorum, accept);
    }
    if (!accept->chosen) {
        step_send(quorum, voter, MESSAGE_ACCEPTED)->as.accepted = answer;
    }
}

bool acceptor_adopt(struct quorum *quorum, const struct message_accept *value)
{
    uint32_t p = names_partition(value->name.bytes, value->name.length);
    struct partition *partition = &quorum->partitions[p];
    uint32_t name = names_find(quorum->names, value->name.bytes, value->name.length);
    const struct record *record = name == NAMES_NONE ? NULL : acceptor_find(quorum, name);
    if (record != NULL ? !message_order_before(record_accepted(record), value->order)
                       : !message_order_before(partition->checkpoint.order, value->order)) {
        return true; /* known, or deleted */
    }
    if (value->order.ballot > partition->promised) {
        promise_one(quorum, p, value->order.ballot);
    }
    if (!accept_value(quorum, value)) {
        return false;
    }
    coordinator_beaten(quorum, p, value->order.ballot);
    return true;
}
