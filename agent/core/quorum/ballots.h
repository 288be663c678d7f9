/*
 * Ballots: which partitions are this voter's to coordinate, and under which ballot a majority has
 * promised them to it.
 *
 *   OTHERS -> PREPARING   this voter is the preferred one of those that could coordinate, and no
 *                         voter whose claims count claims the partition
 *          -> PREPARED    a majority promised: from here on the heartbeats claim it
 *          -> OTHERS      resigned: nobody hears this voter, a round got stuck, it is about to end,
 *                         or the preferred voter is back and has been well for a while
 *
 * A proposal's order is (ballot, sequence). A ballot belongs to one voter, a round of it is durable
 * before it is used, and no round is used by two processes: so no order is ever given to two
 * proposals (Lamport 2001, "Paxos made simple", section 2.5). What is proposed under a ballot may
 * be chosen only after a majority promised it: phase 1 for all names of a partition at once
 * (section 3).
 *
 * Invariants: a prepared partition has this voter's own promise. It is complete when a majority of
 * those that promised, this voter included, were read since: then a name without a register here
 * has no value. This voter's own acceptor is asked last, when the others' promises make a majority
 * with its own: a voter that cannot take a partition over spoils nothing for the one that has it.
 *
 * The preferred voter is that of rendezvous hashing (Thaler and Ravishankar 1998): when one goes,
 * only its partitions move. Whichever voter is right about who is alive, safety is the ballots'
 * affair.
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

/* ---- Rounds and orders ---- */

/* The highest round that this voter used, durable. */
uint32_t ballots_round(const struct quorum *quorum);
/* Another voter named that ballot: the own next round is above it. */
void ballots_note(struct quorum *quorum, uint64_t ballot);
/* A ballot of this voter's above all that it knows of, persisted; 0: no round is left. */
uint64_t ballots_next(struct quorum *quorum);
/* The order of the next proposal; false: this ballot has none left, a new one is being prepared. */
bool ballots_next_order(struct quorum *quorum, uint32_t partition, struct message_order *order);

/* ---- A partition ---- */

enum partition_state ballots_state(const struct quorum *quorum, uint32_t partition);
/* The own ballot there, last used. */
uint64_t ballots_of(const struct quorum *quorum, uint32_t partition);
/* PREPARED: since when. When it was last PREPARED, if it is not; long ago: never. */
int64_t ballots_prepared_ns(const struct quorum *quorum, uint32_t partition);
int64_t ballots_left_ns(const struct quorum *quorum, uint32_t partition);
/* Whether another voter than that one coordinates it, this one included, as far as it is known. */
bool ballots_is_owned(const struct quorum *quorum, uint32_t partition, uint32_t voter);
/* The voter that coordinates it by what is heard here; voter_count: none. */
uint32_t ballots_coordinator(const struct quorum *quorum, uint32_t partition);

/* Whether every name of the partition that has a value is in the own registers, and none newer is
 * chosen anywhere but under the own ballot. */
bool ballots_is_complete(const struct quorum *quorum, uint32_t partition);
/* PREPARED, not complete: the voters that promised and were not read since, by bit; else 0. */
uint8_t ballots_to_read(const struct quorum *quorum, uint32_t partition);
/* PREPARED, not complete. */
bool ballots_is_read(const struct quorum *quorum, uint32_t partition);
/* Such a voter was read, under that ballot. */
void ballots_note_read(struct quorum *quorum, uint32_t partition, uint32_t voter);

/* ---- Events ---- */

/* Something changed of what decides who coordinates what. */
void ballots_review(struct quorum *quorum);
void ballots_promise(struct quorum *quorum, const struct message *message);
/* A round of that partition was refused because of a higher promise. */
void ballots_beaten(struct quorum *quorum, uint32_t partition, uint64_t higher);
/* A round with the voters has no majority yet: an old one makes this voter resign. */
void ballots_round_age(struct quorum *quorum, const struct voters_round *round);
/* The record of stores changed: everything is prepared anew. */
void ballots_recount(struct quorum *quorum);
/* The connection to that agent is there. */
void ballots_reached(struct quorum *quorum, const struct message_agent *name);
int64_t ballots_tick(struct quorum *quorum);

/* ---- For people, and tests ---- */

/* How many partitions are PREPARED, and of them not complete; whether all is prepared and complete
 * that is begun. */
uint32_t ballots_count(const struct quorum *quorum);
uint32_t ballots_incomplete(const struct quorum *quorum);
bool ballots_ready(const struct quorum *quorum);
void ballots_check_invariants(const struct quorum *quorum);

#endif
