/*
 * Merge: one lock as people see it, from what this host knows (look.h) and what gossip reports of
 * other hosts.
 *
 * Invariants: only what people see depends on a merge. This host's part is as of now; the others'
 * part may be old, and age_ns says how old. A lock is shown as held by one exclusive holder, or by
 * readers, or by nobody, whatever the hosts report. What another host reports is left out if that
 * host is silent or its session has ended.
 *
 * Of several exclusive holders the one with the highest token is shown. Tokens rise from hold to
 * hold (docs/PROTOCOL.md, rule 21), so every other holder has released or lost the lock, and the
 * report of that has not arrived here yet. Readers are shown if no exclusive token is above theirs:
 * their token is that of the last writer before them (rule 22).
 */
#ifndef HOST_MERGE_H
#define HOST_MERGE_H

#include "hub.h"

/* The knowledge of this host and of others about one lock. Its texts point into itself. */
struct merged {
    struct hfi_lock_frame lock;
    struct hfi_party_frame parties[2 * HFI_FRAME_PARTIES_MAX]; /* holders, then waiters */
    char commands[HFI_FRAME_PARTIES_MAX][HFI_FRAME_COMMAND_MAX + 1];
    struct message_agent agents[2 * HFI_FRAME_PARTIES_MAX];
    uint32_t commands_used;
    uint32_t agents_used;
};

/* Sets *out to what is known of the lock. The name of the lock's coordinator is written to
 * *coordinator, which the caller provides; *out points to it. */
void merge_lock(const struct host *host, const uint8_t *name, size_t size,
                struct message_agent *coordinator, struct merged *out);

#endif
