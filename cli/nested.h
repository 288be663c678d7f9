/*
 * `holdfast lock` within the CMD of another one that holds the same lock. It would wait for itself,
 * so it is refused, or with --nested runs under the outer hold.
 *
 * The outer hold is known by HOLDFAST_LOCK and HOLDFAST_SEQUENCER. A process that was left behind
 * keeps these when the hold is over. So the agent is asked whether the hold is held now.
 */
#ifndef HOLDFAST_CLI_NESTED_H
#define HOLDFAST_CLI_NESTED_H

#include <stdbool.h>
#include <stddef.h>

#include <holdfast/holdfast.h>

/*
 * Looks whether outer holds have these locks. Returns 0 with *outer false if they have none of
 * them, and with *outer true if `nested` is set and they have all of them. Otherwise it returns the
 * exit status, with a line on stderr.
 */
int nested_check(hf_client *client, char *const *names, size_t count, bool nested, bool *outer)
    __attribute__((warn_unused_result));

/* Replaces this process by CMD, in the process group of the outer one. If that fails: the exit
 * status. */
int nested_exec(char **command) __attribute__((warn_unused_result));

#endif
