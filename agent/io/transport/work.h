/*
 * Operations of NNG for the transport on NNG's threads, and how the loop learns that they are done.
 * Private to the transport.
 *
 * A work is one asynchronous operation (a dial, an accept, a receive, a send) that is begun by the
 * loop, again and again. When it is done its callback, on a thread of NNG's, puts it into a queue
 * and makes a descriptor readable; that is all that ever runs there. The loop takes it out and
 * looks at the result.
 */
#ifndef IO_TRANSPORT_WORK_H
#define IO_TRANSPORT_WORK_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum transport_work_kind {
    TRANSPORT_WORK_ACCEPT,
    TRANSPORT_WORK_DIAL,
    TRANSPORT_WORK_RECEIVE,
    TRANSPORT_WORK_SEND,
};

struct transport_works {
    pthread_mutex_t mutex;
    int event; /* a descriptor, readable while there is something to take */
    bool signalled;
    struct transport_work *first; /* under the mutex, as all of struct transport_work below it */
    struct transport_work *last;
};

struct transport_work {
    struct transport_works *works;
    enum transport_work_kind kind;
    void *owner;
    nng_aio *aio; /* NULL: there is none */
    /* Under the mutex: */
    struct transport_work *next;
    bool queued;
    bool running;      /* begun, and its callback has not come */
    size_t quiet_size; /* not queued if so many bytes went without an error; 0: queued always */
};

/* false: errno. The caller calls fini in any case. */
bool transport_works_init(struct transport_works *works) __attribute__((warn_unused_result));
/* All its works are finished by then. */
void transport_works_fini(struct transport_works *works);
/* The loop's: the next one that is done; NULL: there is none, and the descriptor is quiet. */
struct transport_work *transport_works_take(struct transport_works *works);

/* false: no memory. works and owner outlive it. */
bool transport_work_init(struct transport_work *work, struct transport_works *works,
                         enum transport_work_kind kind, void *owner)
    __attribute__((warn_unused_result));
/* Whatever it works on was closed, so that it ends: waits for that. Its result can still be seen;
 * it cannot begin again. All but init is allowed if all is 0. */
void transport_work_stop(struct transport_work *work);
/* Stops it first. */
void transport_work_fini(struct transport_work *work);
/* To be called before the operation is begun with work->aio; quiet_size: see above. */
void transport_work_begin(struct transport_work *work, size_t quiet_size);
/* Whether it is not done yet; then its end will be queued, however quiet it was to be. */
bool transport_work_running(struct transport_work *work);

#endif
