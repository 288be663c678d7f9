/*
 * Decides the next value of a name from the last one and the queue of requests: first what is not
 * an acquire, then the acquires in order of arrival. One that has to wait holds back those behind
 * it, so readers that came after a writer do not starve it, and those between two writers are
 * granted together. Nothing here is remembered: what is decided counts when it is chosen.
 *
 * A request asked again is answered from the value itself: the grant that its host has, a version
 * that is no longer there.
 *
 * Tokens. The first token of a lock's ranges never falls, and what comes behind a range begins
 * above all that was used of it; after an unclean end above all of it. A shared grant has one token
 * that its readers on all hosts show: the last one used before it, and the next range begins above.
 * So a shared hold has at least the token of every exclusive one before it, less than every one
 * after it, and no reader is below another that began before: not those of one grant, whose token
 * is the same, and not those of a later one.
 *
 * A change of the mode must not be made by a late repeat: the host may have the grant in the other
 * mode again by then. To EXCLUSIVE it names the shared token, to more tokens the last one of the
 * range: each has been passed by the time when the host goes on. To SHARED it names the last token
 * that was used, which has to be of the range that there is: the host takes nothing exclusively
 * again before it was given a range above that token (host/grants.c), so the message is of no range
 * of this version any more. A range's last token would not do: one that was given back in part may
 * be followed by one that ends there, too. (A host of a release before names it, and its whole
 * range counts as used, so that for its messages it does.)
 *
 * The sizes of ranges are a budget: docs/TIMEOUTS.md, "How long tokens last".
 */
#include <string.h>

#include "proto/check.h"
#include "queues_private.h"

/* The simulator has less patience. */
#ifndef PLAN_UNHEARD_MS
#define PLAN_UNHEARD_MS 5000
#endif

enum { UNHEARD_MS = PLAN_UNHEARD_MS }; /* hosts repeat what waits each second */

/* And it has ranges used up, in most cells: there it is a variable. */
#ifndef PLAN_RANGE_FIRST
#define PLAN_RANGE_FIRST (UINT64_C(1) << 12)
#endif

/* Of a grant's first range; up to which the next one has twice as many, and from then on a quarter
 * more; and at most. */
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

/* The range is used up. */
static void lease_more(struct plan *plan)
{
    uint64_t size = (uint64_t)plan->value.token_extra + 1;
    size += size < RANGE_DOUBLES ? size : size / 4;
    size = size < RANGE_FIRST ? RANGE_FIRST : size; /* it ended with its block */
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

/* ---- Ends by death ---- */

int64_t plan_delay_end_ns(const struct quorum *quorum, const struct record *value, uint16_t agent)
{
    return sessions_ended_ns(quorum, agent) + rules_closed_ns(quorum, value->lock_delay_ms * MS_NS);
}

static bool ended_by_death(const struct quorum *quorum, const struct plan *plan, uint16_t agent,
                           uint32_t epoch)
{
    return sessions_has_ended(quorum, agent, epoch) &&
           step_now_ns(quorum) >= plan_delay_end_ns(quorum, &plan->value, agent);
}

/* Removes the parts of sessions that ended from a grant, once its lock-delay is over. */
static void remove_dead(const struct quorum *quorum, struct plan *plan)
{
    const struct record *value = &plan->value;
    if (value->mode == MESSAGE_MODE_EXCLUSIVE &&
        ended_by_death(quorum, plan, value->owner, value->epoch)) {
        end(plan, token_last(plan) + 1);
    }
    for (uint32_t i = plan->share_count; i > 0; i--) {
        struct share *share = &plan->shares[i - 1];
        if (ended_by_death(quorum, plan, share->agent, share->epoch)) {
            share_remove(plan, share);
        }
    }
}

/* ---- What is not an acquire ---- */

/* Whether it is the exclusive grant that the request names. */
static bool names_grant(const struct plan *plan, const struct request *request)
{
    return plan->value.mode == MESSAGE_MODE_EXCLUSIVE && plan->value.owner == request->agent &&
           message_order_equal(record_version(&plan->value), request->version);
}

static struct share *named_share(struct plan *plan, const struct request *request)
{
    struct share *share = share_of(plan, request->agent);
    bool named = share != NULL && message_order_equal(share->version, request->version);
    return named ? share : NULL;
}

static enum outcome give_back(struct plan *plan, const struct request *request)
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

/* The only share becomes the exclusive grant, under its version. */
static enum outcome upgrade(const struct quorum *quorum, struct plan *plan,
                            const struct request *request)
{
    struct record *value = &plan->value;
    if (request->token != 0 && request->token != value->token_first) {
        return OUTCOME_AMENDED; /* a late repeat */
    }
    remove_dead(quorum, plan);
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

/* Up to which token of its range the host has used it, if it says so of this one. */
static bool names_used(const struct plan *plan, const struct request *request)
{
    return request->says_used
               ? request->token >= plan->value.token_first && request->token <= token_last(plan)
               : request->token != 0 && request->token == token_last(plan);
}

/* The exclusive grant becomes a share. */
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
                                const struct request *request)
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
                          const struct request *request)
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

/* That a majority marked it. The own mark alone says nothing: the others may go on acknowledging
 * its renewals, and a grant to a session that has ended after all is used by nobody. */
static bool session_over(const struct quorum *quorum, const struct request *request)
{
    return sessions_has_ended(quorum, request->agent, request->epoch) ||
           request->epoch < sessions_epoch(quorum, request->agent);
}

/* The part that the host has already: the grant of that session is its answer, whatever mode it
 * asked for. epoch 0: it has nothing. */
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

/* Whether what the host has is of this plan: then it is made for whatever request of it is here. */
static bool is_made_now(const struct plan *plan, const struct share *own)
{
    return plan->fresh && (plan->value.mode == MESSAGE_MODE_EXCLUSIVE || own->version.ballot == 0);
}

/* Whether this process proposed it for that request. It may have been beaten since, and does not
 * know then whether it was chosen; what it read has it, so its host can have it from now on. */
static bool was_made(const struct request *request, const struct share *own)
{
    return request->version.ballot != 0 && message_order_equal(request->version, own->version);
}

/* Whether it was answered, by a grant that is no longer there. */
static bool is_stale(const struct request *request, const struct answered *before,
                     const struct share *own)
{
    return before != NULL &&
           (own->epoch != request->epoch || !message_order_equal(own->version, before->version));
}

/*
 * Whether its host is gone, which would repeat it each second, by one way or another: nobody wants
 * the end of its session, since it holds nothing. It would be granted the lock in vain, and until
 * then it has a place (queues_quota.c); so have the requests of an agent's process that was killed.
 * If it is there after all it asks again, and says how long it has waited.
 */
static bool is_unheard(const struct quorum *quorum, const struct request *request)
{
    int64_t fresh_ns = sessions_fresh_since_ns(quorum);
    int64_t heard_ns = request->heard_ns > fresh_ns ? request->heard_ns : fresh_ns;
    int64_t longest_ns = 2 * quorum->config->session_ttl_ns + UNHEARD_MS * MS_NS;
    return step_now_ns(quorum) - heard_ns > rules_long_ns(quorum, longest_ns);
}

/* Whether what others have, or an older session of the host itself, leaves no place for it. */
static bool in_the_way(struct plan *plan, const struct request *request)
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
                                const struct request *request)
{
    struct record *value = &plan->value;
    struct share share = {.epoch = request->epoch, .agent = request->agent};
    if (plan->share_count == MESSAGE_SHARES_MAX) {
        remove_dead(quorum, plan);
    }
    uint32_t next = plan->share_count + 1;
    if (next > MESSAGE_SHARES_MAX ||
        (next > plan->share_had && !records_may_grow(quorum, next - plan->share_had))) {
        return OUTCOME_REFUSED_FULL;
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

static enum outcome grant_exclusive(struct plan *plan, const struct request *request)
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

static enum outcome acquire(struct quorum *quorum, struct plan *plan, struct request *request)
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
    if (is_unheard(quorum, request)) {
        return OUTCOME_UNHEARD;
    }
    request->fresh = true;
    request->version = (struct message_order){0};
    if (plan->blocked == NULL && !plan->held) {
        if (in_the_way(plan, request)) {
            remove_dead(quorum, plan);
        }
        if (!in_the_way(plan, request)) {
            return request->mode == MESSAGE_MODE_SHARED ? grant_share(quorum, plan, request)
                                                        : grant_exclusive(plan, request);
        }
    }
    if (plan->blocked == NULL) {
        plan->blocked = request;
    }
    return OUTCOME_NONE;
}

/* ---- All of it ---- */

/* Whether it says what the value is.
 * The rest is true whoever coordinates, or says nothing of it. */
static bool is_of_value(enum outcome outcome)
{
    return outcome == OUTCOME_GRANT || outcome == OUTCOME_AMENDED ||
           outcome == OUTCOME_GIVEN_BACK || outcome == OUTCOME_BREAK ||
           outcome == OUTCOME_REFUSED_VERSION;
}

static enum outcome decide(struct quorum *quorum, struct plan *plan, struct request *request)
{
    switch (request->kind) {
    case MESSAGE_ACQUIRE:
        return acquire(quorum, plan, request);
    case MESSAGE_AMEND:
        return amend(quorum, plan, request);
    case MESSAGE_BREAK:
        plan->more = plan->more || plan->broken; /* one at a time: it may be many messages */
        if (plan->broken) {
            return OUTCOME_NONE;
        }
        plan->broken = true;
        return OUTCOME_BREAK;
    default:
        return give_back(plan, request);
    }
}

/* A later request of the same plan may have ended what an earlier one was to be answered with: its
 * own give-back behind an amendment, or the end of its session. */
static void look_again(struct plan *plan, struct request *request)
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
            plan->more = true; /* who is granted by the same accept is not to be broken */
            return;
        }
        for (uint32_t at = operation->first; at != NONE; at = quorum->queues->requests[at].next) {
            struct request *request = &quorum->queues->requests[at];
            if ((request->kind == MESSAGE_ACQUIRE) != (pass == 1)) {
                continue;
            }
            if (plan->decided == OUTCOMES_MAX) {
                plan->more = true;
                return;
            }
            request->outcome = (uint8_t)decide(quorum, plan, request);
            plan->decided += request->outcome != OUTCOME_NONE;
            plan->told = plan->told || is_of_value((enum outcome)request->outcome);
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
