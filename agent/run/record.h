/*
 * The record of voters by which the agent goes (docs/PROTOCOL.md, "Changing the voters").
 *
 * The configuration's [voters] begins a cell, and says where an agent looks first. From then on the
 * record in the store decides who votes. agent->record is the present one. All other parts of the
 * agent read the voters in agent->host_config, and their names as text in agent->voter_names.
 */
#ifndef AGENT_RECORD_H
#define AGENT_RECORD_H

#include <stdbool.h>

#include "agent.h"

/* Takes the record with which the agent starts: that of the store. A store without one is of a cell
 * that never changed: its record is that of number 1, of the voters that the store knows, or of the
 * configuration. Fills in the voters of agent->host_config. Returns AGENT_EXIT_OK, or an exit code
 * with one line in agent->error. */
int record_begin(struct agent *agent) __attribute__((warn_unused_result));

/* Finds out whether the store has voted: whether the agent needs a quorum core. A voter whose
 * removal is complete begins again with an empty store, as an observer, so it may become a voter
 * again. A store that has promised or accepted in the register of the next record keeps what it
 * has, because that record may have been chosen. Returns as record_begin(). */
int record_see_votes(struct agent *agent, bool *voted) __attribute__((warn_unused_result));

/* Compares the cell's rules, as configured, with those that the store has had since the agent first
 * ran. Rules that differ are refused, except in a cell of one voter, where the configured rules
 * replace the stored ones. The voters are no part of the comparison: those of the record count, and
 * record_tell() reports a configuration with others. Returns as record_begin(). */
int record_check_rules(struct agent *agent, const struct message_rules *rules)
    __attribute__((warn_unused_result));

/* Logs how [voters] should read if it differs from the record. Called at the start, and after each
 * change. */
void record_tell(const struct agent *agent);

/* Returns whether [voters] of the configuration differs from the record. If so, writes how it
 * should read to text, its lines separated by "; ". */
bool record_differs(const struct agent *agent, char *text, size_t size);

/* Returns whether the record is only that of an observer's configuration. */
bool record_is_unsure(const struct agent *agent);

/* For struct driver_operations; arg is the agent. */
void record_changed(void *arg, const struct message_voters *record);
void record_complete(void *arg, uint32_t number);

/* Returns whether this agent is the only voter of its cell. */
bool record_is_alone(const struct agent *agent);

#endif
