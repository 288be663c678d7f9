/*
 * Voters: what this voter knows of the others. Heartbeats say who is there, who coordinates what,
 * and who is heard by a majority; the failure detector says how long silence is borne.
 *
 * Nothing here decides what is safe: ballots do (Lamport 1998). It decides who tries, so that the
 * cell gets on: it is the failure detector that consensus needs for its progress alone (Chandra and
 * Toueg 1996, "Unreliable failure detectors for reliable distributed systems").
 *
 * Invariants: a claim counts only while a heartbeat says that a majority heard its sender lately,
 * by the echoes of its own heartbeats (docs/PROTOCOL.md, walk 6). So a voter that sends but hears
 * nothing, or hears but is not heard, claims nothing for long. A link that breaks ends all claims
 * of that voter at once. The suspicion timeout is never below QUORUM_TAKEOVER_MS.
 *
 * Two files, which call each other: voters.c has the heartbeats, voters_detector.c the timeout that
 * they feed and are judged by.
 */
#ifndef QUORUM_VOTERS_H
#define QUORUM_VOTERS_H

#include "agents.h"
#include "rules.h"
#include "step.h"

struct voters;

/* A round with the voters. */
struct voters_round {
    struct message_order order; /* ballot 0: there is none */
    int64_t began_ns;
    uint8_t mask; /* voters that answered */
};

struct voters *voters_lay_out(struct arena *arena);
void voters_init(struct quorum *quorum);
void voters_start(struct quorum *quorum);

/* ---- Events ---- */

void voters_receive(struct quorum *quorum, const struct message *message);
void voters_link(struct quorum *quorum, uint32_t voter, bool up);
/* This step comes late by so much: what others sent meanwhile is read before they are judged. */
void voters_late(struct quorum *quorum, int64_t late_ns, int64_t now_ns);
/* Has the next heartbeat go out soon: what it says has changed. */
void voters_heartbeat_soon(struct quorum *quorum);
int64_t voters_tick(struct quorum *quorum);

/* ---- Who is there ---- */

/* Whether a majority of voters that vote hears this voter, and it them. */
bool voters_majority(const struct quorum *quorum);
/* The voters that may coordinate, by bit, this one included if it may. */
uint8_t voters_able(const struct quorum *quorum);
/* Whether this voter hears that one; itself always. */
bool voters_hear(const struct quorum *quorum, uint32_t voter);
/* Whether every voter whose link is not broken was heard since the start. */
bool voters_all_heard(const struct quorum *quorum);
/* Whether that voter has been well for so long that it gets back what it is preferred for. */
bool voters_settled(const struct quorum *quorum, uint32_t voter);
/* When this voter had last not run for so long that others may have replaced it; INT64_MIN: never.
 */
int64_t voters_slept_ns(const struct quorum *quorum);

/* ---- What others claim ---- */

/* Whether that other voter's last heartbeat claims that partition; whether such claims count. */
bool voters_claim(const struct quorum *quorum, uint32_t voter, uint32_t partition);
bool voters_claims_count(const struct quorum *quorum, uint32_t voter);
/* Whether any voter but that one claims it, and its claims count. */
bool voters_claimed(const struct quorum *quorum, uint32_t partition, uint32_t except);
/* Which one does; voter_count: none. */
uint32_t voters_claimant(const struct quorum *quorum, uint32_t partition, uint32_t except);

/* ---- This voter steps back ---- */

/* For good: its process is about to end. */
void voters_resign(struct quorum *quorum);
bool voters_resigned(const struct quorum *quorum);
/* This voter coordinates nothing before that time: a round of its own got stuck. */
int64_t voters_idle_until_ns(const struct quorum *quorum);
/* A request is passed on to that voter now; whether it has yet to echo that it received such. */
void voters_note_passed(struct quorum *quorum, uint32_t voter);
bool voters_has_to_hear(const struct quorum *quorum, uint32_t voter);

/* ---- The failure detector ---- */

/* For how long silence is borne. */
int64_t voters_timeout_ns(const struct quorum *quorum);
/* About how long that voter takes to answer, where it is slow. */
int64_t voters_trip_ns(const struct quorum *quorum, uint32_t voter);
/* A majority answered a round, which took so long. */
void voters_round_done(struct quorum *quorum, int64_t took_ns);
/* A round has no majority yet. true: it is too old, and this voter coordinates nothing for a while
 * from now on. */
bool voters_round_stuck(struct quorum *quorum, const struct voters_round *round);
/* That voter answers a round that is not under way any more. */
void voters_round_late(struct quorum *quorum, uint32_t voter, struct message_order order);

#endif
