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
/* From agents: whether nothing is known of that agent but that somebody said its name. Forgotten, it
 * is as it was before. */
bool reaction_agent_is_unknown(const struct quorum *quorum, uint32_t agent);

/* From registers: whether another voter than that one coordinates the partition, as far as it can be
 * known here. No promise is due to a challenger then; whether it gets one makes nothing unsafe. */
bool reaction_is_owned(const struct quorum *quorum, uint32_t partition, uint32_t voter);
/* From registers: a value is accepted under that ballot elsewhere. */
void reaction_beaten(struct quorum *quorum, uint32_t partition, uint64_t ballot);

#endif
