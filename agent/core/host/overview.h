/*
 * Overview: the locks of the cell one by one, for the agent's status page.
 *
 * Invariants: an overview changes nothing, and only what people see depends on it. It shows the
 * locks of all namespaces, so the caller decides what of it may be shown to whom. What it shows of
 * a lock is what a merge shows (merge.h), counted for each host.
 *
 * core/host.h declares its function, host_overview_next().
 */
#ifndef HOST_OVERVIEW_H
#define HOST_OVERVIEW_H

#include "hub.h"

#endif
