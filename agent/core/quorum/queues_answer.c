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

static struct message_refused *refuse(struct quorum *quorum, const struct queued_request *request,
                                      const struct message_name *name, enum message_refusal reason)
{
    struct message_refused *refused = &answer(quorum, request, MESSAGE_REFUSED)->as.refused;
    refused->agent = *agents_name(quorum, request->agent);
    refused->epoch = request->epoch;
    refused->request_id = request->id;
    refused->name = *name;
    refused->reason = (uint8_t)reason;
    return refused;
}

/* Returns the size of a table of this voter; 0: the table has no single size. */
static uint32_t room_of(const struct quorum *quorum, enum hfi_table table)
{
    const struct quorum_limits *limits = &quorum->config->limits;
    return table == HFI_TABLE_VOTER_VALUES     ? limits->registers
           : table == HFI_TABLE_VOTER_AGENTS   ? limits->agents
           : table == HFI_TABLE_VOTER_REQUESTS ? limits->requests
           : table == HFI_TABLE_VOTER_SHARES   ? limits->shares
                                               : 0;
}

void answer_say_full(const struct quorum *quorum, struct message_refused *refused,
                     enum hfi_table table)
{
    uint32_t self = quorum->config->self;
    refused->table = table;
    refused->room = room_of(quorum, table);
    refused->owner = self < quorum->config->voter_count ? quorum->config->voters[self]
                                                        : quorum->config->name;
}

void answer_full(struct quorum *quorum, const struct queued_request *request,
                 const struct message_name *name, enum message_refusal reason, enum hfi_table table)
{
    answer_say_full(quorum, refuse(quorum, request, name, reason), table);
}

void answer_refused(struct quorum *quorum, const struct queued_request *request,
                    const struct message_name *name, enum message_refusal reason)
{
    struct message_refused *refused = refuse(quorum, request, name, reason);
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

/* ---- breaks ---- */

/* The link to an owner may be cut, so every second copy of a break goes through another voter. */
static void notify_owner_to_break(struct quorum *quorum, const struct queued_request *request,
                                  const struct message_name *name, const struct share *owner,
                                  const struct break_forwarded *entry)
{
    uint8_t relay = wait_way_to(quorum, owner->agent, entry->copies);
    struct message_break *hold =
        &step_send_by(quorum, owner->agent, relay, MESSAGE_BREAK_HOLD)->as.break_lock;
    hold->agent = *agents_name(quorum, request->agent);
    hold->request_id = request->id;
    hold->name = *name;
    hold->now = request->mode != 0;
    hold->version = owner->version;
    hold->user = request->token;
    hold->counts = request->counts;
    hold->meant = entry->meant;
}

/* Returns the owners in the value, exclusive or shared. */
static uint32_t owners_of(const struct quorum *quorum, const struct record *value,
                          struct share *owners)
{
    if (value->mode == MESSAGE_MODE_EXCLUSIVE) {
        owners[0] = (struct share){record_version(value), value->epoch, value->owner};
        return 1;
    }
    return record_shares(quorum, value, owners);
}

/* Returns the entry of the break. At the first copy of the request this makes the entry, and notes
 * the owners that the break concerns. The break concerns grants up to a version. If another voter
 * coordinated before, the host knows that version already, and its request names it. */
static struct break_forwarded *forwarded(struct quorum *quorum,
                                         const struct queued_request *request,
                                         const struct share *owners, uint32_t count)
{
    for (uint32_t i = 0; i < BROKEN_KEPT; i++) {
        struct break_forwarded *known = &quorum->queues->broken[i];
        if (known->id == request->id && known->agent == request->agent && known->id != 0) {
            known->copies++;
            return known;
        }
    }
    struct break_forwarded *made =
        &quorum->queues->broken[quorum->queues->broken_next++ % BROKEN_KEPT];
    made->id = request->id;
    made->agent = request->agent;
    made->meant = request->version;
    made->count = 0;
    made->copies = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (request->version.ballot == 0 && message_order_before(made->meant, owners[i].version)) {
            made->meant = owners[i].version;
        }
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!message_order_before(made->meant, owners[i].version)) {
            made->owners[made->count++] = owners[i];
        }
    }
    return made;
}

static bool is_owner(const struct share *owners, uint32_t count, const struct share *share)
{
    for (uint32_t i = 0; i < count; i++) {
        if (owners[i].agent == share->agent &&
            message_order_equal(owners[i].version, share->version)) {
            return true;
        }
    }
    return false;
}

/* Returns for how many ms the lock-delays of ended sessions still keep the lock closed. Sets *last
 * to the agent whose lock-delay ends last; AGENTS_NONE if the result is 0. */
static uint32_t closed_by_expiry_ms(const struct quorum *quorum, const struct record *value,
                                    const struct share *owners, uint32_t count, uint16_t *last)
{
    int64_t left_ns = 0;
    *last = AGENTS_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (sessions_has_ended(quorum, owners[i].agent, owners[i].epoch)) {
            int64_t own_ns = plan_delay_end_ns(quorum, value, owners[i].agent) -
                             step_now_ns(quorum);
            *last = own_ns > left_ns ? owners[i].agent : *last;
            left_ns = own_ns > left_ns ? own_ns : left_ns;
        }
    }
    return (uint32_t)((left_ns + MS_NS - 1) / MS_NS);
}

/* Returns whether a lock-delay after the end of a session keeps the lock closed. If so, writes the
 * time that is left, and the host of that session, into the refusal. */
static bool say_closed(const struct quorum *quorum, const struct record *value,
                       struct message_refused *refused)
{
    struct share owners[MESSAGE_SHARES_MAX];
    uint16_t last = AGENTS_NONE;
    uint32_t count = owners_of(quorum, value, owners);
    refused->closed_ms = closed_by_expiry_ms(quorum, value, owners, count, &last);
    if (last != AGENTS_NONE) {
        refused->owner = *agents_name(quorum, last);
    }
    return last != AGENTS_NONE;
}

/* Sends a REFUSED that the lock is in use. value: NULL, or the lock's value. */
static void answer_in_use(struct quorum *quorum, const struct queued_request *request,
                          const struct message_name *name, const struct record *value)
{
    struct message_refused *refused = refuse(quorum, request, name, MESSAGE_REFUSED_IN_USE);
    if (value != NULL) {
        (void)say_closed(quorum, value, refused);
    }
}

void answer_closed(struct quorum *quorum, const struct operation *operation,
                   const struct queued_request *request, const struct message_name *name)
{
    struct message_refused closed = {0};
    const struct record *value = registers_find(quorum, operation->name);
    if (request->kind != MESSAGE_ACQUIRE || operation->state != OPERATION_WAITING ||
        value == NULL || !say_closed(quorum, value, &closed)) {
        return;
    }
    struct message_refused *refused = refuse(quorum, request, name, MESSAGE_REFUSED_IN_USE);
    refused->request_id = 0;
    refused->closed_ms = closed.closed_ms;
    refused->owner = closed.owner;
}

/* Begins a BROKEN. The caller adds the names of the owners that this voter asks. */
static struct message_broken *
name_owners(struct quorum *quorum, const struct queued_request *request, struct message_order meant)
{
    struct message_broken *broken = &answer(quorum, request, MESSAGE_BROKEN)->as.broken;
    broken->agent = *agents_name(quorum, request->agent);
    broken->request_id = request->id;
    broken->part = MESSAGE_BROKEN_OWNERS;
    broken->meant = meant;
    return broken;
}

/* Sends BREAK_HOLD to one owner, and adds the owner's name to `named`, if that is not NULL. Sends
 * nothing and returns false if the owner's session has ended, because the lock-delay of that
 * session runs already. */
static bool ask_owner(struct quorum *quorum, const struct queued_request *request,
                      const struct message_name *name, const struct share *owner,
                      const struct break_forwarded *entry, struct message_broken *named)
{
    if (sessions_has_ended(quorum, owner->agent, owner->epoch)) {
        return false;
    }
    notify_owner_to_break(quorum, request, name, owner, entry);
    if (named != NULL) {
        named->items.owners[named->count++] = *agents_name(quorum, owner->agent);
    }
    return true;
}

/* Asks for the end of the owners' sessions. An owner that has not answered the first copy of the
 * break may be gone for good, and its session ends only if a voter asks for that. Each
 * sessions_want_end() may send a message to every voter, and the operation's next look in this step
 * needs room, too. If the room does not suffice, the next copy of the break asks for the rest. */
static void want_ends(struct quorum *quorum, const struct share *owners, uint32_t count,
                      struct message_order meant)
{
    const uint32_t room = OPERATION_ACTIONS + 2 * MESSAGE_VOTERS_MAX;
    for (uint32_t i = 0; i < count && step_has_room(quorum, room); i++) {
        if (!message_order_before(meant, owners[i].version)) {
            sessions_want_end(quorum, owners[i].agent, owners[i].epoch, false);
        }
    }
}

/*
 * Sends BREAK_HOLD to every owner that the break concerns. These owners answer the host directly. A
 * BROKEN names them to the host: first the `total` owners that still have their grants, then the
 * owners that have given them back since the break came. The latter may still report holds that
 * they ended.
 *
 * A host of an earlier release treats the first answer as the outcome. So it gets no names, and
 * this voter answers it only if there is no owner to ask.
 */
static void answer_break(struct quorum *quorum, const struct queued_request *request,
                         const struct message_name *name, const struct record *value)
{
    struct share owners[MESSAGE_SHARES_MAX];
    uint32_t count = owners_of(quorum, value, owners);
    uint32_t asked = 0;
    uint16_t last = AGENTS_NONE;
    const struct break_forwarded *entry = forwarded(quorum, request, owners, count);
    struct message_broken *named = request->counts ? name_owners(quorum, request, entry->meant)
                                                   : NULL;
    for (uint32_t i = 0; i < count; i++) {
        asked += !message_order_before(entry->meant, owners[i].version) &&
                 ask_owner(quorum, request, name, &owners[i], entry, named);
    }
    if (named != NULL) {
        named->total = asked;
        named->closed_ms = closed_by_expiry_ms(quorum, value, owners, count, &last);
    } else if (asked == 0) {
        struct message_outcome *outcome = &answer(quorum, request, MESSAGE_BROKEN)->as.outcome;
        outcome->agent = *agents_name(quorum, request->agent);
        outcome->request_id = request->id;
        outcome->result = 0;
    }
    for (uint32_t i = 0; named != NULL && named->count < MESSAGE_SHARES_MAX && i < entry->count;
         i++) {
        if (!is_owner(owners, count, &entry->owners[i])) {
            (void)ask_owner(quorum, request, name, &entry->owners[i], entry, named);
        }
    }
    if (entry->copies > 0) {
        want_ends(quorum, owners, count, entry->meant);
    }
}

void answer_tries(struct quorum *quorum, struct operation *operation)
{
    struct message_name name;
    step_lock_name(quorum, operation->name, &name);
    for (uint32_t at = operation->first; at != NONE; at = quorum->queues->requests[at].next) {
        struct queued_request *request = &quorum->queues->requests[at];
        if (request->refused) {
            answer_in_use(quorum, request, &name, registers_find(quorum, operation->name));
            request->tries = MESSAGE_TRIES_NONE;
            request->refused = false;
            request->probes = false;
            request->probe = 0;
        }
    }
}

/* Refuses a request because a voter has no room for the operation's value. The refusal names the
 * first other voter that has reported this, or else this voter. The size of another voter's table
 * is not known. */
static void answer_no_value(struct quorum *quorum, const struct operation *operation,
                            const struct queued_request *request, const struct message_name *name)
{
    struct message_refused *refused = refuse(quorum, request, name, MESSAGE_REFUSED_FULL);
    answer_say_full(quorum, refused, HFI_TABLE_VOTER_VALUES);
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if (operation->full >> voter & 1 && voter != quorum->config->self) {
            refused->owner = quorum->config->voters[voter];
            refused->room = 0;
            return;
        }
    }
}

static void answer_one(struct quorum *quorum, const struct operation *operation,
                       const struct queued_request *request, const struct message_name *name,
                       const struct record *value)
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
        answer_no_value(quorum, operation, request, name);
        break;
    case OUTCOME_REFUSED_SHARES:
        answer_full(quorum, request, name, MESSAGE_REFUSED_FULL, HFI_TABLE_VOTER_SHARES);
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
        answer_in_use(quorum, request, name, value);
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
        answer_one(quorum, operation, request, &name, value);
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
