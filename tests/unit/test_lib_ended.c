/* libholdfast: why a hold ended, as hf_why() and the event LOST report it. */
#include "lib_clients.h"

#include <poll.h>
#include <string.h>

#include "../suite_main.h"
#include "proto/ending.h"

static hf_lock *lock; /* a handle of `client` on "a" */

static void open_with(const struct hf_lock_options *options)
{
    ck_assert_int_eq(REACHED(hf_open(client, "a", options, &lock)), 0);
}

static void setup(void)
{
    clients_create(LONG_TTL_NS);
    ck_assert_int_ge(hf_event_fd(client), 0);
}

static void take(enum hf_mode mode)
{
    ck_assert_int_eq(hf_acquire(lock, mode, HF_FOREVER, NULL), 0);
}

/* Stops the agent. Its last lease ends in lease_ns, and there is no grace. */
static void lapse_in(int64_t lease_ns)
{
    agent_stop(&agent);
    agent.region.header->grace_ns = 0;
    agent_publish(&agent, lease_ns);
}

/* Ends the hold as a real agent does: writes the reason into the region, then takes the hold
 * away. */
static void end_hold(const struct hfi_ending *ending)
{
    uint32_t slot = agent_slot(&agent, "a");
    struct hfi_frame poke = {.kind = HFI_FRAME_POKE};
    if (ending != NULL) {
        hfi_ending_note_all(&agent.region, slot, ending);
    }
    if (hfi_word_holder(agent_word(&agent, "a")) != 0) {
        ck_assert(agent_evict(&agent, "a", 0));
    } else {
        hfi_revoke(&agent.actor, slot, HFI_GRANT_EXCLUSIVE);
    }
    agent_send(&agent, &poke);
}

/* Waits for LOST, which must have that reason. Returns what hf_why() says about the hold. */
static struct hf_reason lost_by(enum hf_reason_kind kind)
{
    struct hf_reason reason = HF_REASON_INIT;
    struct hf_event event;
    do { /* Check's timeout bounds this loop */
        struct pollfd polled = {.fd = hf_event_fd(client), .events = POLLIN};
        while (hf_next_event(client, &event) != 1) {
            poll(&polled, 1, 100);
        }
        ck_assert(event.kind == HF_EVENT_LOST || event.why == HF_WHY_NOTHING);
    } while (event.kind != HF_EVENT_LOST);
    ck_assert_ptr_eq(event.lock, lock);
    ck_assert_int_eq(event.why, kind);
    ck_assert_int_eq(hf_why(lock, &reason), 0);
    ck_assert_int_eq(reason.kind, kind);
    return reason;
}

static enum hf_reason_kind kind_now(void)
{
    struct hf_reason reason = HF_REASON_INIT;
    ck_assert_int_eq(REACHED(hf_why(lock, &reason)), 0);
    return reason.kind;
}

START_TEST(a_break_names_the_user_and_the_host)
{
    struct hfi_ending ending = {.kind = HFI_ENDING_BROKEN, .uid = 77, .agent = "host-b"};
    open_with(NULL);
    take(HF_EXCLUSIVE);
    ending.at_ns = now_ns() - 5 * S;
    end_hold(&ending);
    struct hf_reason reason = lost_by(HF_WHY_BROKEN);
    ck_assert_str_eq(reason.agent, "host-b");
    ck_assert_int_eq(reason.uid, 77);
    ck_assert_int_eq(reason.pid, -1);
    ck_assert_int_ge(reason.since_ns, 5 * S);
    ck_assert_str_eq(reason.text, "broken by user 77 on host-b");
}
END_TEST

START_TEST(a_user_of_this_host_has_a_name)
{
    struct hfi_ending ending = {.kind = HFI_ENDING_BROKEN, .uid = 0, .agent = "fake"};
    open_with(NULL);
    take(HF_EXCLUSIVE);
    end_hold(&ending);
    ck_assert_str_eq(lost_by(HF_WHY_BROKEN).text, "broken by user root on fake");
}
END_TEST

START_TEST(a_broken_reader_learns_the_same)
{
    struct hfi_ending ending = {.kind = HFI_ENDING_BROKEN, .uid = -1, .agent = "host-b"};
    open_with(NULL);
    take(HF_SHARED);
    end_hold(&ending);
    ck_assert_str_eq(lost_by(HF_WHY_BROKEN).text, "broken by an administrator on host-b");
}
END_TEST

START_TEST(reasons_that_the_agent_notes)
{
    static const struct {
        enum hfi_ending_kind noted;
        enum hf_reason_kind kind;
    } cases[] = {{HFI_ENDING_PROCESS, HF_WHY_ENDED},
                 {HFI_ENDING_LEASE, HF_WHY_LEASE_OVER},
                 {HFI_ENDING_STALL, HF_WHY_STALLED},
                 {HFI_ENDING_SESSION, HF_WHY_SESSION_LOST},
                 {HFI_ENDING_DAMAGE, HF_WHY_DAMAGED}};
    struct hfi_ending ending = {.kind = cases[_i].noted, .uid = -1};
    open_with(NULL);
    take(HF_EXCLUSIVE);
    end_hold(&ending);
    ck_assert_str_ne(lost_by(cases[_i].kind).text, "");
}
END_TEST

/* An agent of an earlier release writes no reason. */
START_TEST(an_agent_that_notes_nothing)
{
    open_with(NULL);
    take(HF_EXCLUSIVE);
    end_hold(NULL);
    ck_assert_str_eq(lost_by(HF_WHY_ENDED).text, "the reason is not known");
}
END_TEST

/* A hold ends at its own limit, even if the agent has not acted. */
START_TEST(a_limit_that_the_agent_has_not_seen)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    *(_i == 0 ? &options.lease_ns : &options.max_stall_ns) = 100 * MS;
    open_with(&options);
    take(HF_EXCLUSIVE);
    struct hf_reason reason = lost_by(_i == 0 ? HF_WHY_LEASE_OVER : HF_WHY_STALLED);
    ck_assert_str_eq(reason.text,
                     _i == 0 ? "its lease of 0.1 s is over" : "no progress was reported for 0.1 s");
    ck_assert_int_ge(reason.since_ns, 0);
}
END_TEST

START_TEST(a_lease_beside_a_longer_stall)
{
    struct hf_lock_options options = HF_LOCK_OPTIONS_INIT;
    options.lease_ns = 100 * MS;
    options.max_stall_ns = 60 * S;
    open_with(&options);
    take(HF_EXCLUSIVE);
    (void)lost_by(HF_WHY_LEASE_OVER);
}
END_TEST

START_TEST(no_agent_renews_the_session)
{
    open_with(NULL);
    take(HF_EXCLUSIVE);
    lapse_in(100 * MS);
    struct hf_reason reason = lost_by(HF_WHY_AGENT_GONE);
    ck_assert_str_eq(reason.text,
                     "this host's session was not renewed in time: the agent has ended");
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    ck_assert_int_eq(kind_now(), HF_WHY_AGENT_GONE);
    agent_start(&agent, true);
}
END_TEST

/* A release that comes too late takes the fast path. No event was read before, so the release
 * itself must note why the hold ended. */
START_TEST(a_late_release_notes_it)
{
    open_with(NULL);
    take(HF_EXCLUSIVE);
    ck_assert_int_eq(hf_release(lock), 0);
    take(HF_EXCLUSIVE);
    ck_assert_int_eq(kind_now(), HF_WHY_HELD); /* the agent's answer for a lock that is held */
    atomic_store(&agent.renews, false);
    agent_publish(&agent, -1);
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    ck_assert_int_eq(kind_now(), HF_WHY_SESSION_LOST);
    agent_publish(&agent, LONG_TTL_NS);
}
END_TEST

START_TEST(the_agent_comes_back_with_another_session)
{
    open_with(NULL);
    take(HF_EXCLUSIVE);
    agent_stop(&agent);
    agent_start(&agent, false);
    (void)lost_by(HF_WHY_SESSION_LOST);
}
END_TEST

START_TEST(a_reason_lasts_until_the_next_attempt)
{
    const struct hfi_ending ending = {.kind = HFI_ENDING_BROKEN, .uid = 7, .agent = "host-b"};
    hf_lock *theirs = NULL;
    open_with(NULL);
    ck_assert_int_eq(REACHED(hf_open(other, "a", NULL, &theirs)), 0);
    take(HF_EXCLUSIVE);
    end_hold(&ending);
    ck_assert_int_eq(kind_now(), HF_WHY_BROKEN);
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    ck_assert_int_eq(kind_now(), HF_WHY_BROKEN);
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, HF_FOREVER, NULL), 0);
    ck_assert_int_eq(kind_now(),
                     HF_WHY_BROKEN); /* the next hold of the lock does not change this reason */
    struct attempt attempt = {.lock = lock, .mode = HF_EXCLUSIVE, .timeout_ns = HF_FOREVER};
    pthread_t thread;
    ck_assert_int_eq(pthread_create(&thread, NULL, attempt_run, &attempt), 0);
    await_waiting(&attempt);
    AWAIT(kind_now() == HF_WHY_HELD);
    cancel_and_join(&attempt, thread);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 1, NULL), HF_ETIMEDOUT);
    ck_assert_int_eq(kind_now(), HF_WHY_HELD);
    ck_assert_int_eq(hf_release(theirs), 0);
    take(HF_EXCLUSIVE);
    ck_assert_int_eq(hf_release(lock), 0);
    ck_assert_int_eq(kind_now(), HF_WHY_HELD);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("ended");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, clients_destroy);
    tcase_add_test(tests, a_break_names_the_user_and_the_host);
    tcase_add_test(tests, a_user_of_this_host_has_a_name);
    tcase_add_test(tests, a_broken_reader_learns_the_same);
    tcase_add_loop_test(tests, reasons_that_the_agent_notes, 0, 5);
    tcase_add_test(tests, an_agent_that_notes_nothing);
    tcase_add_loop_test(tests, a_limit_that_the_agent_has_not_seen, 0, 2);
    tcase_add_test(tests, a_lease_beside_a_longer_stall);
    tcase_add_test(tests, no_agent_renews_the_session);
    tcase_add_test(tests, a_late_release_notes_it);
    tcase_add_test(tests, the_agent_comes_back_with_another_session);
    tcase_add_test(tests, a_reason_lasts_until_the_next_attempt);
    return suite_main("lib_ended", tests);
}
