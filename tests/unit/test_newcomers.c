/* The tests check when a newcomer votes, and with which store. test_voters.c has the other tests of
 * changes. */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "voters_rig.h"

enum { NEWCOMER = 3 };

static struct rig *rig;

static void setup(void)
{
    rig = rig_create(3, 1);
    rig_start_all(rig);
    rig_start(rig, NEWCOMER);
    rig_run(rig, 2000);
    ck_assert_int_eq(rig_status(rig, 0), MESSAGE_STATUS_VOTING);
    ck_assert_int_eq(rig_status(rig, NEWCOMER), MESSAGE_STATUS_LEARNING);
}

static void teardown(void)
{
    rig_destroy(rig);
}

/* An operator on the host of node 0 asks that node to add the newcomer. Returns the stage of the
 * change. */
static uint8_t ask_for_it(void)
{
    struct message member = rig_message(rig, 0, MESSAGE_MEMBER);
    member.as.member = (struct message_member_asked){.agent = member.from,
                                                     .request_id = 1,
                                                     .act = MESSAGE_MEMBER_ADD,
                                                     .voter = rig_name(NEWCOMER),
                                                     .address = "tcp://new",
                                                     .number = 1};
    rig_give(rig, 0, &member);
    rig_run(rig, 100);
    return rig->nodes[0].got[MESSAGE_MEMBERED].as.membered.stage;
}

/* No record is proposed before the newcomer has copied the voters' state. */
START_TEST(a_newcomer_that_has_not_copied_is_not_added)
{
    rig->no_listings = true;
    for (uint32_t i = 0; i < 30; i++) {
        ck_assert_uint_eq(ask_for_it(), MESSAGE_CHANGE_LEARNS);
    }
    ck_assert_uint_eq(rig->nodes[NEWCOMER].disk.change.promised, 0);
    ck_assert_uint_eq(rig->nodes[0].disk.change.promised, 0);
    rig->no_listings = false;
    uint8_t stage = 0;
    for (uint32_t i = 0; i < 200 && stage != MESSAGE_CHANGE_COMPLETE; i++) {
        stage = ask_for_it();
    }
    ck_assert_uint_eq(stage, MESSAGE_CHANGE_COMPLETE);
    ck_assert_int_eq(rig_status(rig, NEWCOMER), MESSAGE_STATUS_VOTING);
}
END_TEST

/* The record that adds this agent names another store. With its own store the agent does not
 * vote. */
START_TEST(another_store_than_the_one_that_was_added_does_not_vote)
{
    struct message told = rig_message(rig, NEWCOMER, MESSAGE_VOTERS);
    told.from = rig_name(0);
    told.as.told.voters = rig_next(rig, 0, MESSAGE_MEMBER_ADD, NEWCOMER);
    /* the newcomer has the last index */
    told.as.told.voters.of[told.as.told.voters.count - 1].store_id[0] += _i == 0;
    rig_give(rig, NEWCOMER, &told);
    ck_assert_uint_eq(rig_number(rig, NEWCOMER), 2);
    ck_assert_int_ne(rig_status(rig, NEWCOMER), MESSAGE_STATUS_VOTING);
    told.from = rig_name(1);
    rig_give(rig, 0, &told);
    rig_run(rig, 300);
    ck_assert_int_eq(rig_status(rig, NEWCOMER),
                     _i == 0 ? MESSAGE_STATUS_REFUSED : MESSAGE_STATUS_VOTING);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("newcomers");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_newcomer_that_has_not_copied_is_not_added);
    tcase_add_loop_test(tests, another_store_than_the_one_that_was_added_does_not_vote, 0, 2);
    return suite_main("newcomers", tests);
}
