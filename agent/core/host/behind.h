/*
 * Behind: behind whom locks are closed for a lock-delay, for people (docs/LOG.md, "Reasons").
 *
 * A closing of this host has the hold that ended. A closing elsewhere has the host whose session
 * ended: the lock's coordinator counts that lock-delay, and tells it to the hosts that wait for the
 * lock or try it (struct message_refused). The host takes the process that held the lock there from
 * what gossip last reported.
 *
 * Invariants: only what people see depends on these notes. There is room for BEHIND_MAX of them;
 * the locks whose names have the same hash, modulo that number, share one note, and the last one
 * has it. A note names its lock, so it is not taken for the note of another lock. A note counts
 * until its lock-delay is over, or until this host has the grant again.
 */
#ifndef HOST_BEHIND_H
#define HOST_BEHIND_H

#include "core/base/arena.h"
#include "hub.h"
#include "proto/gossip.h"

enum { BEHIND_MAX = 128 };

struct behind;

struct behind_note {
    int64_t until_ns; /* the end of the lock-delay */
    int64_t at_ns;    /* when the hold ended; -1: not known */
    bool elsewhere;   /* a coordinator counts the lock-delay; this host has not closed the lock */
    struct gossip_last last; /* without ended_ms, for which at_ns stands */
};

struct behind *behind_lay_out(struct arena *arena);
/* Keeps the note of that lock, in place of an earlier one. */
void behind_keep(struct host *host, const struct message_name *name,
                 const struct behind_note *note);
/* Keeps a note that the lock stays closed for closed_ms, because the session of `agent` has ended.
 * Adds what gossip last reported of that host. */
void behind_keep_elsewhere(struct host *host, const struct message_name *name,
                           const struct message_agent *agent, uint32_t closed_ms);
void behind_forget(struct host *host, const struct message_name *name);
/* Returns the note of that lock if its lock-delay is not over, else NULL. */
const struct behind_note *behind_find(const struct host *host, const uint8_t *name, size_t size);
/* Copies what the note says about the hold, and sets out->ended_ms. */
void behind_last(const struct host *host, const struct behind_note *note, struct gossip_last *out);

#endif
