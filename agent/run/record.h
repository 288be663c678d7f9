/*
 * The record of voters that the agent uses (docs/PROTOCOL.md, "Changing the voters").
 *
 * A cell begins with the voters in [voters] of the configuration, and an agent asks these voters
 * first. From then on the record in the store says which agents vote. agent->record is the present
 * record. All other parts of the agent read the voters from agent->host_config, and their names as
 * text from agent->voter_names.
 */
#ifndef AGENT_RECORD_H
#define AGENT_RECORD_H

#include <stdbool.h>

#include "agent.h"

/* Sets agent->record to the record with which the agent starts. That is the record in the store. If
 * the store has none, the cell never changed its voters. In that case this call makes the record of
 * number 1, with the voters that the store knows, or with those of the configuration. Fills in the
 * voters of agent->host_config. Returns AGENT_EXIT_OK, or an exit code with one line in
 * agent->error. */
int record_begin(struct agent *agent) __attribute__((warn_unused_result));

/* Sets *voted to whether the store has voted, so that the agent needs a quorum core. If this voter
 * was removed and its removal is complete, this call empties its store, and the agent continues as
 * an observer that may become a voter again. A store that has accepted something in the register of
 * the next record is not emptied, because that record may have been chosen. Returns AGENT_EXIT_OK
 * or an exit code, like record_begin(). */
int record_see_votes(struct agent *agent, bool *voted) __attribute__((warn_unused_result));

/* Compares the cell's rules, as configured, with those that the store has had since the agent first
 * ran. Rules that differ are refused, except in a cell of one voter, where the configured rules
 * replace the stored ones. The voters are not compared: the agent uses those of the record, and
 * record_tell() reports if the configuration has others. Returns AGENT_EXIT_OK or an exit code,
 * like record_begin(). */
int record_check_rules(struct agent *agent, const struct message_rules *rules)
    __attribute__((warn_unused_result));

/* Logs how [voters] should read if it differs from the record. Called at the start, and after each
 * change. */
void record_tell(const struct agent *agent);

/* Returns whether [voters] of the configuration differs from the record. If so, writes to `text`
 * how it should read, its lines separated by "; ". */
bool record_differs(const struct agent *agent, char *text, size_t size);

/* Returns whether the record was only made from the configuration of an observer. */
bool record_is_unsure(const struct agent *agent);

/* For struct driver_operations; arg is the agent. */
void record_changed(void *arg, const struct message_voters *record);
void record_complete(void *arg, uint32_t number);

/* Returns whether this agent is the only voter of its cell. */
bool record_is_alone(const struct agent *agent);

#endif
