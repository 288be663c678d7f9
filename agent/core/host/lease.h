/*
 * Lease: what the session means for all locks of this host.
 *
 * Rule (docs/PROTOCOL.md, 18): when the session is lost, no grant of it counts any more, and every
 * word is out of use before anything else is done. At each renewal the deadline is published in
 * every region, and one pass looks at all locks: those with waiters are attended to, and grants of
 * locks that no process has had open for long go back, so that their registers can be deleted.
 *
 * Invariants: after a loss no lock is granted, and no request is under way. A lost session stays
 * lost until the driver gives the host a session with another epoch.
 */
#ifndef HOST_LEASE_H
#define HOST_LEASE_H

#include "core/base/arena.h"
#include "hub.h"

struct lease;

struct lease *lease_lay_out(struct arena *arena, const struct host_config *config);
/* Takes over the lease of START, and starts to count how long grants are idle. */
void lease_start(struct host *host, const struct host_lease *lease);
/* Takes over a lease that was renewed, began anew, or was lost. */
void lease_changed(struct host *host, const struct host_lease *lease, struct host_actions *actions);
/* Looks at the words of all locks. Makes the agent attend to each lock that has waiters or a
 * pending OPEN, to each ADOPTED lock, and to some locks that no process has had open for long. */
void lease_mark_wanted(struct host *host);
/* For a slot whose region was given up: forgets how long its lock has been idle. */
void lease_leave(struct host *host, struct lock_ref at);

#endif
