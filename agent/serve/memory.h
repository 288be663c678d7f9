/*
 * What the agent has in /dev/shm: one folder of its own, with the lease page and the regions. Only
 * the loop's thread may call these functions. memory_open() and memory_is_reached() wait, for a
 * bounded time (io/remover.h); the other functions do not.
 *
 * Only the agent's user may enter the folder (0700). Its name stays the same for the life of the
 * store. From memory_open() to memory_close() the agent has a flock() on the folder, so that an
 * agent with another store does not take the folder for a leftover (serve/leftovers.h).
 */
#ifndef AGENT_SERVE_MEMORY_H
#define AGENT_SERVE_MEMORY_H

#include "agent.h"
#include "io/remover.h"

/* Opens the folder, and makes it if it is missing. Returns AGENT_EXIT_OK, or an exit code with one
 * line in agent->error. */
int memory_open(struct agent *agent) __attribute__((warn_unused_result));

void memory_close(struct agent *agent);
/* Returns the folder's descriptor; -1: it is not open. */
int memory_fd(const struct agent *agent);
/* Returns the folder's name in /dev/shm, with a slash before it. Valid after memory_open(). */
const char *memory_folder(const struct agent *agent);

/* Returns whether `name` is that of the folder of a region, in any namespace. */
bool memory_is_region(const char *name);

/* Returns whether that region can be mapped and touched. Returns false if a client makes each touch
 * of it wait. */
bool memory_is_reached(struct agent *agent, uint32_t space, uint64_t incarnation, uint64_t size)
    __attribute__((warn_unused_result));

/* Returns whether this agent has the region of that name open. space: HOST_NAMESPACES_MAX if the
 * namespace is not configured. */
typedef bool memory_is_open_fn(const struct agent *agent, uint32_t space, const char *own_name);
/* Orders the removal of all regions in the folder that this agent does not have open. kind:
 * REMOVER_FOLDER, or REMOVER_EMPTIED if no process can hold a lock in them. */
void memory_remove_stale(struct agent *agent, enum remover_kind kind, memory_is_open_fn *is_open);

/* memory_remove() orders the removal of a region's folder. memory_remove_flat() orders the removal
 * of a region's file that a row of an older release names. */
void memory_remove(struct agent *agent, uint32_t space, enum remover_kind kind,
                   const char *own_name);
void memory_remove_flat(struct agent *agent, const char *shm_name);

/* Returns whether the name, from a row of the store, is that of an older release, whose regions
 * were files without a folder. */
bool memory_is_flat(const char *shm_name);

/* Returns whether REMOVER_PER_SPACE or more removals of the namespace's regions are not done
 * yet. */
bool memory_is_stuck(const struct agent *agent, uint32_t space);

#endif
