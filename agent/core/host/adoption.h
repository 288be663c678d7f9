/*
 * Adoption: this agent takes over what the previous agent left: regions, slots, grants, clients
 * that still live, and the requests that were under way.
 *
 * Rule 32 (docs/PROTOCOL.md): the agent takes one thing only from a region: the holds of live
 * clients, as words and cells show them. The store says which slot has which lock, and which grants
 * this host has. The client records say which processes live (rule 33). Each lock is adopted in
 * this order: dead processes leave the queue; dead readers and a dead holder lose their holds, and
 * the lock closes behind them; hand-overs that were under way are finished; then the grant is put
 * in force, and the queue is served.
 *
 * In a cell of one voter the agent's own store knows which grants this host has. In a larger cell
 * only a majority of the voters knows that. So the locks are ADOPTED (grants.h), and the agent asks
 * the quorum for the grants of the locks that are in use. Locks of a namespace that was begun anew
 * in this session are ADOPTED too (regions.h).
 *
 * Invariants: no hold begins under a grant that the quorum has not confirmed. A hold of a live
 * client outlasts the change of agents if its grant does.
 */
#ifndef HOST_ADOPTION_H
#define HOST_ADOPTION_H

#include "hub.h"

/* Adopts what the previous agent left. Called once, when the session starts. */
void adoption_start(struct host *host, struct host_actions *actions);

#endif
