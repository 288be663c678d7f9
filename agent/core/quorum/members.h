/*
 * Members: with which store each voter votes, and how a voter starts over.
 *
 * An acceptor that forgot what it promised breaks the cell, so a voter's store has an id, and the
 * cell a record of the stores that count: one line a voter, {store id, generation}. Every voter
 * keeps the record. Voters tell each other in HELLO who they are and what they know
 * (docs/PROTOCOL.md, rule 25). The voter status of this voter:
 *
 *   EMPTY      no record. It is made when every voter of the configuration is heard as empty, and
 *              has heard the same stores as this one: then nobody has promised anything. Or
 *              another's record names this store: it was made without this one hearing of it.
 *   LISTED     the record names this store, but it may be an old copy of the disk: the others keep
 *              the highest commit that they saw of it. It votes when a majority, itself included,
 *              has seen none that it does not have.
 *   VOTING
 *   REFUSED    the store is an old copy, or not the one that the record names. It never votes;
 *              a person has to tell it to start over.
 *   REJOINING  told so. Its line gets the next generation, and the higher one is right.
 *
 * Invariants: what votes is counted by generation. A message's header has a number made from the
 * generations of the record, and a vote under another one than the receiver's counts for nothing.
 * When the record changes, everything that was counted is asked again. So no count mixes what a
 * store promised that is gone with what its successor does not know of: a voter that adopted the
 * new line before it answered the successor's PREPARE or PULL has told it everything that was
 * counted under the old number. Until a store votes, its messages tell the commit that it had when
 * it was opened.
 *
 * Two files, which call each other: members.c has the record, HELLO and what was seen of stores,
 * members_rejoin.c the phases of starting over, each of which ends with a change of the record or
 * of the status.
 */
#ifndef QUORUM_MEMBERS_H
#define QUORUM_MEMBERS_H

#include "agents.h"
#include "ballots.h"
#include "registers.h"
#include "rules.h"
#include "sessions.h"
#include "step.h"
#include "sync.h"
#include "voters.h"

struct members;

struct members *members_lay_out(struct arena *arena);
void members_init(struct quorum *quorum);
bool members_load(struct quorum *quorum, const struct quorum_member *row);
bool members_load_seen(struct quorum *quorum, const struct quorum_seen *row);
void members_start(struct quorum *quorum);

/* ---- What others ask ---- */

/* Whether this voter may vote, coordinate, and acknowledge renewals. */
bool members_votes(const struct quorum *quorum);
enum message_standing members_status(const struct quorum *quorum);
/* Of another voter: as it said last. */
enum message_standing members_status_of(const struct quorum *quorum, uint32_t voter);
/* Of that voter's line in the record; 0: there is none. */
uint32_t members_generation(const struct quorum *quorum, uint32_t voter);
/* The header's membership. */
uint32_t members_number(const struct quorum *quorum);
/* Whether an agent's rules (their digest) are those of this voter. */
bool members_rules_match(const struct quorum *quorum, uint64_t rules);
/* Whether a message may be acted on: votes are neither given nor taken across statuses, records or
 * rules that do not fit. */
bool members_admit(const struct quorum *quorum, const struct message *message);

/* ---- Events ---- */

void members_hello(struct quorum *quorum, const struct message *message);
/* Tells an agent what the cell is. asked: its HELLO, or NULL if it sent none. */
void members_answer(struct quorum *quorum, uint32_t agent, const struct message_hello *asked);
/* Notes the commit that a message's header says of its sender's store. */
void members_learn(struct quorum *quorum, const struct message *message);
void members_link(struct quorum *quorum, uint32_t voter, bool up);
/* This voter starts over: another promised; a listing was read to its end. */
void members_promise(struct quorum *quorum, const struct message *message);
void members_listing_read(struct quorum *quorum, uint32_t voter, enum message_pull_what what,
                          uint32_t partition);
/* At the end of a step: what rides along with what is persisted. */
void members_end_step(struct quorum *quorum);
int64_t members_tick(struct quorum *quorum);

/* ---- Commits: see quorum_set_commit() and the functions below it ---- */

void members_set_commit(struct quorum *quorum, uint64_t commit);
void members_committing(struct quorum *quorum);
bool members_keep_opened(struct quorum *quorum, struct quorum_seen *row);
uint64_t members_told_commit(const struct quorum *quorum);

#endif
