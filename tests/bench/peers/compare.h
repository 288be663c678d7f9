/*
 * Two runs of holdfast-peers side by side: the values that changed by more than the repetitions of
 * either differ among themselves.
 */
#ifndef PEERS_COMPARE_H
#define PEERS_COMPARE_H

#include <stdio.h>

enum { COMPARE_OK = 0, COMPARE_UNREADABLE = 66 };

/* Prints what changed, by case and peer, from `before` to `after` (paths of JSON files). No change
 * is an error. Returns COMPARE_OK, or COMPARE_UNREADABLE after complain(). */
int compare_runs(const char *before, const char *after, FILE *out);

#endif
