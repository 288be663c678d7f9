/* Operations of NNG for the transport: see op.h. */
#include "op.h"

#include <stdint.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "proto/check.h"

bool transport_ops_init(struct transport_ops *ops)
{
    HF_CHECK(pthread_mutex_init(&ops->mutex, NULL) == 0);
    ops->signalled = false;
    ops->first = NULL;
    ops->last = NULL;
    ops->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return ops->event >= 0;
}

void transport_ops_fini(struct transport_ops *ops)
{
    if (ops->event >= 0) {
        close(ops->event);
    }
    pthread_mutex_destroy(&ops->mutex);
}

struct transport_op *transport_ops_take(struct transport_ops *ops)
{
    struct transport_op *op;
    uint64_t value;

    pthread_mutex_lock(&ops->mutex);
    op = ops->first;
    if (op != NULL) {
        ops->first = op->next;
        op->queued = false;
    } else if (ops->signalled) {
        ops->signalled = false;
        HF_CHECK(read(ops->event, &value, sizeof value) == (ssize_t)sizeof value);
    }
    pthread_mutex_unlock(&ops->mutex);
    return op;
}

/* The caller holds the mutex. */
static void enqueue(struct transport_op *op)
{
    struct transport_ops *ops = op->ops;
    uint64_t one = 1;

    if (op->queued) {
        return;
    }
    op->queued = true;
    op->next = NULL;
    if (ops->first == NULL) {
        ops->first = op;
    } else {
        ops->last->next = op;
    }
    ops->last = op;
    if (!ops->signalled) {
        ops->signalled = true;
        HF_CHECK(write(ops->event, &one, sizeof one) == (ssize_t)sizeof one);
    }
}

/* NNG calls this on one of its threads when an operation has ended. */
static void done(void *arg)
{
    struct transport_op *op = arg;
    struct transport_ops *ops = op->ops;
    size_t count = nng_aio_result(op->aio) == 0 ? nng_aio_count(op->aio) : 0;

    pthread_mutex_lock(&ops->mutex);
    op->running = false;
    if (op->quiet_size == 0 || count != op->quiet_size) {
        enqueue(op);
    }
    pthread_mutex_unlock(&ops->mutex);
}

bool transport_op_init(struct transport_op *op, struct transport_ops *ops,
                       enum transport_op_kind kind, void *owner)
{
    *op = (struct transport_op){.ops = ops, .kind = kind, .owner = owner};
    return nng_aio_alloc(&op->aio, done, op) == 0;
}

/* Removes the operation from the queue, if it is there. */
static void forget(struct transport_op *op)
{
    struct transport_ops *ops = op->ops;
    struct transport_op *before = NULL;

    pthread_mutex_lock(&ops->mutex);
    if (op->queued) {
        for (struct transport_op *at = ops->first; at != op; at = at->next) {
            before = at;
        }
        if (before == NULL) {
            ops->first = op->next;
        } else {
            before->next = op->next;
        }
        ops->last = ops->last == op ? before : ops->last;
        op->queued = false;
    }
    pthread_mutex_unlock(&ops->mutex);
}

void transport_op_stop(struct transport_op *op)
{
    if (op->aio != NULL) {
        nng_aio_stop(op->aio); /* waits until done() has returned */
        forget(op);
    }
}

void transport_op_fini(struct transport_op *op)
{
    transport_op_stop(op);
    if (op->aio != NULL) {
        nng_aio_free(op->aio);
        op->aio = NULL;
    }
}

void transport_op_begin(struct transport_op *op, size_t quiet_size)
{
    pthread_mutex_lock(&op->ops->mutex);
    HF_CHECK(!op->running);
    op->running = true;
    op->quiet_size = quiet_size;
    pthread_mutex_unlock(&op->ops->mutex);
}

bool transport_op_running(struct transport_op *op)
{
    bool running;

    pthread_mutex_lock(&op->ops->mutex);
    running = op->running;
    op->quiet_size = running ? 0 : op->quiet_size;
    pthread_mutex_unlock(&op->ops->mutex);
    return running;
}
