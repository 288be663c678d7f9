/*
 * The guards of `holdfast lock`: they end CMD and its group when `holdfast` is killed or stopped.
 * The library is the one of cli_fake.c.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../emulation.h"
#include "../suite_main.h"
#include "cli_run.h"

/* CMD runs this line when CMD is ready to lose its hold. */
#define READY "echo >&$HOLDFAST_PROGRESS_FD; "

enum { GONE_GUARD_MS = 60000 };

/* Waits until the process with that id is gone. */
static void await_gone(pid_t pid)
{
    int64_t start = run_now_ms();

    while (kill(pid, 0) == 0) {
        char path[64];
        char state[256] = "";
        int fd;

        snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            ssize_t size = read(fd, state, sizeof(state) - 1);

            close(fd);
            if (size > 0 && strstr(state, ") Z ") != NULL) {
                return;
            }
        }
        ck_assert_int_lt(run_now_ms() - start, GONE_GUARD_MS);
        run_sleep_ms(5);
    }
}

START_TEST(test_dies_with_holdfast)
{
    char text[64] = "";
    struct run run;
    struct ran ran;
    pid_t child;

    run_start(&run, "", "lock a -- sh -c 'echo $$; exec sleep 1000'");
    ck_assert_int_gt(read(run.out_fd, text, sizeof(text) - 1), 0);
    child = (pid_t)atoi(text);
    ck_assert_int_gt(child, 1);
    ck_assert_int_eq(getpgid(child), child);
    kill(run.pid, SIGKILL);
    run_finish(&run, &ran); /* CMD kept its stdout open until it was killed */
    ck_assert_int_eq(ran.status, 1000 + SIGKILL);
    await_gone(child);
}
END_TEST

/* Reads the numbers, separated by spaces, in one line that CMD has written. Returns false if CMD
 * ended before it wrote the line. */
static bool try_numbers(const struct run *run, pid_t *out, size_t count)
{
    char text[128] = "";
    char *at = text;

    for (size_t size = 0; strchr(text, '\n') == NULL; size = strlen(text)) {
        if (read(run->out_fd, text + size, sizeof(text) - 1 - size) <= 0) {
            return false;
        }
    }
    for (size_t index = 0; index < count; index++) {
        out[index] = (pid_t)strtol(at, &at, 10);
        ck_assert_int_gt(out[index], 1);
    }
    return true;
}

static void read_numbers(const struct run *run, pid_t *out, size_t count)
{
    ck_assert(try_numbers(run, out, count));
}

enum { GUARDS = 2 };

/* Finds the ids of the command's guard processes. */
static void guards_of(pid_t holdfast, pid_t *guards)
{
    int64_t start = run_now_ms();

    for (;;) {
        char path[64];
        char text[256] = "";
        int found = 0;
        int fd;

        snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)holdfast, (int)holdfast);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        ck_assert_int_ge(fd, 0);
        ck_assert_int_ge(read(fd, text, sizeof(text) - 1), 0);
        close(fd);
        for (char *at = text; *at >= '0' && *at <= '9'; at++) {
            pid_t pid = (pid_t)strtol(at, &at, 10);
            char name[32] = "";

            snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
            fd = open(path, O_RDONLY | O_CLOEXEC);
            if (fd >= 0) {
                ck_assert_int_ge(read(fd, name, sizeof(name) - 1), 0);
                close(fd);
            }
            if (strcmp(name, "hf-guard\n") == 0 && found < GUARDS) {
                guards[found++] = pid;
            }
        }
        if (found == GUARDS) {
            return;
        }
        ck_assert_int_lt(run_now_ms() - start, GONE_GUARD_MS);
        run_sleep_ms(5);
    }
}

/* Returns the id of one of the command's guard processes. */
static pid_t guard_of(pid_t holdfast)
{
    pid_t guards[GUARDS];

    guards_of(holdfast, guards);
    return guards[0];
}

/* CMD with a child; both ignore the signals that can be ignored. CMD writes its own id and the
 * child's. */
#define WITH_CHILD                                                                                 \
    "sh -c '(trap \"\" HUP INT QUIT TERM; exec sleep 1000) & echo $$ $!; " READY "wait'"

START_TEST(test_group_dies_with_holdfast)
{
    struct run run;
    struct ran ran;
    pid_t pids[2];
    pid_t guard;

    run_start(&run, "", "lock --max-stall 1h a -- " WITH_CHILD);
    read_numbers(&run, pids, 2);
    guard = guard_of(run.pid);
    kill(run.pid, SIGKILL);
    run_finish(&run, &ran); /* the child kept its stdout open until it was killed */
    ck_assert_int_eq(ran.status, 1000 + SIGKILL);
    await_gone(pids[0]);
    await_gone(pids[1]);
    await_gone(guard);
}
END_TEST

START_TEST(test_group_dies_with_guard)
{
    struct run run;
    struct ran ran;
    pid_t pids[2];

    run_start(&run, "", "lock --max-stall 1h a -- " WITH_CHILD);
    read_numbers(&run, pids, 2);
    kill(guard_of(run.pid), SIGKILL);
    run_finish(&run, &ran);
    ck_assert_int_eq(ran.status, 70);
    ck_assert_ptr_nonnull(strstr(ran.err, "a guard process was killed"));
    ck_assert_ptr_nonnull(strstr(ran.log, "release a\n"));
    await_gone(pids[1]);
}
END_TEST

/* Both guards are killed before holdfast looks at either. It reports that once, with --json as an
 * object. */
START_TEST(test_group_dies_with_both_guards)
{
    static const char *const lines[] = {"lock --max-stall 1h a -- " WITH_CHILD,
                                        "lock --json --max-stall 1h a -- " WITH_CHILD};
    struct run run;
    struct ran ran;
    pid_t pids[2];
    pid_t guards[GUARDS];

    run_start(&run, "", lines[_i]);
    read_numbers(&run, pids, 2);
    guards_of(run.pid, guards);
    kill(run.pid, SIGSTOP);
    kill(guards[0], SIGKILL);
    kill(guards[1], SIGKILL);
    await_gone(guards[0]);
    await_gone(guards[1]);
    kill(run.pid, SIGCONT);
    run_finish(&run, &ran);
    ck_assert_int_eq(ran.status, 70);
    ck_assert_uint_eq(run_count_lines(ran.err), 1);
    ck_assert_ptr_eq(strstr(ran.err, _i == 0 ? "holdfast lock: a guard process was killed"
                                             : "{\"event\":\"notice\",\"command\":\"lock\","
                                               "\"text\":\"a guard process was killed"),
                     ran.err);
    await_gone(pids[1]);
}
END_TEST

static int count_descriptors(pid_t pid)
{
    int count = 0;

    for (int fd = 0; fd < 256; fd++) {
        char path[64];
        char target[64];

        snprintf(path, sizeof(path), "/proc/%d/fd/%d", (int)pid, fd);
        count += readlink(path, target, sizeof(target)) > 0;
    }
    return count;
}

/* A signal to the process groups of CMD and of holdfast does not end the guard. A stop of the guard
 * does not last. The guard keeps no descriptor open. */
START_TEST(test_guard_stands_apart)
{
    static const int signals[] = {SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGPIPE};
    struct run run;
    struct ran ran;
    pid_t pids[2];
    pid_t guard;

    run_start(&run, "",
              "lock --max-stall 1h a -- sh -c 'trap \"\" HUP INT TERM USR1 ALRM PIPE; "
              "sleep 1000 & echo $$ $!; " READY "wait; exit 4'");
    read_numbers(&run, pids, 2);
    guard = guard_of(run.pid);
    for (int64_t start = run_now_ms(); count_descriptors(guard) > 3; run_sleep_ms(5)) {
        ck_assert_int_lt(run_now_ms() - start, GONE_GUARD_MS);
    }
    ck_assert_int_eq(getsid(guard), guard);
    for (size_t index = 0; index < sizeof(signals) / sizeof(signals[0]); index++) {
        kill(guard, signals[index]);
        kill(-pids[0], signals[index]);
    }
    kill(guard, SIGSTOP);
    run_sleep_ms(50);
    ck_assert_int_eq(kill(guard, 0), 0);
    kill(pids[1], SIGKILL);
    run_finish(&run, &ran);
    ck_assert_int_eq(ran.status, 4);
    ck_assert_int_eq(kill(guard, 0), -1); /* the guard has ended with holdfast */
}
END_TEST

/* Returns whether the process is stopped, or will be when it next has a processor. */
static bool is_stopped(pid_t pid)
{
    const unsigned long long stop = 1ULL << (SIGSTOP - 1);
    char path[64];
    char text[2048] = "";
    const char *state;
    const char *pending;
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_ge(read(fd, text, sizeof(text) - 1), 0);
    close(fd);
    state = strstr(text, "State:\t");
    pending = strstr(text, "ShdPnd:\t");
    ck_assert(state != NULL && pending != NULL);
    return state[7] == 'T' || (strtoull(pending + 8, NULL, 16) & stop) != 0;
}

START_TEST(test_stopped_guard_goes_on)
{
    struct run run;
    struct ran ran;
    pid_t pids[2];
    pid_t guard;

    run_start(&run, "", "lock --max-stall 1h a -- " WITH_CHILD);
    read_numbers(&run, pids, 2);
    guard = guard_of(run.pid);
    kill(guard, SIGSTOP);
    /* holdfast continues the guard. A stop begins a moment after its signal is no longer pending,
     * so one look is not enough. */
    for (int64_t start = run_now_ms(), looks = 0; looks < 10; run_sleep_ms(10)) {
        looks = is_stopped(guard) ? 0 : looks + 1;
        ck_assert_int_lt(run_now_ms() - start, GONE_GUARD_MS);
    }
    kill(run.pid, SIGKILL);
    run_finish(&run, &ran);
    await_gone(pids[1]);
    await_gone(guard);
}
END_TEST

/* Stops holdfast while CMD runs under `option`, which has a duration, and waits until the guard has
 * killed CMD. Returns false if the duration was over before CMD had begun its work, or before
 * holdfast was stopped. */
static bool guard_ends(const char *option, uint32_t duration_ms)
{
    char line[256];
    struct run run;
    struct ran ran;
    pid_t pids[2];

    snprintf(line, sizeof(line), "lock --lock-delay 500ms %s %ums a -- sh -c '%s'", option,
             duration_ms, "sleep 1000 & echo $$ $!; wait; exit 4");
    run_start(&run, "", line);
    bool begun = try_numbers(&run, pids, 2);
    if (begun) {
        kill(run.pid, SIGSTOP);
        await_gone(pids[1]);
        kill(run.pid, SIGCONT);
    }
    run_finish(&run, &ran);
    ck_assert(!begun || ran.status == 76 || ran.status == 128 + SIGKILL);
    return begun && ran.status != 76;
}

/* No agent knows when a hold ends by --lease or --max-stall. So the guard kills CMD at that time if
 * holdfast is stopped. On a busy machine CMD may need more time to begin. */
START_TEST(test_guard_keeps_the_lease)
{
    static const char *const options[] = {"--lease", "--max-stall"};
    uint32_t duration_ms = 500;

    while (!guard_ends(options[_i], duration_ms)) {
        duration_ms *= 4;
        ck_assert_uint_lt(duration_ms, GONE_GUARD_MS);
    }
}
END_TEST

/* The guard does nothing while the hold lasts. */
START_TEST(test_guard_waits_for_the_lease)
{
    struct run run;
    struct ran ran;
    pid_t pids[2];

    run_start(&run, "",
              "lock --lock-delay 500ms --max-stall 1h a -- "
              "sh -c 'sleep 1000 & echo $$ $!; wait; exit 4'");
    read_numbers(&run, pids, 2);
    kill(run.pid, SIGSTOP);
    run_sleep_ms(1500);
    ck_assert_int_eq(kill(pids[1], SIGTERM), 0);
    kill(run.pid, SIGCONT);
    run_finish(&run, &ran);
    ck_assert_int_eq(ran.status, 4);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cli_guard");
    TCase *guard = tcase_create("guard");

    tcase_set_timeout(guard, 60);
    tcase_add_test(guard, test_dies_with_holdfast);
    tcase_add_test(guard, test_group_dies_with_holdfast);
    tcase_add_test(guard, test_group_dies_with_guard);
    tcase_add_loop_test(guard, test_group_dies_with_both_guards, 0, 2);
    tcase_add_test(guard, test_guard_stands_apart);
    tcase_add_test(guard, test_stopped_guard_goes_on);
    tcase_add_loop_test(guard, test_guard_keeps_the_lease, 0, 2);
    tcase_add_test(guard, test_guard_waits_for_the_lease);
    suite_add_tcase(suite, guard);
    return suite_run(suite);
}
