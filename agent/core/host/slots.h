/*
 * Slots: which name has which slot of its namespace's region, from the OPEN that makes the lock to
 * the give-back behind which nobody has it open.
 *
 * Invariants: a name has at most one slot, the index of the region and the listing have exactly the
 * locks with a name, and a slot that a client of the agent before this one may still name becomes
 * no other lock's. Tokens of one slot share their high bits: a name whose next tokens have others
 * moves to another slot, and the old one is retired until nobody has it open.
 */
#ifndef HOST_SLOTS_H
#define HOST_SLOTS_H

#include "hub.h"

/* Gives a name a slot. false: all are in use. */
bool slot_make(struct host *host, uint32_t space, const uint8_t *name, size_t size,
               struct lock_ref *at);
/* The store says that this slot is that name's. false: it does not fit. */
bool slot_load(struct host *host, struct lock_ref at, const uint8_t *name, size_t size);
/* Before the first event: the slot has no name. */
void slot_adopt_unnamed(struct host *host, struct lock_ref at);
/* Notes durably which slot the name has. */
void slot_persist(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Gives the name another slot; *at becomes that one. Processes that wait in the old one find it
 * used up, and open the name again. false: none is free. */
bool slot_move(struct host *host, struct lock_ref *at, struct host_actions *actions);
/* The name gives its slot up. */
void slot_unmake(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Called when a handle left it: frees the seats, and a retired slot, that nobody has open. */
void slot_unused(struct host *host, struct lock_ref at);
/* Called after the start, and when a survivor is known: once all are, does the same for what
 * nobody opened again. */
void slots_known(struct host *host);
/* The namespace's region was given up: what is known of that slot goes. */
void slot_leave(struct host *host, struct lock_ref at, struct host_actions *actions);

#endif
