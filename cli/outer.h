/*
 * The holds of the `holdfast lock` commands whose CMD, directly or through other commands, runs
 * this process, as the environment names them.
 *
 * HOLDFAST_LOCK, HOLDFAST_TOKEN and HOLDFAST_SEQUENCER name the holds of the nearest of these
 * commands. HOLDFAST_OUTER_LOCK, HOLDFAST_OUTER_TOKEN and HOLDFAST_OUTER_SEQUENCER name those of
 * all commands outside it, the nearest first. All six are lists of the same form (environment.h).
 *
 * A process that CMD left behind still has these variables after the holds have ended. So only the
 * agent knows whether a hold that they name still counts.
 */
#ifndef HOLDFAST_CLI_OUTER_H
#define HOLDFAST_CLI_OUTER_H

#include <stdbool.h>
#include <stddef.h>

#include <holdfast/holdfast.h>

enum { OUTER_VARIABLES = 3 }; /* names, tokens, sequencers */

struct outer_hold {
    const char *words[OUTER_VARIABLES]; /* name, token and sequencer, as in the environment */
    bool nearest;                       /* the nearest command has this hold */
};

struct outer {
    char *texts[2 * OUTER_VARIABLES]; /* memory that the words point into */
    struct outer_hold *holds;
    size_t count;
};

/* Reads the environment. outer_free() frees what it allocates. Returns 0 or HF_ENOMEM. */
int outer_read(struct outer *out) __attribute__((warn_unused_result));
void outer_free(struct outer *outer);

/* Returns whether the hold is one of the lock `name`. */
bool outer_is(const struct outer_hold *hold, const char *name);

/* Returns the hold's sequencer. */
const char *outer_sequencer(const struct outer_hold *hold);

/* Returns the environment variable in which the hold's lock is named. */
const char *outer_variable(const struct outer_hold *hold);

/* Removes the holds that are over, as far as the agent knows, so that the lists do not grow for
 * ever where a process that CMD left behind runs `holdfast lock` again. */
void outer_prune(struct outer *outer, hf_client *client);

/* Sets HOLDFAST_OUTER_LOCK, _TOKEN and _SEQUENCER to all of these holds, or unsets them if there
 * are none. Returns 0 or HF_ENOMEM. */
int outer_export(const struct outer *outer) __attribute__((warn_unused_result));

/*
 * For a CMD that runs under outer holds of these locks: if the nearest command does not hold all of
 * them, sets HOLDFAST_LOCK, _TOKEN and _SEQUENCER to the holds of these locks, and calls
 * outer_export(). The indexes name the hold of each lock. Returns 0 or HF_ENOMEM.
 */
int outer_adopt(const struct outer *outer, const size_t *indexes, size_t count)
    __attribute__((warn_unused_result));

#endif
