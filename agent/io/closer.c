/* The thread that closes: see io/closer.h. */
#include "io/closer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/check.h"

enum {
    UNREAD_MAX = 1024,       /* packets of a socket that are thrown away */
    STACK_SIZE = 256 * 1024, /* it calls nothing that is deep */
};

struct closer {
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    uint32_t room;
    uint32_t first; /* that which the thread is at, while count > 0 */
    uint32_t count;
    bool end;
    struct closer_job jobs[];
};

/* May wait for ever. The copies come last: as long as they are there, what is thrown away of the
 * same file is not its last reference, so the socket at least is soon gone. */
static void close_all(const struct closer_job *job)
{
    for (unsigned i = 0; i < UNREAD_MAX; i++) {
        char byte;
        if (recv(job->socket, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) <= 0) {
            break;
        }
    }
    close(job->socket);
    for (unsigned i = 0; i < CLOSER_COPIES; i++) {
        if (job->copies[i] >= 0) {
            close(job->copies[i]);
        }
    }
}

static void closer_free(struct closer *closer)
{
    pthread_cond_destroy(&closer->changed);
    pthread_mutex_destroy(&closer->mutex);
    free(closer);
}

static void *run(void *arg)
{
    struct closer *closer = arg;
    pthread_mutex_lock(&closer->mutex);
    while (closer->count > 0 || !closer->end) {
        if (closer->count == 0) {
            pthread_cond_wait(&closer->changed, &closer->mutex);
            continue;
        }
        struct closer_job job = closer->jobs[closer->first];
        pthread_mutex_unlock(&closer->mutex);
        close_all(&job);
        pthread_mutex_lock(&closer->mutex);
        closer->count--;
        /* From the beginning whenever it can be: the rest of the room is never touched then. */
        closer->first = closer->count == 0 ? 0 : (closer->first + 1) % closer->room;
    }
    pthread_mutex_unlock(&closer->mutex);
    closer_free(closer);
    return NULL;
}

/* 0, or what pthread_create() says. */
static int start_thread(struct closer *closer)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    int error = pthread_attr_init(&attributes);
    if (error != 0) {
        return error;
    }
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
#ifndef HF_SANITIZED /* a sanitizer's own part of a stack has another size */
    pthread_attr_setstacksize(&attributes, STACK_SIZE);
#endif
    error = pthread_sigmask(SIG_SETMASK, &all, &before);
    if (error == 0) {
        error = pthread_create(&thread, &attributes, run, closer);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
    }
    pthread_attr_destroy(&attributes);
    return error;
}

struct closer *closer_open(uint32_t room)
{
    struct closer *closer = calloc(1, sizeof(*closer) + room * sizeof(struct closer_job));
    if (closer == NULL) {
        return NULL;
    }
    closer->room = room;
    pthread_mutex_init(&closer->mutex, NULL);
    pthread_cond_init(&closer->changed, NULL);
    int error = start_thread(closer);
    if (error != 0) {
        closer_free(closer);
        errno = error;
        return NULL;
    }
    return closer;
}

void closer_give(struct closer *closer, const struct closer_job *job)
{
    pthread_mutex_lock(&closer->mutex);
    HF_CHECK(closer->count < closer->room && !closer->end);
    closer->jobs[(closer->first + closer->count) % closer->room] = *job;
    closer->count++;
    pthread_cond_signal(&closer->changed);
    pthread_mutex_unlock(&closer->mutex);
}

uint32_t closer_count(struct closer *closer)
{
    pthread_mutex_lock(&closer->mutex);
    uint32_t count = closer->count;
    pthread_mutex_unlock(&closer->mutex);
    return count;
}

void closer_end(struct closer *closer)
{
    if (closer == NULL) {
        return;
    }
    pthread_mutex_lock(&closer->mutex);
    closer->end = true;
    pthread_cond_signal(&closer->changed);
    pthread_mutex_unlock(&closer->mutex);
}
