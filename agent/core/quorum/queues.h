/*
 * Queues: the requests of hosts, by lock name, and the operations that decide them.
 *
 * An operation is a lock name that hosts ask for. It has the queue of their requests and at most
 * one round with the voters at a time:
 *
 *   WAITING -> READING    the first touch under this ballot, while the partition is not complete:
 *                         a majority's newest value
 *           -> ACCEPTING  the next value, decided from the last by as many requests as can be
 *           -> WAITING    chosen: those requests are answered, the next ones decided
 *
 * A value that was read from others is accepted again under the own ballot before any host is
 * answered by it: a proposer proposes the value of the highest-numbered proposal that a majority
 * answered with (Lamport 2001, "Paxos made simple", section 2.2, P2c). The next value is a change
 * of that one (Rystsov 2018, "CASPaxos", section 2.2), never one beside it.
 *
 * Invariants: a host is answered only by what a majority chose, or had already. A round is over
 * only when the own acceptor has its value too. Acquires are decided in order of arrival; one that
 * has to wait holds back those behind it. Every operation in the table has a request or a time at
 * which it is looked at. Requests beyond an agent's quota are refused, never dropped.
 */
#ifndef QUORUM_QUEUES_H
#define QUORUM_QUEUES_H

#include "ballots.h"
#include "record.h"
#include "registers.h"
#include "rules.h"
#include "sessions.h"
#include "step.h"
#include "voters.h"

struct queues;

struct queues *queues_lay_out(struct arena *arena, const struct quorum_limits *limits);

/* That agent is a new one; whether nothing of it is queued here. */
void queues_agent_named(struct quorum *quorum, uint32_t agent);
bool queues_is_unknown(const struct quorum *quorum, uint32_t agent);

/* ---- Messages ---- */

/* A host's ACQUIRE, AMEND, GIVE_BACK or BREAK; perhaps passed on by another voter. */
void queues_request(struct quorum *quorum, const struct message *message);
/* Answers of voters to a round. */
void queues_value(struct quorum *quorum, const struct message *message);
void queues_accepted(struct quorum *quorum, const struct message *message);

/* ---- What changes ---- */

/* The partitions' ballots have changed: rounds under others are over, waits are looked at. */
void queues_ballots_changed(struct quorum *quorum);
/* That voter may claim other partitions than before. */
void queues_claims_changed(struct quorum *quorum, uint32_t voter);
/* That agent's sessions up to some epoch have ended. */
void queues_session_ended(struct quorum *quorum, uint32_t agent);
/* This voter coordinates nothing any more: its process is about to end. */
void queues_resign(struct quorum *quorum);
int64_t queues_tick(struct quorum *quorum);

/* ---- What others ask ---- */

/* Whether a round is under way for a name of that partition: what is not chosen may yet be. */
bool queues_busy(const struct quorum *quorum, uint32_t partition);
/* See quorum_handed_over(), quorum_resigned(), quorum_decides_only(). */
bool queues_handed_over(const struct quorum *quorum);
bool queues_resigned(const struct quorum *quorum);
bool queues_decide_only(const struct quorum *quorum, const struct message_name *name);
/* Requests of hosts that wait or are under way; how many of the pool's shares operations have. */
uint32_t queues_request_count(const struct quorum *quorum);
uint32_t queues_share_count(const struct quorum *quorum);
void queues_check_invariants(const struct quorum *quorum);

#endif
