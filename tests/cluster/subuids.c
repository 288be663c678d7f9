/*
 * A user and its range of subordinate uids are one user to the agent. All processes with these uids
 * together get at most half of the agent's clients. The test needs root, to become other users.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "holdfast/holdfast.h"
#include "require.h"

enum { NOBODY = 65534, FIRST = 100000, STRANGER = 200000, CLIENTS = 8, RANGE = 65536 };

static struct agent_process agent;
static pid_t connected[CLIENTS + 1];
static unsigned count;

/* Connects from a process of that user, and returns the result of hf_connect(). If that is 0, the
 * process stays connected. */
static int connect_as(uid_t uid)
{
    int result = -1;
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    pid_t pid = fork_tied();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
        hf_client *client;
        REQUIRE(setresgid(uid, uid, uid) == 0 && setresuid(uid, uid, uid) == 0, "cannot be it");
        result = hf_connect(&options, &client);
        REQUIRE(write(ends[1], &result, sizeof(result)) == sizeof(result), "write");
        for (;;) {
            pause();
        }
    }
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &result, sizeof(result)), sizeof(result));
    close(ends[0]);
    if (result != 0) {
        kill_process(pid);
    } else {
        ck_assert_uint_lt(count, CLIENTS + 1);
        connected[count++] = pid;
    }
    return result;
}

static void write_subuids(const char *text)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/subuid", agent.folder);
    FILE *out = fopen(path, "w");
    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    ck_assert_int_eq(fclose(out), 0);
}

START_TEST(subordinate_users_share_one_half)
{
    if (geteuid() != 0) {
        return;
    }
    agent_create(&agent, "[agent]\nname = host-a\ncell = subuids\nstate_dir = %D/state\n"
                         "socket = %D/agent.sock\n[voters]\nhost-a = tcp://127.0.0.1:7411\n"
                         "[limits]\nclients = 8\nsubuids = %D/subuid\n"
                         "[namespace.default]\n"
                         "users = nobody, 100000, 100001, 100002, 100003, 100004, 200000\n");
    agent_admit_all(&agent);
    write_subuids("nobody:100000:65536\nnonsense\n");
    agent_start(&agent);
    ck_assert_uint_eq(agent_logged(&agent, "event=subuids_wrong"), 1);
    for (uid_t i = 0; i < CLIENTS / 2; i++) {
        ck_assert_int_eq(connect_as(FIRST + i), 0);
    }
    ck_assert_int_eq(connect_as(FIRST + CLIENTS / 2), HF_EFULL);
    ck_assert_int_eq(connect_as(NOBODY), HF_EFULL);
    ck_assert_int_eq(connect_as(STRANGER), 0);
    agent_kill(&agent); /* the next agent finds the clients in its records, and counts them by
                         * account, too */
    agent_start(&agent);
    ck_assert_int_eq(connect_as(FIRST + 1), HF_EFULL);
    ck_assert_int_eq(connect_as(STRANGER), 0);
    for (unsigned i = 0; i < count; i++) {
        kill_process(connected[i]);
    }
    agent_destroy(&agent);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("subuids");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, subordinate_users_share_one_half);
    return suite_main("subuids", tests);
}
