/*
 * From the configuration to a loaded agent, and back: store, cores, session. Implemented in
 * run/start.c and run/start_store.c.
 *
 * Invariant: a start changes nothing in the store or in /dev/shm before it has the locks of the
 * folders, and nothing that a process holds unless the session before is over.
 */
#ifndef AGENT_RUN_START_H
#define AGENT_RUN_START_H

#include "agent.h"
#include "io/store.h"

/* Raises the limit of descriptors as far as the process may. To be called before the filter of
 * system calls. */
void agent_raise_limits(void);
/* Does all that is needed up to a loaded and adopted state, but starts nothing. Returns
 * AGENT_EXIT_OK, or the exit code with one line in agent->error. */
int agent_prepare(struct agent *agent) __attribute__((warn_unused_result));
/* If no other agent or client knows of the epoch that this start began, the next start begins the
 * same one. So a start that fails each time uses up none. The committer must have ended, and the
 * store must not be used afterwards. */
void agent_give_epoch_back(struct agent *agent);
/* From now on another agent or a client may know of the epoch. */
void agent_epoch_heard(struct agent *agent);
/* Takes the lock beside the socket anew, if somebody removed its file. On failure returns false
 * with one line in agent->error. */
bool agent_lock_socket_again(struct agent *agent) __attribute__((warn_unused_result));
/* The epoch of the session that this start adopted or began. */
uint32_t agent_epoch(const struct agent *agent);
/* The rules of the cell, as configured. */
const struct message_rules *agent_rules(const struct agent *agent);
/* Replaces this voter's store by an empty one that starts over (store_start_over()). kept
 * (STORE_KEPT_MAX bytes) receives the path of the old one. Called instead of agent_prepare(). */
int agent_start_over(struct agent *agent, char *kept) __attribute__((warn_unused_result));
/* Undoes agent_start_over() (store_undo_start_over()). */
int agent_undo_start_over(struct agent *agent, char *kept) __attribute__((warn_unused_result));
/* The identity that the store must have, from the configuration and the lease file. */
void agent_store_identity(const struct agent *agent, struct store_identity *identity);
/* Opens the lease file, the store and the folder in /dev/shm; fills in meta, left and boot_id.
 * Returns an AGENT_EXIT code: AGENT_EXIT_UNAVAILABLE also if regions of another layout are in use.
 */
int agent_open_store(struct agent *agent) __attribute__((warn_unused_result));
/* Closes and frees what agent_prepare() made. The store and the regions stay. */
void agent_release(struct agent *agent);

#endif
