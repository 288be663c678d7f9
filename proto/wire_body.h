/*
 * The encoding of message bodies in msgpack. One table of fields for each kind (wire_schema.h) is
 * used to write and to read. Private to proto/. wire.h has packets, and SCHEMA.md describes the
 * fields in words.
 *
 * A body is an array: kind, to, relayed, then the kind's fields in the table's order. From version
 * 4 on the kind's optional fields follow. Those at the end may be left out. Fields that a later
 * release has added may come after them.
 */
#ifndef PROTO_WIRE_BODY_H
#define PROTO_WIRE_BODY_H

#include "fields.h"

#include "proto/message.h"

#include <stdbool.h>

/* The fault of an invalid message, for people. The texts are static. */
struct wire_fault {
    const char *kind;  /* NULL: the kind is missing or not known */
    const char *field; /* NULL: the number of fields is wrong, or the message ends too early */
};

/* Writes a message. Sets writer->failed if it does not fit. A field out of its range is a bug of
 * the caller (HF_CHECK), who must have checked values from people and from other agents before. */
void wire_body_write(struct hfi_writer *writer, uint32_t version, const struct message *message);

/* Reads a message. The caller has read the head of the message's array, which has `count` elements.
 * Fills in kind, to, relayed and the body of *message, which the caller has set to zeros. Of the
 * shares it writes only the first share_count. Returns false with *fault filled in if the message
 * is invalid. */
bool wire_body_read(struct hfi_reader *reader, uint32_t version, uint32_t count,
                    struct message *message, struct wire_fault *fault)
    __attribute__((warn_unused_result));

/* Returns the name of the kind, such as "ACCEPT", or NULL if there is no such kind. */
const char *wire_kind_name(enum message_kind kind);

/* Reads the name of an agent or a cell into *agent, whose other bytes become zeros. The name may be
 * empty only if `or_none` is set. */
bool wire_read_agent(struct hfi_reader *reader, bool or_none, struct message_agent *agent)
    __attribute__((warn_unused_result));
void wire_write_agent(struct hfi_writer *writer, bool or_none, const struct message_agent *agent);

/* Write and read a text of printable ASCII, or an empty text, of a member of member_size bytes
 * including the final zero. The reader leaves the bytes after the text as they are. */
void wire_write_visible(struct hfi_writer *writer, const char *text, uint32_t member_size);
bool wire_read_visible(struct hfi_reader *reader, char *text, uint32_t member_size)
    __attribute__((warn_unused_result));

/* Write and read a record of voters. count 0: there is no record. The caller of the reader has set
 * all members but the voters to zeros. */
void wire_write_voters(struct hfi_writer *writer, const struct message_voters *voters);
bool wire_read_voters(struct hfi_reader *reader, struct message_voters *voters)
    __attribute__((warn_unused_result));

/* Write and read the items of a BROKEN, whose `part` is set already. Reading sets `count`. */
void wire_write_items(struct hfi_writer *writer, const struct message_broken *broken);
bool wire_read_items(struct hfi_reader *reader, struct message_broken *broken)
    __attribute__((warn_unused_result));
/* Write and read the notes of the holds of a BROKEN, whose items are set already. */
void wire_write_notes(struct hfi_writer *writer, const struct message_broken *broken);
bool wire_read_notes(struct hfi_reader *reader, struct message_broken *broken)
    __attribute__((warn_unused_result));

#endif
