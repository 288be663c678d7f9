/* The main() of a test program that has one test case: runs it, says how many failed. */
#ifndef TESTS_CLUSTER_SUITE_MAIN_H
#define TESTS_CLUSTER_SUITE_MAIN_H

#include <check.h>

static inline int suite_main(const char *name, TCase *tests)
{
    Suite *suite = suite_create(name);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

#endif
