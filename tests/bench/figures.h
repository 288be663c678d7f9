/*
 * The comparisons. Each function starts the agents that it needs under bench->directory, measures,
 * stops the agents, and fills in a figure whose name and text are already set. It returns 0, or -1
 * after complain(). The comment behind a function names its file, also for the functions below it.
 */
#ifndef BENCH_FIGURES_H
#define BENCH_FIGURES_H

#include "measure.h"

typedef int figure_fn(const struct bench *bench, struct figure *figure) MUST_CHECK;

figure_fn figure_exclusive; /* uncontended.c */
figure_fn figure_shared;    /* uncontended.c */
figure_fn figure_flock;     /* against_flock.c */
figure_fn figure_barging_2; /* barging.c */
figure_fn figure_barging_8;
figure_fn figure_fcfs_2; /* fcfs.c */
figure_fn figure_fcfs_8;
figure_fn figure_first;         /* first.c */
figure_fn figure_idle;          /* idle.c */
figure_fn figure_memory_closed; /* memory.c */
figure_fn figure_memory_open;

/* Figures of a cell of three voters. */
figure_fn figure_cell_cached; /* cell_first.c */
figure_fn figure_cell_first;
figure_fn figure_cell_clients;   /* cell_load.c */
figure_fn figure_cell_alternate; /* cell_hands.c */
figure_fn figure_cell_waiting;
figure_fn figure_cell_tries;  /* cell_tries.c */
figure_fn figure_cell_killed; /* cell_death.c */
figure_fn figure_cell_vanished;
figure_fn figure_cell_replaced; /* cell_change.c */
figure_fn figure_cell_tokens;   /* cell_tokens.c */
figure_fn figure_cell_renewals; /* cell_size.c */
figure_fn figure_cell_million;
figure_fn figure_cell_observers; /* cell_observers.c */

#endif
