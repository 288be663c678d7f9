/*
 * Slots: which name has which slot of its namespace's region. A name gets its slot with the OPEN
 * that makes the lock, and loses it when the grant has gone back and no process has the lock open.
 *
 * Invariants: a name has at most one slot. The index of the region and the listing have exactly the
 * locks with a name. A slot that a client of the previous agent may still name is given to no other
 * lock. The tokens of one slot have the same high bits: a name whose next tokens have other high
 * bits moves to another slot, and the old slot is retired until no process has it open.
 */
#ifndef HOST_SLOTS_H
#define HOST_SLOTS_H

#include "hub.h"

/* Gives a name a slot, and sets *at to it. Returns false if there is no slot or no room for the
 * name. */
bool slot_make(struct host *host, uint32_t space, const uint8_t *name, size_t size,
               struct lock_ref *at);
/* Gives the name the slot that it has in the store. Returns false if there is no room for the name.
 */
bool slot_load(struct host *host, struct lock_ref at, const uint8_t *name, size_t size);
/* Adopts a slot without a name. Called before the first event. */
void slot_adopt_unnamed(struct host *host, struct lock_ref at);
/* Notes durably which slot the name has. */
void slot_persist(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Gives the name another slot, and sets *at to it. Processes that wait in the old slot find it
 * retired, and open the name again. Returns false if no slot is free. */
bool slot_move(struct host *host, struct lock_ref *at, struct host_actions *actions);
/* Takes the slot from its name, and frees it. */
void slot_unmake(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Called when a handle of the slot ended. If no process has the slot open: frees the slot if it is
 * retired, else frees its seats. */
void slot_unused(struct host *host, struct lock_ref at);
/* Call it after the start, and whenever all handles of one more survivor are known. Once they are
 * known for all survivors, it does for the slots that no client opened again what slot_unused()
 * does. */
void slots_known(struct host *host);
/* For a region that was given up: forgets what is known of that slot. */
void slot_leave(struct host *host, struct lock_ref at, struct host_actions *actions);

#endif
