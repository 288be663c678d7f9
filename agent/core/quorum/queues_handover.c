/*
 * Handing over: a voter that ceases to coordinate a partition passes its queues on to the next one.
 *
 * The queue of a name is known to its coordinator alone. Hosts repeat what they ask for as soon as
 * another says that it coordinates, and say how long they have waited, so they stand there as they
 * did. But an agent that is being restarted at that moment cannot ask: its host would be passed
 * over. So a coordinator that goes and lives (the preferred voter is back, or this one is about to
 * end) keeps its queues until another claims the partition, and passes on what is in them: each
 * acquire as if its host had sent it here by mistake, which every release understands. It comes
 * within the time that the next coordinator waits for repeats (ORDER_WAIT_MS).
 *
 * About to end: a voter says with its heartbeats that it has no majority any more. So it is
 * replaced at once, while it is still there to promise and to vote, and its links need not break
 * for that.
 *
 * A request whose session has lapsed by then is not passed on. To the next one it would be as new
 * as if its host had just repeated it, and again to the one after that: a host that is gone would
 * keep its turn for as long as the coordinator changes now and then. Its turn would have waited for
 * it no longer.
 *
 * Nothing of it decides what is safe. An acquire may be repeated, late, or for nothing anyway; it
 * lets its host have the lock, nobody else. A voter that is killed hands nothing over.
 */
#include "proto/check.h"
#include "queues_private.h"

enum { KEPT_MS = 1000 }; /* so long a queue waits for a voter that claims its partition */

static void pass_on(struct quorum *quorum, const struct operation *operation,
                    const struct request *request, uint32_t voter)
{
    int64_t waited_ms = (step_now_ns(quorum) - request->arrived_ns) / MS_NS;
    struct message_acquire *acquire = &step_send(quorum, voter, MESSAGE_ACQUIRE)->as.acquire;
    acquire->agent = *agents_name(quorum, request->agent);
    acquire->epoch = request->epoch;
    acquire->request_id = request->id;
    step_lock_name(quorum, operation->name, &acquire->name);
    acquire->mode = request->mode;
    acquire->lock_delay_ms = request->lock_delay_ms;
    acquire->waited_ms = waited_ms < UINT32_MAX ? (uint32_t)waited_ms : UINT32_MAX;
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
        struct request *request = &quorum->queues->requests[at];
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
        voters_heartbeat_soon(quorum); /* whose echo says that it was heard */
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

/* Whether the voter that has it now knows which hosts wait for its names. */
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
        if (voters_has_to_hear(quorum, voter)) {
            return false;
        }
    }
    return true;
}

bool queues_resigned(const struct quorum *quorum)
{
    return !others_are_there(quorum) || queues_handed_over(quorum);
}
