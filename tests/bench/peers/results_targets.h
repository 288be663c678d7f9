/*
 * Holdfast's targets beside the others, and whether it met them: a table of its own, computed from
 * the measured values.
 *
 * Where two peers are compared, their repetitions are paired: first with first, and so on, since
 * these ran shortly after each other. The table has the median of the pairs' ratios, and behind it
 * their spread. "First" goes by medians and names each peer that is ahead, also those that flush
 * nothing or know no lease; the tables describe them.
 */
#ifndef PEERS_RESULTS_TARGETS_H
#define PEERS_RESULTS_TARGETS_H

#include "results.h"

/* Prints the targets of the cases in which Holdfast was measured. Prints nothing if there are
 * none. */
void results_targets(const struct results *results, FILE *out);

#endif
