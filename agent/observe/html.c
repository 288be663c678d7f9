/* Writes HTML: see html.h. */
#include "observe/html.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "text/utf8.h"

void html_add(struct html *html, const char *format, ...)
{
    va_list arguments;
    size_t room = html->size - html->used;
    if (html->full) {
        return; /* a shorter text might still fit, but text before it is missing */
    }
    va_start(arguments, format);
    int size = vsnprintf(html->bytes + html->used, room, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= room) {
        html->full = true;
        html->bytes[html->used] = '\0'; /* drops the part that vsnprintf() wrote */
        return;
    }
    html->used += (size_t)size;
}

static void add_character(struct html *html, const struct hfi_utf8 *character, const char *bytes)
{
    switch (character->code_point) {
    case '<':
        html_add(html, "&lt;");
        return;
    case '>':
        html_add(html, "&gt;");
        return;
    case '&':
        html_add(html, "&amp;");
        return;
    case '"':
        html_add(html, "&quot;");
        return;
    case '\'':
        html_add(html, "&#39;");
        return;
    default:
        break;
    }
    if (!character->valid || hfi_utf8_is_control(character->code_point)) {
        html_add(html, "\xef\xbf\xbd"); /* U+FFFD */
    } else if (hfi_utf8_is_unseen(character->code_point)) {
        html_add(html, "&lt;U+%04" PRIX32 "&gt;", character->code_point);
    } else {
        html_add(html, "%.*s", (int)character->size, bytes);
    }
}

void html_text(struct html *html, const void *bytes, size_t size)
{
    const char *at = bytes;
    while (size > 0) {
        struct hfi_utf8 character = hfi_utf8_next(at, size);
        add_character(html, &character, at);
        at += character.size;
        size -= character.size;
    }
}

void html_string(struct html *html, const char *text)
{
    html_text(html, text, strlen(text));
}

void html_duration(struct html *html, int64_t duration_ns)
{
    int64_t tenths = duration_ns > 0 ? duration_ns / 100000000 : 0;
    if (tenths < 600) {
        html_add(html, "%" PRId64 ".%" PRId64 "&nbsp;s", tenths / 10, tenths % 10);
    } else {
        html_seconds(html, tenths / 10);
    }
}

void html_seconds(struct html *html, int64_t s)
{
    static const struct {
        int64_t s;
        const char *name;
    } units[] = {{24 * 3600, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    uint32_t first = 0;
    while (first < 3 && s < units[first].s) {
        first++;
    }
    html_add(html, "%" PRId64 "&nbsp;%s", s / units[first].s, units[first].name);
    int64_t rest = first < 3 ? s % units[first].s / units[first + 1].s : 0;
    if (rest > 0) {
        html_add(html, " %" PRId64 "&nbsp;%s", rest, units[first + 1].name);
    }
}

void html_count(struct html *html, uint64_t count, bool more)
{
    char digits[24];
    int length = snprintf(digits, sizeof(digits), "%" PRIu64, count);
    for (int i = 0; i < length; i++) {
        /* U+202F is a narrow space at which no line breaks */
        html_add(html, "%s%c", i > 0 && (length - i) % 3 == 0 ? "&#8239;" : "", digits[i]);
    }
    html_add(html, "%s", more ? "+" : "");
}
