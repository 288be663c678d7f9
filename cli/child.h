/*
 * Starting CMD: in a process group of its own, dying with holdfast, with the signal mask that
 * holdfast was started with. Dispositions are as holdfast found them, SIGCHLD excepted: a signal
 * that nohup ignored stays ignored.
 */
#ifndef HOLDFAST_CLI_CHILD_H
#define HOLDFAST_CLI_CHILD_H

#include <signal.h>
#include <sys/types.h>

#include "terminal.h"

struct child_options {
    char **argv;                     /* CMD and its arguments, NULL-terminated */
    const sigset_t *mask;            /* the signal mask that CMD gets */
    const struct terminal *terminal; /* given to CMD's group if it is so from the start */
    int progress_fd;                 /* inherited by CMD; -1: none */
};

/*
 * Forks and executes CMD. Must be called from the main thread, for the parent-death signal follows
 * the thread. Returns 0 with *pid when CMD runs; else, with a line on stderr, the exit status for
 * it: 126, 127 or 70. Nothing runs then.
 */
int child_start(const struct child_options *options, pid_t *pid)
    __attribute__((warn_unused_result));

#endif
