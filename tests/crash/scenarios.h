/*
 * The calls of the stepped client (the victim), and what other processes do during these calls.
 * There is one scenario for each way through the lock word's protocol.
 *
 * Two bystanders, `one` and `two`, connect before the victim starts. They hold and wait as the
 * scenario says. The victim prepares (it connects and opens the lock), is single-stepped through
 * `act`, and is killed at an instruction of `act`.
 */
#ifndef TESTS_CRASH_SCENARIOS_H
#define TESTS_CRASH_SCENARIOS_H

#include "actor.h"
#include "step.h"

#include <stdatomic.h>

/* what a bystander does now */
enum doing { IDLE, HOLDS, WAITS };

struct bystander {
    struct actor actor;
    enum doing doing;
    enum hf_mode mode;
};

/* The victim's reports, in memory that it shares with its tracer. */
struct notes {
    _Atomic uint64_t token;   /* the highest token that one of its calls returned */
    _Atomic uint32_t holds;   /* 1: a call has returned an exclusive hold, and its release has
                               * not begun; 2: the same for a shared hold, or a downgrade has
                               * begun */
    _Atomic uint32_t holder;  /* the victim's holder id */
    _Atomic uint32_t waiting; /* 1: the victim's helper thread is about to wait */
    _Atomic uint32_t cancel;  /* 1: the victim's helper thread must cancel the victim's wait */
    int64_t lock_delay_ms;
};

/* The victim's objects. */
struct victim {
    hf_client *client;
    hf_lock *lock;
    struct notes *notes;
};

struct scene {
    char name[64]; /* the lock's name */
    const char *socket;
    struct bystander one;
    struct bystander two;
    struct notes *notes;
    uint64_t token;        /* the highest token of all exclusive holds so far */
    uint32_t victim_held;  /* notes.holds at the time when the victim was killed */
    uint64_t victim_token; /* every later hold must have a higher token than this */
    int64_t killed_ns;
    int64_t lock_delay_ms;
};

struct scenario {
    const char *name;
    unsigned flags; /* the flags with which the victim opens its handle */
    int64_t max_stall_ms;
    bool threaded;
    void (*before)(struct scene *scene);    /* runs in the test before the victim starts */
    void (*prepare)(struct victim *victim); /* runs in the victim, and is not stepped */
    void (*joined)(struct scene *scene);    /* runs in the test while the victim is stopped at
                                             * the beginning of `act` */
    void (*act)(struct victim *victim);     /* runs in the victim, and is stepped */
    void (*asleep)(struct scene *scene);    /* runs in the test while the victim sleeps on a
                                             * futex */
};

extern const struct scenario scenarios[];
extern const size_t scenario_count;

/* Lets the bystander release its hold. */
void bystander_release(struct bystander *who);

#endif
