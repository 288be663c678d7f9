/*
 * Three real agents on this machine's loopback are one cell. The tests check hf_why() and the exit
 * status of `holdfast lock` in five cases: another host holds the lock; the lock is closed for the
 * lock-delay of a dead holder on another host; it is closed for the lock-delay of a whole host that
 * vanished; two of the three voters are gone; two have just been stopped. Both cases of a
 * lock-delay also run with a host-a that speaks an earlier version of the messages between agents.
 * One test is about the note of a holder on another host.
 */
#include "../suite_main.h"
#include "actor.h"
#include "proto/wire.h"
#include "require.h"
#include "served_first.h"

#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOSTS = 3, DELAY_MS = 40000 }; /* a lock-delay that no test waits for */

static struct agent_process agents[HOSTS];
static struct actor holder; /* on host-a */
static hf_client *client;   /* on host-b */
static hf_lock *lock;
static char line[2048]; /* the last line that `holdfast lock` wrote to stderr */

/* Starts the cell. protocol: the newest version of the messages that host-a speaks. */
static void start_with(unsigned protocol)
{
    unsigned ports[HOSTS];
    char text[512];
    be_served_first(); /* reasons and remaining times must reach another host within a moment */
    agent_free_ports(ports, HOSTS);
    for (int i = 0; i < HOSTS; i++) {
        snprintf(text, sizeof(text),
                 "[agent]\nname = host-%c\ncell = why\nstate_dir = %%D/state\n"
                 "socket = %%D/agent.sock\n[cell]\nsession_ttl = 5s\nprotocol = %u\n"
                 "[voters]\nhost-a = tcp://127.0.0.1:%u\nhost-b = tcp://127.0.0.1:%u\n"
                 "host-c = tcp://127.0.0.1:%u\n",
                 'a' + i, i == 0 ? protocol : WIRE_VERSION, ports[0], ports[1], ports[2]);
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

static void start(void)
{
    start_with(WIRE_VERSION);
}

static void start_first_version(void)
{
    start_with(3);
}

static void start_second_version(void)
{
    start_with(4);
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

/* Runs `holdfast` on a host. Its output is in `line`. Returns its exit status. */
static int run_on(int host, const char *words)
{
    char command[512];
    snprintf(command, sizeof(command), "exec %s -s %s %s 2>&1", binary_path("holdfast"),
             agents[host].socket, words);
    FILE *pipe = popen(command, "r");
    ck_assert_ptr_nonnull(pipe);
    line[fread(line, 1, sizeof(line) - 1, pipe)] = '\0';
    int status = pclose(pipe);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

/* Runs `holdfast lock` on host-b. Returns its exit status. */
static int run_lock_of(const char *name, const char *options)
{
    char words[128];
    snprintf(words, sizeof(words), "lock %s %s -- true", options, name);
    return run_on(1, words);
}

static int run_lock(const char *options)
{
    return run_lock_of("job", options);
}

/* Waits until the output of `holdfast` on the host contains the text. */
static void await_print(int host, const char *words, const char *text)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    do {
        REQUIRE(boottime_now() < end_ns, "%s: no \"%s\" in: %s", words, text, line);
        sleep_ms(10);
        (void)run_on(host, words);
    } while (strstr(line, text) == NULL);
}

static void take_on_host_a(void)
{
    ck_assert_int_eq(actor_open(&holder, 0, "job", DELAY_MS), 0);
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
    /* the line and the listing have the same user name, although the holder is on another host */
    char user[100];
    char found[128];
    const struct passwd *entry = getpwuid(getuid());
    snprintf(user, sizeof(user), "%d", (int)getuid());
    if (entry != NULL) {
        snprintf(user, sizeof(user), "%s", entry->pw_name);
    }
    snprintf(found, sizeof(found), " of user %s (", user);
    ck_assert_msg(strstr(line, found) != NULL, "%s: %s", found, line);
    ck_assert_int_eq(run_on(1, "show job"), 0);
    snprintf(found, sizeof(found), ", user %s, agent host-a", user);
    ck_assert_msg(strstr(line, found) != NULL, "%s: %s", found, line);
}
END_TEST

/* A process on host-a holds the lock, with a note. Host-b, where a process waits, and host-c show
 * the note, and the report of a break has it. known: host-a reports its notes, because it speaks
 * the present version of the messages between agents. */
static void noted(bool known)
{
    struct hf_options options = HF_OPTIONS_INIT;
    struct hf_lock_options note = HF_LOCK_OPTIONS_INIT;
    hf_client *client_a = NULL;
    hf_lock *lock_a = NULL;
    options.socket = agents[0].socket;
    note.note = "migration 41";
    note.lock_delay_ns = DELAY_MS * MS;
    ck_assert_int_eq(hf_connect(&options, &client_a), 0);
    ck_assert_int_eq(hf_open(client_a, "job", &note, &lock_a), 0);
    ck_assert_int_eq(hf_acquire(lock_a, HF_EXCLUSIVE, GUARD_MS * MS, NULL), 0);
    struct hf_reason reason = await_kind(HF_WHY_HELD);
    ck_assert_str_eq(reason.note, known ? "migration 41" : "");
    ck_assert_int_eq(hf_release(lock_a), 0);
    ck_assert_int_eq(hf_set_note(lock_a, "migration 42, ask Ada"), 0);
    ck_assert_int_eq(hf_acquire(lock_a, HF_EXCLUSIVE, GUARD_MS * MS, NULL), 0);
    ck_assert_int_eq(hf_set_note(lock_a, "of the next hold"), 0);
    if (known) {
        await_print(2, "show job", "note       migration 42, ask Ada");
        ck_assert_int_eq(run_on(2, "ls"), 0);
        REQUIRE(strstr(line, ", note \"migration 42, ask Ada\"") != NULL, "%s", line);
        await_print(1, "show job", "note       migration 42, ask Ada");
    }
    ck_assert_int_eq(run_lock("--wait 2s"), 75);
    const char *waits = strstr(line, ": waiting: held on host-a for ");
    REQUIRE(waits != NULL && strstr(waits, " by process ") != NULL, "%s", line);
    ck_assert_msg((strstr(waits, "), note \"migration 42, ask Ada\"") != NULL) == known, "%s",
                  line);
    ck_assert_int_eq(run_on(1, "break job"), 0);
    ck_assert_msg((strstr(line, ", note \"migration 42, ask Ada\"\n") != NULL) == known, "%s",
                  line);
    do {
        reason = await_kind(HF_WHY_CLOSED);
    } while (known && reason.pid < 0);
    ck_assert_str_eq(reason.note, known ? "migration 42, ask Ada" : "");
    hf_disconnect(client_a);
}

START_TEST(the_note_of_a_holder_on_another_host)
{
    noted(true);
}
END_TEST

START_TEST(no_note_of_a_holder_of_an_earlier_version)
{
    noted(false);
}
END_TEST

/* Waits until hf_why() reports that the lock is closed behind the actor's process on host-a. At
 * most 1.1 times DELAY_MS may be left, because a coordinator lengthens a lock-delay for the drift
 * of clocks. known: host-a also reports which process that was. */
static struct hf_reason await_behind(bool known)
{
    struct hf_reason reason;
    do {
        reason = await_kind(HF_WHY_CLOSED);
        ck_assert_int_gt(reason.closed_ns, 0);
        ck_assert_int_le(reason.closed_ns, DELAY_MS / 10 * 11 * MS);
        ck_assert_str_eq(reason.agent, "host-a");
    } while (known && reason.pid < 0);
    ck_assert_int_eq(reason.pid, known ? holder.pid : -1);
    ck_assert_int_eq(reason.uid, known ? (int64_t)getuid() : -1);
    ck_assert_int_eq(reason.command[0] != '\0', known);
    return reason;
}

/* Checks the remaining time in `line`. The holder was killed at killed_ns or later. */
static void look_at_closed(int64_t killed_ns)
{
    const char *closed = strstr(line, "closed ");
    double most_s = DELAY_MS * 1.1 / 1000;
    double least_s = DELAY_MS / 1e3 - (double)(boottime_now() - killed_ns) / 1e9 - 0.1;
    double left_s = closed != NULL ? strtod(closed + strlen("closed "), NULL) : 0;
    REQUIRE(left_s > 0 && left_s >= least_s && left_s <= most_s, "expected %f to %f s: %s", least_s,
            most_s, line);
}

/* The waiter is on host-b. The listings are on host-b, and on host-c, where nobody waits. */
static void dead_holder(bool known)
{
    char text[128];
    char last[128];
    char json[128];
    snprintf(text, sizeof(text), "(lock-delay): %s",
             known ? "the process that held it ended, "
                   : "its last holder vanished, or its hold was ended; ");
    take_on_host_a();
    if (known) {
        snprintf(last, sizeof(last), " ago; last holder on host-a: process %lld of user ",
                 (long long)holder.pid);
        snprintf(json, sizeof(json), "\"agent\":\"host-a\",\"pid\":%lld,\"uid\":%d,\"command\":\"",
                 (long long)holder.pid, (int)getuid());
    } else {
        snprintf(last, sizeof(last), "; last holder on host-a");
        snprintf(json, sizeof(json), "\"agent\":\"host-a\",\"pid\":null,\"uid\":null,");
    }
    (void)await_kind(HF_WHY_HELD);
    int64_t killed_ns = boottime_now();
    ck_assert_int_eq(kill(holder.pid, SIGKILL), 0);
    struct hf_reason reason = await_behind(known);
    ck_assert_int_eq(reason.since_ns >= 0, known);
    ck_assert_msg(strstr(reason.text, text) && strstr(reason.text, last), "%s", reason.text);
    ck_assert_int_eq(run_lock("--wait 100ms"), 75);
    REQUIRE(strstr(line, ": closed for another ") && strstr(line, last), "%s", line);
    ck_assert_int_eq(run_lock("--no-wait"), 75);
    REQUIRE(strstr(line, ": closed for another ") && strstr(line, last), "%s", line);
    ck_assert_int_eq(run_lock("--json --wait 2s"), 75);
    const char *waiting = strstr(line, "\"event\":\"waiting\"");
    REQUIRE(waiting != NULL && strstr(waiting, json) != NULL, "%s: %s", json, line);
    for (int host = 1; host < HOSTS; host++) {
        await_print(host, "ls", "(host-a)");
        look_at_closed(killed_ns);
        await_print(host, "show --json job", known ? "\"reason\":\"process\"" : "\"behind\":{");
        REQUIRE(strstr(line, json) != NULL, "%s", line);
    }
}

START_TEST(closed_behind_a_dead_holder)
{
    dead_holder(true);
}
END_TEST

START_TEST(closed_behind_a_dead_holder_of_an_earlier_version)
{
    dead_holder(false);
}
END_TEST

/* The agent of host-a and the holder are gone. So a coordinator counts the lock-delay once the
 * session of host-a has ended, and notifies the waiter's host. */
START_TEST(closed_behind_a_vanished_host)
{
    struct actor waiter;
    char text[128];
    take_on_host_a();
    (void)await_kind(HF_WHY_HELD);
    actor_ready(&waiter, agents[1].socket);
    ck_assert_int_eq(actor_open(&waiter, 0, "job", DELAY_MS), 0);
    actor_wait(&waiter, 0, HF_EXCLUSIVE);
    int64_t gone_ns = boottime_now();
    agent_kill(&agents[0]);
    ck_assert_int_eq(kill(holder.pid, SIGKILL), 0);
    struct hf_reason reason = await_behind(true);
    ck_assert_int_eq(reason.since_ns, -1);
    REQUIRE(boottime_now() - gone_ns + reason.closed_ns > DELAY_MS * MS, "only %lld ms: %s",
            (long long)(reason.closed_ns / MS), reason.text);
    snprintf(text, sizeof(text),
             ": the session of host-a, which had it, ended; last known holder on host-a: process "
             "%lld of ",
             (long long)holder.pid);
    ck_assert_msg(strstr(reason.text, text) != NULL, "%s", reason.text);
    /* gossip informs a host where nobody waits */
    await_print(2, "ls", "(host-a)");
    await_print(2, "show job", "the session of its host ended");
    ck_assert_int_eq(run_on(2, "lock --no-wait job -- true"), 75);
    ck_assert_msg(strstr(line, text) != NULL, "%s", line);
    /* a coordinator also informs a host that only tries the lock */
    actor_end(&waiter);
    ck_assert_int_eq(run_on(2, "lock --no-wait job -- true"), 75);
    ck_assert_msg(strstr(line, text) != NULL, "%s", line);
}
END_TEST

/* The remaining time runs down. When it is over, the waiter has the lock, and hf_why() does not
 * report it as closed any more. */
START_TEST(the_waiter_is_told_until_it_has_the_lock)
{
    struct actor waiter;
    struct actor_reply reply;
    ck_assert_int_eq(actor_open(&holder, 0, "job", 3000), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    (void)await_kind(HF_WHY_HELD);
    actor_ready(&waiter, agents[1].socket);
    ck_assert_int_eq(actor_open(&waiter, 0, "job", 1000), 0);
    actor_wait(&waiter, 0, HF_EXCLUSIVE);
    agent_kill(&agents[0]);
    ck_assert_int_eq(kill(holder.pid, SIGKILL), 0);
    struct hf_reason reason = await_behind(true);
    int64_t open_ns = boottime_now() + reason.closed_ns;
    while (!actor_receive(&waiter, &reply, 50)) {
        ck_assert_int_eq(hf_why(lock, &reason), 0);
        /* the message about the lock-delay takes time, so the reason may show an end that is too
         * late */
        REQUIRE(reason.kind != HF_WHY_CLOSED ||
                    boottime_now() + reason.closed_ns < open_ns + 1000 * MS,
                "%s", reason.text);
    }
    ck_assert_int_eq(reply.result, 0);
    REQUIRE(boottime_now() > open_ns - 500 * MS, "the lock opened too early");
    ck_assert_int_eq(hf_why(lock, &reason), 0);
    REQUIRE(reason.kind == HF_WHY_HELD && strcmp(reason.agent, "host-b") == 0, "%s", reason.text);
    for (int host = 1; host < HOSTS; host++) {
        await_print(host, "show job", "agent host-b");
        REQUIRE(strstr(line, "\nclosed ") == NULL && strstr(line, "\nbehind ") == NULL, "%s", line);
    }
    actor_end(&waiter);
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

/* The links stay up, and the voters have just answered renewals. Only heartbeats are missing. */
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
    tcase_add_test(tests, the_note_of_a_holder_on_another_host);
    tcase_add_test(tests, closed_behind_a_dead_holder);
    tcase_add_test(tests, closed_behind_a_vanished_host);
    tcase_add_test(tests, the_waiter_is_told_until_it_has_the_lock);
    tcase_add_test(tests, two_of_three_voters_gone);
    tcase_add_test(tests, two_of_three_voters_stopped_just_now);
    tcase_add_test(tests, agent_killed);
    TCase *first = tcase_create("with version 3");
    tcase_set_timeout(first, 120);
    tcase_add_checked_fixture(first, start_first_version, stop);
    tcase_add_test(first, closed_behind_a_dead_holder_of_an_earlier_version);
    tcase_add_test(first, closed_behind_a_vanished_host);
    TCase *second = tcase_create("with version 4");
    tcase_set_timeout(second, 120);
    tcase_add_checked_fixture(second, start_second_version, stop);
    tcase_add_test(second, closed_behind_a_dead_holder_of_an_earlier_version);
    tcase_add_test(second, closed_behind_a_vanished_host);
    tcase_add_test(second, no_note_of_a_holder_of_an_earlier_version);
    Suite *suite = suite_create("why");
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, first);
    suite_add_tcase(suite, second);
    return suite_run(suite);
}
