/*
 * Writes a table: see table.h. Each character counts as one column of the terminal.
 */
#include "table.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "text/utf8.h"

enum { GAP = 2 }; /* spaces between two columns */

static size_t character_size(const char *text)
{
    return hfi_utf8_next(text, strnlen(text, HFI_UTF8_MAX)).size;
}

static size_t count_characters(const char *text)
{
    size_t count = 0;

    for (; *text != '\0'; text += character_size(text)) {
        count++;
    }
    return count;
}

void table_init(struct table *table, const struct table_column *columns, size_t count)
{
    table->columns = columns;
    table->count = count;
    for (size_t column = 0; column < count; column++) {
        table->widths[column] = count_characters(columns[column].title);
    }
}

void table_measure(struct table *table, char *const *cells)
{
    for (size_t column = 0; column < table->count; column++) {
        size_t width = count_characters(cells[column]);

        table->widths[column] = width > table->widths[column] ? width : table->widths[column];
    }
}

/* Returns the number of characters in a line of the terminal, or 0 if there is no limit. */
static size_t line_width(FILE *out)
{
    struct winsize size;
    int fd = fileno(out);

    return isatty(fd) == 1 && ioctl(fd, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

/* Returns the widest column that may become narrower, or NULL. */
static size_t *widest(struct table *table)
{
    size_t *found = NULL;

    for (size_t column = 0; column < table->count; column++) {
        size_t least = table->columns[column].least;

        if (least > 0 && table->widths[column] > least &&
            (found == NULL || table->widths[column] > *found)) {
            found = &table->widths[column];
        }
    }
    return found;
}

void table_fit(struct table *table, FILE *out)
{
    size_t limit = line_width(out);
    size_t width = (table->count - 1) * GAP;
    size_t *column = widest(table);

    for (size_t index = 0; index < table->count; index++) {
        width += table->widths[index];
    }
    for (; limit > 0 && width > limit && column != NULL; column = widest(table)) {
        --*column;
        width--;
    }
}

/* Writes the text, cut to the width, and behind it spaces up to the width of the column. */
static void write_cell(const struct table *table, size_t column, const char *text, FILE *out)
{
    size_t width = table->widths[column];
    size_t count = count_characters(text);
    size_t kept = count > width ? width - 1 : count; /* the last one becomes … */
    const char *end = text;

    for (size_t index = 0; index < kept; index++) {
        end += character_size(end);
    }
    fwrite(text, 1, (size_t)(end - text), out);
    fputs(count > width ? "…" : "", out);
    if (column + 1 < table->count) {
        size_t pad = width + GAP - (count > width ? width : count);

        fprintf(out, "%*s", (int)pad, "");
    }
}

void table_write_titles(const struct table *table, FILE *out)
{
    for (size_t column = 0; column < table->count; column++) {
        write_cell(table, column, table->columns[column].title, out);
    }
    fputc('\n', out);
}

void table_write_row(const struct table *table, char *const *cells, FILE *out)
{
    for (size_t column = 0; column < table->count; column++) {
        write_cell(table, column, cells[column], out);
    }
    fputc('\n', out);
}
