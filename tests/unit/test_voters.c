/* Tests of a change to another record of voters: which nodes learn of it, which of them vote under
 * it, and which messages count. Other tests ask for changes of the voters. */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "voters_asks.h"

START_TEST(all_learn_of_a_record)
{
    begin(3, 1);
    struct message_voters next = rig_next(rig, 1, MESSAGE_MEMBER_MOVE, 2);
    choose(1, &next);
    ck_assert_int_eq(rig_status(rig, 1), MESSAGE_STATUS_VOTING);
    ck_assert_uint_eq(rig->nodes[1].disk.voters.number, 2);
    rig_run(rig, 1000);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_uint_eq(rig_number(rig, i), 2);
        ck_assert_int_eq(rig_status(rig, i), MESSAGE_STATUS_VOTING);
        ck_assert_str_eq(rig->nodes[i].go_by.of[2].address, "tcp://elsewhere");
    }
    ck_assert_uint_eq(coordinated(7), MESSAGE_PARTITIONS);
    /* the record survives a restart */
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

/* The removal of the first voter moves every index. The removed voter still answers, but does not
 * vote any more. */
START_TEST(removed_voter_retires)
{
    begin(3, 2);
    struct message_voters next = rig_next(rig, 1, MESSAGE_MEMBER_REMOVE, 0);
    choose(1, &next);
    rig_run(rig, 2000);
    ck_assert_int_eq(rig_status(rig, 0), MESSAGE_STATUS_RETIRED);
    ck_assert_uint_eq(rig_number(rig, 0), 2);
    ck_assert_int_eq(rig_status(rig, 1), MESSAGE_STATUS_VOTING);
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

/* After its start, a voter waits until the others report what they have seen of its store.
 * Meanwhile it becomes the only voter. */
START_TEST(the_last_voter_waits_for_nobody)
{
    begin(2, 8);
    struct message_voters next = rig_next(rig, 0, MESSAGE_MEMBER_REMOVE, 1);
    rig_kill(rig, 0);
    rig->nodes[1].cut = true;
    rig_start(rig, 0);
    rig_run(rig, 1000);
    ck_assert_int_eq(rig_status(rig, 0), MESSAGE_STATUS_LISTED);
    choose(0, &next);
    ck_assert_int_eq(rig_status(rig, 0), MESSAGE_STATUS_VOTING);
    rig_run(rig, 1000);
    ck_assert_uint_eq(coordinated(1), MESSAGE_PARTITIONS);
}
END_TEST

/* A message under another number does not count as a vote, and gets no vote in answer. But the node
 * with the older record learns the newer one. */
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
    prepare.as.prepare.rejoin = true; /* `rejoin` is set, so no other check refuses the message */
    message_partition_add(&prepare.as.prepare.partitions, 7);
    memset(rig->nodes[2].kinds, 0, sizeof(rig->nodes[2].kinds));
    rig_give(rig, 2, &prepare);
    ck_assert_uint_eq(rig->nodes[2].disk.promised[7], promised);
    ck_assert_uint_eq(rig->nodes[2].kinds[MESSAGE_PROMISE], 0);
    ck_assert_uint_eq(rig->nodes[2].kinds[MESSAGE_ASK_VOTERS], 1);
    /* the other way round: the voter with the newer record does not promise, and sends its
     * record */
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
    ck_assert_uint_eq(rig->nodes[0].kinds[MESSAGE_VOTERS], 1); /* node 0 sends its record at most
                                                                * once in 100 ms */
    /* node 0 promises if the PREPARE has the number of node 0's own record */
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

/* A voter acknowledges a renewal only if the renewal has the voter's own membership
 * number. From number 2 on, the rules in a renewal do not include the voters. */
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

/* A node accepts only a record with a higher number, and of the same cell. */
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

/* A node accepts no record from an agent that is no voter, unless the configuration names that
 * agent. */
START_TEST(observers_are_not_believed)
{
    begin(3, 7);
    struct message_voters next = rig_next(rig, 0, MESSAGE_MEMBER_MOVE, 1);
    struct message told = rig_message(rig, 5, MESSAGE_VOTERS);
    told.number = 2;
    told.digest = message_voters_digest(&next);
    told.as.told.voters = next;
    rig_give(rig, 0, &told);
    ck_assert_uint_eq(rig_number(rig, 0), 1);
    /* the number in node 5's HELLO makes node 0 ask a voter for the record */
    struct message hello = rig_message(rig, 5, MESSAGE_HELLO);
    hello.number = 2;
    hello.as.hello.rules.voter_count = 1;
    hello.as.hello.rules.voters[0] = rig_name(5);
    memset(rig->nodes[0].kinds, 0, sizeof(rig->nodes[0].kinds));
    rig_give(rig, 0, &hello);
    ck_assert_uint_eq(rig->nodes[0].kinds[MESSAGE_ASK_VOTERS], 1);
    ck_assert_uint_eq(rig_number(rig, 0), 1);
    rig_kill(rig, 0);
    rig->trusts = 5;
    rig_start(rig, 0);
    rig_give(rig, 0, &told);
    ck_assert_uint_eq(rig_number(rig, 0), 2);
}
END_TEST

/* A voter with an empty store learns of the record, and begins no new cell. */
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

/* ---- Changes ---- */

enum { OBSERVER = 7 };

START_TEST(a_move_takes_a_number)
{
    begin(3, 11);
    expect_complete(1, MESSAGE_MEMBER_MOVE, 2);
    expect_voters(7, 2);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_str_eq(rig->nodes[i].disk.voters.of[2].address, "tcp://new2");
        ck_assert_str_eq(rig->nodes[i].disk.voters.of[1].address, "tcp://host-b");
        ck_assert(rig->nodes[i].disk.voters.cell_id[1] != 0);
        ck_assert_mem_eq(rig->nodes[i].disk.voters.cell_id, rig->nodes[0].disk.voters.cell_id, 16);
    }
    expect_complete(0, MESSAGE_MEMBER_MOVE, 1);
    expect_voters(7, 3);
    /* the same request, to a voter that did not propose the change */
    ck_assert_int_eq(ask_with(2, 99, MESSAGE_MEMBER_MOVE, 1, 2).stage, MESSAGE_CHANGE_COMPLETE);
}
END_TEST

/* A voter runs at its new address already, but the others do not dial that address. Without it they
 * have no majority. They seek it at the new address, so it votes and is moved. */
START_TEST(a_voter_is_sought_where_it_moves)
{
    uint32_t count = _i == 0 ? 3 : 5;
    begin(count, 30);
    for (uint32_t i = count / 2 + 1; i < count; i++) {
        rig_kill(rig, i);
    }
    uint32_t moved = count / 2;
    rig_kill(rig, moved);
    rig->nodes[moved].hidden = true;
    rig_start(rig, moved);
    rig_run(rig, 3000);
    ck_assert_int_eq(rig_status(rig, moved), MESSAGE_STATUS_LISTED);
    expect_complete(0, MESSAGE_MEMBER_MOVE, moved);
    const char *there = moved == 1 ? "tcp://new1" : "tcp://new2";
    for (uint32_t i = 0; i <= moved; i++) {
        ck_assert_int_eq(rig_status(rig, i), MESSAGE_STATUS_VOTING);
        ck_assert_uint_eq(rig_number(rig, i), 2);
        ck_assert_str_eq(rig->nodes[i].disk.voters.of[moved].address, there);
        ck_assert(i == moved || strcmp(rig->nodes[i].sought.address, there) == 0);
    }
}
END_TEST

/* A move waits for a voter that does not answer. In the end the move is refused, even if the others
 * are a majority. */
START_TEST(a_move_waits_for_its_voter)
{
    begin(_i == 0 ? 2 : 3, 32);
    rig_kill(rig, 1);
    rig_run(rig, 2000);
    struct message_membered answer = ask_with(0, 1, MESSAGE_MEMBER_MOVE, 1, 1);
    struct message_agent moved = rig_name(1);
    ck_assert_int_eq(answer.stage, MESSAGE_CHANGE_DECIDES);
    ck_assert_int_eq(answer.reason, MESSAGE_CHANGE_SILENT);
    ck_assert_mem_eq(&answer.subject, &moved, sizeof(moved));
    rig_run(rig, 25000);
    answer = ask_with(0, 1, MESSAGE_MEMBER_MOVE, 1, 1);
    ck_assert_int_eq(answer.stage, MESSAGE_CHANGE_REFUSED);
    ck_assert_int_eq(answer.reason, MESSAGE_CHANGE_SILENT);
    ck_assert_mem_eq(&answer.subject, &moved, sizeof(moved));
    ck_assert_uint_eq(rig->nodes[0].disk.change.accepted, 0);
    rig_start(rig, 1);
    rig_run(rig, 2000);
    ck_assert_uint_eq(rig_number(rig, 1), 1);
    ck_assert_uint_eq(coordinated(_i == 0 ? 3 : 7), MESSAGE_PARTITIONS);
}
END_TEST

/* An agent that is no voter cannot change the voters, and cannot make itself a voter. A voter that
 * asked for its own removal may ask for the stage of that change. */
START_TEST(observers_change_nothing)
{
    begin(3, 33);
    rig_start(rig, OBSERVER);
    rig_run(rig, 1000);
    struct message_agent voter = rig_name(1);
    for (int act = MESSAGE_MEMBER_ADD; act <= MESSAGE_MEMBER_MOVE; act++) {
        struct message_membered answer = ask_from(OBSERVER, 1, (uint64_t)act,
                                                  (enum message_member_act)act,
                                                  act == MESSAGE_MEMBER_ADD ? OBSERVER : 2, 1);
        ck_assert_int_eq(answer.stage, MESSAGE_CHANGE_REFUSED);
        ck_assert_int_eq(answer.reason, MESSAGE_CHANGE_OBSERVER);
        ck_assert_mem_eq(&answer.subject, &voter, sizeof(voter));
    }
    rig_run(rig, 3000);
    ck_assert_uint_eq(rig_number(rig, 0), 1);
    ck_assert_int_eq(ask_from(2, 1, 9, MESSAGE_MEMBER_REMOVE, 2, 1).stage, MESSAGE_CHANGE_DECIDES);
    rig_run(rig, 8000);
    ck_assert_int_eq(rig_status(rig, 2), MESSAGE_STATUS_RETIRED);
    ck_assert_int_eq(ask_from(2, 1, 9, MESSAGE_MEMBER_REMOVE, 2, 1).stage, MESSAGE_CHANGE_COMPLETE);
    ck_assert_int_eq(ask_from(2, 1, 10, MESSAGE_MEMBER_REMOVE, 0, 2).reason,
                     MESSAGE_CHANGE_OBSERVER);
}
END_TEST

START_TEST(voters_come_and_go)
{
    begin(3, 12);
    rig_start(rig, 3);
    expect_complete(0, MESSAGE_MEMBER_ADD, 3);
    expect_voters(15, 2);
    ck_assert_uint_eq(rig->nodes[3].disk.voters.of[3].ballot_id, 4);
    expect_complete(3, MESSAGE_MEMBER_REMOVE, 0);
    expect_voters(14, 3);
    ck_assert_int_eq(rig_status(rig, 0), MESSAGE_STATUS_RETIRED);
    /* the removed voter comes back with a new store, under a new number in ballots */
    rig_kill(rig, 0);
    memset(&rig->nodes[0].disk, 0, sizeof(rig->nodes[0].disk));
    rig->nodes[0].disk.store_id = 500;
    rig->nodes[0].disk.commits = 1;
    rig->nodes[0].disk.voters = rig->nodes[1].disk.voters;
    rig_start(rig, 0);
    expect_complete(1, MESSAGE_MEMBER_ADD, 0);
    expect_voters(15, 4);
    ck_assert_uint_eq(rig->nodes[1].disk.voters.of[0].ballot_id, 5);
}
END_TEST

/* A removed voter becomes a learner again with the store that it has. It does so with and without a
 * restart of its agent, and also if it was down during further changes. */
START_TEST(a_removed_voter_learns_again)
{
    begin(3, 14);
    rig_start(rig, 3);
    expect_complete(0, MESSAGE_MEMBER_ADD, 3);
    expect_complete(3, MESSAGE_MEMBER_REMOVE, 0);
    ck_assert_int_eq(rig_status(rig, 0), MESSAGE_STATUS_RETIRED);
    uint64_t commit = quorum_reported_commit(rig->nodes[0].quorum);
    ck_assert_uint_eq(commit, rig->nodes[0].disk.commits);
    if (_i > 0) {
        rig_kill(rig, 0);
    } else {
        rig_run(rig, 2000); /* node 0 learns that its removal is complete */
        /* votes that were made before the removal and still wait for the disk report this commit,
         * too */
        struct message learn = rig_message(rig, 1, MESSAGE_LEARN);
        learn.as.told.learn = true;
        learn.as.told.id = 1;
        message_voters_copy(&learn.as.told.voters, &rig->nodes[1].disk.voters);
        rig_give(rig, 0, &learn);
        ck_assert_int_eq(rig_status(rig, 0), MESSAGE_STATUS_LEARNING);
        ck_assert_uint_ge(quorum_reported_commit(rig->nodes[0].quorum), commit);
    }
    if (_i > 1) {
        /* host-b is removed, and is added again with another store */
        expect_complete(1, MESSAGE_MEMBER_REMOVE, 2);
        rig_kill(rig, 2);
        memset(&rig->nodes[2].disk, 0, sizeof(rig->nodes[2].disk));
        rig->nodes[2].disk.store_id = 600;
        rig->nodes[2].disk.commits = 1;
        rig->nodes[2].disk.voters = rig->nodes[1].disk.voters;
        rig_start(rig, 2);
        expect_complete(1, MESSAGE_MEMBER_ADD, 2);
    }
    if (_i > 2) {
        /* the agent has learned the record without a quorum core, so its store has the line of
         * host-b's first store */
        rig->nodes[0].disk.voters = rig->nodes[1].disk.voters;
    }
    if (_i > 0) {
        rig_start(rig, 0);
        rig_run(rig, 2000);
    }
    uint32_t number = rig_number(rig, 1);
    expect_complete(1, MESSAGE_MEMBER_ADD, 0);
    expect_voters(15, number + 1);
    ck_assert_uint_eq(rig->nodes[1].disk.voters.of[0].ballot_id, _i > 1 ? 6 : 5);
}
END_TEST

/* A cell of one voter uses shortcuts. The shortcuts end when there are two voters, and return when
 * one voter is left. */
START_TEST(one_two_three_and_back)
{
    begin(1, 13);
    rig_start(rig, 1);
    expect_complete(0, MESSAGE_MEMBER_ADD, 1);
    expect_voters(3, 2);
    rig_start(rig, 2);
    expect_complete(1, MESSAGE_MEMBER_ADD, 2);
    expect_voters(7, 3);
    expect_complete(2, MESSAGE_MEMBER_REMOVE, 0);
    expect_voters(6, 4);
    expect_complete(2, MESSAGE_MEMBER_REMOVE, 1);
    expect_voters(4, 5);
    rig_kill(rig, 2);
    rig_start(rig, 2);
    rig_run(rig, 500);
    expect_voters(4, 5);
}
END_TEST

/* m1: voter c is removed from {a, b, c}. If a and c accept, they are a majority of the old voters,
 * but not of the new ones. */
START_TEST(a_removal_needs_those_that_stay)
{
    begin(3, 19);
    struct message member = rig_message(rig, 0, MESSAGE_MEMBER);
    member.as.member = (struct message_member_asked){
        .agent = member.from, .request_id = 1, .act = MESSAGE_MEMBER_REMOVE, .voter = rig_name(2)};
    member.number = 1;
    rig->nodes[1].cut = true;
    rig_give(rig, 0, &member);
    rig_run(rig, 2000);
    ck_assert_uint_eq(rig_number(rig, 0), 1);
    ck_assert_uint_ne(rig->nodes[2].disk.change.accepted, 0);
    rig->nodes[1].cut = false;
    rig_run(rig, 10000);
    expect_voters(3, 2);
}
END_TEST

/* m1: voter d is added to {a, b}. If a and d accept, they are a majority of the new voters, but not
 * of the old ones. */
START_TEST(an_add_needs_those_of_before)
{
    begin(2, 31);
    rig_start(rig, 3);
    for (uint32_t i = 0; i < 4000 && rig->nodes[1].disk.change.promised == 0; i++) {
        if (i % 100 == 0) {
            (void)ask_with(0, 1, MESSAGE_MEMBER_ADD, 3, 1);
        }
        rig_run(rig, 1);
    }
    rig->nodes[1].cut = true;
    ck_assert_uint_eq(rig->nodes[1].disk.change.accepted, 0);
    rig_run(rig, 2000);
    ck_assert_uint_ne(rig->nodes[0].disk.change.accepted, 0);
    ck_assert_uint_eq(rig->nodes[1].disk.change.accepted, 0);
    ck_assert_uint_eq(rig_number(rig, 0), 1);
    rig->nodes[1].cut = false;
    rig_run(rig, 8000);
    expect_voters(11, 2);
}
END_TEST

START_TEST(what_is_refused)
{
    begin(3, 14);
    ck_assert_int_eq(ask_with(0, 1, MESSAGE_MEMBER_ADD, 1, 1).reason, MESSAGE_CHANGE_IS_VOTER);
    ck_assert_int_eq(ask_with(0, 2, MESSAGE_MEMBER_REMOVE, 4, 1).reason, MESSAGE_CHANGE_NO_VOTER);
    ck_assert_int_eq(ask_with(0, 3, MESSAGE_MEMBER_MOVE, 4, 1).reason, MESSAGE_CHANGE_NO_VOTER);
    ck_assert_int_eq(ask_with(0, 4, MESSAGE_MEMBER_REMOVE, 1, 2).reason, MESSAGE_CHANGE_NUMBER);
    /* the newcomer does not run */
    ck_assert_int_eq(ask_with(0, 5, MESSAGE_MEMBER_ADD, 3, 1).stage, MESSAGE_CHANGE_LEARNS);
    ck_assert_int_eq(ask_with(0, 6, MESSAGE_MEMBER_REMOVE, 1, 1).reason, MESSAGE_CHANGE_BUSY);
    rig_run(rig, 6000);
    ck_assert_int_eq(ask_with(0, 5, MESSAGE_MEMBER_ADD, 3, 1).reason, MESSAGE_CHANGE_SILENT);
    /* if a voter does not answer, it may be removed, but no voter may be added */
    rig_kill(rig, 2);
    rig_run(rig, 2000);
    ck_assert_int_eq(ask_with(0, 7, MESSAGE_MEMBER_ADD, 3, 1).reason, MESSAGE_CHANGE_SILENT);
    ck_assert_int_eq(ask_with(0, 8, MESSAGE_MEMBER_REMOVE, 1, 1).reason, MESSAGE_CHANGE_SILENT);
    expect_complete(0, MESSAGE_MEMBER_REMOVE, 2);
    expect_voters(3, 2);
    /* the removed voter learns of its removal when it runs again */
    rig_start(rig, 2);
    rig_run(rig, 2000);
    ck_assert_int_eq(rig_status(rig, 2), MESSAGE_STATUS_RETIRED);
    ck_assert_int_eq(ask_with(2, 9, MESSAGE_MEMBER_MOVE, 0, 2).reason, MESSAGE_CHANGE_NOT_VOTING);
    /* the third change within three ttls is not complete at once */
    expect_complete(0, MESSAGE_MEMBER_MOVE, 1);
    ck_assert_int_eq(ask_with(0, 10, MESSAGE_MEMBER_REMOVE, 1, 3).stage, MESSAGE_CHANGE_DECIDES);
    rig_run(rig, 200);
    ck_assert_uint_eq(rig_number(rig, 0), 4);
    ck_assert_int_eq(ask_with(0, 11, MESSAGE_MEMBER_MOVE, 0, 4).reason, MESSAGE_CHANGE_INCOMPLETE);
}
END_TEST

static void expect_silent(struct message_membered answer, enum message_change_stage stage,
                          uint32_t node)
{
    struct message_agent name = rig_name(node);
    ck_assert_int_eq(answer.stage, stage);
    ck_assert_int_eq(answer.reason, MESSAGE_CHANGE_SILENT);
    ck_assert_mem_eq(&answer.subject, &name, sizeof(name));
}

/* Of four voters, two do not answer. To remove one of them, the other one has to be started: a
 * majority of the four has to decide, and the removed voter may be lost for good. */
START_TEST(a_removal_needs_a_majority_with_the_removed_voter)
{
    begin(4, 38);
    rig_kill(rig, 2);
    rig_kill(rig, 3);
    rig_run(rig, 2000);
    expect_silent(ask_with(0, 1, MESSAGE_MEMBER_REMOVE, 3, 1), MESSAGE_CHANGE_REFUSED, 2);
    expect_silent(ask_with(0, 2, MESSAGE_MEMBER_REMOVE, 2, 1), MESSAGE_CHANGE_REFUSED, 3);
    expect_silent(ask_with(0, 3, MESSAGE_MEMBER_REMOVE, 1, 1), MESSAGE_CHANGE_REFUSED, 3);
    rig_start(rig, 2);
    rig_run(rig, 2000);
    expect_complete(0, MESSAGE_MEMBER_REMOVE, 3);
    expect_voters(7, 2);
}
END_TEST

/* One of two voters cannot remove the other one, which does not answer. */
START_TEST(one_of_two_removes_nobody)
{
    begin(2, 39);
    rig_kill(rig, 1);
    rig_run(rig, 2000);
    expect_silent(ask_with(0, 1, MESSAGE_MEMBER_REMOVE, 1, 1), MESSAGE_CHANGE_REFUSED, 1);
    rig_start(rig, 1);
    rig_run(rig, 2000);
    expect_complete(0, MESSAGE_MEMBER_REMOVE, 1);
    expect_voters(1, 2);
}
END_TEST

/* Voters fail when a change has begun, or is chosen. If no majority is left, the answers name one
 * of these voters, and so does the refusal. */
START_TEST(the_voter_that_a_change_waits_for_is_named)
{
    begin(3, 40);
    rig_kill(rig, 1);
    rig_kill(rig, 2); /* its heartbeats are not missed yet */
    ck_assert_int_eq(ask_with(0, 1, MESSAGE_MEMBER_REMOVE, 2, 1).stage, MESSAGE_CHANGE_DECIDES);
    rig_run(rig, 5000);
    expect_silent(ask_with(0, 1, MESSAGE_MEMBER_REMOVE, 2, 1), MESSAGE_CHANGE_DECIDES, 1);
    rig_run(rig, 16000);
    expect_silent(ask_with(0, 1, MESSAGE_MEMBER_REMOVE, 2, 1), MESSAGE_CHANGE_REFUSED, 1);
    rig_start(rig, 1);
    rig_start(rig, 2);
    rig_run(rig, 3000);
    rig->no_probes = true; /* no number becomes complete */
    ck_assert_int_eq(ask_with(0, 2, MESSAGE_MEMBER_MOVE, 1, 1).stage, MESSAGE_CHANGE_DECIDES);
    rig_run(rig, 1000);
    rig_kill(rig, 1);
    rig_run(rig, 3000);
    struct message_membered answer = ask_with(0, 2, MESSAGE_MEMBER_MOVE, 1, 1);
    ck_assert_int_eq(answer.stage, MESSAGE_CHANGE_CHOSEN);
    ck_assert_int_eq(answer.reason, MESSAGE_CHANGE_NONE); /* two of three are a majority */
    rig_kill(rig, 2);
    rig_run(rig, 3000);
    expect_silent(ask_with(0, 2, MESSAGE_MEMBER_MOVE, 1, 1), MESSAGE_CHANGE_CHOSEN, 2);
}
END_TEST

/* The voters cannot decide, because two of three fail as soon as the change has begun. The store
 * that is ready goes on to compare its registers, but only once a second. */
START_TEST(a_store_that_is_ready_compares_once_a_second)
{
    begin(3, 41);
    rig_start(rig, 3);
    rig_run(rig, 500);
    rig_kill(rig, 1);
    rig_kill(rig, 2);
    ck_assert_int_eq(ask_with(0, 1, MESSAGE_MEMBER_ADD, 3, 1).stage, MESSAGE_CHANGE_LEARNS);
    rig_run(rig, 5000);
    ck_assert(rig->nodes[3].sent[MESSAGE_LEARNED].as.learned.ready);
    uint32_t before = rig->nodes[3].kinds[MESSAGE_SYNC];
    rig_run(rig, 10000);
    uint32_t sent = rig->nodes[3].kinds[MESSAGE_SYNC] - before;
    ck_assert_uint_ge(sent, 5 * MESSAGE_PARTITIONS);
    ck_assert_uint_le(sent, 11 * MESSAGE_PARTITIONS);
}
END_TEST

/* Two voters cannot have the same address. A voter may keep its own address in a change. */
START_TEST(an_address_belongs_to_one_voter)
{
    begin(3, 37);
    expect_complete(1, MESSAGE_MEMBER_MOVE, 2); /* to tcp://new2 */
    for (int act = MESSAGE_MEMBER_ADD; act <= MESSAGE_MEMBER_MOVE; act++) {
        if (act == MESSAGE_MEMBER_REMOVE) {
            continue;
        }
        uint32_t voter = act == MESSAGE_MEMBER_ADD ? 3 : 1;
        struct message member = rig_message(rig, 0, MESSAGE_MEMBER);
        member.number = 2;
        member.digest = message_voters_digest(quorum_voters(rig->nodes[1].quorum));
        member.as.member = (struct message_member_asked){.agent = member.from,
                                                         .request_id = 20 + voter,
                                                         .act = (uint8_t)act,
                                                         .voter = rig_name(voter),
                                                         .address = "tcp://new2"};
        rig_give(rig, 1, &member);
        rig_run(rig, 10);
        const struct message_membered *answer = &rig->nodes[0].got[MESSAGE_MEMBERED].as.membered;
        struct message_agent has = rig_name(2);
        ck_assert_int_eq(answer->stage, MESSAGE_CHANGE_REFUSED);
        ck_assert_int_eq(answer->reason, MESSAGE_CHANGE_TAKEN);
        ck_assert_mem_eq(&answer->subject, &has, sizeof(has));
    }
    rig_run(rig, 3000);
    expect_voters(7, 2);
}
END_TEST

/* While an agent speaks an older version, no change is accepted. */
START_TEST(older_agents_are_in_the_way)
{
    begin(3, 15);
    rig->nodes[1].older = true;
    rig_run(rig, 1000);
    struct message_membered answer = ask_with(0, 1, MESSAGE_MEMBER_MOVE, 2, 1);
    ck_assert_int_eq(answer.reason, MESSAGE_CHANGE_OLDER);
    struct message_agent older = rig_name(1);
    ck_assert_mem_eq(&answer.subject, &older, sizeof(older));
    rig->nodes[1].older = false;
    rig_run(rig, 1000);
    expect_complete(0, MESSAGE_MEMBER_MOVE, 2);
}
END_TEST

/* Two operators ask two voters at once: one of the two changes is made. */
START_TEST(rivals)
{
    for (uint64_t seed = 20; seed < 30; seed++) {
        begin(3, seed);
        (void)ask_with(0, 1, MESSAGE_MEMBER_REMOVE, 2, 1);
        (void)ask_with(1, 2, MESSAGE_MEMBER_MOVE, 2, 1);
        rig_run(rig, 3000);
        uint8_t stages[2] = {ask_with(0, 1, MESSAGE_MEMBER_REMOVE, 2, 1).stage,
                             ask_with(1, 2, MESSAGE_MEMBER_MOVE, 2, 1).stage};
        ck_assert(stages[0] != stages[1]);
        ck_assert_int_eq(stages[0] < stages[1] ? stages[0] : stages[1], MESSAGE_CHANGE_REFUSED);
        rig_run(rig, 6000);
        ck_assert_uint_eq(rig_number(rig, 0), 2);
        ck_assert_uint_eq(rig_number(rig, 1), 2);
        ck_assert_mem_eq(&rig->nodes[0].disk.voters, &rig->nodes[1].disk.voters,
                         sizeof(struct message_voters));
        ck_assert(rig->nodes[0].disk.voters.complete);
        rig_destroy(rig);
    }
    rig = rig_create(1, 1);
}
END_TEST

/* Begins an add, cuts the newcomer off when it has accepted, and kills the proposer soon after.
 * Returns 0 if only the newcomer has the record, 1 if one of the running voters has accepted it,
 * and 2 if it was chosen. */
static uint32_t interrupted_add(int64_t later_us)
{
    for (uint32_t i = 0; i < 4000 && rig->nodes[3].disk.change.accepted == 0; i++) {
        if (i % 100 == 0) {
            ck_assert_int_ne(ask_with(0, 1, MESSAGE_MEMBER_ADD, 3, 1).stage,
                             MESSAGE_CHANGE_REFUSED);
        }
        rig_run(rig, 1);
    }
    ck_assert_uint_ne(rig->nodes[3].disk.change.accepted, 0);
    rig->nodes[1].cut = true;
    rig_run(rig, later_us);
    bool chosen = rig_number(rig, 0) == 2;
    rig_kill(rig, 0);
    rig->nodes[3].cut = true;
    rig->nodes[1].cut = false;
    rig_run(rig, 3000);
    bool accepted = rig->nodes[1].disk.change.accepted != 0 ||
                    rig->nodes[2].disk.change.accepted != 0;
    return chosen ? 2 : accepted;
}

/* The proposer of an add dies. If one of the running voters has accepted the record, the next
 * proposer proposes it again (m10). If only the newcomer has it, another record is chosen, and the
 * newcomer is not added (m2, m11). */
START_TEST(a_record_that_was_read_goes_on)
{
    uint32_t seen[3] = {0};
    for (uint64_t seed = 100; seed < 130; seed++) {
        begin(3, seed);
        rig_start(rig, 3);
        uint32_t outcome = interrupted_add((int64_t)(seed % 5));
        seen[outcome]++;
        if (outcome == 1) {
            rig->nodes[3].cut = false; /* the newcomer is needed, because only two of three old
                                        * voters run */
        }
        struct message_membered answer = change(1, MESSAGE_MEMBER_MOVE, 2, MESSAGE_CHANGE_CHOSEN);
        const struct message_voters *now = quorum_voters(rig->nodes[1].quorum);
        if (outcome == 0) {
            ck_assert_msg(answer.stage == MESSAGE_CHANGE_CHOSEN, "seed %u: %u %.6s", (unsigned)seed,
                          answer.reason, answer.subject.text);
            ck_assert_uint_eq(now->count, 3);
            ck_assert_int_eq(now->act, MESSAGE_MEMBER_MOVE);
        } else if (outcome == 1) {
            ck_assert_int_eq(answer.reason, MESSAGE_CHANGE_RIVAL);
            ck_assert_uint_eq(now->count, 4);
            ck_assert_uint_eq(now->number, 2);
        }
        rig_destroy(rig);
    }
    ck_assert_msg(seen[0] > 0 && seen[1] > 0 && seen[2] > 0, "%u %u %u", seen[0], seen[1], seen[2]);
    rig = rig_create(1, 1);
}
END_TEST

/* Makes the node start over: with an empty store, its record, and `rejoin` set. */
static void start_over(uint32_t node)
{
    struct message_voters record = rig->nodes[node].disk.voters;
    rig_kill(rig, node);
    memset(&rig->nodes[node].disk, 0, sizeof(rig->nodes[node].disk));
    rig->nodes[node].disk.store_id = 700 + node;
    rig->nodes[node].disk.commits = 1;
    rig->nodes[node].disk.voters = record;
    rig->nodes[node].disk.rejoin = true;
    rig_start(rig, node);
}

/* The row of a vote is durable before the vote is sent: voters_rig.c checks that. */
START_TEST(a_vote_for_a_record_waits_for_the_disk)
{
    begin(3, 18);
    struct message accept = rig_message(rig, 2, MESSAGE_CHANGE_ACCEPT);
    accept.as.change.number = 2;
    accept.as.change.ballot = UINT64_C(900) << 16 | 3;
    accept.as.change.voters = rig_next(rig, 2, MESSAGE_MEMBER_MOVE, 2);
    rig_give(rig, 0, &accept);
    ck_assert_uint_eq(rig->nodes[0].kinds[MESSAGE_CHANGE_ACCEPTED], 1);
    ck_assert_uint_eq(rig->nodes[0].disk.change.accepted, accept.as.change.ballot);
}
END_TEST

/* Two voters have accepted a record, so it is chosen, but nobody knows that yet. One of them loses
 * its store. After it has started over, it knows the record again, and no lower ballot can replace
 * the record there. */
START_TEST(who_starts_over_keeps_the_next_record)
{
    begin(3, 15);
    struct message accept = rig_message(rig, 2, MESSAGE_CHANGE_ACCEPT);
    accept.as.change.number = 2;
    accept.as.change.ballot = UINT64_C(900) << 16 | 3;
    accept.as.change.voters = rig_next(rig, 2, MESSAGE_MEMBER_MOVE, 2);
    rig_give(rig, 0, &accept);
    rig_give(rig, 1, &accept);
    start_over(0);
    rig_run(rig, 3 * RIG_TTL_MS);
    ck_assert_int_eq(rig_status(rig, 0), MESSAGE_STATUS_VOTING);
    const struct quorum_change *row = &rig->nodes[0].disk.change;
    ck_assert_uint_eq(row->number, 2);
    ck_assert_uint_eq(row->accepted, accept.as.change.ballot);
    ck_assert_uint_gt(row->promised, row->accepted);
    struct message rival = rig_message(rig, 1, MESSAGE_CHANGE_ACCEPT);
    rival.as.change.number = 2;
    rival.as.change.ballot = UINT64_C(1) << 16 | 2;
    rival.as.change.voters = rig_next(rig, 1, MESSAGE_MEMBER_REMOVE, 2);
    rig_give(rig, 0, &rival);
    ck_assert_uint_eq(rig->nodes[0].disk.change.accepted, accept.as.change.ballot);
}
END_TEST

/* A start-over needs answers of more than half of the other voters: one in a cell of two, and two
 * in a cell of four. */
START_TEST(even_numbers_start_over)
{
    begin(2 * (uint32_t)_i, 16);
    if (_i > 1) {
        rig_kill(rig, 3);
    }
    start_over(0);
    rig_run(rig, 3 * RIG_TTL_MS);
    ck_assert_int_eq(rig_status(rig, 0), MESSAGE_STATUS_VOTING);
}
END_TEST

/* No start-over is completed while the voters change, even if it began before the change. */
START_TEST(no_store_starts_over_while_the_voters_change)
{
    begin(5, 17);
    start_over(0);
    rig_run(rig, 500);
    ck_assert_uint_ne(rig->nodes[0].disk.members[0].generation, 0);
    rig->no_probes = true; /* no number becomes complete */
    struct message_voters next = rig_next(rig, 1, MESSAGE_MEMBER_MOVE, 2);
    choose(1, &next);
    rig_run(rig, 3 * RIG_TTL_MS);
    ck_assert_uint_eq(rig_number(rig, 0), 2);
    ck_assert_int_eq(rig_status(rig, 0), MESSAGE_STATUS_REJOINING);
    rig->no_probes = false;
    rig_run(rig, 3 * RIG_TTL_MS);
    ck_assert_int_eq(rig_status(rig, 0), MESSAGE_STATUS_VOTING);
}
END_TEST

/* A learner deletes the row with the commit at the store's opening, although no voter has loaded
 * it. */
START_TEST(a_learner_deletes_its_row)
{
    begin(3, 19);
    rig->nodes[3].disk.seen[3] = (struct quorum_seen){rig_name(3), {103, 1}, INT64_MAX};
    rig_start(rig, 3);
    expect_complete(0, MESSAGE_MEMBER_ADD, 3);
    rig_kill(rig, 3);
    rig_start(rig, 3);
    rig_run(rig, 2000);
    expect_voters(15, 2);
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
    tcase_add_test(tests, the_last_voter_waits_for_nobody);
    tcase_add_test(tests, other_numbers_do_not_count);
    tcase_add_test(tests, renewals_are_of_a_number);
    tcase_add_test(tests, lower_and_foreign_records_are_refused);
    tcase_add_test(tests, observers_are_not_believed);
    tcase_add_test(tests, empty_stores_begin_nothing);
    tcase_add_test(tests, a_move_takes_a_number);
    tcase_add_loop_test(tests, a_voter_is_sought_where_it_moves, 0, 2);
    tcase_add_loop_test(tests, a_move_waits_for_its_voter, 0, 2);
    tcase_add_test(tests, observers_change_nothing);
    tcase_add_test(tests, voters_come_and_go);
    tcase_add_loop_test(tests, a_removed_voter_learns_again, 0, 4);
    tcase_add_test(tests, one_two_three_and_back);
    tcase_add_test(tests, a_removal_needs_those_that_stay);
    tcase_add_test(tests, an_add_needs_those_of_before);
    tcase_add_test(tests, what_is_refused);
    tcase_add_test(tests, a_removal_needs_a_majority_with_the_removed_voter);
    tcase_add_test(tests, one_of_two_removes_nobody);
    tcase_add_test(tests, the_voter_that_a_change_waits_for_is_named);
    tcase_add_test(tests, an_address_belongs_to_one_voter);
    tcase_add_test(tests, older_agents_are_in_the_way);
    tcase_add_test(tests, rivals);
    tcase_add_test(tests, a_record_that_was_read_goes_on);
    tcase_add_test(tests, a_vote_for_a_record_waits_for_the_disk);
    tcase_add_test(tests, who_starts_over_keeps_the_next_record);
    tcase_add_loop_test(tests, even_numbers_start_over, 1, 3);
    tcase_add_test(tests, no_store_starts_over_while_the_voters_change);
    tcase_add_test(tests, a_store_that_is_ready_compares_once_a_second);
    tcase_add_test(tests, a_learner_deletes_its_row);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
