/*
 * Handles a `holdfast lock` or `hold` that runs inside the CMD of another `holdfast lock` with the
 * same lock. The inner command would wait for the outer one for ever. So it is refused, or with
 * --nested runs under the outer hold. `hold` has no --nested.
 *
 * The inner command finds the outer holds in the environment (outer.h), and asks the agent whether
 * they still count.
 */
#ifndef HOLDFAST_CLI_NESTED_H
#define HOLDFAST_CLI_NESTED_H

#include <stdbool.h>
#include <stddef.h>

#include <holdfast/holdfast.h>

#include "outer.h"

/* The locks that the inner command asks for. */
struct nested_options {
    const char *where;  /* the inner command's word, "lock" or "hold" */
    char *const *names; /* its locks */
    size_t count;
    bool nested;
    bool shared;
};

/*
 * Checks which of the locks are held by outer commands. If none is, sets *under to false and
 * returns 0. If all are, and `nested` is set, sets *under to true, makes the environment that of a
 * CMD under these holds (outer_adopt()), and returns 0; but a shared outer hold is enough only if
 * this command asks for shared locks. In all other cases writes a line to stderr and returns the
 * exit status.
 */
int nested_check(hf_client *client, struct outer *outer, const struct nested_options *options,
                 bool *under) __attribute__((warn_unused_result));

/* Replaces this process by CMD, which stays in the process group of the outer CMD. Returns the exit
 * status if that fails, after a line on stderr that ends with the hint. */
int nested_exec(char **command, const char *hint) __attribute__((warn_unused_result));

#endif
