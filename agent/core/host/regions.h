/*
 * Regions that are given up, and namespaces that are begun anew. The comment in regions.c says why
 * giving a region up takes no lock away too early.
 *
 * Invariant: a namespace whose region was given up is barred until no process can have a hold in
 * that region any more. As long as it is barred, no lock of it is opened, and this host sends no
 * request and no answer about its locks.
 */
#ifndef HOST_REGIONS_H
#define HOST_REGIONS_H

#include "hub.h"

/* Returns whether work is left for regions_work(). */
bool regions_are_left(const struct host *host);
/* Forgets, in pieces, what this host knows of the locks of regions that were given up. */
void regions_work(struct host *host, struct host_actions *actions);

#endif
