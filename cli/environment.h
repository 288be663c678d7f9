/*
 * CMD learns about its holds from its environment: HOLDFAST_LOCK, HOLDFAST_TOKEN,
 * HOLDFAST_SEQUENCER.
 */
#ifndef HOLDFAST_CLI_ENVIRONMENT_H
#define HOLDFAST_CLI_ENVIRONMENT_H

#include <stdbool.h>
#include <stddef.h>

#include <holdfast/holdfast.h>

/* The holds: arrays of count elements, in the order of the arguments. */
struct held {
    hf_client *client;
    hf_lock **locks;
    struct hf_hold *holds;
    char **names;
    size_t count;
    int64_t had_ns; /* CLOCK_BOOTTIME, just after all of them were taken */
    bool in_use; /* a thread may use the client, the locks and the names until the process ends */
};

/* Sets the three variables in this process; CMD inherits them. Returns 0 or HF_E... (HF_ELOST: a
 * hold ended meanwhile). */
int environment_set(const struct held *held) __attribute__((warn_unused_result));

/* Returns whether the first word of a value of HOLDFAST_LOCK is that name. */
bool environment_names(const char *list, const char *name);

#endif
