/*
 * Says, while `holdfast lock` waits, why it waits.
 *
 * A thread asks the library (hf_why) beside the wait, because hf_acquire() does not return before
 * it has the lock. If the agent does not answer, the thread ends some seconds later than the wait.
 */
#ifndef HOLDFAST_CLI_WAITING_H
#define HOLDFAST_CLI_WAITING_H

#include <pthread.h>
#include <stdbool.h>

#include "environment.h"

enum waiting_lines {
    WAITING_ONE = 0, /* one line, after 1 s */
    WAITING_NONE,    /* -q */
    WAITING_ALL,     /* -v: a line at once, and one at each change */
};

struct waiting {
    const struct held *held;
    enum waiting_lines lines;
    bool json;
    bool started;
    int stop_fd; /* readable: the wait is over */
    pthread_t thread;
};

/* Begins. The signals that other threads wait for must be blocked. Without memory or descriptors
 * there are no lines. */
void waiting_begin(struct waiting *waiting, const struct held *held, enum waiting_lines lines,
                   bool json);

/* The wait is over: there is no further line when this returns. */
void waiting_end(struct waiting *waiting);

#endif
