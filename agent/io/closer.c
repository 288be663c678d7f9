/* The threads that close: see io/closer.h. */
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

#define NONE UINT32_MAX

struct entry {
    struct closer_job job;
    uint32_t next; /* in its list */
};

struct list {
    uint32_t first; /* NONE: it is empty */
    uint32_t last;
};

/* A user at whose jobs threads are. */
struct lane {
    uid_t uid;
    uint32_t under_way; /* 0: nobody's */
    struct list
        waiting; /* came while CLOSER_PER_USER were under way: for the threads that are at it */
};

struct closer {
    pthread_mutex_t mutex; /* of what follows */
    pthread_cond_t changed;
    uint32_t room;
    uint32_t count; /* jobs that are not done */
    uint32_t used;  /* entries that were ever in use: the rest of the room is never touched */
    uint32_t threads;
    bool end;
    struct list fresh; /* no thread has looked at them yet */
    struct list unused;
    struct lane lanes[CLOSER_THREADS];
    struct entry entries[];
};

/* ---- lists ---- */

static const struct list empty = {.first = NONE};

static void append(struct closer *closer, struct list *list, uint32_t number)
{
    closer->entries[number].next = NONE;
    if (list->first == NONE) {
        list->first = number;
    } else {
        closer->entries[list->last].next = number;
    }
    list->last = number;
}

static uint32_t take_first(struct closer *closer, struct list *list)
{
    uint32_t number = list->first;
    if (number != NONE) {
        list->first = closer->entries[number].next;
    }
    return number;
}

/* ---- which is next ---- */

static struct lane *lane_of(struct closer *closer, uid_t uid)
{
    struct lane *unused = NULL;
    for (unsigned i = 0; i < CLOSER_THREADS; i++) {
        struct lane *lane = &closer->lanes[i];
        if (lane->under_way > 0 && lane->uid == uid) {
            return lane;
        }
        unused = lane->under_way == 0 ? lane : unused;
    }
    HF_CHECK(unused != NULL); /* the thread that asks is at none */
    *unused = (struct lane){.uid = uid, .waiting = empty};
    return unused;
}

/* The oldest job of a user who has threads left; NULL: there is none. Each job is moved once at
 * most. */
static struct lane *take_fresh(struct closer *closer, uint32_t *number)
{
    for (uint32_t i = 0; i < closer->room; i++) {
        *number = take_first(closer, &closer->fresh);
        if (*number == NONE) {
            break;
        }
        struct lane *lane = lane_of(closer, closer->entries[*number].job.uid);
        if (lane->under_way < CLOSER_PER_USER) {
            lane->under_way++;
            return lane;
        }
        append(closer, &lane->waiting, *number);
    }
    return NULL;
}

/* ---- the threads ---- */

/* May wait for ever. */
static void empty_and_close(int socket)
{
    for (unsigned i = 0; i < UNREAD_MAX; i++) {
        char byte;
        if (recv(socket, &byte, sizeof(byte), MSG_DONTWAIT | MSG_TRUNC) <= 0) {
            break;
        }
    }
    close(socket);
}

static void closer_free(struct closer *closer)
{
    pthread_cond_destroy(&closer->changed);
    pthread_mutex_destroy(&closer->mutex);
    free(closer);
}

/* Closes that one, and what its user has waiting. With the mutex, which it gives up meanwhile. */
static void work(struct closer *closer, struct lane *lane, uint32_t number)
{
    while (number != NONE) { /* each is in the room, which is bounded */
        int socket = closer->entries[number].job.socket;
        pthread_mutex_unlock(&closer->mutex);
        empty_and_close(socket);
        pthread_mutex_lock(&closer->mutex);
        append(closer, &closer->unused, number);
        closer->count--;
        number = take_first(closer, &lane->waiting);
    }
    lane->under_way--;
}

static void *run(void *arg)
{
    struct closer *closer = arg;
    uint32_t number;
    pthread_mutex_lock(&closer->mutex);
    for (;;) {
        struct lane *lane = take_fresh(closer, &number);
        if (lane != NULL) {
            work(closer, lane, number);
        } else if (closer->end) { /* what waits still is for other threads */
            break;
        } else {
            pthread_cond_wait(&closer->changed, &closer->mutex);
        }
    }
    bool last = --closer->threads == 0;
    pthread_mutex_unlock(&closer->mutex);
    if (last) {
        closer_free(closer);
    }
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
    struct closer *closer = calloc(1, sizeof(*closer) + room * sizeof(struct entry));
    if (closer == NULL) {
        return NULL;
    }
    closer->room = room;
    closer->fresh = closer->unused = empty;
    pthread_mutex_init(&closer->mutex, NULL);
    pthread_cond_init(&closer->changed, NULL);
    pthread_mutex_lock(&closer->mutex); /* none ends before all are counted */
    int error = 0;
    while (error == 0 && closer->threads < CLOSER_THREADS) {
        error = start_thread(closer);
        closer->threads += error == 0;
    }
    closer->end = error != 0;
    bool none = closer->threads == 0;
    pthread_mutex_unlock(&closer->mutex);
    if (none) {
        closer_free(closer);
    }
    if (error != 0) {
        errno = error;
        return NULL; /* those that started end, and the last one frees it */
    }
    return closer;
}

void closer_give(struct closer *closer, const struct closer_job *job)
{
    pthread_mutex_lock(&closer->mutex);
    HF_CHECK(closer->count < closer->room && !closer->end);
    uint32_t number = take_first(closer, &closer->unused);
    if (number == NONE) {
        number = closer->used++;
    }
    closer->entries[number].job = *job;
    append(closer, &closer->fresh, number);
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
    pthread_cond_broadcast(&closer->changed);
    pthread_mutex_unlock(&closer->mutex);
}
