/*
 * The side that is measured: one client with one handle on one lock, through the public header.
 * Used by one thread of one process; a child of fork opens its own.
 */
#ifndef BENCH_SUBJECT_H
#define BENCH_SUBJECT_H

#include <holdfast/holdfast.h>

#include "measure.h"

struct subject {
    hf_client *client;
    hf_lock *lock;
    enum hf_mode mode;
};

/* Connects to the agent at that socket and opens the lock; flags are HF_BARGING or 0. The caller
 * closes it, after a failure too. -1 after complain(). */
int subject_open(struct subject *subject, const char *socket, const char *name, enum hf_mode mode,
                 uint32_t flags) MUST_CHECK;
void subject_close(struct subject *subject);

/* A repeat_fn: acquires and releases that many times, without a timeout. arg is a struct
 * subject. */
repeat_fn subject_repeat;

/* Does one acquire, or one release. Returns -1 after complain(). */
int subject_acquire(struct subject *subject) MUST_CHECK;
int subject_release(struct subject *subject) MUST_CHECK;

#endif
