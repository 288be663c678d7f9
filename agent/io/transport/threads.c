/*
 * One worker of NNG's is enough: see threads.h.
 *
 * NNG starts two workers for each processor and hands each step of a packet (its length came, its
 * bytes came, the receiver is to be called) to whichever sleeps. A packet then wakes four threads
 * one after the other, on other processors, which all want the same lock. With one worker the next
 * step finds it awake. NNG 1.5 has no setting for that, so the others are kept in a callback that
 * waits.
 *
 * How many there are nobody says. So they are occupied one by one, and each waits only once the
 * next one is seen to run: it cannot be the last. The one after which none comes returns, and is
 * the worker. A worker that is slow to come is missed: then two are left, which does no harm.
 */
#include "threads.h"

#include <nng/nng.h>
#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "proto/check.h"

enum {
    PLACES = 64,        /* workers that can be kept; more than so many go on working */
    NEXT_COMES_MS = 50, /* or there is none */
};

/* All under the mutex. */
static struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    uint32_t users;
    uint32_t made;    /* places */
    uint32_t entered; /* of them */
    bool ended;       /* no further one is to be tried */
    bool released;
    nng_aio *places[PLACES];
} parking = {.mutex = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

static void park(void *arg);

/* With the mutex. Has one more worker come to park(). */
static bool call_next(void)
{
    nng_aio *place;

    if (parking.ended || parking.released || parking.made == PLACES ||
        nng_aio_alloc(&place, park, NULL) != 0) {
        return false;
    }
    parking.places[parking.made++] = place;
    if (nng_aio_begin(place)) {
        nng_aio_finish(place, 0);
    }
    return true;
}

/* On a worker. */
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
            parking.ended = true; /* whoever comes now may be this very thread */
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
        nng_aio_free(parking.places[i]); /* waits until it has left park() */
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
