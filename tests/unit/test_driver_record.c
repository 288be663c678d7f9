/*
 * The driver while the voters change. The entries for a voter move with the voter to its new index.
 * The host core gets the new record before its next step. The test simulates the quorum core, the
 * host core and the disk.
 */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "driver_rig.h"

#define MS INT64_C(1000000)

static void go_by(uint32_t number, const char *letters)
{
    static const struct step steps[] = {{'v', 0, 0, NO}};
    make_record(number, letters);
    do_plan_alone(steps, 1);
}

/* Fills in the acknowledgement of the last renewal by a voter, under the record in plan_record. */
static void fill_ack(struct message *out, unsigned from)
{
    struct message message;
    message_zero(&message);
    message.kind = MESSAGE_RENEW_ACK;
    message.from = names[from];
    message.number = plan_record.number;
    message.digest = message_voters_digest(&plan_record);
    message.as.renew_ack.agent = names[0];
    message.as.renew_ack.epoch = 1;
    message.as.renew_ack.renewal_id = last_renewal_id;
    message.as.renew_ack.extended = true;
    *out = message;
}

static void acknowledge(unsigned from)
{
    struct message message;
    fill_ack(&message, from);
    driver_received(driver, &message);
}

static struct driver_voters voters(void)
{
    struct driver_voters out;
    driver_voters(driver, &out);
    return out;
}

/* Actions before ACTION_VOTERS in the core's list have the old indexes. */
START_TEST(indexes_change_at_the_action)
{
    static const struct step steps[] = {{'s', MESSAGE_PREPARE, ACTION_VOTER | 1, NO},
                                        {'v', 0, 0, NO},
                                        {'s', MESSAGE_PREPARE, ACTION_VOTER | 2, NO}};
    driver_flush(driver);
    trace[0] = '\0';
    make_record(2, "abc");
    message_agent_set(&plan_record.of[1].name, "aa", 2); /* the voters are now a, aa and b */
    message_agent_set(&plan_record.of[2].name, "b", 1);
    do_plan(steps, 3);
    driver_flush(driver);
    /* renewals of the new round to this agent's own core come last */
    ck_assert_str_eq(trace, "b:prepare record2:aab up7:1 b:prepare aa:renew b:renew own:renew");
    ck_assert_uint_eq(shown_record.number, 2);
}
END_TEST

/* There are three voters, then four, then three. The newcomer sorts before all others, and b's link
 * is down. */
START_TEST(sets_of_voters_follow_the_names)
{
    driver_link(driver, &names[1], false);
    acknowledge(2);
    ck_assert_uint_eq(voters().up, 1 | 4);
    make_record(2, "abco");
    message_agent_set(&plan_record.of[0].name, "A", 1); /* the voters are now A, b, c and o, without
                                                         * a */
    trace[0] = '\0';
    static const struct step steps[] = {{'v', 0, 0, NO}};
    do_plan(steps, 1);
    ck_assert_ptr_nonnull(strstr(trace, "record2:Abco"));
    /* the newcomers and c may get requests; only c answers */
    ck_assert_ptr_nonnull(strstr(trace, "upd:4"));
    driver_link(driver, &names[1], true);
    ck_assert_ptr_nonnull(strstr(trace, "upf:4"));
    trace[0] = '\0';
    go_by(3, "bco");
    ck_assert_ptr_nonnull(strstr(trace, "record3:bco up7:2"));
}
END_TEST

/* A newcomer has a session_ttl to answer, even if this agent has run for longer. */
START_TEST(a_newcomer_has_its_time_to_answer)
{
    now_ns += 20000 * MS;
    driver_tick(driver);
    ck_assert_ptr_nonnull(strstr(trace, "up1:1"));
    go_by(2, "abco");
    ck_assert_ptr_nonnull(strstr(trace, "record2:abco up9:9"));
    now_ns += 5001 * MS;
    driver_tick(driver);
    ck_assert_ptr_nonnull(strstr(trace, "up1:1 "));
}
END_TEST

START_TEST(an_older_record_changes_nothing)
{
    go_by(3, "abco");
    trace[0] = '\0';
    go_by(2, "abc");
    go_by(3, "abc");
    ck_assert_str_eq(trace, "");
    ck_assert_uint_eq(shown_record.count, 4);
}
END_TEST

/* The host core makes no step while messages are received. At its next step it first learns of the
 * record. */
START_TEST(the_host_core_learns_of_the_record_first)
{
    driver_receiving(driver, true);
    go_by(2, "abco");
    receive(MESSAGE_GRANT, 1);
    ck_assert_ptr_null(strstr(trace, "record2"));
    driver_receiving(driver, false);
    ck_assert_ptr_nonnull(strstr(trace, "record2:abco up"));
    ck_assert(strstr(trace, "host:grant") > strstr(trace, "record2"));
    do_frame("r"); /* to b through c */
    ck_assert_ptr_nonnull(strstr(trace, "c:acquire"));
}
END_TEST

/* After its removal a voter may send only the messages of any agent. A newcomer may send those of a
 * voter. */
START_TEST(who_is_no_voter_any_more_is_refused)
{
    go_by(2, "abo");
    trace[0] = '\0';
    receive(MESSAGE_PROMISE, 2);
    ck_assert_str_eq(trace, "message_refused");
    receive(MESSAGE_PROMISE, 3);
    ck_assert_str_eq(trace, "message_refused own:promise");
}
END_TEST

/* When a cell of one voter gets a second one, the first voter's lease depends on the rate of its
 * clock. */
START_TEST(a_clock_that_is_astray_counts_when_others_join)
{
    struct action items[RENEWAL_ACTIONS];
    struct actions actions = {.items = items, .capacity = RENEWAL_ACTIONS};
    struct message message;
    go_by(2, "a");
    fill_ack(&message, 0);
    renewal_acked(renewal, &message, now_ns, &actions); /* the acknowledgement of this agent's own
                                                         * voter */
    int64_t deadline_ns = renewal_deadline_ns(renewal);
    ck_assert_int_gt(deadline_ns, now_ns);
    driver_clock(driver, true);
    ck_assert_int_eq(renewal_deadline_ns(renewal), deadline_ns);
    go_by(3, "ab");
    ck_assert_int_eq(renewal_deadline_ns(renewal), now_ns);
}
END_TEST

/* ---- an observer ---- */

static struct message told;

/* Fills in a message of that agent, whose record has the voters in `letters`. */
static void fill_told(enum message_kind kind, const char *from, uint32_t number,
                      const char *letters)
{
    make_record(number, letters);
    message_zero(&told);
    told.kind = kind;
    message_agent_set(&told.from, from, strlen(from));
    told.number = number;
    told.digest = message_voters_digest(&plan_record);
    if (kind == MESSAGE_VOTERS || kind == MESSAGE_LEARN) {
        message_voters_copy(&told.as.told.voters, &plan_record);
    }
}

static void tell(enum message_kind kind, const char *from, uint32_t number, const char *letters)
{
    fill_told(kind, from, number, letters);
    trace[0] = '\0';
    driver_received(driver, &told);
}

static void be_observer(bool is_unsure)
{
    unsure = is_unsure;
    tear_down();
    make_driver(true);
    unsure = false;
}

/* The record is stored before this agent's next renewals are answered. */
START_TEST(an_observer_goes_by_what_a_voter_tells)
{
    be_observer(false);
    fill_told(MESSAGE_VOTERS, "b", 2, "abcd");
    told.as.told.voters.complete = false;
    trace[0] = '\0';
    driver_received(driver, &told);
    ck_assert_ptr_nonnull(strstr(trace, "record2:abcd"));
    ck_assert_ptr_nonnull(strstr(trace, "d:renew"));
    ck_assert_uint_eq(shown_record.number, 2);
    driver_flush(driver);
    now_ns += 100 * MS;
    driver_flush(driver);
    ck_assert_ptr_nonnull(strstr(trace, "flush"));
    land(NULL);
    trace[0] = '\0';
    driver_received(driver, &told);
    ck_assert_str_eq(trace, "");
    tell(MESSAGE_VOTERS, "b", 1, "abc");
    ck_assert_str_eq(trace, "");
    fill_told(MESSAGE_VOTERS, "b", 2, "abcd");
    told.as.told.voters.complete = true;
    driver_received(driver, &told);
    driver_flush(driver);
    now_ns += 100 * MS;
    driver_flush(driver);
    ck_assert_uint_eq(shown_complete, 0); /* the record is not durable yet */
    land(NULL);
    ck_assert_uint_eq(shown_complete, 2);
}
END_TEST

START_TEST(an_observer_believes_voters_only)
{
    be_observer(false);
    tell(MESSAGE_VOTERS, "p", 2, "op");
    ck_assert_ptr_null(strstr(trace, "record2"));
    tell(MESSAGE_VOTERS, "d", 2, "abcd"); /* a newcomer, which this agent does not know */
    ck_assert_ptr_null(strstr(trace, "record2"));
    tell(MESSAGE_VOTERS, "x", 2, "abcx"); /* a voter of the configuration */
    ck_assert_ptr_nonnull(strstr(trace, "record2:abcx"));
}
END_TEST

START_TEST(an_observer_takes_no_other_cell)
{
    be_observer(false);
    fill_told(MESSAGE_VOTERS, "b", 2, "abcd");
    told.as.told.voters.cell_id[0] = 7;
    driver_received(driver, &told);
    ck_assert_uint_eq(shown_record.number, 2);
    fill_told(MESSAGE_VOTERS, "b", 3, "abc");
    told.as.told.voters.cell_id[0] = 8;
    driver_received(driver, &told);
    ck_assert_uint_eq(shown_record.number, 2);
}
END_TEST

/* A header with a higher number makes the observer ask, at most every 100 ms. */
START_TEST(an_observer_asks_for_a_newer_record)
{
    be_observer(false);
    tell(MESSAGE_RECALL, "b", 2, "abcd");
    ck_assert_str_eq(trace, "b:ask-voters host:recall");
    tell(MESSAGE_RECALL, "b", 2, "abcd");
    ck_assert_str_eq(trace, "host:recall");
    now_ns += 100 * MS;
    tell(MESSAGE_RECALL, "d", 2, "abcd"); /* this message is from a newcomer, so the observer also
                                           * asks a voter that it knows */
    ck_assert_str_eq(trace, "d:ask-voters a:ask-voters");
    tell(MESSAGE_RECALL, "b", 1, "abc");
    ck_assert_str_eq(trace, "host:recall");
}
END_TEST

/* The configuration of a new host may name only one voter of the cell. */
START_TEST(an_observer_that_knows_nothing_yet_asks)
{
    be_observer(true);
    trace[0] = '\0';
    driver_link(driver, &names[1], true);
    ck_assert_ptr_nonnull(strstr(trace, "b:ask-voters"));
    tell(MESSAGE_VOTERS, "b", 1, "abcdefg"); /* another record of number 1 */
    ck_assert_ptr_nonnull(strstr(trace, "record1:abcdefg"));
    tell(MESSAGE_VOTERS, "b", 1, "abc"); /* now the observer is sure of the record */
    ck_assert_str_eq(trace, "");
}
END_TEST

/* An answer to ASK_VOTERS counts as a record that was chosen. An observer whose record is only that
 * of its configuration does not answer. */
START_TEST(an_observer_passes_on_no_record_of_its_configuration)
{
    be_observer(_i == 0);
    fill_told(MESSAGE_ASK_VOTERS, "x", 1, "abc");
    told.as.ask_voters.number = 0;
    trace[0] = '\0';
    driver_received(driver, &told);
    ck_assert_str_eq(trace, _i == 0 ? "" : "x:voters");
}
END_TEST

START_TEST(an_observer_becomes_a_learner)
{
    be_observer(false);
    fill_told(MESSAGE_LEARN, "b", 2, "abcd");
    driver_received(driver, &told);
    ck_assert_ptr_null(strstr(trace, "learner")); /* the message reports that the agent need not
                                                   * learn any more */
    fill_told(MESSAGE_LEARN, "b", 2, "abcd");
    told.as.told.learn = true;
    trace[0] = '\0';
    driver_received(driver, &told);
    ck_assert_str_eq(trace, "learner own:learn");
    tell(MESSAGE_LEARN, "b", 2, "abcd"); /* the core gets these messages from now on */
    ck_assert_str_eq(trace, "own:learn");
    tell(MESSAGE_VOTERS, "b", 3, "abco");
    ck_assert_str_eq(trace, "own:voters");
}
END_TEST

/* A voter of the configuration that is no voter any more may know a newer record. The observer asks
 * it again and again, because a question may be lost. */
START_TEST(the_voters_of_the_configuration_are_asked)
{
    struct message_agent written;
    be_observer(false);
    message_agent_set(&written, "x", 1);
    trace[0] = '\0';
    driver_link(driver, &written, true);
    driver_link(driver, &names[4], true); /* the observer asks no other agent */
    ck_assert_str_eq(trace, "x:ask-voters");
    for (int i = 0; i < 2; i++) {
        trace[0] = '\0';
        now_ns += 2000 * MS;
        driver_tick(driver);
        ck_assert_ptr_nonnull(strstr(trace, "x:ask-voters"));
        trace[0] = '\0';
        driver_tick(driver);
        ck_assert_ptr_null(strstr(trace, "x:ask-voters"));
    }
}
END_TEST

/* The driver logs no warning about an agent with another record. The quorum core compares the
 * records. */
START_TEST(who_goes_by_another_record_is_compared)
{
    tell(MESSAGE_HEARTBEAT, "d", 2, "abcd");
    ck_assert_str_eq(trace, "");
    tell(MESSAGE_PROMISE, "d", 2, "abcd");
    ck_assert_str_eq(trace, "own:promise");
    tell(MESSAGE_RECALL, "d", 2, "abcd");
    ck_assert_str_eq(trace, "");
    tell(MESSAGE_PROMISE, "d", 1, "abc");
    ck_assert_str_eq(trace, "message_refused");
    tell(MESSAGE_CHANGE_ACCEPTED, "d", 1, "abc");
    ck_assert_str_eq(trace, "own:change-accepted");
    tell(MESSAGE_MEMBERED, "b", 1, "abc");
    ck_assert_str_eq(trace, "host:membered");
}
END_TEST

/* A recovery of the cell ends the session. The next session's epoch is stored in the same commit as
 * the record, so no agent uses the record and continues the old session. */
START_TEST(a_recovery_ends_the_session_in_the_commit_of_the_record)
{
    static const struct step steps[] = {{'m', 0, 0, NO}, {'v', 0, 0, NO}};
    const struct driver_record *record;
    size_t at = 0;
    unsigned rows = 0;
    unsigned epochs = 0;
    driver_flush(driver);
    make_record(MESSAGE_NUMBERS, "a");
    driver_receiving(driver, _i != 0);
    do_plan(steps, 2);
    driver_flush(driver);
    ck_assert(_i == 0 || disk.flying == NULL);
    driver_receiving(driver, false);
    driver_flush(driver);
    ck_assert_ptr_nonnull(disk.flying);
    while ((record = driver_batch_next(disk.flying, &at)) != NULL) {
        rows += record->kind == DRIVER_ACTION; /* this kind stands for the record's row */
        epochs += record->kind == DRIVER_EPOCH;
        ck_assert(record->kind != DRIVER_EPOCH || record->as.epoch == 2);
    }
    ck_assert_uint_eq(rows, 1);
    ck_assert_uint_eq(epochs, 1);
    ck_assert_int_eq(renewal_state(renewal, now_ns), RENEWAL_LOST);
    land(NULL);
    ck_assert_uint_eq(renewal_epoch(renewal), 2);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("driver_record");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, indexes_change_at_the_action);
    tcase_add_test(tests, sets_of_voters_follow_the_names);
    tcase_add_test(tests, a_newcomer_has_its_time_to_answer);
    tcase_add_test(tests, an_older_record_changes_nothing);
    tcase_add_test(tests, the_host_core_learns_of_the_record_first);
    tcase_add_test(tests, who_is_no_voter_any_more_is_refused);
    tcase_add_test(tests, a_clock_that_is_astray_counts_when_others_join);
    tcase_add_test(tests, an_observer_goes_by_what_a_voter_tells);
    tcase_add_test(tests, an_observer_believes_voters_only);
    tcase_add_test(tests, an_observer_takes_no_other_cell);
    tcase_add_test(tests, an_observer_asks_for_a_newer_record);
    tcase_add_test(tests, an_observer_that_knows_nothing_yet_asks);
    tcase_add_loop_test(tests, an_observer_passes_on_no_record_of_its_configuration, 0, 2);
    tcase_add_test(tests, an_observer_becomes_a_learner);
    tcase_add_test(tests, the_voters_of_the_configuration_are_asked);
    tcase_add_test(tests, who_goes_by_another_record_is_compared);
    tcase_add_loop_test(tests, a_recovery_ends_the_session_in_the_commit_of_the_record, 0, 2);
    return suite_main("driver_record", tests);
}
