/*
 * Attend: what the agent does for a lock that asked to be looked at. It puts the lock's word right,
 * takes the hold from a holder that cannot hold, asks for a grant, serves it or gives it back, and
 * notifies watchers.
 *
 * Here the agent takes notice of what processes changed by themselves. The modules above (burials,
 * answers, remote, repair, opens) end their own changes of a lock with attend_lock().
 */
#ifndef HOST_ATTEND_H
#define HOST_ATTEND_H

#include "core/base/arena.h"
#include "hub.h"

struct attend;

struct attend *attend_lay_out(struct arena *arena);
/* For a region that was given up: forgets what is known of the namespace's slots. */
void attend_leave(struct host *host, uint32_t space);

void attend_lock(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Return whether a process waits for the lock's grant. The first looks at the word only; the second
 * also counts pending OPENs. */
bool attend_word_is_awaited(const struct host *host, struct lock_ref at);
bool attend_is_awaited(const struct host *host, struct lock_ref at);
/* For a lock whose grant is back with the quorum. Asks for the grant if a process waits for it;
 * otherwise frees the slot if no process has it open. */
void attend_unwanted(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Opens a closed lock whose time is over. */
void attend_opening(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Takes back idle locks when slots run short. */
void attend_reclaim(struct host *host, uint32_t space, struct host_actions *actions);

#endif
