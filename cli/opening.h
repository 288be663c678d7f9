/*
 * What `holdfast lock` and `holdfast hold` do alike: how long they wait for an agent, how they open
 * the locks, and what they say if they do not get them.
 */
#ifndef HOLDFAST_CLI_OPENING_H
#define HOLDFAST_CLI_OPENING_H

#include <stdint.h>

#include "environment.h"
#include "lock_arguments.h"
#include "waiting.h"

/* Returns how long to wait for an agent. This is the time that the user allows for the lock, but at
 * least 1 s, and at most 5 s, which a restart of the agent may take. */
int64_t opening_agent_wait_ns(const struct lock_arguments *arguments);

/*
 * Opens a handle on each of held->names, and switches the library's events on. Reduces
 * arguments->wait_ns by the time that it had to wait until the namespace was served. Allocates
 * held->locks and held->holds, which the caller frees. Returns 0, or the exit status after it has
 * written the error.
 */
int opening_run(struct lock_arguments *arguments, struct held *held)
    __attribute__((warn_unused_result));

/* Returns which lines the user wants about the wait. */
enum waiting_lines opening_waiting_lines(const struct lock_arguments *arguments);

/* Writes a line about the lock that could not be taken, unless a signal (not 0) ended the wait.
 * error: the result of the library's call that failed last in this thread. Returns the exit
 * status. */
int opening_failed(const struct lock_arguments *arguments, const struct held *held, int error,
                   int signal_number);

#endif
