/*
 * Registers: what this voter keeps as an acceptor. One promise for each partition, one register for
 * each lock name that has a value, and what deletion left of those that have none any more.
 *
 * It refuses every ballot below the promised one and says which that is; it keeps the value with
 * the highest (ballot, sequence). An accept under a higher ballot than the promised one is a
 * promise too (Lamport 2001, "Paxos made simple", section 2.2, P1a; one register a name after
 * Rystsov 2018, "CASPaxos", section 2.2).
 *
 * Invariants: whatever changes is persisted before the answer. A promise never falls, and no
 * register was accepted above its partition's promise. A partition's checkpoint never falls; an
 * idle register at or below it is not there, also if its row on the disk still is. The floor is at
 * least the checkpoint's: names that are new here start above it (docs/PROTOCOL.md, rule 24).
 *
 * Registers hang on their names (core/base/names.h), each holds one reference.
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
/* A promise is at least what was accepted under it, also if its own row is older. */
void registers_raise_promises(struct quorum *quorum);

/* ---- What other voters ask ---- */

void registers_prepare(struct quorum *quorum, const struct message *message);
void registers_read(struct quorum *quorum, const struct message *message);
void registers_accept(struct quorum *quorum, const struct message *message);

/* ---- Partitions ---- */

uint64_t registers_promised(const struct quorum *quorum, uint32_t partition);
/* Promises that ballot, above all that was promised there, durably. */
void registers_promise(struct quorum *quorum, const struct message_partitions *partitions,
                       uint64_t ballot);
void registers_promise_one(struct quorum *quorum, uint32_t partition, uint64_t ballot);
/* A hash of all its registers; of those whose mode is not NONE. The same at every voter. */
uint64_t registers_digest(const struct quorum *quorum, uint32_t partition);
uint64_t registers_live_digest(const struct quorum *quorum, uint32_t partition);
/* How many there are; of them, those whose mode is NONE. */
uint32_t registers_count_of(const struct quorum *quorum, uint32_t partition);
uint32_t registers_idle_of(const struct quorum *quorum, uint32_t partition);
/* Where deletion in it stands durably; and what names that are new here start above. */
const struct message_checkpoint *registers_checkpoint(const struct quorum *quorum,
                                                      uint32_t partition);
uint64_t registers_floor(const struct quorum *quorum, uint32_t partition);
void registers_raise_floor(struct quorum *quorum, uint32_t partition, uint64_t floor);
/* Durably; the floor rises to it. */
void registers_keep_checkpoint(struct quorum *quorum, uint32_t partition,
                               const struct message_checkpoint *checkpoint);

/* ---- One register ---- */

/* NULL: the name has none. */
const struct record *registers_find(const struct quorum *quorum, uint32_t name);
/* The same, of a name in a message. */
const struct record *registers_find_named(const struct quorum *quorum,
                                          const struct message_name *name);
/* Whether a value of that name can be stored here. */
bool registers_have_room(const struct quorum *quorum, uint32_t name);
/* Stores and persists a value that another acceptor has, if it is newer than what is here: late,
 * but as if its ACCEPT had come. It counts for nobody's round. false: no room. */
bool registers_adopt(struct quorum *quorum, const struct message_accept *value);
/* How many names have one. */
uint32_t registers_count(const struct quorum *quorum);

/* ---- A partition's registers, by index ---- */

/* The first, and the one behind that one; NONE: that was the last. */
uint32_t registers_first(const struct quorum *quorum, uint32_t partition);
uint32_t registers_next(const struct quorum *quorum, uint32_t index);
/* The one behind that one, which may be deleted by now: then, and from NONE, the first. */
uint32_t registers_resume(const struct quorum *quorum, uint32_t partition, uint32_t index);
const struct record *registers_at(const struct quorum *quorum, uint32_t index);
/* Its name. */
uint32_t registers_name(const struct quorum *quorum, uint32_t index);
/* The number of the last listing of another voter that had it; 0: none had. */
uint32_t registers_listing(const struct quorum *quorum, uint32_t index);
/* That listing has the name, if it has a register here. */
void registers_set_listing(struct quorum *quorum, const struct message_name *name,
                           uint32_t listing);

/* ---- Deletion ---- */

/* Takes a register away, for which no round is under way, here and on the disk. */
void registers_delete(struct quorum *quorum, uint32_t partition, uint32_t index);
/* The same; its row goes from the disk in a later step, by registers_delete_rows(), which leaves
 * room for so many other actions. */
void registers_delete_later(struct quorum *quorum, uint32_t partition, uint32_t index);
void registers_delete_rows(struct quorum *quorum, uint32_t room);
/* Whether there are such rows. */
bool registers_have_rows(const struct quorum *quorum);

/* Also how many shares they have. */
uint32_t registers_check_invariants(const struct quorum *quorum);

#endif
