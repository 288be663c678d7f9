/* The end of a test program's main(): runs a suite, says how many failed. The environment variable
 * CK_VERBOSITY has Check tell more. */
#ifndef TESTS_SUITE_MAIN_H
#define TESTS_SUITE_MAIN_H

#include <check.h>

/* Takes the suite. The exit status: 0 if nothing failed. */
static inline int suite_run(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

/* A suite of one test case. */
static inline int suite_main(const char *name, TCase *tests)
{
    Suite *suite = suite_create(name);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

#endif
