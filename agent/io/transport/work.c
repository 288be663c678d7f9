/* Operations of NNG for the transport: see work.h. */
#include "work.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/check.h"

bool transport_works_init(struct transport_works *works)
{
    HF_CHECK(pthread_mutex_init(&works->mutex, NULL) == 0);
    works->signalled = false;
    works->first = NULL;
    works->last = NULL;
    works->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return works->event >= 0;
}

void transport_works_fini(struct transport_works *works)
{
    if (works->event >= 0) {
        close(works->event);
    }
    pthread_mutex_destroy(&works->mutex);
}

struct transport_work *transport_works_take(struct transport_works *works)
{
    struct transport_work *work;
    uint64_t value;

    pthread_mutex_lock(&works->mutex);
    work = works->first;
    if (work != NULL) {
        works->first = work->next;
        work->queued = false;
    } else if (works->signalled) {
        works->signalled = false;
        HF_CHECK(read(works->event, &value, sizeof value) == (ssize_t)sizeof value);
    }
    pthread_mutex_unlock(&works->mutex);
    return work;
}

/* With the mutex. */
static void enqueue(struct transport_work *work)
{
    struct transport_works *works = work->works;
    uint64_t one = 1;

    if (work->queued) {
        return;
    }
    work->queued = true;
    work->next = NULL;
    if (works->first == NULL) {
        works->first = work;
    } else {
        works->last->next = work;
    }
    works->last = work;
    if (!works->signalled) {
        works->signalled = true;
        HF_CHECK(write(works->event, &one, sizeof one) == (ssize_t)sizeof one);
    }
}

/* On a thread of NNG's. */
static void done(void *arg)
{
    struct transport_work *work = arg;
    struct transport_works *works = work->works;
    size_t count = nng_aio_result(work->aio) == 0 ? nng_aio_count(work->aio) : 0;

    pthread_mutex_lock(&works->mutex);
    work->running = false;
    if (work->quiet_size == 0 || count != work->quiet_size) {
        enqueue(work);
    }
    pthread_mutex_unlock(&works->mutex);
}

bool transport_work_init(struct transport_work *work, struct transport_works *works,
                         enum transport_work_kind kind, void *owner)
{
    *work = (struct transport_work){.works = works, .kind = kind, .owner = owner};
    return nng_aio_alloc(&work->aio, done, work) == 0;
}

/* Out of the queue, if it is there. */
static void forget(struct transport_work *work)
{
    struct transport_works *works = work->works;
    struct transport_work *before = NULL;

    pthread_mutex_lock(&works->mutex);
    if (work->queued) {
        for (struct transport_work *at = works->first; at != work; at = at->next) {
            before = at;
        }
        if (before == NULL) {
            works->first = work->next;
        } else {
            before->next = work->next;
        }
        works->last = works->last == work ? before : works->last;
        work->queued = false;
    }
    pthread_mutex_unlock(&works->mutex);
}

void transport_work_stop(struct transport_work *work)
{
    if (work->aio != NULL) {
        nng_aio_stop(work->aio); /* and waits until done() has returned */
        forget(work);
    }
}

void transport_work_fini(struct transport_work *work)
{
    transport_work_stop(work);
    if (work->aio != NULL) {
        nng_aio_free(work->aio);
        work->aio = NULL;
    }
}

void transport_work_begin(struct transport_work *work, size_t quiet_size)
{
    pthread_mutex_lock(&work->works->mutex);
    HF_CHECK(!work->running);
    work->running = true;
    work->quiet_size = quiet_size;
    pthread_mutex_unlock(&work->works->mutex);
}

bool transport_work_running(struct transport_work *work)
{
    bool running;

    pthread_mutex_lock(&work->works->mutex);
    running = work->running;
    work->quiet_size = running ? 0 : work->quiet_size;
    pthread_mutex_unlock(&work->works->mutex);
    return running;
}
