/*
 * Two processes never hold an exclusive lock at the same time, whatever happens to them.
 *
 * Workers take thousands of locks of several namespaces in every way: tries, waits with and without
 * a limit, waits canceled by another thread, shared holds, handles closed and opened again, and
 * forked children that try to use their parents' objects. At the same time workers are killed at
 * random and replaced, and the agent is killed and started again.
 *
 * There are two checks. One is the history of all attempts and holds (history.h). The other is a
 * plain counter for each lock in shared memory, which a writer increments without any atomic
 * operation. A lost increment means that two writers held the lock at the same time.
 */
#include "actor.h"
#include "history.h"
#include "require.h"

#include <check.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

#include "../emulation.h"
#include "../suite_main.h"

enum {
    WORKERS = 6,
    NAMES = 3000,
    HOT = 6,
    HANDLES = 24,
    LOG_EVENTS = 1500000,
    RUN_MS = 9000,
    RUN_DEEP_MS = 90000,
    LOCK_DELAY_MS = 20,
};

static const char config[] = "[agent]\nname = host-a\ncell = test\nstate_dir = %D/state\n"
                             "socket = %D/agent.sock\n"
                             "[voters]\nhost-a = tcp://127.0.0.1:7411\n"
                             "[namespace.orders]\nusers = root\n[namespace.mail]\nusers = root\n";

/* in memory that all workers share */
struct shared {
    _Atomic uint32_t stop;
    _Atomic uint64_t begun; /* increments that began */
    _Atomic uint64_t ended; /* increments that a worker has finished */
    _Atomic uint64_t canceled;
    _Atomic uint64_t timed_out;
    /* the number of forked children that got an error from each of their parents' objects */
    _Atomic uint64_t children;
    /* whether workers fork children that try their parents' objects; set before the workers
     * start */
    bool tries_children;
    volatile uint64_t counters[NAMES];
};

static struct shared *shared;
static struct history *history;
static struct agent_process agent;

struct worker {
    hf_client *client;
    hf_lock *locks[HANDLES];
    uint32_t names[HANDLES];
    /* the handle whose wait the canceling thread may cancel, plus 1; 0: none */
    _Atomic uint32_t waiting;
    uint64_t random;
};

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13; /* xorshift */
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % below;
}

static void log_event(enum history_kind kind, uint32_t pid, uint32_t lock, enum hf_mode mode,
                      const struct hf_hold *hold)
{
    struct history_event event = {.kind = kind,
                                  .pid = pid,
                                  .lock = lock,
                                  .mode = (enum history_mode)mode,
                                  .token = hold ? hold->token : 0};
    history_add(history, event);
}

static void *cancel_now_and_then(void *arg)
{
    struct worker *worker = arg;
    for (;;) {
        sleep_ms(7);
        uint32_t handle = atomic_load(&worker->waiting);
        if (handle != 0) {
            int ignored = hf_cancel(worker->locks[handle - 1]);
            (void)ignored;
        }
    }
    return NULL;
}

/* Forks a child that uses its parent's objects. The calls must fail and have no effect. */
static void try_as_child(struct worker *worker, uint32_t handle)
{
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        bool told = hf_release(worker->locks[handle]) == HF_EFORKED &&
                    hf_acquire(worker->locks[handle], HF_EXCLUSIVE, 0, NULL) == HF_EFORKED;
        _exit(told ? 0 : 1);
    }
    int status = 0;
    if (pid > 0 && waitpid(pid, &status, 0) == pid) {
        REQUIRE(status == 0, "a child was not told that it owns nothing");
        atomic_fetch_add(&shared->children, 1);
    }
}

/* Increments the lock's counter, without any atomic operation. */
static void write_alone(struct worker *worker, uint32_t handle)
{
    volatile uint64_t *counter = &shared->counters[worker->names[handle]];
    if (hf_remaining_ns(worker->locks[handle]) < 100 * MS) {
        return; /* too little of the lease is left: a stall could delay the write beyond its end */
    }
    atomic_fetch_add(&shared->begun, 1);
    uint64_t value = *counter;
    for (uint64_t spin = draw(&worker->random, 2000); spin > 0; spin--) {
        __asm__ volatile("" ::: "memory");
    }
    *counter = value + 1;
    atomic_fetch_add(&shared->ended, 1);
}

/* Returns a handle of the worker on a random lock, and opens it if necessary. Returns HANDLES if
 * the agent does not answer. */
static uint32_t pick_handle(struct worker *worker)
{
    uint32_t handle = (uint32_t)draw(&worker->random, HANDLES);
    uint32_t name = handle < HOT ? handle : HOT + (uint32_t)draw(&worker->random, NAMES - HOT);
    if (worker->locks[handle] && handle >= HOT && draw(&worker->random, 8) == 0) {
        hf_close(worker->locks[handle]);
        worker->locks[handle] = NULL;
    }
    if (worker->locks[handle] == NULL) {
        static const char *const spaces[] = {"", "orders/", "mail/"};
        const struct hf_lock_options options = {.size = sizeof(options),
                                                .lock_delay_ns = LOCK_DELAY_MS * MS,
                                                .flags = name % 5 == 4 ? HF_BARGING : 0};
        char text[64];
        snprintf(text, sizeof(text), "%sitem %u", spaces[name % 3], name);
        int error = hf_open(worker->client, text, &options, &worker->locks[handle]);
        worker->names[handle] = name;
        if (error == HF_ENOAGENT) { /* the agent was killed just before */
            worker->locks[handle] = NULL;
            return HANDLES;
        }
        REQUIRE(error == 0, "hf_open(%s): %s", text, hf_strerror(error));
    }
    return handle;
}

static void act(struct worker *worker)
{
    static const int64_t timeouts_ns[] = {0, 1 * MS, 10 * MS, 30 * MS, -1, -1};
    uint32_t pid = (uint32_t)getpid();
    uint32_t handle = draw(&worker->random, 2) ? (uint32_t)draw(&worker->random, HOT)
                                               : pick_handle(worker);
    if (handle == HANDLES || worker->locks[handle] == NULL) {
        pick_handle(worker);
        return;
    }
    hf_lock *lock = worker->locks[handle];
    uint32_t name = worker->names[handle];
    enum hf_mode mode = draw(&worker->random, 4) == 0 ? HF_SHARED : HF_EXCLUSIVE;
    int64_t timeout_ns = timeouts_ns[draw(&worker->random, 6)];
    struct hf_hold hold;
    atomic_store(&worker->waiting, draw(&worker->random, 3) == 0 ? handle + 1 : 0);
    log_event(HISTORY_ATTEMPT, pid, name, mode, NULL);
    int result = hf_acquire(lock, mode, timeout_ns, &hold);
    atomic_store(&worker->waiting, 0);
    if (result != 0) {
        log_event(HISTORY_GAVE_UP, pid, name, mode, NULL);
        REQUIRE(result == HF_EBUSY || result == HF_ETIMEDOUT || result == HF_ECANCELED ||
                    result == HF_ENOAGENT,
                "hf_acquire: %s", hf_strerror(result));
        atomic_fetch_add(&shared->canceled, result == HF_ECANCELED);
        atomic_fetch_add(&shared->timed_out, result == HF_ETIMEDOUT);
        return;
    }
    log_event(HISTORY_ACQUIRED, pid, name, mode, &hold);
    if (mode == HF_EXCLUSIVE) {
        write_alone(worker, handle);
    }
    if (draw(&worker->random, 400) == 0 && shared->tries_children) {
        try_as_child(worker, handle);
    }
    if (draw(&worker->random, 50) == 0) {
        sleep_ms(2);
    }
    log_event(HISTORY_RELEASED, pid, name, mode, &hold);
    result = hf_release(lock);
    REQUIRE(result == 0 || result == HF_ELOST, "hf_release: %s", hf_strerror(result));
    if (result == HF_ELOST) {
        log_event(HISTORY_LOST, pid, name, mode, &hold);
    }
}

static void worker_run(uint64_t seed)
{
    struct worker worker = {.random = seed * 0x9e3779b97f4a7c15 + 1};
    const struct hf_options options = {
        .size = sizeof(options), .socket = agent.socket, .connect_timeout_ns = GUARD_MS * MS};
    int error = hf_connect(&options, &worker.client);
    REQUIRE(error == 0, "hf_connect: %s", hf_strerror(error));
    pthread_t canceller;
    REQUIRE(pthread_create(&canceller, NULL, cancel_now_and_then, &worker) == 0, "no thread");
    while (!atomic_load(&shared->stop)) {
        act(&worker);
        struct timespec rest = {.tv_nsec = (long)draw(&worker.random, 400000)};
        nanosleep(&rest, NULL);
    }
    hf_disconnect(worker.client);
    _exit(0);
}

static pid_t worker_start(uint64_t seed)
{
    pid_t pid = fork_tied();
    if (pid == 0) {
        worker_run(seed);
    }
    return pid;
}

static void worker_end(pid_t pid)
{
    log_event(HISTORY_KILL_SENT, (uint32_t)pid, 0, HF_EXCLUSIVE, NULL);
    kill(pid, SIGKILL);
    int status = wait_for(pid);
    REQUIRE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "worker %d ended with %x", (int)pid,
            (unsigned)status);
    log_event(HISTORY_KILLED, (uint32_t)pid, 0, HF_EXCLUSIVE, NULL);
}

/* Returns whether each kind of fault and of attempt has happened often enough. */
static bool is_enough(unsigned kills, unsigned restarts)
{
    return kills > 5 && restarts > 1 && atomic_load(&shared->ended) > 500 &&
           atomic_load(&shared->canceled) > 0 && atomic_load(&shared->timed_out) > 0 &&
           (atomic_load(&shared->children) > 0 || !shared->tries_children);
}

/* Kills and replaces workers, and kills and restarts the agent, until the time is over. On a busy
 * machine this goes on until is_enough() returns true, or until the test's time-out. */
static void disturb(pid_t *workers, uint64_t seed, unsigned *kills, unsigned *restarts)
{
    int64_t end_ns = boottime_now() + (test_is_deep() ? RUN_DEEP_MS : RUN_MS) * MS;
    for (unsigned round = 1; boottime_now() < end_ns || !is_enough(*kills, *restarts); round++) {
        sleep_ms(20 + (int64_t)draw(&seed, 60));
        unsigned victim = (unsigned)draw(&seed, WORKERS);
        if (round % 2 == 0) {
            worker_end(workers[victim]);
            workers[victim] = worker_start(seed);
            ++*kills;
        }
        if (round % 16 == 0) {
            agent_kill(&agent);
            sleep_ms((int64_t)draw(&seed, 300));
            agent_start(&agent);
            ++*restarts;
        }
        if (history_count(history) > LOG_EVENTS / 10 * 9) {
            break;
        }
    }
}

START_TEST(never_two_holders)
{
    pid_t workers[WORKERS];
    unsigned kills = 0;
    unsigned restarts = 0;
    uint64_t seed = (uint64_t)boottime_now() | 1;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert(shared != MAP_FAILED);
    shared->tries_children = fork_is_wiped("children of workers");
    history = history_create(NULL, LOG_EVENTS);
    ck_assert_ptr_nonnull(history);
    agent_create(&agent, config);
    agent_start(&agent);
    for (unsigned i = 0; i < WORKERS; i++) {
        workers[i] = worker_start(seed + i);
    }
    disturb(workers, seed, &kills, &restarts);
    atomic_store(&shared->stop, 1);
    for (unsigned i = 0; i < WORKERS; i++) {
        int status = wait_for(workers[i]);
        REQUIRE(status == 0, "worker %u ended with %x", i, (unsigned)status);
    }
    struct history_report report;
    int checked = history_check(history, &report);
    uint64_t sum = 0;
    for (unsigned i = 0; i < NAMES; i++) {
        sum += shared->counters[i];
    }
    uint64_t begun = atomic_load(&shared->begun);
    uint64_t ended = atomic_load(&shared->ended);
    printf("%zu holds, %llu writes, %u workers killed, %u agents killed, %llu canceled, "
           "%llu timed out, %llu children, longest wait %lld ms\n",
           report.holds, (unsigned long long)sum, kills, restarts,
           (unsigned long long)atomic_load(&shared->canceled),
           (unsigned long long)atomic_load(&shared->timed_out),
           (unsigned long long)atomic_load(&shared->children),
           (long long)(report.longest_wait_ns / MS));
    REQUIRE(checked == 0,
            "%zu overlaps, %zu token faults, %zu unserved, %zu malformed, %zu "
            "dropped; first: %s",
            report.overlaps, report.token_faults, report.unserved, report.malformed, report.dropped,
            report.first);
    REQUIRE(sum >= ended && sum <= begun, "%llu increments of %llu to %llu",
            (unsigned long long)sum, (unsigned long long)ended, (unsigned long long)begun);
    /* Checks that the holds and the kills did happen. */
    ck_assert_uint_gt(report.holds, 500);
    ck_assert_uint_gt(kills, 5);
    ck_assert_uint_gt(restarts, 1);
    ck_assert_uint_gt(atomic_load(&shared->canceled), 0);
    ck_assert_uint_gt(atomic_load(&shared->timed_out), 0);
    ck_assert(atomic_load(&shared->children) > 0 || !shared->tries_children);
    agent_destroy(&agent);
    history_destroy(history);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("under kills");
    tcase_set_timeout(tests, test_is_deep() ? 300 : 150);
    tcase_add_test(tests, never_two_holders);
    return suite_main("exclusion", tests);
}
