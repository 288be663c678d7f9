/*
 * See load.h. The bench and its workers go from one barrier to the next.
 *
 * After the warm-up a worker clears its own counts. The sums that the locks protect (guard.sum) are
 * not cleared, so `exclusive` of a worker is not cleared either.
 */
#include "load.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../barrier.h"

static const int64_t second_ns = INT64_C(1000000000);
static const int64_t look_ns = 500000;
static const int64_t acquire_timeout_ns = INT64_C(20000000000);
static const int64_t dwell_every_ns = INT64_C(50000000);
/* the time that workers get to wake up before a phase begins */
static const int64_t lead_ns = 2000000;
/* how long a worker polls the clock before an intended start, because a timer would be late */
static const int64_t spin_ns = 100000;

struct load_worker {
    alignas(64) struct guard_findings findings;
    uint64_t pairs;
    /* the exclusive pairs of the worker, warm-up included; compared with guard.sum */
    uint64_t exclusive;
    uint64_t timeouts;
    uint64_t holds_lost;
    struct histogram pair;
    struct histogram wait;
    struct histogram handover;
};

struct arena {
    struct barrier barrier;
    /* the time at which the next phase begins; the bench writes it before it opens the barrier */
    int64_t begin_ns;
    /* how often the lock of an alternating load went to another worker */
    alignas(64) _Atomic uint32_t turns;
    alignas(64) _Atomic uint32_t stepped_back; /* workers that wait for the next turn */
    struct {
        alignas(64) struct guard guard;
    } guards[LOAD_WORKERS_MAX];
    struct load_worker places[LOAD_WORKERS_MAX];
};

struct worker {
    struct peer_run *run;
    const struct load *load;
    struct arena *arena;
    struct load_worker *place;
    struct guard *guard;
    void *client;
    void *lock; /* NULL: every pair opens a lock of its own */
    uint32_t index;
    uint32_t random;
    uint64_t names_used;
    int64_t dwelt_ns; /* when dwell() last slept */
};

/* ---- in a worker: one pair ---- */

static bool is_stopped(const struct worker *worker)
{
    /* relaxed: a worker that reads the flag late does no harm; the barrier publishes the counts */
    return atomic_load_explicit(&worker->arena->barrier.stop, memory_order_relaxed) != 0;
}

static enum peer_mode choose_mode(struct worker *worker)
{
    if (worker->load->reader_percent == 0) {
        return PEER_EXCLUSIVE;
    }
    worker->random ^= worker->random << 13;
    worker->random ^= worker->random >> 17;
    worker->random ^= worker->random << 5;
    return worker->random % 100 < worker->load->reader_percent ? PEER_SHARED : PEER_EXCLUSIVE;
}

static int open_fresh(struct worker *worker, void **out_lock)
{
    char name[PEER_NAME_MAX];
    snprintf(name, sizeof(name), "%s-%u-%llu", worker->load->tag, worker->index,
             (unsigned long long)worker->names_used++);
    return worker->run->kind->open(worker->client, name, out_lock);
}

/* Makes it likely that a broken lock is noticed: a worker that holds the lock for a few nanoseconds
 * hardly ever meets another holder, even if the lock lets both in. So the worker sleeps while it
 * holds the lock, but rarely: all workers together sleep for less than a fiftieth of the time. */
static void dwell(struct worker *worker, int64_t now)
{
    static const struct timespec moment = {0, 50000};
    if (worker->load->names == LOAD_SAME && now - worker->dwelt_ns > dwell_every_ns) {
        worker->dwelt_ns = now;
        nanosleep(&moment, NULL);
    }
}

/* The work between acquire and release: the worker checks the guard and records the times. */
static void be_inside(struct worker *worker, enum peer_mode mode, uint64_t token, int64_t start_ns)
{
    struct guard *guard = worker->guard;
    struct load_worker *place = worker->place;
    int64_t had_ns = now_ns();
    uint64_t last = guard->last;
    int64_t left_ns = guard->left_ns;
    guard_enter(guard, worker->index, mode, token, &place->findings);
    histogram_record(&place->wait, had_ns - start_ns);
    if (mode == PEER_EXCLUSIVE && last != 0 && last != worker->index + 1) {
        histogram_record(&place->handover, had_ns - left_ns);
    }
    place->exclusive += mode == PEER_EXCLUSIVE ? 1 : 0;
    dwell(worker, had_ns);
    guard_leave(guard, worker->index, mode, &place->findings);
    if (mode == PEER_EXCLUSIVE) {
        guard->left_ns = now_ns();
    }
}

/* relaxed: step_back() compares the value again */
static uint32_t read_turns(const struct worker *worker)
{
    return atomic_load_explicit(&worker->arena->turns, memory_order_relaxed);
}

/*
 * Ends a pair of an alternating load. If the lock has changed hands, wakes the workers that sleep
 * in this function. Otherwise sleeps until the lock changes hands. Without this sleep, a lock that
 * stays where it was last used would go to the same worker again and again, and the processes that
 * carry the requests of other workers would lack a processor. The sleep ends, because the other
 * workers wait in acquire() all the time.
 */
static void step_back(struct worker *worker, uint32_t turns_before, bool changed_hands)
{
    static const struct timespec look = {0, 5000000};
    struct arena *arena = worker->arena;
    if (changed_hands) {
        /* seq_cst, here and below: either the sleeper sees the new turn, or this thread sees the
         * sleeper */
        atomic_fetch_add(&arena->turns, 1);
        if (atomic_load(&arena->stepped_back) != 0) {
            syscall(SYS_futex, &arena->turns, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
        }
        return;
    }
    atomic_fetch_add(&arena->stepped_back, 1);
    while (atomic_load(&arena->turns) == turns_before && !is_stopped(worker)) {
        syscall(SYS_futex, &arena->turns, FUTEX_WAIT, turns_before, &look, NULL, 0);
    }
    atomic_fetch_sub(&arena->stepped_back, 1);
}

/* Does one pair; its latency counts from start_ns. Returns -1 after complain(). */
static int timed_pair(struct worker *worker, int64_t start_ns)
{
    const struct peer_kind *kind = worker->run->kind;
    bool fresh = worker->load->names == LOAD_FRESH;
    enum peer_mode mode = choose_mode(worker);
    void *lock = worker->lock;
    uint64_t token = 0;
    uint32_t turns = read_turns(worker);
    uint64_t handovers = worker->place->findings.handovers;
    if (fresh && open_fresh(worker, &lock) != 0) {
        return -1;
    }
    int had = kind->acquire(lock, mode, acquire_timeout_ns, &token);
    int result = had;
    if (had == PEER_OK) {
        be_inside(worker, mode, fresh ? 0 : token, start_ns);
        result = kind->release(lock);
        worker->place->holds_lost += result == PEER_LOST ? 1 : 0;
    }
    worker->place->timeouts += had == PEER_NOT_IN_TIME ? 1 : 0;
    if (fresh) {
        kind->close(lock);
    }
    histogram_record(&worker->place->pair, now_ns() - start_ns);
    worker->place->pairs++;
    if (worker->load->alternate && had == PEER_OK) {
        step_back(worker, turns, worker->place->findings.handovers != handovers);
    }
    return result < 0 ? -1 : 0;
}

/* ---- in a worker: the loops ---- */

/* Each worker has its own lock and does as many pairs as it can. The loop reads no clock: for a
 * lock of some ten nanoseconds, the clock would take most of the measured time. */
static int untimed_loop(struct worker *worker)
{
    const struct peer_kind *kind = worker->run->kind;
    struct load_worker *place = worker->place;
    struct guard *guard = worker->guard;
    void *lock = worker->lock;
    uint64_t pairs = 0;
    int result = 0;
    while (result == 0 && !is_stopped(worker)) {
        uint64_t token = 0;
        result = kind->acquire(lock, PEER_EXCLUSIVE, acquire_timeout_ns, &token);
        if (result == PEER_OK) {
            guard_enter(guard, worker->index, PEER_EXCLUSIVE, token, &place->findings);
            guard_leave(guard, worker->index, PEER_EXCLUSIVE, &place->findings);
            result = kind->release(lock);
            pairs++;
        }
    }
    place->pairs += pairs;
    place->exclusive += pairs;
    return result == PEER_OK ? 0 : complain("a lock that nobody else wants was not had");
}

static int closed_loop(struct worker *worker)
{
    while (!is_stopped(worker)) {
        if (timed_pair(worker, now_ns()) != 0) {
            return -1;
        }
    }
    return 0;
}

/* Sleeps until shortly before instant_ns, then polls the clock. */
static void await_instant(const struct worker *worker, int64_t instant_ns)
{
    int64_t left_ns;
    while ((left_ns = instant_ns - now_ns()) > 0 && !is_stopped(worker)) {
        if (left_ns > spin_ns) {
            struct timespec nap = {(left_ns - spin_ns) / second_ns,
                                   (left_ns - spin_ns) % second_ns};
            nanosleep(&nap, NULL);
        }
    }
}

/*
 * Does pairs at their intended instants until all pairs of the measurement are done. The instants
 * of all workers count from arena->begin_ns. The bench may end the round early, but well after the
 * last instant. A pair that should have begun before the end counts with the time that it has
 * waited so far.
 */
static int open_loop(struct worker *worker, int64_t duration_ns)
{
    const double step_ns = (double)second_ns * worker->load->workers / worker->load->rate;
    const int64_t begin_ns = worker->arena->begin_ns +
                             (int64_t)(step_ns * worker->index / worker->load->workers);
    const uint64_t count = (uint64_t)((double)duration_ns / step_ns);
    for (uint64_t k = 0; k < count; k++) {
        int64_t intended_ns = begin_ns + (int64_t)((double)k * step_ns);
        await_instant(worker, intended_ns);
        if (is_stopped(worker)) {
            int64_t waited_ns = now_ns() - intended_ns;
            if (waited_ns <= 0) {
                return 0;
            }
            histogram_record(&worker->place->pair, waited_ns);
            histogram_record(&worker->place->wait, waited_ns);
        } else if (timed_pair(worker, intended_ns) != 0) {
            return -1;
        }
    }
    return 0;
}

static int work(struct worker *worker, int64_t duration_ns)
{
    if (worker->load->rate > 0) {
        return open_loop(worker, duration_ns);
    }
    return worker->load->names == LOAD_OWN ? untimed_loop(worker) : closed_loop(worker);
}

/* ---- in a worker: its life ---- */

/* With four processors or more, the clients run only on the upper half of the processors. A single
 * client runs only on the last processor, if there are at least two. */
static void pin(uint32_t index, uint32_t workers)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    cpu_set_t set;
    CPU_ZERO(&set);
    if (workers == 1 && processors >= 2) {
        CPU_SET((size_t)processors - 1, &set);
    } else if (processors >= 4) {
        CPU_SET((size_t)(processors / 2 + (long)index % (processors - processors / 2)), &set);
    } else {
        return;
    }
    if (sched_setaffinity(0, sizeof(set), &set) != 0) {
        complain("sched_setaffinity: %s; not pinned", strerror(errno));
    }
}

static int worker_begin(struct worker *worker)
{
    const struct load *load = worker->load;
    const struct peer_kind *kind = worker->run->kind;
    char name[PEER_NAME_MAX];
    pin(worker->index, load->workers);
    prctl(PR_SET_TIMERSLACK, 1UL);
    if (kind->connect(worker->run, worker->index % load->hosts, &worker->client) != 0) {
        return -1;
    }
    if (load->names == LOAD_FRESH) {
        return 0;
    }
    if (load->names == LOAD_OWN) {
        snprintf(name, sizeof(name), "%s-%u", load->tag, worker->index);
    } else {
        snprintf(name, sizeof(name), "%s", load->tag);
    }
    return kind->open(worker->client, name, &worker->lock);
}

static void forget_counts(struct load_worker *place)
{
    uint64_t exclusive = place->exclusive;
    struct guard_findings findings = place->findings;
    memset(place, 0, sizeof(*place));
    place->exclusive = exclusive;
    place->findings = findings; /* a broken exclusion counts even during the warm-up */
    place->findings.handovers = 0;
}

static _Noreturn void worker_main(struct worker *worker, pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
        signal(SIGINT, SIG_IGN) == SIG_ERR || signal(SIGTERM, SIG_DFL) == SIG_ERR ||
        signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
        _exit(1);
    }
    if (worker_begin(worker) != 0) {
        _exit(1);
    }
    barrier_arrive_and_wait(&worker->arena->barrier, 0);
    if (work(worker, worker->load->warm_ns) != 0) {
        _exit(1);
    }
    barrier_arrive_and_wait(&worker->arena->barrier, 1);
    forget_counts(worker->place);
    barrier_arrive_and_wait(&worker->arena->barrier, 2);
    if (work(worker, worker->load->measure_ns) != 0) {
        _exit(1);
    }
    barrier_arrive_and_wait(&worker->arena->barrier, 3);
    if (worker->lock != NULL) {
        worker->run->kind->close(worker->lock);
    }
    worker->run->kind->disconnect(worker->client);
    _exit(0);
}

/* ---- in the bench ---- */

/* Runs one phase. The bench ends a closed loop by the stop flag. An open loop ends by itself, or by
 * the flag when it has taken three times as long as planned. */
static int run_phase(struct arena *arena, const struct load *load, const pid_t *pids,
                     int64_t duration_ns, int64_t *out_took_ns)
{
    int64_t begin_ns = now_ns();
    arena->begin_ns = begin_ns + lead_ns;
    barrier_open(&arena->barrier);
    pause_ns(duration_ns);
    int64_t took_ns = now_ns() - begin_ns;
    /* acquire: pairs with the release in barrier_arrive_and_wait */
    while (load->rate > 0 && took_ns < 3 * duration_ns && !interrupted() &&
           atomic_load_explicit(&arena->barrier.arrived, memory_order_acquire) < load->workers) {
        pause_ns(look_ns);
        took_ns = now_ns() - begin_ns;
    }
    /* relaxed: see is_stopped */
    atomic_store_explicit(&arena->barrier.stop, 1, memory_order_relaxed);
    *out_took_ns = took_ns;
    return barrier_await(&arena->barrier, pids, load->workers);
}

static int run_phases(struct peer_run *run, struct arena *arena, const struct load *load,
                      const pid_t *pids, struct load_result *out)
{
    int64_t ignored_ns;
    if (barrier_await(&arena->barrier, pids, load->workers) != 0 ||
        run_phase(arena, load, pids, load->warm_ns, &ignored_ns) != 0) {
        return -1;
    }
    barrier_open(&arena->barrier); /* the warm-up is over: the workers clear their counts */
    if (barrier_await(&arena->barrier, pids, load->workers) != 0) {
        return -1;
    }
    int64_t cpu_before_ns = peer_cpu_ns(run);
    if (run_phase(arena, load, pids, load->measure_ns, &out->took_ns) != 0) {
        return -1;
    }
    out->cpu_ns = peer_cpu_ns(run) - cpu_before_ns;
    barrier_open(&arena->barrier); /* the measurement is over: the workers end */
    return 0;
}

static void sum_up(const struct arena *arena, const struct load *load, struct load_result *out)
{
    uint64_t exclusive = 0;
    uint64_t sums = 0;
    out->least = UINT64_MAX;
    for (uint32_t i = 0; i < load->workers; i++) {
        const struct load_worker *place = &arena->places[i];
        out->pairs += place->pairs;
        out->least = place->pairs < out->least ? place->pairs : out->least;
        out->most = place->pairs > out->most ? place->pairs : out->most;
        out->handovers += place->findings.handovers;
        out->strangers += place->findings.strangers;
        out->tokens_not_rising += place->findings.tokens_not_rising;
        out->timeouts += place->timeouts;
        out->holds_lost += place->holds_lost;
        exclusive += place->exclusive;
        sums += arena->guards[i].guard.sum;
        histogram_add(&out->pair, &place->pair);
        histogram_add(&out->wait, &place->wait);
        histogram_add(&out->handover, &place->handover);
    }
    out->lost_updates = exclusive - sums;
}

static int start_workers(struct peer_run *run, struct arena *arena, const struct load *load,
                         pid_t *pids, uint32_t *out_started)
{
    pid_t parent = getpid();
    fflush(NULL);
    for (uint32_t i = 0; i < load->workers; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            struct worker worker = {
                .run = run,
                .load = load,
                .arena = arena,
                .place = &arena->places[i],
                .guard = &arena->guards[load->names == LOAD_SAME ? 0 : i].guard,
                .index = i,
                .random = 2463534242u + i,
            };
            worker_main(&worker, parent);
        }
        if (pid < 0) {
            return complain("fork: %s", strerror(errno));
        }
        pids[(*out_started)++] = pid;
    }
    return 0;
}

int load_run(struct peer_run *run, const struct load *load, struct load_result *out)
{
    pid_t pids[LOAD_WORKERS_MAX] = {0};
    uint32_t started = 0;
    memset(out, 0, sizeof(*out));
    if (load->workers == 0 || load->workers > LOAD_WORKERS_MAX || load->hosts == 0) {
        return complain("a load of %u workers on %u hosts", load->workers, load->hosts);
    }
    struct arena *arena = mmap(NULL, sizeof(*arena), PROT_READ | PROT_WRITE,
                               MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (arena == MAP_FAILED) {
        return complain("mmap: %s", strerror(errno));
    }
    int result = start_workers(run, arena, load, pids, &started);
    if (result == 0) {
        result = run_phases(run, arena, load, pids, out);
    }
    for (uint32_t i = 0; i < started; i++) {
        if (result != 0) {
            kill(pids[i], SIGKILL);
        }
        waitpid(pids[i], NULL, 0);
    }
    if (result == 0) {
        sum_up(arena, load, out);
    }
    munmap(arena, sizeof(*arena));
    return result;
}

double load_clock_cost_ns(void)
{
    enum { BATCHES = 50, READINGS = 2000 };
    int64_t least_ns = INT64_MAX; /* the shortest batch: no interrupt made it longer */
    for (int batch = 0; batch < BATCHES; batch++) {
        int64_t begin_ns = now_ns();
        for (int i = 0; i < READINGS - 1; i++) {
            (void)now_ns();
        }
        int64_t took_ns = now_ns() - begin_ns;
        least_ns = took_ns < least_ns ? took_ns : least_ns;
    }
    return (double)least_ns / READINGS;
}
