/*
 * The table of agents. It gives an index to each agent name that this voter has met. Other modules
 * keep the index instead of the name, and use it as the index of their own tables.
 *
 * Invariants: the voters come first, in the order of the configuration, so a voter's index in the
 * table is its index among the voters. An index keeps its name for as long as any module knows
 * something of that agent. The table never shrinks. If the table is full, a call returns false;
 * that is no error of the program.
 *
 * Strangers: without TLS anybody can invent agent names. Once the table is three-quarters full, an
 * agent that announces itself may take over an entry of which only the name is known. So invented
 * names do not keep an agent of the cell out.
 */
#ifndef QUORUM_AGENTS_H
#define QUORUM_AGENTS_H

#include "step.h"

enum { AGENTS_NONE = 0xffff }; /* an agent's index that means: no agent */

struct agents;

struct agents *agents_lay_out(struct arena *arena, const struct quorum_limits *limits);
void agents_init(struct quorum *quorum);

uint32_t agents_count(const struct quorum *quorum);
const struct message_agent *agents_name(const struct quorum *quorum, uint32_t index);
/* Returns false, and sets *index to AGENTS_NONE, if the table does not have the name. */
bool agents_find(const struct quorum *quorum, const struct message_agent *name, uint32_t *index);
/* As agents_find(), but adds a name that is new. Returns false if the table is full. */
bool agents_make(struct quorum *quorum, const struct message_agent *name, uint32_t *index)
    __attribute__((warn_unused_result));
/* As agents_make(), for an agent that announces itself. Once the table is three-quarters full, this
 * call may evict an agent of which only the name is known. Call it at most once in a step, and
 * before the step uses any agent's index. */
bool agents_guest(struct quorum *quorum, const struct message_agent *name, uint32_t *index)
    __attribute__((warn_unused_result));
/* Sets *voter to the index of the voter that sent the message. Returns false if no voter sent
 * it. */
bool agents_voter(const struct quorum *quorum, const struct message *message, uint32_t *voter);

#endif
