/*
 * Publish: other hosts are told, by way of gossip, who holds and who waits here.
 *
 * Processes take and free locks without a word to the agent, so it looks: four times a second at
 * every lock's word, and closer at those that are not as they were, or that have waiters or
 * readers (who come and go beside the word). A pass goes in pieces, so that no step takes long. A
 * lock that nobody uses and of which nothing was published costs the look at its word. When there
 * is no other agent nothing is looked at.
 */
#ifndef HOST_PUBLISH_H
#define HOST_PUBLISH_H

#include "core/base/arena.h"
#include "hub.h"

struct publish;

struct publish *publish_lay_out(struct arena *arena, const struct host_config *config);
/* Publishes what has changed here, a bounded part at a time. */
void publish_work(struct host *host);
int64_t publish_due_ns(const struct host *host);
/* The name of a lock goes. */
void publish_gone(struct host *host, struct lock_ref at);
/* The lock's slot is left with its region. */
void publish_leave(struct host *host, struct lock_ref at);

#endif
