/*
 * Reactions: the calls that go up. A module calls those below it by their headers; what one has to
 * ask of, or to say to, a module above it stands here by name. quorum.c implements each, and calls
 * whatever it concerns, on the same stack.
 */
#ifndef QUORUM_REACTIONS_H
#define QUORUM_REACTIONS_H

#include "step.h"

/* From step: what the header of every message of this voter says. */
void reaction_fill_header(const struct quorum *quorum, enum message_kind kind,
                          struct message *message);

/* From agents: that index is another agent's from now on, of which nothing is known. */
void reaction_agent_named(struct quorum *quorum, uint32_t agent);
/* From agents: whether nothing is known of that agent but that somebody said its name. Forgotten,
 * it is as it was before. */
bool reaction_agent_is_unknown(const struct quorum *quorum, uint32_t agent);

/* From registers: whether another voter than that one coordinates the partition, as far as it can
 * be known here. No promise is due to a challenger then; whether it gets one makes nothing unsafe.
 */
bool reaction_is_owned(const struct quorum *quorum, uint32_t partition, uint32_t voter);
/* From registers: a value is accepted under that ballot elsewhere. */
void reaction_beaten(struct quorum *quorum, uint32_t partition, uint64_t ballot);

/* Whether this voter may vote (members.h). Asked by modules below that one. */
bool reaction_votes(const struct quorum *quorum);

/* From voters: what a heartbeat says of this voter: whether it votes, and what it coordinates. */
void reaction_fill_heartbeat(const struct quorum *quorum, struct message_beat *beat);
/* From voters: it may be others now that can coordinate. */
void reaction_voters_changed(struct quorum *quorum);
/* From voters: that one may claim other partitions than before. */
void reaction_claims_changed(struct quorum *quorum, uint32_t voter);
/* From voters: this voter hears a majority again; nobody knows how long it heard none. */
void reaction_majority_found(struct quorum *quorum);

/* From sessions: whether this voter may acknowledge that agent's renewal. Otherwise it answers the
 * agent what the cell is. */
bool reaction_may_renew(struct quorum *quorum, uint32_t agent, const struct message_renew *renew);
/* From sessions: that agent's sessions up to some epoch have ended. */
void reaction_session_ended(struct quorum *quorum, uint32_t agent);

/* From ballots: rounds under other ballots than those of now are over. */
void reaction_ballots_changed(struct quorum *quorum);
/* From ballots: some partitions are prepared, and have to be read from others. */
void reaction_prepared(struct quorum *quorum);

/* From sync: a listing that sync_read() began was read to its end. */
void reaction_listing_read(struct quorum *quorum, uint32_t voter, enum message_pull_what what,
                           uint32_t partition);

/* From members: this voter started over, and votes from now on. */
void reaction_rejoined(struct quorum *quorum);

#endif
