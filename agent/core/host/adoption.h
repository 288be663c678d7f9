/*
 * Adoption: this agent takes over what the agent before it left: regions, slots, grants, clients
 * that still live, and the requests that were under way.
 *
 * Rule: a region is believed in one thing only, what the words and cells of live clients say that
 * those clients hold. The store says which slot has which lock and which grants this host has; the
 * records of clients say which processes live. For each lock the order is this: the dead leave the
 * queue; dead readers and a dead holder lose their holds, and the lock closes behind them;
 * hand-overs that were under way are finished; then the grant is put in force and the queue served.
 *
 * In a cell of one host the own store knows which grants this host has. In a larger cell only a
 * majority knows: the locks are ADOPTED (grants.h), and the quorum is asked for those in use. The
 * same holds for a namespace that was begun anew in this session (regions.h).
 */
#ifndef HOST_ADOPTION_H
#define HOST_ADOPTION_H

#include "hub.h"

void adoption_start(struct host *host, struct host_actions *actions);

#endif
