/*
 * Processes for the cases in which something goes wrong. Each follows its *stage*, a struct in
 * memory shared with the bench. The bench alone decides when to kill, stop and wake them.
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

/* Starts one more actor; its index is that of its process in pids. */
int actors_add(struct actors *actors, actor_fn *play) MUST_CHECK;

/* Waits until the value is at least goal. Returns -1 after complain() if the time is over or an
 * actor failed. */
int actors_await(struct actors *actors, const _Atomic uint32_t *value, uint32_t goal,
                 int64_t timeout_ns) MUST_CHECK;
/* Does the same, but returns 1 without a complaint if the time is over. */
int actors_await_or_not(struct actors *actors, const _Atomic uint32_t *value, uint32_t goal,
                        int64_t timeout_ns) MUST_CHECK;

/* Waits until all have ended by themselves. Returns -1 after complain() if one failed or is
 * late. */
int actors_join(struct actors *actors, int64_t timeout_ns) MUST_CHECK;

/* Kills one actor, or all, by SIGKILL. An actor that has ended already is no error. */
void actors_kill(struct actors *actors, uint32_t index);
void actors_kill_all(struct actors *actors);

/* For actors. actor_sleep() sleeps. actor_renew() renews the holds every third of a lease
 * (kind->renew); *last_ns is the time of the last renewal. Returns how many holds it found lost. */
void actor_sleep(int64_t duration_ns);
uint32_t actor_renew(const struct peer_run *run, void *const *locks, size_t count,
                     int64_t *last_ns);

#endif
