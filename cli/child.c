/*
 * Starts CMD: see child.h. There are two pipes. The first pipe is close-on-exec and tells the
 * parent whether execvp() succeeded. After a success the parent reads the end of file, and after a
 * failure an errno. The child waits for a byte in the second pipe before it calls execvp().
 */
#include "child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

/* Gives the descriptor for progress the number progress_number. When the parent chose this number,
 * another descriptor of the parent had it. If that descriptor was closed since then, the report
 * pipe may have the number now. */
static bool inherit_progress(const struct child_options *options, int *report_fd)
{
    if (options->progress_fd < 0) {
        return true;
    }
    if (options->progress_fd == options->progress_number) {
        return fcntl(options->progress_fd, F_SETFD, 0) == 0;
    }
    if (*report_fd == options->progress_number) {
        *report_fd = fcntl(*report_fd, F_DUPFD_CLOEXEC, options->progress_number + 1);
    }
    return dup2(options->progress_fd, options->progress_number) >= 0;
}

/* Runs in the child. Only async-signal-safe calls are allowed, because at the fork another thread
 * of the parent may have held a mutex of libc. */
static _Noreturn void child_exec(const struct child_options *options, pid_t parent, int go_fd,
                                 int report_fd)
{
    int problem;
    ssize_t written;
    ssize_t got;
    char byte;

    (void)setpgid(0, 0);
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) {
        goto fail;
    }
    if (getppid() != parent) {
        _exit(CLI_FAILED); /* the parent died before prctl(), so no process reads this status */
    }
    do {
        got = read(go_fd, &byte, sizeof(byte));
    } while (got < 0 && errno == EINTR);
    if (got != 1) {
        /* the parent closed the pipe because there is no guard, so CMD must not run */
        _exit(CLI_FAILED);
    }
    if (options->terminal->from_start) {
        (void)tcsetpgrp(options->terminal->fd, getpgrp());
    }
    if (!inherit_progress(options, &report_fd)) {
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
    return cli_fail_with(CLI_FAILED, "lock", "%s: %s", what, strerror(problem));
}

/* Reads the child's report. Returns 0 after the end of file, or the errno of execvp(). */
static int report_read(int fd)
{
    int problem = 0;
    ssize_t size;

    do {
        size = read(fd, &problem, sizeof(problem));
    } while (size < 0 && errno == EINTR);
    return size == (ssize_t)sizeof(problem) ? problem : 0;
}

int child_fork(const struct child_options *options, struct child *child)
{
    pid_t parent = getpid();
    int go[2];
    int report[2];
    int problem;

    if (pipe2(go, O_CLOEXEC) != 0) {
        return child_failed("pipe", errno);
    }
    if (pipe2(report, O_CLOEXEC) != 0) {
        problem = errno;
        goto close_go;
    }
    child->pid = fork();
    if (child->pid == 0) {
        (void)close(go[1]);
        child_exec(options, parent, go[0], report[1]);
    }
    if (child->pid < 0) {
        problem = errno;
        goto close_report;
    }
    (void)close(go[0]);
    (void)close(report[1]);
    child->go_fd = go[1];
    child->report_fd = report[0];
    return 0;
close_report:
    (void)close(report[0]);
    (void)close(report[1]);
close_go:
    (void)close(go[0]);
    (void)close(go[1]);
    return child_failed("starting the command", problem);
}

static void child_reap(const struct child *child)
{
    while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

int child_go(const struct child_options *options, struct child *child)
{
    /* The byte lets the child go on. If the child has been killed, the write raises SIGPIPE, which
     * must not end holdfast: the caller notices that the child has ended. */
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    int problem;

    (void)!write(child->go_fd, "", 1);
    (void)signal(SIGPIPE, before);
    (void)close(child->go_fd);
    problem = report_read(child->report_fd);
    (void)close(child->report_fd);
    if (problem == 0) {
        return 0;
    }
    child_reap(child);
    return child_not_executed(options->argv[0], problem, options->hint);
}

int child_not_executed(const char *command, int problem, const char *hint)
{
    return cli_fail_with(problem == ENOENT ? CLI_NOT_FOUND : CLI_NOT_EXECUTABLE, "lock",
                         "cannot run %s: %s%s", command, strerror(problem), hint);
}

void child_cancel(struct child *child)
{
    (void)close(child->go_fd);
    (void)kill(child->pid, SIGKILL); /* SIGKILL, because it also ends a stopped child */
    (void)close(child->report_fd);
    child_reap(child);
}
