/*
 * Writes why a lock was not taken, why `holdfast lock` or `hold` waits for a lock, or why a hold
 * was lost: see hf_why() in holdfast.h. Each report is one line: for people on stderr, or with
 * --json an object on the stream of cli_json_stream().
 */
#ifndef HOLDFAST_CLI_WHY_H
#define HOLDFAST_CLI_WHY_H

#include <stdbool.h>
#include <stddef.h>

#include "environment.h"

/*
 * Finds the first lock, in the order of the arguments, that this process does not hold and for
 * which hf_why() has a reason other than HF_WHY_NOTHING. If there is none, finds the first lock for
 * which hf_why() succeeds. Returns the lock's index, or held->count.
 */
size_t why_find(const struct held *held, struct hf_reason *out);

/* Writes that holdfast waits for a lock, and why. */
void why_waiting(const struct held *held, size_t index, const struct hf_reason *reason, bool json);

/*
 * Writes that the locks could not be taken (error is HF_EBUSY or HF_ETIMEDOUT), with the lock that
 * could not be taken and the reason. Returns the exit status: CLI_NO_MAJORITY if no majority of the
 * voters answers, else not_now_status.
 */
int why_not_had(const struct held *held, int error, int not_now_status, bool json);

/* With --json: writes that the locks could not be taken because no connection was made. status: the
 * exit status. sentence: what went wrong. */
void why_no_agent(const struct held *held, int status, const char *sentence);

/* Writes that the hold of held->names[index] has ended, and why. Does not ask the agent. `so` is a
 * text for people about the consequence, such as ": ending the command". */
void why_lost(const struct held *held, size_t index, const char *so, bool json);

#endif
