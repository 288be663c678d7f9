/*
 * The data structures of results.h. Only results.c, which fills them, results_print.c,
 * results_plot.c and results_targets.c include this header.
 */
#ifndef PEERS_RESULTS_STORE_H
#define PEERS_RESULTS_STORE_H

#include "results.h"

enum {
    RESULTS_NAME_MAX = 48,
    RESULTS_WORD_MAX = 160,
    RESULTS_VALUES_MAX = 24,
    RESULTS_POINTS_MAX = 20000,
    RESULTS_LINES_MAX = 16,
    RESULTS_NOTES_MAX = 4,
};

struct results_column {
    char name[RESULTS_NAME_MAX];
    char unit[16];
    enum results_better better;
};

struct results_cell {
    double values[RESULTS_VALUES_MAX];
    size_t count;
    char word[RESULTS_WORD_MAX]; /* "": the cell has no word */
};

struct results_point {
    uint32_t line;
    int64_t at_ns;
    int64_t value_ns;
};

struct results_row {
    char peer[RESULTS_NAME_MAX];
    struct results_cell cells[RESULTS_COLUMNS_MAX];
    char notes[RESULTS_NOTES_MAX][RESULTS_TEXT_MAX];
    size_t note_count;
    char histogram_names[RESULTS_HISTOGRAMS_MAX][RESULTS_NAME_MAX];
    struct histogram *histograms[RESULTS_HISTOGRAMS_MAX];
    size_t histogram_count;
    struct results_point *points; /* NULL: there are no points */
    size_t point_count;
};

struct results_table {
    char name[RESULTS_NAME_MAX];
    char what[RESULTS_TEXT_MAX];
    struct results_column columns[RESULTS_COLUMNS_MAX];
    size_t column_count;
    struct results_row rows[RESULTS_ROWS_MAX];
    size_t row_count;
};

struct results {
    char lines[RESULTS_LINES_MAX][RESULTS_TEXT_MAX];
    size_t line_count;
    struct results_table tables[RESULTS_CASES_MAX];
    size_t table_count;
    bool full; /* complain() has reported that a value was lost because there was no room */
};

/* These functions return the median, the least and the greatest value of a cell, which must have
 * values. */
double cell_median(const struct results_cell *cell);
double cell_least(const struct results_cell *cell);
double cell_most(const struct results_cell *cell);

/* Writes a value with its unit, like "12.3 us", "45.6 k/s" or "3 %", with three significant
 * digits. */
void results_format(char *text, size_t size, double value, const char *unit);

#endif
