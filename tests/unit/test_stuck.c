/* When a thread counts as stuck: stuck_look() reads a file of the test instead of
 * /proc/PID/stat. */
#include <check.h>
#include <stdio.h>
#include <unistd.h>

#include "../suite_main.h"
#include "io/stuck.h"

#define MS INT64_C(1000000)
enum { PAUSE_MS = 20 };

static char file[64];
static char pressure[64];
static struct stuck stuck;
static int64_t now_ns;

static void set_up(void)
{
    snprintf(file, sizeof(file), "%s/stat", suite_folder());
    snprintf(pressure, sizeof(pressure), "%s/pressure", suite_folder());
    stuck = (struct stuck){0};
    now_ns = 1000 * MS;
}

static void tear_down(void)
{
    unlink(file);
    unlink(pressure);
}

/* Writes a file like /proc/PID/stat (proc(5)). The process's name in it may have any characters. */
static void set(char state, unsigned long disk_reads)
{
    FILE *out = fopen(file, "w");
    ck_assert_ptr_nonnull(out);
    fprintf(out, "7 (a) D 0 0) %c 1 7 7 0 -1 4194560 100 0 %lu 0 0 0\n", state, disk_reads);
    ck_assert_int_eq(fclose(out), 0);
}

/* Calls stuck_look() every pause_ms for lasts_ms, or until the thread counts as stuck. */
static bool look_for(int64_t lasts_ms, int64_t pause_ms)
{
    bool is_stuck = false;
    for (int64_t end_ns = now_ns + lasts_ms * MS; now_ns < end_ns && !is_stuck;) {
        now_ns += pause_ms * MS;
        is_stuck = stuck_look(&stuck, file, pressure, now_ns);
    }
    return is_stuck;
}

/* Writes a file like /proc/pressure/memory, with stalled_ms of stalls so far. */
static void set_pressure(int64_t stalled_ms)
{
    FILE *out = fopen(pressure, "w");
    ck_assert_ptr_nonnull(out);
    fprintf(out,
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=%lld\n"
            "full avg10=0.00 avg60=0.00 avg300=0.00 total=9999999\n",
            (long long)stalled_ms * 1000);
    ck_assert_int_eq(fclose(out), 0);
}

START_TEST(a_long_wait_counts)
{
    set('D', 3);
    ck_assert(!look_for(STUCK_MS - PAUSE_MS, PAUSE_MS));
    ck_assert(look_for(3 * PAUSE_MS, PAUSE_MS));
}
END_TEST

START_TEST(many_short_waits_count)
{
    bool is_stuck = false;
    for (unsigned i = 0; i < 10 && !is_stuck; i++) {
        set('R', 0);
        is_stuck = look_for(PAUSE_MS, PAUSE_MS);
        set('D', 0);
        is_stuck = is_stuck || look_for(100, PAUSE_MS);
    }
    ck_assert(is_stuck);
}
END_TEST

START_TEST(a_thread_without_a_processor_is_not_stuck)
{
    set('R', 0);
    ck_assert(!look_for(10 * STUCK_MS, PAUSE_MS));
    set('S', 0);
    ck_assert(!look_for(10 * STUCK_MS, PAUSE_MS));
}
END_TEST

START_TEST(a_thread_that_reads_from_a_disk_is_not_stuck)
{
    for (unsigned long i = 0; i < 100; i++) {
        set('D', i);
        ck_assert(!look_for(PAUSE_MS, PAUSE_MS));
    }
}
END_TEST

START_TEST(a_thread_that_waits_for_memory_is_not_stuck)
{
    set('D', 0);
    for (int64_t i = 1; i < 100; i++) {
        set_pressure(1000 + i * PAUSE_MS);
        ck_assert(!look_for(PAUSE_MS, PAUSE_MS));
    }
    /* the thread still waits, and no stall of memory is counted */
    ck_assert(look_for(2 * STUCK_MS, PAUSE_MS));
}
END_TEST

START_TEST(little_pressure_hides_nobody)
{
    bool is_stuck = false;
    set('D', 0);
    for (int64_t i = 1; i < 100 && !is_stuck; i++) {
        set_pressure(1000 + i * PAUSE_MS / 4);
        is_stuck = look_for(PAUSE_MS, PAUSE_MS);
    }
    ck_assert(is_stuck);
}
END_TEST

/* The looking thread had no processor for a while. The watched thread may have been in another wait
 * at each look, so it does not count as stuck. */
START_TEST(a_late_look_proves_little)
{
    set('D', 0);
    ck_assert(!look_for(STUCK_MS * 4, STUCK_MS * 2));
    set('R', 0);
    ck_assert(!look_for(PAUSE_MS, PAUSE_MS));
}
END_TEST

START_TEST(a_thread_that_is_gone_is_not_stuck)
{
    ck_assert(!look_for(10 * STUCK_MS, PAUSE_MS));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("stuck");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, a_long_wait_counts);
    tcase_add_test(tests, many_short_waits_count);
    tcase_add_test(tests, a_thread_without_a_processor_is_not_stuck);
    tcase_add_test(tests, a_thread_that_reads_from_a_disk_is_not_stuck);
    tcase_add_test(tests, a_thread_that_waits_for_memory_is_not_stuck);
    tcase_add_test(tests, little_pressure_hides_nobody);
    tcase_add_test(tests, a_late_look_proves_little);
    tcase_add_test(tests, a_thread_that_is_gone_is_not_stuck);
    return suite_main("stuck", tests);
}
