/*
 * Starts CMD in a process group of its own, with the signal mask that holdfast was started with.
 * CMD is killed if holdfast dies. The dispositions of signals are those that holdfast was started
 * with, except SIGCHLD's: a signal that nohup ignored stays ignored.
 */
#ifndef HOLDFAST_CLI_CHILD_H
#define HOLDFAST_CLI_CHILD_H

#include <signal.h>
#include <sys/types.h>

#include "terminal.h"

struct child_options {
    char **argv;                     /* CMD and its arguments, NULL-terminated */
    const sigset_t *mask;            /* the signal mask that CMD gets */
    const struct terminal *terminal; /* given to CMD's group, if terminal->from_start */
    int progress_fd;                 /* inherited by CMD; -1: none */
};

/*
 * Forks and executes CMD. Must be called from the main thread, for the parent-death signal follows
 * the thread. Returns 0 with *pid when CMD runs. Otherwise nothing runs, a line on stderr says why,
 * and the result is the exit status for that: 126, 127 or 70.
 */
int child_start(const struct child_options *options, pid_t *pid)
    __attribute__((warn_unused_result));

#endif
