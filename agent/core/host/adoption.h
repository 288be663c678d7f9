/*
 * Adoption: this agent takes over what the previous agent left: regions, slots, grants, clients
 * that still live, and the requests that were under way.
 *
 * Rule: a region is believed in one thing only, what the words and cells of live clients say that
 * those clients hold. The store says which slot has which lock and which grants this host has; the
 * records of clients say which processes live. For each lock the order is this: dead processes
 * leave the queue; dead readers and a dead holder lose their holds, and the lock closes behind
 * them; hand-overs that were under way are finished; then the grant is put in force and the queue
 * served.
 *
 * In a cell of one host the agent's own store knows which grants this host has. In a larger cell
 * only a majority of the voters knows: the locks are ADOPTED (grants.h), and the agent asks the
 * quorum for those in use. Locks of a namespace that was begun anew in this session are ADOPTED too
 * (regions.h).
 */
#ifndef HOST_ADOPTION_H
#define HOST_ADOPTION_H

#include "hub.h"

/* Adopts all of that. Called once, when the session starts. */
void adoption_start(struct host *host, struct host_actions *actions);

#endif
