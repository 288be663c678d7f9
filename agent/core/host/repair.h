/*
 * Repair: corrects what a region has beside the words of its locks. In each session_ttl there are
 * five passes over each region, in pieces.
 *
 * The agent's own records decide, as for words (docs/PROTOCOL.md, rule 34; words.h). In the seat of
 * a living process, a wrong reader's cell, or a wrong position in the queue, may look like a right
 * one. Such a value stays until the process ends, or an administrator breaks the lock. No repair
 * takes anything from an honest process: docs/REGION.md says for each field why.
 *
 * Invariants: a pass writes only what the agent's own records say, so a second pass over an honest
 * region writes nothing. The work of one piece is bounded, whatever the region says.
 */
#ifndef HOST_REPAIR_H
#define HOST_REPAIR_H

#include "core/base/arena.h"
#include "hub.h"

struct repair;

struct repair *repair_lay_out(struct arena *arena);
/* Corrects all that the region has about the lock. */
void repair_lock(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Returns when the next piece of the pass is due. */
int64_t repair_due_ns(const struct host *host);
/* Does a piece of the pass over all locks. */
void repair_work(struct host *host, struct host_actions *actions);

#endif
