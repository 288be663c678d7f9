/*
 * The check of the cluster tests (tests/cluster/history.h), with histories that are right, that are
 * wrong, and that only look wrong. A fault that this check misses stays hidden in every cluster
 * test.
 */
#include "../cluster/history.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"

enum { CAPACITY = 4096, LOCK = 7, OTHER_LOCK = 8 };

static struct history *history;
static struct history_report report;

static void set_up(void)
{
    history = history_create(NULL, CAPACITY);
    ck_assert_ptr_nonnull(history);
}

static void tear_down(void)
{
    history_destroy(history);
}

static void log_event(int64_t time_ns, enum history_kind kind, uint32_t pid)
{
    history_add(history,
                (struct history_event){.time_ns = time_ns, .kind = kind, .pid = pid, .lock = LOCK});
}

static void log_acquired(int64_t time_ns, uint32_t pid, enum history_mode mode, uint64_t token,
                         int64_t deadline_ns)
{
    log_event(time_ns - 1, HISTORY_ATTEMPT, pid);
    history_add(history, (struct history_event){.time_ns = time_ns,
                                                .kind = HISTORY_ACQUIRED,
                                                .pid = pid,
                                                .lock = LOCK,
                                                .mode = mode,
                                                .token = token,
                                                .deadline_ns = deadline_ns});
}

/* Logs a hold with a clean release. */
static void log_hold(int64_t begin_ns, int64_t end_ns, uint32_t pid, enum history_mode mode,
                     uint64_t token)
{
    log_acquired(begin_ns, pid, mode, token, 0);
    log_event(end_ns, HISTORY_RELEASED, pid);
}

static void expect_clean(void)
{
    ck_assert_int_eq(history_check(history, &report), 0);
    ck_assert_str_eq(report.first, "");
}

/* Checks that the report has exactly these numbers of findings. */
static void expect(size_t overlaps, size_t token_faults, size_t unserved, size_t malformed)
{
    ck_assert_int_eq(history_check(history, &report), 1);
    ck_assert_str_ne(report.first, "");
    ck_assert_uint_eq(report.overlaps, overlaps);
    ck_assert_uint_eq(report.token_faults, token_faults);
    ck_assert_uint_eq(report.unserved, unserved);
    ck_assert_uint_eq(report.malformed, malformed);
}

START_TEST(an_empty_history_is_clean)
{
    expect_clean();
    ck_assert_uint_eq(report.holds, 0);
}
END_TEST

START_TEST(holds_in_turn_are_clean)
{
    log_hold(100, 200, 1, HISTORY_EXCLUSIVE, 1);
    log_hold(200, 300, 2, HISTORY_EXCLUSIVE, 2);
    log_hold(310, 400, 1, HISTORY_EXCLUSIVE, 5);
    expect_clean();
    ck_assert_uint_eq(report.holds, 3);
    ck_assert_uint_eq(report.exclusive_holds, 3);
}
END_TEST

START_TEST(the_order_of_logging_does_not_matter)
{
    log_hold(310, 400, 1, HISTORY_EXCLUSIVE, 5);
    log_hold(200, 300, 2, HISTORY_EXCLUSIVE, 2);
    log_hold(100, 190, 1, HISTORY_EXCLUSIVE, 1);
    log_event(600, HISTORY_RELEASED, 3);
    log_acquired(500, 3, HISTORY_EXCLUSIVE, 6, 0);
    expect_clean();
}
END_TEST

START_TEST(two_exclusive_holds_at_once)
{
    log_hold(100, 200, 1, HISTORY_EXCLUSIVE, 1);
    log_hold(199, 300, 2, HISTORY_EXCLUSIVE, 2);
    expect(1, 0, 0, 0);
}
END_TEST

START_TEST(a_hold_within_a_long_one)
{
    log_hold(100, 900, 1, HISTORY_EXCLUSIVE, 1);
    log_hold(200, 300, 2, HISTORY_EXCLUSIVE, 2);
    log_hold(400, 500, 3, HISTORY_EXCLUSIVE, 3);
    expect(2, 0, 0, 0);
}
END_TEST

START_TEST(holds_of_two_locks_may_overlap)
{
    log_hold(100, 200, 1, HISTORY_EXCLUSIVE, 1);
    struct history_event event = {
        .time_ns = 110, .kind = HISTORY_ATTEMPT, .pid = 2, .lock = OTHER_LOCK, .token = 1};
    history_add(history, event);
    event.kind = HISTORY_ACQUIRED;
    history_add(history, event);
    event.kind = HISTORY_RELEASED;
    history_add(history, event);
    expect_clean();
}
END_TEST

/* A reader called acquire after another reader's acquire had returned, and got a lower token than
 * that reader. */
START_TEST(a_readers_token_goes_back)
{
    log_hold(50, 90, 9, HISTORY_EXCLUSIVE, 4);
    log_hold(100, 300, 1, HISTORY_SHARED, 7);
    log_hold(110, 120, 2, HISTORY_SHARED, 5);
    log_hold(130, 140, 3, HISTORY_SHARED, 6);
    log_hold(150, 250, 4, HISTORY_SHARED, 7);
    expect(0, 2, 0, 0);
    ck_assert_uint_eq(report.apart, 4);
}
END_TEST

START_TEST(readers_whose_calls_overlap_may_return_in_any_order)
{
    log_hold(50, 90, 9, HISTORY_EXCLUSIVE, 4);
    log_event(95, HISTORY_ATTEMPT, 2);
    log_hold(100, 300, 1, HISTORY_SHARED, 7);
    history_add(history, (struct history_event){.time_ns = 110,
                                                .kind = HISTORY_ACQUIRED,
                                                .pid = 2,
                                                .lock = LOCK,
                                                .mode = HISTORY_SHARED,
                                                .token = 5});
    log_event(120, HISTORY_RELEASED, 2);
    expect_clean();
}
END_TEST

START_TEST(readers_together_are_clean)
{
    log_hold(50, 90, 9, HISTORY_EXCLUSIVE, 4);
    log_hold(100, 300, 1, HISTORY_SHARED, 4);
    log_hold(150, 250, 2, HISTORY_SHARED, 4);
    log_hold(300, 400, 3, HISTORY_EXCLUSIVE, 5);
    expect_clean();
    ck_assert_uint_eq(report.exclusive_holds, 2);
}
END_TEST

START_TEST(a_writer_among_readers)
{
    log_hold(100, 300, 1, HISTORY_SHARED, 4);
    log_hold(150, 160, 2, HISTORY_SHARED, 4);
    log_hold(200, 400, 3, HISTORY_EXCLUSIVE, 5);
    expect(1, 0, 0, 0);
}
END_TEST

START_TEST(a_reader_during_a_writer)
{
    log_hold(100, 300, 1, HISTORY_EXCLUSIVE, 4);
    log_hold(200, 400, 2, HISTORY_SHARED, 4);
    expect(1, 0, 0, 0);
}
END_TEST

START_TEST(a_token_given_twice)
{
    log_hold(100, 200, 1, HISTORY_EXCLUSIVE, 3);
    log_hold(300, 400, 2, HISTORY_EXCLUSIVE, 3);
    expect(0, 1, 0, 0);
}
END_TEST

START_TEST(a_token_that_falls)
{
    log_hold(100, 200, 1, HISTORY_EXCLUSIVE, 3);
    log_hold(300, 400, 2, HISTORY_EXCLUSIVE, 9);
    log_hold(500, 600, 3, HISTORY_EXCLUSIVE, 4);
    expect(0, 1, 0, 0);
}
END_TEST

START_TEST(a_reader_with_an_old_token)
{
    log_hold(100, 200, 1, HISTORY_EXCLUSIVE, 3);
    log_hold(300, 400, 2, HISTORY_SHARED, 2);
    expect(0, 1, 0, 0);
}
END_TEST

START_TEST(a_writer_with_its_readers_token)
{
    log_hold(100, 200, 1, HISTORY_SHARED, 3);
    log_hold(300, 400, 2, HISTORY_EXCLUSIVE, 3);
    expect(0, 1, 0, 0);
}
END_TEST

START_TEST(a_waiter_that_is_never_served)
{
    log_hold(100, 200, 1, HISTORY_EXCLUSIVE, 1);
    log_event(150, HISTORY_ATTEMPT, 2);
    expect(0, 0, 1, 0);
}
END_TEST

START_TEST(a_waiter_that_gave_up_or_died_is_clean)
{
    log_event(100, HISTORY_ATTEMPT, 1);
    log_event(150, HISTORY_GAVE_UP, 1);
    log_event(100, HISTORY_ATTEMPT, 2);
    log_event(150, HISTORY_KILL_SENT, 2);
    log_event(160, HISTORY_KILLED, 2);
    expect_clean();
}
END_TEST

START_TEST(the_longest_wait_is_told)
{
    log_event(100, HISTORY_ATTEMPT, 1);
    history_add(history, (struct history_event){
                             .time_ns = 170, .kind = HISTORY_ACQUIRED, .pid = 1, .lock = LOCK});
    log_event(180, HISTORY_RELEASED, 1);
    log_hold(200, 300, 2, HISTORY_EXCLUSIVE, 2);
    expect_clean();
    ck_assert_int_eq(report.longest_wait_ns, 70);
}
END_TEST

START_TEST(a_killed_holder_holds_until_the_kill_is_sent)
{
    log_acquired(100, 1, HISTORY_EXCLUSIVE, 1, 0);
    log_event(500, HISTORY_KILL_SENT, 1);
    log_event(600, HISTORY_KILLED, 1);
    log_hold(499, 700, 2, HISTORY_EXCLUSIVE, 2);
    expect(1, 0, 0, 0);
}
END_TEST

START_TEST(between_kill_and_wait_nothing_is_certain)
{
    log_acquired(100, 1, HISTORY_EXCLUSIVE, 1, 0);
    log_event(500, HISTORY_KILL_SENT, 1);
    log_event(600, HISTORY_KILLED, 1);
    log_hold(500, 700, 2, HISTORY_EXCLUSIVE, 2);
    expect_clean();
}
END_TEST

START_TEST(a_killed_holder_is_not_trusted_beyond_its_deadline)
{
    log_acquired(100, 1, HISTORY_EXCLUSIVE, 1, 300);
    log_event(500, HISTORY_KILL_SENT, 1);
    log_event(600, HISTORY_KILLED, 1);
    log_hold(300, 400, 2, HISTORY_EXCLUSIVE, 2);
    expect_clean();
}
END_TEST

START_TEST(a_killed_holders_token_still_counts)
{
    log_acquired(100, 1, HISTORY_EXCLUSIVE, 5, 300);
    log_event(500, HISTORY_KILL_SENT, 1);
    log_event(600, HISTORY_KILLED, 1);
    log_hold(650, 700, 2, HISTORY_EXCLUSIVE, 4);
    expect(0, 1, 0, 0);
}
END_TEST

START_TEST(a_pid_may_come_again_after_its_death)
{
    log_acquired(100, 1, HISTORY_EXCLUSIVE, 1, 0);
    log_event(200, HISTORY_KILL_SENT, 1);
    log_event(210, HISTORY_KILLED, 1);
    log_hold(300, 400, 1, HISTORY_EXCLUSIVE, 2);
    expect_clean();
    ck_assert_uint_eq(report.holds, 2);
}
END_TEST

START_TEST(a_kill_during_a_release_proves_nothing)
{
    log_hold(100, 400, 1, HISTORY_EXCLUSIVE, 1);
    log_event(500, HISTORY_KILL_SENT, 1);
    log_event(600, HISTORY_KILLED, 1);
    log_hold(300, 350, 2, HISTORY_EXCLUSIVE, 2);
    expect_clean();
}
END_TEST

START_TEST(a_lost_hold_lasted_until_it_was_last_seen)
{
    log_acquired(100, 1, HISTORY_EXCLUSIVE, 1, 150);
    history_add(
        history,
        (struct history_event){
            .time_ns = 200, .kind = HISTORY_HELD, .pid = 1, .lock = LOCK, .deadline_ns = 250});
    log_event(900, HISTORY_LOST, 1);
    log_hold(200, 300, 2, HISTORY_EXCLUSIVE, 2);
    expect_clean();
    log_acquired(199, 3, HISTORY_SHARED, 1, 0);
    log_event(199, HISTORY_RELEASED, 3);
    expect(1, 0, 0, 0);
}
END_TEST

START_TEST(a_release_that_found_it_lost_does_not_prove_a_hold)
{
    log_acquired(100, 1, HISTORY_EXCLUSIVE, 1, 150);
    log_event(900, HISTORY_RELEASED, 1);
    log_event(901, HISTORY_LOST, 1);
    log_hold(200, 300, 2, HISTORY_EXCLUSIVE, 2);
    expect_clean();
}
END_TEST

/* The lease was renewed after the hold was recorded. A release that found the lock held shows that
 * the hold lasted longer than the deadline in its record. */
START_TEST(a_release_outweighs_an_old_deadline)
{
    log_acquired(100, 1, HISTORY_EXCLUSIVE, 1, 90);
    log_event(200, HISTORY_RELEASED, 1);
    log_hold(199, 300, 2, HISTORY_EXCLUSIVE, 2);
    expect(1, 0, 0, 0);
}
END_TEST

/* The holder was stopped between the acquire and its record. It continued after its deadline (150),
 * when the next holder already had the lock. So the record comes after a record with a higher
 * token. */
START_TEST(a_late_record_of_a_lost_hold_has_no_order)
{
    log_hold(200, 300, 2, HISTORY_EXCLUSIVE, 2);
    log_acquired(250, 1, HISTORY_EXCLUSIVE, 1, 150);
    log_event(260, HISTORY_LOST, 1);
    expect_clean();
}
END_TEST

START_TEST(a_late_record_with_the_same_token_is_a_fault)
{
    log_hold(200, 300, 2, HISTORY_EXCLUSIVE, 2);
    log_acquired(350, 1, HISTORY_EXCLUSIVE, 2, 150);
    log_event(360, HISTORY_LOST, 1);
    expect(0, 1, 0, 0);
}
END_TEST

/* Logs a hold whose holder lived and got no event, so the holder could rely on the deadline. */
static void log_firm(int64_t begin_ns, uint32_t pid, int64_t deadline_ns, int64_t delay_ns)
{
    log_event(begin_ns - 1, HISTORY_ATTEMPT, pid);
    history_add(history, (struct history_event){.time_ns = begin_ns,
                                                .kind = HISTORY_ACQUIRED,
                                                .pid = pid,
                                                .lock = LOCK,
                                                .token = 1,
                                                .deadline_ns = deadline_ns,
                                                .firm = true,
                                                .delay_ns = delay_ns});
}

START_TEST(a_firm_hold_lasts_until_its_deadline)
{
    log_firm(100, 1, 500, 0);
    log_event(900, HISTORY_LOST, 1);
    log_hold(500, 600, 2, HISTORY_EXCLUSIVE, 2);
    expect_clean();
    log_acquired(499, 3, HISTORY_SHARED, 1, 0);
    log_event(499, HISTORY_RELEASED, 3);
    expect(1, 0, 0, 0);
}
END_TEST

START_TEST(a_firm_hold_that_was_told_is_over)
{
    log_firm(100, 1, 500, 0);
    log_event(300, HISTORY_LOST, 1);
    log_hold(300, 600, 2, HISTORY_EXCLUSIVE, 2);
    expect_clean();
}
END_TEST

START_TEST(nobody_holds_within_the_lock_delay)
{
    log_firm(100, 1, 500, 50);
    log_event(900, HISTORY_LOST, 1);
    log_hold(550, 600, 2, HISTORY_EXCLUSIVE, 2);
    expect_clean();
    log_acquired(549, 3, HISTORY_SHARED, 1, 0);
    log_event(549, HISTORY_RELEASED, 3);
    expect(0, 0, 0, 0);
    ck_assert_uint_eq(report.delay_faults, 1);
}
END_TEST

START_TEST(the_lock_delay_counts_from_the_kill)
{
    log_firm(100, 1, 500, 50);
    log_event(200, HISTORY_KILL_SENT, 1);
    log_event(300, HISTORY_KILLED, 1);
    log_hold(250, 400, 2, HISTORY_EXCLUSIVE, 2);
    expect_clean();
    log_acquired(249, 3, HISTORY_SHARED, 1, 0);
    log_event(249, HISTORY_RELEASED, 3);
    expect(0, 0, 0, 0);
    ck_assert_uint_eq(report.delay_faults, 1);
}
END_TEST

START_TEST(a_release_needs_no_lock_delay)
{
    log_firm(100, 1, 500, 50);
    log_event(200, HISTORY_RELEASED, 1);
    log_hold(201, 400, 2, HISTORY_EXCLUSIVE, 2);
    log_event(900, HISTORY_KILL_SENT, 1);
    log_event(950, HISTORY_KILLED, 1);
    expect_clean();
}
END_TEST

/* The release was late and got HF_ELOST, but it shows that the holder has finished. After the
 * release, the lock-delay need not be kept; before the release, it must be kept. */
START_TEST(a_late_release_ends_the_lock_delay)
{
    log_firm(100, 1, 500, 50);
    log_event(520, HISTORY_RELEASED, 1);
    log_event(530, HISTORY_LOST, 1);
    log_hold(520, 600, 2, HISTORY_EXCLUSIVE, 2);
    expect_clean();
    log_acquired(519, 3, HISTORY_SHARED, 1, 0);
    log_event(519, HISTORY_RELEASED, 3);
    expect(0, 0, 0, 0);
    ck_assert_uint_eq(report.delay_faults, 1);
}
END_TEST

/* A late release lets nobody in before the deadline (500) that the holder knew. */
START_TEST(a_late_release_does_not_shorten_the_hold)
{
    log_firm(100, 1, 500, 50);
    log_event(300, HISTORY_RELEASED, 1);
    log_event(530, HISTORY_LOST, 1);
    log_hold(499, 600, 2, HISTORY_EXCLUSIVE, 2);
    expect(1, 0, 0, 0);
}
END_TEST

START_TEST(events_that_cannot_follow)
{
    log_event(100, HISTORY_RELEASED, 1);
    log_event(100, HISTORY_GAVE_UP, 2);
    log_event(100, HISTORY_HELD, 3);
    log_event(100, HISTORY_LOST, 4);
    history_add(history, (struct history_event){
                             .time_ns = 100, .kind = HISTORY_ACQUIRED, .pid = 5, .lock = LOCK});
    log_hold(200, 300, 6, HISTORY_EXCLUSIVE, 1);
    log_event(301, HISTORY_RELEASED, 6);
    expect(0, 0, 0, 6);
}
END_TEST

START_TEST(many_locks_of_one_actor)
{
    struct history_event event = {.pid = 1};
    for (uint32_t lock = 1; lock <= 500; lock++) {
        event.lock = lock;
        event.time_ns = lock * 10;
        event.kind = HISTORY_ATTEMPT;
        history_add(history, event);
        event.kind = HISTORY_ACQUIRED;
        history_add(history, event);
        event.kind = HISTORY_RELEASED;
        history_add(history, event);
    }
    expect_clean();
    ck_assert_uint_eq(report.holds, 500);
}
END_TEST

START_TEST(a_full_log_is_told)
{
    for (int i = 0; i < CAPACITY; i++) {
        log_event(i + 1, HISTORY_ATTEMPT, 1);
        log_event(i + 1, HISTORY_GAVE_UP, 1);
    }
    ck_assert_int_eq(history_check(history, &report), 1);
    ck_assert_uint_eq(report.dropped, CAPACITY);
    ck_assert_uint_eq(history_count(history), CAPACITY);
}
END_TEST

/* Children append records at the same time, and one of them is killed meanwhile. No other record is
 * damaged. */
START_TEST(children_append_together)
{
    enum { CHILDREN = 4, PAIRS = 400 };
    for (uint32_t child = 0; child < CHILDREN; child++) {
        pid_t pid = fork();
        ck_assert_int_ge(pid, 0);
        if (pid == 0) {
            for (int i = 0; i < PAIRS; i++) {
                log_event(0, HISTORY_ATTEMPT, child + 1);
                log_event(0, HISTORY_GAVE_UP, child + 1);
            }
            _exit(0);
        }
    }
    for (int child = 0; child < CHILDREN; child++) {
        int status;
        ck_assert_int_gt(wait(&status), 0);
        ck_assert_int_eq(status, 0);
    }
    expect_clean();
    ck_assert_uint_eq(history_count(history), 2 * CHILDREN * PAIRS);
}
END_TEST

START_TEST(a_file_is_shared_with_who_attaches)
{
    char directory[] = "/tmp/history.XXXXXX";
    char path[sizeof(directory) + 8];
    ck_assert_ptr_nonnull(mkdtemp(directory));
    snprintf(path, sizeof(path), "%s/log", directory);
    ck_assert_ptr_null(history_attach(path));
    struct history *created = history_create(path, 10);
    ck_assert_ptr_nonnull(created);
    ck_assert_ptr_null(history_create(path, 10));
    struct history *attached = history_attach(path);
    ck_assert_ptr_nonnull(attached);
    history_add(attached, (struct history_event){.kind = HISTORY_ATTEMPT, .pid = 1, .lock = LOCK});
    ck_assert_int_eq(history_check(created, &report), 1);
    ck_assert_uint_eq(report.unserved, 1);
    for (int i = 0; i < 1000; i++) { /* the history is full: further records are dropped */
        history_add(attached, (struct history_event){.kind = HISTORY_HELD, .pid = 2});
    }
    ck_assert_int_eq(history_check(created, &report), 1);
    ck_assert_uint_eq(report.dropped, 991);
    expect_clean();
    history_destroy(attached);
    history_destroy(created);
    ck_assert_int_eq(truncate(path, 100), 0);
    ck_assert_ptr_null(history_attach(path));
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rmdir(directory), 0);
}
END_TEST

static TCase *case_of_holds(void)
{
    TCase *tests = tcase_create("holds");
    tcase_add_test(tests, an_empty_history_is_clean);
    tcase_add_test(tests, holds_in_turn_are_clean);
    tcase_add_test(tests, the_order_of_logging_does_not_matter);
    tcase_add_test(tests, two_exclusive_holds_at_once);
    tcase_add_test(tests, a_hold_within_a_long_one);
    tcase_add_test(tests, holds_of_two_locks_may_overlap);
    tcase_add_test(tests, a_readers_token_goes_back);
    tcase_add_test(tests, readers_whose_calls_overlap_may_return_in_any_order);
    tcase_add_test(tests, readers_together_are_clean);
    tcase_add_test(tests, a_writer_among_readers);
    tcase_add_test(tests, a_reader_during_a_writer);
    tcase_add_test(tests, a_token_given_twice);
    tcase_add_test(tests, a_token_that_falls);
    tcase_add_test(tests, a_reader_with_an_old_token);
    tcase_add_test(tests, a_writer_with_its_readers_token);
    tcase_add_test(tests, a_waiter_that_is_never_served);
    tcase_add_test(tests, a_waiter_that_gave_up_or_died_is_clean);
    tcase_add_test(tests, the_longest_wait_is_told);
    return tests;
}

static TCase *case_of_unknown_ends(void)
{
    TCase *tests = tcase_create("unknown ends");
    tcase_add_test(tests, a_killed_holder_holds_until_the_kill_is_sent);
    tcase_add_test(tests, between_kill_and_wait_nothing_is_certain);
    tcase_add_test(tests, a_killed_holder_is_not_trusted_beyond_its_deadline);
    tcase_add_test(tests, a_killed_holders_token_still_counts);
    tcase_add_test(tests, a_pid_may_come_again_after_its_death);
    tcase_add_test(tests, a_kill_during_a_release_proves_nothing);
    tcase_add_test(tests, a_lost_hold_lasted_until_it_was_last_seen);
    tcase_add_test(tests, a_release_that_found_it_lost_does_not_prove_a_hold);
    tcase_add_test(tests, a_release_outweighs_an_old_deadline);
    tcase_add_test(tests, a_late_record_of_a_lost_hold_has_no_order);
    tcase_add_test(tests, a_late_record_with_the_same_token_is_a_fault);
    tcase_add_test(tests, a_firm_hold_lasts_until_its_deadline);
    tcase_add_test(tests, a_firm_hold_that_was_told_is_over);
    tcase_add_test(tests, nobody_holds_within_the_lock_delay);
    tcase_add_test(tests, the_lock_delay_counts_from_the_kill);
    tcase_add_test(tests, a_release_needs_no_lock_delay);
    tcase_add_test(tests, a_late_release_ends_the_lock_delay);
    tcase_add_test(tests, a_late_release_does_not_shorten_the_hold);
    return tests;
}

static TCase *case_of_log(void)
{
    TCase *tests = tcase_create("log");
    tcase_add_test(tests, events_that_cannot_follow);
    tcase_add_test(tests, many_locks_of_one_actor);
    tcase_add_test(tests, a_full_log_is_told);
    tcase_add_test(tests, children_append_together);
    tcase_add_test(tests, a_file_is_shared_with_who_attaches);
    return tests;
}

int main(void)
{
    Suite *suite = suite_create("history");
    TCase *cases[] = {case_of_holds(), case_of_unknown_ends(), case_of_log()};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        tcase_add_checked_fixture(cases[i], set_up, tear_down);
        suite_add_tcase(suite, cases[i]);
    }
    return suite_run(suite);
}
