/*
 * Reactions: calls from a module to modules above it (quorum.c lists the modules from the lowest to
 * the highest). A module calls modules below it through their headers. To ask a module above it, or
 * to report something to that module, it calls a function of this header. quorum.c implements these
 * functions. Each of them calls the modules concerned, on the same stack.
 */
#ifndef QUORUM_REACTIONS_H
#define QUORUM_REACTIONS_H

#include "core/base/succession.h"
#include "step.h"

/* Called by the module `step`: fills in the header that every message of this voter has. */
void reaction_fill_header(const struct quorum *quorum, enum message_kind kind,
                          struct message *message);

/* Called by the module `agents`: that index now belongs to another agent, of which only the name is
 * known. */
void reaction_agent_named(struct quorum *quorum, uint32_t agent);
/* Called by the module `agents`: returns whether only the name of that agent is known, so that
 * nothing is lost if its entry goes to another agent. */
bool reaction_agent_is_unknown(const struct quorum *quorum, uint32_t agent);

/* Called by the module `registers`: returns whether a voter other than `voter` coordinates the
 * partition, as far as is known here. If so, `voter` gets no promise. The refusal only avoids
 * disturbance; giving the promise would be safe too. */
bool reaction_is_owned(const struct quorum *quorum, uint32_t partition, uint32_t voter);
/* Called by the module `registers`: another acceptor has accepted a value under that ballot. */
void reaction_preempted(struct quorum *quorum, uint32_t partition, uint64_t ballot);

/* Called by modules below the module `members`: returns whether this voter may vote (members.h). */
bool reaction_votes(const struct quorum *quorum);

/* Called by the module `voters`: fills in whether this voter votes, and what it coordinates. */
void reaction_fill_heartbeat(const struct quorum *quorum, struct message_heartbeat *heartbeat);
/* Called by the module `voters`: returns the voter that this voter is about to remove, as its index
 * plus one; 0: none. */
uint32_t reaction_leaves(const struct quorum *quorum);
/* Called by the module `voters`: returns whether the message's sender uses the same record of
 * voters as this agent. */
bool reaction_same_voters(const struct quorum *quorum, const struct message *message);
/* Called by the module `voters`: the set of voters that can coordinate may have changed. */
void reaction_voters_changed(struct quorum *quorum);
/* Called by the module `voters`: that voter may claim other partitions than before. */
void reaction_claims_changed(struct quorum *quorum, uint32_t voter);
/* Called by the module `voters`: a majority echoes this voter's heartbeats again. It is not known
 * for how long there was none. */
void reaction_majority_found(struct quorum *quorum);

/* Called by the module `sessions`: returns whether this voter may acknowledge that agent's renewal.
 * If not, this call sends the agent this voter's view of the cell and, if the rules of the agent
 * and the voter differ, a refusal. */
bool reaction_may_renew(struct quorum *quorum, uint32_t agent, const struct message_renew *renew);
/* Called by the module `sessions`: that agent's sessions up to some epoch have ended. */
void reaction_session_ended(struct quorum *quorum, uint32_t agent);

/* Called by the module `ballots`: ballots have changed. Rounds under other ballots are over. */
void reaction_ballots_changed(struct quorum *quorum);
/* Called by the module `ballots`: some partitions are prepared, and have to be read from other
 * voters. */
void reaction_prepared(struct quorum *quorum);

/* Called by the module `sync`: a listing that sync_read() began was read to its end. */
void reaction_listing_read(struct quorum *quorum, uint32_t voter, enum message_sync_what what,
                           uint32_t partition);

/* Called by the module `sync`: returns whether the record of voters is not complete yet. While it
 * is not, this voter has to find out which partitions are settled. */
bool reaction_is_changing(const struct quorum *quorum);
/* Called by the module `sync`: returns whether this voter may list its marks for another voter
 * (change_is_guarded()). */
bool reaction_lists_marks(const struct quorum *quorum);
/* Called by the module `sync`, for a listing that sync_read_marks() began. reaction_mark_seen():
 * one mark of that voter was read. reaction_marks_read(): all its marks were read. */
void reaction_mark_seen(struct quorum *quorum, uint32_t voter, const struct message_session *mark);
void reaction_marks_read(struct quorum *quorum, uint32_t voter);

/* Called by the module `members`: the configuration now has the voters of another record. Tables
 * that are indexed by voter must be reordered, so that each entry stays with its voter's name. */
void reaction_follow(struct quorum *quorum, const struct succession *succession);

/* Called by the module `members`: this voter started over, promises that ballot, and votes from now
 * on. */
void reaction_rejoined(struct quorum *quorum, uint64_t ballot);

#endif
