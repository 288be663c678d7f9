/*
 * Sessions: the leases of all agents, as a voter counts them, and how a coordinator ends one.
 *
 * Voter's side (sessions.c). A renewal extends a session only if it echoes a stamp of this process
 * that is newer than the one counted last and less than a ttl old: so its sender has heard this
 * voter lately. Times of renewals are not durable: a voter that started, or stood still, takes
 * every session, known or not, for just renewed (docs/PROTOCOL.md, rule 17; leases after
 * Trencseni et al. 2012, "PaxosLease"). The voter counts the ttl long by max_drift; the holder
 * counts it short.
 *
 * Coordinator's side (sessions_end.c). A session ends only when a majority of the voters marked it,
 * each by its own clock at that instant: a majority that still acknowledges its renewals would have
 * a voter in common with them (docs/PROTOCOL.md, rule 15).
 *
 * Invariants: a mark is durable before it is answered, holds for every epoch up to its own, and
 * never falls. A marked epoch is acknowledged no more. The coordinator's knowledge of ends is not
 * durable.
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
/* This process stood still, or its clock was wrong: all sessions count as renewed just now. */
void sessions_refresh(struct quorum *quorum);
/* When that was last, or this process started. */
int64_t sessions_fresh_since_ns(const struct quorum *quorum);
/* Other than that of any other process of this voter; never 0. */
uint64_t sessions_incarnation(const struct quorum *quorum);

/* That agent is a new one; whether nothing of any session of it is known. */
void sessions_agent_named(struct quorum *quorum, uint32_t agent);
bool sessions_is_unknown(const struct quorum *quorum, uint32_t agent);

/* ---- Voter's side ---- */

void sessions_renew(struct quorum *quorum, const struct message *message);
void sessions_poll(struct quorum *quorum, const struct message *message);
void sessions_mark(struct quorum *quorum, const struct message *message);
/* Whether it has lapsed by this voter's clock, at this instant. */
bool sessions_has_lapsed(const struct quorum *quorum, uint32_t agent, uint32_t epoch);
/* The highest epoch that renewed here. */
uint32_t sessions_epoch(const struct quorum *quorum, uint32_t agent);
/* When the present epoch was last heard of, or sessions_refresh() says that it counts as heard. */
int64_t sessions_heard_ns(const struct quorum *quorum, uint32_t agent);
/* Epochs up to this one are marked here; 0: none is. */
uint32_t sessions_marked_epoch(const struct quorum *quorum, uint32_t agent);
/* A mark that another voter has: persisted here too. false: no room. */
bool sessions_adopt_mark(struct quorum *quorum, const struct message_session *mark);

/* ---- Coordinator's side ---- */

/* That session is in somebody's way, or (superseded) a newer one of its agent lives. To be called
 * again and again, for as long as it is. */
void sessions_want_end(struct quorum *quorum, uint32_t agent, uint32_t epoch, bool superseded);
void sessions_polled(struct quorum *quorum, const struct message *message);
void sessions_marked(struct quorum *quorum, const struct message *message);
/* Whether a majority marked it, as far as this coordinator knows; and when it learned so of the
 * agent's last one that did end. */
bool sessions_has_ended(const struct quorum *quorum, uint32_t agent, uint32_t epoch);
int64_t sessions_ended_ns(const struct quorum *quorum, uint32_t agent);
/* The record of stores changed: what voters said is asked again. */
void sessions_recount(struct quorum *quorum);
/* The lock-delays behind sessions that ended are counted from now. */
void sessions_count_anew(struct quorum *quorum);
/* Returns when it wants to be called again. */
int64_t sessions_tick(struct quorum *quorum);

void sessions_check_invariants(const struct quorum *quorum);

#endif
