/*
 * The bodies of messages as msgpack: one table of fields for each kind, used for writing and for
 * reading. Private to proto/. wire.h has packets; SCHEMA.md describes the same in words.
 *
 * A body is an array: kind, to, relayed, then the kind's fields in the table's order. From version
 * 4 on the kind's optional fields follow; trailing ones may be left out. After these may come
 * fields that a later release has added.
 */
#ifndef PROTO_WIRE_BODY_H
#define PROTO_WIRE_BODY_H

#include "fields.h"

#include "proto/message.h"

#include <stdbool.h>

/* The fault of a message, for people: static texts. */
struct wire_fault {
    const char *kind;  /* NULL: it has none that is known */
    const char *field; /* NULL: its number of fields, or its end */
};

/* Writes a message. Out of room sets writer->failed; a field out of its range is a bug of the
 * caller (HF_CHECK): values from people or other agents were checked before they got here. */
void wire_body_write(struct hfi_writer *writer, uint32_t version, const struct message *message);

/* Reads a message whose array head has `count` elements. Fills in kind, to, relayed and body of
 * *message, which the caller has zeroed; of shares only share_count are written. Returns false with
 * *fault filled in. */
bool wire_body_read(struct hfi_reader *reader, uint32_t version, uint32_t count,
                    struct message *message, struct wire_fault *fault)
    __attribute__((warn_unused_result));

/* Returns a name such as "ACCEPT"; NULL: there is no such kind. */
const char *wire_kind_name(enum message_kind kind);

/* Reads an agent's or cell's name, which may be empty only if `or_none` is set. *agent is zeroed
 * first. */
bool wire_read_agent(struct hfi_reader *reader, bool or_none, struct message_agent *agent)
    __attribute__((warn_unused_result));
void wire_write_agent(struct hfi_writer *writer, bool or_none, const struct message_agent *agent);

#endif
