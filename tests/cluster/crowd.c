/* See crowd.h: the workers, their record, and the check of the record. */
#include "crowd.h"

#include "holdfast/holdfast.h"
#include "require.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { LOG_EVENTS = 2000000, TRIES_MAX = 2000, PAUSE_US_MAX = 3000, LONG_ONE_OF = 16 };
enum { DRIFT_PERCENT = 10 }; /* the default of max_drift, which the cell uses */

/* in memory that all workers share */
struct crowd_shared {
    _Atomic uint32_t last_round;
    _Atomic uint64_t holds[CROWD_WORKERS_MAX];
    _Atomic uint64_t lost;
    _Atomic uint64_t gave_up;
};

struct worker {
    struct crowd *crowd;
    unsigned number;
    unsigned host;
    hf_client *client;
    hf_lock *locks[CROWD_LOCKS_MAX];
    uint64_t random;
};

uint64_t crowd_draw(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13; /* xorshift */
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % below;
}

const char *crowd_lock(unsigned lock)
{
    static char name[32];
    snprintf(name, sizeof(name), "crowd/%u", lock);
    return name;
}

static struct history_event event_of(const struct worker *worker, enum history_kind kind,
                                     unsigned lock, enum hf_mode mode)
{
    return (struct history_event){.kind = kind,
                                  .pid = (uint32_t)getpid(),
                                  .host = (uint8_t)worker->host,
                                  .lock = lock,
                                  .mode = (enum history_mode)mode};
}

static void record(const struct worker *worker, enum history_kind kind, unsigned lock,
                   enum hf_mode mode)
{
    history_add(worker->crowd->history, event_of(worker, kind, lock, mode));
}

/* Records that the hold counts, if it does. The clock is read before hf_remaining_ns(), so the hold
 * certainly counted at the recorded time. */
static bool record_held(const struct worker *worker, unsigned lock, enum hf_mode mode)
{
    struct history_event event = event_of(worker, HISTORY_HELD, lock, mode);
    event.time_ns = boottime_now();
    int64_t remaining_ns = hf_remaining_ns(worker->locks[lock]);
    if (remaining_ns <= 0) {
        return false;
    }
    const struct faults *faults = worker->crowd->plan.faults;
    event.deadline_ns = event.time_ns +
                        (faults ? faults_true_duration_ns(faults, worker->host, remaining_ns)
                                : remaining_ns);
    history_add(worker->crowd->history, event);
    return true;
}

/* Holds the lock for a random time, and checks now and then that the hold still counts. */
static void work(struct worker *worker, unsigned lock, enum hf_mode mode)
{
    const struct crowd_plan *plan = &worker->crowd->plan;
    bool longer = crowd_draw(&worker->random, LONG_ONE_OF) == 0 &&
                  !atomic_load(&worker->crowd->shared->last_round);
    int64_t left_ms = (int64_t)crowd_draw(&worker->random,
                                          1 + (longer ? plan->long_ms : plan->hold_ms));
    while (left_ms > 0 && record_held(worker, lock, mode)) {
        int64_t step_ms = left_ms < 20 ? left_ms : 20;
        sleep_ms(step_ms);
        left_ms -= step_ms;
    }
    /* A worker that lost its hold releases the lock at once or later, at random. A release at once
     * lets the next holder in. Without a release the record shows whether the lock stays closed for
     * the lock-delay. */
    if (left_ms > 0 && crowd_draw(&worker->random, 2) == 0) {
        sleep_ms(3 * (int64_t)plan->lock_delay_ms);
    }
}

/* Returns whether `error` may be the answer of an agent that lacks memory or descriptors. */
static bool is_refusal(const struct worker *worker, int error)
{
    return worker->crowd->plan.starved &&
           (error == HF_EFULL || error == HF_ENOMEM || error == HF_EPROTO);
}

/* Records a hold. The clock of the worker's host measures the hold's deadline and its lock-delay,
 * so both are converted to true time. */
static void record_acquired(const struct worker *worker, unsigned lock, enum hf_mode mode,
                            const struct hf_hold *hold)
{
    const struct crowd_plan *plan = &worker->crowd->plan;
    struct history_event event = event_of(worker, HISTORY_ACQUIRED, lock, mode);
    event.token = hold->token;
    event.deadline_ns = hold->deadline_ns;
    event.firm = true;
    event.delay_ns = plan->lock_delay_ms * MS;
    if (plan->faults) {
        event.deadline_ns = faults_true_ns(plan->faults, worker->host, hold->deadline_ns);
        event.delay_ns = event.delay_ns * 100 / (100 + DRIFT_PERCENT); /* the shortest true time
                                                                        * in which a clock may
                                                                        * measure delay_ns */
    }
    history_add(worker->crowd->history, event);
}

/* Tries to take the lock once. Returns whether the worker held it. */
static bool take(struct worker *worker, unsigned lock, enum hf_mode mode, int64_t timeout_ns)
{
    struct crowd_shared *shared = worker->crowd->shared;
    struct hf_hold hold;
    record(worker, HISTORY_ATTEMPT, lock, mode);
    int result = hf_acquire(worker->locks[lock], mode, timeout_ns, &hold);
    if (result != 0) {
        record(worker, HISTORY_GAVE_UP, lock, mode);
        atomic_fetch_add(&shared->gave_up, 1);
        REQUIRE(result == HF_EBUSY || result == HF_ETIMEDOUT || result == HF_ENOAGENT ||
                    is_refusal(worker, result),
                "host %u: hf_acquire: %s", worker->host, hf_strerror(result));
        return false;
    }
    record_acquired(worker, lock, mode, &hold);
    atomic_fetch_add(&shared->holds[worker->number], 1);
    work(worker, lock, mode);
    record(worker, HISTORY_RELEASED, lock, mode);
    result = hf_release(worker->locks[lock]);
    if (result == HF_ELOST) {
        record(worker, HISTORY_LOST, lock, mode);
        atomic_fetch_add(&shared->lost, 1);
    }
    REQUIRE(result == 0 || result == HF_ELOST, "host %u: hf_release: %s", worker->host,
            hf_strerror(result));
    return true;
}

/* Connects and opens all locks. If the agent is away, the worker waits until the agent is back. */
static void open_locks(struct worker *worker)
{
    const struct hf_options options = {.size = sizeof(options),
                                       .socket = worker->crowd->cell->agents[worker->host].socket,
                                       .connect_timeout_ns = -1};
    const struct hf_lock_options lock_options = {
        .size = sizeof(lock_options), .lock_delay_ns = worker->crowd->plan.lock_delay_ms * MS};
    int error = hf_connect(&options, &worker->client);
    for (int tries = 0; is_refusal(worker, error) && tries < TRIES_MAX; tries++) {
        sleep_ms(20);
        error = hf_connect(&options, &worker->client);
    }
    REQUIRE(error == 0, "host %u: hf_connect: %s", worker->host, hf_strerror(error));
    for (unsigned i = 0; i < worker->crowd->plan.locks; i++) {
        error = HF_ENOAGENT;
        for (int tries = 0;
             (error == HF_ENOAGENT || is_refusal(worker, error)) && tries < TRIES_MAX; tries++) {
            error = hf_open(worker->client, crowd_lock(i), &lock_options, &worker->locks[i]);
            sleep_ms(error == 0 ? 0 : 20);
        }
        REQUIRE(error == 0, "host %u: hf_open: %s", worker->host, hf_strerror(error));
    }
}

static enum hf_mode draw_mode(struct worker *worker)
{
    bool shared = crowd_draw(&worker->random, 100) < worker->crowd->plan.shared_percent;
    return shared ? HF_SHARED : HF_EXCLUSIVE;
}

static void worker_run(struct crowd *crowd, unsigned number, uint64_t seed)
{
    static const int64_t timeouts_ns[] = {0, 50 * MS, 500 * MS, -1, -1, -1};
    struct worker worker = {.crowd = crowd,
                            .number = number,
                            .host = crowd->workers[number].host,
                            .random = seed * 0x9e3779b97f4a7c15 | 1};
    snprintf(require_context, sizeof(require_context), "(a worker on host %u)", worker.host);
    if (crowd->plan.faults) {
        faults_become(crowd->plan.faults, worker.host);
    }
    open_locks(&worker);
    while (!atomic_load(&crowd->shared->last_round)) {
        unsigned lock = (unsigned)crowd_draw(&worker.random, crowd->plan.locks);
        take(&worker, lock, draw_mode(&worker), timeouts_ns[crowd_draw(&worker.random, 6)]);
        usleep((useconds_t)crowd_draw(&worker.random, PAUSE_US_MAX));
    }
    for (unsigned lock = 0; lock < crowd->plan.locks; lock++) {
        int tries = 0;
        while (!take(&worker, lock, HF_EXCLUSIVE, -1)) {
            REQUIRE(crowd->plan.starved && ++tries < TRIES_MAX, "a wait without a limit ended");
            sleep_ms(20);
        }
    }
    hf_disconnect(worker.client);
    _exit(0);
}

static void start_worker(struct crowd *crowd, unsigned number)
{
    uint64_t seed = ++crowd->seed;
    pid_t pid = fork_tied();
    if (pid == 0) {
        worker_run(crowd, number, seed);
    }
    crowd->workers[number].pid = pid;
}

void crowd_start(struct crowd *crowd, struct cell *cell, const struct crowd_plan *plan)
{
    *crowd = (struct crowd){.cell = cell, .plan = *plan, .seed = plan->seed};
    crowd->plan.guard_ms = plan->guard_ms != 0 ? plan->guard_ms : GUARD_MS;
    REQUIRE(plan->locks <= CROWD_LOCKS_MAX, "%u locks", plan->locks);
    crowd->shared = mmap(NULL, sizeof(*crowd->shared), PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    crowd->history = history_create(plan->history_path, LOG_EVENTS);
    REQUIRE(crowd->shared != MAP_FAILED && crowd->history, "no memory");
    for (unsigned host = 0; host < cell->hosts; host++) {
        for (unsigned i = 0; i < plan->workers_per_host; i++) {
            REQUIRE(crowd->count < CROWD_WORKERS_MAX, "too many workers");
            crowd->workers[crowd->count].host = host;
            start_worker(crowd, crowd->count++);
        }
    }
    crowd_await_all(crowd, 1);
}

void crowd_replace(struct crowd *crowd, unsigned worker)
{
    pid_t pid = crowd->workers[worker].pid;
    struct history_event event = {.kind = HISTORY_KILL_SENT, .pid = (uint32_t)pid};
    history_add(crowd->history, event);
    kill(pid, SIGKILL);
    int status = wait_for(pid);
    REQUIRE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "worker %d ended with %x", (int)pid,
            (unsigned)status);
    event.kind = HISTORY_KILLED;
    history_add(crowd->history, event);
    start_worker(crowd, worker);
}

uint64_t crowd_holds(const struct crowd *crowd, unsigned host)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < crowd->count; i++) {
        sum += crowd->workers[i].host == host ? atomic_load(&crowd->shared->holds[i]) : 0;
    }
    return sum;
}

void crowd_await_progress(struct crowd *crowd, unsigned host, uint64_t holds)
{
    uint64_t before = crowd_holds(crowd, host);
    int64_t end_ns = boottime_now() + crowd->plan.guard_ms * MS;
    while (crowd_holds(crowd, host) < before + holds) {
        REQUIRE(boottime_now() < end_ns, "nobody on host %u gets a lock any more (%llu of %llu)",
                host, (unsigned long long)(crowd_holds(crowd, host) - before),
                (unsigned long long)holds);
        sleep_ms(5);
    }
}

void crowd_await_others(struct crowd *crowd, unsigned but, uint64_t holds)
{
    for (unsigned host = 0; host < crowd->cell->hosts; host++) {
        if (host != but) {
            crowd_await_progress(crowd, host, holds);
        }
    }
}

void crowd_await_all(struct crowd *crowd, uint64_t holds)
{
    crowd_await_others(crowd, crowd->cell->hosts, holds);
}

/* Reads the line that begins with `key` from a file of /proc, without its line end. line becomes ""
 * if there is no such line. */
static void read_line(const char *path, const char *key, char *line, int size)
{
    bool found = false;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, size, file)) {
        found = strncmp(line, key, strlen(key)) == 0;
    }
    if (file) {
        fclose(file);
    }
    line[found ? strcspn(line, "\n") : 0] = '\0';
}

/* Prints for each worker how it ended, or its state and system call. */
static void tell_stuck(const struct crowd *crowd)
{
    for (unsigned i = 0; i < crowd->count; i++) {
        const struct crowd_worker *worker = &crowd->workers[i];
        char path[64];
        char state[128];
        char call[128];
        siginfo_t ended = {.si_pid = 0};
        waitid(P_PID, (id_t)worker->pid, &ended, WEXITED | WNOWAIT | WNOHANG);
        snprintf(path, sizeof(path), "/proc/%d/status", (int)worker->pid);
        read_line(path, "State:", state, sizeof(state));
        snprintf(path, sizeof(path), "/proc/%d/syscall", (int)worker->pid);
        read_line(path, "", call, sizeof(call));
        if (ended.si_pid == 0) {
            fprintf(stderr, "worker %u (%d) on host %u: %s, system call %s\n", i, (int)worker->pid,
                    worker->host, state, call);
        } else if (ended.si_code != CLD_EXITED || ended.si_status != 0) {
            fprintf(stderr, "worker %u (%d) on host %u ended by itself: %s %d\n", i,
                    (int)worker->pid, worker->host,
                    ended.si_code == CLD_EXITED ? "status" : "signal", ended.si_status);
        }
    }
}

void crowd_tell_waiting(struct crowd *crowd, int64_t longer_than_ns)
{
    int64_t now_ns = boottime_now();
    for (unsigned i = 0; i < crowd->count; i++) {
        struct crowd_worker *worker = &crowd->workers[i];
        uint64_t holds = atomic_load(&crowd->shared->holds[i]);
        bool waits = worker->seen_ns != 0 && holds == worker->holds_seen;
        int64_t waited_ns = waits ? now_ns - worker->seen_ns : 0;
        if (worker->told != (waited_ns > longer_than_ns)) {
            worker->told = !worker->told;
            fprintf(stderr, "at %lld ms: worker %u (%d) on host %u has %s, %llu so far\n",
                    (long long)(now_ns / MS), i, (int)worker->pid, worker->host,
                    worker->told ? "had no lock for long" : "a lock again",
                    (unsigned long long)holds);
        }
        if (!waits) {
            worker->holds_seen = holds;
            worker->seen_ns = now_ns;
        }
    }
}

void crowd_look(struct crowd *crowd)
{
    for (unsigned i = 0; i < crowd->count; i++) {
        siginfo_t ended = {.si_pid = 0};
        int found = waitid(P_PID, (id_t)crowd->workers[i].pid, &ended, WEXITED | WNOWAIT | WNOHANG);
        REQUIRE(found == 0 && ended.si_pid == 0, "worker %u (%d) on host %u ended by itself: %s %d",
                i, (int)crowd->workers[i].pid, crowd->workers[i].host,
                ended.si_code == CLD_EXITED ? "status" : "signal", ended.si_status);
    }
}

/* Waits until all workers have ended, for at most twice the guard time. If that time runs out,
 * prints what each worker does. */
static void await_ends(const struct crowd *crowd)
{
    int64_t end_ns = boottime_now() + 2 * (int64_t)crowd->plan.guard_ms * MS;
    for (unsigned i = 0; i < crowd->count; i++) {
        siginfo_t ended = {.si_pid = 0};
        while (ended.si_pid == 0 && boottime_now() < end_ns) {
            int found = waitid(P_PID, (id_t)crowd->workers[i].pid, &ended,
                               WEXITED | WNOWAIT | WNOHANG);
            REQUIRE(found == 0, "waitid: %s", strerror(errno));
            sleep_ms(ended.si_pid == 0 ? 5 : 0);
        }
    }
    if (boottime_now() >= end_ns) {
        tell_stuck(crowd);
    }
}

void crowd_finish(struct crowd *crowd, const char *what)
{
    struct history_report report;
    atomic_store(&crowd->shared->last_round, 1);
    await_ends(crowd);
    for (unsigned i = 0; i < crowd->count; i++) {
        int status = wait_for_long(crowd->workers[i].pid, 1);
        REQUIRE(status == 0, "worker %u on host %u ended with %x", i, crowd->workers[i].host,
                (unsigned)status);
    }
    int checked = history_check(crowd->history, &report);
    crowd->result = (struct crowd_result){.holds = report.holds,
                                          .lost = atomic_load(&crowd->shared->lost),
                                          .gave_up = atomic_load(&crowd->shared->gave_up),
                                          .longest_wait_ns = report.longest_wait_ns};
    printf(
        "%s: %zu holds, %llu lost, %llu attempts given up, longest wait %lld ms; %zu shared, %zu "
        "of them under tokens that no exclusive hold had\n",
        what, report.holds, (unsigned long long)atomic_load(&crowd->shared->lost),
        (unsigned long long)atomic_load(&crowd->shared->gave_up),
        (long long)(report.longest_wait_ns / MS), report.holds - report.exclusive_holds,
        report.apart);
    REQUIRE(checked == 0,
            "%s: %zu overlaps, %zu token faults, %zu lock-delays cut short, %zu unserved, %zu "
            "malformed, %zu dropped; first: %s",
            what, report.overlaps, report.token_faults, report.delay_faults, report.unserved,
            report.malformed, report.dropped, report.first);
    history_destroy(crowd->history);
    munmap(crowd->shared, sizeof(*crowd->shared));
}
