/*
 * Openings: the closed locks at which the agent has to look, and when. A lock that was closed
 * behind a holder opens when its lock-delay is over. A give-back of the lock's grant waits for that
 * time, too.
 *
 * Invariants: a lock stands in the heap at most once. Its time in the heap is never later than the
 * time at which it opens. The time may be earlier, if the lock was opened early and then closed
 * again. Then the agent looks at the lock too early, and puts it back with the later time.
 */
#ifndef HOST_OPENINGS_H
#define HOST_OPENINGS_H

#include "core/base/arena.h"
#include "hub.h"

struct openings;

struct openings *openings_lay_out(struct arena *arena, const struct host_config *config);

/* Puts the lock into the heap, to be looked at no later than due_ns. */
void opening_add(struct host *host, struct lock_ref at, int64_t due_ns);
/* Returns whether the lock stands in the heap. */
bool opening_is_due(const struct host *host, struct lock_ref at);
/* Takes out of the heap all locks that are not closed. */
void openings_forget(struct host *host);
/* Takes out of the heap all locks of that namespace. */
void openings_leave(struct host *host, uint32_t space);
/* Returns when the first lock of the heap is due; INT64_MAX: the heap is empty. */
int64_t openings_due_ns(const struct host *host);
/* Takes the first lock out of the heap and returns it. The heap is not empty. */
struct lock_ref opening_take(struct host *host);
void openings_check(const struct host *host);

#endif
