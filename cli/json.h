/*
 * Writes JSON (RFC 8259) to a stream: one value after the other, with commas between them. A text
 * keeps its UTF-8. Each byte that is not UTF-8 becomes U+FFFD, so that the output is always valid.
 * Control characters are escaped, so that a terminal can show the output safely.
 */
#ifndef HOLDFAST_CLI_JSON_H
#define HOLDFAST_CLI_JSON_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *out;
    unsigned depth;    /* at most 31 */
    uint32_t nonempty; /* bit n is set if the object or array at depth n has a member */
};

void json_init(struct json *json, FILE *out);

/* `key` is NULL inside an array and at the top. */
void json_open_object(struct json *json, const char *key);
void json_close_object(struct json *json);
void json_open_array(struct json *json, const char *key);
void json_close_array(struct json *json);
/* A text that is NULL becomes null. */
void json_text(struct json *json, const char *key, const char *text);
void json_unsigned(struct json *json, const char *key, uint64_t value);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
/* -1, "unknown" in libholdfast, becomes null. */
void json_signed_or_null(struct json *json, const char *key, int64_t value);
/* Writes thousandths as a number with three decimals; -1 becomes null. */
void json_thousandths_or_null(struct json *json, const char *key, int64_t value);
/* Writes nanoseconds as whole milliseconds, rounded down, so that no hold seems to last longer than
 * it does. -1 becomes null, and every other negative number 0. */
void json_ms_or_null(struct json *json, const char *key, int64_t value_ns);

#endif
