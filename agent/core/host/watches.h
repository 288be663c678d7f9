/*
 * Watches: which clients want to be notified of changes of which names. This module also sends the
 * notifications.
 *
 * The word of a watched lock has the bit HFI_W_WATCHED, which makes each process that changes the
 * word ring. Changes are noted as bits and reported in pieces, so that many watchers or many
 * changes never fill a step. If a lock changes several times before it is reported, it is reported
 * once. A watcher that does not read its socket misses changes. Later it gets one CHANGED with an
 * empty name, and has to look at everything.
 *
 * When a watch ends, the bits in the words stay. A lock without watches loses its bit at its next
 * change. If the bits were cleared at once, each watch of a dying process would cost a walk over
 * all locks.
 *
 * Invariant: a client that watches is connected. One user other than root has at most half of the
 * watches.
 */
#ifndef HOST_WATCHES_H
#define HOST_WATCHES_H

#include "core/base/arena.h"
#include "hub.h"

struct watches;

struct watches *watches_lay_out(struct arena *arena, const struct host_config *config);

/* Begins a watch of all names with that prefix. Returns an error, or 0. */
int32_t watch_add(struct host *host, uint32_t client, const struct hfi_text *prefix);
/* Ends the client's watch of exactly that prefix, if it has one. */
void watch_end(struct host *host, uint32_t client, const struct hfi_text *prefix);
/* Ends all watches of the client. */
void watch_drop(struct host *host, uint32_t client);
/* Returns whether any client watches this name. */
bool watch_is_on(const struct host *host, uint32_t space, const uint8_t *name, size_t size);
uint32_t watches_count(const struct host *host);

/* Notes that the lock has changed, so that its watchers, if there are any, are notified. */
void watch_changed(struct host *host, struct lock_ref at);
/* Call it before the lock loses its slot, because the slot's noted change is lost with it. If some
 * watchers were not notified of that change yet, makes all watchers look at everything. */
void watch_slot_goes(struct host *host, struct lock_ref at);
/* Handles a ring of a lock whose word has HFI_W_WATCHED. Notes the change. If no client watches the
 * lock any more, clears the bit instead. */
void watch_ring_arrived(struct host *host, struct lock_ref at);
/* For a region that was given up: forget the noted changes of one slot, or of the namespace. */
void watch_lock_left(struct host *host, struct lock_ref at);
void watches_space_left(struct host *host, uint32_t space);

/* Returns whether notifications are left for watches_work(). */
bool watches_are_left(const struct host *host);
/* Sends notifications, as long as the step has room. */
void watches_work(struct host *host, struct host_actions *actions);
/* Begins a new tick, in which watches_work() may send its full number of notifications again. */
void watches_tick(struct host *host);
/* Notifies a client that it missed changes. */
void watch_lagged(struct host *host, uint32_t client, struct host_actions *actions);

void watches_check(const struct host *host);

#endif
