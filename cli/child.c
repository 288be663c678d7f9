/*
 * Starting CMD: see child.h. A close-on-exec pipe shows whether the exec worked: the end of file
 * means that it did, an errno that it did not.
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

/* Runs in the child. Only async-signal-safe calls are allowed, for another thread of the parent may
 * have held any lock of libc. */
static _Noreturn void child_exec(const struct child_options *options, pid_t parent, int report_fd)
{
    int problem;
    ssize_t written;

    (void)setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        goto fail;
    }
    if (getppid() != parent) {
        _exit(CLI_FAILED); /* the parent died before prctl(): nobody reads this status */
    }
    if (options->terminal->from_start) {
        (void)tcsetpgrp(options->terminal->fd, getpgrp());
    }
    if (options->progress_fd >= 0 && fcntl(options->progress_fd, F_SETFD, 0) != 0) {
        goto fail;
    }
    if (sigprocmask(SIG_SETMASK, options->mask, NULL) != 0) {
        goto fail;
    }
    execvp(options->argv[0], options->argv);
fail:
    problem = errno;
    written = write(report_fd, &problem, sizeof(problem));
    _exit(written == (ssize_t)sizeof(problem) ? CLI_NOT_FOUND : CLI_FAILED);
}

static int child_failed(const char *what, int problem)
{
    fprintf(stderr, "holdfast lock: %s: %s\n", what, strerror(problem));
    return CLI_FAILED;
}

/* Reads the child's report: 0 or the errno of its exec. */
static int report_read(int fd)
{
    int problem = 0;
    ssize_t size;

    do {
        size = read(fd, &problem, sizeof(problem));
    } while (size < 0 && errno == EINTR);
    return size == (ssize_t)sizeof(problem) ? problem : 0;
}

int child_start(const struct child_options *options, pid_t *pid)
{
    pid_t parent = getpid();
    int report[2];
    int problem;

    if (pipe2(report, O_CLOEXEC) != 0) {
        return child_failed("pipe", errno);
    }
    *pid = fork();
    if (*pid == 0) {
        child_exec(options, parent, report[1]);
    }
    if (*pid < 0) {
        problem = errno;
        (void)close(report[0]);
        (void)close(report[1]);
        return child_failed("fork", problem);
    }
    (void)close(report[1]);
    problem = report_read(report[0]);
    (void)close(report[0]);
    if (problem == 0) {
        return 0;
    }
    while (waitpid(*pid, NULL, 0) < 0 && errno == EINTR) {
    }
    (void)child_failed(options->argv[0], problem);
    return problem == ENOENT ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE;
}
