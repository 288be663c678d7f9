/*
 * Registers that a cell has from the start: they are written directly into its stores while no
 * agent runs. They belong to a host that never comes back and that nobody waits for, so they stay
 * as they are.
 */
#ifndef BENCH_CELL_PRELOAD_H
#define BENCH_CELL_PRELOAD_H

#include "cell.h"

/* Starts the cell, so that its stores know each other, stops it, and writes so many registers into
 * each store; agents are not running then. Call cell_stop() after a failure, too. */
int cell_preload(struct cell *cell, const char *below, const char *ttl,
                 uint32_t registers) MUST_CHECK;

#endif
