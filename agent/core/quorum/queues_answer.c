/*
 * Answers to hosts. An answer goes back the way by which its request came, so that a host that
 * cannot reach this voter is served through another voter.
 */
#include "proto/check.h"
#include "queues_private.h"

static struct message *answer(struct quorum *quorum, const struct queued_request *request,
                              enum message_kind kind)
{
    return step_send_by(quorum, request->agent, request->relay, kind);
}

void answer_refused(struct quorum *quorum, const struct queued_request *request,
                    const struct message_name *name, enum message_refusal reason)
{
    struct message_refused *refused = &answer(quorum, request, MESSAGE_REFUSED)->as.refused;
    refused->agent = *agents_name(quorum, request->agent);
    refused->epoch = request->epoch;
    refused->request_id = request->id;
    refused->name = *name;
    refused->reason = (uint8_t)reason;
    if (reason == MESSAGE_REFUSED_NOT_OWNER) {
        uint32_t owner = ballots_coordinator(quorum, names_partition(name->bytes, name->length));
        if (owner < quorum->config->voter_count && owner != quorum->config->self) {
            refused->owner = quorum->config->voters[owner];
        }
    }
}

static void answer_grant(struct quorum *quorum, const struct queued_request *request,
                         const struct message_name *name, const struct record *value)
{
    enum message_kind kind = request->kind == MESSAGE_AMEND ? MESSAGE_AMENDED : MESSAGE_GRANT;
    struct message_grant *grant = &answer(quorum, request, kind)->as.grant;
    grant->agent = *agents_name(quorum, request->agent);
    grant->epoch = request->epoch;
    grant->request_id = request->id;
    grant->name = *name;
    grant->version = record_version_of(quorum, value, request->agent);
    grant->mode = value->mode;
    grant->lock_delay_ms = value->lock_delay_ms;
    grant->token_first = value->token_first;
    grant->token_last = record_token_last(value);
    grant->fresh = request->kind == MESSAGE_ACQUIRE && request->fresh;
    if (request->kind == MESSAGE_ACQUIRE && request->fresh && !request->again) {
        step_counts(quorum)->grants++;
        histogram_add(&step_counts(quorum)->wait, step_now_ns(quorum) - request->arrived_ns);
    }
    if (request->kind == MESSAGE_ACQUIRE) {
        answered_keep(quorum, request, grant);
    }
}

/* Repeats the first answer. If that answer is forgotten by now, nothing is sent, as if it were
 * lost. */
static void answer_again(struct quorum *quorum, const struct queued_request *request,
                         const struct message_name *name)
{
    const struct answered *answered = answered_find(quorum, request, name);
    if (answered == NULL) {
        return;
    }
    struct message_grant *grant = &answer(quorum, request, MESSAGE_GRANT)->as.grant;
    grant->agent = *agents_name(quorum, request->agent);
    grant->epoch = request->epoch;
    grant->request_id = request->id;
    grant->name = *name;
    grant->version = answered->version;
    grant->mode = answered->mode;
    grant->lock_delay_ms = answered->lock_delay_ms;
    grant->token_first = answered->token_first;
    grant->token_last = answered->token_last;
    grant->fresh = answered->fresh;
}

static void answer_given_back(struct quorum *quorum, const struct queued_request *request,
                              const struct message_name *name)
{
    struct message_version *given = &answer(quorum, request, MESSAGE_GIVE_BACK_ACK)->as.version;
    given->agent = *agents_name(quorum, request->agent);
    given->epoch = request->epoch;
    given->request_id = request->id;
    given->name = *name;
    given->version = request->version;
}

/* Carries out a break for one owner. Returns false if the owner's session has ended; otherwise
 * sends the owner BREAK_HOLD. */
static bool notify_owner_to_break(struct quorum *quorum, const struct queued_request *request,
                                  const struct message_name *name, const struct share *owner)
{
    if (sessions_has_ended(quorum, owner->agent, owner->epoch)) {
        return false; /* the lock-delay of that session runs already */
    }
    struct message_break *hold =
        &step_send_by(quorum, owner->agent, ACTION_NO_RELAY, MESSAGE_BREAK_HOLD)->as.break_lock;
    hold->agent = *agents_name(quorum, request->agent);
    hold->request_id = request->id;
    hold->name = *name;
    hold->now = request->mode != 0;
    hold->version = owner->version;
    hold->user = request->token;
    return true;
}

/* Returns the version up to which a break concerns grants. A client repeats its break until the
 * outcome arrives, and meanwhile the lock may have a new owner that the break does not concern. So
 * the first copy of the request notes the grants that exist then. */
static struct message_order meant_by(struct quorum *quorum, const struct queued_request *request,
                                     const struct share *owners, uint32_t count)
{
    for (uint32_t i = 0; i < BROKEN_KEPT; i++) {
        const struct break_forwarded *broken = &quorum->queues->broken[i];
        if (broken->id == request->id && broken->agent == request->agent && broken->id != 0) {
            return broken->version;
        }
    }
    struct break_forwarded *broken =
        &quorum->queues->broken[quorum->queues->broken_next++ % BROKEN_KEPT];
    *broken = (struct break_forwarded){.id = request->id, .agent = request->agent};
    for (uint32_t i = 0; i < count; i++) {
        if (message_order_before(broken->version, owners[i].version)) {
            broken->version = owners[i].version;
        }
    }
    return broken->version;
}

/* Sends BREAK_HOLD to every owner that the break concerns. These owners answer the client. If there
 * is no such owner, reports the break as done. */
static void answer_break(struct quorum *quorum, const struct queued_request *request,
                         const struct message_name *name, const struct record *value)
{
    struct share owners[MESSAGE_SHARES_MAX];
    uint32_t count = record_shares(quorum, value, owners);
    bool notified = false;
    if (value->mode == MESSAGE_MODE_EXCLUSIVE) {
        owners[0] = (struct share){record_version(value), value->epoch, value->owner};
        count = 1;
    }
    struct message_order meant = meant_by(quorum, request, owners, count);
    for (uint32_t i = 0; i < count; i++) {
        bool newer = message_order_before(meant, owners[i].version);
        notified = (!newer && notify_owner_to_break(quorum, request, name, &owners[i])) || notified;
    }
    if (!notified) {
        struct message_outcome *outcome = &answer(quorum, request, MESSAGE_BROKEN)->as.outcome;
        outcome->agent = *agents_name(quorum, request->agent);
        outcome->request_id = request->id;
        outcome->result = 0;
    }
}

void answer_tries(struct quorum *quorum, struct operation *operation)
{
    struct message_name name;
    step_lock_name(quorum, operation->name, &name);
    for (uint32_t at = operation->first; at != NONE; at = quorum->queues->requests[at].next) {
        struct queued_request *request = &quorum->queues->requests[at];
        if (request->refused) {
            answer_refused(quorum, request, &name, MESSAGE_REFUSED_IN_USE);
            request->tries = MESSAGE_TRIES_NONE;
            request->refused = false;
            request->probes = false;
            request->probe = 0;
        }
    }
}

static void answer_one(struct quorum *quorum, const struct queued_request *request,
                       const struct message_name *name, const struct record *value)
{
    switch ((enum outcome)request->outcome) {
    case OUTCOME_GRANT:
    case OUTCOME_AMENDED:
        answer_grant(quorum, request, name, value);
        break;
    case OUTCOME_ANSWERED:
        answer_again(quorum, request, name);
        break;
    case OUTCOME_GIVEN_BACK:
        answer_given_back(quorum, request, name);
        break;
    case OUTCOME_BREAK:
        answer_break(quorum, request, name, value);
        break;
    case OUTCOME_REFUSED_FULL:
        answer_refused(quorum, request, name, MESSAGE_REFUSED_FULL);
        break;
    case OUTCOME_REFUSED_NOT_OWNER:
        answer_refused(quorum, request, name, MESSAGE_REFUSED_NOT_OWNER);
        break;
    case OUTCOME_REFUSED_SESSION:
        answer_refused(quorum, request, name, MESSAGE_REFUSED_SESSION);
        break;
    case OUTCOME_REFUSED_VERSION:
        answer_refused(quorum, request, name, MESSAGE_REFUSED_VERSION);
        break;
    case OUTCOME_REFUSED_TOKENS:
        answer_refused(quorum, request, name, MESSAGE_REFUSED_TOKENS);
        break;
    case OUTCOME_REFUSED_IN_USE:
        answer_refused(quorum, request, name, MESSAGE_REFUSED_IN_USE);
        break;
    case OUTCOME_HOST_GONE:
        break;
    case OUTCOME_NONE:
        HF_CHECK(!"a request without an outcome has no answer");
        break;
    }
}

/* Returns whether the request is an upgrade that was refused only because other hosts have shares.
 */
static bool is_vain_upgrade(const struct quorum *quorum, const struct queued_request *request,
                            const struct record *value)
{
    if (request->kind != MESSAGE_AMEND || request->outcome != OUTCOME_REFUSED_VERSION ||
        request->mode != MESSAGE_MODE_EXCLUSIVE || value == NULL ||
        value->mode != MESSAGE_MODE_SHARED) {
        return false;
    }
    struct share shares[MESSAGE_SHARES_MAX];
    uint32_t count = record_shares(quorum, value, shares);
    for (uint32_t i = 0; i < count; i++) {
        if (shares[i].agent == request->agent) {
            return shares[i].epoch == request->epoch &&
                   message_order_equal(shares[i].version, request->version);
        }
    }
    return false;
}

void answer_decided(struct quorum *quorum, struct operation *operation, const struct record *value)
{
    struct message_name name;
    step_lock_name(quorum, operation->name, &name);
    uint16_t upgrades = AGENTS_NONE;
    bool broken = false;
    uint32_t *link = &operation->first;
    uint32_t last = NONE;
    while (*link != NONE) {
        uint32_t at = *link;
        struct queued_request *request = &quorum->queues->requests[at];
        if (request->outcome == OUTCOME_NONE) {
            last = at;
            link = &request->next;
            continue;
        }
        answer_one(quorum, request, &name, value);
        upgrades = is_vain_upgrade(quorum, request, value) ? request->agent : upgrades;
        broken = broken || request->outcome == OUTCOME_BREAK;
        quota_leave(quorum, request);
        *link = request->next;
        request->next = quorum->queues->request_free;
        quorum->queues->request_free = at;
    }
    operation->last = last;
    /* An upgrade needs the shares of other hosts, which may be idle. (If a request waits in the
     * queue, the owners get recalls because of that request.) */
    if (upgrades != AGENTS_NONE && operation->first == NONE && !broken) {
        wait_recall_idle(quorum, operation, value, upgrades);
    }
}

void answer_all(struct quorum *quorum, struct operation *operation, enum outcome outcome)
{
    uint32_t count = 0;
    for (uint32_t at = operation->first; at != NONE; at = quorum->queues->requests[at].next) {
        quorum->queues->requests[at].outcome = (uint8_t)(count < OUTCOMES_MAX ? outcome
                                                                              : OUTCOME_NONE);
        count++;
    }
    answer_decided(quorum, operation, NULL);
}
