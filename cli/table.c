/*
 * Writes a table: see table.h. The C library's locale C.UTF-8 gives the width of each character, in
 * columns of the terminal. If the system lacks that locale, each character counts as one column.
 */
#include "table.h"

#include <locale.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

#include "text/utf8.h"

enum { GAP = 2 }; /* spaces between two columns */

/* One character of a cell. */
struct glyph {
    const char *text; /* what is written */
    size_t size;      /* the size of the text, in bytes */
    size_t width;     /* the width of the text, in columns of the terminal */
};

static size_t width_of(uint32_t code_point)
{
    static locale_t unicode;
    static bool tried;

    if (!tried) {
        unicode = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
        tried = true;
    }
    if (unicode == (locale_t)0) {
        return 1;
    }
    locale_t before = uselocale(unicode);
    int width = wcwidth((wchar_t)code_point);

    (void)uselocale(before);
    return width < 0 ? 1 : (size_t)width;
}

/* Returns whether the character is one of Unicode's spaces (category Zs) other than U+0020. */
static bool is_other_space(uint32_t code_point)
{
    return code_point == 0x00A0 || code_point == 0x1680 ||
           (code_point >= 0x2000 && code_point <= 0x200A) || code_point == 0x202F ||
           code_point == 0x205F || code_point == 0x3000;
}

/* Reads the character at *text, and moves *text to the next one. Returns false at the end of the
 * text. In a table, two spaces separate two columns. So that a cell never looks like two columns, a
 * space that follows a space becomes `␣`. Other characters that look like a space become `␣` as
 * well. */
static bool next_glyph(const char *start, const char **text, struct glyph *glyph)
{
    static const char visible_space[] = "␣";

    if (**text == '\0') {
        return false;
    }
    struct hfi_utf8 read = hfi_utf8_next(*text, strnlen(*text, HFI_UTF8_MAX));

    *glyph = (struct glyph){*text, read.size, width_of(read.code_point)};
    if (is_other_space(read.code_point) ||
        (**text == ' ' && *text != start && (*text)[-1] == ' ')) {
        *glyph = (struct glyph){visible_space, sizeof(visible_space) - 1, 1};
    }
    *text += read.size;
    return true;
}

/* Returns how many columns of the terminal the cell takes. */
static size_t width_needed(const char *cell)
{
    const char *text = cell;
    struct glyph glyph;
    size_t width = 0;

    while (next_glyph(cell, &text, &glyph)) {
        width += glyph.width;
    }
    return width;
}

void table_init(struct table *table, const struct table_column *columns, size_t count)
{
    table->columns = columns;
    table->count = count;
    for (size_t column = 0; column < count; column++) {
        table->widths[column] = width_needed(columns[column].title);
    }
}

void table_measure(struct table *table, char *const *cells)
{
    for (size_t column = 0; column < table->count; column++) {
        size_t width = width_needed(cells[column]);

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

void table_fit_width(struct table *table, size_t limit)
{
    size_t width = (table->count - 1) * GAP;
    size_t *column = widest(table);

    for (size_t index = 0; index < table->count; index++) {
        width += table->widths[index];
    }
    for (; width > limit && column != NULL; column = widest(table)) {
        --*column;
        width--;
    }
}

void table_fit(struct table *table, FILE *out)
{
    size_t limit = line_width(out);

    if (limit > 0) {
        table_fit_width(table, limit);
    }
}

/* Writes the text, cut to the width, and behind it spaces up to the width of the column. */
static void write_cell(const struct table *table, size_t column, const char *cell, FILE *out)
{
    size_t limit = table->widths[column];
    bool is_cut = width_needed(cell) > limit;
    const char *text = cell;
    struct glyph glyph;
    size_t width = 0;

    /* a cut cell ends with `…`, which takes one column of the terminal */
    while (next_glyph(cell, &text, &glyph) && width + glyph.width <= limit - is_cut) {
        fwrite(glyph.text, 1, glyph.size, out);
        width += glyph.width;
    }
    if (is_cut) {
        fputs("…", out);
        width++;
    }
    if (column + 1 < table->count) {
        fprintf(out, "%*s", (int)(limit + GAP - width), "");
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
