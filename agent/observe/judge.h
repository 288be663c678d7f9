/*
 * Collects the facts for the judgement about this agent (judgement.h) from the agent's parts. Each
 * fact is in memory, or the kernel gives it without waiting for a disk or another agent.
 */
#ifndef AGENT_OBSERVE_JUDGE_H
#define AGENT_OBSERVE_JUDGE_H

#include "agent.h"
#include "observe/judgement.h"

/* Returns false if there is no memory. */
bool judge_create(struct agent *agent) __attribute__((warn_unused_result));
void judge_destroy(struct agent *agent);

/* Returns the status of this voter's store in a word, or "observer"; NULL: a status that this
 * function does not know. */
const char *judge_vote(const struct agent *agent);
void judge(const struct agent *agent, struct judgement *out);
/* Called in each upkeep: reads the disk's free space from time to time, and logs the judgement if
 * its reasons have changed. */
void judge_look(struct agent *agent, int64_t now_ns);

#endif
