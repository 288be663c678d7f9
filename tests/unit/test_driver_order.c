/*
 * Which messages wait for the disk in a cell of several voters. The test plays the quorum core, the
 * host core and the disk.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "../suite_main.h"
#include "driver_rig.h"

START_TEST(a_proposal_goes_out_while_the_own_disk_is_written)
{
    static const struct step steps[] = {{'p', 0, 0, NO},
                                        {'s', MESSAGE_ACCEPT, 1, NO},
                                        {'s', MESSAGE_ACCEPT, 2, NO},
                                        {'s', MESSAGE_ACCEPTED, 0, NO}};
    do_plan(steps, 4);
    ck_assert_str_eq(trace, "b:accept c:accept");
    driver_flush(driver);
    ck_assert_str_eq(trace, "b:accept c:accept flush");
    receive(MESSAGE_ACCEPTED, 1); /* the core gets another voter's vote at once */
    ck_assert_str_eq(trace, "b:accept c:accept flush own:accepted");
    land(NULL); /* the core gets this agent's own vote when that vote is durable */
    ck_assert_str_eq(trace, "b:accept c:accept flush own:accepted durable own:accepted");
}
END_TEST

START_TEST(a_proposal_during_a_flush_goes_out_when_it_is_done)
{
    static const struct step first[] = {{'p', 0, 0, NO}, {'s', MESSAGE_ACCEPTED, 0, NO}};
    static const struct step second[] = {{'p', 0, 0, NO}, {'s', MESSAGE_ACCEPT, 1, NO}};
    do_plan(first, 2);
    driver_flush(driver);
    do_plan(second, 2);
    driver_flush(driver);
    ck_assert_str_eq(trace, "flush");
    land(NULL);
    ck_assert_str_eq(trace, "flush durable b:accept own:accepted");
}
END_TEST

START_TEST(what_nobody_waits_for_goes_a_little_later)
{
    static const struct step steps[] = {{'s', MESSAGE_ACCEPT, 1, NO}, {'l', MESSAGE_ACCEPT, 2, NO}};
    do_plan(steps, 2);
    driver_flush(driver);
    int64_t due_ns = driver_next_ns(driver);
    ck_assert_int_gt(due_ns, now_ns);
    ck_assert_int_le(due_ns, now_ns + 20000000);
    now_ns = due_ns - 1;
    do_plan(steps, 2); /* this plan's message to c leaves together with the first plan's */
    driver_flush(driver);
    ck_assert_str_eq(trace, "b:accept b:accept");
    now_ns = due_ns;
    driver_tick(driver);
    driver_flush(driver);
    ck_assert_str_eq(trace, "b:accept b:accept c:accept c:accept");
    ck_assert_int_gt(driver_next_ns(driver), due_ns);
}
END_TEST

/* A voter that follows a checkpoint must have the values that were chosen before it. */
START_TEST(a_checkpoint_does_not_overtake_what_goes_later)
{
    static const struct step steps[] = {{'l', MESSAGE_ACCEPT, 2, NO},
                                        {'s', MESSAGE_CHECKPOINT, 1, NO},
                                        {'s', MESSAGE_CHECKPOINT, 2, NO}};
    do_plan(steps, 3);
    driver_flush(driver);
    ck_assert_str_eq(trace, "c:accept b:checkpoint c:checkpoint");
    ck_assert_int_gt(driver_next_ns(driver), now_ns + 20000000);
}
END_TEST

START_TEST(there_is_never_much_that_goes_later)
{
    static const struct step step[] = {{'l', MESSAGE_ACCEPT, 2, NO}};
    for (unsigned i = 0; i < 63; i++) {
        do_plan(step, 1);
    }
    driver_flush(driver);
    ck_assert_str_eq(trace, "");
    do_plan(step, 1);
    driver_flush(driver);
    ck_assert_uint_eq(strlen(trace), 64 * strlen("c:accept ") - 1);
}
END_TEST

START_TEST(a_row_that_nothing_waits_for_is_written_with_others_or_a_little_later)
{
    static const struct step row[] = {{'p', 0, 0, NO}};
    static const struct step answer[] = {{'s', MESSAGE_ACCEPTED, 1, NO}};
    do_plan(row, 1);
    driver_flush(driver);
    do_plan(answer, 1);
    ck_assert_str_eq(trace, "");
    driver_flush(driver);
    land(NULL);
    ck_assert_str_eq(trace, "flush durable b:accepted");
    do_plan(row, 1);
    driver_flush(driver);
    ck_assert_str_eq(trace, "flush durable b:accepted");
    int64_t due_ns = driver_next_ns(driver);
    ck_assert_int_gt(due_ns, now_ns);
    ck_assert_int_le(due_ns, now_ns + 20000000);
    now_ns = due_ns;
    driver_tick(driver);
    driver_flush(driver);
    ck_assert_str_eq(trace, "flush durable b:accepted flush");
}
END_TEST

START_TEST(a_promise_waits_for_the_batch_that_it_is_in)
{
    static const struct step first[] = {{'m', 0, 0, NO}, {'s', MESSAGE_PROMISE, 1, NO}};
    static const struct step second[] = {{'p', 0, 0, NO}, {'s', MESSAGE_ACCEPTED, 2, NO}};
    do_plan(first, 2);
    driver_flush(driver);
    do_plan(second, 2); /* the first flush is still under way */
    driver_flush(driver);
    ck_assert_str_eq(trace, "flush");
    land(NULL);
    ck_assert_str_eq(trace, "flush durable b:promise");
    ck_assert_uint_eq(last_sent.commit, 1); /* the commit on which the message depends */
    driver_flush(driver);
    land(NULL);
    ck_assert_str_eq(trace, "flush durable b:promise flush durable c:accepted");
    ck_assert_uint_eq(last_sent.commit, 2);
    driver_flush(driver);
    ck_assert_ptr_null(disk.flying);
}
END_TEST

/* Each of these messages claims that something is on the sender's disk. If a PREPARE left before
 * its round was durable, a process after a crash could use the same ballot again. If a mark were
 * sent and then forgotten, one majority could acknowledge a session that another majority has
 * ended. */
START_TEST(what_says_that_it_is_on_the_disk_leaves_when_it_is)
{
    static const enum message_kind kinds[] = {
        MESSAGE_PREPARE,   MESSAGE_PROMISE, MESSAGE_VALUE,       MESSAGE_ACCEPTED,
        MESSAGE_POLLED,    MESSAGE_MARKED,  MESSAGE_RENEW_ACK,   MESSAGE_HELLO,
        MESSAGE_HELLO_ACK, MESSAGE_SYNCED,  MESSAGE_CHECKPOINTED};
    const struct step steps[] = {{'m', 0, 0, NO}, {'s', kinds[_i], 1, NO}};
    char after[64];
    do_plan(steps, 2);
    ck_assert_str_eq(trace, "");
    driver_flush(driver);
    driver_tick(driver);
    ck_assert_str_eq(trace, "flush");
    land(NULL);
    snprintf(after, sizeof(after), "flush durable b:%s", word_of(kinds[_i]));
    ck_assert_str_eq(trace, after);
}
END_TEST

START_TEST(what_has_nothing_to_persist_waits_for_what_is_on_its_way)
{
    static const struct step first[] = {{'p', 0, 0, NO}, {'s', MESSAGE_ACCEPTED, 2, NO}};
    static const struct step second[] = {{'s', MESSAGE_ACCEPTED, 1, NO}};
    do_plan(first, 2);
    driver_flush(driver);
    do_plan(second, 1); /* this plan repeats an answer about a row that is not durable yet */
    ck_assert_str_eq(trace, "flush");
    land(NULL);
    ck_assert_str_eq(trace, "flush durable c:accepted b:accepted");
}
END_TEST

/* Ends the flush that is under way. Returns whether its batch was alone (driver_is_alone()). */
static bool was_alone(void)
{
    driver_flush(driver);
    ck_assert_ptr_nonnull(disk.flying);
    bool alone = driver_is_alone(driver, disk.flying);
    land(NULL);
    return alone;
}

START_TEST(a_batch_is_alone_if_all_that_goes_on_is_about_its_name)
{
    static const struct step accepted[] = {{'p', 0, 0, 0}, {'s', MESSAGE_ACCEPTED, 1, NO}};
    static const struct step other[] = {{'q', 0, 0, 0}, {'s', MESSAGE_ACCEPTED, 1, NO}};
    static const struct step promise[] = {{'m', 0, 0, 0}, {'s', MESSAGE_PROMISE, 1, NO}};
    asks_only = decides_only = true;
    do_plan(accepted, 2);
    ck_assert(was_alone());
    do_frame("s");
    do_plan(accepted, 2); /* a slot and a register of one name */
    ck_assert(was_alone());
    do_frame("s");
    do_plan(other, 2); /* rows of two names */
    ck_assert(!was_alone());
    do_plan(promise, 2); /* a promise: a row of no name */
    ck_assert(!was_alone());
    do_frame("s");
    do_plan(promise, 2); /* a row of one name and a row of no name */
    ck_assert(!was_alone());
    asks_only = false;
    do_plan(accepted, 2);
    ck_assert(!was_alone());
    asks_only = true;
    decides_only = false;
    do_plan(accepted, 2);
    ck_assert(!was_alone());
}
END_TEST

START_TEST(a_failed_commit_sends_nothing_that_waits)
{
    static const struct step steps[] = {
        {'m', 0, 0, NO}, {'s', MESSAGE_PROMISE, 1, NO}, {'s', MESSAGE_ACCEPTED, 0, NO}};
    do_plan(steps, 3);
    driver_flush(driver);
    land("disk on fire");
    receive(MESSAGE_ACCEPTED, 1);
    driver_flush(driver);
    driver_tick(driver);
    ck_assert_str_eq(trace, "flush durable");
    ck_assert_str_eq(driver_failed(driver), "store: disk on fire");
}
END_TEST

START_TEST(an_own_reading_waits_for_the_promise_alone)
{
    static const struct step promised[] = {{'m', 0, 0, NO}, {'s', MESSAGE_VALUE, 0, NO}};
    static const struct step accepted[] = {
        {'p', 0, 0, NO}, {'s', MESSAGE_VALUE, 0, NO}, {'s', MESSAGE_VALUE, 1, NO}};
    do_plan(promised, 2);
    driver_flush(driver);
    ck_assert_str_eq(trace, "flush");
    land(NULL);
    ck_assert_str_eq(trace, "flush durable own:value");
    do_plan(accepted, 3);
    ck_assert_str_eq(trace, "flush durable own:value own:value");
    driver_flush(driver);
    land(NULL);
    ck_assert_str_eq(trace, "flush durable own:value own:value flush durable b:value");
}
END_TEST

START_TEST(a_grant_waits_for_the_slots_row_and_a_recall_for_the_grant)
{
    do_frame("sb");
    ck_assert_str_eq(trace, "b:acquire"); /* a request to a coordinator waits for nothing */
    driver_flush(driver);
    receive(MESSAGE_RECALL, 2); /* a recall of another lock */
    receive(MESSAGE_GRANT, 1);
    driver_flush(driver);
    receive(MESSAGE_RECALL, 1);
    ck_assert_str_eq(trace, "b:acquire host:recall flush");
    land(NULL);
    ck_assert_str_eq(trace, "b:acquire host:recall flush durable host:grant host:recall");
    receive(MESSAGE_GRANT, 1);
    ck_assert_str_eq(trace,
                     "b:acquire host:recall flush durable host:grant host:recall host:grant");
}
END_TEST

START_TEST(a_give_back_waits_for_the_slots_row)
{
    do_frame("sg");
    driver_flush(driver);
    ck_assert_str_eq(trace, "flush");
    land(NULL);
    ck_assert_str_eq(trace, "flush durable b:give-back");
}
END_TEST

START_TEST(a_grant_waits_for_no_other_row)
{
    static const struct step steps[] = {{'p', 0, 0, NO}, {'s', MESSAGE_GRANT, 0, NO}};
    do_plan(steps, 2);
    ck_assert_str_eq(trace, "host:grant");
}
END_TEST

START_TEST(relays)
{
    static const struct step steps[] = {{'s', MESSAGE_RECALL, 3, 2}, {'s', MESSAGE_RECALL, 3, 0}};
    struct message message;
    do_plan(steps, 1);
    ck_assert_str_eq(trace, "c:recall");
    ck_assert_str_eq(last_sent.to.text, "o");
    do_plan(&steps[1], 1); /* this agent is the relay, so it sends straight to o */
    ck_assert_str_eq(trace, "c:recall o:recall");
    do_frame("r");
    ck_assert_str_eq(trace, "c:recall o:recall c:acquire");
    ck_assert_str_eq(last_sent.to.text, "b");
    message_zero(&message);
    message.kind = MESSAGE_RECALL;
    message.from = names[1];
    message.to = names[3];
    driver_received(driver, &message); /* another agent's message is passed on, once */
    ck_assert_str_eq(trace, "c:recall o:recall c:acquire o:recall");
    ck_assert(last_sent.relayed);
    message.relayed = true;
    driver_received(driver, &message);
    message.relayed = false;
    message.kind = MESSAGE_ACCEPT; /* a message between voters is not passed on */
    driver_received(driver, &message);
    ck_assert_str_eq(trace, "c:recall o:recall c:acquire o:recall");
    message.kind = MESSAGE_RECALL;
    message.to = names[0];
    message.relayed = true;
    driver_received(driver, &message);
    ck_assert_str_eq(trace, "c:recall o:recall c:acquire o:recall host:recall");
}
END_TEST

static unsigned told; /* how often the log reported a refused message */

/* Gives the driver a request to another voter, from names[from], in the name of names[who]. Returns
 * whether the driver passed it on. */
static bool passes_on(enum message_kind kind, unsigned from, unsigned who)
{
    struct message message;
    message_zero(&message);
    struct message_agent *named = kind == MESSAGE_ACQUIRE     ? &message.as.acquire.agent
                                  : kind == MESSAGE_AMEND     ? &message.as.amend.agent
                                  : kind == MESSAGE_GIVE_BACK ? &message.as.give_back.agent
                                  : kind == MESSAGE_BREAK     ? &message.as.break_lock.agent
                                                              : &message.as.check.agent;
    message.kind = kind;
    message.from = names[from];
    message.to = names[2];
    *named = names[who];
    trace[0] = '\0';
    driver_received(driver, &message);
    told += strcmp(trace, "message_refused") == 0;
    return trace[0] != '\0' && strcmp(trace, "message_refused") != 0;
}

/* A voter believes what another voter passes on, including the name of the asking host. Without
 * this check, an agent that is no voter could give back another host's lock. */
START_TEST(a_request_is_passed_on_in_its_senders_name_only)
{
    static const enum message_kind kinds[] = {MESSAGE_ACQUIRE, MESSAGE_AMEND, MESSAGE_GIVE_BACK,
                                              MESSAGE_BREAK, MESSAGE_CHECK};
    static const unsigned senders[] = {1, 3}; /* a voter, an observer */
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        for (size_t k = 0; k < sizeof(senders) / sizeof(senders[0]); k++) {
            for (unsigned who = 0; who < 5; who++) {
                ck_assert_msg(passes_on(kinds[i], senders[k], who) == (who == senders[k]),
                              "%s of %u in the name of %u", word_of(kinds[i]), senders[k], who);
            }
        }
    }
    ck_assert_uint_eq(told, 2); /* one line in a minute for each sender */
}
END_TEST

/* Returns whether this agent, a voter, passes on the BROKEN that `from` sends to another agent. */
static bool passes_broken_on(enum message_broken_part part, unsigned from, unsigned owner)
{
    struct message message;
    message_zero(&message);
    message.kind = MESSAGE_BROKEN;
    message.from = names[from];
    message.to = names[2];
    message.as.broken.agent = names[2];
    message.as.broken.request_id = 7;
    message.as.broken.part = (uint8_t)part;
    if (part == MESSAGE_BROKEN_HOLDS) {
        message.as.broken.owner = names[owner];
    }
    trace[0] = '\0';
    driver_received(driver, &message);
    return trace[0] != '\0' && strcmp(trace, "message_refused") != 0;
}

/* A host trusts the messages that a voter passes on. So a voter passes on a list of owners only
 * from a voter, and a report of holds only from the owner of these holds. */
START_TEST(an_answer_to_a_break_is_passed_on_in_its_senders_name_only)
{
    ck_assert(passes_broken_on(MESSAGE_BROKEN_OWNERS, 1, 1));
    ck_assert(!passes_broken_on(MESSAGE_BROKEN_OWNERS, 3, 3)); /* an observer */
    ck_assert(passes_broken_on(MESSAGE_BROKEN_HOLDS, 3, 3));
    ck_assert(!passes_broken_on(MESSAGE_BROKEN_HOLDS, 3, 1));
    ck_assert(!passes_broken_on(MESSAGE_BROKEN_HOLDS, 1, 3));
    ck_assert(passes_broken_on(MESSAGE_BROKEN_PLAIN, 3, 3));
}
END_TEST

START_TEST(only_voters_say_what_voters_say)
{
    static const enum message_kind kinds[] = {MESSAGE_PROMISE, MESSAGE_ACCEPTED, MESSAGE_ACCEPT,
                                              MESSAGE_GRANT, MESSAGE_RECALL};
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        receive(kinds[i], 3);
        receive(kinds[i], 0); /* as if from this agent itself, over the network */
    }
    ck_assert_str_eq(trace, "message_refused");
    trace[0] = '\0';
    receive(MESSAGE_ACQUIRE, 3);
    ck_assert_str_eq(trace, "own:acquire");
}

/* A request that comes straight from an observer must be in the observer's own name, too. */
START_TEST(nobody_without_a_vote_asks_for_another)
{
    struct message message;
    message_zero(&message);
    message.kind = MESSAGE_ACQUIRE;
    message.from = names[3];
    message.as.acquire.agent = names[1];
    driver_received(driver, &message);
    driver_received(driver, &message);
    ck_assert_str_eq(trace, "message_refused");
    ck_assert_int_eq(logged_number, 1);
    now_ns += 61 * INT64_C(1000000000);
    driver_received(driver, &message);
    ck_assert_str_eq(trace, "message_refused message_refused");
    ck_assert_int_eq(logged_number, 2);
}
END_TEST

static void answer_of_b(enum message_kind kind, enum message_voter_status status)
{
    struct message message;
    message_zero(&message);
    message.kind = kind;
    message.from = names[1];
    if (kind == MESSAGE_RENEW_ACK) {
        message.as.renew_ack.agent = renewal_header(renewal)->from;
        message.as.renew_ack.epoch = 1;
        message.as.renew_ack.renewal_id = last_renewal_id;
    } else {
        message.as.hello.status = status;
        message.as.hello.rules.voter_count = 3;
        memcpy(message.as.hello.rules.voters, names, 3 * sizeof(names[0]));
        message.as.hello.rules.session_ttl_ns = 5000000000;
    }
    driver_received(driver, &message);
}

/* In the trace, "up" has the bits of the voters that may be asked, then of the voters that
 * answered, then of those whose link came up. */
START_TEST(the_host_core_is_told_which_voters_there_are)
{
    driver_link(driver, &names[2], false);
    ck_assert_str_eq(trace, "up3:1");
    driver_link(driver, &names[2], true);
    ck_assert_str_eq(trace, "up3:1 up7:1+4");
    driver_link(driver, &names[2], true); /* the link came back before it was seen as down */
    ck_assert_str_eq(trace, "up3:1 up7:1+4 up7:1+4");
    trace[0] = '\0';
    answer_of_b(MESSAGE_RENEW_ACK, 0);
    ck_assert_ptr_nonnull(strstr(trace, "up7:3"));
    while (now_ns < 10000000000) { /* no voter answers any more */
        now_ns = driver_next_ns(driver);
        driver_tick(driver);
        driver_flush(driver);
    }
    ck_assert_ptr_nonnull(strstr(trace, " up1:1"));
}
END_TEST

/* Checks the state of voter b that people see. */
static void b_is(bool up, bool refused)
{
    struct driver_voters voters;
    driver_voters(driver, &voters);
    ck_assert_uint_eq(voters.up & 2, up ? 2 : 0);
    ck_assert_uint_eq(voters.refused, refused ? 2 : 0);
}

/* A voter that answers without a vote is not shown as up, whatever it acknowledged before. A voter
 * that has reported that it votes is shown as one that may not vote, not as down, until its first
 * vote. */
START_TEST(who_starts_over_is_shown_as_one_that_may_not_vote)
{
    driver_link(driver, &names[1], true);
    status_of_b = MESSAGE_STATUS_REJOINING;
    answer_of_b(MESSAGE_HELLO, MESSAGE_STATUS_REJOINING);
    b_is(false, true);
    status_of_b = MESSAGE_STATUS_VOTING;
    answer_of_b(MESSAGE_HELLO, MESSAGE_STATUS_VOTING);
    b_is(false, true);
    answer_of_b(MESSAGE_RENEW_ACK, 0);
    b_is(true, false);
    driver_destroy(driver);
    make_driver(true);
    answer_of_b(MESSAGE_RENEW_ACK, 0);
    b_is(true, false);
    driver_link(driver, &names[1], false);
    b_is(false, false);
    now_ns += 1000000;
    driver_link(driver, &names[1], true);
    b_is(false, false);
    answer_of_b(MESSAGE_HELLO_ACK, MESSAGE_STATUS_REJOINING);
    ck_assert(driver_starts_over(driver, 1) && !driver_starts_over(driver, 2));
    b_is(false, true);
    driver_link(driver, &names[1], false); /* a voter whose link is broken is shown as down only */
    b_is(false, false);
    driver_link(driver, &names[1], true);
    answer_of_b(MESSAGE_RENEW_ACK, 0);
    b_is(true, false);
}
END_TEST

START_TEST(the_quorum_core_is_told_who_is_reached)
{
    driver_link(driver, &names[2], true);
    driver_link(driver, &names[3], false);
    driver_link(driver, &names[0], true);
    ck_assert_str_eq(reached, "c");
    driver_link(driver, &names[3], true); /* o is no voter */
    ck_assert_str_eq(reached, "co");
}
END_TEST

static void answer_renewal(unsigned voter, bool extended)
{
    struct message message;
    message_zero(&message);
    message.kind = MESSAGE_RENEW_ACK;
    message.from = names[voter];
    message.as.renew_ack.agent = names[0];
    message.as.renew_ack.epoch = 1;
    message.as.renew_ack.renewal_id = last_renewal_id;
    message.as.renew_ack.extended = extended;
    driver_received(driver, &message);
}

/* While the host core is held up, another thread (the keeper) renews the session. Of the messages
 * that arrive, the keeper takes only renewals and their answers. */
START_TEST(while_the_host_core_is_held_up_renewals_go_on)
{
    struct message_agent *b = &names[1];
    now_ns += renewal_ttl_ns(renewal) / 2;
    driver_keep_begin(driver);
    driver_keep(driver);
    ck_assert_str_eq(trace, "b:renew c:renew kept:renew");
    trace[0] = '\0';
    receive(MESSAGE_RENEW, 4);
    ck_assert_str_eq(trace, "kept:renew");
    trace[0] = '\0';
    receive(MESSAGE_RECALL, 1);
    receive(MESSAGE_PREPARE, 1);
    receive(MESSAGE_ACQUIRE, 4);
    driver_received_gossip(driver, b, "x", 1);
    driver_link(driver, b, false);
    ck_assert_str_eq(trace, "");
    ck_assert_int_eq(renewal_deadline_ns(renewal), 0);
    answer_renewal(1, true);
    answer_renewal(2, true);
    ck_assert_int_gt(renewal_deadline_ns(renewal), now_ns);
    driver_keep_end(driver);
    ck_assert_str_eq(trace, "");
    driver_flush(driver); /* the driver now learns of the broken link */
    ck_assert_str_eq(trace, "up5:5");
}
END_TEST

/* The driver makes no step of the host core while it reads packets. */
START_TEST(the_host_core_waits_until_what_arrived_is_read)
{
    driver_receiving(driver, true);
    receive(MESSAGE_RECALL, 1);
    driver_link(driver, &names[1], false);
    receive(MESSAGE_ACCEPTED, 2);
    driver_flush(driver);
    ck_assert_str_eq(trace, "own:accepted");
    driver_receiving(driver, false);
    ck_assert_str_eq(trace, "own:accepted up5:1 host:recall");
}
END_TEST

START_TEST(an_observer_has_no_vote)
{
    driver_destroy(driver);
    make_driver(true);
    receive(MESSAGE_ACCEPT, 1);
    receive(MESSAGE_ACQUIRE, 4);
    ck_assert_str_eq(trace, "");
    do_frame("A");
    ck_assert_str_eq(trace, "a:acquire");
    ck_assert_str_eq(last_sent.from.text, "o");
    receive(MESSAGE_GRANT, 0);
    ck_assert_str_eq(trace, "a:acquire host:grant");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("driver_order");
    TCase *order = tcase_create("order");
    tcase_add_checked_fixture(order, set_up, tear_down);
    tcase_add_test(order, a_proposal_goes_out_while_the_own_disk_is_written);
    tcase_add_test(order, a_proposal_during_a_flush_goes_out_when_it_is_done);
    tcase_add_test(order, what_nobody_waits_for_goes_a_little_later);
    tcase_add_test(order, a_checkpoint_does_not_overtake_what_goes_later);
    tcase_add_test(order, there_is_never_much_that_goes_later);
    tcase_add_test(order, a_row_that_nothing_waits_for_is_written_with_others_or_a_little_later);
    tcase_add_test(order, a_promise_waits_for_the_batch_that_it_is_in);
    tcase_add_loop_test(order, what_says_that_it_is_on_the_disk_leaves_when_it_is, 0, 11);
    tcase_add_test(order, what_has_nothing_to_persist_waits_for_what_is_on_its_way);
    tcase_add_test(order, a_batch_is_alone_if_all_that_goes_on_is_about_its_name);
    tcase_add_test(order, a_failed_commit_sends_nothing_that_waits);
    tcase_add_test(order, an_own_reading_waits_for_the_promise_alone);
    tcase_add_test(order, a_grant_waits_for_the_slots_row_and_a_recall_for_the_grant);
    tcase_add_test(order, a_give_back_waits_for_the_slots_row);
    tcase_add_test(order, a_grant_waits_for_no_other_row);
    tcase_add_test(order, relays);
    tcase_add_test(order, a_request_is_passed_on_in_its_senders_name_only);
    tcase_add_test(order, an_answer_to_a_break_is_passed_on_in_its_senders_name_only);
    tcase_add_test(order, only_voters_say_what_voters_say);
    tcase_add_test(order, nobody_without_a_vote_asks_for_another);
    tcase_add_test(order, the_host_core_is_told_which_voters_there_are);
    tcase_add_test(order, who_starts_over_is_shown_as_one_that_may_not_vote);
    tcase_add_test(order, the_quorum_core_is_told_who_is_reached);
    tcase_add_test(order, while_the_host_core_is_held_up_renewals_go_on);
    tcase_add_test(order, the_host_core_waits_until_what_arrived_is_read);
    tcase_add_test(order, an_observer_has_no_vote);
    suite_add_tcase(suite, order);
    return suite_run(suite);
}
