/*
 * Repair: corrects a region outside the words of its locks. In each session_ttl there are five
 * passes over each region, in pieces.
 *
 * As for words (docs/PROTOCOL.md, rule 34; words.h), the agent's own numbers decide. In the seat of
 * a handle whose process lives, a reader's cell or the seat's position in the queue may be wrong in
 * a way that the agent cannot distinguish from the truth. Such a value stays until that process
 * ends, or an administrator breaks the lock. An honest process loses nothing: docs/REGION.md says
 * for each field why.
 */
#ifndef HOST_REPAIR_H
#define HOST_REPAIR_H

#include "core/base/arena.h"
#include "hub.h"

struct repair;

struct repair *repair_lay_out(struct arena *arena);
/* Corrects all parts of the region that are about the lock. */
void repair_lock(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Returns when the next piece of the pass is due. */
int64_t repair_due_ns(const struct host *host);
/* Does a piece of the pass over all locks. */
void repair_work(struct host *host, struct host_actions *actions);

#endif
