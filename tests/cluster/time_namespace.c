/*
 * A process connects from a time namespace whose CLOCK_BOOTTIME differs from the agent's. The agent
 * refuses the process whether its clock is ahead or behind, and however small the difference is.
 * The agent reports the reason and the difference to the process. The test needs root.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "holdfast/holdfast.h"
#include "require.h"

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static struct agent_process agent;

/* Puts the next child into a time namespace whose clock differs by apart_ns. Returns false if this
 * machine does not allow that. */
static bool go_apart(int64_t apart_ns)
{
    char text[64];
    int64_t seconds = apart_ns / (1000 * MS) - (apart_ns % (1000 * MS) < 0);
    int size = snprintf(text, sizeof(text), "boottime %lld %lld\n", (long long)seconds,
                        (long long)(apart_ns - seconds * 1000 * MS));
    if (unshare(CLONE_NEWTIME) != 0) {
        return false;
    }
    int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
    bool set = fd >= 0 && write(fd, text, (size_t)size) == size;
    close(fd);
    return set;
}

/* Connects from the time namespace, which must fail. It may succeed only if the greeting took
 * longer than the difference of the clocks. */
static void be_refused(int64_t apart_ns)
{
    char why[160] = "";
    char expected[64];
    int64_t far_ns = apart_ns < 0 ? -apart_ns : apart_ns;
    struct hf_options options = {
        .size = sizeof(options), .socket = agent.socket, .why = why, .why_size = sizeof(why)};
    hf_client *client;
    int error = 0;
    for (int64_t end_ns = boottime_now() + GUARD_MS * MS; error == 0 && boottime_now() < end_ns;) {
        int64_t before_ns = boottime_now();
        error = hf_connect(&options, &client);
        if (error == 0) {
            int64_t took_ns = boottime_now() - before_ns;
            hf_disconnect(client);
            REQUIRE(took_ns >= far_ns, "let in after %lld ns", (long long)took_ns);
        }
    }
    snprintf(expected, sizeof(expected), "CLOCK_BOOTTIME is %s by ",
             apart_ns < 0 ? "behind" : "ahead");
    char *said = strstr(why, expected);
    REQUIRE(error == HF_EPROTO && said != NULL, "error %d: %s", error, why);
    /* The error reports at most the true difference. */
    double said_s = atof(said + strlen(expected));
    REQUIRE(said_s > 0 && said_s <= (double)far_ns / 1e9 + 1e-6, "%s", why);
}

static void in_namespace(int64_t apart_ns, void (*run)(int64_t apart_ns))
{
    pid_t pid = fork_tied();
    if (pid == 0) {
        if (!go_apart(apart_ns)) {
            fprintf(stderr, "time namespaces cannot be had here: %s\n", strerror(errno));
            _exit(77);
        }
        pid_t inner = fork_tied();
        if (inner == 0) {
            run(apart_ns);
            _exit(0);
        }
        int status = wait_for(inner);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
    }
    int status = wait_for(pid);
    ck_assert(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        ck_assert_msg(geteuid() != 0 || access("/proc/self/timens_offsets", F_OK) != 0,
                      "root cannot make a time namespace");
        return;
    }
    ck_assert_int_eq(WEXITSTATUS(status), 0);
}

static void be_let_in(int64_t apart_ns)
{
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    hf_client *client;
    (void)apart_ns;
    REQUIRE(hf_connect(&options, &client) == 0, "a namespace that is not apart is refused");
    hf_disconnect(client);
}

START_TEST(a_process_of_another_time_is_refused)
{
    static const int64_t apart_ns[] = {4000 * MS, -4000 * MS, 500 * MS,
                                       -500 * MS, 20 * MS,    -20 * MS};
    agent_create(&agent, NULL);
    agent_start(&agent);
    for (size_t i = 0; i < sizeof(apart_ns) / sizeof(apart_ns[0]); i++) {
        in_namespace(apart_ns[i], be_refused);
    }
    in_namespace(0, be_let_in);
    agent_destroy(&agent);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("time_namespace");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_process_of_another_time_is_refused);
    return suite_main("time_namespace", tests);
}
