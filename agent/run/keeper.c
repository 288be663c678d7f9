/* The keeper of the session: see keeper.h. */
#include "run/keeper.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "agent.h"
#include "driver/driver.h"
#include "io/clock.h"
#include "peers/peers.h"
#include "proto/check.h"
#include "run/loop.h"
#include "serve/regions.h"
#include "turn.h"

enum {
    PAUSE_MS = 20,     /* the keeper's pause between two looks while the loop is held up */
    SUSPECT_MS = 3000, /* how long the keeper looks for the cause of a slow turn */
};

struct keeper {
    sem_t turn;     /* the thread that decrements the semaphore may use the driver; 0: the loop's or
                     * the keeper's thread uses the driver */
    uint32_t depth; /* how many calls of keeper_lend() are open */
    pthread_t thread;
    pthread_mutex_t mutex; /* protects end, and the wait on changed */
    pthread_cond_t changed;
    bool end;
    /* due_ns and suspects_ns are read and written relaxed: a thread that reads an old value only
     * looks once more. */
    _Atomic int64_t due_ns;
    _Atomic int64_t suspects_ns; /* until this time the keeper looks which thread is stuck */
};

static void take(struct keeper *keeper)
{
    while (sem_wait(&keeper->turn) != 0) {
        HF_CHECK(errno == EINTR);
    }
}

void keeper_lend(void *arg)
{
    struct keeper *keeper = ((struct agent *)arg)->keeper;
    if (keeper != NULL && keeper->depth++ == 0) {
        sem_post(&keeper->turn);
    }
}

void keeper_take_back(void *arg)
{
    struct keeper *keeper = ((struct agent *)arg)->keeper;
    if (keeper != NULL && --keeper->depth == 0) {
        take(keeper);
    }
}

void agent_lend(struct agent *agent)
{
    keeper_lend(agent);
}

void agent_take_back(struct agent *agent)
{
    keeper_take_back(agent);
}

void keeper_expect(struct agent *agent, int64_t due_ns)
{
    if (agent->keeper != NULL) {
        atomic_store_explicit(&agent->keeper->due_ns, due_ns, memory_order_relaxed);
    }
}

void keeper_suspect(struct agent *agent, int64_t now_ns)
{
    struct keeper *keeper = agent->keeper;
    if (keeper != NULL) {
        pthread_mutex_lock(&keeper->mutex); /* locked so that the signal cannot fall between the
                                             * keeper's check and its wait */
        atomic_store_explicit(&keeper->suspects_ns, now_ns + SUSPECT_MS * INT64_C(1000000),
                              memory_order_relaxed);
        pthread_cond_signal(&keeper->changed);
        pthread_mutex_unlock(&keeper->mutex);
    }
}

void keeper_turned(struct agent *agent, int64_t now_ns)
{
    struct keeper *keeper = agent->keeper;
    if (keeper != NULL &&
        now_ns < atomic_load_explicit(&keeper->suspects_ns, memory_order_relaxed)) {
        regions_touch(agent);
    }
}

void keeper_prolong(void *arg, uint32_t epoch, int64_t deadline_ns)
{
    regions_prolong(arg, epoch, deadline_ns);
}

/* ---- the thread ---- */

static void keep(struct agent *agent)
{
    int64_t now_ns = clock_boottime_ns();
    driver_keep_begin(agent->driver);
    peers_receive(agent);
    driver_keep(agent->driver);
    driver_keep_end(agent->driver);
    peers_flush(agent);
    regions_touch(agent);
    loop_notify_alive(agent, now_ns);
}

/* Does the keeper's work once, and pauses. late: a renewal is overdue, so the loop is held up, gets
 * no processor, or is about to go on. If late is false, a turn was slow, and the keeper only looks
 * for the cause. */
static void help(struct agent *agent, bool late)
{
    struct pollfd packets = {.fd = late ? peers_fd(agent) : -1, .events = POLLIN};
    if (late && sem_trywait(&agent->keeper->turn) == 0) {
        keep(agent);
        sem_post(&agent->keeper->turn);
    }
    regions_find_stuck(agent);
    if (packets.fd >= 0) {
        (void)poll(&packets, 1, PAUSE_MS);
    }
    const struct timespec pause = {.tv_nsec = PAUSE_MS * 1000000L / (packets.fd >= 0 ? 10 : 1)};
    (void)nanosleep(&pause, NULL);
}

/* Waits until due_ns, or until changed is signalled. The caller holds the mutex. */
static void rest_until(struct keeper *keeper, int64_t due_ns)
{
    int64_t left_ns = due_ns - clock_boottime_ns();
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    int64_t until_ns = (int64_t)until.tv_sec * 1000000000 + until.tv_nsec + left_ns;
    until = (struct timespec){until_ns / 1000000000, until_ns % 1000000000};
    (void)pthread_cond_timedwait(&keeper->changed, &keeper->mutex, &until);
}

static void *run(void *arg)
{
    struct agent *agent = arg;
    struct keeper *keeper = agent->keeper;
    pthread_mutex_lock(&keeper->mutex);
    while (!keeper->end) {
        int64_t due_ns = atomic_load_explicit(&keeper->due_ns, memory_order_relaxed);
        int64_t suspects_ns = atomic_load_explicit(&keeper->suspects_ns, memory_order_relaxed);
        int64_t now_ns = clock_boottime_ns();
        if (now_ns < due_ns && now_ns >= suspects_ns) {
            rest_until(keeper, due_ns);
            continue;
        }
        pthread_mutex_unlock(&keeper->mutex);
        help(agent, now_ns >= due_ns);
        pthread_mutex_lock(&keeper->mutex);
    }
    pthread_mutex_unlock(&keeper->mutex);
    return NULL;
}

/* ---- starting and ending ---- */

static void destroy(struct keeper *keeper)
{
    pthread_cond_destroy(&keeper->changed);
    pthread_mutex_destroy(&keeper->mutex);
    sem_destroy(&keeper->turn);
    free(keeper);
}

bool keeper_open(struct agent *agent)
{
    pthread_condattr_t attributes;
    sigset_t all;
    sigset_t before;
    struct keeper *keeper = calloc(1, sizeof(*keeper));
    if (keeper == NULL) {
        return false;
    }
    if (!regions_prolong_open(agent)) {
        free(keeper);
        return false;
    }
    sem_init(&keeper->turn, 0, 0);
    pthread_mutex_init(&keeper->mutex, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&keeper->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    keeper->due_ns = clock_boottime_ns() + agent->config.session_ttl_ns / 3;
    agent->keeper = keeper;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the new thread must get no signals: they are for
                                                  * the loop's thread */
    int error = pthread_create(&keeper->thread, NULL, run, agent);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0) {
        agent->keeper = NULL;
        destroy(keeper);
        regions_prolong_close(agent);
        errno = error;
        return false;
    }
    (void)pthread_setname_np(keeper->thread, "holdfastd-keep");
    return true;
}

void keeper_close(struct agent *agent)
{
    struct keeper *keeper = agent->keeper;
    if (keeper == NULL) {
        return;
    }
    pthread_mutex_lock(&keeper->mutex);
    keeper->end = true;
    pthread_cond_broadcast(&keeper->changed);
    pthread_mutex_unlock(&keeper->mutex);
    HF_CHECK(pthread_join(keeper->thread, NULL) == 0);
    regions_prolong_close(agent);
    agent->keeper = NULL;
    destroy(keeper);
}
