/*
 * Compares two runs of holdfast-peers: shows the values that changed by more than the repetitions
 * of each run differ among themselves.
 */
#ifndef PEERS_COMPARE_H
#define PEERS_COMPARE_H

#include <stdio.h>

enum { COMPARE_OK = 0, COMPARE_UNREADABLE = 66 };

/* Prints what changed from `before` to `after` (paths of JSON files), by case and peer. A result
 * without changes is no error. Returns COMPARE_OK, or COMPARE_UNREADABLE after complain(). */
int compare_runs(const char *before, const char *after, FILE *out);

#endif
