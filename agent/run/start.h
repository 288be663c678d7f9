/*
 * Leads from the configuration to a loaded agent: store, cores, session. agent_release() frees what
 * a start has made. Implemented in run/start.c and run/start_store.c.
 *
 * Invariants: a start changes nothing in the store or in /dev/shm before it has locked the folders.
 * It ends holds only if the previous session is over.
 */
#ifndef AGENT_RUN_START_H
#define AGENT_RUN_START_H

#include "agent.h"
#include "io/store.h"

enum { AGENT_KEPT_MAX = 4096 }; /* how many requests the host core notes for the next agent */

/* Raises the limit of descriptors as far as the process may. Called before the filter of system
 * calls is on, because the filter forbids raising it. */
void agent_raise_limits(void);
/* Prepares everything up to a loaded and adopted state, but starts nothing. Returns AGENT_EXIT_OK,
 * or an exit code with one line in agent->error. */
int agent_prepare(struct agent *agent) __attribute__((warn_unused_result));
/* Makes the next start begin the same epoch, if no other agent and no client knows of the epoch
 * that this start began. So a start that fails each time uses up no epochs. The committer must have
 * ended, and the store must not be used afterwards. */
void agent_give_epoch_back(struct agent *agent);
/* Notes that another agent or a client may know of the epoch from now on. */
void agent_epoch_known(struct agent *agent);
/* If somebody removed the lock file beside the socket, makes and locks it again. On failure returns
 * false with one line in agent->error. */
bool agent_lock_socket_again(struct agent *agent) __attribute__((warn_unused_result));
/* Returns the epoch of the session that this start adopted or began. */
uint32_t agent_epoch(const struct agent *agent);
/* Logs how the session begins. why: the reason why the previous session does not continue; NULL: it
 * continues. */
void agent_log_start(const struct agent *agent, const char *why);
/* For struct driver_operations: makes a quorum core that learns. arg is the agent, an observer
 * whose store has no rows of a quorum core. Returns NULL if it cannot; the log says why. */
struct quorum *agent_learn(void *arg);
/* Returns the rules of the cell, as configured. */
const struct message_rules *agent_rules(const struct agent *agent);
/* Locks and opens the folders, and reads the lease file: for a program that works on the store
 * while the agent is stopped. Called instead of agent_prepare(). */
int agent_open_folders(struct agent *agent) __attribute__((warn_unused_result));
/* Writes the identity that the store must have, from the configuration and the lease file. */
void agent_store_identity(const struct agent *agent, struct store_identity *identity);
/* Opens the lease file, the store and the folder in /dev/shm; fills in meta, left and boot_id.
 * Returns an AGENT_EXIT code, which is AGENT_EXIT_UNAVAILABLE if regions of another layout are in
 * use. */
int agent_open_store(struct agent *agent) __attribute__((warn_unused_result));
/* Opens the lease page, which has the deadline, the kept requests and the lock-delays. Its size
 * does not depend on the configuration, so an agent with a changed configuration still finds
 * everything. */
int agent_open_lease_page(struct agent *agent) __attribute__((warn_unused_result));
/* Closes and frees everything that agent_prepare() made. The files of the store and of the regions
 * stay. */
void agent_release(struct agent *agent);

#endif
