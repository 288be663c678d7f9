/*
 * Limits: holds that have to end in time (a fixed lease, max_stall).
 *
 * Before a process takes the lock, it writes into its seat until when the hold may last. The agent
 * looks at these times, one group of handles after the other, and takes away the holds whose time
 * is over. If a time lies farther ahead than the limit, the agent overwrites it.
 *
 * Invariants: a handle with a limit has a seat and stands in its group. The agent looks at a group
 * as soon as the first hold of the group has to end.
 */
#ifndef HOST_LIMITS_H
#define HOST_LIMITS_H

#include "core/base/arena.h"
#include "hub.h"

struct limits;

enum {
    LIMIT_IDLE_CHECK_MS = 1000, /* the time between two looks at a handle that has no hold */
    LIMITED_GROUP = 64,         /* the number of handles in a group */
};

struct limits *limits_lay_out(struct arena *arena, const struct host_config *config);
void limits_init(struct host *host);

/* Begins the handle's limit: from now on its holds have to end in time. */
void limit_begin(struct host *host, uint32_t handle);
/* Notes that a hold with a limit may have begun, by that handle or by any handle of that lock. */
void limit_attend(struct host *host, uint32_t handle);
void limits_attend(struct host *host, struct lock_ref at);
/* Makes a handle for each hold with a limit that a survivor has on this lock, so that the hold ends
 * in time. */
void limits_find(struct host *host, struct lock_ref at);
/* Ends the handle's limit, because the handle ends. */
void limit_forget(struct host *host, uint32_t handle);
/* Returns when the first group has to be looked at; INT64_MAX: there is none. */
int64_t limits_due_ns(const struct host *host);
/* Takes away the holds whose time is over. */
void limits_end_due(struct host *host, struct host_actions *actions);
void limits_check(const struct host *host);

#endif
