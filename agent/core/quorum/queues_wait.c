/*
 * The waits of operations.
 *
 * Times: a heap orders the operations by when to look at them again, so tens of thousands of
 * waiting ones cost a tick nothing. Sessions: each agent has a list of the operations that wait for
 * the end of its session. Owners in the way get RECALL, repeated for as long as a request waits for
 * their grant, and every second time through another voter.
 */
#include "proto/check.h"
#include "queues_private.h"

/* ---- Times ---- */

void wait_until(struct quorum *quorum, struct operation *operation, int64_t when_ns)
{
    if (when_ns == NEVER) {
        heap_remove(&quorum->queues->wakes, operation_index(quorum, operation));
        return;
    }
    heap_set(&quorum->queues->wakes, operation_index(quorum, operation), when_ns);
    step_schedule(quorum, when_ns);
}

int64_t wait_wake_ns(const struct quorum *quorum, const struct operation *operation)
{
    return heap_when_ns(&quorum->queues->wakes, operation_index(quorum, operation));
}

struct operation *wait_first(const struct quorum *quorum)
{
    uint32_t first = heap_first(&quorum->queues->wakes);
    return first == HEAP_NONE ? NULL : &quorum->queues->operations[first];
}

int64_t wait_order_ns(const struct quorum *quorum, const struct operation *operation)
{
    int64_t wait_ms = quorum->config->voter_count == 1 ? ORDER_WAIT_ONLY_MS : ORDER_WAIT_MS;
    return ballots_prepared_ns(quorum, operation->partition) + wait_ms * MS_NS;
}

/* ---- Sessions ---- */

void wait_for_nobody(struct quorum *quorum, struct operation *operation)
{
    if (operation->waits_for == AGENTS_NONE) {
        return;
    }
    if (operation->wait_previous != NONE) {
        quorum->queues->operations[operation->wait_previous].wait_next = operation->wait_next;
    } else {
        quorum->queues->quotas[operation->waits_for].waiting = operation->wait_next;
    }
    if (operation->wait_next != NONE) {
        quorum->queues->operations[operation->wait_next].wait_previous = operation->wait_previous;
    }
    operation->waits_for = AGENTS_NONE;
}

static void wait_for_agent(struct quorum *quorum, struct operation *operation, uint16_t agent)
{
    uint32_t at = operation_index(quorum, operation);
    HF_CHECK(operation->waits_for == AGENTS_NONE);
    operation->waits_for = agent;
    operation->wait_previous = NONE;
    operation->wait_next = quorum->queues->quotas[agent].waiting;
    if (operation->wait_next != NONE) {
        quorum->queues->operations[operation->wait_next].wait_previous = at;
    }
    quorum->queues->quotas[agent].waiting = at;
}

void queues_session_ended(struct quorum *quorum, uint32_t agent)
{
    uint32_t at = quorum->queues->quotas[agent].waiting;
    for (; at != NONE; at = quorum->queues->operations[at].wait_next) {
        wait_until(quorum, &quorum->queues->operations[at], step_now_ns(quorum));
    }
}

/* ---- Owners in the way ---- */

/* The owners that keep that request from being granted. A shared grant keeps a reader out only if
 * an older session of the same host has a part of it. */
static uint32_t owners_in_way(const struct quorum *quorum, const struct record *value,
                              const struct queued_request *blocked, struct share *owners)
{
    if (value->mode == MESSAGE_MODE_EXCLUSIVE) {
        owners[0].version = record_version(value);
        owners[0].epoch = value->epoch;
        owners[0].agent = value->owner;
        return 1;
    }
    uint32_t all = record_shares(quorum, value, owners);
    uint32_t count = 0;
    for (uint32_t i = 0; i < all; i++) {
        if (blocked->mode == MESSAGE_MODE_EXCLUSIVE || owners[i].agent == blocked->agent) {
            owners[count++] = owners[i];
        }
    }
    return count;
}

/* A voter through which to try to reach an agent that does not answer; ACTION_NO_RELAY if there is
 * none. */
static uint8_t relay_for(const struct quorum *quorum, uint32_t agent)
{
    uint32_t voters = quorum->config->voter_count;
    uint32_t first = (uint32_t)(step_random(quorum) % voters);
    for (uint32_t i = 0; i < voters; i++) {
        uint32_t voter = (first + i) % voters;
        if (voter != quorum->config->self && voter != agent && voters_hear(quorum, voter)) {
            return (uint8_t)voter;
        }
    }
    return ACTION_NO_RELAY;
}

static void recall(struct quorum *quorum, const struct operation *operation,
                   const struct share *owner)
{
    uint8_t relay = operation->recalls % 2 == 0 ? ACTION_NO_RELAY : relay_for(quorum, owner->agent);
    if (operation->recalls == 0 && operation->way != owner->agent) {
        relay = operation->way; /* after the grant, or the host would lose its turn */
    }
    struct message_version *version =
        &step_send_by(quorum, owner->agent, relay, MESSAGE_RECALL)->as.version;
    version->agent = *agents_name(quorum, owner->agent);
    version->epoch = owner->epoch;
    step_lock_name(quorum, operation->name, &version->name);
    version->version = owner->version;
}

void wait_for_turn(struct quorum *quorum, struct operation *operation, const struct record *value,
                   const struct plan *plan)
{
    struct share owners[MESSAGE_SHARES_MAX];
    uint32_t count = owners_in_way(quorum, value, plan->blocked, owners);
    int64_t end_ns = plan->held ? wait_order_ns(quorum, operation) : step_now_ns(quorum) + 1;
    bool due = operation->recall_ns == INT64_MIN ||
               step_now_ns(quorum) - operation->recall_ns >= RECALL_MS * MS_NS;
    bool recalled = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct share *owner = &owners[i];
        if (sessions_has_ended(quorum, owner->agent, owner->epoch)) {
            int64_t delay_ns = plan_delay_end_ns(quorum, value, owner->agent);
            end_ns = delay_ns > end_ns ? delay_ns : end_ns;
            continue;
        }
        if (operation->waits_for == AGENTS_NONE) {
            wait_for_agent(quorum, operation, owner->agent);
        }
        if (due && !plan->broken && owner->agent != plan->blocked->agent) {
            recall(quorum, operation, owner);
            recalled = true;
        }
    }
    if (recalled) {
        operation->recall_ns = step_now_ns(quorum);
        operation->recalls++;
    }
    if (operation->waits_for != AGENTS_NONE) {
        end_ns = step_now_ns(quorum) + RECALL_MS * MS_NS;
    }
    wait_until(quorum, operation, end_ns);
    for (uint32_t i = 0; i < count; i++) {
        sessions_want_end(quorum, owners[i].agent, owners[i].epoch, false);
    }
}

void wait_check_invariants(const struct quorum *quorum)
{
    heap_check_invariants(&quorum->queues->wakes);
    for (uint32_t agent = 0; agent < agents_count(quorum); agent++) {
        uint32_t previous = NONE;
        uint32_t at = quorum->queues->quotas[agent].waiting;
        for (; at != NONE; at = quorum->queues->operations[at].wait_next) {
            HF_CHECK(quorum->queues->operations[at].waits_for == agent);
            HF_CHECK(quorum->queues->operations[at].wait_previous == previous);
            previous = at;
        }
    }
}
