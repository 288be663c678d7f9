/*
 * Queues: the requests of hosts, by lock name, and the operations that decide them.
 *
 * There is one operation for each lock name that hosts have requests for. It has the queue of their
 * requests, and at most one round with the voters at a time:
 *
 *   WAITING -> READING    the first request under this ballot, while the partition is not complete:
 *                         this voter reads the newest value from a majority
 *           -> ACCEPTING  proposes the next value, which decides as many requests as possible
 *           -> WAITING    the value is chosen: those requests are answered, the next ones decided
 *
 * A value that was read from other voters is accepted again under this voter's ballot before any
 * host is answered from it: a proposer proposes the value of the highest-numbered proposal among
 * the answers of a majority (Lamport 2001, "Paxos made simple", section 2.2, P2c). The next value
 * is a change of that value (Rystsov 2018, "CASPaxos", section 2.2), never a value made without it.
 *
 * Invariants: a host's answer reports only what a majority has chosen. A round is over only when
 * this voter's own acceptor has the round's value too. Acquires are decided in order of arrival; an
 * acquire that has to wait holds back the acquires behind it. Every operation in the table has a
 * request, or a time at which it is looked at. Requests beyond an agent's quota are refused, never
 * dropped.
 */
#ifndef QUORUM_QUEUES_H
#define QUORUM_QUEUES_H

#include "ballots.h"
#include "core/base/succession.h"
#include "record.h"
#include "registers.h"
#include "rules.h"
#include "sessions.h"
#include "step.h"
#include "voters.h"

struct queues;

struct queues *queues_lay_out(struct arena *arena, const struct quorum_limits *limits);

/* Notes that this index now belongs to another agent. */
void queues_agent_named(struct quorum *quorum, uint32_t agent);
/* Switches to another record of voters. If a voter passed a request on, the answer still goes
 * through that voter, unless it was removed. */
void queues_follow(struct quorum *quorum, const struct succession *succession);
/* Counts the voters' answers to the rounds anew. Call it when the record of voters changed. */
void queues_count_anew(struct quorum *quorum);
/* Returns whether nothing of the agent is queued here. */
bool queues_is_unknown(const struct quorum *quorum, uint32_t agent);

/* ---- Messages ---- */

/* Handles a host's ACQUIRE, AMEND, GIVE_BACK or BREAK, which may have come through another
 * voter. */
void queues_request(struct quorum *quorum, const struct message *message);
/* Handle voters' answers to a round. */
void queues_value(struct quorum *quorum, const struct message *message);
void queues_accepted(struct quorum *quorum, const struct message *message);

/* ---- Changes elsewhere ---- */

/* Call it when ballots of partitions have changed. It ends the rounds under other ballots, and
 * decides the waiting operations again. */
void queues_ballots_changed(struct quorum *quorum);
/* Call it when the set of partitions that the voter claims may have changed. Looks again at the
 * operations of its partitions, so that their queues can be handed over. */
void queues_claims_changed(struct quorum *quorum, uint32_t voter);
/* Notes that the agent's sessions up to some epoch have ended. */
void queues_session_ended(struct quorum *quorum, uint32_t agent);
/* Makes this voter stop coordinating, because its process will end soon. The queues go to the
 * voters that take over. */
void queues_resign(struct quorum *quorum);
int64_t queues_tick(struct quorum *quorum);

/* ---- Questions of other modules ---- */

/* Returns whether a round is under way for a name of that partition. The round's value may still be
 * chosen. */
bool queues_busy(const struct quorum *quorum, uint32_t partition);
/* See quorum_handed_over(), quorum_resigned(), quorum_decides_only(). */
bool queues_handed_over(const struct quorum *quorum);
bool queues_resigned(const struct quorum *quorum);
bool queues_decide_only(const struct quorum *quorum, const struct message_name *name);
/* Return the number of hosts' requests in the queues, and the number of shares that the operations
 * hold (from the pool of record.h). */
uint32_t queues_request_count(const struct quorum *quorum);
uint32_t queues_share_count(const struct quorum *quorum);
void queues_check_invariants(const struct quorum *quorum);

#endif
