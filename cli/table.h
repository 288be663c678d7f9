/*
 * A table for people: a line of titles, and rows of cells in columns of one width each.
 *
 * The caller first passes each row to table_measure(), calls table_fit(), and then writes the
 * titles and the rows. On a terminal, table_fit() makes columns narrower until a row fits into a
 * line; a text that is longer than its column ends with `…`. Elsewhere every text is whole, because
 * the reader may be a program. Of several spaces in a row, all but the first are written as `␣`,
 * and so is each other character that looks like a space.
 */
#ifndef HOLDFAST_CLI_TABLE_H
#define HOLDFAST_CLI_TABLE_H

#include <stddef.h>
#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 8 };

struct table_column {
    const char *title;
    size_t least; /* table_fit() keeps at least this width; 0: it does not change the width */
};

struct table {
    const struct table_column *columns; /* borrowed */
    size_t count;
    size_t widths[TABLE_COLUMNS_MAX]; /* in columns of the terminal */
};

void table_init(struct table *table, const struct table_column *columns, size_t count);

/* Makes the columns wide enough for this row. A cell is UTF-8 without control characters, as
 * text_write_clean() writes it. */
void table_measure(struct table *table, char *const *cells);

/* If `out` is a terminal, makes the widest columns narrower until a row fits into one of its
 * lines. */
void table_fit(struct table *table, FILE *out);

/* Makes the widest columns narrower until a row has at most `limit` characters. The columns that
 * have a least width may still be too wide for a very small limit. */
void table_fit_width(struct table *table, size_t limit);

void table_write_titles(const struct table *table, FILE *out);
void table_write_row(const struct table *table, char *const *cells, FILE *out);

#endif
