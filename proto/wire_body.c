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

#include <string.h>

enum field_type {
    FIELD_NUMBER, /* 0..max */
    FIELD_SIGNED, /* an int64_t of any value, or an int32_t -max..0 */
    FIELD_BOOL,
    FIELD_AGENT,
    FIELD_AGENT_OR_NONE,
    FIELD_NAME, /* a lock's name */
    FIELD_NAME_OR_NONE,
    FIELD_ADDRESS,
    FIELD_RELEASE,
    FIELD_PARTITIONS,
    FIELD_BROKEN_ITEMS, /* count and items of struct message_broken; `part` is set already */
};

struct field {
    const char *name; /* the name in proto/SCHEMA.md, which errors show */
    enum field_type type;
    uint32_t offset; /* the member's offset in the struct that the table describes */
    uint32_t size;   /* the member's size */
    uint64_t max;    /* the highest value of a number */
};

#define FIELD_AS(label, s, m, t, high)                                                             \
    {                                                                                              \
        .name = (label), .type = (t), .offset = offsetof(struct s, m),                             \
        .size = sizeof(((struct s *)0)->m), .max = (high),                                         \
    }
#define FIELD(s, m, t, high) FIELD_AS(#m, s, m, t, high)
#define NUMBER(s, m, high) FIELD(s, m, FIELD_NUMBER, high)
#define BOOL(s, m) FIELD(s, m, FIELD_BOOL, 0)
#define AGENT(s, m) FIELD(s, m, FIELD_AGENT, 0)
#define AGENT_OR_NONE(s, m) FIELD(s, m, FIELD_AGENT_OR_NONE, 0)
#define NAME(s, m) FIELD(s, m, FIELD_NAME, 0)
#define PARTITIONS(s, m) FIELD(s, m, FIELD_PARTITIONS, 0)
#define ADDRESS(s, m) FIELD(s, m, FIELD_ADDRESS, 0)
#define U32(s, m) NUMBER(s, m, UINT32_MAX)
#define U64(s, m) NUMBER(s, m, UINT64_MAX)
#define DURATION(s, m) NUMBER(s, m, INT64_MAX)
#define TOKEN(s, m) NUMBER(s, m, MESSAGE_TOKEN_LIMIT)
#define MODE(s, m) NUMBER(s, m, MESSAGE_MODE_EXCLUSIVE)
#define DELAY(s, m) NUMBER(s, m, MESSAGE_LOCK_DELAY_MAX_MS)
#define BALLOT(s, m) NUMBER(s, m, MESSAGE_BALLOT_LIMIT - 1)
#define ORDER(s, m) BALLOT(s, m.ballot), NUMBER(s, m.sequence, MESSAGE_SEQUENCE_LIMIT - 1)
#define CHECKPOINT(s, m) ORDER(s, m.order), TOKEN(s, m.floor)
#define ECHO(s, m) U64(s, m.incarnation), FIELD(s, m.issued_ns, FIELD_SIGNED, INT64_MAX)
#define MEMBER(s, m) U64(s, m.store_id[0]), U64(s, m.store_id[1]), U32(s, m.generation)
#define ASKED(s) AGENT(s, agent), U32(s, epoch), U64(s, request_id), NAME(s, name)

static const struct field prepare_fields[] = {
    BALLOT(message_prepare, ballot),
    PARTITIONS(message_prepare, partitions),
    BOOL(message_prepare, rejoin),
};
static const struct field promise_fields[] = {
    BALLOT(message_promise, ballot),      PARTITIONS(message_promise, promised),
    PARTITIONS(message_promise, refused), PARTITIONS(message_promise, owned),
    BALLOT(message_promise, higher),
};
static const struct field read_kind_fields[] = {
    BALLOT(message_read, ballot),
    NAME(message_read, name),
};
static const struct field read_value_fields[] = {
    BALLOT(message_read_value, ballot),
    BALLOT(message_read_value, higher),
    CHECKPOINT(message_read_value, checkpoint),
    NAME(message_read_value, name),
    BOOL(message_read_value, known),
};
static const struct field read_value_known_fields[] = {
    ORDER(message_read_value, accepted),
};
static const struct field accept_fields[] = {
    ORDER(message_accept, order),
    NAME(message_accept, name),
    BOOL(message_accept, chosen),
};
static const struct field accepted_fields[] = {
    ORDER(message_accepted, order),
    BALLOT(message_accepted, higher),
    BOOL(message_accepted, full),
    NAME(message_accepted, name),
};
static const struct field renew_fields[] = {
    AGENT(message_renew, agent), U32(message_renew, epoch), U64(message_renew, renewal_id),
    ECHO(message_renew, echo),   U64(message_renew, rules), ADDRESS(message_renew, advertise),
};
static const struct field renew_ack_fields[] = {
    AGENT(message_renew_ack, agent),
    U32(message_renew_ack, epoch),
    U64(message_renew_ack, renewal_id),
    ECHO(message_renew_ack, echo),
    BOOL(message_renew_ack, extended),
    FIELD_AS("dead_epoch", message_renew_ack, ended_epoch, FIELD_NUMBER, UINT32_MAX),
};
/* The Holdfast release of the sender, which `holdfast doctor` shows, and the URL of the sender's
 * status page, to which other status pages link. No decision depends on them. */
static const struct field renew_optional[] = {
    FIELD(message_renew, release, FIELD_RELEASE, 0),
    ADDRESS(message_renew, page),
};
static const struct field renew_ack_optional[] = {
    FIELD(message_renew_ack, release, FIELD_RELEASE, 0),
    ADDRESS(message_renew_ack, page),
};
static const struct field session_fields[] = {
    AGENT(message_session, agent),
    U32(message_session, epoch),
};
static const struct field session_answer_fields[] = {
    AGENT(message_session_answer, agent),
    U32(message_session_answer, epoch),
    BOOL(message_session_answer, yes),
    DURATION(message_session_answer, wait_ns),
};
static const struct field acquire_fields[] = {
    ASKED(message_acquire),
    MODE(message_acquire, mode),
    DELAY(message_acquire, lock_delay_ms),
    U32(message_acquire, waited_ms),
};
/* Optional, because earlier releases do not have the field. In their cells a try waits. */
static const struct field acquire_optional[] = {
    NUMBER(message_acquire, tries, MESSAGE_TRIES_ONLY),
};
static const struct field amend_fields[] = {
    ASKED(message_amend),
    ORDER(message_amend, version),
    MODE(message_amend, mode),
    DELAY(message_amend, lock_delay_ms),
    TOKEN(message_amend, token_last),
};
/* Optional, because earlier releases do not have these fields; see struct message_amend. */
static const struct field amend_optional[] = {
    TOKEN(message_amend, token_used),
    BOOL(message_amend, in_use),
};
static const struct field give_back_fields[] = {
    ASKED(message_give_back),
    ORDER(message_give_back, version),
    TOKEN(message_give_back, token_used),
};
static const struct field grant_fields[] = {
    ASKED(message_grant),
    ORDER(message_grant, version),
    MODE(message_grant, mode),
    DELAY(message_grant, lock_delay_ms),
    TOKEN(message_grant, token_first),
    TOKEN(message_grant, token_last),
    BOOL(message_grant, fresh),
};
static const struct field version_fields[] = {
    ASKED(message_version),
    ORDER(message_version, version),
};
/* Optional, because earlier releases do not have the field. They treat every recall as
 * MESSAGE_RECALL_WAITS. */
static const struct field recall_optional[] = {
    NUMBER(message_version, recall, MESSAGE_RECALL_END - 1),
};
static const struct field break_fields[] = {
    AGENT(message_break, agent), U64(message_break, request_id), NAME(message_break, name),
    BOOL(message_break, now),    ORDER(message_break, version),
};
/* Optional, because earlier releases do not have these fields; see struct message_break. */
static const struct field break_optional[] = {
    NUMBER(message_break, user, UINT64_C(1) << 32),
    BOOL(message_break, counts),
    ORDER(message_break, meant),
};
static const struct field outcome_fields[] = {
    AGENT(message_outcome, agent), U64(message_outcome, request_id),
    FIELD(message_outcome, result, FIELD_SIGNED, 99), /* leaves room for later error codes */
};
/* Optional, because earlier releases do not have these fields; see struct message_broken. */
static const struct field broken_optional[] = {
    NUMBER(message_broken, part, MESSAGE_BROKEN_END - 1),
    AGENT_OR_NONE(message_broken, owner),
    ORDER(message_broken, meant),
    U32(message_broken, closed_ms),
    U32(message_broken, total),
    FIELD(message_broken, count, FIELD_BROKEN_ITEMS, 0),
};
static const struct field check_fields[] = {
    AGENT(message_check, agent), U64(message_check, request_id), NAME(message_check, name),
    TOKEN(message_check, token), U64(message_check, cell_word),  U32(message_check, epoch),
    U32(message_check, holder),  U32(message_check, seat),       BOOL(message_check, shared),
};
static const struct field owner_fields[] = {
    BALLOT(message_owner, ballot),
    PARTITIONS(message_owner, partitions),
};
static const struct field heartbeat_fields[] = {
    U64(message_heartbeat, number),       U64(message_heartbeat, echo),
    BOOL(message_heartbeat, majority),    BOOL(message_heartbeat, votes),
    PARTITIONS(message_heartbeat, owned),
};
static const struct field hello_fields[] = {
    BOOL(message_hello, answer),
    NUMBER(message_hello, status, MESSAGE_STATUS_REJOINING),
    U64(message_hello, incarnation),
    U64(message_hello, echo),
    DURATION(message_hello, rules.session_ttl_ns),
    DURATION(message_hello, rules.grace_ns),
    U32(message_hello, rules.max_drift_percent),
    BOOL(message_hello, bootstrapped),
    MEMBER(message_hello, seen),
    U64(message_hello, seen_commit),
    ADDRESS(message_hello, advertise),
};
static const struct field member_fields[] = {
    U64(message_member, store_id[0]),
    U64(message_member, store_id[1]),
    U32(message_member, generation),
};
static const struct field sync_fields[] = {
    NUMBER(message_sync, what, MESSAGE_SYNC_MARKS),
    NUMBER(message_sync, partition, MESSAGE_PARTITIONS - 1),
    U64(message_sync, id),
    U32(message_sync, after),
    U64(message_sync, digest),
    CHECKPOINT(message_sync, checkpoint),
};
static const struct field synced_fields[] = {
    NUMBER(message_synced, what, MESSAGE_SYNC_MARKS),
    NUMBER(message_synced, partition, MESSAGE_PARTITIONS - 1),
    NUMBER(message_synced, kind, MESSAGE_SYNCED_END),
    U64(message_synced, id),
    U32(message_synced, index),
    U32(message_synced, next),
    CHECKPOINT(message_synced, checkpoint),
};
static const struct field synced_mark_fields[] = {
    AGENT(message_synced, mark.agent),
    U32(message_synced, mark.epoch),
};
static const struct field synced_register_fields[] = {
    NAME(message_synced, name),
    ORDER(message_synced, accepted),
};
static const struct field checkpoint_fields[] = {
    BALLOT(message_delete, ballot),
    NUMBER(message_delete, partition, MESSAGE_PARTITIONS - 1),
    CHECKPOINT(message_delete, checkpoint),
    U64(message_delete, live),
};
static const struct field checkpointed_fields[] = {
    BALLOT(message_deleted, ballot), NUMBER(message_deleted, partition, MESSAGE_PARTITIONS - 1),
    ORDER(message_deleted, order),   BALLOT(message_deleted, higher),
    BOOL(message_deleted, missing),
};
static const struct field refused_fields[] = {
    AGENT(message_refused, agent),
    U32(message_refused, epoch),
    U64(message_refused, request_id),
    FIELD(message_refused, name, FIELD_NAME_OR_NONE, 0),
    NUMBER(message_refused, reason, UINT8_MAX),
    AGENT_OR_NONE(message_refused, owner),
};
/* Optional, because earlier releases do not have the field; see struct message_refused. */
static const struct field refused_optional[] = {
    U32(message_refused, closed_ms),
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

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

struct message_schema {
    const char *name;
    const struct field *fields;
    uint32_t count;
    uint32_t optional_count;
    const struct field *optional; /* after all other fields, from WIRE_VERSION_OPTIONAL on */
};

#define SCHEMA(label, array)                                                                       \
    {                                                                                              \
        .name = (label), .fields = (array), .count = COUNT(array)                                  \
    }

#define SCHEMA_OPTIONAL(label, array, more)                                                        \
    {                                                                                              \
        .name = (label), .fields = (array), .count = COUNT(array), .optional = (more),             \
        .optional_count = COUNT(more),                                                             \
    }

static const struct message_schema schemas[] = {
    [MESSAGE_PREPARE] = SCHEMA("PREPARE", prepare_fields),
    [MESSAGE_PROMISE] = SCHEMA("PROMISE", promise_fields),
    [MESSAGE_READ] = SCHEMA("READ", read_kind_fields),
    [MESSAGE_VALUE] = SCHEMA("VALUE", read_value_fields),
    [MESSAGE_ACCEPT] = SCHEMA("ACCEPT", accept_fields),
    [MESSAGE_ACCEPTED] = SCHEMA("ACCEPTED", accepted_fields),
    [MESSAGE_RENEW] = SCHEMA_OPTIONAL("RENEW", renew_fields, renew_optional),
    [MESSAGE_POLL] = SCHEMA("POLL", session_fields),
    [MESSAGE_POLLED] = SCHEMA("POLLED", session_answer_fields),
    [MESSAGE_MARK] = SCHEMA("MARK", session_fields),
    [MESSAGE_MARKED] = SCHEMA("MARKED", session_answer_fields),
    [MESSAGE_ACQUIRE] = SCHEMA_OPTIONAL("ACQUIRE", acquire_fields, acquire_optional),
    [MESSAGE_AMEND] = SCHEMA_OPTIONAL("AMEND", amend_fields, amend_optional),
    [MESSAGE_GIVE_BACK] = SCHEMA("GIVE_BACK", give_back_fields),
    [MESSAGE_BREAK] = SCHEMA_OPTIONAL("BREAK", break_fields, break_optional),
    [MESSAGE_HEARTBEAT] = SCHEMA("BEAT", heartbeat_fields),
    [MESSAGE_HELLO] = SCHEMA("HELLO", hello_fields),
    [MESSAGE_SYNC] = SCHEMA("PULL", sync_fields),
    [MESSAGE_SYNCED] = SCHEMA("PULLED", synced_fields),
    [MESSAGE_CHECKPOINT] = SCHEMA("CHECKPOINT", checkpoint_fields),
    [MESSAGE_CHECKPOINTED] = SCHEMA("CHECKPOINTED", checkpointed_fields),
    [MESSAGE_RENEW_ACK] = SCHEMA_OPTIONAL("RENEW_ACK", renew_ack_fields, renew_ack_optional),
    [MESSAGE_GRANT] = SCHEMA("GRANT", grant_fields),
    [MESSAGE_AMENDED] = SCHEMA("AMENDED", grant_fields),
    [MESSAGE_GIVE_BACK_ACK] = SCHEMA("GIVE_BACK_ACK", version_fields),
    [MESSAGE_RECALL] = SCHEMA_OPTIONAL("RECALL", version_fields, recall_optional),
    [MESSAGE_REFUSED] = SCHEMA_OPTIONAL("REFUSED", refused_fields, refused_optional),
    [MESSAGE_OWNER] = SCHEMA("OWNER", owner_fields),
    [MESSAGE_BREAK_HOLD] = SCHEMA_OPTIONAL("BREAK_HOLD", break_fields, break_optional),
    [MESSAGE_BROKEN] = SCHEMA_OPTIONAL("BROKEN", outcome_fields, broken_optional),
    [MESSAGE_CHECK] = SCHEMA("CHECK", check_fields),
    [MESSAGE_CHECKED] = SCHEMA("CHECKED", outcome_fields),
    [MESSAGE_HELLO_ACK] = SCHEMA("HELLO_ACK", hello_fields),
};
_Static_assert(COUNT(schemas) == MESSAGE_KIND_END, "a schema for the last kind");

const char *wire_kind_name(enum message_kind kind)
{
    return message_kind_valid((unsigned)kind) ? schemas[kind].name : NULL;
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

/* Writes a text of printable ASCII or an empty text, from a member of member_size bytes including
 * the final zero. */
static void write_visible(struct hfi_writer *writer, const char *text, uint32_t member_size)
{
    size_t size = strnlen(text, member_size);

    HF_CHECK(size < member_size &&
             hfi_text_fits(HFI_TEXT_ADDRESS, (struct hfi_text){text, (uint32_t)size}));
    hfi_write_string(writer, text, size);
}

static bool read_visible(struct hfi_reader *reader, char *text, uint32_t member_size)
{
    struct hfi_item item = hfi_read_item(reader);

    if (item.type != HFI_ITEM_TEXT || item.text.size >= member_size ||
        !hfi_text_fits(HFI_TEXT_ADDRESS, item.text)) {
        return false;
    }
    memcpy(text, item.text.bytes, item.text.size);
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
        write_visible(writer, (const char *)member, field->size);
        break;
    case FIELD_PARTITIONS:
        write_partitions(writer, (const struct message_partitions *)(const void *)member);
        break;
    case FIELD_BROKEN_ITEMS:
        wire_write_items(writer, (const void *)(member - offsetof(struct message_broken, count)));
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
        return read_visible(reader, (char *)member, field->size);
    case FIELD_PARTITIONS:
        return read_partitions(reader, (struct message_partitions *)(void *)member);
    case FIELD_BROKEN_ITEMS:
        return wire_read_items(reader, (void *)(member - offsetof(struct message_broken, count)));
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

/* ---- what comes behind a kind's fields ---- */

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

        /* the padding, too, because messages are compared and hashed as bytes */
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

/* ---- what is optional ---- */

static bool is_empty(const struct field *field, const void *base)
{
    const unsigned char *member = (const unsigned char *)base + field->offset;
    uint32_t at = 0;

    while (at < field->size && member[at] == 0) {
        at++;
    }
    return at == field->size;
}

/* Returns how many optional fields to write. Empty ones at the end are left out. */
static uint32_t optional_count(const struct message_schema *schema, uint32_t version,
                               const struct message *message)
{
    uint32_t count = version >= WIRE_VERSION_OPTIONAL ? schema->optional_count : 0;

    while (count > 0 && is_empty(&schema->optional[count - 1], &message->as)) {
        count--;
    }
    return count;
}

/* Reads the optional fields, and skips fields of later releases. `left` is the number of elements
 * after the fields that are not optional. */
static bool read_optional(struct hfi_reader *reader, const struct message_schema *schema,
                          uint32_t left, struct message *message, struct wire_fault *fault)
{
    uint32_t known = left < schema->optional_count ? left : schema->optional_count;

    return read_fields(reader, schema->optional, known, &message->as, fault) &&
           hfi_skip_items(reader, left - known);
}

/* ---- whole messages ---- */

void wire_body_write(struct hfi_writer *writer, uint32_t version, const struct message *message)
{
    const struct message_schema *schema;
    uint32_t optional;

    HF_CHECK(message_kind_valid((unsigned)message->kind));
    schema = &schemas[message->kind];
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
    if (!read_number(reader, MESSAGE_KIND_END, &kind) || !message_kind_valid((unsigned)kind)) {
        fault->field = "kind";
        return false;
    }
    message->kind = (enum message_kind)kind;
    schema = &schemas[kind];
    fault->kind = schema->name;
    if (!read_fields(reader, envelope_fields, COUNT(envelope_fields), message, fault)) {
        return false;
    }
    /* The array must be large enough for its fields before they are read. */
    known = 1 + COUNT(envelope_fields) + schema->count;
    if (count < known || !read_fields(reader, schema->fields, schema->count, &message->as, fault)) {
        return false;
    }
    known += tail_count(message);
    return (version >= WIRE_VERSION_OPTIONAL ? count >= known : count == known) &&
           read_tail(reader, message, fault) &&
           read_optional(reader, schema, count - known, message, fault);
}
