/*
 * Functions that NNG's interface does not offer: see nng.h.
 *
 * All of NNG's workers but one are kept in park(), a callback that waits. NNG does not report how
 * many workers it has, so they are parked one by one. A worker in park() makes NNG call park() on
 * one more worker, and stays there only if that worker comes. So a worker that stays is never the
 * last one. If no other worker comes, park() returns, and its worker goes on working. If a worker
 * comes late, two workers go on working, which does no harm.
 */
#include "nng.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "proto/check.h"

enum {
    AIOS_MAX = 64,            /* the most workers that can wait; further ones go on working */
    NEXT_COMES_MS = 50,       /* a worker that does not come within this time is taken for
                               * missing */
    DESCRIPTORS_MAX = 16384,  /* descriptors at or above this are not searched */
    UNANSWERED_MAX_MS = 3000, /* sent bytes must be acknowledged in this time; it is less than the
                               * default session_ttl */
    KEEP_IDLE_S = 5,          /* after this time the kernel probes whether the other end still
                               * answers */
    KEEP_EVERY_S = 1,
};

/* ---- descriptors ---- */

static bool same_address(const struct sockaddr_storage *address, const nng_sockaddr *wanted)
{
    if (wanted->s_family == NNG_AF_INET && address->ss_family == AF_INET) {
        const struct sockaddr_in *in = (const struct sockaddr_in *)address;

        return in->sin_port == wanted->s_in.sa_port && in->sin_addr.s_addr == wanted->s_in.sa_addr;
    }
    if (wanted->s_family == NNG_AF_INET6 && address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *in = (const struct sockaddr_in6 *)address;

        return in->sin6_port == wanted->s_in6.sa_port &&
               memcmp(&in->sin6_addr, wanted->s_in6.sa_addr, sizeof in->sin6_addr) == 0;
    }
    return false;
}

int transport_find_fd(nng_stream *stream)
{
    nng_sockaddr local;
    nng_sockaddr remote;

    if (nng_stream_get_addr(stream, NNG_OPT_LOCADDR, &local) != 0 ||
        nng_stream_get_addr(stream, NNG_OPT_REMADDR, &remote) != 0) {
        return -1; /* the connection is gone already */
    }
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        struct sockaddr_storage address;
        socklen_t size = sizeof address;

        if (getsockname(fd, (struct sockaddr *)&address, &size) != 0 ||
            !same_address(&address, &local)) {
            continue;
        }
        size = sizeof address;
        if (getpeername(fd, (struct sockaddr *)&address, &size) == 0 &&
            same_address(&address, &remote)) {
            return fd;
        }
    }
    return -1;
}

void transport_bound_waiting(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},
        {IPPROTO_TCP, TCP_USER_TIMEOUT, UNANSWERED_MAX_MS},
        {IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S},
        {IPPROTO_TCP, TCP_KEEPINTVL, KEEP_EVERY_S},
        {SOL_SOCKET, SO_KEEPALIVE, 1},
    };

    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++) {
        /* If an option cannot be set, a cut link is noticed later. */
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
                         sizeof options[i].value);
    }
}

/* ---- workers ---- */

/* The mutex protects all of these fields. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t users;
    uint32_t made;    /* entries of aios in use */
    uint32_t entered; /* workers that have come to park() */
    bool ended;       /* no further worker is called */
    bool released;
    nng_aio *aios[AIOS_MAX];
} parking = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void park(void *arg);

/* Calls one more worker to park(). The caller holds the mutex. */
static bool call_next(void)
{
    nng_aio *aio;

    if (parking.ended || parking.released || parking.made == AIOS_MAX ||
        nng_aio_alloc(&aio, park, NULL) != 0) {
        return false;
    }
    parking.aios[parking.made++] = aio;
    if (nng_aio_begin(aio)) {
        nng_aio_finish(aio, 0);
    }
    return true;
}

/* Keeps a worker of NNG waiting. NNG calls this on that worker. */
static void park(void *arg)
{
    struct timespec end;

    (void)arg;
    HF_CHECK(clock_gettime(CLOCK_MONOTONIC, &end) == 0);
    end.tv_nsec += NEXT_COMES_MS * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000L;
    end.tv_nsec %= 1000000000L;
    pthread_mutex_lock(&parking.mutex);
    uint32_t mine = ++parking.entered;
    pthread_cond_broadcast(&parking.changed);
    if (call_next()) {
        while (parking.entered == mine && !parking.released &&
               pthread_cond_clockwait(&parking.changed, &parking.mutex, CLOCK_MONOTONIC, &end) ==
                   0) {
        }
        if (parking.entered == mine) {
            parking.ended = true; /* no further call of park() is begun: NNG might make it on this
                                   * very thread */
        }
        while (parking.entered > mine && !parking.released) {
            pthread_cond_wait(&parking.changed, &parking.mutex);
        }
    }
    pthread_mutex_unlock(&parking.mutex);
}

void transport_threads_hold(void)
{
    pthread_mutex_lock(&parking.mutex);
    if (parking.users++ == 0) {
        parking.made = 0;
        parking.entered = 0;
        parking.ended = false;
        parking.released = false;
        (void)call_next();
    }
    pthread_mutex_unlock(&parking.mutex);
}

void transport_threads_release(void)
{
    pthread_mutex_lock(&parking.mutex);
    HF_CHECK(parking.users > 0);
    if (--parking.users == 0) {
        parking.released = true;
        pthread_cond_broadcast(&parking.changed);
    }
    uint32_t made = parking.released ? parking.made : 0;
    parking.made -= made;
    pthread_mutex_unlock(&parking.mutex);
    for (uint32_t i = 0; i < made; i++) {
        nng_aio_free(parking.aios[i]); /* waits until the worker has left park() */
    }
}

void transport_threads_deafen(sigset_t *before)
{
    sigset_t all;

    sigfillset(&all);
    HF_CHECK(pthread_sigmask(SIG_SETMASK, &all, before) == 0);
}

void transport_threads_restore(const sigset_t *before)
{
    HF_CHECK(pthread_sigmask(SIG_SETMASK, before, NULL) == 0);
}
