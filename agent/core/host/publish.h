/*
 * Publish: tells other hosts, by gossip, which processes of this host hold locks and wait for
 * locks.
 *
 * Processes take and free locks without a message to the agent, so the agent looks at the word of
 * every lock four times a second. It looks closer if the word has changed, or if the lock has
 * waiters or readers, because waiters and readers come and go without a change of the word.
 *
 * Invariants: only what people see depends on what is published. A lock that is in use is published
 * by the next pass, or by a later pass if gossip is full. What was published of a lock is withdrawn
 * when the lock is no longer in use, and before it loses its name. A pass goes in pieces, so that
 * no step takes long. A lock that is not in use and was not published costs only a look at its
 * word. If gossip knows no other agent, this agent publishes nothing.
 */
#ifndef HOST_PUBLISH_H
#define HOST_PUBLISH_H

#include "core/base/arena.h"
#include "hub.h"

struct publish;

struct publish *publish_lay_out(struct arena *arena, const struct host_config *config);
/* Does the next piece of the pass: publishes what has changed in some locks. */
void publish_work(struct host *host);
/* Returns when publish_work() is due. */
int64_t publish_due_ns(const struct host *host);
/* Makes the next pass look closely at the lock: what is shown of it has changed, and its word has
 * not. */
void publish_again(struct host *host, struct lock_ref at);
/* Withdraws what was published of the lock, which is about to lose its name. */
void publish_gone(struct host *host, struct lock_ref at);
/* For a slot whose region was given up: forgets what was published of its lock. */
void publish_leave(struct host *host, struct lock_ref at);

#endif
