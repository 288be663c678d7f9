/* Waking, and the thread that makes the wakes of costly namespaces: see io/wake.h. */
#include "io/wake.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/clock.h"
#include "proto/check.h"

static const int64_t dear_ns = WAKE_DEAR_MS * INT64_C(1000000);
static const int64_t late_ns = WAKE_LATE_MS * INT64_C(1000000);

struct waking {
    _Atomic uint32_t *word;
    int count;
    uint32_t space;
};

static void wake_futex(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

static struct {
    wake_fn *wake;
    /* Both threads read and write these fields relaxed. The worst effect of an old value is that a
     * thread makes a wake which the other thread should make. */
    _Atomic int64_t suspect_until_ns[WAKE_SPACES]; /* after a wake that took long: a second one
                                                    * before this time makes the namespace costly;
                                                    * 0: no wake took long */
    _Atomic int64_t late_until_ns[WAKE_SPACES];
    pthread_mutex_t mutex;
    pthread_cond_t given;
    bool started;
    uint32_t first; /* the index of the oldest item; items is a ring buffer */
    uint32_t count;
    struct waking items[WAKE_QUEUE];
} own = {.wake = wake_futex, .mutex = PTHREAD_MUTEX_INITIALIZER, .given = PTHREAD_COND_INITIALIZER};

/*
 * Makes the wake. Returns its cost if it was costly, else 0. The cost is processor time, so a busy
 * machine makes no wake costly. Reading the processor time takes as long as a wake. So it is read
 * only while the namespace is suspect, after a wake that took long.
 */
static int64_t make(const struct waking *one)
{
    _Atomic int64_t *suspect_until_ns = &own.suspect_until_ns[one->space];
    int64_t began_ns = clock_boottime_ns();
    bool suspect = began_ns < atomic_load_explicit(suspect_until_ns, memory_order_relaxed);
    int64_t thread_ns = suspect ? clock_thread_ns() : 0;
    own.wake(one->word, one->count);
    int64_t now_ns = clock_boottime_ns();
    if (now_ns - began_ns <= dear_ns) {
        return 0;
    }
    atomic_store_explicit(suspect_until_ns, now_ns + late_ns, memory_order_relaxed);
    int64_t cost_ns = suspect ? clock_thread_ns() - thread_ns : 0;
    if (cost_ns <= dear_ns) {
        return 0;
    }
    atomic_store_explicit(&own.late_until_ns[one->space], now_ns + late_ns, memory_order_relaxed);
    return cost_ns;
}

static void *run(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&own.mutex);
    for (;;) { /* runs until the process ends */
        while (own.count == 0) {
            pthread_cond_wait(&own.given, &own.mutex);
        }
        struct waking one = own.items[own.first];
        own.first = (own.first + 1) %
                    WAKE_QUEUE; /* removed before the wake: if the word is queued again from now on,
                                 * it is woken again */
        own.count--;
        pthread_mutex_unlock(&own.mutex);
        (void)make(&one);
        pthread_mutex_lock(&own.mutex);
    }
    return NULL;
}

bool wake_start(wake_fn *wake)
{
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    own.wake = wake != NULL ? wake : wake_futex;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before); /* the loop's thread gets the signals */
    int error = pthread_create(&thread, NULL, run, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0) {
        (void)pthread_setname_np(thread, "holdfastd-wake");
        (void)pthread_detach(thread);
    }
    own.started = error == 0;
    errno = error;
    return own.started;
}

static struct waking *find_waiting(const _Atomic uint32_t *word)
{
    for (uint32_t i = 0; i < own.count; i++) {
        struct waking *one = &own.items[(own.first + i) % WAKE_QUEUE];
        if (one->word == word) {
            return one;
        }
    }
    return NULL;
}

/* Queues a wake. Returns false if too many wait. */
static bool give(const struct waking *one)
{
    pthread_mutex_lock(&own.mutex);
    struct waking *same = find_waiting(one->word);
    bool taken = same != NULL || own.count < WAKE_QUEUE;
    if (same != NULL) {
        same->count = INT32_MAX;
    } else if (taken) {
        own.items[(own.first + own.count++) % WAKE_QUEUE] = *one;
        pthread_cond_signal(&own.given);
    }
    pthread_mutex_unlock(&own.mutex);
    return taken;
}

void wake_sleepers(uint32_t space, _Atomic uint32_t *word, int count, int64_t *cost_ns)
{
    const struct waking one = {.word = word, .count = count, .space = space};
    HF_CHECK(space < WAKE_SPACES);
    *cost_ns = 0;
    int64_t until_ns = atomic_load_explicit(&own.late_until_ns[space], memory_order_relaxed);
    bool late = own.started && until_ns != 0 && clock_boottime_ns() < until_ns;
    if (!late || !give(&one)) {
        *cost_ns = make(&one);
    }
}
