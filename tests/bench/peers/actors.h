/*
 * Processes for the cases in which something goes wrong. The bench and its actors communicate
 * through a *stage*, a struct in shared memory. Only the bench decides when an actor is killed,
 * stopped or woken.
 */
#ifndef PEERS_ACTORS_H
#define PEERS_ACTORS_H

#include <stdatomic.h>
#include <sys/types.h>

#include "peer.h"

enum { ACTORS_MAX = 16 };

/* The work of an actor. The actor's process ends when this function returns, with success if the
 * function returned 0. */
typedef int actor_fn(struct peer_run *run, void *stage, uint32_t index);

struct actors {
    struct peer_run *run;
    void *stage;
    pid_t pids[ACTORS_MAX]; /* 0: the actor was not started, or has ended */
    uint32_t count;
};

/* Returns zeroed memory that the bench shares with the actors, or NULL after complain(). */
void *stage_create(size_t size);
void stage_destroy(void *stage, size_t size);

/* Starts one more actor. Its index in `pids` is passed to `play`. */
int actors_add(struct actors *actors, actor_fn *play) MUST_CHECK;

/* Waits until *value is at least goal. Returns -1 after complain() if the timeout passes or an
 * actor failed. */
int actors_await(struct actors *actors, const _Atomic uint32_t *value, uint32_t goal,
                 int64_t timeout_ns) MUST_CHECK;
/* Like actors_await(), but returns 1 without a complaint if the timeout passes. */
int actors_await_or_not(struct actors *actors, const _Atomic uint32_t *value, uint32_t goal,
                        int64_t timeout_ns) MUST_CHECK;

/* Waits until all actors have ended by themselves. Returns -1 after complain() if one failed, or
 * still runs after the timeout. */
int actors_join(struct actors *actors, int64_t timeout_ns) MUST_CHECK;

/* Kills one actor, or all actors, by SIGKILL. It is no error if an actor has already ended. */
void actors_kill(struct actors *actors, uint32_t index);
void actors_kill_all(struct actors *actors);

/* Functions for actors. actor_renew() calls kind->renew for each hold if a third of the lease has
 * passed since *last_ns, the time of the last renewal. It returns the number of holds that it found
 * lost. */
void actor_sleep(int64_t duration_ns);
uint32_t actor_renew(const struct peer_run *run, void *const *locks, size_t count,
                     int64_t *last_ns);

#endif
