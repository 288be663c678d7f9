/*
 * `holdfast lock` inside the CMD of another `holdfast lock` that holds the same lock. It would wait
 * for itself, so it is refused, or with --nested runs under the outer hold.
 *
 * The outer hold is found by HOLDFAST_LOCK and HOLDFAST_SEQUENCER. A process that CMD left behind
 * still has these variables when the hold is over. So the command asks the agent whether the hold
 * is held now.
 */
#ifndef HOLDFAST_CLI_NESTED_H
#define HOLDFAST_CLI_NESTED_H

#include <stdbool.h>
#include <stddef.h>

#include <holdfast/holdfast.h>

/*
 * Checks whether outer holds have these locks. Returns 0 with *outer false if they have none of
 * them, and with *outer true if `nested` is set and they have all of them. Otherwise returns the
 * exit status, with a line on stderr.
 */
int nested_check(hf_client *client, char *const *names, size_t count, bool nested, bool *outer)
    __attribute__((warn_unused_result));

/* Replaces this process by CMD, in the process group of the outer one. Returns the exit status if
 * that fails. */
int nested_exec(char **command) __attribute__((warn_unused_result));

#endif
