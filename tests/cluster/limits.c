/*
 * Tests holds that end by themselves: a hold with a fixed lease, and a hold with max_stall, whose
 * process lives but hangs. hf_progress() prolongs a hold with max_stall. The administrator's break
 * ends any hold. Each loss is reported by one LOST.
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
    ck_assert_int_eq(actor_do(&holder, &(struct actor_request){.kind = ACTOR_EVENTS}).result, 0);
    ck_assert_int_eq(actor_open(&waiter, 0, "limited", 10), 0);
}

static void stop(void)
{
    actor_end(&holder);
    actor_end(&waiter);
    actor_end(&looker);
    agent_destroy(&agent);
}

static struct hf_hold take_limited(int64_t lease_ms, int64_t max_stall_ms, int64_t lock_delay_ms)
{
    struct actor_request request = {.kind = ACTOR_OPEN, .name = "limited"};
    struct hf_hold hold;
    request.options = (struct hf_lock_options){.size = sizeof(request.options),
                                               .lease_ns = lease_ms * MS,
                                               .max_stall_ns = max_stall_ms * MS,
                                               .lock_delay_ns = lock_delay_ms * MS};
    ck_assert_int_eq(actor_do(&holder, &request).result, 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, &hold), 0);
    actor_wait(&waiter, 0, HF_EXCLUSIVE);
    return hold;
}

static struct actor_reply event_within(int64_t timeout_ms)
{
    const struct actor_request request = {.kind = ACTOR_EVENT, .timeout_ns = timeout_ms * MS};
    return actor_do(&holder, &request);
}

static struct actor_reply served(void)
{
    struct actor_reply reply;
    REQUIRE(actor_receive(&waiter, &reply, GUARD_MS), "the waiter is stuck");
    REQUIRE(reply.result == 0, "the waiter got %s", hf_strerror(reply.result));
    return reply;
}

static void told_lost_once(uint64_t token)
{
    struct actor_reply reply = event_within(GUARD_MS);
    REQUIRE(reply.result == 1 && reply.event.kind == HF_EVENT_LOST && reply.event.lock == 0 &&
                reply.event.token == token,
            "result %d, event %d", reply.result, (int)reply.event.kind);
    ck_assert(actor_remaining(&holder, 0) <= 0);
    ck_assert_int_eq(event_within(0).result, 0);
    ck_assert_int_eq(actor_release(&holder, 0), HF_ELOST);
    ck_assert_int_eq(actor_release(&holder, 0), HF_ENOTHELD);
}

START_TEST(fixed_lease_ends_by_itself)
{
    int64_t before_ns = boottime_now();
    struct hf_hold hold = take_limited(400, 0, 200);
    ck_assert(hold.deadline_ns >= before_ns + 400 * MS);
    ck_assert(hold.deadline_ns <= boottime_now() + 400 * MS);
    struct actor_reply reply = served();
    ck_assert(reply.time_ns >= hold.deadline_ns + 200 * MS);
    ck_assert(reply.hold.token > hold.token);
    /* The holder does not release the lock before this check. A release would free the lock even if
     * the agent had not ended the hold. */
    told_lost_once(hold.token);
}
END_TEST

/* The hold of a stopped process must end. If the library or the agent sent heartbeats for the
 * process, the hold would last for ever. */
START_TEST(stopped_holder_is_evicted_after_max_stall)
{
    struct hf_hold hold = take_limited(0, 400, 100);
    actor_signal(&holder, SIGSTOP);
    struct actor_reply reply = served();
    ck_assert(reply.time_ns >= hold.deadline_ns);
    ck_assert(reply.hold.token > hold.token);
    actor_signal(&holder, SIGCONT);
    told_lost_once(hold.token);
}
END_TEST

/* Reports progress for twice max_stall, and stops. Returns false if the test itself was delayed for
 * so long that the hold ended meanwhile. */
static bool keep_by_progress(int64_t stall_ms)
{
    enum { REPORTS = 16 };
    int64_t told_ns = boottime_now(); /* max_stall counts from this time or later */
    struct hf_hold hold = take_limited(0, stall_ms, 100);
    int result = 0;
    for (int i = 0; i < REPORTS && result == 0; i++) {
        sleep_ms(stall_ms / 8);
        int64_t telling_ns = boottime_now();
        result = actor_do(&holder, &(struct actor_request){.kind = ACTOR_PROGRESS}).result;
        bool late = boottime_now() - told_ns >= stall_ms * MS;
        ck_assert(result == 0 || (late && result == HF_ELOST));
        told_ns = result == 0 ? telling_ns : told_ns;
    }
    ck_assert_int_ge(served().time_ns, told_ns + (stall_ms + 100) * MS);
    /* The holder does not release the lock before this check. A release would free the lock even if
     * the agent had not ended the hold. */
    told_lost_once(hold.token);
    ck_assert_int_eq(actor_release(&waiter, 0), 0);
    ck_assert_int_eq(actor_do(&holder, &(struct actor_request){.kind = ACTOR_CLOSE}).result, 0);
    return result == 0;
}

/* Reports of progress keep a hold with max_stall. If the machine is too busy for the reports, the
 * test is repeated with all times doubled. */
START_TEST(progress_keeps_the_hold)
{
    bool kept = false;
    for (int64_t stall_ms = 1000; stall_ms <= 16000 && !kept; stall_ms *= 2) {
        kept = keep_by_progress(stall_ms);
    }
    ck_assert(kept);
}
END_TEST

/* Reports progress until the lease is over. Returns false if the test was delayed for so long that
 * max_stall may have ended the hold, because such a run proves nothing. */
static bool outlasted_by_lease(int64_t lease_ms)
{
    int64_t stall_ns = lease_ms / 8 * 7 * MS;
    int64_t told_ns = boottime_now(); /* max_stall counts from this time or later */
    struct hf_hold hold = take_limited(lease_ms, lease_ms / 8 * 7, 10);
    int64_t end_ns = hold.deadline_ns + lease_ms * MS / 2;
    int result = 0;
    while (result == 0 && told_ns < end_ns) {
        int64_t telling_ns = boottime_now();
        result = actor_do(&holder, &(struct actor_request){.kind = ACTOR_PROGRESS}).result;
        told_ns = result == 0 ? telling_ns : told_ns;
        sleep_ms(20);
    }
    ck_assert_int_eq(result, HF_ELOST);
    int64_t lost_ns = boottime_now();
    bool shown = lost_ns - told_ns < stall_ns; /* if false, max_stall may have ended the hold */
    ck_assert(!shown || lost_ns >= hold.deadline_ns);
    served();
    /* The holder does not release the lock before this check. A release would free the lock even if
     * the agent had not ended the hold. */
    told_lost_once(hold.token);
    ck_assert_int_eq(actor_release(&waiter, 0), 0);
    ck_assert_int_eq(actor_do(&holder, &(struct actor_request){.kind = ACTOR_CLOSE}).result, 0);
    return shown;
}

/* Progress must not extend a lease. If the machine is too busy for the reports, the test is
 * repeated with all times doubled. */
START_TEST(progress_does_not_extend_a_lease)
{
    bool shown = false;
    for (int64_t lease_ms = 800; lease_ms <= 12800 && !shown; lease_ms *= 2) {
        shown = outlasted_by_lease(lease_ms);
    }
    ck_assert(shown);
}
END_TEST

/* The holder itself knows when its lease ends. An agent is needed only to take the lock away. */
START_TEST(lease_ends_without_an_agent)
{
    struct hf_hold hold = take_limited(500, 0, 10);
    agent_kill(&agent);
    struct actor_reply reply = event_within(GUARD_MS);
    ck_assert_int_eq(reply.event.kind, HF_EVENT_LOST);
    ck_assert(reply.time_ns >= hold.deadline_ns);
    agent_start(&agent);
    ck_assert(served().hold.token > hold.token); /* the holder has made no call since its lease
                                                  * ended */
    ck_assert_int_eq(actor_release(&holder, 0), HF_ELOST);
}
END_TEST

START_TEST(break_takes_the_hold_and_closes_the_lock)
{
    struct hf_hold hold = take_limited(0, 0, 600);
    int64_t broken_ns = boottime_now();
    struct actor_request request = {.kind = ACTOR_BREAK, .name = "limited"};
    ck_assert_int_eq(actor_do(&looker, &request).result, 0);
    told_lost_once(hold.token);
    ck_assert(served().time_ns >= broken_ns + 600 * MS);
}
END_TEST

START_TEST(break_now_passes_on_at_once)
{
    struct hf_hold hold = take_limited(0, 0, 60000);
    struct actor_request request = {.kind = ACTOR_BREAK, .name = "limited", .flags = HF_BREAK_NOW};
    ck_assert_int_eq(actor_do(&looker, &request).result, 0);
    ck_assert(served().hold.token > hold.token);
    told_lost_once(hold.token);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("holds that end");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 90);
    tcase_add_test(tests, fixed_lease_ends_by_itself);
    tcase_add_test(tests, stopped_holder_is_evicted_after_max_stall);
    tcase_add_test(tests, progress_keeps_the_hold);
    tcase_add_test(tests, progress_does_not_extend_a_lease);
    tcase_add_test(tests, lease_ends_without_an_agent);
    tcase_add_test(tests, break_takes_the_hold_and_closes_the_lock);
    tcase_add_test(tests, break_now_passes_on_at_once);
    return suite_main("limits", tests);
}
