/*
 * Processes of the cases in which something goes wrong: each plays its part, by what stands in
 * memory that it shares with the bench (the *stage*, one struct a case), and is killed, stopped and
 * woken by the bench, which alone decides when.
 */
#ifndef PEERS_ACTORS_H
#define PEERS_ACTORS_H

#include <stdatomic.h>
#include <sys/types.h>

#include "peer.h"

enum { ACTORS_MAX = 16 };

/* The actor's work; the process ends when it returns, with success for 0. */
typedef int actor_fn(struct peer_run *run, void *stage, uint32_t index);

struct actors {
    struct peer_run *run;
    void *stage;
    pid_t pids[ACTORS_MAX]; /* 0: not started, or ended */
    uint32_t count;
};

/* Zeroed memory that is shared with the actors; NULL after complain(). */
void *stage_create(size_t size);
void stage_destroy(void *stage, size_t size);

/* One more actor; its index is that of the process in pids. */
int actors_add(struct actors *actors, actor_fn *play) MUST_CHECK;

/* Until the value is at least that. -1 after complain(): the time is over, or an actor failed. */
int actors_await(struct actors *actors, const _Atomic uint32_t *value, uint32_t goal,
                 int64_t timeout_ns) MUST_CHECK;
/* The same, but time that is over is no failure: 1. */
int actors_await_or_not(struct actors *actors, const _Atomic uint32_t *value, uint32_t goal,
                        int64_t timeout_ns) MUST_CHECK;

/* Until all have ended by themselves. -1 after complain() if one failed or is late. */
int actors_join(struct actors *actors, int64_t timeout_ns) MUST_CHECK;

/* kill -9 of one, of all; without a word for those that ended already. */
void actors_kill(struct actors *actors, uint32_t index);
void actors_kill_all(struct actors *actors);

/* In an actor: sleeps; and, every third of a lease, does what a client has to do itself so that
 * its holds live on (kind->renew). *last_ns is when it was done last. How many it found lost. */
void actor_sleep(int64_t duration_ns);
uint32_t actor_renew(const struct peer_run *run, void *const *locks, size_t count,
                     int64_t *last_ns);

#endif
