/*
 * The table of agents. It gives an index to each agent name that this voter has met. Other modules
 * keep the index instead of the name, and use it as the index of their own tables. A voter has two
 * indexes: as an agent in this table, and as a voter among the cell's voters.
 *
 * Invariants: each voter of the cell has an entry. An index keeps its name for as long as any
 * module knows something of that agent, or the agent is a voter. The table never shrinks. If the
 * table is full, a call returns false; that is no error of the program.
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
/* Does what agents_find() does, but adds a name that is new. Returns false if the table is full. */
bool agents_make(struct quorum *quorum, const struct message_agent *name, uint32_t *index)
    __attribute__((warn_unused_result));
/* Does what agents_make() does, for an agent that announces itself. Once the table is
 * three-quarters full, this call may evict an agent of which only the name is known. Call it at
 * most once in a step, and before the step uses any agent's index. */
bool agents_guest(struct quorum *quorum, const struct message_agent *name, uint32_t *index)
    __attribute__((warn_unused_result));

/* Gives the voters of the configuration, and this agent, their entries. Call it when the voters
 * have changed; the table must have room. */
void agents_follow(struct quorum *quorum);

/* ---- Voters ---- */

/* Sets *voter to the sender's index among the voters. Returns false if the sender of the message is
 * no voter. */
bool agents_voter(const struct quorum *quorum, const struct message *message, uint32_t *voter);
/* Does what agents_voter() does. Returns false also if the ballot is not that voter's own. */
bool agents_proposer(const struct quorum *quorum, const struct message *message, uint64_t ballot,
                     uint32_t *voter);
/* Returns the voter's index in the table of agents; this agent's index if `voter` is
 * QUORUM_NO_VOTER. */
uint32_t agents_of_voter(const struct quorum *quorum, uint32_t voter);
/* Returns the agent's index among the voters; voter_count if the agent is no voter. `index` is the
 * agent's index in the table of agents. */
uint32_t agents_as_voter(const struct quorum *quorum, uint32_t index);
/* Does what step_send() does, for a voter. */
struct message *agents_send_voter(struct quorum *quorum, uint32_t voter, enum message_kind kind);

#endif
