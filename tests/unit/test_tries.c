/* Tries at a coordinator: a process that only tries is refused while the lock is in use on another
 * host, and a waiting process is not affected. */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "quorum_cell.h"

static const enum message_mode X = MESSAGE_MODE_EXCLUSIVE;
static const enum message_mode S = MESSAGE_MODE_SHARED;

static struct cell *cell;
static uint32_t to;                  /* the coordinator of "a" */
static uint32_t hosts[4];            /* the other nodes; the host of hosts[0] has the grant */
static struct message_order version; /* the version of the grant */

static void ask(uint32_t node, uint64_t id, enum message_mode mode, enum message_tries tries,
                uint32_t waited_ms)
{
    struct message message;
    cell_header(cell, node, MESSAGE_ACQUIRE, &message);
    message.as.acquire.agent = message.from;
    message.as.acquire.epoch = 1;
    message.as.acquire.request_id = id;
    message_name_set(&message.as.acquire.name, "a", 1);
    message.as.acquire.mode = (uint8_t)mode;
    message.as.acquire.waited_ms = waited_ms;
    message.as.acquire.tries = (uint8_t)tries;
    cell_send(cell, node, to, &message);
    cell_settle(cell);
}

static void begin(enum message_mode mode)
{
    cell = cell_ready(5);
    to = cell_coordinator(cell, "a");
    for (uint32_t i = 0; i < 4; i++) {
        hosts[i] = (to + 1 + i) % 5;
    }
    ask(hosts[0], 1, mode, MESSAGE_TRIES_NONE, 0);
    version = cell_got(cell, hosts[0], MESSAGE_GRANT)->as.grant.version;
}

/* Returns the owner's latest recall. This recall must be of that kind, and there must be `count`
 * recalls. */
static struct message_version recalled(enum message_recall what, uint32_t count)
{
    ck_assert_uint_eq(cell_got_count(cell, hosts[0], MESSAGE_RECALL), count);
    const struct message *recall = cell_got(cell, hosts[0], MESSAGE_RECALL);
    ck_assert_uint_eq(recall->as.version.recall, what);
    ck_assert(message_order_equal(recall->as.version.version, version));
    return recall->as.version;
}

/* Makes the owner answer the recall: its grant is in use. */
static void say_in_use(const struct message_version *recall)
{
    struct message message;
    cell_header(cell, hosts[0], MESSAGE_AMEND, &message);
    message.as.amend.agent = message.from;
    message.as.amend.epoch = 1;
    message.as.amend.request_id = recall->request_id;
    message.as.amend.name = recall->name;
    message.as.amend.version = recall->version;
    message.as.amend.in_use = true;
    cell_send(cell, hosts[0], to, &message);
    cell_settle(cell);
}

/* Returns how often that request was refused because the lock is in use. Checks that no other
 * request was refused. */
static uint32_t refusals(uint32_t node, uint64_t id)
{
    const struct message *refused = cell_got(cell, node, MESSAGE_REFUSED);
    if (refused != NULL) {
        ck_assert_uint_eq(refused->as.refused.reason, MESSAGE_REFUSED_IN_USE);
        ck_assert_uint_eq(refused->as.refused.request_id, id);
    }
    return cell_got_count(cell, node, MESSAGE_REFUSED);
}

static bool has(uint32_t node, uint64_t id)
{
    const struct message *grant = cell_got(cell, node, MESSAGE_GRANT);
    return grant != NULL && grant->as.grant.request_id == id;
}

static void give_back(uint64_t id)
{
    cell_give_back(cell, hosts[0], to, "a", id, 1, version, 0);
    cell_settle(cell);
}

START_TEST(a_try_is_refused_when_the_owner_says_in_use)
{
    begin(X);
    uint64_t accepts = cell->sent[MESSAGE_ACCEPT];
    ask(hosts[1], 1, X, MESSAGE_TRIES_ONLY, 0);
    struct message_version recall = recalled(MESSAGE_RECALL_IF_IDLE, 1);
    ck_assert_uint_eq(recall.request_id & 0xffff, 0xffff); /* no request of a host has such an id */
    ck_assert_uint_eq(refusals(hosts[1], 1), 0);
    say_in_use(&recall);
    ck_assert_uint_eq(refusals(hosts[1], 1), 1);
    ck_assert_uint_eq(cell->sent[MESSAGE_ACCEPT], accepts);
    say_in_use(&recall); /* a late or repeated answer */
    ck_assert_uint_eq(refusals(hosts[1], 1), 1);
    cell_run(cell, 3000 * CELL_MS); /* no recall and no grant follows */
    recalled(MESSAGE_RECALL_IF_IDLE, 1);
    give_back(2);
    ck_assert(!has(hosts[1], 1));
    cell_destroy(cell);
}
END_TEST

/* Checks that the node's latest REFUSED names the host behind which the lock is closed. id: 0 if
 * the message refuses nothing. Returns how long the lock stays closed. */
static uint32_t told_closed(uint32_t node, uint64_t id, uint32_t count)
{
    const struct message *message = cell_got(cell, node, MESSAGE_REFUSED);
    struct message owner;
    cell_header(cell, hosts[0], MESSAGE_REFUSED, &owner);
    ck_assert_uint_eq(cell_got_count(cell, node, MESSAGE_REFUSED), count);
    ck_assert_ptr_nonnull(message);
    const struct message_refused *refused = &message->as.refused;
    ck_assert_uint_eq(refused->reason, MESSAGE_REFUSED_IN_USE);
    ck_assert_uint_eq(refused->request_id, id);
    ck_assert_uint_eq(refused->epoch, 1);
    ck_assert_uint_eq(refused->name.length, 1);
    ck_assert_mem_eq(&refused->owner, &owner.from, sizeof(owner.from));
    return refused->closed_ms;
}

/* The owner's session ends. The answers to each copy of a waiting host's request report how long
 * the lock stays closed, and behind which host. So does the refusal of a try. */
START_TEST(hosts_learn_behind_whom_it_is_closed)
{
    cell = cell_ready(5);
    to = cell_coordinator(cell, "a");
    for (uint32_t i = 0; i < 4; i++) {
        hosts[i] = (to + 1 + i) % 5;
    }
    for (uint32_t i = 0; i < 5; i++) {
        cell_extend(cell, hosts[0], i, 1);
    }
    cell_acquire(cell, hosts[0], to, "a", 1, 1, X, 2000);
    cell_settle(cell);
    ask(hosts[1], 1, X, MESSAGE_TRIES_NONE, 0);
    ask(hosts[1], 1, X, MESSAGE_TRIES_NONE, 500);
    ck_assert_uint_eq(refusals(hosts[1], 1), 0); /* the owner's session has not ended yet */
    cell_run(cell, CELL_TTL_NS / 10 * 11 + 500 * CELL_MS);
    ck_assert_uint_eq(refusals(hosts[1], 1), 0);
    ask(hosts[1], 1, X, MESSAGE_TRIES_NONE, 4000);
    uint32_t first_ms = told_closed(hosts[1], 0, 1);
    ck_assert_uint_gt(first_ms, 1000);
    ck_assert_uint_le(first_ms, 2200);
    cell_run(cell, 500 * CELL_MS);
    ask(hosts[1], 1, X, MESSAGE_TRIES_NONE, 4500);
    uint32_t second_ms = told_closed(hosts[1], 0, 2);
    ck_assert_uint_le(second_ms, first_ms - 500);
    ck_assert_uint_ge(second_ms, first_ms - 600);
    ask(hosts[2], 1, X, MESSAGE_TRIES_ONLY, 0);
    ck_assert_uint_le(told_closed(hosts[2], 1, 1), second_ms);
    ask(hosts[3], 1, X, MESSAGE_TRIES_ALSO, 0);
    ck_assert_uint_le(told_closed(hosts[3], 1, 1), second_ms);
    cell_run(cell, 2000 * CELL_MS);
    ck_assert(has(hosts[1], 1));
    cell_destroy(cell);
}
END_TEST

START_TEST(a_try_gets_the_grant_that_was_idle)
{
    begin(X);
    ask(hosts[1], 1, X, MESSAGE_TRIES_ONLY, 0);
    give_back(2);
    ck_assert(has(hosts[1], 1));
    ck_assert_uint_eq(refusals(hosts[1], 1), 0);
    cell_destroy(cell);
}
END_TEST

/* The answer to a try must be about the lock's state after the try began. */
START_TEST(each_try_asks_anew)
{
    begin(X);
    struct message_version last = {.request_id = 0};
    for (uint32_t i = 0; i < 3; i++) {
        ask(hosts[1], i + 1, X, MESSAGE_TRIES_ONLY, 0);
        struct message_version recall = recalled(MESSAGE_RECALL_IF_IDLE, i + 1);
        ck_assert_uint_gt(recall.request_id, last.request_id);
        if (i > 0) {
            say_in_use(&last); /* an answer to the previous recall */
            ck_assert_uint_eq(refusals(hosts[1], i), i);
        }
        say_in_use(&recall);
        ck_assert_uint_eq(refusals(hosts[1], i + 1), i + 1);
        last = recall;
    }
    cell_destroy(cell);
}
END_TEST

/* A recall or its answer got lost. When the host repeats its request, the coordinator sends another
 * recall. */
START_TEST(what_is_lost_is_asked_again)
{
    begin(X);
    ask(hosts[1], 1, X, MESSAGE_TRIES_ONLY, 0);
    recalled(MESSAGE_RECALL_IF_IDLE, 1);
    ask(hosts[1], 1, X, MESSAGE_TRIES_ONLY, 250);
    struct message_version recall = recalled(MESSAGE_RECALL_IF_IDLE, 2);
    say_in_use(&recall);
    ck_assert_uint_eq(refusals(hosts[1], 1), 1);
    cell_destroy(cell);
}
END_TEST

START_TEST(a_try_behind_one_that_waits_is_refused_at_once)
{
    begin(X);
    ask(hosts[1], 1, X, MESSAGE_TRIES_NONE, 0);
    recalled(MESSAGE_RECALL_WAITS, 1);
    ask(hosts[2], 1, _i == 0 ? X : S, MESSAGE_TRIES_ONLY, 0);
    recalled(MESSAGE_RECALL_WAITS, 1);
    ck_assert_uint_eq(refusals(hosts[2], 1), 1);
    give_back(2);
    ck_assert(has(hosts[1], 1));
    cell_destroy(cell);
}
END_TEST

/* A reader does not wait for readers: both readers get in when the owner has given way. */
START_TEST(a_reader_tries_beside_a_reader_that_waits)
{
    begin(X);
    ask(hosts[1], 1, S, MESSAGE_TRIES_NONE, 0);
    ask(hosts[2], 1, S, MESSAGE_TRIES_ONLY, 0);
    recalled(MESSAGE_RECALL_TO_READ, 2);
    ck_assert_uint_eq(refusals(hosts[2], 1), 0);
    give_back(2);
    ck_assert(has(hosts[1], 1) && has(hosts[2], 1));
    cell_destroy(cell);
}
END_TEST

/* Two hosts try a lock whose owner is idle. The first host gets it. The coordinator then sends the
 * first host the recall for the second host. */
START_TEST(a_try_behind_a_try_asks_who_has_it_then)
{
    begin(X);
    ask(hosts[1], 1, X, MESSAGE_TRIES_ONLY, 0);
    ask(hosts[2], 1, X, MESSAGE_TRIES_ONLY, 0);
    ck_assert_uint_eq(refusals(hosts[2], 1), 0);
    give_back(2);
    ck_assert(has(hosts[1], 1));
    ck_assert_uint_eq(refusals(hosts[2], 1), 0);
    const struct message *recall = cell_got(cell, hosts[1], MESSAGE_RECALL);
    ck_assert_ptr_nonnull(recall);
    ck_assert_uint_eq(recall->as.version.recall, MESSAGE_RECALL_IF_IDLE);
    hosts[0] = hosts[1];
    say_in_use(&recall->as.version);
    ck_assert_uint_eq(refusals(hosts[2], 1), 1);
    cell_destroy(cell);
}
END_TEST

/* A reader tries behind a writer that tries. The owner's answer about the writer is no answer for
 * the reader. */
START_TEST(a_reader_behind_a_writer_that_tries_gets_in)
{
    begin(X);
    ask(hosts[1], 1, X, MESSAGE_TRIES_ONLY, 0);
    struct message_version first = recalled(MESSAGE_RECALL_IF_IDLE, 1);
    ask(hosts[2], 1, S, MESSAGE_TRIES_ONLY, 0);
    recalled(MESSAGE_RECALL_TO_READ, 2);
    say_in_use(&first);
    ck_assert_uint_eq(refusals(hosts[1], 1), 1);
    ck_assert_uint_eq(refusals(hosts[2], 1), 0);
    cell_destroy(cell);
}
END_TEST

/* A process that waits comes after a try. The owner gets a recall that asks for its grant even if
 * it is in use. */
START_TEST(who_waits_behind_a_try_is_not_kept)
{
    begin(X);
    ask(hosts[1], 1, X, MESSAGE_TRIES_ONLY, 0);
    struct message_version probe = recalled(MESSAGE_RECALL_IF_IDLE, 1);
    ask(hosts[2], 1, X, MESSAGE_TRIES_NONE, 0);
    recalled(MESSAGE_RECALL_WAITS, 2);
    say_in_use(&probe);
    ck_assert_uint_eq(refusals(hosts[1], 1), 1);
    ck_assert_uint_eq(refusals(hosts[2], 1), 0);
    give_back(2);
    ck_assert(has(hosts[2], 1) && !has(hosts[1], 1));
    cell_destroy(cell);
}
END_TEST

/* On one host some processes wait and others try. The tries are refused, and the host keeps its
 * turn. */
START_TEST(a_host_that_waits_too_keeps_its_turn)
{
    begin(X);
    ask(hosts[1], 1, X, MESSAGE_TRIES_ALSO, 0);
    struct message_version recall = recalled(MESSAGE_RECALL_REPORTS, 1);
    ask(hosts[2], 1, X, MESSAGE_TRIES_NONE, 0);
    say_in_use(&recall);
    ck_assert_uint_eq(refusals(hosts[1], 1), 1);
    give_back(2);
    ck_assert(has(hosts[1], 1) && !has(hosts[2], 1));
    cell_destroy(cell);
}
END_TEST

/* A late copy of a request, from before a process began to wait, does not make the request a try
 * again. Of two copies from the same millisecond either may be the newer one. So the coordinator
 * assumes that some processes wait and others try. */
START_TEST(a_late_copy_makes_no_try_of_what_waits)
{
    begin(X);
    uint32_t before_ms = _i == 0 ? 90 : 100;
    ask(hosts[1], 1, X, MESSAGE_TRIES_NONE, 100);
    ask(hosts[1], 1, X, MESSAGE_TRIES_ONLY, before_ms);
    struct message_version recall = cell_got(cell, hosts[0], MESSAGE_RECALL)->as.version;
    recall.request_id = UINT64_C(1) << 16 | 0xffff;
    say_in_use(&recall);
    give_back(2);
    ck_assert(has(hosts[1], 1));
    cell_destroy(cell);
}
END_TEST

/* The processes that waited have left, and only tries remain. The next copy of the request says so,
 * and the coordinator then refuses the request like any other try. */
START_TEST(who_waits_no_more_leaves_no_request_behind)
{
    begin(X);
    ask(hosts[1], 1, X, MESSAGE_TRIES_NONE, 0);
    ask(hosts[1], 1, X, MESSAGE_TRIES_ONLY, 250);
    struct message_version recall = recalled(MESSAGE_RECALL_IF_IDLE, 2);
    say_in_use(&recall);
    ck_assert_uint_eq(refusals(hosts[1], 1), 1);
    give_back(2);
    ck_assert(!has(hosts[1], 1));
    cell_destroy(cell);
}
END_TEST

/* A false answer, or an answer about an earlier grant, refuses no request. */
START_TEST(an_answer_about_another_grant_counts_for_nothing)
{
    begin(X);
    ask(hosts[1], 1, X, MESSAGE_TRIES_ONLY, 0);
    struct message_version recall = recalled(MESSAGE_RECALL_IF_IDLE, 1);
    struct message_version other = recall;
    other.version.sequence++;
    say_in_use(&other);
    ck_assert_uint_eq(refusals(hosts[1], 1), 0);
    other = recall;
    other.request_id += UINT64_C(1) << 16; /* names a recall that was not sent yet */
    say_in_use(&other);
    ck_assert_uint_eq(refusals(hosts[1], 1), 0);
    give_back(2);
    ck_assert(has(hosts[1], 1));
    cell_destroy(cell);
}
END_TEST

/* Two hosts have shares. One of them answers that its share is in use. This one answer is enough to
 * refuse a writer that tries. */
START_TEST(one_of_several_owners_is_enough)
{
    begin(S);
    ask(hosts[1], 1, S, MESSAGE_TRIES_NONE, 0);
    ck_assert(has(hosts[1], 1));
    ask(hosts[2], 1, X, MESSAGE_TRIES_ONLY, 0);
    struct message_version recall = recalled(MESSAGE_RECALL_IF_IDLE, 1);
    ck_assert_uint_eq(cell_got_count(cell, hosts[1], MESSAGE_RECALL), 1);
    say_in_use(&recall);
    ck_assert_uint_eq(refusals(hosts[2], 1), 1);
    cell_destroy(cell);
}
END_TEST

/* After a session has ended, the lock is closed for its lock-delay. The coordinator knows this, and
 * refuses a try at once. */
START_TEST(a_try_of_a_closed_lock_is_refused_at_once)
{
    cell = cell_ready(5);
    to = cell_coordinator(cell, "a");
    hosts[0] = (to + 1) % 5;
    hosts[1] = (to + 2) % 5;
    cell_acquire(cell, hosts[0], to, "a", 1, 1, X, 60000);
    cell_settle(cell);
    cell_kill(cell, hosts[0]);
    ask(hosts[1], 1, X, MESSAGE_TRIES_NONE, 0);
    cell_run(cell, 3 * CELL_TTL_NS); /* the session ends, because a host waits */
    ask(hosts[1], 1, X, MESSAGE_TRIES_ALSO, 9000);
    ck_assert_uint_eq(refusals(hosts[1], 1), 1);
    cell_destroy(cell);
}
END_TEST

/* A voter passes a copy of a request on to the coordinator. The copy still tells that it is a
 * try. */
START_TEST(a_copy_that_another_voter_passes_on_is_a_try_too)
{
    begin(X);
    uint32_t coordinator = to;
    to = hosts[2]; /* this voter passes the request on */
    ask(hosts[1], 1, X, MESSAGE_TRIES_ONLY, 0);
    struct message_version recall = recalled(MESSAGE_RECALL_IF_IDLE, 1);
    say_in_use(&recall);
    ck_assert_uint_eq(refusals(hosts[1], 1), 1);
    to = coordinator;
    cell_destroy(cell);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("coordinator");
    tcase_add_test(tests, a_try_is_refused_when_the_owner_says_in_use);
    tcase_add_test(tests, hosts_learn_behind_whom_it_is_closed);
    tcase_add_test(tests, a_try_gets_the_grant_that_was_idle);
    tcase_add_test(tests, each_try_asks_anew);
    tcase_add_test(tests, what_is_lost_is_asked_again);
    tcase_add_loop_test(tests, a_try_behind_one_that_waits_is_refused_at_once, 0, 2);
    tcase_add_test(tests, a_reader_tries_beside_a_reader_that_waits);
    tcase_add_test(tests, a_try_behind_a_try_asks_who_has_it_then);
    tcase_add_test(tests, a_reader_behind_a_writer_that_tries_gets_in);
    tcase_add_test(tests, who_waits_behind_a_try_is_not_kept);
    tcase_add_test(tests, a_host_that_waits_too_keeps_its_turn);
    tcase_add_loop_test(tests, a_late_copy_makes_no_try_of_what_waits, 0, 2);
    tcase_add_test(tests, who_waits_no_more_leaves_no_request_behind);
    tcase_add_test(tests, an_answer_about_another_grant_counts_for_nothing);
    tcase_add_test(tests, one_of_several_owners_is_enough);
    tcase_add_test(tests, a_try_of_a_closed_lock_is_refused_at_once);
    tcase_add_test(tests, a_copy_that_another_voter_passes_on_is_a_try_too);
    return suite_main("tries", tests);
}
