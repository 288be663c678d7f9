/*
 * The table of operations, and the memory of the queues. A hash finds the operation of a lock's
 * name. Each partition has a list of its operations.
 *
 * This file calls no other file of the queues, so that each of them may call it.
 */
#include <string.h>

#include "proto/check.h"
#include "queues_private.h"

static uint32_t power_above(uint32_t count)
{
    uint32_t power = 16;
    while (power < count && power < (UINT32_C(1) << 31)) {
        power *= 2;
    }
    return power;
}

static uint8_t follow(const struct succession *succession, uint8_t relay)
{
    bool stays = relay < succession->old_count && succession->to[relay] != SUCCESSION_NONE;
    return stays ? succession->to[relay] : ACTION_NO_RELAY;
}

void queues_follow(struct quorum *quorum, const struct succession *succession)
{
    struct queues *queues = quorum->queues;
    for (uint32_t i = 1; i <= queues->request_used; i++) {
        queues->requests[i].relay = follow(succession, queues->requests[i].relay);
    }
    for (uint32_t i = 1; i <= queues->operation_used; i++) {
        queues->operations[i].way = follow(succession, queues->operations[i].way);
    }
}

struct queues *queues_lay_out(struct arena *arena, const struct quorum_limits *limits)
{
    struct queues *queues = arena_take(arena, 1, sizeof(*queues));
    size_t operations = (size_t)limits->requests * OPERATIONS_PER_REQUEST + 1;
    uint32_t heads = power_above(limits->requests);
    uint32_t answered = power_above(limits->requests > 1024 ? limits->requests : 1024);
    ARENA_TAKE(arena, queues, quotas, limits->agents);
    ARENA_TAKE(arena, queues, requests, (size_t)limits->requests + 1);
    ARENA_TAKE(arena, queues, operations, operations);
    ARENA_TAKE(arena, queues, operation_heads, heads);
    HEAP_TAKE(arena, queues, wakes, operations);
    ARENA_TAKE(arena, queues, answered, (size_t)answered + 1);
    ARENA_TAKE(arena, queues, answered_heads, answered);
    if (queues != NULL) {
        queues->operation_head_mask = heads - 1;
        queues->answered_mask = answered - 1;
    }
    return queues;
}

uint32_t operation_index(const struct quorum *quorum, const struct operation *operation)
{
    return (uint32_t)(operation - quorum->queues->operations);
}

static uint32_t *chain_of(const struct quorum *quorum, uint32_t name)
{
    uint32_t hash = name * UINT32_C(2654435761);
    return &quorum->queues
                ->operation_heads[(hash ^ hash >> 16) & quorum->queues->operation_head_mask];
}

struct operation *operation_find(const struct quorum *quorum, uint32_t name)
{
    uint32_t at = *chain_of(quorum, name);
    while (at != NONE && quorum->queues->operations[at].name != name) {
        at = quorum->queues->operations[at].chain;
    }
    return at == NONE ? NULL : &quorum->queues->operations[at];
}

static struct queue_partition *partition_of(struct quorum *quorum,
                                            const struct operation *operation)
{
    return &quorum->queues->partitions[operation->partition];
}

void operation_set_state(struct quorum *quorum, struct operation *operation,
                         enum operation_state state)
{
    struct queue_partition *partition = partition_of(quorum, operation);
    partition->busy -= operation->state != OPERATION_WAITING;
    operation->state = (uint8_t)state;
    partition->busy += operation->state != OPERATION_WAITING;
}

static void link_into(struct quorum *quorum, struct operation *operation)
{
    uint32_t at = operation_index(quorum, operation);
    struct queue_partition *partition = partition_of(quorum, operation);
    uint32_t *head = chain_of(quorum, operation->name);
    operation->chain = *head;
    *head = at;
    operation->next = partition->first;
    if (operation->next != NONE) {
        quorum->queues->operations[operation->next].previous = at;
    }
    partition->first = at;
}

struct operation *operation_for(struct quorum *quorum, uint32_t name)
{
    struct operation *operation = operation_find(quorum, name);
    uint32_t at = quorum->queues->operation_free;
    if (operation != NULL) {
        names_drop(quorum->names, name);
        return operation;
    }
    if (at != NONE) {
        quorum->queues->operation_free = quorum->queues->operations[at].chain;
    } else if (quorum->queues->operation_used <
               OPERATIONS_PER_REQUEST * quorum->config->limits.requests) {
        at = ++quorum->queues->operation_used;
    } else {
        names_drop(quorum->names, name);
        return NULL;
    }
    size_t length = 0;
    const uint8_t *bytes = names_bytes(quorum->names, name, &length);
    operation = &quorum->queues->operations[at];
    memset(operation, 0, sizeof(*operation));
    operation->name = name;
    operation->partition = (uint8_t)names_partition(bytes, length);
    operation->state = OPERATION_WAITING;
    operation->waits_for = AGENTS_NONE;
    operation->recall_ns = INT64_MIN;
    operation->way = ACTION_NO_RELAY;
    link_into(quorum, operation);
    quorum->queues->operation_count++;
    return operation;
}

void operation_remove(struct quorum *quorum, struct operation *operation)
{
    HF_CHECK(operation->first == NONE && operation->state == OPERATION_WAITING);
    HF_CHECK(operation->waits_for == AGENTS_NONE);
    uint32_t at = operation_index(quorum, operation);
    uint32_t *link = chain_of(quorum, operation->name);
    while (*link != at) {
        link = &quorum->queues->operations[*link].chain;
    }
    *link = operation->chain;
    if (operation->previous != NONE) {
        quorum->queues->operations[operation->previous].next = operation->next;
    } else {
        partition_of(quorum, operation)->first = operation->next;
    }
    if (operation->next != NONE) {
        quorum->queues->operations[operation->next].previous = operation->previous;
    }
    record_drop(quorum, &operation->value);
    names_drop(quorum->names, operation->name);
    operation->name = NAMES_NONE;
    operation->chain = quorum->queues->operation_free;
    quorum->queues->operation_free = at;
    quorum->queues->operation_count--;
}

bool queues_decide_only(const struct quorum *quorum, const struct message_name *name)
{
    uint32_t id = names_find(quorum->names, name->bytes, name->length);
    return quorum->queues->operation_count == 0 ||
           (quorum->queues->operation_count == 1 && operation_find(quorum, id) != NULL);
}
