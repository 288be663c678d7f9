/*
 * The thread that makes batches durable, so that the loop goes on while the disk flushes.
 *
 * Between committer_open() and committer_close() only the committer uses the store. One batch is
 * under way at a time, and a descriptor becomes readable when it is done. Checkpoints of the store
 * (store_idle()) are made between batches.
 *
 * On a fast disk, switching from the loop's thread to the other one and back takes a good part of a
 * small batch's time. So the thread that runs the loop may write a batch itself
 * (committer_write()). But a disk can stand still for seconds, and the loop must not wait for it.
 * So the other thread watches the write, and if it takes too long, the other thread continues the
 * loop. When the write ends, the thread that wrote finds that it has lost the loop. From then on it
 * does the other thread's work: the two have exchanged their roles. Signals go to the thread with
 * the loop, except while it writes. When the loop has ended, the thread that opened the committer
 * always goes on, and until then the other one touches nothing.
 *
 * Only the thread that runs the loop may call these functions; at first that is the one that opened
 * the committer.
 */
#ifndef IO_COMMIT_H
#define IO_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "io/store.h"

struct committer;

struct committer_config {
    struct store *store; /* borrowed until committer_close() has returned */
    /* Puts the rows of a batch into the store's open transaction. Either thread may call it. */
    bool (*put)(void *arg, struct store *store, const void *batch);
    /* Continues the loop. Returns true when the loop has ended, false as soon as committer_write()
     * has returned COMMITTER_REPLACED. If it is NULL, committer_write() never writes. */
    bool (*loop)(void *arg);
    void *arg;
};

/* On failure returns NULL with errno. */
struct committer *committer_open(const struct committer_config *config)
    __attribute__((warn_unused_result));
/* Waits for the batch under way. The thread that opened the committer must call this. NULL is
 * allowed. */
void committer_close(struct committer *committer);

/* Readable when committer_finish() or committer_idle_error() has a result. If committer_finish()
 * was called right after committer_wait(), the descriptor becomes readable once more, without a
 * result. */
int committer_fd(const struct committer *committer);

/* Begins to write a batch, which is borrowed until it is done. No batch may be under way. */
void committer_begin(struct committer *committer, const void *batch);

enum committer_wrote {
    COMMITTER_BUSY,     /* nothing was written: the other thread is busy, or the disk is slow */
    COMMITTER_WRITTEN,  /* the batch is written; committer_finish() returns the result */
    COMMITTER_REPLACED, /* the batch is written, but the other thread now runs the loop, and
                         * receives the result */
};

/* Writes a batch on this thread. No batch may be under way. */
enum committer_wrote committer_write(struct committer *committer, const void *batch)
    __attribute__((warn_unused_result));
/* After COMMITTER_REPLACED, on the thread that opened the committer: returns when the loop has
 * ended. This thread then counts as the one with the loop. */
void committer_stand_by(struct committer *committer);

/* Returns true once for each batch that is done. commit is its number; or error (not NULL) says why
 * it is not certain to be durable. */
bool committer_finish(struct committer *committer, uint64_t *commit, const char **error)
    __attribute__((warn_unused_result));
/* Waits until the batch is done. Returns false if no batch was under way. */
bool committer_wait(struct committer *committer) __attribute__((warn_unused_result));

/* Orders a checkpoint of the store, which is made when no batch is under way. */
void committer_idle(struct committer *committer);
/* Returns why the last checkpoint failed, once for each failure; else NULL. */
const char *committer_idle_error(struct committer *committer);

#endif
