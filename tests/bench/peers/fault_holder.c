/*
 * Case 8. A client holds a lock, and a client on another host waits for it. The bench kills the
 * holder (SIGKILL), each time at another moment of its lease. The kills are spread over the
 * repetitions. If a host's clients need that host's own server (Holdfast's agent), the case is
 * repeated with that server killed at the same instant. This is the loss of a whole host.
 */
#include <stdio.h>

#include "actors.h"
#include "cases_fault.h"

enum { DEATHS = 3, DEATHS_QUICK = 2, HOST_DEATHS = 3, HOST_DEATHS_QUICK = 1 };
enum { HOLDER, NEXT };

static const int64_t suspicion_ns = INT64_C(20000000000);
static const int64_t settle_ns = INT64_C(200000000);
static const int64_t step_ns = INT64_C(20000000);

struct stage {
    _Atomic uint32_t holds;
    _Atomic uint32_t waits;
    _Atomic uint32_t had;
    uint32_t round;
    int64_t had_ns;
    uint64_t tokens[2];
};

static int reach(struct peer_run *run, const struct stage *stage, uint32_t index, void **out_lock)
{
    void *client;
    char name[PEER_NAME_MAX];
    snprintf(name, sizeof(name), "holder-%u", stage->round);
    return run->kind->connect(run, index % run->kind->hosts, &client) != 0
               ? -1
               : run->kind->open(client, name, out_lock);
}

static int holder_plays(struct peer_run *run, void *arg, uint32_t index)
{
    struct stage *stage = arg;
    void *lock = NULL;
    if (reach(run, stage, index, &lock) != 0 ||
        run->kind->acquire(lock, PEER_EXCLUSIVE, suspicion_ns, &stage->tokens[HOLDER]) != PEER_OK) {
        return -1;
    }
    int64_t renewed_ns = now_ns();
    /* release: pairs with the acquire in actors_await */
    atomic_store_explicit(&stage->holds, 1, memory_order_release);
    for (;;) { /* ends when the bench kills the process */
        actor_sleep(step_ns);
        actor_renew(run, &lock, 1, &renewed_ns);
    }
}

static int next_plays(struct peer_run *run, void *arg, uint32_t index)
{
    struct stage *stage = arg;
    void *lock = NULL;
    if (reach(run, stage, index, &lock) != 0) {
        return -1;
    }
    /* release, both stores: they pair with the acquire in actors_await */
    atomic_store_explicit(&stage->waits, 1, memory_order_release);
    int result = run->kind->acquire(lock, PEER_EXCLUSIVE, 2 * suspicion_ns, &stage->tokens[NEXT]);
    stage->had_ns = now_ns();
    atomic_store_explicit(&stage->had, 1, memory_order_release);
    return result == PEER_OK && run->kind->release(lock) == PEER_OK ? 0 : -1;
}

static int play(struct actors *actors, struct stage *stage, int64_t pause, bool with_host,
                struct results *results)
{
    struct peer_run *run = actors->run;
    const char *peer = run->kind->title;
    if (actors_add(actors, holder_plays) != 0 ||
        actors_await(actors, &stage->holds, 1, suspicion_ns) != 0 ||
        actors_add(actors, next_plays) != 0 ||
        actors_await(actors, &stage->waits, 1, suspicion_ns) != 0) {
        return -1;
    }
    pause_ns(settle_ns + pause);
    bool early = atomic_load_explicit(&stage->had, memory_order_acquire) != 0;
    int64_t killed_ns = now_ns();
    actors_kill(actors, HOLDER);
    if (with_host) {
        peer_kill_server(run, 0, false);
    }
    if (actors_await(actors, &stage->had, 1, 2 * suspicion_ns) != 0 ||
        actors_join(actors, suspicion_ns) != 0) {
        return -1;
    }
    results_add(results, "holder", peer, with_host ? "next, its host gone" : "next after", "ns",
                BETTER_LOWER, (double)(stage->had_ns - killed_ns));
    uint64_t broken = early ? 1 : 0;
    broken += stage->tokens[HOLDER] != 0 && stage->tokens[NEXT] <= stage->tokens[HOLDER] ? 1 : 0;
    results_add(results, "holder", peer, "broken", "", BETTER_LOWER, (double)broken);
    return 0;
}

static int kill_holder(struct peer_run *run, uint32_t round, bool with_host,
                       struct results *results)
{
    struct stage *stage = stage_create(sizeof(*stage));
    struct actors actors = {.run = run, .stage = stage};
    if (stage == NULL) {
        return -1;
    }
    stage->round = 2 * round + (with_host ? 1 : 0);
    int64_t pause = run->lease_ns / 3 * (int64_t)(round % DEATHS) / DEATHS;
    int result = play(&actors, stage, pause, with_host, results);
    actors_kill_all(&actors);
    stage_destroy(stage, sizeof(*stage));
    if (with_host && result == 0) {
        result = peer_start_server(run, 0);
        if (result == 0 && run->kind->await != NULL) {
            result = run->kind->await(run);
        }
    }
    return result;
}

int measure_holder(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                   struct results *results)
{
    uint32_t deaths = rounds_of(plan, repetition, plan->quick ? DEATHS_QUICK : DEATHS);
    uint32_t host_deaths = rounds_of(plan, repetition,
                                     plan->quick ? HOST_DEATHS_QUICK : HOST_DEATHS);
    int result = 0;
    for (uint32_t i = 0; result == 0 && i < deaths; i++) {
        result = interrupted() ? -1 : kill_holder(run, repetition + i, false, results);
    }
    if ((run->kind->features & PEER_HOST_SERVERS) == 0 || run->server_count < 2) {
        host_deaths = 0;
    }
    for (uint32_t i = 0; result == 0 && i < host_deaths; i++) {
        result = interrupted() ? -1 : kill_holder(run, repetition + i, true, results);
    }
    if (result == 0 && (run->kind->features & PEER_HAS_LEASE) == 0) {
        results_word(results, "holder", run->kind->title, "lease", "none");
    } else {
        results_add(results, "holder", run->kind->title, "lease", "ns", BETTER_NEITHER,
                    (double)run->lease_ns);
    }
    if (result == 0 && run->server_count > 0 && run->kind->lock_delay_ns != 0) {
        results_note(results, "holder", run->kind->title,
                     "the lock stays closed for its lock-delay, %.0f s here (the default; a handle "
                     "may ask for none)",
                     (double)run->kind->lock_delay_ns / 1e9);
    }
    return result;
}
