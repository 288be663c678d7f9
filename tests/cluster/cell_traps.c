/*
 * Tests that a cell has none of the faults across hosts that other lock services have had. Each
 * fault has a test of its own. (The simulator tests the faults that only thousands of runs can
 * show.)
 */
#include "../emulation.h"
#include "../suite_main.h"
#include "actor.h"
#include "cell.h"
#include "require.h"
#include "served_first.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>

enum { HOSTS = 3, SHORT_MS = 20, DEAD_MS = CELL_TTL_MS + CELL_GRACE_MS + 700, CALM_TTL_MS = 10000 };

static struct cell cell;
static struct actor actors[HOSTS];

static void start_with(unsigned ttl_ms)
{
    /* a host without faults must renew its lease within CELL_TTL_MS, so it needs the processor
     * first */
    be_served_first();
    cell_options.ttl_ms = ttl_ms;
    cell_start(&cell, HOSTS, 0);
    for (unsigned i = 0; i < HOSTS; i++) {
        actor_ready(&actors[i], cell.agents[i].socket);
    }
}

static void start(void)
{
    start_with(CELL_TTL_MS);
}

/* Starts the cell with a long session_ttl, so that no session ends because the machine is busy. */
static void start_calm(void)
{
    start_with(CALM_TTL_MS);
}

static void stop(void)
{
    for (unsigned i = 0; i < HOSTS; i++) {
        actor_end(&actors[i]);
    }
    cell_stop(&cell);
}

static void open_all(const char *name, int64_t lock_delay_ms)
{
    for (unsigned i = 0; i < HOSTS; i++) {
        ck_assert_int_eq(actor_open(&actors[i], 0, name, lock_delay_ms), 0);
    }
}

static struct hf_hold take(unsigned host)
{
    struct hf_hold hold;
    int result = actor_acquire(&actors[host], 0, HF_EXCLUSIVE, GUARD_MS, &hold);
    REQUIRE(result == 0, "host %u: %s", host, hf_strerror(result));
    return hold;
}

static struct actor_reply served(unsigned host)
{
    struct actor_reply reply;
    REQUIRE(actor_receive(&actors[host], &reply, GUARD_MS), "host %u waits for ever", host);
    REQUIRE(reply.result == 0, "host %u got %s", host, hf_strerror(reply.result));
    return reply;
}

/* The waiter that has waited longest is next, on whatever host it is. A holder that releases the
 * lock and requests it again goes to the end of the queue. */
START_TEST(first_come_first_served_across_hosts)
{
    open_all("queue", SHORT_MS);
    uint64_t token = take(0).token;
    actor_wait(&actors[1], 0, HF_EXCLUSIVE);
    actor_await_waiters(&actors[0], "queue", 1); /* host 0 knows of the waiter on host 1 */
    sleep_ms(300); /* in this time host 1 repeats its request by another route */
    actor_wait(&actors[2], 0, HF_EXCLUSIVE);
    actor_await_waiters(&actors[0], "queue", 2);
    sleep_ms(300);
    for (unsigned turn = 0; turn < 12; turn++) {
        unsigned holder = turn % HOSTS;
        ck_assert_int_eq(actor_release(&actors[holder], 0), 0);
        actor_wait(&actors[holder], 0, HF_EXCLUSIVE);
        struct actor_reply reply = served((holder + 1) % HOSTS);
        ck_assert_uint_gt(reply.hold.token, token);
        token = reply.hold.token;
        actor_await_waiters(&actors[(holder + 1) % HOSTS], "queue", 2);
        sleep_ms(200);
    }
}
END_TEST

/*
 * etcd's Go client counts its lease from the arrival of the answer to a renewal. A holder must
 * count its lease from the sending of the renewal. Here an answer arrives twice DELAY_MS after the
 * renewal was sent. So a holder that counts from the arrival would report twice DELAY_MS more than
 * it has left.
 */
START_TEST(trap_lease_counted_from_the_answer)
{
    enum { DELAY_MS = 100, SAMPLES = 150 };
    int64_t most_ns = 0;
    open_all("leased", SHORT_MS);
    network_delay(&cell.network, DELAY_MS);
    sleep_ms(CELL_TTL_MS); /* after this time, leases that were renewed before the delay have
                            * ended */
    take(0);
    for (int i = 0; i < SAMPLES; i++) {
        int64_t remaining_ns = actor_remaining(&actors[0], 0);
        most_ns = remaining_ns > most_ns ? remaining_ns : most_ns;
        sleep_ms(10);
    }
    ck_assert_int_gt(most_ns, 0);
    ck_assert_int_le(most_ns, (CELL_TTL_MS - 2 * DELAY_MS) * MS);
    network_heal(&cell.network);
}
END_TEST

/* The host's renewals arrive at the voters, but the voters' answers do not reach the host. A lock
 * must not stay with a host that receives nothing. */
START_TEST(trap_one_way_link_keeps_session_alive)
{
    open_all("one-way", SHORT_MS);
    struct hf_hold hold = take(0);
    network_cut(&cell.network, 1, 0);
    network_cut(&cell.network, 2, 0);
    actor_wait(&actors[1], 0, HF_EXCLUSIVE);
    struct actor_reply reply = served(1);
    ck_assert_uint_gt(reply.hold.token, hold.token);
    ck_assert_int_gt(reply.time_ns, hold.deadline_ns);
    ck_assert_int_le(actor_remaining(&actors[0], 0), 0);
    ck_assert_int_eq(actor_release(&actors[0], 0), HF_ELOST);
}
END_TEST

static struct actor_reply next_event(unsigned host)
{
    return actor_do(&actors[host],
                    &(struct actor_request){.kind = ACTOR_EVENT, .timeout_ns = GUARD_MS * MS});
}

/* Stops the voters for longer than the lease, and lets them go on. The voters must not end the
 * holder's session, because they could not receive its renewals while they were stopped. So the
 * holder is in jeopardy for a while, and then safe with the same hold. Returns false if the hold
 * was lost, but only after the grace period: then the machine may have been too slow. */
static bool stall_grantors(void)
{
    struct actor_reply reply;
    open_all("stalled", SHORT_MS);
    struct hf_hold hold = take(0);
    ck_assert_int_eq(actor_do(&actors[0], &(struct actor_request){.kind = ACTOR_EVENTS}).result, 0);
    /* if the voters ended the holder's session, this waiter would get the lock */
    actor_wait(&actors[1], 0, HF_EXCLUSIVE);
    actor_await_waiters(&actors[1], "stalled", 1);
    sleep_ms(300);
    int64_t lost_from_ns = boottime_now() + actor_remaining(&actors[0], 0) + CELL_GRACE_MS * MS;
    cell_pause(&cell, 1);
    cell_pause(&cell, 2);
    /* The voters go on only after the test has read the event, because the library does not report
     * a jeopardy that is over. */
    reply = next_event(0);
    if (reply.event.kind == HF_EVENT_LOST && reply.time_ns >= lost_from_ns) {
        return false;
    }
    ck_assert_int_eq(reply.event.kind, HF_EVENT_JEOPARDY);
    ck_assert_int_le(actor_remaining(&actors[0], 0), 0);
    sleep_ms(CELL_GRACE_MS / 2);
    cell_continue(&cell, 1);
    cell_continue(&cell, 2);
    reply = next_event(0);
    if (reply.event.kind == HF_EVENT_LOST && reply.time_ns >= lost_from_ns) {
        return false;
    }
    ck_assert_int_eq(reply.event.kind, HF_EVENT_SAFE);
    ck_assert_int_gt(actor_remaining(&actors[0], 0), 0);
    ck_assert(!actor_receive(&actors[1], &reply, 100));
    ck_assert_int_eq(actor_release(&actors[0], 0), 0);
    ck_assert_uint_gt(served(1).hold.token, hold.token);
    return true;
}

START_TEST(trap_stalled_grantor_expires_everybody)
{
    enum { TRIES_MAX = 5 };
    bool spared = stall_grantors();
    for (unsigned tries = 1; tries < TRIES_MAX && !spared; tries++) {
        stop();
        start();
        spared = stall_grantors();
    }
    ck_assert(spared);
}
END_TEST

/* Jepsen found this in etcd: a waiter's lease ended while it waited, and it still got the lock. */
START_TEST(trap_granted_after_the_lease_ran_out_while_waiting)
{
    open_all("waited", SHORT_MS);
    take(0);
    actor_wait(&actors[1], 0, HF_EXCLUSIVE);
    actor_await_waiters(&actors[1], "waited", 1);
    network_isolate(&cell.network, 1);
    sleep_ms(DEAD_MS);
    ck_assert_int_eq(actor_release(&actors[0], 0), 0);
    struct hf_hold other = take(2);
    network_heal(&cell.network);
    struct actor_reply reply;
    ck_assert(!actor_receive(&actors[1], &reply, CELL_TTL_MS));
    ck_assert_int_eq(actor_release(&actors[2], 0), 0);
    reply = served(1);
    ck_assert_uint_gt(reply.hold.token, other.token);
    ck_assert_int_gt(reply.hold.deadline_ns, reply.time_ns);
    ck_assert_int_gt(actor_remaining(&actors[1], 0), 0);
}
END_TEST

/* All agents are killed together with the holder. Their successors know that the lock must stay
 * closed. */
START_TEST(trap_lock_delay_kept_in_memory)
{
    enum { DELAY_MS = 3000 };
    open_all("delayed", DELAY_MS);
    struct hf_hold hold = take(0);
    int64_t killed_ns = boottime_now();
    actor_kill(&actors[0]);
    cell_kill_all(&cell);
    cell_launch(&cell);
    cell_await(&cell);
    actor_wait(&actors[1], 0, HF_EXCLUSIVE);
    struct actor_reply reply = served(1);
    ck_assert_uint_gt(reply.hold.token, hold.token);
    ck_assert_int_ge(reply.time_ns - killed_ns, DELAY_MS * MS);
}
END_TEST

/* The lock-delay after an expired session counts from the session's end, not from the next
 * request. */
START_TEST(lock_delay_behind_a_host_that_vanished)
{
    enum { DELAY_MS = 2000 };
    open_all("vanished", DELAY_MS);
    struct hf_hold hold = take(0);
    int64_t deadline_ns = boottime_now() + actor_remaining(&actors[0], 0);
    network_isolate(&cell.network, 0);
    /* On a slow machine the lease may be over before network_isolate() returns. Then the test uses
     * the deadline that it read before the call. */
    int64_t now_ns = boottime_now();
    int64_t remaining_ns = actor_remaining(&actors[0], 0);
    deadline_ns = remaining_ns > 0 ? now_ns + remaining_ns : deadline_ns;
    actor_wait(&actors[1], 0, HF_EXCLUSIVE);
    struct actor_reply reply = served(1);
    ck_assert_uint_gt(reply.hold.token, hold.token);
    ck_assert_int_ge(reply.time_ns - deadline_ns, DELAY_MS * MS);
    printf("next holder %lld ms after the lease and its lock-delay of %d ms\n",
           (long long)((reply.time_ns - deadline_ns) / MS - DELAY_MS), DELAY_MS);
    network_heal(&cell.network);
}
END_TEST

/* A holder whose agent was stopped releases its lock after the deadline. The release reports that
 * the lease had ended. It still frees the lock and the session goes on, so the next host need not
 * wait for the lock-delay. */
START_TEST(a_release_in_jeopardy_is_a_release)
{
    enum { DELAY_MS = 20000 };
    open_all("jeopardy", DELAY_MS);
    struct hf_hold hold = take(0);
    cell_pause(&cell, 0);
    while (actor_remaining(&actors[0], 0) > 0) {
        sleep_ms(1);
    }
    int64_t released_ns = boottime_now();
    ck_assert_int_eq(actor_release(&actors[0], 0), HF_ELOST);
    cell_continue(&cell, 0);
    actor_wait(&actors[1], 0, HF_EXCLUSIVE);
    struct actor_reply reply = served(1);
    ck_assert_uint_gt(reply.hold.token, hold.token);
    ck_assert_int_lt(reply.time_ns - released_ns, DELAY_MS * MS);
}
END_TEST

/* Curator's issue 1121: a process found an entry of its own expired session. It took that entry for
 * a hold of its own, or it waited for itself for ever. */
START_TEST(trap_own_entry_of_an_expired_session)
{
    open_all("own", SHORT_MS);
    struct hf_hold hold = take(0);
    network_isolate(&cell.network, 0);
    sleep_ms(DEAD_MS);
    ck_assert_int_eq(actor_release(&actors[0], 0), HF_ELOST);
    network_heal(&cell.network);
    struct hf_hold again = take(0);
    ck_assert_uint_gt(again.token, hold.token);
    ck_assert_int_gt(again.deadline_ns, hold.deadline_ns);
    ck_assert_int_eq(actor_release(&actors[0], 0), 0);
}
END_TEST

/* Consul's issue 9788: the child of a lock command went on for minutes after the hold was lost.
 * Here the command's timer ends the child, with or without an agent. The lock-delay is longer here
 * than in the other tests, because the timer may be late on a busy machine. */
START_TEST(trap_child_runs_on_after_the_hold_was_lost)
{
    open_all("child", SHORT_MS);
    pid_t pid = fork_tied();
    if (pid == 0) {
        int null = open("/dev/null", O_RDWR);
        dup2(null, 2);
        execl(binary_path("holdfast"), "holdfast", "-s", cell.agents[0].socket, "lock",
              "--lock-delay", "4s", "child", "--", "sleep", "600", (char *)NULL);
        _exit(127);
    }
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (actor_show(&actors[0], "child").holders == 0) {
        REQUIRE(boottime_now() < end_ns, "the command does not get the lock");
        sleep_ms(10);
    }
    network_isolate(&cell.network, 0);
    agent_kill(&cell.agents[0]);
    actor_wait(&actors[1], 0, HF_EXCLUSIVE);
    served(1);
    int status = 0;
    REQUIRE(waitpid(pid, &status, WNOHANG) == pid, "the next one holds, the child runs on");
    ck_assert_int_eq(WEXITSTATUS(status), 76);
    network_heal(&cell.network);
    agent_start(&cell.agents[0]);
}
END_TEST

/* A stopped holder wakes up after another host has got the lock. The token of its hold is lower
 * than the new holder's. */
START_TEST(trap_stopped_holder_wakes_up_late)
{
    open_all("stopped", SHORT_MS);
    struct hf_hold hold = take(0);
    actor_signal(&actors[0], SIGSTOP);
    cell_pause(&cell, 0);
    struct hf_hold next = take(1);
    actor_signal(&actors[0], SIGCONT);
    ck_assert_int_le(actor_remaining(&actors[0], 0), 0);
    ck_assert_int_eq(actor_release(&actors[0], 0), HF_ELOST);
    cell_continue(&cell, 0);
    ck_assert_uint_gt(next.token, hold.token);
    ck_assert_int_gt(actor_remaining(&actors[1], 0), 0);
    ck_assert_int_eq(actor_release(&actors[1], 0), 0);
    ck_assert_uint_gt(take(0).token, next.token);
}
END_TEST

/* A host with many locks dies. When its session ends, another host gets all of them at once, and
 * not one by one. */
START_TEST(trap_everything_expires_at_once)
{
    enum { LOCKS = 48 };
    char name[32];
    for (uint32_t i = 0; i < LOCKS; i++) {
        snprintf(name, sizeof(name), "many/%u", i);
        ck_assert_int_eq(actor_open(&actors[0], i, name, SHORT_MS), 0);
        ck_assert_int_eq(actor_acquire(&actors[0], i, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
        ck_assert_int_eq(actor_open(&actors[1], i, name, SHORT_MS), 0);
    }
    network_isolate(&cell.network, 0);
    int64_t cut_ns = boottime_now();
    for (uint32_t i = 0; i < LOCKS; i++) {
        actor_wait(&actors[1], i, HF_EXCLUSIVE);
    }
    int64_t first_ns = 0;
    int64_t last_ns = 0;
    for (uint32_t i = 0; i < LOCKS; i++) {
        last_ns = served(1).time_ns;
        first_ns = i == 0 ? last_ns : first_ns;
    }
    printf("%d locks of a dead host: the first after %lld ms, all within %lld ms\n", LOCKS,
           (long long)((first_ns - cut_ns) / MS), (long long)((last_ns - first_ns) / MS));
    network_heal(&cell.network);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("traps");
    TCase *calm = tcase_create("calm");
    TCase *tests = tcase_create("traps");
    tcase_add_checked_fixture(calm, start_calm, stop);
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(calm, first_come_first_served_across_hosts);
    if (packet_options_are_known("trap_lease_counted_from_the_answer")) {
        tcase_add_test(tests, trap_lease_counted_from_the_answer);
    }
    tcase_add_test(tests, trap_one_way_link_keeps_session_alive);
    tcase_add_test(tests, trap_stalled_grantor_expires_everybody);
    tcase_add_test(tests, trap_granted_after_the_lease_ran_out_while_waiting);
    tcase_add_test(tests, trap_lock_delay_kept_in_memory);
    tcase_add_test(tests, a_release_in_jeopardy_is_a_release);
    tcase_add_test(tests, lock_delay_behind_a_host_that_vanished);
    tcase_add_test(tests, trap_own_entry_of_an_expired_session);
    tcase_add_test(tests, trap_child_runs_on_after_the_hold_was_lost);
    tcase_add_test(tests, trap_stopped_holder_wakes_up_late);
    tcase_add_test(tests, trap_everything_expires_at_once);
    network_need();
    tcase_set_timeout(calm, 240);
    tcase_set_timeout(tests, 240);
    suite_add_tcase(suite, calm);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
