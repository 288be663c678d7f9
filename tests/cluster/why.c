/*
 * Three real agents on this machine's loopback are one cell. The tests check hf_why() and the exit
 * status of `holdfast lock` in four cases: another host holds the lock; the lock is closed for a
 * dead holder's lock-delay; two of the three voters are gone; two have just been stopped.
 */
#include "../suite_main.h"
#include "actor.h"
#include "require.h"

#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOSTS = 3 };

static struct agent_process agents[HOSTS];
static struct actor holder; /* on host-a */
static hf_client *client;   /* on host-b */
static hf_lock *lock;
static char line[2048]; /* the last line that `holdfast lock` wrote to stderr */

static void start(void)
{
    unsigned ports[HOSTS];
    char text[512];
    agent_free_ports(ports, HOSTS);
    for (int i = 0; i < HOSTS; i++) {
        snprintf(text, sizeof(text),
                 "[agent]\nname = host-%c\ncell = why\nstate_dir = %%D/state\n"
                 "socket = %%D/agent.sock\n[cell]\nsession_ttl = 5s\n"
                 "[voters]\nhost-a = tcp://127.0.0.1:%u\nhost-b = tcp://127.0.0.1:%u\n"
                 "host-c = tcp://127.0.0.1:%u\n",
                 'a' + i, ports[0], ports[1], ports[2]);
        agent_create(&agents[i], text);
        agent_launch(&agents[i]);
    }
    for (int i = 0; i < HOSTS; i++) {
        agent_await_socket(&agents[i]);
    }
    actor_ready(&holder, agents[0].socket);
    struct hf_options options = HF_OPTIONS_INIT;
    options.socket = agents[1].socket;
    ck_assert_int_eq(hf_connect(&options, &client), 0);
    ck_assert_int_eq(hf_open(client, "job", NULL, &lock), 0);
}

static void stop(void)
{
    hf_disconnect(client);
    actor_end(&holder);
    for (int i = HOSTS - 1; i >= 0; i--) {
        agent_destroy(&agents[i]);
    }
}

/* Asks until the reason is of that kind, because this host learns of the other hosts with a
 * delay. */
static struct hf_reason await_kind(enum hf_reason_kind kind)
{
    struct hf_reason reason = HF_REASON_INIT;
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    do {
        REQUIRE(boottime_now() < end_ns, "no reason of kind %d, but %d: %s", (int)kind,
                (int)reason.kind, reason.text);
        sleep_ms(10);
        ck_assert_int_eq(hf_why(lock, &reason), 0);
    } while (reason.kind != kind);
    return reason;
}

/* Runs `holdfast lock` on host-b. Returns its exit status. */
static int run_lock_of(const char *name, const char *options)
{
    char command[512];
    snprintf(command, sizeof(command), "exec %s -s %s lock %s %s -- true 2>&1",
             binary_path("holdfast"), agents[1].socket, options, name);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    line[fread(line, 1, sizeof(line) - 1, pipe)] = '\0';
    int status = pclose(pipe);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int run_lock(const char *options)
{
    return run_lock_of("job", options);
}

/* Runs `holdfast show` on host-b. Its output is in `line`. */
static void run_show(void)
{
    char command[512];
    snprintf(command, sizeof(command), "exec %s -s %s show job 2>&1", binary_path("holdfast"),
             agents[1].socket);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    line[fread(line, 1, sizeof(line) - 1, pipe)] = '\0';
    ck_assert_int_eq(pclose(pipe), 0);
}

static void take_on_host_a(void)
{
    ck_assert_int_eq(actor_open(&holder, 0, "job", 20000), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
}

START_TEST(held_on_another_host)
{
    take_on_host_a();
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 300 * MS, NULL), HF_ETIMEDOUT);
    struct hf_reason reason = await_kind(HF_WHY_HELD);
    ck_assert_str_eq(reason.agent, "host-a");
    ck_assert_int_eq(reason.pid, holder.pid);
    ck_assert_int_eq(reason.uid, getuid());
    ck_assert_int_ge(reason.since_ns, 0);
    ck_assert_int_eq(run_lock("--wait 300ms"), 75);
    REQUIRE(strstr(line, "the timeout was over first: held on host-a for ") != NULL, "%s", line);
    ck_assert_int_eq(run_lock("-E 9 --no-wait"), 9);
    /* the holder's user has the same name in the line and in the listing, although its host is
     * another */
    char user[100];
    char found[128];
    const struct passwd *entry = getpwuid(getuid());
    snprintf(user, sizeof(user), "%d", (int)getuid());
    if (entry != NULL) {
        snprintf(user, sizeof(user), "%s", entry->pw_name);
    }
    snprintf(found, sizeof(found), " of user %s (", user);
    ck_assert_msg(strstr(line, found) != NULL, "%s: %s", found, line);
    run_show();
    snprintf(found, sizeof(found), ", user %s, agent host-a", user);
    ck_assert_msg(strstr(line, found) != NULL, "%s: %s", found, line);
}
END_TEST

START_TEST(closed_behind_a_dead_holder)
{
    take_on_host_a();
    (void)await_kind(HF_WHY_HELD);
    ck_assert_int_eq(kill(holder.pid, SIGKILL), 0);
    struct hf_reason reason = await_kind(HF_WHY_CLOSED);
    ck_assert_int_gt(reason.closed_ns, 0);
    ck_assert_int_le(reason.closed_ns, 20000 * MS);
    ck_assert_int_eq(run_lock("--wait 100ms"), 75);
    REQUIRE(strstr(line, ": closed for another ") != NULL, "%s", line);
}
END_TEST

START_TEST(two_of_three_voters_gone)
{
    take_on_host_a(); /* this takes the grant from host-b, which otherwise could serve the lock
                       * for a moment */
    agent_kill(&agents[0]);
    agent_kill(&agents[2]);
    struct hf_reason reason = await_kind(HF_WHY_NO_MAJORITY);
    REQUIRE(strstr(reason.text, "1 of 3; missing: host-a, host-c") != NULL, "%s", reason.text);
    ck_assert_int_eq(run_lock("--wait 100ms"), 74);
    REQUIRE(strstr(line, "missing: host-a, host-c") != NULL, "%s", line);
    ck_assert_int_eq(run_lock("-E 9 --no-wait"), 74);
}
END_TEST

/* The links stay, and the voters have just answered renewals. Only their heartbeats stay away. */
START_TEST(two_of_three_voters_stopped_just_now)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (run_lock_of("first", "--no-wait") != 0) { /* until the cell serves */
        REQUIRE(boottime_now() < end_ns, "%s", line);
    }
    agent_pause(&agents[0]);
    agent_pause(&agents[2]);
    int64_t paused_ns = boottime_now();
    int status = run_lock_of("new", "--no-wait");
    int64_t took_ns = boottime_now() - paused_ns;
    ck_assert_msg(status == 74, "%d: %s", status, line);
    REQUIRE(strstr(line, "1 of 3; missing: host-a, host-c") != NULL, "%s", line);
    REQUIRE(took_ns < 3000 * MS, "it took %lld ms: renewals are missing, too",
            (long long)(took_ns / MS));
    agent_continue(&agents[0]);
    agent_continue(&agents[2]);
}
END_TEST

START_TEST(agent_killed)
{
    agent_kill(&agents[1]);
    struct hf_reason reason = await_kind(HF_WHY_NO_AGENT);
    ck_assert_str_eq(reason.text, "no agent answers on this host");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("why");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, held_on_another_host);
    tcase_add_test(tests, closed_behind_a_dead_holder);
    tcase_add_test(tests, two_of_three_voters_gone);
    tcase_add_test(tests, two_of_three_voters_stopped_just_now);
    tcase_add_test(tests, agent_killed);
    return suite_main("why", tests);
}
