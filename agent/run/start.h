/*
 * From the configuration to a loaded agent, and back: store, cores, session. See run/start.c and
 * run/start_store.c.
 */
#ifndef AGENT_RUN_START_H
#define AGENT_RUN_START_H

#include "agent.h"
#include "io/store.h"

/* As many descriptors as the process may have. Before the filter of system calls. */
void agent_raise_limits(void);
/* Everything up to a loaded and adopted state, not yet started. AGENT_EXIT_OK, or the exit code,
 * and agent->error is one line. */
int agent_prepare(struct agent *agent) __attribute__((warn_unused_result));
/* If nobody knows of the epoch that this start began, the next one begins it anew: a start that
 * fails each time uses up none. The store is not the committer's any more, nor is it used after. */
void agent_give_epoch_back(struct agent *agent);
/* Replaces this voter's store by an empty one that starts over (store_start_over()); kept (of
 * STORE_KEPT_MAX bytes) is where the old one is now. Instead of agent_prepare(). */
int agent_start_over(struct agent *agent, char *kept) __attribute__((warn_unused_result));
/* Takes that back (store_undo_start_over()). */
int agent_undo_start_over(struct agent *agent, char *kept) __attribute__((warn_unused_result));
/* The identity of the store, by the configuration and the lease file. */
void agent_store_identity(const struct agent *agent, struct store_identity *identity);
/* Opens the store, the lease file first; fills in meta, left and boot_id. An AGENT_EXIT code:
 * CONFIG also if regions of another layout are in use. Opens the folder in /dev/shm, too. */
int agent_open_store(struct agent *agent) __attribute__((warn_unused_result));
/* Closes and frees what agent_prepare() made; the store and the regions stay. */
void agent_release(struct agent *agent);

#endif
