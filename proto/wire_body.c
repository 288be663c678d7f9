/*
 * Writes and reads the bodies of messages between agents: see wire_body.h.
 *
 * The tables bound every number by the type of its member in message.h, and every count by the size
 * of its array. So reading a message never writes beyond a member. core/base/message_check.h checks
 * whether the values of a message make sense together.
 */
#include "wire_body.h"

#include "proto/check.h"
#include "proto/wire.h"
#include "wire_schema.h"

#include <string.h>

static const struct field read_value_known_fields[] = {
    ORDER(message_read_value, accepted),
};
static const struct field member_fields[] = {
    U64(message_member, store_id[0]),
    U64(message_member, store_id[1]),
    U32(message_member, generation),
};
static const struct field synced_mark_fields[] = {
    AGENT(message_synced, mark.agent),
    U32(message_synced, mark.epoch),
};
static const struct field synced_register_fields[] = {
    NAME(message_synced, name),
    ORDER(message_synced, accepted),
};
static const struct field value_fields[] = {
    ORDER(message_value, version),
    TOKEN(message_value, token_first),
    TOKEN(message_value, token_last),
    AGENT_OR_NONE(message_value, owner),
    AGENT_OR_NONE(message_value, successor),
    U32(message_value, epoch),
    DELAY(message_value, lock_delay_ms),
    NUMBER(message_value, permits, UINT16_MAX),
    MODE(message_value, mode),
    NUMBER(message_value, closing, UINT8_MAX),
};
static const struct field share_fields[] = {
    ORDER(message_share, version),
    AGENT(message_share, agent),
    U32(message_share, epoch),
};

/* The fields that all messages have after the kind. */
static const struct field envelope_fields[] = {
    AGENT_OR_NONE(message, to),
    BOOL(message, relayed),
};

const char *wire_kind_name(enum message_kind kind)
{
    return message_kind_valid((unsigned)kind) ? wire_schema(kind)->name : NULL;
}

/* ---- texts ---- */

static bool name_fits(bool or_none, struct hfi_text text)
{
    return hfi_text_fits(or_none ? HFI_TEXT_PREFIX : HFI_TEXT_NAME, text);
}

static void write_name(struct hfi_writer *writer, bool or_none, const struct message_name *name)
{
    HF_CHECK(name_fits(or_none, (struct hfi_text){(const char *)name->bytes, name->length}));
    hfi_write_string(writer, name->bytes, name->length);
}

static bool read_name(struct hfi_reader *reader, bool or_none, struct message_name *name)
{
    struct hfi_item item = hfi_read_item(reader);

    if (item.type != HFI_ITEM_TEXT || !name_fits(or_none, item.text)) {
        return false;
    }
    name->length = (uint8_t)item.text.size;
    memcpy(name->bytes, item.text.bytes, item.text.size);
    return true;
}

/* ---- numbers ---- */

static uint64_t member_load(const unsigned char *member, uint32_t size)
{
    uint16_t two;
    uint32_t four;
    uint64_t eight;

    switch (size) {
    case 1:
        return *member;
    case 2:
        memcpy(&two, member, sizeof two);
        return two;
    case 4:
        memcpy(&four, member, sizeof four);
        return four;
    default:
        memcpy(&eight, member, sizeof eight);
        return eight;
    }
}

static void member_store(unsigned char *member, uint32_t size, uint64_t value)
{
    uint16_t two = (uint16_t)value;
    uint32_t four = (uint32_t)value;

    switch (size) {
    case 1:
        *member = (unsigned char)value;
        break;
    case 2:
        memcpy(member, &two, sizeof two);
        break;
    case 4:
        memcpy(member, &four, sizeof four);
        break;
    default:
        memcpy(member, &value, sizeof value);
        break;
    }
}

/* Returns whether the value is allowed. An int64_t may have any value; an int32_t is an error code
 * in -max..0. */
static bool signed_fits(const struct field *field, int64_t value)
{
    return field->size == sizeof(int64_t) || (value <= 0 && value >= -(int64_t)field->max);
}

static void write_signed(struct hfi_writer *writer, const struct field *field,
                         const unsigned char *member)
{
    uint64_t loaded = member_load(member, field->size);
    int64_t value = field->size == sizeof(int32_t) ? (int64_t)(int32_t)(uint32_t)loaded
                                                   : (int64_t)loaded;

    HF_CHECK(signed_fits(field, value));
    hfi_write_signed(writer, value);
}

static bool read_signed(struct hfi_reader *reader, const struct field *field, unsigned char *member)
{
    struct hfi_item item = hfi_read_item(reader);

    if (item.type != HFI_ITEM_INTEGER || (!item.negative && item.value > INT64_MAX) ||
        !signed_fits(field, (int64_t)item.value)) {
        return false;
    }
    member_store(member, field->size, item.value);
    return true;
}

static bool read_number(struct hfi_reader *reader, uint64_t max, uint64_t *value)
{
    struct hfi_item item = hfi_read_item(reader);

    *value = item.value;
    return item.type == HFI_ITEM_INTEGER && !item.negative && item.value <= max;
}

/* ---- fields ---- */

static void write_partitions(struct hfi_writer *writer, const struct message_partitions *set)
{
    hfi_write_array(writer, COUNT(set->bits));
    for (uint32_t i = 0; i < COUNT(set->bits); i++) {
        hfi_write_unsigned(writer, set->bits[i]);
    }
}

static bool read_partitions(struct hfi_reader *reader, struct message_partitions *set)
{
    struct hfi_item item = hfi_read_item(reader);

    if (item.type != HFI_ITEM_ARRAY || item.value != COUNT(set->bits)) {
        return false;
    }
    for (uint32_t i = 0; i < COUNT(set->bits); i++) {
        if (!read_number(reader, UINT64_MAX, &set->bits[i])) {
            return false;
        }
    }
    return true;
}

static void write_field(struct hfi_writer *writer, const struct field *field,
                        const unsigned char *member)
{
    uint64_t value;

    switch (field->type) {
    case FIELD_NUMBER:
        value = member_load(member, field->size);
        HF_CHECK(value <= field->max);
        hfi_write_unsigned(writer, value);
        break;
    case FIELD_SIGNED:
        write_signed(writer, field, member);
        break;
    case FIELD_BOOL:
        hfi_write_bool(writer, *(const bool *)member);
        break;
    case FIELD_AGENT:
    case FIELD_AGENT_OR_NONE:
        wire_write_agent(writer, field->type == FIELD_AGENT_OR_NONE,
                         (const struct message_agent *)member);
        break;
    case FIELD_NAME:
    case FIELD_NAME_OR_NONE:
        write_name(writer, field->type == FIELD_NAME_OR_NONE, (const struct message_name *)member);
        break;
    case FIELD_ADDRESS:
    case FIELD_RELEASE:
        wire_write_visible(writer, (const char *)member, field->size);
        break;
    case FIELD_PARTITIONS:
        write_partitions(writer, (const struct message_partitions *)(const void *)member);
        break;
    case FIELD_BROKEN_ITEMS:
        wire_write_items(writer, (const void *)(member - offsetof(struct message_broken, count)));
        break;
    case FIELD_BROKEN_NOTES:
        wire_write_notes(writer, (const void *)(member - offsetof(struct message_broken, count)));
        break;
    case FIELD_VOTERS:
        wire_write_voters(writer, (const void *)member);
        break;
    }
}

static bool read_field(struct hfi_reader *reader, const struct field *field, unsigned char *member)
{
    struct hfi_item item;
    uint64_t value;

    switch (field->type) {
    case FIELD_NUMBER:
        if (!read_number(reader, field->max, &value)) {
            return false;
        }
        member_store(member, field->size, value);
        return true;
    case FIELD_SIGNED:
        return read_signed(reader, field, member);
    case FIELD_BOOL:
        item = hfi_read_item(reader);
        *(bool *)member = item.value != 0;
        return item.type == HFI_ITEM_BOOL;
    case FIELD_AGENT:
    case FIELD_AGENT_OR_NONE:
        return wire_read_agent(reader, field->type == FIELD_AGENT_OR_NONE,
                               (struct message_agent *)member);
    case FIELD_NAME:
    case FIELD_NAME_OR_NONE:
        return read_name(reader, field->type == FIELD_NAME_OR_NONE, (struct message_name *)member);
    case FIELD_ADDRESS:
    case FIELD_RELEASE:
        return wire_read_visible(reader, (char *)member, field->size);
    case FIELD_PARTITIONS:
        return read_partitions(reader, (struct message_partitions *)(void *)member);
    case FIELD_BROKEN_ITEMS:
        return wire_read_items(reader, (void *)(member - offsetof(struct message_broken, count)));
    case FIELD_BROKEN_NOTES:
        return wire_read_notes(reader, (void *)(member - offsetof(struct message_broken, count)));
    case FIELD_VOTERS:
        return wire_read_voters(reader, (void *)member);
    }
    return false;
}

static void write_fields(struct hfi_writer *writer, const struct field *fields, uint32_t count,
                         const void *base)
{
    for (uint32_t i = 0; i < count; i++) {
        write_field(writer, &fields[i], (const unsigned char *)base + fields[i].offset);
    }
}

static bool read_fields(struct hfi_reader *reader, const struct field *fields, uint32_t count,
                        void *base, struct wire_fault *fault)
{
    for (uint32_t i = 0; i < count; i++) {
        if (!read_field(reader, &fields[i], (unsigned char *)base + fields[i].offset)) {
            fault->field = fields[i].name;
            return false;
        }
    }
    return true;
}

/* Reads the head of an array. The array must have at most `most` elements, or exactly `most` if
 * `exactly` is set. */
static bool read_head(struct hfi_reader *reader, uint32_t most, bool exactly, uint32_t *count,
                      const char *what, struct wire_fault *fault)
{
    struct hfi_item item = hfi_read_item(reader);

    if (item.type != HFI_ITEM_ARRAY || item.value > most || (exactly && item.value != most)) {
        fault->field = what;
        return false;
    }
    *count = (uint32_t)item.value;
    return true;
}

/* ---- the arrays and values after a kind's fields ---- */

static void write_value(struct hfi_writer *writer, const struct message_value *value)
{
    HF_CHECK(value->share_count <= MESSAGE_SHARES_MAX);
    hfi_write_array(writer, COUNT(value_fields) + 1);
    write_fields(writer, value_fields, COUNT(value_fields), value);
    hfi_write_array(writer, value->share_count);
    for (uint32_t i = 0; i < value->share_count; i++) {
        hfi_write_array(writer, COUNT(share_fields));
        write_fields(writer, share_fields, COUNT(share_fields), &value->shares[i]);
    }
}

static bool read_value(struct hfi_reader *reader, struct message_value *value,
                       struct wire_fault *fault)
{
    uint32_t count;
    uint32_t length;

    if (!read_head(reader, COUNT(value_fields) + 1, true, &length, "value", fault) ||
        !read_fields(reader, value_fields, COUNT(value_fields), value, fault) ||
        !read_head(reader, MESSAGE_SHARES_MAX, false, &count, "shares", fault)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        struct message_share *share = &value->shares[i];

        /* memset() clears the padding, too, because messages are compared and hashed as bytes */
        memset(share, 0, sizeof *share);
        if (!read_head(reader, COUNT(share_fields), true, &length, "share", fault) ||
            !read_fields(reader, share_fields, COUNT(share_fields), share, fault)) {
            return false;
        }
    }
    value->share_count = (uint8_t)count;
    return true;
}

static void write_hello_tail(struct hfi_writer *writer, const struct message_hello *hello)
{
    HF_CHECK(hello->rules.voter_count <= MESSAGE_VOTERS_MAX);
    hfi_write_array(writer, hello->rules.voter_count);
    for (uint32_t i = 0; i < hello->rules.voter_count; i++) {
        wire_write_agent(writer, false, &hello->rules.voters[i]);
    }
    hfi_write_array(writer, MESSAGE_VOTERS_MAX);
    for (uint32_t i = 0; i < MESSAGE_VOTERS_MAX; i++) {
        hfi_write_array(writer, COUNT(member_fields));
        write_fields(writer, member_fields, COUNT(member_fields), &hello->members[i]);
    }
}

static bool read_hello_tail(struct hfi_reader *reader, struct message_hello *hello,
                            struct wire_fault *fault)
{
    uint32_t count;

    if (!read_head(reader, MESSAGE_VOTERS_MAX, false, &hello->rules.voter_count, "rules.voters",
                   fault)) {
        return false;
    }
    for (uint32_t i = 0; i < hello->rules.voter_count; i++) {
        if (!wire_read_agent(reader, false, &hello->rules.voters[i])) {
            fault->field = "rules.voters";
            return false;
        }
    }
    if (!read_head(reader, MESSAGE_VOTERS_MAX, true, &count, "members", fault)) {
        return false;
    }
    for (uint32_t i = 0; i < count; i++) {
        uint32_t length;

        if (!read_head(reader, COUNT(member_fields), true, &length, "member", fault) ||
            !read_fields(reader, member_fields, COUNT(member_fields), &hello->members[i], fault)) {
            return false;
        }
    }
    return true;
}

/* Returns how many elements follow the fields of this message. The fields must have been read. */
static uint32_t tail_count(const struct message *message)
{
    switch (message->kind) {
    case MESSAGE_VALUE:
        return message->as.value.known ? COUNT(read_value_known_fields) + 1 : 0;
    case MESSAGE_ACCEPT:
        return 1;
    case MESSAGE_HELLO:
    case MESSAGE_HELLO_ACK:
        return 2;
    case MESSAGE_SYNCED:
        return message->as.synced.kind == MESSAGE_SYNCED_MARK ? COUNT(synced_mark_fields)
               : message->as.synced.kind == MESSAGE_SYNCED_REGISTER
                   ? COUNT(synced_register_fields) + 1
                   : 0;
    default:
        return 0;
    }
}

static void write_tail(struct hfi_writer *writer, const struct message *message)
{
    if (tail_count(message) == 0) {
        return;
    }
    switch (message->kind) {
    case MESSAGE_VALUE:
        write_fields(writer, read_value_known_fields, COUNT(read_value_known_fields), &message->as);
        write_value(writer, &message->as.value.value);
        break;
    case MESSAGE_ACCEPT:
        write_value(writer, &message->as.accept.value);
        break;
    case MESSAGE_SYNCED:
        if (message->as.synced.kind == MESSAGE_SYNCED_MARK) {
            write_fields(writer, synced_mark_fields, COUNT(synced_mark_fields), &message->as);
        } else {
            write_fields(writer, synced_register_fields, COUNT(synced_register_fields),
                         &message->as);
            write_value(writer, &message->as.synced.value);
        }
        break;
    default:
        write_hello_tail(writer, &message->as.hello);
        break;
    }
}

static bool read_tail(struct hfi_reader *reader, struct message *message, struct wire_fault *fault)
{
    if (tail_count(message) == 0) {
        return true;
    }
    switch (message->kind) {
    case MESSAGE_VALUE:
        return read_fields(reader, read_value_known_fields, COUNT(read_value_known_fields),
                           &message->as, fault) &&
               read_value(reader, &message->as.value.value, fault);
    case MESSAGE_ACCEPT:
        return read_value(reader, &message->as.accept.value, fault);
    case MESSAGE_SYNCED:
        if (message->as.synced.kind == MESSAGE_SYNCED_MARK) {
            return read_fields(reader, synced_mark_fields, COUNT(synced_mark_fields), &message->as,
                               fault);
        }
        return read_fields(reader, synced_register_fields, COUNT(synced_register_fields),
                           &message->as, fault) &&
               read_value(reader, &message->as.synced.value, fault);
    default:
        return read_hello_tail(reader, &message->as.hello, fault);
    }
}

/* ---- the optional fields ---- */

static bool is_empty(const struct field *field, const void *base)
{
    const unsigned char *member = (const unsigned char *)base + field->offset;
    uint32_t at = 0;

    while (at < field->size && member[at] == 0) {
        at++;
    }
    return at == field->size;
}

/* Returns how many optional fields that version has. */
static uint32_t optional_most(const struct message_schema *schema, uint32_t version)
{
    return version < WIRE_VERSION_OPTIONAL ? 0
           : version < NEWEST_SINCE        ? schema->optional_count - schema->newest_count
                                           : schema->optional_count;
}

/* Returns how many optional fields to write. Empty ones at the end are left out. */
static uint32_t optional_count(const struct message_schema *schema, uint32_t version,
                               const struct message *message)
{
    uint32_t count = optional_most(schema, version);

    while (count > 0 && is_empty(&schema->optional[count - 1], &message->as)) {
        count--;
    }
    return count;
}

/* Reads the optional fields, and skips fields of later releases. `left` is the number of elements
 * after the fields that are not optional. */
static bool read_optional(struct hfi_reader *reader, const struct message_schema *schema,
                          uint32_t version, uint32_t left, struct message *message,
                          struct wire_fault *fault)
{
    uint32_t most = optional_most(schema, version);
    uint32_t known = left < most ? left : most;

    return read_fields(reader, schema->optional, known, &message->as, fault) &&
           hfi_skip_items(reader, left - known);
}

/* ---- whole messages ---- */

/* Writes a HELLO in a version that does not have the sender's voter status: the message says
 * OBSERVER. */
static void write_older_hello(struct hfi_writer *writer, uint32_t version,
                              const struct message *message)
{
    struct message older;

    message_copy(&older, message);
    older.as.hello.status = MESSAGE_STATUS_OBSERVER;
    wire_body_write(writer, version, &older);
}

void wire_body_write(struct hfi_writer *writer, uint32_t version, const struct message *message)
{
    const struct message_schema *schema;
    uint32_t optional;

    if ((message->kind == MESSAGE_HELLO || message->kind == MESSAGE_HELLO_ACK) &&
        version < NEWEST_SINCE && message->as.hello.status >= MESSAGE_STATUS_RETIRED) {
        write_older_hello(writer, version, message);
        return;
    }
    schema = wire_schema(message->kind);
    optional = optional_count(schema, version, message);
    hfi_write_array(writer,
                    1 + COUNT(envelope_fields) + schema->count + tail_count(message) + optional);
    hfi_write_unsigned(writer, (uint64_t)message->kind);
    write_fields(writer, envelope_fields, COUNT(envelope_fields), message);
    write_fields(writer, schema->fields, schema->count, &message->as);
    write_tail(writer, message);
    write_fields(writer, schema->optional, optional, &message->as);
}

bool wire_body_read(struct hfi_reader *reader, uint32_t version, uint32_t count,
                    struct message *message, struct wire_fault *fault)
{
    const struct message_schema *schema;
    uint64_t kind;
    uint32_t known;

    *fault = (struct wire_fault){.kind = NULL};
    if (!read_number(reader, MESSAGE_KIND_END, &kind) || !message_kind_valid((unsigned)kind) ||
        !wire_has_kind(version, (enum message_kind)kind)) {
        fault->field = "kind";
        return false;
    }
    message->kind = (enum message_kind)kind;
    schema = wire_schema(message->kind);
    fault->kind = schema->name;
    if (!read_fields(reader, envelope_fields, COUNT(envelope_fields), message, fault)) {
        return false;
    }
    /* The fields may be read only if the array is large enough for them. */
    known = 1 + COUNT(envelope_fields) + schema->count;
    if (count < known || !read_fields(reader, schema->fields, schema->count, &message->as, fault)) {
        return false;
    }
    known += tail_count(message);
    return (version >= WIRE_VERSION_OPTIONAL ? count >= known : count == known) &&
           read_tail(reader, message, fault) &&
           read_optional(reader, schema, version, count - known, message, fault);
}
