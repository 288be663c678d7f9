/*
 * Threads that share handles, on the fast path and on the slow path at the same time: the claims
 * and lanes of libclient/client.h. Every thread acts at random: it tries, waits briefly, holds
 * shared, downgrades, cancels. The lock protects plain memory, so that ThreadSanitizer reports
 * holds that do not exclude each other. All handles belong to one client, because ThreadSanitizer
 * cannot see races through two mappings of a region.
 *
 * With HF_TORTURE=N in the environment, the test does N times as much.
 */
#include "lib_agent.h"

#include <check.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#include "../suite_main.h"

enum { THREADS = 7, ROUNDS = 4000, TOKENS = 1 << 20 };

static struct agent agent;
static hf_client *client;

struct storm {
    hf_lock *locks[2];
    uint64_t written; /* the lock protects this field and the next one */
    uint64_t copy;
    _Atomic uint64_t holds; /* how many exclusive holds there were */
    _Atomic uint64_t lost;
    _Atomic uint32_t wrong;
    _Atomic uint32_t first_wrong; /* the source line of the first wrong result */
    _Atomic uint32_t running;
    _Atomic bool evicts;
    _Atomic uint8_t seen[TOKENS]; /* by token: the lap in which a thread got that token */
};

struct runner {
    pthread_t thread;
    struct storm *storm;
    uint64_t random;
    uint64_t rounds;
    int index;
};

static uint64_t draw(struct runner *runner, uint64_t below)
{
    uint64_t x = runner->random;
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    runner->random = x;
    return (x >> 11) % below;
}

static uint64_t torture(void)
{
    const char *times = getenv("HF_TORTURE");
    return times != NULL && atoi(times) > 0 ? (uint64_t)atoi(times) : 1;
}

static void expect_at(struct storm *storm, bool truth, uint32_t line)
{
    uint32_t none = 0;
    if (!truth) {
        atomic_fetch_add(&storm->wrong, 1);
        atomic_compare_exchange_strong(&storm->first_wrong, &none, line);
    }
}

#define expect(storm, truth) expect_at(storm, truth, __LINE__)

static void write_guarded(struct runner *runner, struct storm *storm)
{
    uint64_t before = storm->written;
    storm->written = before + 1;
    if (draw(runner, 16) == 0) {
        sched_yield();
    }
    expect(storm, storm->copy == before);
    storm->copy = before + 1;
}

static void read_guarded(struct storm *storm)
{
    expect(storm, storm->written == storm->copy);
}

/* Works with a hold, and releases it. If storm->evicts is set, the hold may be taken away
 * meanwhile. */
static void hold_and_release(struct runner *runner, hf_lock *lock, enum hf_mode mode,
                             const struct hf_hold *hold)
{
    struct storm *storm = runner->storm;
    bool evicts = atomic_load(&storm->evicts);
    bool downgraded = false;
    if (mode == HF_EXCLUSIVE) {
        uint8_t lap = (uint8_t)(hold->token / TOKENS % 255 + 1);
        expect(storm, atomic_exchange(&storm->seen[hold->token % TOKENS], lap) != lap);
        atomic_fetch_add(&storm->holds, 1);
        if (!evicts) {
            write_guarded(runner, storm);
        }
        if (draw(runner, 50) == 0) {
            int result = hf_downgrade(lock);
            expect(storm, result == 0 || (evicts && result == HF_ELOST));
            downgraded = true;
        }
    }
    if (!evicts) {
        expect(storm, hf_remaining_ns(lock) > 0);
        if (downgraded || mode == HF_SHARED) {
            read_guarded(storm);
        }
    }
    int result = hf_release(lock);
    expect(storm, result == 0 || (evicts && result == HF_ELOST));
    atomic_fetch_add(&storm->lost, result == HF_ELOST);
}

/* Returns whether this thread does another round. It does runner->rounds rounds at least. If
 * storm->evicts is set, the thread continues until a hold was lost, because the evicting thread may
 * have had no processor. */
static bool goes_on(const struct runner *runner, uint64_t round)
{
    const struct storm *storm = runner->storm;
    bool none_lost = atomic_load(&storm->evicts) && atomic_load(&storm->lost) == 0;
    return round < runner->rounds || (none_lost && round < 1000 * runner->rounds);
}

static void *runner_main(void *arg)
{
    struct runner *runner = arg;
    struct storm *storm = runner->storm;
    for (uint64_t i = 0; goes_on(runner, i); i++) {
        hf_lock *lock = storm->locks[runner->index >= THREADS - 2];
        enum hf_mode mode = draw(runner, 4) == 0 ? HF_SHARED : HF_EXCLUSIVE;
        int64_t timeout_ns = draw(runner, 3) == 0 ? (int64_t)draw(runner, 200) * 1000 : 0;
        struct hf_hold hold;
        int result = hf_acquire(lock, mode, timeout_ns, &hold);
        if (result == 0) {
            hold_and_release(runner, lock, mode, &hold);
        } else {
            expect(storm, result == HF_EALREADY || result == HF_EBUSY || result == HF_ETIMEDOUT ||
                              result == HF_ECANCELED ||
                              (result == HF_ELOST && atomic_load(&storm->evicts)));
        }
        if (draw(runner, 64) == 0) {
            expect(storm, hf_cancel(lock) == 0);
        }
    }
    atomic_fetch_sub(&storm->running, 1);
    return NULL;
}

static struct storm *storm_run(bool evicts, uint64_t rounds)
{
    struct storm *storm = calloc(1, sizeof(*storm));
    struct runner runners[THREADS];
    ck_assert_ptr_nonnull(storm);
    atomic_store(&storm->evicts, evicts);
    atomic_store(&storm->running, THREADS);
    for (int i = 0; i < 2; i++) {
        struct hf_lock_options options = {.size = sizeof(options)};
        ck_assert_int_eq(hf_open(client, "storm", &options, &storm->locks[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (struct runner){.storm = storm,
                                     .random = UINT64_C(0x9e3779b97f4a7c15) * (unsigned)(i + 1),
                                     .rounds = rounds,
                                     .index = i};
        ck_assert_int_eq(pthread_create(&runners[i].thread, NULL, runner_main, &runners[i]), 0);
    }
    while (evicts && atomic_load(&storm->running) > 0) {
        struct timespec nap = {.tv_nsec = 20000};
        agent_evict(&agent, "storm", 0);
        nanosleep(&nap, NULL);
    }
    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_join(runners[i].thread, NULL), 0);
    }
    ck_assert_msg(atomic_load(&storm->wrong) == 0, "%u wrong, the first at line %u",
                  atomic_load(&storm->wrong), atomic_load(&storm->first_wrong));
    return storm;
}

static void storm_end(struct storm *storm)
{
    ck_assert_int_eq(hf_acquire(storm->locks[0], HF_EXCLUSIVE, -1, NULL), 0);
    ck_assert_int_eq(hf_acquire(storm->locks[1], HF_EXCLUSIVE, 0, NULL), HF_EBUSY);
    ck_assert_int_eq(hf_release(storm->locks[0]), 0);
    ck_assert_int_eq(hf_acquire(storm->locks[1], HF_SHARED, 0, NULL), 0);
    ck_assert_int_eq(hf_release(storm->locks[1]), 0);
    free(storm);
}

static void setup(void)
{
    struct hf_options options = {.size = sizeof(options)};
    agent_create(&agent, LONG_TTL_NS);
    options.socket = agent.path;
    ck_assert_int_eq(hf_connect(&options, &client), 0);
}

static void teardown(void)
{
    hf_disconnect(client);
    agent_destroy(&agent);
}

START_TEST(threads_of_one_handle_exclude_each_other)
{
    struct storm *storm = storm_run(false, ROUNDS * torture());
    ck_assert_uint_eq(storm->written, atomic_load(&storm->holds));
    ck_assert_uint_gt(storm->written, ROUNDS / 10);
    storm_end(storm);
}
END_TEST

START_TEST(no_token_twice_when_holds_are_taken_away)
{
    struct storm *storm = storm_run(true, ROUNDS * torture());
    ck_assert_uint_gt(atomic_load(&storm->lost), 0);
    /* the release in each round ended its hold, lost or not */
    int result = hf_release(storm->locks[0]);
    ck_assert_int_eq(result, HF_ENOTHELD);
    storm_end(storm);
}
END_TEST

/* Two threads that end one hold at the same time. */
struct duel {
    hf_lock *lock;
    _Atomic uint32_t round;   /* odd: both threads release now */
    _Atomic uint32_t arrived; /* how many of the two threads have arrived */
    _Atomic uint32_t ended;   /* how many releases returned 0 */
    _Atomic uint32_t wrong;
    uint32_t rounds;
};

static void *duel_main(void *arg)
{
    struct duel *duel = arg;
    for (uint32_t i = 0; i < duel->rounds; i++) {
        while (atomic_load(&duel->round) != 2 * i + 1) {
            sched_yield();
        }
        int result = hf_release(duel->lock);
        atomic_fetch_add(&duel->ended, result == 0);
        atomic_fetch_add(&duel->wrong, result != 0 && result != HF_ENOTHELD);
        atomic_fetch_add(&duel->arrived, 1);
    }
    return NULL;
}

START_TEST(one_of_two_releases_ends_the_hold)
{
    struct duel duel = {.rounds = (uint32_t)(2000 * torture())};
    pthread_t threads[2];
    struct hf_lock_options options = {.size = sizeof(options)};
    ck_assert_int_eq(hf_open(client, "duel", &options, &duel.lock), 0);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, duel_main, &duel), 0);
    }
    for (uint32_t i = 0; i < duel.rounds; i++) {
        ck_assert_int_eq(hf_acquire(duel.lock, i % 3 == 0 ? HF_SHARED : HF_EXCLUSIVE, -1, NULL), 0);
        atomic_store(&duel.arrived, 0);
        atomic_store(&duel.round, 2 * i + 1);
        while (atomic_load(&duel.arrived) != 2) {
            sched_yield();
        }
        ck_assert_uint_eq(atomic_load(&duel.ended), i + 1);
        ck_assert_uint_eq(atomic_load(&duel.wrong), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
}
END_TEST

/* A thread for which no lane (client.h) is left can still take the handle's lock. */
static void *take_once(void *arg)
{
    hf_lock *lock = arg;
    int result = hf_acquire(lock, HF_EXCLUSIVE, -1, NULL);
    result = result == 0 ? hf_release(lock) : result;
    return (void *)(intptr_t)result;
}

START_TEST(more_threads_than_lanes)
{
    hf_lock *lock = NULL;
    struct hf_lock_options options = {.size = sizeof(options)};
    ck_assert_int_eq(hf_open(client, "many", &options, &lock), 0);
    pthread_t threads[32];
    for (int i = 0; i < 32; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, take_once, lock), 0);
    }
    for (int i = 0; i < 32; i++) {
        void *result = NULL;
        pthread_join(threads[i], &result);
        /* HF_EALREADY: another thread holds the lock by this handle */
        ck_assert(result == NULL || (intptr_t)result == HF_EALREADY);
    }
    ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 0, NULL), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("lib_threads");
    TCase *cases = tcase_create("threads");
    tcase_add_checked_fixture(cases, setup, teardown);
    tcase_set_timeout(cases, 300 * (double)torture());
    tcase_add_test(cases, threads_of_one_handle_exclude_each_other);
    tcase_add_test(cases, no_token_twice_when_holds_are_taken_away);
    tcase_add_test(cases, one_of_two_releases_ends_the_hold);
    tcase_add_test(cases, more_threads_than_lanes);
    suite_add_tcase(suite, cases);
    return suite_run(suite);
}
