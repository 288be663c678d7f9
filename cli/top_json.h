/*
 * Writes a reading of `holdfast top` as one JSON object in one line.
 */
#ifndef HOLDFAST_CLI_TOP_JSON_H
#define HOLDFAST_CLI_TOP_JSON_H

#include <stdio.h>

#include "top_frame.h"

/* Writes {time, error, ...}. If the last attempt failed, error is a text, and there are no further
 * members; else it is null. Returns 0 or HF_ENOMEM. */
int top_json_write(const struct top_news *news, FILE *out) __attribute__((warn_unused_result));

#endif
