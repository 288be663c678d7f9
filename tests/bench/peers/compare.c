/*
 * See compare.h. SQLite's JSON functions read the two files, in a database in memory.
 *
 * A quantity counts as changed if the ranges of its values in the two runs do not overlap, and if
 * its medians differ by more than the wider of the two ranges. Both conditions are needed, because
 * three values tell little about a spread. A single value has no spread, so only a change by half
 * or more is shown.
 */
#include "compare.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "results_store.h"

enum { FILE_SIZE_MAX = 64 << 20 };

static const double single_change = 1.5;

static const char schema[] =
    "CREATE TABLE quantity(run INTEGER, row INTEGER, place INTEGER, case_name TEXT, peer TEXT,"
    " name TEXT, unit TEXT, better TEXT, word TEXT, vals TEXT)";

static const char load[] =
    "INSERT INTO quantity SELECT ?2, r.key, q.key, json_extract(r.value,'$.case'),"
    " json_extract(r.value,'$.peer'), json_extract(q.value,'$.name'),"
    " json_extract(q.value,'$.unit'), json_extract(q.value,'$.better'),"
    " json_extract(q.value,'$.word'), json_extract(q.value,'$.values')"
    " FROM json_each(?1,'$.rows') AS r, json_each(r.value,'$.quantities') AS q";

static const char pairs[] =
    "SELECT b.case_name, b.peer, b.name, b.unit, b.better, a.vals, b.vals, a.word, b.word"
    " FROM quantity AS b LEFT JOIN quantity AS a ON a.run = 0 AND a.case_name = b.case_name"
    " AND a.peer = b.peer AND a.name = b.name WHERE b.run = 1 ORDER BY b.row, b.place";

/* Returns the text of the whole file, which the caller frees, or NULL after complain(). */
static char *read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        complain("%s: %s", path, strerror(errno));
        return NULL;
    }
    char *text = malloc(FILE_SIZE_MAX);
    size_t size = text == NULL ? 0 : fread(text, 1, FILE_SIZE_MAX - 1, file);
    bool whole = text != NULL && ferror(file) == 0 && size < FILE_SIZE_MAX - 1;
    fclose(file);
    if (!whole) {
        complain("%s: cannot be read, or is larger than %d MiB", path, FILE_SIZE_MAX >> 20);
        free(text);
        return NULL;
    }
    text[size] = '\0';
    return text;
}

static int load_run_file(sqlite3 *database, const char *path, int run)
{
    sqlite3_stmt *statement = NULL;
    char *text = read_file(path);
    if (text == NULL) {
        return -1;
    }
    int result = -1;
    if (strstr(text, "\"format\":\"holdfast-peers\",\"version\":1") == NULL) {
        complain("%s: not what holdfast-peers --json writes (version 1)", path);
    } else if (sqlite3_prepare_v2(database, load, -1, &statement, NULL) != SQLITE_OK ||
               sqlite3_bind_text(statement, 1, text, -1, SQLITE_STATIC) != SQLITE_OK ||
               sqlite3_bind_int(statement, 2, run) != SQLITE_OK ||
               sqlite3_step(statement) != SQLITE_DONE) {
        complain("%s: %s", path, sqlite3_errmsg(database));
    } else {
        result = 0;
    }
    sqlite3_finalize(statement);
    free(text);
    return result;
}

/* Reads a text like "[1.5,2]" into cell->values. */
static void parse_values(const char *text, struct results_cell *cell)
{
    cell->count = 0;
    if (text == NULL || *text != '[') {
        return;
    }
    text++;
    while (*text != ']' && *text != '\0' && cell->count < RESULTS_VALUES_MAX) {
        char *end;
        cell->values[cell->count] = strtod(text, &end);
        if (end == text) {
            return;
        }
        cell->count++;
        text = *end == ',' ? end + 1 : end;
    }
}

static bool is_change(const struct results_cell *before, const struct results_cell *after)
{
    double from = cell_median(before);
    double to = cell_median(after);
    double least = from < to ? from : to;
    double most = from < to ? to : from;
    if (before->count < 2 || after->count < 2) {
        return most > least * single_change;
    }
    double spread_before = cell_most(before) - cell_least(before);
    double spread_after = cell_most(after) - cell_least(after);
    double spread = spread_before > spread_after ? spread_before : spread_after;
    bool apart = cell_most(before) < cell_least(after) || cell_most(after) < cell_least(before);
    return apart && most - least > spread;
}

static const char *direction(const char *better, double from, double to)
{
    if (strcmp(better, "neither") == 0) {
        return "";
    }
    return (strcmp(better, "higher") == 0) == (to > from) ? "better" : "worse";
}

/* Prints one row of the join if its quantity changed. Returns whether it printed the row. */
static bool print_change(sqlite3_stmt *row, FILE *out)
{
    const char *text[9];
    struct results_cell before;
    struct results_cell after;
    char from_text[48];
    char to_text[48];
    for (int i = 0; i < 9; i++) {
        const char *value = (const char *)sqlite3_column_text(row, i);
        text[i] = value == NULL ? "" : value;
    }
    parse_values(text[5], &before);
    parse_values(text[6], &after);
    if (text[7][0] != '\0' || text[8][0] != '\0') {
        bool changed = sqlite3_column_type(row, 7) != SQLITE_NULL && strcmp(text[7], text[8]) != 0;
        if (changed) {
            fprintf(out, "%-10s %-38s %-24s %s -> %s\n", text[0], text[1], text[2], text[7],
                    text[8]);
        }
        return changed;
    }
    if (before.count == 0 || after.count == 0 || !is_change(&before, &after)) {
        return false;
    }
    double from = cell_median(&before);
    double to = cell_median(&after);
    results_format(from_text, sizeof(from_text), from, text[3]);
    results_format(to_text, sizeof(to_text), to, text[3]);
    fprintf(out, "%-10s %-38s %-24s %s -> %s", text[0], text[1], text[2], from_text, to_text);
    if (from != 0) {
        fprintf(out, " (x %.2f)", to / from);
    }
    fprintf(out, " %s\n", direction(text[4], from, to));
    return true;
}

static int print_changes(sqlite3 *database, FILE *out)
{
    sqlite3_stmt *statement = NULL;
    size_t compared = 0;
    size_t changed = 0;
    int step = sqlite3_prepare_v2(database, pairs, -1, &statement, NULL);
    while (step == SQLITE_OK || step == SQLITE_ROW) {
        step = sqlite3_step(statement);
        if (step == SQLITE_ROW) {
            compared += sqlite3_column_type(statement, 5) != SQLITE_NULL ? 1 : 0;
            changed += print_change(statement, out) ? 1 : 0;
        }
    }
    sqlite3_finalize(statement);
    fprintf(out, "%zu quantities in both runs; %zu changed beyond the spread of the repetitions\n",
            compared, changed);
    return step == SQLITE_DONE ? COMPARE_OK : COMPARE_UNREADABLE;
}

int compare_runs(const char *before, const char *after, FILE *out)
{
    sqlite3 *database = NULL;
    int result = COMPARE_UNREADABLE;
    if (sqlite3_open(":memory:", &database) != SQLITE_OK ||
        sqlite3_exec(database, schema, NULL, NULL, NULL) != SQLITE_OK) {
        complain("sqlite: %s", sqlite3_errmsg(database));
    } else if (load_run_file(database, before, 0) == 0 && load_run_file(database, after, 1) == 0) {
        result = print_changes(database, out);
    }
    sqlite3_close(database);
    return result;
}
