/*
 * The commands that only show something: their usage errors, help, output and exit status.
 */
#include <check.h>
#include <pty.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "cli_run.h"

static const struct {
    const char *line;
    const char *error; /* a part of the single line on stderr */
} bad_lines[] = {
    {"", "expected lock"},
    {"nope", "unknown command"},
    {"--nope ls", "--nope"},
    {"ls a b", "expected at most one PREFIX"},
    {"ls --sort size", "\"size\" is not a key: expected name, holder, host, since or waiters"},
    {"ls --held --all", "expected only one of them"},
    {"show", "expected one NAME"},
    {"show a\x01", "lock name \"a?\": byte 2 (0x01) is a control character, expected"},
    {"show a\xc3\xbc\xc2\x85z", "byte 4 (0xC2 0x85) is a control character"},
    {"ls abc\xff", "byte 4 (0xFF) is no UTF-8"},
    {"lock ok a\xe2\x82 -- true", "lock name \"a??\": byte 2 (0xE2) is no UTF-8"},
    {"check", "expected one SEQUENCER"},
    {"break", "expected one NAME"},
    {"status x", "expected no argument"},
    {"watch a b", "expected at most one PREFIX"},
    {"ls --socket", "expected a value"},
    {"lock a", "--"},
    {"lock -- true", "NAME"},
    {"lock a --", "CMD"},
    {"lock a b a -- true", "twice"},
    {"lock --wait 1s --no-wait a -- true", "--no-wait"},
    {"lock --wait 5 a -- true", "expected a decimal integer"},
    {"lock --wait 99999999999h a -- true",
     "--wait: \"99999999999h\" is too large a duration: expected at most 2562047h"},
    {"lock --wait=99999999999999999999999s a -- true", "expected at most 9223372036s"},
    {"lock --wait 153722868m a -- true", "expected at most 153722867m"},
    {"lock --wait 9223372036855ms a -- true", "expected at most 9223372036854ms"},
    {"lock --wait 99999999999999999999999x a -- true", "expected a decimal integer"},
    {"lock --lease 0s a -- true", "--lease"},
    {"lock --max-stall 0s a -- true", "--max-stall"},
    {"lock --lock-delay 61s a -- true", "at most 60s"},
    {"lock -E 256 a -- true", "0 to 255"},
    {"lock --bogus a -- true", "--bogus"},
};

START_TEST(test_usage)
{
    struct ran ran;

    run_command("", bad_lines[_i].line, &ran);
    ck_assert_int_eq(ran.status, 64);
    ck_assert_str_eq(ran.out, "");
    ck_assert_str_eq(ran.log, ""); /* the command did not call the library */
    ck_assert_ptr_nonnull(strstr(ran.err, bad_lines[_i].error));
    ck_assert_ptr_eq(strchr(ran.err, '\n'), ran.err + strlen(ran.err) - 1);
    ck_assert_int_eq(strncmp(ran.err, "holdfast", 8), 0);
}
END_TEST

static const char *const helps[] = {"--help",        "lock --help",  "ls --help",
                                    "show --help",   "watch --help", "check --help",
                                    "status -h",     "break --help", "top --help",
                                    "doctor --help", "--help lock",  "lock --wait 1s --help"};

START_TEST(test_help)
{
    struct ran ran;

    run_command("", helps[_i], &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.err, "");
    ck_assert_ptr_nonnull(strstr(ran.out, "Exit status"));
    ck_assert_ptr_nonnull(strstr(ran.out, "xample") == NULL ? strstr(ran.out, "Try it") : ran.out);
}
END_TEST

START_TEST(test_version)
{
    struct ran ran;

    run_command("", "--version", &ran);
    ck_assert_str_eq(ran.out, "holdfast 9.8.7\n");
    run_command("", "--json --version", &ran);
    ck_assert_str_eq(ran.out, "{\"version\":\"9.8.7\"}\n");
    run_command("", "lock -V a true", &ran);
    ck_assert_str_eq(ran.out, "holdfast 9.8.7\n");
    ck_assert_str_eq(ran.log, "");
    run_command("", "ls --version", &ran);
    ck_assert_str_eq(ran.out, "holdfast 9.8.7\n");
}
END_TEST

static const char lock_a[] =
    "{\"name\":\"a\",\"mode\":\"exclusive\",\"holders\":[{\"agent\":\"dev\",\"pid\":4242,"
    "\"uid\":0,\"command\":\"job \\\"x\\\"\\u000a\\u001b[31m\xef\xbf\xbd end\",\"note\":null,"
    "\"token\":18446744073709551615,\"held_ms\":1234,\"remaining_ms\":4}],\"waiters\":["
    "{\"agent\":\"dev\",\"pid\":77,\"mode\":\"shared\",\"waited_ms\":2000},"
    "{\"agent\":null,\"pid\":null,\"mode\":\"exclusive\",\"waited_ms\":null}],"
    "\"closed_ms\":0,\"coordinator\":\"dev\",\"age_ms\":0,\"behind\":null}";
static const char lock_free[] =
    "{\"name\":\"free/\xc3\xbc\",\"mode\":\"free\",\"holders\":[],\"waiters\":[],"
    "\"closed_ms\":1,\"coordinator\":null,\"age_ms\":null,\"behind\":null}";
static const char lock_many[] =
    "{\"name\":\"many\",\"mode\":\"shared\",\"holders\":[{\"agent\":\"dev\",\"pid\":1,\"uid\":0,"
    "\"command\":\"r1\",\"note\":null,\"token\":7,\"held_ms\":0,\"remaining_ms\":0},"
    "{\"agent\":null,\"pid\":null,\"uid\":null,\"command\":null,\"note\":null,"
    "\"token\":7,\"held_ms\":null,"
    "\"remaining_ms\":null}],\"waiters\":[],\"closed_ms\":2500,\"coordinator\":\"dev\","
    "\"age_ms\":3,\"behind\":null}";

START_TEST(test_ls)
{
    char expected[4096];
    struct ran ran;

    snprintf(expected, sizeof(expected), "[%s,%s,%s]\n", lock_a, lock_free, lock_many);
    run_command("", "ls --json -s /x pre", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, expected);
    ck_assert_str_eq(ran.log, "connect /x\nlist pre\ndisconnect\n");
    run_command("empty", "--json ls", &ran);
    ck_assert_str_eq(ran.out, "[]\n");
    run_command("list=-10", "--json ls", &ran);
    ck_assert_int_eq(ran.status, 77);
    ck_assert_str_eq(ran.out,
                     "{\"event\":\"failed\",\"command\":\"ls\",\"error\":\"fake "
                     "failure\\u001b with its value\",\"status\":77,"
                     "\"socket\":\"/run/holdfast/agent.sock\",\"socket_why\":\"the default\","
                     "\"cell\":\"dev\"}\n");
    run_command("", "ls", &ran);
    char since[2][64];
    ck_assert_int_eq(sscanf(ran.out,
                            "%*[^\n]\na exclusive root: job \"x\"??[31m? end dev %63s 2\n"
                            "%*[^\n]\nmany shared, closed 2.5 s 2 holders several %63s",
                            since[0], since[1]),
                     2);
    snprintf(expected, sizeof(expected),
             "NAME    MODE                  HOLDER                    HOST     SINCE     WAITERS\n"
             "a       exclusive             root: job \"x\"??[31m? end  dev      %s  2\n"
             "free/\xc3\xbc  closed <1 ms          -                         -        -         0\n"
             "many    shared, closed 2.5 s  2 holders                 several  %s  0\n",
             since[0], since[1]);
    /* both holds began today, unless the day began a moment ago */
    if (strlen(since[0]) == strlen("13:05:59") && strlen(since[1]) == strlen("13:05:59")) {
        ck_assert_str_eq(ran.out, expected);
    }
    run_command("empty", "ls", &ran);
    ck_assert_str_eq(ran.out, "");
}
END_TEST

/* A note stands wherever the holder's command stands. */
START_TEST(test_notes)
{
    struct ran ran;

    run_command("noted,behind=1", "ls", &ran);
    ck_assert_msg(strstr(ran.out, " root: job, note \"trial ? 7\" ") != NULL, "%s", ran.out);
    ck_assert_msg(strstr(ran.out, " (root: job ? x, note \"trial 8\") ") != NULL, "%s", ran.out);
    run_command("noted", "show a", &ran);
    ck_assert_msg(strstr(ran.out, "\n  command    job\n  note       trial ? 7\n  held ") != NULL,
                  "%s", ran.out);
    run_command("noted", "show --json a", &ran);
    ck_assert_msg(strstr(ran.out, "\"command\":\"job\",\"note\":\"trial \\u001b 7\",\"token\":9") !=
                      NULL,
                  "%s", ran.out);
    run_command("noted,behind=1", "show free/\xc3\xbc", &ran);
    ck_assert_msg(strstr(ran.out, "\n  note       trial 8\n  ended ") != NULL, "%s", ran.out);
    run_command("noted,behind=1", "show --json free/\xc3\xbc", &ran);
    ck_assert_msg(strstr(ran.out, "\"note\":\"trial 8\",\"reason\":\"process\"") != NULL, "%s",
                  ran.out);
    run_command("noted,ended=2", "break a", &ran);
    ck_assert_msg(strstr(ran.out, ": ./job --all, note \"trial 9\"\n") != NULL, "%s", ran.out);
    run_command("noted,ended=2", "break --json a", &ran);
    ck_assert_msg(strstr(ran.out, "\"note\":\"trial 9\"") != NULL, "%s", ran.out);
    run_command("noted,changes=1,stuck=9", "top --once", &ran);
    ck_assert_msg(strstr(ran.out, "root: job, note \"trial ? 7\"") != NULL, "%s", ran.out);
    run_command("noted", "top --json --once", &ran);
    ck_assert_msg(strstr(ran.out, "\"note\":\"trial \\u001b 7\"") != NULL, "%s", ran.out);
}
END_TEST

/* The listing, `show` and JSON tell behind which hold a closed lock was closed. For a held lock the
 * listing shows the holder. */
START_TEST(test_behind)
{
    static const struct {
        const char *fake;
        const char *ls;
        const char *show;
        const char *json;
    } cases[] = {
        {"behind=1", "closed <1 ms          (root: job ? x) ",
         "behind       pid 999, user root, agent host-c\n  command    job ? x\n"
         "  ended      1.7 s ago: its process ended\n",
         "\"reason\":\"process\",\"by_agent\":null,\"by_uid\":null,\"since_ms\":1700}"},
        {"behind=2", "(root: job ? x) ",
         "  ended      1.7 s ago: broken by user 4294967294, agent b\n",
         "\"reason\":\"broken\",\"by_agent\":\"b\",\"by_uid\":4294967294,\"since_ms\":1700}"},
        {"behind=3", "(host-c) ", "  ended      1.7 s ago: its lease was over\n",
         "\"reason\":\"lease_over\",\"by_agent\":null,\"by_uid\":null,\"since_ms\":1700}"},
        {"behind=4", "(host-c) ", "  ended      1.7 s ago: it reported no progress\n",
         "\"reason\":\"stalled\",\"by_agent\":null,\"by_uid\":null,\"since_ms\":1700}"},
        {"behind=5", "(host-c) ", "  ended      1.7 s ago: the session of its host ended\n",
         "\"reason\":\"session_lost\",\"by_agent\":null,\"by_uid\":null,\"since_ms\":1700}"},
        {"behind=99", "(host-c) ", "  ended      1.7 s ago: ?\n",
         "\"reason\":null,\"by_agent\":null,\"by_uid\":null,\"since_ms\":1700}"},
        {"behind=100", "closed <1 ms          -                         (host-c) ",
         "behind       pid ?, agent host-c\n  ended      ?\n",
         "{\"agent\":\"host-c\",\"pid\":null,\"uid\":null,\"command\":null,\"note\":null,"
         "\"reason\":null,\"by_agent\":null,\"by_uid\":null,\"since_ms\":null}"},
    };
    struct ran ran;

    run_command(cases[_i].fake, "ls", &ran);
    ck_assert_msg(strstr(ran.out, cases[_i].ls) != NULL, "%s", ran.out);
    ck_assert_msg(strstr(ran.out, "many    shared, closed 2.5 s  2 holders") != NULL, "%s",
                  ran.out);
    run_command(cases[_i].fake, "show free/\xc3\xbc", &ran);
    ck_assert_msg(strstr(ran.out, cases[_i].show) != NULL, "%s", ran.out);
    run_command(cases[_i].fake, "show --json free/\xc3\xbc", &ran);
    ck_assert_msg(strstr(ran.out, cases[_i].json) != NULL, "%s", ran.out);
    run_command(cases[_i].fake, "show a", &ran); /* the lock a is not closed */
    ck_assert_ptr_null(strstr(ran.out, "behind"));
}
END_TEST

/* A hold was broken, and no lock-delay followed. `show` and JSON say so. The listing, which has
 * room for one hold, does not: nothing is closed after that hold. */
START_TEST(test_broken)
{
    struct ran ran;

    run_command("broken", "show a", &ran);
    ck_assert_msg(strstr(ran.out, "\nearlier hold pid 999, user root, agent host-c\n"
                                  "  command    job\n  ended      1.7 s ago: broken by user "
                                  "4294967294, agent b\ncoordinator ") != NULL,
                  "%s", ran.out);
    run_command("broken", "show --json a", &ran);
    ck_assert_msg(strstr(ran.out, "\"closed_ms\":0,") != NULL &&
                      strstr(ran.out, "\"reason\":\"broken\",\"by_agent\":\"b\"") != NULL,
                  "%s", ran.out);
    run_command("broken,more", "ls --all", &ran);
    ck_assert_ptr_null(strstr(ran.out, "(root: job)"));
    ck_assert_ptr_null(strstr(ran.out, "host-c"));
}
END_TEST

/* Returns the first letter of each line after the line with the titles. */
static const char *first_letters(const char *text)
{
    static char letters[16];
    size_t count = 0;

    for (const char *line = strchr(text, '\n'); line != NULL && line[1] != '\0' && count < 15;
         line = strchr(line + 1, '\n')) {
        letters[count++] = line[1];
    }
    letters[count] = '\0';
    return letters;
}

/* By their first letters the locks are a, free, many, idle and orders. */
START_TEST(test_ls_choice_and_order)
{
    static const struct {
        const char *line;
        const char *letters;
    } cases[] = {
        {"ls", "afmo"},
        {"ls --all", "afmio"},
        {"ls -a --sort name", "afmio"},
        {"ls --held", "amo"},
        {"ls --sort waiters", "oafm"},
        {"ls --sort since", "oamf"},
        {"ls --sort host --all", "fiaom"},
        {"ls --held --sort=holder", "moa"},
    };
    struct ran ran;

    for (size_t index = 0; index < sizeof(cases) / sizeof(cases[0]); index++) {
        run_command("more", cases[index].line, &ran);
        ck_assert_int_eq(ran.status, 0);
        ck_assert_str_eq(first_letters(ran.out), cases[index].letters);
        ck_assert_str_eq(ran.err, ""); /* stdout is not a terminal */
    }
    run_command("more", "ls --json", &ran);
    ck_assert_ptr_nonnull(strstr(ran.out, "{\"name\":\"idle\",\"mode\":\"free\""));
    run_command("more", "ls --json --held --sort waiters", &ran);
    ck_assert_ptr_eq(strstr(ran.out, "[{\"name\":\"orders/"), ran.out);
    ck_assert_ptr_null(strstr(ran.out, "\"mode\":\"free\""));
}
END_TEST

/* Runs the command on a terminal of that many columns, and returns its output. */
static void run_on_terminal(unsigned short width, const char *words, char out[RUN_TEXT_SIZE])
{
    const struct winsize size = {.ws_row = 24, .ws_col = width};
    size_t used = 0;
    ssize_t got = 1;
    int status;
    int fd;
    pid_t pid = forkpty(&fd, NULL, NULL, &size);

    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        setenv("HOLDFAST", CLI_FAKE, 1);
        setenv("HOLDFAST_FAKE", "more", 1);
        execl("/bin/sh", "sh", "-c", words, (char *)NULL);
        _exit(99);
    }
    while (got > 0 && used < RUN_TEXT_SIZE - 1) { /* read() fails with EIO when the program has
                                                   * ended */
        got = read(fd, out + used, RUN_TEXT_SIZE - 1 - used);
        used += got > 0 ? (size_t)got : 0;
    }
    out[used] = '\0';
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    close(fd);
}

START_TEST(test_ls_fits_into_a_terminal)
{
    char out[RUN_TEXT_SIZE];
    size_t columns = 0;

    run_on_terminal(90, "exec $HOLDFAST ls --held", out);
    ck_assert_ptr_nonnull(strstr(out, "orders/of-\xc3\xbc\xe2\x80\xa6  exclusive"));
    ck_assert_ptr_nonnull(strstr(out, "  4294967294:\xe2\x80\xa6  host-with-a-\xe2\x80\xa6  1"));
    for (const char *at = out; *at != '\0'; at++) {
        columns = *at == '\n' ? 0 : columns + ((*at & 0xc0) != 0x80 && *at != '\r');
        ck_assert_uint_le(columns, 90);
    }
    run_on_terminal(200, "exec $HOLDFAST ls", out);
    ck_assert_ptr_null(strstr(out, "\xe2\x80\xa6"));
    ck_assert_ptr_nonnull(strstr(out, "not shown: free locks (1); --all shows them"));
    run_on_terminal(90, "$HOLDFAST ls --all | cat", out);
    ck_assert_ptr_nonnull(
        strstr(out, "a whole year of orders and returns  host-with-a-long-name "));
    ck_assert_ptr_null(strstr(out, "not shown"));
}
END_TEST

START_TEST(test_show)
{
    struct ran ran;

    run_command("", "show a --json", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_int_eq(strncmp(ran.out, lock_a, sizeof(lock_a) - 1), 0);
    ck_assert_str_eq(ran.out + sizeof(lock_a) - 1, "\n");
    run_command("", "show a", &ran);
    ck_assert_ptr_nonnull(strstr(ran.out, "pid 4242, user root, agent dev\n"));
    ck_assert_ptr_nonnull(strstr(ran.out, "token      18446744073709551615\n"));
    ck_assert_ptr_nonnull(strstr(ran.out, "lease left 4 ms\n"));
    ck_assert_ptr_nonnull(strstr(ran.out, "since 20"));
    ck_assert(strstr(ran.out, "waiter 1 ") < strstr(ran.out, "waiter 2 "));
    ck_assert_ptr_null(strchr(ran.out, '\x1b'));
    run_command("", "show many", &ran); /* the lock was closed by a loss or by a break */
    ck_assert_ptr_nonnull(strstr(ran.out, "closed       for 2.5 s more (lock-delay)\n"));
    run_command("", "show -- -other", &ran);
    ck_assert_int_eq(ran.status, 77);
    ck_assert_ptr_nonnull(strstr(ran.log, "show -other\n"));
    run_command("connect=-9", "show a", &ran);
    ck_assert_int_eq(ran.status, 69);
}
END_TEST

/* If no agent answers, the error names the socket and says where the path comes from. */
START_TEST(test_names_the_place)
{
    const char *folder = suite_folder();
    struct ran ran;
    char path[128];
    char line[1024];
    const char *first_step =
        access("/etc/holdfast/holdfastd.ini", F_OK) == 0
            ? "start it (systemctl start holdfastd)"
            : "this host has no /etc/holdfast/holdfastd.ini: write it (holdfast setup), or start "
              "an agent without it (holdfastd --dev, or holdfastd --config FILE)";

    setenv("HOLDFAST_SOCKET", "/nowhere/own.sock", 1);
    for (size_t index = 0; index < 4; index++) {
        static const char *const lines[] = {"status", "ls", "show a", "lock a -- true"};

        run_command("connect=-9", lines[index], &ran);
        ck_assert_int_eq(ran.status, 69);
        ck_assert_msg(strstr(ran.err,
                             ": /nowhere/own.sock (from HOLDFAST_SOCKET): fake error -9; `ss -xlp "
                             "src /nowhere/own.sock`, as root, shows which process listens there, "
                             "if any; start the agent that has this path as `socket` in its "
                             "configuration, or the socket's folder as --state-dir (holdfastd "
                             "--dev), or ask `holdfast doctor` "
                             "why\n") != NULL,
                      "%s", ran.err);
    }
    run_command("connect=-10", "status", &ran);
    ck_assert_ptr_nonnull(strstr(ran.err, " (from HOLDFAST_SOCKET): fake error -10; name this user "
                                          "in `users` of that configuration, or ask `holdfast "
                                          "doctor` why\n"));
    run_command("connect=-9", "status -s /nowhere/given.sock", &ran);
    ck_assert_ptr_nonnull(strstr(ran.err, ": /nowhere/given.sock (from --socket): fake error -9; "
                                          "`ss -xlp src /nowhere/given.sock`"));
    ck_assert_ptr_nonnull(
        strstr(ran.err, ", or ask `holdfast doctor --socket /nowhere/given.sock` why\n"));
    /* The service's configuration has nothing to do with a socket that the user named. */
    ck_assert_ptr_null(strstr(ran.err, "/etc/holdfast"));
    ck_assert_ptr_null(strstr(ran.err, "systemctl"));
    run_command("connect=-9", "status -s /run/holdfast/agent.sock", &ran);
    snprintf(line, sizeof(line),
             ": /run/holdfast/agent.sock (from --socket): fake error -9; %s, or ask `holdfast "
             "doctor --socket /run/holdfast/agent.sock` why\n",
             first_step);
    ck_assert_msg(strstr(ran.err, line) != NULL, "%s", ran.err);
    setenv("HOLDFAST_SOCKET", "", 1);
    setenv("XDG_RUNTIME_DIR", folder, 1);
    snprintf(path, sizeof(path), "%s/holdfast", folder);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/holdfast/agent.sock", folder);
    ck_assert_int_eq(mknod(path, S_IFREG | 0600, 0), 0);
    run_command("connect=-9", "status", &ran);
    if (access("/run/holdfast/agent.sock", F_OK) != 0) {
        snprintf(line, sizeof(line),
                 ": %s (by XDG_RUNTIME_DIR, as there is no /run/holdfast/agent.sock): ", path);
        ck_assert_ptr_nonnull(strstr(ran.err, line));
    }
    ck_assert_int_eq(unlink(path), 0);
    run_command("connect=-9", "status", &ran);
    ck_assert_ptr_nonnull(
        strstr(ran.err, access("/run/holdfast/agent.sock", F_OK) == 0
                            ? ": /run/holdfast/agent.sock (the default): "
                            : ": /run/holdfast/agent.sock (the default; there is no "
                              "holdfast/agent.sock below XDG_RUNTIME_DIR either): "));
    snprintf(line, sizeof(line), "): fake error -9; %s, or ask `holdfast doctor` why\n",
             first_step);
    ck_assert_msg(strstr(ran.err, line) != NULL, "%s", ran.err);
    unsetenv("XDG_RUNTIME_DIR");
    run_command("connect=-9", "status", &ran);
    ck_assert_ptr_nonnull(strstr(ran.err, ": /run/holdfast/agent.sock (the default): "));
}
END_TEST

/* A socket's path has at most 107 bytes. The command tries to connect to a path of 107 bytes, and
 * reports a longer path as too long. */
START_TEST(test_socket_path_too_long)
{
    struct ran ran;
    char path[120] = "/nowhere/";
    char line[256];

    memset(path + strlen(path), 'x', 107 - strlen(path));
    setenv("HOLDFAST_SOCKET", path, 1);
    run_command("", "status", &ran);
    ck_assert_int_eq(ran.status, 0);
    path[107] = 'x';
    setenv("HOLDFAST_SOCKET", path, 1);
    run_command("", "status", &ran);
    ck_assert_int_eq(ran.status, 64);
    ck_assert_str_eq(ran.log, "");
    ck_assert_ptr_nonnull(strstr(ran.err, "from HOLDFAST_SOCKET has 108 bytes, "
                                          "expected at most 107"));
    snprintf(line, sizeof(line), "lock -s %s a -- true", path);
    run_command("", line, &ran);
    ck_assert_int_eq(ran.status, 64);
    ck_assert_ptr_nonnull(strstr(ran.err, "from --socket has 108 bytes, expected at most 107"));
    run_command("connect=-11", "doctor", &ran);
    ck_assert_int_eq(ran.status, 69);
    ck_assert_ptr_nonnull(strstr(ran.out, "error  agent        the socket's path from "
                                          "HOLDFAST_SOCKET has 108 bytes: /nowhere/x"));
    ck_assert_ptr_nonnull(strstr(ran.out, "  expected   at most 107 bytes"));
}
END_TEST

/* `member list` prints what `member` prints. */
START_TEST(test_member)
{
    static const char *const lines[] = {"member", "member list"};
    char line[64];
    struct ran ran;

    run_command("", lines[_i], &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "dev up\nb refused at tcp://10.0.0.2:7411\n");
    snprintf(line, sizeof(line), "%s --json", lines[_i]);
    run_command("", line, &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "[{\"name\":\"dev\",\"address\":null,\"state\":\"up\"},"
                              "{\"name\":\"b\",\"address\":\"tcp://10.0.0.2:7411\","
                              "\"state\":\"refused\"}]\n");
    snprintf(line, sizeof(line), "%s --yes", lines[_i]);
    run_command("", line, &ran);
    ck_assert_int_eq(ran.status, 64);
    ck_assert_ptr_nonnull(strstr(ran.err, "expected them after rejoin"));
    run_command("", "member lists", &ran);
    ck_assert_int_eq(ran.status, 64);
    ck_assert_ptr_nonnull(strstr(ran.err, "found \"lists\", expected list, add, "));
    run_command("", "member list rejoin", &ran);
    ck_assert_int_eq(ran.status, 64);
}
END_TEST

START_TEST(test_status)
{
    struct ran ran;

    run_command("", "status --json", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(
        ran.out,
        "{\"agent\":\"dev\",\"cell\":\"dev\",\"role\":\"voter\",\"version\":\"9.8.7\","
        "\"session\":{\"state\":\"safe\",\"epoch\":3,\"remaining_ms\":4200},\"voters\":["
        "{\"name\":\"dev\",\"address\":null,\"state\":\"up\"},{\"name\":\"b\",\"address\":"
        "\"tcp://10.0.0.2:7411\",\"state\":\"refused\"}],\"clients\":1,\"locks_held\":2,"
        "\"waiters\":3,\"socket\":\"/run/holdfast/agent.sock\",\"socket_why\":\"the default\","
        "\"judgement\":\"well\",\"reasons\":[],\"observers\":["
        "{\"name\":\"obs-1\",\"address\":\"tcp://10.0.0.9:7411\",\"state\":\"up\"},"
        "{\"name\":\"obs-2\",\"address\":null,\"state\":\"down\"}],\"observer_count\":3}\n");
    run_command("", "status", &ran);
    ck_assert_ptr_nonnull(strstr(ran.out, "\nvoter    b refused at tcp://10.0.0.2:7411\n"
                                          "observer obs-1 up at tcp://10.0.0.9:7411\n"
                                          "observer obs-2 down\n"
                                          "observer and 1 more\nclients "));
    run_command("judgement=1,judgement.text=degraded,b.reason_voter_refused=1", "status", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_ptr_nonnull(strstr(ran.out, "\nstate    degraded\n"
                                          "reason   voter_refused b: it is refused, the agent "
                                          "says\n"));
    run_command("judgement=2,judgement.text=failing,reason_session_lost=2", "status --json", &ran);
    ck_assert_ptr_nonnull(
        strstr(ran.out,
               "\"judgement\":\"failing\",\"reasons\":[{\"name\":\"session_lost\",\"subject\":null,"
               "\"level\":\"failing\",\"text\":\"the session is lost\"}],"));
    run_command("facts=-15", "status --json", &ran); /* the agent is older than this command */
    ck_assert_int_eq(ran.status, 0);
    ck_assert_ptr_nonnull(strstr(ran.out, "\"judgement\":null,\"reasons\":[],"
                                          "\"observers\":null,\"observer_count\":null}"));
    run_command("session=1", "status", &ran);
    ck_assert_int_eq(ran.status, 75);
    ck_assert_ptr_nonnull(strstr(ran.out, "jeopardy"));
    run_command("session=1,reason_session_none=2", "status", &ran); /* the status page and the
                                                                     * metrics show the same
                                                                     * state */
    ck_assert_msg(strstr(ran.out, "\nsession  none, epoch ") != NULL, "%s", ran.out);
    run_command("session=1,reason_session_none=2", "status --json", &ran);
    ck_assert_msg(strstr(ran.out, "\"session\":{\"state\":\"none\"") != NULL, "%s", ran.out);
    run_command("session=1,reason_session_none=2", "top --json -n 1", &ran);
    ck_assert_msg(strstr(ran.out, "\"session\":{\"state\":\"none\"") != NULL, "%s", ran.out);
    run_command("session=1,reason_session_none=2", "top --once", &ran);
    ck_assert_msg(strstr(ran.out, "\nsession   none, epoch ") != NULL, "%s", ran.out);
    run_command("session=2", "status --json", &ran);
    ck_assert_int_eq(ran.status, 75);
    ck_assert_ptr_nonnull(strstr(ran.out, "\"lost\""));
    run_command("connect=-9", "status", &ran);
    ck_assert_int_eq(ran.status, 69);
    ck_assert_str_eq(ran.out, "");
}
END_TEST

START_TEST(test_check)
{
    struct ran ran;

    run_command("", "check dev:a:1", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_str_eq(ran.out, "held\n");
    run_command("check=-17", "check dev:a:1 --json", &ran);
    ck_assert_int_eq(ran.status, 1);
    ck_assert_str_eq(ran.out, "{\"sequencer\":\"dev:a:1\",\"state\":\"stale\"}\n");
    run_command("check=-18", "check x", &ran);
    ck_assert_int_eq(ran.status, 75);
    run_command("check=-11", "check x", &ran);
    ck_assert_int_eq(ran.status, 64);
    run_command("check=-9", "check x", &ran);
    ck_assert_int_eq(ran.status, 69);
}
END_TEST

START_TEST(test_break)
{
    struct ran ran;

    run_command("", "break a", &ran);
    ck_assert_int_eq(ran.status, 0);
    ck_assert_ptr_nonnull(strstr(ran.log, "break a 0\n"));
    ck_assert_str_eq(ran.out, "ended        nothing: nobody held the lock\n"
                              "open         no lock-delay is left\n");
    run_command("", "break --now a --json", &ran);
    ck_assert_str_eq(ran.out, "{\"name\":\"a\",\"now\":true,\"done\":true,\"ended\":[],\"more\":0,"
                              "\"closed_ms\":0,\"silent\":[]}\n");
    ck_assert_ptr_nonnull(strstr(ran.log, "break a 1\n"));
    run_command("break=-10", "break a", &ran);
    ck_assert_int_eq(ran.status, 77);
    ck_assert_str_eq(ran.out, "");
    run_command("break=-13", "break a", &ran);
    ck_assert_int_eq(ran.status, 70);
    run_command("", "break --help", &ran);
    ck_assert_ptr_nonnull(strstr(ran.out, "; 75 not every\nhost that may"));
}
END_TEST

START_TEST(test_break_reports)
{
    struct ran ran;

    run_command("ended=2,closed=4900000000", "break a", &ran);
    ck_assert_int_eq(ran.status, 0);
    static const char first[] = "ended        shared hold, pid 4242, user root, agent host-a, "
                                "token 17, since ";
    ck_assert_int_eq(strncmp(ran.out, first, sizeof(first) - 1), 0);
    ck_assert_ptr_nonnull(strstr(ran.out, " (12.3 s): ./job --all\n"));
    ck_assert_ptr_nonnull(strstr(ran.out, "ended        shared hold, pid ?, agent host-b, token "
                                          "17, since ?\n"
                                          "closed       for 4.9 s more (lock-delay)\n"));
    run_command("ended=2,ended_more=40,unanswered=2", "break --now a", &ran);
    ck_assert_ptr_nonnull(strstr(ran.out, "ended        and 40 more\n"
                                          "ended        not known, on host-c, host-d\n"
                                          "open         at once (--now)\n"));
    run_command("ended=1,closed=1,unanswered=1", "break --json a", &ran);
    ck_assert_str_eq(
        ran.out,
        "{\"name\":\"a\",\"now\":false,\"done\":true,\"ended\":[{\"mode\":\"shared\","
        "\"agent\":\"host-a\",\"pid\":4242,\"uid\":0,\"user\":\"root\",\"command\":"
        "\"./job --all\",\"note\":null,\"token\":17,\"held_ms\":12300}],\"more\":0,\"closed_ms\":1,"
        "\"silent\":[\"host-c\"]}\n");
}
END_TEST

START_TEST(test_break_in_doubt)
{
    struct ran ran;

    run_command("break=-2", "break a", &ran);
    ck_assert_int_eq(ran.status, 75);
    ck_assert_str_eq(ran.out, "");
    ck_assert_ptr_nonnull(strstr(ran.err, "holdfast break: a: no voter has said in time "));
    run_command("break=-2,ended=1,unanswered=2,closed=9", "break a", &ran);
    ck_assert_int_eq(ran.status, 75);
    ck_assert_ptr_nonnull(strstr(ran.out, "agent host-a"));
    ck_assert_ptr_null(strstr(ran.out, "closed"));
    ck_assert_str_eq(ran.err, "holdfast break: a: no answer in time from host-c, host-d: holds may "
                              "go on there; break the lock again\n");
    run_command("break=-2,unanswered=1", "break a --json", &ran);
    ck_assert_int_eq(ran.status, 75);
    ck_assert_ptr_nonnull(strstr(ran.out, "\"done\":false,\"ended\":[],"));
    ck_assert_ptr_nonnull(strstr(ran.out, "\"silent\":[\"host-c\"]}\n"));
}
END_TEST

/* A host had more holds than it can end at once. The holds that have ended are reported, and the
 * library's error message says what to do. With --json, stdout still has one object. */
START_TEST(test_break_in_part)
{
    struct ran ran;

    run_command("break=-13,ended=2,ended_more=40,closed=9", "break a", &ran);
    ck_assert_int_eq(ran.status, 70);
    ck_assert_ptr_nonnull(strstr(ran.out, "agent host-a"));
    ck_assert_ptr_nonnull(strstr(ran.out, "ended        and 40 more\n"));
    ck_assert_ptr_null(strstr(ran.out, "closed"));
    ck_assert_str_eq(ran.err, "holdfast break: fake failure? with its value\n");
    run_command("break=-13,ended=1,closed=9", "break a --json", &ran);
    ck_assert_int_eq(ran.status, 70);
    ck_assert_uint_eq(run_count_lines(ran.out), 1);
    ck_assert_ptr_nonnull(strstr(ran.out, "\"done\":false,\"ended\":[{"));
    ck_assert_str_eq(ran.err, "holdfast break: fake failure? with its value\n");
    run_command("break=-13", "break a", &ran);
    ck_assert_str_eq(ran.out, "");
}
END_TEST

/* How long a test waits to see that no more output comes. */
enum { MORE_MS = 100 };

START_TEST(test_watch)
{
    struct run run;
    struct ran ran;

    run_start(&run, "changes=5", "watch --json");
    /* the lines of the present state, and one line for five changes at once */
    run_await_lines(&run, 4);
    run_sleep_ms(MORE_MS);
    kill(run.pid, SIGINT);
    run_finish(&run, &ran);
    ck_assert_int_eq(ran.status, 1000 + SIGINT);
    ck_assert_uint_eq(run_count_lines(ran.out), 4);
    ck_assert(strstr(ran.log, "watch \n") < strstr(ran.log, "list \n"));
}
END_TEST

/* Returns whether the text has a time of that form, where 0 stands for a digit, at its start. */
static bool has_time(const char *text, const char *form)
{
    for (; *form != '\0'; text++, form++) {
        if (*form == '0' ? *text < '0' || *text > '9' : *text != *form) {
            return false;
        }
    }
    return true;
}

START_TEST(test_watch_times)
{
    struct run run;
    struct ran ran;

    run_start(&run, "", "watch");
    run_await_lines(&run, 3);
    kill(run.pid, SIGINT);
    run_finish(&run, &ran);
    for (const char *line = ran.out; *line != '\0'; line = strchr(line, '\n') + 1) {
        ck_assert(has_time(line, "0000-00-00 00:00:00.000 "));
    }
    ck_assert_ptr_nonnull(strstr(ran.out, " a: exclusive, held by pid 4242"));
    run_start(&run, "", "watch --json");
    run_await_lines(&run, 3);
    kill(run.pid, SIGINT);
    run_finish(&run, &ran);
    const char *time = strstr(ran.out, "\"behind\":null,\"time\":\"");
    ck_assert_ptr_nonnull(time);
    ck_assert(
        has_time(time + strlen("\"behind\":null,\"time\":\""), "0000-00-00T00:00:00.000Z\"}\n"));
}
END_TEST

/* A line about a closed lock says how the hold ended, as far as that is known. */
START_TEST(test_watch_behind)
{
    static const char *const cases[][2] = {
        {"behind=2",
         " behind pid 999, user root, agent host-c (broken by user 4294967294, agent b)\n"},
        {"behind=3", " behind pid 999, user root, agent host-c (its lease was over)\n"},
        {"behind=100", " behind pid ?, agent host-c\n"},
        {"broken", "; the hold of pid 999, user root, agent host-c, was broken by user 4294967294, "
                   "agent b\n"},
    };
    struct run run;
    struct ran ran;

    run_start(&run, cases[_i][0], "watch");
    run_await_lines(&run, 3);
    kill(run.pid, SIGINT);
    run_finish(&run, &ran);
    ck_assert_msg(strstr(ran.out, cases[_i][1]) != NULL, "%s", ran.out);
}
END_TEST

/* The last line already shows the state of the lock `many`, and the first one that of `a`. Only
 * durations have changed since, or the coordinator, which only an object has. */
START_TEST(test_watch_says_nothing_twice)
{
    static const struct {
        const char *fake;
        const char *line;
        const char *log;
        unsigned lines;
    } cases[] = {
        {"changes=1,changed=many", "watch", "show many\n", 3},
        {"changes=1,changed=many", "watch --json", "show many\n", 3},
        {"changes=1,changed=a", "watch", "show a\n", 3},
        {"changes=1,changed=a", "watch --json", "show a\n", 3},
        {"changes=1,changed=many,moved", "watch", "show many\n", 3},
        {"changes=1,changed=many,moved", "watch --json", "show many\n", 4},
        {"changes=1,changed=many,behind=2,later", "watch", "show many\n", 4},
        {"changes=1,changed=many,behind=2,later", "watch --json", "show many\n", 4},
    };
    struct run run;
    struct ran ran;

    run_start(&run, cases[_i].fake, cases[_i].line);
    run_await_log(&run, cases[_i].log);
    run_await_lines(&run, cases[_i].lines);
    run_sleep_ms(MORE_MS);
    kill(run.pid, SIGINT);
    run_finish(&run, &ran);
    ck_assert_uint_eq(run_count_lines(ran.out), cases[_i].lines);
}
END_TEST

/* A lock that looks free may be held by a host that has reported nothing for too long. */
START_TEST(test_unseen)
{
    struct run run;
    struct ran ran;

    run_command("unseen", "ls", &ran);
    ck_assert_msg(strstr(ran.out, "free/\xc3\xbc  free? ") != NULL, "%s", ran.out);
    run_command("unseen", "show free/\xc3\xbc", &ran);
    ck_assert_msg(strstr(ran.out, "\nmode         free?\n") != NULL, "%s", ran.out);
    run_start(&run, "unseen", "watch");
    run_await_lines(&run, 3);
    kill(run.pid, SIGINT);
    run_finish(&run, &ran);
    ck_assert_msg(strstr(ran.out, " free/\xc3\xbc: free?; another host may hold it, and has "
                                  "reported nothing for too long\n") != NULL,
                  "%s", ran.out);
}
END_TEST

START_TEST(test_watch_too_many_changes)
{
    struct run run;
    struct ran ran;

    run_start(&run, "changes=2,overflow", "watch --json");
    run_await_lines(&run, 4); /* only the lock that has changed, not the whole list */
    run_sleep_ms(MORE_MS);
    kill(run.pid, SIGINT);
    run_finish(&run, &ran);
    ck_assert_uint_eq(run_count_lines(ran.out), 4);
    ck_assert_ptr_nonnull(strstr(ran.log, "list \nlist \n")); /* an overflow names no lock */
    ck_assert_ptr_null(strstr(ran.log, "show"));
}
END_TEST

START_TEST(test_watch_outlives_agent)
{
    struct run run;
    struct ran ran;

    run_start(&run, "away=2", "watch");
    run_await_lines(&run, 3);
    run_sleep_ms(MORE_MS);
    kill(run.pid, SIGINT);
    run_finish(&run, &ran);
    ck_assert_uint_eq(run_count_lines(ran.out), 3);
    ck_assert_ptr_nonnull(strstr(ran.log, "list \nlist \nlist \n"));
}
END_TEST

START_TEST(test_watch_closed_output)
{
    run_until_closed("watch", 3);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cli_show");
    TCase *show = tcase_create("show");

    tcase_set_timeout(show, 60);
    tcase_add_loop_test(show, test_usage, 0, sizeof(bad_lines) / sizeof(bad_lines[0]));
    tcase_add_loop_test(show, test_help, 0, sizeof(helps) / sizeof(helps[0]));
    tcase_add_test(show, test_version);
    tcase_add_loop_test(show, test_behind, 0, 7);
    tcase_add_test(show, test_broken);
    tcase_add_test(show, test_ls);
    tcase_add_test(show, test_notes);
    tcase_add_test(show, test_ls_choice_and_order);
    tcase_add_test(show, test_ls_fits_into_a_terminal);
    tcase_add_test(show, test_show);
    tcase_add_test(show, test_names_the_place);
    tcase_add_test(show, test_socket_path_too_long);
    tcase_add_loop_test(show, test_member, 0, 2);
    tcase_add_test(show, test_status);
    tcase_add_test(show, test_check);
    tcase_add_test(show, test_break);
    tcase_add_test(show, test_break_reports);
    tcase_add_test(show, test_break_in_doubt);
    tcase_add_test(show, test_break_in_part);
    tcase_add_test(show, test_watch);
    tcase_add_test(show, test_watch_times);
    tcase_add_loop_test(show, test_watch_says_nothing_twice, 0, 8);
    tcase_add_test(show, test_unseen);
    tcase_add_test(show, test_watch_too_many_changes);
    tcase_add_test(show, test_watch_outlives_agent);
    tcase_add_test(show, test_watch_closed_output);
    tcase_add_loop_test(show, test_watch_behind, 0, 4);
    suite_add_tcase(suite, show);
    return suite_run(suite);
}
