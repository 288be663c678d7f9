/*
 * Limits: holds that have to end in time (a fixed lease, max_stall).
 *
 * A process writes until when its hold may last into its seat, before it takes the lock; the agent
 * looks at those times, in groups of handles, and takes away what is over. What lies farther ahead
 * than the limit is written over, once.
 *
 * Invariants: a handle with a limit has a seat and stands in its group; no group is looked at later
 * than any of its handles asks for.
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

/* From now on the handle's hold has to end in time. */
void limit_begin(struct host *host, uint32_t handle);
/* A hold with a limit may have begun, by that handle, or on that lock. */
void limit_attend(struct host *host, uint32_t handle);
void limits_attend(struct host *host, struct lock_ref at);
/* Survivors' holds with a limit on this lock, which have to end in time: gives them handles. */
void limits_find(struct host *host, struct lock_ref at);
/* The handle's limit ends with it. */
void limit_forget(struct host *host, uint32_t handle);
/* When the first has to be looked at. */
int64_t limits_due_ns(const struct host *host);
/* Takes away what is over. */
void limits_end_due(struct host *host, struct host_actions *actions);
void limits_check(const struct host *host);

#endif
