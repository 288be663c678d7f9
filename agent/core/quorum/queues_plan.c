/*
 * Decides the next value of a name from the last value and the queue of requests. Requests other
 * than acquires come first, then the acquires in order of arrival. An acquire that has to wait
 * holds back the acquires behind it. So readers that came after a writer do not starve it, and
 * readers between two writers are granted together. This file remembers nothing: a decision takes
 * effect once its value is chosen.
 *
 * A repeated request is answered from the value itself: with the grant that its host has, or with
 * the fact that the version is gone.
 *
 * Tokens. The first token of a lock's ranges never falls. The next range begins above every token
 * that was used of the last range. If the last grant ended without a give-back, the next range
 * begins above the whole last range. A shared grant has one token, which its readers on all hosts
 * show. It is the last token used before it, and the next range begins above it. So the token of a
 * shared hold is at least that of every earlier exclusive hold, and less than that of every later
 * one. Also no reader has a lower token than a reader that began before it: within one grant the
 * tokens are equal, and a later grant's token is not lower.
 *
 * A late repeat of a change of mode must have no effect, because meanwhile the host may have
 * changed the mode back. So a change names a token that shows at which moment the host sent it:
 *
 * A change to EXCLUSIVE names the shared token, and a request for more tokens names the last token
 * of the range. The host goes on only with tokens above the named token, so a late repeat names a
 * token that is no longer the present one.
 *
 * A change to SHARED names the last token that was used. It must be in the present range. The host
 * takes the lock exclusively again only with a range above that token (host/grants.c). From then
 * on, a late repeat's token is in no range of this version. The last token of the range would not
 * do: if part of the range is given back, a later range may end at the same token. (Hosts of an
 * earlier release do name the last token of the range. That is safe, because after that their whole
 * range counts as used.)
 *
 * The sizes of ranges are a budget: docs/TIMEOUTS.md, "How long tokens last".
 */
#include <string.h>

#include "proto/check.h"
#include "queues_private.h"

/* The simulator sets a shorter time. */
#ifndef PLAN_UNSEEN_MS
#define PLAN_UNSEEN_MS 5000
#endif

/* see is_unseen(): a live host repeats a waiting request each second */
enum { UNSEEN_MS = PLAN_UNSEEN_MS };

/* The simulator makes this a variable, so that most of its cells use up ranges. */
#ifndef PLAN_RANGE_FIRST
#define PLAN_RANGE_FIRST (UINT64_C(1) << 12)
#endif

/* RANGE_FIRST is the size of a grant's first range. The next range is twice as large if the last
 * one is below RANGE_DOUBLES, otherwise a quarter larger, and at most RANGE_MAX. */
#define RANGE_FIRST PLAN_RANGE_FIRST
#define RANGE_DOUBLES (4 * RANGE_FIRST)
static const uint64_t RANGE_MAX = UINT64_C(1) << 24;

static uint64_t token_last(const struct plan *plan)
{
    return record_token_last(&plan->value);
}

/* Ends the grant; the next range begins with token_next. */
static void end(struct plan *plan, uint64_t token_next)
{
    plan->value.mode = MESSAGE_MODE_NONE;
    plan->value.token_first = token_next;
    plan->value.token_extra = 0;
    plan->value.owner = AGENTS_NONE;
    plan->value.epoch = 0;
    plan->value.lock_delay_ms = 0;
    plan->share_count = 0;
    plan->changed = true;
}

static void lease_range(struct plan *plan, uint64_t first, uint64_t size)
{
    plan->value.token_first = first;
    plan->value.token_extra = (uint32_t)(message_token_range_last(first, size) - first);
    plan->changed = true;
}

/* Gives the owner the next range of tokens. */
static void lease_more(struct plan *plan)
{
    uint64_t size = (uint64_t)plan->value.token_extra + 1;
    size += size < RANGE_DOUBLES ? size : size / 4;
    /* a range that was cut off at the end of its block may be smaller */
    size = size < RANGE_FIRST ? RANGE_FIRST : size;
    lease_range(plan, token_last(plan) + 1, size < RANGE_MAX ? size : RANGE_MAX);
}

static void cover_delay(struct plan *plan, uint16_t lock_delay_ms)
{
    if (lock_delay_ms > plan->value.lock_delay_ms) {
        plan->value.lock_delay_ms = lock_delay_ms;
        plan->changed = true;
    }
}

static struct share *share_of(struct plan *plan, uint16_t agent)
{
    for (uint32_t i = 0; i < plan->share_count; i++) {
        if (plan->shares[i].agent == agent) {
            return &plan->shares[i];
        }
    }
    return NULL;
}

static void share_remove(struct plan *plan, struct share *share)
{
    uint32_t at = (uint32_t)(share - plan->shares);
    plan->share_count--;
    memmove(share, share + 1, (plan->share_count - at) * sizeof(*share));
    plan->changed = true;
    if (plan->share_count == 0) {
        end(plan, plan->value.token_first + 1);
    }
}

static void share_add(struct plan *plan, const struct share *share)
{
    HF_CHECK(plan->share_count < MESSAGE_SHARES_MAX);
    plan->shares[plan->share_count++] = *share;
    plan->changed = true;
}

/* ---- Expired sessions ---- */

int64_t plan_delay_end_ns(const struct quorum *quorum, const struct record *value, uint16_t agent)
{
    return sessions_ended_ns(quorum, agent) + rules_closed_ns(quorum, value->lock_delay_ms * MS_NS);
}

static bool ended_by_expiry(const struct quorum *quorum, const struct plan *plan, uint16_t agent,
                            uint32_t epoch)
{
    return sessions_has_ended(quorum, agent, epoch) &&
           step_now_ns(quorum) >= plan_delay_end_ns(quorum, &plan->value, agent);
}

/* Ends the exclusive grant, or the shares, whose session has ended and whose lock-delay is over. */
static void remove_expired(const struct quorum *quorum, struct plan *plan)
{
    const struct record *value = &plan->value;
    if (value->mode == MESSAGE_MODE_EXCLUSIVE &&
        ended_by_expiry(quorum, plan, value->owner, value->epoch)) {
        end(plan, token_last(plan) + 1);
    }
    for (uint32_t i = plan->share_count; i > 0; i--) {
        struct share *share = &plan->shares[i - 1];
        if (ended_by_expiry(quorum, plan, share->agent, share->epoch)) {
            share_remove(plan, share);
        }
    }
}

/* ---- Requests other than acquires ---- */

/* Returns whether the value is the exclusive grant that the request names. */
static bool names_grant(const struct plan *plan, const struct queued_request *request)
{
    return plan->value.mode == MESSAGE_MODE_EXCLUSIVE && plan->value.owner == request->agent &&
           message_order_equal(record_version(&plan->value), request->version);
}

static struct share *named_share(struct plan *plan, const struct queued_request *request)
{
    struct share *share = share_of(plan, request->agent);
    bool named = share != NULL && message_order_equal(share->version, request->version);
    return named ? share : NULL;
}

static enum outcome give_back(struct plan *plan, const struct queued_request *request)
{
    struct share *share = named_share(plan, request);
    if (share != NULL) {
        share_remove(plan, share);
    } else if (names_grant(plan, request)) {
        uint64_t last = token_last(plan);
        uint64_t next = request->token < last ? request->token + 1 : last + 1;
        end(plan, next < plan->value.token_first ? plan->value.token_first : next);
    }
    return OUTCOME_GIVEN_BACK;
}

/* Makes the only share the exclusive grant, with the same version. */
static enum outcome upgrade(const struct quorum *quorum, struct plan *plan,
                            const struct queued_request *request)
{
    struct record *value = &plan->value;
    if (request->token != 0 && request->token != value->token_first) {
        return OUTCOME_AMENDED; /* a late repeat */
    }
    remove_expired(quorum, plan);
    const struct share *share = named_share(plan, request);
    if (share == NULL || plan->share_count > 1) {
        return OUTCOME_REFUSED_VERSION;
    }
    if (!message_token_leasable(value->token_first + 1)) {
        return OUTCOME_REFUSED_TOKENS;
    }
    value->mode = MESSAGE_MODE_EXCLUSIVE;
    value->owner = share->agent;
    value->epoch = share->epoch;
    record_set_version(value, share->version);
    plan->share_count = 0;
    lease_range(plan, value->token_first + 1, RANGE_FIRST);
    return OUTCOME_AMENDED;
}

/* Returns whether the request's token tells how far the host has used its present range. */
static bool names_used(const struct plan *plan, const struct queued_request *request)
{
    return request->has_used
               ? request->token >= plan->value.token_first && request->token <= token_last(plan)
               : request->token != 0 && request->token == token_last(plan);
}

/* Makes the exclusive grant the only share, with the same version. */
static void downgrade(struct plan *plan, uint64_t token_used)
{
    struct record *value = &plan->value;
    struct share share = {
        .version = record_version(value), .epoch = value->epoch, .agent = value->owner};
    value->token_first = token_used;
    value->mode = MESSAGE_MODE_SHARED;
    value->owner = AGENTS_NONE;
    value->share_count = 0;
    value->shares = NONE;
    share_add(plan, &share);
}

static enum outcome amend_share(const struct quorum *quorum, struct plan *plan,
                                const struct queued_request *request)
{
    const struct share *share = named_share(plan, request);
    if (share == NULL || share->epoch != request->epoch) {
        return OUTCOME_REFUSED_VERSION;
    }
    if (request->mode == MESSAGE_MODE_EXCLUSIVE) {
        enum outcome outcome = upgrade(quorum, plan, request);
        if (outcome != OUTCOME_AMENDED) {
            return outcome;
        }
    }
    cover_delay(plan, request->lock_delay_ms);
    return OUTCOME_AMENDED;
}

static enum outcome amend(const struct quorum *quorum, struct plan *plan,
                          const struct queued_request *request)
{
    if (plan->value.mode == MESSAGE_MODE_SHARED) {
        return amend_share(quorum, plan, request);
    }
    if (!names_grant(plan, request) || plan->value.epoch != request->epoch) {
        return OUTCOME_REFUSED_VERSION;
    }
    if (request->mode == MESSAGE_MODE_SHARED) {
        if (names_used(plan, request)) {
            downgrade(plan, request->token);
        }
    } else if (request->token != 0 && request->token == token_last(plan)) {
        if (!message_token_leasable(request->token + 1)) {
            return OUTCOME_REFUSED_TOKENS;
        }
        lease_more(plan);
    }
    cover_delay(plan, request->lock_delay_ms);
    return OUTCOME_AMENDED;
}

/* ---- Acquires ---- */

/* Returns whether the session is over: a majority has marked it, or this voter knows a newer
 * session of the agent. This voter's own mark does not end a session, because the other voters may
 * go on acknowledging the host's renewals. If the session ends after the grant, nobody uses the
 * grant. */
static bool session_over(const struct quorum *quorum, const struct queued_request *request)
{
    return sessions_has_ended(quorum, request->agent, request->epoch) ||
           request->epoch < sessions_epoch(quorum, request->agent);
}

/* Returns the exclusive grant, or the share, that the agent already has; its epoch is 0 if the
 * agent has none. A request of the same epoch is answered with this grant, whatever mode the
 * request asks for. */
static struct share own_part(struct plan *plan, uint16_t agent)
{
    struct share own = {.agent = agent};
    const struct share *share = share_of(plan, agent);
    if (share != NULL) {
        own = *share;
    } else if (plan->value.mode == MESSAGE_MODE_EXCLUSIVE && plan->value.owner == agent) {
        own.epoch = plan->value.epoch;
        own.version = record_version(&plan->value);
    }
    return own;
}

/* Returns whether this plan has just given the host `own`. Then `own` was made for this request,
 * too. */
static bool is_made_now(const struct plan *plan, const struct share *own)
{
    return plan->fresh && (plan->value.mode == MESSAGE_MODE_EXCLUSIVE || own->version.ballot == 0);
}

/* Returns whether this process had proposed `own` for this request. Another voter's ballot may have
 * interrupted that proposal, so that this process did not learn whether it was chosen. Now that
 * this process has read `own`, it knows that the proposal was chosen, so `own` was made for this
 * request. */
static bool was_made(const struct queued_request *request, const struct share *own)
{
    return request->version.ballot != 0 && message_order_equal(request->version, own->version);
}

/* Returns whether the request was answered before with a grant that is gone. */
static bool is_stale(const struct queued_request *request, const struct answered *before,
                     const struct share *own)
{
    return before != NULL &&
           (own->epoch != request->epoch || !message_order_equal(own->version, before->version));
}

/*
 * Returns whether the request's host seems to be gone. A live host repeats the request each second,
 * through one voter or another. The end of a session does not remove this request by itself: nobody
 * asks for the end of a session that holds nothing. Without this check, the request would count
 * against its agent's quota (queues_quota.c) until in the end the lock would be granted to a host
 * that is gone. The requests of an agent that was killed are removed in the same way. A host that
 * is not gone asks again, and reports how long it has waited.
 */
static bool is_unseen(const struct quorum *quorum, const struct queued_request *request)
{
    int64_t fresh_ns = sessions_fresh_since_ns(quorum);
    int64_t seen_ns = request->seen_ns > fresh_ns ? request->seen_ns : fresh_ns;
    int64_t longest_ns = 2 * quorum->config->session_ttl_ns + UNSEEN_MS * MS_NS;
    return step_now_ns(quorum) - seen_ns > rules_long_ns(quorum, longest_ns);
}

/* Returns whether the present grant blocks the request. An exclusive grant blocks every request.
 * Shares block a request for the exclusive grant. A share of an older session of the same host
 * blocks every request of that host. */
static bool in_the_way(struct plan *plan, const struct queued_request *request)
{
    switch (plan->value.mode) {
    case MESSAGE_MODE_EXCLUSIVE:
        return true;
    case MESSAGE_MODE_SHARED:
        return request->mode == MESSAGE_MODE_EXCLUSIVE || share_of(plan, request->agent) != NULL;
    default:
        return false;
    }
}

static enum outcome grant_share(const struct quorum *quorum, struct plan *plan,
                                const struct queued_request *request)
{
    struct record *value = &plan->value;
    struct share share = {.epoch = request->epoch, .agent = request->agent};
    if (plan->share_count == MESSAGE_SHARES_MAX) {
        remove_expired(quorum, plan);
    }
    uint32_t next = plan->share_count + 1;
    if (next > MESSAGE_SHARES_MAX ||
        (next > plan->share_had && !records_may_grow(quorum, next - plan->share_had))) {
        return OUTCOME_REFUSED_SHARES;
    }
    if (value->mode == MESSAGE_MODE_NONE) {
        value->mode = MESSAGE_MODE_SHARED;
        value->token_first = value->token_first > 1 ? value->token_first - 1 : 1;
        value->share_count = 0;
        value->shares = NONE;
    }
    share_add(plan, &share);
    plan->fresh = true;
    cover_delay(plan, request->lock_delay_ms);
    return OUTCOME_GRANT;
}

static enum outcome grant_exclusive(struct plan *plan, const struct queued_request *request)
{
    struct record *value = &plan->value;
    if (!message_token_leasable(value->token_first)) {
        return OUTCOME_REFUSED_TOKENS;
    }
    value->mode = MESSAGE_MODE_EXCLUSIVE;
    value->owner = request->agent;
    value->epoch = request->epoch;
    value->lock_delay_ms = request->lock_delay_ms;
    lease_range(plan, value->token_first, RANGE_FIRST);
    plan->fresh = true;
    return OUTCOME_GRANT;
}

/* ---- Tries ---- */

/* Returns whether an owner that blocks the request has answered a probe for the request with "in
 * use", and still has the grant of that answer. */
static bool is_in_use(struct plan *plan, const struct queued_request *request)
{
    const struct operation *operation = plan->operation;
    bool answered = request->probe != 0 && request->probe <= operation->used_probe;
    if (answered && plan->value.mode == MESSAGE_MODE_EXCLUSIVE) {
        return message_order_equal(record_version(&plan->value), operation->used);
    }
    for (uint32_t i = 0; answered && i < plan->share_count; i++) {
        if (message_order_equal(plan->shares[i].version, operation->used)) {
            return true;
        }
    }
    return false;
}

/* Returns whether the session of an owner that blocks the request has ended, so that the lock is
 * closed for a lock-delay. */
static bool is_closed(const struct quorum *quorum, const struct plan *plan)
{
    const struct record *value = &plan->value;
    if (value->mode == MESSAGE_MODE_EXCLUSIVE) {
        return sessions_has_ended(quorum, value->owner, value->epoch);
    }
    for (uint32_t i = 0; i < plan->share_count; i++) {
        if (sessions_has_ended(quorum, plan->shares[i].agent, plan->shares[i].epoch)) {
            return true;
        }
    }
    return false;
}

/* Returns whether the request's tries are to be refused now: another host waits before them, or the
 * lock is in use or closed. Readers do not wait for readers. */
static bool tries_in_vain(const struct quorum *quorum, struct plan *plan,
                          const struct queued_request *request)
{
    bool conflicts = plan->writes || request->mode == MESSAGE_MODE_EXCLUSIVE;
    if (plan->held) {
        return false; /* soon after a take-over, older acquires may still be on their way */
    }
    return (plan->waits && plan->waiter != request->agent && conflicts) ||
           is_in_use(plan, request) || is_closed(quorum, plan);
}

/* Notes a request that has to wait, for wait_for_turn() and for the requests behind it. */
static void note_blocked(struct plan *plan, struct queued_request *request)
{
    bool waits = request->tries != MESSAGE_TRIES_ONLY;
    bool other = !message_order_equal(plan->operation->probed, record_accepted(&plan->value));
    if (plan->blocked == NULL) {
        plan->blocked = request;
    }
    plan->again = plan->again || (request->probes && request->probe != 0 && !other);
    /* The owners have changed since the last probe, so the new owners are to be asked. */
    request->probes = request->probes || (request->probe != 0 && other);
    plan->probes = plan->probes || (request->probes && !request->refused);
    plan->reads = plan->reads ||
                  (request->tries != MESSAGE_TRIES_NONE && request->mode == MESSAGE_MODE_SHARED);
    plan->waiter = waits && !plan->waits ? request->agent : plan->waiter;
    plan->writes = plan->writes || (waits && request->mode == MESSAGE_MODE_EXCLUSIVE);
    plan->waits = plan->waits || waits;
}

/* Decides about an acquire that cannot be granted now. */
static enum outcome acquire_later(const struct quorum *quorum, struct plan *plan,
                                  struct queued_request *request)
{
    bool vain = request->tries != MESSAGE_TRIES_NONE && tries_in_vain(quorum, plan, request);
    if (vain && request->tries == MESSAGE_TRIES_ONLY) {
        return OUTCOME_REFUSED_IN_USE;
    }
    request->refused = vain;
    plan->refuses = plan->refuses || vain;
    note_blocked(plan, request);
    return OUTCOME_NONE;
}

/* ---- One acquire ---- */

static enum outcome acquire(struct quorum *quorum, struct plan *plan,
                            struct queued_request *request)
{
    struct share own = own_part(plan, request->agent);
    const struct answered *before = request->again ? answered_find(quorum, request, &plan->name)
                                                   : NULL;
    if (session_over(quorum, request) || own.epoch > request->epoch) {
        return OUTCOME_REFUSED_SESSION;
    }
    if (is_stale(request, before, &own)) {
        return OUTCOME_ANSWERED;
    }
    if (own.epoch == request->epoch) {
        cover_delay(plan, request->lock_delay_ms);
        bool now = is_made_now(plan, &own);
        request->fresh = now || was_made(request, &own) || (before != NULL && before->fresh);
        request->version = now ? (struct message_order){0} : request->version;
        return OUTCOME_GRANT;
    }
    if (is_unseen(quorum, request)) {
        return OUTCOME_HOST_GONE;
    }
    request->fresh = true;
    request->version = (struct message_order){0};
    if (plan->blocked == NULL && !plan->held) {
        if (in_the_way(plan, request)) {
            remove_expired(quorum, plan);
        }
        if (!in_the_way(plan, request)) {
            return request->mode == MESSAGE_MODE_SHARED ? grant_share(quorum, plan, request)
                                                        : grant_exclusive(plan, request);
        }
    }
    return acquire_later(quorum, plan, request);
}

/* ---- The whole plan ---- */

/* Returns whether the outcome depends on the value. Other outcomes are true whichever voter
 * coordinates. */
static bool is_of_value(enum outcome outcome)
{
    return outcome == OUTCOME_GRANT || outcome == OUTCOME_AMENDED ||
           outcome == OUTCOME_GIVEN_BACK || outcome == OUTCOME_BREAK ||
           outcome == OUTCOME_REFUSED_VERSION;
}

static enum outcome decide(struct quorum *quorum, struct plan *plan, struct queued_request *request)
{
    switch (request->kind) {
    case MESSAGE_ACQUIRE:
        return acquire(quorum, plan, request);
    case MESSAGE_AMEND:
        return amend(quorum, plan, request);
    case MESSAGE_BREAK:
        /* one break at a time, because a break may send many messages */
        plan->more = plan->more || plan->broken;
        if (plan->broken) {
            return OUTCOME_NONE;
        }
        plan->broken = true;
        return OUTCOME_BREAK;
    default:
        return give_back(plan, request);
    }
}

/* Corrects the outcome of a request whose grant ended later in the same plan: by a give-back after
 * an amendment, or by the end of the session. */
static void look_again(struct plan *plan, struct queued_request *request)
{
    bool amended = request->outcome == OUTCOME_AMENDED;
    if (!amended && request->outcome != OUTCOME_GRANT) {
        return;
    }
    struct share own = own_part(plan, request->agent);
    if (own.epoch != request->epoch ||
        (amended && !message_order_equal(own.version, request->version))) {
        request->outcome = amended ? OUTCOME_REFUSED_VERSION : OUTCOME_REFUSED_SESSION;
    }
}

static void decide_all(struct quorum *quorum, struct operation *operation, struct plan *plan)
{
    for (uint32_t pass = 0; pass < 2; pass++) {
        if (pass == 1 && plan->broken) {
            /* the break must not hit a host that gets its grant in the same round */
            plan->more = true;
            return;
        }
        for (uint32_t at = operation->first; at != NONE; at = quorum->queues->requests[at].next) {
            struct queued_request *request = &quorum->queues->requests[at];
            if ((request->kind == MESSAGE_ACQUIRE) != (pass == 1)) {
                continue;
            }
            if (plan->decided == OUTCOMES_MAX) {
                plan->more = true;
                return;
            }
            request->outcome = (uint8_t)decide(quorum, plan, request);
            plan->decided += request->outcome != OUTCOME_NONE || request->refused;
            plan->notified = plan->notified || is_of_value((enum outcome)request->outcome);
        }
    }
}

void plan_make(struct quorum *quorum, struct operation *operation, const struct record *value,
               bool held, struct plan *plan)
{
    memset(plan, 0, offsetof(struct plan, shares));
    memset(&plan->share_count, 0, sizeof(*plan) - offsetof(struct plan, share_count));
    step_lock_name(quorum, operation->name, &plan->name);
    plan->value = *value;
    plan->operation = operation;
    plan->held = held;
    plan->share_count = record_shares(quorum, value, plan->shares);
    plan->share_had = plan->share_count;
    if (value->mode == MESSAGE_MODE_SHARED) {
        plan->value.shares = NONE;
        plan->value.share_count = 0;
    }
    decide_all(quorum, operation, plan);
    for (uint32_t at = operation->first; at != NONE; at = quorum->queues->requests[at].next) {
        look_again(plan, &quorum->queues->requests[at]);
    }
}
