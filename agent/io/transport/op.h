/*
 * Operations of NNG for the transport on NNG's threads, and how the loop learns that they are done.
 * Private to the transport.
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
    int event; /* a descriptor, readable while the queue is not empty */
    bool signalled;
    struct transport_op
        *first; /* the queue; the mutex also protects the fields below in each operation */
    struct transport_op *last;
};

struct transport_op {
    struct transport_ops *ops;
    enum transport_op_kind kind;
    void *owner;
    nng_aio *aio; /* NULL: not initialised */
    /* Under the mutex: */
    struct transport_op *next;
    bool queued;
    bool running;      /* begun, and its callback has not run yet */
    size_t quiet_size; /* an end is not queued if so many bytes were sent without an error; 0: it is
                     * always queued */
};

/* On failure returns false with errno. The caller calls transport_ops_fini() in any case. */
bool transport_ops_init(struct transport_ops *ops) __attribute__((warn_unused_result));
/* All operations must have been finished. */
void transport_ops_fini(struct transport_ops *ops);
/* For the loop: the next operation that has ended. NULL if there is none; the descriptor is then
 * not readable any more. */
struct transport_op *transport_ops_take(struct transport_ops *ops);

/* Returns false if there is no memory. ops and owner must outlive the operation. */
bool transport_op_init(struct transport_op *op, struct transport_ops *ops,
                       enum transport_op_kind kind, void *owner)
    __attribute__((warn_unused_result));
/* Waits for the end of the operation; the caller has closed the stream that it uses. The result can
 * still be read, but the operation cannot begin again. For a struct of zeros every call but
 * transport_op_init() is allowed. */
void transport_op_stop(struct transport_op *op);
/* Frees the operation, after stopping it. */
void transport_op_fini(struct transport_op *op);
/* To be called before the operation is started with op->aio. quiet_size: see struct
 * transport_op. */
void transport_op_begin(struct transport_op *op, size_t quiet_size);
/* Returns whether the operation has not ended yet. If so, its end will be queued, whatever
 * quiet_size was. */
bool transport_op_running(struct transport_op *op);

#endif
