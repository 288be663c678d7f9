/* libholdfast: the rules by which holdfast.h can grow, and how exact its clocks are. */
#include "lib_clients.h"

#include <string.h>
#include <sys/syscall.h>

#include "../suite_main.h"

/* Replaces the clocks that the library reads. The test counts readings of the exact clock. It can
 * stop the coarse clock, which also stops if the processor that advances it is stalled. */
static _Atomic uint64_t exact_reads;
static _Atomic int64_t coarse_stands_at_ns; /* 0: the coarse clock runs */

int clock_gettime(clockid_t clock, struct timespec *out)
{
    int result = (int)syscall(SYS_clock_gettime, clock, out);
    int64_t stands_at_ns = atomic_load(&coarse_stands_at_ns);
    if (clock == CLOCK_BOOTTIME) {
        atomic_fetch_add(&exact_reads, 1);
    } else if (clock == CLOCK_MONOTONIC_COARSE && stands_at_ns != 0) {
        *out = (struct timespec){.tv_sec = stands_at_ns / S, .tv_nsec = stands_at_ns % S};
    }
    return result;
}

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

static bool are_zero(const uint64_t *words, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (words[i] != 0) {
            return false;
        }
    }
    return true;
}

/* A program for a later version reads the reserved words, so the library must set them. The first
 * acquire of a thread takes the slow path, the second one the fast path. */
START_TEST(reserved_words_of_a_hold_are_zero)
{
    hf_lock *lock = open_lock(client, "a");
    for (int i = 0; i < 4; i++) {
        struct hf_hold hold;
        memset(&hold, 0x5a, sizeof(hold));
        enum hf_mode mode = i < 2 ? HF_EXCLUSIVE : HF_SHARED;
        ck_assert_int_eq(hf_acquire(lock, mode, 0, &hold), 0);
        ck_assert_uint_gt(hold.token, 0);
        ck_assert(are_zero(hold.reserved, 6));
        ck_assert_int_eq(hf_release(lock), 0);
    }
    hf_lock *locks[] = {lock, open_lock(client, "b")};
    struct hf_hold holds[2];
    memset(holds, 0x5a, sizeof(holds));
    ck_assert_int_eq(hf_acquire_all(locks, 2, HF_EXCLUSIVE, 0, holds), 0);
    ck_assert(are_zero(holds[0].reserved, 6) && are_zero(holds[1].reserved, 6));
}
END_TEST

START_TEST(reserved_words_of_an_event_are_zero)
{
    struct hf_event event;
    hf_lock *lock = open_lock(client, "a");
    ck_assert_int_ge(hf_event_fd(client), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert(agent_evict(&agent, "a", 0));
    struct hfi_frame poke = {.kind = HFI_FRAME_POKE};
    agent_send(&agent, &poke);
    do { /* Check's timeout bounds this loop */
        memset(&event, 0x5a, sizeof(event));
    } while (hf_next_event(client, &event) != 1);
    ck_assert_int_eq(event.kind, HF_EVENT_LOST);
    ck_assert(are_zero(event.reserved, 5));
    ck_assert_uint_eq(event.error, 0);
}
END_TEST

/* Compares whole structs, so the test also covers fields that are added later. */
START_TEST(initialisers_set_the_size_and_nothing_else)
{
    struct hf_options options = HF_OPTIONS_INIT;
    struct hf_lock_options lock_options = HF_LOCK_OPTIONS_INIT;
    struct hf_options zero = {.size = sizeof(zero)};
    struct hf_lock_options lock_zero = {.size = sizeof(lock_zero)};
    ck_assert_int_eq(memcmp(&options, &zero, sizeof(zero)), 0);
    ck_assert_int_eq(memcmp(&lock_options, &lock_zero, sizeof(lock_zero)), 0);
    hf_lock *lock = NULL;
    lock_options.lock_delay_ns = HF_NO_LOCK_DELAY;
    ck_assert_int_eq(REACHED(hf_open(client, "a", &lock_options, &lock)), 0);
    ck_assert_int_eq(atomic_load(&agent.lock_delay_ns), 0);
    ck_assert_int_eq(REACHED(hf_open(client, "b", &lock_zero, &lock)), 0);
    ck_assert_int_eq(atomic_load(&agent.lock_delay_ns), 1000 * MS);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, HF_FOREVER, NULL), 0);
}
END_TEST

START_TEST(options_without_their_size_are_refused_with_a_text)
{
    struct hf_options options = {0};
    struct hf_lock_options lock_options = {0};
    hf_client *none = NULL;
    hf_lock *lock = NULL;
    ck_assert_int_eq(hf_connect(&options, &none), HF_EINVAL);
    ck_assert_int_eq(hf_open(client, "a", &lock_options, &lock), HF_EINVAL);
    ck_assert_ptr_nonnull(strstr(hf_strerror(HF_EINVAL), "size"));
    ck_assert_ptr_nonnull(strstr(hf_strerror(HF_EINVAL), "HF_OPTIONS_INIT"));
}
END_TEST

/* hf_connect() sets `why` whatever its result is, because a program prints the buffer without
 * having initialised it. */
START_TEST(why_is_written_by_every_connect_that_can_read_its_options)
{
    char why[200];
    char path[200];
    hf_client *made = NULL;
    struct hf_options options = HF_OPTIONS_INIT;
    options.why = why;
    options.why_size = sizeof(why);
    memset(path, 'x', sizeof(path));
    path[sizeof(path) - 1] = '\0';
    options.socket = path;
    memset(why, 'y', sizeof(why));
    ck_assert_int_eq(hf_connect(&options, &made), HF_EINVAL);
    ck_assert_str_eq(why, "the socket's path has 199 bytes, expected at most 107");
    options.socket = "/nonexistent";
    options.connect_timeout_ns = MS;
    ck_assert_int_eq(hf_connect(&options, &made), HF_ENOAGENT);
    ck_assert_str_eq(why, hf_strerror(HF_ENOAGENT));
    options.socket = agent.path;
    options.connect_timeout_ns = HF_FOREVER;
    ck_assert_int_eq(hf_connect(&options, &made), 0);
    ck_assert_str_eq(why, hf_strerror(0));
    hf_disconnect(made);
}
END_TEST

START_TEST(an_event_leads_to_the_programs_own_object)
{
    int object = 0;
    struct hf_event event;
    hf_lock *lock = open_lock(client, "a/b");
    ck_assert_str_eq(hf_lock_name(lock), "a/b");
    ck_assert_ptr_null(hf_lock_data(lock));
    hf_lock_set_data(lock, &object);
    ck_assert_int_ge(hf_event_fd(client), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert(agent_evict(&agent, "a/b", 0));
    struct hfi_frame poke = {.kind = HFI_FRAME_POKE};
    agent_send(&agent, &poke);
    while (hf_next_event(client, &event) != 1) { /* Check's timeout bounds this loop */
    }
    ck_assert_ptr_eq(hf_lock_data(event.lock), &object);
    ck_assert_ptr_null(hf_lock_name(NULL));
    ck_assert_ptr_null(hf_lock_data(NULL));
    hf_lock_set_data(NULL, &object);
}
END_TEST

/* After the deadline the remaining time is 0, not negative. */
START_TEST(remaining_is_a_duration)
{
    hf_lock *lock = open_lock(client, "a");
    ck_assert_int_eq(hf_remaining_ns(lock), 0);
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_gt(hf_remaining_ns(lock), 0);
    agent_stop(&agent);
    agent_publish(&agent, -S);
    ck_assert_int_eq(hf_remaining_ns(lock), 0);
    agent_start(&agent, true);
}
END_TEST

/* If more than half of a ttl is left, a release reads only the coarse clock. */
START_TEST(a_release_reads_no_exact_clock_far_from_the_deadline)
{
    hf_lock *lock = open_lock(client, "a");
    atomic_store(&agent.renews, false);
    /* these rounds give the handle a lane (client.h) and the offset of the clocks for this lease */
    for (int i = 0; i < 3; i++) {
        ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
        ck_assert_int_eq(hf_release(lock), 0);
    }
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
    uint64_t before = atomic_load(&exact_reads);
    ck_assert_int_eq(hf_release(lock), 0);
    ck_assert_uint_eq(atomic_load(&exact_reads), before);
}
END_TEST

/* The lease lasts half of a ttl, and has ended when the lock is released. The coarse clock stood
 * still meanwhile, so the release must read the exact clock. */
START_TEST(a_release_does_not_believe_a_coarse_clock_that_stands_still)
{
    hf_lock *lock = open_lock(client, "a");
    struct timespec coarse;
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
        ck_assert_int_eq(hf_release(lock), 0);
    }
    agent_stop(&agent);
    agent_publish(&agent, 400 * MS);
    int64_t over_ns = now_ns() + 400 * MS;
    int taken = hf_acquire(lock, HF_EXCLUSIVE, 0, NULL);
    int released = hf_release(lock); /* this release stores the offset of the clocks for this
                                      * lease */
    ck_assert_int_eq(clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse), 0);
    atomic_store(&coarse_stands_at_ns, coarse.tv_sec * S + coarse.tv_nsec);
    int again = hf_acquire(lock, HF_EXCLUSIVE, 0, NULL);
    ck_assert(now_ns() > over_ns || (taken == 0 && released == 0 && again == 0));
    while (now_ns() <= over_ns) {
        sleep_ms(10);
    }
    ck_assert_int_ne(hf_release(lock), 0);
    atomic_store(&coarse_stands_at_ns, 0);
    agent_start(&agent, true);
}
END_TEST

/* The pattern of holdfast.h for stopping a waiting thread, with its two threads. */
struct stopped {
    hf_lock *lock;
    _Atomic bool about_to_wait;
    _Atomic bool stop;
    _Atomic bool done;
};

static void *wait_until_stopped(void *arg)
{
    struct stopped *stopped = arg;
    while (!atomic_load(&stopped->stop)) {
        atomic_store(&stopped->about_to_wait, true);
        sleep_ms(20); /* the first hf_cancel() comes now, before the wait begins */
        if (hf_acquire(stopped->lock, HF_EXCLUSIVE, HF_FOREVER, NULL) == 0) {
            hf_release(stopped->lock);
        }
    }
    atomic_store(&stopped->done, true);
    return NULL;
}

START_TEST(a_thread_that_is_about_to_wait_is_stopped)
{
    hf_lock *theirs = open_lock(other, "a");
    struct stopped stopped = {.lock = open_lock(client, "a")};
    pthread_t thread;
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0); /* never released */
    ck_assert_int_eq(pthread_create(&thread, NULL, wait_until_stopped, &stopped), 0);
    AWAIT(atomic_load(&stopped.about_to_wait));
    atomic_store(&stopped.stop, true);
    while (!atomic_load(&stopped.done)) { /* Check's timeout bounds this loop */
        ck_assert_int_eq(hf_cancel(stopped.lock), 0);
        sleep_ms(5);
    }
    pthread_join(thread, NULL);
}
END_TEST

START_TEST(a_cancel_before_the_wait_is_not_kept_for_it)
{
    hf_lock *theirs = open_lock(other, "a");
    hf_lock *mine = open_lock(client, "a");
    ck_assert_int_eq(hf_acquire(theirs, HF_EXCLUSIVE, 0, NULL), 0);
    ck_assert_int_eq(hf_cancel(mine), 0);
    ck_assert_int_eq(hf_acquire(mine, HF_EXCLUSIVE, 20 * MS, NULL), HF_ETIMEDOUT);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("interface");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, clients_destroy);
    tcase_add_test(tests, reserved_words_of_a_hold_are_zero);
    tcase_add_test(tests, reserved_words_of_an_event_are_zero);
    tcase_add_test(tests, initialisers_set_the_size_and_nothing_else);
    tcase_add_test(tests, options_without_their_size_are_refused_with_a_text);
    tcase_add_test(tests, why_is_written_by_every_connect_that_can_read_its_options);
    tcase_add_test(tests, an_event_leads_to_the_programs_own_object);
    tcase_add_test(tests, remaining_is_a_duration);
    tcase_add_test(tests, a_release_reads_no_exact_clock_far_from_the_deadline);
    tcase_add_test(tests, a_release_does_not_believe_a_coarse_clock_that_stands_still);
    tcase_add_test(tests, a_thread_that_is_about_to_wait_is_stopped);
    tcase_add_test(tests, a_cancel_before_the_wait_is_not_kept_for_it);
    return suite_main("lib_interface", tests);
}
