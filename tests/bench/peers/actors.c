/*
 * Actors: see actors.h.
 */
#include "actors.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const int64_t look_ns = 500000;
static const int64_t second_ns = INT64_C(1000000000);

void *stage_create(size_t size)
{
    void *stage = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (stage == MAP_FAILED) {
        complain("mmap: %s", strerror(errno));
        return NULL;
    }
    return stage;
}

void stage_destroy(void *stage, size_t size)
{
    if (stage != NULL) {
        munmap(stage, size);
    }
}

int actors_add(struct actors *actors, actor_fn *play)
{
    pid_t parent = getpid();
    if (actors->count == ACTORS_MAX) {
        return complain("at most %d actors", ACTORS_MAX);
    }
    pid_t pid = fork();
    if (pid < 0) {
        return complain("fork: %s", strerror(errno));
    }
    if (pid == 0) {
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent ||
            signal(SIGINT, SIG_IGN) == SIG_ERR || signal(SIGTERM, SIG_DFL) == SIG_ERR ||
            signal(SIGPIPE, SIG_IGN) == SIG_ERR) {
            _exit(1);
        }
        _exit(play(actors->run, actors->stage, actors->count) == 0 ? 0 : 1);
    }
    actors->pids[actors->count++] = pid;
    return 0;
}

/* Notes which actors have ended. Returns -1 after complain() if one of them failed. */
static int collect(struct actors *actors)
{
    for (uint32_t i = 0; i < actors->count; i++) {
        int status;
        if (actors->pids[i] != 0 && waitpid(actors->pids[i], &status, WNOHANG) == actors->pids[i]) {
            actors->pids[i] = 0;
            if (status != 0) {
                return complain("client %u failed (wait status 0x%x)", i, (unsigned)status);
            }
        }
    }
    return 0;
}

int actors_await_or_not(struct actors *actors, const _Atomic uint32_t *value, uint32_t goal,
                        int64_t timeout_ns)
{
    const int64_t give_up_ns = now_ns() + timeout_ns;
    /* acquire: pairs with the release of the actor; the bench sees what the actor wrote before that
     * release */
    while (atomic_load_explicit(value, memory_order_acquire) < goal) {
        if (collect(actors) != 0) {
            return -1;
        }
        if (interrupted()) {
            return complain("interrupted");
        }
        if (now_ns() > give_up_ns) {
            return 1;
        }
        pause_ns(look_ns);
    }
    return 0;
}

int actors_await(struct actors *actors, const _Atomic uint32_t *value, uint32_t goal,
                 int64_t timeout_ns)
{
    int result = actors_await_or_not(actors, value, goal, timeout_ns);
    return result > 0 ? complain("a client does not get on in %.0f s", (double)timeout_ns / 1e9)
                      : result;
}

int actors_join(struct actors *actors, int64_t timeout_ns)
{
    const int64_t give_up_ns = now_ns() + timeout_ns;
    for (;;) { /* the loop ends when timeout_ns is over */
        bool all_ended = true;
        if (collect(actors) != 0) {
            return -1;
        }
        for (uint32_t i = 0; i < actors->count; i++) {
            all_ended = all_ended && actors->pids[i] == 0;
        }
        if (all_ended) {
            return 0;
        }
        if (now_ns() > give_up_ns || interrupted()) {
            return complain("a client does not end in %.0f s", (double)timeout_ns / 1e9);
        }
        pause_ns(look_ns);
    }
}

void actors_kill(struct actors *actors, uint32_t index)
{
    if (index < actors->count && actors->pids[index] != 0) {
        kill(actors->pids[index], SIGKILL);
        waitpid(actors->pids[index], NULL, 0);
        actors->pids[index] = 0;
    }
}

void actors_kill_all(struct actors *actors)
{
    for (uint32_t i = 0; i < actors->count; i++) {
        actors_kill(actors, i);
    }
    actors->count = 0;
}

void actor_sleep(int64_t duration_ns)
{
    struct timespec nap = {duration_ns / second_ns, duration_ns % second_ns};
    if (duration_ns > 0) {
        nanosleep(&nap, NULL);
    }
}

uint32_t actor_renew(const struct peer_run *run, void *const *locks, size_t count, int64_t *last_ns)
{
    uint32_t lost = 0;
    int64_t begin_ns = now_ns();
    if (run->kind->renew == NULL || begin_ns - *last_ns < run->lease_ns / 3) {
        return 0;
    }
    for (size_t i = 0; i < count; i++) {
        lost += run->kind->renew(locks[i]) == PEER_LOST ? 1 : 0;
    }
    *last_ns = begin_ns;
    return lost;
}
