/*
 * Tests what people see of a cell on each of its hosts, including an observer's host: holders and
 * waiters on other hosts, coordinators, changes when they happen, and voters that are down.
 */
#include "../suite_main.h"
#include "actor.h"
#include "require.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HOSTS = 4, VOTERS = 3, OBSERVER = 3, OUTPUT = 8192 };

static struct agent_process agents[HOSTS];
static struct actor actors[HOSTS];
static unsigned ports[HOSTS];

static void start(void)
{
    char text[512];
    agent_free_ports(ports, HOSTS);
    for (int i = 0; i < HOSTS; i++) {
        snprintf(text, sizeof(text),
                 "[agent]\nname = host-%c\ncell = view\nrole = %s\nstate_dir = %%D/state\n"
                 "socket = %%D/agent.sock\n"
                 "[cell]\nlisten = tcp://127.0.0.1:%u\nsession_ttl = 5s\n"
                 "[voters]\nhost-a = tcp://127.0.0.1:%u\nhost-b = tcp://127.0.0.1:%u\n"
                 "host-c = tcp://127.0.0.1:%u\n",
                 'a' + i, i < VOTERS ? "voter" : "observer", ports[i], ports[0], ports[1],
                 ports[2]);
        agent_create(&agents[i], text);
        agent_launch(&agents[i]);
    }
    for (int i = 0; i < HOSTS; i++) {
        agent_await_socket(&agents[i]);
        actor_ready(&actors[i], agents[i].socket);
    }
}

static void stop(void)
{
    for (int i = 0; i < HOSTS; i++) {
        actor_end(&actors[i]);
    }
    for (int i = HOSTS - 1; i >= 0; i--) { /* in reverse order, because each janitor has
                                            * inherited the pipes of the earlier ones */
        agent_destroy(&agents[i]);
    }
}

/* Runs `holdfast` with the arguments `words` on that host. Returns its output, in a static
 * buffer. */
static const char *command(int host, const char *words)
{
    static char output[OUTPUT];
    char line[512];
    snprintf(line, sizeof(line), "%s -s %s %s", binary_path("holdfast"), agents[host].socket,
             words);
    FILE *pipe = popen(line, "re");
    REQUIRE(pipe != NULL, "popen");
    size_t size = fread(output, 1, sizeof(output) - 1, pipe);
    output[size] = '\0';
    (void)pclose(pipe);
    return output;
}

/* Repeats the command until it prints both texts. Returns how long that took, in ms. */
static int64_t await(int host, const char *words, const char *one, const char *other)
{
    int64_t from_ns = boottime_now();
    for (;;) {
        const char *seen = command(host, words);
        int64_t took_ms = (boottime_now() - from_ns) / 1000000;
        if (strstr(seen, one) != NULL && strstr(seen, other) != NULL) {
            return took_ms;
        }
        REQUIRE(took_ms < GUARD_MS, "host-%c: %s: no %s, %s in %s", 'a' + host, words, one, other,
                seen);
        sleep_ms(20);
    }
}

/* Waits until all hosts name the same coordinator, because another voter may have taken over just
 * now. */
static void await_coordinator(const char *words)
{
    enum { NAMED = 22 }; /* the number of bytes of "coordinator":"host-a" */
    int64_t end_ns = boottime_now() + GUARD_MS * INT64_C(1000000);
    for (int agree = 0; agree < HOSTS;) {
        char first[NAMED + 1] = "";
        agree = 0;
        for (int i = 0; i < HOSTS; i++) {
            const char *seen = strstr(command(i, words), "\"coordinator\":\"host-");
            if (i == 0 && seen != NULL) {
                snprintf(first, sizeof(first), "%.*s", NAMED, seen);
            }
            agree += seen != NULL && strncmp(first, seen, NAMED) == 0;
        }
        REQUIRE(boottime_now() < end_ns, "%s: of another on another host", first);
    }
}

START_TEST(every_host_sees_who_holds_and_waits)
{
    char held[64];
    char waits[64];
    struct hf_hold hold;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(actor_open(&actors[i], 0, "job/1", 10), 0);
    }
    ck_assert_int_eq(actor_acquire(&actors[0], 0, HF_EXCLUSIVE, GUARD_MS, &hold), 0);
    snprintf(held, sizeof(held), "\"agent\":\"host-a\",\"pid\":%d,\"uid\":%d", (int)actors[0].pid,
             (int)getuid());
    int64_t worst_ms = 0;
    for (int i = 0; i < HOSTS; i++) {
        int64_t took_ms = await(i, "show --json job/1", held, "\"mode\":\"exclusive\"");
        worst_ms = took_ms > worst_ms ? took_ms : worst_ms;
    }
    actor_wait(&actors[1], 0, HF_EXCLUSIVE);
    snprintf(waits, sizeof(waits), "\"waiters\":[{\"agent\":\"host-b\",\"pid\":%d",
             (int)actors[1].pid);
    for (int i = 0; i < HOSTS; i++) {
        int64_t took_ms = await(i, "ls --json job/", waits, held);
        worst_ms = took_ms > worst_ms ? took_ms : worst_ms;
    }
    await_coordinator("show --json job/1");
    printf("every host saw it within %lld ms\n", (long long)worst_ms);
    ck_assert_int_eq(actor_release(&actors[0], 0), 0);
    struct actor_reply reply;
    ck_assert(actor_receive(&actors[1], &reply, GUARD_MS));
    for (int i = 0; i < HOSTS; i++) {
        await(i, "show --json job/1", "\"holders\":[{\"agent\":\"host-b\"", "\"waiters\":[]");
    }
    ck_assert_int_eq(actor_release(&actors[1], 0), 0);
    for (int i = 0; i < HOSTS; i++) {
        await(i, "show --json job/1", "\"mode\":\"free\"", "\"holders\":[]");
    }
}
END_TEST

/* Returns the next event of an actor. */
static struct actor_reply next_event(struct actor *actor)
{
    return actor_do(actor, &(struct actor_request){.kind = ACTOR_EVENT,
                                                   .timeout_ns = GUARD_MS * INT64_C(1000000)});
}

START_TEST(a_watcher_is_told_of_other_hosts)
{
    struct actor_request watch = {.kind = ACTOR_WATCH, .name = "job/"};
    struct actor_request events = {.kind = ACTOR_EVENTS};
    ck_assert_int_ge(actor_do(&actors[OBSERVER], &events).result, 0);
    ck_assert_int_eq(actor_do(&actors[OBSERVER], &watch).result, 0);
    ck_assert_int_eq(actor_open(&actors[1], 0, "job/2", 10), 0);
    ck_assert_int_eq(actor_acquire(&actors[1], 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    struct actor_reply reply = next_event(&actors[OBSERVER]);
    ck_assert_int_eq(reply.result, 1);
    ck_assert_int_eq(reply.event.kind, HF_EVENT_CHANGED);
    ck_assert_str_eq(reply.event.name, "job/2");
    ck_assert_int_eq(actor_release(&actors[1], 0), 0);
    reply = next_event(&actors[OBSERVER]);
    ck_assert_int_eq(reply.result, 1);
    ck_assert_str_eq(reply.event.name, "job/2");
}
END_TEST

/* Every agent knows the observer; a voter is not among the observers, even if it is down. */
START_TEST(observers_are_shown)
{
    char seen[128];
    snprintf(seen, sizeof(seen),
             "\"observers\":[{\"name\":\"host-d\",\"address\":"
             "\"tcp://127.0.0.1:%u\",\"state\":\"up\"}]",
             ports[OBSERVER]);
    for (int i = 0; i < HOSTS; i++) {
        await(i, "status --json", seen, "\"observer_count\":1");
    }
    agent_kill(&agents[2]);
    agent_kill(&agents[OBSERVER]);
    snprintf(seen, sizeof(seen),
             "\"observers\":[{\"name\":\"host-d\",\"address\":"
             "\"tcp://127.0.0.1:%u\",\"state\":\"down\"}]",
             ports[OBSERVER]);
    for (int i = 0; i < 2; i++) {
        await(i, "status --json", "\"name\":\"host-c\"", seen);
        await(i, "status --json", "\"state\":\"down\"}],\"clients\"", "\"observer_count\":1");
    }
}
END_TEST

START_TEST(the_dead_are_seen_no_more)
{
    ck_assert_int_eq(actor_open(&actors[0], 0, "job/3", 10), 0);
    ck_assert_int_eq(actor_acquire(&actors[0], 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    await(OBSERVER, "show --json job/3", "\"agent\":\"host-a\"", "\"mode\":\"exclusive\"");
    await(OBSERVER, "status --json", "\"role\":\"observer\"", "\"state\":\"safe\"");
    agent_kill(&agents[0]);
    actor_end(&actors[0]);
    for (int i = 1; i < HOSTS; i++) {
        await(i, "show --json job/3", "\"holders\":[]", "\"mode\":\"free\"");
        await(i, "status --json", "\"name\":\"host-a\"", "\"state\":\"down\"");
    }
    agent_start(&agents[0]);
    actor_ready(&actors[0], agents[0].socket);
    ck_assert_int_eq(actor_open(&actors[0], 0, "job/3", 10), 0);
    ck_assert_int_eq(actor_acquire(&actors[0], 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    for (int i = 1; i < HOSTS; i++) {
        await(i, "show --json job/3", "\"agent\":\"host-a\"", "\"mode\":\"exclusive\"");
    }
}
END_TEST

START_TEST(a_voter_that_lost_its_store_is_shown_as_refused)
{
    char line[1024];
    int victim = 2;
    agent_kill(&agents[victim]);
    actor_end(&actors[victim]);
    for (int i = 0; i < HOSTS; i++) {
        if (i != victim) {
            await(i, "member --json", "\"name\":\"host-c\"", "\"state\":\"down\"");
        }
    }
    snprintf(line, sizeof(line), "rm -r %s/state", agents[victim].folder);
    ck_assert_int_eq(system(line), 0);
    /* with an empty store the agent serves its host, but does not vote */
    agent_start(&agents[victim]);
    actor_ready(&actors[victim], agents[victim].socket);
    for (int i = 0; i < HOSTS; i++) {
        await(i, "member --json", "\"name\":\"host-c\"", "\"state\":\"refused\"");
    }
    ck_assert_int_eq(actor_open(&actors[victim], 0, "job/4", 10), 0);
    ck_assert_int_eq(actor_acquire(&actors[victim], 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(agent_stop(&agents[victim]), 0);
    actor_end(&actors[victim]);
    snprintf(line, sizeof(line), "%s member rejoin --yes --config %s/holdfast.conf >/dev/null",
             binary_path("holdfast"), agents[victim].folder);
    ck_assert_int_eq(system(line), 0);
    agent_start(&agents[victim]);
    actor_ready(&actors[victim], agents[victim].socket);
    /* A voter counts as up only when it votes. If it counted as up as soon as it is connected, an
     * operator would let the next voter start over too early. */
    for (int i = 0; i < HOSTS; i++) {
        await(i, "member --json", "\"name\":\"host-c\"", "\"state\":\"refused\"");
    }
    for (int i = 0; i < HOSTS; i++) {
        const char *up = "\"name\":\"host-c\",\"address\":\"tcp://127.0.0.1:%u\",\"state\":\"up\"";
        snprintf(line, sizeof(line), up, ports[victim]);
        await(i, "member --json", line, "host-a");
        ck_assert(agent_logged(&agents[victim], "event=voter_votes number=2"));
    }
}
END_TEST

static void await_logged(const struct agent_process *agent, const char *text, unsigned count)
{
    int64_t end_ns = boottime_now() + GUARD_MS * INT64_C(1000000);
    while (agent_logged(agent, text) < count) {
        REQUIRE(boottime_now() < end_ns, "%s: not told", text);
        sleep_ms(20);
    }
}

/* An agent that was stopped for longer than its lease must not report the other voters as
 * silent. */
START_TEST(who_stood_still_accuses_nobody)
{
    struct agent_process *agent = &agents[0];
    await(0, "status", "host-b up", "host-c up");
    agent_pause(agent);
    sleep_ms(7000);
    agent_continue(agent);
    await(0, "status", "session  safe", "host-c up");
    ck_assert(agent_logged(agent, "event=stalled"));
    ck_assert(!agent_logged(agent, "event=voter_silent"));
    ck_assert(!agent_logged(agent, "event=voter_unreachable"));
    /* Now host 2 is really down, and the agent reports that once. After the agent itself was
     * stopped for a while, it must not report host 2 again. */
    agent_kill(&agents[2]);
    await_logged(agent, "event=voter_unreachable", 1);
    agent_pause(agent);
    sleep_ms(2500); /* longer than a third of the lease */
    agent_continue(agent);
    await_logged(agent, "event=stalled", 2);
    sleep_ms(6500);
    ck_assert_uint_eq(agent_logged(agent, "event=voter_unreachable"), 1);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("cell_view");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 180);
    tcase_add_test(tests, every_host_sees_who_holds_and_waits);
    tcase_add_test(tests, a_watcher_is_told_of_other_hosts);
    tcase_add_test(tests, observers_are_shown);
    tcase_add_test(tests, the_dead_are_seen_no_more);
    tcase_add_test(tests, a_voter_that_lost_its_store_is_shown_as_refused);
    tcase_add_test(tests, who_stood_still_accuses_nobody);
    return suite_main("cell_view", tests);
}
