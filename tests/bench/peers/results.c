/*
 * Stores the results: see results.h and results_store.h.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "results_store.h"

struct results *results_create(void)
{
    struct results *results = calloc(1, sizeof(*results));
    if (results == NULL) {
        complain("no memory for the results");
    }
    return results;
}

void results_destroy(struct results *results)
{
    for (size_t t = 0; results != NULL && t < results->table_count; t++) {
        for (size_t r = 0; r < results->tables[t].row_count; r++) {
            struct results_row *row = &results->tables[t].rows[r];
            for (size_t h = 0; h < row->histogram_count; h++) {
                free(row->histograms[h]);
            }
            free(row->points);
        }
    }
    free(results);
}

static void send_full(struct results *results, const char *what)
{
    if (!results->full) {
        results->full = true;
        complain("no room for more results (%s): the rest is left out", what);
    }
}

void results_say(struct results *results, const char *format, ...)
{
    if (results->line_count == RESULTS_LINES_MAX) {
        send_full(results, "lines");
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(results->lines[results->line_count++], RESULTS_TEXT_MAX, format, args);
    va_end(args);
}

static struct results_table *table_of(struct results *results, const char *name)
{
    for (size_t i = 0; i < results->table_count; i++) {
        if (strcmp(results->tables[i].name, name) == 0) {
            return &results->tables[i];
        }
    }
    if (results->table_count == RESULTS_CASES_MAX) {
        send_full(results, "cases");
        return NULL;
    }
    struct results_table *table = &results->tables[results->table_count++];
    snprintf(table->name, sizeof(table->name), "%s", name);
    return table;
}

static struct results_row *row_of(struct results *results, const char *name, const char *peer)
{
    struct results_table *table = table_of(results, name);
    for (size_t i = 0; table != NULL && i < table->row_count; i++) {
        if (strcmp(table->rows[i].peer, peer) == 0) {
            return &table->rows[i];
        }
    }
    if (table == NULL || table->row_count == RESULTS_ROWS_MAX) {
        send_full(results, "rows");
        return NULL;
    }
    struct results_row *row = &table->rows[table->row_count++];
    snprintf(row->peer, sizeof(row->peer), "%s", peer);
    return row;
}

static struct results_column *column_of(struct results *results, struct results_table *table,
                                        const char *name)
{
    for (size_t i = 0; i < table->column_count; i++) {
        if (strcmp(table->columns[i].name, name) == 0) {
            return &table->columns[i];
        }
    }
    if (table->column_count == RESULTS_COLUMNS_MAX) {
        send_full(results, "columns");
        return NULL;
    }
    struct results_column *column = &table->columns[table->column_count++];
    snprintf(column->name, sizeof(column->name), "%s", name);
    return column;
}

/* Returns the cell of a row and a column, which it makes if they are missing. Returns NULL if there
 * is no room. */
static struct results_cell *cell_of(struct results *results, const char *name, const char *peer,
                                    const char *quantity, struct results_column **out_column)
{
    struct results_row *row = row_of(results, name, peer);
    if (row == NULL) {
        return NULL;
    }
    struct results_table *table = table_of(results, name);
    struct results_column *column = column_of(results, table, quantity);
    if (column == NULL) {
        return NULL;
    }
    *out_column = column;
    return &row->cells[column - table->columns];
}

void results_case(struct results *results, const char *name, const char *what)
{
    struct results_table *table = table_of(results, name);
    if (table != NULL) {
        snprintf(table->what, sizeof(table->what), "%s", what);
    }
}

void results_column(struct results *results, const char *name, const char *quantity)
{
    struct results_table *table = table_of(results, name);
    if (table != NULL) {
        (void)column_of(results, table, quantity);
    }
}

void results_add(struct results *results, const char *name, const char *peer, const char *quantity,
                 const char *unit, enum results_better better, double value)
{
    struct results_column *column;
    struct results_cell *cell = cell_of(results, name, peer, quantity, &column);
    if (cell == NULL) {
        return;
    }
    if (cell->count == RESULTS_VALUES_MAX) {
        send_full(results, "repetitions");
        return;
    }
    cell->values[cell->count++] = value;
    snprintf(column->unit, sizeof(column->unit), "%s", unit);
    column->better = better;
}

void results_word(struct results *results, const char *name, const char *peer, const char *quantity,
                  const char *format, ...)
{
    struct results_column *column;
    struct results_cell *cell = cell_of(results, name, peer, quantity, &column);
    if (cell != NULL) {
        va_list args;
        va_start(args, format);
        vsnprintf(cell->word, sizeof(cell->word), format, args);
        va_end(args);
    }
}

void results_note(struct results *results, const char *name, const char *peer, const char *format,
                  ...)
{
    char text[RESULTS_TEXT_MAX];
    struct results_row *row = row_of(results, name, peer);
    if (row == NULL) {
        return;
    }
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    for (size_t i = 0; i < row->note_count; i++) {
        if (strcmp(row->notes[i], text) == 0) {
            return;
        }
    }
    if (row->note_count == RESULTS_NOTES_MAX) {
        send_full(results, "notes");
        return;
    }
    snprintf(row->notes[row->note_count++], RESULTS_TEXT_MAX, "%s", text);
}

void results_histogram(struct results *results, const char *name, const char *peer,
                       const char *what, const struct histogram *histogram)
{
    struct results_row *row = row_of(results, name, peer);
    size_t at = 0;
    while (row != NULL && at < row->histogram_count &&
           strcmp(row->histogram_names[at], what) != 0) {
        at++;
    }
    if (row == NULL || at == RESULTS_HISTOGRAMS_MAX) {
        send_full(results, "histograms");
        return;
    }
    if (at == row->histogram_count) {
        row->histograms[at] = calloc(1, sizeof(struct histogram));
        if (row->histograms[at] == NULL) {
            send_full(results, "memory");
            return;
        }
        snprintf(row->histogram_names[at], RESULTS_NAME_MAX, "%s", what);
        row->histogram_count++;
    }
    histogram_add(row->histograms[at], histogram);
}

void results_point(struct results *results, const char *name, const char *peer, uint32_t line,
                   int64_t at_ns, int64_t value_ns)
{
    struct results_row *row = row_of(results, name, peer);
    if (row != NULL && row->points == NULL) {
        row->points = calloc(RESULTS_POINTS_MAX, sizeof(row->points[0]));
    }
    if (row == NULL || row->points == NULL || row->point_count == RESULTS_POINTS_MAX) {
        send_full(results, "points of a time line");
        return;
    }
    row->points[row->point_count++] = (struct results_point){
        .line = line, .at_ns = at_ns, .value_ns = value_ns};
}
