/*
 * Case 11. Sixteen clients take 100,000 locks and keep them, or as many as the peer grants in the
 * time given; the table shows how many. The memory of a lock is the growth of the servers' memory,
 * divided by the number of locks. Then nothing happens but the work that keeps the locks held. The
 * case counts that work: on the servers, and on the clients if they renew each hold themselves.
 *
 * Taking the locks leaves work behind (writes to a disk, messages to other servers). So the
 * counting begins when the servers use hardly more of a processor than before the locks were taken.
 * If the clients renew, the servers never become so quiet, and the case does not wait for it.
 *
 * The lease is longer than in the other cases, and equal for all peers.
 */
#include <stdio.h>
#include <stdlib.h>

#include "activity.h"
#include "actors.h"
#include "cases_fault.h"

enum { CLIENTS = 16, LOCKS = 100000, LOCKS_QUICK = 4000 };

static const int64_t lease_ns = INT64_C(15000000000);
static const int64_t fill_ns = INT64_C(10000000000);
static const int64_t fill_quick_ns = INT64_C(4000000000);
static const int64_t idle_ns = INT64_C(5500000000); /* more than a third of the lease */
static const int64_t settle_ns = INT64_C(1000000000);
static const int64_t rest_look_ns = INT64_C(1000000000);
/* the servers are at rest if they use at most this share of a processor more than before the locks
 * were taken */
static const double rest_share = 0.02;
enum { REST_LOOKS_MAX = 20 };
static const int64_t suspicion_ns = INT64_C(60000000000);
static const int64_t acquire_timeout_ns = INT64_C(5000000000);
static const int64_t step_ns = INT64_C(20000000);

struct stage {
    _Atomic uint32_t ready;
    _Atomic uint32_t begin;
    _Atomic uint32_t filled;
    _Atomic uint32_t lost; /* holds that the client found lost */
    _Atomic int64_t fill_until_ns;
    uint32_t locks_each;
    uint32_t held[CLIENTS];
};

static void fill(struct peer_run *run, struct stage *stage, uint32_t index, void *client,
                 void **locks, int64_t *renewed_ns)
{
    uint32_t count = 0;
    int result = PEER_OK;
    int64_t until_ns = atomic_load_explicit(&stage->fill_until_ns, memory_order_relaxed);
    while (result == PEER_OK && count < stage->locks_each && now_ns() < until_ns) {
        char name[PEER_NAME_MAX];
        uint64_t ignored;
        snprintf(name, sizeof(name), "held-%u-%u", index, count);
        result = run->kind->open(client, name, &locks[count]);
        if (result == 0) {
            result = run->kind->acquire(locks[count], PEER_EXCLUSIVE, acquire_timeout_ns, &ignored);
        }
        count += result == PEER_OK ? 1 : 0;
        uint32_t lost = actor_renew(run, locks, count, renewed_ns);
        atomic_fetch_add_explicit(&stage->lost, lost, memory_order_relaxed);
    }
    stage->held[index] = count;
}

static int client_plays(struct peer_run *run, void *arg, uint32_t index)
{
    struct stage *stage = arg;
    void *client;
    void **locks = calloc(stage->locks_each, sizeof(*locks));
    if (locks == NULL || run->kind->connect(run, index % run->kind->hosts, &client) != 0) {
        free(locks);
        return -1;
    }
    /* release: pairs with the acquire in actors_await */
    atomic_fetch_add_explicit(&stage->ready, 1, memory_order_release);
    /* acquire: pairs with the release in measure_one, which publishes fill_until_ns */
    while (atomic_load_explicit(&stage->begin, memory_order_acquire) == 0) {
        actor_sleep(step_ns);
    }
    int64_t renewed_ns = now_ns();
    fill(run, stage, index, client, locks, &renewed_ns);
    /* release: pairs with the acquire in actors_await; publishes held */
    atomic_fetch_add_explicit(&stage->filled, 1, memory_order_release);
    for (;;) { /* ends when the bench kills the process */
        uint32_t lost = actor_renew(run, locks, stage->held[index], &renewed_ns);
        atomic_fetch_add_explicit(&stage->lost, lost, memory_order_relaxed);
        if (run->kind->renew == NULL) {
            /* Nothing to renew: the sleep is long, so that the wake-ups of this loop are not
             * counted. */
            actor_sleep(suspicion_ns);
        }
        actor_sleep(step_ns);
    }
}

static void add_rate(struct results *results, const char *peer, const char *quantity,
                     const char *unit, uint64_t before, uint64_t after, double seconds)
{
    double change = after > before ? (double)(after - before) : 0;
    results_add(results, "held", peer, quantity, unit, BETTER_LOWER, change / seconds);
}

/* Waits rest_look_ns. Returns the fraction of a processor that the servers used in this time. */
static double servers_share(const struct peer_run *run)
{
    int64_t begin_ns = now_ns();
    int64_t cpu_ns = peer_cpu_ns(run);
    pause_ns(rest_look_ns);
    return (double)(peer_cpu_ns(run) - cpu_ns) / (double)(now_ns() - begin_ns);
}

static void await_rest(const struct peer_run *run, double share_before, struct results *results)
{
    double share = 0;
    int64_t begin_ns = now_ns();
    pause_ns(settle_ns);
    if (run->kind->renew != NULL) {
        pause_ns(rest_look_ns);
        return;
    }
    for (int i = 0; i < REST_LOOKS_MAX && !interrupted(); i++) {
        share = servers_share(run);
        if (share <= share_before + rest_share) {
            break;
        }
    }
    if (share > share_before + rest_share) {
        results_note(results, "held", run->kind->title,
                     "the servers had not come to rest %d s after the taking",
                     (int)((now_ns() - begin_ns) / INT64_C(1000000000)));
    }
    results_add(results, "held", run->kind->title, "at rest after", "ns", BETTER_LOWER,
                (double)(now_ns() - begin_ns));
}

static void watch_idle(struct actors *actors, struct results *results)
{
    struct peer_run *run = actors->run;
    const char *peer = run->kind->title;
    struct activity servers[2];
    struct activity clients[2];
    pid_t pids[PEER_SERVERS_MAX];
    for (size_t i = 0; i < run->server_count; i++) {
        pids[i] = run->servers[i].pid;
    }
    int64_t begin_ns = now_ns();
    activity_read(pids, run->server_count, run->directory, &servers[0]);
    activity_read(actors->pids, actors->count, run->directory, &clients[0]);
    pause_ns(idle_ns);
    double seconds = (double)(now_ns() - begin_ns) / 1e9;
    activity_read(pids, run->server_count, run->directory, &servers[1]);
    activity_read(actors->pids, actors->count, run->directory, &clients[1]);
    results_add(results, "held", peer, "servers' time", "%", BETTER_LOWER,
                (double)(servers[1].cpu_ns - servers[0].cpu_ns) / 1e7 / seconds);
    results_add(results, "held", peer, "clients' time", "%", BETTER_LOWER,
                (double)(clients[1].cpu_ns - clients[0].cpu_ns) / 1e7 / seconds);
    add_rate(results, peer, "servers' wake-ups", "/s", servers[0].wakeups, servers[1].wakeups,
             seconds);
    add_rate(results, peer, "clients' wake-ups", "/s", clients[0].wakeups, clients[1].wakeups,
             seconds);
    add_rate(results, peer, "written a second", "bytes", servers[0].disk_bytes,
             servers[1].disk_bytes, seconds);
    if (servers[0].segments_known && servers[1].segments_known) {
        add_rate(results, peer, "TCP segments", "/s", servers[0].segments, servers[1].segments,
                 seconds);
    }
}

static int measure_one(const struct bench_plan *plan, struct actors *actors, struct stage *stage,
                       struct results *results)
{
    struct peer_run *run = actors->run;
    const char *peer = run->kind->title;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        if (actors_add(actors, client_plays) != 0) {
            return -1;
        }
    }
    if (actors_await(actors, &stage->ready, CLIENTS, suspicion_ns) != 0) {
        return -1;
    }
    double share_before = run->kind->renew == NULL ? servers_share(run) : 0;
    int64_t before = peer_memory(run);
    int64_t begin_ns = now_ns();
    atomic_store_explicit(&stage->fill_until_ns, begin_ns + (plan->quick ? fill_quick_ns : fill_ns),
                          memory_order_relaxed);
    /* release: pairs with the acquire in client_plays */
    atomic_store_explicit(&stage->begin, 1, memory_order_release);
    if (actors_await(actors, &stage->filled, CLIENTS, fill_ns + suspicion_ns) != 0) {
        return -1;
    }
    double took_s = (double)(now_ns() - begin_ns) / 1e9;
    double held = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        held += stage->held[i];
    }
    await_rest(run, share_before, results);
    results_add(results, "held", peer, "locks held", "", BETTER_HIGHER, held);
    results_add(results, "held", peer, "taken", "/s", BETTER_HIGHER, held / took_s);
    if (held > 0) {
        results_add(results, "held", peer, "memory a lock", "bytes", BETTER_LOWER,
                    (double)(peer_memory(run) - before) / held);
    }
    watch_idle(actors, results);
    results_add(results, "held", peer, "lost", "", BETTER_LOWER,
                atomic_load_explicit(&stage->lost, memory_order_relaxed));
    return 0;
}

int measure_held(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                 struct results *results)
{
    struct stage *stage = stage_create(sizeof(*stage));
    struct actors actors = {.run = run, .stage = stage};
    (void)repetition;
    int result = stage == NULL ? -1 : peer_start(run, run->kind, plan->directory, lease_ns);
    if (result == 0) {
        stage->locks_each = (plan->quick ? LOCKS_QUICK : LOCKS) / CLIENTS;
        result = measure_one(plan, &actors, stage, results);
    }
    actors_kill_all(&actors);
    peer_stop(run);
    stage_destroy(stage, sizeof(*stage));
    return result;
}
