/*
 * The crew's processes and their rounds, each from one barrier to the next.
 */
#include "crew.h"

#include <errno.h>
#include <signal.h>
#include <stdalign.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "barrier.h"

struct crew_place {
    /* the worker's count of the last round; written before the worker arrives at the barrier */
    alignas(64) int64_t count;
};

struct crew {
    struct barrier barrier;
    struct crew_place places[CREW_MAX];
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

/* Returns which of the two jobs a round is for. */
static uint32_t turn_of(uint32_t round)
{
    uint32_t pair = round / 2;
    return (round + pair) % 2; /* the order of the jobs: A B, B A, A B, ... */
}

/* The body of a worker process. Never returns. */
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
        barrier_arrive_and_wait(&crew->barrier, round);
        uint32_t turn = turn_of(round);
        int64_t count = jobs[turn].work(states[turn], &crew->barrier.stop);
        if (count < 0) {
            _exit(1);
        }
        crew->places[worker].count = count;
    }
    barrier_arrive_and_wait(&crew->barrier, rounds);
    _exit(0);
}

static int run_rounds(struct crew *crew, const pid_t *pids, uint32_t worker_count, uint32_t rounds,
                      const struct crew_job jobs[2], struct effort effort)
{
    for (uint32_t round = 0; round < rounds; round++) {
        if (barrier_await(&crew->barrier, pids, worker_count) != 0) {
            return -1;
        }
        int64_t start_ns = now_ns();
        barrier_open(&crew->barrier);
        pause_ns(effort.round_ns);
        /* relaxed: a worker that reads the flag late does no harm; the barrier publishes the
         * counts */
        atomic_store_explicit(&crew->barrier.stop, 1, memory_order_relaxed);
        int64_t took_ns = now_ns() - start_ns;
        if (barrier_await(&crew->barrier, pids, worker_count) != 0) {
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
        if (round >= 2) { /* the first round of each job is its warm-up */
            series_add(job->out, (double)count * 1e9 / (double)took_ns);
        }
    }
    barrier_open(&crew->barrier); /* the workers see that all rounds are done, and end */
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
        result = run_rounds(crew, pids, worker_count, rounds, jobs, effort);
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
