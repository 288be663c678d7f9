/*
 * Voters: what this voter knows of the other voters. Heartbeats show which voters run, which
 * partitions each of them coordinates, and from which voters a majority receives heartbeats. The
 * failure detector decides after how long a silence a voter is suspected.
 *
 * Safety does not depend on this module; the ballots ensure it (Lamport 2001, "Paxos made simple",
 * 2.2). This module decides which voter tries to coordinate, so that the cell makes progress. It is
 * the failure detector that consensus needs for progress alone (Chandra and Toueg 1996, "Unreliable
 * failure detectors for reliable distributed systems", 6).
 *
 * Invariants: a voter's claims count (are believed) only while its heartbeats report that a
 * majority received one lately. A voter knows that from the echoes of its own heartbeats
 * (docs/PROTOCOL.md, walk 6). So the claims of a voter soon stop counting if it sends but receives
 * nothing, or if it receives but its own messages do not arrive. When the link to a voter breaks,
 * all claims of that voter end at once. The suspicion timeout is never below QUORUM_TAKEOVER_MS.
 *
 * Two files call each other here: voters.c has the heartbeats, voters_detector.c has the suspicion
 * timeout. The timeout is computed from echoes of heartbeats, and a voter whose heartbeats stay
 * away for longer than the timeout is suspected.
 */
#ifndef QUORUM_VOTERS_H
#define QUORUM_VOTERS_H

#include "agents.h"
#include "core/base/succession.h"
#include "rules.h"
#include "step.h"

struct voters;

/* A request of this voter to the voters (a read or a proposal) that needs the answers of a
 * majority. The failure detector measures how long that takes. */
struct voters_round {
    struct message_order order; /* ballot 0: there is no round */
    int64_t began_ns;
    uint8_t mask; /* the voters that answered, by bit */
};

struct voters *voters_lay_out(struct arena *arena);
void voters_init(struct quorum *quorum);
void voters_start(struct quorum *quorum);
/* Switches to another record of voters. A new voter is not suspected at first. */
void voters_follow(struct quorum *quorum, const struct succession *succession);

/* ---- Events ---- */

void voters_receive(struct quorum *quorum, const struct message *message);
/* Returns whether this heartbeat is from another process than the sender's last one. */
bool voters_is_another(const struct quorum *quorum, const struct message *message);
void voters_link(struct quorum *quorum, uint32_t voter, bool up);
/* Notes that this step comes late by late_ns. Messages that the other voters sent meanwhile will be
 * read before any of these voters is suspected. */
void voters_late(struct quorum *quorum, int64_t late_ns, int64_t now_ns);
/* Sends the next heartbeat soon, because its contents changed. */
void voters_heartbeat_soon(struct quorum *quorum);
int64_t voters_tick(struct quorum *quorum);

/* ---- Which voters are there ---- */

/* Returns whether this voter, and the voters that vote and have echoed its heartbeats lately, form
 * a majority. */
bool voters_majority(const struct quorum *quorum);
/* Returns, as bits, the voters that can coordinate; this voter is among them if it can. A voter
 * that is about to be removed is left out, unless it is the only one. */
uint8_t voters_able(const struct quorum *quorum);
/* Returns whether this voter can coordinate. It may nevertheless be about to be removed. */
bool voters_self_able(const struct quorum *quorum);
/* Returns, as bits, the voters that a living voter is about to remove. */
uint8_t voters_leaving(const struct quorum *quorum);
/* Returns whether a heartbeat of that voter came within the suspicion timeout; always true for this
 * voter. */
bool voters_heartbeats_arrive(const struct quorum *quorum, uint32_t voter);
/* As voters_heartbeats_arrive(), but returns false if the voter's last heartbeat reported that it
 * does not vote, because its store starts over or is refused. */
bool voters_vote(const struct quorum *quorum, uint32_t voter);
/* Returns, as bits, the voters from which no heartbeat comes any more, if the others are no
 * majority; else 0. For display. */
uint8_t voters_missing(const struct quorum *quorum);
/* Returns whether a heartbeat has come from every voter whose link is not broken. */
bool voters_all_seen(const struct quorum *quorum);
/* Returns whether that voter has been able to coordinate for so long that it gets its preferred
 * partitions back. */
bool voters_settled(const struct quorum *quorum, uint32_t voter);
/* Returns when this process last resumed after a stop in which other voters may have taken over its
 * partitions; INT64_MIN: never. */
int64_t voters_slept_ns(const struct quorum *quorum);

/* ---- Claims of other voters ---- */

/* voters_claim() returns whether that voter's last heartbeat claims the partition.
 * voters_claims_count() returns whether that voter's claims count (are believed). */
bool voters_claim(const struct quorum *quorum, uint32_t voter, uint32_t partition);
bool voters_claims_count(const struct quorum *quorum, uint32_t voter);
/* Returns whether any voter except `except` claims the partition with a claim that counts. */
bool voters_claimed(const struct quorum *quorum, uint32_t partition, uint32_t except);
/* Returns a voter except `except` that claims the partition with a claim that counts; voter_count
 * if there is none. */
uint32_t voters_claimant(const struct quorum *quorum, uint32_t partition, uint32_t except);

/* ---- This voter steps back ---- */

/* Makes this voter stop coordinating for good: its process will end soon. */
void voters_resign(struct quorum *quorum);
bool voters_resigned(const struct quorum *quorum);
/* Returns until when this voter coordinates nothing because one of its rounds got stuck. */
int64_t voters_idle_until_ns(const struct quorum *quorum);
/* voters_note_passed() notes that a request is passed on to that voter now. voters_echo_is_due()
 * returns whether that voter's heartbeats arrive, and the voter has yet to echo a heartbeat that
 * was sent after the last such request. Until that echo the request may be under way. */
void voters_note_passed(struct quorum *quorum, uint32_t voter);
bool voters_echo_is_due(const struct quorum *quorum, uint32_t voter);

/* ---- The failure detector ---- */

/* Returns the suspicion timeout in nanoseconds: a voter that is silent for longer is suspected. */
int64_t voters_timeout_ns(const struct quorum *quorum);
/* Returns about how long that voter takes to answer, in nanoseconds; negative if it is not slow. */
int64_t voters_trip_ns(const struct quorum *quorum, uint32_t voter);
/* Notes that a majority answered a round after took_ns. */
void voters_round_done(struct quorum *quorum, int64_t took_ns);
/* Call it for a round that has no majority yet. Returns true if the round is too old; then this
 * voter coordinates nothing for a while. */
bool voters_round_stuck(struct quorum *quorum, const struct voters_round *round);
/* Notes that a voter answered a round that is no longer under way. */
void voters_round_late(struct quorum *quorum, uint32_t voter, struct message_order order);

#endif
