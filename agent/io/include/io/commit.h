/*
 * The thread that makes batches durable, so that the loop goes on while the disk flushes.
 *
 * Between committer_open() and committer_close() the store is that thread's alone. One batch is on
 * its way at a time; a descriptor becomes readable when it is done. A checkpoint of the store
 * (store_idle) is made between batches.
 *
 * All functions are for the thread that opened it.
 */
#ifndef IO_COMMIT_H
#define IO_COMMIT_H

#include <stdbool.h>
#include <stdint.h>

#include "io/store.h"

struct committer;

struct committer_config {
    struct store *store; /* borrowed until committer_close() */
    /* Puts what a batch has into the store's open batch; on the committer's thread. */
    bool (*put)(void *arg, struct store *store, const void *batch);
    void *arg;
};

/* NULL: errno says why. */
struct committer *committer_open(const struct committer_config *config)
    __attribute__((warn_unused_result));
/* Waits for what is under way. NULL is allowed. */
void committer_close(struct committer *committer);

/* Readable when committer_finish() has something to tell. */
int committer_fd(const struct committer *committer);

/* Begins a batch, borrowed until it is done. None may be under way. */
void committer_begin(struct committer *committer, const void *batch);
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
