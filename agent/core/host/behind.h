/*
 * Behind: notes that say after whose hold a lock was closed for a lock-delay, or whose hold an
 * administrator broke without a lock-delay. They are for display only (docs/LOG.md, "Reasons").
 *
 * If this host closed the lock, the note names the hold that ended. If the session of another host
 * ended, the note names that host. The lock's coordinator counts that lock-delay, and reports it to
 * the hosts that wait for the lock or try it (struct message_refused). Gossip's last report names
 * the process that held the lock there.
 *
 * Invariants: no decision depends on these notes. There is room for BEHIND_MAX of them. Locks whose
 * names have the same hash, modulo that number, share one note, and a newer note replaces the older
 * one. A note names its lock, so it is not taken for the note of another lock. A note counts until
 * its lock-delay is over (without a lock-delay: for BEHIND_BROKEN_MS, so that whoever watches the
 * lock sees it), or until this host has the grant again.
 */
#ifndef HOST_BEHIND_H
#define HOST_BEHIND_H

#include "core/base/arena.h"
#include "hub.h"
#include "proto/gossip.h"

enum { BEHIND_MAX = 128, BEHIND_BROKEN_MS = 10000 };

struct behind;

struct behind_note {
    int64_t until_ns; /* the end of the lock-delay; if `open`: until when the note counts */
    int64_t at_ns;    /* when the hold ended; -1: not known */
    bool elsewhere;   /* a coordinator counts the lock-delay; this host has not closed the lock */
    bool open;        /* an administrator broke the hold, and no lock-delay followed */
    struct gossip_last last; /* its ended_ms is not set; at_ns is used instead */
};

struct behind *behind_lay_out(struct arena *arena);
/* Stores the note of that lock. It replaces an earlier one. */
void behind_keep(struct host *host, const struct message_name *name,
                 const struct behind_note *note);
/* Stores a note that the lock stays closed for closed_ms, because the session of `agent` has ended.
 * Adds the last report of that host by gossip. */
void behind_keep_elsewhere(struct host *host, const struct message_name *name,
                           const struct message_agent *agent, uint32_t closed_ms);
void behind_forget(struct host *host, const struct message_name *name);
/* Returns the note of that lock if it counts, else NULL. */
const struct behind_note *behind_find(const struct host *host, const uint8_t *name, size_t size);
/* Copies what the note says about the hold, and sets out->ended_ms. */
void behind_last(const struct host *host, const struct behind_note *note, struct gossip_last *out);

#endif
