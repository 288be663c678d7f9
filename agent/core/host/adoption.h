/*
 * Adoption: taking over what the agent before this one left: regions, slots, grants, clients that
 * still live, and what it waited for.
 *
 * Nothing is believed of a region but that live clients' words and cells say what those clients
 * hold. Which slot is which lock, which grants this host has, and which processes live come from
 * elsewhere (the store, the records of clients). The order for each lock: the dead leave the queue,
 * then dead readers and a dead holder go (the lock closes behind them), then hand-overs that were
 * under way are finished, then the grant is put in force and the queue is served.
 *
 * In a cell of one host, which grants this host has is in its own store. In a larger one only a
 * majority knows: the locks are ADOPTED (grants.h), and the quorum is asked for those in use. So it
 * is with a namespace that was begun anew in this session (regions.h).
 */
#ifndef HOST_ADOPTION_H
#define HOST_ADOPTION_H

#include "hub.h"

void adoption_start(struct host *host, struct host_actions *actions);

#endif
