/*
 * Changes: how the voters of a cell are changed, one at a time (docs/PROTOCOL.md, "Changing the
 * voters").
 *
 * The record of number n + 1 is decided in a register of its own. Its acceptors are the voters of
 * number n and, if one is added, the newcomer. An operator's host asks any voter (MEMBER), and that
 * voter is the proposer. A majority of n promises. The newcomer accepts first, then the others. The
 * record is chosen when a majority of n and a majority of n + 1 have accepted it under one ballot.
 * A record that was read is proposed again, never replaced (Lamport 2001, "Paxos made simple",
 * 2.2).
 *
 * Number n + 2 may begin when n + 1 is complete: a majority of n uses n + 1; a majority of n + 1 no
 * longer ends sessions that a majority of n may have extended; every partition was prepared under
 * n + 1, and everything that a majority of n held is at a majority of n + 1; and the marks of ended
 * sessions are settled. Every voter checks this by itself (change_complete.c).
 *
 * A store that may join copies the registers first (change_learn.c), and its answers count only
 * when it uses a record that names it (members.h).
 *
 * Invariants: a promise or an accepted record is durable before this acceptor sends it. No proposal
 * begins while the record is not complete. This voter proposes at most one change at a time.
 */
#ifndef QUORUM_CHANGE_H
#define QUORUM_CHANGE_H

#include "agents.h"
#include "ballots.h"
#include "members.h"
#include "rules.h"
#include "sessions.h"
#include "step.h"
#include "sync.h"
#include "voters.h"

struct change;

struct change *change_lay_out(struct arena *arena, const struct quorum_limits *limits);
bool change_load(struct quorum *quorum, const struct quorum_change *row);
/* This agent uses another record now. Everything that was under way for the previous number
 * ends. */
void change_follow(struct quorum *quorum);

/* Notes that this index now belongs to another agent. */
void change_agent_named(struct quorum *quorum, uint32_t agent);

/* ---- Events ---- */

/* Handles an operator's request. */
void change_member(struct quorum *quorum, const struct message *message);
/* Handle the messages of the record's register. */
void change_prepare(struct quorum *quorum, const struct message *message);
void change_promise(struct quorum *quorum, const struct message *message);
void change_accept(struct quorum *quorum, const struct message *message);
void change_accepted(struct quorum *quorum, const struct message *message);
/* For a store that starts over: notes what another acceptor had accepted when it promised. */
void change_read(struct quorum *quorum, const struct message *message);
/* This voter has started over. Promises that ballot, and makes durable what change_read() has
 * noted. */
void change_rejoined(struct quorum *quorum, uint64_t ballot);
/* Handle LEARN and LEARNED. */
void change_learn(struct quorum *quorum, const struct message *message);
void change_learned(struct quorum *quorum, const struct message *message);
/* Notes what any message shows about its sender: the version of the wire protocol, and, if the
 * message waited for the sender's disk, that the sender uses the record that the header names. */
void change_note(struct quorum *quorum, const struct message *message);
/* Note what a heartbeat and a MARKED say about the present number. */
void change_heartbeat(struct quorum *quorum, const struct message *message);
void change_marked(struct quorum *quorum, const struct message *message);
/* Notes a mark in another voter's list, and that the list was read to its end. */
void change_mark_seen(struct quorum *quorum, uint32_t voter, const struct message_session *mark);
void change_marks_read(struct quorum *quorum, uint32_t voter);
/* For a learner: notes that a partition was read. */
void change_listing_read(struct quorum *quorum, uint32_t partition);
/* Returns whether this voter may list its marks: its record is complete, or this voter no longer
 * ends any session whose lease a majority of the previous number may have extended. */
bool change_is_guarded(const struct quorum *quorum);
/* The clock was wrong: every time that was measured with it is measured anew. */
void change_count_anew(struct quorum *quorum);
/* The voter that this voter is about to remove, as its index plus one; 0: none. */
uint32_t change_leaves(const struct quorum *quorum);
/* Call it when another voter has claimed partitions, or has given them up. */
void change_claims_changed(struct quorum *quorum);
int64_t change_tick(struct quorum *quorum);

#endif
