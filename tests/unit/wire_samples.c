/* Valid messages of every kind: see wire_samples.h. */
#include "wire_samples.h"

#include "proto/check.h"

#include <string.h>

/* Draws the values of one message: small values count up, large values are the upper limits. */
struct draw {
    bool large;
    uint64_t next;
};

static uint64_t number(struct draw *draw, uint64_t limit)
{
    uint64_t value = ++draw->next;

    return draw->large || value > limit ? limit : value;
}

static uint32_t u32(struct draw *draw)
{
    return (uint32_t)number(draw, UINT32_MAX);
}

static uint64_t u64(struct draw *draw)
{
    return number(draw, UINT64_MAX);
}

static int64_t duration(struct draw *draw)
{
    return (int64_t)number(draw, INT64_MAX);
}

static uint64_t token(struct draw *draw)
{
    return number(draw, MESSAGE_TOKEN_LIMIT);
}

static uint64_t ballot(struct draw *draw)
{
    return number(draw, MESSAGE_BALLOT_LIMIT - 1);
}

static struct message_order order(struct draw *draw)
{
    return (struct message_order){ballot(draw), number(draw, MESSAGE_SEQUENCE_LIMIT - 1)};
}

static struct message_checkpoint checkpoint(struct draw *draw)
{
    struct message_order at = order(draw);

    return (struct message_checkpoint){at, token(draw)};
}

static struct message_echo echo(struct draw *draw)
{
    uint64_t incarnation = u64(draw);
    int64_t issued_ns = duration(draw);

    return (struct message_echo){incarnation, draw->large ? INT64_MIN : issued_ns};
}

static uint8_t mode(struct draw *draw)
{
    draw->next++;
    return draw->large ? MESSAGE_MODE_EXCLUSIVE : MESSAGE_MODE_SHARED;
}

static uint16_t lock_delay_ms(struct draw *draw)
{
    return (uint16_t)number(draw, MESSAGE_LOCK_DELAY_MAX_MS);
}

static void agent(struct draw *draw, struct message_agent *out)
{
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz_-";

    memset(out, 0, sizeof *out);
    out->length = draw->large ? MESSAGE_AGENT_MAX : 2;
    memset(out->text, digits[draw->next++ % (sizeof digits - 1)], out->length);
}

static void name(struct draw *draw, struct message_name *out)
{
    memset(out, 0, sizeof *out);
    out->length = draw->large ? MESSAGE_NAME_MAX : 3;
    memset(out->bytes, (int)('A' + draw->next++ % 26), out->length);
}

static void address(struct draw *draw, char *out)
{
    memset(out, 0, MESSAGE_ADDRESS_MAX);
    memset(out, (int)('a' + draw->next++ % 26), draw->large ? MESSAGE_ADDRESS_MAX - 1 : 5);
}

/* Fills in the release: a field of version 4, behind all fields of older versions. */
static void release(const struct draw *draw, char *out)
{
    memset(out, 0, MESSAGE_RELEASE_MAX);
    memset(out, 'r', draw->large ? MESSAGE_RELEASE_MAX - 1 : 5);
}

/* Fills in the address of the status page: also a field of version 4. It follows the release. */
static void page(const struct draw *draw, char *out)
{
    memset(out, 0, MESSAGE_ADDRESS_MAX);
    memset(out, 'p', draw->large ? MESSAGE_ADDRESS_MAX - 1 : 5);
}

static void partitions(struct draw *draw, struct message_partitions *out)
{
    for (uint32_t i = 0; i < MESSAGE_PARTITIONS / 64; i++) {
        out->bits[i] = u64(draw);
    }
}

static void member(struct draw *draw, struct message_member *out)
{
    out->store_id[0] = u64(draw);
    out->store_id[1] = u64(draw);
    out->generation = u32(draw);
}

/* shares: the number of shares */
static void value(struct draw *draw, struct message_value *out, uint32_t shares)
{
    out->version = order(draw);
    out->token_first = token(draw);
    out->token_last = token(draw);
    agent(draw, &out->owner);
    agent(draw, &out->successor);
    out->epoch = u32(draw);
    out->lock_delay_ms = lock_delay_ms(draw);
    out->permits = (uint16_t)number(draw, UINT16_MAX);
    out->mode = mode(draw);
    out->closing = (uint8_t)number(draw, UINT8_MAX);
    out->share_count = (uint8_t)shares;
    for (uint32_t i = 0; i < shares; i++) {
        out->shares[i].version = order(draw);
        agent(draw, &out->shares[i].agent);
        out->shares[i].epoch = u32(draw);
    }
}

/* The fields with which the bodies of these messages begin: agent, epoch, request and name. */
#define ASKED(draw, body)                                                                          \
    (agent((draw), &(body)->agent), (body)->epoch = u32(draw), (body)->request_id = u64(draw),     \
     name((draw), &(body)->name))

static void fill_round(struct draw *draw, struct message *out, uint32_t shares)
{
    switch (out->kind) {
    case MESSAGE_PREPARE:
        out->as.prepare.ballot = ballot(draw);
        partitions(draw, &out->as.prepare.partitions);
        out->as.prepare.rejoin = true;
        break;
    case MESSAGE_PROMISE:
        out->as.promise.ballot = ballot(draw);
        partitions(draw, &out->as.promise.promised);
        partitions(draw, &out->as.promise.refused);
        partitions(draw, &out->as.promise.owned);
        out->as.promise.higher = ballot(draw);
        break;
    case MESSAGE_READ:
        out->as.read.ballot = ballot(draw);
        name(draw, &out->as.read.name);
        break;
    case MESSAGE_VALUE:
        out->as.value.ballot = ballot(draw);
        out->as.value.higher = ballot(draw);
        out->as.value.checkpoint = checkpoint(draw);
        name(draw, &out->as.value.name);
        out->as.value.known = shares != UINT32_MAX;
        if (out->as.value.known) {
            out->as.value.accepted = order(draw);
            value(draw, &out->as.value.value, shares);
        }
        break;
    case MESSAGE_ACCEPT:
        out->as.accept.order = order(draw);
        name(draw, &out->as.accept.name);
        out->as.accept.chosen = true;
        value(draw, &out->as.accept.value, shares);
        break;
    default:
        out->as.accepted.order = order(draw);
        out->as.accepted.higher = ballot(draw);
        out->as.accepted.full = true;
        name(draw, &out->as.accepted.name);
        break;
    }
}

static void fill_session(struct draw *draw, struct message *out)
{
    switch (out->kind) {
    case MESSAGE_RENEW:
        agent(draw, &out->as.renew.agent);
        out->as.renew.epoch = u32(draw);
        out->as.renew.renewal_id = u64(draw);
        out->as.renew.echo = echo(draw);
        out->as.renew.rules = u64(draw);
        address(draw, out->as.renew.advertise);
        release(draw, out->as.renew.release);
        page(draw, out->as.renew.page);
        out->as.renew.durations = u64(draw);
        break;
    case MESSAGE_RENEW_ACK:
        agent(draw, &out->as.renew_ack.agent);
        out->as.renew_ack.epoch = u32(draw);
        out->as.renew_ack.renewal_id = u64(draw);
        out->as.renew_ack.echo = echo(draw);
        out->as.renew_ack.extended = true;
        out->as.renew_ack.ended_epoch = u32(draw);
        release(draw, out->as.renew_ack.release);
        page(draw, out->as.renew_ack.page);
        break;
    case MESSAGE_POLLED:
    case MESSAGE_MARKED:
        agent(draw, &out->as.session_answer.agent);
        out->as.session_answer.epoch = u32(draw);
        out->as.session_answer.yes = true;
        out->as.session_answer.wait_ns = duration(draw);
        break;
    default:
        agent(draw, &out->as.session.agent);
        out->as.session.epoch = u32(draw);
        break;
    }
}

static void fill_request(struct draw *draw, struct message *out)
{
    switch (out->kind) {
    case MESSAGE_ACQUIRE:
        ASKED(draw, &out->as.acquire);
        out->as.acquire.mode = mode(draw);
        out->as.acquire.lock_delay_ms = lock_delay_ms(draw);
        out->as.acquire.waited_ms = u32(draw);
        out->as.acquire.tries = (uint8_t)number(draw, MESSAGE_TRIES_ONLY);
        break;
    case MESSAGE_AMEND:
        ASKED(draw, &out->as.amend);
        out->as.amend.version = order(draw);
        out->as.amend.mode = mode(draw);
        out->as.amend.lock_delay_ms = lock_delay_ms(draw);
        out->as.amend.token_last = token(draw);
        out->as.amend.token_used = token(draw);
        out->as.amend.in_use = number(draw, 1) != 0;
        break;
    case MESSAGE_GIVE_BACK:
        ASKED(draw, &out->as.give_back);
        out->as.give_back.version = order(draw);
        out->as.give_back.token_used = token(draw);
        break;
    case MESSAGE_GRANT:
    case MESSAGE_AMENDED:
        ASKED(draw, &out->as.grant);
        out->as.grant.version = order(draw);
        out->as.grant.mode = mode(draw);
        out->as.grant.fresh = number(draw, 1) != 0;
        out->as.grant.lock_delay_ms = lock_delay_ms(draw);
        out->as.grant.token_first = token(draw);
        out->as.grant.token_last = token(draw);
        break;
    case MESSAGE_REFUSED:
        ASKED(draw, &out->as.refused);
        out->as.refused.reason = (uint8_t)number(draw, UINT8_MAX);
        agent(draw, &out->as.refused.owner);
        out->as.refused.closed_ms = u32(draw);
        out->as.refused.table = u32(draw);
        out->as.refused.room = u32(draw);
        break;
    default:
        ASKED(draw, &out->as.version);
        out->as.version.version = order(draw);
        if (out->kind == MESSAGE_RECALL) {
            out->as.version.recall = (uint8_t)number(draw, MESSAGE_RECALL_END - 1);
        }
        break;
    }
}

static void fill_asking(struct draw *draw, struct message *out)
{
    struct message_check *check = &out->as.check;

    switch (out->kind) {
    case MESSAGE_BREAK:
    case MESSAGE_BREAK_HOLD:
        agent(draw, &out->as.break_lock.agent);
        out->as.break_lock.request_id = u64(draw);
        name(draw, &out->as.break_lock.name);
        out->as.break_lock.now = true;
        out->as.break_lock.version = order(draw);
        out->as.break_lock.user = number(draw, UINT64_C(1) << 32);
        out->as.break_lock.counts = true;
        out->as.break_lock.meant = order(draw);
        break;
    case MESSAGE_CHECKED:
        agent(draw, &out->as.outcome.agent);
        out->as.outcome.request_id = u64(draw);
        out->as.outcome.result = -(int32_t)number(draw, 99);
        break;
    default:
        agent(draw, &check->agent);
        check->request_id = u64(draw);
        name(draw, &check->name);
        check->token = token(draw);
        check->cell_word = u64(draw);
        check->epoch = u32(draw);
        check->holder = u32(draw);
        check->seat = u32(draw);
        check->shared = true;
        break;
    }
}

static void fill_hello(struct draw *draw, struct message_hello *hello)
{
    hello->answer = true;
    hello->status = draw->large ? MESSAGE_STATUS_REJOINING : (uint8_t)MESSAGE_STATUS_LISTED;
    hello->incarnation = u64(draw);
    hello->echo = u64(draw);
    hello->rules.voter_count = draw->large ? MESSAGE_VOTERS_MAX : 3;
    for (uint32_t i = 0; i < hello->rules.voter_count; i++) {
        agent(draw, &hello->rules.voters[i]);
    }
    hello->rules.session_ttl_ns = duration(draw);
    hello->rules.grace_ns = duration(draw);
    hello->rules.max_drift_percent = u32(draw);
    hello->bootstrapped = true;
    for (uint32_t i = 0; i < MESSAGE_VOTERS_MAX; i++) {
        member(draw, &hello->members[i]);
    }
    member(draw, &hello->seen);
    hello->seen_commit = u64(draw);
    address(draw, hello->advertise);
}

static void fill_synced(struct draw *draw, struct message_synced *synced, uint32_t shares)
{
    synced->what = draw->large ? MESSAGE_SYNC_MARKS : MESSAGE_SYNC_REGISTERS;
    synced->partition = (uint8_t)number(draw, MESSAGE_PARTITIONS - 1);
    synced->id = u64(draw);
    synced->index = u32(draw);
    synced->next = u32(draw);
    synced->checkpoint = checkpoint(draw);
    if (synced->kind == MESSAGE_SYNCED_MARK) {
        agent(draw, &synced->mark.agent);
        synced->mark.epoch = u32(draw);
    } else if (synced->kind == MESSAGE_SYNCED_REGISTER) {
        name(draw, &synced->name);
        synced->accepted = order(draw);
        value(draw, &synced->value, shares);
    }
}

static void fill_voters(struct draw *draw, struct message *out, uint32_t shares)
{
    struct message_sync *sync = &out->as.sync;

    switch (out->kind) {
    case MESSAGE_HEARTBEAT:
        out->as.heartbeat.number = u64(draw);
        out->as.heartbeat.echo = u64(draw);
        out->as.heartbeat.majority = true;
        out->as.heartbeat.votes = true;
        partitions(draw, &out->as.heartbeat.owned);
        partitions(draw, &out->as.heartbeat.settled);
        out->as.heartbeat.leaves = u32(draw);
        break;
    case MESSAGE_OWNER:
        out->as.owner.ballot = ballot(draw);
        partitions(draw, &out->as.owner.partitions);
        break;
    case MESSAGE_SYNC:
        sync->what = draw->large ? MESSAGE_SYNC_MARKS : MESSAGE_SYNC_REGISTERS;
        sync->partition = (uint8_t)number(draw, MESSAGE_PARTITIONS - 1);
        sync->id = u64(draw);
        sync->after = u32(draw);
        sync->digest = u64(draw);
        sync->checkpoint = checkpoint(draw);
        break;
    case MESSAGE_SYNCED:
        fill_synced(draw, &out->as.synced, shares);
        break;
    case MESSAGE_CHECKPOINT:
        out->as.checkpoint.ballot = ballot(draw);
        out->as.checkpoint.partition = (uint8_t)number(draw, MESSAGE_PARTITIONS - 1);
        out->as.checkpoint.checkpoint = checkpoint(draw);
        out->as.checkpoint.live = u64(draw);
        break;
    default:
        out->as.checkpointed.ballot = ballot(draw);
        out->as.checkpointed.partition = (uint8_t)number(draw, MESSAGE_PARTITIONS - 1);
        out->as.checkpointed.order = order(draw);
        out->as.checkpointed.higher = ballot(draw);
        out->as.checkpointed.missing = true;
        break;
    }
}

typedef void fill_function(struct draw *draw, struct message *out, uint32_t shares);

static void fill_plain(struct draw *draw, struct message *out, uint32_t shares)
{
    (void)shares;
    switch (out->kind) {
    case MESSAGE_RENEW:
    case MESSAGE_RENEW_ACK:
    case MESSAGE_POLL:
    case MESSAGE_POLLED:
    case MESSAGE_MARK:
    case MESSAGE_MARKED:
        fill_session(draw, out);
        break;
    case MESSAGE_BREAK:
    case MESSAGE_BREAK_HOLD:
    case MESSAGE_CHECK:
    case MESSAGE_CHECKED:
        fill_asking(draw, out);
        break;
    case MESSAGE_HELLO:
    case MESSAGE_HELLO_ACK:
        fill_hello(draw, &out->as.hello);
        break;
    default:
        fill_request(draw, out);
        break;
    }
}

/* Fills in a BROKEN. A small one has two holds, a large one has as many owners as possible. */
static void fill_broken(struct draw *draw, struct message *out, uint32_t holds)
{
    struct message_broken *broken = &out->as.broken;

    agent(draw, &broken->agent);
    broken->request_id = u64(draw);
    broken->result = -(int32_t)number(draw, 99);
    broken->meant = order(draw);
    broken->closed_ms = (uint32_t)number(draw, UINT32_MAX);
    broken->total = (uint32_t)number(draw, UINT32_MAX);
    broken->part = draw->large ? MESSAGE_BROKEN_OWNERS : MESSAGE_BROKEN_HOLDS;
    broken->count = (uint8_t)(draw->large ? MESSAGE_SHARES_MAX : holds);
    if (!draw->large) {
        agent(draw, &broken->owner);
    }
    for (uint32_t i = 0; i < broken->count && draw->large; i++) {
        agent(draw, &broken->items.owners[i]);
    }
    for (broken->count = draw->large ? broken->count : 0; !draw->large && broken->count < holds;) {
        struct message_hold made = {0};
        struct message_hold *hold = &made;
        uint32_t i = broken->count;

        hold->pid = i == 0 ? -1 : (int64_t)number(draw, INT32_MAX);
        hold->uid = i == 0 ? -1 : (int64_t)number(draw, UINT32_MAX);
        hold->held_ms = i == 0 ? -1 : (int64_t)number(draw, INT64_MAX);
        hold->token = token(draw);
        hold->shared = i == 0;
        hold->command_size = i == 0 ? 0 : 5;
        memcpy(hold->command, "sleep", hold->command_size);
        hold->note_size = i == 0 ? 0 : 4;
        message_broken_add(broken, hold, "task");
    }
}

static void record(struct draw *draw, struct message_voters *out, uint32_t voters)
{
    out->cell_id[0] = u64(draw);
    out->cell_id[1] = u64(draw);
    out->recoveries = u32(draw);
    out->number = u32(draw);
    out->next_ballot_id = (uint16_t)number(draw, UINT16_MAX);
    out->complete = draw->large;
    out->act = (uint8_t)number(draw, UINT8_MAX);
    agent(draw, &out->changed);
    out->count = draw->large && voters > 0 ? MESSAGE_VOTERS_MAX : voters;
    for (uint32_t i = 0; i < out->count; i++) {
        struct message_voter *voter = &out->of[i];

        agent(draw, &voter->name);
        voter->store_id[0] = u64(draw);
        voter->store_id[1] = u64(draw);
        voter->ballot_id = (uint16_t)number(draw, UINT16_MAX);
        address(draw, voter->address);
    }
}

static void fill_change(struct draw *draw, struct message *out, uint32_t voters)
{
    struct message_change *change = &out->as.change;

    change->number = u32(draw);
    change->ballot = ballot(draw);
    if (out->kind == MESSAGE_CHANGE_PROMISE || out->kind == MESSAGE_CHANGE_ACCEPTED) {
        change->higher = ballot(draw);
    }
    if (out->kind == MESSAGE_CHANGE_PROMISE) {
        change->accepted = ballot(draw);
    }
    if (message_voters_of(out) != NULL && voters > 0) {
        record(draw, &change->voters, voters);
    }
}

static void fill_member(struct draw *draw, struct message *out, uint32_t voters)
{
    struct message_member_asked *asked = &out->as.member;
    struct message_membered *membered = &out->as.membered;

    switch (out->kind) {
    case MESSAGE_MEMBER:
        agent(draw, &asked->agent);
        asked->request_id = u64(draw);
        asked->act = (uint8_t)number(draw, UINT8_MAX);
        agent(draw, &asked->voter);
        address(draw, asked->address);
        asked->number = u32(draw);
        break;
    case MESSAGE_MEMBERED:
        agent(draw, &membered->agent);
        membered->request_id = u64(draw);
        membered->stage = (uint8_t)number(draw, UINT8_MAX);
        membered->reason = (uint8_t)number(draw, UINT8_MAX);
        agent(draw, &membered->subject);
        membered->number = u32(draw);
        membered->done = u32(draw);
        membered->total = u32(draw);
        break;
    case MESSAGE_LEARNED:
        out->as.learned.id = u64(draw);
        out->as.learned.ready = true;
        out->as.learned.copied = u32(draw);
        out->as.learned.total = u32(draw);
        break;
    case MESSAGE_ASK_VOTERS:
        out->as.ask_voters.number = u32(draw);
        break;
    case MESSAGE_LEARN:
        out->as.told.id = u64(draw);
        out->as.told.learn = true;
        record(draw, &out->as.told.voters, voters);
        break;
    default: /* VOTERS */
        record(draw, &out->as.told.voters, voters);
        break;
    }
}

/* A kind of message, and the function that fills it in. `shares` is the number of shares, or
 * UINT32_MAX for a VALUE of an unknown name; or the number of voters in a record. `synced` is the
 * kind of contents of a SYNCED. */
static const struct shape {
    enum message_kind kind;
    fill_function *fill;
    uint32_t shares;
    uint8_t synced;
} shapes[WIRE_SAMPLE_SHAPES] = {
    {MESSAGE_PREPARE, fill_round, 0, 0},
    {MESSAGE_PROMISE, fill_round, 0, 0},
    {MESSAGE_READ, fill_round, 0, 0},
    {MESSAGE_VALUE, fill_round, 0, 0},
    {MESSAGE_ACCEPT, fill_round, 0, 0},
    {MESSAGE_ACCEPTED, fill_round, 0, 0},
    {MESSAGE_RENEW, fill_plain, 0, 0},
    {MESSAGE_POLL, fill_plain, 0, 0},
    {MESSAGE_POLLED, fill_plain, 0, 0},
    {MESSAGE_MARK, fill_plain, 0, 0},
    {MESSAGE_MARKED, fill_plain, 0, 0},
    {MESSAGE_ACQUIRE, fill_plain, 0, 0},
    {MESSAGE_AMEND, fill_plain, 0, 0},
    {MESSAGE_GIVE_BACK, fill_plain, 0, 0},
    {MESSAGE_BREAK, fill_plain, 0, 0},
    {MESSAGE_HEARTBEAT, fill_voters, 0, 0},
    {MESSAGE_HELLO, fill_plain, 0, 0},
    {MESSAGE_SYNC, fill_voters, 0, 0},
    {MESSAGE_SYNCED, fill_voters, 0, MESSAGE_SYNCED_SAME},
    {MESSAGE_CHECKPOINT, fill_voters, 0, 0},
    {MESSAGE_CHECKPOINTED, fill_voters, 0, 0},
    {MESSAGE_RENEW_ACK, fill_plain, 0, 0},
    {MESSAGE_GRANT, fill_plain, 0, 0},
    {MESSAGE_AMENDED, fill_plain, 0, 0},
    {MESSAGE_GIVE_BACK_ACK, fill_plain, 0, 0},
    {MESSAGE_RECALL, fill_plain, 0, 0},
    {MESSAGE_REFUSED, fill_plain, 0, 0},
    {MESSAGE_OWNER, fill_voters, 0, 0},
    {MESSAGE_BREAK_HOLD, fill_plain, 0, 0},
    {MESSAGE_BROKEN, fill_broken, 2, 0},
    {MESSAGE_CHECK, fill_plain, 0, 0},
    {MESSAGE_CHECKED, fill_plain, 0, 0},
    {MESSAGE_HELLO_ACK, fill_plain, 0, 0},
    {MESSAGE_ACCEPT, fill_round, 2, 0},
    {MESSAGE_VALUE, fill_round, UINT32_MAX, 0},
    {MESSAGE_VALUE, fill_round, MESSAGE_SHARES_MAX, 0},
    {MESSAGE_SYNCED, fill_voters, 0, MESSAGE_SYNCED_MARK},
    {MESSAGE_SYNCED, fill_voters, MESSAGE_SHARES_MAX, MESSAGE_SYNCED_REGISTER},
    {MESSAGE_CHANGE_PREPARE, fill_change, 2, 0},
    {MESSAGE_CHANGE_PROMISE, fill_change, 0, 0},
    {MESSAGE_CHANGE_PROMISE, fill_change, 2, 0},
    {MESSAGE_CHANGE_ACCEPT, fill_change, 3, 0},
    {MESSAGE_CHANGE_ACCEPTED, fill_change, 0, 0},
    {MESSAGE_MEMBER, fill_member, 0, 0},
    {MESSAGE_LEARNED, fill_member, 0, 0},
    {MESSAGE_VOTERS, fill_member, 4, 0},
    {MESSAGE_VOTERS, fill_member, 1, 0},
    {MESSAGE_ASK_VOTERS, fill_member, 0, 0},
    {MESSAGE_LEARN, fill_member, 3, 0},
    {MESSAGE_MEMBERED, fill_member, 0, 0},
};

static void drop_notes(struct message_broken *broken)
{
    if (broken->part == MESSAGE_BROKEN_HOLDS) {
        memset(broken->items.room + broken->count * sizeof(struct message_hold), 0,
               message_broken_notes_size(broken));
    }
    for (uint32_t i = 0; broken->part == MESSAGE_BROKEN_HOLDS && i < broken->count; i++) {
        broken->items.holds[i].note_size = 0;
    }
}

void wire_sample_of(struct message *message, uint32_t version)
{
    if (version < 5) {
        message->number = 0;
        message->digest = 0;
        if (message->kind == MESSAGE_RENEW) {
            message->as.renew.durations = 0;
        } else if (message->kind == MESSAGE_ACQUIRE) {
            message->as.acquire.made = (struct message_order){0};
        } else if (message->kind == MESSAGE_HEARTBEAT) {
            memset(&message->as.heartbeat.settled, 0, sizeof(message->as.heartbeat.settled));
            message->as.heartbeat.leaves = 0;
        } else if (message->kind == MESSAGE_REFUSED) {
            message->as.refused.table = 0;
            message->as.refused.room = 0;
        } else if (message->kind == MESSAGE_BROKEN) {
            drop_notes(&message->as.broken);
        }
    }
    if (version >= 4) {
        return;
    }
    if (message->kind == MESSAGE_RENEW) {
        memset(message->as.renew.release, 0, MESSAGE_RELEASE_MAX);
        memset(message->as.renew.page, 0, MESSAGE_ADDRESS_MAX);
    } else if (message->kind == MESSAGE_RENEW_ACK) {
        memset(message->as.renew_ack.release, 0, MESSAGE_RELEASE_MAX);
        memset(message->as.renew_ack.page, 0, MESSAGE_ADDRESS_MAX);
    } else if (message->kind == MESSAGE_AMEND) {
        message->as.amend.token_used = 0;
        message->as.amend.in_use = false;
    } else if (message->kind == MESSAGE_ACQUIRE) {
        message->as.acquire.tries = MESSAGE_TRIES_NONE;
    } else if (message->kind == MESSAGE_RECALL) {
        message->as.version.recall = MESSAGE_RECALL_WAITS;
    } else if (message->kind == MESSAGE_REFUSED) {
        message->as.refused.closed_ms = 0;
    } else if (message->kind == MESSAGE_BREAK || message->kind == MESSAGE_BREAK_HOLD) {
        message->as.break_lock.user = 0;
        message->as.break_lock.counts = false;
        message->as.break_lock.meant = (struct message_order){0, 0};
    } else if (message->kind == MESSAGE_BROKEN) {
        size_t newer = offsetof(struct message_broken, part);
        memset((char *)&message->as + newer, 0, sizeof(message->as) - newer);
    }
}

void wire_sample_header(struct wire_header *out)
{
    memset(out, 0, sizeof *out);
    out->cell = (struct message_agent){.length = 4, .text = "prod"};
    out->from = (struct message_agent){.length = 6, .text = "host-a"};
    out->membership = 71;
    out->store_id[0] = UINT64_MAX;
    out->store_id[1] = 72;
    out->commit = 300;
    out->number = 500;
    out->digest = UINT64_MAX - 1;
}

void wire_sample(size_t index, struct message *out)
{
    const struct shape *shape = &shapes[index % WIRE_SAMPLE_SHAPES];
    struct draw draw = {.large = index >= WIRE_SAMPLE_SHAPES};
    struct wire_header header;

    HF_CHECK(index < WIRE_SAMPLES);
    memset(out, 0, sizeof *out);
    out->kind = shape->kind;
    if (draw.large || index % 2 == 1) {
        agent(&draw, &out->to);
        out->relayed = true;
    }
    if (shape->kind == MESSAGE_SYNCED) {
        out->as.synced.kind = shape->synced;
    }
    shape->fill(&draw, out, shape->shares);
    wire_sample_header(&header);
    out->membership = header.membership;
    out->from = header.from;
    memcpy(out->store_id, header.store_id, sizeof out->store_id);
    out->commit = header.commit;
    out->number = header.number;
    out->digest = header.digest;
}
