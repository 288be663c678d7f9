/*
 * Tests when the next waiter gets a lock: at once after a release; after the lock-delay if the
 * holder vanished; at once if the holder's handle asked for no lock-delay.
 */
#include "actor.h"
#include "require.h"

#include <check.h>
#include <signal.h>
#include <stdlib.h>

#include "../suite_main.h"

static struct agent_process agent;
static struct actor holder;
static struct actor waiter;
static struct actor looker;

static void start(void)
{
    agent_create(&agent, NULL);
    agent_start(&agent);
    actor_ready(&holder, agent.socket);
    actor_ready(&waiter, agent.socket);
    actor_ready(&looker, agent.socket);
}

static void stop(void)
{
    actor_end(&holder);
    actor_end(&waiter);
    actor_end(&looker);
    agent_destroy(&agent);
}

/* `holder` takes the lock `name`, and `waiter` waits for it. Returns the hold. */
static struct hf_hold held_and_awaited(const char *name, int64_t lock_delay_ms, enum hf_mode mode)
{
    struct hf_hold hold;
    ck_assert_int_eq(actor_open(&holder, 0, name, lock_delay_ms), 0);
    ck_assert_int_eq(actor_open(&waiter, 0, name, 10), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, mode, GUARD_MS, &hold), 0);
    actor_wait(&waiter, 0, HF_EXCLUSIVE);
    actor_await_waiters(&looker, name, 1);
    return hold;
}

static struct actor_reply served(void)
{
    struct actor_reply reply;
    REQUIRE(actor_receive(&waiter, &reply, GUARD_MS), "the waiter is stuck");
    REQUIRE(reply.result == 0, "the waiter got %s", hf_strerror(reply.result));
    return reply;
}

/* Lock-delays in ms. 0 selects the default of one second. */
static const int64_t delays_ms[] = {0, 50, 700, 3000};

START_TEST(dead_holders_lock_is_closed_for_its_lock_delay)
{
    int64_t delay_ms = delays_ms[_i] == 0 ? 1000 : delays_ms[_i];
    struct hf_hold hold = held_and_awaited("delay", delays_ms[_i], HF_EXCLUSIVE);
    int64_t died_ns = boottime_now();
    actor_kill(&holder);
    sleep_ms(delay_ms / 2);
    struct actor_show show = actor_show(&looker, "delay");
    /* this check is possible only if the machine was fast enough */
    if (boottime_now() < died_ns + delay_ms * MS) {
        ck_assert_int_eq(show.state, HF_STATE_FREE);
        ck_assert_int_eq(show.holders, 0);
        ck_assert_int_eq(show.waiters, 1);
        ck_assert_int_ge(show.closed_ns, 1);
        ck_assert_int_le(show.closed_ns, delay_ms * MS);
    }
    struct actor_reply reply = served();
    REQUIRE(reply.time_ns >= died_ns + delay_ms * MS, "passed on %lld ms after the death",
            (long long)((reply.time_ns - died_ns) / MS));
    ck_assert(reply.hold.token > hold.token);
}
END_TEST

START_TEST(dead_readers_lock_is_closed_too)
{
    held_and_awaited("delay", 500, HF_SHARED);
    int64_t died_ns = boottime_now();
    actor_kill(&holder);
    struct actor_reply reply = served();
    ck_assert(reply.time_ns >= died_ns + 500 * MS);
}
END_TEST

START_TEST(a_try_of_a_closed_lock_is_busy)
{
    held_and_awaited("delay", 2000, HF_EXCLUSIVE);
    int64_t died_ns = boottime_now();
    ck_assert_int_eq(actor_open(&looker, 0, "delay", 10), 0);
    actor_kill(&holder);
    ck_assert_int_eq(actor_acquire(&looker, 0, HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
    ck_assert_int_eq(actor_acquire(&looker, 0, HF_SHARED, 0, NULL), HF_EBUSY);
    ck_assert(served().time_ns >= died_ns + 2000 * MS);
}
END_TEST

/* The lock-delay of a minute exceeds the test's time limit. So the test passes only if the waiter
 * need not wait for the lock-delay. */
START_TEST(a_release_passes_on_at_once)
{
    struct hf_hold hold = held_and_awaited("delay", 60000, HF_EXCLUSIVE);
    ck_assert_int_eq(actor_release(&holder, 0), 0);
    ck_assert(served().hold.token > hold.token);
    ck_assert_int_eq(actor_release(&waiter, 0), 0);
    /* the lock is free, and this host has its grant */
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, 0, NULL), 0);
}
END_TEST

START_TEST(disconnect_passes_on_at_once)
{
    held_and_awaited("delay", 60000, HF_EXCLUSIVE);
    actor_do(&holder, &(struct actor_request){.kind = ACTOR_DISCONNECT});
    served();
}
END_TEST

START_TEST(no_lock_delay_passes_on_at_a_death)
{
    struct actor_request request = {.kind = ACTOR_OPEN, .name = "other"};
    request.options = (struct hf_lock_options){.size = sizeof(request.options),
                                               .lock_delay_ns = -1};
    ck_assert_int_eq(actor_do(&holder, &request).result, 0);
    ck_assert_int_eq(actor_open(&waiter, 0, "other", 60000), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    actor_wait(&waiter, 0, HF_EXCLUSIVE);
    actor_await_waiters(&looker, "other", 1);
    actor_kill(&holder);
    /* the lock stays closed for this handle's own lock-delay, and not for the minute that other
     * handles ask for */
    served();
}
END_TEST

/* A lock stays closed until the same time although the agent restarts. */
START_TEST(lock_stays_closed_over_a_restart)
{
    held_and_awaited("delay", 2500, HF_EXCLUSIVE);
    int64_t died_ns = boottime_now();
    actor_kill(&holder);
    int64_t end_ns = died_ns + GUARD_MS * MS;
    while (actor_show(&looker, "delay").closed_ns == 0 && boottime_now() < end_ns) {
        sleep_ms(1);
    }
    agent_kill(&agent);
    agent_start(&agent);
    struct actor_reply reply = served();
    REQUIRE(reply.time_ns >= died_ns + 2500 * MS, "the restart opened it after %lld ms",
            (long long)((reply.time_ns - died_ns) / MS));
}
END_TEST

/* A process that calls exec() goes on as another program, and loses its holds. */
START_TEST(exec_ends_the_hold_as_a_death_does)
{
    held_and_awaited("delay", 300, HF_EXCLUSIVE);
    int64_t ended_ns = boottime_now();
    actor_send(&holder, &(struct actor_request){.kind = ACTOR_EXEC});
    ck_assert(served().time_ns >= ended_ns + 300 * MS);
    ck_assert_int_eq(kill(holder.pid, 0), 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("lock-delay");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 90);
    tcase_add_loop_test(tests, dead_holders_lock_is_closed_for_its_lock_delay, 0,
                        (int)(sizeof(delays_ms) / sizeof(delays_ms[0])));
    tcase_add_test(tests, dead_readers_lock_is_closed_too);
    tcase_add_test(tests, a_try_of_a_closed_lock_is_busy);
    tcase_add_test(tests, a_release_passes_on_at_once);
    tcase_add_test(tests, disconnect_passes_on_at_once);
    tcase_add_test(tests, no_lock_delay_passes_on_at_a_death);
    tcase_add_test(tests, lock_stays_closed_over_a_restart);
    tcase_add_test(tests, exec_ends_the_hold_as_a_death_does);
    return suite_main("lock_delay", tests);
}
