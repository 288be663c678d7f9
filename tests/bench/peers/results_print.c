/*
 * Prints the results as Markdown, for docs/results, and as JSON, for the comparison of two runs.
 *
 * For each case and peer the JSON has the quantities with all values, and the histograms as pairs
 * [highest value of a bucket in ns, count]. HdrHistogram's own tools get the same histogram if they
 * record each of these values as often as its count says.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "results_store.h"
#include "results_targets.h"

/* ---- numbers ---- */

static int compare_doubles(const void *left, const void *right)
{
    double a = *(const double *)left;
    double b = *(const double *)right;
    return (a > b) - (a < b);
}

double cell_median(const struct results_cell *cell)
{
    double sorted[RESULTS_VALUES_MAX];
    memcpy(sorted, cell->values, sizeof(sorted));
    qsort(sorted, cell->count, sizeof(sorted[0]), compare_doubles);
    size_t half = cell->count / 2;
    return cell->count % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
}

double cell_least(const struct results_cell *cell)
{
    double least = cell->values[0];
    for (size_t i = 1; i < cell->count; i++) {
        least = cell->values[i] < least ? cell->values[i] : least;
    }
    return least;
}

double cell_most(const struct results_cell *cell)
{
    double most = cell->values[0];
    for (size_t i = 1; i < cell->count; i++) {
        most = cell->values[i] > most ? cell->values[i] : most;
    }
    return most;
}

/* Writes a number with three significant digits, but at most three decimals: 12.34 as 12.3, and
 * 0.01234 as 0.012. */
static void format_number(char *text, size_t size, double value)
{
    double magnitude = fabs(value);
    int decimals = magnitude >= 100 || magnitude == 0 ? 0
                   : magnitude >= 10                  ? 1
                   : magnitude >= 1                   ? 2
                                                      : 3;
    snprintf(text, size, "%.*f", decimals, value);
}

/* Divides by `step` until the number has at most three digits before its point. Returns the
 * unit. */
static const char *scale(double *value, double step, const char *const *units, size_t count)
{
    size_t at = 0;
    while (at + 1 < count && fabs(*value) >= step * 0.9995) {
        *value /= step;
        at++;
    }
    return units[at];
}

void results_format(char *text, size_t size, double value, const char *unit)
{
    static const char *const times[] = {" ns", " us", " ms", " s"};
    static const char *const rates[] = {"/s", " k/s", " M/s"};
    static const char *const sizes[] = {" bytes", " KiB", " MiB", " GiB"};
    char number[32];
    const char *shown = unit;
    bool is_time = strcmp(unit, "ns") == 0;
    if (is_time) {
        shown = scale(&value, 1000, times, 4);
    } else if (strcmp(unit, "/s") == 0) {
        shown = scale(&value, 1000, rates, 3);
    } else if (strcmp(unit, "bytes") == 0) {
        shown = scale(&value, 1024, sizes, 4);
    }
    if (unit[0] == '\0' && value == trunc(value)) {
        snprintf(number, sizeof(number), "%.0f", value); /* a count has no decimals */
    } else {
        format_number(number, sizeof(number), value);
    }
    snprintf(text, size, "%s%s%s", number, shown == unit && unit[0] != '\0' ? " " : "", shown);
}

/* ---- Markdown ---- */

static void print_cell(const struct results_cell *cell, const char *unit, FILE *out)
{
    char median[48];
    char least[48];
    char most[48];
    if (cell->word[0] != '\0') {
        fprintf(out, " %s |", cell->word);
        return;
    }
    if (cell->count == 0) {
        fputs(" - |", out);
        return;
    }
    results_format(median, sizeof(median), cell_median(cell), unit);
    results_format(least, sizeof(least), cell_least(cell), unit);
    results_format(most, sizeof(most), cell_most(cell), unit);
    if (strcmp(least, most) == 0) {
        fprintf(out, " %s |", median);
    } else {
        fprintf(out, " %s (%s to %s) |", median, least, most);
    }
}

static bool is_empty(const struct results_table *table, size_t column)
{
    for (size_t r = 0; r < table->row_count; r++) {
        const struct results_cell *cell = &table->rows[r].cells[column];
        if (cell->count > 0 || cell->word[0] != '\0') {
            return false;
        }
    }
    return true;
}

static void print_table(const struct results_table *table, FILE *out)
{
    fprintf(out, "\n### %s: %s\n\n| peer |", table->name, table->what);
    for (size_t c = 0; c < table->column_count; c++) {
        if (!is_empty(table, c)) {
            fprintf(out, " %s |", table->columns[c].name);
        }
    }
    fputs("\n| --- |", out);
    for (size_t c = 0; c < table->column_count; c++) {
        fputs(is_empty(table, c) ? "" : " --- |", out);
    }
    for (size_t r = 0; r < table->row_count; r++) {
        fprintf(out, "\n| %s |", table->rows[r].peer);
        for (size_t c = 0; c < table->column_count; c++) {
            if (!is_empty(table, c)) {
                print_cell(&table->rows[r].cells[c], table->columns[c].unit, out);
            }
        }
    }
    fputs("\n", out);
    bool first = true;
    for (size_t r = 0; r < table->row_count; r++) {
        for (size_t n = 0; n < table->rows[r].note_count; n++) {
            fprintf(out, "%s- %s: %s\n", first ? "\n" : "", table->rows[r].peer,
                    table->rows[r].notes[n]);
            first = false;
        }
    }
}

void results_markdown(const struct results *results, FILE *out)
{
    for (size_t i = 0; i < results->line_count; i++) {
        fprintf(out, "- %s\n", results->lines[i]);
    }
    results_targets(results, out);
    for (size_t t = 0; t < results->table_count; t++) {
        if (results->tables[t].row_count > 0) {
            print_table(&results->tables[t], out);
        }
    }
    fflush(out);
}

/* ---- JSON ---- */

static void write_string(const char *text, FILE *out)
{
    fputc('"', out);
    for (const char *c = text; *c != '\0'; c++) {
        if ((unsigned char)*c < 0x20) {
            fprintf(out, "\\u%04x", (unsigned)*c);
        } else {
            fprintf(out, "%s%c", *c == '"' || *c == '\\' ? "\\" : "", *c);
        }
    }
    fputc('"', out);
}

static void write_histogram(const char *name, const struct histogram *histogram, FILE *out)
{
    const char *comma = "";
    fputs("{\"name\":", out);
    write_string(name, out);
    fprintf(out, ",\"significant_figures\":3,\"lowest\":1,\"highest\":%" PRId64,
            (INT64_C(1) << HISTOGRAM_VALUE_BITS) - 1);
    fprintf(out, ",\"total\":%" PRIu64 ",\"max\":%" PRId64 ",\"counts\":[", histogram->total,
            histogram->max_ns);
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        if (histogram->counts[i] != 0) {
            fprintf(out, "%s[%" PRId64 ",%" PRIu64 "]", comma, histogram_highest(i),
                    histogram->counts[i]);
            comma = ",";
        }
    }
    fputs("]}", out);
}

static const char *better_word(enum results_better better)
{
    return better == BETTER_LOWER ? "lower" : better == BETTER_HIGHER ? "higher" : "neither";
}

static void write_cell(const struct results_column *column, const struct results_cell *cell,
                       FILE *out)
{
    fputs("{\"name\":", out);
    write_string(column->name, out);
    fputs(",\"unit\":", out);
    write_string(column->unit, out);
    fprintf(out, ",\"better\":\"%s\",\"values\":[", better_word(column->better));
    for (size_t v = 0; v < cell->count; v++) {
        fprintf(out, "%s%.9g", v == 0 ? "" : ",", cell->values[v]);
    }
    fputs("],\"word\":", out);
    write_string(cell->word, out);
    fputs("}", out);
}

static void write_row(const struct results_table *table, const struct results_row *row, FILE *out)
{
    const char *comma = "";
    fputs("{\"case\":", out);
    write_string(table->name, out);
    fputs(",\"peer\":", out);
    write_string(row->peer, out);
    fputs(",\"quantities\":[", out);
    for (size_t c = 0; c < table->column_count; c++) {
        if (row->cells[c].count > 0 || row->cells[c].word[0] != '\0') {
            fputs(comma, out);
            write_cell(&table->columns[c], &row->cells[c], out);
            comma = ",";
        }
    }
    fputs("],\"notes\":[", out);
    for (size_t n = 0; n < row->note_count; n++) {
        fputs(n == 0 ? "" : ",", out);
        write_string(row->notes[n], out);
    }
    fputs("],\"histograms\":[", out);
    for (size_t h = 0; h < row->histogram_count; h++) {
        fputs(h == 0 ? "" : ",", out);
        write_histogram(row->histogram_names[h], row->histograms[h], out);
    }
    fputs("],\"time_line\":[", out);
    for (size_t p = 0; p < row->point_count; p++) {
        fprintf(out, "%s[%u,%" PRId64 ",%" PRId64 "]", p == 0 ? "" : ",", row->points[p].line,
                row->points[p].at_ns, row->points[p].value_ns);
    }
    fputs("]}", out);
}

int results_json(const struct results *results, const char *path)
{
    const char *comma = "\n";
    FILE *out = fopen(path, "we");
    if (out == NULL) {
        return complain("%s: %s", path, strerror(errno));
    }
    fprintf(out, "{\"format\":\"holdfast-peers\",\"version\":1,\"about\":[");
    for (size_t i = 0; i < results->line_count; i++) {
        fputs(i == 0 ? "" : ",", out);
        write_string(results->lines[i], out);
    }
    fputs("],\"cases\":{", out);
    for (size_t t = 0; t < results->table_count; t++) {
        fputs(t == 0 ? "" : ",", out);
        write_string(results->tables[t].name, out);
        fputs(":", out);
        write_string(results->tables[t].what, out);
    }
    fputs("},\"rows\":[", out);
    for (size_t t = 0; t < results->table_count; t++) {
        for (size_t r = 0; r < results->tables[t].row_count; r++) {
            fputs(comma, out);
            write_row(&results->tables[t], &results->tables[t].rows[r], out);
            comma = ",\n";
        }
    }
    fputs("\n]}\n", out);
    bool written = ferror(out) == 0;
    return fclose(out) == 0 && written ? 0 : complain("%s: %s", path, strerror(errno));
}
