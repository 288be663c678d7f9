/* A recovered cell and the old voters. They follow the new cell when they learn of it, and their
 * votes do not count any more. */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "voters_rig.h"

enum { WAIT_MS = 68000 };

static struct rig *rig;

static void setup(void)
{
    rig = rig_create(3, 1);
    rig_start_all(rig);
    rig_run(rig, 2000);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert_int_eq(rig_status(rig, i), MESSAGE_STATUS_VOTING);
    }
}

static void teardown(void)
{
    rig_destroy(rig);
}

/* Changes a node's disk as a recovery with this store would, and starts its core. */
static void recover(uint32_t node, uint32_t recoveries)
{
    struct rig_disk *disk = &rig->nodes[node].disk;
    struct rig_disk old = *disk;
    const struct message_agent name = rig_name(node);
    if (rig->nodes[node].quorum != NULL) {
        rig_kill(rig, node);
    }
    memset(disk, 0, sizeof(*disk));
    disk->store_id = old.store_id + 1000;
    disk->commits = 2;
    disk->round = old.round + (1 << 24);
    disk->recovery_wait_ns = WAIT_MS * RIG_MS;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        disk->checkpoints[p].order.ballot = (uint64_t)disk->round << 16 | (node + 1);
        disk->checkpoints[p].order.sequence = 1;
        disk->checkpoints[p].floor = recoveries * MESSAGE_TOKEN_GENERATION;
    }
    message_voters_begin(&disk->voters, &name, NULL, 1);
    disk->voters.recoveries = recoveries;
    disk->voters.number = message_voters_first(recoveries);
    disk->voters.next_ballot_id = 4;
    disk->voters.complete = true;
    disk->voters.act = MESSAGE_MEMBER_ADD;
    disk->voters.changed = name;
    disk->voters.of[0].ballot_id = (uint16_t)(node + 1);
    disk->voters.of[0].store_id[0] = disk->store_id;
    disk->voters.of[0].store_id[1] = 1;
    rig_start(rig, node);
}

static void expect(uint32_t node, enum message_voter_status status, uint32_t recoveries)
{
    ck_assert_int_eq(rig_status(rig, node), status);
    ck_assert_uint_eq(rig_number(rig, node),
                      recoveries == 0 ? 1 : message_voters_first(recoveries));
}

static uint32_t coordinated(uint32_t node)
{
    struct quorum_survey survey;
    quorum_survey(rig->nodes[node].quorum, &survey);
    return survey.partitions - survey.incomplete;
}

START_TEST(old_voters_follow_the_recovered_cell)
{
    rig_kill(rig, 0);
    rig_kill(rig, 1);
    recover(2, 1);
    rig_run(rig, 1000);
    expect(2, MESSAGE_STATUS_LISTED, 1);
    rig_start(rig, 0); /* node 0 starts with its old store */
    rig_run(rig, 2000);
    expect(0, MESSAGE_STATUS_RETIRED, 1);
    ck_assert_uint_eq(rig->nodes[0].disk.voters.number, message_voters_first(1)); /* durable */
    rig_run(rig, WAIT_MS);
    expect(2, MESSAGE_STATUS_VOTING, 1);
    rig_start(rig, 1);
    rig_run(rig, 2000);
    expect(1, MESSAGE_STATUS_RETIRED, 1);
    ck_assert_uint_eq(coordinated(2), MESSAGE_PARTITIONS);
    ck_assert_uint_eq(coordinated(0) + coordinated(1), 0);
    /* node 0 stays retired after a restart */
    rig_kill(rig, 0);
    rig_start(rig, 0);
    rig_run(rig, 2000);
    expect(0, MESSAGE_STATUS_RETIRED, 1);
}
END_TEST

/* Two old voters that reach only each other are a majority of the old cell, and cannot know of the
 * recovery. They follow as soon as they learn of it. */
START_TEST(an_old_majority_follows_when_it_hears_of_the_recovery)
{
    rig_kill(rig, 0);
    rig_kill(rig, 1);
    recover(2, 1);
    rig->nodes[2].cut = true;
    rig_start(rig, 0);
    rig_start(rig, 1);
    rig_run(rig, 5000);
    expect(0, MESSAGE_STATUS_VOTING, 0);
    ck_assert_uint_eq(coordinated(0) + coordinated(1), MESSAGE_PARTITIONS);
    rig->nodes[2].cut = false;
    rig_run(rig, 8000);
    expect(0, MESSAGE_STATUS_RETIRED, 1);
    expect(1, MESSAGE_STATUS_RETIRED, 1);
    ck_assert_uint_eq(coordinated(0) + coordinated(1), 0);
    rig_run(rig, WAIT_MS);
    expect(2, MESSAGE_STATUS_VOTING, 1);
}
END_TEST

/* Returns whether node 2 acknowledges a renewal of host-b with the header of that node's record. */
static bool renewed_under(uint32_t node)
{
    struct message renew = rig_message(rig, node, MESSAGE_RENEW);
    uint32_t before = rig->nodes[2].kinds[MESSAGE_RENEW_ACK];
    struct message_rules rules = {.session_ttl_ns = RIG_TTL_MS * RIG_MS, .max_drift_percent = 10};
    renew.from = rig_name(1);
    renew.as.renew.agent = renew.from;
    renew.as.renew.epoch = 1;
    renew.as.renew.renewal_id = 1;
    renew.as.renew.durations = message_durations_digest(&rules);
    rig_give(rig, 2, &renew);
    return rig->nodes[2].kinds[MESSAGE_RENEW_ACK] > before;
}

/* Returns whether node 2 answers a request of host-b with the header of that node's record. */
static bool answered_under(uint32_t node)
{
    struct message acquire = rig_message(rig, node, MESSAGE_ACQUIRE);
    const uint32_t *kinds = rig->nodes[2].kinds;
    uint32_t before = kinds[MESSAGE_REFUSED] + kinds[MESSAGE_GRANT];
    acquire.from = rig_name(1);
    acquire.as.acquire = (struct message_acquire){
        .agent = acquire.from, .epoch = 1, .request_id = 1, .mode = MESSAGE_MODE_EXCLUSIVE};
    message_name_set(&acquire.as.acquire.name, "x", 1);
    rig_give(rig, 2, &acquire);
    rig_run(rig, 1000);
    return kinds[MESSAGE_REFUSED] + kinds[MESSAGE_GRANT] > before;
}

/* A voter ignores the requests of a host with an old record. The host's session is over, but the
 * host does not know that yet. */
START_TEST(requests_of_before_are_dropped)
{
    rig_kill(rig, 1);
    rig->nodes[0].cut = true;
    recover(2, 1);
    rig_run(rig, WAIT_MS + 1000);
    expect(2, MESSAGE_STATUS_VOTING, 1);
    ck_assert(!answered_under(0));
    ck_assert(answered_under(2));
}
END_TEST

/* An operator recovers a cell twice, with two stores. The records of the two cells have the same
 * number, but different digests. */
START_TEST(two_recovered_cells_do_not_mix)
{
    rig_kill(rig, 0);
    recover(1, 1);
    recover(2, 1);
    rig_run(rig, WAIT_MS + 5000);
    for (uint32_t node = 1; node <= 2; node++) {
        const struct message_voters *voters = quorum_voters(rig->nodes[node].quorum);
        const struct message_agent name = rig_name(node);
        expect(node, MESSAGE_STATUS_VOTING, 1);
        ck_assert_uint_eq(voters->count, 1);
        ck_assert(memcmp(&voters->of[0].name, &name, sizeof(name)) == 0);
        ck_assert_uint_eq(coordinated(node), MESSAGE_PARTITIONS);
    }
    ck_assert(!renewed_under(1));
    ck_assert(renewed_under(2));
}
END_TEST

/* If a cell was recovered twice, the later recovery counts. */
START_TEST(a_later_recovery_supersedes_an_earlier_one)
{
    rig_kill(rig, 0);
    rig->nodes[2].cut = true;
    recover(1, 1);
    rig_run(rig, WAIT_MS + 1000);
    expect(1, MESSAGE_STATUS_VOTING, 1);
    struct message told = rig_message(rig, 1, MESSAGE_VOTERS);
    message_voters_copy(&told.as.told.voters, quorum_voters(rig->nodes[1].quorum));
    told.from = rig_name(1);
    struct message_voters *voters = &told.as.told.voters;
    voters->recoveries = 7;
    voters->number = message_voters_first(7) + (1 << 16) + 1; /* no series of changes leads to
                                                               * such a number */
    rig_give(rig, 2, &told);
    expect(2, MESSAGE_STATUS_VOTING, 0);
    voters->number = message_voters_first(7) - 1; /* a number of another generation */
    rig_give(rig, 2, &told);
    expect(2, MESSAGE_STATUS_VOTING, 0);
    voters->recoveries = MESSAGE_RECOVERIES_LIMIT;
    voters->number = message_voters_first(MESSAGE_RECOVERIES_LIMIT);
    rig_give(rig, 2, &told);
    expect(2, MESSAGE_STATUS_VOTING, 0);
    voters->recoveries = 7;
    voters->number = message_voters_first(7);
    rig_give(rig, 2, &told);
    expect(2, MESSAGE_STATUS_RETIRED, 7);
}
END_TEST

/* The first change of a cell draws the cell's id. The other voters know of that change, but the
 * store of the recovery does not. They still follow the recovered cell. */
START_TEST(a_store_of_before_the_first_change_is_followed)
{
    struct message told = rig_message(rig, 1, MESSAGE_VOTERS);
    rig_kill(rig, 2);
    told.as.told.voters = rig_next(rig, 0, MESSAGE_MEMBER_MOVE, 1);
    told.as.told.voters.cell_id[0] = 7;
    rig_give(rig, 0, &told);
    ck_assert_uint_eq(rig_number(rig, 0), 2);
    rig_kill(rig, 1);
    recover(2, 1);
    rig_run(rig, 2000);
    expect(0, MESSAGE_STATUS_RETIRED, 1);
    /* another cell has another id */
    told = rig_message(rig, 2, MESSAGE_VOTERS);
    told.as.told.voters = rig->nodes[2].disk.voters;
    told.as.told.voters.recoveries = 2;
    told.as.told.voters.number = message_voters_first(2);
    told.as.told.voters.cell_id[0] = 8;
    rig->nodes[0].disk.voters.cell_id[0] = 7;
    rig_kill(rig, 0);
    rig_start(rig, 0);
    rig_give(rig, 0, &told);
    expect(0, MESSAGE_STATUS_RETIRED, 1);
}
END_TEST

/* An agent was a learner before the recovery, so it knows the survivor's old store. It forgets that
 * store, and can become a voter of the recovered cell. */
START_TEST(a_learner_of_before_joins_the_recovered_cell)
{
    rig_start(rig, 3);
    rig_run(rig, 2000);
    expect(3, MESSAGE_STATUS_LEARNING, 0);
    ck_assert_uint_ne(rig->nodes[3].disk.members[2].store_id[0], 0);
    rig_kill(rig, 0);
    rig_kill(rig, 1);
    recover(2, 1);
    rig_run(rig, WAIT_MS + 2000);
    expect(2, MESSAGE_STATUS_VOTING, 1);
    expect(3, MESSAGE_STATUS_LEARNING, 1);
    struct message ask = rig_message(rig, 2, MESSAGE_MEMBER);
    ask.number = rig_number(rig, 2);
    ask.digest = message_voters_digest(quorum_voters(rig->nodes[2].quorum));
    ask.membership = 1;
    ask.as.member.agent = ask.from;
    ask.as.member.request_id = 1;
    ask.as.member.act = MESSAGE_MEMBER_ADD;
    ask.as.member.voter = rig_name(3);
    memcpy(ask.as.member.address, "tcp://new", sizeof("tcp://new"));
    rig_give(rig, 2, &ask);
    rig_run(rig, 15000);
    ck_assert_uint_eq(rig_number(rig, 2), message_voters_first(1) + 1);
    ck_assert_int_eq(rig_status(rig, 2), MESSAGE_STATUS_VOTING);
    ck_assert_int_eq(rig_status(rig, 3), MESSAGE_STATUS_VOTING);
    ck_assert(rig->nodes[2].disk.voters.complete);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("recover_cell");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, old_voters_follow_the_recovered_cell);
    tcase_add_test(tests, an_old_majority_follows_when_it_hears_of_the_recovery);
    tcase_add_test(tests, requests_of_before_are_dropped);
    tcase_add_test(tests, two_recovered_cells_do_not_mix);
    tcase_add_test(tests, a_later_recovery_supersedes_an_earlier_one);
    tcase_add_test(tests, a_store_of_before_the_first_change_is_followed);
    tcase_add_test(tests, a_learner_of_before_joins_the_recovered_cell);
    tcase_set_timeout(tests, 60);
    return suite_main("recover_cell", tests);
}
