/*
 * Ringing: the locks at which the agent has to look, because a process, or the agent itself, asked
 * for that.
 *
 * A process that needs the agent sets its lock's dirty bit in the region and rings: it sends the
 * frame RING over its connection. The agent then looks at every lock of that region whose bit is
 * set. A ring may be lost; each pass of repair.h looks at such locks later.
 *
 * The agent looks at the dirty bits of a region in pieces. Each piece begins behind the lock at
 * which the piece before ended, so a lock that always rings does not keep other locks waiting. A
 * process can set bits as fast as the agent clears them, even without a RING. So when the agent has
 * done as many looks as it may do in one tick, it pauses for that namespace.
 *
 * Invariant: if a dirty bit was set before a ring arrived, this step looks at its lock, or
 * ringing_is_left() is true for the namespace, so that a later step looks at the lock.
 */
#ifndef HOST_RINGING_H
#define HOST_RINGING_H

#include "core/base/arena.h"
#include "hub.h"

struct ringing;

struct ringing *ringing_lay_out(struct arena *arena);
/* Initializes the module. `outer` is the driver's kernel, borrowed. */
void ringing_init(struct host *host, const struct hfi_kernel *outer);
/* Returns the kernel with which the agent itself changes words. This is the driver's kernel, but
 * its ring() sends nothing, and only notes that the agent rang. */
const struct hfi_kernel *ringing_kernel(const struct host *host);
/* Returns the time by the driver's clock. It advances within a step, while host->now_ns does
 * not. */
int64_t ringing_clock_ns(const struct host *host);

/* Note that a ring arrived: for one namespace, for the namespaces in `spaces` (as bits), or for all
 * namespaces. */
void ring_arrived(struct host *host, uint32_t space);
void rings_arrived(struct host *host, uint64_t spaces);
void rings_arrived_all(struct host *host);
/* Sets the lock's dirty bit: the lock is looked at after the namespace's next ring. */
void ringing_look_later(struct host *host, struct lock_ref at);
/* Sets the lock's dirty bit and rings: the lock is looked at in this step or the next. */
void ringing_look_soon(struct host *host, struct lock_ref at);
/* Returns whether a lock is being looked at because of its dirty bit. */
bool ringing_is_cause(const struct host *host);
/* Calls look() for the namespace's locks whose dirty bits are set, as long as the step has room. */
void ringing_work(struct host *host, uint32_t space,
                  void (*look)(struct host *, struct lock_ref, struct host_actions *),
                  struct host_actions *actions);
/* If the agent itself has rung, notes that a ring arrived for all namespaces. */
void ringing_gather(struct host *host);
/* Returns whether locks of that namespace are still to be looked at. */
bool ringing_is_left(const struct host *host, uint32_t space);
/* Returns whether the agent itself has rung, or locks of a namespace that does not pause are still
 * to be looked at. */
bool ringing_is_left_anywhere(const struct host *host);
/* Returns when the first pause ends; INT64_MAX: no namespace pauses. */
int64_t ringing_due_ns(const struct host *host);
/* Begins a new tick, in which ringing_work() may do its full number of looks again. */
void ringing_tick(struct host *host);
/* For a namespace whose region was given up: forgets its rings. */
void ringing_leave(struct host *host, uint32_t space);

#endif
