/*
 * The limit on the time that a user's rings cost (io/rings.h), and the log's lines about slow turns
 * (agent/observe/turns.h).
 */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../suite_main.h"
#include "io/clock.h"
#include "io/rings.h"
#include "observe/log.h"
#include "observe/turns.h"

#define MS INT64_C(1000000)
#define S (1000 * MS)

enum { COST_US = 30 };

/* Rings for lasts_ns, each time gap_ns after the previous ring was answered. One ring in `every`
 * has a cause; 0: no ring has a cause. Returns the share of the time that the rings took, in
 * thousandths. *longest_ns: the longest time without an answer. */
static int64_t ring_for(struct rings *rings, int64_t lasts_ns, unsigned every, int64_t gap_ns,
                        int64_t *longest_ns)
{
    int64_t now_ns = 1000 * S;
    int64_t end_ns = now_ns + lasts_ns;
    int64_t spent_ns = 0;
    uint64_t causes = 0;
    *longest_ns = 0;
    rings->as_of_ns = now_ns;
    for (unsigned ring = 0; now_ns < end_ns; ring++) {
        bool waits = rings_wait(rings, 1, now_ns);
        now_ns += COST_US * 1000;
        spent_ns += COST_US * 1000;
        causes += every != 0 && ring % every == 0;
        int64_t resume_ns = rings_answered(rings, now_ns, (COST_US - RINGS_TURN_US) * 1000, causes,
                                           ring);
        if (resume_ns != 0) {
            *longest_ns = resume_ns - now_ns > *longest_ns ? resume_ns - now_ns : *longest_ns;
            now_ns = resume_ns;
            waits = waits || rings_resume(rings, now_ns) != 0;
        }
        if (waits) { /* ck_assert() in each round would take too long */
            ck_abort_msg("it waits, or something does");
        }
        now_ns += gap_ns;
    }
    return spent_ns * 1000 / lasts_ns;
}

START_TEST(rings_without_end_cost_little)
{
    struct rings rings;
    int64_t longest_ns;
    rings_init(&rings);
    int64_t thousandths = ring_for(&rings, 60 * S, 0, 0, &longest_ns);
    ck_assert_int_le(thousandths, RINGS_NOTHING_PERCENT * 10 * 3 / 2);
    ck_assert_int_ge(thousandths, 5); /* rings are still answered */
    ck_assert_int_le(longest_ns, (RINGS_DEBT_MS - RINGS_BURST_MS / 2) * MS);
    ck_assert(rings_log_is_due(&rings, 1060 * S));
    rings_logged(&rings, 1060 * S);
    ck_assert(!rings_log_is_due(&rings, 1061 * S));
    rings_init(&rings);
    thousandths = ring_for(&rings, 60 * S, 1, 0, &longest_ns);
    ck_assert_int_le(thousandths, RINGS_CAUSE_PERCENT * 10 * 11 / 10);
    ck_assert_int_le(longest_ns, (RINGS_DEBT_MS - RINGS_BURST_MS / 2) * MS);
}
END_TEST

/* With `every` = 2, every second ring has no cause: the agent saw the lock's change at the previous
 * ring. */
START_TEST(honest_rings_are_never_late)
{
    struct rings rings;
    int64_t longest_ns;
    for (unsigned every = 1; every <= 2; every++) {
        rings_init(&rings);
        int64_t thousandths = ring_for(&rings, 60 * S, every, COST_US * 1100, &longest_ns);
        ck_assert_int_ge(thousandths, 450);
        ck_assert_int_eq(longest_ns, 0);
    }
}
END_TEST

/* However often a user rings during a pause, and on however many connections, the pause gets no
 * longer. After the pause, one answer serves all these rings, in all regions. */
START_TEST(rings_in_a_pause_are_answered_together)
{
    struct rings rings;
    int64_t now_ns = 1000 * S;
    rings_init(&rings);
    ck_assert(!rings_owe(&rings, now_ns));
    int64_t resume_ns = rings_answered(&rings, now_ns, 100 * MS, 1, 1);
    ck_assert_int_eq(resume_ns, now_ns + (RINGS_DEBT_MS - RINGS_BURST_MS / 2) * MS);
    ck_assert(rings_owe(&rings, now_ns));
    for (unsigned i = 0; i < 1000; i++) {
        ck_assert(rings_wait(&rings, UINT64_C(1) << (i % 3), resume_ns - 1000 + i));
    }
    ck_assert_int_eq(rings.resume_ns, resume_ns);
    ck_assert(rings_owe(&rings, resume_ns));
    ck_assert_uint_eq(rings_resume(&rings, resume_ns), 7);
    ck_assert(!rings_owe(&rings, resume_ns));
    ck_assert(!rings_wait(&rings, 1, resume_ns));
    /* The rings during the pause were read, which costs time, so the next answer is not free. */
    ck_assert_int_gt(rings_answered(&rings, resume_ns, 0, 2, 2), resume_ns);
}
END_TEST

/* After a pause the connections are read again one by one. Until the last connection is read, the
 * agent looks in time at every lock for which these connections may have rung. */
START_TEST(many_connections_are_read_seldom)
{
    struct rings rings;
    int64_t now_ns = 1000 * S;
    int64_t until_ns = now_ns;
    rings_init(&rings);
    int64_t resume_ns = rings_answered(&rings, now_ns, 100 * MS, 1, 1);
    for (unsigned i = 0; i < 500; i++) {
        ck_assert(rings_wait(&rings, i == 0 ? 5 : 1, now_ns));
        int64_t held_ns = rings_hold(&rings, now_ns);
        ck_assert_int_ge(held_ns, until_ns);
        ck_assert_int_ge(held_ns, resume_ns);
        ck_assert_int_le(held_ns, now_ns + 500 * MS + RINGS_TOGETHER_MS * MS);
        until_ns = held_ns;
    }
    ck_assert_int_ge(until_ns, now_ns + 500 * RINGS_SLOT_US * INT64_C(1000));
    until_ns = rings.slot_ns;
    unsigned looks = 0;
    while (resume_ns != 0) {
        ck_assert_int_le(resume_ns - now_ns, RINGS_DEBT_MS * MS);
        now_ns = resume_ns;
        ck_assert_uint_eq(rings_resume(&rings, now_ns), now_ns < until_ns || looks == 0 ? 5 : 0);
        looks++;
        resume_ns = rings_answered(&rings, now_ns, 0, 1, looks);
    }
    ck_assert_uint_ge(looks, 500 / RINGS_DEBT_MS);
    ck_assert_int_ge(now_ns, until_ns);
}
END_TEST

/* ---- slow turns ---- */

static char logged[4096];

/* Reads the lines that were logged since the previous call. */
static void take_log(int fd)
{
    ssize_t got = read(fd, logged, sizeof(logged) - 1);
    logged[got > 0 ? got : 0] = '\0';
}

static void burn(int64_t cpu_ns)
{
    int64_t end_ns = clock_thread_ns() + cpu_ns;
    while (clock_thread_ns() < end_ns) {
    }
}

START_TEST(a_slow_turn_names_what_took_it_and_for_whom)
{
    struct turns turns = {0};
    struct turns_user user = {.uid = 4711, .took_ns = 28 * MS};
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_NONBLOCK), 0);
    log_open(ends[1], false);
    turns_part(&turns, TURN_TIMER);
    turns_part(&turns, TURN_USERS);
    burn(30 * MS);
    turns_part(&turns, TURN_END);
    turns_end(&turns, clock_boottime_ns(), 60 * S, user);
    take_log(ends[0]);
    ck_assert_str_eq(logged, "");
    ck_assert_uint_eq(turns.slow, 0);
    turns_part(&turns, TURN_TIMER);
    turns_part(&turns, TURN_USERS);
    burn(30 * MS);
    turns_part(&turns, TURN_END);
    /* The machine itself may be busy. The test makes it look as if this turn had used the
     * processor. */
    turns.cpu_ns -= S;
    turns_end(&turns, clock_boottime_ns(), 20 * MS, user);
    take_log(ends[0]);
    ck_assert_msg(strstr(logged, "event=turn_slow") != NULL, "%s", logged);
    ck_assert_msg(strstr(logged, " part=users ") != NULL, "%s", logged);
    ck_assert_msg(strstr(logged, " uid=4711 ") != NULL, "%s", logged);
    ck_assert_uint_eq(turns.slow, 1);
    /* The next slow turn follows so soon that it is only counted, without a line. */
    turns_part(&turns, TURN_USERS);
    burn(30 * MS);
    turns_end(&turns, clock_boottime_ns(), 20 * MS, user);
    take_log(ends[0]);
    ck_assert_uint_eq(turns.slow, 2);
    ck_assert(turns.limit.left_out == 1 || strstr(logged, "turn_slow") != NULL);
}
END_TEST

/* If the process was stopped, got no processor, or waited for the disk, the line blames no part. */
START_TEST(a_turn_in_which_it_did_not_run_blames_nobody)
{
    struct turns turns = {0};
    struct turns_user user = {.uid = 4711, .took_ns = 50 * MS};
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_NONBLOCK), 0);
    log_open(ends[1], false);
    turns_part(&turns, TURN_USERS);
    ck_assert_int_eq(usleep(50000), 0);
    turns_end(&turns, clock_boottime_ns(), 20 * MS, user);
    take_log(ends[0]);
    ck_assert_msg(strstr(logged, "event=turn_slow") != NULL, "%s", logged);
    ck_assert_msg(strstr(logged, "the agent did not run") != NULL, "%s", logged);
    ck_assert_msg(strstr(logged, "uid=") == NULL, "%s", logged);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("rings and turns");
    tcase_add_test(tests, rings_without_end_cost_little);
    tcase_add_test(tests, honest_rings_are_never_late);
    tcase_add_test(tests, rings_in_a_pause_are_answered_together);
    tcase_add_test(tests, many_connections_are_read_seldom);
    tcase_add_test(tests, a_slow_turn_names_what_took_it_and_for_whom);
    tcase_add_test(tests, a_turn_in_which_it_did_not_run_blames_nobody);
    return suite_main("rings", tests);
}
