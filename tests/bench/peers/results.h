/*
 * The results of a run of the comparison. Each case is a table, and each peer is a row of it. For
 * each quantity a row has one value for each repetition, and a row can have histograms. The results
 * are printed as Markdown, written as JSON, and plotted.
 *
 * A case adds a result by (case, peer, quantity). Rows and columns appear in the order in which
 * they were first named. The functions copy all texts. If there is no room left, complain() reports
 * it once, and further results are dropped.
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

/* Which values are better, for the comparison of two runs. */
enum results_better { BETTER_LOWER, BETTER_HIGHER, BETTER_NEITHER };

struct results;

struct results *results_create(void);
void results_destroy(struct results *results);

/* Adds one line above the tables, for example about the machine. */
void results_say(struct results *results, const char *format, ...) PRINTF_LIKE(2, 3);

/* Names a case and says what it measures. A second call with the same name replaces the text. */
void results_case(struct results *results, const char *name, const char *what);

/* Places a column before it has values; otherwise the columns follow in the order of their first
 * values. An empty column is not shown. */
void results_column(struct results *results, const char *name, const char *quantity);

/* Adds the value of one repetition. The unit "ns" is printed as ns, us, ms or s. Other units, as
 * "/s", "bytes", "%" and "", are printed as they are. */
void results_add(struct results *results, const char *name, const char *peer, const char *quantity,
                 const char *unit, enum results_better better, double value);

/* Sets a word that is shown in place of a number ("no", "not shared", "3 of 5"). A later word
 * replaces an earlier one. */
void results_word(struct results *results, const char *name, const char *peer, const char *quantity,
                  const char *format, ...) PRINTF_LIKE(5, 6);

/* Adds a note below the table. */
void results_note(struct results *results, const char *name, const char *peer, const char *format,
                  ...) PRINTF_LIKE(4, 5);

/* Adds a histogram to the row's histogram of that name (what: "pair", "wait", "handover"). */
void results_histogram(struct results *results, const char *name, const char *peer,
                       const char *what, const struct histogram *histogram);

/* Adds a point of a time line: at_ns counts from the line's beginning, and value_ns is how long a
 * client waited. `line` is the number of the repetition, from 0. */
void results_point(struct results *results, const char *name, const char *peer, uint32_t line,
                   int64_t at_ns, int64_t value_ns);

void results_markdown(const struct results *results, FILE *out);
int results_json(const struct results *results, const char *path) MUST_CHECK;
/* Writes SVG files into that folder, with gnuplot. */
int results_plot(const struct results *results, const char *directory) MUST_CHECK;

#endif
