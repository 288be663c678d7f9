/* The acceptor alone: its answer to each message, and what it persists before the answer. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "quorum_cell.h"

/* The reaction of node 0's acceptor to one message of voter 1. */
struct did {
    uint32_t promises, registers, sends;
    bool in_order;   /* every persisting action came before every message */
    bool impossible; /* the acceptor reported that the message has an impossible number */
    struct message answer;
};

static struct cell *start(void)
{
    struct cell *cell = cell_create(3, 7);
    cell_start(cell, 0);
    /* No voter gets this node's heartbeats, so the node coordinates nothing and only answers. */
    cell_run(cell, CELL_MS);
    return cell;
}

static struct did tell(struct cell *cell, const struct message *message)
{
    struct cell_node *node = &cell->nodes[0];
    struct quorum_event event = {.kind = QUORUM_MESSAGE, .now_ns = cell->now_ns};
    struct did did = {.in_order = true};
    event.as.message = message;
    quorum_step(node->quorum, &event, &node->actions);
    for (uint32_t i = 0; i < node->actions.count; i++) {
        const struct action *action = &node->actions.items[i];
        did.impossible |= action->kind == ACTION_LOG &&
                          strcmp(action->as.log.event, "message_impossible") == 0;
        did.promises += action->kind == ACTION_PERSIST_PROMISE;
        did.registers += action->kind == ACTION_PERSIST_REGISTER;
        if (action->kind == ACTION_SEND) {
            did.sends++;
            message_copy(&did.answer, &action->as.send.message);
            ck_assert_uint_eq(action->as.send.to, 1);
        } else if (did.sends > 0) {
            did.in_order = false;
        }
    }
    node->actions.count = 0;
    quorum_check_invariants(node->quorum);
    ck_assert(did.in_order);
    return did;
}

static uint64_t ballot(uint32_t round)
{
    return (uint64_t)round << 16 | 2; /* a ballot of voter 1 */
}

static struct did prepare(struct cell *cell, uint32_t round, const char *name)
{
    struct message message;
    cell_header(cell, 1, MESSAGE_PREPARE, &message);
    message.as.prepare.ballot = ballot(round);
    if (name == NULL) {
        memset(&message.as.prepare.partitions, 0xff, sizeof(message.as.prepare.partitions));
    } else {
        message_partition_add(&message.as.prepare.partitions, names_partition(name, strlen(name)));
    }
    return tell(cell, &message);
}

static struct did read_name(struct cell *cell, uint32_t round, const char *name)
{
    struct message message;
    cell_header(cell, 1, MESSAGE_READ, &message);
    message.as.read.ballot = ballot(round);
    message_name_set(&message.as.read.name, name, strlen(name));
    return tell(cell, &message);
}

static struct message accept_message(struct cell *cell, uint32_t round, uint64_t sequence,
                                     const char *name, uint64_t token)
{
    struct message message;
    cell_header(cell, 1, MESSAGE_ACCEPT, &message);
    message.as.accept.order = (struct message_order){ballot(round), sequence};
    message_name_set(&message.as.accept.name, name, strlen(name));
    message.as.accept.value.token_first = token;
    message.as.accept.value.permits = 1;
    return message;
}

static struct did accept_token(struct cell *cell, uint32_t round, uint64_t sequence,
                               const char *name, uint64_t token)
{
    struct message message = accept_message(cell, round, sequence, name, token);
    return tell(cell, &message);
}

START_TEST(promises_once_and_names_the_higher)
{
    struct cell *cell = start();
    struct did did = prepare(cell, 100, NULL);
    ck_assert(did.promises == 1 && did.sends == 1 && did.answer.kind == MESSAGE_PROMISE);
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        ck_assert(message_partition_has(&did.answer.as.promise.promised, p));
        ck_assert(!message_partition_has(&did.answer.as.promise.refused, p));
    }
    did = prepare(cell, 100, NULL); /* a repeat is answered, but not persisted again */
    ck_assert(did.promises == 0 && did.sends == 1);
    did = prepare(cell, 200, "a");
    ck_assert_uint_eq(did.promises, 1);
    did = prepare(cell, 150, NULL);
    uint32_t a = names_partition("a", 1);
    ck_assert(message_partition_has(&did.answer.as.promise.refused, a));
    ck_assert(!message_partition_has(&did.answer.as.promise.promised, a));
    ck_assert(message_partition_has(&did.answer.as.promise.promised, (a + 1) % 256));
    ck_assert_uint_eq(did.answer.as.promise.higher, ballot(200));
    cell_destroy(cell);
}
END_TEST

START_TEST(reads_what_it_accepted)
{
    struct cell *cell = start();
    struct did did = read_name(cell, 100, "a");
    ck_assert(did.promises == 1 && !did.answer.as.value.known);
    did = accept_token(cell, 100, 5, "a", 77);
    ck_assert(did.registers == 1 && did.promises == 0 && did.sends == 1);
    did = read_name(cell, 101, "a");
    ck_assert(did.answer.as.value.known && did.answer.as.value.value.token_first == 77);
    ck_assert_uint_eq(did.answer.as.value.accepted.ballot, ballot(100));
    ck_assert_uint_eq(did.answer.as.value.accepted.sequence, 5);
    did = read_name(cell, 99, "a");
    ck_assert_uint_eq(did.answer.as.value.higher, ballot(101));
    ck_assert(!did.answer.as.value.known);
    cell_destroy(cell);
}
END_TEST

START_TEST(accepts_in_order)
{
    struct cell *cell = start();
    ck_assert_uint_eq(accept_token(cell, 100, 5, "a", 10).promises, 1);
    struct did did = accept_token(cell, 100, 5, "a", 10);
    ck_assert(did.registers == 0 && did.sends == 1 && did.answer.as.accepted.higher == 0);
    did = accept_token(cell, 100, 4, "a", 9);
    ck_assert(did.registers == 0 && did.sends == 0);
    did = accept_token(cell, 100, 6, "a", 11);
    ck_assert_uint_eq(did.registers, 1);
    ck_assert_uint_eq(prepare(cell, 300, "a").promises, 1);
    did = accept_token(cell, 100, 7, "a", 12);
    ck_assert(did.registers == 0 && did.answer.as.accepted.higher == ballot(300));
    ck_assert_uint_eq(read_name(cell, 300, "a").answer.as.value.value.token_first, 11);
    cell_destroy(cell);
}
END_TEST

/* A chosen value does not lift a promise: a coordinator that reads under that promise must not see
 * two different values. */
START_TEST(what_is_chosen_needs_the_promise_too)
{
    struct cell *cell = start();
    ck_assert_uint_eq(prepare(cell, 300, "a").promises, 1);
    struct message message = accept_message(cell, 100, 5, "a", 10);
    message.as.accept.chosen = true;
    struct did did = tell(cell, &message);
    ck_assert(did.registers == 0 && did.promises == 0 && did.sends == 1);
    ck_assert_uint_eq(did.answer.as.accepted.higher, ballot(300));
    ck_assert(!read_name(cell, 300, "a").answer.as.value.known);
    message = accept_message(cell, 300, 1, "a", 11);
    message.as.accept.chosen = true;
    did = tell(cell, &message);
    ck_assert(did.registers == 1 && did.sends == 0);
    cell_destroy(cell);
}
END_TEST

/* All fields of a value, and orders as large as possible, survive the packing on disk. */
START_TEST(keeps_every_field)
{
    struct cell *cell = start();
    /* a core accepts such a high number only from its own disk */
    struct cell_disk *disk = &cell->nodes[0].disk;
    cell_kill(cell, 0);
    disk->round = UINT32_MAX - 1;
    message_agent_set(&disk->marks[0].agent, "some-observer", 13);
    disk->marks[0].epoch = MESSAGE_EPOCH_LIMIT - 2;
    disk->mark_count = 1;
    cell_start(cell, 0);
    cell_run(cell, CELL_MS);
    struct message message = accept_message(cell, UINT32_MAX, MESSAGE_SEQUENCE_LIMIT - 1, "a",
                                            MESSAGE_TOKEN_LIMIT - MESSAGE_TOKEN_RANGE);
    struct message_value *value = &message.as.accept.value;
    value->token_last = MESSAGE_TOKEN_LIMIT - 1;
    value->mode = MESSAGE_MODE_EXCLUSIVE;
    value->epoch = MESSAGE_EPOCH_LIMIT - 1;
    value->lock_delay_ms = MESSAGE_LOCK_DELAY_MAX_MS;
    value->version = (struct message_order){MESSAGE_BALLOT_LIMIT - 1, MESSAGE_SEQUENCE_LIMIT - 2};
    message_agent_set(&value->owner, "some-observer", 13);
    ck_assert_uint_eq(tell(cell, &message).registers, 1);
    struct did did = read_name(cell, UINT32_MAX, "a");
    ck_assert_int_eq(
        memcmp(&did.answer.as.value.value, value, offsetof(struct message_value, shares)), 0);
    ck_assert(message_order_equal(did.answer.as.value.accepted, message.as.accept.order));
    cell_destroy(cell);
}
END_TEST

START_TEST(full_is_an_answer)
{
    struct cell *cell = start();
    char name[4] = "n00";
    for (uint32_t i = 0; i < cell->config.limits.registers; i++) {
        name[1] = (char)('0' + i / 10);
        name[2] = (char)('0' + i % 10);
        ck_assert_uint_eq(accept_token(cell, 100, 1 + i, name, 1).registers, 1);
    }
    struct did did = accept_token(cell, 100, 500, "more", 1);
    ck_assert(did.registers == 0 && did.answer.as.accepted.full);
    ck_assert_uint_eq(accept_token(cell, 100, 501, "n00", 2).registers, 1);
    cell_destroy(cell);
}
END_TEST

/* A sender that is no voter, or that uses another voter's ballot, gets no answer. A senseless
 * message changes nothing. */
START_TEST(strangers_and_rubbish)
{
    struct cell *cell = start();
    struct message message = accept_message(cell, 100, 1, "a", 1);
    message_agent_set(&message.from, "stranger", 8);
    ck_assert_uint_eq(tell(cell, &message).sends, 0);
    message = accept_message(cell, 100, 1, "a", 1);
    message.as.accept.order.ballot = 100 << 16 | 3;
    ck_assert_uint_eq(tell(cell, &message).sends, 0);
    message = accept_message(cell, 100, 1, "a", 0);
    ck_assert(!message_valid(&message));
    ck_assert_uint_eq(tell(cell, &message).registers, 0);
    message = accept_message(cell, 100, 1, "a", 1);
    message.as.accept.order.sequence = MESSAGE_SEQUENCE_LIMIT;
    ck_assert_uint_eq(tell(cell, &message).registers, 0);
    cell_destroy(cell);
}
END_TEST

/* ---- numbers so high that no number could follow ---- */

enum { ROUNDS_FREE = 1 << 24, EPOCHS_FREE = 1 << 20, GENERATIONS_FREE = 1 << 16 };

static bool is_notified(struct did did)
{
    return did.promises == 0 && did.registers == 0 && did.sends == 0 && did.impossible;
}

/* The highest possible ballot, if it were promised, would stop the cell for good. */
START_TEST(an_impossible_ballot_is_not_promised)
{
    struct cell *cell = start();
    ck_assert(is_notified(prepare(cell, UINT32_MAX, NULL)));
    ck_assert_uint_eq(read_name(cell, UINT32_MAX, "a").sends, 0);
    ck_assert_uint_eq(accept_token(cell, ROUNDS_FREE + 1000000, 1, "a", 1).sends, 0);
    struct message message = accept_message(cell, 100, 1, "a", 1);
    message.as.accept.value.version = (struct message_order){ballot(UINT32_MAX), 1};
    ck_assert_uint_eq(tell(cell, &message).sends, 0);
    /* the highest ballot that is allowed */
    ck_assert_uint_eq(prepare(cell, ROUNDS_FREE, NULL).promises, 1);
    /* Impossible numbers of one sender are logged once. Those of other senders are still logged. */
    ck_assert(!prepare(cell, UINT32_MAX, NULL).impossible);
    for (int i = 0; i < 100; i++) { /* numbers of invented agents do not fill the log either */
        cell_header(cell, 2, MESSAGE_RENEW, &message);
        message.from.length = (uint8_t)snprintf(message.from.text, sizeof(message.from.text),
                                                "invented-%d", i);
        message.as.renew.agent = message.from;
        message.as.renew.epoch = EPOCHS_FREE * 2;
        ck_assert(tell(cell, &message).impossible == (i < 16));
    }
    cell_header(cell, 2, MESSAGE_PREPARE, &message);
    message.as.prepare.ballot = (uint64_t)UINT32_MAX << 16 | 3;
    message_partition_add(&message.as.prepare.partitions, 7);
    ck_assert(is_notified(tell(cell, &message)));
    /* A second jump does not start where the first one ended: the bound is relative to the round
     * that the voter knew when it started. */
    ck_assert_uint_eq(prepare(cell, ROUNDS_FREE + 1000, NULL).promises, 0);
    cell_destroy(cell);
}
END_TEST

/* A voter that has run for a long time allows no higher ballots than a voter that has just started.
 * Otherwise other voters could drive the older voter to ballots that the younger voter refuses. A
 * ballot somewhat above the bound is accepted after a while, because its sender repeats it. */
START_TEST(voters_of_different_age_agree_about_what_is_possible)
{
    struct cell *cell = start();
    uint32_t tries = 0;
    cell->now_ns += INT64_C(30) * 24 * 3600 * 1000 * CELL_MS;
    ck_assert_uint_eq(prepare(cell, ROUNDS_FREE + 1000, NULL).promises, 0);
    while (prepare(cell, ROUNDS_FREE + 1000, NULL).promises == 0) {
        ck_assert_uint_lt(tries++, 100);
        cell->now_ns += 1000 * CELL_MS;
    }
    cell_destroy(cell);
}
END_TEST

/* A refusal names an impossible ballot: the voter does not try to outbid it. */
START_TEST(an_impossible_refusal_is_not_outdone)
{
    struct cell *cell = cell_create(3, 7);
    cell_start_all(cell);
    cell_run_ready(cell);
    struct message message;
    cell_header(cell, 1, MESSAGE_PROMISE, &message);
    message.as.promise.ballot = 1 << 16 | 1;
    message.as.promise.higher = ballot(UINT32_MAX);
    memset(&message.as.promise.refused, 0xff, sizeof(message.as.promise.refused));
    cell_send(cell, 1, 0, &message);
    cell_header(cell, 1, MESSAGE_ACCEPTED, &message);
    message.as.accepted.order = (struct message_order){1 << 16 | 1, 1};
    message.as.accepted.higher = ballot(UINT32_MAX);
    message_name_set(&message.as.accepted.name, "a", 1);
    cell_send(cell, 1, 0, &message);
    cell_run(cell, 1000 * CELL_MS);
    cell_kill(cell, 2); /* the other voters prepare node 2's partitions anew */
    cell_run_ready(cell);
    ck_assert_uint_lt(cell->nodes[0].disk.round, 1000);
    ck_assert_uint_lt(cell->nodes[1].disk.round, 1000);
    cell_destroy(cell);
}
END_TEST

/* A mark of the highest epoch would keep its agent out of the cell for good. */
START_TEST(an_impossible_epoch_is_not_marked)
{
    struct cell *cell = start();
    struct message message;
    cell->now_ns += 10 * CELL_TTL_NS; /* every session has lapsed */
    cell_header(cell, 1, MESSAGE_MARK, &message);
    message_agent_set(&message.as.session.agent, "host-z", 6);
    message.as.session.epoch = MESSAGE_EPOCH_LIMIT - 1;
    ck_assert(is_notified(tell(cell, &message)));
    message.as.session.epoch = EPOCHS_FREE;
    struct did did = tell(cell, &message);
    ck_assert(did.sends == 1 && did.answer.as.session_answer.yes);
    message.as.session.epoch = EPOCHS_FREE + 1000000;
    ck_assert_uint_eq(tell(cell, &message).sends, 0);
    cell_header(cell, 1, MESSAGE_RENEW, &message);
    message.as.renew.agent = message.from;
    message.as.renew.epoch = MESSAGE_EPOCH_LIMIT - 1;
    ck_assert_uint_eq(tell(cell, &message).sends, 0);
    message = accept_message(cell, 100, 1, "a", 1);
    message.as.accept.value.mode = MESSAGE_MODE_EXCLUSIVE;
    message.as.accept.value.owner = message.from;
    message.as.accept.value.epoch = MESSAGE_EPOCH_LIMIT - 1;
    message.as.accept.value.token_last = 1;
    message.as.accept.value.version = message.as.accept.order;
    ck_assert(message_valid(&message));
    ck_assert_uint_eq(tell(cell, &message).sends, 0);
    cell_destroy(cell);
}
END_TEST

/* A generation so high that no store could follow it would keep its voter out for good, if the
 * record of stores had it. */
START_TEST(an_impossible_generation_is_not_learned)
{
    struct cell *cell = start();
    struct message message;
    cell_header(cell, 1, MESSAGE_HELLO, &message);
    struct message_hello *hello = &message.as.hello;
    hello->status = MESSAGE_STATUS_VOTING;
    hello->bootstrapped = true;
    hello->rules.voter_count = 3;
    memcpy(hello->rules.voters, cell->config.voters, sizeof(hello->rules.voters));
    for (uint32_t i = 0; i < 3; i++) {
        hello->members[i] = (struct message_member){
            .store_id = {7 + i, 7}, .generation = i == 2 ? MESSAGE_GENERATION_LIMIT - 1 : 1};
    }
    ck_assert(message_valid(&message));
    ck_assert(is_notified(tell(cell, &message)));
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_lt(cell->nodes[0].disk.members[i].generation, GENERATIONS_FREE);
    }
    cell_destroy(cell);
}
END_TEST

/* Sets each bool to 0 or 1. Another byte in a bool is undefined in C, and the decoder never makes
 * one. */
static void make_bools(struct message *message, bool value)
{
    message->relayed = value;
    switch (message->kind) {
    case MESSAGE_PREPARE:
        message->as.prepare.rejoin = value;
        break;
    case MESSAGE_VALUE:
        message->as.value.known = value;
        break;
    case MESSAGE_ACCEPTED:
        message->as.accepted.full = value;
        break;
    case MESSAGE_POLLED:
    case MESSAGE_MARKED:
        message->as.session_answer.yes = value;
        break;
    case MESSAGE_BREAK:
        message->as.break_lock.now = value;
        message->as.break_lock.counts = value;
        break;
    case MESSAGE_HEARTBEAT:
        message->as.heartbeat.majority = value;
        message->as.heartbeat.votes = value;
        break;
    case MESSAGE_HELLO:
        message->as.hello.answer = value;
        message->as.hello.bootstrapped = value;
        break;
    case MESSAGE_CHECKPOINTED:
        message->as.checkpointed.missing = value;
        break;
    default:
        break;
    }
}

/* A voter sends random bytes as messages. No internal check fails, and the acceptor never
 * contradicts itself. */
START_TEST(random_bytes)
{
    struct cell *cell = cell_create(3, 99);
    cell_start_all(cell);
    cell_run(cell, 20 * CELL_MS);
    struct cell_node *node = &cell->nodes[0];
    for (uint32_t round = 0; round < 30000; round++) {
        struct message message;
        uint64_t *words = (uint64_t *)(void *)&message;
        for (uint32_t i = 0; i < sizeof(message) / 8; i++) {
            uint64_t random = cell_random(cell);
            words[i] = random % 4 == 0 ? random : random % 3;
        }
        message.kind = (enum message_kind)(cell_random(cell) % (MESSAGE_KIND_END + 1));
        message.from = cell->config.voters[cell_random(cell) % 3];
        make_bools(&message, round % 3 == 0);
        if (round % 2 == 0) { /* such a message often passes the first checks */
            message.as.session.agent = message.from;
            message.as.session.epoch = 1 + (uint32_t)(cell_random(cell) % 3);
        }
        struct quorum_event event = {
            .kind = QUORUM_MESSAGE,
            .now_ns = cell->now_ns += (int64_t)(cell_random(cell) % 1000000)};
        event.as.message = &message;
        quorum_step(node->quorum, &event, &node->actions);
        event.kind = QUORUM_TICK;
        quorum_step(node->quorum, &event, &node->actions);
        quorum_check_invariants(node->quorum);
        node->actions.count = 0;
    }
    cell_destroy(cell);
}
END_TEST

/* A ballot has the voter's own number, which may differ from its index among the voters. */
START_TEST(a_ballot_names_its_voter_by_number)
{
    struct cell *cell = cell_create(3, 7);
    struct quorum_config *config = &cell->config;
    struct message message;
    config->ballot_ids[1] = 1;
    ck_assert_str_eq(quorum_config_error(config),
                     "two voters have the same number in their ballots");
    config->ballot_ids[1] = 9;
    ck_assert_ptr_null(quorum_config_error(config));
    cell_start(cell, 0);
    cell_run(cell, CELL_MS);
    ck_assert_uint_eq(prepare(cell, 200, "a").sends, 0);
    cell_header(cell, 1, MESSAGE_PREPARE, &message);
    message_partition_add(&message.as.prepare.partitions, 5);
    message.as.prepare.ballot = 200 << 16 | 9;
    ck_assert_uint_eq(tell(cell, &message).promises, 1);
    cell_destroy(cell);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("acceptor");
    tcase_add_test(tests, a_ballot_names_its_voter_by_number);
    tcase_add_test(tests, promises_once_and_names_the_higher);
    tcase_add_test(tests, reads_what_it_accepted);
    tcase_add_test(tests, accepts_in_order);
    tcase_add_test(tests, what_is_chosen_needs_the_promise_too);
    tcase_add_test(tests, keeps_every_field);
    tcase_add_test(tests, full_is_an_answer);
    tcase_add_test(tests, strangers_and_rubbish);
    tcase_add_test(tests, an_impossible_ballot_is_not_promised);
    tcase_add_test(tests, voters_of_different_age_agree_about_what_is_possible);
    tcase_add_test(tests, an_impossible_refusal_is_not_outdone);
    tcase_add_test(tests, an_impossible_epoch_is_not_marked);
    tcase_add_test(tests, an_impossible_generation_is_not_learned);
    tcase_add_test(tests, random_bytes);
    tcase_set_timeout(tests, 60);
    return suite_main("acceptor", tests);
}
