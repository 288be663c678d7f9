/* When a change of the voters is complete, and which ballots go on under the next number.
 * test_voters.c has the other tests of changes. */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "voters_asks.h"

enum { LONG_MS = RIG_TTL_MS * 11 / 10 };

/* Runs until all of the first three nodes know that the number is complete. Returns how long that
 * takes, in ms. */
static int64_t await_complete(uint32_t number)
{
    int64_t since_ns = rig->now_ns;
    for (uint32_t i = 0; i < 3; i++) {
        while (rig_number(rig, i) != number || !quorum_voters(rig->nodes[i].quorum)->complete) {
            rig_run(rig, 10);
            ck_assert_int_lt(rig->now_ns - since_ns, 20000 * RIG_MS);
        }
    }
    return (rig->now_ns - since_ns) / RIG_MS;
}

static int64_t move(uint32_t voter)
{
    uint32_t number = rig_number(rig, 0);
    struct message_membered answer = change(0, MESSAGE_MEMBER_MOVE, voter, MESSAGE_CHANGE_CHOSEN);
    ck_assert_int_eq(answer.stage, MESSAGE_CHANGE_CHOSEN);
    return await_complete(number + 1);
}

/* The first two changes count the sessions as renewed, and wait for nothing. The third one waits
 * for a ttl, and no other change is accepted meanwhile. */
START_TEST(two_changes_wait_for_no_ttl)
{
    begin(5, 17);
    ck_assert_int_lt(move(1), RIG_TTL_MS / 4);
    ck_assert_int_lt(move(2), RIG_TTL_MS / 4);
    int64_t asked_ns = rig->now_ns;
    struct message_membered answer = change(0, MESSAGE_MEMBER_MOVE, 3, MESSAGE_CHANGE_CHOSEN);
    ck_assert_int_eq(answer.stage, MESSAGE_CHANGE_CHOSEN);
    while (!quorum_voters(rig->nodes[0].quorum)->complete) {
        ck_assert_int_eq(ask_with(0, 9, MESSAGE_MEMBER_MOVE, 4, 4).reason,
                         MESSAGE_CHANGE_INCOMPLETE);
        rig_run(rig, 50);
        ck_assert_int_lt(rig->now_ns - asked_ns, 30000 * RIG_MS);
    }
    ck_assert_int_gt(rig->now_ns - asked_ns, LONG_MS * RIG_MS);
    rig_run(rig, 2 * LONG_MS);
    ck_assert_int_lt(move(4), RIG_TTL_MS / 4);
}
END_TEST

/* Removes voter 2. Only node 0 learns of that until the test clears no_voters. */
static void remove_unheard(uint32_t number)
{
    rig->no_voters = true;
    while (rig_number(rig, 0) != number) {
        struct message member = rig_message(rig, 0, MESSAGE_MEMBER);
        member.as.member = (struct message_member_asked){.agent = member.from,
                                                         .request_id = 5000,
                                                         .act = MESSAGE_MEMBER_REMOVE,
                                                         .voter = rig_name(2)};
        rig_give(rig, 0, &member);
        rig_run(rig, 1);
    }
}

/* m14: the ttl begins when a majority of the previous number uses the new number, not when the new
 * number is chosen. */
START_TEST(the_ttl_runs_from_when_a_majority_knows)
{
    begin(3, 32);
    (void)move(0);
    (void)move(1);
    remove_unheard(4);
    rig_run(rig, 2 * LONG_MS);
    ck_assert_uint_eq(rig_number(rig, 1), 3);
    int64_t since_ns = rig->now_ns;
    rig->no_voters = false;
    while (!quorum_voters(rig->nodes[0].quorum)->complete) {
        rig_run(rig, 10);
        ck_assert_int_lt(rig->now_ns - since_ns, 20000 * RIG_MS);
    }
    ck_assert_int_gt(rig->now_ns - since_ns, LONG_MS * RIG_MS);
}
END_TEST

/* Returns whether node 0 answers that the session of an unknown host has lapsed. */
static bool has_lapsed(void)
{
    struct message poll = rig_message(rig, 1, MESSAGE_POLL);
    poll.number = rig_number(rig, 0);
    poll.digest = message_voters_digest(quorum_voters(rig->nodes[0].quorum));
    poll.as.session = (struct message_session){.agent = rig_name(7), .epoch = 3};
    rig->nodes[0].kinds[MESSAGE_POLLED] = 0;
    rig_give(rig, 0, &poll);
    rig_run(rig, 1);
    ck_assert_uint_eq(rig->nodes[0].kinds[MESSAGE_POLLED], 1);
    return rig->nodes[0].sent[MESSAGE_POLLED].as.session_answer.yes;
}

/* Returns whether node 0 lists its marks for node 1. */
static bool lists_marks(void)
{
    struct message sync = rig_message(rig, 1, MESSAGE_SYNC);
    sync.number = rig_number(rig, 0);
    sync.digest = message_voters_digest(quorum_voters(rig->nodes[0].quorum));
    sync.as.sync = (struct message_sync){.what = MESSAGE_SYNC_MARKS, .id = 77};
    memset(&rig->nodes[0].sent[MESSAGE_SYNCED], 0, sizeof(struct message));
    rig_give(rig, 0, &sync);
    rig_run(rig, 1);
    return rig->nodes[0].sent[MESSAGE_SYNCED].as.synced.id == 77;
}

/* Returns whether node 0 answers when that node's agent asks for its epoch under membership
 * number 2. */
static bool says_epoch(uint32_t node)
{
    struct message_rules rules;
    struct message renew = rig_message(rig, node, MESSAGE_RENEW);
    quorum_rules(
        &(struct quorum_config){.session_ttl_ns = RIG_TTL_MS * RIG_MS, .max_drift_percent = 10},
        &rules);
    renew.number = rig_number(rig, 0);
    renew.digest = message_voters_digest(quorum_voters(rig->nodes[0].quorum));
    renew.as.renew = (struct message_renew){.agent = renew.from, .renewal_id = 5};
    renew.as.renew.durations = message_durations_digest(&rules);
    rig->nodes[0].kinds[MESSAGE_RENEW_ACK] = 0;
    rig_give(rig, 0, &renew);
    rig_run(rig, 1);
    return rig->nodes[0].kinds[MESSAGE_RENEW_ACK] == 1;
}

/* m14: a voter counts every session as just renewed when a majority of the previous number uses the
 * new number, not when it learns of the choice. From then on it lists its marks. An agent whose
 * epoch the other voters may know gets an answer a ttl later. */
START_TEST(sessions_count_as_renewed_when_a_majority_knows)
{
    begin(3, 38);
    rig_run(rig, LONG_MS);
    remove_unheard(2);
    rig_run(rig, 1000);
    ck_assert(has_lapsed());
    ck_assert(!lists_marks());
    ck_assert(says_epoch(7));
    rig->no_voters = false;
    (void)await_complete(2);
    ck_assert(!has_lapsed());
    ck_assert(lists_marks());
    ck_assert(!says_epoch(6));
    rig_run(rig, LONG_MS);
    ck_assert(has_lapsed());
    ck_assert(says_epoch(6));
}
END_TEST

/* m8: a number is complete only when a majority of the new voters has all values that a majority of
 * the old ones had. */
START_TEST(complete_when_all_is_stored)
{
    begin(3, 33);
    rig->no_probes = true;
    ck_assert_int_eq(change(0, MESSAGE_MEMBER_MOVE, 1, MESSAGE_CHANGE_CHOSEN).stage,
                     MESSAGE_CHANGE_CHOSEN);
    rig_run(rig, 8000);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(rig_number(rig, i), 2);
        ck_assert(!quorum_voters(rig->nodes[i].quorum)->complete);
    }
    ck_assert_uint_eq(coordinated(7), MESSAGE_PARTITIONS);
    rig->no_probes = false;
    rig_run(rig, 8000);
    expect_voters(7, 2);
}
END_TEST

/* m9: a prepared partition stays prepared under the same ballot when the number changes. The voters
 * of the next number promise this ballot, too. */
START_TEST(a_prepared_partition_is_carried)
{
    uint64_t before[MESSAGE_PARTITIONS];
    begin(3, 35);
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        before[p] = rig->nodes[0].disk.promised[p];
    }
    for (uint32_t i = 0; i < 3; i++) {
        rig->nodes[i].kinds[MESSAGE_PREPARE] = 0;
    }
    struct message_voters next = rig_next(rig, 0, MESSAGE_MEMBER_MOVE, 1);
    choose(0, &next);
    for (uint32_t ms = 0; ms < 500; ms++) {
        ck_assert_uint_eq(coordinated(7), MESSAGE_PARTITIONS);
        rig_run(rig, 1);
    }
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(rig_number(rig, i), 2);
        ck_assert_uint_gt(rig->nodes[i].kinds[MESSAGE_PREPARE], 0);
    }
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        ck_assert_uint_eq(rig->nodes[0].disk.promised[p], before[p]);
    }
}
END_TEST

/* The old voters keep a new voter's partitions until it reports that it can coordinate. */
START_TEST(a_new_voter_is_not_waited_for)
{
    begin(3, 36);
    rig_start(rig, 3);
    rig_run(rig, 100);
    rig->nodes[3].cut = true;
    struct message_voters next = rig_next(rig, 0, MESSAGE_MEMBER_ADD, 3);
    choose(0, &next);
    for (uint32_t ms = 0; ms < 1000; ms++) {
        ck_assert_uint_eq(coordinated(7), MESSAGE_PARTITIONS);
        rig_run(rig, 1);
    }
}
END_TEST

/* A voter that is being removed has handed over all its partitions when the record is chosen. */
START_TEST(a_voter_that_is_removed_hands_over_first)
{
    struct quorum_survey survey;
    begin(3, 37);
    quorum_survey(rig->nodes[2].quorum, &survey);
    ck_assert_uint_gt(survey.partitions, 0);
    int64_t since_ns = rig->now_ns;
    while (rig_number(rig, 0) == 1) {
        struct message member = rig_message(rig, 0, MESSAGE_MEMBER);
        member.as.member = (struct message_member_asked){.agent = member.from,
                                                         .request_id = 5001,
                                                         .act = MESSAGE_MEMBER_REMOVE,
                                                         .voter = rig_name(2)};
        rig_give(rig, 0, &member);
        rig_run(rig, 1);
    }
    quorum_survey(rig->nodes[2].quorum, &survey);
    ck_assert_uint_eq(survey.partitions, 0);
    ck_assert_int_lt(rig->now_ns - since_ns, 500 * RIG_MS);
    rig_run(rig, 100); /* The voters read from each other which registers there are. */
    ck_assert_uint_eq(coordinated(3), MESSAGE_PARTITIONS);
}
END_TEST

/* m16: a promise under another number is not counted, whatever its ballot is. m9: a ballot is
 * carried to the next number, but not to the one after it. */
START_TEST(votes_of_another_number_are_not_counted)
{
    struct quorum_survey survey;
    begin(3, 34);
    struct message_voters next = rig_next(rig, 0, MESSAGE_MEMBER_MOVE, 1);
    rig->nodes[1].cut = true;
    rig->nodes[2].cut = true;
    choose(0, &next);
    rig_run(rig, 20);
    quorum_survey(rig->nodes[0].quorum, &survey);
    ck_assert_uint_ne(survey.partitions, 0);
    uint64_t digest = message_voters_digest(&next);
    next = rig_next(rig, 0, MESSAGE_MEMBER_MOVE, 2);
    choose(0, &next);
    rig_run(rig, 200);
    quorum_survey(rig->nodes[0].quorum, &survey);
    ck_assert_uint_eq(survey.partitions, 0);
    for (uint32_t round = 0; round < 2; round++) {
        const struct message *prepare = &rig->nodes[0].sent[MESSAGE_PREPARE];
        for (uint32_t i = 1; i < 3; i++) {
            struct message promise = rig_message(rig, 0, MESSAGE_PROMISE);
            promise.from = rig_name(i);
            promise.number = round == 0 ? 2 : 3;
            promise.digest = round == 0 ? digest : message_voters_digest(&next);
            promise.as.promise.ballot = prepare->as.prepare.ballot;
            promise.as.promise.promised = prepare->as.prepare.partitions;
            rig_give(rig, 0, &promise);
        }
        quorum_survey(rig->nodes[0].quorum, &survey);
        ck_assert_uint_eq(survey.partitions != 0, round == 1);
    }
}
END_TEST

/* A mark of only one voter is settled, because no majority can have it. A mark of two voters of
 * four is pushed until three have it. */
START_TEST(marks_are_settled)
{
    begin(3, 18);
    rig_start(rig, 3);
    for (uint32_t i = 0; i < 2; i++) {
        rig_kill(rig, i);
        rig->nodes[i].disk.marks[6] = 5;
        rig->nodes[i].disk.marks[5] = i == 0 ? 3 : 0;
        rig_start(rig, i);
    }
    rig_run(rig, 3000);
    expect_complete(2, MESSAGE_MEMBER_ADD, 3);
    uint32_t marked = 0;
    uint32_t alone = 0;
    for (uint32_t i = 0; i < 4; i++) {
        marked += rig->nodes[i].disk.marks[6] == 5;
        alone += rig->nodes[i].disk.marks[5] != 0;
    }
    ck_assert_uint_ge(marked, 3);
    ck_assert_uint_eq(alone, 1);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("completion");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_test(tests, two_changes_wait_for_no_ttl);
    tcase_add_test(tests, the_ttl_runs_from_when_a_majority_knows);
    tcase_add_test(tests, sessions_count_as_renewed_when_a_majority_knows);
    tcase_add_test(tests, complete_when_all_is_stored);
    tcase_add_test(tests, a_prepared_partition_is_carried);
    tcase_add_test(tests, a_new_voter_is_not_waited_for);
    tcase_add_test(tests, a_voter_that_is_removed_hands_over_first);
    tcase_add_test(tests, votes_of_another_number_are_not_counted);
    tcase_add_test(tests, marks_are_settled);
    return suite_main("completion", tests);
}
