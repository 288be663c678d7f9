/*
 * Ballots: which partitions this voter coordinates, and under which ballot a majority has promised
 * them to this voter.
 *
 *   OTHERS -> PREPARING   of the voters that can coordinate, this one is the preferred one, and no
 *                         other voter claims the partition (voters_claimed())
 *          -> PREPARED    a majority promised: from here on the heartbeats claim the partition
 *          -> OTHERS      this voter resigned: no majority echoes its heartbeats, or a round is
 *                         stuck, or it is about to end. Or it has yielded to another voter, which
 *                         has prepared the partition meanwhile
 *
 * A prepared partition is *yielded* when the preferred voter is back and has been able to
 * coordinate for long enough (voters_settled()), or when this voter is about to be removed. This
 * voter then no longer claims the partition, so the preferred voter takes it over. It decides
 * requests as before until the others refuse its ballot, so that the requests need not wait.
 *
 * A proposal's order is (ballot, sequence). A ballot belongs to one voter. Each round is durable
 * before a ballot uses it, and no two processes use the same round. So no two proposals ever have
 * the same order (Lamport 2001, "Paxos made simple", section 2.5). A proposal under a ballot may be
 * chosen only after a majority promised that ballot. One promise covers all names of a partition:
 * phase 1 for many instances at once (section 3).
 *
 * Invariants: a prepared partition has this voter's own promise. A prepared partition is complete
 * when this voter and the voters whose registers it has read since the promise make a majority. All
 * of these voters have promised. From then on a name without a register here has no value. This
 * voter asks its own acceptor last, when the others' promises make a majority with its own. So a
 * voter that cannot take over a partition does not disturb the voter that coordinates it.
 *
 * Rendezvous hashing (Thaler and Ravishankar 1998) gives each partition its preferred voter: when a
 * voter fails, only its partitions move. Voters may disagree about who is alive. That endangers
 * nothing: the ballots alone make the choice safe.
 */
#ifndef QUORUM_BALLOTS_H
#define QUORUM_BALLOTS_H

#include "registers.h"
#include "rules.h"
#include "sessions.h"
#include "step.h"
#include "voters.h"

enum partition_state { PARTITION_OTHERS = 0, PARTITION_PREPARING, PARTITION_PREPARED };

struct ballots;

struct ballots *ballots_lay_out(struct arena *arena);
void ballots_init(struct quorum *quorum);
void ballots_load_round(struct quorum *quorum, uint32_t round);
void ballots_start(struct quorum *quorum);
/* Switches to the record of voters with that number. Another voter may then be the preferred one of
 * a partition. */
void ballots_follow(struct quorum *quorum, uint32_t number);

/* ---- Rounds and orders ---- */

/* The highest round that this voter has used. It is durable. */
uint32_t ballots_round(const struct quorum *quorum);
/* Notes a ballot that another voter named. This voter's next round will be above it. */
void ballots_note(struct quorum *quorum, uint64_t ballot);
/* Returns a new ballot of this voter, above all ballots that it knows of, and emits the action that
 * persists its round. Returns 0 if no round is left. */
uint64_t ballots_next(struct quorum *quorum);
/* Sets *order to the order of the next proposal. Returns false if the ballot has no sequence left;
 * then a new ballot is being prepared. */
bool ballots_next_order(struct quorum *quorum, uint32_t partition, struct message_order *order);

/* ---- A partition ---- */

enum partition_state ballots_state(const struct quorum *quorum, uint32_t partition);
/* Returns whether this voter's heartbeats are to claim the partition: it has prepared it, and does
 * not yield it. */
bool ballots_claims(const struct quorum *quorum, uint32_t partition);
/* The ballot that this voter last used for the partition. */
uint64_t ballots_of(const struct quorum *quorum, uint32_t partition);
/* ballots_prepared_ns() returns when the partition became PREPARED. ballots_left_ns() returns when
 * it last left that state (long ago if it never was PREPARED). Both times are in nanoseconds of the
 * step's clock. */
int64_t ballots_prepared_ns(const struct quorum *quorum, uint32_t partition);
int64_t ballots_left_ns(const struct quorum *quorum, uint32_t partition);
/* Returns whether a voter other than `voter` coordinates the partition, as far as is known here.
 * The result is true also if that coordinator is this voter. */
bool ballots_is_owned(const struct quorum *quorum, uint32_t partition, uint32_t voter);
/* The voter that coordinates the partition, as far as is known here; voter_count if no voter
 * does. */
uint32_t ballots_coordinator(const struct quorum *quorum, uint32_t partition);

/* Returns whether this voter's registers have every name of the partition that has a value, and no
 * newer value can be chosen except under this voter's own ballot. */
bool ballots_is_complete(const struct quorum *quorum, uint32_t partition);
/* For a partition that is PREPARED and not complete: the voters that promised and whose registers
 * were not read after that, one bit each. Otherwise 0. */
uint8_t ballots_to_read(const struct quorum *quorum, uint32_t partition);
/* Returns whether the partition is being read: it is PREPARED under the present record of voters,
 * and not complete. */
bool ballots_is_read(const struct quorum *quorum, uint32_t partition);
/* Returns whether rounds may begin: the partition is PREPARED, and the record of voters is durable
 * here. So the other voters get that record before any message of a round. */
bool ballots_is_open(const struct quorum *quorum, uint32_t partition);
/* Returns whether the partition is PREPARED under the previous record of voters, and no majority of
 * the present voters has promised its ballot yet. */
bool ballots_is_carried(const struct quorum *quorum, uint32_t partition);
/* Prepares the partition again. Call it when none of the voters that ballots_to_read() returns
 * answers. */
void ballots_prepare_again(struct quorum *quorum, uint32_t partition);
/* Notes that the voter's registers were read under this voter's ballot. Call it only while the
 * partition is being read. */
void ballots_note_read(struct quorum *quorum, uint32_t partition, uint32_t voter);

/* ---- Events ---- */

/* Decides anew which partitions this voter coordinates. Call it after every change on which the
 * decision depends. */
void ballots_review(struct quorum *quorum);
void ballots_promise(struct quorum *quorum, const struct message *message);
/* Notes that a voter has promised the ballot `higher`, or accepted a value under it. If that ballot
 * is above this voter's own, and this voter had prepared the partition, prepares it again unless
 * another voter claims it. */
void ballots_preempted(struct quorum *quorum, uint32_t partition, uint64_t higher);
/* Checks the age of a round that has no majority yet. If the round is stuck (voters_round_stuck()),
 * ballots_review() follows at once. */
void ballots_round_age(struct quorum *quorum, const struct voters_round *round);
/* Drops all counted promises, and prepares every partition that this voter coordinates anew. Call
 * it when the record of stores changed. */
void ballots_recount(struct quorum *quorum);
/* Call it when the record of voters changed. Partitions that were prepared under the previous
 * record stay prepared, and the present voters are asked to promise their ballots. All other
 * partitions of this voter are prepared anew. */
void ballots_carry(struct quorum *quorum);
/* Sends the agent OWNER if this voter has just taken over a partition. Call it when a connection to
 * the agent was made. */
void ballots_reached(struct quorum *quorum, const struct message_agent *name);
int64_t ballots_tick(struct quorum *quorum);

/* ---- For display and tests ---- */

/* Return the number of PREPARED partitions, and the number of those that are not complete.
 * ballots_ready() returns whether a majority echoes this voter's heartbeats, and every partition
 * that this voter has begun to prepare is PREPARED and complete. */
uint32_t ballots_count(const struct quorum *quorum);
uint32_t ballots_incomplete(const struct quorum *quorum);
bool ballots_ready(const struct quorum *quorum);
void ballots_check_invariants(const struct quorum *quorum);

#endif
