/*
 * Slots: which name has which slot of its namespace's region. A name gets its slot with the OPEN
 * that makes the lock, and loses it when the grant has gone back and no process has the lock open.
 *
 * Invariants: a name has at most one slot. The index of the region and the listing have exactly the
 * locks with a name. A slot that a client of the previous agent may still name is given to no other
 * lock. All tokens of a slot have the same high bits. If a name's next tokens have other high bits,
 * the name moves to another slot, and the old slot is retired until no process has it open.
 */
#ifndef HOST_SLOTS_H
#define HOST_SLOTS_H

#include "hub.h"

/* Gives a name a slot, and sets *at to it. Returns false if there is no slot or no room for the
 * name. */
bool slot_make(struct host *host, uint32_t space, const uint8_t *name, size_t size,
               struct lock_ref *at);
/* Gives the name the slot `at`, as the store says. Returns false if there is no room for the
 * name. */
bool slot_load(struct host *host, struct lock_ref at, const uint8_t *name, size_t size);
/* Adopts a slot without a name. Must be called before the first event. */
void slot_adopt_unnamed(struct host *host, struct lock_ref at);
/* Persists the row that says which slot the name has. */
void slot_persist(struct host *host, struct lock_ref at, struct host_actions *actions);
/* For a name whose next tokens have other high bits than its slot's tokens. Gives the name another
 * slot, and sets *at to that slot. Processes that wait in the old slot find it retired, and open
 * the name again. Returns false if no slot is free. */
bool slot_move(struct host *host, struct lock_ref *at, struct host_actions *actions);
/* Returns the highest token that the slot may have handed out; 0: none. */
uint64_t slot_token_top(const struct host *host, struct lock_ref at);
/* For a lock that is IDLE, before the host asks for its grant. If the slot's tokens are of an older
 * generation of the cell, moves the name, because every grant would have tokens for another slot.
 * The host would have to give that grant back, and would lose its place in the line of hosts.
 * Returns whether the name has moved. */
bool slot_renew(struct host *host, struct lock_ref *at, struct host_actions *actions);
/* Takes the slot from its name, and frees it. */
void slot_unmake(struct host *host, struct lock_ref at, struct host_actions *actions);
/* Called when a handle of the slot has ended. If no process has the slot open, frees the slot if it
 * is retired; otherwise frees the slot's seats. */
void slot_unused(struct host *host, struct lock_ref at);
/* Call it after the start, and whenever all handles of one more survivor are known. If the handles
 * of all survivors are known, calls slot_unused() for each slot that has seats or is retired. */
void slots_known(struct host *host);
/* For a slot whose region was given up: forgets what this host knows of it. */
void slot_leave(struct host *host, struct lock_ref at, struct host_actions *actions);

#endif
