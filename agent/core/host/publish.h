/*
 * Publish: gossip reports to other hosts which processes hold locks and wait for them here.
 *
 * Processes take and free locks without a message to the agent, so the agent looks. Four times a
 * second it looks at the word of every lock. It looks closer at a lock whose word has changed, or
 * that has waiters or readers, which come and go without a change of the word.
 *
 * Invariants: only what people see depends on what is published. A lock that is in use is published
 * within a pass, or in a later one if gossip is full. What was published of a lock is withdrawn
 * when the lock is no longer in use, and before it loses its name. A pass goes in pieces, so that
 * no step takes long; a lock that is not in use and was not published costs a look at its word.
 * While there is no other agent, the agent does not look.
 */
#ifndef HOST_PUBLISH_H
#define HOST_PUBLISH_H

#include "core/base/arena.h"
#include "hub.h"

struct publish;

struct publish *publish_lay_out(struct arena *arena, const struct host_config *config);
/* Publishes what has changed here, a bounded part at a time. */
void publish_work(struct host *host);
/* Returns when publish_work() is due. */
int64_t publish_due_ns(const struct host *host);
/* Withdraws what was published of the lock, which is about to lose its name. */
void publish_gone(struct host *host, struct lock_ref at);
/* For a slot whose region was given up: forgets what is known of it. */
void publish_leave(struct host *host, struct lock_ref at);

#endif
