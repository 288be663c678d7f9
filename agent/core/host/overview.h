/*
 * Overview: the locks of the cell one by one, for the agent's status page.
 *
 * Invariants: an overview changes nothing, and no decision depends on it. It lists the locks of all
 * namespaces, so the caller decides which of them may be shown to whom. For each lock it counts,
 * host by host, the holders and waiters that a merge shows (merge.h).
 *
 * core/host.h declares its function, host_overview_next().
 */
#ifndef HOST_OVERVIEW_H
#define HOST_OVERVIEW_H

#include "hub.h"

#endif
