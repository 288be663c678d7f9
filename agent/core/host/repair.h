/*
 * Repair: what a region says beside the locks' words is put right, too, and all of it is looked at
 * in a pass, five times in each session_ttl, in pieces.
 *
 * The agent's own numbers count, as for the word (words.h). What cannot be told from the truth
 * stays for as long as the process lives in whose name it is: a reader's cell or a place in the
 * queue in such a handle's seat. An administrator's break ends these. Nothing is taken from an
 * honest process: docs/REGION.md says of each field why not.
 */
#ifndef HOST_REPAIR_H
#define HOST_REPAIR_H

#include "core/base/arena.h"
#include "hub.h"

struct repair;

struct repair *repair_lay_out(struct arena *arena);
/* Puts right all that the region says of the lock. */
void repair_lock(struct host *host, struct lock_ref at, struct host_actions *actions);
int64_t repair_due_ns(const struct host *host);
/* A piece of the pass over all locks. */
void repair_work(struct host *host, struct host_actions *actions);

#endif
