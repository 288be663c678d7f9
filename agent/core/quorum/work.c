/*
 * Work: a lock name that hosts ask for. It has the queue of their requests and at most one round
 * with the voters at a time.
 *
 *   WAITING -> READING    the first touch under this ballot, while the partition is not complete:
 *                         a majority's newest value
 *           -> ACCEPTING  the next value, decided from the last by as many requests as can be
 *           -> WAITING    chosen: those requests are answered, the next ones decided
 *
 * A value that was read from others is accepted again under the own ballot before anybody is
 * answered by it; that nobody has a value needs no accept to grant it. A round is over only when
 * the own acceptor has its value too. So what a majority has is the own acceptor's register, if it
 * was accepted under the partition's ballot and no round is on the way.
 *
 * If a give-back is in the queue, its release and the next grant are one accept. Memory of answered
 * requests is not needed, see plan.c.
 *
 * After a take-over, a name that somebody had is granted to nobody until those who waited for it
 * before have had the time to say so (ORDER_WAIT_MS).
 */
#include "work.h"

#include <string.h>

#include "proto/check.h"

uint32_t work_index(const struct quorum *quorum, const struct work *work)
{
    return (uint32_t)(work - quorum->works);
}

static uint32_t *chain_of(const struct quorum *quorum, uint32_t name)
{
    uint32_t hash = name * UINT32_C(2654435761);
    return &quorum->work_heads[(hash ^ hash >> 16) & quorum->work_head_mask];
}

static struct work *work_find(const struct quorum *quorum, uint32_t name)
{
    uint32_t at = *chain_of(quorum, name);
    while (at != NONE && quorum->works[at].name != name) {
        at = quorum->works[at].chain;
    }
    return at == NONE ? NULL : &quorum->works[at];
}

static struct partition *partition_of(struct quorum *quorum, const struct work *work)
{
    return &quorum->partitions[work->partition];
}

static void set_state(struct quorum *quorum, struct work *work, enum work_state state)
{
    struct partition *partition = partition_of(quorum, work);
    partition->busy -= work->state != WORK_WAITING;
    work->state = (uint8_t)state;
    partition->busy += work->state != WORK_WAITING;
}

static void link_into(struct quorum *quorum, struct work *work)
{
    uint32_t at = work_index(quorum, work);
    struct partition *partition = partition_of(quorum, work);
    uint32_t *head = chain_of(quorum, work->name);
    work->chain = *head;
    *head = at;
    work->next = partition->works;
    if (work->next != NONE) {
        quorum->works[work->next].previous = at;
    }
    partition->works = at;
}

struct work *work_for(struct quorum *quorum, uint32_t name)
{
    struct work *work = work_find(quorum, name);
    uint32_t at = quorum->work_free;
    if (work != NULL) {
        names_drop(quorum->names, name);
        return work;
    }
    if (at != NONE) {
        quorum->work_free = quorum->works[at].chain;
    } else if (quorum->work_used < WORKS_PER_REQUEST * quorum->config->limits.requests) {
        at = ++quorum->work_used;
    } else {
        names_drop(quorum->names, name);
        return NULL;
    }
    size_t length = 0;
    const uint8_t *bytes = names_bytes(quorum->names, name, &length);
    work = &quorum->works[at];
    memset(work, 0, sizeof(*work));
    work->name = name;
    work->partition = (uint8_t)names_partition(bytes, length);
    work->state = WORK_WAITING;
    work->waits_for = AGENTS_NONE;
    work->recall_ns = INT64_MIN;
    work->way = ACTION_NO_RELAY;
    link_into(quorum, work);
    quorum->work_count++;
    return work;
}

static void work_end(struct quorum *quorum, struct work *work)
{
    HF_CHECK(work->first == NONE && work->state == WORK_WAITING);
    uint32_t at = work_index(quorum, work);
    uint32_t *link = chain_of(quorum, work->name);
    while (*link != at) {
        link = &quorum->works[*link].chain;
    }
    *link = work->chain;
    if (work->previous != NONE) {
        quorum->works[work->previous].next = work->next;
    } else {
        partition_of(quorum, work)->works = work->next;
    }
    if (work->next != NONE) {
        quorum->works[work->next].previous = work->previous;
    }
    wait_for_nobody(quorum, work);
    wait_until(quorum, work, NEVER);
    record_drop(quorum, &work->value);
    names_drop(quorum->names, work->name);
    work->name = NAMES_NONE;
    work->chain = quorum->work_free;
    quorum->work_free = at;
    quorum->work_count--;
}

bool quorum_decides_only(const struct quorum *quorum, const struct message_name *name)
{
    uint32_t id = names_find(quorum->names, name->bytes, name->length);
    return quorum->work_count == 0 || (quorum->work_count == 1 && work_find(quorum, id) != NULL);
}

/* ---- Rounds ---- */

/* Who is asked first: a host that is granted the lock has a row of its own to write with it. If it
 * cannot be reached: the voter through which it asks. */
static uint32_t first_asked(const struct quorum *quorum, const struct work *work)
{
    uint32_t voters = quorum->config->voter_count;
    for (uint32_t at = work->first; at != NONE; at = quorum->requests[at].next) {
        const struct request *request = &quorum->requests[at];
        if (request->outcome == OUTCOME_GRANT && request->agent < voters) {
            return request->relay == ACTION_NO_RELAY ? request->agent : request->relay;
        }
    }
    return (quorum->config->self + 1 + work->partition % (voters - 1)) % voters;
}

/*
 * The voters that a round can do without, by bit: a majority is asked at once. The others are told
 * what was chosen, later and many rounds together; they are asked too if it takes long. So a change
 * costs less of them, and nobody waits for them. 0: fewer than a majority seem to be there.
 */
static uint8_t spared(const struct quorum *quorum, const struct work *work)
{
    uint32_t voters = quorum->config->voter_count;
    uint32_t wanted = rules_majority(quorum) - 1;
    uint8_t able = voters_able(quorum);
    uint8_t mask = 0;
    if (voters == 1) {
        return 0;
    }
    uint32_t first = first_asked(quorum, work);
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

static struct message_accept *send_accept(struct quorum *quorum, const struct work *work,
                                          uint32_t voter)
{
    struct message_accept *accept = &step_send(quorum, voter, MESSAGE_ACCEPT)->as.accept;
    accept->order = work->order;
    step_lock_name(quorum, work->name, &accept->name);
    record_to_value(quorum, &work->value, &accept->value);
    return accept;
}

/* To those voters, by bit. The round is looked at again after that time. */
static void send_round(struct quorum *quorum, struct work *work, uint8_t to, int64_t again_ms)
{
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if ((to >> voter & 1) == 0) {
            continue;
        }
        if (work->state == WORK_READING) {
            struct message_read *read = &step_send(quorum, voter, MESSAGE_READ)->as.read;
            read->ballot = work->order.ballot;
            step_lock_name(quorum, work->name, &read->name);
        } else {
            (void)send_accept(quorum, work, voter);
        }
    }
    wait_until(quorum, work, step_now_ns(quorum) + again_ms * MS_NS);
}

/* It is chosen: to those that were not asked. */
static void tell_spared(struct quorum *quorum, struct work *work)
{
    for (uint32_t voter = 0; voter < quorum->config->voter_count; voter++) {
        if ((work->spared >> voter & 1) != 0) {
            send_accept(quorum, work, voter)->chosen = true;
            step_send_later(quorum);
        }
    }
    work->spared = 0;
}

static void start_read(struct quorum *quorum, struct work *work)
{
    set_state(quorum, work, WORK_READING);
    work->order = (struct message_order){.ballot = ballots_of(quorum, work->partition)};
    work->mask = 0;
    work->found = false;
    work->lacking = false;
    memset(&work->checkpoint, 0, sizeof(work->checkpoint));
    work->began_ns = step_now_ns(quorum);
    send_round(quorum, work, UINT8_MAX, RESEND_MS);
}

static void forget_outcomes(struct quorum *quorum, struct work *work)
{
    for (uint32_t at = work->first; at != NONE; at = quorum->requests[at].next) {
        quorum->requests[at].outcome = OUTCOME_NONE;
    }
}

/* Names what is new in the plan by the order that it is proposed with, and makes it the work's. */
static void take_value(struct quorum *quorum, struct work *work, struct plan *plan)
{
    for (uint32_t i = 0; i < plan->share_count; i++) {
        if (plan->shares[i].version.ballot == 0) {
            plan->shares[i].version = work->order;
        }
    }
    if (plan->fresh && plan->value.mode == MESSAGE_MODE_EXCLUSIVE) {
        record_set_version(&plan->value, work->order);
    }
    if (plan->fresh) { /* whoever has it now has not been asked for it */
        work->recall_ns = INT64_MIN;
        work->recalls = 0;
        work->way = ACTION_NO_RELAY;
        for (uint32_t at = work->first; at != NONE; at = quorum->requests[at].next) {
            struct request *request = &quorum->requests[at];
            if (request->outcome != OUTCOME_GRANT) {
                continue;
            }
            work->way = request->relay;
            if (request->kind == MESSAGE_ACQUIRE && request->fresh &&
                request->version.ballot == 0) {
                request->version = work->order;
            }
        }
    }
    record_drop(quorum, &work->value);
    if (plan->value.mode == MESSAGE_MODE_SHARED) {
        plan->value.mode = MESSAGE_MODE_NONE;
        bool made = record_set_shares(quorum, &plan->value, plan->shares, plan->share_count);
        HF_CHECK(made);
    }
    work->value = plan->value;
}

static void propose(struct quorum *quorum, struct work *work, struct plan *plan)
{
    if (!registers_have_room(quorum, work->name)) {
        answer_all(quorum, work, OUTCOME_REFUSED_FULL);
        wait_until(quorum, work, step_now_ns(quorum)); /* the rest, or its end */
        return;
    }
    if (!records_have_room(quorum, plan->share_count)) {
        forget_outcomes(quorum, work); /* until rounds that are on the way have made room */
        wait_until(quorum, work, step_now_ns(quorum) + RESEND_MS * MS_NS);
        return;
    }
    if (!ballots_next_order(quorum, work->partition, &work->order)) {
        forget_outcomes(quorum, work);
        return;
    }
    take_value(quorum, work, plan);
    set_state(quorum, work, WORK_ACCEPTING);
    work->mask = 0;
    work->full = 0;
    work->unused = false;
    work->began_ns = step_now_ns(quorum);
    work->spared = spared(quorum, work);
    send_round(quorum, work, (uint8_t)~work->spared, work->spared != 0 ? SPARED_MS : RESEND_MS);
}

/* Nobody asks any more. It is kept a while if it knows that the name was taken. */
static void rest(struct quorum *quorum, struct work *work)
{
    int64_t until_ns = wait_order_ns(quorum, work);
    bool kept = work->taken && step_now_ns(quorum) < until_ns &&
                2 * quorum->work_count < quorum->config->limits.requests;
    if (kept) {
        wait_until(quorum, work, until_ns);
    } else {
        work_end(quorum, work);
    }
}

/*
 * From a value that a majority has (known), or that was read and has to be accepted again. A known
 * one was the last when it was accepted. Another voter may have taken the partition over since:
 * whatever is told to a host because of the value goes through a round, which tells.
 */
static void decide(struct quorum *quorum, struct work *work, const struct record *value, bool known)
{
    struct plan plan;
    work->taken = work->taken || (!known && value->mode != MESSAGE_MODE_NONE);
    bool held = work->taken && step_now_ns(quorum) < wait_order_ns(quorum, work);
    plan_make(quorum, work, value, held, &plan);
    bool proved = known && (!plan.told || quorum->config->voter_count == 1);
    if (plan.changed || !proved) {
        propose(quorum, work, &plan);
        return;
    }
    answer_decided(quorum, work, value);
    if (work->first == NONE) {
        rest(quorum, work);
    } else if (plan.more) {
        wait_until(quorum, work, step_now_ns(quorum));
    } else {
        HF_CHECK(plan.blocked != NULL);
        wait_for_turn(quorum, work, value, &plan);
    }
}

static void decide_unused(struct quorum *quorum, struct work *work)
{
    struct record blank;
    record_blank(&blank, registers_floor(quorum, work->partition));
    decide(quorum, work, &blank, true);
}

void work_look(struct quorum *quorum, struct work *work)
{
    HF_CHECK(work->state == WORK_WAITING);
    enum partition_state state = ballots_state(quorum, work->partition);
    wait_for_nobody(quorum, work);
    wait_until(quorum, work, NEVER);
    if (state == PARTITION_OTHERS) {
        handover_look(quorum, work);
        if (work->first != NONE) {
            return;
        }
    }
    if (work->first == NONE) {
        rest(quorum, work);
        return;
    }
    if (state != PARTITION_PREPARED) {
        return;
    }
    const struct record *own = registers_find(quorum, work->name);
    if (own != NULL && record_accepted(own).ballot == ballots_of(quorum, work->partition)) {
        decide(quorum, work, own, true);
    } else if (own != NULL && ballots_is_complete(quorum, work->partition)) {
        decide(quorum, work, own, false);
    } else if (work->unused || ballots_is_complete(quorum, work->partition)) {
        decide_unused(quorum, work);
    } else {
        start_read(quorum, work);
    }
}

/* ---- What changes from outside ---- */

void work_partition_changed(struct quorum *quorum, uint32_t p)
{
    struct partition *partition = &quorum->partitions[p];
    enum partition_state state = ballots_state(quorum, p);
    uint64_t ballot = ballots_of(quorum, p);
    uint64_t sees = ballot << 2 | state;
    if (sees == partition->works_saw) {
        return;
    }
    partition->works_saw = sees;
    for (uint32_t at = partition->works; at != NONE; at = quorum->works[at].next) {
        struct work *work = &quorum->works[at];
        bool same = state == PARTITION_PREPARED && work->order.ballot == ballot;
        if (work->state != WORK_WAITING && same) {
            continue;
        }
        set_state(quorum, work, WORK_WAITING);
        work->unused = work->unused && same;
        forget_outcomes(quorum, work);
        wait_until(quorum, work, step_now_ns(quorum));
    }
}

void work_ballots_changed(struct quorum *quorum)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        work_partition_changed(quorum, p);
    }
}

bool work_busy(const struct quorum *quorum, uint32_t partition)
{
    return quorum->partitions[partition].busy > 0;
}

/* ---- Answers of voters ---- */

/* The work and the voter that an answer belongs to, if it is of the round on the way. */
static struct work *round_of(struct quorum *quorum, const struct message *message,
                             const struct message_name *name, enum work_state state,
                             struct message_order order, uint32_t *voter)
{
    if (!agents_voter(quorum, message, voter)) {
        return NULL;
    }
    uint32_t id = names_find(quorum->names, name->bytes, name->length);
    struct work *work = id == NAMES_NONE ? NULL : work_find(quorum, id);
    if (work == NULL || work->state != state || !message_order_equal(work->order, order)) {
        return NULL;
    }
    return work;
}

/* Keeps the newest value. false: no room for it. */
static bool note_value(struct quorum *quorum, struct work *work,
                       const struct message_read_value *answer)
{
    if (!answer->known ||
        (work->found && !message_order_before(record_accepted(&work->value), answer->accepted))) {
        return true;
    }
    if (!record_from_value(quorum, &answer->value, &work->value)) {
        return false;
    }
    record_set_accepted(&work->value, answer->accepted);
    work->found = true;
    return true;
}

/* Keeps the highest checkpoint, and whether a voter that has it has not got the name. */
static void note_checkpoint(struct work *work, const struct message_read_value *answer)
{
    if (message_order_before(work->checkpoint.order, answer->checkpoint.order)) {
        work->checkpoint = answer->checkpoint;
        work->lacking = false;
    }
    if (message_order_equal(work->checkpoint.order, answer->checkpoint.order)) {
        work->lacking = work->lacking || !answer->known;
    }
}

/* A majority was read: what it says. */
static void read_done(struct quorum *quorum, struct work *work)
{
    voters_round_done(quorum, step_now_ns(quorum) - work->began_ns);
    set_state(quorum, work, WORK_WAITING);
    registers_raise_floor(quorum, work->partition, work->checkpoint.floor);
    bool deleted = work->found && work->lacking &&
                   !message_order_before(work->checkpoint.order, record_accepted(&work->value));
    work->unused = !work->found || deleted;
    if (work->unused) {
        decide_unused(quorum, work);
    } else {
        decide(quorum, work, &work->value, false);
    }
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
        ballots_beaten(quorum, work->partition, answer->higher);
        return;
    }
    if (!note_value(quorum, work, answer)) {
        /* No room for it: nothing can be decided. Everybody is told, and asks again. */
        set_state(quorum, work, WORK_WAITING);
        answer_all(quorum, work, OUTCOME_REFUSED_FULL);
        wait_until(quorum, work, step_now_ns(quorum) + RESEND_MS * MS_NS);
        return;
    }
    note_checkpoint(work, answer);
    work->mask |= (uint8_t)(1u << voter);
    if (rules_is_majority(quorum, work->mask)) {
        read_done(quorum, work);
    }
}

/* That voter's tables are full. If it cannot be chosen without them, nobody waits for it any more;
 * but it may yet be, so the round goes on. */
static void accept_full(struct quorum *quorum, struct work *work, uint32_t voter)
{
    work->full |= (uint8_t)(1u << voter);
    if (voter != quorum->config->self &&
        quorum->config->voter_count - rules_count(work->full) >= rules_majority(quorum)) {
        return;
    }
    for (uint32_t at = work->first; at != NONE; at = quorum->requests[at].next) {
        if (quorum->requests[at].outcome != OUTCOME_NONE) {
            quorum->requests[at].outcome = OUTCOME_REFUSED_FULL;
        }
    }
    answer_decided(quorum, work, &work->value);
}

/* Whether the own acceptor has what is proposed. */
static bool own_has(const struct quorum *quorum, const struct work *work)
{
    const struct record *own = registers_find(quorum, work->name);
    return own != NULL && message_order_equal(record_accepted(own), work->order);
}

void work_accepted(struct quorum *quorum, const struct message *message)
{
    const struct message_accepted *answer = &message->as.accepted;
    uint32_t voter = 0;
    struct work *work = round_of(quorum, message, &answer->name, WORK_ACCEPTING, answer->order,
                                 &voter);
    if (work == NULL) {
        if (answer->higher == 0 && !answer->full) {
            voters_round_late(quorum, voter, answer->order);
        }
        return;
    }
    if (answer->higher != 0) {
        ballots_beaten(quorum, work->partition, answer->higher);
        return;
    }
    if (answer->full) {
        accept_full(quorum, work, voter);
        return;
    }
    work->mask |= (uint8_t)(1u << voter);
    work->full &= (uint8_t) ~(1u << voter);
    if (rules_is_majority(quorum, work->mask) && own_has(quorum, work)) {
        voters_round_done(quorum, step_now_ns(quorum) - work->began_ns);
        set_state(quorum, work, WORK_WAITING);
        answer_decided(quorum, work, &work->value);
        tell_spared(quorum, work);
        record_drop(quorum, &work->value);
        work_look(quorum, work);
    }
}

int64_t work_tick(struct quorum *quorum)
{
    struct work *work = wait_first(quorum);
    for (; work != NULL && wait_wake_ns(quorum, work) <= step_now_ns(quorum);
         work = wait_first(quorum)) {
        if (!step_has_room(quorum, WORK_ACTIONS)) {
            return step_now_ns(quorum);
        }
        if (work->state == WORK_WAITING) {
            work_look(quorum, work);
            continue;
        }
        if (!rules_is_majority(quorum, work->mask | work->full)) {
            ballots_round_age(quorum,
                              &(struct voters_round){work->order, work->began_ns, work->mask});
        }
        uint8_t to = work->state == WORK_ACCEPTING && work->spared != 0 ? work->spared
                                                                        : (uint8_t)~work->mask;
        work->spared = 0;
        send_round(quorum, work, to, RESEND_MS);
    }
    return work == NULL ? NEVER : wait_wake_ns(quorum, work);
}

uint32_t work_share_count(const struct quorum *quorum)
{
    uint32_t count = 0;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        for (uint32_t at = quorum->partitions[p].works; at != NONE; at = quorum->works[at].next) {
            count += record_share_count(&quorum->works[at].value);
        }
    }
    return count;
}

void work_check_invariants(const struct quorum *quorum)
{
    uint32_t works = 0;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        const struct partition *partition = &quorum->partitions[p];
        uint32_t previous = NONE;
        uint32_t busy = 0;
        for (uint32_t at = partition->works; at != NONE; at = quorum->works[at].next) {
            const struct work *work = &quorum->works[at];
            HF_CHECK(work->previous == previous && ++works <= quorum->work_count);
            HF_CHECK(work->partition == p);
            bool timed = wait_wake_ns(quorum, work) != NEVER;
            HF_CHECK(work->first != NONE || timed);
            HF_CHECK(work->state == WORK_WAITING || timed);
            HF_CHECK((work->first == NONE) == (work->last == NONE));
            HF_CHECK(work->state == WORK_WAITING || work->order.ballot == ballots_of(quorum, p));
            busy += work->state != WORK_WAITING;
            previous = at;
        }
        HF_CHECK(busy == partition->busy);
    }
    HF_CHECK(works == quorum->work_count);
    wait_check_invariants(quorum);
    quota_check_invariants(quorum);
}
