/*
 * Assertions for checks that run at every message or every step. Check's own assertions each write
 * a line to a file, by two system calls. With millions of assertions, these calls take half of a
 * test's time. The assertions here make these calls only when they fail.
 */
#ifndef TESTS_UNIT_HOT_ASSERT_H
#define TESTS_UNIT_HOT_ASSERT_H

#include <check.h>

#define HOT_ASSERT(condition)                                                                      \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            ck_abort_msg("not so: %s", #condition);                                                \
        }                                                                                          \
    } while (0)

/* Compares unsigned integers, and reports their values. */
#define HOT_ASSERT_UINT(left, compared, right)                                                     \
    do {                                                                                           \
        unsigned long long hot_left = (left);                                                      \
        unsigned long long hot_right = (right);                                                    \
        if (!(hot_left compared hot_right)) {                                                      \
            ck_abort_msg("not so: %s (%llu) %s %s (%llu)", #left, hot_left, #compared, #right,     \
                         hot_right);                                                               \
        }                                                                                          \
    } while (0)

#endif
