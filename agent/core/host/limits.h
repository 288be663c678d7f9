/*
 * Limits: holds that have to end in time (a fixed lease, max_stall).
 *
 * Before a process takes the lock, it writes into its seat until when the hold may last. The agent
 * looks at those times in groups of handles and takes away the holds whose time is over. A time
 * that lies farther ahead than the limit is overwritten, once.
 *
 * Invariants: a handle with a limit has a seat and stands in its group. A group is looked at no
 * later than any of its handles needs.
 */
#ifndef HOST_LIMITS_H
#define HOST_LIMITS_H

#include "core/base/arena.h"
#include "hub.h"

struct limits;

enum {
    LIMIT_IDLE_CHECK_MS = 1000, /* a hold whose process wrote no time is looked at this often */
    LIMITED_GROUP = 64,         /* handles that are looked at together */
};

struct limits *limits_lay_out(struct arena *arena, const struct host_config *config);
void limits_init(struct host *host);

/* Begins the handle's limit: from now on its holds have to end in time. */
void limit_begin(struct host *host, uint32_t handle);
/* Notes that a hold with a limit may have begun, by that handle or by any handle of that lock. */
void limit_attend(struct host *host, uint32_t handle);
void limits_attend(struct host *host, struct lock_ref at);
/* Gives a handle to each hold with a limit that a survivor has on this lock, so that it ends. */
void limits_find(struct host *host, struct lock_ref at);
/* Ends the handle's limit, because the handle ends. */
void limit_forget(struct host *host, uint32_t handle);
/* Returns when the first group has to be looked at; INT64_MAX: there is none. */
int64_t limits_due_ns(const struct host *host);
/* Takes away the holds whose time is over. */
void limits_end_due(struct host *host, struct host_actions *actions);
void limits_check(const struct host *host);

#endif
