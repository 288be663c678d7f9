/*
 * Attend: what a lock needs of the agent when its bell rang: its word is put right, a holder that
 * cannot hold goes, a grant is asked for, served or given back, watchers hear of it.
 *
 * It is the one way in for all that changed beside the agent; the modules above (burials, answers,
 * remote, repair, opens) end their own changes of a lock with attend_lock().
 */
#ifndef HOST_ATTEND_H
#define HOST_ATTEND_H

#include "hub.h"

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
