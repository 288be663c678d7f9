/*
 * Says why a lock was not had: see hf_why in holdfast.h.
 */
#ifndef HOLDFAST_CLI_WHY_H
#define HOLDFAST_CLI_WHY_H

#include "environment.h"

/*
 * Reports on stderr, in one line, that the locks could not be taken (error is HF_EBUSY or
 * HF_ETIMEDOUT), with the lock that was in the way and the reason. Returns the exit status:
 * CLI_NO_MAJORITY if no majority of the voters answers, else not_now_status.
 */
int why_not_had(const struct held *held, int error, int not_now_status);

#endif
