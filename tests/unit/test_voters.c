/* Going by another record of voters: who learns of it, who votes under it, and what counts. */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "voters_rig.h"

static struct rig *rig;

static void begin(uint32_t voters, uint64_t seed)
{
    rig = rig_create(voters, seed);
    rig_start_all(rig);
    rig_run(rig, 2000);
    for (uint32_t i = 0; i < voters; i++) {
        ck_assert_int_eq(rig_status(rig, i), MESSAGE_STATUS_VOTING);
        ck_assert_uint_eq(rig_number(rig, i), 1);
    }
}

static void teardown(void)
{
    rig_destroy(rig);
}

/* Gives a node the record, as if it had just learned that the record was chosen. */
static void choose(uint32_t node, const struct message_voters *voters)
{
    struct message told = rig_message(rig, node, MESSAGE_VOTERS);
    told.from = rig_name(RIG_NODES - 1);
    told.as.told.voters = *voters;
    rig_give(rig, node, &told);
    ck_assert_uint_eq(rig_number(rig, node), voters->number);
}

/* How many partitions the nodes coordinate in all. */
static uint32_t coordinated(uint32_t mask)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < RIG_NODES; i++) {
        struct quorum_survey survey;
        if ((mask >> i & 1) != 0) {
            quorum_survey(rig->nodes[i].quorum, &survey);
            count += survey.partitions - survey.incomplete;
        }
    }
    return count;
}

START_TEST(all_learn_of_a_record)
{
    begin(3, 1);
    struct message_voters next = rig_next(rig, 1, MESSAGE_MEMBER_MOVE, 2);
    choose(1, &next);
    ck_assert(rig->nodes[1].go_by.votes);
    ck_assert_uint_eq(rig->nodes[1].disk.voters.number, 2);
    rig_run(rig, 1000);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(rig_number(rig, i), 2);
        ck_assert_int_eq(rig_status(rig, i), MESSAGE_STATUS_VOTING);
        ck_assert_str_eq(rig->nodes[i].go_by.voters.of[2].address, "tcp://elsewhere");
    }
    ck_assert_uint_eq(coordinated(7), MESSAGE_PARTITIONS);
    /* the record outlives the process */
    for (uint32_t i = 0; i < 3; i++) {
        rig_kill(rig, i);
    }
    rig_start_all(rig);
    rig_run(rig, 2000);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(rig_number(rig, i), 2);
        ck_assert_int_eq(rig_status(rig, i), MESSAGE_STATUS_VOTING);
    }
    ck_assert_uint_eq(coordinated(7), MESSAGE_PARTITIONS);
}
END_TEST

/* Removing the first voter moves every index. The removed one answers, and votes no more. */
START_TEST(removed_voter_retires)
{
    begin(3, 2);
    struct message_voters next = rig_next(rig, 1, MESSAGE_MEMBER_REMOVE, 0);
    choose(1, &next);
    rig_run(rig, 2000);
    ck_assert_int_eq(rig_status(rig, 0), MESSAGE_STATUS_RETIRED);
    ck_assert_uint_eq(rig_number(rig, 0), 2);
    ck_assert(!rig->nodes[0].go_by.votes && rig->nodes[1].go_by.votes);
    ck_assert_uint_eq(coordinated(6), MESSAGE_PARTITIONS);
    ck_assert_uint_eq(coordinated(1), 0);
    rig->nodes[0].kinds[MESSAGE_PROMISE] = 0;
    rig->nodes[0].kinds[MESSAGE_HELLO] = 0;
    struct message prepare = rig_message(rig, 1, MESSAGE_PREPARE);
    prepare.as.prepare.ballot = UINT64_C(1) << 20 | 2;
    message_partition_add(&prepare.as.prepare.partitions, 3);
    rig_give(rig, 0, &prepare);
    ck_assert_uint_eq(rig->nodes[0].kinds[MESSAGE_PROMISE], 0);
    struct message hello = rig_message(rig, 1, MESSAGE_HELLO);
    hello.as.hello.status = MESSAGE_STATUS_VOTING;
    quorum_rules(&(struct quorum_config){.voter_count = 1, .voters = {rig_name(1)}},
                 &hello.as.hello.rules);
    rig_give(rig, 0, &hello);
    ck_assert_uint_gt(rig->nodes[0].kinds[MESSAGE_HELLO], 0);
    rig_kill(rig, 0);
    rig_start(rig, 0);
    rig_run(rig, 1000);
    ck_assert_int_eq(rig_status(rig, 0), MESSAGE_STATUS_RETIRED);
}
END_TEST

/* A message of another number is no vote, and asks for none; but the older side learns. */
START_TEST(other_numbers_do_not_count)
{
    begin(3, 3);
    struct message_voters next = rig_next(rig, 0, MESSAGE_MEMBER_MOVE, 1);
    rig->nodes[2].cut = true;
    choose(0, &next);
    rig_run(rig, 1000);
    ck_assert_uint_eq(rig_number(rig, 1), 2);
    ck_assert_uint_eq(rig_number(rig, 2), 1);
    uint64_t promised = rig->nodes[2].disk.promised[7];
    struct message prepare = rig_message(rig, 0, MESSAGE_PREPARE);
    prepare.as.prepare.ballot = UINT64_C(1) << 20 | 1;
    prepare.as.prepare.rejoin = true; /* so that nobody is in its way */
    message_partition_add(&prepare.as.prepare.partitions, 7);
    memset(rig->nodes[2].kinds, 0, sizeof(rig->nodes[2].kinds));
    rig_give(rig, 2, &prepare);
    ck_assert_uint_eq(rig->nodes[2].disk.promised[7], promised);
    ck_assert_uint_eq(rig->nodes[2].kinds[MESSAGE_PROMISE], 0);
    ck_assert_uint_eq(rig->nodes[2].kinds[MESSAGE_ASK_VOTERS], 1);
    /* the other way round: the newer voter does not promise, and says by what it goes */
    prepare = rig_message(rig, 2, MESSAGE_PREPARE);
    prepare.as.prepare.ballot = UINT64_C(1) << 20 | 3;
    prepare.as.prepare.rejoin = true;
    message_partition_add(&prepare.as.prepare.partitions, 7);
    rig_run(rig, 200);
    promised = rig->nodes[0].disk.promised[7];
    memset(rig->nodes[0].kinds, 0, sizeof(rig->nodes[0].kinds));
    rig_give(rig, 0, &prepare);
    rig_give(rig, 0, &prepare);
    ck_assert_uint_eq(rig->nodes[0].disk.promised[7], promised);
    ck_assert_uint_eq(rig->nodes[0].kinds[MESSAGE_PROMISE], 0);
    ck_assert_uint_eq(rig->nodes[0].kinds[MESSAGE_VOTERS], 1); /* once in 100 ms */
    /* under its own number it would have promised */
    prepare.number = 2;
    prepare.digest = message_voters_digest(&next);
    rig_give(rig, 0, &prepare);
    ck_assert_uint_eq(rig->nodes[0].disk.promised[7], prepare.as.prepare.ballot);
    /* the same number with another digest is another record */
    prepare.as.prepare.ballot += UINT64_C(1) << 16;
    prepare.digest ^= 1;
    rig_give(rig, 0, &prepare);
    ck_assert_uint_ne(rig->nodes[0].disk.promised[7], prepare.as.prepare.ballot);
    rig->nodes[2].cut = false;
    rig_run(rig, 1000);
    ck_assert_uint_eq(rig_number(rig, 2), 2);
}
END_TEST

static void renew_under(uint32_t number, uint64_t digest)
{
    struct message_rules rules;
    struct message renew = rig_message(rig, 4, MESSAGE_RENEW);
    quorum_rules(
        &(struct quorum_config){.session_ttl_ns = RIG_TTL_MS * RIG_MS, .max_drift_percent = 10},
        &rules);
    renew.number = number;
    renew.digest = digest;
    renew.as.renew.agent = renew.from;
    renew.as.renew.epoch = 1;
    renew.as.renew.durations = message_durations_digest(&rules);
    memset(rig->nodes[0].kinds, 0, sizeof(rig->nodes[0].kinds));
    rig_give(rig, 0, &renew);
}

/* A renewal asks for a vote like any other. Under number 2 the voters are no part of the rules. */
START_TEST(renewals_are_of_a_number)
{
    begin(3, 4);
    struct message_voters next = rig_next(rig, 0, MESSAGE_MEMBER_MOVE, 1);
    uint64_t before = message_voters_digest(quorum_voters(rig->nodes[0].quorum));
    choose(0, &next);
    renew_under(1, before);
    ck_assert_uint_eq(rig->nodes[0].kinds[MESSAGE_RENEW_ACK], 0);
    ck_assert_uint_eq(rig->nodes[0].kinds[MESSAGE_VOTERS], 1);
    renew_under(0, 0); /* an older version of the wire */
    ck_assert_uint_eq(rig->nodes[0].kinds[MESSAGE_RENEW_ACK], 0);
    renew_under(2, before);
    ck_assert_uint_eq(rig->nodes[0].kinds[MESSAGE_RENEW_ACK], 0);
    renew_under(2, message_voters_digest(&next));
    ck_assert_uint_eq(rig->nodes[0].kinds[MESSAGE_RENEW_ACK], 1);
    ck_assert_uint_eq(rig->nodes[0].kinds[MESSAGE_REFUSED], 0);
    renew_under(3, message_voters_digest(&next));
    ck_assert_uint_eq(rig->nodes[0].kinds[MESSAGE_RENEW_ACK], 0);
}
END_TEST

/* Only a higher number of the same cell is followed. */
START_TEST(lower_and_foreign_records_are_refused)
{
    begin(3, 5);
    struct message_voters next = rig_next(rig, 0, MESSAGE_MEMBER_MOVE, 1);
    next.cell_id[0] = 7;
    choose(0, &next);
    struct message told = rig_message(rig, 1, MESSAGE_VOTERS);
    told.as.told.voters = next;
    told.as.told.voters.number = 3;
    told.as.told.voters.cell_id[0] = 8;
    rig_give(rig, 0, &told);
    ck_assert_uint_eq(rig_number(rig, 0), 2);
    told.as.told.voters.cell_id[0] = 7;
    told.as.told.voters.number = 3 + (1 << 17); /* no cell changes its voters that often */
    rig_give(rig, 0, &told);
    ck_assert_uint_eq(rig_number(rig, 0), 2);
    told.as.told.voters = next;
    told.as.told.voters.complete = true;
    told.as.told.voters.next_ballot_id++; /* another record of number 2 */
    rig_give(rig, 0, &told);
    ck_assert(!quorum_voters(rig->nodes[0].quorum)->complete);
    told.as.told.voters = next;
    told.as.told.voters.complete = true;
    rig_give(rig, 0, &told);
    ck_assert(quorum_voters(rig->nodes[0].quorum)->complete && rig->nodes[0].disk.voters.complete);
}
END_TEST

/* A voter whose store is empty hears of the record, and begins no new cell. */
START_TEST(empty_stores_begin_nothing)
{
    begin(3, 6);
    struct message_voters next = rig_next(rig, 0, MESSAGE_MEMBER_MOVE, 1);
    choose(0, &next);
    rig_run(rig, 1000);
    for (uint32_t i = 1; i < 3; i++) {
        rig_kill(rig, i);
        memset(&rig->nodes[i].disk, 0, sizeof(rig->nodes[i].disk));
        rig->nodes[i].disk.store_id = 200 + i;
        rig->nodes[i].disk.commits = 1;
        rig_start(rig, i);
    }
    rig_run(rig, 3000);
    for (uint32_t i = 1; i < 3; i++) {
        ck_assert_uint_eq(rig_number(rig, i), 2);
        ck_assert_int_ne(rig_status(rig, i), MESSAGE_STATUS_VOTING);
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("voters");
    TCase *tests = tcase_create("voters");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, NULL, teardown);
    tcase_add_test(tests, all_learn_of_a_record);
    tcase_add_test(tests, removed_voter_retires);
    tcase_add_test(tests, other_numbers_do_not_count);
    tcase_add_test(tests, renewals_are_of_a_number);
    tcase_add_test(tests, lower_and_foreign_records_are_refused);
    tcase_add_test(tests, empty_stores_begin_nothing);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
