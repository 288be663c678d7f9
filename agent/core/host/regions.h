/*
 * Regions that are given up, and namespaces that are begun anew: why that takes no lock away too
 * early stands in regions.c.
 *
 * Invariant: a namespace whose region was given up is barred until no process can have anything
 * there any more; nothing of it is opened, asked for, or answered meanwhile.
 */
#ifndef HOST_REGIONS_H
#define HOST_REGIONS_H

#include "hub.h"

/* Leaves what was given up, bit by bit. */
bool regions_are_left(const struct host *host);
void regions_work(struct host *host, struct host_actions *actions);

#endif
