/*
 * Case 10. Two clients hold ten locks. The bench kills all servers (SIGKILL) and starts them again
 * at once. Then it repeats this with ten other locks and an orderly end of the servers. The servers
 * count as back when a new client can take and release a lock of its own.
 *
 * Then a third client tries every lock. A lock that it gets was lost. If the holder's own library
 * still reported the hold, that lock had two holders. A lease and a quarter after the service was
 * back, the holders release. A lock that a holder then no longer holds was lost, too.
 */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "actors.h"
#include "cases_fault.h"

enum { HOLDERS = 2, LOCKS = 5, HOLDS = HOLDERS * LOCKS };

static const int64_t suspicion_ns = INT64_C(60000000000);
static const int64_t acquire_timeout_ns = INT64_C(20000000000);
static const int64_t try_timeout_ns = INT64_C(300000000);
static const int64_t step_ns = INT64_C(20000000);
static const int64_t probe_every_ns = INT64_C(5000000);

struct stage {
    _Atomic uint32_t holds;
    _Atomic uint32_t served; /* 1: the probe took a lock */
    _Atomic uint32_t tried;
    _Atomic uint32_t end; /* 1: the holders release now */
    _Atomic uint32_t released;
    bool clean;
    /* the latest answer of the holder's library, which the holder asks all the time */
    _Atomic bool believed[HOLDS];
    bool taken[HOLDS]; /* the third client got the lock */
    /* the third client got the lock while the holder's library reported it held */
    bool doubled[HOLDS];
    /* the holder's release reported that the lock was not held any more */
    bool gone[HOLDS];
};

static int open_one(struct peer_run *run, const struct stage *stage, void *client, uint32_t number,
                    void **out_lock)
{
    char name[PEER_NAME_MAX];
    snprintf(name, sizeof(name), "restart-%s-%u", stage->clean ? "clean" : "kill", number);
    return run->kind->open(client, name, out_lock);
}

static void believe(const struct peer_run *run, struct stage *stage, uint32_t index,
                    void *const *locks)
{
    for (uint32_t i = 0; i < LOCKS; i++) {
        bool held = run->kind->held == NULL || run->kind->held(locks[i]) == PEER_OK;
        /* relaxed: nothing else depends on this value, which may be a little old in any case */
        atomic_store_explicit(&stage->believed[index * LOCKS + i], held, memory_order_relaxed);
    }
}

static int holder_plays(struct peer_run *run, void *arg, uint32_t index)
{
    struct stage *stage = arg;
    void *client;
    void *locks[LOCKS];
    if (run->kind->connect(run, index % run->kind->hosts, &client) != 0) {
        return -1;
    }
    int64_t renewed_ns = now_ns();
    for (uint32_t i = 0; i < LOCKS; i++) {
        uint64_t ignored;
        if (open_one(run, stage, client, index * LOCKS + i, &locks[i]) != 0 ||
            run->kind->acquire(locks[i], PEER_EXCLUSIVE, acquire_timeout_ns, &ignored) != PEER_OK) {
            return -1;
        }
        /* release: pairs with the acquire in actors_await */
        atomic_fetch_add_explicit(&stage->holds, 1, memory_order_release);
    }
    while (atomic_load_explicit(&stage->end, memory_order_relaxed) == 0) {
        actor_renew(run, locks, LOCKS, &renewed_ns);
        believe(run, stage, index, locks);
        actor_sleep(step_ns);
    }
    for (uint32_t i = 0; i < LOCKS; i++) {
        bool lost = run->kind->held != NULL && run->kind->held(locks[i]) != PEER_OK;
        stage->gone[index * LOCKS + i] = run->kind->release(locks[i]) != PEER_OK || lost;
    }
    /* release: pairs with the acquire in actors_await */
    atomic_fetch_add_explicit(&stage->released, 1, memory_order_release);
    return 0;
}

static int third_plays(struct peer_run *run, void *arg, uint32_t index)
{
    struct stage *stage = arg;
    void *client;
    if (run->kind->connect(run, index % run->kind->hosts, &client) != 0) {
        return -1;
    }
    for (uint32_t i = 0; i < HOLDS; i++) {
        void *lock;
        uint64_t ignored;
        if (open_one(run, stage, client, i, &lock) != 0) {
            return -1;
        }
        int result = run->kind->acquire(lock, PEER_EXCLUSIVE, try_timeout_ns, &ignored);
        stage->taken[i] = result == PEER_OK;
        stage->doubled[i] = result == PEER_OK &&
                            atomic_load_explicit(&stage->believed[i], memory_order_relaxed);
        if (result < 0 || (result == PEER_OK && run->kind->release(lock) < 0)) {
            return -1;
        }
        run->kind->close(lock);
    }
    /* release: pairs with the acquire in actors_await */
    atomic_store_explicit(&stage->tried, 1, memory_order_release);
    return 0;
}

/* The probe: takes and releases a lock of its own as soon as that works. It does not report
 * failures before that, which are expected. */
static int probe_plays(struct peer_run *run, void *arg, uint32_t index)
{
    struct stage *stage = arg;
    bool served = false;
    (void)index;
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    dup2(null, STDERR_FILENO);
    const int64_t give_up_ns = now_ns() + suspicion_ns;
    while (!served && now_ns() < give_up_ns) {
        void *client = NULL;
        void *lock = NULL;
        uint64_t ignored;
        if (run->kind->connect(run, 0, &client) == 0) {
            served = run->kind->open(client, "restart-probe", &lock) == 0 &&
                     run->kind->acquire(lock, PEER_EXCLUSIVE, acquire_timeout_ns, &ignored) ==
                         PEER_OK &&
                     run->kind->release(lock) == PEER_OK;
        }
        actor_sleep(served ? 0 : probe_every_ns);
    }
    /* release: pairs with the acquire in actors_await */
    atomic_store_explicit(&stage->served, 1, memory_order_release);
    return served ? 0 : -1;
}

static int restart_all(struct actors *actors, struct stage *stage, int64_t *out_down_ns)
{
    struct peer_run *run = actors->run;
    int64_t begin_ns = now_ns();
    int result = 0;
    for (size_t i = 0; i < run->server_count; i++) {
        peer_kill_server(run, i, stage->clean);
    }
    for (size_t i = 0; result == 0 && i < run->server_count; i++) {
        result = peer_start_server(run, i);
    }
    if (result == 0) {
        result = actors_add(actors, probe_plays);
    }
    if (result == 0) {
        result = actors_await(actors, &stage->served, 1, suspicion_ns);
    }
    *out_down_ns = now_ns() - begin_ns;
    if (result == 0 && run->kind->await != NULL) {
        result = run->kind->await(run);
    }
    return result;
}

static void report(const struct stage *stage, const char *peer, int64_t down_ns,
                   struct results *results)
{
    uint32_t lost = 0;
    uint32_t doubled = 0;
    for (uint32_t i = 0; i < HOLDS; i++) {
        lost += stage->taken[i] || stage->gone[i] ? 1 : 0;
        doubled += stage->doubled[i] ? 1 : 0;
    }
    const char *const names[2][3] = {
        {"kill -9: back after", "lost of 10", "two holders"},
        {"in order: back after", "lost of 10, in order", "two holders, in order"}};
    const char *const *name = names[stage->clean ? 1 : 0];
    results_add(results, "restart", peer, name[0], "ns", BETTER_LOWER, (double)down_ns);
    results_add(results, "restart", peer, name[1], "", BETTER_LOWER, lost);
    results_add(results, "restart", peer, name[2], "", BETTER_LOWER, doubled);
}

static int play(struct actors *actors, struct stage *stage, struct results *results)
{
    struct peer_run *run = actors->run;
    int64_t down_ns = 0;
    for (uint32_t i = 0; i < HOLDERS; i++) {
        if (actors_add(actors, holder_plays) != 0) {
            return -1;
        }
    }
    if (actors_await(actors, &stage->holds, HOLDS, suspicion_ns) != 0 ||
        restart_all(actors, stage, &down_ns) != 0) {
        return -1;
    }
    int64_t release_ns = now_ns() + run->lease_ns * 5 / 4;
    if (actors_add(actors, third_plays) != 0 ||
        actors_await(actors, &stage->tried, 1, suspicion_ns) != 0) {
        return -1;
    }
    int64_t left_ns = release_ns - now_ns();
    pause_ns(left_ns > 0 ? left_ns : 0);
    atomic_store_explicit(&stage->end, 1, memory_order_relaxed);
    if (actors_await(actors, &stage->released, HOLDERS, suspicion_ns) != 0) {
        return -1;
    }
    report(stage, run->kind->title, down_ns, results);
    return 0;
}

int measure_restart(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                    struct results *results)
{
    int result = 0;
    (void)plan;
    (void)repetition;
    for (uint32_t i = 0; result == 0 && i < 2; i++) {
        struct stage *stage = stage_create(sizeof(*stage));
        struct actors actors = {.run = run, .stage = stage};
        result = stage == NULL || interrupted() ? -1 : 0;
        if (result == 0) {
            stage->clean = i == 1;
            result = play(&actors, stage, results);
        }
        actors_kill_all(&actors);
        stage_destroy(stage, sizeof(*stage));
    }
    return result;
}
