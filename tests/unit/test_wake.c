/* io/wake.h: which thread makes a wake, and that no wake is lost. The test plays the kernel. */
#include <check.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "../suite_main.h"
#include "io/clock.h"
#include "io/wake.h"

enum { HOSTILE = 3, HONEST = 4, NAP_US = 100 };

static _Atomic uint32_t words[WAKE_QUEUE + 2];
static _Atomic uint32_t woken[WAKE_QUEUE + 2]; /* how often each word was woken */
static _Atomic int counts[WAKE_QUEUE + 2];     /* the count in each word's latest wake */
static _Atomic pid_t wakers[WAKE_QUEUE + 2];   /* the thread of each word's latest wake */
static atomic_bool dear;
static atomic_bool held_up;

static void spend(int64_t spent_ns)
{
    for (int64_t end_ns = clock_thread_ns() + spent_ns; clock_thread_ns() < end_ns;) {
    }
}

/* Plays the kernel's wake. If `dear` is set, the wake takes long. */
static void wake(_Atomic uint32_t *word, int count)
{
    size_t at = (size_t)(word - words);
    while (gettid() != getpid() && atomic_load(&held_up)) {
        usleep(NAP_US);
    }
    if (atomic_load(&dear)) {
        spend((WAKE_DEAR_MS + 1) * INT64_C(1000000));
    }
    atomic_store(&wakers[at], gettid());
    atomic_store(&counts[at], count);
    atomic_fetch_add(&woken[at], 1);
}

static void await(size_t at, uint32_t times)
{
    while (atomic_load(&woken[at]) < times) { /* Check's timeout bounds this loop */
        usleep(NAP_US);
    }
}

/* Wakes words[at]. Returns the cost of the call. */
static int64_t wake_at(uint32_t space, size_t at, int count)
{
    int64_t cost_ns;
    wake_sleepers(space, &words[at], count, &cost_ns);
    return cost_ns;
}

static void make_dear(void)
{
    ck_assert(wake_start(wake));
    atomic_store(&dear, true);
    int64_t cost_ns = 0;
    /* the clock may be too coarse for the first costs */
    for (uint32_t tries = 1; cost_ns == 0; tries++) {
        ck_assert_uint_lt(tries, 10);
        cost_ns = wake_at(HOSTILE, 0, 1);
        ck_assert_uint_eq(atomic_load(&woken[0]), tries);
        ck_assert_int_eq(atomic_load(&wakers[0]), gettid());
    }
    ck_assert_int_gt(cost_ns, WAKE_DEAR_MS * INT64_C(1000000));
    atomic_store(&dear, false);
    atomic_store(&woken[0], 0);
}

START_TEST(cheap_wakes_are_made_at_once)
{
    ck_assert(wake_start(wake));
    for (uint32_t i = 1; i <= 100; i++) {
        ck_assert_int_eq(wake_at(HONEST, 1, 7), 0);
        ck_assert_uint_eq(atomic_load(&woken[1]), i);
        ck_assert_int_eq(atomic_load(&wakers[1]), gettid());
        ck_assert_int_eq(atomic_load(&counts[1]), 7);
    }
}
END_TEST

START_TEST(after_a_dear_one_a_thread_makes_those_of_the_namespace)
{
    make_dear();
    for (size_t i = 1; i <= 100; i++) {
        ck_assert_int_eq(wake_at(HOSTILE, i, (int)i), 0);
    }
    for (size_t i = 1; i <= 100; i++) {
        await(i, 1);
        ck_assert_int_ne(atomic_load(&wakers[i]), gettid());
        ck_assert_int_eq(atomic_load(&counts[i]), (int)i);
    }
    (void)wake_at(HONEST, 101, 1); /* another namespace does not wait for these wakes */
    ck_assert_uint_eq(atomic_load(&woken[101]), 1);
    ck_assert_int_eq(atomic_load(&wakers[101]), gettid());
}
END_TEST

START_TEST(none_is_left_out)
{
    make_dear();
    atomic_store(&held_up, true);
    /* the thread has taken this wake, or the wake is the first in the queue */
    (void)wake_at(HOSTILE, 0, 1);
    size_t given = 0;
    while (atomic_load(&woken[given]) == 0) { /* the loop ends when the queue is full */
        ck_assert_uint_lt(given, WAKE_QUEUE + 1);
        (void)wake_at(HOSTILE, ++given, 1);
        /* a second wake of the same word takes no further entry */
        (void)wake_at(HOSTILE, given, 1);
    }
    ck_assert_uint_ge(given, WAKE_QUEUE);
    ck_assert_int_eq(atomic_load(&wakers[given]), gettid());
    atomic_store(&held_up, false);
    for (size_t i = 0; i < given; i++) {
        await(i, 1);
        ck_assert_int_ne(atomic_load(&wakers[i]), gettid());
        ck_assert_uint_eq(atomic_load(&woken[i]), 1);
        ck_assert(i == 0 || atomic_load(&counts[i]) == INT32_MAX);
    }
}
END_TEST

START_TEST(without_the_thread_all_are_made_here)
{
    /* the real kernel makes these wakes, and finds no sleeper */
    for (uint32_t i = 1; i <= 3; i++) {
        ck_assert_int_eq(wake_at(HOSTILE, 0, 1), 0);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("wake");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, cheap_wakes_are_made_at_once);
    tcase_add_test(tests, after_a_dear_one_a_thread_makes_those_of_the_namespace);
    tcase_add_test(tests, none_is_left_out);
    tcase_add_test(tests, without_the_thread_all_are_made_here);
    return suite_main("wake", tests);
}
