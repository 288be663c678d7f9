/*
 * Writes JSON to a stream: see json.h.
 */
#include "json.h"

#include <inttypes.h>
#include <string.h>

#include "text/utf8.h"

/* Writes a code point as \u escapes, one for each of its units of UTF-16 (one or two). */
static void write_escaped(FILE *out, uint32_t code_point)
{
    if (code_point >= 0x10000) {
        fprintf(out, "\\u%04" PRIx32, 0xD800 + ((code_point - 0x10000) >> 10));
        code_point = 0xDC00 + (code_point & 0x3FF);
    }
    fprintf(out, "\\u%04" PRIx32, code_point);
}

static void write_string(FILE *out, const char *text)
{
    struct hfi_utf8 unit = hfi_utf8_next(text, strnlen(text, HFI_UTF8_MAX));

    fputc('"', out);
    for (; unit.size > 0; unit = hfi_utf8_next(text, strnlen(text, HFI_UTF8_MAX))) {
        if (!unit.valid) {
            fputs("\xEF\xBF\xBD", out);
        } else if (unit.code_point == '"' || unit.code_point == '\\') {
            fprintf(out, "\\%c", (int)unit.code_point);
        } else if (hfi_utf8_is_control(unit.code_point) || hfi_utf8_is_unseen(unit.code_point)) {
            write_escaped(out, unit.code_point);
        } else {
            fwrite(text, 1, unit.size, out);
        }
        text += unit.size;
    }
    fputc('"', out);
}

/* Writes what comes before a value: a comma if it is not the first, and its key. */
static void write_key(struct json *json, const char *key)
{
    uint32_t bit = UINT32_C(1) << json->depth;

    if (json->depth > 0 && (json->nonempty & bit) != 0) {
        fputc(',', json->out);
    }
    json->nonempty |= bit;
    if (key != NULL) {
        write_string(json->out, key);
        fputc(':', json->out);
    }
}

static void open_level(struct json *json, const char *key, char bracket)
{
    write_key(json, key);
    fputc(bracket, json->out);
    json->depth++;
    json->nonempty &= ~(UINT32_C(1) << json->depth);
}

static void close_level(struct json *json, char bracket)
{
    json->depth--;
    fputc(bracket, json->out);
}

void json_init(struct json *json, FILE *out)
{
    *json = (struct json){.out = out};
}

void json_open_object(struct json *json, const char *key)
{
    open_level(json, key, '{');
}

void json_close_object(struct json *json)
{
    close_level(json, '}');
}

void json_open_array(struct json *json, const char *key)
{
    open_level(json, key, '[');
}

void json_close_array(struct json *json)
{
    close_level(json, ']');
}

void json_text(struct json *json, const char *key, const char *text)
{
    if (text == NULL) {
        json_null(json, key);
        return;
    }
    write_key(json, key);
    write_string(json->out, text);
}

void json_unsigned(struct json *json, const char *key, uint64_t value)
{
    write_key(json, key);
    fprintf(json->out, "%" PRIu64, value);
}

void json_bool(struct json *json, const char *key, bool value)
{
    write_key(json, key);
    fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *key)
{
    write_key(json, key);
    fputs("null", json->out);
}

void json_signed_or_null(struct json *json, const char *key, int64_t value)
{
    if (value == -1) {
        json_null(json, key);
        return;
    }
    write_key(json, key);
    fprintf(json->out, "%" PRId64, value);
}

void json_ms_or_null(struct json *json, const char *key, int64_t value_ns)
{
    if (value_ns == -1) {
        json_null(json, key);
        return;
    }
    json_unsigned(json, key, value_ns < 0 ? 0 : (uint64_t)value_ns / 1000000);
}

void json_thousandths_or_null(struct json *json, const char *key, int64_t value)
{
    if (value < 0) {
        json_null(json, key);
        return;
    }
    write_key(json, key);
    fprintf(json->out, "%" PRId64 ".%03" PRId64, value / 1000, value % 1000);
}
