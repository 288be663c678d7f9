/* libholdfast: hf_acquire_start(), which ends in an event and needs no thread. */
#include "lib_clients.h"

#include <poll.h>
#include <string.h>
#include <sys/wait.h>

#include "../emulation.h"
#include "../suite_main.h"
/* libholdfast's own header, for a clock that is ahead */
#include "client.h"

static void setup(void)
{
    clients_create(LONG_TTL_NS);
}

static hf_lock *open_lock(hf_client *of, const char *name)
{
    hf_lock *lock = NULL;
    ck_assert_int_eq(REACHED(hf_open(of, name, NULL, &lock)), 0);
    return lock;
}

/* Waits for the client's next event, with nothing but poll() on the descriptor. Returns false after
 * the timeout. */
static bool await_event(struct hf_event *event, int64_t timeout_ns)
{
    int64_t deadline_ns = now_ns() + timeout_ns;
    for (;;) { /* the loop ends at the timeout */
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

static void expect_granted(const hf_lock *lock)
{
    struct hf_event event;
    ck_assert(await_event(&event, 60 * S)); /* the timeout only prevents a hang */
    ck_assert_int_eq(event.kind, HF_EVENT_GRANTED);
    ck_assert_ptr_eq(event.lock, lock);
    ck_assert_str_eq(event.name, "a");
    ck_assert_uint_gt(event.token, 0);
    ck_assert_int_eq(event.error, 0);
    ck_assert_int_gt(hf_remaining_ns(lock), 0);
}

static void expect_failed(const hf_lock *lock, int error)
{
    struct hf_event event;
    ck_assert(await_event(&event, 60 * S));
    ck_assert_int_eq(event.kind, HF_EVENT_FAILED);
    ck_assert_ptr_eq(event.lock, lock);
    ck_assert_str_eq(event.name, "a");
    ck_assert_int_eq(event.error, error);
    ck_assert_int_eq(hf_remaining_ns(lock), 0);
}

static void expect_nothing(int64_t for_ns)
{
    struct hf_event event;
    ck_assert(!await_event(&event, for_ns));
}

START_TEST(a_free_lock_is_granted_at_once_and_by_an_event)
{
    hf_lock *lock = open_lock(client, "a");
    for (int i = 0; i < 3; i++) {
        enum hf_mode mode = i == 1 ? HF_SHARED : HF_EXCLUSIVE;
        ck_assert_int_eq(hf_acquire_start(lock, mode, i == 2 ? 0 : -1), 0);
        expect_granted(lock);
        ck_assert_int_eq(hf_release(lock), 0);
        expect_nothing(1 * MS);
    }
}
END_TEST

START_TEST(a_start_is_granted_when_the_holder_releases)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    for (int mode = HF_EXCLUSIVE; mode <= HF_SHARED; mode++) {
        ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
        ck_assert_int_eq(hf_acquire_start(lock, (enum hf_mode)mode, -1), 0);
        expect_nothing(20 * MS);
        ck_assert(is_waited_for("a"));
        ck_assert_int_eq(hf_release(theirs), 0);
        expect_granted(lock);
        ck_assert_int_eq(hf_release(lock), 0);
    }
}
END_TEST

START_TEST(an_exclusive_start_waits_for_the_last_reader)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    hf_lock *second = open_lock(other, "a");
    ck_assert_int_eq(hf_acquire(theirs, HF_SHARED, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire(second, HF_SHARED, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, -1), 0);
    expect_nothing(20 * MS);
    ck_assert_int_eq(hf_release(theirs), 0);
    expect_nothing(20 * MS);
    ck_assert_int_eq(hf_release(second), 0);
    expect_granted(lock);
}
END_TEST

/* Starts and threads that wait are served in the order in which they came. */
START_TEST(starts_and_threads_are_served_in_order)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    hf_lock *threads = open_lock(other, "a");
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    struct attempt attempt = {.lock = threads, .mode = HF_EXCLUSIVE, .timeout_ns = -1};
    pthread_t thread;
    uint32_t seats[4];
    if (_i == 0) {
        ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, -1), 0);
    }
    pthread_create(&thread, NULL, attempt_run, &attempt);
    AWAIT(hfi_queue(&agent.region, agent_slot(&agent, "a"), seats, 4) == (_i == 0 ? 2 : 1));
    if (_i == 1) {
        ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, -1), 0);
    }
    ck_assert_int_eq(hf_release(theirs), 0);
    if (_i == 0) {
        expect_granted(lock);
        ck_assert_int_eq(hf_release(lock), 0);
        pthread_join(thread, NULL);
        ck_assert_int_eq(attempt.result, 0);
    } else {
        pthread_join(thread, NULL);
        ck_assert_int_eq(attempt.result, 0);
        expect_nothing(20 * MS);
        ck_assert_int_eq(hf_release(threads), 0);
        expect_granted(lock);
    }
}
END_TEST

START_TEST(while_a_start_is_pending_the_handle_says_so)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, -1), 0);
    ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, -1), HF_EBUSY);
    ck_assert_ptr_nonnull(strstr(hf_error_text(client), "an hf_acquire_start of \"a\""));
    ck_assert_int_eq(hf_acquire(lock, HF_SHARED, 60 * S, NULL), HF_EBUSY);
    ck_assert_ptr_nonnull(strstr(hf_error_text(client), "an hf_acquire_start of \"a\""));
    ck_assert_int_eq(hf_release(lock), HF_ENOTHELD);
    ck_assert_int_eq(hf_downgrade(lock), HF_ENOTHELD);
    ck_assert_int_eq(hf_release(theirs), 0);
    expect_granted(lock);
    ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, -1), HF_EALREADY);
    ck_assert_ptr_nonnull(strstr(hf_error_text(client), "holds the lock already"));
    ck_assert_int_eq(hf_release(lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_SHARED, 0, NULL), 0);
}
END_TEST

/* A start on a free lock ends at once: the handle holds, and reports its hold, before the program
 * has read the event. If the program ends the hold first, the event does not come. _i: afterwards
 * the handle has no second hold, a hold without an event, or a hold with its own event. */
START_TEST(an_event_is_not_about_a_released_hold)
{
    hf_lock *lock = open_lock(client, "a");
    ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, -1), 0);
    ck_assert_int_gt(hf_remaining_ns(lock), 0);
    ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, -1), HF_EALREADY);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, -1, NULL), HF_EALREADY);
    ck_assert_int_eq(hf_release(lock), 0);
    ck_assert_int_eq(hf_release(lock), HF_ENOTHELD);
    if (_i == 1) {
        ck_assert_int_eq(hf_acquire(lock, HF_SHARED, 0, NULL), 0);
    } else if (_i == 2) {
        ck_assert_int_eq(hf_acquire_start(lock, HF_SHARED, -1), 0);
        expect_granted(lock);
    }
    expect_nothing(20 * MS);
}
END_TEST

/* A thread's wait got the lock, and the thread released it before the program read the event. */
START_TEST(an_event_is_not_about_a_wait_that_is_over)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    struct attempt attempt = {.lock = lock, .mode = HF_EXCLUSIVE, .timeout_ns = -1};
    pthread_t thread;
    ck_assert_int_ge(hf_event_fd(client), 0);
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    pthread_create(&thread, NULL, attempt_run, &attempt);
    AWAIT(is_waited_for("a"));
    ck_assert_int_eq(hf_release(theirs), 0);
    pthread_join(thread, NULL);
    ck_assert_int_eq(attempt.result, 0);
    ck_assert_int_eq(hf_release(lock), 0);
    expect_nothing(20 * MS);
}
END_TEST

START_TEST(arguments_are_checked)
{
    hf_lock *lock = open_lock(client, "a");
    ck_assert_int_eq(hf_acquire_start(NULL, HF_EXCLUSIVE, -1), HF_EINVAL);
    ck_assert_int_eq(hf_acquire_start(lock, (enum hf_mode)7, -1), HF_EINVAL);
}
END_TEST

START_TEST(the_child_of_a_fork_starts_nothing)
{
    if (!fork_is_wiped("lib_starts")) {
        return;
    }
    hf_lock *lock = open_lock(client, "a");
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        _exit(hf_acquire_start(lock, HF_EXCLUSIVE, -1) == HF_EFORKED ? 0 : 1);
    }
    int status = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(a_start_fails_at_its_timeout)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    int64_t begun_ns = now_ns();
    ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, 100 * MS), 0);
    expect_failed(lock, HF_ETIMEDOUT);
    ck_assert_int_ge(now_ns() - begun_ns, 100 * MS);
    ck_assert(!is_waited_for("a"));
    ck_assert_int_eq(hf_acquire_start(lock, HF_SHARED, 0), 0); /* a try */
    expect_failed(lock, HF_EBUSY);
    ck_assert(!is_waited_for("a"));
    ck_assert_int_eq(hf_release(theirs), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
}
END_TEST

START_TEST(a_start_is_cancelled)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, -1), 0);
    expect_nothing(10 * MS);
    ck_assert_int_eq(hf_cancel(lock), 0);
    expect_failed(lock, HF_ECANCELED);
    ck_assert(!is_waited_for("a"));
    ck_assert_int_eq(hf_release(theirs), 0);
}
END_TEST

/* If a handle or client with a start is closed, the start leaves the queue, and the next waiter
 * gets the lock. The start may have got the lock already, or not. */
START_TEST(a_closed_handle_has_no_start)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    bool turn_came = _i & 1;
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, -1), 0);
    if (turn_came) {
        ck_assert_int_eq(hf_release(theirs), 0);
    }
    if (_i & 2) {
        hf_disconnect(client);
        client = join();
    } else {
        hf_close(lock);
        expect_nothing(20 * MS);
    }
    ck_assert(!is_waited_for("a"));
    if (!turn_came) {
        ck_assert_int_eq(hf_release(theirs), 0);
    }
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
}
END_TEST

START_TEST(a_start_goes_on_when_the_agent_is_back)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, -1), 0);
    agent_stop(&agent);
    expect_nothing(20 * MS);
    ck_assert_int_eq(hf_release(theirs), 0); /* no agent can send a POKE */
    agent_start(&agent, true);
    expect_granted(lock);
}
END_TEST

START_TEST(a_start_goes_on_after_a_session_that_is_over)
{
    hf_lock *lock = open_lock(client, "a");
    agent_stop(&agent);
    agent_publish(&agent, -1 * S);
    ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, -1), 0);
    expect_nothing(300 * MS);
    agent_start(&agent, true);
    expect_granted(lock);
}
END_TEST

/* A start could take the lock, but the lease is over, so its steps have no effect. They must not
 * ring for the agent: the agent would poke the client, and the client would make the next step at
 * once. The start is a reader of a watched lock, or a second start of the client waits behind
 * it. */
START_TEST(without_a_lease_a_start_does_not_ring_again_and_again)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *second = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire_start(lock, HF_SHARED, -1), 0);
    if (_i == 0) {
        atomic_fetch_or(&agent.region.words[agent_slot(&agent, "a")].word, HFI_W_WATCHED);
    } else {
        ck_assert_int_eq(hf_acquire_start(second, HF_EXCLUSIVE, -1), 0);
    }
    atomic_store(&agent.renews, false);
    expect_nothing(50 * MS);
    ck_assert_int_eq(hf_release(theirs), 0); /* the release rings, and the agent pokes the client */
    agent_publish(&agent, -1 * S);
    uint32_t before = atomic_load(&agent.rings);
    expect_nothing(300 * MS);
    ck_assert_uint_lt(atomic_load(&agent.rings) - before, 10);
    atomic_store(&agent.renews, true);
    expect_granted(lock);
}
END_TEST

static int64_t far_ahead(void *arg)
{
    (void)arg;
    return now_ns() + 10 * LONG_TTL_NS;
}

/* A step of the start finds the lease over, and the lease is renewed before the library decides
 * when to make the next step. No process rings after that. */
START_TEST(a_start_goes_on_if_the_lease_is_renewed_after_its_step)
{
    struct hf_event event;
    hf_lock *lock = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, -1), 0);
    expect_nothing(20 * MS);
    struct hfi_kernel *kernel = &atomic_load(&lock->binding)->map->kernel;
    struct hfi_kernel real = *kernel;
    kernel->now_ns = far_ahead; /* only the step finds the lease over */
    ck_assert_int_eq(hf_release(theirs), 0);
    expect_nothing(20 * MS);
    *kernel = real;
    struct pollfd polled = {.fd = hf_event_fd(client), .events = POLLIN};
    ck_assert_int_eq(poll(&polled, 1, 10000), 1);
    ck_assert(await_event(&event, 10 * S));
    ck_assert_int_eq(event.kind, HF_EVENT_GRANTED);
}
END_TEST

/* The first start failed, and the program has not read that event. It then gets only the event of
 * its second start. */
START_TEST(a_grant_follows_a_failure_that_was_not_read)
{
    hf_lock *lock = open_lock(client, "a");
    hf_lock *theirs = open_lock(other, "a");
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, 0), 0); /* this start fails at once */
    if (_i == 0) {
        ck_assert_int_eq(hf_release(theirs), 0);
    }
    ck_assert_int_eq(hf_acquire_start(lock, HF_EXCLUSIVE, -1), 0);
    if (_i == 1) {
        expect_nothing(20 * MS);
        ck_assert_int_eq(hf_release(theirs), 0);
    }
    expect_granted(lock);
    expect_nothing(20 * MS);
    ck_assert_int_eq(hf_release(lock), 0);
}
END_TEST

/* Two threads read the client's events, and each start ends in one event. */
struct reader {
    _Atomic bool stop;
    _Atomic int granted;
};

static void *read_events(void *arg)
{
    struct reader *reader = arg;
    struct hf_event event;
    while (!atomic_load(&reader->stop)) {
        if (hf_next_event(client, &event) == 1 && event.kind == HF_EVENT_GRANTED) {
            ck_assert_int_eq(hf_release(event.lock), 0);
            atomic_fetch_add(&reader->granted, 1);
        } else {
            struct pollfd polled = {.fd = hf_event_fd(client), .events = POLLIN};
            poll(&polled, 1, 10);
        }
    }
    return NULL;
}

START_TEST(several_threads_may_read_the_events)
{
    enum { LOCKS = 8, ROUNDS = 30 };
    hf_lock *locks[LOCKS];
    struct reader reader = {0};
    pthread_t threads[2];
    for (int i = 0; i < LOCKS; i++) {
        locks[i] = open_lock(client, "a");
    }
    for (int i = 0; i < 2; i++) {
        pthread_create(&threads[i], NULL, read_events, &reader);
    }
    for (int round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < LOCKS; i++) {
            ck_assert_int_eq(hf_acquire_start(locks[i], HF_EXCLUSIVE, -1), 0);
        }
        AWAIT(atomic_load(&reader.granted) == round * LOCKS);
    }
    atomic_store(&reader.stop, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("starts");
    tcase_add_checked_fixture(tests, setup, clients_destroy);
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, a_free_lock_is_granted_at_once_and_by_an_event);
    tcase_add_test(tests, a_start_is_granted_when_the_holder_releases);
    tcase_add_test(tests, an_exclusive_start_waits_for_the_last_reader);
    tcase_add_loop_test(tests, starts_and_threads_are_served_in_order, 0, 2);
    tcase_add_test(tests, while_a_start_is_pending_the_handle_says_so);
    tcase_add_loop_test(tests, an_event_is_not_about_a_released_hold, 0, 3);
    tcase_add_test(tests, an_event_is_not_about_a_wait_that_is_over);
    tcase_add_test(tests, arguments_are_checked);
    tcase_add_test(tests, the_child_of_a_fork_starts_nothing);
    tcase_add_test(tests, a_start_fails_at_its_timeout);
    tcase_add_test(tests, a_start_is_cancelled);
    tcase_add_loop_test(tests, a_closed_handle_has_no_start, 0, 4);
    tcase_add_test(tests, a_start_goes_on_when_the_agent_is_back);
    tcase_add_test(tests, a_start_goes_on_after_a_session_that_is_over);
    tcase_add_loop_test(tests, without_a_lease_a_start_does_not_ring_again_and_again, 0, 2);
    tcase_add_test(tests, a_start_goes_on_if_the_lease_is_renewed_after_its_step);
    tcase_add_loop_test(tests, a_grant_follows_a_failure_that_was_not_read, 0, 2);
    tcase_add_test(tests, several_threads_may_read_the_events);
    return suite_main("starts", tests);
}
