/*
 * Holdfast's side of a comparison: one client with one handle on one lock, through the public
 * header. One thread of one process uses a subject. A child of fork opens a subject of its own.
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

/* Connects to the agent at that socket and opens the lock. flags: HF_BARGING or 0. Returns -1 after
 * complain(). The caller calls subject_close() in each case, after a failure too. */
int subject_open(struct subject *subject, const char *socket, const char *name, enum hf_mode mode,
                 uint32_t flags) MUST_CHECK;
void subject_close(struct subject *subject);

/* A repeat_fn: acquires and releases `times` times, without a timeout. arg is a struct subject. */
repeat_fn subject_repeat;

/* Does one acquire, or one release. Returns -1 after complain(). */
int subject_acquire(struct subject *subject) MUST_CHECK;
int subject_release(struct subject *subject) MUST_CHECK;

#endif
