/*
 * The batches of the driver on their way into the store.
 */
#ifndef AGENT_DRIVER_DISK_H
#define AGENT_DRIVER_DISK_H

#include "agent.h"
#include "driver/driver.h"

/* From now on the store is the committer's, if there is one. */
bool disk_open(struct agent *agent) __attribute__((warn_unused_result));
/* Waits for the batch that is on its way. The store is the caller's again. */
void disk_close(struct agent *agent);
/* driver_operations.commit: arg is the agent. */
void disk_commit(void *arg, const struct driver_batch *batch);
/* Writes what is to be written behind the turn. false: another thread has the loop now, nothing of
 * the agent may be touched any more. */
bool disk_write(struct agent *agent) __attribute__((warn_unused_result));
/* Notifies the driver of the batch, if it is done. */
void disk_done(struct agent *agent);
/* A checkpoint of the store. */
void disk_idle(struct agent *agent);
/* At the end: flushes what can be flushed. */
void disk_settle(struct agent *agent);

/* ---- commits of the start, before there is a driver ---- */

/* Within a batch before the first one of this process's own: this voter's messages name no newer
 * commit than the one with which the store was opened, until it votes again. */
bool disk_keep_opened(struct agent *agent) __attribute__((warn_unused_result));
/* A commit of the start is durable. */
void disk_committed(struct agent *agent, uint64_t commit);

#endif
