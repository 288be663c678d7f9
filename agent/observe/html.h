/*
 * Writes HTML into a buffer. Text from outside, such as names of locks, commands and messages of
 * errors, goes through html_text(), which escapes it, so that it cannot add markup to the page.
 * Once the buffer is full, nothing more is added to it.
 */
#ifndef AGENT_OBSERVE_HTML_H
#define AGENT_OBSERVE_HTML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct html {
    char *bytes; /* borrowed */
    size_t size;
    size_t used;
    bool full; /* something did not fit; nothing is added any more */
};

/* Adds markup of this program. No argument may be text from outside. */
void html_add(struct html *html, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Adds bytes from outside as text. Characters with a meaning in HTML are escaped. Bytes that are no
 * UTF-8, and control characters, become U+FFFD. An invisible character that changes how the text
 * around it looks is replaced by its code point. */
void html_text(struct html *html, const void *bytes, size_t size);
void html_string(struct html *html, const char *text);
/* Adds a duration: its two largest units, or seconds with a tenth. A negative duration counts as
 * 0. */
void html_duration(struct html *html, int64_t duration_ns);
/* Adds a duration of whole seconds. */
void html_seconds(struct html *html, int64_t s);
/* Adds a count with a space between thousands. If `more` is true, a plus sign follows. */
void html_count(struct html *html, uint64_t count, bool more);

#endif
