/*
 * The facts for the judgement about this agent (judgement.h), from its parts. Each fact is in
 * memory, or the kernel gives it without waiting for a disk or another agent.
 */
#ifndef AGENT_OBSERVE_JUDGE_H
#define AGENT_OBSERVE_JUDGE_H

#include "agent.h"
#include "observe/judgement.h"

/* Returns false if there is no memory. */
bool judge_create(struct agent *agent) __attribute__((warn_unused_result));
void judge_destroy(struct agent *agent);

/* The status of this agent's store, in a word; NULL: a new one. */
const char *judge_vote(const struct agent *agent);
void judge(const struct agent *agent, struct judgement *out);
/* Called in each upkeep: looks at the disk's room from time to time, and logs a judgement with
 * other reasons than the one before. */
void judge_look(struct agent *agent, int64_t now_ns);

#endif
