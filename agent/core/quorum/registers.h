/*
 * Registers: the state that this voter keeps as an acceptor. The voter keeps one promise for each
 * partition, and one register for each lock name that has a value. For names whose register was
 * deleted, the voter keeps the checkpoint and the floor of their partition.
 *
 * An acceptor refuses every ballot below the one that it promised, and reports the promised one. It
 * keeps the value with the highest (ballot, sequence). An accept under a ballot higher than the
 * promised one is a promise of that ballot too (Lamport 2001, "Paxos made simple", section 2.2,
 * P1a; one register for each name after Rystsov 2018, "CASPaxos", section 2.2).
 *
 * Invariants: a change is persisted before the answer that reports it. A promise never falls, and
 * no register's accepted ballot is above its partition's promise. A partition's checkpoint never
 * falls. An idle register (mode NONE) at or below the checkpoint is deleted, even if its row is
 * still on the disk. The partition's floor is at least the floor of its checkpoint. The tokens of
 * names that are new here start above the partition's floor (docs/PROTOCOL.md, rule 24).
 *
 * Each register is found by its name (core/base/names.h), and has one reference to the name.
 */
#ifndef QUORUM_REGISTERS_H
#define QUORUM_REGISTERS_H

#include "record.h"
#include "step.h"

struct registers;

struct registers *registers_lay_out(struct arena *arena, const struct quorum_limits *limits);

/* ---- Loading ---- */

bool registers_load_promise(struct quorum *quorum, const struct quorum_promise *promise);
bool registers_load(struct quorum *quorum, const struct quorum_register *reg);
bool registers_load_checkpoint(struct quorum *quorum, const struct quorum_checkpoint *row);
/* Raises each promise to the highest ballot accepted in its partition; the promise's own row may be
 * older. */
void registers_raise_promises(struct quorum *quorum);

/* ---- Requests of other voters ---- */

void registers_prepare(struct quorum *quorum, const struct message *message);
void registers_read(struct quorum *quorum, const struct message *message);
void registers_accept(struct quorum *quorum, const struct message *message);

/* ---- Partitions ---- */

uint64_t registers_promised(const struct quorum *quorum, uint32_t partition);
/* Promises the ballot in these partitions, and persists the promise. The ballot must be above all
 * promises of these partitions. */
void registers_promise(struct quorum *quorum, const struct message_partitions *partitions,
                       uint64_t ballot);
void registers_promise_one(struct quorum *quorum, uint32_t partition, uint64_t ballot);
/* A hash of the partition's registers: registers_digest() of all registers, registers_live_digest()
 * of those whose mode is not NONE. Voters with the same registers have the same hash. */
uint64_t registers_digest(const struct quorum *quorum, uint32_t partition);
uint64_t registers_live_digest(const struct quorum *quorum, uint32_t partition);
/* Return how many registers the partition has, and how many of them have mode NONE. */
uint32_t registers_count_of(const struct quorum *quorum, uint32_t partition);
uint32_t registers_idle_of(const struct quorum *quorum, uint32_t partition);
/* Return the partition's checkpoint, which is durable, and the floor above which tokens of new
 * names start. */
const struct message_checkpoint *registers_checkpoint(const struct quorum *quorum,
                                                      uint32_t partition);
uint64_t registers_floor(const struct quorum *quorum, uint32_t partition);
void registers_raise_floor(struct quorum *quorum, uint32_t partition, uint64_t floor);
/* Persists the checkpoint, and raises the partition's floor to the checkpoint's floor. */
void registers_keep_checkpoint(struct quorum *quorum, uint32_t partition,
                               const struct message_checkpoint *checkpoint);

/* ---- One register ---- */

/* Returns NULL if the name has no register. */
const struct record *registers_find(const struct quorum *quorum, uint32_t name);
/* Returns whether a value of that name can be stored here. */
bool registers_have_room(const struct quorum *quorum, uint32_t name);
/* Stores and persists a value that another acceptor has, if it is newer than the value here. This
 * call acts like an ACCEPT that arrives late, but it sends no answer, so it is no vote in any
 * round. Returns false if there is no room. */
bool registers_adopt(struct quorum *quorum, const struct message_accept *value);
/* Returns how many registers there are in all partitions. */
uint32_t registers_count(const struct quorum *quorum);

/* ---- A partition's registers, by index ---- */

/* Return the partition's first register, and the register after that index; NONE if there is
 * none. */
uint32_t registers_first(const struct quorum *quorum, uint32_t partition);
uint32_t registers_next(const struct quorum *quorum, uint32_t index);
/* Does what registers_next() does. But if that register is deleted by now, or index is NONE,
 * returns the partition's first register. */
uint32_t registers_resume(const struct quorum *quorum, uint32_t partition, uint32_t index);
const struct record *registers_at(const struct quorum *quorum, uint32_t index);
/* The name of that register. */
uint32_t registers_name(const struct quorum *quorum, uint32_t index);
/* Returns the number of the last listing, read from another voter, in which the register was; 0: it
 * was in none. */
uint32_t registers_listing(const struct quorum *quorum, uint32_t index);
/* Notes that the listing contains that name. Does nothing if the name has no register here. */
void registers_set_listing(struct quorum *quorum, const struct message_name *name,
                           uint32_t listing);

/* ---- Deletion ---- */

/* Deletes a register here and on the disk. No round may be under way for its name. */
void registers_delete(struct quorum *quorum, uint32_t partition, uint32_t index);
/* Does what registers_delete() does, but the row on the disk stays until registers_delete_rows()
 * deletes it in a later step. registers_delete_rows() leaves room for `room` other actions. */
void registers_delete_later(struct quorum *quorum, uint32_t partition, uint32_t index);
void registers_delete_rows(struct quorum *quorum, uint32_t room);
/* Returns whether deleted registers still have rows on the disk. */
bool registers_have_rows(const struct quorum *quorum);

/* Checks the registers, and returns how many shares they have in all. */
uint32_t registers_check_invariants(const struct quorum *quorum);

#endif
