/*
 * Writes JSON (RFC 8259) to a stream, one value after the other, and puts the commas between them.
 * Text passes through as UTF-8; other bytes become U+FFFD, so that the output is always valid.
 * Control characters are escaped, so that it is also safe to show on a terminal.
 */
#ifndef HOLDFAST_CLI_JSON_H
#define HOLDFAST_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    unsigned depth;    /* at most 31 */
    uint32_t nonempty; /* bit n: the object or array at depth n has a member */
};

void json_init(struct json *json, FILE *out);

/* `key` is NULL inside an array and at the top. */
void json_open_object(struct json *json, const char *key);
void json_close_object(struct json *json);
void json_open_array(struct json *json, const char *key);
void json_close_array(struct json *json);
/* a text that is NULL becomes null */
void json_text(struct json *json, const char *key, const char *text);
void json_unsigned(struct json *json, const char *key, uint64_t value);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
/* -1, "unknown" in libholdfast, becomes null. */
void json_signed_or_null(struct json *json, const char *key, int64_t value);
/* Nanoseconds as whole milliseconds: -1 becomes null, every other negative number 0. Rounded down,
 * so that no hold looks longer than it is. */
void json_ms_or_null(struct json *json, const char *key, int64_t value_ns);

#endif
