/* Measured round trips and clock rates: the computed bounds hold whatever the network does. */
#include <check.h>
#include <stdint.h>

#include "../suite_main.h"
#include "session/pace_private.h"

#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)

static struct pace pace;

static void setup(void)
{
    pace = (struct pace){.incarnation = 0};
}

/* Adds a reading each second. The delays are pseudo-random. The voter's clock is ahead by 1000 s,
 * and faster by ppm. */
static void play(int64_t ppm, int64_t delay_max_ms, int64_t seconds)
{
    uint32_t draw = 1;
    for (int64_t i = 0; i < seconds; i++) {
        int64_t sent_ns = 500 * SECOND + i * SECOND;
        draw = draw * 1664525 + 1013904223;
        int64_t there = (int64_t)(draw >> 16) * delay_max_ms * MS / 65536;
        draw = draw * 1664525 + 1013904223;
        int64_t back = (int64_t)(draw >> 16) * delay_max_ms * MS / 65536;
        int64_t at_ns = sent_ns + there;
        struct pace_reading reading = {
            .sent_ns = sent_ns,
            .received_ns = at_ns + back,
            .there_ns = 1000 * SECOND + at_ns + at_ns / 1000000 * ppm,
        };
        pace_add(&pace, 7, &reading);
    }
}

static const int64_t rates_ppm[] = {0, 40, -40, 100000, -100000, 2000000};

START_TEST(the_rate_lies_between_the_bounds)
{
    play(rates_ppm[_i], 20, 100);
    ck_assert(pace.rate.measured);
    ck_assert_int_le(pace.rate.low_ppm, rates_ppm[_i] + 1);
    ck_assert_int_ge(pace.rate.high_ppm, rates_ppm[_i] - 1);
    /* Each of two readings is uncertain by a round trip of at most 40 ms, and the readings are at
     * least 30 s apart. This makes 2,700 ppm between the bounds. A clock that runs three times as
     * fast has bounds three times as far apart. */
    ck_assert_int_le(pace.rate.high_ppm - pace.rate.low_ppm, 3 * 2700);
    ck_assert_int_le(recent_worst_ns(&pace.round_trip), 40 * MS);
    ck_assert_int_ge(recent_worst_ns(&pace.round_trip), 20 * MS);
}
END_TEST

START_TEST(what_makes_no_sense_is_left_out)
{
    ck_assert_int_eq(recent_worst_ns(&pace.round_trip), -1);
    struct pace_reading bad[] = {
        {.sent_ns = 5, .received_ns = 4, .there_ns = 1},
        {.sent_ns = 5, .received_ns = 6, .there_ns = -1},
        {.sent_ns = 5, .received_ns = 6, .there_ns = INT64_MAX},
    };
    for (unsigned i = 0; i < 3; i++) {
        pace_add(&pace, 7, &bad[i]);
    }
    ck_assert_int_eq(recent_worst_ns(&pace.round_trip), -1);
    play(0, 20, 5);
    int64_t low_ppm = pace.rate.low_ppm;
    struct pace_reading back = {
        .sent_ns = 600 * SECOND, .received_ns = 600 * SECOND + MS, .there_ns = SECOND};
    pace_add(&pace, 7, &back); /* the voter's clock went back, so no rate follows */
    ck_assert_int_eq(pace.rate.low_ppm, low_ppm);
}
END_TEST

START_TEST(another_process_is_measured_anew)
{
    play(100000, 20, 50);
    struct pace_reading fresh = {
        .sent_ns = 700 * SECOND, .received_ns = 700 * SECOND + MS, .there_ns = 3 * SECOND};
    pace_add(&pace, 8, &fresh);
    ck_assert(!pace.rate.measured);
    fresh.sent_ns += 10 * SECOND;
    fresh.received_ns += 10 * SECOND;
    fresh.there_ns += 10 * SECOND;
    pace_add(&pace, 8, &fresh);
    ck_assert(pace.rate.measured);
    ck_assert_int_le(pace.rate.low_ppm, 0);
    ck_assert_int_ge(pace.rate.high_ppm, 0);
}
END_TEST

START_TEST(a_bad_minute_is_forgotten)
{
    play(0, 20, 10);
    struct pace_reading slow = {
        .sent_ns = 520 * SECOND, .received_ns = 524 * SECOND, .there_ns = 1522 * SECOND};
    pace_add(&pace, 7, &slow);
    ck_assert_int_eq(recent_worst_ns(&pace.round_trip), 4 * SECOND);
    for (int64_t i = 0; i < 130; i++) {
        int64_t at_ns = (525 + i) * SECOND;
        struct pace_reading reading = {
            .sent_ns = at_ns, .received_ns = at_ns + MS, .there_ns = at_ns + 1000 * SECOND};
        pace_add(&pace, 7, &reading);
    }
    ck_assert_int_eq(recent_worst_ns(&pace.round_trip), MS);
}
END_TEST

/* Calls pace_look() each second, from second `from` to second `to` - 1. Counts its reports. */
static struct pace_watch watch;
static unsigned differ, well;

static void look(int64_t from, int64_t to, bool answers)
{
    for (int64_t s = from; s < to; s++) {
        enum pace_news news = pace_look(&watch, &pace, answers, 100000, s * SECOND);
        differ += news == PACE_DIFFERS;
        well += news == PACE_WELL_AGAIN;
    }
}

static void set_rate(int64_t low_ppm, int64_t high_ppm)
{
    pace.rate.measured = true;
    pace.rate.low_ppm = low_ppm;
    pace.rate.high_ppm = high_ppm;
}

START_TEST(a_clock_that_is_off_is_told_once)
{
    set_rate(100001, 300000);
    look(0, 10, true);
    ck_assert_uint_eq(differ, 0); /* the first reading alone causes no report */
    look(10, 100, true);
    ck_assert_uint_eq(differ, 1);
    set_rate(-300000, -100001);
    look(100, 200, true); /* the difference of the clocks was already reported */
    ck_assert_uint_eq(differ, 1);
    ck_assert_uint_eq(well, 0);
    set_rate(-300000, -100000);
    look(200, 300, true);
    ck_assert_uint_eq(well, 1);
    set_rate(-300000, -100001);
    look(300, 311, true);
    ck_assert_uint_eq(differ, 2);
}
END_TEST

START_TEST(who_does_not_answer_is_neither_off_nor_well)
{
    set_rate(200000, 300000);
    look(0, 5, true);
    look(5, 100, false); /* the agent is gone, but its last reading stays */
    ck_assert_uint_eq(differ, 0);
    look(100, 110, true);
    ck_assert_uint_eq(differ, 0);
    look(110, 111, true);
    ck_assert_uint_eq(differ, 1);
    look(111, 200, false);
    pace.rate.measured = false; /* another process of the agent, with the same clock */
    look(200, 202, true);
    ck_assert_uint_eq(well, 0);
    set_rate(200000, 300000);
    look(202, 300, true);
    ck_assert_uint_eq(differ, 1);
    ck_assert_uint_eq(well, 0);
    set_rate(-10, 10);
    look(300, 301, true);
    ck_assert_uint_eq(well, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("pace");
    TCase *tcase = tcase_create("pace");

    tcase_add_checked_fixture(tcase, setup, NULL);
    tcase_add_loop_test(tcase, the_rate_lies_between_the_bounds, 0,
                        (int)(sizeof(rates_ppm) / sizeof(rates_ppm[0])));
    tcase_add_test(tcase, what_makes_no_sense_is_left_out);
    tcase_add_test(tcase, another_process_is_measured_anew);
    tcase_add_test(tcase, a_bad_minute_is_forgotten);
    tcase_add_test(tcase, a_clock_that_is_off_is_told_once);
    tcase_add_test(tcase, who_does_not_answer_is_neither_off_nor_well);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
