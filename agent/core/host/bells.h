/*
 * Bells: which locks a process, or the agent itself, asked to be looked at.
 *
 * A process that needs the agent sets its lock's dirty bit in the region and rings: it sends RING
 * over its connection. A ring may be lost, so all that asks to be looked at is, with each pass of
 * repair.h. Looking goes in pieces, and goes on behind the lock that was the last: one that always
 * rings is no reason to leave out those behind it. A namespace of which a tick has looked at as
 * many as it may pauses: a process can set the bits as fast as they are looked at, without a ring.
 *
 * Invariant: a dirty bit that was set before its namespace's bell rang is looked at, or the
 * namespace counts as left over for the next step.
 */
#ifndef HOST_BELLS_H
#define HOST_BELLS_H

#include "core/base/arena.h"
#include "hub.h"

struct bells;

struct bells *bells_lay_out(struct arena *arena);
/* outer: the driver's kernel, borrowed. */
void bells_init(struct host *host, const struct hfi_kernel *outer);
/* The kernel of the agent's own changes of words: on top of the driver's, but ringing stays here.
 * */
const struct hfi_kernel *bells_kernel(const struct host *host);
/* The driver's clock, which goes on within a step. */
int64_t bells_clock_ns(const struct host *host);

/* The namespace's bell rang. */
void bell_rang(struct host *host, uint32_t space);
/* Those of these namespaces, as bits; of all. */
void bells_rang(struct host *host, uint64_t spaces);
void bells_rang_all(struct host *host);
/* The lock is looked at when its bell rings next, resp. in this step or the next. */
void bell_look_later(struct host *host, struct lock_ref at);
void bell_look_soon(struct host *host, struct lock_ref at);
/* Whether the lock that is looked at is so because its bell rang. */
bool bell_is_ringing(const struct host *host);
/* Looks at all that ask for it, while there is room. */
void bells_work(struct host *host, uint32_t space,
                void (*look)(struct host *, struct lock_ref, struct host_actions *),
                struct host_actions *actions);
/* What the agent rang itself counts from now on. */
void bells_gather(struct host *host);
bool bell_is_left(const struct host *host, uint32_t space);
bool bells_are_left(const struct host *host);
/* When those that pause go on. */
int64_t bells_due_ns(const struct host *host);
/* A tick: so many may be looked at again. */
void bells_tick(struct host *host);
/* The namespace's region is left. */
void bells_leave(struct host *host, uint32_t space);

#endif
