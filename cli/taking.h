/*
 * Takes the locks. A signal ends the wait for them at once.
 */
#ifndef HOLDFAST_CLI_TAKING_H
#define HOLDFAST_CLI_TAKING_H

#include <signal.h>
#include <stdint.h>

#include "environment.h"

/*
 * Takes all of held->locks in the mode, and fills in held->holds and held->had_ns. The caller must
 * have blocked SIGHUP, SIGINT, SIGQUIT and SIGTERM. If one of them arrives, the call takes no lock
 * and sets *signal_number to the signal. Otherwise it sets *signal_number to 0. Returns 0 or
 * HF_E...
 */
int taking_run(struct held *held, enum hf_mode mode, int64_t timeout_ns, int *signal_number)
    __attribute__((warn_unused_result));

/* Releases all locks. Returns HF_ELOST if a hold had ended before, else 0. *lost: the index of the
 * first such hold. */
int taking_undo(struct held *held, size_t *lost);

#endif
