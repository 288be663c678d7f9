/*
 * Listing: the names of locks in byte order, for listings page by page. The names of this host's
 * locks are indexed here. The names of other hosts' locks come from gossip.
 *
 * Invariant: the index has exactly the locks that have a name, and a name does not change while it
 * is in the index. A client sees no name of a namespace that its user may not use.
 */
#ifndef HOST_LISTING_H
#define HOST_LISTING_H

#include "core/base/arena.h"
#include "hub.h"

struct listing;

/* In place of a client: the agent itself, which sees the names of all namespaces. */
#define LISTING_AGENT (NONE - 1)

struct listing *listing_lay_out(struct arena *arena, const struct host_config *config);
void listing_init(struct host *host);
/* Adds a lock that has just got its name and its slot. */
void listing_add(struct host *host, struct lock_ref at);
/* Removes a lock that is about to lose its name and its slot. */
void listing_remove(struct host *host, struct lock_ref at);
/* Sets *out to the first name behind `after`, on any host, that the LIST asks for and that this
 * client may see. Returns false if there is none. */
bool listing_next(const struct host *host, uint32_t client, const struct hfi_list *list,
                  const struct message_name *after, struct message_name *out);
/* Checks the index. `named` is the number of locks that have a name. */
void listing_check(const struct host *host, uint32_t named);

#endif
