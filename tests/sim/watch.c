/*
 * Invariants of messages and disks. They are checked from outside, because the simulator sees both.
 *
 *   told       When a voter reported a promise or an accepted value (PROMISE, ACCEPTED, and the
 *              same of a record of voters), its disk had that value. At every later start the disk
 *              still has it, unless the store was lost or replaced.
 *   its commit A vote's header names a commit that includes everything on which the vote relies.
 *              By the commit's number the other voters recognise a voter that comes back with an
 *              older copy of its disk.
 *   chosen     When an agent sends a grant, an amendment or an acknowledged return, a majority has
 *              the value durably.
 *   held       When a hold begins, a majority has its grant on disk.
 *   one value  All acceptors that accept a proposal of one order accept the same value.
 *   same again A request that was answered with a grant never gets another grant while a majority
 *              has the first one.
 *   old store  If other voters know that a voter's store is wrong, that voter sends no votes.
 *   lease      When a majority has marked a session, each deadline of the session that any process
 *              knows has passed by its host's clock.
 *
 * disk.c checks that no row goes back to an older value.
 */
#include <string.h>

#include "proto/check.h"
#include "sim.h"

enum { PROPOSALS = 1024, ANSWERS = 1024 };

struct proposal {
    uint32_t lock;
    struct message_order order;
    uint64_t digest;
};

struct answer {
    uint32_t agent;
    uint32_t epoch;
    uint64_t request_id;
    struct message_order version;
};

struct promised {
    uint32_t epoch;
    uint32_t boot;
    int64_t deadline_ns;
};

static struct {
    /* for each voter */
    uint64_t told_promise[AGENTS][MESSAGE_PARTITIONS];
    struct message_order told_accepted[AGENTS][LOCKS];
    struct message_order durable[AGENTS][LOCKS]; /* the highest order that was
                                                              * durable so far */
    /* the commits that wrote the voters' promises and registers */
    uint64_t promise_commit[AGENTS][MESSAGE_PARTITIONS];
    uint64_t register_commit[AGENTS][LOCKS];
    /* the number that each voter used when it last marked a session of each agent */
    uint32_t marked_under[AGENTS][AGENTS];
    bool forgot[AGENTS]; /* the voter's disk was once lost, or replaced by an old
                                      * copy */
    /* rings of the last proposals and answers */
    struct proposal proposals[PROPOSALS];
    uint32_t proposal_count;
    struct answer answers[ANSWERS];
    uint32_t answer_count;
    /* each agent's last deadline, with its epoch */
    struct promised promised[AGENTS];
    /* the epoch of the survivor's last session before the recovery; 0: its store was never used */
    uint32_t recovered_epoch[AGENTS];
} seen;

void watch_reset(void)
{
    memset(&seen, 0, sizeof(seen));
}

/* Returns whether the agents `yes` are a majority of the voters of a number in use, in that
 * generation of the cell. */
static bool is_majority_of(uint32_t generation, const bool *yes)
{
    const struct message_voters *records[2];
    bool is = false;
    for (uint32_t i = voters_in_use_of(generation, records); i > 0; i--) {
        is = is || voters_are_majority(records[i - 1], yes);
    }
    return is;
}

static bool is_majority(const bool *yes)
{
    return is_majority_of(voters_newest()->recoveries, yes);
}

/* ---- promises and votes ---- */

uint32_t partition_of(uint32_t lock)
{
    char name[16];
    lock_name_of(lock, name, sizeof(name));
    return names_partition(name, strlen(name));
}

/* Returns whether the disk has the value that its voter accepted at that order, or a newer value,
 * or whether the name was deleted since. */
static bool has_accepted(const struct disk *disk, uint32_t lock, struct message_order order)
{
    const struct disk_register *row = &disk->registers[lock];
    return (row->used && !message_order_before(row->reg.accepted, order)) ||
           !message_order_before(disk->checkpoints[partition_of(lock)].order, order);
}

static void check_told(const struct sim_agent *agent)
{
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (agent->disk.promised[p] < seen.told_promise[agent->index][p]) {
            sim_fail("voter %u forgot its promise of %llx in partition %u", agent->index,
                     (unsigned long long)seen.told_promise[agent->index][p], p);
        }
    }
    for (uint32_t lock = 0; lock < world.lock_count; lock++) {
        struct message_order order = seen.told_accepted[agent->index][lock];
        if (order.ballot != 0 && !has_accepted(&agent->disk, lock, order)) {
            sim_fail("voter %u forgot what it accepted of lock %u at %llx.%llu", agent->index, lock,
                     (unsigned long long)order.ballot, (unsigned long long)order.sequence);
        }
    }
}

void watch_starts(const struct sim_agent *agent)
{
    if (agent->store == STORE_GOOD) {
        check_told(agent);
    }
}

void watch_forgot(const struct sim_agent *agent)
{
    seen.forgot[agent->index] = voters_is_used(agent);
    seen.promised[agent->index].epoch = 0;
    watch_retired(agent);
}

void watch_retired(const struct sim_agent *agent)
{
    memset(seen.told_promise[agent->index], 0, sizeof(seen.told_promise[agent->index]));
    memset(seen.told_accepted[agent->index], 0, sizeof(seen.told_accepted[agent->index]));
    memset(seen.promise_commit[agent->index], 0, sizeof(seen.promise_commit[agent->index]));
    memset(seen.register_commit[agent->index], 0, sizeof(seen.register_commit[agent->index]));
    memset(seen.marked_under[agent->index], 0, sizeof(seen.marked_under[agent->index]));
}

void watch_recovered(const struct sim_agent *agent)
{
    watch_forgot(agent);
    seen.forgot[agent->index] = false;
    seen.recovered_epoch[agent->index] = agent->disk.epoch;
    for (uint32_t i = 0; i < AGENTS; i++) {
        seen.marked_under[agent->index][i] = agent->disk.voters.number;
    }
}

static void check_commit(const struct sim_agent *from, const struct message *message,
                         uint64_t commit)
{
    if (message->commit < commit) {
        sim_fail("voter %u tells commit %llu with what it has only since commit %llu (kind %d)",
                 from->index, (unsigned long long)message->commit, (unsigned long long)commit,
                 message->kind);
    }
}

static void sent_promise(const struct sim_agent *from, const struct message *message)
{
    const struct message_promise *promise = &message->as.promise;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        if (!message_partition_has(&promise->promised, p)) {
            continue;
        }
        if (from->disk.promised[p] < promise->ballot) {
            sim_fail("voter %u promises %llx in partition %u before that is durable", from->index,
                     (unsigned long long)promise->ballot, p);
        }
        check_commit(from, message, seen.promise_commit[from->index][p]);
        uint64_t *told = &seen.told_promise[from->index][p];
        *told = promise->ballot > *told ? promise->ballot : *told;
    }
}

static void sent_accepted(const struct sim_agent *from, const struct message *message)
{
    const struct message_accepted *accepted = &message->as.accepted;
    uint32_t lock = disk_lock_of(&accepted->name);
    if (accepted->higher != 0 || accepted->full) {
        return;
    }
    if (!has_accepted(&from->disk, lock, accepted->order)) {
        sim_fail("voter %u tells that it accepted lock %u at %llx.%llu before that is durable",
                 from->index, lock, (unsigned long long)accepted->order.ballot,
                 (unsigned long long)accepted->order.sequence);
    }
    check_commit(from, message, seen.register_commit[from->index][lock]);
    struct message_order *told = &seen.told_accepted[from->index][lock];
    *told = message_order_before(*told, accepted->order) ? accepted->order : *told;
}

/* Makes the check "told" for the register that holds the next record of voters. */
static void sent_change(const struct sim_agent *from, const struct message *message)
{
    const struct message_change *answer = &message->as.change;
    const struct quorum_change *row = &from->disk.change;
    bool accepted = message->kind == MESSAGE_CHANGE_ACCEPTED;
    uint64_t has = accepted ? row->accepted : row->promised;
    bool decided = voters_of(from)->number >= answer->number;
    if (answer->higher == 0 && !decided &&
        (row->number != answer->number || has < answer->ballot)) {
        sim_fail("voter %u tells that it %s the record of number %u at %llx before that is durable",
                 from->index, accepted ? "accepted" : "promised", answer->number,
                 (unsigned long long)answer->ballot);
    }
}

/* ---- chosen values ---- */

static void check_chosen(const struct sim_agent *from, const struct message_name *name,
                         struct message_order order)
{
    uint32_t lock = disk_lock_of(name);
    bool has[AGENTS] = {false};
    uint32_t count = 0;
    for (uint32_t voter = 0; voter < world.agent_count; voter++) {
        has[voter] = !message_order_before(seen.durable[voter][lock], order);
        count += has[voter];
    }
    /* If the newest record of voters is not complete, a majority of the previous record counts as
     * well: the value may have been chosen before the sender learned of the newer record. The
     * records are those of the sender's generation of the cell: a voter that a recovery left behind
     * may still report values that its old majority has chosen. */
    if (!is_majority_of(voters_of(from)->recoveries, has)) {
        sim_fail("voter %u answers with what %u agents have durably: lock %u, %llx.%llu",
                 from->index, count, lock, (unsigned long long)order.ballot,
                 (unsigned long long)order.sequence);
    }
}

/* Returns whether the disks of a majority still have a grant of the answer's agent with the
 * answer's version. */
static bool is_in_force(const struct answer *answer, uint32_t lock)
{
    const struct message_agent *agent = &world.agents[answer->agent].name;
    bool count[AGENTS] = {false};
    for (uint32_t voter = 0; voter < world.agent_count; voter++) {
        const struct disk_register *row = &world.agents[voter].disk.registers[lock];
        const struct message_value *value = &row->reg.value;
        bool has = row->used && value->mode == MESSAGE_MODE_EXCLUSIVE &&
                   memcmp(&value->owner, agent, sizeof(*agent)) == 0 &&
                   message_order_equal(value->version, answer->version);
        for (uint32_t i = 0; row->used && i < value->share_count; i++) {
            const struct message_share *share = &value->shares[i];
            has = has || (memcmp(&share->agent, agent, sizeof(*agent)) == 0 &&
                          message_order_equal(share->version, answer->version));
        }
        count[voter] = has;
    }
    return is_majority(count);
}

static void sent_grant(const struct sim_agent *from, const struct message *message)
{
    const struct message_grant *grant = &message->as.grant;
    check_chosen(from, &grant->name, grant->version);
    struct answer now = {.agent = agent_of_name(&grant->agent),
                         .epoch = grant->epoch,
                         .request_id = grant->request_id,
                         .version = grant->version};
    for (uint32_t i = 0; i < ANSWERS; i++) {
        struct answer *old = &seen.answers[i];
        if (old->request_id != 0 && old->agent == now.agent && old->epoch == now.epoch &&
            old->request_id == now.request_id) {
            if (!message_order_equal(old->version, now.version) &&
                is_in_force(old, disk_lock_of(&grant->name))) {
                sim_fail("voter %u answers request %llx of host %u with another grant", from->index,
                         (unsigned long long)now.request_id, now.agent);
            }
            *old = now;
            return;
        }
    }
    seen.answers[seen.answer_count++ % ANSWERS] = now;
}

void watch_held(const struct sim_agent *agent, uint32_t lock, uint32_t epoch)
{
    bool yes[AGENTS] = {false};
    uint32_t count = 0;
    for (uint32_t voter = 0; voter < world.agent_count; voter++) {
        const struct disk_register *row = &world.agents[voter].disk.registers[lock];
        const struct message_value *value = &row->reg.value;
        bool has = row->used && memcmp(&value->owner, &agent->name, sizeof(agent->name)) == 0;
        for (uint32_t i = 0; row->used && i < value->share_count; i++) {
            has = has || memcmp(&value->shares[i].agent, &agent->name, sizeof(agent->name)) == 0;
        }
        count += has;
        yes[voter] = has || seen.forgot[voter];
    }
    /* A host that knows nothing of a recovery keeps its session until the lease ends. So does the
     * survivor's host: the operator stops its agent, but not its processes. */
    bool knows = voters_of(agent)->recoveries == voters_newest()->recoveries &&
                 epoch > seen.recovered_epoch[agent->index];
    if (knows && !is_majority(yes)) {
        sim_fail("lock %u is held on host %u, but %u of %u voters have it as its", lock,
                 agent->index, count, world.voters);
    }
}

/* ---- one value for each order ---- */

static uint64_t mix(uint64_t digest, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) {
        digest = (digest ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return digest;
}

static uint64_t digest_of(const struct message_value *value)
{
    const uint64_t numbers[] = {
        value->version.ballot, value->version.sequence, value->token_first, value->token_last,
        value->epoch,          value->lock_delay_ms,    value->mode,        value->share_count};
    uint64_t digest = mix(UINT64_C(0xcbf29ce484222325), numbers, sizeof(numbers));
    digest = mix(digest, value->owner.text, sizeof(value->owner.text));
    uint64_t shares = 0; /* a sum of hashes, because shares may come in any order */
    for (uint32_t i = 0; i < value->share_count; i++) {
        const struct message_share *share = &value->shares[i];
        const uint64_t parts[] = {share->version.ballot, share->version.sequence, share->epoch};
        uint64_t one = mix(UINT64_C(0xcbf29ce484222325), parts, sizeof(parts));
        shares += mix(one, share->agent.text, sizeof(share->agent.text));
    }
    return digest ^ shares;
}

static void check_proposal(const struct quorum_register *reg)
{
    struct proposal now = {
        .lock = disk_lock_of(&reg->name), .order = reg->accepted, .digest = digest_of(&reg->value)};
    for (uint32_t i = 0; i < PROPOSALS; i++) {
        const struct proposal *old = &seen.proposals[i];
        if (old->order.ballot != 0 && old->lock == now.lock &&
            message_order_equal(old->order, now.order)) {
            if (old->digest != now.digest) {
                sim_fail("two values of lock %u at %llx.%llu", now.lock,
                         (unsigned long long)now.order.ballot,
                         (unsigned long long)now.order.sequence);
            }
            return;
        }
    }
    seen.proposals[seen.proposal_count++ % PROPOSALS] = now;
}

/* ---- leases ---- */

void watch_promise(const struct sim_agent *agent, uint32_t epoch, int64_t deadline_ns)
{
    struct promised *at = &seen.promised[agent->index];
    if (at->epoch == epoch && at->boot == agent->clock.boot && deadline_ns < at->deadline_ns) {
        sim_fail("the deadline of host %u falls", agent->index);
    }
    *at = (struct promised){epoch, agent->clock.boot, deadline_ns};
}

/* Checks that the session's deadline has passed if a majority has marked the session. Must be
 * called when a mark has become durable. */
static void check_marks(const struct message_session *mark)
{
    uint32_t agent = agent_of_name(&mark->agent);
    const struct promised *at = &seen.promised[agent];
    const struct sim_agent *owner = &world.agents[agent];
    const struct message_voters *record = NULL;
    while ((record = voters_after(record)) != NULL) {
        uint32_t number = record->number;
        bool yes[AGENTS] = {false};
        for (uint32_t voter = 0; voter < world.agent_count; voter++) {
            const struct sim_agent *other = &world.agents[voter];
            uint32_t under = seen.marked_under[voter][agent];
            /* a voter reports a mark under every number that it uses from then on */
            yes[voter] = other->disk.marks[agent].epoch >= mark->epoch && under <= number &&
                         number <= voters_of(other)->number;
        }
        if (voters_are_majority(record, yes) && at->epoch != 0 && at->epoch <= mark->epoch &&
            at->boot == owner->clock.boot && clock_now(owner) < at->deadline_ns) {
            sim_fail("session %u of host %u is dead %lld us before its deadline, under number %u",
                     mark->epoch, agent, (long long)(at->deadline_ns - clock_now(owner)) / 1000,
                     number);
        }
    }
}

void watch_durable(const struct sim_agent *agent, const struct action *action)
{
    if (action->kind == ACTION_PERSIST_REGISTER) {
        const struct quorum_register *reg = &action->as.reg;
        struct message_order *durable = &seen.durable[agent->index][disk_lock_of(&reg->name)];
        seen.register_commit[agent->index][disk_lock_of(&reg->name)] = agent->disk.commit + 1;
        check_proposal(reg);
        *durable = message_order_before(*durable, reg->accepted) ? reg->accepted : *durable;
    } else if (action->kind == ACTION_PERSIST_PROMISE) {
        for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
            if (message_partition_has(&action->as.promise.partitions, p)) {
                seen.promise_commit[agent->index][p] = agent->disk.commit + 1;
            }
        }
    } else if (action->kind == ACTION_PERSIST_MARK) {
        seen.marked_under[agent->index][agent_of_name(&action->as.mark.agent)] =
            voters_of(agent)->number;
        check_marks(&action->as.mark);
    } else if (action->kind == ACTION_PERSIST_REJOINED) {
        seen.forgot[agent->index] = false; /* the voter has read from others all that its store may
                                            * lack */
    } else if (action->kind == ACTION_PERSIST_VOTERS || action->kind == ACTION_PERSIST_RECOVERED) {
        if (action->kind == ACTION_PERSIST_VOTERS) {
            voters_durable(agent, &action->as.voters);
            seen.forgot[agent->index] = seen.forgot[agent->index] && voters_is_used(agent);
        }
        for (uint32_t i = 0; i < world.agent_count; i++) {
            if (agent->disk.marks[i].epoch != 0) {
                check_marks(&agent->disk.marks[i]);
            }
        }
    }
}

/* ---- all messages ---- */

static bool is_vote(enum message_kind kind)
{
    return kind == MESSAGE_PROMISE || kind == MESSAGE_VALUE || kind == MESSAGE_ACCEPTED ||
           kind == MESSAGE_POLLED || kind == MESSAGE_MARKED || kind == MESSAGE_RENEW_ACK ||
           kind == MESSAGE_CHECKPOINTED || kind == MESSAGE_SYNCED || kind == MESSAGE_CHANGE_PROMISE;
}

static const char *kind_name(enum message_kind kind)
{
    static const char *const names[] = {
        [MESSAGE_PREPARE] = "PREPARE",
        [MESSAGE_PROMISE] = "PROMISE",
        [MESSAGE_READ] = "READ",
        [MESSAGE_VALUE] = "VALUE",
        [MESSAGE_ACCEPT] = "ACCEPT",
        [MESSAGE_ACCEPTED] = "ACCEPTED",
        [MESSAGE_RENEW] = "RENEW",
        [MESSAGE_POLL] = "POLL",
        [MESSAGE_POLLED] = "POLLED",
        [MESSAGE_MARK] = "MARK",
        [MESSAGE_MARKED] = "MARKED",
        [MESSAGE_ACQUIRE] = "ACQUIRE",
        [MESSAGE_AMEND] = "AMEND",
        [MESSAGE_GIVE_BACK] = "GIVE_BACK",
        [MESSAGE_BREAK] = "BREAK",
        [MESSAGE_HEARTBEAT] = "BEAT",
        [MESSAGE_HELLO] = "HELLO",
        [MESSAGE_SYNC] = "PULL",
        [MESSAGE_SYNCED] = "PULLED",
        [MESSAGE_CHECKPOINT] = "CHECKPOINT",
        [MESSAGE_CHECKPOINTED] = "CHECKPOINTED",
        [MESSAGE_RENEW_ACK] = "RENEW_ACK",
        [MESSAGE_GRANT] = "GRANT",
        [MESSAGE_AMENDED] = "AMENDED",
        [MESSAGE_GIVE_BACK_ACK] = "GIVE_BACK_ACK",
        [MESSAGE_RECALL] = "RECALL",
        [MESSAGE_REFUSED] = "REFUSED",
        [MESSAGE_OWNER] = "OWNER",
        [MESSAGE_BREAK_HOLD] = "BREAK_HOLD",
        [MESSAGE_BROKEN] = "BROKEN",
        [MESSAGE_CHECK] = "CHECK",
        [MESSAGE_CHECKED] = "CHECKED",
        [MESSAGE_HELLO_ACK] = "HELLO_ACK",
        [MESSAGE_CHANGE_PREPARE] = "CHANGE_PREPARE",
        [MESSAGE_CHANGE_PROMISE] = "CHANGE_PROMISE",
        [MESSAGE_CHANGE_ACCEPT] = "CHANGE_ACCEPT",
        [MESSAGE_CHANGE_ACCEPTED] = "CHANGE_ACCEPTED",
        [MESSAGE_MEMBER] = "MEMBER",
        [MESSAGE_LEARNED] = "LEARNED",
        [MESSAGE_VOTERS] = "VOTERS",
        [MESSAGE_ASK_VOTERS] = "ASK_VOTERS",
        [MESSAGE_LEARN] = "LEARN",
        [MESSAGE_MEMBERED] = "MEMBERED",
    };
    return names[kind];
}

/* Finds the lock that a message is about, and the version or order that the message names. *lock
 * becomes LOCKS if the message is about no lock. */
static void about(const struct message *message, uint32_t *lock, struct message_order *order)
{
    static const struct message_order none = {0, 0};
    const struct message_name *name = NULL;
    *order = none;
    switch (message->kind) {
    case MESSAGE_ACCEPT:
        name = &message->as.accept.name;
        *order = message->as.accept.order;
        break;
    case MESSAGE_ACCEPTED:
        name = &message->as.accepted.name;
        *order = message->as.accepted.order;
        break;
    case MESSAGE_READ:
        name = &message->as.read.name;
        break;
    case MESSAGE_VALUE:
        name = &message->as.value.name;
        *order = message->as.value.accepted;
        break;
    case MESSAGE_ACQUIRE:
        name = &message->as.acquire.name;
        break;
    case MESSAGE_AMEND:
        name = &message->as.amend.name;
        *order = message->as.amend.version;
        break;
    case MESSAGE_GIVE_BACK:
        name = &message->as.give_back.name;
        *order = message->as.give_back.version;
        break;
    case MESSAGE_GRANT:
    case MESSAGE_AMENDED:
        name = &message->as.grant.name;
        *order = message->as.grant.version;
        break;
    case MESSAGE_GIVE_BACK_ACK:
    case MESSAGE_RECALL:
        name = &message->as.version.name;
        *order = message->as.version.version;
        break;
    case MESSAGE_REFUSED:
        name = &message->as.refused.name;
        order->sequence = message->as.refused.reason;
        break;
    default:
        break;
    }
    *lock = name == NULL ? LOCKS : disk_lock_of(name);
}

void watch_tell(const char *what, uint32_t from, uint32_t to, const struct message *message)
{
    uint32_t lock = LOCKS;
    struct message_order order;
    if (!world.verbose) {
        return;
    }
    about(message, &lock, &order);
    if (lock == LOCKS) {
        sim_tell("%u -> %u: %s %s", from, to, what, kind_name(message->kind));
    } else {
        sim_tell("%u -> %u: %s %s lock %u, %llx.%llu", from, to, what, kind_name(message->kind),
                 lock, (unsigned long long)order.ballot, (unsigned long long)order.sequence);
    }
}

void watch_sent(const struct sim_agent *from, uint32_t to, const struct message *message)
{
    bool own = agent_of_name(&message->from) == from->index; /* otherwise the agent only passes
                                                              * the message on */
    watch_tell(own ? "sent" : "passed on", from->index, to, message);
    if (own && from->store == STORE_WRONG && is_vote(message->kind)) {
        sim_fail("voter %u, whose store is not what it was, sends a message of kind %d",
                 from->index, message->kind);
    }
    if (!own) {
        return;
    }
    if (is_vote(message->kind)) {
        voters_voted(from, message);
    }
    switch (message->kind) {
    case MESSAGE_PROMISE:
        sent_promise(from, message);
        break;
    case MESSAGE_ACCEPTED:
        sent_accepted(from, message);
        break;
    case MESSAGE_CHANGE_PROMISE:
    case MESSAGE_CHANGE_ACCEPTED:
        sent_change(from, message);
        break;
    case MESSAGE_GRANT:
    case MESSAGE_AMENDED:
        sent_grant(from, message);
        break;
    default:
        break;
    }
}
