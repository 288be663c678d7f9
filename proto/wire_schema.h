/*
 * The tables of fields of the messages between agents, for wire_body.c, which says how they are
 * used. Private to proto/.
 */
#ifndef PROTO_WIRE_SCHEMA_H
#define PROTO_WIRE_SCHEMA_H

#include "proto/message.h"

#include <stddef.h>
#include <stdint.h>

enum field_type {
    FIELD_NUMBER, /* 0..max */
    FIELD_SIGNED, /* an int64_t of any value, or an int32_t from -max to 0 */
    FIELD_BOOL,
    FIELD_AGENT,
    FIELD_AGENT_OR_NONE,
    FIELD_NAME, /* a lock's name */
    FIELD_NAME_OR_NONE,
    FIELD_ADDRESS,
    FIELD_RELEASE,
    FIELD_PARTITIONS,
    FIELD_BROKEN_ITEMS, /* count and items of struct message_broken; `part` is set already */
    FIELD_BROKEN_NOTES, /* the notes of the holds, which are set already otherwise */
    FIELD_VOTERS,       /* a record of voters; count 0 if there is none */
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

#define COUNT(array) ((uint32_t)(sizeof(array) / sizeof((array)[0])))

/* The schema of a kind. */
struct message_schema {
    const char *name;
    const struct field *fields;
    uint32_t count;
    uint32_t optional_count;
    const struct field
        *optional;         /* after all other fields, from version WIRE_VERSION_OPTIONAL on */
    uint32_t newest_count; /* how many of the last optional fields exist only from version 5 on */
};

/* From this version on messages may have all optional fields that are known here. */
enum { NEWEST_SINCE = 5 };

/* The kind must be valid (message_kind_valid()). */
const struct message_schema *wire_schema(enum message_kind kind);

#endif
