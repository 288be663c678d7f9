/*
 * The agent is killed with kill -9 while clients hold locks and wait for them.
 *
 * If the next agent starts within the lease, every holder still holds, no holder gets LOST, and
 * every waiter is served in order, with rising tokens. If no agent starts within the lease, every
 * holder learns that from its own timer, in time, without an agent.
 */
#include "actor.h"
#include "faults.h"
#include "require.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "../suite_main.h"

enum { HOLDERS = 50, WAITERS = 50, LOCKS = 50, STALLS = 5, TTL_MS = 5000 };

/* For tests in which no lease may end. A slow machine needs seconds to ask fifty processes. */
static const char long_lease[] = "[agent]\nname = dev\ncell = dev\nstate_dir = %D\n"
                                 "socket = %D/agent.sock\n[cell]\nsession_ttl = 20s\n";

static struct agent_process agent;
static struct actor holders[HOLDERS];
static struct actor waiters[WAITERS];
static struct hf_hold holds[LOCKS];

static void start(void)
{
    agent_create(&agent, NULL);
    agent_start(&agent);
}

static void start_long(void)
{
    agent_create(&agent, long_lease);
    agent_start(&agent);
}

static void stop(void)
{
    agent_destroy(&agent);
}

static void lock_name(char *name, size_t size, unsigned lock)
{
    snprintf(name, size, "restart/%u", lock);
}

static void end_all(struct actor *actors, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        actor_end(&actors[i]);
    }
}

static void events_on(struct actor *actor)
{
    REQUIRE(actor_do(actor, &(struct actor_request){.kind = ACTOR_EVENTS}).result == 0, "events");
}

/* Returns the next event within timeout_ms. Its kind is 0 if there is none. */
static struct actor_reply event_within(struct actor *actor, int64_t timeout_ms)
{
    const struct actor_request request = {.kind = ACTOR_EVENT, .timeout_ns = timeout_ms * MS};
    return actor_do(actor, &request);
}

/* Each of the holders takes its own lock. */
static void take_all(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        char name[32];
        lock_name(name, sizeof(name), i);
        actor_ready(&holders[i], agent.socket);
        events_on(&holders[i]);
        REQUIRE(actor_open(&holders[i], 0, name, 200) == 0, "open %s", name);
        REQUIRE(actor_acquire(&holders[i], 0, HF_EXCLUSIVE, GUARD_MS, &holds[i]) == 0, "acquire");
    }
}

static void check_all_hold(unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        REQUIRE(actor_remaining(&holders[i], 0) > 0, "holder %u holds no more", i);
        struct actor_reply reply = event_within(&holders[i], 0);
        REQUIRE(reply.result == 0 || reply.event.kind != HF_EVENT_LOST, "holder %u was told LOST",
                i);
    }
}

/* Waiter i waits for lock i, which holder i has. */
static void wait_all(void)
{
    for (unsigned i = 0; i < WAITERS; i++) {
        char name[32];
        lock_name(name, sizeof(name), i);
        actor_ready(&waiters[i], agent.socket);
        REQUIRE(actor_open(&waiters[i], 0, name, 200) == 0, "open %s", name);
        actor_wait(&waiters[i], 0, HF_EXCLUSIVE);
        actor_await_waiters(&holders[0], name, 1);
    }
}

START_TEST(killed_agent_back_within_the_lease)
{
    take_all(HOLDERS);
    wait_all();
    for (unsigned round = 0; round < 3; round++) {
        agent_kill(&agent);
        check_all_hold(HOLDERS);
        agent_start(&agent);
        check_all_hold(HOLDERS);
    }
    ck_assert(agent_logged(&agent, "session_continued"));
    for (unsigned i = 0; i < HOLDERS; i++) {
        struct actor_reply reply;
        /* the waiter gets nothing as long as the holder holds */
        ck_assert(!actor_receive(&waiters[i], &reply, 0));
        ck_assert_int_eq(actor_release(&holders[i], 0), 0);
        REQUIRE(actor_receive(&waiters[i], &reply, GUARD_MS), "waiter %u is not served", i);
        REQUIRE(reply.result == 0 && reply.hold.token > holds[i].token, "waiter %u: %s, token %llu",
                i, hf_strerror(reply.result), (unsigned long long)reply.hold.token);
        ck_assert_int_eq(actor_release(&waiters[i], 0), 0);
    }
    end_all(holders, HOLDERS);
    end_all(waiters, WAITERS);
}
END_TEST

/* Many waiters of one lock keep their order, although the agent is killed between two
 * hand-overs. */
START_TEST(waiters_served_in_order_over_restarts)
{
    take_all(1);
    for (unsigned i = 0; i < WAITERS; i++) {
        actor_ready(&waiters[i], agent.socket);
        ck_assert_int_eq(actor_open(&waiters[i], 0, "restart/0", 200), 0);
        actor_wait(&waiters[i], 0, HF_EXCLUSIVE);
        actor_await_waiters(&holders[0], "restart/0", i + 1);
    }
    agent_kill(&agent);
    agent_start(&agent);
    uint64_t token = holds[0].token;
    ck_assert_int_eq(actor_release(&holders[0], 0), 0);
    for (unsigned i = 0; i < WAITERS; i++) {
        struct actor_reply reply;
        REQUIRE(actor_receive(&waiters[i], &reply, GUARD_MS), "waiter %u is not served", i);
        REQUIRE(reply.result == 0 && reply.hold.token > token, "waiter %u: %s", i,
                hf_strerror(reply.result));
        token = reply.hold.token;
        if (i % 10 == 5) {
            agent_kill(&agent);
        }
        ck_assert_int_eq(actor_release(&waiters[i], 0), 0); /* a release works with or without an
                                                             * agent */
        if (i % 10 == 7) {
            agent_start(&agent);
        }
        for (unsigned other = i + 2; other < WAITERS; other++) {
            REQUIRE(!actor_receive(&waiters[other], &reply, 0), "waiter %u passed waiter %u", other,
                    i + 1);
        }
    }
    end_all(holders, 1);
    end_all(waiters, WAITERS);
}
END_TEST

/* Without an agent each holder gets JEOPARDY at the lease's end and LOST at the end of the grace
 * period, by its own timer. */
START_TEST(every_holder_is_told_in_time_without_an_agent)
{
    take_all(HOLDERS);
    agent_kill(&agent);
    int64_t killed_ns = boottime_now();
    int64_t unserved_ns[HOLDERS];
    for (unsigned i = 0; i < HOLDERS; i++) { /* the time that a holder has no processor is counted
                                              * from here on */
        unserved_ns[i] = process_unserved_ns(holders[i].pid);
        const struct actor_request wait = {.kind = ACTOR_EVENT,
                                           .timeout_ns = (TTL_MS + GUARD_MS) * MS};
        actor_send(&holders[i], &wait);
    }
    for (unsigned i = 0; i < HOLDERS; i++) {
        struct actor_reply reply;
        REQUIRE(actor_receive(&holders[i], &reply, TTL_MS + 2 * GUARD_MS), "holder %u", i);
        REQUIRE(reply.result == 1 && reply.event.kind == HF_EVENT_JEOPARDY &&
                    reply.event.lock == 0 && reply.event.token == holds[i].token,
                "holder %u was told %d", i, (int)reply.event.kind);
        /* The agent may have renewed the lease just before its death, so the lease ends one ttl
         * later at most. Time in which the holder had no processor does not count. */
        int64_t late_ns = process_unserved_ns(holders[i].pid) - unserved_ns[i];
        REQUIRE(reply.time_ns - late_ns < killed_ns + (TTL_MS + 3000) * MS,
                "holder %u was told too late", i);
        REQUIRE(actor_remaining(&holders[i], 0) <= 0, "told JEOPARDY, but it counts");
    }
    struct actor_reply lost = event_within(&holders[0], TTL_MS + GUARD_MS);
    ck_assert_int_eq(lost.result, 1);
    ck_assert_int_eq(lost.event.kind, HF_EVENT_LOST);
    ck_assert_int_eq(actor_release(&holders[0], 0), HF_ELOST);
    ck_assert_int_eq(actor_release(&holders[0], 0), HF_ENOTHELD);
    end_all(holders, HOLDERS);
}
END_TEST

/* If an agent is back within the grace period, holds are in jeopardy, and then safe again. */
START_TEST(jeopardy_ends_when_the_agent_is_back_within_the_grace_period)
{
    take_all(2);
    agent_kill(&agent);
    struct actor_reply reply = event_within(&holders[0], TTL_MS + GUARD_MS);
    ck_assert_int_eq(reply.event.kind, HF_EVENT_JEOPARDY);
    agent_start(&agent);
    reply = event_within(&holders[0], GUARD_MS);
    ck_assert_int_eq(reply.result, 1);
    if (agent_logged(&agent, "session_continued")) { /* otherwise the machine was too slow, and
                                                      * there is a new session */
        ck_assert_int_eq(reply.event.kind, HF_EVENT_SAFE);
        ck_assert(actor_remaining(&holders[0], 0) > 0);
        ck_assert_int_eq(actor_release(&holders[0], 0), 0);
    } else {
        ck_assert_int_eq(reply.event.kind, HF_EVENT_LOST);
    }
    end_all(holders, 2);
}
END_TEST

/* After SIGTERM the next agent goes on with all holds. */
START_TEST(stopped_agent_keeps_every_hold)
{
    take_all(5);
    int status = agent_stop(&agent);
    ck_assert_int_eq(status, 0);
    check_all_hold(5);
    agent_start(&agent);
    check_all_hold(5);
    for (unsigned i = 0; i < 5; i++) {
        ck_assert_int_eq(actor_release(&holders[i], 0), 0);
    }
    end_all(holders, 5);
}
END_TEST

static int64_t memory_of(const char *path)
{
    struct stat status;
    REQUIRE(stat(path, &status) == 0, "%s: %s", path, strerror(errno));
    return (int64_t)status.st_blocks * 512;
}

/* Waits until the agent has removed all its clients, with their records. */
static void await_no_clients(void)
{
    char path[96];
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    snprintf(path, sizeof(path), "%s/clients", agent.folder);
    for (unsigned left = 1; left > 0;) {
        DIR *folder = opendir(path);
        REQUIRE(folder != NULL, "%s: %s", path, strerror(errno));
        left = 0;
        for (const struct dirent *entry; (entry = readdir(folder)) != NULL;) {
            left += entry->d_name[0] != '.';
        }
        closedir(folder);
        REQUIRE(left == 0 || boottime_now() < end_ns, "%u clients are left", left);
        sleep_ms(left == 0 ? 0 : 20);
    }
}

/* When the agent stops, it gives back the empty pages of regions that no process maps. The next
 * agent goes on with the session, and no token comes twice. */
START_TEST(stopped_agent_without_clients_keeps_little_memory)
{
    char path[512];
    agent_region_path(&agent, "default", path, sizeof(path));
    int64_t whole = memory_of(path);
    take_all(1);
    ck_assert_int_eq(actor_release(&holders[0], 0), 0);
    ck_assert_int_eq(agent_stop(&agent), 0);
    ck_assert_int_eq(memory_of(path), whole); /* a process still maps the region */
    agent_start(&agent);
    actor_end(&holders[0]);
    await_no_clients();
    ck_assert_int_eq(agent_stop(&agent), 0);
    ck_assert_int_lt(memory_of(path), whole / 4);
    uint64_t token = holds[0].token;
    agent_start(&agent);
    ck_assert_int_eq(memory_of(path), whole);
    ck_assert(agent_logged(&agent, "session_continued"));
    take_all(1);
    ck_assert_uint_gt(holds[0].token, token);
    ck_assert_int_eq(actor_release(&holders[0], 0), 0);
    actor_end(&holders[0]);
}
END_TEST

/* A holder dies while no agent runs. The next agent notices the death, and closes the holder's lock
 * for its lock-delay. */
START_TEST(holder_that_died_without_an_agent)
{
    take_all(3);
    actor_ready(&waiters[0], agent.socket);
    ck_assert_int_eq(actor_open(&waiters[0], 0, "restart/1", 200), 0);
    actor_wait(&waiters[0], 0, HF_EXCLUSIVE);
    actor_await_waiters(&holders[0], "restart/1", 1);
    agent_kill(&agent);
    actor_kill(&holders[1]);
    int64_t died_ns = boottime_now();
    struct actor_reply reply;
    ck_assert(!actor_receive(&waiters[0], &reply, 300)); /* no agent notices the holder's death
                                                          * yet */
    agent_start(&agent);
    REQUIRE(actor_receive(&waiters[0], &reply, GUARD_MS), "the waiter is stuck");
    ck_assert_int_eq(reply.result, 0);
    ck_assert(reply.hold.token > holds[1].token);
    ck_assert(reply.time_ns >= died_ns + 200 * MS);
    ck_assert(actor_remaining(&holders[0], 0) > 0);
    ck_assert(actor_remaining(&holders[2], 0) > 0);
    end_all(holders, 3);
    actor_end(&waiters[0]);
}
END_TEST

static void in_folder(const char *command)
{
    char text[256];
    snprintf(text, sizeof(text), "cd %s && %s", agent.folder, command);
    REQUIRE(system(text) == 0, "%s", text);
}

/* Somebody puts an old copy of the store back within the lease. The region is unchanged, and the
 * copy does not know which lock each slot belongs to. So the agent must not go on with the
 * session. */
START_TEST(old_copy_of_the_store_does_not_go_on_with_the_session)
{
    take_all(1);
    agent_kill(&agent);
    in_folder("mkdir copy && cp -p holdfast.db* copy");
    agent_start(&agent);
    REQUIRE(agent_logged(&agent, "event=session_continued"), "the store is as it was");
    actor_ready(&holders[1], agent.socket);
    REQUIRE(actor_open(&holders[1], 0, "restart/new", 200) == 0, "open");
    REQUIRE(actor_acquire(&holders[1], 0, HF_EXCLUSIVE, GUARD_MS, &holds[1]) == 0, "acquire");
    agent_kill(&agent);
    in_folder("rm holdfast.db* && cp -p copy/* . && rm -r copy");
    agent_start(&agent);
    REQUIRE(agent_logged(&agent, "is an old copy: commit"), "the session goes on");
    end_all(holders, 2);
}
END_TEST

/* Starts an agent with a file of faults, whose path it writes to `path`, and a first holder.
 * Returns the faults. */
static struct faults *start_with_faults(char *path, size_t size)
{
    agent_kill(&agent);
    snprintf(path, size, "%s/faults", agent.folder);
    struct faults *faults = faults_create(path);
    REQUIRE(faults != NULL, "%s: %s", path, strerror(errno));
    agent.faults = path;
    agent_start(&agent);
    agent.faults = NULL;
    actor_ready(&holders[0], agent.socket);
    REQUIRE(actor_open(&holders[0], 0, "restart/turn", 200) == 0, "open");
    REQUIRE(actor_acquire(&holders[0], 0, HF_EXCLUSIVE, GUARD_MS, &holds[0]) == 0, "acquire");
    return faults;
}

/* Returns whether the agent logs within a second that it stalled in a turn. */
static bool tells_stall(void)
{
    int64_t end_ns = boottime_now() + 1000 * MS;
    while (!agent_logged(&agent, "event=stalled turn=") && boottime_now() < end_ns) {
        sleep_ms(20);
    }
    return agent_logged(&agent, "event=stalled turn=");
}

/* The agent stalls in the middle of a turn, while it sends an answer. It logs that. On a busy
 * machine the delay may hit a message that the agent sends between two turns. Then the test delays
 * the answer to another OPEN. */
START_TEST(a_stall_within_a_turn_is_told)
{
    char path[96];
    bool told = false;
    struct faults *faults = start_with_faults(path, sizeof(path));
    REQUIRE(!agent_logged(&agent, "event=stalled turn="), "it stood still before");
    for (unsigned i = 1; i <= STALLS && !told; i++) {
        char name[32];
        snprintf(name, sizeof(name), "restart/answered-%u", i);
        atomic_store(&faults->hosts[agent.host].send_delay_ms, TTL_MS / 3 + 500);
        REQUIRE(actor_open(&holders[0], i, name, 200) == 0, "open");
        REQUIRE(atomic_load(&faults->hosts[agent.host].send_delay_ms) == 0, "it did not stall");
        told = tells_stall();
    }
    REQUIRE(told, "a stall of %d ms was not told", TTL_MS / 3 + 500);
    REQUIRE(actor_remaining(&holders[0], 0) > 0, "the hold was lost");
    munmap(faults, sizeof(*faults));
    end_all(holders, 1);
}
END_TEST

/* The only voter of a cell has a clock with a wrong rate. Its host loses no hold, because the voter
 * counts its own host's lease by the same clock. No log line may say that holds are at risk. */
START_TEST(a_clock_that_is_astray_costs_an_only_voter_no_hold)
{
    char path[128];
    char said[8192];
    struct faults *faults = start_with_faults(path, sizeof(path));
    atomic_store(&faults->hosts[agent.host].adjusted_ppm, 200000);
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (!agent_logged(&agent, "event=clock_rate ppm=200000")) {
        REQUIRE(boottime_now() < end_ns, "it was not told");
        sleep_ms(20);
    }
    sleep_ms(TTL_MS); /* in this time the agent checks the clock at least twice */
    REQUIRE(actor_remaining(&holders[0], 0) > 0, "the hold was lost");
    REQUIRE(agent_logged(&agent, "depend on this one clock and go on"), "the wrong was told");
    REQUIRE(!agent_logged(&agent, "no hold of this host counts"), "the wrong was told");
    snprintf(said, sizeof(said), FAULTS_FILE "=%s " FAULTS_HOST "=%u LD_PRELOAD=%s", path,
             agent.host, binary_path("../tests/libholdfast_faults.so"));
    /* a second snprintf(), because binary_path() has only one buffer */
    size_t used = strlen(said);
    snprintf(said + used, sizeof(said) - used, " %s doctor -s %s", binary_path("holdfast"),
             agent.socket);
    FILE *pipe = popen(said, "r");
    REQUIRE(pipe != NULL, "popen");
    used = fread(said, 1, sizeof(said) - 1, pipe);
    said[used] = '\0';
    pclose(pipe);
    REQUIRE(strstr(said, "warn   clock        the kernel adjusts its clock by 200000 ppm"), "%s",
            said);
    REQUIRE(strstr(said, "go on"), "%s", said);
    munmap(faults, sizeof(*faults));
    end_all(holders, 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("restart");
    TCase *tests = tcase_create("agent killed");
    TCase *longer = tcase_create("agent killed, a long lease");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 150);
    tcase_add_checked_fixture(longer, start_long, stop);
    tcase_set_timeout(longer, 150);
    tcase_add_test(longer, killed_agent_back_within_the_lease);
    tcase_add_test(longer, waiters_served_in_order_over_restarts);
    tcase_add_test(tests, every_holder_is_told_in_time_without_an_agent);
    tcase_add_test(tests, jeopardy_ends_when_the_agent_is_back_within_the_grace_period);
    tcase_add_test(longer, stopped_agent_keeps_every_hold);
    tcase_add_test(tests, stopped_agent_without_clients_keeps_little_memory);
    tcase_add_test(longer, holder_that_died_without_an_agent);
    tcase_add_test(longer, old_copy_of_the_store_does_not_go_on_with_the_session);
    tcase_add_test(tests, a_stall_within_a_turn_is_told);
    tcase_add_test(tests, a_clock_that_is_astray_costs_an_only_voter_no_hold);
    suite_add_tcase(suite, longer);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
