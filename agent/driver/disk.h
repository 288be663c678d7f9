/*
 * The batches of the driver on their way into the store.
 *
 * At most one batch is on its way. While one is, the store is the committer's, and nobody else may
 * touch it. Only the thread that has the loop makes these calls.
 */
#ifndef AGENT_DRIVER_DISK_H
#define AGENT_DRIVER_DISK_H

#include "agent.h"
#include "driver/driver.h"

/* Gives the store to the committer, if there is one. disk_close() must be called later, whatever
 * this returns. */
bool disk_open(struct agent *agent) __attribute__((warn_unused_result));
/* Waits for the batch that is being written. The store is the caller's again. */
void disk_close(struct agent *agent);
/* driver_operations.commit: arg is the agent. */
void disk_commit(void *arg, const struct driver_batch *batch);
/* Sets whether the loop's own thread may write batches. It may if the loop can go on in another
 * thread meanwhile (agent_loop()). */
void disk_may_write(struct agent *agent, bool may);
/* Returns whether a batch was kept for the end of the turn. */
bool disk_has_batch(const struct agent *agent);
/* Writes the batch that was kept for the end of the turn. Returns false if another thread runs the
 * loop now; then nothing of the agent may be touched any more. */
bool disk_write(struct agent *agent) __attribute__((warn_unused_result));
/* After disk_write() returned false: waits until the loop has ended on the other thread. */
void disk_stand_by(struct agent *agent);
/* Notifies the driver if the batch is durable. */
void disk_done(struct agent *agent);
/* Makes a checkpoint of the store, if it is time. */
void disk_idle(struct agent *agent);
/* At the end: flushes what can be flushed. */
void disk_settle(struct agent *agent);

/* For display: how long batches took, and when the one on its way began (0: there is none). */
const struct recent *disk_took(const struct agent *agent);
int64_t disk_begun_ns(const struct agent *agent);

/* ---- commits during the start, before there is a driver ---- */

/* Call it within a batch, before the first commit of this process. Until this voter votes again,
 * its messages then report no newer commit than the one with which the store was opened. */
bool disk_keep_opened(struct agent *agent) __attribute__((warn_unused_result));
/* A commit during the start is durable. */
void disk_committed(struct agent *agent, uint64_t commit);

#endif
