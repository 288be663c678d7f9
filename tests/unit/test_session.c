/* The voter's side of sessions: how a session is extended, and how it ends. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "quorum_cell.h"

static const int64_t LONG_TTL_NS = CELL_TTL_NS / 10 * 11;

static struct cell *start(void)
{
    struct cell *cell = cell_create(3, 7);
    cell->delay_max_ns = 0;
    cell_start_all(cell);
    cell_run(cell, CELL_MS);
    return cell;
}

static const struct message_renew_ack *renew(struct cell *cell, uint32_t epoch, uint64_t id,
                                             struct message_echo echo)
{
    cell->nodes[1].inbox_count = 0;
    cell_renew(cell, 1, 0, epoch, id, echo);
    cell_run(cell, CELL_MS);
    const struct message *message = cell_got(cell, 1, MESSAGE_RENEW_ACK);
    ck_assert_ptr_nonnull(message);
    ck_assert_uint_eq(message->as.renew_ack.renewal_id, id);
    ck_assert_uint_eq(message->as.renew_ack.epoch, epoch);
    return &message->as.renew_ack;
}

/* The answer of voter 0 when coordinator 2 asks about the session of node 1. */
struct asked {
    bool answered;
    struct message_session_answer answer;
};

static struct asked ask(struct cell *cell, enum message_kind kind, uint32_t epoch)
{
    struct cell_node *voter = &cell->nodes[0];
    struct message message;
    struct asked asked = {.answered = false};
    cell_header(cell, 2, kind, &message);
    message.as.session.agent = cell->config.voters[1];
    message.as.session.epoch = epoch;
    struct quorum_event event = {
        .kind = QUORUM_MESSAGE, .now_ns = cell->now_ns, .random = cell_random(cell)};
    event.as.message = &message;
    quorum_step(voter->quorum, &event, &voter->actions);
    for (uint32_t i = 0; i < voter->actions.count; i++) {
        const struct action *action = &voter->actions.items[i];
        if (action->kind == ACTION_SEND) {
            asked.answered = true;
            asked.answer = action->as.send.message.as.session_answer;
            ck_assert_uint_eq(action->as.send.to, 2);
        } else {
            /* a mark is durable before it is sent */
            ck_assert_int_eq(action->kind, ACTION_PERSIST_MARK);
            ck_assert(!asked.answered);
            voter->disk.marks[0] = action->as.mark;
            voter->disk.mark_count = 1;
        }
    }
    voter->actions.count = 0;
    return asked;
}

static void stalled(struct cell *cell)
{
    struct quorum_event event = {.kind = QUORUM_STALLED, .now_ns = cell->now_ns};
    cell_step(cell, 0, event);
}

/* A voter whose clock runs too fast must end no session: it would end sessions and lock-delays too
 * early. */
START_TEST(a_clock_that_is_astray_marks_nobody)
{
    struct cell *cell = start();
    for (uint32_t i = 0; i < 8; i++) {
        cell_run(cell, CELL_TTL_NS / 4);
        cell_step(cell, 0, (struct quorum_event){.kind = QUORUM_ASTRAY, .now_ns = cell->now_ns});
    }
    ck_assert(!ask(cell, MESSAGE_MARK, 9).answer.yes);
    cell_run(cell, LONG_TTL_NS + CELL_MS);
    ck_assert(ask(cell, MESSAGE_MARK, 9).answer.yes);
    cell_destroy(cell);
}
END_TEST

START_TEST(only_a_fresh_echo_extends)
{
    struct cell *cell = start();
    struct message_echo none = {0};
    const struct message_renew_ack *ack = renew(cell, 1, 1, none);
    ck_assert(!ack->extended);
    struct message_echo first = ack->echo;
    ack = renew(cell, 1, 2, first);
    ck_assert(ack->extended);
    struct message_echo second = ack->echo;
    /* the voter has already counted the renewal with this echo */
    ck_assert(!renew(cell, 1, 3, first)->extended);
    ck_assert(!renew(cell, 1, 4, none)->extended);
    struct message_echo strange = second;
    strange.incarnation += 2;
    ck_assert(!renew(cell, 1, 5, strange)->extended);
    struct message_echo future = second;
    future.issued_ns += 1000 * CELL_MS;
    ck_assert(!renew(cell, 1, 6, future)->extended);
    ck_assert(renew(cell, 1, 7, second)->extended);
    /* this echo is a ttl old */
    struct message_echo old = renew(cell, 1, 8, none)->echo;
    cell_run(cell, CELL_TTL_NS);
    ck_assert(!renew(cell, 1, 9, old)->extended);
    cell_destroy(cell);
}
END_TEST

/* A restarted voter does not know its earlier echoes. */
START_TEST(echo_of_an_earlier_process)
{
    struct cell *cell = start();
    struct message_echo echo = renew(cell, 1, 1, (struct message_echo){0})->echo;
    cell_kill(cell, 0);
    cell_start(cell, 0);
    ck_assert(!renew(cell, 1, 2, echo)->extended);
    cell_destroy(cell);
}
END_TEST

/* A renewal of epoch 0 asks for the highest epoch that the voter knows: from renewals, marks and
 * grants. After a restart the voter knows it from marks and grants. */
START_TEST(the_highest_epoch_is_told_to_who_asks)
{
    struct cell *cell = start();
    const struct message_echo none = {0};
    ck_assert_uint_eq(renew(cell, 0, 1, none)->ended_epoch, 0);
    struct message_echo echo = renew(cell, 6, 2, none)->echo;
    ck_assert(renew(cell, 6, 3, echo)->extended);
    ck_assert_uint_eq(renew(cell, 0, 4, none)->ended_epoch, 6);
    ck_assert(!renew(cell, 0, 5, echo)->extended);
    cell_run(cell, 1000 * CELL_MS); /* long enough for coordinators to exist */
    for (uint32_t to = 0; to < 3; to++) {
        cell_acquire(cell, 1, to, "granted", 1, 6, MESSAGE_MODE_EXCLUSIVE, 100);
    }
    cell_run(cell, 500 * CELL_MS);
    cell_kill(cell, 0);
    cell_start(cell, 0);
    cell_run(cell, 1000 * CELL_MS); /* long enough for the voter to vote again */
    ck_assert_uint_eq(renew(cell, 0, 6, none)->ended_epoch, 6);
    cell_destroy(cell);
}
END_TEST

/* The renewals of a host arrive, but their answers do not. The session of this host must end. */
START_TEST(one_way_link)
{
    struct cell *cell = start();
    struct message_echo echo = renew(cell, 1, 1, (struct message_echo){0})->echo;
    ck_assert(renew(cell, 1, 2, echo)->extended);
    for (uint64_t id = 3; id < 9; id++) {
        renew(cell, 1, id, echo); /* the host never gets a newer echo */
        cell_run(cell, CELL_TTL_NS / 3);
    }
    ck_assert(ask(cell, MESSAGE_POLL, 1).answer.yes);
    cell_destroy(cell);
}
END_TEST

START_TEST(lapses_long_after_it_was_renewed)
{
    struct cell *cell = start();
    cell_extend(cell, 1, 0, 1);
    int64_t seen_ns = cell->now_ns - 4 * CELL_MS;
    cell_run(cell, seen_ns + LONG_TTL_NS - 10 * CELL_MS - cell->now_ns);
    struct asked asked = ask(cell, MESSAGE_POLL, 1);
    ck_assert(asked.answered && !asked.answer.yes && asked.answer.wait_ns > 0);
    ck_assert(!ask(cell, MESSAGE_MARK, 1).answer.yes);
    cell_run(cell, asked.answer.wait_ns);
    ck_assert(ask(cell, MESSAGE_POLL, 1).answer.yes);
    cell_destroy(cell);
}
END_TEST

/* A poll finds the session lapsed, then a renewal arrives, then the mark. The mark is refused. */
START_TEST(marked_only_if_lapsed_at_that_instant)
{
    struct cell *cell = start();
    struct message_echo echo = renew(cell, 1, 1, (struct message_echo){0})->echo;
    echo = renew(cell, 1, 2, echo)->echo;
    cell_run(cell, LONG_TTL_NS + CELL_MS);
    ck_assert(ask(cell, MESSAGE_POLL, 1).answer.yes);
    echo = renew(cell, 1, 3, echo)->echo;
    ck_assert(renew(cell, 1, 4, echo)->extended);
    ck_assert(!ask(cell, MESSAGE_MARK, 1).answer.yes);
    ck_assert_uint_eq(cell->nodes[0].disk.mark_count, 0);
    cell_destroy(cell);
}
END_TEST

START_TEST(marked_has_ended_for_ever)
{
    struct cell *cell = start();
    struct message_echo echo = renew(cell, 4, 1, (struct message_echo){0})->echo;
    cell_run(cell, LONG_TTL_NS + 10 * CELL_MS);
    ck_assert(ask(cell, MESSAGE_MARK, 4).answer.yes);
    echo = renew(cell, 4, 2, echo)->echo;
    const struct message_renew_ack *ack = renew(cell, 4, 3, echo);
    ck_assert(!ack->extended);
    ck_assert_uint_eq(ack->ended_epoch, 4);
    ck_assert(!renew(cell, 3, 4, ack->echo)->extended);
    cell_kill(cell, 0);
    cell_start(cell, 0);
    ack = renew(cell, 4, 5, (struct message_echo){0});
    ck_assert_uint_eq(ack->ended_epoch, 4);
    ck_assert(!renew(cell, 4, 6, ack->echo)->extended);
    ck_assert(ask(cell, MESSAGE_MARK, 3).answer.yes); /* the mark of epoch 4 includes epoch 3 */
    echo = renew(cell, 5, 7, (struct message_echo){0})->echo;
    ck_assert(renew(cell, 5, 8, echo)->extended);
    cell_destroy(cell);
}
END_TEST

/* A voter that has just started, or stood still, ends no session for one ttl (the bug etcd
 * 15247). */
START_TEST(start_and_stall_renew_everybody)
{
    struct cell *cell = start();
    ck_assert(!ask(cell, MESSAGE_MARK, 9).answer.yes); /* the voter does not know the session yet */
    cell_run(cell, LONG_TTL_NS - 2 * CELL_MS);
    ck_assert(!ask(cell, MESSAGE_MARK, 9).answer.yes);
    stalled(cell);
    cell_run(cell, LONG_TTL_NS - CELL_MS);
    ck_assert(!ask(cell, MESSAGE_MARK, 9).answer.yes);
    cell_run(cell, 2 * CELL_MS);
    ck_assert(ask(cell, MESSAGE_MARK, 9).answer.yes);
    cell_destroy(cell);
}
END_TEST

/* Renews as another agent of the same name. Returns the answer, or NULL if there is none. */
static const struct message *renew_as_twin(struct cell *cell, uint32_t epoch,
                                           struct message_echo echo)
{
    struct message message;
    struct message_rules rules;
    cell->nodes[1].inbox_count = 0;
    cell_header(cell, 1, MESSAGE_RENEW, &message);
    message.store_id[0] = 99;
    message.as.renew.agent = message.from;
    message.as.renew.epoch = epoch;
    message.as.renew.echo = echo;
    message.as.renew.renewal_id = 1;
    quorum_rules(&cell->config, &rules);
    message.as.renew.rules = message_rules_digest(&rules);
    cell_send(cell, 1, 0, &message);
    cell_run(cell, CELL_MS);
    return cell_got(cell, 1, MESSAGE_RENEW_ACK);
}

/* A configuration was copied to a second host. Only one of the two agents gets a session; otherwise
 * both hosts could be granted one lock. */
START_TEST(two_agents_of_one_name_do_not_share_a_session)
{
    struct cell *cell = start();
    const struct message_echo none = {0};
    struct message_echo echo = renew(cell, 6, 1, none)->echo;
    struct message_echo other = renew_as_twin(cell, 6, none)->as.renew_ack.echo;
    ck_assert(renew(cell, 6, 2, echo)->extended);
    ck_assert_ptr_null(renew_as_twin(cell, 6, other));
    other = renew_as_twin(cell, 7, none)->as.renew_ack.echo;
    ck_assert(renew_as_twin(cell, 7, other)->as.renew_ack.extended);
    ck_assert(!renew(cell, 6, 3, echo)->extended);
    cell_destroy(cell);
}
END_TEST

/* Two agents have the same name. The first one is gone, and nobody waits for its locks. Once its
 * session has lapsed, the voter answers the second agent without extending its session, and ends
 * the first one's session. Otherwise the second agent would never get a session. */
START_TEST(the_second_agent_of_a_name_gets_a_session_after_the_first)
{
    struct cell *cell = start();
    const struct message_echo none = {0};
    struct message_echo echo = renew(cell, 6, 1, none)->echo;
    ck_assert(renew(cell, 6, 2, echo)->extended);
    ck_assert_ptr_null(renew_as_twin(cell, 6, none));
    cell_run(cell, 2 * LONG_TTL_NS);
    const struct message *answer = renew_as_twin(cell, 6, none);
    ck_assert_ptr_nonnull(answer);
    ck_assert(!answer->as.renew_ack.extended);
    ck_assert_uint_lt(answer->as.renew_ack.ended_epoch, 6);
    answer = renew_as_twin(cell, 6, answer->as.renew_ack.echo);
    ck_assert_ptr_nonnull(answer);
    ck_assert(!answer->as.renew_ack.extended);
    cell_run(cell, 1000 * CELL_MS);
    answer = renew_as_twin(cell, 6, none);
    ck_assert_ptr_nonnull(answer);
    ck_assert(!answer->as.renew_ack.extended);
    ck_assert_uint_eq(answer->as.renew_ack.ended_epoch, 6);
    cell_destroy(cell);
}
END_TEST

/* A process uses an agent's name, but does not get the voter's answers. It cannot end the agent's
 * session with any epoch, and cannot keep the agent from its next session. */
START_TEST(a_blind_liar_ends_no_session)
{
    struct cell *cell = start();
    const struct message_echo none = {0};
    const struct message_echo guessed = {.incarnation = 12345, .issued_ns = cell->now_ns};
    struct message_echo echo = renew(cell, 6, 1, none)->echo;
    echo = renew(cell, 6, 2, echo)->echo;
    ck_assert(!renew_as_twin(cell, 7, none)->as.renew_ack.extended);
    ck_assert(!renew_as_twin(cell, 7, guessed)->as.renew_ack.extended);
    struct message_echo next = renew(cell, 6, 3, echo)->echo;
    ck_assert(renew(cell, 6, 4, next)->extended);
    echo = renew(cell, 7, 5, none)->echo;
    ck_assert(renew(cell, 7, 6, echo)->extended);
    cell_destroy(cell);
}
END_TEST

/* Invented names do not fill the table of agents: a new agent finds room, and an agent with a
 * session keeps its entry. */
START_TEST(invented_names_fill_no_table)
{
    struct cell *cell = start();
    struct cell_node *voter = &cell->nodes[0];
    const struct message_echo none = {0};
    struct message message;
    struct message_echo echo = renew(cell, 6, 1, none)->echo;
    ck_assert(renew(cell, 6, 2, echo)->extended);
    for (uint32_t i = 0; i < 10 * cell->config.limits.agents; i++) {
        char name[MESSAGE_AGENT_MAX];
        int length = snprintf(name, sizeof(name), "nobody-%u", i);
        cell_header(cell, 1, MESSAGE_RENEW, &message);
        message_agent_set(&message.from, name, (size_t)length);
        message.as.renew.agent = message.from;
        message.as.renew.epoch = i % 3;
        struct message_rules rules;
        quorum_rules(&cell->config, &rules);
        message.as.renew.rules = message_rules_digest(&rules);
        struct quorum_event event = {
            .kind = QUORUM_MESSAGE, .now_ns = cell->now_ns, .random = cell_random(cell)};
        event.as.message = &message;
        quorum_step(voter->quorum, &event, &voter->actions);
        ck_assert_uint_eq(voter->actions.count, 1);
        const struct action_send *send = &voter->actions.items[0].as.send;
        ck_assert_int_eq(send->message.kind, MESSAGE_RENEW_ACK);
        const struct message_agent *to = quorum_agent_name(voter->quorum, send->to);
        ck_assert_mem_eq(to, &message.from, sizeof(*to));
        voter->actions.count = 0;
        quorum_check_invariants(voter->quorum);
    }
    echo = renew(cell, 6, 3, none)->echo;
    ck_assert(renew(cell, 6, 4, echo)->extended);
    /* the voter has not forgotten the epoch */
    ck_assert_uint_eq(renew(cell, 0, 5, none)->ended_epoch, 6);
    cell_destroy(cell);
}
END_TEST

/* A new epoch neither ends older epochs nor keeps them alive. */
START_TEST(older_epoch_lapses_on_its_own)
{
    struct cell *cell = start();
    struct message_echo echo = renew(cell, 1, 1, (struct message_echo){0})->echo;
    echo = renew(cell, 1, 2, echo)->echo;
    cell_run(cell, CELL_TTL_NS);
    ck_assert(!ask(cell, MESSAGE_POLL, 1).answer.yes);
    echo = renew(cell, 2, 3, echo)->echo;
    ck_assert(renew(cell, 2, 4, echo)->extended);
    ck_assert(!renew(cell, 1, 5, echo)->extended);
    ck_assert(!ask(cell, MESSAGE_POLL, 1).answer.yes);
    cell_run(cell, CELL_TTL_NS / 10 + CELL_MS);
    ck_assert(ask(cell, MESSAGE_POLL, 1).answer.yes);
    ck_assert(!ask(cell, MESSAGE_POLL, 2).answer.yes);
    cell_destroy(cell);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("session");
    tcase_add_test(tests, only_a_fresh_echo_extends);
    tcase_add_test(tests, echo_of_an_earlier_process);
    tcase_add_test(tests, one_way_link);
    tcase_add_test(tests, lapses_long_after_it_was_renewed);
    tcase_add_test(tests, marked_only_if_lapsed_at_that_instant);
    tcase_add_test(tests, marked_has_ended_for_ever);
    tcase_add_test(tests, start_and_stall_renew_everybody);
    tcase_add_test(tests, a_clock_that_is_astray_marks_nobody);
    tcase_add_test(tests, older_epoch_lapses_on_its_own);
    tcase_add_test(tests, two_agents_of_one_name_do_not_share_a_session);
    tcase_add_test(tests, the_second_agent_of_a_name_gets_a_session_after_the_first);
    tcase_add_test(tests, a_blind_liar_ends_no_session);
    tcase_add_test(tests, invented_names_fill_no_table);
    tcase_add_test(tests, the_highest_epoch_is_told_to_who_asks);
    return suite_main("session", tests);
}
