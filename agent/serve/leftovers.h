/*
 * Leftovers: folders in /dev/shm that earlier agents left there. Such an agent had the cell, name
 * and user of this agent, but another store. That store was replaced (a new disk, an empty
 * state_dir, `member rejoin`). So no agent uses the folder again, and its regions would take up
 * room until the next boot.
 *
 * This agent removes a leftover when both of these hold:
 *
 *   No agent serves it. An agent has a flock() on its folder for as long as it lives
 *   (serve/memory.h), even while it is stopped (SIGSTOP). If an agent starts with the old store
 *   after all, and its folder is removed at that moment, it notices this and makes a new folder.
 *
 *   Its last session is over. The lease page has the deadline and the grace period. After both,
 *   neither a process nor an agent continues the session. To be sure, this agent waits for another
 *   three times the longest lock-delay that is noted there. A session from before the last boot is
 *   over. If the folder has no session, it must have been unchanged for as long as any session of
 *   this cell can last.
 *
 * The deadline was measured in one time namespace. An agent in another time namespace leaves the
 * folder alone.
 *
 * Processes that still map a region keep it, and its memory, until they end: the files are removed,
 * and not emptied. These processes notice that the region is abandoned, as they do whenever an
 * agent abandons a region.
 *
 * A first look at a folder orders the removal of its regions. A later look orders the removal of
 * the empty folder. The helper process (io/remover.h) makes all calls that could wait for a lock in
 * /dev/shm. Only the loop's thread may call these functions. Only leftovers_clear() waits.
 */
#ifndef AGENT_SERVE_LEFTOVERS_H
#define AGENT_SERVE_LEFTOVERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent;

bool leftovers_create(struct agent *agent) __attribute__((warn_unused_result));
void leftovers_destroy(struct agent *agent);

/* Removes the leftovers that may be removed now. Waits for that, for a bounded time. Called before
 * this agent makes its regions, and after it has opened its folder and its lease page. */
void leftovers_clear(struct agent *agent);

/* Called after the regions could not be made: adds to agent->error how much room leftovers take. */
void leftovers_explain(struct agent *agent);

/* Continues the present look. Begins a new one once a minute, or when a leftover may be removed. */
void leftovers_look(struct agent *agent, int64_t now_ns);

struct leftovers_view {
    uint32_t count;   /* 0: there are no leftovers, and the other fields are not set */
    uint64_t bytes;   /* the memory of all leftovers */
    int64_t first_ns; /* when the first leftover may be removed, by CLOCK_BOOTTIME; INT64_MAX:
                       * not known */
    int64_t last_ns;  /* when the last leftover may be removed */
    char folder[200]; /* the path of the leftover that is removed last */
};

/* Returns the leftovers that the last look found and did not remove. */
struct leftovers_view leftovers_view(const struct agent *agent);

#endif
