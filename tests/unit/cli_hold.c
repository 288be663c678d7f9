/*
 * `holdfast hold` as a process. The library is the one of cli_fake.c. The test keeps the other end
 * of the command's standard input.
 */
#include <check.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../suite_main.h"
#include "cli_run.h"

static int other_end; /* of the command's standard input */

/* Starts the command with a pipe, or a socket, as its standard input. */
static void start_with(bool is_socket, struct run *run, const char *fake, const char *line)
{
    int ends[2];

    if (is_socket) {
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    } else {
        ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    }
    other_end = ends[1];
    run_input = ends[0];
    run_start(run, fake, line);
    run_input = -1;
    close(ends[0]);
}

static void start(struct run *run, const char *fake, const char *line)
{
    start_with(false, run, fake, line);
}

/* Ends the command's standard input, and waits for the command's end. */
static void finish(struct run *run, struct ran *ran)
{
    close(other_end);
    run_finish(run, ran);
}

START_TEST(test_holds_until_the_input_ends)
{
    for (int is_socket = 0; is_socket < 2; is_socket++) {
        struct run run;
        struct ran ran;

        start_with(is_socket != 0, &run, "", "hold a");
        run_await_lines(&run, 1);
        run_sleep_ms(50);
        ck_assert_int_eq(kill(run.pid, 0), 0);
        finish(&run, &ran);
        ck_assert_int_eq(ran.status, 0);
        ck_assert_str_eq(ran.out, "dev:a:41\n");
        ck_assert_str_eq(ran.err, "");
        ck_assert_ptr_nonnull(strstr(ran.log, "acquire_start a mode=0 timeout=-1\n"));
        ck_assert_ptr_nonnull(strstr(ran.log, "release a\ndisconnect\n"));
        ck_assert_ptr_null(strstr(ran.log, "progress"));
        /* others see the program that runs the command as the holder */
        ck_assert_ptr_nonnull(strstr(ran.log, "connect command="));
        ck_assert_ptr_nonnull(strstr(ran.log, "test_cli_hold"));
    }
}
END_TEST

START_TEST(test_answers_in_json)
{
    struct run run;
    struct ran ran;

    start(&run, "granted_ms=50", "--json hold --shared a");
    run_await_lines(&run, 1);
    finish(&run, &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "{\"event\":\"held\",\"name\":\"a\",\"token\":41,"
                              "\"sequencer\":\"dev:a:41\"}\n");
    ck_assert_str_eq(ran.err, "");
    ck_assert_ptr_nonnull(strstr(ran.log, "mode=1"));
}
END_TEST

/* Nothing would hold the lock, so it is not taken. */
START_TEST(test_an_input_at_its_end_is_refused)
{
    struct ran ran;
    int ends[2];

    run_command("", "hold a", &ran); /* the input is /dev/null */
    ck_assert_int_eq(ran.status, 64);
    ck_assert_str_eq(ran.out, "");
    ck_assert_str_eq(ran.err, "holdfast hold: the standard input is at its end: expected one that "
                              "stays open for as long as the lock is to be held\n");
    ck_assert_str_eq(ran.log, "");
    ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
    close(ends[1]);
    run_input = ends[0];
    run_command("", "hold --json a", &ran);
    run_input = -1;
    close(ends[0]);
    ck_assert_int_eq(ran.status, 64);
    ck_assert_str_eq(ran.err, "");
    ck_assert_ptr_nonnull(strstr(ran.out, "\"status\":64}"));
    ck_assert_str_eq(ran.log, "");
}
END_TEST

START_TEST(test_the_input_ends_while_it_waits)
{
    static const struct {
        const char *line;
        int status;
    } cases[] = {{"hold a", 75}, {"hold -E 9 a", 9}};

    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        struct run run;
        struct ran ran;

        start(&run, "block", cases[index].line);
        run_await_log(&run, "acquire_start");
        finish(&run, &ran);
        ck_assert_int_eq(ran.status, cases[index].status);
        ck_assert_str_eq(ran.out, "");
        ck_assert_str_eq(ran.err,
                         "holdfast hold: a: the standard input ended before the lock was taken\n");
        ck_assert_ptr_nonnull(strstr(ran.log, "release a\ncancel a\n"));
    }
}
END_TEST

START_TEST(test_a_signal_ends_it)
{
    struct run run;
    struct ran ran;

    start(&run, "block", "hold a");
    run_await_log(&run, "acquire_start");
    kill(run.pid, SIGINT);
    run_finish(&run, &ran);
    close(other_end);
    ck_assert_int_eq(ran.status, 128 + SIGINT);
    ck_assert_str_eq(ran.err, "");
    ck_assert_ptr_nonnull(strstr(ran.log, "cancel a\n"));
    start(&run, "", "hold a");
    run_await_lines(&run, 1);
    kill(run.pid, SIGTERM);
    run_finish(&run, &ran);
    close(other_end);
    ck_assert_int_eq(ran.status, 128 + SIGTERM);
    ck_assert_ptr_nonnull(strstr(ran.log, "release a\n"));
    ck_assert_ptr_null(strstr(ran.log, "cancel"));
}
END_TEST

START_TEST(test_a_loss_is_told_at_once)
{
    struct run run;
    struct ran ran;

    start(&run, "lost_ms=50,why=7", "hold a");
    run_finish(&run, &ran);
    close(other_end);
    ck_assert_int_eq(ran.status, 76);
    ck_assert_str_eq(ran.out, "dev:a:41\nlost\n");
    ck_assert_str_eq(ran.err, "holdfast hold: the hold of a ended: because?[1m\n");
    start(&run, "lost_ms=50,shaky", "hold a");
    run_finish(&run, &ran);
    close(other_end);
    ck_assert_int_eq(ran.status, 76);
    ck_assert_str_eq(ran.out, "dev:a:41\njeopardy\nsafe\njeopardy\nlost\n");
    ck_assert_str_eq(ran.err, "holdfast hold: the hold of a ended\n");
    start(&run, "lost_ms=50,shaky,why=7", "hold --json a");
    run_finish(&run, &ran);
    close(other_end);
    ck_assert_int_eq(ran.status, 76);
    ck_assert_ptr_nonnull(strstr(ran.out, "\n{\"event\":\"jeopardy\",\"name\":\"a\"}\n"
                                          "{\"event\":\"safe\",\"name\":\"a\"}\n"));
    ck_assert_ptr_nonnull(strstr(ran.out, "{\"event\":\"lost\",\"name\":\"a\",\"error\":null,"
                                          "\"why\":{\"kind\":\"broken\","));
    ck_assert_str_eq(ran.err, "");
}
END_TEST

/* The hold ended just before the input did. */
START_TEST(test_a_loss_that_the_release_tells)
{
    struct run run;
    struct ran ran;

    start(&run, "release=-4", "hold a");
    run_await_lines(&run, 1);
    finish(&run, &ran);
    ck_assert_int_eq(ran.status, 76);
    ck_assert_str_eq(ran.out, "dev:a:41\nlost\n");
    ck_assert_str_eq(ran.err, "holdfast hold: the hold of a ended\n");
}
END_TEST

START_TEST(test_says_why_not_had)
{
    struct run run;
    struct ran ran;

    start(&run, "block,why=1", "hold --no-wait a");
    run_finish(&run, &ran);
    close(other_end);
    ck_assert_int_eq(ran.status, 75);
    ck_assert_str_eq(ran.out, "");
    ck_assert_str_eq(ran.err, "holdfast hold: a: fake error -1: because?[1m\n");
    ck_assert_ptr_nonnull(strstr(ran.log, "timeout=0\n"));
    start(&run, "block,why=4", "hold -q --wait 100ms a");
    run_finish(&run, &ran);
    close(other_end);
    ck_assert_int_eq(ran.status, 74);
    start(&run, "block,why=1", "hold -q --json -E 3 -w 0.1 a");
    run_finish(&run, &ran);
    close(other_end);
    ck_assert_int_eq(ran.status, 3);
    ck_assert_ptr_nonnull(strstr(ran.out, "{\"event\":\"not_had\",\"name\":\"a\""));
    ck_assert_str_eq(ran.err, "");
    start(&run, "acquire=-13", "hold a");
    run_finish(&run, &ran);
    close(other_end);
    ck_assert_int_eq(ran.status, 70);
    ck_assert_str_eq(ran.err, "holdfast hold: a: fake error -13\n");
    start(&run, "connect=-9", "hold --json a");
    run_finish(&run, &ran);
    close(other_end);
    ck_assert_int_eq(ran.status, 69);
    ck_assert_ptr_nonnull(strstr(ran.out, "\"kind\":\"no_agent\""));
}
END_TEST

/* The command asks for the reason after the wait has failed. A signal ends this question. */
START_TEST(test_a_signal_ends_the_question_why_not_had)
{
    struct run run;
    struct ran ran;

    start(&run, "block,silent", "hold -q --wait 100ms a");
    run_await_log(&run, "why a\n");
    kill(run.pid, SIGTERM);
    run_finish(&run, &ran);
    close(other_end);
    ck_assert_int_eq(ran.status, 1000 + SIGTERM);
}
END_TEST

START_TEST(test_says_why_it_waits)
{
    struct run run;
    struct ran ran;

    start(&run, "granted_ms=2500,why=1", "hold a");
    run_await_lines(&run, 1);
    finish(&run, &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.err, "holdfast hold: a: waiting: because?[1m\n");
    start(&run, "granted_ms=2500,why=1", "hold --json a");
    run_await_lines(&run, 2);
    finish(&run, &ran);
    ck_assert_ptr_eq(strstr(ran.out, "{\"event\":\"waiting\",\"name\":\"a\""), ran.out);
    ck_assert_ptr_nonnull(strstr(ran.out, "}\n{\"event\":\"held\""));
    ck_assert_str_eq(ran.err, "");
}
END_TEST

START_TEST(test_input_is_progress)
{
    struct run run;
    struct ran ran;

    start(&run, "", "hold --max-stall 5s a");
    run_await_lines(&run, 1);
    ck_assert_int_eq(write(other_end, "x\n", 2), 2);
    run_await_log(&run, "progress a\n");
    finish(&run, &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_ptr_nonnull(strstr(ran.log, "open a delay=1000000000 lease=0 stall=5000000000\n"));
    start(&run, "", "hold a");
    run_await_lines(&run, 1);
    ck_assert_int_eq(write(other_end, "x\n", 2), 2);
    run_sleep_ms(50);
    finish(&run, &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_ptr_null(strstr(ran.log, "progress"));
}
END_TEST

/* Nobody can know that the lock is held, so it is released. */
START_TEST(test_nobody_reads_the_sequencer)
{
    struct run run;
    struct ran ran;

    start(&run, "granted_ms=300", "hold a");
    close(run.out_fd);
    run.out_fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    run_finish(&run, &ran);
    close(other_end);
    ck_assert_int_eq(ran.status, 70);
    ck_assert_str_eq(ran.err,
                     "holdfast hold: a: the standard output could not be written: Broken pipe\n");
    ck_assert_ptr_nonnull(strstr(ran.log, "release a\n"));
}
END_TEST

START_TEST(test_refuses_a_lock_of_the_command_that_runs_it)
{
    struct run run;
    struct ran ran;

    setenv("HOLDFAST_LOCK", "a", 1);
    setenv("HOLDFAST_TOKEN", "41", 1);
    setenv("HOLDFAST_SEQUENCER", "hf1/dev/x/41/dev.1.1/a", 1);
    start(&run, "", "hold a");
    unsetenv("HOLDFAST_LOCK");
    unsetenv("HOLDFAST_TOKEN");
    unsetenv("HOLDFAST_SEQUENCER");
    run_finish(&run, &ran);
    close(other_end);
    ck_assert_int_eq(ran.status, 64);
    ck_assert_str_eq(ran.err, "holdfast hold: \"a\" is held by the holdfast that runs this command "
                              "(HOLDFAST_LOCK), so this would wait for itself: expected another "
                              "lock\n");
    ck_assert_ptr_null(strstr(ran.log, "acquire"));
}
END_TEST

START_TEST(test_usage)
{
    static const struct {
        const char *line;
        const char *err;
    } cases[] = {
        {"hold", "holdfast hold: "},
        {"hold a b", "holdfast hold: "},
        {"hold --nested a", "holdfast hold: unknown option --nested"},
        {"hold --shared -x a",
         "holdfast hold: --shared and --exclusive: expected only one of them\n"},
        {"hold --lease 0s a", "holdfast hold: --lease: expected more than 0\n"},
        {"hold --lock-delay 61s a", "holdfast hold: --lock-delay: expected at most 60s\n"},
        {"hold -n --wait 1s a", "holdfast hold: --wait and --no-wait: expected only one of them\n"},
    };
    struct ran ran;

    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        run_command("", cases[index].line, &ran);
        ck_assert_int_eq(ran.status, 64);
        ck_assert_ptr_eq(strstr(ran.err, cases[index].err), ran.err);
        ck_assert_str_eq(ran.log, "");
    }
    run_command("", "hold --help", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_ptr_nonnull(strstr(ran.out, "holdfast hold [options] NAME\n"));
}
END_TEST

int main(void)
{
    TCase *tcase = tcase_create("hold");

    tcase_set_timeout(tcase, 120);
    tcase_add_test(tcase, test_holds_until_the_input_ends);
    tcase_add_test(tcase, test_answers_in_json);
    tcase_add_test(tcase, test_an_input_at_its_end_is_refused);
    tcase_add_test(tcase, test_the_input_ends_while_it_waits);
    tcase_add_test(tcase, test_a_signal_ends_it);
    tcase_add_test(tcase, test_a_loss_is_told_at_once);
    tcase_add_test(tcase, test_a_loss_that_the_release_tells);
    tcase_add_test(tcase, test_says_why_not_had);
    tcase_add_test(tcase, test_a_signal_ends_the_question_why_not_had);
    tcase_add_test(tcase, test_says_why_it_waits);
    tcase_add_test(tcase, test_input_is_progress);
    tcase_add_test(tcase, test_nobody_reads_the_sequencer);
    tcase_add_test(tcase, test_refuses_a_lock_of_the_command_that_runs_it);
    tcase_add_test(tcase, test_usage);
    return suite_main("cli_hold", tcase);
}
