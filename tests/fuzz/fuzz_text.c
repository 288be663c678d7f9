/*
 * Text that the command reads from people and shows to them: durations, names, and text of other
 * processes as JSON and on a terminal. Whatever the bytes are, the JSON is valid, and the output
 * does not control a terminal.
 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "options.h"
#include "proto/check.h"
#include "proto/frame.h"
#include "text.h"
#include "text/utf8.h"

enum { TEXT_BYTES_MAX = 600, OUT_MAX = 65536 };

static const char *const samples[] = {"5s",
                                      "100ms",
                                      "9223372036h",
                                      "1m",
                                      "18446744073709551615ms",
                                      "jobs/nightly",
                                      "orders/\xc3\xa4\xe2\x82\xac\xf0\x9f\x94\x92",
                                      "a\x1b[31m\"\\\n\x7f",
                                      "\xc2\x9b\xed\xa0\x80\xf4\x90\x80\x80",
                                      "sh -c 'exit 1' \xff\xfe",
                                      "a\xe2\x80\xae"
                                      "b\xe2\x81\xa6"
                                      "c\xe2\x80\x8e"};

static size_t text_seed(size_t index, uint8_t *bytes, size_t size)
{
    if (index >= sizeof(samples) / sizeof(samples[0]) || strlen(samples[index]) > size) {
        return 0;
    }
    memcpy(bytes, samples[index], strlen(samples[index]));
    return strlen(samples[index]);
}

/* options.c calls this for its errors, which this fuzzer never causes. */
int cli_usage_error(const char *where, const char *format, ...)
{
    (void)where;
    (void)format;
    return CLI_USAGE;
}

/* Checks that the text is visible UTF-8. The check uses the decoder of proto/name.c, because the
 * code that wrote the text uses another decoder. */
static void check_shown(const char *text, size_t size)
{
    for (size_t at = 0; at < size;) {
        unsigned char lead = (unsigned char)text[at];
        size_t length = lead < 0xc0 ? 1 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
        HF_CHECK(length <= size - at);
        HF_CHECK(lead == '\n' || hfi_prefix_check(text + at, length) == 0);
        /* The text has no character that changes the direction of writing: U+200E, U+200F, U+202A
         * to U+202E, U+2066 to U+2069. */
        HF_CHECK(length != 3 || memcmp(text + at, "\xe2\x80", 2) != 0 ||
                 ((unsigned char)text[at + 2] & 0xfe) != 0x8e);
        HF_CHECK(length != 3 || memcmp(text + at, "\xe2\x80", 2) != 0 ||
                 (unsigned char)text[at + 2] < 0xaa || (unsigned char)text[at + 2] > 0xae);
        HF_CHECK(length != 3 || memcmp(text + at, "\xe2\x81", 2) != 0 ||
                 (unsigned char)text[at + 2] < 0xa6 || (unsigned char)text[at + 2] > 0xa9);
        at += length;
    }
}

/* Checks one string of JSON, from its first quote to its last. */
static void check_string(const char *json, size_t size)
{
    HF_CHECK(size >= 2 && json[0] == '"' && json[size - 1] == '"');
    for (size_t i = 1; i + 1 < size; i++) {
        unsigned char byte = (unsigned char)json[i];
        HF_CHECK(byte >= 0x20 && byte != '"');
        if (byte == '\\') {
            char next = json[++i];
            HF_CHECK(i + 1 < size && next != 0 && strchr("\"\\/bfnrtu", next) != NULL);
            for (unsigned digit = 0; next == 'u' && digit < 4; digit++) {
                HF_CHECK(++i + 1 < size && json[i] != 0);
                HF_CHECK(strchr("0123456789abcdef", json[i]) != NULL);
            }
        }
    }
    check_shown(json, size);
}

static void give_to_json(const char *text, FILE *out, char *buffer)
{
    struct json json;
    rewind(out);
    json_init(&json, out);
    json_text(&json, NULL, text);
    HF_CHECK(fflush(out) == 0);
    check_string(buffer, (size_t)ftell(out));
    rewind(out);
    json_init(&json, out);
    json_open_object(&json, NULL);
    json_text(&json, text, text);
    json_ms_or_null(&json, text, (int64_t)strlen(text) - 3);
    json_close_object(&json);
    HF_CHECK(fflush(out) == 0);
    check_shown(buffer, (size_t)ftell(out));
}

static void give_to_lines(const char *text, FILE *out, char *buffer)
{
    struct hf_party party = {.agent = text, .command = text, .pid = 1, .uid = -1, .token = 7};
    const struct hf_party *parties[] = {&party};
    struct hf_lock_info info = {.name = text,
                                .state = HF_STATE_EXCLUSIVE,
                                .holders = parties,
                                .holder_count = 1,
                                .waiters = parties,
                                .waiter_count = 1,
                                .coordinator = text};
    rewind(out);
    text_write_lock(out, &info);
    text_write_lock_line(out, &info);
    (void)text_write_clean(out, text, 5);
    HF_CHECK(fflush(out) == 0);
    check_shown(buffer, (size_t)ftell(out));
}

static void read_it(const char *text, size_t size)
{
    int64_t duration_ns = 0;
    char shown[TEXT_DURATION_SIZE];
    if (duration_parse(text, &duration_ns) == DURATION_GOOD) {
        HF_CHECK(duration_ns >= 0 && text[0] >= '0' && text[0] <= '9');
        HF_CHECK(text_duration(shown, duration_ns) != NULL);
    }
    int checked = hfi_name_check(text, size);
    HF_CHECK(checked == 0 || checked == HF_EINVAL || checked == HF_ENAMETOOLONG);
    bool clean = size > 0 && size <= 255;
    for (const char *at = text; *at != 0 && clean;) { /* both decoders of UTF-8 must agree */
        struct hfi_utf8 unit = hfi_utf8_next(at, strnlen(at, HFI_UTF8_MAX));
        HF_CHECK(unit.size >= 1 && unit.size <= 4);
        clean = unit.valid && !hfi_utf8_is_control(unit.code_point);
        at += unit.size;
    }
    HF_CHECK(clean == (checked == 0));
    if (hfi_label_check(text, size)) {
        HF_CHECK(checked == 0 && size <= 32);
    }
}

static void text_entry(const uint8_t *bytes, size_t size)
{
    static char buffer[OUT_MAX];
    static FILE *out;
    char text[TEXT_BYTES_MAX + 1];
    size_t length = 0;
    if (out == NULL) {
        out = fmemopen(buffer, sizeof(buffer), "w");
        HF_CHECK(out != NULL);
    }
    while (length < size && bytes[length] != 0) {
        text[length] = (char)bytes[length];
        length++;
    }
    text[length] = 0;
    read_it(text, length);
    give_to_json(text, out, buffer);
    give_to_lines(text, out, buffer);
}

const struct fuzz_target fuzz_target = {"text", text_entry, text_seed, TEXT_BYTES_MAX};
