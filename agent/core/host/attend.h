/*
 * Attend: what the agent does when it looks at a lock. It puts the lock's word right, takes the
 * hold from a holder that cannot hold the lock, asks for a grant, serves the grant or gives it
 * back, and notifies watchers.
 *
 * attend_lock() finds what processes have changed by themselves. The modules above this one
 * (burials, answers, remote, repair, opens) call it after their own changes of a lock.
 *
 * Rule 12 (docs/PROTOCOL.md): only a grant opens a lock's word. So attend_lock() puts the word
 * right before it does anything else.
 *
 * Invariants: attend_lock() decides from what the lock and its word are now, not from what a
 * process said. So one call too many does no harm, and the next call makes up for a lost one. A
 * slot without a name is left alone.
 */
#ifndef HOST_ATTEND_H
#define HOST_ATTEND_H

#include "core/base/arena.h"
#include "hub.h"

struct attend;

struct attend *attend_lay_out(struct arena *arena);
/* For a namespace whose region was given up: forgets what this module knows of its slots. */
void attend_leave(struct host *host, uint32_t space);

void attend_lock(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Return whether a process waits for the lock's grant. attend_word_is_awaited() looks at the word
 * and the queue. attend_is_awaited() also counts pending OPENs. */
bool attend_word_is_awaited(const struct host *host, struct lock_ref at);
bool attend_is_awaited(const struct host *host, struct lock_ref at);
/* For a lock whose grant is back with the quorum. Asks for the grant if a process waits for it;
 * otherwise frees the slot if no process has it open. */
void attend_unwanted(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Opens a closed lock whose lock-delay is over. */
void attend_opening(struct host *host, struct lock_ref at, struct host_actions *actions);
/* If the namespace has few free slots left, takes slots from idle locks. */
void attend_reclaim(struct host *host, uint32_t space, struct host_actions *actions);

#endif
