/*
 * Starts CMD in a process group of its own, with the signal mask that holdfast was started with.
 * CMD is killed if holdfast dies. It is forked first, and runs when it is let go: in between, its
 * guard is started (guard_process.h). The dispositions of signals are those that holdfast was
 * started with, except SIGCHLD's: a signal that nohup ignored stays ignored.
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

struct child {
    pid_t pid;     /* CMD, and its process group */
    int go_fd;     /* a byte written here: CMD may run; closed: it must not run */
    int report_fd; /* the child writes the errno of a failed exec here */
};

/*
 * Forks a child that leads its group and waits. Must be called from the main thread, because the
 * child gets the parent-death signal when the thread that forked it ends. Returns 0, or 70 with a
 * line on stderr.
 */
int child_fork(const struct child_options *options, struct child *child)
    __attribute__((warn_unused_result));

/*
 * Lets the child execute CMD. Returns 0 when CMD runs. Otherwise the child is gone, a line on
 * stderr says why, and the result is the exit status for that: 126, 127 or 70.
 */
int child_go(const struct child_options *options, struct child *child)
    __attribute__((warn_unused_result));

/* Ends and reaps a child that was not let go. */
void child_cancel(struct child *child);

#endif
