/*
 * Slots: which name has which slot of its namespace's region. A name gets its slot with the OPEN
 * that makes the lock, and loses it when the grant has gone back and no process has the lock open.
 *
 * Invariants: a name has at most one slot. The index of the region and the listing have exactly the
 * locks with a name. A slot that a client of the agent before this one may still name becomes no
 * other lock's. The tokens of one slot share their high bits: a name whose next tokens have other
 * high bits moves to another slot, and the old one is retired until no process has it open.
 */
#ifndef HOST_SLOTS_H
#define HOST_SLOTS_H

#include "hub.h"

/* Gives a name a slot. false: all are in use. */
bool slot_make(struct host *host, uint32_t space, const uint8_t *name, size_t size,
               struct lock_ref *at);
/* The store says that the name has this slot. false: there is no room for the name. */
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
/* Called when a handle of the slot ended: frees the seats if no handle has one, and a retired slot
 * if no process has it open. */
void slot_unused(struct host *host, struct lock_ref at);
/* Called after the start and whenever all that a survivor has open is known. Once that is so for
 * all survivors, does the same for the slots that no client opened again. */
void slots_known(struct host *host);
/* The namespace's region was given up: forgets what is known of that slot. */
void slot_leave(struct host *host, struct lock_ref at, struct host_actions *actions);

#endif
