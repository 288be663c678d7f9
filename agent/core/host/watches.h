/*
 * Watches: which clients want to hear of changes of which names, and telling them.
 *
 * A watched lock has a bit in its word that makes every change ring. Changes are noted as
 * bits and told bit by bit, so that many watchers or many changes never fill a step; two changes
 * of one lock in between are told as one. A watcher that does not read misses changes and is then
 * sent one CHANGED with an empty name: it has to look at everything.
 *
 * A watch that ends leaves the bits: a lock that nobody watches loses its bit when it changes next.
 * To look for them at once would be a walk through all locks for each watch of a process that dies.
 *
 * Invariant: a client that watches is connected; one user other than root has at most half of the
 * watches.
 */
#ifndef HOST_WATCHES_H
#define HOST_WATCHES_H

#include "core/base/arena.h"
#include "hub.h"

struct watches;

struct watches *watches_lay_out(struct arena *arena, const struct host_config *config);

int32_t watch_add(struct host *host, uint32_t client, const struct hfi_text *prefix);
/* Ends the client's watch of exactly that prefix, if it has one. */
void watch_end(struct host *host, uint32_t client, const struct hfi_text *prefix);
/* Ends all watches of the client. */
void watch_drop(struct host *host, uint32_t client);
/* Whether anybody watches this name. */
bool watch_is_on(const struct host *host, uint32_t space, const uint8_t *name, size_t size);
uint32_t watches_count(const struct host *host);

/* The lock has changed: somebody may watch it. */
void watch_changed(struct host *host, struct lock_ref at);
/* The lock is about to lose its slot. A change that not all watchers were sent yet can no more be
 * told by its name: the watchers are to look at everything. */
void watch_slot_goes(struct host *host, struct lock_ref at);
/* Its word says that it is watched, which may be over: then the word does not say so any more. */
void watch_bell_rang(struct host *host, struct lock_ref at);
/* The namespace's region is left: nothing of it has changed. */
void watch_lock_left(struct host *host, struct lock_ref at);
void watches_space_left(struct host *host, uint32_t space);

/* Something is left to be told. */
bool watches_are_left(const struct host *host);
void watches_work(struct host *host, struct host_actions *actions);
/* A tick: so many may be sent again. */
void watches_tick(struct host *host);
/* Tells a client that it missed changes. */
void watch_lagged(struct host *host, uint32_t client, struct host_actions *actions);

void watches_check(const struct host *host);

#endif
