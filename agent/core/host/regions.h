/*
 * Regions that are given up, and namespaces that are begun anew. The comment in regions.c says why
 * giving a region up takes no lock away too early.
 *
 * Invariant: a namespace whose region was given up is barred until no process can hold anything
 * there any more. Until then nothing of it is opened, asked for, or answered.
 */
#ifndef HOST_REGIONS_H
#define HOST_REGIONS_H

#include "hub.h"

/* Returns whether work is left for regions_work(). */
bool regions_are_left(const struct host *host);
/* Forgets, in pieces, what is known of the locks of regions that were given up. */
void regions_work(struct host *host, struct host_actions *actions);

#endif
