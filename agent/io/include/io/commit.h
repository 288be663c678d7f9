/*
 * The thread that makes batches durable, so that the loop goes on while the disk flushes.
 *
 * Between committer_open() and committer_close() only the committer uses the store. One batch is
 * under way at a time, and a descriptor becomes readable when it is done. Checkpoints of the store
 * (store_idle()) are made between batches.
 *
 * On a fast disk the two changes of threads take a good part of the time of a small batch. So the
 * thread that runs the loop may write a batch itself (committer_write()). A disk can stand still
 * for seconds, and the loop must not. So the other thread watches, and if the write takes too long,
 * it runs the loop on. The thread that wrote then finds that it has lost the loop, and does the
 * other thread's work from then on: the two have exchanged their roles. Signals go to the thread
 * with the loop, except while it writes. When the loop has ended, the thread that opened the
 * committer always goes on, and until then the other one touches nothing.
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
    struct store *store; /* borrowed until committer_close() */
    /* Puts a batch into the store's open batch. Called on either thread. */
    bool (*put)(void *arg, struct store *store, const void *batch);
    /* Runs the loop on. Returns true when the loop has ended, false as soon as committer_write()
     * has returned COMMITTER_REPLACED. NULL: committer_write() never writes. */
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

/* Begins a batch, which is borrowed until it is done. None may be under way. */
void committer_begin(struct committer *committer, const void *batch);

enum committer_wrote {
    COMMITTER_BUSY,     /* nothing was done: the other thread has work, or the disk is slow */
    COMMITTER_WRITTEN,  /* written; committer_finish() returns the result */
    COMMITTER_REPLACED, /* written, but now the other thread has the loop, and the result */
};

/* Writes a batch on this thread. None may be under way. */
enum committer_wrote committer_write(struct committer *committer, const void *batch)
    __attribute__((warn_unused_result));
/* After COMMITTER_REPLACED, on the thread that opened the committer: returns when the loop has
 * ended. This thread then counts as the one with the loop. */
void committer_stand_by(struct committer *committer);

/* Returns true once for each batch that is done. commit is its number; or error (not NULL) says why
 * it is not certain to be durable. */
bool committer_finish(struct committer *committer, uint64_t *commit, const char **error)
    __attribute__((warn_unused_result));
/* Waits until the batch is done. Returns false if none was begun. */
bool committer_wait(struct committer *committer) __attribute__((warn_unused_result));

/* Has the store checkpointed when no batch is under way. */
void committer_idle(struct committer *committer);
/* Why the last checkpoint failed, returned once; else NULL. */
const char *committer_idle_error(struct committer *committer);

#endif
