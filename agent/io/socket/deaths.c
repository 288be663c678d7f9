/* The thread that watches pidfds: see io/deaths.h. */
#include "io/deaths.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "io/late_close.h"
#include "io/peer.h"
#include "proto/check.h"

enum {
    REPORTS = 1024, /* ended processes that the loop has not taken yet; when the list is full the
                     * thread waits */
    EVENTS = 64,
    RETRY_MS = 100,
};

#define TAG_OF_BELL 0

struct death_watch {
    struct death_watch *next; /* the next watch in the list of orders */
    struct death_watch *next_unadded;
    uint64_t tag;
    int pidfd;
    uid_t uid;
    bool ordered;
    bool forgotten;
    bool unadded; /* only the thread uses this */
};

static struct {
    deaths_fn *ended; /* only the loop uses ended and arg */
    void *arg;
    int set;
    int bell;                    /* an eventfd that is readable when there is a new order */
    struct death_watch *unadded; /* only the thread uses this */
    pthread_mutex_t mutex;       /* protects all fields below */
    pthread_cond_t taken;
    bool reports; /* false after deaths_stop() */
    uv_async_t async;
    struct death_watch *first; /* the list of orders */
    struct death_watch **end;
    uint32_t count;
    uint64_t tags[REPORTS];
} own = {.mutex = PTHREAD_MUTEX_INITIALIZER, .taken = PTHREAD_COND_INITIALIZER};

/* ---- the thread ---- */

static void report(uint64_t tag)
{
    pthread_mutex_lock(&own.mutex);
    while (own.reports && own.count == REPORTS) {
        pthread_cond_wait(&own.taken, &own.mutex);
    }
    if (own.reports) {
        own.tags[own.count++] = tag;
        (void)uv_async_send(&own.async);
    }
    pthread_mutex_unlock(&own.mutex);
}

/* Adds a pidfd to the epoll set. EPOLLONESHOT: the event comes only once, although the thread never
 * removes the entry. */
static bool add(const struct death_watch *watch)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.u64 = watch->tag};
    return epoll_ctl(own.set, EPOLL_CTL_ADD, watch->pidfd, &event) == 0;
}

static void try_again(void)
{
    struct death_watch **link = &own.unadded;
    while (*link != NULL) { /* each iteration passes a watch or removes it */
        struct death_watch *watch = *link;
        bool added = add(watch);
        if (!added && !peer_pidfd_ended(watch->pidfd)) {
            link = &watch->next_unadded;
            continue;
        }
        *link = watch->next_unadded;
        watch->unadded = false;
        if (!added) {
            report(watch->tag);
        }
    }
}

static void forget(struct death_watch *watch)
{
    struct death_watch **link = &own.unadded;
    while (watch->unadded && *link != watch) {
        link = &(*link)->next_unadded;
    }
    if (watch->unadded) {
        *link = watch->next_unadded;
    }
    late_close_watched(watch->pidfd, watch->uid);
    free(watch);
}

static struct death_watch *take_ordered(bool *forgotten)
{
    pthread_mutex_lock(&own.mutex);
    struct death_watch *watch = own.first;
    if (watch != NULL) {
        own.first = watch->next;
        own.end = own.first == NULL ? &own.first : own.end;
        watch->ordered = false;
        *forgotten = watch->forgotten;
    }
    pthread_mutex_unlock(&own.mutex);
    return watch;
}

static void obey(void)
{
    struct death_watch *watch;
    uint64_t rung;
    bool forgotten = false;
    (void)!read(own.bell, &rung, sizeof(rung));
    /* one iteration per order of the loop's thread */
    while ((watch = take_ordered(&forgotten)) != NULL) {
        if (forgotten) {
            forget(watch);
        } else if (!add(watch)) {
            watch->unadded = true;
            watch->next_unadded = own.unadded;
            own.unadded = watch;
        }
    }
}

static void *run(void *arg)
{
    struct epoll_event events[EVENTS];
    (void)arg;
    for (;;) { /* runs until the process ends */
        bool rung = false;
        int count = epoll_wait(own.set, events, EVENTS, own.unadded != NULL ? RETRY_MS : -1);
        for (int i = 0; i < count; i++) {
            if (events[i].data.u64 == TAG_OF_BELL) {
                rung = true;
            } else {
                report(events[i].data.u64);
            }
        }
        if (rung) { /* done after the reports, because epoll_ctl() may block */
            obey();
        }
        try_again();
    }
    return NULL;
}

static bool start_thread(void)
{
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the loop's thread gets the signals */
    int error = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        (void)pthread_setname_np(thread, "holdfastd-death");
        (void)pthread_detach(thread);
    }
    errno = error;
    return error == 0;
}

/* ---- the loop's side ---- */

static void on_reports(uv_async_t *async)
{
    uint64_t tags[REPORTS];
    pthread_mutex_lock(&own.mutex);
    uint32_t count = own.count;
    for (uint32_t i = 0; i < count; i++) {
        tags[i] = own.tags[i];
    }
    own.count = 0;
    pthread_cond_signal(&own.taken);
    pthread_mutex_unlock(&own.mutex);
    if (own.ended(own.arg, tags, count)) {
        (void)uv_async_send(async);
    }
}

bool deaths_start(uv_loop_t *loop, deaths_fn *ended, void *arg)
{
    struct epoll_event event = {.events = EPOLLIN, .data.u64 = TAG_OF_BELL};
    HF_CHECK(!own.reports);
    own.ended = ended;
    own.arg = arg;
    own.end = &own.first;
    own.set = epoll_create1(EPOLL_CLOEXEC);
    own.bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    int error = own.set < 0 || own.bell < 0 ? errno : 0;
    if (error == 0 && epoll_ctl(own.set, EPOLL_CTL_ADD, own.bell, &event) != 0) {
        error = errno;
    }
    error = error == 0 ? -uv_async_init(loop, &own.async, on_reports) : error;
    own.reports = error == 0; /* set before the thread starts, because the thread reads it */
    if (error == 0 && !start_thread()) {
        error = errno;
        own.reports = false;
    }
    errno = error;
    return error == 0;
}

void deaths_stop(void)
{
    pthread_mutex_lock(&own.mutex);
    own.reports = false;
    pthread_cond_signal(&own.taken);
    pthread_mutex_unlock(&own.mutex);
}

static void order(struct death_watch *watch)
{
    static const uint64_t one = 1;
    watch->next = NULL;
    watch->ordered = true;
    *own.end = watch;
    own.end = &watch->next;
    (void)!write(own.bell, &one, sizeof(one)); /* if the counter is full, the thread has a notice
                                                * already */
}

struct death_watch *deaths_watch(int pidfd, uint64_t tag)
{
    struct death_watch *watch = malloc(sizeof(*watch));
    HF_CHECK(tag != TAG_OF_BELL);
    if (watch != NULL) {
        *watch = (struct death_watch){.tag = tag, .pidfd = pidfd};
        pthread_mutex_lock(&own.mutex);
        order(watch);
        pthread_mutex_unlock(&own.mutex);
    }
    return watch;
}

void deaths_forget(struct death_watch *watch, uid_t uid)
{
    pthread_mutex_lock(&own.mutex);
    watch->uid = uid;
    watch->forgotten = true;
    if (!watch->ordered) {
        order(watch);
    }
    pthread_mutex_unlock(&own.mutex);
}
