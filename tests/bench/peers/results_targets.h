/*
 * Holdfast's targets beside the others, and whether it met them: a table of its own, computed from
 * the measured values.
 *
 * Where two are compared, their repetitions are taken in pairs (the first of the one with the first
 * of the other, and so on: they were made one shortly after the other); the ratio is the median of
 * those, and its spread stands behind it. "First" goes by medians and names each peer that is
 * ahead, also those that flush nothing or know no lease; the tables describe them.
 */
#ifndef PEERS_RESULTS_TARGETS_H
#define PEERS_RESULTS_TARGETS_H

#include "results.h"

/* Prints the targets of those cases in which Holdfast was measured; nothing if there is none. */
void results_targets(const struct results *results, FILE *out);

#endif
