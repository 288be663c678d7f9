/* libholdfast: an agent that goes away and comes back, and the events of hf_next_event(). */
#include "lib_clients.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>

#include "../suite_main.h"
/* libholdfast's own header: its hooks let the test act in the middle of a call */
#include "client.h"

/* Leases are long. A test about the end of a lease shortens its lease by lapse_in(). */
static void setup(void)
{
    clients_create(LONG_TTL_NS);
}

/* Stops the agent. Its last lease ends in lease_ns, and the grace lasts grace_ns. */
static void lapse_in(int64_t lease_ns, int64_t grace_ns)
{
    agent_stop(&agent);
    agent.region.header->grace_ns = (uint64_t)grace_ns;
    agent_publish(&agent, lease_ns);
}

static hf_lock *open_lock(hf_client *of, const char *name)
{
    hf_lock *lock = NULL;
    ck_assert_int_eq(REACHED(hf_open(of, name, NULL, &lock)), 0);
    return lock;
}

/* Waits for the next event, with nothing but poll() on the descriptor. Returns false after the
 * timeout. */
static bool await_event(struct hf_event *event, int64_t timeout_ns)
{
    int64_t deadline_ns = now_ns() + timeout_ns;
    for (;;) {
        int got = hf_next_event(client, event);
        ck_assert_int_ge(got, 0);
        if (got == 1) {
            return true;
        }
        int64_t left_ns = deadline_ns - now_ns();
        if (left_ns <= 0) {
            return false;
        }
        struct pollfd polled = {.fd = hf_event_fd(client), .events = POLLIN};
        poll(&polled, 1, (int)(left_ns / MS) + 1);
    }
}

static void expect(enum hf_event_kind kind, const hf_lock *lock, const char *name)
{
    struct hf_event event;
    ck_assert(await_event(&event, 60 * S)); /* the timeout only prevents a hang */
    ck_assert_int_eq(event.kind, kind);
    ck_assert_ptr_eq(event.lock, lock);
    ck_assert_str_eq(event.name, name);
}

static void expect_nothing(int64_t for_ns)
{
    struct hf_event event;
    ck_assert(!await_event(&event, for_ns));
}

START_TEST(holds_survive_a_restart_of_the_agent)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    struct hf_hold before;
    struct hf_hold after;
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, &before), 0);
    agent_stop(&agent);
    ck_assert_int_gt(hf_remaining_ns(lock), 0);
    agent_start(&agent, true);
    /* a new name needs the agent, so the library connects again */
    hf_lock *fresh = open_lock(client, "b");
    ck_assert_int_gt(hf_remaining_ns(lock), 0);
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
    ck_assert_int_eq(hf_release(lock), 0);
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, &after), 0);
    ck_assert_uint_gt(after.token, before.token);
    ck_assert_int_eq(hf_acquire(fresh, HF_SHARED, -1, NULL), 0);
}
END_TEST

START_TEST(a_forgotten_client_has_lost_its_holds)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *idle = open_lock(client, "b");
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    agent_stop(&agent);
    agent_start(&agent, false);
    open_lock(client, "c");
    ck_assert_int_eq(hf_remaining_ns(lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), HF_ELOST);
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire(idle, HF_SHARED, -1, NULL), 0);
    ck_assert_int_eq(hf_release(lock), 0);
    ck_assert_int_eq(hf_release(idle), 0);
}
END_TEST

START_TEST(a_wait_goes_on_when_the_agent_is_back)
{
    hf_lock *held = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    ck_assert_int_eq(hf_acquire(held, HF_EXCLUSIVE, 0, NULL), 0);
    struct attempt attempt = {.lock = theirs, .mode = HF_EXCLUSIVE, .timeout_ns = -1};
    pthread_t thread;
    pthread_create(&thread, NULL, attempt_run, &attempt);
    AWAIT(is_waited_for("a"));
    lapse_in(100 * MS, 10 * S);
    sleep_ms(600); /* this sleep is longer than the lease */
    ck_assert_int_eq(hf_release(held), HF_ELOST);
    sleep_ms(100);
    agent_start(&agent, _i == 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(attempt.result, 0);
    ck_assert_int_gt(hf_remaining_ns(theirs), 0);
}
END_TEST

START_TEST(without_an_agent_a_try_says_so_and_a_wait_can_be_canceled)
{
    hf_lock *lock = open_lock(client, "a");
    lapse_in(MS, MS);
    sleep_ms(10);
    int64_t began = served_ns();
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), HF_ENOAGENT);
    ck_assert_int_lt(served_ns() - began, 3 * S);
    ck_assert_int_eq(hf_acquire(lock, HF_SHARED, 100 * MS, NULL), HF_ETIMEDOUT);
    hf_lock *none = NULL;
    ck_assert_int_eq(hf_open(client, "b", NULL, &none), HF_ENOAGENT);
    struct attempt attempt = {.lock = lock, .mode = HF_EXCLUSIVE, .timeout_ns = -1};
    pthread_t thread;
    pthread_create(&thread, NULL, attempt_run, &attempt);
    sleep_ms(700);
    began = served_ns();
    cancel_and_join(&attempt, thread);
    ck_assert_int_lt(served_ns() - began, S);
    agent_start(&agent, true);
}
END_TEST

/* Makes a hold whose lease and grace end. Returns false if this thread got no processor during the
 * whole grace, so that LOST was the only event. */
static bool jeopardy_then_loss(hf_lock *lock, int64_t grace_ns)
{
    struct hf_event event;
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, -1, NULL), 0);
    lapse_in(400 * MS, grace_ns);
    int64_t lease_ns = hfi_lease_deadline_ns(atomic_load(&agent.region.header->lease));
    int64_t unserved = now_ns() - served_ns(); /* the time without a processor so far */
    ck_assert(await_event(&event, 60 * S));    /* the timeout only prevents a hang */
    ck_assert_ptr_eq(event.lock, lock);
    bool told = event.kind == HF_EVENT_JEOPARDY;
    if (told) {
        ck_assert_int_ge(now_ns(), lease_ns);
        ck_assert_int_lt(served_ns() + unserved, lease_ns + 300 * MS);
        ck_assert_int_eq(hf_remaining_ns(lock), 0);
        int again = hf_acquire(lock, HF_EXCLUSIVE, 0, NULL);
        bool late = now_ns() >= lease_ns + grace_ns;
        ck_assert(again == HF_EALREADY || (late && again == HF_ELOST));
        expect(HF_EVENT_LOST, lock, "a");
    } else {
        ck_assert_int_eq(event.kind, HF_EVENT_LOST);
    }
    ck_assert_int_ge(now_ns(), lease_ns + grace_ns);
    ck_assert_int_lt(served_ns() + unserved, lease_ns + grace_ns + 500 * MS);
    expect_nothing(300 * MS);
    /* the epoch is the same, but the loss was already reported */
    agent_publish(&agent, LONG_TTL_NS);
    ck_assert_int_eq(hf_remaining_ns(lock), 0);
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    agent_start(&agent, true);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, -1, NULL), 0);
    ck_assert_int_gt(hf_remaining_ns(lock), 0);
    ck_assert_int_eq(hf_release(lock), 0);
    return told;
}

START_TEST(jeopardy_and_loss_come_by_the_clients_own_timer)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *free_lock = open_lock(client, "b");
    ck_assert_int_ge(hf_event_fd(client), 0);
    expect_nothing(10 * MS);
    ck_assert_int_eq(hf_acquire(free_lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_release(free_lock), 0);
    bool told = false;
    for (int64_t grace_ns = 400 * MS; grace_ns < 10 * S && !told; grace_ns *= 2) {
        told = jeopardy_then_loss(lock, grace_ns);
    }
    ck_assert(told);
}
END_TEST

START_TEST(safe_again_when_the_agent_is_back_in_time)
{
    hf_lock *lock = open_lock(client, "a");
    ck_assert_int_ge(hf_event_fd(client), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    lapse_in(400 * MS, 60 * S);
    expect(HF_EVENT_JEOPARDY, lock, "a");
    agent_start(&agent, true);
    expect(HF_EVENT_SAFE, lock, "a");
    ck_assert_int_gt(hf_remaining_ns(lock), 0);
    expect_nothing(200 * MS);
    ck_assert_int_eq(hf_release(lock), 0);
}
END_TEST

START_TEST(a_poke_makes_it_look)
{
    hf_lock *lock = open_lock(client, "a");
    ck_assert_int_ge(hf_event_fd(client), 0);
    expect_nothing(10 * MS);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert(agent_evict(&agent, "a", 60 * S));
    struct hfi_frame poke = {.kind = HFI_FRAME_POKE};
    int64_t began = served_ns();
    agent_send(&agent, &poke);
    expect(HF_EVENT_LOST, lock, "a");
    ck_assert_int_lt(served_ns() - began, 200 * MS);
    expect_nothing(50 * MS);
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    expect_nothing(50 * MS);
}
END_TEST

/* A loss that hf_release() has reported is no event: the caller has no such hold any more. */
START_TEST(a_loss_that_a_release_told_is_no_event)
{
    hf_lock *lock = open_lock(client, "a");
    ck_assert_int_ge(hf_event_fd(client), 0);
    expect_nothing(10 * MS);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert(agent_evict(&agent, "a", 60 * S));
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    struct hfi_frame poke = {.kind = HFI_FRAME_POKE};
    agent_send(&agent, &poke);
    expect_nothing(50 * MS);
}
END_TEST

START_TEST(a_limit_is_told_in_time)
{
    hf_lock *lock = NULL;
    struct hf_lock_options options = {.size = sizeof(options), .lease_ns = 120 * MS};
    ck_assert_int_eq(hf_open(client, "a", &options, &lock), 0);
    ck_assert_int_ge(hf_event_fd(client), 0);
    expect_nothing(10 * MS);
    struct hf_hold hold;
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, &hold), 0);
    int64_t unserved = now_ns() - served_ns(); /* the time without a processor so far */
    expect(HF_EVENT_LOST, lock, "a");
    ck_assert_int_ge(now_ns(), hold.deadline_ns);
    ck_assert_int_lt(served_ns() + unserved, hold.deadline_ns + 200 * MS);
}
END_TEST

/* Two clients hold the lock shared. One of them begins to upgrade. */
static pthread_t read_and_upgrade(hf_lock **lock, hf_lock **theirs, int64_t lease_ns,
                                  struct attempt *attempt)
{
    pthread_t thread;
    struct hf_lock_options options = {
        .size = sizeof(options), .flags = HF_REENTRANT, .lease_ns = lease_ns};
    ck_assert_int_eq(hf_open(client, "a", &options, lock), 0);
    *theirs = open_lock(other, "a");
    ck_assert_int_ge(hf_event_fd(client), 0);
    expect_nothing(10 * MS);
    ck_assert_int_eq(hf_acquire(*theirs, HF_SHARED, -1, NULL), 0);
    ck_assert_int_eq(hf_acquire(*lock, HF_SHARED, -1, NULL), 0);
    *attempt = (struct attempt){.lock = *lock, .mode = HF_EXCLUSIVE, .timeout_ns = -1};
    pthread_create(&thread, NULL, attempt_run, attempt);
    return thread;
}

/* Lets an upgrade wait for another reader until the upgrading client's hold ends: after lease_ns
 * (even without an agent), or by a break if lease_ns is 0. Returns false if the upgrade was never
 * seen waiting: on a busy machine the hold may end before the upgrade begins, or before this thread
 * looks. */
static bool upgrade_to_the_end(int64_t lease_ns)
{
    hf_lock *lock = NULL;
    hf_lock *theirs = NULL;
    struct attempt attempt;
    bool broken = lease_ns == 0;
    bool waits = false;
    pthread_t thread = read_and_upgrade(&lock, &theirs, lease_ns, &attempt);
    uint32_t slot = agent_slot(&agent, "a");
    AWAIT((waits = (agent_word(&agent, "a") & HFI_W_HOLDER) != 0) || atomic_load(&attempt.over));
    for (uint32_t seat = 0; broken && seat < agent.region.block_count * HFI_BLOCK_SEATS; seat++) {
        if (atomic_load(&hfi_seat(&agent.region, seat)->holder) ==
            hfi_word_holder(agent_word(&agent, "a"))) {
            ck_assert(hfi_evict_reader(&agent.actor, slot, seat, 0, 0));
            break;
        }
    }
    pthread_join(thread, NULL);
    ck_assert_int_eq(attempt.result, HF_ELOST);
    ck_assert_uint_eq(agent_word(&agent, "a") & HFI_W_HOLDER, 0);
    ck_assert_int_eq(hf_remaining_ns(lock), 0);
    expect(HF_EVENT_LOST, lock, "a");
    ck_assert_int_eq(hf_release(lock), HF_ELOST);
    ck_assert_int_eq(hf_release(theirs), 0);
    hf_close(lock);
    hf_close(theirs);
    return waits;
}

/* A caller that upgrades waits for the other readers. If its hold ends meanwhile, the wait ends,
 * however long the readers stay. */
START_TEST(an_upgrade_ends_with_the_hold)
{
    bool waited = _i == 1 && upgrade_to_the_end(0);
    for (int64_t lease_ns = 300 * MS; _i == 0 && lease_ns < 20 * S && !waited; lease_ns *= 2) {
        waited = upgrade_to_the_end(lease_ns);
    }
    ck_assert(waited);
}
END_TEST

/* Called in the middle of the next call of the library, when it reads the clock or wakes a
 * sleeper. */
static void (*meanwhile)(hf_lock *lock);
static hf_lock *meanwhile_lock;
static struct hfi_kernel kernel_before;

static void meanwhile_run(void)
{
    void (*run)(hf_lock *) = meanwhile;
    meanwhile = NULL;
    if (run != NULL) {
        run(meanwhile_lock);
        struct hfi_frame poke = {.kind = HFI_FRAME_POKE};
        struct hf_event event;
        agent_send(&agent, &poke);
        /* no event while the hold is being changed */
        ck_assert_int_eq(hf_next_event(client, &event), 0);
    }
}

static int64_t now_and_meanwhile(void *arg)
{
    meanwhile_run();
    return kernel_before.now_ns(arg);
}

static void wake_and_meanwhile(void *arg, _Atomic uint32_t *word, int count)
{
    kernel_before.wake(arg, word, count);
    meanwhile_run();
}

static struct hfi_kernel *kernel_of(hf_lock *lock)
{
    kernel_before = atomic_load(&lock->binding)->map->kernel;
    meanwhile_lock = lock;
    return &atomic_load(&lock->binding)->map->kernel;
}

static void nothing_else(hf_lock *lock)
{
    (void)lock;
}

static void evict(hf_lock *lock)
{
    (void)lock;
    ck_assert(agent_evict(&agent, "a", 60 * S));
}

/* Marks the hold as lost, as when a new agent does not know the hold. */
static void forget(hf_lock *lock)
{
    hold_mark_lost(lock, atomic_load(&lock->hold.number));
}

/* In the middle of a downgrade, the word shows neither an exclusive nor a shared hold, so a look at
 * the word does not tell when the hold ends. After the downgrade, the end is reported in time. */
START_TEST(a_limit_is_told_in_time_after_a_downgrade)
{
    hf_lock *lock = NULL;
    hf_lock *theirs = open_lock(other, "a");
    struct hf_lock_options options = {.size = sizeof(options), .lease_ns = 30 * S};
    struct hf_hold hold;
    pthread_t thread;
    ck_assert_int_eq(hf_open(client, "a", &options, &lock), 0);
    ck_assert_int_ge(hf_event_fd(client), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, &hold), 0);
    struct attempt attempt = {.lock = theirs, .mode = HF_SHARED, .timeout_ns = -1};
    pthread_create(&thread, NULL, attempt_run, &attempt);
    AWAIT(is_waited_for("a"));
    /* this is called when the downgrade wakes the reader, after it has stored the word */
    kernel_of(lock)->wake = wake_and_meanwhile;
    meanwhile = nothing_else;
    ck_assert_int_eq(hf_downgrade(lock), 0);
    ck_assert_ptr_null(meanwhile);
    pthread_join(thread, NULL);
    ck_assert_int_eq(attempt.result, 0);
    struct pollfd polled = {.fd = hf_event_fd(client), .events = POLLIN};
    ck_assert_int_eq(poll(&polled, 1, 0), 1);
    expect_nothing(0);
    ck_assert_int_eq(client->events.armed_ns, hold.deadline_ns);
}
END_TEST

/* A loss is not reported during the call that changes the hold, but after it. */
START_TEST(a_loss_while_the_hold_is_changed_is_told)
{
    static const struct {
        bool downgrade;
        void (*meanwhile)(hf_lock *lock);
        int result;
    } cases[] = {{true, evict, HF_ELOST}, {true, forget, 0}, {false, forget, 0}};
    hf_lock *lock = NULL;
    struct hf_lock_options options = {.size = sizeof(options), .flags = HF_REENTRANT};
    bool downgrade = cases[_i].downgrade;
    ck_assert_int_eq(hf_open(client, "a", &options, &lock), 0);
    ck_assert_int_ge(hf_event_fd(client), 0);
    expect_nothing(10 * MS);
    ck_assert_int_eq(hf_acquire(lock, downgrade ? HF_EXCLUSIVE : HF_SHARED, -1, NULL), 0);
    kernel_of(lock)->now_ns = now_and_meanwhile;
    meanwhile = cases[_i].meanwhile;
    int result = downgrade ? hf_downgrade(lock) : hf_acquire(lock, HF_EXCLUSIVE, -1, NULL);
    ck_assert_int_eq(result, cases[_i].result);
    ck_assert_ptr_null(meanwhile);
    ck_assert_int_eq(hf_remaining_ns(lock), 0);
    expect(HF_EVENT_LOST, lock, "a");
}
END_TEST

START_TEST(granted_is_told_of_a_wait)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    ck_assert_int_ge(hf_event_fd(client), 0);
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    struct attempt attempt = {.lock = lock, .mode = HF_EXCLUSIVE, .timeout_ns = -1};
    pthread_t thread;
    pthread_create(&thread, NULL, attempt_run, &attempt);
    AWAIT(is_waited_for("a"));
    ck_assert_int_eq(hf_release(theirs), 0);
    expect(HF_EVENT_GRANTED, lock, "a");
    pthread_join(thread, NULL);
    ck_assert_int_eq(hf_release(lock), 0);
    /* this acquire did not wait, so no event follows */
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    expect_nothing(50 * MS);
}
END_TEST

static void send_changed(const char *name)
{
    struct hfi_frame changed = {.kind = HFI_FRAME_CHANGED,
                                .text = {.bytes = name, .size = (uint32_t)strlen(name)}};
    agent_send(&agent, &changed);
}

START_TEST(changes_are_told_and_survive_a_restart)
{
    char long_prefix[300];
    memset(long_prefix, 'p', sizeof(long_prefix));
    long_prefix[256] = '\0';
    ck_assert_int_eq(hf_watch(client, long_prefix), HF_EINVAL);
    ck_assert_int_eq(hf_watch(client, "jobs/"), 0);
    ck_assert_int_eq(hf_watch(client, "jobs/"), 0);
    send_changed("jobs/a");
    send_changed("jobs/b");
    /* this call receives the frames while it waits for its answer */
    hf_lock *lock = open_lock(client, "x");
    expect(HF_EVENT_CHANGED, NULL, "jobs/a");
    expect(HF_EVENT_CHANGED, NULL, "jobs/b");
    expect_nothing(20 * MS);
    agent_stop(&agent);
    expect_nothing(100 * MS);
    agent_start(&agent, true);
    /* changes may have been missed, so the program must look at the whole prefix */
    expect(HF_EVENT_CHANGED, NULL, "jobs/");
    send_changed("jobs/c");
    expect(HF_EVENT_CHANGED, NULL, "jobs/c");
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
}
END_TEST

/* If _i is 1, the agent is away during hf_unwatch(). The agent that comes back does not get the
 * watch that was ended. */
START_TEST(an_unwatched_prefix_is_told_no_more)
{
    ck_assert_int_eq(hf_watch(client, "jobs/"), 0);
    ck_assert_int_eq(hf_watch(client, "jobs/a"), 0);
    ck_assert_int_eq(hf_watch(client, "users/"), 0);
    send_changed("jobs/b");
    send_changed("jobs/a1");
    send_changed("users/x");
    hf_lock *lock = open_lock(client, "x"); /* this call receives the frames */
    send_changed("jobs/c");                 /* this frame arrives before the answer to
                                             * hf_unwatch() */
    if (_i == 1) {
        agent_stop(&agent);
    }
    ck_assert_int_eq(hf_unwatch(client, "jobs/"), 0);
    ck_assert_int_eq(hf_unwatch(client, "jobs/"), 0);
    ck_assert_int_eq(hf_unwatch(client, "never"), 0);
    ck_assert(_i == 1 || atomic_load(&agent.last_kind) == HFI_FRAME_UNWATCH);
    expect(HF_EVENT_CHANGED, NULL, "jobs/a1");
    expect(HF_EVENT_CHANGED, NULL, "users/x");
    expect_nothing(20 * MS);
    if (_i == 1) {
        agent_start(&agent, true);
        /* one event for each prefix that is still watched */
        expect(HF_EVENT_CHANGED, NULL, "users/");
        expect(HF_EVENT_CHANGED, NULL, "jobs/a");
        expect_nothing(20 * MS);
    }
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, HF_FOREVER, NULL), 0);
}
END_TEST

START_TEST(too_many_changes_become_one)
{
    ck_assert_int_eq(hf_watch(client, "jobs/"), 0);
    for (int i = 0; i < 1100; i++) {
        send_changed("jobs/a");
        if (i % 100 == 99) {
            /* this call receives frames, although the program reads no events */
            open_lock(client, "x");
        }
    }
    struct hf_event event;
    bool prefix = false;
    int count = 0;
    while (await_event(&event, 50 * MS)) {
        ck_assert_int_eq(event.kind, HF_EVENT_CHANGED);
        prefix |= strcmp(event.name, "jobs/") == 0;
        count++;
    }
    ck_assert(prefix);
    ck_assert_int_le(count, 1024);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("events");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, clients_destroy);
    tcase_add_test(tests, holds_survive_a_restart_of_the_agent);
    tcase_add_test(tests, a_forgotten_client_has_lost_its_holds);
    tcase_add_loop_test(tests, a_wait_goes_on_when_the_agent_is_back, 0, 2);
    tcase_add_test(tests, without_an_agent_a_try_says_so_and_a_wait_can_be_canceled);
    tcase_add_test(tests, jeopardy_and_loss_come_by_the_clients_own_timer);
    tcase_add_test(tests, safe_again_when_the_agent_is_back_in_time);
    tcase_add_test(tests, a_poke_makes_it_look);
    tcase_add_test(tests, a_loss_that_a_release_told_is_no_event);
    tcase_add_test(tests, a_limit_is_told_in_time);
    tcase_add_loop_test(tests, an_upgrade_ends_with_the_hold, 0, 2);
    tcase_add_test(tests, a_limit_is_told_in_time_after_a_downgrade);
    tcase_add_loop_test(tests, a_loss_while_the_hold_is_changed_is_told, 0, 3);
    tcase_add_test(tests, granted_is_told_of_a_wait);
    tcase_add_test(tests, changes_are_told_and_survive_a_restart);
    tcase_add_loop_test(tests, an_unwatched_prefix_is_told_no_more, 0, 2);
    tcase_add_test(tests, too_many_changes_become_one);
    return suite_main("lib_events", tests);
}
