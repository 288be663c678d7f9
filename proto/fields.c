/*
 * Reads and writes the fields of a frame by tables: see fields.h.
 *
 * Frames consist of these msgpack types: positive and negative integers of every width, bool, str,
 * array. Messages between agents also have bin. Every other type is refused.
 */
#include "fields.h"

#include "proto/check.h"
#include "proto/region.h"

#include <inttypes.h>
#include <msgpack.h>
#include <stdio.h>
#include <string.h>

_Static_assert(HFI_FIELD_SEAT_MAX == (1 << 20) * HFI_BLOCK_SEATS - 1, "seats of a region");

static const char *const rule_expected[HFI_TEXT_RULES] = {
    [HFI_TEXT_NAME] = "1..255 bytes of UTF-8 without control characters",
    [HFI_TEXT_PREFIX] = "0..255 bytes of UTF-8 without control characters",
    [HFI_TEXT_LABEL] = "1..32 of [a-z0-9_-]",
    [HFI_TEXT_LABEL_OR_NONE] = "0..32 of [a-z0-9_-]",
    [HFI_TEXT_STORE] = "32 of [0-9a-f]",
    [HFI_TEXT_WORD] = "1..64 visible ASCII characters",
    [HFI_TEXT_ADDRESS] = "0..127 visible ASCII characters",
    [HFI_TEXT_SEQUENCER] = "1..1023 visible ASCII characters",
    [HFI_TEXT_COMMAND] = "0..160 bytes of UTF-8 without control characters",
    [HFI_TEXT_NOTE] = "0..256 bytes of UTF-8 without control characters",
};

/* ---- reading ---- */

/* Reads a big-endian number of `width` bytes. */
static bool read_number(struct hfi_reader *reader, size_t width, uint64_t *out)
{
    uint64_t value = 0;

    if ((size_t)(reader->end - reader->at) < width) {
        return false;
    }
    for (size_t i = 0; i < width; i++) {
        value = value << 8 | reader->at[i];
    }
    reader->at += width;
    *out = value;
    return true;
}

static struct hfi_item item_of(enum hfi_item_type type, uint64_t value)
{
    return (struct hfi_item){.type = type, .value = value};
}

static struct hfi_item item_other(const char *what)
{
    return (struct hfi_item){.type = HFI_ITEM_OTHER, .what = what};
}

static struct hfi_item item_end(void)
{
    return (struct hfi_item){.type = HFI_ITEM_END};
}

static struct hfi_item read_unsigned(struct hfi_reader *reader, size_t width)
{
    uint64_t value;

    return read_number(reader, width, &value) ? item_of(HFI_ITEM_INTEGER, value) : item_end();
}

static struct hfi_item read_signed(struct hfi_reader *reader, size_t width)
{
    struct hfi_item item;
    uint64_t value;
    uint64_t sign = UINT64_C(1) << (width * 8 - 1);

    if (!read_number(reader, width, &value)) {
        return item_end();
    }
    item = item_of(HFI_ITEM_INTEGER, (value ^ sign) - sign); /* extends the sign */
    item.negative = (value & sign) != 0;
    return item;
}

static struct hfi_item read_bytes(struct hfi_reader *reader, enum hfi_item_type type, uint64_t size)
{
    struct hfi_item item = {.type = type};

    if ((uint64_t)(reader->end - reader->at) < size) {
        return item_end();
    }
    item.text.bytes = (const char *)reader->at;
    item.text.size = (uint32_t)size;
    reader->at += size;
    return item;
}

static struct hfi_item read_counted(struct hfi_reader *reader, enum hfi_item_type type,
                                    size_t width)
{
    uint64_t count;

    if (!read_number(reader, width, &count)) {
        return item_end();
    }
    return type == HFI_ITEM_ARRAY ? item_of(type, count) : read_bytes(reader, type, count);
}

/* Reads the next item. The section "Formats" of the msgpack specification lists the lead bytes. */
struct hfi_item hfi_read_item(struct hfi_reader *reader)
{
    uint64_t lead;

    if (!read_number(reader, 1, &lead)) {
        return item_end();
    }
    if (lead < 0x80) {
        return item_of(HFI_ITEM_INTEGER, lead);
    }
    if (lead >= 0xe0) {
        return (struct hfi_item){
            .type = HFI_ITEM_INTEGER, .negative = true, .value = lead | ~UINT64_C(0xff)};
    }
    switch (lead) {
    case 0xc2:
    case 0xc3:
        return item_of(HFI_ITEM_BOOL, lead - 0xc2);
    case 0xcc:
    case 0xcd:
    case 0xce:
    case 0xcf:
        return read_unsigned(reader, (size_t)1 << (lead - 0xcc));
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
        return read_signed(reader, (size_t)1 << (lead - 0xd0));
    case 0xd9:
    case 0xda:
    case 0xdb:
        return read_counted(reader, HFI_ITEM_TEXT, (size_t)1 << (lead - 0xd9));
    case 0xdc:
    case 0xdd:
        return read_counted(reader, HFI_ITEM_ARRAY, (size_t)2 << (lead - 0xdc));
    case 0xc0:
        return item_other("nil");
    case 0xc4:
    case 0xc5:
    case 0xc6:
        return read_counted(reader, HFI_ITEM_BINARY, (size_t)1 << (lead - 0xc4));
    case 0xca:
    case 0xcb:
        return item_other("a floating point number");
    case 0xde:
    case 0xdf:
        return item_other("a map");
    default:
        break;
    }
    if (lead >= 0xa0 && lead < 0xc0) {
        return read_bytes(reader, HFI_ITEM_TEXT, lead - 0xa0);
    }
    if (lead >= 0x90 && lead < 0xa0) {
        return item_of(HFI_ITEM_ARRAY, lead - 0x90);
    }
    return item_other(lead < 0x90 ? "a map" : "an extension");
}

/* Writes the item's value into `text`, for an error message. */
static void item_describe(const struct hfi_item *item, char *text, size_t size)
{
    int written = 0;

    switch (item->type) {
    case HFI_ITEM_INTEGER:
        written = item->negative ? snprintf(text, size, "%" PRId64, (int64_t)item->value)
                                 : snprintf(text, size, "%" PRIu64, item->value);
        break;
    case HFI_ITEM_BOOL:
        written = snprintf(text, size, "%s", item->value ? "true" : "false");
        break;
    case HFI_ITEM_TEXT:
        written = snprintf(text, size, "a string of %" PRIu32 " bytes", item->text.size);
        break;
    case HFI_ITEM_ARRAY:
        written = snprintf(text, size, "an array of %" PRIu64, item->value);
        break;
    case HFI_ITEM_BINARY:
        written = snprintf(text, size, "binary");
        break;
    case HFI_ITEM_OTHER:
        written = snprintf(text, size, "%s", item->what);
        break;
    case HFI_ITEM_END:
        written = snprintf(text, size, "the end of the packet");
        break;
    }
    HF_CHECK(written > 0 && (size_t)written < size);
}

void hfi_reader_fail(const struct hfi_reader *reader, uint32_t field_index, const char *field,
                     const char *found, const char *expected)
{
    char where[64] = "";
    int used = 0;

    if (reader->error == NULL) {
        return;
    }
    if (reader->item != NULL) {
        used = snprintf(where, sizeof where, "%s %" PRIu32 ": ", reader->item, reader->item_index);
    }
    if (reader->party_index != UINT32_MAX) {
        used += snprintf(where + used, sizeof where - (size_t)used, "party %" PRIu32 ": ",
                         reader->party_index);
    }
    HF_CHECK(used >= 0 && (size_t)used < sizeof where);
    if (field != NULL) {
        used = snprintf(reader->error->text, sizeof reader->error->text,
                        "%s: %sfield %" PRIu32 " (%s): found %s, expected %s", reader->frame, where,
                        field_index, field, found, expected);
    } else {
        used = snprintf(reader->error->text, sizeof reader->error->text,
                        "%s: %sfound %s, expected %s", reader->frame, where, found, expected);
    }
    HF_CHECK(used > 0); /* a text that is cut off is still useful, so only an empty one is a bug */
}

static bool integer_fits(const struct hfi_field *field, bool negative, uint64_t value)
{
    if (negative) {
        return (int64_t)value >= field->min;
    }
    if (field->type == HFI_FIELD_SEAT && value == HFI_SEAT_NONE) {
        return true;
    }
    return value <= field->max && (field->min <= 0 || value >= (uint64_t)field->min);
}

static bool item_fits(const struct hfi_field *field, const struct hfi_item *item)
{
    switch (field->type) {
    case HFI_FIELD_INTEGER:
    case HFI_FIELD_SEAT:
        return item->type == HFI_ITEM_INTEGER && integer_fits(field, item->negative, item->value);
    case HFI_FIELD_BOOL:
        return item->type == HFI_ITEM_BOOL;
    case HFI_FIELD_TEXT:
        return item->type == HFI_ITEM_TEXT && hfi_text_fits(field->rule, item->text);
    }
    return false;
}

static void field_fail(const struct hfi_reader *reader, uint32_t index,
                       const struct hfi_field *field, const struct hfi_item *item)
{
    char found[64];
    char range[80];
    const char *expected = range;
    int written = 1;

    item_describe(item, found, sizeof found);
    switch (field->type) {
    case HFI_FIELD_INTEGER:
    case HFI_FIELD_SEAT:
        written = snprintf(range, sizeof range, "integer %" PRId64 "..%" PRIu64 "%s", field->min,
                           field->max, field->type == HFI_FIELD_SEAT ? " or 4294967295" : "");
        break;
    case HFI_FIELD_BOOL:
        expected = "true or false";
        break;
    case HFI_FIELD_TEXT:
        expected = rule_expected[field->rule];
        break;
    }
    HF_CHECK(written > 0 && (size_t)written < sizeof range);
    hfi_reader_fail(reader, index, field->name, found, expected);
}

static void field_store(const struct hfi_field *field, const struct hfi_item *item, void *base)
{
    unsigned char *member = (unsigned char *)base + field->offset;
    uint32_t narrow = (uint32_t)item->value;
    bool truth = item->value != 0;

    if (field->type == HFI_FIELD_TEXT) {
        memcpy(member, &item->text, sizeof item->text);
    } else if (field->type == HFI_FIELD_BOOL) {
        memcpy(member, &truth, sizeof truth);
    } else if (field->size == sizeof narrow) {
        memcpy(member, &narrow, sizeof narrow);
    } else {
        HF_CHECK(field->size == sizeof item->value);
        memcpy(member, &item->value, sizeof item->value);
    }
}

bool hfi_read_fields(struct hfi_reader *reader, const struct hfi_field *fields, uint32_t count,
                     uint32_t index_first, void *base)
{
    for (uint32_t i = 0; i < count; i++) {
        struct hfi_item item = hfi_read_item(reader);

        if (!item_fits(&fields[i], &item)) {
            field_fail(reader, index_first + i, &fields[i], &item);
            return false;
        }
        field_store(&fields[i], &item, base);
    }
    return true;
}

/* The loop ends at the end of the packet at the latest, because each item has at least one byte. */
bool hfi_skip_items(struct hfi_reader *reader, uint64_t count)
{
    while (count > 0) {
        struct hfi_item item = hfi_read_item(reader);

        if (item.type == HFI_ITEM_END || item.type == HFI_ITEM_OTHER) {
            return false;
        }
        count = count - 1 + (item.type == HFI_ITEM_ARRAY ? item.value : 0);
    }
    return true;
}

bool hfi_read_array(struct hfi_reader *reader, uint32_t field_index, const char *field,
                    uint32_t low, uint32_t high, uint32_t *count)
{
    struct hfi_item item = hfi_read_item(reader);
    char found[64];
    char expected[64];
    int written;

    if (item.type == HFI_ITEM_ARRAY && item.value >= low && item.value <= high) {
        *count = (uint32_t)item.value;
        return true;
    }
    item_describe(&item, found, sizeof found);
    if (low == high) {
        written = snprintf(expected, sizeof expected, "an array of %" PRIu32, low);
    } else {
        written = snprintf(expected, sizeof expected, "an array of %" PRIu32 "..%" PRIu32, low,
                           high);
    }
    HF_CHECK(written > 0 && (size_t)written < sizeof expected);
    hfi_reader_fail(reader, field_index, field, found, expected);
    return false;
}

/* ---- writing ---- */

/* The function to which the packer writes. It drops bytes that do not fit. */
static int sink(void *data, const char *bytes, size_t size)
{
    struct hfi_writer *writer = data;

    if (writer->failed || size > writer->size - writer->used) {
        writer->failed = true;
        return -1;
    }
    if (writer->bytes != NULL) {
        memcpy(writer->bytes + writer->used, bytes, size);
    }
    writer->used += size;
    return 0;
}

static msgpack_packer packer_of(struct hfi_writer *writer)
{
    return (msgpack_packer){.data = writer, .callback = sink};
}

void hfi_write_array(struct hfi_writer *writer, uint32_t count)
{
    msgpack_packer packer = packer_of(writer);

    msgpack_pack_array(&packer, count); /* sink() notes a failure in the writer */
}

void hfi_write_unsigned(struct hfi_writer *writer, uint64_t value)
{
    msgpack_packer packer = packer_of(writer);

    msgpack_pack_uint64(&packer, value);
}

void hfi_write_signed(struct hfi_writer *writer, int64_t value)
{
    msgpack_packer packer = packer_of(writer);

    msgpack_pack_int64(&packer, value);
}

void hfi_write_bool(struct hfi_writer *writer, bool value)
{
    msgpack_packer packer = packer_of(writer);

    if (value) {
        msgpack_pack_true(&packer);
    } else {
        msgpack_pack_false(&packer);
    }
}

void hfi_write_raw(struct hfi_writer *writer, const void *bytes, size_t size)
{
    if (size > 0) {
        (void)sink(writer, bytes, size);
    }
}

void hfi_write_string(struct hfi_writer *writer, const void *bytes, size_t size)
{
    msgpack_packer packer = packer_of(writer);

    msgpack_pack_str(&packer, size);
    hfi_write_raw(writer, bytes, size);
}

void hfi_write_binary(struct hfi_writer *writer, const void *bytes, size_t size)
{
    msgpack_packer packer = packer_of(writer);

    msgpack_pack_bin(&packer, size);
    hfi_write_raw(writer, bytes, size);
}

static void write_text(struct hfi_writer *writer, enum hfi_text_rule rule, struct hfi_text text)
{
    if (!hfi_text_fits(rule, text)) {
        writer->failed = true;
        return;
    }
    hfi_write_string(writer, text.bytes, text.size);
}

static void write_integer(struct hfi_writer *writer, const struct hfi_field *field,
                          const unsigned char *member)
{
    bool is_signed = field->min < 0;
    uint64_t value;

    if (field->size == sizeof(uint32_t)) {
        uint32_t narrow;

        memcpy(&narrow, member, sizeof narrow);
        value = is_signed ? (uint64_t)(int64_t)(int32_t)narrow : narrow;
    } else {
        memcpy(&value, member, sizeof value);
        /* A negative number in a member that must not be negative becomes larger than every max. */
    }
    if (!integer_fits(field, is_signed && (int64_t)value < 0, value)) {
        writer->failed = true;
    } else if (is_signed) {
        hfi_write_signed(writer, (int64_t)value);
    } else {
        hfi_write_unsigned(writer, value);
    }
}

void hfi_write_fields(struct hfi_writer *writer, const struct hfi_field *fields, uint32_t count,
                      const void *base)
{
    for (uint32_t i = 0; i < count; i++) {
        const unsigned char *member = (const unsigned char *)base + fields[i].offset;
        struct hfi_text text;
        bool truth;

        switch (fields[i].type) {
        case HFI_FIELD_INTEGER:
        case HFI_FIELD_SEAT:
            write_integer(writer, &fields[i], member);
            break;
        case HFI_FIELD_BOOL:
            memcpy(&truth, member, sizeof truth);
            hfi_write_bool(writer, truth);
            break;
        case HFI_FIELD_TEXT:
            memcpy(&text, member, sizeof text);
            write_text(writer, fields[i].rule, text);
            break;
        }
    }
}
