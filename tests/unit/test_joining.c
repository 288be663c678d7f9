/* Which stores may vote for a voter that was added: not an old copy, from before the voter joined.
 * test_members.c has the tests of voters that do not change. */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "voters_asks.h"

enum { JOINING = 3, STARTS = 200 };

static struct rig_disk copy;

/* Starts that agent's core, and kills it after the first commit of the start. */
static void start_killed(uint32_t node)
{
    rig->nodes[node].cut = true;
    rig_start(rig, node);
    rig->nodes[node].disk.commits++;
    rig_kill(rig, node);
    rig->nodes[node].cut = false;
}

/* Replaces the store of the voter that joined by the copy, and expects that it does not vote,
 * however often its agent starts. */
static void expect_refused(void)
{
    uint64_t seen = rig->nodes[0].disk.seen[JOINING].commit;
    ck_assert_uint_gt(seen, copy.commits);
    rig_kill(rig, JOINING);
    rig->nodes[JOINING].disk = copy;
    for (int i = 0; i < STARTS; i++) {
        start_killed(JOINING);
    }
    ck_assert_uint_gt(rig->nodes[JOINING].disk.commits, seen);
    rig_start(rig, JOINING);
    for (int i = 0; i < 300; i++) {
        rig_run(rig, 10);
        ck_assert_int_ne(rig_status(rig, JOINING), MESSAGE_STATUS_VOTING);
    }
    ck_assert_int_eq(rig_status(rig, JOINING), MESSAGE_STATUS_REFUSED);
}

/* The operator asks for the change with that id until the change is complete. */
static void join_as(uint64_t id)
{
    uint32_t number = rig_number(rig, 0);
    uint8_t stage = MESSAGE_CHANGE_LEARNS;
    for (int i = 0; i < 100 && stage != MESSAGE_CHANGE_COMPLETE; i++) {
        stage = ask_with(0, id, MESSAGE_MEMBER_ADD, JOINING, number).stage;
        rig_run(rig, 100);
    }
    ck_assert_uint_eq(stage, MESSAGE_CHANGE_COMPLETE);
    rig_run(rig, 3000);
    expect_voters(15, number + 1);
}

static void join(void)
{
    static uint64_t ids = 5000;
    join_as(++ids);
}

/* 0: the store was an observer's. 1: it had begun to learn. */
START_TEST(a_copy_from_before_the_voter_joined_is_refused)
{
    begin(3, 51);
    if (_i == 0) {
        start_killed(JOINING);
        copy = rig->nodes[JOINING].disk;
    }
    rig_start(rig, JOINING);
    if (_i == 1) {
        ck_assert_int_eq(ask_with(0, 1, MESSAGE_MEMBER_ADD, JOINING, 1).stage,
                         MESSAGE_CHANGE_LEARNS);
        rig_run(rig, 20);
        ck_assert_int_eq(rig_number(rig, JOINING), 1);
        copy = rig->nodes[JOINING].disk;
    }
    join_as(1);
    expect_refused();
}
END_TEST

/* The store votes, its voter is removed, and the same store joins again. The copy is from the time
 * between. */
START_TEST(a_copy_from_before_the_voter_joined_again_is_refused)
{
    begin(3, 52);
    rig_start(rig, JOINING);
    join();
    expect_complete(0, MESSAGE_MEMBER_REMOVE, JOINING);
    rig_run(rig, 2000);
    copy = rig->nodes[JOINING].disk;
    join();
    expect_refused();
}
END_TEST

/* A store whose agent is killed again and again while it learns is no copy. */
START_TEST(a_store_joins_whose_agent_was_killed_while_it_learned)
{
    begin(3, 53);
    for (int i = 0; i < 5; i++) {
        start_killed(JOINING);
        rig_start(rig, JOINING);
        (void)ask_with(0, 1, MESSAGE_MEMBER_ADD, JOINING, 1);
        rig_run(rig, 20);
        rig_kill(rig, JOINING);
    }
    rig_start(rig, JOINING);
    join_as(1);
    /* the row is gone, so that messages report each commit (rule 25) */
    ck_assert_uint_eq(rig->nodes[JOINING].disk.seen[JOINING].commit, 0);
}
END_TEST

/* A voter that was removed joins again, in the same process and after a restart. Its store is no
 * copy. */
START_TEST(a_voter_that_was_removed_joins_again)
{
    begin(3, 54);
    rig_start(rig, JOINING);
    for (int i = 0; i < 3; i++) {
        join();
        expect_complete(0, MESSAGE_MEMBER_REMOVE, JOINING);
        rig_run(rig, 2000);
        if (_i == 1) {
            rig_kill(rig, JOINING);
            start_killed(JOINING);
            rig_start(rig, JOINING);
        }
    }
    join();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("joining");
    TCase *tests = tcase_create("joining");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_loop_test(tests, a_copy_from_before_the_voter_joined_is_refused, 0, 2);
    tcase_add_test(tests, a_copy_from_before_the_voter_joined_again_is_refused);
    tcase_add_test(tests, a_store_joins_whose_agent_was_killed_while_it_learned);
    tcase_add_loop_test(tests, a_voter_that_was_removed_joins_again, 0, 2);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
