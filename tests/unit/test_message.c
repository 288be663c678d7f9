/* message_valid() accepts a good message of every kind, and refuses the message when any one field
 * is bad. */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "core/quorum.h"

static struct message blank(enum message_kind kind)
{
    struct message message;
    memset(&message, 0, sizeof(message));
    message.kind = kind;
    message_agent_set(&message.from, "host-a", 6);
    return message;
}

static struct message acquire(void)
{
    struct message message = blank(MESSAGE_ACQUIRE);
    message.as.acquire.agent = message.from;
    message.as.acquire.epoch = 1;
    message_name_set(&message.as.acquire.name, "a", 1);
    message.as.acquire.mode = MESSAGE_MODE_SHARED;
    return message;
}

static struct message accept_grant(void)
{
    struct message message = blank(MESSAGE_ACCEPT);
    struct message_accept *accept = &message.as.accept;
    accept->order = (struct message_order){1 << 16 | 1, 1};
    message_name_set(&accept->name, "a", 1);
    accept->value.version = accept->order;
    accept->value.token_first = 1;
    accept->value.token_last = MESSAGE_TOKEN_RANGE;
    accept->value.owner = message.from;
    accept->value.epoch = 1;
    accept->value.permits = 1;
    accept->value.mode = MESSAGE_MODE_EXCLUSIVE;
    return message;
}

/* Checks that message_valid() refuses a good message after one field is set to a bad value. */
#define BAD(good, field, bad)                                                                      \
    do {                                                                                           \
        struct message message = good();                                                           \
        ck_assert(message_valid(&message));                                                        \
        message.field = (bad);                                                                     \
        ck_assert_msg(!message_valid(&message), #field " = " #bad);                                \
    } while (0)

START_TEST(acquire_fields)
{
    BAD(acquire, kind, (enum message_kind)0);
    BAD(acquire, kind, MESSAGE_KIND_END);
    BAD(acquire, from.length, 0);
    BAD(acquire, from.length, MESSAGE_AGENT_MAX + 1);
    BAD(acquire, from.text[0], 'H');
    BAD(acquire, from.text[20], 'a');
    BAD(acquire, as.acquire.epoch, 0);
    BAD(acquire, as.acquire.name.length, 0);
    BAD(acquire, as.acquire.mode, MESSAGE_MODE_NONE);
    BAD(acquire, as.acquire.mode, 3);
    BAD(acquire, as.acquire.lock_delay_ms, MESSAGE_LOCK_DELAY_MAX_MS + 1);
    BAD(acquire, as.acquire.tries, MESSAGE_TRIES_ONLY + 1);
}
END_TEST

START_TEST(value_fields)
{
    BAD(accept_grant, as.accept.order.ballot, 1);
    BAD(accept_grant, as.accept.order.ballot, 1 << 16);
    BAD(accept_grant, as.accept.order.ballot, MESSAGE_BALLOT_LIMIT | 1);
    BAD(accept_grant, as.accept.order.sequence, 0);
    BAD(accept_grant, as.accept.order.sequence, MESSAGE_SEQUENCE_LIMIT);
    BAD(accept_grant, as.accept.name.length, 0);
    BAD(accept_grant, as.accept.value.version.sequence, 0);
    BAD(accept_grant, as.accept.value.token_first, 0);
    BAD(accept_grant, as.accept.value.token_last, 0);
    BAD(accept_grant, as.accept.value.token_last, MESSAGE_TOKEN_RANGE + 1);
    BAD(accept_grant, as.accept.value.owner.length, 0);
    BAD(accept_grant, as.accept.value.successor.length, 1);
    BAD(accept_grant, as.accept.value.epoch, 0);
    BAD(accept_grant, as.accept.value.lock_delay_ms, MESSAGE_LOCK_DELAY_MAX_MS + 1);
    BAD(accept_grant, as.accept.value.permits, 2);
    BAD(accept_grant, as.accept.value.mode, 3);
    BAD(accept_grant, as.accept.value.mode, MESSAGE_MODE_NONE); /* an owner must have a grant */
    BAD(accept_grant, as.accept.value.closing, 1);
}
END_TEST

static struct message accept_shares(void)
{
    struct message message = blank(MESSAGE_ACCEPT);
    struct message_accept *accept = &message.as.accept;
    accept->order = (struct message_order){1 << 16 | 1, 9};
    message_name_set(&accept->name, "a", 1);
    accept->value.version = (struct message_order){1 << 16 | 1, 4};
    accept->value.token_first = 7;
    accept->value.token_last = 7;
    accept->value.permits = 1;
    accept->value.mode = MESSAGE_MODE_SHARED;
    accept->value.share_count = 2;
    for (uint32_t i = 0; i < 2; i++) {
        struct message_share *share = &accept->value.shares[i];
        share->version = (struct message_order){1 << 16 | 1, 3 + i};
        message_agent_set(&share->agent, i == 0 ? "host-a" : "host-b", 6);
        share->epoch = 1;
    }
    return message;
}

START_TEST(share_fields)
{
    BAD(accept_shares, as.accept.value.share_count, 0);
    BAD(accept_shares, as.accept.value.share_count, MESSAGE_SHARES_MAX + 1);
    BAD(accept_shares, as.accept.value.shares[0].agent.length, 0);
    BAD(accept_shares, as.accept.value.shares[1].agent.text[5], 'a'); /* two shares of one host */
    BAD(accept_shares, as.accept.value.shares[1].epoch, 0);
    BAD(accept_shares, as.accept.value.shares[1].version.sequence, 0);
    /* this version is above the value's version */
    BAD(accept_shares, as.accept.value.shares[0].version.sequence, 5);
    /* no share has the value's version */
    BAD(accept_shares, as.accept.value.shares[1].version.sequence, 2);
    BAD(accept_shares, as.accept.value.token_last, 8);
    BAD(accept_shares, as.accept.value.token_first, 0);
    BAD(accept_shares, as.accept.value.owner.length, 6);
    BAD(accept_shares, as.accept.value.epoch, 1);
    BAD(accept_shares, as.accept.value.mode, MESSAGE_MODE_NONE);
    BAD(accept_shares, as.accept.value.mode, MESSAGE_MODE_EXCLUSIVE);
    BAD(accept_grant, as.accept.value.share_count, 1);
    struct message message = accept_shares();
    struct message_value *value = &message.as.accept.value;
    for (uint32_t i = 2; i < MESSAGE_SHARES_MAX; i++) {
        value->shares[i] = value->shares[0];
        value->shares[i].agent.text[4] = (char)('a' + i / 26);
        value->shares[i].agent.text[5] = (char)('a' + i % 26);
    }
    value->share_count = MESSAGE_SHARES_MAX;
    ck_assert(message_valid(&message));
}
END_TEST

static struct message read_value(void)
{
    struct message message = blank(MESSAGE_VALUE);
    message.as.value.ballot = 1 << 16 | 1;
    message_name_set(&message.as.value.name, "a", 1);
    message.as.value.checkpoint.order = (struct message_order){1 << 16 | 1, 1};
    return message;
}

static struct message break_lock(void)
{
    struct message message = blank(MESSAGE_BREAK);
    message.as.break_lock.agent = message.from;
    message_name_set(&message.as.break_lock.name, "a", 1);
    return message;
}

static struct message break_hold(void)
{
    struct message message = break_lock();
    message.kind = MESSAGE_BREAK_HOLD;
    message.to = message.from;
    message.as.break_lock.version = (struct message_order){1 << 16 | 1, 1};
    return message;
}

static struct message heartbeat(void)
{
    return blank(MESSAGE_HEARTBEAT);
}

static struct message hello(void)
{
    struct message message = blank(MESSAGE_HELLO);
    message.as.hello.rules.voter_count = 1;
    message.as.hello.rules.voters[0] = message.from;
    return message;
}

static struct message sync(void)
{
    struct message message = blank(MESSAGE_SYNC);
    message.as.sync.what = MESSAGE_SYNC_REGISTERS;
    return message;
}

static struct message synced_register(void)
{
    struct message message = blank(MESSAGE_SYNCED);
    message.as.synced.what = MESSAGE_SYNC_REGISTERS;
    message.as.synced.kind = MESSAGE_SYNCED_REGISTER;
    message_name_set(&message.as.synced.name, "a", 1);
    message.as.synced.accepted = (struct message_order){1 << 16 | 1, 1};
    message.as.synced.value.token_first = 1;
    message.as.synced.value.permits = 1;
    return message;
}

static struct message synced_mark(void)
{
    struct message message = blank(MESSAGE_SYNCED);
    message.as.synced.what = MESSAGE_SYNC_MARKS;
    message.as.synced.kind = MESSAGE_SYNCED_MARK;
    message.as.synced.mark.agent = message.from;
    message.as.synced.mark.epoch = 1;
    return message;
}

static struct message checkpoint(void)
{
    struct message message = blank(MESSAGE_CHECKPOINT);
    message.as.checkpoint.ballot = 1 << 16 | 1;
    message.as.checkpoint.checkpoint.order = (struct message_order){1 << 16 | 1, 1};
    return message;
}

static struct message checkpointed(void)
{
    struct message message = blank(MESSAGE_CHECKPOINTED);
    message.as.checkpointed.ballot = 1 << 16 | 1;
    message.as.checkpointed.order = (struct message_order){1 << 16 | 1, 1};
    return message;
}

START_TEST(fields_between_voters)
{
    BAD(read_value, as.value.checkpoint.order.sequence, 0);
    BAD(read_value, as.value.checkpoint.floor, MESSAGE_TOKEN_LIMIT);
    BAD(read_value, as.value.name.length, 0);
    BAD(read_value, as.value.higher, 5);
    BAD(hello, as.hello.status, MESSAGE_STATUS_END);
    BAD(hello, as.hello.rules.voter_count, 0);
    BAD(hello, as.hello.rules.voter_count, MESSAGE_VOTERS_MAX + 1);
    BAD(hello, as.hello.rules.voters[0].length, 0);
    BAD(hello, as.hello.advertise[MESSAGE_ADDRESS_MAX - 1], 'x');
    /* such a commit would be stored, but could not be loaded */
    BAD(hello, commit, MESSAGE_COMMIT_LIMIT);
    BAD(hello, as.hello.seen_commit, MESSAGE_COMMIT_LIMIT);
    BAD(hello, as.hello.seen.generation, MESSAGE_GENERATION_LIMIT);
    BAD(hello, as.hello.members[0].generation, MESSAGE_GENERATION_LIMIT);
    BAD(sync, as.sync.what, 0);
    BAD(sync, as.sync.what, MESSAGE_SYNC_MARKS + 1);
    BAD(sync, as.sync.checkpoint.order.ballot, 1);
    BAD(synced_register, as.synced.kind, 0);
    BAD(synced_register, as.synced.kind, MESSAGE_SYNCED_END + 1);
    BAD(synced_register, as.synced.what, MESSAGE_SYNC_MARKS);
    BAD(synced_register, as.synced.name.length, 0);
    BAD(synced_register, as.synced.accepted.sequence, 0);
    BAD(synced_register, as.synced.value.token_first, 0);
    BAD(synced_register, as.synced.value.share_count, 200);
    BAD(synced_mark, as.synced.what, MESSAGE_SYNC_REGISTERS);
    BAD(synced_mark, as.synced.mark.epoch, 0);
    BAD(synced_mark, as.synced.mark.epoch, MESSAGE_EPOCH_LIMIT);
    BAD(checkpoint, as.checkpoint.ballot, 0);
    BAD(checkpoint, as.checkpoint.checkpoint.order.sequence, 0);
    BAD(checkpoint, as.checkpoint.checkpoint.floor, MESSAGE_TOKEN_LIMIT);
    BAD(checkpointed, as.checkpointed.order.sequence, 0);
    BAD(checkpointed, as.checkpointed.higher, 5);
}
END_TEST

static struct message_voters two_voters(uint32_t number)
{
    struct message_agent names[2] = {{.length = 1, .text = "b"}, {.length = 1, .text = "a"}};
    struct message_voters voters;
    message_voters_begin(&voters, names, NULL, 2);
    voters.number = number;
    if (number > 1) {
        voters.act = MESSAGE_MEMBER_ADD;
        voters.changed = names[0];
    }
    return voters;
}

static struct message change_of(enum message_kind kind)
{
    struct message message = blank(kind);
    message.number = 4;
    message.as.change.number = 5;
    message.as.change.ballot = 1 << 16 | 1;
    if (message_voters_of(&message) != NULL) {
        message.as.change.voters = two_voters(5);
    }
    return message;
}

static struct message change_prepare(void)
{
    return change_of(MESSAGE_CHANGE_PREPARE);
}

static struct message change_promise(void)
{
    struct message message = change_of(MESSAGE_CHANGE_PROMISE);
    message.as.change.accepted = 1 << 16 | 1;
    return message;
}

static struct message change_accept(void)
{
    return change_of(MESSAGE_CHANGE_ACCEPT);
}

static struct message change_accepted(void)
{
    return change_of(MESSAGE_CHANGE_ACCEPTED);
}

static struct message told(void)
{
    struct message message = blank(MESSAGE_VOTERS);
    message.as.told.voters = two_voters(1);
    return message;
}

static struct message learned(void)
{
    struct message message = blank(MESSAGE_LEARNED);
    message.as.learned.copied = 4;
    message.as.learned.total = 4;
    return message;
}

static struct message member(void)
{
    struct message message = blank(MESSAGE_MEMBER);
    message.as.member.agent = message.from;
    message.as.member.voter = message.from;
    message.as.member.act = MESSAGE_MEMBER_MOVE;
    memcpy(message.as.member.address, "tcp://a:1", sizeof("tcp://a:1"));
    return message;
}

static struct message membered(void)
{
    struct message message = blank(MESSAGE_MEMBERED);
    message.as.membered.agent = message.from;
    message.as.membered.stage = MESSAGE_CHANGE_REFUSED;
    message.as.membered.reason = MESSAGE_CHANGE_REASON_END - 1;
    return message;
}

START_TEST(fields_about_the_voters)
{
    BAD(change_prepare, as.change.ballot, 1);
    BAD(change_prepare, as.change.number, 4); /* the change's number must follow the header's
                                               * number */
    BAD(change_prepare, as.change.number, 6);
    BAD(change_prepare, number, 0);
    BAD(change_prepare, as.change.voters.number, 6);
    BAD(change_prepare, as.change.voters.count, MESSAGE_VOTERS_MAX + 1);
    BAD(change_promise, as.change.higher, 5);
    BAD(change_promise, as.change.accepted, 5);
    BAD(change_promise, as.change.voters.count, 0);
    BAD(change_promise, as.change.voters.number, 6);
    BAD(change_accept, as.change.voters.number, 4);
    BAD(change_accept, as.change.voters.count, 0);
    BAD(change_accept, as.change.voters.count, MESSAGE_VOTERS_MAX + 1);
    BAD(change_accept, as.change.voters.act, 0);
    BAD(change_accept, as.change.voters.act, MESSAGE_MEMBER_REMOVE); /* the removed agent is still a
                                                                      * voter of the record */
    BAD(change_accept, as.change.voters.act, MESSAGE_MEMBER_END);
    BAD(change_accept, as.change.voters.changed.length, 0);
    BAD(change_accept, as.change.voters.changed.text[0], 'x'); /* the added agent is no voter of the
                                                                * record */
    BAD(change_accepted, as.change.higher, 5);
    BAD(told, as.told.voters.act, MESSAGE_MEMBER_ADD); /* no act leads to number 1 */
    BAD(told, as.told.voters.number, 0);
    BAD(told, as.told.voters.of[0].name.text[0], 'b'); /* a name twice */
    BAD(told, as.told.voters.of[0].name.text[0], 'c'); /* not ascending */
    BAD(told, as.told.voters.of[0].name.length, 0);
    BAD(told, as.told.voters.of[1].ballot_id, 1); /* a number twice */
    BAD(told, as.told.voters.of[1].ballot_id, 0);
    BAD(told, as.told.voters.next_ballot_id, 2); /* a number that a voter has already */
    BAD(told, as.told.voters.of[1].address[MESSAGE_ADDRESS_MAX - 1], 'x');
    BAD(learned, as.learned.copied, 5);
    BAD(member, as.member.act, 0);
    BAD(member, as.member.act, MESSAGE_MEMBER_END);
    BAD(member, as.member.act, MESSAGE_MEMBER_REMOVE); /* with an address */
    BAD(member, as.member.address[0], 0);
    BAD(member, as.member.agent.text[0], 'g'); /* in another agent's name */
    BAD(member, as.member.voter.length, 0);
    BAD(membered, as.membered.stage, 0);
    BAD(membered, as.membered.stage, MESSAGE_CHANGE_END);
    BAD(membered, as.membered.reason, 0);
    BAD(membered, as.membered.reason, MESSAGE_CHANGE_REASON_END);
}
END_TEST

/* The digest of number 1 does not depend on the addresses, or on the order in a configuration. The
 * digest of a later record depends on everything except `complete`. */
START_TEST(digests_of_records)
{
    struct message_agent names[3] = {
        {.length = 1, .text = "b"}, {.length = 2, .text = "ab"}, {.length = 1, .text = "a"}};
    struct message_agent sorted[3] = {
        {.length = 1, .text = "a"}, {.length = 2, .text = "ab"}, {.length = 1, .text = "b"}};
    static const char addresses[3][MESSAGE_ADDRESS_MAX] = {"tcp://b:1", "tcp://ab:1", "tcp://a:1"};
    struct message_voters one;
    struct message_voters other;
    message_voters_begin(&one, names, addresses, 3);
    message_voters_begin(&other, sorted, NULL, 3);
    ck_assert(voters_valid(&one) && voters_valid(&other));
    ck_assert_str_eq(one.of[1].address, "tcp://ab:1");
    ck_assert_uint_eq(one.of[2].ballot_id, 3);
    ck_assert_uint_eq(one.next_ballot_id, 4);
    ck_assert(one.number == 1 && one.complete);
    ck_assert_uint_eq(message_voters_digest(&one), message_voters_digest(&other));
    ck_assert_uint_eq(message_voters_find(&one, &names[0]), 2);
    message_agent_set(&names[0], "c", 1);
    ck_assert_uint_eq(message_voters_find(&one, &names[0]), 3);
    one.number = 2;
    one.act = MESSAGE_MEMBER_MOVE;
    one.changed = one.of[0].name;
    message_voters_copy(&other, &one);
    ck_assert_mem_eq(&one, &other, sizeof(one));
    other.complete = false;
    ck_assert_uint_eq(message_voters_digest(&one), message_voters_digest(&other));
#define COUNTS(field)                                                                              \
    do {                                                                                           \
        message_voters_copy(&other, &one);                                                         \
        other.field ^= 1;                                                                          \
        ck_assert_msg(message_voters_digest(&one) != message_voters_digest(&other), #field);       \
    } while (0)
    COUNTS(number);
    COUNTS(recoveries);
    COUNTS(cell_id[0]);
    COUNTS(cell_id[1]);
    COUNTS(next_ballot_id);
    COUNTS(act);
    COUNTS(changed.text[0]);
    COUNTS(of[2].name.text[0]);
    COUNTS(of[1].store_id[0]);
    COUNTS(of[1].store_id[1]);
    COUNTS(of[0].ballot_id);
    COUNTS(of[2].address[6]);
    message_voters_copy(&other, &one);
    other.count = 2;
    ck_assert(message_voters_digest(&one) != message_voters_digest(&other));
}
END_TEST

static struct message grant(void)
{
    struct message message = blank(MESSAGE_GRANT);
    message.as.grant.agent = message.from;
    message.as.grant.epoch = 1;
    message_name_set(&message.as.grant.name, "a", 1);
    message.as.grant.version = (struct message_order){1 << 16 | 1, 1};
    message.as.grant.mode = MESSAGE_MODE_SHARED;
    message.as.grant.token_first = 5;
    message.as.grant.token_last = 5;
    return message;
}

static struct message outcome(void)
{
    struct message message = blank(MESSAGE_CHECKED);
    message.as.outcome.agent = message.from;
    return message;
}

static struct message check(void)
{
    struct message message = blank(MESSAGE_CHECK);
    message.as.check.agent = message.from;
    message.as.check.epoch = 1;
    message.as.check.token = 1;
    message_name_set(&message.as.check.name, "a", 1);
    return message;
}

static struct message refused(void)
{
    struct message message = blank(MESSAGE_REFUSED);
    message.as.refused.agent = message.from;
    message.as.refused.reason = MESSAGE_REFUSED_RULES;
    return message;
}

static struct message owner(void)
{
    struct message message = blank(MESSAGE_OWNER);
    message.as.owner.ballot = 1 << 16 | 1;
    return message;
}

START_TEST(fields_for_hosts)
{
    BAD(grant, as.grant.token_last, 6); /* a shared grant has only one token */
    BAD(grant, as.grant.token_first, 0);
    BAD(grant, as.grant.mode, MESSAGE_MODE_NONE);
    BAD(grant, as.grant.version.sequence, 0);
    BAD(grant, as.grant.epoch, 0);
    BAD(grant, as.grant.lock_delay_ms, MESSAGE_LOCK_DELAY_MAX_MS + 1);
    BAD(outcome, as.outcome.result, 1);
    BAD(outcome, as.outcome.agent.length, 0);
    BAD(check, as.check.token, 0);
    BAD(check, as.check.token, MESSAGE_TOKEN_LIMIT);
    BAD(check, as.check.name.length, 0);
    BAD(refused, as.refused.reason, 0);
    BAD(refused, as.refused.reason, MESSAGE_REFUSED_END);
    BAD(refused, as.refused.owner.length, 3);
    BAD(owner, as.owner.ballot, 0);
    BAD(break_lock, as.break_lock.agent.length, 0);
    BAD(break_lock, as.break_lock.name.length, 0);
    BAD(break_hold, as.break_lock.version.sequence, 0);
}
END_TEST

/* Only requests of hosts and their answers have an envelope, so that a voter can pass them on. */
START_TEST(envelopes)
{
    BAD(acquire, to.length, MESSAGE_AGENT_MAX + 1);
    struct message message = acquire();
    message_agent_set(&message.to, "host-b", 6);
    ck_assert(message_valid(&message));
    struct message (*never[])(void) = {accept_grant, heartbeat, hello, sync, checkpoint, owner};
    for (uint32_t i = 0; i < sizeof(never) / sizeof(never[0]); i++) {
        message = never[i]();
        ck_assert(message_valid(&message));
        message_agent_set(&message.to, "host-b", 6);
        ck_assert(!message_valid(&message));
    }
    struct message (*passed[])(void) = {grant, outcome, check, refused, break_lock};
    for (uint32_t i = 0; i < sizeof(passed) / sizeof(passed[0]); i++) {
        message = passed[i]();
        message_agent_set(&message.to, "host-b", 6);
        ck_assert(message_valid(&message));
    }
}
END_TEST

START_TEST(address_is_terminated)
{
    struct message message = blank(MESSAGE_RENEW);
    message.as.renew.agent = message.from;
    message.as.renew.epoch = 1;
    ck_assert(message_valid(&message));
    memset(message.as.renew.advertise, 'x', sizeof(message.as.renew.advertise));
    ck_assert(!message_valid(&message));
}
END_TEST

static struct message_rules rules_of(const char *last)
{
    struct message_rules rules;
    memset(&rules, 0, sizeof(rules));
    rules.voter_count = 3;
    message_agent_set(&rules.voters[0], "host-a", 6);
    message_agent_set(&rules.voters[1], "host-b", 6);
    message_agent_set(&rules.voters[2], last, strlen(last));
    rules.session_ttl_ns = 5000000000;
    rules.grace_ns = 5000000000;
    rules.max_drift_percent = 10;
    return rules;
}

static void differ(const struct message_rules *here, const struct message_rules *there,
                   const char *expected)
{
    char text[256] = "x";
    ck_assert(message_rules_differ(here, there, text, sizeof(text)) == (expected[0] != 0));
    ck_assert_str_eq(text, expected);
    ck_assert((message_rules_digest(here) == message_rules_digest(there)) == (expected[0] == 0));
}

START_TEST(what_differs_is_spelled_out)
{
    struct message_rules here = rules_of("host-c");
    struct message_rules there = here;
    char text[8];
    differ(&here, &there, "");
    there.session_ttl_ns = 7500000000;
    differ(&here, &there, "session_ttl: 5s here, 7500ms there");
    there.grace_ns = 60000000000;
    differ(&here, &there, "session_ttl: 5s here, 7500ms there; grace_period: 5s here, 1m there");
    ck_assert(message_rules_differ(&here, &there, text, sizeof(text)));
    ck_assert_str_eq(text, "session");
    there = rules_of("host-d");
    differ(&here, &there, "voters: host-c is only here; voters: host-d is only there");
    there = here;
    there.voter_count = 1;
    differ(&here, &there, "voters: host-b, host-c are only here");
    there = here;
    there.max_drift_percent = 5;
    differ(&here, &there, "max_drift: 10% here, 5% there");
    there = here;
    there.voters[0] = here.voters[1];
    there.voters[1] = here.voters[0];
    differ(&here, &there, "voters: listed in another order");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("message");
    tcase_add_test(tests, what_differs_is_spelled_out);
    tcase_add_test(tests, acquire_fields);
    tcase_add_test(tests, value_fields);
    tcase_add_test(tests, share_fields);
    tcase_add_test(tests, fields_between_voters);
    tcase_add_test(tests, fields_for_hosts);
    tcase_add_test(tests, fields_about_the_voters);
    tcase_add_test(tests, digests_of_records);
    tcase_add_test(tests, envelopes);
    tcase_add_test(tests, address_is_terminated);
    return suite_main("message", tests);
}
