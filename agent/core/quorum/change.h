/*
 * Changes: how the voters of a cell are changed, one at a time (docs/PROTOCOL.md, "Changing the
 * voters").
 *
 * The record of number n + 1 is decided in a register of its own. Its acceptors are the voters of
 * number n and, if one is added, the newcomer. Any voter that an operator's host asks (MEMBER)
 * proposes: a majority of n promises; the newcomer accepts first, then the others; the record is
 * chosen when a majority of n and a majority of n + 1 have accepted it under one ballot. A record
 * that was read is proposed again, never replaced (Lamport 2001, "Paxos made simple", 2.2).
 *
 * Number n + 2 may begin when n + 1 is complete: a majority of n goes by n + 1; a majority of n + 1
 * ends no session any more that a majority of n may have extended; every partition was prepared
 * under n + 1 and all that a majority of n held is at a majority of n + 1; and the marks of ended
 * sessions are settled. Every voter looks for that by itself (change_complete.c).
 *
 * A store that may join copies the registers first (change_learn.c), and its answers count only
 * when it goes by a record that names it (members.h).
 *
 * Invariants: what this acceptor promised and accepted is durable before it says so. No proposal
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
/* This agent goes by another record: whatever was under way for the number before is over. */
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
/* This voter has started over. It goes on with what it read, and promises that ballot. */
void change_rejoined(struct quorum *quorum, uint64_t ballot);
/* Handle LEARN and LEARNED. */
void change_learn(struct quorum *quorum, const struct message *message);
void change_learned(struct quorum *quorum, const struct message *message);
/* Notes what any message shows: which version of the wire its sender speaks, and, if it waited for
 * the sender's disk, that the sender goes by the record that its header names. */
void change_note(struct quorum *quorum, const struct message *message);
/* Note what a heartbeat and a MARKED say about the present number. */
void change_heartbeat(struct quorum *quorum, const struct message *message);
void change_marked(struct quorum *quorum, const struct message *message);
/* Notes a mark in another voter's list, and that the list was read to its end. */
void change_mark_seen(struct quorum *quorum, uint32_t voter, const struct message_session *mark);
void change_marks_read(struct quorum *quorum, uint32_t voter);
/* For a learner: notes that a partition was read. */
void change_listing_read(struct quorum *quorum, uint32_t partition);
/* Returns whether this voter may list its marks: its record is complete, or it ends no session any
 * more whose lease a majority of the number before may have extended. */
bool change_is_guarded(const struct quorum *quorum);
/* The clock was wrong: what was counted by it counts anew. */
void change_count_anew(struct quorum *quorum);
/* The voter that this voter is about to remove, as its index plus one; 0: none. */
uint32_t change_leaves(const struct quorum *quorum);
/* Another voter has claimed partitions, or given them up. */
void change_claims_changed(struct quorum *quorum);
int64_t change_tick(struct quorum *quorum);

#endif
