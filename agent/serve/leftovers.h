/*
 * Leftovers: folders in /dev/shm that agents of this cell, name and user left there with another
 * store. The store was replaced (a new disk, an empty state_dir, `member rejoin`), so no agent
 * comes back for the folder, and its regions would take up room until the next boot.
 *
 * This agent removes a leftover when both of these hold:
 *
 *   No agent serves it. An agent has a flock() on its folder for as long as it lives
 *   (serve/memory.h), even while it is stopped (SIGSTOP). An agent that starts with the old store
 *   notices if its folder is removed at that moment, and makes a new one.
 *
 *   Its last session is over. The lease page has the deadline and the grace period. Neither a
 *   process nor an agent goes on with the session after these. To be sure, this agent also waits
 *   for three times the longest lock-delay that is noted. A session of an earlier boot is over. If
 *   the folder has no session, it must be unchanged for as long as any session of this cell lasts.
 *
 * The deadline is a time of the clock of one time namespace. An agent in another one leaves the
 * folder alone.
 *
 * Processes that still map a region keep it, and its memory, until they end: the files are removed,
 * and not emptied. They learn that the region is abandoned, as whenever an agent leaves a region.
 *
 * A first look orders the removal of the regions, and a later look that of the empty folder. All
 * calls that could wait for a lock in /dev/shm are made by io/remover.h. Only the loop's thread may
 * call these functions. Only leftovers_clear() waits.
 */
#ifndef AGENT_SERVE_LEFTOVERS_H
#define AGENT_SERVE_LEFTOVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent;

bool leftovers_create(struct agent *agent) __attribute__((warn_unused_result));
void leftovers_destroy(struct agent *agent);

/* Removes what may go now, before this agent makes regions. Waits for that, for a bounded time. The
 * caller has opened this agent's folder and its lease page. */
void leftovers_clear(struct agent *agent);

/* Adds to agent->error, after regions could not be made, how much room leftovers take. */
void leftovers_explain(struct agent *agent);

/* Goes on with the present look, and begins a new one once a minute, or when a leftover may go. */
void leftovers_look(struct agent *agent, int64_t now_ns);

struct leftovers_view {
    uint32_t count;   /* 0: nothing is left over, and the other fields are not set */
    uint64_t bytes;   /* the memory of all of them */
    int64_t first_ns; /* when the first may go, by CLOCK_BOOTTIME; INT64_MAX: it is not known */
    int64_t last_ns;  /* as first_ns, of the last one */
    char folder[200]; /* the path of one of them, the one that goes last */
};

/* Returns what the last look found and did not remove. */
struct leftovers_view leftovers_view(const struct agent *agent);

#endif
