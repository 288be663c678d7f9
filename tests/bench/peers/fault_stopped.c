/*
 * Case 9. The holder writes to a resource every half millisecond. Before each write it asks its own
 * library whether it still holds the lock (kind->held). The bench stops the holder (SIGSTOP).
 * Another client waits for the lock; once it has the lock, it writes once, with its token. Then the
 * bench wakes the holder.
 *
 * Two such pairs of clients run at a time, each with a lock of its own. In pair ASKS_AWAKE the
 * holder pauses, and is stopped, before it asks: when it wakes, it asks its library, whose answer
 * decides whether it writes. In pair ASKED_BEFORE the holder pauses between asking and writing: it
 * has asked before it is stopped, and no client's library can keep it from that write.
 *
 * The case counts the holder's writes after the second client's write. The resource refuses a write
 * whose token is below the highest token that it saw. It cannot refuse a write without a token.
 *
 * If a host's clients need that host's own server (Holdfast's agent), the bench stops that server
 * too. Otherwise the agent would keep the session of its stopped client. This is the stop of a
 * whole host.
 */
#include <signal.h>
#include <stdio.h>

#include "actors.h"
#include "cases_fault.h"

/* The pairs. Actor i belongs to pair i % PAIRS; the actors below PAIRS are the holders. */
enum { ASKS_AWAKE, ASKED_BEFORE, PAIRS };
enum { STOPS = 3, STOPS_QUICK = 1 }; /* stops of each peer, shared by all repetitions */

static const int64_t suspicion_ns = INT64_C(20000000000);
static const int64_t settle_ns = INT64_C(200000000);
static const int64_t write_every_ns = 500000;
static const int64_t after_waking_ns = INT64_C(3000000000);

struct pair {
    /* 1: the second client has the lock; set after had_ns and highest */
    _Atomic uint32_t had;
    /* the highest token that the resource saw, which is the second client's */
    _Atomic uint64_t highest;
    int64_t had_ns;
    uint64_t stale; /* the holder's writes after had_ns */
    uint64_t refused;
    bool told;
    bool told_at_release;
};

struct stage {
    _Atomic uint32_t hold;
    _Atomic uint32_t wait;
    _Atomic uint32_t had;
    _Atomic uint32_t end; /* 1: the stopped clients may end */
    _Atomic uint32_t over;
    uint32_t round;
    struct pair pairs[PAIRS];
};

static int reach(struct peer_run *run, const struct stage *stage, uint32_t index, void **out_lock)
{
    void *client;
    char name[PEER_NAME_MAX];
    snprintf(name, sizeof(name), "stopped-%u-%u", stage->round, index % PAIRS);
    return run->kind->connect(run, index / PAIRS % run->kind->hosts, &client) != 0
               ? -1
               : run->kind->open(client, name, out_lock);
}

static void write_once(struct pair *pair, uint64_t token)
{
    /* acquire: pairs with the release in next_plays */
    if (atomic_load_explicit(&pair->had, memory_order_acquire) == 0) {
        return;
    }
    pair->stale++;
    pair->refused += token != 0 &&
                             token < atomic_load_explicit(&pair->highest, memory_order_relaxed)
                         ? 1
                         : 0;
}

static int holder_plays(struct peer_run *run, void *arg, uint32_t index)
{
    struct stage *stage = arg;
    struct pair *pair = &stage->pairs[index % PAIRS];
    const bool asked_before = index % PAIRS == ASKED_BEFORE;
    void *lock = NULL;
    uint64_t token = 0;
    if (reach(run, stage, index, &lock) != 0 ||
        run->kind->acquire(lock, PEER_EXCLUSIVE, suspicion_ns, &token) != PEER_OK) {
        return -1;
    }
    int64_t renewed_ns = now_ns();
    /* release: pairs with the acquire in actors_await */
    atomic_fetch_add_explicit(&stage->hold, 1, memory_order_release);
    while (!pair->told && atomic_load_explicit(&stage->end, memory_order_relaxed) == 0) {
        actor_sleep(asked_before ? 0 : write_every_ns);
        pair->told = run->kind->held != NULL && run->kind->held(lock) == PEER_LOST;
        actor_sleep(asked_before && !pair->told ? write_every_ns : 0);
        if (!pair->told) {
            write_once(pair, token);
            pair->told = actor_renew(run, &lock, 1, &renewed_ns) != 0;
        }
    }
    pair->told_at_release = run->kind->release(lock) != PEER_OK;
    /* release: pairs with the acquire in actors_await */
    atomic_fetch_add_explicit(&stage->over, 1, memory_order_release);
    return 0;
}

static int next_plays(struct peer_run *run, void *arg, uint32_t index)
{
    struct stage *stage = arg;
    struct pair *pair = &stage->pairs[index % PAIRS];
    void *lock = NULL;
    uint64_t token = 0;
    if (reach(run, stage, index, &lock) != 0) {
        return -1;
    }
    /* release: pairs with the acquire in actors_await */
    atomic_fetch_add_explicit(&stage->wait, 1, memory_order_release);
    if (run->kind->acquire(lock, PEER_EXCLUSIVE, 2 * suspicion_ns, &token) != PEER_OK) {
        return -1;
    }
    pair->had_ns = now_ns();
    atomic_store_explicit(&pair->highest, token, memory_order_relaxed);
    /* release: pairs with the acquire in write_once and play; publishes had_ns and highest */
    atomic_store_explicit(&pair->had, 1, memory_order_release);
    /* release: pairs with the acquire in actors_await */
    atomic_fetch_add_explicit(&stage->had, 1, memory_order_release);
    int64_t renewed_ns = now_ns();
    for (;;) { /* ends when the bench kills the process */
        actor_renew(run, &lock, 1, &renewed_ns);
        actor_sleep(write_every_ns);
    }
}

static void report(const struct pair *pair, bool asked_before, int64_t stopped_ns, const char *peer,
                   struct results *results)
{
    static const char *const names[PAIRS][2] = {
        [ASKS_AWAKE] = {"late writes, asks awake", "let in, asks awake"},
        [ASKED_BEFORE] = {"late writes, asked before", "let in, asked before"},
    };
    const char *const *name = names[asked_before ? ASKED_BEFORE : ASKS_AWAKE];
    results_add(results, "stopped", peer, "another has it after", "ns", BETTER_NEITHER,
                (double)(pair->had_ns - stopped_ns));
    if (!asked_before) {
        results_word(results, "stopped", peer, "told", "%s",
                     pair->told && pair->stale == 0 ? "before its next write"
                     : pair->told                   ? "too late"
                     : pair->told_at_release        ? "at its release"
                                                    : "never");
    }
    results_add(results, "stopped", peer, name[0], "", BETTER_LOWER, (double)pair->stale);
    results_add(results, "stopped", peer, name[1], "", BETTER_LOWER,
                (double)(pair->stale - pair->refused));
}

/* Stops or wakes the holders and, if they need it, their host's server. The holders wake first, so
 * that they ask about their holds before the server can send them an event. */
static void signal_host(const struct actors *actors, int signal_number)
{
    const struct peer_run *run = actors->run;
    bool with_host = (run->kind->features & PEER_HOST_SERVERS) != 0 && run->server_count > 1;
    for (uint32_t i = 0; i < PAIRS; i++) {
        kill(actors->pids[i], signal_number);
    }
    if (with_host) {
        kill(run->servers[0].pid, signal_number);
    }
}

static int gather(struct actors *actors, struct stage *stage)
{
    for (uint32_t i = 0; i < PAIRS; i++) {
        if (actors_add(actors, holder_plays) != 0) {
            return -1;
        }
    }
    if (actors_await(actors, &stage->hold, PAIRS, suspicion_ns) != 0) {
        return -1;
    }
    for (uint32_t i = 0; i < PAIRS; i++) {
        if (actors_add(actors, next_plays) != 0) {
            return -1;
        }
    }
    return actors_await(actors, &stage->wait, PAIRS, suspicion_ns);
}

/* Stops the holders once. Sets *out_kept if no other client got the locks during the stop. */
static int play(struct actors *actors, struct stage *stage, struct results *results, bool *out_kept)
{
    const struct peer_kind *kind = actors->run->kind;
    int64_t lease_ns = actors->run->lease_ns;
    /* The stop lasts until the second clients have the locks, but at most five leases. If the peer
     * has no leases, the stop lasts two times lease_ns. */
    int64_t bound_ns = (kind->features & PEER_HAS_LEASE) != 0 ? 5 * lease_ns : 2 * lease_ns;
    if (gather(actors, stage) != 0) {
        return -1;
    }
    pause_ns(settle_ns);
    signal_host(actors, SIGSTOP);
    int64_t stopped_ns = now_ns();
    int had = actors_await_or_not(actors, &stage->had, PAIRS, bound_ns);
    *out_kept = had > 0;
    pause_ns(settle_ns);
    signal_host(actors, SIGCONT);
    if (had < 0) {
        return -1;
    }
    if (!*out_kept && actors_await_or_not(actors, &stage->over, PAIRS, after_waking_ns) < 0) {
        return -1;
    }
    atomic_store_explicit(&stage->end, 1, memory_order_relaxed);
    if (actors_await(actors, &stage->over, PAIRS, 2 * suspicion_ns) != 0) {
        return -1;
    }
    for (uint32_t i = 0; i < PAIRS && !*out_kept; i++) {
        report(&stage->pairs[i], i == ASKED_BEFORE, stopped_ns, kind->title, results);
    }
    return 0;
}

static int stop_once(struct peer_run *run, uint32_t round, struct results *results, bool *out_kept)
{
    struct stage *stage = stage_create(sizeof(*stage));
    struct actors actors = {.run = run, .stage = stage};
    int result = stage == NULL || interrupted() ? -1 : 0;
    if (result == 0) {
        stage->round = round;
        result = play(&actors, stage, results, out_kept);
    }
    actors_kill_all(&actors);
    stage_destroy(stage, sizeof(*stage));
    if (result == 0 && run->kind->await != NULL) {
        result = run->kind->await(run);
    }
    return result;
}

int measure_stopped(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                    struct results *results)
{
    uint32_t stops = rounds_of(plan, repetition, plan->quick ? STOPS_QUICK : STOPS);
    const char *peer = run->kind->title;
    bool kept = false;
    int result = 0;
    if (repetition > 0 && (run->kind->features & PEER_HAS_LEASE) == 0) {
        return 0; /* nothing ends a hold without a lease, so one repetition is enough */
    }
    /* a hold that was kept once is kept every time */
    for (uint32_t i = 0; result == 0 && i < stops && !kept; i++) {
        result = stop_once(run, repetition * STOPS + i, results, &kept);
    }
    if (result == 0 && kept) {
        results_word(results, "stopped", peer, "another has it after", "never: all wait for it");
        results_word(results, "stopped", peer, "told", "it kept the lock");
    }
    if (result == 0 && (run->kind->features & PEER_HOST_SERVERS) != 0 && run->server_count > 1) {
        results_note(results, "stopped", peer,
                     "its host's agent stood still with it: an agent that runs keeps a stopped "
                     "client's session");
    }
    return result;
}
