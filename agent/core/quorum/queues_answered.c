/*
 * The last answers to acquires. A repeated acquire gets the same answer again. Without that, a late
 * repeat of a request whose grant was given back since would be granted anew, or would make this
 * voter recall other owners. Sending the same grant again is safe, because a host accepts no grant
 * that it has given back (docs/PROTOCOL.md, rule 9).
 *
 * A ring keeps the last answers, and a hash finds them. They are not durable. So a late repeat
 * after a take-over is granted anew. Its host does not ask for the grant any more, and gives it
 * back.
 */
#include <string.h>

#include "proto/check.h"
#include "queues_private.h"

uint64_t answered_name_hash(const struct message_name *name)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (uint32_t i = 0; i < name->length; i++) {
        hash = (hash ^ name->bytes[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static uint32_t *head_of(struct quorum *quorum, uint16_t agent, uint64_t id)
{
    uint64_t hash = (id ^ (uint64_t)agent << 48) * UINT64_C(0x9e3779b97f4a7c15);
    return &quorum->queues->answered_heads[hash >> 40 & quorum->queues->answered_mask];
}

static void forget(struct quorum *quorum, uint32_t at)
{
    struct answered *old = &quorum->queues->answered[at];
    if (old->id == 0 && old->epoch == 0) {
        return;
    }
    uint32_t *link = head_of(quorum, old->agent, old->id);
    while (*link != at) {
        HF_CHECK(*link != NONE);
        link = &quorum->queues->answered[*link].next;
    }
    *link = old->next;
}

const struct answered *answered_find(struct quorum *quorum, const struct queued_request *request,
                                     const struct message_name *name)
{
    uint32_t at = *head_of(quorum, request->agent, request->id);
    for (; at != NONE; at = quorum->queues->answered[at].next) {
        const struct answered *answered = &quorum->queues->answered[at];
        if (answered->agent == request->agent && answered->epoch == request->epoch &&
            answered->id == request->id && answered->name == answered_name_hash(name)) {
            return answered;
        }
    }
    return NULL;
}

void answered_keep(struct quorum *quorum, const struct queued_request *request,
                   const struct message_grant *grant)
{
    if (answered_find(quorum, request, &grant->name) != NULL) {
        return;
    }
    uint32_t at = quorum->queues->answered_last % (quorum->queues->answered_mask + 1) + 1;
    forget(quorum, at);
    quorum->queues->answered_last = at;
    uint32_t *head = head_of(quorum, request->agent, request->id);
    quorum->queues->answered[at] = (struct answered){
        .next = *head,
        .epoch = request->epoch,
        .id = request->id,
        .name = answered_name_hash(&grant->name),
        .version = grant->version,
        .token_first = grant->token_first,
        .token_last = grant->token_last,
        .agent = request->agent,
        .lock_delay_ms = grant->lock_delay_ms,
        .mode = grant->mode,
        .fresh = grant->fresh,
    };
    *head = at;
}
