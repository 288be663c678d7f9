/*
 * The thread that makes batches durable, so that the loop goes on while the disk flushes.
 *
 * Between committer_open() and committer_close() the store is the committer's. One batch is on its
 * way at a time; a descriptor becomes readable when it is done. A checkpoint of the store
 * (store_idle) is made between batches.
 *
 * Two changes of threads are a good part of what a small batch takes on a fast disk. So the thread
 * that has the loop may write a batch itself (committer_write). A disk can stand still for seconds,
 * and the loop must not: the other thread watches meanwhile, and if it takes too long, it goes on
 * with the loop. The thread that wrote finds that it has lost the loop, and does from then on what
 * the other thread did: each of the two can be either. Signals are for the one with the loop, but
 * not while it writes. It is always the thread that opened the committer that goes on when the loop
 * has ended; until it does, the other one touches nothing.
 *
 * All functions are for the thread that has the loop: the one that opened it at first.
 */
#ifndef IO_COMMIT_H
#define IO_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "io/store.h"

struct committer;

struct committer_config {
    struct store *store; /* borrowed until committer_close() */
    /* Puts what a batch has into the store's open batch; on either thread. */
    bool (*put)(void *arg, struct store *store, const void *batch);
    /* Goes on with the loop: true when that has ended, false as soon as committer_write() has said
     * COMMITTER_REPLACED. NULL: committer_write() writes nothing. */
    bool (*loop)(void *arg);
    void *arg;
};

/* NULL: errno says why. */
struct committer *committer_open(const struct committer_config *config)
    __attribute__((warn_unused_result));
/* Waits for what is under way. NULL is allowed. For the thread that opened it. */
void committer_close(struct committer *committer);

/* Readable when committer_finish() or committer_idle_error() has a result; once more, without a
 * result, if committer_finish() was called after committer_wait() without waiting for this. */
int committer_fd(const struct committer *committer);

/* Begins a batch, borrowed until it is done. None may be under way. */
void committer_begin(struct committer *committer, const void *batch);

enum committer_wrote {
    COMMITTER_BUSY,     /* nothing was done: the other thread does not rest, or the disk is slow */
    COMMITTER_WRITTEN,  /* committer_finish() returns it */
    COMMITTER_REPLACED, /* and hands it to the other thread, which has the loop and signals now */
};

/* Writes a batch on this thread. None may be under way. */
enum committer_wrote committer_write(struct committer *committer, const void *batch)
    __attribute__((warn_unused_result));
/* After COMMITTER_REPLACED, for the thread that opened it: returns when the loop has ended. Then it
 * counts as the thread that has the loop. */
void committer_stand_by(struct committer *committer);

/* Whether the batch is done since it was begun, once: commit is its number, or error (not NULL) why
 * nothing of it is durable for sure. */
bool committer_finish(struct committer *committer, uint64_t *commit, const char **error)
    __attribute__((warn_unused_result));
/* Waits until the batch is done. false: none was begun. */
bool committer_wait(struct committer *committer) __attribute__((warn_unused_result));

/* Has the store's checkpoint made when there is nothing better to do. */
void committer_idle(struct committer *committer);
/* NULL, or why the last one failed, once. */
const char *committer_idle_error(struct committer *committer);

#endif
