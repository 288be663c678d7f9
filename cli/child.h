/*
 * Starts CMD in a process group of its own, with the signal mask with which holdfast was started.
 * The kernel kills CMD if holdfast dies. child_fork() makes the process, and child_go() runs CMD in
 * it. Between these two calls the caller starts the guards (guard_process.h). CMD also gets the
 * signal dispositions with which holdfast was started, except for SIGCHLD. So if nohup made
 * holdfast ignore a signal, CMD ignores the signal, too.
 */
#ifndef HOLDFAST_CLI_CHILD_H
#define HOLDFAST_CLI_CHILD_H

#include <signal.h>
#include <sys/types.h>

#include "terminal.h"

struct child_options {
    char **argv;          /* CMD and its arguments, NULL-terminated */
    const char *hint;     /* the end of the message that CMD could not be executed */
    const sigset_t *mask; /* the signal mask that CMD gets */
    /* if terminal->from_start, CMD's group gets the foreground of this terminal */
    const struct terminal *terminal;
    /* the descriptor for reports of progress, which CMD inherits; -1: none */
    int progress_fd;
    int progress_number; /* the number of progress_fd in CMD */
};

struct child {
    pid_t pid; /* the process ID of CMD, and of its process group */
    /* a pipe: the parent writes a byte to let CMD run, or closes the pipe so that CMD never runs */
    int go_fd;
    int report_fd; /* the child writes the errno of a failed execvp() to this pipe */
};

/*
 * Forks a child that leads a process group of its own and waits for child_go(). Must be called on
 * the main thread, because the child gets the parent-death signal when the thread that forked it
 * ends. Returns 0, or 70 after cli_fail_with().
 */
int child_fork(const struct child_options *options, struct child *child)
    __attribute__((warn_unused_result));

/*
 * Lets the child execute CMD. Returns 0 when CMD runs. Otherwise the child has been reaped, and the
 * result is that of child_not_executed().
 */
int child_go(const struct child_options *options, struct child *child)
    __attribute__((warn_unused_result));

/* Writes that CMD could not be executed, as a failure of `lock`. problem: the errno of execvp().
 * hint: as in struct child_options. Returns the exit status: 126 or 127. */
int child_not_executed(const char *command, int problem, const char *hint);

/* Ends and reaps a child for which child_go() was not called. */
void child_cancel(struct child *child);

#endif
