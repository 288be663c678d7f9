/*
 * What a bell may cost (agent/serve/bells.h), and what the log says of a turn that took long
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
#include "observe/log.h"
#include "observe/turns.h"
#include "serve/bells.h"

#define MS INT64_C(1000000)
#define S (1000 * MS)

enum { COST_US = 30 };

/* Rings as soon as it is listened to, for so long. Its part of the time in thousandths;
 * *longest_ns: for how long nobody listened. every: how many rings there are to a cause; 0: there
 * is none. */
static int64_t ring_for(struct bell *bell, int64_t lasts_ns, unsigned every, int64_t gap_ns,
                        int64_t *longest_ns)
{
    int64_t now_ns = 1000 * S;
    int64_t end_ns = now_ns + lasts_ns;
    int64_t spent_ns = 0;
    uint64_t causes = 0;
    *longest_ns = 0;
    bell->as_of_ns = now_ns;
    for (unsigned ring = 0; now_ns < end_ns; ring++) {
        now_ns += COST_US * 1000;
        spent_ns += COST_US * 1000;
        causes += every != 0 && ring % every == 0;
        int64_t resume_ns = bell_answered(bell, now_ns, (COST_US - BELL_TURN_US) * 1000, causes);
        if (resume_ns != 0) {
            *longest_ns = resume_ns - now_ns > *longest_ns ? resume_ns - now_ns : *longest_ns;
            now_ns = resume_ns;
        }
        now_ns += gap_ns;
    }
    return spent_ns * 1000 / lasts_ns;
}

START_TEST(a_bell_without_end_costs_little)
{
    struct bell bell;
    int64_t longest_ns;
    bell_init(&bell);
    int64_t thousandths = ring_for(&bell, 60 * S, 0, 0, &longest_ns);
    ck_assert_int_le(thousandths, BELL_NOTHING_PERCENT * 10 * 3 / 2);
    ck_assert_int_ge(thousandths, 5); /* it is listened to */
    ck_assert_int_le(longest_ns, (BELL_DEBT_MS - BELL_BURST_MS / 2) * MS);
    ck_assert(bell_is_to_be_told(&bell, 1060 * S));
    bell_told(&bell, 1060 * S);
    ck_assert(!bell_is_to_be_told(&bell, 1061 * S));
    bell_init(&bell);
    thousandths = ring_for(&bell, 60 * S, 1, 0, &longest_ns);
    ck_assert_int_le(thousandths, BELL_CAUSE_PERCENT * 10 * 11 / 10);
    ck_assert_int_le(longest_ns, (BELL_DEBT_MS - BELL_BURST_MS / 2) * MS);
}
END_TEST

/* With every second ring for nothing, as when what rang was seen with the ring before. */
START_TEST(an_honest_bell_is_never_late)
{
    struct bell bell;
    int64_t longest_ns;
    for (unsigned every = 1; every <= 2; every++) {
        bell_init(&bell);
        int64_t thousandths = ring_for(&bell, 60 * S, every, COST_US * 1100, &longest_ns);
        ck_assert_int_ge(thousandths, 450);
        ck_assert_int_eq(longest_ns, 0);
    }
}
END_TEST

/* ---- turns ---- */

static char logged[4096];

/* What the log says meanwhile. */
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

static const char *const spaces[] = {"default", "orders"};

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
    turns_end(&turns, clock_boottime_ns(), 60 * S, user, spaces);
    take_log(ends[0]);
    ck_assert_str_eq(logged, "");
    ck_assert_uint_eq(turns.slow, 0);
    for (int bells = 0; bells < 2; bells++) {
        turns.told_ns = 0;
        turns_part(&turns, TURN_TIMER);
        turns_part(&turns, bells ? TURN_BELLS : TURN_USERS);
        int64_t began_ns = clock_thread_ns();
        burn(30 * MS);
        turns_bell(&turns, 1, clock_thread_ns() - began_ns);
        turns_part(&turns, TURN_END);
        /* Of a machine that is busy itself: as if nothing but this had taken the time. */
        turns.cpu_ns -= S;
        turns_end(&turns, clock_boottime_ns(), 20 * MS, user, spaces);
        take_log(ends[0]);
        ck_assert_msg(strstr(logged, "event=turn_slow") != NULL, "%s", logged);
        ck_assert_msg(strstr(logged, bells ? " part=bells " : " part=users ") != NULL, "%s",
                      logged);
        ck_assert_msg(strstr(logged, bells ? " namespace=orders " : " uid=4711 ") != NULL, "%s",
                      logged);
        ck_assert_msg(strstr(logged, bells ? " uid=" : " namespace=") == NULL, "%s", logged);
    }
    ck_assert_uint_eq(turns.slow, 2);
    /* The next one follows too soon to be told, and is counted. */
    turns_part(&turns, TURN_USERS);
    burn(30 * MS);
    turns_end(&turns, clock_boottime_ns(), 20 * MS, user, spaces);
    take_log(ends[0]);
    ck_assert_uint_eq(turns.slow, 3);
    ck_assert(turns.untold == 1 || strstr(logged, "turn_slow") != NULL);
}
END_TEST

/* A process that was stopped, or got no processor, or waited for the disk. */
START_TEST(a_turn_in_which_it_did_not_run_blames_nobody)
{
    struct turns turns = {0};
    struct turns_user user = {.uid = 4711, .took_ns = 50 * MS};
    int ends[2];
    ck_assert_int_eq(pipe2(ends, O_NONBLOCK), 0);
    log_open(ends[1], false);
    turns_part(&turns, TURN_USERS);
    ck_assert_int_eq(usleep(50000), 0);
    turns_end(&turns, clock_boottime_ns(), 20 * MS, user, spaces);
    take_log(ends[0]);
    ck_assert_msg(strstr(logged, "event=turn_slow") != NULL, "%s", logged);
    ck_assert_msg(strstr(logged, "it did not run") != NULL, "%s", logged);
    ck_assert_msg(strstr(logged, "uid=") == NULL, "%s", logged);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("bells and turns");
    tcase_add_test(tests, a_bell_without_end_costs_little);
    tcase_add_test(tests, an_honest_bell_is_never_late);
    tcase_add_test(tests, a_slow_turn_names_what_took_it_and_for_whom);
    tcase_add_test(tests, a_turn_in_which_it_did_not_run_blames_nobody);
    return suite_main("bells", tests);
}
