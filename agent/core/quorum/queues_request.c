/*
 * Hosts' requests: how a message gets into the queue of its name, or to the voter that coordinates
 * the name.
 *
 * A host sends its request to the voter that it believes to coordinate the name, or to any voter. A
 * voter that does not coordinate the name passes the request on, once, and the answers come back
 * through the same voter. Acquires queue in order of arrival. When the coordinator changes, hosts
 * have to ask again. A repeated request says how long its host has waited, so that it is not put
 * behind requests that came later.
 */
#include <string.h>

#include "proto/check.h"
#include "queues_private.h"

/* Reads the message into *request. Points *who and *name into the message. */
static void read_request(const struct quorum *quorum, const struct message *message,
                         struct queued_request *request, const struct message_agent **who,
                         const struct message_name **name)
{
    memset(request, 0, sizeof(*request));
    request->kind = (uint8_t)message->kind;
    request->relay = ACTION_NO_RELAY;
    request->arrived_ns = step_now_ns(quorum);
    request->seen_ns = step_now_ns(quorum);
    if (message->kind == MESSAGE_ACQUIRE) {
        const struct message_acquire *acquire = &message->as.acquire;
        *who = &acquire->agent;
        *name = &acquire->name;
        request->epoch = acquire->epoch;
        request->id = acquire->request_id;
        request->mode = acquire->mode;
        request->lock_delay_ms = acquire->lock_delay_ms;
        request->arrived_ns -= acquire->waited_ms * MS_NS;
        request->waited_ms = acquire->waited_ms;
        request->tries = acquire->tries;
        request->version = acquire->made;
        request->probes = acquire->tries != MESSAGE_TRIES_NONE;
    } else if (message->kind == MESSAGE_AMEND) {
        const struct message_amend *amend = &message->as.amend;
        *who = &amend->agent;
        *name = &amend->name;
        request->epoch = amend->epoch;
        request->id = amend->request_id;
        request->version = amend->version;
        request->mode = amend->mode;
        request->lock_delay_ms = amend->lock_delay_ms;
        request->has_used = amend->token_used != 0;
        request->token = request->has_used ? amend->token_used : amend->token_last;
    } else if (message->kind == MESSAGE_BREAK) {
        const struct message_break *broken = &message->as.break_lock;
        *who = &broken->agent;
        *name = &broken->name;
        request->id = broken->request_id;
        request->mode = broken->now;
        request->token = broken->user;
        request->counts = broken->counts;
        request->version = broken->meant;
    } else {
        const struct message_give_back *give_back = &message->as.give_back;
        *who = &give_back->agent;
        *name = &give_back->name;
        request->epoch = give_back->epoch;
        request->id = give_back->request_id;
        request->version = give_back->version;
        request->token = give_back->token_used;
    }
}

/* Reads the request of a message. Returns false if the message carries another agent's request but
 * no voter sent it, or if the table of agents is full. In the latter case the request is refused.
 */
static bool request_from(struct quorum *quorum, const struct message *message,
                         struct queued_request *request, const struct message_name **name)
{
    const struct message_agent *who = NULL;
    uint32_t agent = 0;
    read_request(quorum, message, request, &who, name);
    if (memcmp(who, &message->from, sizeof(*who)) != 0) {
        uint32_t voter = 0;
        if (!agents_voter(quorum, message, &voter)) {
            return false;
        }
        request->relay = (uint8_t)voter;
    } else if (request->kind == MESSAGE_ACQUIRE) {
        request->version = (struct message_order){0}; /* only a coordinator knows which grant it has
                                                       * proposed */
    }
    if (!agents_guest(quorum, who, &agent)) {
        struct message_refused *refused =
            &step_send_by(quorum, ACTION_STRANGER, request->relay, MESSAGE_REFUSED)->as.refused;
        refused->agent = *who;
        refused->epoch = request->epoch;
        refused->request_id = request->id;
        refused->name = **name;
        refused->reason = MESSAGE_REFUSED_FULL;
        answer_say_full(quorum, refused, HFI_TABLE_VOTER_AGENTS);
        return false;
    }
    request->agent = (uint16_t)agent;
    return true;
}

/* Passes the message on to the voter that coordinates the partition. Returns false if it came from
 * a voter already, or if this voter knows no coordinator that it could reach. */
static bool pass_on(struct quorum *quorum, const struct message *message,
                    const struct queued_request *request, uint32_t partition)
{
    uint32_t owner = ballots_coordinator(quorum, partition);
    if (request->relay != ACTION_NO_RELAY || owner >= quorum->config->voter_count ||
        owner == quorum->config->self || !voters_heartbeats_arrive(quorum, owner)) {
        return false;
    }
    struct message *passed = agents_send_voter(quorum, owner, message->kind);
    memcpy(&passed->as, &message->as, MESSAGE_BASE_SIZE - offsetof(struct message, as));
    return true;
}

/* Returns whether the request came through a voter although the host sent it here directly a moment
 * ago. Such a copy comes from a queue that was handed over, or took a slower way. A host itself
 * changes to another way only after a longer wait. */
static bool is_detour(const struct quorum *quorum, const struct queued_request *queued,
                      const struct queued_request *request)
{
    return request->relay != ACTION_NO_RELAY && queued->relay == ACTION_NO_RELAY &&
           step_now_ns(quorum) - queued->seen_ns < RESEND_MS * MS_NS;
}

/*
 * A copy of an acquire says whether processes of its host wait, try, or both. The newest copy
 * decides: the copy with the longest waited_ms. So a late copy does not turn a request that waits
 * into a try. Of two copies with the same waited_ms either may be the newer one, so the request
 * does what either of them asks for. Returns whether the queue has to be looked at.
 */
static bool note_tries(struct queued_request *queued, const struct queued_request *copy)
{
    uint8_t before = queued->tries;
    if (copy->waited_ms < queued->waited_ms) {
        return false;
    }
    bool same = copy->waited_ms == queued->waited_ms && before != copy->tries;
    queued->tries = same ? (uint8_t)MESSAGE_TRIES_ALSO : copy->tries;
    queued->waited_ms = copy->waited_ms;
    /* the owners are asked again, because their answer may be lost */
    queued->probes = queued->tries != MESSAGE_TRIES_NONE;
    return queued->probes || before == MESSAGE_TRIES_ONLY;
}

/* For a copy of an acquire that the previous coordinator has passed on: notes which grant that
 * voter had proposed for the request. If this voter is now having that same grant accepted again,
 * the host may use it at once, although this voter did not make it. */
static void note_made(const struct operation *operation, struct queued_request *queued,
                      const struct queued_request *copy)
{
    if (copy->version.ballot == 0 || queued->version.ballot != 0) {
        return;
    }
    queued->version = copy->version;
    if (queued->outcome == OUTCOME_GRANT && operation->value.mode == MESSAGE_MODE_EXCLUSIVE &&
        message_order_equal(record_version(&operation->value), queued->version)) {
        queued->fresh = true;
    }
}

/*
 * Returns whether the request is in the queue already. If so, the answer will go the way of the
 * latest copy; if the copy of an acquire asks for something else, *changed is set, and the acquire
 * keeps its turn. If not, *own is how many requests of that kind the agent has in the queue.
 */
static bool is_queued(struct quorum *quorum, struct operation *operation,
                      const struct queued_request *request, bool *changed, uint32_t *own)
{
    bool acquires = request->kind == MESSAGE_ACQUIRE;
    *own = 0;
    for (uint32_t at = operation->first; at != NONE; at = quorum->queues->requests[at].next) {
        struct queued_request *other = &quorum->queues->requests[at];
        if (other->agent == request->agent && other->epoch == request->epoch &&
            other->id == request->id && other->kind == request->kind) {
            if (!is_detour(quorum, other, request)) {
                other->relay = request->relay;
                /* A recall of the request's grant takes the same way, see queues_wait.c. */
                operation->way = other->outcome == OUTCOME_GRANT ? request->relay : operation->way;
            }
            other->seen_ns = step_now_ns(quorum);
            if (other->kind == MESSAGE_ACQUIRE) {
                note_made(operation, other, request);
            }
            *changed = other->kind == MESSAGE_ACQUIRE && other->mode != request->mode &&
                       other->outcome == OUTCOME_NONE;
            other->mode = *changed ? request->mode : other->mode;
            if (other->kind == MESSAGE_ACQUIRE && other->outcome == OUTCOME_NONE) {
                *changed = note_tries(other, request) || *changed;
            }
            return true;
        }
        *own += other->agent == request->agent && (other->kind == MESSAGE_ACQUIRE) == acquires;
    }
    return false;
}

/* Returns the link at which to insert the request. An acquire goes behind the acquires that arrived
 * before it. */
static uint32_t *link_for(struct quorum *quorum, struct operation *operation,
                          const struct queued_request *request)
{
    if (operation->last == NONE) {
        return &operation->first;
    }
    const struct queued_request *last = &quorum->queues->requests[operation->last];
    if (request->kind != MESSAGE_ACQUIRE ||
        (last->kind == MESSAGE_ACQUIRE && last->arrived_ns <= request->arrived_ns)) {
        return &quorum->queues->requests[operation->last].next;
    }
    uint32_t *link = &operation->first;
    while (*link != NONE) {
        const struct queued_request *other = &quorum->queues->requests[*link];
        if (other->kind == MESSAGE_ACQUIRE && other->arrived_ns > request->arrived_ns) {
            break;
        }
        link = &quorum->queues->requests[*link].next;
    }
    return link;
}

/* Puts the request into the queue. Returns false if there are too many requests. */
static bool enqueue(struct quorum *quorum, struct operation *operation,
                    const struct queued_request *request)
{
    uint32_t at = quorum->queues->request_free;
    if (at != NONE) {
        quorum->queues->request_free = quorum->queues->requests[at].next;
    } else if (quorum->queues->request_used < quorum->config->limits.requests) {
        at = ++quorum->queues->request_used;
    } else {
        return false;
    }
    quota_take(quorum, request);
    uint32_t *link = link_for(quorum, operation, request);
    quorum->queues->requests[at] = *request;
    quorum->queues->requests[at].next = *link;
    *link = at;
    if (quorum->queues->requests[at].next == NONE) {
        operation->last = at;
    }
    return true;
}

/* Looks at the operation if it is not NULL and has no round under way. */
static void look_if_waiting(struct quorum *quorum, struct operation *operation)
{
    if (operation != NULL && operation->state == OPERATION_WAITING) {
        operation_look(quorum, operation);
    }
}

void queues_request(struct quorum *quorum, const struct message *message)
{
    struct queued_request request;
    const struct message_name *name = NULL;
    if (!request_from(quorum, message, &request, &name)) {
        return;
    }
    uint32_t partition = names_partition(name->bytes, name->length);
    if (message->kind == MESSAGE_AMEND && message->as.amend.in_use) {
        if (ballots_state(quorum, partition) != PARTITION_OTHERS) {
            look_if_waiting(quorum, wait_used(quorum, message));
        } else {
            (void)pass_on(quorum, message, &request, partition);
        }
        return;
    }
    if (ballots_state(quorum, partition) == PARTITION_OTHERS) {
        if (!pass_on(quorum, message, &request, partition)) {
            answer_refused(quorum, &request, name, MESSAGE_REFUSED_NOT_OWNER);
        }
        return;
    }
    uint32_t id = names_hold(quorum->names, name->bytes, name->length);
    struct operation *operation = id == NAMES_NONE ? NULL : operation_for(quorum, id);
    if (operation == NULL) {
        answer_full(quorum, &request, name, MESSAGE_REFUSED_FULL,
                    id == NAMES_NONE ? HFI_TABLE_NAMES : HFI_TABLE_VOTER_REQUESTS);
        return;
    }
    bool changed = false;
    uint32_t own = 0;
    if (is_queued(quorum, operation, &request, &changed, &own)) {
        if (changed) {
            look_if_waiting(quorum, operation);
        } else {
            answer_closed(quorum, operation, &request, name);
        }
        return;
    }
    request.again = request.kind == MESSAGE_ACQUIRE &&
                    answered_find(quorum, &request, name) != NULL;
    if (!quota_admits(quorum, &request, own)) {
        answer_full(quorum, &request, name, MESSAGE_REFUSED_QUOTA, HFI_TABLE_VOTER_QUOTA);
    } else if (!enqueue(quorum, operation, &request)) {
        answer_full(quorum, &request, name, MESSAGE_REFUSED_FULL, HFI_TABLE_VOTER_REQUESTS);
    }
    look_if_waiting(quorum, operation);
}
