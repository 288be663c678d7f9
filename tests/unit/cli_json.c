/* A failure with --json: each command writes one object, whatever the failure, and its exit status
 * is the same as without --json. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "cli_run.h"

static struct ran ran;

static const struct {
    const char *fake;
    const char *line; /* without --json */
    const char *command;
    int status;
} failures[] = {
    {"connect=-9", "ls", "\"ls\"", 69},
    {"connect=-9", "show x", "\"show\"", 69},
    {"connect=-9", "watch", "\"watch\"", 69},
    {"connect=-9", "status", "\"status\"", 69},
    {"connect=-9", "check hf1/c/x/1/a.1.1/x", "\"check\"", 69},
    {"connect=-9", "break x", "\"break\"", 69},
    {"connect=-9", "member", "\"member\"", 69},
    {"connect=-9", "member add b tcp://10.0.0.2:7411", "\"member\"", 69},
    {"connect=-9", "member remove b", "\"member\"", 69},
    {"connect=-9", "member replace b c tcp://10.0.0.3:7411", "\"member\"", 69},
    {"connect=-9", "member move b tcp://10.0.0.3:7411", "\"member\"", 69},
    {"connect=-9", "member backup /nonexistent/copy", "\"member\"", 69},
    {"connect=-10", "ls", "\"ls\"", 77},
    {"", "ls a b", "\"ls\"", 64},
    {"", "ls --sort height", "\"ls\"", 64},
    {"", "ls --bogus", "\"ls\"", 64},
    {"", "show", "\"show\"", 64},
    {"", "watch a b", "\"watch\"", 64},
    {"", "top --delay 1", "\"top\"", 64},
    {"", "status x", "\"status\"", 64},
    {"", "doctor x", "\"doctor\"", 64},
    {"", "check", "\"check\"", 64},
    {"", "break", "\"break\"", 64},
    {"", "member rejoin", "\"member rejoin\"", 64},
    {"", "member backup /nonexistent/copy --wait 1s", "\"member\"", 64},
    {"", "setup --bogus", "\"setup\"", 64},
    {"", "nonsense", "null", 64},
};

#define ASKED                                                                                      \
    ",\"socket\":\"/run/holdfast/agent.sock\",\"socket_why\":\"the default\",\"cell\":\"dev\""

/* Expects that the text is one object in one line, of that command and exit status. If an agent was
 * asked, the object ends with that agent. */
static void expect_object(const char *text, const char *command, int status)
{
    char begin[96];
    char end[160];
    size_t size = strlen(text);

    snprintf(begin, sizeof begin, "{\"event\":\"failed\",\"command\":%s,\"error\":\"", command);
    snprintf(end, sizeof end, "\",\"status\":%d%s}\n", status,
             strstr(text, ",\"socket\":") == NULL ? "" : ASKED);
    ck_assert_msg(strncmp(text, begin, strlen(begin)) == 0, "expected %s, found %s", begin, text);
    ck_assert_msg(size > strlen(end) && strcmp(text + size - strlen(end), end) == 0,
                  "expected %s, found %s", end, text);
    ck_assert_uint_eq(run_count_lines(text), 1);
}

START_TEST(a_failure_is_an_object)
{
    char line[256];

    snprintf(line, sizeof line, "%s --json", failures[_i].line);
    run_command(failures[_i].fake, line, &ran);
    ck_assert_int_eq(ran.status, failures[_i].status);
    expect_object(ran.out, failures[_i].command, failures[_i].status);
    ck_assert_str_eq(ran.err, "");
    snprintf(line, sizeof line, "--json %s", failures[_i].line);
    run_command(failures[_i].fake, line, &ran);
    ck_assert_int_eq(ran.status, failures[_i].status);
    expect_object(ran.out, failures[_i].command, failures[_i].status);
}
END_TEST

START_TEST(without_json_it_is_a_line)
{
    run_command(failures[_i].fake, failures[_i].line, &ran);
    ck_assert_int_eq(ran.status, failures[_i].status);
    ck_assert_msg(strncmp(ran.err, "holdfast", 8) == 0, "%s", ran.err);
    ck_assert_ptr_null(strstr(ran.err, "{\""));
    ck_assert_ptr_null(strstr(ran.out, "{\""));
}
END_TEST

/* stdout belongs to CMD, so the object goes to stderr. The arguments of CMD are no options of
 * holdfast. */
START_TEST(lock_writes_it_to_stderr)
{
    run_command("open=-13", "lock --json x -- true", &ran);
    ck_assert_int_eq(ran.status, 70);
    ck_assert_str_eq(ran.out, "");
    expect_object(ran.err, "\"lock\"", 70);
    run_command("", "lock --json x x -- true", &ran);
    ck_assert_int_eq(ran.status, 64);
    expect_object(ran.err, "\"lock\"", 64);
    run_command("", "--json lock --bogus x -- true", &ran);
    ck_assert_int_eq(ran.status, 64);
    expect_object(ran.err, "\"lock\"", 64);
    run_command("", "lock --json x -- /nonexistent", &ran);
    ck_assert_int_eq(ran.status, 127);
    expect_object(ran.err, "\"lock\"", 127);
    run_command("", "lock --json x -- /etc/passwd", &ran);
    ck_assert_int_eq(ran.status, 126);
    expect_object(ran.err, "\"lock\"", 126);
    run_command("open=-13", "lock x echo --json", &ran);
    ck_assert_ptr_null(strstr(ran.err, "{\""));
    run_command("open=-13", "lock x -- echo --json", &ran);
    ck_assert_ptr_null(strstr(ran.err, "{\""));
}
END_TEST

/* Here the process that would have had CMD as its child executes CMD itself. */
START_TEST(a_nested_lock_writes_it_to_stderr)
{
    setenv("HOLDFAST_LOCK", "x", 1);
    setenv("HOLDFAST_TOKEN", "1", 1);
    setenv("HOLDFAST_SEQUENCER", "s", 1);
    run_command("", "lock --json --nested x -- /nonexistent", &ran);
    ck_assert_int_eq(ran.status, 127);
    expect_object(ran.err, "\"lock\"", 127);
    run_command("", "lock --json x -- true", &ran);
    ck_assert_int_eq(ran.status, 64);
    expect_object(ran.err, "\"lock\"", 64);
}
END_TEST

/* These two commands write their usual objects, in which a silent agent is one of the findings. */
START_TEST(top_and_doctor_say_it_in_their_object)
{
    run_command("connect=-9", "top --json -n 1", &ran);
    ck_assert_int_eq(ran.status, 69);
    ck_assert_uint_eq(run_count_lines(ran.out), 1);
    ck_assert_ptr_nonnull(strstr(ran.out, "\"error\":\""));
    ck_assert_str_eq(ran.err, "");
    run_command("connect=-9", "doctor --json", &ran);
    ck_assert_int_eq(ran.status, 69);
    ck_assert_ptr_nonnull(strstr(ran.out, "\"findings\":["));
    ck_assert_str_eq(ran.err, "");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("json");
    int count = (int)(sizeof failures / sizeof failures[0]);

    tcase_set_timeout(tests, 60);
    tcase_add_loop_test(tests, a_failure_is_an_object, 0, count);
    tcase_add_loop_test(tests, without_json_it_is_a_line, 0, count);
    tcase_add_test(tests, lock_writes_it_to_stderr);
    tcase_add_test(tests, a_nested_lock_writes_it_to_stderr);
    tcase_add_test(tests, top_and_doctor_say_it_in_their_object);
    return suite_main("cli_json", tests);
}
