/*
 * Handover: a voter that stops coordinating a partition passes its queues on to the next
 * coordinator.
 *
 * Only the coordinator of a name knows its queue. As soon as another voter announces that it
 * coordinates, hosts repeat their requests and report how long they have waited, so they keep their
 * turns. But an agent that is being restarted at that moment cannot repeat anything, and its host
 * would lose its turn. So a coordinator that stops but stays alive (the preferred voter is back, or
 * this process is about to end) keeps its waiting acquires until another voter claims the
 * partition, but at most KEPT_MS. Then it passes each acquire on, as if the acquire's host had sent
 * it to the wrong voter. Agents of every release understand that. The acquire arrives while the
 * next coordinator still waits for repeats (ORDER_WAIT_MS). If no voter claims the partition in
 * time, the acquires are refused.
 *
 * A voter that is about to end reports in its heartbeats that it has no majority. So another voter
 * replaces it at once, while it is still there to promise and to vote, and before its
 * connections break.
 *
 * A request whose session has lapsed is not passed on. The next coordinator would take it for a
 * request that its host had just repeated, and so would the coordinator after it. A host that is
 * gone would then keep its turn through every change of coordinator. A host that is not gone asks
 * again, and reports how long it has waited.
 *
 * If this voter was about to grant a request, it passes the request on with the version of that
 * grant. If the next coordinator reads that grant, it knows for which request the grant was made.
 * So the host need not give the grant back as doubtful (docs/PROTOCOL.md, rule 11).
 *
 * Safety does not depend on a handover: an acquire may always be repeated, late or needless, and it
 * can only give the lock to its own host. A voter that is killed hands nothing over.
 */
#include "proto/check.h"
#include "queues_private.h"

enum { KEPT_MS = 1000 }; /* how long acquires are kept until a voter claims their partition */

static void pass_on(struct quorum *quorum, const struct operation *operation,
                    const struct queued_request *request, uint32_t voter)
{
    int64_t waited_ms = (step_now_ns(quorum) - request->arrived_ns) / MS_NS;
    struct message_acquire *acquire =
        &agents_send_voter(quorum, voter, MESSAGE_ACQUIRE)->as.acquire;
    acquire->agent = *agents_name(quorum, request->agent);
    acquire->epoch = request->epoch;
    acquire->request_id = request->id;
    step_lock_name(quorum, operation->name, &acquire->name);
    acquire->mode = request->mode;
    acquire->lock_delay_ms = request->lock_delay_ms;
    acquire->waited_ms = waited_ms < UINT32_MAX ? (uint32_t)waited_ms : UINT32_MAX;
    acquire->tries = request->tries;
    acquire->made = request->version;
    voters_note_passed(quorum, voter);
}

void handover_look(struct quorum *quorum, struct operation *operation)
{
    uint32_t voter = voters_claimant(quorum, operation->partition, quorum->config->self);
    bool claimed = voter < quorum->config->voter_count;
    int64_t end_ns = ballots_left_ns(quorum, operation->partition) + KEPT_MS * MS_NS;
    uint32_t count = 0;
    uint32_t at = operation->first;
    HF_CHECK(ballots_state(quorum, operation->partition) == PARTITION_OTHERS);
    for (; at != NONE && count < OUTCOMES_MAX; at = quorum->queues->requests[at].next) {
        struct queued_request *request = &quorum->queues->requests[at];
        request->outcome = OUTCOME_REFUSED_NOT_OWNER;
        if (request->kind == MESSAGE_ACQUIRE && claimed) {
            if (!sessions_has_lapsed(quorum, request->agent, request->epoch)) {
                pass_on(quorum, operation, request, voter);
            }
        } else if (request->kind == MESSAGE_ACQUIRE && step_now_ns(quorum) < end_ns) {
            request->outcome = OUTCOME_NONE;
            continue;
        }
        count++;
    }
    for (; at != NONE; at = quorum->queues->requests[at].next) {
        quorum->queues->requests[at].outcome = OUTCOME_NONE;
    }
    answer_decided(quorum, operation, NULL);
    if (operation->first != NONE) {
        wait_until(quorum, operation, count == OUTCOMES_MAX ? step_now_ns(quorum) : end_ns);
    } else if (claimed) {
        /* the echo of the next heartbeat shows that the voter received the queue */
        voters_heartbeat_soon(quorum);
    }
}

void queues_claims_changed(struct quorum *quorum, uint32_t voter)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        const struct queue_partition *partition = &quorum->queues->partitions[p];
        if (ballots_state(quorum, p) != PARTITION_OTHERS || !voters_claim(quorum, voter, p)) {
            continue;
        }
        for (uint32_t at = partition->first; at != NONE; at = quorum->queues->operations[at].next) {
            if (quorum->queues->operations[at].first != NONE) {
                wait_until(quorum, &quorum->queues->operations[at], step_now_ns(quorum));
            }
        }
    }
}

void queues_resign(struct quorum *quorum)
{
    if (quorum->config->voter_count == 1 || voters_resigned(quorum)) {
        return;
    }
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (ballots_state(quorum, p) == PARTITION_PREPARED) {
            message_partition_add(&quorum->queues->resigned_of, p);
        }
    }
    voters_resign(quorum);
    ballots_review(quorum);
    voters_heartbeat_soon(quorum);
}

/* Returns whether another voter claims the partition, and no request for its names is queued here
 * any more. */
static bool is_handed_over(const struct quorum *quorum, uint32_t p)
{
    const struct queue_partition *partition = &quorum->queues->partitions[p];
    if (!voters_claimed(quorum, p, quorum->config->self)) {
        return false;
    }
    for (uint32_t at = partition->first; at != NONE; at = quorum->queues->operations[at].next) {
        if (quorum->queues->operations[at].first != NONE) {
            return false;
        }
    }
    return true;
}

static bool others_are_there(const struct quorum *quorum)
{
    return (voters_able(quorum) & ~(1u << quorum->config->self)) != 0;
}

bool queues_handed_over(const struct quorum *quorum)
{
    if (!others_are_there(quorum)) {
        return false;
    }
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (message_partition_has(&quorum->queues->resigned_of, p) && !is_handed_over(quorum, p)) {
            return false;
        }
    }
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if (voters_echo_is_due(quorum, voter)) {
            return false;
        }
    }
    return true;
}

bool queues_resigned(const struct quorum *quorum)
{
    return !others_are_there(quorum) || queues_handed_over(quorum);
}
