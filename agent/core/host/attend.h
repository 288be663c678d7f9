/*
 * Attend: what the agent does for a lock that asked to be looked at. It puts the lock's word right,
 * takes the hold from a holder that cannot hold, asks for a grant, serves it or gives it back, and
 * notifies watchers.
 *
 * All that processes changed by themselves comes in here. The modules above (burials, answers,
 * remote, repair, opens) end their own changes of a lock with attend_lock().
 */
#ifndef HOST_ATTEND_H
#define HOST_ATTEND_H

#include "core/base/arena.h"
#include "hub.h"

struct attend;

struct attend *attend_lay_out(struct arena *arena);
/* The namespace's region is left: nothing is known of its slots. */
void attend_leave(struct host *host, uint32_t space);

void attend_lock(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Whether somebody waits for it to be granted; by its word alone, resp. also an OPEN. */
bool attend_word_is_awaited(const struct host *host, struct lock_ref at);
bool attend_is_awaited(const struct host *host, struct lock_ref at);
/* Its grant is back with the quorum: asks for it if somebody waits, else frees a slot that nobody
 * has open. */
void attend_unwanted(struct host *host, struct lock_ref at, struct host_actions *actions);
/* A closed lock's time has come. */
void attend_opening(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Takes back idle locks when slots run short. */
void attend_reclaim(struct host *host, uint32_t space, struct host_actions *actions);

#endif
