/*
 * Tests one cell of three real agents on this machine's loopback: a lock excludes across hosts, its
 * tokens rise, a waiter on another host is served, and the death of a minority stops no host. Also
 * tests sequencers, agents that do not belong to the cell, and `holdfast doctor`.
 */
#include "../suite_main.h"
#include "actor.h"
#include "require.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { HOSTS = 3, NAMES = 24, ROUNDS = 10, TRIES = 10, AT_ONCE_MS = 250 };

static struct agent_process agents[HOSTS];
static struct actor actors[HOSTS];
static unsigned ports[HOSTS + 1]; /* the last port is for an observer */

static void describe(int host, const char *ttl, char *text, size_t size)
{
    snprintf(text, size,
             "[agent]\nname = host-%c\ncell = smoke\nstate_dir = %%D/state\n"
             "socket = %%D/agent.sock\n"
             "[cell]\nsession_ttl = %s\n"
             "[voters]\nhost-c = tcp://127.0.0.1:%u\nhost-a = tcp://127.0.0.1:%u\n"
             "host-b = tcp://127.0.0.1:%u\n",
             'a' + host, ttl, ports[2], ports[0], ports[1]);
}

static void start_with(const char *ttl)
{
    char text[512];
    agent_free_ports(ports, HOSTS + 1);
    for (int i = 0; i < HOSTS; i++) {
        describe(i, ttl, text, sizeof(text));
        agent_create(&agents[i], text);
        agent_launch(&agents[i]);
    }
    for (int i = 0; i < HOSTS; i++) {
        agent_await_socket(&agents[i]);
        actor_ready(&actors[i], agents[i].socket);
    }
}

static void start(void)
{
    start_with("5s");
}

/* Starts the cell with a long session_ttl, for tests in which no session may end, even on a busy
 * machine. */
static void start_long(void)
{
    start_with("20s");
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

/* Takes the lock, checks that its token rose, and releases it. */
static void take_once(int host, uint32_t lock, uint64_t *token)
{
    struct hf_hold hold;
    int result = actor_acquire(&actors[host], lock, HF_EXCLUSIVE, GUARD_MS, &hold);
    REQUIRE(result == 0, "host %d, lock %u: %s", host, lock, hf_strerror(result));
    REQUIRE(hold.token > *token, "token %llu after %llu", (unsigned long long)hold.token,
            (unsigned long long)*token);
    *token = hold.token;
    REQUIRE(actor_release(&actors[host], lock) == 0, "release");
}

/* Waits until a host's agent knows the lock's holder. */
static void await_shown(int host, const char *name, int64_t holder_pid)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (actor_show(&actors[host], name).holder_pid != holder_pid) {
        REQUIRE(boottime_now() < end_ns, "host %d does not learn of %s", host, name);
        sleep_ms(20);
    }
}

START_TEST(one_lock_on_three_hosts)
{
    uint64_t token = 0;
    for (int i = 0; i < HOSTS; i++) {
        ck_assert_int_eq(actor_open(&actors[i], 0, "job", 10), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < HOSTS; i++) {
            take_once(i, 0, &token);
        }
    }
    struct hf_hold hold;
    ck_assert_int_eq(actor_acquire(&actors[0], 0, HF_EXCLUSIVE, GUARD_MS, &hold), 0);
    ck_assert_int_eq(actor_acquire(&actors[1], 0, HF_EXCLUSIVE, 300, NULL), HF_ETIMEDOUT);
    ck_assert_int_eq(actor_acquire(&actors[2], 0, HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
    await_shown(2, "job", actors[0].pid);
    struct actor_reply reply;
    actor_wait(&actors[1], 0, HF_EXCLUSIVE);
    ck_assert(!actor_receive(&actors[1], &reply, 300));
    ck_assert_int_eq(actor_release(&actors[0], 0), 0);
    ck_assert(actor_receive(&actors[1], &reply, GUARD_MS));
    ck_assert_int_eq(reply.result, 0);
    ck_assert_uint_gt(reply.hold.token, hold.token);
    ck_assert_int_eq(actor_release(&actors[1], 0), 0);
}
END_TEST

/* Tries to acquire lock 0 again and again while another host holds it. Each try is refused. A try
 * that waited in vain for an answer of that host would take a second. Returns the shortest time of
 * a try in ms, because single tries may be slow on a busy machine. */
static int64_t try_in_vain(int host, enum hf_mode mode)
{
    int64_t shortest_ms = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        int64_t began_ns = boottime_now();
        ck_assert_int_eq(actor_acquire(&actors[host], 0, mode, 0, NULL), HF_EBUSY);
        int64_t took_ms = (boottime_now() - began_ns) / MS;
        shortest_ms = took_ms < shortest_ms ? took_ms : shortest_ms;
    }
    return shortest_ms;
}

/* Host 0 holds the lock. Each run of this test uses another name, so that different voters
 * coordinate the lock. */
START_TEST(a_try_of_what_another_host_holds_is_answered_at_once)
{
    char name[32];
    struct actor_reply reply;
    snprintf(name, sizeof(name), "tried-%d", _i);
    for (int i = 0; i < HOSTS; i++) {
        ck_assert_int_eq(actor_open(&actors[i], 0, name, 10), 0);
    }
    ck_assert_int_eq(actor_acquire(&actors[0], 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_lt(try_in_vain(1, HF_EXCLUSIVE), AT_ONCE_MS);
    ck_assert_int_lt(try_in_vain(2, HF_SHARED), AT_ONCE_MS);
    actor_wait(&actors[1], 0, HF_EXCLUSIVE);
    ck_assert(!actor_receive(&actors[1], &reply, 300));
    ck_assert_int_lt(try_in_vain(2, HF_EXCLUSIVE), AT_ONCE_MS);
    ck_assert_int_gt(actor_remaining(&actors[0], 0), 0);
    ck_assert_int_eq(actor_release(&actors[0], 0), 0);
    ck_assert(actor_receive(&actors[1], &reply, GUARD_MS));
    ck_assert_int_eq(reply.result, 0);
    ck_assert_int_eq(actor_release(&actors[1], 0), 0);
}
END_TEST

START_TEST(a_try_has_what_is_idle_on_another_host)
{
    uint64_t token = 0;
    for (int i = 0; i < HOSTS; i++) {
        ck_assert_int_eq(actor_open(&actors[i], 0, "idle", 10), 0);
    }
    take_once(0, 0, &token);
    for (int i = 1; i <= 2 * HOSTS; i++) {
        struct hf_hold hold;
        ck_assert_int_eq(actor_acquire(&actors[i % HOSTS], 0, HF_EXCLUSIVE, 0, &hold), 0);
        ck_assert_uint_gt(hold.token, token);
        token = hold.token;
        ck_assert_int_eq(actor_release(&actors[i % HOSTS], 0), 0);
    }
    /* Readers on any host share the lock with readers, but exclude a writer. */
    ck_assert_int_eq(actor_acquire(&actors[1], 0, HF_SHARED, 0, NULL), 0);
    ck_assert_int_eq(actor_acquire(&actors[2], 0, HF_SHARED, 0, NULL), 0);
    ck_assert_int_lt(try_in_vain(0, HF_EXCLUSIVE), AT_ONCE_MS);
    ck_assert_int_eq(actor_acquire(&actors[0], 0, HF_SHARED, 0, NULL), 0);
}
END_TEST

/* Three hosts have held the lock as readers, so each has a share of the lock's grant. A reader that
 * becomes a writer waits for the readers of other hosts. It does not wait for shares that no reader
 * uses. */
START_TEST(an_upgrade_waits_for_readers_on_other_hosts_only)
{
    struct actor_request open = {.kind = ACTOR_OPEN,
                                 .options = {.size = sizeof(open.options), .flags = HF_REENTRANT}};
    snprintf(open.name, sizeof(open.name), "upgraded");
    for (int i = 0; i < HOSTS; i++) {
        ck_assert_int_eq(actor_do(&actors[i], &open).result, 0);
        ck_assert_int_eq(actor_acquire(&actors[i], 0, HF_SHARED, GUARD_MS, NULL), 0);
    }
    ck_assert_int_eq(actor_release(&actors[2], 0), 0);
    ck_assert_int_eq(actor_acquire(&actors[0], 0, HF_EXCLUSIVE, 300, NULL), HF_ETIMEDOUT);
    ck_assert_int_gt(actor_remaining(&actors[1], 0), 0);
    ck_assert_int_eq(actor_release(&actors[1], 0), 0);
    ck_assert_int_eq(actor_acquire(&actors[0], 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
}
END_TEST

/* Returns a host's answer to hf_check_sequencer() for the sequencer. */
static int check(int host, const char *sequencer)
{
    struct actor_request request = {.kind = ACTOR_CHECK};
    snprintf(request.name, sizeof(request.name), "%s", sequencer);
    return actor_do(&actors[host], &request).result;
}

/* Host `holder` takes lock 0 in that mode. Each host must confirm the sequencer during the hold,
 * and refuse it after the release. */
static void check_everywhere(int holder, enum hf_mode mode)
{
    struct actor_reply written;
    ck_assert_int_eq(actor_acquire(&actors[holder], 0, mode, GUARD_MS, NULL), 0);
    written = actor_do(&actors[holder], &(struct actor_request){.kind = ACTOR_SEQUENCER});
    ck_assert_int_eq(written.result, 0);
    for (int i = 0; i < HOSTS; i++) {
        ck_assert_int_eq(check(i, written.text), 0);
    }
    ck_assert_int_eq(actor_release(&actors[holder], 0), 0);
    for (int i = 0; i < HOSTS; i++) {
        ck_assert_int_eq(check(i, written.text), HF_ESTALE);
    }
}

START_TEST(sequencers_are_checked_on_every_host)
{
    for (int i = 0; i < HOSTS; i++) {
        ck_assert_int_eq(actor_open(&actors[i], 0, "job", 10), 0);
        check_everywhere(i, HF_EXCLUSIVE);
        check_everywhere(i, HF_SHARED);
    }
    ck_assert_int_eq(check(0, "hf1/smoke/x/1/nobody.1.1/job"), HF_EUNKNOWN);
    ck_assert_int_eq(check(0, "hf1/other/x/1/host-a.1.1/job"), HF_EINVAL);
}
END_TEST

START_TEST(readers_on_three_hosts)
{
    struct actor_reply reply;
    for (int i = 0; i < HOSTS; i++) {
        ck_assert_int_eq(actor_open(&actors[i], 0, "page", 10), 0);
    }
    for (int i = 0; i < HOSTS; i++) { /* the readers hold the lock at the same time */
        ck_assert_int_eq(actor_acquire(&actors[i], 0, HF_SHARED, GUARD_MS, NULL), 0);
    }
    for (int i = 1; i < HOSTS; i++) {
        ck_assert_int_eq(actor_release(&actors[i], 0), 0);
    }
    actor_wait(&actors[1], 0, HF_EXCLUSIVE);
    ck_assert(!actor_receive(&actors[1], &reply, 300));
    ck_assert_int_eq(actor_release(&actors[0], 0), 0);
    ck_assert(actor_receive(&actors[1], &reply, GUARD_MS));
    ck_assert_int_eq(reply.result, 0);
}
END_TEST

static void create_observer(struct agent_process *observer, const char *cell, const char *ttl)
{
    char text[512];
    snprintf(text, sizeof(text),
             "[agent]\nname = watcher\ncell = %s\nrole = observer\nstate_dir = %%D/state\n"
             "socket = %%D/agent.sock\n"
             "[cell]\nsession_ttl = %s\nlisten = tcp://127.0.0.1:%u\n"
             "[voters]\nhost-a = tcp://127.0.0.1:%u\nhost-b = tcp://127.0.0.1:%u\n"
             "host-c = tcp://127.0.0.1:%u\n",
             cell, ttl, ports[HOSTS], ports[0], ports[1], ports[2]);
    agent_create(observer, text);
}

static void await_logged(const struct agent_process *agent, const char *text)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (!agent_logged(agent, text)) {
        REQUIRE(boottime_now() < end_ns, "not logged: %s", text);
        sleep_ms(20);
    }
}

/* A stranger is an agent of another cell, or an agent with another session_ttl. It gets no lease,
 * and the logs say why. */
START_TEST(strangers_are_refused_in_words)
{
    struct agent_process stranger;
    create_observer(&stranger, "other", "5s");
    agent_launch(&stranger);
    await_logged(&stranger, "event=voter_silent");
    await_logged(&agents[0], "it belongs to cell other, this agent to smoke");
    ck_assert(!agent_logged(&stranger, "state=safe"));
    agent_await_socket(&stranger); /* the stranger serves its socket, so that `holdfast doctor`
                                    * can ask it */
    agent_destroy(&stranger);
    create_observer(&stranger, "smoke", "3s");
    agent_launch(&stranger);
    await_logged(&stranger, "session_ttl: 3s here, 5s there");
    ck_assert(agent_logged(&stranger, "event=rules_differ agent=host-"));
    for (int i = 0; i < HOSTS; i++) { /* no line of this event may have the field number= */
        char counted[64];
        snprintf(counted, sizeof(counted), "event=rules_differ agent=host-%c number=", 'a' + i);
        ck_assert(!agent_logged(&stranger, counted));
    }
    agent_await_socket(&stranger);
    ck_assert(!agent_logged(&stranger, "state=safe"));
    agent_destroy(&stranger);
}
END_TEST

START_TEST(an_observer_takes_part)
{
    struct agent_process observer;
    struct actor actor;
    struct hf_hold hold;
    create_observer(&observer, "smoke", "20s");
    agent_start(&observer);
    actor_ready(&actor, observer.socket);
    ck_assert_int_eq(actor_open(&actor, 0, "job", 10), 0);
    ck_assert_int_eq(actor_open(&actors[0], 0, "job", 10), 0);
    ck_assert_int_eq(actor_acquire(&actor, 0, HF_EXCLUSIVE, GUARD_MS, &hold), 0);
    ck_assert_int_eq(actor_acquire(&actors[0], 0, HF_EXCLUSIVE, 300, NULL), HF_ETIMEDOUT);
    await_shown(1, "job", actor.pid);
    ck_assert_int_eq(actor_release(&actor, 0), 0);
    take_once(0, 0, &hold.token);
    actor_end(&actor);
    agent_destroy(&observer);
}
END_TEST

/* Each host from host `from` on takes the lock of each name in turn. Together the names involve all
 * coordinators. */
static void use_all_names(int from, uint64_t tokens[NAMES])
{
    for (uint32_t lock = 1; lock <= NAMES; lock++) {
        char name[32];
        snprintf(name, sizeof(name), "name-%u", lock);
        for (int i = from; i < HOSTS; i++) {
            int result = actor_open(&actors[i], lock, name, 10);
            REQUIRE(result == 0, "open %s on host %d: %s", name, i, hf_strerror(result));
            take_once(i, lock, &tokens[lock - 1]);
            result = actor_do(&actors[i],
                              &(struct actor_request){.kind = ACTOR_CLOSE, .lock = lock})
                         .result;
            REQUIRE(result == 0, "close: %s", hf_strerror(result));
        }
    }
}

START_TEST(a_voter_dies_and_comes_back)
{
    uint64_t tokens[NAMES] = {0};
    struct hf_hold hold;
    struct hf_hold next;
    use_all_names(0, tokens);
    ck_assert_int_eq(actor_open(&actors[0], 0, "held", 10), 0);
    ck_assert_int_eq(actor_open(&actors[1], 0, "held", 10), 0);
    ck_assert_int_eq(actor_acquire(&actors[0], 0, HF_EXCLUSIVE, GUARD_MS, &hold), 0);
    agent_kill(&agents[0]);
    int64_t killed_ns = boottime_now();
    /* The hold on host 0 counts until its last deadline. So host 1 gets the lock only after that
     * deadline. */
    ck_assert_int_eq(actor_acquire(&actors[1], 0, HF_EXCLUSIVE, GUARD_MS, &next), 0);
    ck_assert_int_gt(next.deadline_ns, hold.deadline_ns);
    ck_assert_int_ge(boottime_now(), hold.deadline_ns);
    ck_assert_uint_gt(next.token, hold.token);
    ck_assert_int_le(actor_remaining(&actors[0], 0), 0);
    ck_assert_int_eq(actor_release(&actors[1], 0), 0);
    printf("the dead host's lock: %.1f s\n", (double)(boottime_now() - killed_ns) / 1e9);
    use_all_names(1, tokens);
    agent_start(&agents[0]);
    actor_end(&actors[0]);
    actor_ready(&actors[0], agents[0].socket);
    use_all_names(0, tokens);
}
END_TEST

START_TEST(all_are_killed_and_come_back)
{
    uint64_t tokens[NAMES] = {0};
    use_all_names(0, tokens);
    for (int i = 0; i < HOSTS; i++) {
        agent_kill(&agents[i]);
        actor_end(&actors[i]);
    }
    for (int i = 0; i < HOSTS; i++) {
        agent_launch(&agents[i]);
    }
    for (int i = 0; i < HOSTS; i++) {
        agent_await_socket(&agents[i]);
        actor_ready(&actors[i], agents[i].socket);
    }
    use_all_names(0, tokens);
}
END_TEST

/* Runs `holdfast doctor` on a host. Returns the command's exit status. */
static int ask_doctor(const struct agent_process *agent, char *out, size_t size)
{
    char command[256];
    snprintf(command, sizeof(command), "%s doctor -s %s", binary_path("holdfast"), agent->socket);
    FILE *pipe = popen(command, "r");
    REQUIRE(pipe != NULL, "popen");
    size_t used = fread(out, 1, size - 1, pipe);
    out[used] = '\0';
    return WEXITSTATUS(pclose(pipe));
}

/* Waits until the doctor prints that text, because the agent updates its facts only every few
 * seconds. */
static int await_diagnosis(const struct agent_process *agent, const char *said)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    char text[8192];
    int status = ask_doctor(agent, text, sizeof(text));
    while (strstr(text, said) == NULL) {
        REQUIRE(boottime_now() < end_ns, "%s not in\n%s", said, text);
        sleep_ms(200);
        status = ask_doctor(agent, text, sizeof(text));
    }
    return status;
}

START_TEST(the_doctor_sees_who_is_missing)
{
    (void)await_diagnosis(&agents[1], "3 of 3 answer"); /* a slow disk may add a warning */
    (void)await_diagnosis(&agents[1], "host-a: its clock against this one");
    agent_kill(&agents[0]);
    ck_assert_int_ge(await_diagnosis(&agents[1], "host-a: it cannot be reached"), 1);
    (void)await_diagnosis(&agents[1], "2 of 3 answer");
    agent_kill(&agents[2]);
    ck_assert_int_eq(await_diagnosis(&agents[1], "1 of 3 answer"), 2);
    char text[8192];
    (void)ask_doctor(&agents[1], text, sizeof(text)); /* the agent's own slow disk may add a
                                                       * warning, which this test ignores */
    ck_assert_msg(strstr(text, "does not vote") == NULL, "%s", text);
    agent_kill(&agents[1]);
    ck_assert_int_eq(await_diagnosis(&agents[1], "remedy"), 69);
}
END_TEST

/* The only voter of a cell receives no heartbeats, because it coordinates all partitions itself. */
START_TEST(the_doctor_finds_an_only_voter_well)
{
    struct agent_process alone;
    char text[256];
    snprintf(text, sizeof(text),
             "[agent]\nname = alone\ncell = alone\nstate_dir = %%D/state\n"
             "socket = %%D/agent.sock\n[cell]\nlisten = tcp://127.0.0.1:%u\n",
             ports[HOSTS]);
    agent_create(&alone, text);
    agent_start(&alone);
    (void)await_diagnosis(&alone, "ok     coordinators of 256 partitions: alone 256");
    agent_destroy(&alone);
}
END_TEST

START_TEST(another_configuration_is_refused)
{
    char text[512];
    char command[256];
    ck_assert_int_eq(agent_stop(&agents[2]), 0);
    describe(2, "3s", text, sizeof(text));
    agent_configure(&agents[2], text);
    snprintf(command, sizeof(command), "%s --config %s/holdfast.conf 2>>%s",
             binary_path("holdfastd"), agents[2].folder, agents[2].log);
    int status = system(command);
    ck_assert_int_eq(WEXITSTATUS(status), 78);
    ck_assert(agent_logged(&agents[2], "session_ttl"));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cell_smoke");
    TCase *calm = tcase_create("calm");
    TCase *tests = tcase_create("cell");
    tcase_add_checked_fixture(calm, start_long, stop);
    tcase_set_timeout(calm, 180);
    tcase_add_test(calm, one_lock_on_three_hosts);
    tcase_add_loop_test(calm, a_try_of_what_another_host_holds_is_answered_at_once, 0, 6);
    tcase_add_test(calm, a_try_has_what_is_idle_on_another_host);
    tcase_add_test(calm, an_upgrade_waits_for_readers_on_other_hosts_only);
    tcase_add_test(calm, sequencers_are_checked_on_every_host);
    tcase_add_test(calm, readers_on_three_hosts);
    tcase_add_test(calm, an_observer_takes_part);
    tcase_add_test(calm, all_are_killed_and_come_back);
    suite_add_tcase(suite, calm);
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 180);
    tcase_add_test(tests, strangers_are_refused_in_words);
    tcase_add_test(tests, a_voter_dies_and_comes_back);
    tcase_add_test(tests, the_doctor_sees_who_is_missing);
    tcase_add_test(tests, the_doctor_finds_an_only_voter_well);
    tcase_add_test(tests, another_configuration_is_refused);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
