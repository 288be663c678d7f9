/* The threads that prolong leases: see prolong.h. */
#include "serve/prolong.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/host.h"
#include "io/clock.h"
#include "io/region.h"
#include "io/stuck.h"
#include "proto/check.h"
#include "proto/lockword.h"

enum { STACK_SIZE = 64 * 1024, PAGE = 4096 };

static const int64_t pause_ns = 200000000; /* the pause between two touches of all pages */

struct prolonger {
    struct prolong *of;
    pid_t id;                 /* the thread's id; 0: the thread has not begun */
    struct hfi_region region; /* the next job; header NULL: there is none */
    bool busy;
    _Atomic bool leave; /* relaxed: the thread stops at the next page that it touches */
    struct stuck stuck; /* the keeper's last look at this thread */
};

struct prolong {
    pthread_mutex_t mutex; /* protects all fields below */
    pthread_cond_t given;
    bool end;
    uint32_t count;   /* threads that were started */
    uint32_t running; /* threads that have not ended */
    uint32_t epoch;
    int64_t deadline_ns;
    uint64_t held;    /* bit i: a process makes touches of namespace i's region wait */
    int64_t given_ns; /* when prolong_touch() last gave all threads a job */
    struct prolonger threads[HOST_NAMESPACES_MAX];
};

static void wake(void *arg, _Atomic uint32_t *word, int count)
{
    (void)arg;
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

static int64_t now(void *arg)
{
    (void)arg;
    return clock_boottime_ns();
}

static const struct hfi_kernel kernel = {.wake = wake, .now_ns = now};

static void free_all(struct prolong *prolong)
{
    pthread_mutex_unlock(&prolong->mutex);
    pthread_cond_destroy(&prolong->given);
    pthread_mutex_destroy(&prolong->mutex);
    free(prolong);
}

/* A copy of one region's job, so that the thread works without the mutex. */
struct prolong_job {
    struct prolonger *one;
    struct hfi_region region;
    uint32_t epoch;
    int64_t deadline_ns;
};

static void touch(void *arg)
{
    const struct prolong_job *job = arg;
    const volatile unsigned char *at = (const volatile unsigned char *)job->region.header;
    hfi_prolong(job->region.header, &kernel, job->deadline_ns, job->epoch);
    for (uint64_t i = 0; i < job->region.size; i += PAGE) {
        if (atomic_load_explicit(&job->one->leave, memory_order_relaxed)) {
            break;
        }
        (void)at[i];
    }
}

static void *run(void *arg)
{
    struct prolonger *one = arg;
    struct prolong *prolong = one->of;
    pthread_mutex_lock(&prolong->mutex);
    one->id = (pid_t)syscall(SYS_gettid);
    while (!prolong->end) {
        if (one->region.header == NULL) {
            pthread_cond_wait(&prolong->given, &prolong->mutex);
            continue;
        }
        struct prolong_job job = {.one = one,
                                  .region = one->region,
                                  .epoch = prolong->epoch,
                                  .deadline_ns = prolong->deadline_ns};
        one->region.header = NULL;
        one->busy = true;
        pthread_mutex_unlock(&prolong->mutex);
        (void)region_try(touch, &job); /* if a page is missing, the loop finds that out itself */
        pthread_mutex_lock(&prolong->mutex);
        one->busy = false;
    }
    if (--prolong->running == 0) {
        free_all(prolong);
    } else {
        pthread_mutex_unlock(&prolong->mutex);
    }
    return NULL;
}

static int start_one(struct prolong *prolong, struct prolonger *one)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    one->of = prolong;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); /* region_file_guard() handles SIGBUS on any thread */
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* only the loop's thread handles signals */
    int error = pthread_create(&thread, &attributes, run, one);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    if (error == 0) {
        (void)pthread_setname_np(thread, "holdfastd-lease");
    }
    return error;
}

struct prolong *prolong_open(uint32_t namespace_count)
{
    struct prolong *prolong = calloc(1, sizeof(*prolong));
    int error = 0;
    HF_CHECK(namespace_count > 0 && namespace_count <= HOST_NAMESPACES_MAX);
    if (prolong == NULL) {
        return NULL;
    }
    pthread_mutex_init(&prolong->mutex, NULL);
    pthread_cond_init(&prolong->given, NULL);
    pthread_mutex_lock(&prolong->mutex);
    while (error == 0 && prolong->count < namespace_count) {
        error = start_one(prolong, &prolong->threads[prolong->count]);
        prolong->count += error == 0;
    }
    prolong->running = prolong->count;
    if (prolong->count == 0) {
        free_all(prolong);
        prolong = NULL;
    } else {
        pthread_mutex_unlock(&prolong->mutex);
    }
    if (error != 0) {
        prolong_close(prolong);
        errno = error;
        return NULL;
    }
    return prolong;
}

void prolong_close(struct prolong *prolong)
{
    if (prolong != NULL) {
        pthread_mutex_lock(&prolong->mutex);
        prolong->end = true;
        pthread_cond_broadcast(&prolong->given);
        pthread_mutex_unlock(&prolong->mutex);
    }
}

/* ---- for the keeper ---- */

static void give_jobs(struct prolong *prolong, const struct prolong_regions *regions)
{
    for (uint32_t i = 0; i < prolong->count; i++) {
        struct prolonger *one = &prolong->threads[i];
        bool given_up = ((regions->given_up | prolong->held) >> i & 1) != 0;
        atomic_store_explicit(&one->leave, given_up, memory_order_relaxed);
        if (given_up) {
            one->region.header = NULL;
        } else if (regions->files[i].memory != NULL) {
            one->region = regions->files[i].region;
        }
    }
    pthread_cond_broadcast(&prolong->given);
}

void prolong_leases(struct prolong *prolong, const struct prolong_regions *regions, uint32_t epoch,
                    int64_t deadline_ns)
{
    pthread_mutex_lock(&prolong->mutex);
    prolong->epoch = epoch;
    prolong->deadline_ns = deadline_ns;
    give_jobs(prolong, regions);
    pthread_mutex_unlock(&prolong->mutex);
}

void prolong_look(struct prolong *prolong)
{
    int64_t now_ns = clock_boottime_ns();
    pthread_mutex_lock(&prolong->mutex);
    for (uint32_t i = 0; i < prolong->count; i++) {
        struct prolonger *one = &prolong->threads[i];
        char stat[64];
        snprintf(stat, sizeof(stat), "/proc/self/task/%d/stat", (int)one->id);
        if (stuck_look(&one->stuck, stat, STUCK_PRESSURE, now_ns) && one->busy &&
            !atomic_load_explicit(&one->leave, memory_order_relaxed)) {
            prolong->held |= UINT64_C(1) << i;
        }
    }
    pthread_mutex_unlock(&prolong->mutex);
}

void prolong_touch(struct prolong *prolong, const struct prolong_regions *regions)
{
    int64_t now_ns = clock_boottime_ns();
    pthread_mutex_lock(&prolong->mutex);
    if (now_ns - prolong->given_ns >= pause_ns) {
        give_jobs(prolong, regions);
        prolong->given_ns = now_ns;
    }
    pthread_mutex_unlock(&prolong->mutex);
}

/* ---- for the loop ---- */

uint64_t prolong_held(struct prolong *prolong)
{
    pthread_mutex_lock(&prolong->mutex);
    uint64_t held = prolong->held;
    pthread_mutex_unlock(&prolong->mutex);
    return held;
}

bool prolong_is_busy(struct prolong *prolong, uint32_t space)
{
    pthread_mutex_lock(&prolong->mutex);
    const struct prolonger *one = &prolong->threads[space];
    bool busy = one->busy || one->region.header != NULL;
    pthread_mutex_unlock(&prolong->mutex);
    return busy;
}

void prolong_leave(struct prolong *prolong, uint32_t space)
{
    pthread_mutex_lock(&prolong->mutex);
    struct prolonger *one = &prolong->threads[space];
    one->region.header = NULL;
    one->stuck = (struct stuck){0};
    prolong->held &= ~(UINT64_C(1) << space);
    atomic_store_explicit(&one->leave, true, memory_order_relaxed);
    pthread_mutex_unlock(&prolong->mutex);
}
