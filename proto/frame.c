/*
 * The frames between a client and its agent. There is one table of fields for each kind, by which
 * this file encodes and decodes frames. SCHEMA.md describes the same fields in words. listed.c
 * builds LISTED, facts.c builds TOLD, and broken.c builds BROKEN.
 *
 * HELLO and WELCOME begin with the protocol version. If it is not HFI_PROTOCOL_VERSION, the decoder
 * reads no field after it. So the agent can answer HF_EVERSION to a client of any other version,
 * whatever fields follow.
 */
#include "fields.h"

#include "holdfast/admin.h"
#include "proto/region.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    FIELD_KIND = 0, /* an index in the frame's array */
    FIELD_REQUEST = 1,
    FIELDS_BEFORE = 2, /* the number of fields before a kind's own: kind and request */
    LOCK_DELAY_MAX_S = 60,
    ERROR_MIN = -99, /* leaves room for later error codes, which the decoder passes on */
    MESSAGE_SIZE = 64,
};

#define LOCK_DELAY_MAX_NS (UINT64_C(1000000000) * LOCK_DELAY_MAX_S)
#define PID_MAX INT32_MAX

static const struct hfi_field hello_fields[] = {
    HFI_INTEGER(hfi_hello, version, 1, UINT32_MAX),
    HFI_INTEGER(hfi_hello, pid, 1, PID_MAX),
    HFI_INTEGER(hfi_hello, client, 0, HFI_HOLDER_MAX),
    HFI_INTEGER(hfi_hello, nonce, 0, UINT64_MAX),
    HFI_TEXT(hfi_hello, library, HFI_TEXT_WORD),
    HFI_TEXT(hfi_hello, command, HFI_TEXT_COMMAND),
};

static const struct hfi_field welcome_fields[] = {
    HFI_INTEGER(hfi_welcome, version, 1, UINT32_MAX),
    HFI_INTEGER(hfi_welcome, client, 1, HFI_HOLDER_MAX),
    HFI_INTEGER(hfi_welcome, nonce, 0, UINT64_MAX),
    HFI_BOOL(hfi_welcome, resumed),
    HFI_INTEGER(hfi_welcome, boottime_ns, 0, INT64_MAX),
    HFI_INTEGER(hfi_welcome, session_ttl_ns, 1, INT64_MAX),
    HFI_INTEGER(hfi_welcome, grace_ns, 0, INT64_MAX),
    HFI_TEXT(hfi_welcome, cell, HFI_TEXT_LABEL),
    HFI_TEXT(hfi_welcome, agent, HFI_TEXT_LABEL),
    HFI_TEXT(hfi_welcome, store, HFI_TEXT_STORE),
};

static const struct hfi_field open_fields[] = {
    HFI_INTEGER(hfi_open, flags, 0, HFI_OPEN_BARGING | HFI_OPEN_SEAT | HFI_OPEN_RESUME),
    HFI_INTEGER(hfi_open, lock_delay_ns, 0, LOCK_DELAY_MAX_NS),
    HFI_INTEGER(hfi_open, lease_ns, 0, INT64_MAX),
    HFI_INTEGER(hfi_open, max_stall_ns, 0, INT64_MAX),
    HFI_INTEGER(hfi_open, holder, 0, HFI_HOLDER_MAX),
    HFI_INTEGER(hfi_open, slot, 0, HFI_FIELD_SLOT_MAX),
    HFI_SEAT(hfi_open, seat),
    HFI_INTEGER(hfi_open, incarnation, 0, UINT64_MAX),
    HFI_TEXT(hfi_open, name, HFI_TEXT_NAME),
};
enum { OPEN_FIELD_HOLDER = FIELDS_BEFORE + 4 };

static const struct hfi_field region_fields[] = {
    HFI_INTEGER(hfi_region_frame, region, 0, UINT32_MAX),
    HFI_INTEGER(hfi_region_frame, incarnation, 0, UINT64_MAX),
    HFI_TEXT_AS("namespace", hfi_region_frame, namespace_name, HFI_TEXT_LABEL),
};

static const struct hfi_field opened_fields[] = {
    HFI_INTEGER(hfi_opened, handle, 0, UINT32_MAX),
    HFI_INTEGER(hfi_opened, region, 0, UINT32_MAX),
    HFI_INTEGER(hfi_opened, slot, 0, HFI_FIELD_SLOT_MAX),
    HFI_INTEGER(hfi_opened, holder, 1, HFI_HOLDER_MAX),
    HFI_SEAT(hfi_opened, seat),
};

static const struct hfi_field seat_fields[] = {
    HFI_INTEGER(hfi_seat_frame, handle, 0, UINT32_MAX),
    HFI_INTEGER(hfi_seat_frame, flags, 0, HFI_SEAT_SHARED),
};

/* The fields of kinds that have no struct of their own. Their offsets are those in struct
 * hfi_frame. */
static const struct hfi_field close_fields[] = {
    HFI_INTEGER(hfi_frame, handle, 0, UINT32_MAX),
};
static const struct hfi_field seated_fields[] = {
    HFI_INTEGER_AS("seat", hfi_frame, seated, 0, HFI_FIELD_SEAT_MAX),
};
static const struct hfi_field name_fields[] = {
    HFI_TEXT_AS("name", hfi_frame, text, HFI_TEXT_NAME),
};
static const struct hfi_field prefix_fields[] = {
    HFI_TEXT_AS("prefix", hfi_frame, text, HFI_TEXT_PREFIX),
};
static const struct hfi_field check_fields[] = {
    HFI_TEXT_AS("sequencer", hfi_frame, text, HFI_TEXT_SEQUENCER),
};
static const struct hfi_field break_fields[] = {
    HFI_TEXT_AS("name", hfi_frame, break_lock.name, HFI_TEXT_NAME),
    HFI_INTEGER_AS("flags", hfi_frame, break_lock.flags, 0, HFI_BREAK_FRAME_NOW),
};
static const struct hfi_field note_fields[] = {
    HFI_INTEGER(hfi_note_frame, handle, 0, UINT32_MAX),
    HFI_INTEGER(hfi_note_frame, flags, 0, HFI_NOTE_NOW),
    HFI_TEXT(hfi_note_frame, note, HFI_TEXT_NOTE),
};
static const struct hfi_field list_fields[] = {
    HFI_TEXT_AS("prefix", hfi_frame, list.prefix, HFI_TEXT_PREFIX),
    HFI_TEXT_AS("after", hfi_frame, list.after, HFI_TEXT_PREFIX),
};
static const struct hfi_field listed_fields[] = {
    HFI_BOOL_AS("more", hfi_frame, listed.more),
};
static const struct hfi_field done_fields[] = {
    HFI_INTEGER(hfi_frame, error, ERROR_MIN, 0),
};

/* Optional: a DONE has these fields if it knows which table is full. */
static const struct hfi_field full_fields[] = {
    HFI_INTEGER_AS("table", hfi_frame, full.table, 1, UINT8_MAX),
    HFI_BOOL_AS("share", hfi_frame, full.share),
    HFI_INTEGER_AS("room", hfi_frame, full.room, 0, UINT64_MAX),
    HFI_INTEGER_AS("pid", hfi_frame, full.pid, -1, PID_MAX),
    HFI_INTEGER_AS("handles", hfi_frame, full.handles, 0, UINT64_MAX),
    HFI_TEXT_AS("voter", hfi_frame, full.voter, HFI_TEXT_LABEL_OR_NONE),
};

static const struct hfi_field broken_fields[] = {
    HFI_INTEGER(hfi_broken_frame, error, ERROR_MIN, 0),
    HFI_INTEGER(hfi_broken_frame, closed_ns, 0, INT64_MAX),
    HFI_INTEGER(hfi_broken_frame, more, 0, UINT32_MAX),
    HFI_INTEGER(hfi_broken_frame, hold_count, 0, HFI_FRAME_BROKEN_HOLDS_MAX),
    HFI_INTEGER(hfi_broken_frame, silent_count, 0, HFI_FRAME_BROKEN_SILENT_MAX),
};

static const struct hfi_field member_fields[] = {
    HFI_INTEGER(hfi_member_frame, act, HF_MEMBER_ADD, HF_MEMBER_MOVE),
    HFI_INTEGER(hfi_member_frame, number, 0, UINT32_MAX),
    HFI_INTEGER(hfi_member_frame, id, 1, UINT64_MAX),
    HFI_TEXT(hfi_member_frame, name, HFI_TEXT_LABEL),
    HFI_TEXT(hfi_member_frame, address, HFI_TEXT_ADDRESS),
};

static const struct hfi_field membered_fields[] = {
    HFI_INTEGER(hfi_membered_frame, stage, HF_MEMBER_REFUSED, HF_MEMBER_COMPLETE),
    HFI_INTEGER(hfi_membered_frame, reason, 0, UINT8_MAX),
    HFI_INTEGER(hfi_membered_frame, number, 0, UINT32_MAX),
    HFI_INTEGER(hfi_membered_frame, done, 0, UINT32_MAX),
    HFI_INTEGER(hfi_membered_frame, total, 0, UINT32_MAX),
    HFI_TEXT(hfi_membered_frame, subject, HFI_TEXT_LABEL_OR_NONE),
};

static const struct hfi_field stated_fields[] = {
    HFI_TEXT(hfi_stated, agent, HFI_TEXT_LABEL),
    HFI_TEXT(hfi_stated, cell, HFI_TEXT_LABEL),
    HFI_TEXT(hfi_stated, role, HFI_TEXT_WORD),
    HFI_TEXT(hfi_stated, version, HFI_TEXT_WORD),
    HFI_INTEGER(hfi_stated, session_state, HF_SESSION_SAFE, HF_SESSION_LOST),
    HFI_INTEGER(hfi_stated, session_epoch, 0, UINT64_MAX),
    HFI_INTEGER(hfi_stated, session_remaining_ns, -INT64_MAX, INT64_MAX),
    HFI_INTEGER(hfi_stated, clients, 0, UINT64_MAX),
    HFI_INTEGER(hfi_stated, locks_held, 0, UINT64_MAX),
    HFI_INTEGER(hfi_stated, waiters, 0, UINT64_MAX),
};
static const struct hfi_field voter_fields[] = {
    HFI_TEXT(hfi_voter_frame, name, HFI_TEXT_LABEL),
    HFI_TEXT(hfi_voter_frame, address, HFI_TEXT_ADDRESS),
    HFI_INTEGER(hfi_voter_frame, state, HF_VOTER_UP, HF_VOTER_REFUSED),
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define FIELDS(array) .fields = (array), .count = COUNT(array)

/* The last element of the frame's array, which follows the fields of a kind. */
enum tail { TAIL_NONE, TAIL_VOTERS, TAIL_LOCKS, TAIL_FACTS, TAIL_BROKEN };

/* Which request numbers a kind may carry. */
enum numbering { NUMBERED, UNASKED, EITHER };

struct frame_schema {
    enum hfi_frame_kind kind;
    const char *name;
    const struct hfi_field *fields;
    uint32_t count;
    uint32_t base; /* where the struct that the table describes begins in struct hfi_frame */
    enum numbering numbering;
    enum tail tail;
    bool versioned; /* the first field is the protocol version */
};

#define BASE(member) .base = offsetof(struct hfi_frame, member)

static const struct frame_schema schemas[] = {
    {HFI_FRAME_HELLO, "HELLO", FIELDS(hello_fields), BASE(hello), .versioned = true},
    {HFI_FRAME_OPEN, "OPEN", FIELDS(open_fields), BASE(open)},
    {HFI_FRAME_SEAT, "SEAT", FIELDS(seat_fields), BASE(seat)},
    {HFI_FRAME_CLOSE, "CLOSE", FIELDS(close_fields)},
    {HFI_FRAME_MAP, "MAP", FIELDS(name_fields)},
    {HFI_FRAME_CHECK, "CHECK", FIELDS(check_fields)},
    {HFI_FRAME_LIST, "LIST", FIELDS(list_fields)},
    {HFI_FRAME_SHOW, "SHOW", FIELDS(name_fields)},
    {HFI_FRAME_STATUS, "STATUS", .count = 0},
    {HFI_FRAME_BREAK, "BREAK", FIELDS(break_fields)},
    {HFI_FRAME_RECALL, "RECALL", FIELDS(name_fields)},
    {HFI_FRAME_WATCH, "WATCH", FIELDS(prefix_fields)},
    {HFI_FRAME_EVENTS, "EVENTS", .count = 0},
    {HFI_FRAME_BYE, "BYE", .count = 0},
    {HFI_FRAME_RESUMED, "RESUMED", .count = 0},
    {HFI_FRAME_FACTS, "FACTS", .count = 0},
    {HFI_FRAME_RING, "RING", .count = 0, .numbering = UNASKED},
    {HFI_FRAME_UNWATCH, "UNWATCH", FIELDS(prefix_fields)},
    {HFI_FRAME_MEMBER, "MEMBER", FIELDS(member_fields), BASE(member)},
    {HFI_FRAME_BACKUP, "BACKUP", .count = 0},
    {HFI_FRAME_NOTE, "NOTE", FIELDS(note_fields), BASE(note)},
    {HFI_FRAME_WELCOME, "WELCOME", FIELDS(welcome_fields), BASE(welcome), .versioned = true},
    {HFI_FRAME_REGION, "REGION", FIELDS(region_fields), BASE(region)},
    {HFI_FRAME_OPENED, "OPENED", FIELDS(opened_fields), BASE(opened)},
    {HFI_FRAME_SEATED, "SEATED", FIELDS(seated_fields)},
    {HFI_FRAME_LISTED, "LISTED", FIELDS(listed_fields), .tail = TAIL_LOCKS},
    {HFI_FRAME_STATED, "STATED", FIELDS(stated_fields), BASE(stated), .tail = TAIL_VOTERS},
    {HFI_FRAME_DONE, "DONE", FIELDS(done_fields), .numbering = EITHER},
    {HFI_FRAME_CHANGED, "CHANGED", FIELDS(prefix_fields), .numbering = UNASKED},
    {HFI_FRAME_POKE, "POKE", .count = 0, .numbering = UNASKED},
    {HFI_FRAME_TOLD, "TOLD", .count = 0, .tail = TAIL_FACTS},
    {HFI_FRAME_BROKEN, "BROKEN", FIELDS(broken_fields), BASE(broken), .tail = TAIL_BROKEN},
    {HFI_FRAME_MEMBERED, "MEMBERED", FIELDS(membered_fields), BASE(membered)},
};

static const struct frame_schema *schema_of(uint64_t kind)
{
    for (size_t i = 0; i < COUNT(schemas); i++) {
        if ((uint64_t)schemas[i].kind == kind) {
            return &schemas[i];
        }
    }
    return NULL;
}

const char *hfi_frame_name(enum hfi_frame_kind kind)
{
    const struct frame_schema *schema = schema_of((uint64_t)kind);

    return schema != NULL ? schema->name : "unknown";
}

/* Kind and request, as fields of a frame. */
static const struct hfi_field kind_field = HFI_INTEGER(hfi_frame, kind, 1, 127);
static struct hfi_field request_field_of(const struct frame_schema *schema)
{
    return (struct hfi_field)HFI_INTEGER(hfi_frame, request, schema->numbering == NUMBERED ? 1 : 0,
                                         schema->numbering == UNASKED ? 0 : UINT64_MAX);
}

static uint32_t length_of(const struct frame_schema *schema)
{
    return FIELDS_BEFORE + schema->count + (schema->tail != TAIL_NONE ? 1 : 0);
}

/* Returns whether a frame of that kind has its optional fields, if it has that length. */
static bool has_full(const struct frame_schema *schema, uint32_t length)
{
    return schema->kind == HFI_FRAME_DONE && length == length_of(schema) + COUNT(full_fields);
}

/* Returns whether a frame of that kind may have that length. If not, notes the error in *reader. */
static bool check_length(struct hfi_reader *reader, const struct frame_schema *schema,
                         uint32_t length)
{
    char found[MESSAGE_SIZE];
    char expected[MESSAGE_SIZE];

    if (length == length_of(schema) || has_full(schema, length)) {
        return true;
    }
    (void)snprintf(found, sizeof found, "an array of %" PRIu32, length);
    (void)snprintf(expected, sizeof expected, "an array of %" PRIu32, length_of(schema));
    hfi_reader_fail(reader, 0, NULL, found, expected);
    return false;
}

/* Checks what the table cannot: an OPEN that resumes a handle must name the handle's holder id. */
static bool open_is_whole(const struct hfi_open *open)
{
    return (open->flags & HFI_OPEN_RESUME) == 0 || open->holder != HFI_HOLDER_NONE;
}

/* ---- decoding ---- */

static bool read_voters(struct hfi_reader *reader, uint32_t field_index, struct hfi_stated *out)
{
    uint32_t length;

    if (!hfi_read_array(reader, field_index, "voters", 0, HFI_FRAME_VOTERS_MAX,
                        &out->voter_count)) {
        return false;
    }
    reader->item = "voter";
    for (uint32_t i = 0; i < out->voter_count; i++) {
        reader->item_index = i;
        if (!hfi_read_array(reader, field_index, "voters", COUNT(voter_fields), COUNT(voter_fields),
                            &length) ||
            !hfi_read_fields(reader, voter_fields, COUNT(voter_fields), 0, &out->voters[i])) {
            return false;
        }
    }
    reader->item = NULL;
    return true;
}

/* Reads through a whole page, so that the cursor cannot fail later. */
static bool read_page(struct hfi_reader *reader, uint32_t field_index, struct hfi_frame *out,
                      struct hfi_listed_cursor *cursor)
{
    struct hfi_lock_frame lock;
    struct hfi_party_frame party;
    struct hfi_behind_frame behind;
    uint32_t parties;
    uint32_t further;

    if (!hfi_read_array(reader, field_index, "locks", 0, HFI_FRAME_LOCKS_MAX,
                        &out->listed.lock_count)) {
        return false;
    }
    if (cursor != NULL) {
        *cursor = (struct hfi_listed_cursor){
            .at = reader->at, .end = reader->end, .locks_left = out->listed.lock_count};
    }
    reader->item = "lock";
    for (uint32_t i = 0; i < out->listed.lock_count; i++) {
        reader->item_index = i;
        if (!hfi_read_lock(reader, &lock, &parties, &further)) {
            return false;
        }
        for (uint32_t j = 0; j < parties; j++) {
            reader->party_index = j;
            if (!hfi_read_party(reader, &party)) {
                return false;
            }
        }
        reader->party_index = UINT32_MAX;
        if (!hfi_read_further(reader, further, &behind)) {
            return false;
        }
    }
    reader->item = NULL;
    return true;
}

/* Reads through all facts, so that the cursor cannot fail later. */
static bool read_facts(struct hfi_reader *reader, uint32_t field_index, struct hfi_frame *out,
                       struct hfi_listed_cursor *cursor)
{
    struct hfi_fact_frame fact;

    if (!hfi_read_array(reader, field_index, "facts", 0, HFI_FRAME_FACTS_MAX, &out->fact_count)) {
        return false;
    }
    if (cursor != NULL) {
        *cursor = (struct hfi_listed_cursor){
            .at = reader->at, .end = reader->end, .facts_left = out->fact_count};
    }
    reader->item = "fact";
    for (uint32_t i = 0; i < out->fact_count; i++) {
        reader->item_index = i;
        if (!hfi_read_fact(reader, &fact)) {
            return false;
        }
    }
    reader->item = NULL;
    return true;
}

static bool read_tail(struct hfi_reader *reader, const struct frame_schema *schema,
                      struct hfi_frame *out, struct hfi_listed_cursor *cursor)
{
    uint32_t field_index = FIELDS_BEFORE + schema->count;

    switch (schema->tail) {
    case TAIL_VOTERS:
        return read_voters(reader, field_index, &out->stated);
    case TAIL_LOCKS:
        return read_page(reader, field_index, out, cursor);
    case TAIL_FACTS:
        return read_facts(reader, field_index, out, cursor);
    case TAIL_BROKEN:
        return hfi_read_broken(reader, field_index, &out->broken, cursor);
    case TAIL_NONE:
        break;
    }
    return true;
}

/* Reads the head of the frame: its length, kind and request. Returns NULL if the frame is not
 * valid. */
static const struct frame_schema *read_head(struct hfi_reader *reader, uint32_t *length,
                                            struct hfi_frame *out)
{
    const struct frame_schema *schema;
    struct hfi_field request_field;
    char found[MESSAGE_SIZE];

    if (!hfi_read_array(reader, 0, NULL, FIELDS_BEFORE, UINT16_MAX, length) ||
        !hfi_read_fields(reader, &kind_field, 1, FIELD_KIND, out)) {
        return NULL;
    }
    schema = schema_of((uint64_t)out->kind);
    if (schema == NULL) {
        (void)snprintf(found, sizeof found, "%d", (int)out->kind);
        out->kind = 0;
        hfi_reader_fail(reader, FIELD_KIND, "kind", found, "a kind of frame");
        return NULL;
    }
    reader->frame = schema->name;
    request_field = request_field_of(schema);
    return hfi_read_fields(reader, &request_field, 1, FIELD_REQUEST, out) ? schema : NULL;
}

static bool read_frame(struct hfi_reader *reader, struct hfi_frame *out,
                       struct hfi_listed_cursor *cursor)
{
    uint32_t length;
    const struct frame_schema *schema = read_head(reader, &length, out);
    char found[MESSAGE_SIZE];
    unsigned char *base;

    if (schema == NULL) {
        return false;
    }
    base = (unsigned char *)out + schema->base;
    if (schema->versioned && length > FIELDS_BEFORE) {
        struct hfi_reader ahead = *reader;
        uint32_t version;

        if (!hfi_read_fields(&ahead, schema->fields, 1, FIELDS_BEFORE, base)) {
            return false;
        }
        memcpy(&version, base + schema->fields[0].offset, sizeof version);
        if (version != HFI_PROTOCOL_VERSION) {
            return true;
        }
    }
    if (!check_length(reader, schema, length) ||
        !hfi_read_fields(reader, schema->fields, schema->count, FIELDS_BEFORE, base) ||
        (has_full(schema, length) && !hfi_read_fields(reader, full_fields, COUNT(full_fields),
                                                      FIELDS_BEFORE + schema->count, base)) ||
        !read_tail(reader, schema, out, cursor)) {
        return false;
    }
    if (schema->kind == HFI_FRAME_OPEN && !open_is_whole(&out->open)) {
        hfi_reader_fail(reader, OPEN_FIELD_HOLDER, "holder", "0", "integer 1..65534 to resume");
        return false;
    }
    if (reader->at != reader->end) {
        (void)snprintf(found, sizeof found, "%zu bytes more", (size_t)(reader->end - reader->at));
        hfi_reader_fail(reader, 0, NULL, found, "the end of the packet");
        return false;
    }
    return true;
}

int hfi_frame_decode(const void *packet, size_t size, struct hfi_frame *out,
                     struct hfi_listed_cursor *cursor, struct hfi_frame_error *error)
{
    struct hfi_reader reader = {
        .at = packet,
        .frame = "frame",
        .party_index = UINT32_MAX,
        .error = error,
    };
    char found[MESSAGE_SIZE];

    memset(out, 0, sizeof *out);
    error->text[0] = '\0';
    if (cursor != NULL) {
        memset(cursor, 0, sizeof *cursor);
    }
    if (size == 0 || size > HFI_FRAME_MAX) {
        (void)snprintf(found, sizeof found, "%zu bytes", size);
        hfi_reader_fail(&reader, 0, NULL, found, "1..16384 bytes");
        return -1;
    }
    reader.end = reader.at + size;
    if (!read_frame(&reader, out, cursor)) {
        if (cursor != NULL) {
            /* the caller must not be able to read any part of an invalid page */
            memset(cursor, 0, sizeof *cursor);
        }
        return -1;
    }
    return 0;
}

/* ---- encoding ---- */

/* Writes the frame up to its tail. */
static void write_start(struct hfi_writer *writer, const struct frame_schema *schema,
                        const struct hfi_frame *frame)
{
    struct hfi_field request_field = request_field_of(schema);

    bool full = schema->kind == HFI_FRAME_DONE && frame->full.table != HFI_TABLE_UNKNOWN;

    hfi_write_array(writer, length_of(schema) + (full ? COUNT(full_fields) : 0));
    hfi_write_fields(writer, &kind_field, 1, frame);
    hfi_write_fields(writer, &request_field, 1, frame);
    hfi_write_fields(writer, schema->fields, schema->count,
                     (const unsigned char *)frame + schema->base);
    if (full) {
        hfi_write_fields(writer, full_fields, COUNT(full_fields), frame);
    }
}

void hfi_write_frame_start(struct hfi_writer *writer, const struct hfi_frame *frame)
{
    write_start(writer, schema_of((uint64_t)frame->kind), frame);
}

size_t hfi_frame_encode(const struct hfi_frame *frame, void *buffer, size_t size)
{
    struct hfi_writer writer = {.bytes = buffer,
                                .size = size < HFI_FRAME_MAX ? size : HFI_FRAME_MAX};
    const struct frame_schema *schema = schema_of((uint64_t)frame->kind);
    const struct hfi_stated *stated = &frame->stated;

    if (schema == NULL || schema->tail == TAIL_LOCKS || schema->tail == TAIL_FACTS ||
        schema->tail == TAIL_BROKEN ||
        (frame->kind == HFI_FRAME_OPEN && !open_is_whole(&frame->open))) {
        return 0;
    }
    write_start(&writer, schema, frame);
    if (schema->tail == TAIL_VOTERS) {
        if (stated->voter_count > HFI_FRAME_VOTERS_MAX) {
            return 0;
        }
        hfi_write_array(&writer, stated->voter_count);
        for (uint32_t i = 0; i < stated->voter_count; i++) {
            hfi_write_array(&writer, COUNT(voter_fields));
            hfi_write_fields(&writer, voter_fields, COUNT(voter_fields), &stated->voters[i]);
        }
    }
    return writer.failed ? 0 : writer.used;
}
