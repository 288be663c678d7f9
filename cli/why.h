/*
 * Says why a lock was not had, is waited for, or was lost: see hf_why in holdfast.h. Each is one
 * line on stderr: for people, or with --json an object.
 */
#ifndef HOLDFAST_CLI_WHY_H
#define HOLDFAST_CLI_WHY_H

#include <stdbool.h>
#include <stddef.h>

#include "environment.h"

/*
 * Finds the first lock, in the order of the arguments, that this process does not hold and that
 * something stands in the way of; without one, the first whose reason can be had. Returns its
 * index, or held->count if there is none.
 */
size_t why_find(const struct held *held, struct hf_reason *out);

/* Writes that a lock is waited for, and why. */
void why_waiting(const struct held *held, size_t index, const struct hf_reason *reason, bool json);

/*
 * Writes that the locks could not be taken (error is HF_EBUSY or HF_ETIMEDOUT), with the lock that
 * was in the way and the reason. Returns the exit status: CLI_NO_MAJORITY if no majority of the
 * voters answers, else not_now_status.
 */
int why_not_had(const struct held *held, int error, int not_now_status, bool json);

/* Writes that the hold of held->names[index] has ended, and why; it does not ask the agent. `so` is
 * what follows from that, for people: ": ending the command". */
void why_lost(const struct held *held, size_t index, const char *so, bool json);

#endif
