/*
 * Ringing: which locks a process, or the agent itself, asked to be looked at.
 *
 * A process that needs the agent sets its lock's dirty bit in the region and rings: it sends the
 * frame RING over its connection. The agent then looks at every lock of that region whose bit is
 * set. A ring may be lost; each pass of repair.h makes good for that.
 *
 * The look at a region goes in pieces. The next piece begins behind the lock at which the last one
 * ended, so a lock that always rings does not keep others waiting. A process can set the bits as
 * fast as they are looked at, even without a ring: after as many looks as one tick may have, the
 * namespace pauses.
 *
 * Invariant: a dirty bit that was set before a ring arrived is looked at in this step, or the
 * namespace counts as left over for the next one.
 */
#ifndef HOST_RINGING_H
#define HOST_RINGING_H

#include "core/base/arena.h"
#include "hub.h"

struct ringing;

struct ringing *ringing_lay_out(struct arena *arena);
/* outer: the driver's kernel, borrowed. */
void ringing_init(struct host *host, const struct hfi_kernel *outer);
/* The kernel with which the agent itself changes words: the driver's, but what rings stays here. */
const struct hfi_kernel *ringing_kernel(const struct host *host);
/* The driver's clock, which goes on within a step. */
int64_t ringing_clock_ns(const struct host *host);

/* A ring arrived for that namespace; for these, as bits; for all. */
void ring_arrived(struct host *host, uint32_t space);
void rings_arrived(struct host *host, uint64_t spaces);
void rings_arrived_all(struct host *host);
/* Sets the lock's dirty bit: it is looked at after the namespace's next ring. */
void ringing_look_later(struct host *host, struct lock_ref at);
/* The same, in this step or the next. */
void ringing_look_soon(struct host *host, struct lock_ref at);
/* Whether a lock is being looked at because of its dirty bit. */
bool ringing_is_cause(const struct host *host);
/* Calls look() for the locks of the namespace that ask for it, while there is room. */
void ringing_work(struct host *host, uint32_t space,
                  void (*look)(struct host *, struct lock_ref, struct host_actions *),
                  struct host_actions *actions);
/* What the agent rang itself counts as arrived from now on. */
void ringing_gather(struct host *host);
/* Whether locks of that namespace are still to be looked at; of one that does not pause. */
bool ringing_is_left(const struct host *host, uint32_t space);
bool ringing_is_left_anywhere(const struct host *host);
/* When the first pause ends; INT64_MAX: there is none. */
int64_t ringing_due_ns(const struct host *host);
/* A tick: as many looks as one tick may have are free again. */
void ringing_tick(struct host *host);
/* The namespace's region is left. */
void ringing_leave(struct host *host, uint32_t space);

#endif
