/*
 * The environment variables that tell CMD about its holds: HOLDFAST_LOCK, HOLDFAST_TOKEN,
 * HOLDFAST_SEQUENCER.
 */
#ifndef HOLDFAST_CLI_ENVIRONMENT_H
#define HOLDFAST_CLI_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include <holdfast/holdfast.h>

/* The holds: arrays of count elements, in the order of the arguments. */
struct held {
    const char *where; /* the command word, which begins the lines for people */
    hf_client *client;
    hf_lock **locks;
    struct hf_hold *holds;
    char **names;
    size_t count;
    int64_t had_ns; /* CLOCK_BOOTTIME, just after the last lock was taken */
    /* waiting.c's thread may use the client, the locks and the names until the process ends */
    bool in_use;
};

/* Sets the three variables in this process, from which CMD inherits them. Returns 0 or HF_E...
 * (HF_ELOST: a hold has ended). */
int environment_set(const struct held *held) __attribute__((warn_unused_result));

/* Returns whether the first word of `list`, a value of HOLDFAST_LOCK, is `name`. */
bool environment_names(const char *list, const char *name);

#endif
