/*
 * Formats and parses sequencers. A holder gives a sequencer to a resource, which can check the hold
 * with it. frame.h has the format. The parser accepts exactly the texts that the formatter writes.
 * So two sequencers are of the same hold if and only if their texts are equal.
 */
#include "fields.h"

#include "holdfast/holdfast.h"
#include "proto/check.h"
#include "proto/region.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define SEQUENCER_TAG "hf1/"
#define TOKEN_MAX ((uint64_t)INT64_MAX)

enum {
    NUMBER_DIGITS = 20,
    /* the lengths of the parts in their order: tag, cell/, x/, token/, agent., epoch., holder.,
     * seat., cellword/, the name with every byte escaped, the final zero */
    LONGEST = 4 + 33 + 2 + 20 + 33 + 11 + 6 + 8 + 21 + 3 * HFI_NAME_MAX + 1,
};
_Static_assert((int)LONGEST <= (int)HF_SEQUENCER_MAX, "every sequencer fits");

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           (c != '\0' && strchr("._~:/-", c) != NULL);
}

/* Returns whether all members are in their ranges. Both the formatter and the parser check that. */
static bool is_valid(const struct hfi_sequencer *sequencer)
{
    size_t cell_size = strnlen(sequencer->cell, sizeof sequencer->cell);
    size_t agent_size = strnlen(sequencer->agent, sizeof sequencer->agent);
    bool mode_is_whole = sequencer->shared ? sequencer->seat <= HFI_FIELD_SEAT_MAX
                                           : sequencer->token > 0 && sequencer->cell_word == 0;

    return mode_is_whole && sequencer->token <= TOKEN_MAX && sequencer->holder > 0 &&
           sequencer->holder <= HFI_HOLDER_MAX && hfi_label_check(sequencer->cell, cell_size) &&
           hfi_label_check(sequencer->agent, agent_size) &&
           hfi_name_check(sequencer->name, sequencer->name_size) == 0;
}

/* ---- writing ---- */

static size_t write_name(const struct hfi_sequencer *sequencer, char *out)
{
    static const char digits[] = "0123456789ABCDEF";
    size_t used = 0;

    for (uint32_t i = 0; i < sequencer->name_size; i++) {
        unsigned char byte = (unsigned char)sequencer->name[i];

        if (is_plain((char)byte)) {
            out[used++] = (char)byte;
        } else {
            out[used++] = '%';
            out[used++] = digits[byte >> 4];
            out[used++] = digits[byte & 15];
        }
    }
    return used;
}

size_t hfi_sequencer_format(const struct hfi_sequencer *sequencer, char *buffer, size_t size)
{
    char text[LONGEST];
    char reader[40] = "";
    int head;
    size_t used;

    if (!is_valid(sequencer)) {
        return 0;
    }
    if (sequencer->shared) {
        head = snprintf(reader, sizeof reader, ".%" PRIu32 ".%" PRIu64, sequencer->seat,
                        sequencer->cell_word);
        HF_CHECK(head > 0 && (size_t)head < sizeof reader);
    }
    head = snprintf(text, sizeof text,
                    SEQUENCER_TAG "%s/%c/%" PRIu64 "/%s.%" PRIu32 ".%" PRIu32 "%s/",
                    sequencer->cell, sequencer->shared ? 's' : 'x', sequencer->token,
                    sequencer->agent, sequencer->epoch, sequencer->holder, reader);
    HF_CHECK(head > 0 && (size_t)head + 3 * (size_t)sequencer->name_size < sizeof text);
    used = (size_t)head + write_name(sequencer, text + head);
    if (used >= size) {
        return 0;
    }
    memcpy(buffer, text, used);
    buffer[used] = '\0';
    return used;
}

/* ---- reading ---- */

struct scanner {
    const char *at;
    const char *end;
};

static bool scan_literal(struct scanner *scanner, const char *literal)
{
    size_t size = strlen(literal);

    if ((size_t)(scanner->end - scanner->at) < size || memcmp(scanner->at, literal, size) != 0) {
        return false;
    }
    scanner->at += size;
    return true;
}

/* Reads a label and the stop character behind it. out must have HFI_LABEL_MAX + 1 bytes. */
static bool scan_label(struct scanner *scanner, char stop, char *out)
{
    const char *end = memchr(scanner->at, stop, (size_t)(scanner->end - scanner->at));
    size_t size;

    if (end == NULL) {
        return false;
    }
    size = (size_t)(end - scanner->at);
    if (!hfi_label_check(scanner->at, size)) {
        return false;
    }
    memcpy(out, scanner->at, size);
    out[size] = '\0';
    scanner->at = end + 1;
    return true;
}

/* Reads a decimal number and the stop character behind it. */
static bool scan_number(struct scanner *scanner, char stop, uint64_t max, uint64_t *out)
{
    const char *start = scanner->at;
    uint64_t value = 0;

    while (scanner->at < scanner->end && *scanner->at >= '0' && *scanner->at <= '9' &&
           scanner->at - start < NUMBER_DIGITS) {
        uint64_t digit = (uint64_t)(*scanner->at - '0');

        if (value > (max - digit) / 10) {
            return false;
        }
        value = value * 10 + digit;
        scanner->at++;
    }
    if (scanner->at == start || (*start == '0' && scanner->at - start > 1) ||
        scanner->at == scanner->end || *scanner->at != stop) {
        return false;
    }
    scanner->at++;
    *out = value;
    return true;
}

/* Returns the value of an upper-case hex digit, or 16 for any other character. */
static unsigned hex_value(char c)
{
    if (c >= '0' && c <= '9') {
        return (unsigned)(c - '0');
    }
    return c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10) : 16;
}

/* Reads the next byte of the name, which may be written as an escape. */
static bool scan_name_byte(struct scanner *scanner, char *out)
{
    unsigned high;
    unsigned low;

    if (*scanner->at != '%') {
        *out = *scanner->at++;
        return is_plain(*out);
    }
    if (scanner->end - scanner->at < 3) {
        return false;
    }
    high = hex_value(scanner->at[1]);
    low = hex_value(scanner->at[2]);
    if (high > 15 || low > 15) {
        return false;
    }
    *out = (char)(high << 4 | low);
    scanner->at += 3;
    return !is_plain(*out); /* an escape is valid only for a character that needs one */
}

static bool scan_name(struct scanner *scanner, struct hfi_sequencer *out)
{
    while (scanner->at < scanner->end) {
        if (out->name_size == HFI_NAME_MAX ||
            !scan_name_byte(scanner, &out->name[out->name_size])) {
            return false;
        }
        out->name_size++;
    }
    return true;
}

static bool scan_sequencer(struct scanner *scanner, struct hfi_sequencer *out)
{
    uint64_t epoch = 0;
    uint64_t holder = 0;
    uint64_t seat = HFI_SEAT_NONE;

    if (!scan_literal(scanner, SEQUENCER_TAG) || !scan_label(scanner, '/', out->cell)) {
        return false;
    }
    out->shared = scan_literal(scanner, "s/");
    if ((!out->shared && !scan_literal(scanner, "x/")) ||
        !scan_number(scanner, '/', TOKEN_MAX, &out->token) ||
        !scan_label(scanner, '.', out->agent) || !scan_number(scanner, '.', UINT32_MAX, &epoch) ||
        !scan_number(scanner, out->shared ? '.' : '/', HFI_HOLDER_MAX, &holder)) {
        return false;
    }
    if (out->shared && (!scan_number(scanner, '.', HFI_FIELD_SEAT_MAX, &seat) ||
                        !scan_number(scanner, '/', UINT64_MAX, &out->cell_word))) {
        return false;
    }
    out->epoch = (uint32_t)epoch;
    out->holder = (uint32_t)holder;
    out->seat = (uint32_t)seat;
    return scan_name(scanner, out) && is_valid(out);
}

int hfi_sequencer_parse(const char *text, size_t size, struct hfi_sequencer *out)
{
    struct scanner scanner = {.at = text, .end = text + size};

    memset(out, 0, sizeof *out);
    if (size >= HF_SEQUENCER_MAX || !scan_sequencer(&scanner, out)) {
        memset(out, 0, sizeof *out);
        return -1;
    }
    return 0;
}
