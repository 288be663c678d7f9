/*
 * The waits of operations.
 *
 * Times: a heap orders the operations by when to look at them again, so a tick stays cheap even if
 * tens of thousands of operations wait. Sessions: each agent has a list of the operations that wait
 * for the end of its session. Owners that block a request get RECALL. It is repeated for as long as
 * the request waits, every second time through another voter.
 *
 * Tries: a process that only tries the lock waits for an idle grant, and for nothing else. So the
 * owners that block this try are asked once (a probe). An owner gives its grant back if the grant
 * is idle, and otherwise answers that it is in use; the probe changes nothing else at the owner. If
 * a probe or its answer is lost, the host's next copy of the request brings another probe. Only the
 * time at which a try is answered depends on probes (docs/PROTOCOL.md, rule 35).
 */
#include "proto/check.h"
#include "queues_private.h"

/* A RECALL carries the number of its probe as a request_id with these low bits. A host's own
 * requests never have them (message.h). A coordinator that knows no probes takes the owner's answer
 * for a request. Its reply to that supposed request has this request_id, so it cannot answer one of
 * the owner's own requests by mistake. */
enum { PROBE_SHIFT = 16, PROBE_MARK = 0xffff };

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

/* ---- Owners that block a request ---- */

/* Writes the owners that block the request into `owners`, and returns how many there are. A shared
 * grant blocks a reader only if an older session of the reader's host has a share of it. */
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

/* Returns a voter through which to try to reach an agent that does not answer; ACTION_NO_RELAY if
 * there is none. */
static uint8_t relay_for(const struct quorum *quorum, uint32_t agent)
{
    uint32_t voters = quorum->config->voter_count;
    uint32_t first = (uint32_t)(step_random(quorum) % voters);
    uint32_t not_by = agents_as_voter(quorum, agent);
    for (uint32_t i = 0; i < voters; i++) {
        uint32_t voter = (first + i) % voters;
        if (voter != quorum->config->self && voter != not_by &&
            voters_heartbeats_arrive(quorum, voter)) {
            return (uint8_t)voter;
        }
    }
    return ACTION_NO_RELAY;
}

uint8_t wait_way_to(const struct quorum *quorum, uint32_t agent, uint32_t before)
{
    return before % 2 == 0 ? ACTION_NO_RELAY : relay_for(quorum, agent);
}

/* Asks an owner for its grant. probe: the number under which the owner is to answer if the grant is
 * in use; 0: no such answer is wanted. */
static void recall_by(struct quorum *quorum, const struct operation *operation,
                      const struct share *owner, uint8_t relay, enum message_recall what,
                      uint64_t probe)
{
    struct message_version *version =
        &step_send_by(quorum, owner->agent, relay, MESSAGE_RECALL)->as.version;
    version->agent = *agents_name(quorum, owner->agent);
    version->epoch = owner->epoch;
    version->request_id = probe == 0 ? 0 : probe << PROBE_SHIFT | PROBE_MARK;
    step_lock_name(quorum, operation->name, &version->name);
    version->version = owner->version;
    version->recall = (uint8_t)what;
}

static void recall(struct quorum *quorum, const struct operation *operation,
                   const struct share *owner, enum message_recall what, uint64_t probe)
{
    bool waits = what == MESSAGE_RECALL_WAITS || what == MESSAGE_RECALL_REPORTS;
    uint8_t relay = wait_way_to(quorum, owner->agent,
                                waits ? operation->recalls : operation->probes);
    if (waits && operation->recalls == 0 && operation->way != owner->agent) {
        /* The recall takes the grant's way, so that it does not overtake the grant and cost the
         * host its turn. */
        relay = operation->way;
    }
    recall_by(quorum, operation, owner, relay, what, probe);
}

/* Returns which recall to send now; MESSAGE_RECALL_END: none. If hosts wait, a recall is due at
 * intervals. If hosts only try, a recall is due when one of them asks. */
static enum message_recall what_to_recall(const struct quorum *quorum,
                                          const struct operation *operation,
                                          const struct plan *plan)
{
    bool due = operation->recall_ns == INT64_MIN ||
               step_now_ns(quorum) - operation->recall_ns >= RECALL_MS * MS_NS;
    if (plan->broken) {
        return MESSAGE_RECALL_END;
    }
    if (plan->waits && due) {
        return plan->probes ? MESSAGE_RECALL_REPORTS : MESSAGE_RECALL_WAITS;
    }
    return !plan->probes ? MESSAGE_RECALL_END
           : plan->reads ? MESSAGE_RECALL_TO_READ
                         : MESSAGE_RECALL_IF_IDLE;
}

/* Notes that a probe of that value's owners was sent. The answer to this probe, or to a later one,
 * answers all requests that have asked for a probe by now. */
static void note_probe(struct quorum *quorum, struct operation *operation,
                       const struct record *value, uint64_t probe)
{
    operation->probed = record_accepted(value);
    for (uint32_t at = operation->first; at != NONE; at = quorum->queues->requests[at].next) {
        struct queued_request *request = &quorum->queues->requests[at];
        if (request->kind == MESSAGE_ACQUIRE && request->probes) {
            request->probe = request->probe == 0 ? probe : request->probe;
            request->probes = false;
        }
    }
}

void wait_for_turn(struct quorum *quorum, struct operation *operation, const struct record *value,
                   const struct plan *plan)
{
    struct share owners[MESSAGE_SHARES_MAX];
    uint32_t count = owners_in_way(quorum, value, plan->blocked, owners);
    int64_t end_ns = plan->held ? wait_order_ns(quorum, operation) : step_now_ns(quorum) + 1;
    enum message_recall what = what_to_recall(quorum, operation, plan);
    bool waits = what == MESSAGE_RECALL_WAITS || what == MESSAGE_RECALL_REPORTS;
    uint64_t probe = plan->probes ? quorum->queues->probe + 1 : 0;
    if (plan->probes) {
        operation->probes = plan->again ? (uint8_t)(operation->probes + 1) : 0;
    }
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
        if (what != MESSAGE_RECALL_END && owner->agent != plan->blocked->agent) {
            recall(quorum, operation, owner, what, probe);
            recalled = true;
        }
    }
    if (recalled && waits) {
        operation->recall_ns = step_now_ns(quorum);
        operation->recalls++;
    }
    if (recalled && probe != 0) {
        quorum->queues->probe = probe;
        note_probe(quorum, operation, value, probe);
    }
    if (operation->waits_for != AGENTS_NONE) {
        end_ns = step_now_ns(quorum) + RECALL_MS * MS_NS;
    }
    wait_until(quorum, operation, end_ns);
    for (uint32_t i = 0; i < count; i++) {
        sessions_want_end(quorum, owners[i].agent, owners[i].epoch, false);
    }
}

/* Returns the name's entry in the table `vain` if the next recalls for its upgrades are due, else
 * NULL. A process that waits makes its host ask far more often than recalls are due. */
static struct vain *vain_due(struct quorum *quorum, uint32_t name)
{
    struct message_name text;
    step_lock_name(quorum, name, &text);
    uint64_t hash = answered_name_hash(&text);
    struct vain *vain = &quorum->queues->vain[hash % VAIN_KEPT];
    int64_t passed_ns = step_now_ns(quorum) - vain->recall_ns;
    if (vain->name == hash && passed_ns < RECALL_MS * MS_NS) {
        return NULL;
    }
    if (vain->name != hash || passed_ns > 2 * RECALL_MS * MS_NS) {
        *vain = (struct vain){.name = hash}; /* these are the first recalls for this upgrade */
    }
    return vain;
}

void wait_recall_idle(struct quorum *quorum, const struct operation *operation,
                      const struct record *value, uint16_t agent)
{
    struct share owners[MESSAGE_SHARES_MAX];
    uint32_t count = record_shares(quorum, value, owners);
    struct vain *vain = vain_due(quorum, operation->name);
    if (vain == NULL) {
        return;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t owner = owners[i].agent;
        if (owner != agent && !sessions_has_ended(quorum, owner, owners[i].epoch)) {
            uint8_t relay = wait_way_to(quorum, owner, vain->recalls);
            recall_by(quorum, operation, &owners[i], relay, MESSAGE_RECALL_IF_IDLE, 0);
        }
    }
    vain->recall_ns = step_now_ns(quorum);
    vain->recalls++;
}

struct operation *wait_used(struct quorum *quorum, const struct message *message)
{
    const struct message_amend *amend = &message->as.amend;
    uint64_t probe = amend->request_id >> PROBE_SHIFT;
    uint32_t name = names_find(quorum->names, amend->name.bytes, amend->name.length);
    struct operation *operation = name == NAMES_NONE ? NULL : operation_find(quorum, name);
    if (operation == NULL || probe <= operation->used_probe || probe > quorum->queues->probe) {
        return NULL;
    }
    operation->used_probe = probe;
    operation->used = amend->version;
    return operation;
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
