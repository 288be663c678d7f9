/*
 * Lease: what the session means for all locks of this host.
 *
 * Rule (docs/PROTOCOL.md, 18): when the session is lost, nothing that was granted in it is granted
 * any more, and every word is out of use before anything else is done. While it is renewed, its
 * deadline is published in every region, and all locks are looked at once: those that somebody
 * waits for, and those that nobody has had open for long, which go back so that their registers can
 * be deleted.
 */
#ifndef HOST_LEASE_H
#define HOST_LEASE_H

#include "core/base/arena.h"
#include "hub.h"

struct lease;

struct lease *lease_lay_out(struct arena *arena, const struct host_config *config);
/* START: grants have been idle from now on. */
void lease_start(struct host *host, const struct host_lease *lease);
void lease_changed(struct host *host, const struct host_lease *lease, struct host_actions *actions);
/* Marks every lock that somebody waits for as to be looked at, and some that nobody has had open
 * for long. One pass over all locks. */
void lease_mark_wanted(struct host *host);
/* The lock's slot is left with its region. */
void lease_leave(struct host *host, struct lock_ref at);

#endif
