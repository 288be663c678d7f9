/*
 * The command line of `holdfast lock`: options like those of flock(1), commands without `--`, and a
 * `holdfast lock` that another `holdfast lock` runs.
 */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "cli_run.h"

static const struct {
    const char *line;
    const char *out;
    const char *log; /* a line that the fake library must have logged; NULL: none is checked */
} understood[] = {
    {"lock a echo one two", "one two\n", "acquire a mode=0 timeout=-1\n"},
    {"lock -n a echo -n -x --shared", "-x --shared", "acquire a mode=0 timeout=0\n"},
    {"lock -x -w 1.5 a sh -c 'echo $HOLDFAST_LOCK'", "a\n",
     "acquire a mode=0 timeout=1500000000\n"},
    {"lock -e -o -w2 a -c 'echo $HOLDFAST_LOCK'", "a\n", "acquire a mode=0 timeout=2000000000\n"},
    {"lock -c 'echo line' a", "line\n", NULL},
    {"lock -xn a echo had", "had\n", "acquire a mode=0 timeout=0\n"},
    {"lock -enE9 a -- echo had", "had\n", "acquire a mode=0 timeout=0\n"},
    /* the command line in /proc has the bundle as it was written */
    {"lock -exnE9 a sh -c 'grep -ac -e -[e]xnE9 /proc/$PPID/cmdline'", "1\n", NULL},
    {"lock -ow 2 a echo had", "had\n", "acquire a mode=0 timeout=2000000000\n"},
    {"lock a -n -c 'echo late'", "late\n", "acquire a mode=0 timeout=0\n"},
    {"lock a b -- echo both", "both\n", "acquire_all 2\n"},
    {"lock --shared a echo shared", "shared\n", "acquire a mode=1 timeout=-1\n"},
    {"lock --nonblock a echo had", "had\n", "acquire a mode=0 timeout=0\n"},
    {"lock --nb a echo had", "had\n", "acquire a mode=0 timeout=0\n"},
    {"lock --exclusive --close --verbose --conflict-exit-code 1 --timeout 2 a --command 'echo c'",
     "c\n", "acquire a mode=0 timeout=2000000000\n"},
};

START_TEST(test_understood)
{
    struct ran ran;

    run_command("", understood[_i].line, &ran);
    ck_assert_msg(ran.status == 0, "%s: %d %s", understood[_i].line, ran.status, ran.err);
    ck_assert_str_eq(ran.out, understood[_i].out);
    ck_assert_msg(understood[_i].log == NULL || strstr(ran.log, understood[_i].log) != NULL,
                  "%s: %s", understood[_i].line, ran.log);
}
END_TEST

static const struct {
    const char *line;
    const char *err;
} refused[] = {
    {"lock", "no lock name: expected NAME"},
    {"lock a", "no CMD behind \"a\": expected NAME CMD [ARG...], NAME -c STRING, or NAME"},
    {"lock -n 9", "no CMD behind \"9\": expected NAME CMD [ARG...], because a file descriptor, as"},
    {"lock a --shared true", "no -- found"},
    {"lock a --", "nothing after --"},
    {"lock -- true", "no lock name before --"},
    {"lock a b -c true --", "-c behind several words"},
    {"lock a -c true b", "-c behind several words"},
    {"lock a -c true -- true", "-c beside the command \"true\""},
    {"lock -c true a true", "-c beside the command \"true\""},
    {"lock a -c", "expected a value"},
    {"lock -x --shared a true", "--shared and --exclusive"},
    {"lock -n -w 1 a true", "--wait and --no-wait"},
    {"lock -w 1s a true", "is not a number of seconds"},
    {"lock -w . a true", "is not a number of seconds"},
    {"lock -w -1 a true", "is not a number of seconds"},
    {"lock -w 99999999999 a true", "is not a number of seconds"},
    {"lock -s gc -- true", "did you mean --shared?"},
    {"lock -s gc true", "did you mean --shared?"},
    {"lock -s /etc/passwd", "\"/etc/passwd\" is no socket: did you mean --shared?"},
    {"lock -n5 a true", "-n5: expected no value after --no-wait"},
    {"lock -nZ a true", "-nZ: expected no value after --no-wait"},
    {"lock -F a true", "-F, --no-fork: holdfast stays beside CMD"},
    {"lock --no-fork a true", "-F, --no-fork: holdfast stays beside CMD"},
    {"lock -u 9", "-u, --unlock: a lock is released when its CMD ends"},
    {"lock --unlock a true", "-u, --unlock: a lock is released when its CMD ends"},
};

START_TEST(test_refused)
{
    struct ran ran;

    run_command("", refused[_i].line, &ran);
    ck_assert_msg(ran.status == 64, "%s: %d %s", refused[_i].line, ran.status, ran.err);
    ck_assert_msg(strstr(ran.err, refused[_i].err) != NULL, "%s: %s", refused[_i].line, ran.err);
    ck_assert_uint_eq(run_count_lines(ran.err), 1);
    ck_assert_str_eq(ran.log, "");
}
END_TEST

static const struct {
    const char *line;
    const char *why;
} no_sockets[] = {
    {"lock -s gc job -- true", "\"gc\" does not exist"},
    {"lock -sn job -- true", "\"n\" does not exist"},
    {"lock -s /etc/passwd job -- true", "\"/etc/passwd\" is no socket"},
    {"lock -s /etc job true", "\"/etc\" is no socket"},
};

/* No agent can come to such a socket, so holdfast does not wait for one: the hint is all. */
START_TEST(test_shared_hint)
{
    char line[256];
    struct ran ran;

    run_command("", no_sockets[_i].line, &ran);
    ck_assert_int_eq(ran.status, 69);
    snprintf(line, sizeof(line),
             "holdfast lock: -s is the agent's socket, and %s: did you mean --shared?\n",
             no_sockets[_i].why);
    ck_assert_str_eq(ran.err, line);
    ck_assert_str_eq(ran.log, "");
    snprintf(line, sizeof(line), "--json %s", no_sockets[_i].line);
    run_command("", line, &ran);
    ck_assert_int_eq(ran.status, 69);
    ck_assert_ptr_eq(strstr(ran.err, "{\"event\":\"not_had\",\"name\":\"job\","), ran.err);
    ck_assert_ptr_nonnull(strstr(ran.err, "\"kind\":\"no_agent\""));
    ck_assert_ptr_nonnull(strstr(ran.err, "did you mean --shared?\""));
    ck_assert_uint_eq(run_count_lines(ran.err), 1);
    ck_assert_str_eq(ran.log, "");
}
END_TEST

START_TEST(test_shared_hint_without_agent)
{
    struct ran ran;

    /* An agent that starts now may make this socket. The hint comes once, and before the wait. */
    run_command("connect=-9", "lock -s nowhere/gc job -- true", &ran);
    ck_assert_int_eq(ran.status, 69);
    ck_assert_ptr_eq(strstr(ran.err, "holdfast lock: "), ran.err);
    ck_assert_ptr_nonnull(
        strstr(ran.err, "\"nowhere/gc\" does not exist: did you mean --shared?\n"));
    ck_assert(strstr(ran.err, "did you mean") < strstr(ran.err, "fake error"));
    ck_assert_uint_eq(run_count_lines(ran.err), 2);
    run_command("connect=-9", "lock -s /nonexistent job -- true", &ran);
    ck_assert_ptr_null(strstr(ran.err, "did you mean"));
    ck_assert_ptr_nonnull(strstr(ran.err, "fake error"));
}
END_TEST

/* With --json a command that has no agent writes an object, as it does for other failures. */
START_TEST(test_json_without_agent)
{
    static const char begin[] = "{\"event\":\"not_had\",\"name\":\"a\",\"error\":\"fake error -9\","
                                "\"why\":{\"kind\":\"no_agent\",\"agent\":null,\"pid\":null,";
    struct ran ran;

    run_command("connect=-9", "lock --json a -- true", &ran);
    ck_assert_int_eq(ran.status, 69);
    ck_assert_ptr_eq(strstr(ran.err, begin), ran.err);
    ck_assert_ptr_nonnull(strstr(ran.err, "(the default): fake error -9"));
    ck_assert_uint_eq(run_count_lines(ran.err), 1);
    run_command("connect=-10", "lock --json a b -- true", &ran);
    ck_assert_int_eq(ran.status, 77);
    ck_assert_ptr_eq(strstr(ran.err, "{\"event\":\"not_had\",\"name\":null,\"error\":\""), ran.err);
    ck_assert_ptr_nonnull(strstr(ran.err, "\"why\":null}\n"));
}
END_TEST

/* CMD begins before the -- by mistake. The error shows the words that were read as names. */
static const struct {
    const char *line;
    int status;
    const char *err;
} misread[] = {
    {"lock k git log -- /nonexistent/file", 127,
     "No such file or directory; the words before -- were taken as names of locks: k, git and "
     "log\n"},
    {"lock k git -- /etc/passwd", 126,
     "Permission denied; the words before -- were taken as names of locks: k and git\n"},
    {"lock k -- /nonexistent/file", 127,
     "holdfast lock: cannot run /nonexistent/file: No such file or directory\n"},
    {"lock k /nonexistent/file", 127, "No such file or directory\n"},
    {"lock k git -- sh -c 'exit 127'", 127, ""}, /* 127 is CMD's own status */
};

START_TEST(test_misread)
{
    struct ran ran;

    run_command("", misread[_i].line, &ran);
    ck_assert_msg(ran.status == misread[_i].status, "%s: %d", misread[_i].line, ran.status);
    ck_assert_msg(misread[_i].err[0] == '\0' ? ran.err[0] == '\0'
                                             : strstr(ran.err, misread[_i].err) != NULL,
                  "%s: %s", misread[_i].line, ran.err);
}
END_TEST

/* The command runs within an outer hold of a%, b and "c d". */
static const struct {
    const char *fake;
    const char *line;
    int status;
    const char *out;
    const char *err;
} nested[] = {
    {"", "lock b -- echo ran", 64, "",
     "\"b\" is held by the holdfast that runs this command (HOLDFAST_LOCK), so this would wait for "
     "itself"},
    {"", "lock --shared b -- echo ran", 64, "", "would wait for itself"},
    {"", "lock --shared 'c d' -- echo ran", 64, "", "is held shared by the holdfast that"},
    {"", "lock --shared 'c d' -- echo ran", 64, "", "wait behind every writer that"},
    {"", "lock 'c d' -- echo ran", 64, "", "would wait for itself"},
    {"", "lock e a% -- echo ran", 64, "", "\"a%\" is held"},
    {"", "lock 'c d' -- echo ran", 64, "", "\"c d\" is held"},
    {"", "lock e -- echo ran", 0, "ran\n", ""},
    {"", "lock a -- echo ran", 0, "ran\n", ""},
    {"", "lock --nested b -- sh -c 'echo $HOLDFAST_TOKEN'", 0, "1 2 3\n", ""},
    {"", "lock --nested a% b -- sh -c 'exit 3'", 3, "", ""},
    {"", "lock --nested b -- /nonexistent", 127, "", "/nonexistent"},
    {"", "lock --nested b e -- echo ran", 64, "", "has \"b\" but not \"e\""},
    {"", "lock --nested e -- sh -c 'echo $HOLDFAST_LOCK'", 0, "e\n", ""},
    {"", "lock --nested --shared 'c d' -- echo ran", 0, "ran\n", ""},
    {"", "lock --nested 'c d' -- echo ran", 64, "", "\"c d\" is shared: expected --shared"},
    {"check=-17", "lock b -- echo ran", 0, "ran\n", ""}, /* the outer hold has ended */
    {"check=-17", "lock --nested b -- sh -c 'echo $HOLDFAST_LOCK'", 0, "b\n", ""},
    {"check=-11", "lock b -- echo ran", 0, "ran\n", ""}, /* the outer hold is in another cell */
    {"check=-18", "lock b -- echo ran", 75, "", "fake failure"},
};

START_TEST(test_nested)
{
    struct ran ran;

    setenv("HOLDFAST_LOCK", "a%25 b c%20d", 1);
    setenv("HOLDFAST_TOKEN", "1 2 3", 1);
    setenv("HOLDFAST_SEQUENCER", "s1 s2 hf1/dev/s/3/x/c", 1);
    run_command(nested[_i].fake, nested[_i].line, &ran);
    ck_assert_msg(ran.status == nested[_i].status, "%s: %d %s", nested[_i].line, ran.status,
                  ran.err);
    ck_assert_str_eq(ran.out, nested[_i].out);
    ck_assert_msg(strstr(ran.err, nested[_i].err) != NULL, "%s: %s", nested[_i].line, ran.err);
    if (strstr(nested[_i].line, "lock b") != NULL) {
        ck_assert_ptr_nonnull(strstr(ran.log, "check s2\n"));
    }
}
END_TEST

/* The command runs inside holds of b and "c d", of x, and of y (shared). CMD prints the six
 * variables. */
#define PRINT                                                                                      \
    "-- sh -c 'echo $HOLDFAST_LOCK/$HOLDFAST_TOKEN/$HOLDFAST_SEQUENCER"                            \
    "/$HOLDFAST_OUTER_LOCK/$HOLDFAST_OUTER_TOKEN/$HOLDFAST_OUTER_SEQUENCER'"

static const struct {
    const char *fake;
    const char *line;
    int status;
    const char *out;
    const char *err;
} chain[] = {
    /* the refusal names the variable in which the lock is */
    {"", "lock x -- echo ran", 64, "",
     "\"x\" is held by the holdfast that runs this command (HOLDFAST_OUTER_LOCK), so this would"},
    {"", "lock b -- echo ran", 64, "", "runs this command (HOLDFAST_LOCK), so this would"},
    {"", "lock --shared y -- echo ran", 64, "",
     "\"y\" is held shared by the holdfast that runs this command (HOLDFAST_OUTER_LOCK), and this"},
    {"", "lock e y -- echo ran", 64, "", "\"y\" is held"},
    {"", "lock --nested x " PRINT, 0, "x/3/sx/b c%20d x y/1 2 3 4/sb scd sx hf1|dev|s|4|y|c\n", ""},
    {"", "lock --nested x b " PRINT, 0,
     "x b/3 1/sx sb/b c%20d x y/1 2 3 4/sb scd sx hf1|dev|s|4|y|c\n", ""},
    /* the nearest command holds all of these locks, so nothing changes */
    {"", "lock --nested b " PRINT, 0, "b c%20d/1 2/sb scd/x y/3 4/sx hf1|dev|s|4|y|c\n", ""},
    {"", "lock --nested x e -- echo ran", 64, "", "has \"x\" but not \"e\""},
    {"", "lock --nested y -- echo ran", 64, "", "\"y\" is shared"},
    {"", "lock --nested --shared y -- echo ran", 0, "ran\n", ""},
    /* another lock: the variables still have the whole chain */
    {"", "lock e " PRINT, 0, "e/41/dev:e:41/b c%20d x y/1 2 3 4/sb scd sx hf1|dev|s|4|y|c\n", ""},
    /* the variables drop holds that are over */
    {"check=-17", "lock x " PRINT, 0, "x/41/dev:x:41///\n", ""},
    /* holds of another cell may still count in that cell, so the variables keep them; the same is
     * true of holds that the agent cannot judge */
    {"check=-11", "lock e " PRINT, 0,
     "e/41/dev:e:41/b c%20d x y/1 2 3 4/sb scd sx hf1|dev|s|4|y|c\n", ""},
    {"check=-18", "lock e " PRINT, 0,
     "e/41/dev:e:41/b c%20d x y/1 2 3 4/sb scd sx hf1|dev|s|4|y|c\n", ""},
};

START_TEST(test_chain)
{
    struct ran ran;

    setenv("HOLDFAST_LOCK", "b c%20d", 1);
    setenv("HOLDFAST_TOKEN", "1 2", 1);
    setenv("HOLDFAST_SEQUENCER", "sb scd", 1);
    setenv("HOLDFAST_OUTER_LOCK", "x y", 1);
    setenv("HOLDFAST_OUTER_TOKEN", "3 4", 1);
    setenv("HOLDFAST_OUTER_SEQUENCER", "sx hf1/dev/s/4/y/c", 1);
    run_command(chain[_i].fake, chain[_i].line, &ran);
    for (char *at = strstr(ran.out, "hf1/"); at != NULL && *at != '\n'; at++) {
        *at = *at == '/' ? '|' : *at; /* shows a sequencer's slashes as bars */
    }
    ck_assert_msg(ran.status == chain[_i].status, "%s: %d %s", chain[_i].line, ran.status, ran.err);
    ck_assert_str_eq(ran.out, chain[_i].out);
    ck_assert_msg(strstr(ran.err, chain[_i].err) != NULL, "%s: %s", chain[_i].line, ran.err);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cli_words");
    TCase *words = tcase_create("words");

    tcase_set_timeout(words, 60);
    tcase_add_loop_test(words, test_understood, 0, sizeof(understood) / sizeof(understood[0]));
    tcase_add_loop_test(words, test_refused, 0, sizeof(refused) / sizeof(refused[0]));
    tcase_add_loop_test(words, test_shared_hint, 0, sizeof(no_sockets) / sizeof(no_sockets[0]));
    tcase_add_test(words, test_shared_hint_without_agent);
    tcase_add_test(words, test_json_without_agent);
    tcase_add_loop_test(words, test_misread, 0, sizeof(misread) / sizeof(misread[0]));
    tcase_add_loop_test(words, test_chain, 0, sizeof(chain) / sizeof(chain[0]));
    tcase_add_loop_test(words, test_nested, 0, sizeof(nested) / sizeof(nested[0]));
    suite_add_tcase(suite, words);
    return suite_run(suite);
}
