/*
 * `holdfast lock` as a process: the lines on stderr that give the reason why the command waits for
 * a lock, did not get it, or lost it. The library is the one of cli_fake.c.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "../suite_main.h"
#include "cli_run.h"

START_TEST(test_says_why_not_had)
{
    struct ran ran;

    run_command("acquire=-2,why=1", "lock --wait 1s a b -- true", &ran);
    ck_assert_str_eq(ran.err, "holdfast lock: a: fake error -2: because?[1m\n");
    run_command("acquire=-1,why=0", "lock --no-wait a b -- true", &ran);
    /* the command asks about "b", too, because "a" is not the lock that could not be taken */
    ck_assert_ptr_nonnull(strstr(ran.log, "why a\nwhy b\n"));
    ck_assert_str_eq(ran.err, "holdfast lock: a: fake error -1: because?[1m\n");
    run_command("acquire=-1", "lock --no-wait a -- true", &ran);
    ck_assert_str_eq(ran.err, "holdfast lock: a: fake error -1\n");
}
END_TEST

/* Runs a command that waits for ever, and ends it by SIGTERM after it has called hf_why(). */
static void run_waiting(const char *fake, const char *line, struct ran *ran)
{
    struct run run;

    run_start(&run, fake, line);
    run_await_log(&run, "why a\n");
    run_sleep_ms(100); /* time for the line on stderr; the line may also come after the signal */
    kill(run.pid, SIGTERM);
    run_finish(&run, ran);
    ck_assert_int_eq(ran->status, 128 + SIGTERM);
}

static size_t count_of(const char *text, const char *part)
{
    size_t count = 0;

    for (const char *at = strstr(text, part); at != NULL; at = strstr(at + 1, part)) {
        count++;
    }
    return count;
}

START_TEST(test_says_why_it_waits)
{
    struct ran ran = {.err = ""};

    for (int tries = 0; tries < 20 && ran.err[0] == '\0'; tries++) {
        run_waiting("block,why=1", "lock a -- true", &ran);
        ck_assert_int_ge(ran.took_ms, 1000);
    }
    ck_assert_str_eq(ran.err, "holdfast lock: a: waiting: because?[1m\n");
    run_waiting("block,why=0", "lock a -- true", &ran);
    ck_assert_str_eq(ran.err, "");
    run_command("block,why=1", "lock -q --wait 1300ms a -- true", &ran);
    ck_assert_str_eq(ran.err, "holdfast lock: a: fake error -2: because?[1m\n");
    run_command("block,why=1", "lock -v --wait 3s a -- true", &ran);
    /* at most one line, because the reason does not change */
    ck_assert_uint_le(count_of(ran.err, "a: waiting: because"), 1);
    run_command("", "lock -v a -- true", &ran);
    ck_assert_str_eq(ran.err, "");
    run_command("", "lock -v -q a -- true", &ran);
    ck_assert_int_eq(ran.status, 64);
}
END_TEST

/* With -v the line about the wait comes within a second. On a busy machine the test tries again. */
START_TEST(test_verbose_says_it_at_once)
{
    struct ran ran = {.err = "", .took_ms = 1000};

    for (int tries = 0; tries < 20 && (ran.err[0] == '\0' || ran.took_ms >= 1000); tries++) {
        run_waiting("block,why=1", "lock -v a -- true", &ran);
    }
    ck_assert_int_lt(ran.took_ms, 1000);
    ck_assert_str_eq(ran.err, "holdfast lock: a: waiting: because?[1m\n");
}
END_TEST

/* The agent does not answer hf_why(). This must not delay CMD after the lock is taken, the end of
 * holdfast, or the effect of a signal. The thread that is in hf_why() still uses the client, so the
 * command does not call hf_disconnect(). */
START_TEST(test_waits_for_no_answer_about_the_reason)
{
    struct ran ran;

    run_command("awaits_why,silent", "lock -v a -- echo ran", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "ran\n");
    ck_assert_str_eq(ran.err, "");
    ck_assert_ptr_nonnull(strstr(ran.log, "release a\n"));
    ck_assert_ptr_null(strstr(ran.log, "disconnect"));
    run_waiting("block,silent", "lock -v a -- true", &ran);
    ck_assert_str_eq(ran.err, "");
}
END_TEST

/* The answer comes while CMD runs: holdfast does not print it. */
START_TEST(test_says_nothing_after_the_lock_is_had)
{
    struct ran ran;

    run_command("awaits_why,slow,why=1", "lock -v a -- echo ran", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "ran\n");
    ck_assert_str_eq(ran.err, "");
}
END_TEST

/* The command asks for the reason after the wait has failed. A signal ends this question. */
START_TEST(test_a_signal_ends_the_question_why_not_had)
{
    struct run run;
    struct ran ran;

    run_start(&run, "acquire=-2,silent", "lock --wait 1s a -- true");
    run_await_log(&run, "why a\n");
    kill(run.pid, SIGTERM);
    run_finish(&run, &ran);
    ck_assert_int_eq(ran.status, 1000 + SIGTERM);
}
END_TEST

START_TEST(test_says_that_the_namespace_is_not_served)
{
    struct ran ran;

    run_command("open=-19", "lock --wait 150ms a -- true", &ran);
    ck_assert_int_eq(ran.status, 75);
    ck_assert_str_eq(ran.err, "holdfast lock: a: fake error -2: fake error -19\n");
    run_command("open=-19", "lock --no-wait a -- true", &ran);
    ck_assert_str_eq(ran.err, "holdfast lock: fake failure? with its value\n");
}
END_TEST

START_TEST(test_says_why_lost)
{
    struct ran ran;

    run_command("lost_ms=200,why=7", "lock a b -- sleep 1000", &ran);
    ck_assert_int_eq(ran.status, 76);
    ck_assert_str_eq(ran.err,
                     "holdfast lock: the hold of a ended: because?[1m: ending the command\n");
    run_command("lost_ms=200", "lock a -- sleep 1000", &ran);
    ck_assert_str_eq(ran.err, "holdfast lock: the hold of a ended: ending the command\n");
    run_command("release=-4,why=8", "lock a -- true", &ran);
    ck_assert_int_eq(ran.status, 76);
    ck_assert_str_eq(ran.err,
                     "holdfast lock: the hold of a ended: because?[1m, before the command did\n");
    /* hf_why() tells why a command would have to wait, not why a hold ended. So the answer is not
     * printed. */
    run_command("release=-4,why=1", "lock a -- true", &ran);
    ck_assert_str_eq(ran.err, "holdfast lock: the hold of a ended, before the command did\n");
}
END_TEST

#define ASKED                                                                                      \
    ",\"socket\":\"/run/holdfast/agent.sock\",\"socket_why\":\"the default\",\"cell\":\"dev\"}\n"
#define WHY_TAIL                                                                                   \
    "\"agent\":null,\"pid\":0,\"uid\":0,\"command\":null,\"note\":null,\"since_ms\":0,"            \
    "\"closed_ms\":0,"                                                                             \
    "\"holders\":0,\"waiters\":0,\"text\":\"because\\u001b[1m\"}" ASKED

/* A report names the agent that was asked, unless it was the system's agent. */
START_TEST(test_says_which_agent_was_asked)
{
    static const char asked[] = " (asked: /x/agent.sock, from --socket, cell dev)\n";
    char expected[256];
    struct ran ran;

    run_command("acquire=-2,why=1", "lock -s /x/agent.sock --wait 1s a -- true", &ran);
    snprintf(expected, sizeof(expected), "holdfast lock: a: fake error -2: because?[1m%s", asked);
    ck_assert_str_eq(ran.err, expected);
    run_command("lost_ms=200", "lock -s /x/agent.sock a -- sleep 1000", &ran);
    snprintf(expected, sizeof(expected), "holdfast lock: the hold of a ended: ending the command%s",
             asked);
    ck_assert_str_eq(ran.err, expected);
    run_command("open=-10", "lock -s /x/agent.sock a -- true", &ran);
    ck_assert_ptr_nonnull(strstr(ran.err, asked));
    run_command("acquire=-2,why=1", "lock --json -s /x/agent.sock --wait 1s a -- true", &ran);
    ck_assert_ptr_nonnull(strstr(ran.err, "\"socket\":\"/x/agent.sock\",\"socket_why\":"
                                          "\"from --socket\",\"cell\":\"dev\"}\n"));
    run_command("acquire=-2,why=1", "lock -s /run/holdfast/agent.sock --wait 1s a -- true", &ran);
    ck_assert_str_eq(ran.err, "holdfast lock: a: fake error -2: because?[1m\n");
}
END_TEST

START_TEST(test_says_why_in_json)
{
    struct ran ran;

    run_command("acquire=-2,why=1,noted", "lock --json --wait 1s a -- true", &ran);
    ck_assert_ptr_nonnull(
        strstr(ran.err, "\"command\":null,\"note\":\"trial \\\"7\\\"\",\"since_ms\""));
    run_command("acquire=-2,why=4", "lock --json --wait 1s a -- true", &ran);
    ck_assert_int_eq(ran.status, 74);
    ck_assert_str_eq(ran.err, "{\"event\":\"not_had\",\"name\":\"a\",\"error\":\"fake error -2\","
                              "\"why\":{\"kind\":\"no_majority\"," WHY_TAIL);
    run_command("acquire=-2", "lock --json --wait 1s a b -- true", &ran);
    ck_assert_str_eq(ran.err, "{\"event\":\"not_had\",\"name\":null,\"error\":\"fake error -2\","
                              "\"why\":null" ASKED);
    run_command("lost_ms=200,why=7", "lock --json a -- sleep 1000", &ran);
    ck_assert_str_eq(ran.err, "{\"event\":\"lost\",\"name\":\"a\",\"error\":null,"
                              "\"why\":{\"kind\":\"broken\"," WHY_TAIL);
    ran.err[0] = '\0';
    for (int tries = 0; tries < 20 && ran.err[0] == '\0'; tries++) {
        run_waiting("block,why=1", "lock --json -v a -- true", &ran);
    }
    ck_assert_str_eq(ran.err, "{\"event\":\"waiting\",\"name\":\"a\",\"error\":null,"
                              "\"why\":{\"kind\":\"held\"," WHY_TAIL);
}
END_TEST

int main(void)
{
    TCase *why = tcase_create("why");

    tcase_set_timeout(why, 120);
    tcase_add_test(why, test_says_which_agent_was_asked);
    tcase_add_test(why, test_says_why_not_had);
    tcase_add_test(why, test_says_why_it_waits);
    tcase_add_test(why, test_verbose_says_it_at_once);
    tcase_add_test(why, test_waits_for_no_answer_about_the_reason);
    tcase_add_test(why, test_says_nothing_after_the_lock_is_had);
    tcase_add_test(why, test_a_signal_ends_the_question_why_not_had);
    tcase_add_test(why, test_says_that_the_namespace_is_not_served);
    tcase_add_test(why, test_says_why_lost);
    tcase_add_test(why, test_says_why_in_json);
    return suite_main("cli_why", why);
}
