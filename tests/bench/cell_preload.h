/*
 * Gives a cell many registers from the start. The bench writes them directly into the stores while
 * no agent runs. Their grants belong to a host that never comes back, and nobody asks for these
 * locks, so the registers stay unchanged.
 */
#ifndef BENCH_CELL_PRELOAD_H
#define BENCH_CELL_PRELOAD_H

#include "cell.h"

/* Starts the cell once, so that its stores know each other, and stops it. Then writes `registers`
 * registers into each store, and leaves the agents stopped. Call cell_stop() after a failure,
 * too. */
int cell_preload(struct cell *cell, const char *below, const char *ttl,
                 uint32_t registers) MUST_CHECK;

#endif
