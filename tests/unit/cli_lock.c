/*
 * `holdfast lock` as a process: CMD's environment, the exit status, signals, the end of a hold, and
 * the terminal. The library is the one of cli_fake.c. A wait that must not happen would
 * last for a minute or for ever. No slow machine takes so long, so the tests can tell the
 * difference.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../emulation.h"
#include "../suite_main.h"
#include "cli_run.h"

static const struct {
    const char *fake;
    const char *line;
    int status;
} statuses[] = {
    {"", "lock a -- true", 0},
    {"", "lock a -- sh -c 'exit 7'", 7},
    {"", "lock a -- sh -c 'kill -9 $$'", 137},
    {"", "lock a -- /nonexistent/command", 127},
    {"", "lock a -- /etc", 126},
    {"acquire=-1", "lock --no-wait a -- true", 75},
    {"acquire=-2", "lock --wait 1s a -- true", 75},
    {"acquire=-1", "lock --no-wait -E 0 a -- true", 0},
    {"acquire=-2", "lock --wait 1s -E 9 a -- true", 9},
    {"block", "lock --wait 100ms a -- true", 75},
    {"block", "lock --wait 0s a -- true", 75},
    {"acquire=-1,why=1", "lock --no-wait a -- true", 75},
    {"acquire=-1,why=1", "lock --no-wait -E 9 a -- true", 9},
    {"acquire=-1,why=4", "lock --no-wait a -- true", 74},
    {"acquire=-2,why=4", "lock --wait 1s -E 9 a -- true", 74}, /* -E changes only status 75 */
    {"acquire=-9", "lock --no-wait a -- true", 69},
    {"acquire=-13", "lock a -- true", 70},
    {"acquire=-4", "lock a -- true", 70},
    {"connect=-9", "lock a -- true", 69},
    {"connect=-14", "lock a -- true", 70},
    {"open=-10", "lock a -- true", 77},
    {"open=-12", "lock a -- true", 64},
    {"open=-13", "lock a -- true", 70},
    {"release=-4", "lock a -- true", 76}, /* the hold had ended before CMD did */
};

START_TEST(test_status)
{
    struct ran ran;

    run_command(statuses[_i].fake, statuses[_i].line, &ran);
    ck_assert_int_eq(ran.status, statuses[_i].status);
    ck_assert_str_eq(ran.out, "");
}
END_TEST

START_TEST(test_environment)
{
    struct ran ran;

    run_command("",
                "lock b 'a b%' c -- sh -c 'echo $HOLDFAST_LOCK/$HOLDFAST_TOKEN/"
                "$HOLDFAST_SEQUENCER/${HOLDFAST_PROGRESS_FD-none}'",
                &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "b a%20b%25 c/41 42 43/dev:b:41 dev:ab:42 dev:c:43/none\n");
}
END_TEST

/* Other users see CMD as the holder's command, and not the words of `holdfast lock`. */
START_TEST(test_command_reaches_library)
{
    struct ran ran;

    run_command("", "lock --wait 2s a b -- true of x", &ran);
    ck_assert_ptr_nonnull(strstr(ran.log, "\nconnect command=true of x\n"));
    run_command("", "lock a -c true", &ran);
    ck_assert_ptr_nonnull(strstr(ran.log, "\nconnect command=sh -c true\n"));
    run_command("", "ls", &ran);
    ck_assert_ptr_null(strstr(ran.log, "command="));
}
END_TEST

START_TEST(test_options_reach_library)
{
    struct ran ran;

    run_command("", "lock a --shared -- true", &ran);
    ck_assert_ptr_nonnull(strstr(ran.log, "open a delay=1000000000 lease=0 stall=0\n"));
    ck_assert_ptr_nonnull(strstr(ran.log, "acquire a mode=1 timeout=-1\n"));
    run_command("", "lock --wait 2s --lease 3s --lock-delay 0s --max-stall 4s a -- true", &ran);
    ck_assert_ptr_nonnull(strstr(ran.log, "open a delay=-1 lease=3000000000 stall=4000000000\n"));
    ck_assert_ptr_nonnull(strstr(ran.log, "acquire a mode=0 timeout=2000000000\n"));
    run_command("", "lock --note trial_7 a -- true", &ran);
    ck_assert_ptr_nonnull(
        strstr(ran.log, "open a delay=1000000000 lease=0 stall=0 note=trial_7\n"));
    run_command("", "lock --no-wait a b -- true", &ran);
    ck_assert_ptr_nonnull(strstr(ran.log, "acquire_all 2\n"));
    ck_assert_ptr_nonnull(strstr(ran.log, "acquire a mode=0 timeout=0\n"));
    ck_assert_ptr_nonnull(strstr(ran.log, "release b\nrelease a\n"));
}
END_TEST

START_TEST(test_a_note_has_a_limit)
{
    char line[400];
    struct ran ran;

    snprintf(line, sizeof(line), "lock --note %0257d a -- true", 7);
    run_command("", line, &ran);
    ck_assert_int_eq(ran.status, 64);
    ck_assert_str_eq(ran.err,
                     "holdfast lock: --note: the text has 257 bytes, expected at most 256\n");
    ck_assert_str_eq(ran.log, "");
    snprintf(line, sizeof(line), "lock --note %0256d a -- true", 7);
    run_command("", line, &ran);
    ck_assert_int_eq(ran.status, 0);
}
END_TEST

/* The command waits for an agent as long as it would wait for the lock, 1 s at least and 5 s at
 * most. */
START_TEST(test_waits_no_longer_for_the_agent)
{
    static const struct {
        const char *line;
        const char *timeout;
    } cases[] = {
        {"lock --no-wait a -- true", "connect timeout=1000000000\n"},
        {"lock --wait 0s a -- true", "connect timeout=1000000000\n"},
        {"lock --wait 1001ms a -- true", "connect timeout=1001000000\n"},
        {"lock --wait 4999ms a -- true", "connect timeout=4999000000\n"},
        {"lock --wait 1h a -- true", "connect timeout=5000000000\n"},
        {"lock a -- true", "connect timeout=5000000000\n"},
    };
    struct ran ran;

    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        run_command("connect=-9", cases[index].line, &ran);
        ck_assert_int_eq(ran.status, 69);
        ck_assert_msg(strstr(ran.log, cases[index].timeout) != NULL, "%s: %s", cases[index].line,
                      ran.log);
    }
}
END_TEST

START_TEST(test_release_after_end)
{
    struct run run;
    struct ran ran;

    run_start(&run, "", "lock a -- sh -c 'sleep 0.2; L=${HOLDFAST_FAKE##*log=}; echo end >>$L'");
    run_finish(&run, &ran);
    ck_assert_ptr_nonnull(strstr(ran.log, "end\nrelease a\n"));
}
END_TEST

static const int passed_on[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM};

START_TEST(test_signals_passed_on)
{
    char line[256];
    struct run run;
    struct ran ran;

    snprintf(
        line, sizeof(line),
        "lock a -- sh -c 'trap \"echo got; exit 5\" %d; echo up; while :; do sleep 0.05; done'",
        passed_on[_i]);
    run_start(&run, "", line);
    run_await_out(&run, "up");
    kill(run.pid, passed_on[_i]);
    run_finish(&run, &ran);
    ck_assert_int_eq(ran.status, 5);
    ck_assert_str_eq(ran.out, "got\n");
    ck_assert_ptr_nonnull(strstr(ran.log, "release a\n"));
}
END_TEST

START_TEST(test_signal_reaches_group)
{
    struct run run;
    struct ran ran;

    run_start(&run, "",
              "lock a -- sh -c '(trap \"echo inner; exit\" TERM; echo up; "
              "while :; do sleep 0.05; done) & wait'");
    run_await_out(&run, "up");
    kill(run.pid, SIGTERM);
    run_finish(&run, &ran);
    ck_assert_int_eq(ran.status, 128 + SIGTERM);
    ck_assert_str_eq(ran.out, "inner\n");
}
END_TEST

START_TEST(test_ignored_stays_ignored)
{
    struct ran ran;
    void (*before)(int) = signal(SIGHUP, SIG_IGN);
    void (*child_before)(int) = signal(SIGCHLD, SIG_IGN);
    struct run run;

    run_start(&run, "", "lock a -- sh -c 'kill -HUP $PPID; kill -HUP $$; sleep 0.1; exit 4'");
    signal(SIGHUP, before);
    signal(SIGCHLD, child_before);
    run_finish(&run, &ran);
    ck_assert_int_eq(ran.status, 4);
}
END_TEST

START_TEST(test_mask_restored)
{
    struct ran ran;

    run_command("", "lock a -- grep SigBlk /proc/self/status", &ran);
    ck_assert_str_eq(ran.out, "SigBlk:\t0000000000000000\n");
}
END_TEST

static const int ending[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};

START_TEST(test_signal_while_waiting)
{
    struct run run;
    struct ran ran;

    run_start(&run, "block", _i % 2 == 0 ? "lock a -- echo ran" : "lock a b -- echo ran");
    run_await_log(&run, "acquire a");
    kill(run.pid, ending[_i / 2]);
    run_finish(&run, &ran);
    ck_assert_int_eq(ran.status, 128 + ending[_i / 2]);
    ck_assert_str_eq(ran.out, "");
    ck_assert_ptr_nonnull(strstr(ran.log, "disconnect\n"));
}
END_TEST

/* CMD runs this line when CMD is ready to lose its hold. If HOLDFAST_FAKE has the word `late`, the
 * lease begins at that moment. */
#define READY "echo >&$HOLDFAST_PROGRESS_FD; "

START_TEST(test_lease_end)
{
    struct ran ran;

    run_command("lease_ms=300,late",
                "lock --lease 300ms --max-stall 1h --lock-delay 60s --kill-after 60s a -- "
                "sh -c 'trap \"echo term; exit\" TERM; " READY "while :; do sleep 0.02; done'",
                &ran);
    ck_assert_int_eq(ran.status, 76);
    ck_assert_str_eq(ran.out, "term\n");
    ck_assert_int_ge(ran.took_ms, 300);
    ck_assert_ptr_nonnull(strstr(ran.err, "the hold of a ended"));
    ck_assert_ptr_nonnull(strstr(ran.log, "release a\n"));
}
END_TEST

static const char stubborn[] = "trap \"\" TERM; " READY "while :; do sleep 0.05; done";

/* A wait that must not happen takes longer than this time. A busy machine needs far less. */
enum { SOON_MS = 30000 };

/*
 * The command kills CMD a tenth of the lock-delay before another process can have the lock. If the
 * machine is so busy that the kill comes too late, the test repeats it with a longer lock-delay. A
 * command that waits for the whole lock-delay fails with any lock-delay.
 */
START_TEST(test_kill_before_lock_delay)
{
    enum { LEASE_MS = 200, LONGEST_S = 32 };
    struct ran ran = {.took_ms = INT64_MAX};
    int64_t opens_ms = 0;

    for (unsigned delay_s = 2; delay_s <= LONGEST_S && ran.took_ms >= opens_ms; delay_s *= 2) {
        char line[256];

        snprintf(line, sizeof(line),
                 "lock --max-stall 1h --lock-delay %us --kill-after 60s a -- sh -c '%s'", delay_s,
                 stubborn);
        run_command("lease_ms=200,late", line, &ran);
        opens_ms = LEASE_MS + delay_s * 1000;
        ck_assert_int_eq(ran.status, 76);
        /* the kill is not earlier than necessary */
        ck_assert_int_ge(ran.took_ms, opens_ms - delay_s * 100);
    }
    ck_assert_int_lt(ran.took_ms, opens_ms);
}
END_TEST

START_TEST(test_kill_after)
{
    char line[256];
    struct ran ran;

    snprintf(line, sizeof(line),
             "lock --max-stall 1h --lock-delay 60s --kill-after 300ms a -- sh -c '%s'", stubborn);
    run_command("lease_ms=200,late", line, &ran);
    ck_assert_int_eq(ran.status, 76);
    ck_assert_int_ge(ran.took_ms, 500);
    ck_assert_int_lt(ran.took_ms, SOON_MS);
}
END_TEST

START_TEST(test_no_lock_delay_kills_at_once)
{
    char line[256];
    struct ran ran;

    snprintf(line, sizeof(line),
             "lock --max-stall 1h --lock-delay 0s --kill-after 60s a -- sh -c '%s'", stubborn);
    run_command("lease_ms=200,late", line, &ran);
    ck_assert_int_eq(ran.status, 76);
    ck_assert_int_lt(ran.took_ms, SOON_MS);
}
END_TEST

START_TEST(test_lost_event)
{
    struct ran ran;

    run_command("lost_ms=200", "lock a b -- sleep 1000", &ran);
    ck_assert_int_eq(ran.status, 76);
}
END_TEST

/* The process that reads holdfast's stderr has ended when the hold is lost. The loss still decides
 * the exit status. */
START_TEST(test_lost_and_nobody_reads)
{
    struct run run;
    struct ran ran;

    run_start(&run, "lost_ms=200", "lock a -- sleep 1000");
    close(run.err_fd);
    run.err_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    ck_assert_int_ge(run.err_fd, 0);
    run_finish(&run, &ran);
    ck_assert_int_eq(ran.status, 76);
}
END_TEST

START_TEST(test_lost_group_gets_its_time)
{
    struct ran ran;

    /* The shell dies of SIGTERM at once; its child needs 300 ms to clean up. The command notices
     * that the child has ended, and does not wait for the whole time of --kill-after. */
    run_command("lease_ms=200,late",
                "lock --max-stall 1h --lock-delay 60s --kill-after 60s a -- sh -c "
                "'(trap \"sleep 0.3; echo clean; exit\" TERM; " READY
                "while :; do sleep 0.02; done) & wait'",
                &ran);
    ck_assert_int_eq(ran.status, 76);
    ck_assert_str_eq(ran.out, "clean\n");
    ck_assert_int_lt(ran.took_ms, SOON_MS);
}
END_TEST

START_TEST(test_lost_stubborn_orphan)
{
    char line[256];
    struct ran ran;

    snprintf(line, sizeof(line),
             "lock --max-stall 1h --lock-delay 60s --kill-after 300ms a -- sh -c '(%s) & wait'",
             stubborn);
    run_command("lease_ms=200,late", line, &ran);
    ck_assert_int_eq(ran.status, 76);
    /* the orphan kept stdout open until the command killed it */
    ck_assert_int_ge(ran.took_ms, 500);
    ck_assert_int_lt(ran.took_ms, SOON_MS);
}
END_TEST

START_TEST(test_lost_while_stopped)
{
    struct ran ran;

    run_command("lease_ms=300", "lock --lock-delay 60s --kill-after 60s a -- sh -c 'kill -STOP $$'",
                &ran);
    ck_assert_int_eq(ran.status, 76);
    ck_assert_int_lt(ran.took_ms, SOON_MS);
}
END_TEST

START_TEST(test_stalled_holdfast)
{
    struct run run;
    struct ran ran;

    /* The test stops the command until the lease is over. When the command wakes, it ends CMD. */
    run_start(&run, "lease_ms=500,late", "lock --max-stall 1h a -- sh -c '" READY "sleep 1000'");
    run_await_log(&run, "progress a");
    kill(run.pid, SIGSTOP);
    run_sleep_ms(1000);
    kill(run.pid, SIGCONT);
    run_finish(&run, &ran);
    ck_assert_int_eq(ran.status, 76);
}
END_TEST

/*
 * CMD reports progress four times, over a time longer than max_stall, and keeps its hold. If a
 * machine is so busy that CMD cannot report in time, the test repeats this with longer times. A
 * command that does not pass on the reports fails with any times.
 */
START_TEST(test_progress)
{
    enum { LONGEST = 16 };
    struct ran ran = {.status = 76};

    for (uint32_t times = 1; times <= LONGEST && ran.status == 76; times *= 2) {
        char fake[64];
        char line[256];

        snprintf(fake, sizeof(fake), "lease_ms=%u,stall", 600 * times);
        snprintf(line, sizeof(line),
                 "lock --max-stall %ums a -- sh -c 'for i in 1 2 3 4; do sleep %u.%u; " READY
                 "done; exit 8'",
                 600 * times, 2 * times / 10, 2 * times % 10);
        run_command(fake, line, &ran);
    }
    ck_assert_int_eq(ran.status, 8);
    ck_assert_ptr_nonnull(strstr(ran.log, "progress a\n"));
}
END_TEST

/* Debian's sh takes one digit in `>&N`. Here `holdfast` inherits so many descriptors that its own
 * ones begin at 9. */
START_TEST(test_progress_number_of_one_digit)
{
    struct ran ran;

    run_inherited = 6;
    run_command("", "lock --max-stall 1h a -- sh -c 'echo >&$HOLDFAST_PROGRESS_FD; exit 8'", &ran);
    run_inherited = 0;
    ck_assert_str_eq(ran.err, "");
    ck_assert_int_eq(ran.status, 8);
}
END_TEST

START_TEST(test_no_progress)
{
    struct ran ran;

    run_command("lease_ms=400,stall", "lock --max-stall 400ms a -- sh -c '" READY "sleep 1000'",
                &ran);
    ck_assert_int_eq(ran.status, 76);
    run_command("lease_ms=300,stall",
                "lock --max-stall 300ms a -- sh -c 'exec 9>&-; eval "
                "\"exec $HOLDFAST_PROGRESS_FD>&-\"; sleep 1000'",
                &ran);
    /* closing the descriptor is no progress, and makes no endless loop */
    ck_assert_int_eq(ran.status, 76);
}
END_TEST

START_TEST(test_background_does_not_hold)
{
    struct ran ran;
    pid_t left;

    run_command("", "lock a -- sh -c 'sleep 1000 >/dev/null 2>&1 & echo $!'", &ran);
    ck_assert_int_eq(ran.status, 0);
    left = (pid_t)atoi(ran.out);
    ck_assert_int_gt(left, 1);
    /* the command did not wait for the process `left`, and did not end it */
    ck_assert_int_eq(kill(left, SIGKILL), 0);
}
END_TEST

/* Reads from the terminal until the text contains `part`. */
static void await_terminal(int fd, const char *part)
{
    char text[RUN_TEXT_SIZE] = "";
    size_t size = 0;

    while (strstr(text, part) == NULL) {
        ssize_t got = read(fd, text + size, sizeof(text) - 1 - size);

        if (got <= 0) {
            ck_abort_msg("never seen on the terminal: %s; but: %s", part, text);
        }
        size += (size_t)got;
        text[size] = '\0';
    }
}

/* Runs a shell line on its own terminal. The shell does job control if `interactive`. Output that
 * nobody has read is lost when the shell line ends, so the line ends with a `read` that waits for
 * end_terminal(). */
static pid_t on_terminal(const char *line, int *fd)
{
    pid_t pid = forkpty(fd, NULL, NULL, NULL);

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        setenv("HOLDFAST", CLI_FAKE, 1);
        setenv("HOLDFAST_FAKE", "", 1);
        execl("/bin/sh", "sh", "-c", line, (char *)NULL);
        _exit(99);
    }
    return pid;
}

static int finish_terminal(pid_t pid, int fd)
{
    int status;

    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    close(fd);
    return WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status);
}

static void type(int fd, const char *text)
{
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

static int end_terminal(pid_t pid, int fd)
{
    type(fd, "end\n");
    return finish_terminal(pid, fd);
}

START_TEST(test_terminal_read_and_interrupt)
{
    int fd;
    /* exec: Debian's sh may miss a SIGINT that comes while it forks */
    pid_t pid = on_terminal("exec $HOLDFAST lock a -- sh -c 'echo up; read x; echo got-$x; "
                            "exec sleep 1000'",
                            &fd);

    await_terminal(fd, "up");
    type(fd, "word\n");
    await_terminal(fd, "got-word");
    type(fd, "\x03");
    ck_assert_int_eq(finish_terminal(pid, fd), 128 + SIGINT);
}
END_TEST

START_TEST(test_terminal_in_pipeline)
{
    int fd;
    /* stdout is a pipe, so CMD gets the terminal only when CMD reads from the terminal. */
    pid_t pid = on_terminal("$HOLDFAST lock a -- sh -c 'read x; echo got-$x; exit 6' | cat; "
                            "read y; echo then-$y; read end",
                            &fd);

    type(fd, "one\n");
    await_terminal(fd, "got-one");
    type(fd, "two\n"); /* the shell has the terminal again */
    await_terminal(fd, "then-two");
    ck_assert_int_eq(end_terminal(pid, fd), 0);
}
END_TEST

START_TEST(test_terminal_stop_without_shell)
{
    int fd;
    pid_t pid = on_terminal("exec $HOLDFAST lock a -- sh -c 'echo up; read x; echo got-$x; "
                            "read end'",
                            &fd);

    await_terminal(fd, "up");
    type(fd, "\x1a"); /* no shell could continue the command, so CMD is not stopped */
    type(fd, "word\n");
    await_terminal(fd, "got-word");
    ck_assert_int_eq(end_terminal(pid, fd), 0);
}
END_TEST

START_TEST(test_terminal_stop_and_continue)
{
    int fd;
    pid_t pid = on_terminal("set -m; $HOLDFAST lock a -- sh -c 'echo up; read x; echo got-$x; "
                            "exit 6'; echo stopped-$?; fg; echo ended-$?; read end",
                            &fd);

    await_terminal(fd, "up");
    type(fd, "\x1a");
    /* 128 + a stop signal: the shell saw that the command was stopped */
    await_terminal(fd, "stopped-1");
    type(fd, "word\n");
    await_terminal(fd, "ended-6");
    ck_assert_int_eq(end_terminal(pid, fd), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cli_lock");
    TCase *lock = tcase_create("lock");

    tcase_set_timeout(lock, 60);
    tcase_add_loop_test(lock, test_status, 0, sizeof(statuses) / sizeof(statuses[0]));
    tcase_add_test(lock, test_environment);
    tcase_add_test(lock, test_command_reaches_library);
    tcase_add_test(lock, test_options_reach_library);
    tcase_add_test(lock, test_a_note_has_a_limit);
    tcase_add_test(lock, test_waits_no_longer_for_the_agent);
    tcase_add_test(lock, test_release_after_end);
    tcase_add_loop_test(lock, test_signals_passed_on, 0, sizeof(passed_on) / sizeof(passed_on[0]));
    tcase_add_test(lock, test_signal_reaches_group);
    if (orphans_are_adopted("test_ignored_stays_ignored",
                            "what a process was started to ignore, its children do not ignore")) {
        tcase_add_test(lock, test_ignored_stays_ignored);
    }
    tcase_add_test(lock, test_mask_restored);
    tcase_add_loop_test(lock, test_signal_while_waiting, 0, 8);
    tcase_add_test(lock, test_lease_end);
    tcase_add_test(lock, test_kill_before_lock_delay);
    tcase_add_test(lock, test_kill_after);
    tcase_add_test(lock, test_no_lock_delay_kills_at_once);
    tcase_add_test(lock, test_lost_event);
    tcase_add_test(lock, test_lost_and_nobody_reads);
    if (orphans_are_adopted("test_lost_group_gets_its_time", "orphans are not adopted here")) {
        tcase_add_test(lock, test_lost_group_gets_its_time);
    }
    tcase_add_test(lock, test_lost_stubborn_orphan);
    tcase_add_test(lock, test_lost_while_stopped);
    tcase_add_test(lock, test_stalled_holdfast);
    tcase_add_test(lock, test_progress);
    tcase_add_test(lock, test_no_progress);
    tcase_add_test(lock, test_progress_number_of_one_digit);
    tcase_add_test(lock, test_background_does_not_hold);
    tcase_add_test(lock, test_terminal_read_and_interrupt);
    tcase_add_test(lock, test_terminal_in_pipeline);
    tcase_add_test(lock, test_terminal_stop_without_shell);
    tcase_add_test(lock, test_terminal_stop_and_continue);
    suite_add_tcase(suite, lock);
    return suite_run(suite);
}
