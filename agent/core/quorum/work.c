/*
 * Work: a lock name that hosts ask for. It has the queue of their requests and at most one round
 * with the voters at a time.
 *
 *   WAITING -> READING    the first touch under this ballot: a majority's newest value
 *           -> ACCEPTING  the next value, decided from the last by as many requests as can be
 *           -> WAITING    chosen: those requests are answered, the next ones decided
 *
 * A value that was read from others is accepted again under the own ballot before anybody is
 * answered by it; that nobody has a value needs no accept. So what a majority has is the own
 * acceptor's register, if it was accepted under the partition's ballot and no round is on the way.
 *
 * Give-backs and amendments are decided first, then the acquires in order of arrival: one that has
 * to wait holds back those behind it. If a give-back is in the queue, its release and the next
 * grant are one accept. Memory of answered requests is not needed: the register itself answers a
 * repeated one (the grant that its owner has; a version that is no longer there).
 */
#include <string.h>

#include "proto/check.h"
#include "state.h"

/* The most actions that one work needs in one go: two sets of answers, a round or a poll to every
 * voter, a new ballot, a recall. */
enum { WORK_ACTIONS = 2 * OUTCOMES_MAX + 2 * (MESSAGE_VOTERS_MAX + 1) };
_Static_assert((int)WORK_ACTIONS <= (int)QUORUM_STEP_ACTIONS, "one work fits into a step");

static uint32_t index_of(const struct quorum *quorum, const struct work *work)
{
    return (uint32_t)(work - quorum->works);
}

static uint32_t *chain_of(struct quorum *quorum, uint32_t name)
{
    uint32_t hash = name * UINT32_C(2654435761);
    return &quorum->work_heads[(hash ^ hash >> 16) & quorum->work_head_mask];
}

static struct work *work_find(struct quorum *quorum, uint32_t name)
{
    uint32_t at = *chain_of(quorum, name);
    while (at != NONE && quorum->works[at].name != name) {
        at = quorum->works[at].chain;
    }
    return at == NONE ? NULL : &quorum->works[at];
}

/* A work for the name; takes the caller's reference to it. NULL: there are too many. */
static struct work *work_make(struct quorum *quorum, uint32_t name)
{
    uint32_t at = quorum->work_free;
    if (at != NONE) {
        quorum->work_free = quorum->works[at].chain;
    } else if (quorum->work_used < quorum->config.limits.requests) {
        at = ++quorum->work_used;
    } else {
        return NULL;
    }
    struct work *work = &quorum->works[at];
    memset(work, 0, sizeof(*work));
    work->name = name;
    work->state = WORK_WAITING;
    work->waits_for = NOBODY;
    work->wake_ns = NEVER;
    work->recall_ns = INT64_MIN;
    uint32_t *head = chain_of(quorum, name);
    work->chain = *head;
    *head = at;
    work->next = quorum->work_first;
    if (work->next != NONE) {
        quorum->works[work->next].previous = at;
    }
    quorum->work_first = at;
    quorum->work_count++;
    return work;
}

static void work_end(struct quorum *quorum, struct work *work)
{
    HF_CHECK(work->first == NONE);
    uint32_t at = index_of(quorum, work);
    uint32_t *link = chain_of(quorum, work->name);
    while (*link != at) {
        link = &quorum->works[*link].chain;
    }
    *link = work->chain;
    if (work->previous != NONE) {
        quorum->works[work->previous].next = work->next;
    } else {
        quorum->work_first = work->next;
    }
    if (work->next != NONE) {
        quorum->works[work->next].previous = work->previous;
    }
    names_drop(quorum->names, work->name);
    work->name = NAMES_NONE;
    work->chain = quorum->work_free;
    quorum->work_free = at;
    quorum->work_count--;
}

static void wake_at(struct quorum *quorum, struct work *work, int64_t when_ns)
{
    work->wake_ns = when_ns;
    quorum_schedule(quorum, when_ns);
}

static uint32_t partition_of(const struct quorum *quorum, const struct work *work)
{
    size_t length = 0;
    const uint8_t *bytes = names_bytes(quorum->names, work->name, &length);
    return names_partition(bytes, length);
}

/* ---- Answers ---- */

static void owner_hint(const struct quorum *quorum, uint32_t partition, struct message_agent *out)
{
    uint32_t voter = quorum_coordinator(quorum, partition);
    if (voter != quorum->config.self && voter < quorum->config.voter_count) {
        *out = quorum->config.voters[voter];
    }
}

static void answer_refused(struct quorum *quorum, const struct request *request,
                           const struct message_name *name, enum message_refusal reason)
{
    struct message_refused *refused =
        &quorum_send(quorum, request->agent, MESSAGE_REFUSED)->as.refused;
    refused->agent = quorum->agents[request->agent].name;
    refused->epoch = request->epoch;
    refused->request_id = request->id;
    refused->name = *name;
    refused->reason = (uint8_t)reason;
    if (reason == MESSAGE_REFUSED_NOT_OWNER) {
        owner_hint(quorum, names_partition(name->bytes, name->length), &refused->owner);
    }
}

static void answer_grant(struct quorum *quorum, const struct request *request,
                         const struct message_name *name, const struct record *value)
{
    enum message_kind kind = request->kind == MESSAGE_AMEND ? MESSAGE_AMENDED : MESSAGE_GRANT;
    struct message_grant *grant = &quorum_send(quorum, request->agent, kind)->as.grant;
    grant->agent = quorum->agents[request->agent].name;
    grant->epoch = request->epoch;
    grant->request_id = request->id;
    grant->name = *name;
    grant->version = record_version(value);
    grant->mode = value->mode;
    grant->lock_delay_ms = value->lock_delay_ms;
    grant->token_first = value->token_first;
    grant->token_last = value->token_first + value->token_extra;
}

static void answer_one(struct quorum *quorum, const struct request *request,
                       const struct message_name *name, const struct record *value)
{
    struct message_version *given = NULL;
    switch ((enum outcome)request->outcome) {
    case OUTCOME_GRANT:
    case OUTCOME_AMENDED:
        answer_grant(quorum, request, name, value);
        break;
    case OUTCOME_GIVEN_BACK:
        given = &quorum_send(quorum, request->agent, MESSAGE_GIVE_BACK_ACK)->as.version;
        given->agent = quorum->agents[request->agent].name;
        given->epoch = request->epoch;
        given->request_id = request->id;
        given->name = *name;
        given->version = request->version;
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
    case OUTCOME_NONE:
        HF_CHECK(!"a request without an outcome has no answer");
        break;
    }
}

/* Answers and forgets the requests that have an outcome. */
static void answer_decided(struct quorum *quorum, struct work *work, const struct record *value)
{
    struct message_name name;
    quorum_name(quorum, work->name, &name);
    uint32_t *link = &work->first;
    uint32_t last = NONE;
    while (*link != NONE) {
        uint32_t at = *link;
        struct request *request = &quorum->requests[at];
        if (request->outcome == OUTCOME_NONE) {
            last = at;
            link = &request->next;
            continue;
        }
        answer_one(quorum, request, &name, value);
        *link = request->next;
        request->next = quorum->request_free;
        quorum->request_free = at;
    }
    work->last = last;
}

/* Gives up to OUTCOMES_MAX requests that outcome. */
static void decide_all(struct quorum *quorum, struct work *work, enum outcome outcome)
{
    uint32_t count = 0;
    for (uint32_t at = work->first; at != NONE && count < OUTCOMES_MAX; count++) {
        quorum->requests[at].outcome = (uint8_t)outcome;
        at = quorum->requests[at].next;
    }
}

/* ---- Deciding the next value ---- */

struct plan {
    struct record value; /* the next one */
    bool changed;
    bool fresh; /* a new grant: its version is the order it will be proposed with */
    uint32_t decided;
    const struct request *blocked; /* the first acquire that has to wait */
    bool more;                     /* not all requests were looked at */
};

static uint64_t token_last(const struct record *value)
{
    return value->token_first + value->token_extra;
}

/* Ends the grant; the next range begins with token_next. */
static void plan_end(struct plan *plan, uint64_t token_next)
{
    plan->value.token_first = token_next;
    plan->value.token_extra = 0;
    plan->value.mode = MESSAGE_MODE_NONE;
    plan->value.owner = NOBODY;
    plan->value.epoch = 0;
    plan->value.lock_delay_ms = 0;
    plan->changed = true;
}

static bool has_version(const struct record *value, const struct request *request)
{
    return value->mode != MESSAGE_MODE_NONE && value->owner == request->agent &&
           message_order_equal(record_version(value), request->version);
}

static enum outcome plan_give_back(struct plan *plan, const struct request *request)
{
    struct record *value = &plan->value;
    if (has_version(value, request) && !plan->fresh) {
        uint64_t next = request->token + 1;
        if (next > token_last(value) + 1) {
            next = token_last(value) + 1;
        }
        plan_end(plan, next < value->token_first ? value->token_first : next);
    }
    return OUTCOME_GIVEN_BACK;
}

static void lease_range(struct plan *plan, uint64_t first)
{
    plan->value.token_first = first;
    plan->value.token_extra = (uint32_t)(message_token_range_last(first) - first);
    plan->changed = true;
}

static enum outcome plan_amend(struct plan *plan, const struct request *request)
{
    struct record *value = &plan->value;
    if (!has_version(value, request) || plan->fresh || value->epoch != request->epoch) {
        return OUTCOME_REFUSED_VERSION;
    }
    if (request->token != 0 && request->token == token_last(value)) {
        if (request->token + 1 >= MESSAGE_TOKEN_LIMIT) {
            return OUTCOME_REFUSED_TOKENS;
        }
        lease_range(plan, request->token + 1);
    }
    if (request->lock_delay_ms > value->lock_delay_ms) {
        value->lock_delay_ms = request->lock_delay_ms;
        plan->changed = true;
    }
    return OUTCOME_AMENDED;
}

static bool session_over(const struct quorum *quorum, const struct request *request)
{
    const struct agent_record *agent = &quorum->agents[request->agent];
    return request->epoch <= agent->dead || request->epoch <= agent->marked ||
           request->epoch < agent->epoch;
}

/* When the lock-delay of a grant whose session is dead is over. */
static int64_t delay_end_ns(const struct quorum *quorum, const struct record *value)
{
    return quorum->agents[value->owner].dead_ns +
           quorum_long_ns(quorum, value->lock_delay_ms * MS_NS);
}

static bool ended_by_death(const struct quorum *quorum, const struct record *value)
{
    return value->epoch <= quorum->agents[value->owner].dead &&
           quorum->now_ns >= delay_end_ns(quorum, value);
}

static enum outcome plan_acquire(const struct quorum *quorum, struct plan *plan,
                                 const struct request *request)
{
    struct record *value = &plan->value;
    if (session_over(quorum, request)) {
        return OUTCOME_REFUSED_SESSION;
    }
    if (value->mode != MESSAGE_MODE_NONE && value->owner == request->agent) {
        if (value->epoch == request->epoch) {
            if (request->lock_delay_ms > value->lock_delay_ms) {
                value->lock_delay_ms = request->lock_delay_ms;
                plan->changed = true;
            }
            return OUTCOME_GRANT;
        }
        if (value->epoch > request->epoch) {
            return OUTCOME_REFUSED_SESSION;
        }
    }
    if (plan->blocked != NULL) {
        return OUTCOME_NONE;
    }
    if (value->mode != MESSAGE_MODE_NONE) {
        if (plan->fresh || !ended_by_death(quorum, value)) {
            plan->blocked = request;
            return OUTCOME_NONE;
        }
        plan_end(plan, token_last(value) + 1);
    }
    if (value->token_first >= MESSAGE_TOKEN_LIMIT) {
        return OUTCOME_REFUSED_TOKENS;
    }
    lease_range(plan, value->token_first);
    value->mode = MESSAGE_MODE_EXCLUSIVE;
    value->owner = request->agent;
    value->epoch = request->epoch;
    value->lock_delay_ms = request->lock_delay_ms;
    plan->fresh = true;
    return OUTCOME_GRANT;
}

/* Decides what can be decided from that value: first what is not an acquire, then the acquires. */
static void plan_make(struct quorum *quorum, struct work *work, const struct record *value,
                      struct plan *plan)
{
    memset(plan, 0, sizeof(*plan));
    plan->value = *value;
    for (uint32_t pass = 0; pass < 2; pass++) {
        for (uint32_t at = work->first; at != NONE; at = quorum->requests[at].next) {
            struct request *request = &quorum->requests[at];
            bool acquire = request->kind == MESSAGE_ACQUIRE;
            if (acquire != (pass == 1)) {
                continue;
            }
            if (plan->decided == OUTCOMES_MAX) {
                plan->more = true;
                return;
            }
            if (acquire) {
                request->outcome = (uint8_t)plan_acquire(quorum, plan, request);
            } else if (request->kind == MESSAGE_AMEND) {
                request->outcome = (uint8_t)plan_amend(plan, request);
            } else {
                request->outcome = (uint8_t)plan_give_back(plan, request);
            }
            plan->decided += request->outcome != OUTCOME_NONE;
        }
    }
}

/* ---- Rounds ---- */

static void send_round(struct quorum *quorum, struct work *work)
{
    struct message_name name;
    quorum_name(quorum, work->name, &name);
    for (uint32_t voter = 0; voter < quorum->config.voter_count; voter++) {
        if ((work->mask >> voter & 1) != 0) {
            continue;
        }
        if (work->state == WORK_READING) {
            struct message_read *read = &quorum_send(quorum, voter, MESSAGE_READ)->as.read;
            read->ballot = work->order.ballot;
            read->name = name;
        } else {
            struct message_accept *accept = &quorum_send(quorum, voter, MESSAGE_ACCEPT)->as.accept;
            accept->order = work->order;
            accept->name = name;
            record_to_value(quorum, &work->value, &accept->value);
        }
    }
    wake_at(quorum, work, quorum->now_ns + RESEND_MS * MS_NS);
}

static void start_read(struct quorum *quorum, struct work *work, uint64_t ballot)
{
    work->state = WORK_READING;
    work->order = (struct message_order){.ballot = ballot};
    work->mask = 0;
    work->found = false;
    record_blank(&work->value, 0);
    send_round(quorum, work);
}

static void forget_outcomes(struct quorum *quorum, struct work *work)
{
    for (uint32_t at = work->first; at != NONE; at = quorum->requests[at].next) {
        quorum->requests[at].outcome = OUTCOME_NONE;
    }
}

static void propose(struct quorum *quorum, struct work *work, struct plan *plan)
{
    if (!acceptor_has_room(quorum, work->name)) {
        forget_outcomes(quorum, work);
        decide_all(quorum, work, OUTCOME_REFUSED_FULL);
        answer_decided(quorum, work, &plan->value);
        wake_at(quorum, work, quorum->now_ns); /* the rest, or its end */
        return;
    }
    if (!coordinator_next_order(quorum, partition_of(quorum, work), &work->order)) {
        forget_outcomes(quorum, work);
        return;
    }
    if (plan->fresh) {
        record_set_version(&plan->value, work->order);
    }
    work->value = plan->value;
    work->state = WORK_ACCEPTING;
    work->mask = 0;
    work->full = 0;
    work->known = false;
    send_round(quorum, work);
}

/* The first in the queue waits for whoever holds the lock now. */
static void wait_for_holder(struct quorum *quorum, struct work *work, const struct record *value,
                            const struct request *blocked)
{
    const struct agent_record *owner = &quorum->agents[value->owner];
    work->waits_for = value->owner;
    if (value->epoch <= owner->dead) {
        int64_t end_ns = delay_end_ns(quorum, value);
        wake_at(quorum, work, end_ns > quorum->now_ns ? end_ns : quorum->now_ns);
        return;
    }
    int64_t again_ns = quorum->now_ns + RECALL_MS * MS_NS;
    wake_at(quorum, work, again_ns);
    death_want(quorum, value->owner, value->epoch, false);
    bool due = work->recall_ns == INT64_MIN ||
               quorum->now_ns - work->recall_ns >= RECALL_MS * MS_NS;
    if (!due || value->owner == blocked->agent) {
        return;
    }
    work->recall_ns = quorum->now_ns;
    struct message_version *recall = &quorum_send(quorum, value->owner, MESSAGE_RECALL)->as.version;
    recall->agent = owner->name;
    recall->epoch = value->epoch;
    quorum_name(quorum, work->name, &recall->name);
    recall->version = record_version(value);
}

/* From a value that a majority has (known), or that was read and has to be accepted again. */
static void decide(struct quorum *quorum, struct work *work, const struct record *value, bool known)
{
    struct plan plan;
    plan_make(quorum, work, value, &plan);
    if (plan.changed || !known) {
        propose(quorum, work, &plan);
        return;
    }
    answer_decided(quorum, work, value);
    if (work->first == NONE) {
        work_end(quorum, work);
    } else if (plan.more) {
        wake_at(quorum, work, quorum->now_ns);
    } else {
        HF_CHECK(plan.blocked != NULL);
        wait_for_holder(quorum, work, value, plan.blocked);
    }
}

/* Does what can be done now for a work that waits. */
static void advance(struct quorum *quorum, struct work *work)
{
    HF_CHECK(work->state == WORK_WAITING);
    const struct partition *partition = &quorum->partitions[partition_of(quorum, work)];
    work->waits_for = NOBODY;
    work->wake_ns = NEVER;
    if (partition->state == PARTITION_OTHERS) {
        decide_all(quorum, work, OUTCOME_REFUSED_NOT_OWNER);
        answer_decided(quorum, work, &work->value);
        wake_at(quorum, work, quorum->now_ns);
    }
    if (work->first == NONE) {
        work_end(quorum, work);
        return;
    }
    if (partition->state != PARTITION_PREPARED) {
        return;
    }
    const struct record *own = acceptor_find(quorum, work->name);
    if (own != NULL && record_accepted(own).ballot == partition->ballot) {
        struct record value = *own;
        decide(quorum, work, &value, true);
    } else if (work->known) {
        struct record value = work->value;
        decide(quorum, work, &value, true);
    } else {
        start_read(quorum, work, partition->ballot);
    }
}

void work_partition_changed(struct quorum *quorum, uint32_t p)
{
    const struct partition *partition = &quorum->partitions[p];
    for (uint32_t at = quorum->work_first; at != NONE; at = quorum->works[at].next) {
        struct work *work = &quorum->works[at];
        bool same = partition->state == PARTITION_PREPARED &&
                    work->order.ballot == partition->ballot;
        if (partition_of(quorum, work) != p || (work->state != WORK_WAITING && same)) {
            continue;
        }
        work->state = WORK_WAITING;
        work->known = work->known && same;
        forget_outcomes(quorum, work);
        wake_at(quorum, work, quorum->now_ns);
    }
}

void work_ballots_changed(struct quorum *quorum)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS && quorum->work_first != NONE; p++) {
        work_partition_changed(quorum, p);
    }
}

bool work_busy(const struct quorum *quorum, uint32_t partition)
{
    bool busy = false;
    for (uint32_t at = quorum->work_first; at != NONE; at = quorum->works[at].next) {
        const struct work *work = &quorum->works[at];
        busy = busy || (work->state != WORK_WAITING && partition_of(quorum, work) == partition);
    }
    return busy;
}

void work_agent_dead(struct quorum *quorum, uint32_t agent)
{
    for (uint32_t at = quorum->work_first; at != NONE; at = quorum->works[at].next) {
        if (quorum->works[at].waits_for == agent) {
            wake_at(quorum, &quorum->works[at], quorum->now_ns);
        }
    }
}

/* The work and the voter that an answer belongs to, if it is of the round on the way. */
static struct work *round_of(struct quorum *quorum, const struct message *message,
                             const struct message_name *name, enum work_state state,
                             struct message_order order, uint32_t *voter)
{
    if (!quorum_from_voter(quorum, message, voter)) {
        return NULL;
    }
    uint32_t id = names_find(quorum->names, name->bytes, name->length);
    struct work *work = id == NAMES_NONE ? NULL : work_find(quorum, id);
    if (work == NULL || work->state != state || !message_order_equal(work->order, order)) {
        return NULL;
    }
    return work;
}

void work_value(struct quorum *quorum, const struct message *message)
{
    const struct message_read_value *answer = &message->as.value;
    struct message_order order = {.ballot = answer->ballot};
    uint32_t voter = 0;
    struct work *work = round_of(quorum, message, &answer->name, WORK_READING, order, &voter);
    if (work == NULL) {
        return;
    }
    if (answer->higher != 0) {
        coordinator_beaten(quorum, partition_of(quorum, work), answer->higher);
        return;
    }
    struct record value = {.mode = MESSAGE_MODE_NONE};
    if (answer->known) {
        if (!record_from_value(quorum, &answer->value, &value)) {
            /* No room for its owner: nothing can be decided. Everybody is told, and asks again. */
            work->state = WORK_WAITING;
            decide_all(quorum, work, OUTCOME_REFUSED_FULL);
            answer_decided(quorum, work, &work->value);
            wake_at(quorum, work, quorum->now_ns + RESEND_MS * MS_NS);
            return;
        }
        record_set_accepted(&value, answer->accepted);
        if (!work->found || message_order_before(record_accepted(&work->value), answer->accepted)) {
            work->value = value;
            work->found = true;
        }
    }
    work->mask |= (uint8_t)(1u << voter);
    if (!mask_is_majority(quorum, work->mask)) {
        return;
    }
    work->state = WORK_WAITING;
    work->known = !work->found;
    value = work->value;
    decide(quorum, work, &value, work->known);
}

void work_accepted(struct quorum *quorum, const struct message *message)
{
    const struct message_accepted *answer = &message->as.accepted;
    uint32_t voter = 0;
    struct work *work = round_of(quorum, message, &answer->name, WORK_ACCEPTING, answer->order,
                                 &voter);
    if (work == NULL) {
        return;
    }
    if (answer->higher != 0) {
        coordinator_beaten(quorum, partition_of(quorum, work), answer->higher);
        return;
    }
    if (answer->full) {
        work->full |= (uint8_t)(1u << voter);
        if (quorum->config.voter_count - mask_count(work->full) < quorum_majority(quorum)) {
            /* It may yet be chosen, so the round goes on; but nobody waits for it any more. */
            for (uint32_t at = work->first; at != NONE; at = quorum->requests[at].next) {
                if (quorum->requests[at].outcome != OUTCOME_NONE) {
                    quorum->requests[at].outcome = OUTCOME_REFUSED_FULL;
                }
            }
            answer_decided(quorum, work, &work->value);
        }
        return;
    }
    work->mask |= (uint8_t)(1u << voter);
    work->full &= (uint8_t) ~(1u << voter);
    if (mask_is_majority(quorum, work->mask)) {
        work->state = WORK_WAITING;
        answer_decided(quorum, work, &work->value);
        advance(quorum, work);
    }
}

int64_t work_tick(struct quorum *quorum)
{
    int64_t next_ns = NEVER;
    uint32_t next = NONE;
    for (uint32_t at = quorum->work_first; at != NONE; at = next) {
        struct work *work = &quorum->works[at];
        next = work->next;
        if (work->wake_ns <= quorum->now_ns) {
            if (!quorum_has_room(quorum, WORK_ACTIONS)) {
                return quorum->now_ns;
            }
            if (work->state == WORK_WAITING) {
                advance(quorum, work);
            } else {
                send_round(quorum, work);
            }
        }
        if (work->name != NAMES_NONE && work->wake_ns < next_ns) {
            next_ns = work->wake_ns;
        }
    }
    return next_ns;
}

/* ---- Requests ---- */

static bool request_from(struct quorum *quorum, const struct message *message,
                         struct request *request, const struct message_name **name)
{
    const struct message_agent *who = NULL;
    uint32_t voter = 0;
    memset(request, 0, sizeof(*request));
    request->kind = (uint8_t)message->kind;
    if (message->kind == MESSAGE_ACQUIRE) {
        const struct message_acquire *acquire = &message->as.acquire;
        who = &acquire->agent;
        *name = &acquire->name;
        request->epoch = acquire->epoch;
        request->id = acquire->request_id;
        request->mode = acquire->mode;
        request->lock_delay_ms = acquire->lock_delay_ms;
    } else if (message->kind == MESSAGE_AMEND) {
        const struct message_amend *amend = &message->as.amend;
        who = &amend->agent;
        *name = &amend->name;
        request->epoch = amend->epoch;
        request->id = amend->request_id;
        request->version = amend->version;
        request->mode = amend->mode;
        request->lock_delay_ms = amend->lock_delay_ms;
        request->token = amend->token_last;
    } else {
        const struct message_give_back *give_back = &message->as.give_back;
        who = &give_back->agent;
        *name = &give_back->name;
        request->epoch = give_back->epoch;
        request->id = give_back->request_id;
        request->version = give_back->version;
        request->token = give_back->token_used;
    }
    uint32_t agent = 0;
    if (memcmp(who, &message->from, sizeof(*who)) != 0 &&
        !quorum_from_voter(quorum, message, &voter)) {
        return false; /* somebody else's request */
    }
    if (!quorum_agent(quorum, who, &agent)) {
        struct message_refused *refused =
            &quorum_send(quorum, QUORUM_STRANGER, MESSAGE_REFUSED)->as.refused;
        refused->agent = *who;
        refused->epoch = request->epoch;
        refused->request_id = request->id;
        refused->name = **name;
        refused->reason = MESSAGE_REFUSED_FULL;
        return false;
    }
    request->agent = (uint16_t)agent;
    return true;
}

static bool is_queued(const struct quorum *quorum, const struct work *work,
                      const struct request *request)
{
    for (uint32_t at = work->first; at != NONE; at = quorum->requests[at].next) {
        const struct request *other = &quorum->requests[at];
        if (other->agent == request->agent && other->epoch == request->epoch &&
            other->id == request->id && other->kind == request->kind) {
            return true;
        }
    }
    return false;
}

/* false: there are too many. */
static bool enqueue(struct quorum *quorum, struct work *work, const struct request *request)
{
    uint32_t at = quorum->request_free;
    if (at != NONE) {
        quorum->request_free = quorum->requests[at].next;
    } else if (quorum->request_used < quorum->config.limits.requests) {
        at = ++quorum->request_used;
    } else {
        return false;
    }
    quorum->requests[at] = *request;
    quorum->requests[at].next = NONE;
    if (work->last == NONE) {
        work->first = at;
    } else {
        quorum->requests[work->last].next = at;
    }
    work->last = at;
    return true;
}

void work_request(struct quorum *quorum, const struct message *message)
{
    struct request request;
    const struct message_name *name = NULL;
    if (!request_from(quorum, message, &request, &name)) {
        return;
    }
    uint32_t partition = names_partition(name->bytes, name->length);
    if (quorum->partitions[partition].state == PARTITION_OTHERS) {
        answer_refused(quorum, &request, name, MESSAGE_REFUSED_NOT_OWNER);
        return;
    }
    uint32_t id = names_hold(quorum->names, name->bytes, name->length);
    if (id == NAMES_NONE) {
        answer_refused(quorum, &request, name, MESSAGE_REFUSED_FULL);
        return;
    }
    struct work *work = work_find(quorum, id);
    if (work != NULL) {
        names_drop(quorum->names, id);
        if (is_queued(quorum, work, &request)) {
            return;
        }
    } else {
        work = work_make(quorum, id);
        if (work == NULL) {
            names_drop(quorum->names, id);
            answer_refused(quorum, &request, name, MESSAGE_REFUSED_FULL);
            return;
        }
    }
    if (!enqueue(quorum, work, &request)) {
        answer_refused(quorum, &request, name, MESSAGE_REFUSED_FULL);
        if (work->first == NONE && work->state == WORK_WAITING) {
            work_end(quorum, work);
        }
        return;
    }
    if (work->state == WORK_WAITING) {
        advance(quorum, work);
    }
}

void work_check_invariants(const struct quorum *quorum)
{
    uint32_t works = 0;
    uint32_t previous = NONE;
    for (uint32_t at = quorum->work_first; at != NONE; at = quorum->works[at].next) {
        const struct work *work = &quorum->works[at];
        HF_CHECK(work->previous == previous && ++works <= quorum->work_count);
        HF_CHECK(work->state != WORK_WAITING || work->first != NONE || work->wake_ns != NEVER);
        HF_CHECK(work->state == WORK_WAITING || work->wake_ns != NEVER);
        HF_CHECK((work->first == NONE) == (work->last == NONE));
        const struct partition *partition = &quorum->partitions[partition_of(quorum, work)];
        HF_CHECK(work->state == WORK_WAITING || work->order.ballot == partition->ballot);
        previous = at;
    }
    HF_CHECK(works == quorum->work_count);
}
