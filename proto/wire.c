/*
 * Writes and reads packets between agents: see wire.h. wire_body.c has the messages in the packets.
 *
 * The number of items is known only at the end. So the head of their array always has the form with
 * a 16-bit count, which is overwritten at the end. wire_open() decodes all items once into a
 * message that it discards. So wire_next() cannot fail, and nothing has to be stored between the
 * two calls.
 *
 * The first fields are protocol version, cell and sender, in the same form in every version. So an
 * agent can report the name of a sender of another version or another cell.
 */
#include "proto/wire.h"

#include "proto/check.h"
#include "proto/gossip.h"
#include "wire_body.h"

#include <string.h>

enum {
    HEADER_FIELDS = 10,  /* fields of the packet's array, including the array of items */
    HEADER_FIELDS_4 = 8, /* the fields before version 5: without number and digest */
    HEADER_ALWAYS = 3,   /* the fields that are the same in every version: version, cell, sender */
    COUNT_LEAD = 0xdc,   /* the lead byte of msgpack's array 16 */
    COUNT_SIZE = 3,      /* the size of the head of an array 16 */
    ITEMS_MAX = UINT16_MAX,
    BAD_HEADER = UINT32_MAX, /* the value of wire_reader.bad_item for the packet's own fields */
};

static uint32_t fields_of(uint32_t version)
{
    return version >= 5 ? HEADER_FIELDS : HEADER_FIELDS_4;
}

/* ---- writing ---- */

void wire_begin(struct wire_writer *writer, void *buffer, size_t size,
                const struct wire_header *header, uint32_t version)
{
    struct hfi_writer out = {.bytes = buffer,
                             .size = size < WIRE_PACKET_MAX ? size : WIRE_PACKET_MAX};

    HF_CHECK(size >= WIRE_HEADER_ROOM);
    HF_CHECK(version >= WIRE_VERSION_OLDEST && version <= WIRE_VERSION);
    hfi_write_array(&out, fields_of(version));
    hfi_write_unsigned(&out, version);
    wire_write_agent(&out, false, &header->cell);
    wire_write_agent(&out, false, &header->from);
    hfi_write_unsigned(&out, header->membership);
    hfi_write_unsigned(&out, header->store_id[0]);
    hfi_write_unsigned(&out, header->store_id[1]);
    hfi_write_unsigned(&out, header->commit);
    if (version >= 5) {
        hfi_write_unsigned(&out, header->number);
        hfi_write_unsigned(&out, header->digest);
    }
    *writer = (struct wire_writer){
        .bytes = buffer, .size = out.size, .version = version, .count_at = out.used};
    hfi_write_raw(&out, (const unsigned char[COUNT_SIZE]){COUNT_LEAD}, COUNT_SIZE);
    HF_CHECK(!out.failed);
    writer->used = out.used;
}

/* Adds the item that was written to `out`, if all of it fitted. */
static bool add(struct wire_writer *writer, const struct hfi_writer *out)
{
    if (out->failed || writer->count == ITEMS_MAX) {
        return false;
    }
    HF_CHECK(out->used - writer->used <= WIRE_ITEM_MAX + COUNT_SIZE);
    writer->used = out->used;
    writer->count++;
    return true;
}

bool wire_add(struct wire_writer *writer, const struct message *message)
{
    struct hfi_writer out = {.bytes = writer->bytes, .size = writer->size, .used = writer->used};

    if (!wire_has_kind(writer->version, message->kind)) {
        return true;
    }
    wire_body_write(&out, writer->version, message);
    return add(writer, &out);
}

bool wire_add_gossip(struct wire_writer *writer, const void *bytes, size_t size)
{
    struct hfi_writer out = {.bytes = writer->bytes, .size = writer->size, .used = writer->used};
    unsigned char narrow[GOSSIP_PACKET_MAX];
    size_t narrow_size = 0;

    HF_CHECK(size > 0 && size <= WIRE_ITEM_MAX);
    if (writer->version < WIRE_VERSION_GROWN) {
        narrow_size = gossip_narrow(bytes, size, narrow);
    }
    if (narrow_size > 0 && narrow_size < size) {
        bytes = narrow;
        size = narrow_size;
    }
    hfi_write_binary(&out, bytes, size);
    return add(writer, &out);
}

size_t wire_end(struct wire_writer *writer)
{
    writer->bytes[writer->count_at + 1] = (unsigned char)(writer->count >> 8);
    writer->bytes[writer->count_at + 2] = (unsigned char)writer->count;
    return writer->used;
}

/* ---- reading ---- */

const char *wire_error_text(enum wire_error error)
{
    switch (error) {
    case WIRE_OK:
        return "nothing is wrong with it";
    case WIRE_MALFORMED:
        return "it is malformed";
    case WIRE_TOO_LARGE:
        return "it is larger than the protocol allows";
    case WIRE_OTHER_VERSION:
        return "it is of another version of the protocol";
    case WIRE_OTHER_CELL:
        return "it is of another cell";
    }
    return "unknown";
}

const char *wire_kind_text(enum message_kind kind)
{
    const char *name = wire_kind_name(kind);

    return name != NULL ? name : "unknown";
}

static struct hfi_reader place_of(const struct wire_reader *reader)
{
    return (struct hfi_reader){.at = reader->bytes + reader->at,
                               .end = reader->bytes + reader->size};
}

static void place_set(struct wire_reader *reader, const struct hfi_reader *place)
{
    reader->at = (size_t)(place->at - reader->bytes);
}

static bool read_number(struct hfi_reader *place, uint64_t max, uint64_t *value)
{
    struct hfi_item item = hfi_read_item(place);

    *value = item.value;
    return item.type == HFI_ITEM_INTEGER && !item.negative && item.value <= max;
}

/* Reads the fields that are the same in every version. *count: the number of elements of the
 * packet's array. */
static enum wire_error read_always(struct hfi_reader *place, struct wire_reader *reader,
                                   uint64_t *count)
{
    struct hfi_item head = hfi_read_item(place);
    uint64_t version;
    bool named;

    *count = head.value;
    if (head.type != HFI_ITEM_ARRAY || head.value < HEADER_ALWAYS ||
        !read_number(place, UINT32_MAX, &version) || version == 0) {
        return WIRE_MALFORMED;
    }
    reader->version = (uint32_t)version;
    named = wire_read_agent(place, false, &reader->header.cell) &&
            wire_read_agent(place, false, &reader->header.from);
    if (version < WIRE_VERSION_OLDEST || version > WIRE_VERSION) {
        return WIRE_OTHER_VERSION;
    }
    return named ? WIRE_OK : WIRE_MALFORMED;
}

static enum wire_error read_header(struct hfi_reader *place, struct wire_reader *reader,
                                   const struct message_agent *cell)
{
    struct wire_header *header = &reader->header;
    struct hfi_item items;
    uint64_t count;
    uint64_t membership;
    uint64_t number;
    enum wire_error error = read_always(place, reader, &count);

    if (error != WIRE_OK) {
        return error;
    }
    if (header->cell.length != cell->length ||
        memcmp(header->cell.text, cell->text, cell->length) != 0) {
        return WIRE_OTHER_CELL;
    }
    if (count != fields_of(reader->version) || !read_number(place, UINT32_MAX, &membership) ||
        !read_number(place, UINT64_MAX, &header->store_id[0]) ||
        !read_number(place, UINT64_MAX, &header->store_id[1]) ||
        !read_number(place, UINT64_MAX, &header->commit)) {
        return WIRE_MALFORMED;
    }
    header->membership = (uint32_t)membership;
    if (reader->version >= 5) {
        if (!read_number(place, UINT32_MAX, &number) ||
            !read_number(place, UINT64_MAX, &header->digest)) {
            return WIRE_MALFORMED;
        }
        header->number = (uint32_t)number;
    }
    items = hfi_read_item(place);
    if (items.type != HFI_ITEM_ARRAY || items.value > ITEMS_MAX) {
        return WIRE_MALFORMED;
    }
    reader->left = (uint32_t)items.value;
    return WIRE_OK;
}

/* Reads one item. If it is a message, fills in *message apart from the members of the packet's
 * header. */
static bool read_item(struct hfi_reader *place, uint32_t version, enum wire_item_kind *kind,
                      struct message *message, struct hfi_text *gossip, struct wire_fault *fault)
{
    const unsigned char *start = place->at;
    struct hfi_item item = hfi_read_item(place);

    *fault = (struct wire_fault){.kind = NULL};
    if (item.type == HFI_ITEM_BINARY) {
        *kind = WIRE_GOSSIP;
        *gossip = item.text;
        fault->kind = "gossip";
        return item.text.size > 0 && item.text.size <= WIRE_ITEM_MAX;
    }
    *kind = WIRE_MESSAGE;
    return item.type == HFI_ITEM_ARRAY && item.value <= UINT16_MAX &&
           wire_body_read(place, version, (uint32_t)item.value, message, fault) &&
           place->at - start <= WIRE_ITEM_MAX;
}

static bool check_items(struct hfi_reader place, struct wire_reader *reader)
{
    struct message scratch;
    struct hfi_text gossip;
    struct wire_fault fault;
    enum wire_item_kind kind;

    for (uint32_t i = 0; i < reader->left; i++) {
        if (!read_item(&place, reader->version, &kind, &scratch, &gossip, &fault)) {
            reader->bad_item = i;
            reader->bad_kind = fault.kind;
            reader->bad_field = fault.field;
            return false;
        }
    }
    return place.at == place.end;
}

enum wire_error wire_open(struct wire_reader *reader, const void *bytes, size_t size,
                          const struct message_agent *cell)
{
    struct hfi_reader place = {.at = bytes, .end = (const unsigned char *)bytes + size};
    enum wire_error error;

    *reader = (struct wire_reader){.bytes = bytes, .size = size, .bad_item = BAD_HEADER};
    if (size > WIRE_PACKET_MAX) {
        return WIRE_TOO_LARGE;
    }
    error = read_header(&place, reader, cell);
    if (error == WIRE_OK && !check_items(place, reader)) {
        error = WIRE_MALFORMED;
    }
    if (error != WIRE_OK) {
        reader->left = 0;
        return error;
    }
    place_set(reader, &place);
    return WIRE_OK;
}

bool wire_next(struct wire_reader *reader, enum wire_item_kind *kind, struct message *message,
               const unsigned char **gossip, size_t *gossip_size)
{
    struct hfi_reader place = place_of(reader);
    struct hfi_text text = {.size = 0};
    struct wire_fault fault;

    if (reader->left == 0) {
        return false;
    }
    message_zero(message);
    /* This cannot fail, because wire_open() has already read the item. */
    HF_CHECK(read_item(&place, reader->version, kind, message, &text, &fault));
    place_set(reader, &place);
    reader->left--;
    message->membership = reader->header.membership;
    message->from = reader->header.from;
    message->store_id[0] = reader->header.store_id[0];
    message->store_id[1] = reader->header.store_id[1];
    message->commit = reader->header.commit;
    message->number = reader->header.number;
    message->digest = reader->header.digest;
    *gossip = (const unsigned char *)text.bytes;
    *gossip_size = text.size;
    return true;
}
