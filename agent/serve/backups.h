/*
 * Backups of this voter's store, for `holdfast member backup`.
 *
 * The agent copies the store into a file in its state_dir, a few pages at a time, between batches
 * (driver/disk.h). Then a separate thread checks the copy for damage (io/store.h). The client
 * repeatedly asks for the progress of the backup, and finally gets a descriptor of the copy. The
 * file has lost its name by then, so nothing is left if the client or the agent dies. There is one
 * backup at a time, which belongs to one connection. The backup is dropped if its client does not
 * ask for a while.
 */
#ifndef AGENT_SERVE_BACKUPS_H
#define AGENT_SERVE_BACKUPS_H

#include <stddef.h>
#include <stdint.h>

#include "agent.h"

/* On failure returns NULL. */
struct backups *backups_create(struct agent *agent) __attribute__((warn_unused_result));
/* Called before the loop is closed: waits for the thread. NULL is allowed. */
void backups_shut(struct backups *backups);
/* Drops the backup that is under way. Called after disk_close(), while the store is open. NULL is
 * allowed. */
void backups_destroy(struct backups *backups);

/* The answer to a client: `bytes` (HFI_FRAME_MAX) receives the frame. */
struct backups_answer {
    size_t size;
    int fd; /* the copy, which the caller closes; -1: there is none yet */
};
/* Begins a backup for that connection, or reports its progress. */
struct backups_answer backups_ask(struct backups *backups, uint32_t connection, uint64_t request,
                                  unsigned char *bytes) __attribute__((warn_unused_result));

#endif
