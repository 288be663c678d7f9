/*
 * The tables of `holdfast top`: which rows a reading has, in which order, and their cells.
 *
 * These functions need neither the agent nor a terminal.
 */
#ifndef HOLDFAST_CLI_TOP_ROWS_H
#define HOLDFAST_CLI_TOP_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "table.h"
#include "top_reading.h"

enum top_view {
    TOP_LOCKS, /* the locks in use */
    TOP_WAITS, /* which process waits for which other one */
    TOP_HOSTS,
    TOP_VIEW_COUNT,
};

enum top_order {
    TOP_BY_WAITERS, /* the longest queue first */
    TOP_BY_HOLDS,   /* the most holds a second first */
    TOP_BY_WAIT,    /* the longest wait first */
    TOP_BY_AGE,     /* the oldest hold first; of hosts: the most holds first */
    TOP_BY_NAME,    /* of hosts: the voters first */
    TOP_ORDER_COUNT,
};

/* One row. The comment at a member names the views that set it; other views leave it NULL. */
struct top_row {
    const struct top_lock *lock;   /* TOP_LOCKS, TOP_WAITS */
    const struct hf_party *waiter; /* TOP_WAITS */
    const struct top_host *host;   /* TOP_HOSTS */
    /* by_process: the process in the CMD of `waiter` that waits (top_nested.h); else NULL */
    const struct hf_party *inner;
    size_t place; /* the row's index in the order of names */
};

struct top_rows {
    enum top_view view;
    struct top_row *rows;
    size_t count;
    /* TOP_WAITS: all waits, in the order of the processes that wait */
    struct top_row *by_process; /* also waits of outer processes, which have no row of their own */
    size_t by_process_count;
};

/* Finds and sorts the rows. Not every view has every order: see top_view_has(). Returns 0 or
 * HF_ENOMEM. The rows point into the reading. */
int top_rows_make(const struct top_reading *reading, enum top_view view, enum top_order order,
                  bool reverse, struct top_rows *out) __attribute__((warn_unused_result));
void top_rows_free(struct top_rows *rows);

/* Returns whether the view can be sorted in that order. */
bool top_view_has(enum top_view view, enum top_order order);

/* Returns the word of --sort for an order, and the key that chooses it. */
const char *top_order_word(enum top_order order);
char top_order_key(enum top_order order);

/* Returns the title of a view, such as "locks". */
const char *top_view_word(enum top_view view);

/*
 * Writes the titles, and `count` rows from `first` on, one in each line. width: the number of
 * characters in a line; 0: no limit. Returns 0 or HF_ENOMEM.
 */
int top_rows_write(const struct top_rows *rows, size_t first, size_t count, size_t width, FILE *out)
    __attribute__((warn_unused_result));

/*
 * Of a wait: returns the process for which it waits, or NULL if there is not exactly one known
 * holder. Sets *further to the lock for which that holder waits itself, or to NULL. Sets *circle if
 * the waits lead back to the waiting process, or to a `holdfast lock` in whose CMD it runs. That
 * may be a deadlock.
 */
const struct hf_party *top_wait_follow(const struct top_rows *rows, const struct top_row *row,
                                       const struct top_lock **further, bool *circle);

/* Writes thousandths as a rate for people: "0", "0.25", "12.3" or "1234"; "-" for -1. */
void top_write_rate(FILE *out, int64_t milli);

#endif
