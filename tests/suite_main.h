/*
 * The end of a test program's main(): runs a suite, and prints how many tests failed. The
 * environment variable CK_VERBOSITY has Check print more. suite_folder() is removed when all tests
 * have ended, also if one failed or was killed.
 */
#ifndef TESTS_SUITE_MAIN_H
#define TESTS_SUITE_MAIN_H

#include <check.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>

/* The folder for files of this program's tests. Its path has 26 characters. */
static inline const char *suite_folder(void)
{
    const char *folder = getenv("HOLDFAST_TEST_FOLDER");
    return folder ? folder : "/tmp";
}

static inline int suite_remove(const char *path, const struct stat *status, int type,
                               struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(path);
}

/* Runs the suite and frees it. Returns the exit status: 0 if nothing failed. */
static inline int suite_run(Suite *suite)
{
    char own[] = "/tmp/holdfast-suite.XXXXXX";
    SRunner *runner = srunner_create(suite);
    if (mkdtemp(own)) {
        setenv("HOLDFAST_TEST_FOLDER", own, 1);
    }
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    nftw(own, suite_remove, 8, FTW_DEPTH | FTW_PHYS);
    return failed != 0;
}

/* Runs a suite of one test case. Returns the exit status. */
static inline int suite_main(const char *name, TCase *tests)
{
    Suite *suite = suite_create(name);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}

#endif
