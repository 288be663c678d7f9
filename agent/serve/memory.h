/*
 * What the agent has in /dev/shm: one folder of its own, in which the lease page and the regions
 * are. The thread of the loop does all of it, and none of it waits: io/remover.h.
 */
#ifndef AGENT_SERVE_MEMORY_H
#define AGENT_SERVE_MEMORY_H

#include "agent.h"
#include "io/remover.h"

/* Opens the folder, makes it if it is not there. AGENT_EXIT_OK, or the exit code, and agent->error
 * is one line. */
int memory_open(struct agent *agent) __attribute__((warn_unused_result));

/* Has all regions in it removed that are not open here. kind: REMOVER_FOLDER, or REMOVER_EMPTIED if
 * nobody can hold anything in them. */
void memory_sweep(struct agent *agent, enum remover_kind kind);

/* Has that region's folder removed, or what a store's row says that a release before had. */
void memory_remove(struct agent *agent, uint32_t space, enum remover_kind kind,
                   const char *own_name);
void memory_remove_flat(struct agent *agent, const char *shm_name);

/* Whether a name that a store's row has is of a release before. */
bool memory_is_flat(const char *shm_name);

/* Whether as many of that namespace's regions as may be wait to be removed. */
bool memory_is_stuck(const struct agent *agent, uint32_t space);

#endif
