/*
 * A configuration names users that this host does not know. The agent serves without them, reports
 * that in its log and to the doctor, and admits such a user once it exists. The test needs root, to
 * become another user.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "actor.h"
#include "require.h"

enum { ALICE = 12001, BOB = 12002, OUTPUT = 16384 };

static const char config[] = "[agent]\nname = host-a\ncell = users\nstate_dir = %D/state\n"
                             "socket = %D/agent.sock\nusers = alice, bob\nadmins = @ops\n";

static struct agent_process agent;
static char names[96];

static void write_names(const char *text)
{
    FILE *out = fopen(names, "w");
    ck_assert_ptr_nonnull(out);
    fputs(text, out);
    ck_assert_int_eq(fclose(out), 0);
}

static int connect_as(uid_t uid)
{
    const struct actor_who who = {.uid = uid, .gid = (gid_t)uid};
    struct actor actor;
    actor_start(&actor, agent.socket, &who);
    int result = actor.connected;
    actor_end(&actor);
    return result;
}

/* Runs a command of `holdfast` as the test's user, and stores its output. Returns its exit
 * status. */
static int ask(const char *command, char output[OUTPUT])
{
    char line[256];
    snprintf(line, sizeof(line), "%s -s %s %s 2>&1", binary_path("holdfast"), agent.socket,
             command);
    FILE *pipe = popen(line, "r");
    ck_assert_ptr_nonnull(pipe);
    size_t used = fread(output, 1, OUTPUT - 1, pipe);
    output[used] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

static int check_config(char output[OUTPUT])
{
    char line[256];
    snprintf(
        line, sizeof(line),
        "HOLDFAST_TEST_NAMES=%s LD_PRELOAD=%s %s --config %s/holdfast.conf --check-config 2>&1",
        names, agent.preload, binary_path("holdfastd"), agent.folder);
    FILE *pipe = popen(line, "r");
    ck_assert_ptr_nonnull(pipe);
    size_t used = fread(output, 1, OUTPUT - 1, pipe);
    output[used] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

/* Starts the agent on a host that knows alice, and no bob. */
static void start_with_alice(void)
{
    static char preload[256];
    snprintf(preload, sizeof(preload), "%s", binary_path("../tests/libholdfast_accounts.so"));
    agent_create(&agent, config);
    agent_admit_all(&agent);
    snprintf(names, sizeof(names), "%s/names", agent.folder);
    setenv("HOLDFAST_TEST_NAMES", names, 1);
    write_names("alice 12001\n");
    agent.preload = preload;
    agent_start(&agent);
}

START_TEST(an_unknown_user_is_admitted_once_it_is_made)
{
    static char output[OUTPUT];
    if (geteuid() != 0) {
        return;
    }
    start_with_alice();
    ck_assert_uint_eq(agent_logged(&agent, "event=account_unknown"), 2);
    ck_assert_uint_eq(agent_logged(&agent, "event=account_unknown key=\"[agent] users\" name=bob"),
                      1);
    ck_assert_int_eq(connect_as(ALICE), 0);
    ck_assert_int_eq(connect_as(BOB), HF_EACCES);
    ck_assert_uint_eq(agent_logged(&agent, "names that this host does not know"), 1);
    ck_assert_int_ge(ask("doctor", output), 1);
    ck_assert_msg(strstr(output, "2 of the names in the configuration: [agent] users: bob, [agent] "
                                 "admins: @ops") != NULL,
                  "%s", output);
    ck_assert_int_eq(check_config(output), 0);
    ck_assert_msg(strstr(output, "[agent] users: this host knows no bob now") != NULL, "%s",
                  output);
    ck_assert_ptr_eq(strstr(output, "alice"), NULL);

    write_names("alice 12001\nbob 12002\n");
    for (unsigned waited_ms = 0; connect_as(BOB) != 0; waited_ms += 100) {
        ck_assert_uint_lt(waited_ms, GUARD_MS);
        sleep_ms(100);
    }
    ck_assert_uint_eq(agent_logged(&agent, "event=account_found key=\"[agent] users\" name=bob"),
                      1);
    ck_assert_uint_eq(agent_logged(&agent, "event=account_found"), 1);
    (void)ask("doctor", output);
    ck_assert_ptr_nonnull(strstr(output, "1 of the names in the configuration: [agent] admins: "));
    agent_destroy(&agent);
}
END_TEST

/* A user that was made just after a lookup, and was refused, is looked up again some seconds later,
 * even if it does not connect again. */
START_TEST(one_refusal_is_enough)
{
    if (geteuid() != 0) {
        return;
    }
    start_with_alice();
    ck_assert_int_eq(connect_as(BOB), HF_EACCES); /* this makes the agent look bob up */
    sleep_ms(500);
    write_names("alice 12001\nbob 12002\n");
    ck_assert_int_eq(connect_as(BOB), HF_EACCES); /* too early for a further lookup */
    for (unsigned waited_ms = 0; agent_logged(&agent, "event=account_found") == 0;
         waited_ms += 100) {
        ck_assert_uint_lt(waited_ms, 30000); /* the lookup comes at the first upkeep after 5 s */
        sleep_ms(100);
    }
    ck_assert_int_eq(connect_as(BOB), 0);
    agent_destroy(&agent);
}
END_TEST

/* Returns the number of the agent's child processes with that name, including ended ones. */
static unsigned children_named(const char *name)
{
    char line[160];
    unsigned count = 0;
    snprintf(line, sizeof(line), "ps --ppid %d -o comm= | grep -c %s", (int)agent.pid, name);
    FILE *pipe = popen(line, "r");
    ck_assert_ptr_nonnull(pipe);
    ck_assert_int_eq(fscanf(pipe, "%u", &count), 1);
    (void)pclose(pipe);
    return count;
}

/* Once all names are found, the process that looks them up ends, and leaves nothing behind. */
START_TEST(the_process_that_looks_goes_when_all_is_found)
{
    agent_create(&agent, "[agent]\nname = host-a\ncell = users\nstate_dir = %D/state\n"
                         "socket = %D/agent.sock\nusers = root, 12001\n");
    agent_start(&agent);
    ck_assert_uint_eq(agent_logged(&agent, "event=account_unknown"), 0);
    ck_assert_uint_eq(children_named("holdfastd-rm"), 1);
    for (unsigned waited_ms = 0; children_named("holdfastd-names") > 0; waited_ms += 100) {
        ck_assert_uint_lt(waited_ms, GUARD_MS);
        sleep_ms(100);
    }
    agent_destroy(&agent);
}
END_TEST

static void start_with_names(const char *users)
{
    static char preload[256];
    char text[512];
    snprintf(preload, sizeof(preload), "%s", binary_path("../tests/libholdfast_accounts.so"));
    snprintf(text, sizeof(text),
             "[agent]\nname = host-a\ncell = users\nstate_dir = %%D/state\n"
             "socket = %%D/agent.sock\nusers = %s\n",
             users);
    agent_create(&agent, text);
    agent_admit_all(&agent);
    snprintf(names, sizeof(names), "%s/names", agent.folder);
    setenv("HOLDFAST_TEST_NAMES", names, 1);
    write_names("");
    agent.preload = preload;
    agent_start(&agent);
}

/* The name service hangs for one name. The agent still knows users in /etc/passwd, such as daemon,
 * which every host has. */
START_TEST(a_name_that_hangs_keeps_no_user_of_this_host_out)
{
    enum { DAEMON = 1 };
    if (geteuid() != 0) {
        return;
    }
    start_with_names("hangs, bob, daemon");
    ck_assert_uint_eq(agent_logged(&agent, "event=account_unknown"), 2);
    ck_assert_int_eq(connect_as(DAEMON), 0);
    ck_assert_int_eq(connect_as(BOB), HF_EACCES);
    agent_destroy(&agent);
}
END_TEST

/* The process that looks names up sends a wrong answer. The agent does not trust it: it ignores the
 * process, and goes on. */
START_TEST(a_wrong_answer_harms_nobody)
{
    if (geteuid() != 0) {
        return;
    }
    start_with_names("rogue, daemon");
    for (unsigned waited_ms = 0; children_named("holdfastd-names") > 0; waited_ms += 100) {
        ck_assert_uint_lt(waited_ms, GUARD_MS);
        sleep_ms(100);
    }
    for (int64_t end_ns = boottime_now() + GUARD_MS * MS;
         agent_logged(&agent, "event=accounts_ended") == 0 && boottime_now() < end_ns;) {
        sleep_ms(20); /* the agent logs the end only after the process has ended */
    }
    ck_assert_uint_eq(agent_logged(&agent, "event=accounts_ended"), 1);
    ck_assert_uint_eq(agent_logged(&agent, "an answer that makes no sense"), 1);
    ck_assert_int_eq(connect_as(1), 0);
    ck_assert_int_eq(connect_as(BOB), HF_EACCES);
    agent_destroy(&agent);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("users");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, an_unknown_user_is_admitted_once_it_is_made);
    tcase_add_test(tests, one_refusal_is_enough);
    tcase_add_test(tests, the_process_that_looks_goes_when_all_is_found);
    tcase_add_test(tests, a_name_that_hangs_keeps_no_user_of_this_host_out);
    tcase_add_test(tests, a_wrong_answer_harms_nobody);
    return suite_main("users", tests);
}
