/* Resources that are used up: the registers of some voters, the entries for agents, and the
 * sequence numbers of a ballot. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "../suite_main.h"
#include "quorum/ballots_private.h"
#include "quorum_cell.h"

enum { SMALL = 8, NAMES = 24 };

static const enum message_mode X = MESSAGE_MODE_EXCLUSIVE;

/* Makes three voters. A voter whose bit is set in `small` has room for few registers. */
static struct cell *cell_with_small(uint32_t small)
{
    struct cell *cell = cell_create(3, 1);
    uint32_t large = cell->config.limits.registers;
    for (uint32_t i = 0; i < 3; i++) {
        cell->config.limits.registers = (small >> i & 1) != 0 ? SMALL : large;
        cell_start(cell, i);
    }
    cell->config.limits.registers = large;
    cell_run_ready(cell);
    return cell;
}

/* Makes a name that voter `to` coordinates; each number gives another name. */
static void name_of(const struct cell *cell, uint32_t to, uint32_t number, char name[16])
{
    uint32_t found = 0;
    for (uint32_t i = 0; found <= number; i++) {
        snprintf(name, 16, "n%u", i);
        found += cell_coordinator(cell, name) == to;
    }
}

/* Asks the coordinator for NAMES names that it coordinates. Each request gets an answer. Returns
 * how many were granted. */
static uint32_t ask(struct cell *cell, uint32_t to)
{
    char name[16];
    for (uint32_t i = 0; i < NAMES; i++) {
        name_of(cell, to, i, name);
        cell_acquire(cell, to, to, name, 1 + i, 1, X, 0);
        cell_run(cell, 400 * CELL_MS); /* long enough even if one voter does not answer */
        uint32_t granted = cell_got_count(cell, to, MESSAGE_GRANT);
        uint32_t refused = cell_got_count(cell, to, MESSAGE_REFUSED);
        ck_assert_uint_eq(granted + refused, i + 1);
    }
    return cell_got_count(cell, to, MESSAGE_GRANT);
}

START_TEST(one_full_voter_of_three_is_done_without)
{
    uint32_t small = 1 + (uint32_t)_i;
    struct cell *cell = cell_with_small(1u << small);
    ck_assert_uint_eq(ask(cell, 0), NAMES);
    ck_assert_uint_eq(cell->nodes[small].disk.register_count, SMALL);
    cell_destroy(cell);
}
END_TEST

START_TEST(without_a_majority_that_has_room_it_is_told_full)
{
    struct cell *cell = cell_with_small(1u << 1 | 1u << 2);
    char name[16];
    ck_assert_uint_eq(ask(cell, 0), SMALL);
    const struct message *last = cell_got(cell, 0, MESSAGE_REFUSED);
    ck_assert_uint_eq(last->as.refused.reason, MESSAGE_REFUSED_FULL);
    ck_assert_uint_eq(last->as.refused.request_id, NAMES);
    /* A name that the voters know still works. */
    name_of(cell, 0, 0, name);
    cell_acquire(cell, 0, 0, name, 100, 1, X, 0);
    cell_settle(cell);
    ck_assert_uint_eq(cell_got(cell, 0, MESSAGE_GRANT)->as.grant.request_id, 100);
    /* One full voter gets more room: a lock that was refused for lack of room is granted now. */
    cell_kill(cell, 1);
    cell_start(cell, 1);
    cell_run_ready(cell);
    name_of(cell, 0, NAMES - 1, name);
    cell_acquire(cell, 0, cell_coordinator(cell, name), name, 101, 1, X, 0);
    cell_run(cell, 2000 * CELL_MS);
    ck_assert_uint_eq(cell_got(cell, 0, MESSAGE_GRANT)->as.grant.request_id, 101);
    cell_destroy(cell);
}
END_TEST

START_TEST(a_coordinator_without_room_says_so)
{
    struct cell *cell = cell_with_small(1u << 0);
    uint32_t granted = ask(cell, 0);
    ck_assert_uint_le(granted, SMALL);
    ck_assert_uint_eq(cell_got(cell, 0, MESSAGE_REFUSED)->as.refused.reason, MESSAGE_REFUSED_FULL);
    cell_destroy(cell);
}
END_TEST

START_TEST(no_room_for_one_more_agent_is_told)
{
    static const char *const agents[] = {"other-a", "other-b", "other-c", "other-d"};
    struct cell *cell = cell_create(1, 1);
    cell->config.limits.agents = 3;
    cell_start_all(cell);
    cell_run_ready(cell);
    uint32_t granted = 0;
    for (uint32_t i = 0; i < 4; i++) {
        char name[2] = {(char)('a' + i), 0};
        cell_other_acquire(cell, agents[i], 0, name, 7, 1, X);
        cell_settle(cell);
        const struct message *refused = cell_other_got(cell, agents[i], MESSAGE_REFUSED);
        granted += cell_other_got(cell, agents[i], MESSAGE_GRANT) != NULL;
        if (refused != NULL) {
            ck_assert_uint_eq(refused->as.refused.reason, MESSAGE_REFUSED_FULL);
            ck_assert_uint_eq(refused->as.refused.request_id, 7);
        }
    }
    ck_assert_uint_eq(granted, 2); /* the voter's own agent takes one of the three entries */
    ck_assert_ptr_nonnull(cell_other_got(cell, agents[3], MESSAGE_REFUSED));
    cell_destroy(cell);
}
END_TEST

/* The sequence numbers of a ballot are used up while proposals are under way: the coordinator
 * continues with a new ballot. */
START_TEST(numbers_of_rounds_that_are_used_up_begin_anew)
{
    enum { BURST = 5, TIMES = 8 };
    struct cell *cell = cell_ready(_i ? 3 : 1);
    char name[16];
    uint64_t ballot = 0;
    cell->nodes[0].quorum->ballots->sequence = MESSAGE_SEQUENCE_LIMIT - 8;
    for (uint32_t i = 1; i <= TIMES; i++) {
        for (uint32_t k = 0; k < BURST; k++) {
            name_of(cell, 0, i * BURST + k, name);
            cell_acquire(cell, 0, 0, name, i * BURST + k, 1, X, 0);
        }
        cell_run(cell, 300 * CELL_MS);
        ck_assert_uint_eq(cell_got_count(cell, 0, MESSAGE_GRANT), i * BURST);
        const struct message_grant *last = &cell_got(cell, 0, MESSAGE_GRANT)->as.grant;
        ck_assert_uint_ge(last->version.ballot, ballot);
        ballot = last->version.ballot;
    }
    ck_assert_uint_lt(cell->nodes[0].quorum->ballots->sequence, MESSAGE_SEQUENCE_LIMIT / 2);
    cell_destroy(cell);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("full");
    tcase_add_loop_test(tests, one_full_voter_of_three_is_done_without, 0, 2);
    tcase_add_test(tests, without_a_majority_that_has_room_it_is_told_full);
    tcase_add_test(tests, a_coordinator_without_room_says_so);
    tcase_add_test(tests, no_room_for_one_more_agent_is_told);
    tcase_add_loop_test(tests, numbers_of_rounds_that_are_used_up_begin_anew, 0, 2);
    tcase_set_timeout(tests, 60);
    return suite_main("full", tests);
}
