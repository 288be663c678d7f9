/*
 * The crew's processes, their barrier and the rounds.
 *
 * The barrier is one phase number. A worker that is ready counts itself as arrived and sleeps on
 * the phase; when all have arrived the bench advances the phase and wakes them. The bench waits
 * for arrivals by looking every half millisecond, which costs nothing between rounds and lets it
 * notice a worker that died.
 */
#include "crew.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdalign.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static const int64_t look_ns = 500000;
static const int64_t arrival_timeout_ns = INT64_C(60000000000);

struct place {
    alignas(64) int64_t count; /* of the last round; written before arriving */
};

struct crew {
    alignas(64) _Atomic uint32_t phase;
    alignas(64) _Atomic uint32_t arrived;
    alignas(64) crew_stop stop;
    struct place places[CREW_MAX];
};

void *crew_memory(size_t size)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        complain("mmap: %s", strerror(errno));
        return NULL;
    }
    return memory;
}

void crew_memory_free(void *memory, size_t size)
{
    if (memory != NULL) {
        munmap(memory, size);
    }
}

/* In a worker: tells that it is ready and sleeps until the phase is no longer the given one. */
static void arrive_and_wait(struct crew *crew, uint32_t phase)
{
    /* release: pairs with the acquire in await_arrivals; publishes the worker's count */
    atomic_fetch_add_explicit(&crew->arrived, 1, memory_order_release);
    /* acquire: pairs with the release in start_round; sees the stop flag reset */
    while (atomic_load_explicit(&crew->phase, memory_order_acquire) == phase) {
        syscall(SYS_futex, &crew->phase, FUTEX_WAIT, phase, NULL, NULL, 0);
    }
}

/* Which of the two jobs a round is for. */
static uint32_t turn_of(uint32_t round)
{
    uint32_t pair = round / 2;
    return (round + pair) % 2; /* A B, B A, A B, ... */
}

/* In a worker: never returns. */
static _Noreturn void worker_main(struct crew *crew, uint32_t worker, uint32_t rounds,
                                  const struct crew_job jobs[2], pid_t parent)
{
    void *states[2] = {NULL, NULL};
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
        signal(SIGINT, SIG_IGN) == SIG_ERR || signal(SIGTERM, SIG_DFL) == SIG_ERR) {
        _exit(1);
    }
    for (size_t i = 0; i < 2; i++) {
        if (jobs[i].setup(jobs[i].arg, worker, &states[i]) != 0) {
            _exit(1);
        }
    }
    for (uint32_t round = 0; round < rounds; round++) {
        arrive_and_wait(crew, round);
        uint32_t turn = turn_of(round);
        int64_t count = jobs[turn].work(states[turn], &crew->stop);
        if (count < 0) {
            _exit(1);
        }
        crew->places[worker].count = count;
    }
    arrive_and_wait(crew, rounds);
    _exit(0);
}

/* Waits until all workers are ready; -1 if one died, or the wait takes too long. */
static int await_arrivals(struct crew *crew, uint32_t worker_count)
{
    const int64_t give_up_ns = now_ns() + arrival_timeout_ns;
    /* acquire: pairs with the release in arrive_and_wait */
    while (atomic_load_explicit(&crew->arrived, memory_order_acquire) < worker_count) {
        siginfo_t ended = {.si_pid = 0};
        if (waitid(P_PGID, (id_t)getpgrp(), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
            ended.si_pid != 0) {
            return complain("worker %d ended before its time", (int)ended.si_pid);
        }
        if (interrupted()) {
            return complain("interrupted");
        }
        if (now_ns() > give_up_ns) {
            return complain("a round did not end: a worker waits for ever");
        }
        pause_ns(look_ns);
    }
    return 0;
}

static void start_round(struct crew *crew)
{
    /* relaxed, both: the workers sleep, and the release below publishes them */
    atomic_store_explicit(&crew->arrived, 0, memory_order_relaxed);
    atomic_store_explicit(&crew->stop, 0, memory_order_relaxed);
    /* release: pairs with the acquire in arrive_and_wait */
    atomic_fetch_add_explicit(&crew->phase, 1, memory_order_release);
    syscall(SYS_futex, &crew->phase, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static int run_rounds(struct crew *crew, uint32_t worker_count, uint32_t rounds,
                      const struct crew_job jobs[2], struct effort effort)
{
    for (uint32_t round = 0; round < rounds; round++) {
        if (await_arrivals(crew, worker_count) != 0) {
            return -1;
        }
        int64_t start_ns = now_ns();
        start_round(crew);
        pause_ns(effort.round_ns);
        /* relaxed: it only has to be seen soon; counts travel by the barrier */
        atomic_store_explicit(&crew->stop, 1, memory_order_relaxed);
        int64_t took_ns = now_ns() - start_ns;
        if (await_arrivals(crew, worker_count) != 0) {
            return -1;
        }
        int64_t count = 0;
        for (uint32_t i = 0; i < worker_count; i++) {
            count += crew->places[i].count;
        }
        const struct crew_job *job = &jobs[turn_of(round)];
        if (job->round_done != NULL) {
            job->round_done(job->round_arg);
        }
        if (round >= 2) { /* the first of each job is the warm-up */
            series_add(job->out, (double)count * 1e9 / (double)took_ns);
        }
    }
    start_round(crew); /* lets the workers leave */
    return 0;
}

int crew_run(uint32_t worker_count, const struct crew_job jobs[2], struct effort effort)
{
    struct crew *crew = crew_memory(sizeof(*crew));
    if (crew == NULL) {
        return -1;
    }
    const uint32_t rounds = 2 * (uint32_t)effort.rounds + 2;
    pid_t pids[CREW_MAX];
    uint32_t started = 0;
    pid_t parent = getpid();
    int result = worker_count <= CREW_MAX ? 0 : complain("at most %d workers", CREW_MAX);
    while (result == 0 && started < worker_count) {
        pid_t pid = fork();
        if (pid == 0) {
            worker_main(crew, started, rounds, jobs, parent);
        }
        if (pid < 0) {
            result = complain("fork: %s", strerror(errno));
        } else {
            pids[started++] = pid;
        }
    }
    if (result == 0) {
        result = run_rounds(crew, worker_count, rounds, jobs, effort);
    }
    for (uint32_t i = 0; i < started; i++) {
        if (result != 0) {
            kill(pids[i], SIGKILL);
        }
        waitpid(pids[i], NULL, 0);
    }
    crew_memory_free(crew, sizeof(*crew));
    return result;
}
