/*
 * The operations and their rounds with the voters. See queues.h.
 *
 * If the register of this voter's own acceptor was accepted under the partition's ballot, and no
 * round is under way, then a majority has the register's value. If a majority has no value for a
 * name, a grant needs only the round that accepts it.
 *
 * A give-back in the queue and the next grant are accepted in one round. No decision depends on
 * remembering answered requests, see queues_plan.c.
 *
 * After a take-over, a name that had an owner is granted to nobody for a while (ORDER_WAIT_MS). In
 * that time the hosts that already waited for the name repeat their requests.
 */
#include "queues_private.h"

#include <string.h>

#include "proto/check.h"

static void operation_end(struct quorum *quorum, struct operation *operation)
{
    wait_for_nobody(quorum, operation);
    wait_until(quorum, operation, NEVER);
    operation_remove(quorum, operation);
}

/* ---- Rounds ---- */

/* Returns the voter that gets a round first. If the round grants the lock to a voter's host, that
 * voter is first. The agent of that host also writes the slot's row for the grant, so both rows can
 * share a commit. If the host's request came through a relay, the relay is first instead, because
 * the voter itself may be unreachable. */
static uint32_t first_asked(const struct quorum *quorum, const struct operation *operation)
{
    uint32_t voters = quorum->config->voter_count;
    for (uint32_t at = operation->first; at != NONE; at = quorum->queues->requests[at].next) {
        const struct queued_request *request = &quorum->queues->requests[at];
        uint32_t voter = agents_as_voter(quorum, request->agent);
        if (request->outcome == OUTCOME_GRANT && voter < voters) {
            return request->relay == ACTION_NO_RELAY ? voter : request->relay;
        }
    }
    return (quorum->config->self + 1 + operation->partition % (voters - 1)) % voters;
}

/*
 * Returns, as bits, the voters that a round leaves out at first. A round first goes to just a
 * majority. If no majority answers within SPARED_MS, the other voters get the round too. Otherwise
 * they get the chosen value later, together with other rounds. So each change costs the left-out
 * voters less, and nobody waits for them. Returns 0 if too few voters seem to be alive to leave any
 * out.
 */
static uint8_t spared(const struct quorum *quorum, const struct operation *operation)
{
    uint32_t voters = quorum->config->voter_count;
    uint32_t wanted = rules_majority(quorum) - 1;
    uint8_t able = voters_able(quorum);
    uint8_t mask = 0;
    if (voters == 1) {
        return 0;
    }
    uint32_t first = first_asked(quorum, operation);
    for (uint32_t i = 0; i < voters; i++) {
        uint32_t voter = (first + i) % voters;
        if (voter == quorum->config->self) {
            continue;
        }
        if (wanted > 0 && (able >> voter & 1) != 0) {
            wanted--;
        } else {
            mask |= (uint8_t)(1u << voter);
        }
    }
    return wanted == 0 ? mask : 0;
}

static struct message_accept *send_accept(struct quorum *quorum, const struct operation *operation,
                                          uint32_t voter)
{
    struct message_accept *accept = &agents_send_voter(quorum, voter, MESSAGE_ACCEPT)->as.accept;
    accept->order = operation->order;
    step_lock_name(quorum, operation->name, &accept->name);
    record_to_value(quorum, &operation->value, &accept->value);
    return accept;
}

/* Sends the round to the voters `to`, given as bits, and looks at the operation again after
 * again_ms. */
static void send_round(struct quorum *quorum, struct operation *operation, uint8_t to,
                       int64_t again_ms)
{
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if ((to >> voter & 1) == 0) {
            continue;
        }
        if (operation->state == OPERATION_READING) {
            struct message_read *read = &agents_send_voter(quorum, voter, MESSAGE_READ)->as.read;
            read->ballot = operation->order.ballot;
            step_lock_name(quorum, operation->name, &read->name);
        } else {
            (void)send_accept(quorum, operation, voter);
        }
    }
    wait_until(quorum, operation, step_now_ns(quorum) + again_ms * MS_NS);
}

/* Sends the chosen value to the voters that the round left out. */
static void log_spared(struct quorum *quorum, struct operation *operation)
{
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if ((operation->spared >> voter & 1) != 0) {
            send_accept(quorum, operation, voter)->chosen = true;
            step_send_later(quorum);
        }
    }
    operation->spared = 0;
}

static void start_read(struct quorum *quorum, struct operation *operation)
{
    operation_set_state(quorum, operation, OPERATION_READING);
    operation->order = (struct message_order){.ballot = ballots_of(quorum, operation->partition)};
    operation->mask = 0;
    operation->found = false;
    operation->lacking = false;
    memset(&operation->checkpoint, 0, sizeof(operation->checkpoint));
    operation->began_ns = step_now_ns(quorum);
    send_round(quorum, operation, UINT8_MAX, RESEND_MS);
}

static void forget_outcomes(struct quorum *quorum, struct operation *operation)
{
    for (uint32_t at = operation->first; at != NONE; at = quorum->queues->requests[at].next) {
        quorum->queues->requests[at].outcome = OUTCOME_NONE;
    }
}

/* Gives the plan's new grants the proposal's order as their version, and moves the plan's value
 * into the operation. */
static void take_value(struct quorum *quorum, struct operation *operation, struct plan *plan)
{
    for (uint32_t i = 0; i < plan->share_count; i++) {
        if (plan->shares[i].version.ballot == 0) {
            plan->shares[i].version = operation->order;
        }
    }
    if (plan->fresh && plan->value.mode == MESSAGE_MODE_EXCLUSIVE) {
        record_set_version(&plan->value, operation->order);
    }
    if (plan->fresh) { /* the new owner has not been sent a recall yet */
        operation->recall_ns = INT64_MIN;
        operation->recalls = 0;
        operation->way = ACTION_NO_RELAY;
        for (uint32_t at = operation->first; at != NONE; at = quorum->queues->requests[at].next) {
            struct queued_request *request = &quorum->queues->requests[at];
            if (request->outcome != OUTCOME_GRANT) {
                continue;
            }
            operation->way = request->relay;
            if (request->kind == MESSAGE_ACQUIRE && request->fresh &&
                request->version.ballot == 0) {
                request->version = operation->order;
            }
        }
    }
    record_drop(quorum, &operation->value);
    if (plan->value.mode == MESSAGE_MODE_SHARED) {
        plan->value.mode = MESSAGE_MODE_NONE;
        bool made = record_set_shares(quorum, &plan->value, plan->shares, plan->share_count);
        HF_CHECK(made);
    }
    operation->value = plan->value;
}

static void propose(struct quorum *quorum, struct operation *operation, struct plan *plan)
{
    if (!registers_have_room(quorum, operation->name)) {
        operation->full = 0;
        answer_all(quorum, operation, OUTCOME_REFUSED_FULL);
        /* the next look answers the remaining requests, or ends the operation */
        wait_until(quorum, operation, step_now_ns(quorum));
        return;
    }
    if (!records_have_room(quorum, plan->share_count)) {
        /* by the next look other rounds may have returned shares to the pool */
        forget_outcomes(quorum, operation);
        wait_until(quorum, operation, step_now_ns(quorum) + RESEND_MS * MS_NS);
        return;
    }
    if (!ballots_next_order(quorum, operation->partition, &operation->order)) {
        forget_outcomes(quorum, operation);
        return;
    }
    take_value(quorum, operation, plan);
    operation_set_state(quorum, operation, OPERATION_ACCEPTING);
    operation->mask = 0;
    operation->full = 0;
    operation->unused = false;
    operation->began_ns = step_now_ns(quorum);
    operation->spared = spared(quorum, operation);
    send_round(quorum, operation, (uint8_t)~operation->spared,
               operation->spared != 0 ? SPARED_MS : RESEND_MS);
}

/* For an operation without requests. Ends the operation, or keeps it for a while if it knows that
 * the name had an owner. */
static void rest(struct quorum *quorum, struct operation *operation)
{
    int64_t until_ns = wait_order_ns(quorum, operation);
    bool kept = operation->taken && step_now_ns(quorum) < until_ns &&
                2 * quorum->queues->operation_count < quorum->config->limits.requests;
    if (kept) {
        wait_until(quorum, operation, until_ns);
    } else {
        operation_end(quorum, operation);
    }
}

/*
 * Decides the requests for a name that has this value. `known` says that a majority has the value.
 * Otherwise the value was read, and has to be accepted again. A known value was the newest one when
 * it was accepted, but another voter may have taken the partition over since. So an answer that
 * depends on the value always goes through a round, which fails after a take-over. (The only voter
 * of a cell needs no round.)
 */
static void decide(struct quorum *quorum, struct operation *operation, const struct record *value,
                   bool known)
{
    struct plan plan;
    operation->taken = operation->taken || (!known && value->mode != MESSAGE_MODE_NONE);
    bool held = operation->taken && step_now_ns(quorum) < wait_order_ns(quorum, operation);
    plan_make(quorum, operation, value, held, &plan);
    if (plan.refuses) {
        answer_tries(quorum, operation);
    }
    bool proved = known && (!plan.notified || quorum->config->voter_count == 1);
    if (plan.changed || !proved) {
        propose(quorum, operation, &plan);
        return;
    }
    answer_decided(quorum, operation, value);
    if (operation->first == NONE) {
        rest(quorum, operation);
    } else if (plan.more) {
        wait_until(quorum, operation, step_now_ns(quorum));
    } else {
        HF_CHECK(plan.blocked != NULL);
        wait_for_turn(quorum, operation, value, &plan);
    }
}

static void decide_unused(struct quorum *quorum, struct operation *operation)
{
    struct record blank;
    record_blank(&blank, registers_floor(quorum, operation->partition));
    decide(quorum, operation, &blank, true);
}

void operation_look(struct quorum *quorum, struct operation *operation)
{
    HF_CHECK(operation->state == OPERATION_WAITING);
    enum partition_state state = ballots_state(quorum, operation->partition);
    wait_for_nobody(quorum, operation);
    wait_until(quorum, operation, NEVER);
    if (state == PARTITION_OTHERS) {
        handover_look(quorum, operation);
        if (operation->first != NONE) {
            return;
        }
    }
    if (operation->first == NONE) {
        rest(quorum, operation);
        return;
    }
    if (!ballots_is_open(quorum, operation->partition)) {
        return;
    }
    const struct record *own = registers_find(quorum, operation->name);
    if (own != NULL && record_accepted(own).ballot == ballots_of(quorum, operation->partition)) {
        decide(quorum, operation, own, true);
    } else if (own != NULL && ballots_is_complete(quorum, operation->partition)) {
        decide(quorum, operation, own, false);
    } else if (operation->unused || ballots_is_complete(quorum, operation->partition)) {
        decide_unused(quorum, operation);
    } else {
        start_read(quorum, operation);
    }
}

/* ---- Changes elsewhere ---- */

static void partition_changed(struct quorum *quorum, uint32_t p)
{
    struct queue_partition *partition = &quorum->queues->partitions[p];
    enum partition_state state = ballots_state(quorum, p);
    uint64_t ballot = ballots_of(quorum, p);
    bool open = ballots_is_open(quorum, p);
    uint64_t sees = ballot << 3 | (uint64_t)open << 2 | state;
    if (sees == partition->saw) {
        return;
    }
    partition->saw = sees;
    for (uint32_t at = partition->first; at != NONE; at = quorum->queues->operations[at].next) {
        struct operation *operation = &quorum->queues->operations[at];
        bool same = state == PARTITION_PREPARED && operation->order.ballot == ballot;
        if (operation->state != OPERATION_WAITING && same) {
            if (open) { /* the round continues under the new record of voters */
                wait_until(quorum, operation, step_now_ns(quorum));
            }
            continue;
        }
        operation_set_state(quorum, operation, OPERATION_WAITING);
        operation->unused = operation->unused && same;
        forget_outcomes(quorum, operation);
        wait_until(quorum, operation, step_now_ns(quorum));
    }
}

/* Drops the voters' answers to the round, because they were given under another record of
 * voters. */
static void round_anew(struct quorum *quorum, struct operation *operation)
{
    operation->mask = 0;
    operation->full = 0;
    operation->spared = 0;
    if (operation->state == OPERATION_READING) {
        record_drop(quorum, &operation->value);
        operation->found = false;
        operation->lacking = false;
        memset(&operation->checkpoint, 0, sizeof(operation->checkpoint));
    }
}

void queues_count_anew(struct quorum *quorum)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        uint32_t at = quorum->queues->partitions[p].first;
        for (; at != NONE; at = quorum->queues->operations[at].next) {
            if (quorum->queues->operations[at].state != OPERATION_WAITING) {
                round_anew(quorum, &quorum->queues->operations[at]);
            }
        }
    }
}

void queues_ballots_changed(struct quorum *quorum)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        partition_changed(quorum, p);
    }
}

bool queues_busy(const struct quorum *quorum, uint32_t partition)
{
    return quorum->queues->partitions[partition].busy > 0;
}

/* ---- Voters' answers ---- */

/* Returns the operation whose current round the answer belongs to; NULL if there is none. *voter is
 * the sender. */
static struct operation *round_of(struct quorum *quorum, const struct message *message,
                                  const struct message_name *name, enum operation_state state,
                                  struct message_order order, uint32_t *voter)
{
    if (!agents_voter(quorum, message, voter)) {
        return NULL;
    }
    uint32_t id = names_find(quorum->names, name->bytes, name->length);
    struct operation *operation = id == NAMES_NONE ? NULL : operation_find(quorum, id);
    if (operation == NULL || operation->state != state ||
        !message_order_equal(operation->order, order)) {
        return NULL;
    }
    return operation;
}

/* Keeps the answer's value if it is the newest so far. Returns false if there is no room for it. */
static bool note_value(struct quorum *quorum, struct operation *operation,
                       const struct message_read_value *answer)
{
    if (!answer->known ||
        (operation->found &&
         !message_order_before(record_accepted(&operation->value), answer->accepted))) {
        return true;
    }
    if (!record_from_value(quorum, &answer->value, &operation->value)) {
        return false;
    }
    record_set_accepted(&operation->value, answer->accepted);
    operation->found = true;
    return true;
}

/* Keeps the highest checkpoint, and notes whether a voter with that checkpoint lacks the name. */
static void note_checkpoint(struct operation *operation, const struct message_read_value *answer)
{
    if (message_order_before(operation->checkpoint.order, answer->checkpoint.order)) {
        operation->checkpoint = answer->checkpoint;
        operation->lacking = false;
    }
    if (message_order_equal(operation->checkpoint.order, answer->checkpoint.order)) {
        operation->lacking = operation->lacking || !answer->known;
    }
}

/* Decides from the newest value, after a majority was read. */
static void read_done(struct quorum *quorum, struct operation *operation)
{
    voters_round_done(quorum, step_now_ns(quorum) - operation->began_ns);
    operation_set_state(quorum, operation, OPERATION_WAITING);
    registers_raise_floor(quorum, operation->partition, operation->checkpoint.floor);
    bool deleted = operation->found && operation->lacking &&
                   !message_order_before(operation->checkpoint.order,
                                         record_accepted(&operation->value));
    operation->unused = !operation->found || deleted;
    if (operation->unused) {
        decide_unused(quorum, operation);
    } else {
        decide(quorum, operation, &operation->value, false);
    }
}

void queues_value(struct quorum *quorum, const struct message *message)
{
    const struct message_read_value *answer = &message->as.value;
    struct message_order order = {.ballot = answer->ballot};
    uint32_t voter = 0;
    struct operation *operation = round_of(quorum, message, &answer->name, OPERATION_READING, order,
                                           &voter);
    if (operation == NULL) {
        return;
    }
    if (answer->higher != 0) {
        ballots_preempted(quorum, operation->partition, answer->higher);
        return;
    }
    if (!note_value(quorum, operation, answer)) {
        /* Without room for the value nothing can be decided. Every host is refused, and asks
         * again. */
        operation_set_state(quorum, operation, OPERATION_WAITING);
        operation->full = 0;
        answer_all(quorum, operation, OUTCOME_REFUSED_FULL);
        wait_until(quorum, operation, step_now_ns(quorum) + RESEND_MS * MS_NS);
        return;
    }
    note_checkpoint(operation, answer);
    operation->mask |= (uint8_t)(1u << voter);
    if (rules_is_majority(quorum, operation->mask)) {
        read_done(quorum, operation);
    }
}

/* Notes that a voter's tables are full. If no majority is possible without the full voters, or if
 * this voter itself is full, the hosts are refused so that they need not wait. The value may still
 * be chosen, so the round goes on. */
static void accept_full(struct quorum *quorum, struct operation *operation, uint32_t voter)
{
    operation->full |= (uint8_t)(1u << voter);
    if (voter != quorum->config->self &&
        quorum->config->voter_count - rules_count(operation->full) >= rules_majority(quorum)) {
        return;
    }
    for (uint32_t at = operation->first; at != NONE; at = quorum->queues->requests[at].next) {
        if (quorum->queues->requests[at].outcome != OUTCOME_NONE) {
            quorum->queues->requests[at].outcome = OUTCOME_REFUSED_FULL;
        }
    }
    answer_decided(quorum, operation, &operation->value);
}

/* Returns whether this voter's own acceptor has accepted the proposed value. */
static bool own_has(const struct quorum *quorum, const struct operation *operation)
{
    const struct record *own = registers_find(quorum, operation->name);
    return own != NULL && message_order_equal(record_accepted(own), operation->order);
}

void queues_accepted(struct quorum *quorum, const struct message *message)
{
    const struct message_accepted *answer = &message->as.accepted;
    uint32_t voter = 0;
    struct operation *operation = round_of(quorum, message, &answer->name, OPERATION_ACCEPTING,
                                           answer->order, &voter);
    if (operation == NULL) {
        if (answer->higher == 0 && !answer->full) {
            voters_round_late(quorum, voter, answer->order);
        }
        return;
    }
    if (answer->higher != 0) {
        ballots_preempted(quorum, operation->partition, answer->higher);
        return;
    }
    if (answer->full) {
        accept_full(quorum, operation, voter);
        return;
    }
    operation->mask |= (uint8_t)(1u << voter);
    operation->full &= (uint8_t) ~(1u << voter);
    if (rules_is_majority(quorum, operation->mask) && own_has(quorum, operation)) {
        voters_round_done(quorum, step_now_ns(quorum) - operation->began_ns);
        operation_set_state(quorum, operation, OPERATION_WAITING);
        answer_decided(quorum, operation, &operation->value);
        log_spared(quorum, operation);
        record_drop(quorum, &operation->value);
        operation_look(quorum, operation);
    }
}

int64_t queues_tick(struct quorum *quorum)
{
    struct operation *operation = wait_first(quorum);
    for (; operation != NULL && wait_wake_ns(quorum, operation) <= step_now_ns(quorum);
         operation = wait_first(quorum)) {
        if (!step_has_room(quorum, OPERATION_ACTIONS)) {
            return step_now_ns(quorum);
        }
        if (operation->state == OPERATION_WAITING) {
            operation_look(quorum, operation);
            continue;
        }
        if (!rules_is_majority(quorum, operation->mask | operation->full)) {
            ballots_round_age(quorum, &(struct voters_round){operation->order, operation->began_ns,
                                                             operation->mask});
        }
        uint8_t to = operation->state == OPERATION_ACCEPTING && operation->spared != 0
                         ? operation->spared
                         : (uint8_t)~operation->mask;
        operation->spared = 0;
        send_round(quorum, operation, to, RESEND_MS);
    }
    return operation == NULL ? NEVER : wait_wake_ns(quorum, operation);
}

uint32_t queues_share_count(const struct quorum *quorum)
{
    uint32_t count = 0;
    uint32_t left = quorum->queues->operation_count;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS && left > 0; p++) {
        for (uint32_t at = quorum->queues->partitions[p].first; at != NONE;
             at = quorum->queues->operations[at].next) {
            count += record_share_count(&quorum->queues->operations[at].value);
            left--;
        }
    }
    return count;
}

void queues_check_invariants(const struct quorum *quorum)
{
    uint32_t operations = 0;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        const struct queue_partition *partition = &quorum->queues->partitions[p];
        uint32_t previous = NONE;
        uint32_t busy = 0;
        for (uint32_t at = partition->first; at != NONE; at = quorum->queues->operations[at].next) {
            const struct operation *operation = &quorum->queues->operations[at];
            HF_CHECK(operation->previous == previous &&
                     ++operations <= quorum->queues->operation_count);
            HF_CHECK(operation->partition == p);
            bool timed = wait_wake_ns(quorum, operation) != NEVER;
            HF_CHECK(operation->first != NONE || timed);
            HF_CHECK(operation->state == OPERATION_WAITING || timed);
            HF_CHECK((operation->first == NONE) == (operation->last == NONE));
            HF_CHECK(operation->state == OPERATION_WAITING ||
                     operation->order.ballot == ballots_of(quorum, p));
            busy += operation->state != OPERATION_WAITING;
            previous = at;
        }
        HF_CHECK(busy == partition->busy);
    }
    HF_CHECK(operations == quorum->queues->operation_count);
    wait_check_invariants(quorum);
    quota_check_invariants(quorum);
}
