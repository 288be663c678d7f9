/*
 * The thread that makes batches durable, so that the loop goes on while the disk flushes.
 *
 * Between committer_open() and committer_close() only the committer uses the store. It works on one
 * batch at a time, and a descriptor becomes readable when the batch is done. Checkpoints of the
 * store (store_idle()) are made between batches.
 *
 * On a fast disk, switching to the committer's thread and back takes a good part of a small batch's
 * time. So the thread that runs the loop may write a batch itself (committer_write()). But a disk
 * can stand still for seconds, and the loop must not wait for it. So the committer's thread watches
 * the write. If the write takes too long, the committer's thread takes the loop over. When the
 * write ends, the thread that wrote finds that it has lost the loop. From then on it does the
 * committer's work: the two threads have exchanged their roles.
 *
 * Signals go to the thread that runs the loop, except while it writes. When the loop has ended, the
 * thread that opened the committer goes on, whichever thread ran the loop last. Until then a thread
 * that lost the loop touches nothing of the agent.
 *
 * Only the thread that runs the loop may call these functions; at first that is the thread that
 * opened the committer.
 */
#ifndef IO_COMMIT_H
#define IO_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "io/store.h"

struct committer;

struct committer_config {
    struct store *store; /* borrowed until committer_close() has returned */
    /* Puts the rows of a batch into the store's open transaction. Called on the loop's thread or
     * the committer's. */
    bool (*put)(void *arg, struct store *store, const void *batch);
    /* Runs the loop in place of the thread that is stuck in committer_write(). Returns true when
     * the loop has ended, and false when committer_write() has returned COMMITTER_REPLACED. NULL:
     * committer_write() never writes. */
    bool (*loop)(void *arg);
    void *arg;
};

/* Opens the committer and starts its thread. On failure returns NULL with errno. */
struct committer *committer_open(const struct committer_config *config)
    __attribute__((warn_unused_result));
/* Closes the committer, after the batch that is being written. Only the thread that opened the
 * committer may call this. NULL is allowed. */
void committer_close(struct committer *committer);

/* Returns a descriptor that is readable when committer_finish(), committer_piece_done() or
 * committer_idle_error() has a result. If committer_finish() is called right after
 * committer_wait(), the descriptor becomes readable once more, without a result. */
int committer_fd(const struct committer *committer);

/* Begins to write a batch, which is borrowed until it is done. The previous batch must be
 * finished. */
void committer_begin(struct committer *committer, const void *batch);

enum committer_wrote {
    COMMITTER_BUSY,     /* the batch is not written, because the other thread is busy or the disk is
                         * slow */
    COMMITTER_WRITTEN,  /* the batch is written, and committer_finish() returns the result */
    COMMITTER_REPLACED, /* the batch is written, but the other thread now runs the loop, and gets
                         * the result */
};

/* Writes a batch on the calling thread. The previous batch must be finished. */
enum committer_wrote committer_write(struct committer *committer, const void *batch)
    __attribute__((warn_unused_result));
/* Waits until the loop has ended. Called after COMMITTER_REPLACED by the thread that opened the
 * committer. Afterwards this thread may make the calls that only the thread that runs the loop may
 * make. */
void committer_stand_by(struct committer *committer);

/* Returns true once for each batch that is done. Sets *commit to its number, or *error to the
 * reason why it may not be durable (otherwise NULL). */
bool committer_finish(struct committer *committer, uint64_t *commit, const char **error)
    __attribute__((warn_unused_result));
/* Waits until the batch is done. Returns false if no batch was being written. */
bool committer_wait(struct committer *committer) __attribute__((warn_unused_result));

/* Orders a checkpoint of the store, which is made when no batch is being written. */
void committer_idle(struct committer *committer);
/* Arranges that the committer's thread calls piece(arg) once, when no batch is being written. The
 * previous piece must be done. A committer that is closed does not begin a piece any more. */
void committer_piece(struct committer *committer, void (*piece)(void *arg), void *arg);
/* Returns true once for each piece that is done. */
bool committer_piece_done(struct committer *committer) __attribute__((warn_unused_result));
/* Returns why the last checkpoint failed, once for each failure; otherwise NULL. */
const char *committer_idle_error(struct committer *committer);

#endif
