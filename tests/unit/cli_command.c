/*
 * The test program as CMD: see cli_command.h. What it starts ends by itself in the end, whatever
 * becomes of the test.
 */
#include "cli_command.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli_run.h"

enum { HELPER_S = 100 }; /* more than any test waits for */

static void stay(void)
{
    alarm(HELPER_S);
    for (;;) {
        pause();
    }
}

/* Says so many lines, and lets the lease begin. */
static void report(const char *lines)
{
    const char *progress = getenv("HOLDFAST_PROGRESS_FD");
    size_t size = strlen(lines);

    if (progress == NULL || write(STDOUT_FILENO, lines, size) != (ssize_t)size ||
        write(atoi(progress), "", 1) != 1) {
        _exit(2);
    }
}

static void report_pids(pid_t first, pid_t second)
{
    char lines[64];

    snprintf(lines, sizeof(lines), "%d\n%d\n", (int)first, (int)second);
    report(lines);
}

static void on_term(int signal_number)
{
    (void)signal_number;
    _exit(write(STDOUT_FILENO, "term\n", 5) == 5 ? 9 : 1);
}

/* Goes into its child's process group, says that it is there, and waits for SIGTERM. */
static int go_elsewhere(void)
{
    pid_t parent = getpid();
    pid_t child = fork();

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            return 0; /* it ended before it was asked for that */
        }
        stay();
    }
    signal(SIGTERM, on_term);
    if (child < 0 || setpgid(child, 0) != 0 || setpgid(0, child) != 0) {
        return 2;
    }
    report("up\n");
    stay();
    return 2;
}

/* Has a child in a session of its own, which minds no SIGTERM; dies of it itself. */
static int go_with_stray(void)
{
    pid_t command = getpid();
    pid_t child = fork();

    if (child == 0) {
        signal(SIGTERM, SIG_IGN);
        setsid();
        report_pids(command, getpid());
    }
    stay();
    return 2;
}

/* Says so when it is told to end, and so do many children in sessions of their own. */
static int go_many(void)
{
    enum { CHILDREN = 50 };
    pid_t child = 1;

    signal(SIGTERM, on_term);
    for (int index = 0; index < CHILDREN && child > 0; index++) {
        child = fork();
    }
    if (child == 0) {
        setsid();
    } else {
        report("");
    }
    stay();
    return 2;
}

/* As long as somebody reads what this process could say, which is looked at for so long. */
static bool is_read(int64_t begun_ms, int for_ms)
{
    struct pollfd reader = {.fd = STDOUT_FILENO};

    return run_now_ms() - begun_ms < HELPER_S * 1000 && poll(&reader, 1, for_ms) == 0;
}

/* The same, and that child begins another one again and again, and kills the one before. */
static int go_with_breeder(void)
{
    int64_t begun = run_now_ms();
    pid_t before = 0;

    if (fork() != 0) {
        stay();
    }
    signal(SIGTERM, SIG_IGN);
    setsid();
    report("");
    while (is_read(begun, run_now_ms() - begun < 1000 ? 0 : 20)) { /* no machine is to suffer */
        pid_t next = fork();

        if (next == 0) {
            while (is_read(begun, 20)) {
            }
            return 0;
        }
        if (before > 0) {
            kill(before, SIGKILL);
            waitpid(before, NULL, 0);
        }
        before = next;
    }
    return 0;
}

/*
 * As it is told to end, leaves behind children in sessions of their own that do nothing but to
 * begin another such one after 20 ms, and end. One look at all processes finds most of them, and
 * hardly ever all.
 */
static void on_term_restless(int signal_number)
{
    enum { CHILDREN = 16 };
    int64_t begun = run_now_ms();
    pid_t child = 1;

    (void)signal_number;
    signal(SIGTERM, SIG_IGN);
    for (int index = 0; index < CHILDREN && child > 0; index++) {
        child = fork();
    }
    while (child == 0 && setsid() > 0 && is_read(begun, 20)) {
        child = fork();
    }
    _exit(0);
}

static int go_restless(void)
{
    signal(SIGTERM, on_term_restless);
    report("");
    stay();
    return 2;
}

/* Starts a daemon, whose parent ends, then ends (status 4) or stays. */
static int go_with_daemon(bool ends)
{
    int status;
    pid_t child = fork();

    if (child == 0) {
        if (fork() == 0) {
            setsid();
            report_pids(getpid(), getpid());
            close(STDOUT_FILENO);
            close(STDERR_FILENO);
            stay();
        }
        return 0;
    }
    waitpid(child, &status, 0);
    if (!ends) {
        stay();
    }
    return 4;
}

/* Has a child, and becomes holdfast. hidden: one that no signal tells the end of, so that waitpid()
 * finds it only if asked for such. */
static int go_older(const char *self, const char *what, bool hidden)
{
    pid_t child = hidden ? (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0) : fork();

    if (child == 0) {
        close(STDOUT_FILENO);
        close(STDERR_FILENO);
        stay();
    }
    if (child < 0) {
        return 3; /* qemu has no such children */
    }
    dprintf(STDOUT_FILENO, "%d\n", (int)child);
    setenv("HOLDFAST_FAKE", "lease_ms=200,late", 1);
    execl(CLI_FAKE, CLI_FAKE, "lock", "--max-stall", "1h", "--lock-delay", "60s", "--kill-after",
          "300ms", "b", "--", self, what, (char *)NULL);
    return 2;
}

/* Becomes holdfast, who cannot see in /proc what processes there are. 3: that cannot be tried. */
static int go_blind(void)
{
    const char *progress = getenv("HOLDFAST_PROGRESS_FD");
    int status = 1;
    pid_t child;

    if (progress == NULL || close(atoi(progress)) != 0) {
        return 2; /* left open it had the new one get a number that a shell knows not */
    }
    if (unshare(CLONE_NEWNS | (getuid() == 0 ? 0 : CLONE_NEWUSER)) != 0 ||
        mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/proc", "tmpfs", MS_RDONLY, NULL) != 0) {
        return 3;
    }
    child = fork();
    if (child == 0) {
        dup2(STDERR_FILENO, STDOUT_FILENO);
        execl(CLI_FAKE, CLI_FAKE, "--version", (char *)NULL);
    }
    if (waitpid(child, &status, 0) != child || status != 0) {
        return 3; /* sanitizers want /proc for themselves */
    }
    setenv("HOLDFAST_FAKE", "lease_ms=200,late", 1);
    execl(CLI_FAKE, CLI_FAKE, "lock", "--max-stall", "1h", "--lock-delay", "60s", "--kill-after",
          "60s", "b", "--", "sh", "-c",
          "(trap 'sleep 0.3; echo clean; exit' TERM; " READY "while :; do sleep 0.02; done) & wait",
          (char *)NULL);
    return 2;
}

int command_be(const char *self, const char *what)
{
    if (strcmp(what, "elsewhere") == 0) {
        return go_elsewhere();
    }
    if (strcmp(what, "stray") == 0) {
        return go_with_stray();
    }
    if (strcmp(what, "restless") == 0) {
        return go_restless();
    }
    if (strcmp(what, "breeder") == 0) {
        return go_with_breeder();
    }
    if (strcmp(what, "blind") == 0) {
        return go_blind();
    }
    if (strncmp(what, "older-", 6) == 0) {
        return go_older(self, what + 6, false);
    }
    if (strncmp(what, "hidden-", 7) == 0) {
        return go_older(self, what + 7, true);
    }
    if (strcmp(what, "many") == 0) {
        return go_many();
    }
    return go_with_daemon(strcmp(what, "daemon") == 0);
}
