/*
 * Operations that NNG's threads carry out for the transport, and how the loop learns that they have
 * ended. Private to the transport.
 *
 * An operation is a dial, an accept, a receive or a send, which the loop begins again and again.
 * When it has ended, its callback on a thread of NNG puts it into a queue and makes a descriptor
 * readable. No other code of the agent runs on those threads. The loop takes the operation from the
 * queue and looks at the result.
 */
#ifndef IO_TRANSPORT_OP_H
#define IO_TRANSPORT_OP_H

#include <nng/nng.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

enum transport_op_kind {
    TRANSPORT_OP_ACCEPT,
    TRANSPORT_OP_DIAL,
    TRANSPORT_OP_RECEIVE,
    TRANSPORT_OP_SEND,
};

struct transport_ops {
    pthread_mutex_t mutex;
    int event; /* readable while the queue is not empty */
    bool signalled;
    struct transport_op
        *first; /* the queue; the mutex protects it, and the last four fields of each operation */
    struct transport_op *last;
};

struct transport_op {
    struct transport_ops *ops;
    enum transport_op_kind kind;
    void *owner;
    nng_aio *aio; /* NULL: not initialised */
    /* The mutex of ops protects these fields. */
    struct transport_op *next;
    bool queued;
    bool running;      /* the operation was begun, and its callback has not run yet */
    size_t quiet_size; /* the end is not queued if this many bytes were sent without an error; 0: it
                        * is always queued */
};

/* Returns false, with errno, on failure. transport_ops_fini() must be called in both cases. */
bool transport_ops_init(struct transport_ops *ops) __attribute__((warn_unused_result));
/* Frees the queue. Every operation must have been freed before. */
void transport_ops_fini(struct transport_ops *ops);
/* For the loop: returns the next operation that has ended. If there is none, returns NULL, and the
 * descriptor is no longer readable. */
struct transport_op *transport_ops_take(struct transport_ops *ops);

/* Returns false if there is no memory. ops and owner must outlive the operation. */
bool transport_op_init(struct transport_op *op, struct transport_ops *ops,
                       enum transport_op_kind kind, void *owner)
    __attribute__((warn_unused_result));
/* Waits for the end of the operation. The caller must have closed the stream that the operation
 * uses. The result can still be read, but the operation cannot begin again. transport_op_stop() and
 * transport_op_fini() may also be called for a struct of zeros. */
void transport_op_stop(struct transport_op *op);
/* Stops and frees the operation. */
void transport_op_fini(struct transport_op *op);
/* Notes that the operation runs. Called before it is started with op->aio. quiet_size: see struct
 * transport_op. */
void transport_op_begin(struct transport_op *op, size_t quiet_size);
/* Returns whether the operation is still running. If it is, its end will be queued, even with a
 * quiet_size. */
bool transport_op_running(struct transport_op *op);

#endif
