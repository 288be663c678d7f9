/*
 * The driver's batches and their way into the store.
 *
 * At most one batch is being written. Meanwhile the store belongs to the committer, and nobody else
 * may touch it. Only the thread that runs the loop makes these calls.
 */
#ifndef AGENT_DRIVER_DISK_H
#define AGENT_DRIVER_DISK_H

#include "agent.h"
#include "driver/driver.h"

/* Gives the store to the committer, if there is one. disk_close() must be called later, even if
 * disk_open() returns false. */
bool disk_open(struct agent *agent) __attribute__((warn_unused_result));
/* Waits for the batch that is being written. Afterwards the caller may use the store again. */
void disk_close(struct agent *agent);
/* The function for driver_operations.commit: arg is the agent. */
void disk_commit(void *arg, const struct driver_batch *batch);
/* Sets whether the loop's own thread may write batches. The caller allows it only while another
 * thread can take the loop over if a write gets stuck (agent_loop()). */
void disk_may_write(struct agent *agent, bool may);
/* Returns whether a batch was kept for the end of the turn. */
bool disk_has_batch(const struct agent *agent);
/* Writes the batch that was kept for the end of the turn. Returns false if another thread runs the
 * loop now. In that case the caller must not touch anything of the agent any more. */
bool disk_write(struct agent *agent) __attribute__((warn_unused_result));
/* Called after disk_write() returned false: waits until the loop has ended on the other thread. */
void disk_stand_by(struct agent *agent);
/* Makes a checkpoint of the store if one is due. */
void disk_idle(struct agent *agent);
/* Opens the committer if the only voter of a cell has become one of several. Called in each turn,
 * at a moment when no batch is being written within the turn. */
void disk_follow_record(struct agent *agent);
/* Arranges that piece(arg) is called once, while nothing else uses the store, and then done(arg) on
 * the loop's thread. Without a committer this calls both at once. The previous piece must be done.
 * If the agent ends meanwhile, done() is never called. */
void disk_piece(struct agent *agent, void (*piece)(void *arg), void (*done)(void *arg), void *arg);
/* Called at the agent's end: writes the batches that are left, as far as possible. */
void disk_settle(struct agent *agent);

/* For display: how long batches took, and when the present one began (0: none is being written). */
const struct recent *disk_took(const struct agent *agent);
int64_t disk_begun_ns(const struct agent *agent);

/* ---- commits during the start, before there is a driver ---- */

/* Called within a batch, before the first commit of this process. Adds to the batch the commit that
 * the store had when it was opened: this agent reports no newer one until its store votes. */
bool disk_keep_opened(struct agent *agent) __attribute__((warn_unused_result));
/* Called when a commit during the start is durable: notes its number. */
void disk_committed(struct agent *agent, uint64_t commit);

#endif
