/* The limits on log lines about each agent or user. */
#include <check.h>
#include <stdio.h>

#include "../suite_main.h"
#include "core/base/log_limit.h"

static const int64_t second_ns = 1000000000;

static struct log_limits limits;
static int64_t now_ns;

static void setup(void)
{
    limits = (struct log_limits){0};
    now_ns = 1; /* the time of a host that has just booted */
}

static uint32_t add(unsigned which)
{
    struct message_agent agent = {0};
    agent.length = (uint8_t)snprintf(agent.text, sizeof(agent.text), "agent-%u", which);
    return log_limits_add(&limits, &agent, now_ns);
}

START_TEST(one_hides_nothing_of_another)
{
    ck_assert_uint_eq(add(1), 1);
    for (unsigned i = 0; i < 100; i++) {
        ck_assert_uint_eq(add(1), 0);
    }
    ck_assert_uint_eq(add(2), 1);
    ck_assert_uint_eq(add(2), 0);
    now_ns += 60 * second_ns - 1;
    ck_assert_uint_eq(add(1), 0);
    now_ns++;
    ck_assert_uint_eq(add(1), 102); /* the number of lines that were left out, plus this one */
    ck_assert_uint_eq(add(1), 0);
    ck_assert_uint_eq(add(2), 2);
}
END_TEST

START_TEST(names_that_are_invented_fill_no_log)
{
    for (unsigned i = 0; i < LOG_LIMIT_AGENTS; i++) {
        ck_assert_uint_eq(add(i), 1);
    }
    for (unsigned i = LOG_LIMIT_AGENTS; i < 1000; i++) {
        ck_assert_uint_eq(add(i), 0);
    }
    ck_assert_uint_eq(add(3), 0);
    now_ns += 30 * second_ns;
    ck_assert_uint_eq(add(1000), 0);
    now_ns += 30 * second_ns;
    ck_assert_uint_eq(add(1000), 1);
    ck_assert_uint_eq(add(3), 2);
}
END_TEST

static uint32_t add_voter(uint32_t voter)
{
    return log_limits_add_voter(&limits, voter, now_ns);
}

START_TEST(names_that_are_invented_hide_no_voter)
{
    for (unsigned i = 0; i < LOG_LIMIT_AGENTS; i++) {
        ck_assert_uint_eq(add(i), 1);
    }
    for (uint32_t voter = 0; voter < MESSAGE_VOTERS_MAX; voter++) {
        ck_assert_uint_eq(add_voter(voter), 1);
        ck_assert_uint_eq(add_voter(voter), 0);
    }
    now_ns += 60 * second_ns;
    ck_assert_uint_eq(add_voter(0), 2);
    ck_assert_uint_eq(add_voter(0), 0);
    ck_assert_uint_eq(add(LOG_LIMIT_AGENTS), 1); /* voters do not take these entries */
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("log_limit");
    TCase *tests = tcase_create("log_limit");
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, one_hides_nothing_of_another);
    tcase_add_test(tests, names_that_are_invented_fill_no_log);
    tcase_add_test(tests, names_that_are_invented_hide_no_voter);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
