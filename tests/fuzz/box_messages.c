/*
 * Messages of other agents to the agent in the box: honest answers, answers with a lie in them, and
 * invented messages. The agent can decode all of them, and has to find out whether they make sense.
 */
#include "box.h"

#include <string.h>

#include "../unit/gossip_samples.h"

enum { OTHER_INCARNATION = 77 };

struct message_agent box_draw_agent(void)
{
    static const char *const names[] = {"host-a", "host-b", "host-c", "host-x", "host-y", "q",
                                        "n-1",    "n-2",    "n-3",    "n-4",    "n-5",    "n-6"};
    struct message_agent agent;
    const char *text = names[draw_below(&box->draw, sizeof(names) / sizeof(names[0]))];
    message_agent_set(&agent, text, strlen(text));
    return agent;
}

/* ---- numbers that the agent itself used, or numbers near them ---- */

static const struct box_sent *draw_sent(void)
{
    uint64_t kept = box->sent_count < BOX_SENT ? box->sent_count : BOX_SENT;
    uint8_t back = draw_byte(&box->draw);
    return kept == 0 ? NULL : &box->sent[(box->sent_count - 1 - back % kept) % BOX_SENT];
}

static struct message_order draw_order(void)
{
    uint8_t what = draw_byte(&box->draw);
    struct message_order order = {(uint64_t)(1 + what % 16) << 16 | (1 + what / 16 % 3),
                                  1 + draw_byte(&box->draw)};
    if (what >= 240) {
        order.ballot = draw_number(&box->draw) % MESSAGE_BALLOT_LIMIT;
        order.sequence = draw_number(&box->draw) % MESSAGE_SEQUENCE_LIMIT;
    } else if (what >= 128 && box->disk.register_count > 0) {
        const struct quorum_register *reg = &box->disk.registers[what % box->disk.register_count];
        order = (what & 16) != 0 ? reg->accepted : reg->value.version;
        order.sequence += (what & 32) != 0;
    }
    return order;
}

static uint64_t draw_ballot(void)
{
    uint8_t what = draw_byte(&box->draw);
    return (what & 1) != 0 ? box->disk.promised[what] + (what & 2) / 2 * 65536
                           : draw_order().ballot;
}

static uint64_t draw_token(void)
{
    uint8_t what = draw_byte(&box->draw);
    return (what & 1) != 0 ? box->tokens + what / 2 : draw_number(&box->draw) % MESSAGE_TOKEN_LIMIT;
}

static uint32_t draw_epoch(void)
{
    uint8_t what = draw_byte(&box->draw);
    return what < 128 ? box->disk.epoch : what < 250 ? 1u + what % 4u : MESSAGE_EPOCH_LIMIT - 1;
}

static struct message_checkpoint draw_checkpoint(void)
{
    struct message_checkpoint none = {.floor = 0};
    if (draw_bool(&box->draw)) {
        return none;
    }
    none.order = draw_order();
    none.floor = draw_token();
    return none;
}

static void draw_partitions(struct message_partitions *set)
{
    uint8_t what = draw_byte(&box->draw);
    if (what == 0) {
        memset(set, 0xff, sizeof(*set));
        return;
    }
    memset(set, 0, sizeof(*set));
    struct message_name name = box_draw_name();
    message_partition_add(set, names_partition(name.bytes, name.length));
    set->bits[what % 4] |= draw_number(&box->draw);
}

static void draw_value(struct message_value *value)
{
    uint8_t what = draw_byte(&box->draw);
    memset(value, 0, offsetof(struct message_value, shares));
    value->permits = 1;
    value->mode = what % 3;
    value->token_first = 1 + draw_token();
    value->lock_delay_ms = what & 8 ? 1000 : 0;
    value->version = draw_order();
    if (value->mode == MESSAGE_MODE_EXCLUSIVE) {
        value->owner = box_draw_agent();
        value->epoch = draw_epoch();
        value->token_last = what & 16
                                ? message_token_range_last(value->token_first, MESSAGE_TOKEN_RANGE)
                                : value->token_first + what / 32;
    } else if (value->mode == MESSAGE_MODE_SHARED) {
        value->token_last = value->token_first;
        value->share_count = 1 + what / 16 % 3;
        for (uint32_t i = 0; i < value->share_count; i++) {
            value->shares[i].agent = box_draw_agent();
            value->shares[i].epoch = draw_epoch();
            value->shares[i].version = i == 0 ? value->version : draw_order();
        }
    }
}

/* ---- honest answers ---- */

static uint32_t voter_index(const struct message_agent *agent)
{
    uint32_t voter = 0;
    while (voter < box->voter_count && !box_same_agent(&box->voters[voter], agent)) {
        voter++;
    }
    return voter;
}

static void answer_header(const struct message_agent *from, enum message_kind kind,
                          struct message *out)
{
    uint32_t voter = voter_index(from);
    message_zero(out);
    out->kind = kind;
    out->from = *from;
    out->membership = 1;
    out->store_id[0] = 100 + voter;
    out->store_id[1] = 1;
    out->commit = 5;
}

static void hello_answer(const struct message_hello *asked, struct message *out)
{
    struct message_hello *hello = &out->as.hello;
    hello->answer = true;
    hello->status = MESSAGE_STATUS_VOTING;
    hello->incarnation = OTHER_INCARNATION;
    hello->echo = asked->incarnation;
    hello->rules = asked->rules;
    hello->bootstrapped = true;
    for (uint32_t i = 0; i < box->voter_count; i++) {
        hello->members[i] = (struct message_member){{100 + i, 1}, 1};
    }
    memcpy(hello->seen.store_id, box->disk.store_id, sizeof(hello->seen.store_id));
    hello->seen.generation = 1;
    hello->seen_commit = box->disk.commit;
}

static void grant_answer(const struct message *asked, struct message *out)
{
    struct message_grant *grant = &out->as.grant;
    if (asked->kind == MESSAGE_ACQUIRE) {
        const struct message_acquire *acquire = &asked->as.acquire;
        *grant = (struct message_grant){.agent = acquire->agent,
                                        .epoch = acquire->epoch,
                                        .request_id = acquire->request_id,
                                        .name = acquire->name,
                                        .version = {UINT64_C(9) << 16 | 2, ++box->versions},
                                        .mode = acquire->mode,
                                        .fresh = true,
                                        .lock_delay_ms = acquire->lock_delay_ms};
    } else {
        const struct message_amend *amend = &asked->as.amend;
        *grant = (struct message_grant){.agent = amend->agent,
                                        .epoch = amend->epoch,
                                        .request_id = amend->request_id,
                                        .name = amend->name,
                                        .version = amend->version,
                                        .mode = amend->mode ? amend->mode : MESSAGE_MODE_EXCLUSIVE,
                                        .lock_delay_ms = amend->lock_delay_ms};
    }
    grant->token_first = box->tokens;
    grant->token_last = grant->mode == MESSAGE_MODE_SHARED ? box->tokens : box->tokens + 3;
    box->tokens = grant->token_last + 1;
}

/* Fills in an answer to a BREAK: the answer of an owner, or of a coordinator that names owners. */
static void describe_break(const struct message *asked, struct message_broken *broken)
{
    uint8_t what = draw_byte(&box->draw);
    broken->part = what % MESSAGE_BROKEN_END;
    broken->meant = asked->as.break_lock.meant;
    broken->count = (uint8_t)(what / MESSAGE_BROKEN_END %
                              (message_broken_most((enum message_broken_part)broken->part) + 1));
    broken->total = broken->count;
    broken->closed_ms = what;
    if (broken->part == MESSAGE_BROKEN_HOLDS) {
        broken->owner = box_draw_agent();
    }
    for (uint32_t i = 0; i < broken->count; i++) {
        if (broken->part == MESSAGE_BROKEN_OWNERS) {
            broken->items.owners[i] = box_draw_agent();
        } else {
            broken->items.holds[i] = (struct message_hold){
                .pid = i, .uid = -1, .held_ms = what, .token = i, .shared = true};
        }
    }
}

/* Makes a voter's answer to a message of the quorum core. */
static bool round_answer(const struct message *asked, struct message *out)
{
    switch (asked->kind) {
    case MESSAGE_PREPARE:
        out->kind = MESSAGE_PROMISE;
        out->as.promise.ballot = asked->as.prepare.ballot;
        out->as.promise.promised = asked->as.prepare.partitions;
        return true;
    case MESSAGE_READ:
        out->kind = MESSAGE_VALUE;
        out->as.value.ballot = asked->as.read.ballot;
        out->as.value.name = asked->as.read.name;
        return true;
    case MESSAGE_ACCEPT:
        out->kind = MESSAGE_ACCEPTED;
        out->as.accepted.order = asked->as.accept.order;
        out->as.accepted.name = asked->as.accept.name;
        return !asked->as.accept.chosen;
    case MESSAGE_SYNC:
        out->kind = MESSAGE_SYNCED;
        out->as.synced.what = asked->as.sync.what;
        out->as.synced.partition = asked->as.sync.partition;
        out->as.synced.id = asked->as.sync.id;
        out->as.synced.kind = MESSAGE_SYNCED_END;
        return true;
    case MESSAGE_POLL:
    case MESSAGE_MARK:
        out->kind = asked->kind == MESSAGE_POLL ? MESSAGE_POLLED : MESSAGE_MARKED;
        out->as.session_answer.agent = asked->as.session.agent;
        out->as.session_answer.epoch = asked->as.session.epoch;
        out->as.session_answer.yes = true;
        return true;
    case MESSAGE_CHECKPOINT:
        out->kind = MESSAGE_CHECKPOINTED;
        out->as.checkpointed.ballot = asked->as.checkpoint.ballot;
        out->as.checkpointed.partition = asked->as.checkpoint.partition;
        out->as.checkpointed.order = asked->as.checkpoint.checkpoint.order;
        return true;
    default:
        return false;
    }
}

bool box_honest(const struct box_sent *sent, struct message *out)
{
    const struct message *asked = &sent->message;
    answer_header(&sent->to, MESSAGE_HEARTBEAT, out);
    switch (asked->kind) {
    case MESSAGE_HELLO:
        out->kind = MESSAGE_HELLO;
        hello_answer(&asked->as.hello, out);
        return !asked->as.hello.answer;
    case MESSAGE_HEARTBEAT:
        out->as.heartbeat.number = asked->as.heartbeat.number + 7;
        out->as.heartbeat.echo = asked->as.heartbeat.number;
        out->as.heartbeat.majority = true;
        out->as.heartbeat.votes = true;
        return true;
    case MESSAGE_RENEW:
        out->kind = MESSAGE_RENEW_ACK;
        out->as.renew_ack.agent = asked->as.renew.agent;
        out->as.renew_ack.epoch = asked->as.renew.epoch;
        out->as.renew_ack.renewal_id = asked->as.renew.renewal_id;
        out->as.renew_ack.echo = (struct message_echo){OTHER_INCARNATION, box->now_ns};
        out->as.renew_ack.extended = asked->as.renew.echo.incarnation == OTHER_INCARNATION;
        return true;
    case MESSAGE_ACQUIRE:
    case MESSAGE_AMEND:
        out->kind = asked->kind == MESSAGE_ACQUIRE ? MESSAGE_GRANT : MESSAGE_AMENDED;
        grant_answer(asked, out);
        return true;
    case MESSAGE_GIVE_BACK:
        out->kind = MESSAGE_GIVE_BACK_ACK;
        out->as.version = (struct message_version){.agent = asked->as.give_back.agent,
                                                   .epoch = asked->as.give_back.epoch,
                                                   .request_id = asked->as.give_back.request_id,
                                                   .name = asked->as.give_back.name,
                                                   .version = asked->as.give_back.version};
        return true;
    case MESSAGE_BREAK:
    case MESSAGE_CHECK:
        out->kind = asked->kind == MESSAGE_BREAK ? MESSAGE_BROKEN : MESSAGE_CHECKED;
        out->as.outcome.agent = asked->kind == MESSAGE_BREAK ? asked->as.break_lock.agent
                                                             : asked->as.check.agent;
        out->as.outcome.request_id = asked->kind == MESSAGE_BREAK ? asked->as.break_lock.request_id
                                                                  : asked->as.check.request_id;
        if (asked->kind == MESSAGE_BREAK) {
            describe_break(asked, &out->as.broken);
        }
        return true;
    default:
        return round_answer(asked, out);
    }
}

/* ---- wrong values ---- */

static void lie_round(struct message *message)
{
    switch (message->kind) {
    case MESSAGE_PROMISE:
        message->as.promise.higher = draw_ballot();
        draw_partitions(draw_bool(&box->draw) ? &message->as.promise.refused
                                              : &message->as.promise.owned);
        break;
    case MESSAGE_VALUE:
        message->as.value.checkpoint = draw_checkpoint();
        message->as.value.known = draw_bool(&box->draw);
        message->as.value.accepted = draw_order();
        draw_value(&message->as.value.value);
        message->as.value.higher = draw_bool(&box->draw) ? draw_ballot() : 0;
        break;
    case MESSAGE_ACCEPTED:
        message->as.accepted.higher = draw_bool(&box->draw) ? draw_ballot() : 0;
        message->as.accepted.full = draw_bool(&box->draw);
        break;
    case MESSAGE_SYNCED:
        message->as.synced.kind = 1 + draw_byte(&box->draw) % 5;
        message->as.synced.index = draw_byte(&box->draw) % 3;
        message->as.synced.next = (uint32_t)draw_number(&box->draw);
        message->as.synced.checkpoint = draw_checkpoint();
        message->as.synced.mark = (struct message_session){box_draw_agent(), draw_epoch()};
        message->as.synced.name = box_draw_name();
        message->as.synced.accepted = draw_order();
        draw_value(&message->as.synced.value);
        break;
    case MESSAGE_POLLED:
    case MESSAGE_MARKED:
        message->as.session_answer.yes = draw_bool(&box->draw);
        message->as.session_answer.epoch = draw_epoch();
        message->as.session_answer.wait_ns = (int64_t)(draw_number(&box->draw) >> 1);
        break;
    default:
        message->as.checkpointed.missing = draw_bool(&box->draw);
        message->as.checkpointed.higher = draw_bool(&box->draw) ? draw_ballot() : 0;
        message->as.checkpointed.order = draw_order();
    }
}

static void lie_hello(struct message_hello *hello)
{
    uint8_t what = draw_byte(&box->draw);
    struct message_member *member = &hello->members[what % BOX_VOTERS];
    hello->status = what % (MESSAGE_STATUS_REJOINING + 1);
    hello->bootstrapped = (what & 8) != 0;
    hello->answer = (what & 16) != 0;
    member->store_id[0] = draw_number(&box->draw);
    member->generation = (uint32_t)draw_number(&box->draw) % MESSAGE_GENERATION_LIMIT;
    if (what & 32) {
        hello->seen = *member;
        hello->seen_commit = draw_number(&box->draw) % MESSAGE_COMMIT_LIMIT;
    }
    if (what & 64) {
        hello->rules.voter_count = 1 + draw_byte(&box->draw) % MESSAGE_VOTERS_MAX;
        for (uint32_t i = 0; i < hello->rules.voter_count; i++) {
            hello->rules.voters[i] = box_draw_agent();
        }
    }
    memcpy(hello->advertise, "tcp://lie:2", 12);
}

static void lie_host(struct message *message)
{
    struct message_grant *grant = &message->as.grant;
    switch (message->kind) {
    case MESSAGE_RENEW_ACK:
        message->as.renew_ack.ended_epoch = draw_bool(&box->draw) ? draw_epoch() : 0;
        message->as.renew_ack.extended = draw_bool(&box->draw);
        message->as.renew_ack.echo.issued_ns = (int64_t)draw_number(&box->draw);
        message->as.renew_ack.renewal_id += draw_byte(&box->draw) % 3;
        break;
    case MESSAGE_GRANT:
    case MESSAGE_AMENDED:
        grant->mode = 1 + draw_byte(&box->draw) % 2;
        grant->version = draw_bool(&box->draw) ? draw_order() : grant->version;
        grant->token_first = draw_token();
        grant->token_last = grant->mode == MESSAGE_MODE_SHARED
                                ? grant->token_first
                                : grant->token_first + draw_byte(&box->draw) % 4;
        grant->fresh = draw_bool(&box->draw);
        grant->name = draw_bool(&box->draw) ? box_draw_name() : grant->name;
        break;
    case MESSAGE_GIVE_BACK_ACK:
        message->as.version.version = draw_order();
        message->as.version.request_id += draw_byte(&box->draw) % 2;
        message->kind = draw_bool(&box->draw) ? MESSAGE_RECALL : message->kind;
        break;
    case MESSAGE_BROKEN:
    case MESSAGE_CHECKED:
        message->as.outcome.result = -(int32_t)(draw_number(&box->draw) & INT32_MAX);
        message->as.outcome.request_id += draw_byte(&box->draw) % 2;
        break;
    default:
        break;
    }
}

static void lie_about(struct message *message)
{
    switch (message->kind) {
    case MESSAGE_HELLO:
        lie_hello(&message->as.hello);
        break;
    case MESSAGE_HEARTBEAT:
        draw_partitions(&message->as.heartbeat.owned);
        message->as.heartbeat.majority = draw_bool(&box->draw);
        message->as.heartbeat.votes = draw_bool(&box->draw);
        message->as.heartbeat.number = draw_number(&box->draw);
        break;
    default:
        if (message_is_for_host(message->kind)) {
            lie_host(message);
        } else {
            lie_round(message);
        }
    }
}

/* Makes a refusal as the answer. */
static void refuse(const struct message *asked, struct message *out)
{
    struct message_refused refused = {.reason = 1 +
                                                draw_byte(&box->draw) % (MESSAGE_REFUSED_END - 1)};
    switch (asked->kind) {
    case MESSAGE_ACQUIRE:
        refused.request_id = asked->as.acquire.request_id;
        refused.name = asked->as.acquire.name;
        break;
    case MESSAGE_AMEND:
        refused.request_id = asked->as.amend.request_id;
        refused.name = asked->as.amend.name;
        break;
    case MESSAGE_GIVE_BACK:
        refused.request_id = asked->as.give_back.request_id;
        refused.name = asked->as.give_back.name;
        break;
    case MESSAGE_BREAK:
        refused.request_id = asked->as.break_lock.request_id;
        refused.name = asked->as.break_lock.name;
        break;
    default:
        return;
    }
    out->kind = MESSAGE_REFUSED;
    refused.agent = box->name;
    refused.epoch = asked->kind == MESSAGE_BREAK ? 0 : draw_epoch();
    if (draw_bool(&box->draw)) {
        refused.owner = box_draw_agent();
        refused.closed_ms = draw_bool(&box->draw) ? draw_byte(&box->draw) * 1000u : 0;
    }
    out->as.refused = refused;
}

void box_answer(bool lie)
{
    static struct message message;
    const struct box_sent *sent = draw_sent();
    if (sent == NULL || !box_honest(sent, &message)) {
        return;
    }
    if (lie) {
        uint8_t what = draw_byte(&box->draw);
        if (what < 48) {
            refuse(&sent->message, &message);
        } else {
            lie_about(&message);
        }
        message.membership = what == 255 ? 2 : 1;
        message.commit = what == 254 ? draw_number(&box->draw) % MESSAGE_COMMIT_LIMIT : 5;
        message.store_id[0] += what == 253;
    }
    driver_received(box->driver, &message);
}

/* ---- invented messages ---- */

static struct message_name draw_name(void)
{
    return box_draw_name();
}

static void make_round(struct message *message)
{
    switch (message->kind) {
    case MESSAGE_PREPARE:
        message->as.prepare.ballot = draw_ballot();
        draw_partitions(&message->as.prepare.partitions);
        message->as.prepare.rejoin = draw_bool(&box->draw);
        break;
    case MESSAGE_READ:
        message->as.read.ballot = draw_ballot();
        message->as.read.name = draw_name();
        break;
    case MESSAGE_ACCEPT:
        message->as.accept.order = draw_order();
        message->as.accept.name = draw_name();
        message->as.accept.chosen = draw_bool(&box->draw);
        draw_value(&message->as.accept.value);
        break;
    case MESSAGE_CHECKPOINT:
        message->as.checkpoint.ballot = draw_ballot();
        message->as.checkpoint.partition = draw_byte(&box->draw);
        message->as.checkpoint.checkpoint = draw_checkpoint();
        message->as.checkpoint.live = draw_number(&box->draw);
        break;
    case MESSAGE_SYNC:
        message->as.sync.what = 1 + draw_byte(&box->draw) % 2;
        message->as.sync.partition = draw_byte(&box->draw);
        message->as.sync.id = draw_number(&box->draw);
        message->as.sync.after = draw_bool(&box->draw) ? (uint32_t)draw_number(&box->draw) : 0;
        message->as.sync.digest = draw_number(&box->draw);
        message->as.sync.checkpoint = draw_checkpoint();
        break;
    default: /* POLL and MARK */
        message->as.session = (struct message_session){box_draw_agent(), draw_epoch()};
    }
}

static void make_request(struct message *message)
{
    struct message_agent agent = draw_bool(&box->draw) ? message->from : box_draw_agent();
    uint32_t epoch = draw_epoch();
    uint64_t id = draw_byte(&box->draw) % 8;
    struct message_name name = draw_name();
    switch (message->kind) {
    case MESSAGE_ACQUIRE:
        message->as.acquire = (struct message_acquire){
            .agent = agent, .epoch = epoch, .request_id = id, .name = name};
        message->as.acquire.mode = 1 + draw_byte(&box->draw) % 2;
        message->as.acquire.lock_delay_ms = draw_bool(&box->draw) ? 1000 : 0;
        message->as.acquire.waited_ms = (uint32_t)draw_number(&box->draw);
        message->as.acquire.tries = message->as.acquire.waited_ms % (MESSAGE_TRIES_ONLY + 1);
        break;
    case MESSAGE_AMEND:
        message->as.amend = (struct message_amend){
            .agent = agent, .epoch = epoch, .request_id = id, .name = name};
        message->as.amend.version = draw_order();
        message->as.amend.mode = draw_byte(&box->draw) % 3;
        message->as.amend.lock_delay_ms = draw_byte(&box->draw);
        message->as.amend.token_last = draw_bool(&box->draw) ? draw_token() : 0;
        message->as.amend.token_used = draw_bool(&box->draw) ? draw_token() : 0;
        message->as.amend.in_use = message->as.amend.lock_delay_ms % 4 == 3;
        break;
    case MESSAGE_GIVE_BACK:
        message->as.give_back = (struct message_give_back){
            .agent = agent, .epoch = epoch, .request_id = id, .name = name};
        message->as.give_back.version = draw_order();
        message->as.give_back.token_used = draw_bool(&box->draw) ? draw_token() : 0;
        break;
    case MESSAGE_CHECK:
        message->as.check = (struct message_check){
            .agent = agent, .epoch = epoch, .request_id = id, .name = name};
        message->as.check.token = 1 + draw_token();
        message->as.check.holder = draw_byte(&box->draw);
        message->as.check.seat = (uint32_t)draw_number(&box->draw);
        message->as.check.shared = draw_bool(&box->draw);
        message->as.check.cell_word = draw_number(&box->draw);
        break;
    default: /* BREAK and BREAK_HOLD */
        message->as.break_lock = (struct message_break){
            .agent = agent, .request_id = id, .name = name};
        message->as.break_lock.now = draw_bool(&box->draw);
        message->as.break_lock.version = draw_order();
    }
}

static void make_renewal(struct message *message)
{
    struct message_rules rules = {.voter_count = box->voter_count,
                                  .session_ttl_ns = BOX_TTL_NS,
                                  .grace_ns = BOX_GRACE_NS,
                                  .max_drift_percent = 10};
    memcpy(rules.voters, box->voters, box->voter_count * sizeof(rules.voters[0]));
    message->as.renew.agent = message->from;
    message->as.renew.epoch = draw_epoch();
    message->as.renew.renewal_id = draw_byte(&box->draw);
    message->as.renew.echo.incarnation = draw_number(&box->draw);
    message->as.renew.echo.issued_ns = (int64_t)draw_number(&box->draw);
    message->as.renew.rules = message_rules_digest(&rules) + (draw_byte(&box->draw) == 7);
    memcpy(message->as.renew.advertise, "tcp://h:1", 10);
}

static void make_any(struct message *message)
{
    struct box_sent sent = {.to = message->from};
    switch (message->kind) {
    case MESSAGE_PREPARE:
    case MESSAGE_READ:
    case MESSAGE_ACCEPT:
    case MESSAGE_CHECKPOINT:
    case MESSAGE_SYNC:
    case MESSAGE_POLL:
    case MESSAGE_MARK:
        make_round(message);
        break;
    case MESSAGE_ACQUIRE:
    case MESSAGE_AMEND:
    case MESSAGE_GIVE_BACK:
    case MESSAGE_CHECK:
    case MESSAGE_BREAK:
    case MESSAGE_BREAK_HOLD:
        make_request(message);
        break;
    case MESSAGE_RENEW:
        make_renewal(message);
        break;
    case MESSAGE_HELLO:
    case MESSAGE_HELLO_ACK:
        message_zero(&sent.message);
        sent.message.as.hello.rules = (struct message_rules){.voter_count = box->voter_count,
                                                             .session_ttl_ns = BOX_TTL_NS,
                                                             .grace_ns = BOX_GRACE_NS,
                                                             .max_drift_percent = 10};
        memcpy(sent.message.as.hello.rules.voters, box->voters,
               box->voter_count * sizeof(box->voters[0]));
        hello_answer(&sent.message.as.hello, message);
        lie_hello(&message->as.hello);
        break;
    case MESSAGE_OWNER:
        message->as.owner.ballot = draw_ballot();
        draw_partitions(&message->as.owner.partitions);
        break;
    case MESSAGE_RECALL:
    case MESSAGE_GIVE_BACK_ACK:
        message->as.version = (struct message_version){
            .agent = box->name, .epoch = draw_epoch(), .name = draw_name()};
        message->as.version.version = draw_order();
        if (message->kind == MESSAGE_RECALL) {
            message->as.version.recall = message->as.version.version.sequence % MESSAGE_RECALL_END;
        }
        break;
    case MESSAGE_GRANT:
    case MESSAGE_AMENDED:
        message->as.grant = (struct message_grant){
            .agent = box->name, .epoch = draw_epoch(), .name = draw_name()};
        message->as.grant.request_id = draw_number(&box->draw);
        message->as.grant.version = draw_order();
        lie_host(message);
        break;
    default:
        lie_about(message);
    }
}

void box_make_up(void)
{
    static struct message message;
    uint8_t what = draw_byte(&box->draw);
    struct message_agent from = box_draw_agent();
    uint32_t kind = 1 + what % (MESSAGE_VOTER_END - 1);
    if (what >= 160) {
        kind = MESSAGE_RENEW_ACK + what % (MESSAGE_KIND_END - MESSAGE_RENEW_ACK);
    }
    answer_header(&from, (enum message_kind)kind, &message);
    make_any(&message);
    if (draw_byte(&box->draw) > 240) {
        message.to = box_draw_agent();
        message.relayed = draw_bool(&box->draw);
    }
    driver_received(box->driver, &message);
}

/* Gives the agent a packet of gossip in which some bytes are changed. */
void box_gossip(void)
{
    static unsigned char bytes[GOSSIP_PACKET_MAX];
    struct message_agent from = box_draw_agent();
    size_t size = gossip_sample(draw_below(&box->draw, GOSSIP_SAMPLE_PACKETS), bytes);
    for (uint32_t changes = draw_byte(&box->draw) % 8; changes > 0 && size > 0; changes--) {
        uint32_t at = draw_below(&box->draw, 512);
        bytes[at % size] = draw_byte(&box->draw);
    }
    driver_received_gossip(box->driver, &from, bytes, size);
}
