/*
 * Handles a `holdfast lock` that runs inside the CMD of another `holdfast lock` with the same lock.
 * The inner command would wait for the outer one for ever. So it is refused, or with --nested runs
 * under the outer hold.
 *
 * The inner command finds the outer hold in HOLDFAST_LOCK and HOLDFAST_SEQUENCER. A process that
 * CMD left behind still has these variables after the hold has ended. So the inner command asks the
 * agent whether the hold still counts.
 */
#ifndef HOLDFAST_CLI_NESTED_H
#define HOLDFAST_CLI_NESTED_H

#include <stdbool.h>
#include <stddef.h>

#include <holdfast/holdfast.h>

/*
 * Checks which of these locks are held by outer commands. If none is, sets *outer to false and
 * returns 0. If all are, and `nested` is set, sets *outer to true and returns 0; but a shared outer
 * hold does only if this command asks for `shared` locks. In all other cases writes a line to
 * stderr and returns the exit status.
 */
int nested_check(hf_client *client, char *const *names, size_t count, bool nested, bool shared,
                 bool *outer) __attribute__((warn_unused_result));

/* Replaces this process by CMD, which stays in the process group of the outer CMD. Returns the exit
 * status if that fails. */
int nested_exec(char **command) __attribute__((warn_unused_result));

#endif
