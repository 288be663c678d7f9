/*
 * Merge: describes one lock for display, from the state of this host (look.h) and from the reports
 * of other hosts by gossip.
 *
 * Invariants: no decision depends on a merge. The state of this host is current. The reports of
 * other hosts may be old, and age_ns says how old. A lock is shown as held by one exclusive holder,
 * or by readers, or by nobody, whatever the hosts report. The report of another host is left out if
 * that host is silent or its session has ended.
 *
 * Of several exclusive holders, the holder with the highest token is shown. Tokens rise from hold
 * to hold (docs/PROTOCOL.md, rule 21). So every other holder has released or lost the lock, and the
 * report of that has not arrived here yet. Readers are shown if no exclusive holder has a higher
 * token than they have: their token is that of the last writer before them (rule 22).
 *
 * If several hosts have closed the lock, it is shown as closed after the hold whose lock-delay ends
 * last. If none has, but an administrator broke a hold without a lock-delay (behind.h), that hold
 * is shown, so that the lock does not look as if the holder had released it.
 */
#ifndef HOST_MERGE_H
#define HOST_MERGE_H

#include "hub.h"
#include "proto/gossip.h"

/* What this host and other hosts know about one lock. The texts in it point into the struct
 * itself. */
struct merged {
    struct hfi_lock_frame lock;
    struct hfi_party_frame parties[2 * HFI_FRAME_PARTIES_MAX]; /* holders, then waiters */
    char commands[HFI_FRAME_PARTIES_MAX][HFI_FRAME_COMMAND_MAX + 1];
    char notes[HFI_FRAME_PARTIES_MAX][HFI_FRAME_NOTE_MAX + 1];
    struct message_agent agents[2 * HFI_FRAME_PARTIES_MAX];
    struct hfi_behind_frame behind; /* lock.behind points to it, or is NULL */
    struct gossip_last last;
    uint32_t commands_used; /* of `commands` and of `notes` */
    uint32_t agents_used;
};

/* Describes the lock in *out. Writes the name of the lock's coordinator to *coordinator, and *out
 * points to it. coordinator is NULL if the caller does not want that name. */
void merge_lock(const struct host *host, const uint8_t *name, size_t size,
                struct message_agent *coordinator, struct merged *out);

#endif
