/* The only voter of a recovered cell waits. After that, every session from before the recovery is
 * over. */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "quorum_cell.h"

#define WAIT_NS (68 * INT64_C(1000) * CELL_MS)

enum { RECOVERIES = 3 };

static struct cell *cell;

/* Makes a cell of one voter, with the disk that a recovery leaves. */
static void setup(void)
{
    cell = cell_create(1, 1);
    struct cell_disk *disk = &cell->nodes[0].disk;
    struct message_voters *voters = &disk->voters;
    disk->recovery_wait_ns = WAIT_NS;
    disk->round = 1 << 24;
    for (uint32_t p = 0; p < MESSAGE_PARTITIONS; p++) {
        disk->checkpoints[p] = (struct message_checkpoint){
            .order = {.ballot = (UINT64_C(1) << 40) + 1, .sequence = 1},
            .floor = RECOVERIES * MESSAGE_TOKEN_GENERATION};
    }
    message_voters_begin(voters, cell->config.voters, NULL, 1);
    voters->recoveries = RECOVERIES;
    voters->number = message_voters_first(RECOVERIES);
    voters->act = MESSAGE_MEMBER_ADD;
    voters->changed = voters->of[0].name;
    cell_start(cell, 0);
}

static void teardown(void)
{
    cell_destroy(cell);
}

static bool votes(void)
{
    return quorum_voter_status(cell->nodes[0].quorum) == MESSAGE_STATUS_VOTING;
}

/* Sends a renewal of another agent, whose record of voters has that number. Returns whether the
 * voter has acknowledged the renewal. */
static bool renewed(const char *agent, uint32_t number)
{
    struct message message;
    uint64_t before = cell->sent[MESSAGE_RENEW_ACK];
    cell_header(cell, 0, MESSAGE_RENEW, &message);
    message.number = number;
    message_agent_set(&message.from, agent, strlen(agent));
    message.as.renew.agent = message.from;
    message.as.renew.epoch = 7;
    message.as.renew.renewal_id = 1;
    struct message_rules rules;
    quorum_rules(&cell->config, &rules);
    message.as.renew.durations = message_durations_digest(&rules);
    strcpy(message.as.renew.advertise, "tcp://other:1");
    cell_step(cell, 0,
              (struct quorum_event){.kind = QUORUM_MESSAGE,
                                    .now_ns = cell->now_ns,
                                    .random = cell_random(cell),
                                    .as.message = &message});
    return cell->sent[MESSAGE_RENEW_ACK] > before;
}

/* Sends a request of another agent, whose record has that number. Returns whether the agent got a
 * grant. */
static bool granted(const char *agent, const char *name, uint32_t number)
{
    struct message message;
    uint64_t before = cell->sent[MESSAGE_GRANT];
    cell_header(cell, 0, MESSAGE_ACQUIRE, &message);
    message.number = number;
    message_agent_set(&message.from, agent, strlen(agent));
    message.as.acquire.agent = message.from;
    message.as.acquire.epoch = 7;
    message.as.acquire.request_id = 1;
    message.as.acquire.mode = MESSAGE_MODE_EXCLUSIVE;
    message_name_set(&message.as.acquire.name, name, strlen(name));
    cell_step(cell, 0,
              (struct quorum_event){.kind = QUORUM_MESSAGE,
                                    .now_ns = cell->now_ns,
                                    .random = cell_random(cell),
                                    .as.message = &message});
    cell_settle(cell);
    return cell->sent[MESSAGE_GRANT] > before;
}

START_TEST(voter_of_a_recovered_cell_waits_before_it_votes)
{
    cell_run(cell, WAIT_NS - 100 * CELL_MS);
    ck_assert(!votes());
    ck_assert_int_gt(quorum_recovery_left_ns(cell->nodes[0].quorum), 0);
    ck_assert_str_eq(cell->nodes[0].last_log, "recovery_waits");
    cell_acquire(cell, 0, 0, "x", 1, 1, MESSAGE_MODE_EXCLUSIVE, 0);
    ck_assert(!renewed("other", message_voters_first(RECOVERIES)));
    ck_assert_ptr_null(cell_got(cell, 0, MESSAGE_GRANT));
    ck_assert_int_eq(cell->nodes[0].disk.recovery_wait_ns, WAIT_NS);
    cell_run(cell, 100 * CELL_MS);
    ck_assert(votes());
    ck_assert_int_eq(quorum_recovery_left_ns(cell->nodes[0].quorum), 0);
    ck_assert_str_eq(cell->nodes[0].last_log, "cell_recovered");
    ck_assert_int_eq(cell->nodes[0].disk.recovery_wait_ns, 0);
}
END_TEST

START_TEST(restart_within_the_wait_counts_anew)
{
    cell_run(cell, WAIT_NS - CELL_MS);
    cell_kill(cell, 0);
    cell_start(cell, 0);
    cell_run(cell, WAIT_NS - CELL_MS);
    ck_assert(!votes());
    cell_run(cell, 2 * CELL_MS);
    ck_assert(votes());
    cell_kill(cell, 0); /* a start after the wait does not wait again */
    cell_start(cell, 0);
    ck_assert(votes());
}
END_TEST

START_TEST(wrong_clock_counts_anew)
{
    cell_run(cell, WAIT_NS - CELL_MS);
    cell_step(cell, 0,
              (struct quorum_event){
                  .kind = QUORUM_ASTRAY, .now_ns = cell->now_ns, .random = cell_random(cell)});
    cell_run(cell, WAIT_NS - CELL_MS);
    ck_assert(!votes());
    cell_run(cell, 2 * CELL_MS);
    ck_assert(votes());
}
END_TEST

START_TEST(tokens_are_above_those_of_before)
{
    cell_run(cell, WAIT_NS + CELL_MS);
    cell_run_ready(cell);
    cell_extend(cell, 0, 0, 1);
    cell_acquire(cell, 0, 0, "x", 1, 1, MESSAGE_MODE_EXCLUSIVE, 0);
    cell_settle(cell);
    const struct message *grant = cell_got(cell, 0, MESSAGE_GRANT);
    ck_assert_ptr_nonnull(grant);
    ck_assert_uint_gt(grant->as.grant.token_first, RECOVERIES * MESSAGE_TOKEN_GENERATION);
    ck_assert_uint_gt(grant->as.grant.version.ballot >> 16, 1 << 24);
}
END_TEST

START_TEST(agent_that_goes_by_a_record_of_before_is_acknowledged_no_more)
{
    cell_run(cell, WAIT_NS + CELL_MS);
    cell_run_ready(cell);
    ck_assert(!renewed("other", 1));
    ck_assert(!renewed("other", 0)); /* a packet of an older version */
    ck_assert(!renewed("other", message_voters_first(RECOVERIES) - 1));
    ck_assert(!granted("other", "x", message_voters_first(RECOVERIES) - 1));
    ck_assert(renewed("other", message_voters_first(RECOVERIES)));
    ck_assert(granted("other", "y", message_voters_first(RECOVERIES)));
}
END_TEST

int main(void)
{
    static TCase *tests;
    tests = tcase_create("recover");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, voter_of_a_recovered_cell_waits_before_it_votes);
    tcase_add_test(tests, restart_within_the_wait_counts_anew);
    tcase_add_test(tests, wrong_clock_counts_anew);
    tcase_add_test(tests, tokens_are_above_those_of_before);
    tcase_add_test(tests, agent_that_goes_by_a_record_of_before_is_acknowledged_no_more);
    return suite_main("recover", tests);
}
