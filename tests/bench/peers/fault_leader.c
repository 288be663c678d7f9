/*
 * Case 7. Six clients take and release: four use names that were never used before, and two share
 * one lock. Then the bench kills the server that leads, or any server if none leads. Each client
 * goes on until it has done a pair that began a second after the kill. The longest wait of a client
 * is the gap.
 *
 * The clients are on the hosts whose servers survive, because a client of the lost host would be
 * gone too. A client begins a pair every 10 ms, or later if the previous pair takes longer. The
 * load is light, so that it does not add to the gap. An error counts as waiting: the client tries
 * again. The kills are spread over the repetitions.
 */
#include <stdalign.h>
#include <stdio.h>

#include "actors.h"
#include "cases_fault.h"

enum { CLIENTS = 6, FRESH_CLIENTS = 4, KILLS = 5, KILLS_QUICK = 2, SLOTS = 240 };

static const int64_t second_ns = INT64_C(1000000000);
static const int64_t pace_ns = INT64_C(10000000);
static const int64_t inside_ns = INT64_C(200000);
static const int64_t slot_ns = INT64_C(50000000); /* the width of a slot of the time line */
static const int64_t line_before_ns = INT64_C(500000000);
static const int64_t acquire_timeout_ns = INT64_C(20000000000);
static const int64_t suspicion_ns = INT64_C(40000000000);

struct fault_worker {
    alignas(64) _Atomic int64_t began_ns; /* when the latest finished pair began */
    int64_t longest_before;
    int64_t longest_after;
    uint64_t pairs;
    uint64_t errors;
    uint64_t exclusive;
    struct guard_findings findings;
    int64_t slots[SLOTS]; /* the longest wait of the pairs that began in each slot */
};

struct stage {
    _Atomic uint32_t ready;
    _Atomic uint32_t counting;
    _Atomic uint32_t stop;
    _Atomic int64_t killed_ns; /* 0: not killed yet */
    uint32_t round;
    size_t victim;
    struct guard guard; /* protected by the lock that two clients share */
    struct fault_worker places[CLIENTS];
};

/* ---- a client ---- */

static int pair_once(struct peer_run *run, struct stage *stage, uint32_t index, void *lock)
{
    struct fault_worker *place = &stage->places[index];
    uint64_t token = 0;
    int result = run->kind->acquire(lock, PEER_EXCLUSIVE, acquire_timeout_ns, &token);
    if (result == PEER_OK && index >= FRESH_CLIENTS) {
        guard_enter(&stage->guard, index, PEER_EXCLUSIVE, token, &place->findings);
        actor_sleep(inside_ns); /* the hold is so long that a second holder would be noticed */
        guard_leave(&stage->guard, index, PEER_EXCLUSIVE, &place->findings);
        place->exclusive++;
    }
    if (result == PEER_OK) {
        result = run->kind->release(lock);
    }
    return result;
}

/* Does the next pair. After an error it tries again, until it succeeds or the case is over. */
static int do_pair(struct peer_run *run, struct stage *stage, uint32_t index, void *client,
                   void *both, uint64_t number)
{
    struct fault_worker *place = &stage->places[index];
    int result = -1;
    /* relaxed: a client that reads the flag late does no harm */
    while (result != PEER_OK && atomic_load_explicit(&stage->stop, memory_order_relaxed) == 0) {
        void *lock = both;
        char name[PEER_NAME_MAX];
        snprintf(name, sizeof(name), "leader-%u-%u-%llu-%llu", stage->round, index,
                 (unsigned long long)number, (unsigned long long)place->errors);
        result = both != NULL ? 0 : run->kind->open(client, name, &lock);
        if (result == 0) {
            result = pair_once(run, stage, index, lock);
            if (both == NULL) {
                run->kind->close(lock);
            }
        }
        if (result != PEER_OK) {
            place->errors++;
            actor_sleep(pace_ns);
        }
    }
    return result;
}

static void note(struct stage *stage, struct fault_worker *place, int64_t began_ns, int64_t done_ns)
{
    /* acquire: pairs with the release in kill_and_wait, which kills the server after its store */
    int64_t killed_ns = atomic_load_explicit(&stage->killed_ns, memory_order_acquire);
    int64_t took_ns = done_ns - began_ns;
    bool after = killed_ns != 0 && done_ns > killed_ns;
    int64_t *longest = after ? &place->longest_after : &place->longest_before;
    if (atomic_load_explicit(&stage->counting, memory_order_relaxed) != 0 && took_ns > *longest) {
        *longest = took_ns;
    }
    int64_t slot = (began_ns - killed_ns + line_before_ns) / slot_ns;
    if (killed_ns != 0 && began_ns > killed_ns - line_before_ns && slot < SLOTS &&
        took_ns > place->slots[slot]) {
        place->slots[slot] = took_ns;
    }
    place->pairs++;
    /* release: pairs with the acquire in all_went_on */
    atomic_store_explicit(&place->began_ns, began_ns, memory_order_release);
}

static int client_plays(struct peer_run *run, void *arg, uint32_t index)
{
    struct stage *stage = arg;
    uint32_t servers = (uint32_t)run->server_count;
    uint32_t host = (uint32_t)(stage->victim + 1 + index % (servers - 1)) % servers;
    void *client = NULL;
    void *both = NULL;
    char name[PEER_NAME_MAX];
    snprintf(name, sizeof(name), "leader-both-%u", stage->round);
    if (run->kind->connect(run, host, &client) != 0 ||
        (index >= FRESH_CLIENTS && run->kind->open(client, name, &both) != 0)) {
        return -1;
    }
    /* release: pairs with the acquire in actors_await */
    atomic_fetch_add_explicit(&stage->ready, 1, memory_order_release);
    int64_t next_ns = now_ns() + (int64_t)index * pace_ns / CLIENTS;
    for (uint64_t number = 0; atomic_load_explicit(&stage->stop, memory_order_relaxed) == 0;
         number++) {
        actor_sleep(next_ns - now_ns());
        int64_t began_ns = now_ns();
        if (do_pair(run, stage, index, client, both, number) == PEER_OK) {
            note(stage, &stage->places[index], began_ns, now_ns());
        }
        next_ns = began_ns + pace_ns;
    }
    return 0; /* no clean-up: the process ends, and its connections with it */
}

/* ---- the bench ---- */

static bool all_went_on(struct stage *stage, int64_t since_ns)
{
    for (uint32_t i = 0; i < CLIENTS; i++) {
        /* acquire: pairs with the release in note */
        if (atomic_load_explicit(&stage->places[i].began_ns, memory_order_acquire) < since_ns) {
            return false;
        }
    }
    return true;
}

static int kill_and_wait(struct actors *actors, struct stage *stage)
{
    pause_ns(second_ns); /* the warm-up: a client's first pairs open connections and files */
    atomic_store_explicit(&stage->counting, 1, memory_order_relaxed);
    pause_ns(second_ns);
    int64_t killed_ns = now_ns();
    /* release: pairs with the acquire in note */
    atomic_store_explicit(&stage->killed_ns, killed_ns, memory_order_release);
    peer_kill_server(actors->run, stage->victim, false);
    while (!all_went_on(stage, killed_ns + second_ns)) {
        static const _Atomic uint32_t never = 0;
        if (now_ns() > killed_ns + suspicion_ns) {
            return complain("a client has no lock %.0f s after the kill",
                            (double)suspicion_ns / 1e9);
        }
        if (actors_await_or_not(actors, &never, 1, pace_ns) < 0) {
            return -1;
        }
    }
    atomic_store_explicit(&stage->stop, 1, memory_order_relaxed);
    return actors_join(actors, suspicion_ns);
}

static void report(struct stage *stage, const char *peer, struct results *results)
{
    int64_t before = 0;
    int64_t after = 0;
    uint64_t errors = 0;
    uint64_t broken = 0;
    uint64_t exclusive = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) {
        const struct fault_worker *place = &stage->places[i];
        before = place->longest_before > before ? place->longest_before : before;
        after = place->longest_after > after ? place->longest_after : after;
        errors += place->errors;
        broken += place->findings.strangers + place->findings.tokens_not_rising;
        exclusive += place->exclusive;
    }
    /* updates of guard.sum are missing if two holders were inside at once */
    broken += exclusive - stage->guard.sum;
    results_add(results, "leader", peer, "longest wait", "ns", BETTER_LOWER, (double)after);
    results_add(results, "leader", peer, "undisturbed", "ns", BETTER_NEITHER, (double)before);
    results_add(results, "leader", peer, "errors", "", BETTER_LOWER, (double)errors);
    results_add(results, "leader", peer, "broken", "", BETTER_LOWER, (double)broken);
    for (int64_t slot = 0; slot < SLOTS; slot++) {
        int64_t longest = 0;
        for (uint32_t i = 0; i < CLIENTS; i++) {
            const int64_t *slots = stage->places[i].slots;
            longest = slots[slot] > longest ? slots[slot] : longest;
        }
        if (longest > 0) {
            results_point(results, "leader", peer, stage->round, slot * slot_ns, longest);
        }
    }
}

static int kill_once(struct peer_run *run, uint32_t round, struct results *results)
{
    struct stage *stage = stage_create(sizeof(*stage));
    struct actors actors = {.run = run, .stage = stage};
    int result = stage == NULL ? -1 : 0;
    if (result == 0) {
        stage->round = round;
        stage->victim = round % run->server_count;
        result = run->kind->leader == NULL ? 0 : run->kind->leader(run, "leader", &stage->victim);
    }
    for (uint32_t i = 0; result == 0 && i < CLIENTS; i++) {
        result = actors_add(&actors, client_plays);
    }
    if (result == 0) {
        result = actors_await(&actors, &stage->ready, CLIENTS, suspicion_ns);
    }
    if (result == 0) {
        result = kill_and_wait(&actors, stage);
    }
    if (result == 0) {
        report(stage, run->kind->title, results);
    }
    actors_kill_all(&actors);
    if (result == 0) {
        result = peer_start_server(run, stage->victim);
    }
    if (result == 0 && run->kind->await != NULL) {
        result = run->kind->await(run);
    }
    stage_destroy(stage, sizeof(*stage));
    return result;
}

int measure_leader(const struct bench_plan *plan, struct peer_run *run, uint32_t repetition,
                   struct results *results)
{
    uint32_t kills = rounds_of(plan, repetition, plan->quick ? KILLS_QUICK : KILLS);
    int result = 0;
    if (run->server_count == 1) {
        results_word(results, "leader", run->kind->title, "longest wait",
                     "one server: until it is back");
        kills = 0;
    }
    for (uint32_t i = 0; result == 0 && i < kills; i++) {
        result = interrupted() ? -1 : kill_once(run, repetition * KILLS + i, results);
    }
    if (result == 0 && kills > 0) {
        results_word(results, "leader", run->kind->title, "killed", "%s",
                     run->kind->leader != NULL ? "the leader" : "one of them");
    }
    return result;
}
