/*
 * Members: with which store each voter votes, and how a voter starts over.
 *
 * An acceptor that forgot what it promised breaks the cell. So each voter's store has an id, and
 * the cell keeps a record of the stores whose votes count: for each voter one line {store id,
 * generation}. Every voter keeps the whole record. In HELLO, voters exchange their store ids and
 * what they know (docs/PROTOCOL.md, rule 25). This voter has one of these voter statuses:
 *
 *   EMPTY      The store has no record. Either the cell is new: the record is made when every voter
 *              of the configuration reports EMPTY and has received the same store ids as this one.
 *              Then nobody has promised anything yet. Or another voter already has a record that
 *              names this store, and this voter adopts that record.
 *   LISTED     The record names this store, but the store may be an old copy of the disk. The other
 *              voters keep the highest commit that they saw of it. This voter votes when a
 *              majority, itself included, has seen no commit that its store lacks.
 *   VOTING     This voter votes.
 *   REFUSED    The store is an old copy, or is not the one that the record names. It never votes:
 *              an operator has to make the voter start over.
 *   REJOINING  An operator made the voter start over. The voter's line gets the next generation. Of
 *              two lines for one voter, all voters use the line with the higher generation.
 *   RETIRED    The voter was removed. Its store answers, and never votes again.
 *   LEARNING   The agent is no voter, and its store copies what the voters have. It begins to vote
 *              when it uses a record that names this store.
 *
 * Invariants: votes are counted by generation. The header of every message has a membership number,
 * made from the generations of the record. The receiver ignores a vote whose number differs from
 * its own. When the record changes, this voter asks again for everything that it had counted. So no
 * count mixes the promises of a lost store with the answers of its successor. A voter adopts the
 * new line before it answers the successor's PREPARE or SYNC. So its answers contain everything
 * that it did while its votes were counted under the old number. Until a store votes, its messages
 * report the commit that it had when it was opened.
 *
 * The record of voters (proto/voters.h) says who the voters are. This agent uses a record once it
 * knows that the record was chosen. It makes the record durable before it acts on it
 * (docs/PROTOCOL.md, "Changing the voters"). A message under another record is not a vote, and does
 * not get one.
 *
 * After a recovery of the cell its only voter is LISTED until every session from before the
 * recovery is over (members_recover.c).
 *
 * The files, from the top down:
 *   members.c           the start, HELLO, and what was seen of other stores; gives messages and
 *                       ticks to the others
 *   members_wait.c      logs why this voter does not vote yet
 *   members_voters.c    the record of voters; which messages count
 *   members_rejoin.c    the phases of starting over
 *   members_stores.c    the record of stores, the status, and the commit that messages report
 *   members_recover.c   the wait after a recovery
 * members_stores.c and members_rejoin.c call each other: members_private.h says why.
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

struct members *members_lay_out(struct arena *arena, const struct quorum_limits *limits);
void members_init(struct quorum *quorum);
bool members_load(struct quorum *quorum, const struct quorum_member *row);
bool members_load_voters(struct quorum *quorum, const struct message_voters *voters);
bool members_load_seen(struct quorum *quorum, const struct quorum_seen *row);
void members_start(struct quorum *quorum);

/* ---- Questions of other modules ---- */

/* Returns whether this voter may vote, coordinate, and acknowledge renewals. */
bool members_votes(const struct quorum *quorum);
enum message_voter_status members_status(const struct quorum *quorum);
/* How long this voter still waits after a recovery; 0: it does not wait. */
int64_t members_recovery_left_ns(const struct quorum *quorum);
/* Another voter's status, as that voter last reported it. */
enum message_voter_status members_status_of(const struct quorum *quorum, uint32_t voter);
/* The generation in that voter's line of the record of stores; 0 if there is no line. */
uint32_t members_generation(const struct quorum *quorum, uint32_t voter);
/* The membership number that this voter writes into headers. */
uint32_t members_number(const struct quorum *quorum);
/* The record of voters that this agent uses, and its digest. */
const struct message_voters *members_voters(const struct quorum *quorum);
uint64_t members_voters_digest(const struct quorum *quorum);
/* Returns whether the rules (cell-wide configuration) of the agent that sent this renewal equal
 * this voter's. */
bool members_rules_match(const struct quorum *quorum, const struct message_renew *renew);
/* Returns whether the sender uses the same record of voters as this agent. */
bool members_same_voters(const struct quorum *quorum, const struct message *message);
/* Returns whether the message comes from a copied machine of a voter that runs, too: the message
 * reports an older commit than the voter reported in the last seconds. What such a message says of
 * its sender is not true of the voter. */
bool members_is_from_copy(const struct quorum *quorum, const struct message *message);
/* Returns whether this voter may act on a message. A voter neither gives nor counts votes if its
 * status, record or rules do not fit the sender's. */
bool members_admit(const struct quorum *quorum, const struct message *message);

/* Makes a voter that was removed a learner again, if it knows that its removal is complete. Does
 * nothing if this voter was not removed. */
void members_learn_again(struct quorum *quorum);

/* ---- Events ---- */

void members_hello(struct quorum *quorum, const struct message *message);
/* Sends an agent this voter's view of the cell. `asked` is the HELLO that this answers, or NULL. */
void members_answer(struct quorum *quorum, uint32_t agent, const struct message_hello *asked);
/* Notes the commit that the header reports of the sender's store. */
void members_learn(struct quorum *quorum, const struct message *message);
/* If the sender uses an older record of voters, sends it this agent's record. If it uses a newer
 * one, asks for that record. */
void members_compare(struct quorum *quorum, const struct message *message);
/* Handle VOTERS and ASK_VOTERS. */
void members_told(struct quorum *quorum, const struct message *message);
void members_asked(struct quorum *quorum, const struct message *message);
/* Switches to a record that this voter has seen chosen, and sends that record to its voters. */
void members_choose(struct quorum *quorum, const struct message_voters *voters);
/* Call it when the record is complete. Makes that durable, and notifies the other voters. */
void members_complete(struct quorum *quorum);
void members_link(struct quorum *quorum, uint32_t voter, bool up);
/* For a voter that starts over: notes another voter's promise. */
void members_promise(struct quorum *quorum, const struct message *message);
/* As members_promise(), for a promise in the register of the next record of voters. Returns whether
 * the promise counts. */
bool members_promise_change(struct quorum *quorum, const struct message *message);
/* For a voter that starts over: notes that a listing was read to its end. */
void members_listing_read(struct quorum *quorum, uint32_t voter, enum message_sync_what what,
                          uint32_t partition);
/* Persists the commits that were seen of other stores, if the step persists anything else, because
 * that costs no extra commit. Call it at the end of each step. */
void members_end_step(struct quorum *quorum);
int64_t members_tick(struct quorum *quorum);
/* Call it when the clock was wrong until now: a wait that was measured with it begins anew. */
void members_count_anew(struct quorum *quorum);

/* ---- Commits: see quorum_set_commit() and the functions below it ---- */

void members_set_commit(struct quorum *quorum, uint64_t commit);
void members_committing(struct quorum *quorum);
/* See quorum_opened_row(). */
void members_opened_row(const struct message_agent *agent, const uint64_t store_id[2],
                        uint64_t commit, struct quorum_seen *row);
bool members_keep_opened(struct quorum *quorum, struct quorum_seen *row);
uint64_t members_reported_commit(const struct quorum *quorum);

#endif
