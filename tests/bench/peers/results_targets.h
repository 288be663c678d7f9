/*
 * Holdfast's targets, and whether Holdfast met them: a table of its own, computed from the measured
 * values of Holdfast and its peers.
 *
 * Two peers are compared repetition by repetition, because little time passes between their runs in
 * one repetition. The table has the median and the spread of the ratios of all repetitions. The
 * target "first" compares medians. It names each peer that is better, even a peer that flushes
 * nothing or has no lease; the tables describe these peers.
 */
#ifndef PEERS_RESULTS_TARGETS_H
#define PEERS_RESULTS_TARGETS_H

#include "results.h"

/* Prints the targets of the cases in which Holdfast was measured. Prints nothing if there is no
 * such case. */
void results_targets(const struct results *results, FILE *out);

#endif
