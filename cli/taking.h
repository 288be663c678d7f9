/*
 * Takes the locks in such a way that a signal ends the wait at once.
 */
#ifndef HOLDFAST_CLI_TAKING_H
#define HOLDFAST_CLI_TAKING_H

#include <signal.h>
#include <stdint.h>

#include "environment.h"

/* The signals that end the wait: SIGHUP, SIGINT, SIGQUIT, SIGTERM. */
void taking_signals(sigset_t *out);

/*
 * Takes all of held->locks in the mode; fills in held->holds and held->had_ns. The signals of
 * taking_signals() must be blocked. If one arrives, the call holds nothing and sets *signal_number
 * to its number; otherwise it sets *signal_number to 0. Returns 0 or HF_E...
 */
int taking_run(struct held *held, enum hf_mode mode, int64_t timeout_ns, int *signal_number)
    __attribute__((warn_unused_result));

/* Releases everything. HF_ELOST if any hold had ended before; else 0. *lost: the first such hold,
 * in the order of the arguments. */
int taking_undo(struct held *held, size_t *lost);

#endif
