/*
 * Encodes and decodes gossip: see proto/gossip.h. It uses tables, as the frames do (fields.h).
 *
 *   packet = [kind, answer, incarnation, beat_ms, [entry...]]
 *   item   = [author, incarnation, number, age_ms, kind, the kind's fields]
 *   digest = [author, incarnation, beat_ms, age_ms, hash]
 *   hashes = [author, incarnation, [index << 32 | hash...]]
 *
 * An item's body begins with its kind. It may end with further fields, which are optional and which
 * a reader skips if it does not know them. GOSSIP_LOCK has two: `last`, then `notes`. If a lock has
 * notes and no `last`, a `last` of unknown values comes first. The number of entries of a packet is
 * known only at the end, so the head of their array always has the form with a 16-bit count.
 */
#include "proto/gossip.h"

#include <string.h>

#include "fields.h"
#include "holdfast/admin.h"
#include "proto/check.h"

enum {
    PACKET_ELEMENTS = 5,
    STAMP_ELEMENTS = 4,
    DIGEST_ELEMENTS = 5,
    HASHES_ELEMENTS = 3,
    FURTHER_MAX = 16, /* the most elements of an item, or of `last`, that a reader does not know */
    BODY_ELEMENTS_MAX = FURTHER_MAX,
    PARTIES_TOTAL_MAX = 1 << 24,
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* The fields in a form that the tables of fields.h can describe: texts are pointers into the
 * packet. */
struct head_fields {
    uint32_t kind;
    bool answer;
    uint64_t incarnation;
    uint64_t heartbeat_ms;
};

struct stamp_fields {
    struct hfi_text author;
    uint64_t incarnation;
    uint64_t number;
    uint32_t age_ms;
};

struct digest_fields {
    struct hfi_text author;
    uint64_t incarnation;
    uint64_t heartbeat_ms;
    uint32_t age_ms;
    uint64_t hash;
};

struct body_fields {
    uint32_t kind;
    struct hfi_text text; /* an address, an agent's name or a lock's name */
    bool voter;
    uint32_t epoch;
    uint32_t state;
    uint64_t bits[MESSAGE_PARTITIONS / 64];
    int64_t closed_ms;
    uint32_t holder_total;
    uint32_t waiter_total;
};

struct holder_fields {
    struct gossip_holder holder;
    struct hfi_text command;
};

struct last_fields {
    struct gossip_last last;
    struct hfi_text agent;
    struct hfi_text by_agent;
    struct hfi_text command;
    struct hfi_text note;
};

static const struct hfi_field head_fields[] = {
    HFI_INTEGER(head_fields, kind, GOSSIP_ITEMS, GOSSIP_HASHES),
    HFI_BOOL(head_fields, answer),
    HFI_INTEGER(head_fields, incarnation, 0, INT64_MAX),
    HFI_INTEGER_AS("beat_ms", head_fields, heartbeat_ms, 0, INT64_MAX),
};

static const struct hfi_field stamp_fields[] = {
    HFI_TEXT(stamp_fields, author, HFI_TEXT_LABEL),
    HFI_INTEGER(stamp_fields, incarnation, 1, INT64_MAX),
    HFI_INTEGER(stamp_fields, number, 1, INT64_MAX),
    HFI_INTEGER(stamp_fields, age_ms, 0, UINT32_MAX),
};

static const struct hfi_field digest_fields[] = {
    HFI_TEXT(digest_fields, author, HFI_TEXT_LABEL),
    HFI_INTEGER(digest_fields, incarnation, 1, INT64_MAX),
    HFI_INTEGER_AS("beat_ms", digest_fields, heartbeat_ms, 0, INT64_MAX),
    HFI_INTEGER(digest_fields, age_ms, 0, UINT32_MAX),
    HFI_INTEGER(digest_fields, hash, 0, UINT64_MAX),
};

static const struct hfi_field kind_field[] = {
    HFI_INTEGER(body_fields, kind, GOSSIP_AGENT, GOSSIP_LOCK),
};

static const struct hfi_field agent_fields[] = {
    HFI_TEXT_AS("address", body_fields, text, HFI_TEXT_ADDRESS),
    HFI_BOOL(body_fields, voter),
    HFI_INTEGER(body_fields, epoch, 0, UINT32_MAX),
    HFI_INTEGER(body_fields, state, GOSSIP_SAFE, GOSSIP_LOST),
};

static const struct hfi_field owned_fields[] = {
    HFI_INTEGER_AS("partitions 0..63", body_fields, bits[0], 0, UINT64_MAX),
    HFI_INTEGER_AS("partitions 64..127", body_fields, bits[1], 0, UINT64_MAX),
    HFI_INTEGER_AS("partitions 128..191", body_fields, bits[2], 0, UINT64_MAX),
    HFI_INTEGER_AS("partitions 192..255", body_fields, bits[3], 0, UINT64_MAX),
};

static const struct hfi_field expired_fields[] = {
    HFI_TEXT_AS("agent", body_fields, text, HFI_TEXT_LABEL),
    HFI_INTEGER(body_fields, epoch, 1, UINT32_MAX),
};

static const struct hfi_field lock_fields[] = {
    HFI_TEXT_AS("name", body_fields, text, HFI_TEXT_NAME),
    HFI_INTEGER(body_fields, state, HF_STATE_FREE, HF_STATE_SHARED),
    HFI_INTEGER(body_fields, closed_ms, 0, UINT32_MAX),
    HFI_INTEGER(body_fields, holder_total, 0, PARTIES_TOTAL_MAX),
    HFI_INTEGER(body_fields, waiter_total, 0, PARTIES_TOTAL_MAX),
};

static const struct hfi_field holder_fields[] = {
    HFI_INTEGER(holder_fields, holder.pid, -1, INT32_MAX),
    HFI_INTEGER(holder_fields, holder.uid, -1, UINT32_MAX),
    HFI_INTEGER(holder_fields, holder.token, 0, UINT64_MAX),
    HFI_INTEGER(holder_fields, holder.held_ms, -1, INT64_MAX),
    HFI_INTEGER(holder_fields, holder.remaining_ms, -1, INT64_MAX),
    HFI_TEXT(holder_fields, command, HFI_TEXT_COMMAND),
};

static const struct hfi_field waiter_fields[] = {
    HFI_INTEGER(gossip_waiter, pid, -1, INT32_MAX),
    HFI_INTEGER(gossip_waiter, mode, HF_EXCLUSIVE, HF_SHARED),
    HFI_INTEGER(gossip_waiter, waited_ms, -1, INT64_MAX),
};

static const struct hfi_field last_fields[] = {
    HFI_TEXT(last_fields, agent, HFI_TEXT_LABEL_OR_NONE),
    HFI_INTEGER(last_fields, last.pid, -1, INT32_MAX),
    HFI_INTEGER(last_fields, last.uid, -1, UINT32_MAX),
    HFI_INTEGER(last_fields, last.ended_ms, -1, INT64_MAX),
    HFI_INTEGER(last_fields, last.ending, 0, UINT8_MAX),
    HFI_TEXT(last_fields, by_agent, HFI_TEXT_LABEL_OR_NONE),
    HFI_INTEGER(last_fields, last.by_uid, -1, UINT32_MAX),
    HFI_TEXT(last_fields, command, HFI_TEXT_COMMAND),
};

/* Optional, after the fields of `last`. */
static const struct hfi_field last_note_fields[] = {
    HFI_TEXT(last_fields, note, HFI_TEXT_NOTE),
};

static const struct hfi_field note_field = {
    .name = "note", .type = HFI_FIELD_TEXT, .rule = HFI_TEXT_NOTE, .offset = 0};

/* The fields of a kind of body. GOSSIP_LOCK has two arrays after its fields. */
struct body_table {
    const struct hfi_field *fields;
    uint32_t count;
    /* the number of elements of the body, with the kind and the arrays, without further fields */
    uint32_t elements;
};

static struct body_table table_of(uint32_t kind)
{
    switch (kind) {
    case GOSSIP_AGENT:
        return (struct body_table){agent_fields, COUNT(agent_fields), COUNT(agent_fields) + 1};
    case GOSSIP_OWNED:
        return (struct body_table){owned_fields, COUNT(owned_fields), COUNT(owned_fields) + 1};
    case GOSSIP_EXPIRED:
        return (struct body_table){expired_fields, COUNT(expired_fields),
                                   COUNT(expired_fields) + 1};
    default:
        return (struct body_table){lock_fields, COUNT(lock_fields), COUNT(lock_fields) + 3};
    }
}

/* ---- texts ---- */

static struct hfi_text text_of_agent(const struct message_agent *agent)
{
    return (struct hfi_text){agent->text, agent->length};
}

static void agent_of_text(struct message_agent *agent, struct hfi_text text)
{
    memset(agent, 0, sizeof(*agent));
    agent->length = (uint8_t)text.size;
    if (text.size > 0) {
        memcpy(agent->text, text.bytes, text.size);
    }
}

static struct hfi_text text_of_chars(const char *chars, size_t size_max)
{
    const char *end = memchr(chars, '\0', size_max);
    return (struct hfi_text){chars, (uint32_t)(end ? (size_t)(end - chars) : size_max)};
}

static void chars_of_text(char *chars, struct hfi_text text)
{
    if (text.size > 0) {
        memcpy(chars, text.bytes, text.size);
    }
    chars[text.size] = '\0';
}

/* ---- bodies ---- */

/* Returns how many bytes each note of the lock may have. */
static uint32_t note_room(const struct gossip_lock *lock)
{
    uint32_t notes = lock->has_last && lock->last.note[0] != '\0';
    for (uint32_t i = 0; i < lock->holder_count; i++) {
        notes += lock->holders[i].note[0] != '\0';
    }
    return notes > 2 ? GOSSIP_NOTES_MAX / notes : GOSSIP_NOTE_MAX;
}

static void write_last(struct hfi_writer *writer, const struct gossip_last *last, uint32_t room)
{
    char cleaned[HFI_FRAME_COMMAND_MAX];
    char cleaned_note[GOSSIP_NOTE_MAX];
    struct last_fields shown;
    memcpy(&shown.last, last, sizeof(*last));
    shown.agent = text_of_agent(&last->agent);
    shown.by_agent = text_of_agent(&last->by_agent);
    shown.command = hfi_command_shown(text_of_chars(last->command, GOSSIP_COMMAND_MAX), cleaned);
    shown.note = hfi_note_shown(text_of_chars(last->note, GOSSIP_NOTE_MAX), room, cleaned_note);
    hfi_write_array(writer, COUNT(last_fields) + (shown.note.size > 0 ? 1 : 0));
    hfi_write_fields(writer, last_fields, COUNT(last_fields), &shown);
    hfi_write_fields(writer, last_note_fields, shown.note.size > 0 ? 1 : 0, &shown);
}

/* Writes the notes of the holders, in the order of the holders, if there are any. `last` stands
 * before them. */
static void write_notes(struct hfi_writer *writer, const struct gossip_lock *lock, uint32_t room)
{
    static const struct gossip_last unknown = {.pid = -1, .uid = -1, .ended_ms = -1, .by_uid = -1};
    char cleaned[GOSSIP_NOTE_MAX];
    bool any = false;
    for (uint32_t i = 0; i < lock->holder_count; i++) {
        any = any || lock->holders[i].note[0] != '\0';
    }
    if (!any) {
        return;
    }
    if (!lock->has_last) {
        write_last(writer, &unknown, 0);
    }
    hfi_write_array(writer, lock->holder_count);
    for (uint32_t i = 0; i < lock->holder_count; i++) {
        struct hfi_text note = hfi_note_shown(text_of_chars(lock->holders[i].note, GOSSIP_NOTE_MAX),
                                              room, cleaned);
        hfi_write_fields(writer, &note_field, 1, &note);
    }
}

static void write_lock(struct hfi_writer *writer, const struct gossip_lock *lock)
{
    struct body_fields fields = {
        .text = {(const char *)lock->name.bytes, lock->name.length},
        .state = lock->state,
        .closed_ms = lock->closed_ms,
        .holder_total = lock->holder_total,
        .waiter_total = lock->waiter_total,
    };
    HF_CHECK(lock->holder_count <= GOSSIP_HOLDERS_MAX);
    HF_CHECK(lock->waiter_count <= GOSSIP_WAITERS_MAX);
    hfi_write_fields(writer, lock_fields, COUNT(lock_fields), &fields);
    hfi_write_array(writer, lock->holder_count);
    for (uint32_t i = 0; i < lock->holder_count; i++) {
        char cleaned[HFI_FRAME_COMMAND_MAX];
        const struct gossip_holder *holder = &lock->holders[i];
        struct holder_fields shown;
        struct hfi_text command = text_of_chars(holder->command, GOSSIP_COMMAND_MAX);
        memcpy(&shown.holder, holder, sizeof(*holder));
        shown.command = hfi_command_shown(command, cleaned);
        hfi_write_array(writer, COUNT(holder_fields));
        hfi_write_fields(writer, holder_fields, COUNT(holder_fields), &shown);
    }
    hfi_write_array(writer, lock->waiter_count);
    for (uint32_t i = 0; i < lock->waiter_count; i++) {
        hfi_write_array(writer, COUNT(waiter_fields));
        hfi_write_fields(writer, waiter_fields, COUNT(waiter_fields), &lock->waiters[i]);
    }
    if (lock->has_last) {
        write_last(writer, &lock->last, note_room(lock));
    }
    write_notes(writer, lock, note_room(lock));
}

size_t gossip_body_encode(const struct gossip_item *item, void *buffer, size_t size)
{
    struct hfi_writer writer = {.bytes = buffer, .size = size};
    struct body_fields fields = {.kind = item->kind};
    struct body_table table = table_of(item->kind);
    hfi_write_fields(&writer, kind_field, COUNT(kind_field), &fields);
    switch (item->kind) {
    case GOSSIP_AGENT:
        fields.text = text_of_chars(item->as.agent.address, MESSAGE_ADDRESS_MAX);
        fields.voter = item->as.agent.voter;
        fields.epoch = item->as.agent.epoch;
        fields.state = item->as.agent.state;
        break;
    case GOSSIP_OWNED:
        memcpy(fields.bits, item->as.owned.bits, sizeof(fields.bits));
        break;
    case GOSSIP_EXPIRED:
        fields.text = text_of_agent(&item->as.expired.agent);
        fields.epoch = item->as.expired.epoch;
        break;
    default:
        write_lock(&writer, &item->as.lock);
        return writer.failed ? 0 : writer.used;
    }
    hfi_write_fields(&writer, table.fields, table.count, &fields);
    return writer.failed ? 0 : writer.used;
}

static bool read_holder(struct hfi_reader *reader, struct gossip_holder *out)
{
    struct holder_fields fields;
    uint32_t length;
    if (!hfi_read_array(reader, 0, NULL, COUNT(holder_fields), COUNT(holder_fields), &length) ||
        !hfi_read_fields(reader, holder_fields, COUNT(holder_fields), 0, &fields)) {
        return false;
    }
    fields.holder.command[0] = '\0';
    fields.holder.note[0] = '\0';
    *out = fields.holder;
    chars_of_text(out->command, fields.command);
    return true;
}

static bool read_parties(struct hfi_reader *reader, struct gossip_lock *lock)
{
    uint32_t length;
    if (!hfi_read_array(reader, 0, NULL, 0, GOSSIP_HOLDERS_MAX, &lock->holder_count) ||
        lock->holder_count > lock->holder_total) {
        return false;
    }
    for (uint32_t i = 0; i < lock->holder_count; i++) {
        if (!read_holder(reader, &lock->holders[i])) {
            return false;
        }
    }
    if (!hfi_read_array(reader, 0, NULL, 0, GOSSIP_WAITERS_MAX, &lock->waiter_count) ||
        lock->waiter_count > lock->waiter_total) {
        return false;
    }
    for (uint32_t i = 0; i < lock->waiter_count; i++) {
        if (!hfi_read_array(reader, 0, NULL, COUNT(waiter_fields), COUNT(waiter_fields), &length) ||
            !hfi_read_fields(reader, waiter_fields, COUNT(waiter_fields), 0, &lock->waiters[i])) {
            return false;
        }
    }
    return true;
}

static bool read_last(struct hfi_reader *reader, struct gossip_last *out)
{
    struct last_fields fields;
    uint32_t length;
    memset(&fields, 0, sizeof(fields));
    if (!hfi_read_array(reader, 0, NULL, COUNT(last_fields), COUNT(last_fields) + FURTHER_MAX,
                        &length) ||
        !hfi_read_fields(reader, last_fields, COUNT(last_fields), 0, &fields)) {
        return false;
    }
    length -= COUNT(last_fields);
    if (length > 0 && (!hfi_read_fields(reader, last_note_fields, 1, 0, &fields) ||
                       !hfi_skip_items(reader, length - 1))) {
        return false;
    }
    agent_of_text(&fields.last.agent, fields.agent);
    agent_of_text(&fields.last.by_agent, fields.by_agent);
    *out = fields.last;
    chars_of_text(out->command, fields.command);
    chars_of_text(out->note, fields.note);
    return true;
}

/* Returns whether nothing is known of the hold: `last` stands there only because notes follow. */
static bool last_is_empty(const struct gossip_last *last)
{
    return last->agent.length == 0 && last->pid < 0 && last->uid < 0 && last->ended_ms < 0 &&
           last->ending == 0 && last->command[0] == '\0' && last->note[0] == '\0';
}

/* Reads the notes of the holders. There are as many as holders. */
static bool read_notes(struct hfi_reader *reader, struct gossip_lock *lock)
{
    uint32_t count;
    if (!hfi_read_array(reader, 0, NULL, lock->holder_count, lock->holder_count, &count)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct hfi_text note;
        if (!hfi_read_fields(reader, &note_field, 1, 0, &note)) {
            return false;
        }
        chars_of_text(lock->holders[i].note, note);
    }
    return true;
}

/* Reads the further fields, which follow those that read_beginning() has read. */
static bool read_further(struct hfi_reader *reader, uint32_t further, struct gossip_item *out)
{
    struct gossip_lock *lock = &out->as.lock;
    if (out->kind != GOSSIP_LOCK || further == 0) {
        return hfi_skip_items(reader, further);
    }
    if (!read_last(reader, &lock->last)) {
        return false;
    }
    lock->has_last = lock->closed_ms > 0 || !last_is_empty(&lock->last);
    return further == 1 || (read_notes(reader, lock) && hfi_skip_items(reader, further - 2));
}

/* Reads the kind and its own fields, without further fields. */
static bool read_beginning(struct hfi_reader *reader, uint32_t elements, struct gossip_item *out)
{
    struct body_fields fields;
    if (reader->at == reader->end ||
        *reader->at > GOSSIP_LOCK || /* a kind must have its shortest form, one byte */
        !hfi_read_fields(reader, kind_field, COUNT(kind_field), 0, &fields)) {
        return false;
    }
    struct body_table table = table_of(fields.kind);
    if (elements < table.elements ||
        !hfi_read_fields(reader, table.fields, table.count, 0, &fields)) {
        return false;
    }
    out->kind = fields.kind;
    switch (fields.kind) {
    case GOSSIP_AGENT:
        chars_of_text(out->as.agent.address, fields.text);
        out->as.agent.voter = fields.voter;
        out->as.agent.epoch = fields.epoch;
        out->as.agent.state = fields.state;
        return true;
    case GOSSIP_OWNED:
        memcpy(out->as.owned.bits, fields.bits, sizeof(fields.bits));
        return true;
    case GOSSIP_EXPIRED:
        agent_of_text(&out->as.expired.agent, fields.text);
        out->as.expired.epoch = fields.epoch;
        return true;
    default:
        memset(&out->as.lock.name, 0, sizeof(out->as.lock.name));
        out->as.lock.name.length = (uint8_t)fields.text.size;
        memcpy(out->as.lock.name.bytes, fields.text.bytes, fields.text.size);
        out->as.lock.state = fields.state;
        out->as.lock.closed_ms = fields.closed_ms;
        out->as.lock.holder_total = fields.holder_total;
        out->as.lock.waiter_total = fields.waiter_total;
        out->as.lock.has_last = false;
        memset(&out->as.lock.last, 0, sizeof(out->as.lock.last));
        return read_parties(reader, &out->as.lock);
    }
}

/* elements: the number of elements of the body, including the kind. */
static bool read_body(struct hfi_reader *reader, uint32_t elements, struct gossip_item *out)
{
    return read_beginning(reader, elements, out) &&
           read_further(reader, elements - table_of(out->kind).elements, out);
}

static struct hfi_reader body_reader(const void *bytes, size_t size)
{
    return (struct hfi_reader){
        .at = bytes, .end = (const unsigned char *)bytes + size, .party_index = UINT32_MAX};
}

/* Returns how many elements the body has, or 0 if it has too many or is not a row of whole
 * elements. */
static uint32_t body_elements(const void *bytes, size_t size)
{
    struct hfi_reader reader = body_reader(bytes, size);
    uint32_t count = 0;
    while (reader.at < reader.end) {
        if (count == BODY_ELEMENTS_MAX || !hfi_skip_items(&reader, 1)) {
            return 0;
        }
        count++;
    }
    return count;
}

bool gossip_body_decode(const void *bytes, size_t size, struct gossip_item *out)
{
    struct hfi_reader reader = body_reader(bytes, size);
    return read_body(&reader, body_elements(bytes, size), out) && reader.at == reader.end;
}

/* ---- writing packets ---- */

static struct hfi_writer writer_of(const struct gossip_writer *writer)
{
    return (struct hfi_writer){.bytes = writer->bytes, .size = writer->size, .used = writer->used};
}

/* Adds the entry that was written to `written`, if all of it fitted. */
static bool entry_done(struct gossip_writer *writer, const struct hfi_writer *written)
{
    if (written->failed || writer->count == GOSSIP_ENTRIES_MAX) {
        return false;
    }
    writer->used = written->used;
    writer->count++;
    return true;
}

void gossip_begin(struct gossip_writer *writer, void *buffer, size_t size,
                  enum gossip_packet_kind kind, uint64_t incarnation, uint64_t heartbeat_ms)
{
    static const unsigned char entries[] = {0xdc, 0, 0};
    struct hfi_writer to = {.bytes = buffer,
                            .size = size < GOSSIP_PACKET_MAX ? size : GOSSIP_PACKET_MAX};
    struct head_fields fields = {kind, false, incarnation, heartbeat_ms};
    hfi_write_array(&to, PACKET_ELEMENTS);
    hfi_write_fields(&to, &head_fields[0], 1, &fields);
    size_t answer_at = to.used;
    hfi_write_fields(&to, &head_fields[1], COUNT(head_fields) - 1, &fields);
    hfi_write_raw(&to, entries, sizeof(entries));
    HF_CHECK(!to.failed);
    *writer = (struct gossip_writer){.bytes = buffer,
                                     .size = to.size,
                                     .used = to.used,
                                     .answer_at = answer_at,
                                     .count_at = to.used - 2};
}

bool gossip_add_item(struct gossip_writer *writer, const struct gossip_stamp *stamp,
                     const void *body, size_t size)
{
    struct hfi_writer to = writer_of(writer);
    struct stamp_fields fields = {text_of_agent(&stamp->author), stamp->incarnation, stamp->number,
                                  stamp->age_ms};
    hfi_write_array(&to, STAMP_ELEMENTS + body_elements(body, size));
    hfi_write_fields(&to, stamp_fields, COUNT(stamp_fields), &fields);
    hfi_write_raw(&to, body, size);
    return entry_done(writer, &to);
}

bool gossip_add_digest(struct gossip_writer *writer, const struct gossip_digest *digest)
{
    struct hfi_writer to = writer_of(writer);
    struct digest_fields fields = {text_of_agent(&digest->author), digest->incarnation,
                                   digest->heartbeat_ms, digest->age_ms, digest->hash};
    hfi_write_array(&to, DIGEST_ELEMENTS);
    hfi_write_fields(&to, digest_fields, COUNT(digest_fields), &fields);
    return entry_done(writer, &to);
}

bool gossip_add_hashes(struct gossip_writer *writer, const struct gossip_hashes *hashes)
{
    struct hfi_writer to = writer_of(writer);
    struct stamp_fields fields = {.author = text_of_agent(&hashes->author),
                                  .incarnation = hashes->incarnation};
    hfi_write_array(&to, HASHES_ELEMENTS);
    hfi_write_fields(&to, stamp_fields, 2, &fields); /* author, incarnation */
    hfi_write_array(&to, hashes->count);
    for (uint32_t i = 0; i < hashes->count; i++) {
        hfi_write_unsigned(&to, (uint64_t)hashes->buckets[i].index << 32 | hashes->buckets[i].hash);
    }
    return entry_done(writer, &to);
}

size_t gossip_end(struct gossip_writer *writer, bool answer)
{
    struct hfi_writer to = {
        .bytes = writer->bytes, .size = writer->size, .used = writer->answer_at};
    hfi_write_bool(&to, answer);
    writer->bytes[writer->count_at] = (unsigned char)(writer->count >> 8);
    writer->bytes[writer->count_at + 1] = (unsigned char)writer->count;
    return writer->used;
}

/* ---- reading packets ---- */

static struct hfi_reader reader_of(const struct gossip_reader *reader)
{
    return (struct hfi_reader){.at = reader->at, .end = reader->end, .party_index = UINT32_MAX};
}

static bool read_item(struct hfi_reader *reader, struct gossip_stamp *stamp,
                      struct gossip_item *item, const unsigned char **body)
{
    struct stamp_fields fields;
    uint32_t elements;
    if (!hfi_read_array(reader, 0, NULL, STAMP_ELEMENTS, STAMP_ELEMENTS + BODY_ELEMENTS_MAX,
                        &elements) ||
        !hfi_read_fields(reader, stamp_fields, COUNT(stamp_fields), 0, &fields)) {
        return false;
    }
    agent_of_text(&stamp->author, fields.author);
    stamp->incarnation = fields.incarnation;
    stamp->number = fields.number;
    stamp->age_ms = fields.age_ms;
    *body = reader->at;
    return read_body(reader, elements - STAMP_ELEMENTS, item) &&
           reader->at - *body <= GOSSIP_BODY_MAX;
}

static bool read_digest(struct hfi_reader *reader, struct gossip_digest *out)
{
    struct digest_fields fields;
    uint32_t elements;
    if (!hfi_read_array(reader, 0, NULL, DIGEST_ELEMENTS, DIGEST_ELEMENTS, &elements) ||
        !hfi_read_fields(reader, digest_fields, COUNT(digest_fields), 0, &fields)) {
        return false;
    }
    agent_of_text(&out->author, fields.author);
    out->incarnation = fields.incarnation;
    out->heartbeat_ms = fields.heartbeat_ms;
    out->age_ms = fields.age_ms;
    out->hash = fields.hash;
    return true;
}

static bool read_hashes(struct hfi_reader *reader, struct gossip_hashes *out)
{
    static const struct hfi_field bucket = {.name = "bucket",
                                            .type = HFI_FIELD_INTEGER,
                                            .size = sizeof(uint64_t),
                                            .min = 1,
                                            .max = UINT64_C(0xffffffffff)};
    struct stamp_fields fields;
    uint32_t elements;
    if (!hfi_read_array(reader, 0, NULL, HASHES_ELEMENTS, HASHES_ELEMENTS, &elements) ||
        !hfi_read_fields(reader, stamp_fields, 2, 0, &fields) ||
        !hfi_read_array(reader, 2, NULL, 0, GOSSIP_BUCKETS, &out->count)) {
        return false;
    }
    agent_of_text(&out->author, fields.author);
    out->incarnation = fields.incarnation;
    for (uint32_t i = 0; i < out->count; i++) {
        uint64_t both;
        if (!hfi_read_fields(reader, &bucket, 1, 0, &both)) {
            return false;
        }
        out->buckets[i].index = (uint32_t)(both >> 32);
        out->buckets[i].hash = (uint32_t)both;
        if (out->buckets[i].hash == 0 ||
            (i > 0 && out->buckets[i].index <= out->buckets[i - 1].index)) {
            return false;
        }
    }
    return true;
}

static bool read_entry(struct hfi_reader *reader, enum gossip_packet_kind kind)
{
    union {
        struct gossip_item item;
        struct gossip_digest digest;
        struct gossip_hashes hashes;
    } entry;
    struct gossip_stamp stamp;
    const unsigned char *body;
    return kind == GOSSIP_ITEMS    ? read_item(reader, &stamp, &entry.item, &body)
           : kind == GOSSIP_DIGEST ? read_digest(reader, &entry.digest)
                                   : read_hashes(reader, &entry.hashes);
}

bool gossip_open(struct gossip_reader *reader, const void *bytes, size_t size)
{
    struct hfi_reader from = {
        .at = bytes, .end = (const unsigned char *)bytes + size, .party_index = UINT32_MAX};
    struct head_fields head;
    uint32_t elements;
    memset(reader, 0, sizeof(*reader));
    if (size > GOSSIP_PACKET_MAX ||
        !hfi_read_array(&from, 0, NULL, PACKET_ELEMENTS, PACKET_ELEMENTS, &elements) ||
        !hfi_read_fields(&from, head_fields, COUNT(head_fields), 0, &head) ||
        !hfi_read_array(&from, COUNT(head_fields), NULL, 0, GOSSIP_ENTRIES_MAX, &elements)) {
        return false;
    }
    struct gossip_reader opened = {.at = from.at,
                                   .end = from.end,
                                   .left = elements,
                                   .kind = (enum gossip_packet_kind)head.kind,
                                   .answer = head.answer,
                                   .incarnation = head.incarnation,
                                   .heartbeat_ms = head.heartbeat_ms};
    for (uint32_t i = 0; i < elements; i++) {
        if (!read_entry(&from, opened.kind)) {
            return false;
        }
    }
    if (from.at != from.end) {
        return false;
    }
    *reader = opened;
    return true;
}

/* Returns whether the packet has another entry. The packet must be of this kind. */
static bool has_next(struct gossip_reader *reader, enum gossip_packet_kind kind)
{
    HF_CHECK(reader->kind == kind);
    if (reader->left == 0) {
        return false;
    }
    reader->left--;
    return true;
}

bool gossip_next_item(struct gossip_reader *reader, struct gossip_stamp *stamp,
                      struct gossip_item *item, const unsigned char **body, size_t *size)
{
    struct hfi_reader from = reader_of(reader);
    if (!has_next(reader, GOSSIP_ITEMS) || !read_item(&from, stamp, item, body)) {
        return false;
    }
    reader->at = from.at;
    *size = (size_t)(from.at - *body);
    return true;
}

bool gossip_next_digest(struct gossip_reader *reader, struct gossip_digest *out)
{
    struct hfi_reader from = reader_of(reader);
    if (!has_next(reader, GOSSIP_DIGEST) || !read_digest(&from, out)) {
        return false;
    }
    reader->at = from.at;
    return true;
}

bool gossip_next_hashes(struct gossip_reader *reader, struct gossip_hashes *out)
{
    struct hfi_reader from = reader_of(reader);
    if (!has_next(reader, GOSSIP_HASHES) || !read_hashes(&from, out)) {
        return false;
    }
    reader->at = from.at;
    return true;
}

/* ---- for agents of earlier releases ---- */

/* Returns the size of a valid body without further fields. */
static size_t beginning_size(const unsigned char *body, size_t size)
{
    struct hfi_reader reader = body_reader(body, size);
    struct gossip_item item;
    HF_CHECK(read_beginning(&reader, BODY_ELEMENTS_MAX, &item));
    return (size_t)(reader.at - body);
}

size_t gossip_narrow(const void *bytes, size_t size, void *out)
{
    struct gossip_reader reader;
    struct gossip_writer writer;
    struct gossip_stamp stamp;
    struct gossip_item item;
    const unsigned char *body;
    size_t body_size;
    if (!gossip_open(&reader, bytes, size)) {
        return 0;
    }
    if (reader.kind != GOSSIP_ITEMS) {
        memcpy(out, bytes, size);
        return size;
    }
    bool answer = reader.answer;
    gossip_begin(&writer, out, GOSSIP_PACKET_MAX, GOSSIP_ITEMS, reader.incarnation,
                 reader.heartbeat_ms);
    while (gossip_next_item(&reader, &stamp, &item, &body, &body_size)) {
        if (!gossip_add_item(&writer, &stamp, body, beginning_size(body, body_size))) {
            return 0; /* this never happens with a packet that gossip_end() has finished */
        }
    }
    return gossip_end(&writer, answer);
}
