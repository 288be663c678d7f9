/*
 * The results of a run of the comparison: for each case a table, for each peer a row in it, for
 * each quantity one value a repetition, and histograms. Printed as Markdown, written as JSON,
 * plotted.
 *
 * A case adds to it by (case, peer, quantity); rows and columns appear in the order in which they
 * were first named. Texts are copied. If there is no more room, complain() says so once, and the
 * rest is dropped.
 */
#ifndef PEERS_RESULTS_H
#define PEERS_RESULTS_H

#include <stdio.h>

#include "../measure.h"
#include "histogram.h"

enum {
    RESULTS_ROWS_MAX = 32,
    RESULTS_COLUMNS_MAX = 16,
    RESULTS_CASES_MAX = 24,
    RESULTS_TEXT_MAX = 320,
    RESULTS_HISTOGRAMS_MAX = 4,
};

/* Which way is better; for the comparison of two runs. */
enum results_better { BETTER_LOWER, BETTER_HIGHER, BETTER_NEITHER };

struct results;

struct results *results_create(void);
void results_destroy(struct results *results);

/* One line above the tables: the machine, the clock's cost. */
void results_say(struct results *results, const char *format, ...) PRINTF_LIKE(2, 3);

/* Names a case and what it measures. A second call with the same word changes nothing. */
void results_case(struct results *results, const char *name, const char *what);

/* Gives a column its place before it has values; without, places go by first mention. A column
 * that stays empty is not shown. */
void results_column(struct results *results, const char *name, const char *quantity);

/* One value of one repetition. unit: "ns" is printed as ns, us, ms or s; "/s", "bytes", "%", ""
 * and others as they are. */
void results_add(struct results *results, const char *name, const char *peer, const char *quantity,
                 const char *unit, enum results_better better, double value);

/* A word that stands in place of a number ("no", "not shared", "3 of 5"). If there are several, the
 * last one is shown. */
void results_word(struct results *results, const char *name, const char *peer, const char *quantity,
                  const char *format, ...) PRINTF_LIKE(5, 6);

/* A note below the table. */
void results_note(struct results *results, const char *name, const char *peer, const char *format,
                  ...) PRINTF_LIKE(4, 5);

/* Adds a histogram to the row's histogram of that name (what: "pair", "wait", "handover"). */
void results_histogram(struct results *results, const char *name, const char *peer,
                       const char *what, const struct histogram *histogram);

/* A point of a time line: at_ns from the line's beginning, value in ns (what a client waited).
 * Line: one a repetition, from 0. */
void results_point(struct results *results, const char *name, const char *peer, uint32_t line,
                   int64_t at_ns, int64_t value_ns);

void results_markdown(const struct results *results, FILE *out);
int results_json(const struct results *results, const char *path) MUST_CHECK;
/* Writes SVG files to that folder, by gnuplot. */
int results_plot(const struct results *results, const char *directory) MUST_CHECK;

#endif
