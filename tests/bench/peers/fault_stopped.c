/*
 * Case 9. The holder writes to a resource every half millisecond, after it asked its own library
 * whether it still holds (kind->held). It is stopped (SIGSTOP); another client waits for the lock
 * and, once it has it, writes once, with its token. Then the first one wakes.
 *
 * In every other round the first one pauses before it asks, and is stopped there: it asks when it
 * wakes, and then writes or not. In the others it pauses between asking and writing: it wakes
 * behind its question, and no client's library can keep it from that write.
 *
 * What counts: writes of the first one after that of the second. The resource refuses a write whose
 * token is below the highest that it saw; a write without a token it cannot refuse.
 *
 * Where a host's clients need that host's own server (Holdfast's agent, which keeps the session of
 * a client that only stands still), the server is stopped along: the host stood still.
 */
#include <signal.h>
#include <stdio.h>

#include "actors.h"
#include "cases_fault.h"

enum { STOPS = 4, STOPS_QUICK = 2, HOLDER = 0, NEXT = 1 };

static const int64_t patience_ns = INT64_C(20000000000);
static const int64_t settle_ns = INT64_C(200000000);
static const int64_t write_every_ns = 500000;
static const int64_t after_waking_ns = INT64_C(3000000000);

struct stage {
    _Atomic uint32_t holds;
    _Atomic uint32_t waits;
    _Atomic uint32_t had;
    _Atomic uint32_t end; /* the one that was stopped has had its time */
    _Atomic uint32_t over;
    uint32_t round;
    bool asked_first;         /* it is stopped between its question and its write */
    _Atomic uint64_t highest; /* the resource's: the second one's token */
    uint64_t writes;          /* of the first, before */
    uint64_t stale;           /* after */
    uint64_t refused;
    bool told;
    bool told_at_release;
    bool kept; /* nobody else had it */
};

static int reach(struct peer_run *run, const struct stage *stage, uint32_t index, void **out_lock)
{
    void *client;
    char name[PEER_NAME_MAX];
    snprintf(name, sizeof(name), "stopped-%u", stage->round);
    return run->kind->connect(run, index % run->kind->hosts, &client) != 0
               ? -1
               : run->kind->open(client, name, out_lock);
}

static void write_once(struct stage *stage, uint64_t token)
{
    /* acquire: pairs with the release in next_plays */
    if (atomic_load_explicit(&stage->had, memory_order_acquire) == 0) {
        stage->writes++;
        return;
    }
    stage->stale++;
    stage->refused += token != 0 &&
                              token < atomic_load_explicit(&stage->highest, memory_order_relaxed)
                          ? 1
                          : 0;
}

static int holder_plays(struct peer_run *run, void *arg, uint32_t index)
{
    struct stage *stage = arg;
    void *lock = NULL;
    uint64_t token = 0;
    if (reach(run, stage, index, &lock) != 0 ||
        run->kind->acquire(lock, PEER_EXCLUSIVE, patience_ns, &token) != PEER_OK) {
        return -1;
    }
    int64_t renewed_ns = now_ns();
    /* release: pairs with the acquire in actors_await */
    atomic_store_explicit(&stage->holds, 1, memory_order_release);
    while (!stage->told && atomic_load_explicit(&stage->end, memory_order_relaxed) == 0) {
        actor_sleep(stage->asked_first ? 0 : write_every_ns);
        stage->told = run->kind->held != NULL && run->kind->held(lock) == PEER_LOST;
        actor_sleep(stage->asked_first && !stage->told ? write_every_ns : 0);
        if (!stage->told) {
            write_once(stage, token);
            stage->told = actor_renew(run, &lock, 1, &renewed_ns) != 0;
        }
    }
    stage->told_at_release = run->kind->release(lock) != PEER_OK;
    /* release: pairs with the acquire in actors_await */
    atomic_store_explicit(&stage->over, 1, memory_order_release);
    return 0;
}

static int next_plays(struct peer_run *run, void *arg, uint32_t index)
{
    struct stage *stage = arg;
    void *lock = NULL;
    uint64_t token = 0;
    if (reach(run, stage, index, &lock) != 0) {
        return -1;
    }
    /* release: pairs with the acquire in actors_await */
    atomic_store_explicit(&stage->waits, 1, memory_order_release);
    if (run->kind->acquire(lock, PEER_EXCLUSIVE, 2 * patience_ns, &token) != PEER_OK) {
        return -1;
    }
    atomic_store_explicit(&stage->highest, token, memory_order_relaxed);
    /* release: pairs with the acquire in write_once; the token is there before */
    atomic_store_explicit(&stage->had, 1, memory_order_release);
    int64_t renewed_ns = now_ns();
    for (;;) { /* ends: it is killed */
        actor_renew(run, &lock, 1, &renewed_ns);
        actor_sleep(write_every_ns);
    }
}

static void report(const struct stage *stage, const struct peer_kind *kind, int64_t took_ns,
                   struct results *results)
{
    const char *peer = kind->title;
    if (took_ns < 0) {
        results_word(results, "stopped", peer, "another has it after", "never: all wait for it");
        results_word(results, "stopped", peer, "told", "it kept the lock");
        return;
    }
    static const char *const names[2][2] = {
        {"late writes, asks awake", "let in, asks awake"},
        {"late writes, asked before", "let in, asked before"},
    };
    const char *const *name = names[stage->asked_first ? 1 : 0];
    results_add(results, "stopped", peer, "another has it after", "ns", BETTER_NEITHER,
                (double)took_ns);
    if (!stage->asked_first) {
        results_word(results, "stopped", peer, "told", "%s",
                     stage->told && stage->stale == 0 ? "before its next write"
                     : stage->told                    ? "too late"
                     : stage->told_at_release         ? "at its release"
                                                      : "never");
    }
    results_add(results, "stopped", peer, name[0], "", BETTER_LOWER, (double)stage->stale);
    results_add(results, "stopped", peer, name[1], "", BETTER_LOWER,
                (double)(stage->stale - stage->refused));
}

/* Stops or wakes the holder and, where it needs one, its host's server. The holder wakes first: so
 * nobody can tell it anything before it looks itself. */
static void signal_host(const struct actors *actors, int signal_number)
{
    const struct peer_run *run = actors->run;
    bool with_host = (run->kind->features & PEER_HOST_SERVERS) != 0 && run->server_count > 1;
    kill(actors->pids[HOLDER], signal_number);
    if (with_host) {
        kill(run->servers[0].pid, signal_number);
    }
}

static int play(struct actors *actors, struct stage *stage, struct results *results)
{
    const struct peer_kind *kind = actors->run->kind;
    int64_t lease_ns = actors->run->lease_ns;
    /* Two leases, or, where there are leases, as long as it takes, at most five. */
    int64_t bound_ns = (kind->features & PEER_HAS_LEASE) != 0 ? 5 * lease_ns : 2 * lease_ns;
    if (actors_add(actors, holder_plays) != 0 ||
        actors_await(actors, &stage->holds, 1, patience_ns) != 0 ||
        actors_add(actors, next_plays) != 0 ||
        actors_await(actors, &stage->waits, 1, patience_ns) != 0) {
        return -1;
    }
    pause_ns(settle_ns);
    signal_host(actors, SIGSTOP);
    int64_t stopped_ns = now_ns();
    int had = actors_await_or_not(actors, &stage->had, 1, bound_ns);
    int64_t took_ns = had == 0 ? now_ns() - stopped_ns : -1;
    pause_ns(settle_ns);
    signal_host(actors, SIGCONT);
    if (had < 0) {
        return -1;
    }
    if (actors_await_or_not(actors, &stage->over, 1, after_waking_ns) < 0) {
        return -1;
    }
    atomic_store_explicit(&stage->end, 1, memory_order_relaxed);
    if (actors_await(actors, &stage->over, 1, 2 * patience_ns) != 0) {
        return -1;
    }
    stage->kept = took_ns < 0;
    report(stage, kind, took_ns, results);
    return 0;
}

int measure_stopped(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                    struct results *results)
{
    uint32_t stops = plan->quick ? STOPS_QUICK : STOPS;
    (void)repetition;
    int result = peer_start(run, run->kind, plan->directory, plan->lease_ns);
    bool kept = false;
    for (uint32_t i = 0; result == 0 && i < stops && !kept; i++) {
        struct stage *stage = stage_create(sizeof(*stage));
        struct actors actors = {.run = run, .stage = stage};
        result = stage == NULL || interrupted() ? -1 : 0;
        if (result == 0) {
            stage->round = i;
            stage->asked_first = i % 2 == 1;
            result = play(&actors, stage, results);
        }
        actors_kill_all(&actors);
        kept = stage != NULL && stage->kept; /* the same every time */
        stage_destroy(stage, sizeof(*stage));
        if (result == 0 && run->kind->await != NULL) {
            result = run->kind->await(run);
        }
    }
    if (result == 0 && (run->kind->features & PEER_HOST_SERVERS) != 0 && run->server_count > 1) {
        results_note(results, "stopped", run->kind->title,
                     "its host's agent stood still with it: an agent that runs keeps a stopped "
                     "client's session");
    }
    peer_stop(run);
    return result;
}
