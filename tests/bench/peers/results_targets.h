/*
 * Holdfast's targets, and whether Holdfast met them: a table of its own, computed from the measured
 * values of Holdfast and its peers.
 *
 * A comparison of two peers pairs their repetitions, the first with the first and so on, because
 * these ran shortly after each other. The table has the median and the spread of the pairs' ratios.
 * The target "first" compares medians. It names each peer that is better, even one that flushes
 * nothing or has no lease; the tables describe these peers.
 */
#ifndef PEERS_RESULTS_TARGETS_H
#define PEERS_RESULTS_TARGETS_H

#include "results.h"

/* Prints the targets of the cases in which Holdfast was measured. Prints nothing if there is no
 * such case. */
void results_targets(const struct results *results, FILE *out);

#endif
