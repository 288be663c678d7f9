/*
 * Events make the descriptor readable, without polling: granted, changed and lost, each once. Also
 * tests sequencers. (restart.c tests JEOPARDY and SAFE; limits.c tests LOST by a limit.)
 */
#include "../suite_main.h"
#include "actor.h"
#include "require.h"

#include <stdlib.h>
#include <string.h>

static struct agent_process agent;
static struct actor one;
static struct actor two;

static void start(void)
{
    agent_create(&agent, NULL);
    agent_start(&agent);
    actor_ready(&one, agent.socket);
    actor_ready(&two, agent.socket);
    ck_assert_int_eq(actor_do(&one, &(struct actor_request){.kind = ACTOR_EVENTS}).result, 0);
}

static void stop(void)
{
    actor_end(&one);
    actor_end(&two);
    agent_destroy(&agent);
}

static struct actor_reply event_within(int64_t timeout_ms)
{
    const struct actor_request request = {.kind = ACTOR_EVENT, .timeout_ns = timeout_ms * MS};
    return actor_do(&one, &request);
}

START_TEST(granted_is_told_after_a_wait)
{
    struct actor_reply reply;
    ck_assert_int_eq(actor_open(&one, 3, "event", 10), 0);
    ck_assert_int_eq(actor_open(&two, 0, "event", 10), 0);
    ck_assert_int_eq(actor_acquire(&two, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    actor_wait(&one, 3, HF_EXCLUSIVE);
    actor_await_waiters(&two, "event", 1);
    ck_assert_int_eq(actor_release(&two, 0), 0);
    ck_assert(actor_receive(&one, &reply, GUARD_MS) && reply.result == 0);
    struct actor_reply event = event_within(GUARD_MS);
    ck_assert_int_eq(event.result, 1);
    ck_assert_int_eq(event.event.kind, HF_EVENT_GRANTED);
    ck_assert_uint_eq(event.event.lock, 3);
    ck_assert_uint_eq(event.event.token, reply.hold.token);
    ck_assert_int_eq(event_within(50).result, 0);
}
END_TEST

START_TEST(changes_below_a_watched_prefix_are_told)
{
    ck_assert_int_eq(
        actor_do(&one, &(struct actor_request){.kind = ACTOR_WATCH, .name = "jobs/"}).result, 0);
    ck_assert_int_eq(actor_open(&two, 0, "jobs/nightly", 10), 0);
    ck_assert_int_eq(actor_open(&two, 1, "other", 10), 0);
    while (event_within(200).result == 1) { /* reads the event about the new lock */
    }
    ck_assert_int_eq(actor_acquire(&two, 1, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    struct actor_reply late = event_within(200); /* an event of the lock "other" must not come */
    ck_assert(late.result == 0 || strcmp(late.event.name, "jobs/nightly") == 0);
    for (int i = 0; i < 3; i++) {
        int result = i % 2 ? actor_release(&two, 0)
                           : actor_acquire(&two, 0, HF_EXCLUSIVE, GUARD_MS, NULL);
        ck_assert_int_eq(result, 0);
        struct actor_reply event = event_within(GUARD_MS);
        ck_assert_int_eq(event.result, 1);
        ck_assert_int_eq(event.event.kind, HF_EVENT_CHANGED);
        ck_assert_uint_eq(event.event.lock, UINT32_MAX);
        ck_assert_str_eq(event.event.name, "jobs/nightly");
        while (event_within(100).result == 1) { /* reads further events of the same change, which
                                                 * may be reported twice */
        }
    }
    actor_kill(&two); /* this process holds the lock */
    ck_assert_int_eq(event_within(GUARD_MS).event.kind, HF_EVENT_CHANGED);
}
END_TEST

START_TEST(break_is_told_as_lost)
{
    struct hf_hold hold;
    ck_assert_int_eq(actor_open(&one, 0, "event", 10), 0);
    ck_assert_int_eq(actor_acquire(&one, 0, HF_EXCLUSIVE, GUARD_MS, &hold), 0);
    struct actor_request request = {.kind = ACTOR_BREAK, .name = "event"};
    ck_assert_int_eq(actor_do(&two, &request).result, 0);
    struct actor_reply event = event_within(GUARD_MS);
    ck_assert_int_eq(event.event.kind, HF_EVENT_LOST);
    ck_assert_uint_eq(event.event.token, hold.token);
    ck_assert_int_eq(event_within(100).result, 0);
    ck_assert_int_eq(actor_release(&one, 0), HF_ELOST);
}
END_TEST

static int check(struct actor *who, enum actor_kind kind, const char *sequencer)
{
    struct actor_request request = {.kind = kind};
    snprintf(request.name, sizeof(request.name), "%s", sequencer);
    return actor_do(who, &request).result;
}

START_TEST(sequencer_is_checked)
{
    ck_assert_int_eq(actor_open(&one, 0, "seq", 10), 0);
    ck_assert_int_eq(actor_open(&two, 0, "seq", 10), 0);
    ck_assert_int_eq(actor_acquire(&one, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    struct actor_reply first = actor_do(&one, &(struct actor_request){.kind = ACTOR_SEQUENCER});
    ck_assert_int_eq(first.result, 0);
    ck_assert_int_eq(check(&two, ACTOR_CHECK, first.text), 0);
    ck_assert_int_eq(check(&two, ACTOR_CHECK_LOCAL, first.text), 0);
    ck_assert_int_eq(actor_release(&one, 0), 0);
    ck_assert_int_eq(check(&two, ACTOR_CHECK, first.text), HF_ESTALE);
    ck_assert_int_eq(actor_acquire(&two, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(check(&one, ACTOR_CHECK, first.text), HF_ESTALE);
    ck_assert_int_eq(check(&one, ACTOR_CHECK_LOCAL, first.text), HF_ESTALE);
    struct actor_reply second = actor_do(&two, &(struct actor_request){.kind = ACTOR_SEQUENCER});
    ck_assert_int_eq(check(&one, ACTOR_CHECK, second.text), 0);
    ck_assert_int_eq(check(&one, ACTOR_CHECK_LOCAL, second.text), 0);
    agent_kill(&agent);
    agent_start(&agent);
    ck_assert_int_eq(check(&one, ACTOR_CHECK, second.text), 0);
    ck_assert_int_eq(check(&one, ACTOR_CHECK, first.text), HF_ESTALE);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("events");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 90);
    tcase_add_test(tests, granted_is_told_after_a_wait);
    tcase_add_test(tests, changes_below_a_watched_prefix_are_told);
    tcase_add_test(tests, break_is_told_as_lost);
    tcase_add_test(tests, sequencer_is_checked);
    return suite_main("events", tests);
}
