/*
 * Sessions: the leases of all agents, as a voter counts them, and how a coordinator ends one.
 *
 * The voter's side (sessions.c). Each acknowledgement has a stamp of this process, and the next
 * renewal echoes that stamp. A renewal extends a session only if the echoed stamp is newer than
 * that of the last extension, and less than one session time-to-live (ttl) old. The echo proves
 * that the sender received an acknowledgement of this voter lately. Times of renewals are not
 * durable: a voter that started, or whose process stopped for a while, assumes that every session,
 * known or not, was just renewed (docs/PROTOCOL.md, rule 17; leases after Trencseni et al. 2012,
 * "PaxosLease"; sessions, and a new master's full lease, after Chubby 2.8 and 2.9, Burrows 2006).
 * The voter counts the ttl longer by max_drift; the holder counts it shorter.
 *
 * The coordinator's side (sessions_end.c). A session ends only when a majority of the voters marked
 * it. A voter marks a session only if the session has lapsed by that voter's clock. Once a majority
 * has marked the session, no majority extends it any more, because any two majorities share a voter
 * (docs/PROTOCOL.md, rule 15).
 *
 * Invariants: a mark is durable before this voter reports it, holds for every epoch up to its own,
 * and never falls. A voter never again extends an epoch that it marked. The coordinator's knowledge
 * of ended sessions is not durable.
 */
#ifndef QUORUM_SESSIONS_H
#define QUORUM_SESSIONS_H

#include "agents.h"
#include "record.h"
#include "rules.h"
#include "step.h"

struct sessions;

struct sessions *sessions_lay_out(struct arena *arena, const struct quorum_limits *limits);
void sessions_init(struct quorum *quorum);
bool sessions_load_mark(struct quorum *quorum, const struct message_session *mark);
void sessions_start(struct quorum *quorum);
/* Counts all sessions as just renewed. Call it when this process was stopped for a while, or when
 * its clock was wrong. */
void sessions_refresh(struct quorum *quorum);
/* Counts all sessions as just renewed, because a majority of the previous record's voters may have
 * extended sessions that this voter does not know. If an agent that is unknown here asks for its
 * highest epoch, this voter does not answer it for one session time-to-live. */
void sessions_guard(struct quorum *quorum);
/* Returns when sessions_refresh() was last called, or this process started. Nanoseconds. */
int64_t sessions_fresh_since_ns(const struct quorum *quorum);
/* A number that identifies this process of this voter; never 0. */
uint64_t sessions_incarnation(const struct quorum *quorum);

/* Notes that this index now belongs to another agent. */
void sessions_agent_named(struct quorum *quorum, uint32_t agent);
/* Returns whether nothing is known of any session of the agent. */
bool sessions_is_unknown(const struct quorum *quorum, uint32_t agent);

/* ---- Voter's side ---- */

void sessions_renew(struct quorum *quorum, const struct message *message);
void sessions_poll(struct quorum *quorum, const struct message *message);
void sessions_mark(struct quorum *quorum, const struct message *message);
/* Returns whether the session has lapsed by this voter's clock, at this instant. */
bool sessions_has_lapsed(const struct quorum *quorum, uint32_t agent, uint32_t epoch);
/* Returns the agent's highest epoch that a renewal has extended here. */
uint32_t sessions_epoch(const struct quorum *quorum, uint32_t agent);
/* Returns the later of two times: when the agent's highest epoch was last extended here, and when
 * all sessions were last taken for renewed (at the start, and by sessions_refresh()). */
int64_t sessions_seen_ns(const struct quorum *quorum, uint32_t agent);
/* Returns the agent's highest marked epoch; 0 if none is marked. All epochs up to it are marked. */
uint32_t sessions_marked_epoch(const struct quorum *quorum, uint32_t agent);
/* Persists a mark that another voter has made. Returns false if the table of agents is full. */
bool sessions_adopt_mark(struct quorum *quorum, const struct message_session *mark);

/* ---- Coordinator's side ---- */

/* Asks for the end of a session because it blocks a request or is used by two agents, or
 * (superseded) because a newer session of its agent lives. The caller repeats the call for as long
 * as it wants the end. */
void sessions_want_end(struct quorum *quorum, uint32_t agent, uint32_t epoch, bool superseded);
void sessions_polled(struct quorum *quorum, const struct message *message);
void sessions_marked(struct quorum *quorum, const struct message *message);
/* sessions_has_ended() returns whether a majority marked the session, as far as this coordinator
 * knows. sessions_ended_ns() returns when this coordinator last learned that a session of the agent
 * had ended, or when sessions_count_anew() was last called, if that was later. */
bool sessions_has_ended(const struct quorum *quorum, uint32_t agent, uint32_t epoch);
int64_t sessions_ended_ns(const struct quorum *quorum, uint32_t agent);
/* Drops the voters' earlier answers, and asks the voters again. Call it when the record of stores
 * changed. */
void sessions_recount(struct quorum *quorum);
/* Makes the lock-delays of ended sessions start again from now. */
void sessions_count_anew(struct quorum *quorum);
/* Asks voters again where that is due. Returns when to call this function again. */
int64_t sessions_tick(struct quorum *quorum);

void sessions_check_invariants(const struct quorum *quorum);

#endif
