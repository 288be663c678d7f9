/*
 * The table of agents: each name that was ever heard of is known by an index, which other modules
 * keep instead of the name and have tables of their own by.
 *
 * Invariants: the voters come first, in the order of the configuration, so a voter's index in the
 * table is its index among the voters. An index keeps its name for as long as any module knows
 * something of that agent. The table never shrinks; full is an answer, not a crash.
 *
 * Strangers: without TLS anybody can say names. Once the table is three-quarters full, an agent
 * that announces itself may take the entry of one of which nothing is known but its name. So
 * invented names do not keep an agent of the cell out.
 */
#ifndef QUORUM_AGENTS_H
#define QUORUM_AGENTS_H

#include "step.h"

enum { AGENTS_NONE = 0xffff }; /* as the index of an agent: no agent */

struct agents;

struct agents *agents_lay_out(struct arena *arena, const struct quorum_limits *limits);
void agents_init(struct quorum *quorum);

uint32_t agents_count(const struct quorum *quorum);
const struct message_agent *agents_name(const struct quorum *quorum, uint32_t index);
/* false: the table does not have it; *index is AGENTS_NONE. */
bool agents_find(const struct quorum *quorum, const struct message_agent *name, uint32_t *index);
/* The same, made if it is new. false: the table is full. */
bool agents_make(struct quorum *quorum, const struct message_agent *name, uint32_t *index)
    __attribute__((warn_unused_result));
/* As agents_make(), for an agent that announces itself. Once the table is three-quarters full, this
 * may evict an entry known by name only. To be called once a step, before the agent's index is used
 * for anything. */
bool agents_guest(struct quorum *quorum, const struct message_agent *name, uint32_t *index)
    __attribute__((warn_unused_result));
/* The index of the voter that sent the message; false: no voter did. */
bool agents_voter(const struct quorum *quorum, const struct message *message, uint32_t *voter);

#endif
