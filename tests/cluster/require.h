/*
 * The assertion for tests of many processes. It prints what is wrong and ends the process that
 * found it. The process that waits for that process reports the failure. (Check's own assertions
 * jump back into the test, which only the test's first process may do.)
 */
#ifndef TESTS_CLUSTER_REQUIRE_H
#define TESTS_CLUSTER_REQUIRE_H

#include <stdio.h>
#include <unistd.h>

/* The current step of the process. A failure prints it. It is defined in agent_process.c. */
extern char require_context[128];

#define REQUIRE(condition, ...)                                                                    \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: pid %d %s: not so: %s: ", __FILE__, __LINE__, (int)getpid(),   \
                    require_context, #condition);                                                  \
            fprintf(stderr, __VA_ARGS__);                                                          \
            fputc('\n', stderr);                                                                   \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

#endif
