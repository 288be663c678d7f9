/*
 * hf_acquire_start() with real agents: on one host, and in a cell of three hosts on this machine's
 * loopback. The actors read their events by poll() alone.
 */
#include "../suite_main.h"
#include "actor.h"
#include "require.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum {
    HOSTS = 3,
    TRIES_MAX = 5,
    TRY_MS = 1000, /* how long a try waits for a grant: libclient/client.h */
};

static struct agent_process agents[HOSTS];
static int hosts;
static struct actor one; /* this actor calls hf_acquire_start() */
static struct actor two; /* this actor holds, on another host if there is one */

static void start_cell(void)
{
    unsigned ports[HOSTS];
    char text[512];
    hosts = HOSTS;
    agent_free_ports(ports, HOSTS);
    for (int i = 0; i < HOSTS; i++) {
        snprintf(text, sizeof(text),
                 "[agent]\nname = host-%c\ncell = starts\nstate_dir = %%D/state\n"
                 "socket = %%D/agent.sock\n[cell]\nsession_ttl = 20s\n"
                 "[voters]\nhost-a = tcp://127.0.0.1:%u\nhost-b = tcp://127.0.0.1:%u\n"
                 "host-c = tcp://127.0.0.1:%u\n",
                 'a' + i, ports[0], ports[1], ports[2]);
        agent_create(&agents[i], text);
        agent_launch(&agents[i]);
    }
    for (int i = 0; i < HOSTS; i++) {
        agent_await_socket(&agents[i]);
    }
    actor_ready(&one, agents[0].socket);
    actor_ready(&two, agents[1].socket);
}

static void start_host(void)
{
    hosts = 1;
    agent_create(&agents[0], NULL);
    agent_start(&agents[0]);
    actor_ready(&one, agents[0].socket);
    actor_ready(&two, agents[0].socket);
}

static void stop(void)
{
    actor_end(&one);
    actor_end(&two);
    for (int i = hosts - 1; i >= 0; i--) {
        agent_destroy(&agents[i]);
    }
}

static void open_both(int64_t lease_ms)
{
    struct actor_request request = {.kind = ACTOR_OPEN, .name = "start"};
    request.options = (struct hf_lock_options){.size = sizeof(request.options),
                                               .lease_ns = lease_ms * MS,
                                               .lock_delay_ns = HF_NO_LOCK_DELAY};
    ck_assert_int_eq(actor_do(&one, &request).result, 0);
    ck_assert_int_eq(actor_open(&two, 0, "start", 10), 0);
    ck_assert_int_eq(actor_open(&two, 1, "start", 10), 0);
}

static void start(enum hf_mode mode, int64_t timeout_ns)
{
    const struct actor_request request = {
        .kind = ACTOR_START, .mode = mode, .timeout_ns = timeout_ns};
    ck_assert_int_eq(actor_do(&one, &request).result, 0);
}

static struct actor_reply event_within(int64_t timeout_ms)
{
    const struct actor_request request = {.kind = ACTOR_EVENT, .timeout_ns = timeout_ms * MS};
    return actor_do(&one, &request);
}

static void expect_event(const struct actor_reply *reply, enum hf_event_kind kind)
{
    ck_assert_int_eq(reply->result, 1);
    ck_assert_int_eq(reply->event.kind, kind);
    ck_assert_uint_eq(reply->event.lock, 0);
}

static uint64_t expect_granted(void)
{
    struct actor_reply reply = event_within(GUARD_MS);
    expect_event(&reply, HF_EVENT_GRANTED);
    ck_assert_int_gt(actor_remaining(&one, 0), 0);
    return reply.event.token;
}

/* Expects that a try gets the lock, which is free. A grant may come from another host. On a slow
 * machine that may take longer than a try waits. The test tries again then. */
static void expect_try_granted(void)
{
    for (unsigned tries = 1;; tries++) {
        int64_t began_ns = boottime_now();
        start(HF_EXCLUSIVE, 0);
        struct actor_reply reply = event_within(GUARD_MS);
        if (reply.event.kind != HF_EVENT_FAILED) {
            expect_event(&reply, HF_EVENT_GRANTED);
            ck_assert_int_gt(actor_remaining(&one, 0), 0);
            return;
        }
        ck_assert_int_eq(reply.event.error, HF_EBUSY);
        ck_assert_int_ge(boottime_now() - began_ns, TRY_MS * MS);
        ck_assert_uint_lt(tries, TRIES_MAX);
    }
}

START_TEST(a_start_is_granted_after_the_holders_of_each_mode)
{
    struct hf_hold hold;
    open_both(0);
    for (int i = 0; i < 4; i++) {
        enum hf_mode theirs = i & 1 ? HF_SHARED : HF_EXCLUSIVE;
        enum hf_mode mine = i & 2 ? HF_SHARED : HF_EXCLUSIVE;
        if (theirs == HF_SHARED && mine == HF_SHARED) {
            continue; /* shared holds do not exclude each other */
        }
        ck_assert_int_eq(actor_acquire(&two, 0, theirs, GUARD_MS, &hold), 0);
        start(mine, -1);
        ck_assert_int_eq(event_within(200).result, 0);
        actor_await_waiter(&two, "start", &one);
        ck_assert_int_eq(actor_release(&two, 0), 0);
        ck_assert_uint_ge(expect_granted(), hold.token);
        ck_assert_int_eq(actor_release(&one, 0), 0);
    }
}
END_TEST

START_TEST(a_start_that_tries_is_refused_in_words)
{
    open_both(0);
    ck_assert_int_eq(actor_acquire(&two, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    start(HF_EXCLUSIVE, 0);
    struct actor_reply reply = event_within(GUARD_MS);
    ck_assert_int_eq(reply.event.kind, HF_EVENT_FAILED);
    ck_assert_int_eq(reply.event.error, HF_EBUSY);
    ck_assert_int_eq(actor_release(&two, 0), 0);
    expect_try_granted(); /* the grant is idle, and in a cell it is on another host */
}
END_TEST

START_TEST(a_holders_death_brings_the_turn)
{
    open_both(0);
    ck_assert_int_eq(actor_acquire(&two, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    start(HF_EXCLUSIVE, -1);
    ck_assert_int_eq(event_within(100).result, 0);
    actor_kill(&two);
    expect_granted();
}
END_TEST

/* The process dies when its hf_acquire_start() has got the lock, but before it reads the event. */
START_TEST(a_death_before_the_event_is_read_passes_the_lock_on)
{
    struct actor_reply reply;
    open_both(0);
    ck_assert_int_eq(actor_acquire(&two, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    start(HF_EXCLUSIVE, -1);
    actor_await_waiter(&two, "start", &one);
    actor_wait(&two, 1, HF_EXCLUSIVE);
    ck_assert(!actor_receive(&two, &reply, 200));
    ck_assert_int_eq(actor_release(&two, 0), 0);
    ck_assert(!actor_receive(&two, &reply, 200)); /* the lock went to `one` */
    actor_kill(&one);
    ck_assert(actor_receive(&two, &reply, GUARD_MS));
    ck_assert_int_eq(reply.result, 0);
}
END_TEST

/* Expects that the start, which has got the lock since `since_ns` or later, reports its hold. On a
 * slow machine the lease may end the hold before the test sees it. The test starts again then. */
static void expect_granted_for(int64_t lease_ms, int64_t since_ns)
{
    for (unsigned tries = 1;; tries++) {
        struct actor_reply reply = event_within(GUARD_MS);
        while (tries > 1 && reply.result == 1 && reply.event.kind == HF_EVENT_LOST) {
            reply = event_within(GUARD_MS); /* this is the end of the previous hold */
        }
        expect_event(&reply, HF_EVENT_GRANTED);
        if (actor_remaining(&one, 0) > 0) {
            return;
        }
        ck_assert_int_ge(boottime_now() - since_ns, lease_ms * MS);
        ck_assert_uint_lt(tries, TRIES_MAX);
        ck_assert_int_eq(actor_release(&one, 0), HF_ELOST);
        since_ns = boottime_now();
        start(HF_EXCLUSIVE, -1);
    }
}

/* The program does not read its events. Its unread hold ends by its lease, and the next waiter gets
 * the lock. When the program reads its events at last, its hf_acquire_start() waits again. */
START_TEST(an_unread_hold_ends_by_its_lease)
{
    enum { LEASE_MS = 300 };
    struct actor_reply reply;
    open_both(LEASE_MS);
    ck_assert_int_eq(actor_acquire(&two, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    start(HF_EXCLUSIVE, -1);
    actor_await_waiter(&two, "start", &one);
    actor_wait(&two, 1, HF_EXCLUSIVE);
    ck_assert(!actor_receive(&two, &reply, 200));
    ck_assert_int_eq(actor_release(&two, 0), 0);
    ck_assert(actor_receive(&two, &reply, GUARD_MS));
    ck_assert_int_eq(reply.result, 0);
    ck_assert_int_eq(event_within(200).result, 0);
    int64_t released_ns = boottime_now();
    ck_assert_int_eq(actor_release(&two, 1), 0);
    expect_granted_for(LEASE_MS, released_ns);
}
END_TEST

START_TEST(an_unread_hold_is_broken)
{
    struct actor_reply reply;
    open_both(0);
    ck_assert_int_eq(actor_acquire(&two, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    start(HF_EXCLUSIVE, -1);
    actor_await_waiter(&two, "start", &one);
    ck_assert_int_eq(actor_release(&two, 0), 0);
    while (actor_show(&two, "start").holder_pid != one.pid) {
        sleep_ms(5);
    }
    actor_wait(&two, 1, HF_EXCLUSIVE);
    struct actor_request request = {.kind = ACTOR_BREAK, .name = "start"};
    actor_send(&two, &request);
    ck_assert(actor_receive(&two, &reply, GUARD_MS));
    ck_assert_int_eq(reply.result, 0);
    ck_assert(actor_receive(&two, &reply, GUARD_MS));
    ck_assert_int_eq(reply.result, 0);
    ck_assert_int_eq(event_within(200).result, 0);
    ck_assert_int_eq(actor_release(&two, 1), 0);
    expect_granted();
}
END_TEST

START_TEST(a_start_goes_on_after_a_restart_of_the_agent)
{
    open_both(0);
    ck_assert_int_eq(actor_acquire(&two, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    start(HF_EXCLUSIVE, -1);
    ck_assert_int_eq(event_within(100).result, 0);
    agent_kill(&agents[0]);
    if (_i == 0) {
        ck_assert_int_eq(actor_release(&two, 0), 0);
    }
    agent_start(&agents[0]);
    if (_i == 1) {
        ck_assert_int_eq(event_within(100).result, 0);
        ck_assert_int_eq(actor_release(&two, 0), 0);
    }
    expect_granted();
}
END_TEST

START_TEST(a_start_is_cancelled)
{
    open_both(0);
    ck_assert_int_eq(actor_acquire(&two, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    start(HF_EXCLUSIVE, -1);
    ck_assert_int_eq(actor_do(&one, &(struct actor_request){.kind = ACTOR_CANCEL}).result, 0);
    struct actor_reply reply = event_within(GUARD_MS);
    ck_assert_int_eq(reply.event.kind, HF_EVENT_FAILED);
    ck_assert_int_eq(reply.event.error, HF_ECANCELED);
    start(HF_SHARED, 100 * MS);
    ck_assert_int_eq(event_within(GUARD_MS).event.error, HF_ETIMEDOUT);
    actor_await_waiters(&two, "start", 0);
}
END_TEST

static TCase *tests_on(const char *name, void (*setup)(void))
{
    TCase *tests = tcase_create(name);
    tcase_add_checked_fixture(tests, setup, stop);
    tcase_set_timeout(tests, 90);
    tcase_add_test(tests, a_start_is_granted_after_the_holders_of_each_mode);
    tcase_add_test(tests, a_start_that_tries_is_refused_in_words);
    tcase_add_test(tests, a_holders_death_brings_the_turn);
    tcase_add_test(tests, a_start_is_cancelled);
    return tests;
}

int main(int argc, char **argv)
{
    bool cell = argc > 1 && strcmp(argv[1], "cell") == 0;
    TCase *tests = cell ? tests_on("cell", start_cell) : tests_on("host", start_host);
    if (!cell) { /* in a cell a recalled host may serve its own waiters first */
        tcase_add_test(tests, a_death_before_the_event_is_read_passes_the_lock_on);
        tcase_add_test(tests, an_unread_hold_ends_by_its_lease);
        tcase_add_test(tests, an_unread_hold_is_broken);
        tcase_add_loop_test(tests, a_start_goes_on_after_a_restart_of_the_agent, 0, 2);
    }
    return suite_main("starts", tests);
}
