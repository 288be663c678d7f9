/* How long a namespace waits before its next region, if its regions are given up again and
 * again. */
#include <check.h>

#include "../suite_main.h"
#include "serve/respite.h"

#define SECOND INT64_C(1000000000)

static int64_t now_ns;
static struct respite respite;

/* Lets time pass after the previous wait, then gives the region up. Returns the next wait in s. */
static int64_t give_up_after(int64_t seconds)
{
    now_ns += seconds * SECOND;
    return respite_count(&respite, now_ns) / SECOND;
}

static void set_up(void)
{
    now_ns = 1000 * SECOND;
    respite = (struct respite){0};
    for (unsigned i = 0; i < RESPITE_FREE; i++) {
        ck_assert_int_eq(give_up_after(7), 0);
    }
}

START_TEST(each_wait_is_twice_as_long_up_to_an_hour)
{
    static const int64_t waits[] = {60, 120, 240, 480, 960, 1920, 3600, 3600, 3600};
    for (unsigned i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        ck_assert_int_eq(give_up_after(7), waits[i]);
        now_ns += waits[i] * SECOND;
    }
}
END_TEST

START_TEST(a_day_forgets)
{
    ck_assert_int_eq(give_up_after(7), 60);
    ck_assert_int_eq(give_up_after(24 * 3600 - 1), 120);
    ck_assert_int_eq(give_up_after(24 * 3600), 0);
    for (unsigned i = 1; i < RESPITE_FREE; i++) {
        ck_assert_int_eq(give_up_after(1), 0);
    }
    ck_assert_int_eq(give_up_after(1), 60);
}
END_TEST

/* For 60 days each new region is given up at once. The number of regions is bounded. */
START_TEST(an_attack_without_end_costs_24_regions_a_day)
{
    int64_t end_ns = now_ns + 60 * 24 * 3600 * SECOND;
    unsigned regions = 0;
    while (now_ns < end_ns) {
        now_ns += respite_count(&respite, now_ns);
        regions++;
    }
    ck_assert_uint_le(regions, 60 * 24 + 6);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("respite");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, each_wait_is_twice_as_long_up_to_an_hour);
    tcase_add_test(tests, a_day_forgets);
    tcase_add_test(tests, an_attack_without_end_costs_24_regions_a_day);
    return suite_main("respite", tests);
}
