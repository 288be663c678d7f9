/*
 * Messages between agents as bytes: a packet is all that one agent sends another in one go.
 *
 * A packet is one msgpack array: the fields of all its messages (protocol version, cell, sender,
 * membership, store, commit), then the items: messages of proto/message.h (arrays), or gossip
 * (binary, opaque here: proto/gossip.h). SCHEMA.md has every field. An agent puts all that it has
 * for a peer in one turn of its loop into one packet.
 *
 * Two versions are spoken side by side, so that a cell can be upgraded agent by agent: a packet is
 * written in the one that its receiver reads (its greeting says which, io/transport.h) and says
 * itself which it is. SCHEMA.md says what may change within a version.
 *
 * Decoding trusts nothing: sizes, kinds, types and ranges are checked, a packet is accepted whole
 * or not at all; nothing is allocated. Names and texts are copied into the fixed fields of struct
 * message, zero-padded.
 */
#ifndef PROTO_WIRE_H
#define PROTO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/message.h"

enum {
    WIRE_VERSION = 4,
    WIRE_VERSION_OLDEST = 3, /* the oldest version that is still supported, with all in between */
    WIRE_PACKET_MAX = 256 * 1024, /* bytes; larger ones are refused */
    WIRE_ITEM_MAX = 16 * 1024,
    WIRE_HEADER_ROOM = 256, /* larger than any header */
};

/* Convert between the number of a greeting (io/transport.h) and the version of packets that it
 * stands for. Before version 4, greetings did not name a version, and their number was 1. */
static inline uint32_t wire_greeted_version(uint32_t greeting)
{
    return greeting <= WIRE_VERSION_OLDEST ? (uint32_t)WIRE_VERSION_OLDEST : greeting;
}

static inline uint32_t wire_greeting(uint32_t version)
{
    return version <= WIRE_VERSION_OLDEST ? 1 : version;
}

/* The fields that all messages of a packet share. */
struct wire_header {
    struct message_agent cell;
    struct message_agent from;
    uint32_t membership;
    uint64_t store_id[2];
    uint64_t commit;
};

/* A packet that is being written into the caller's buffer. */
struct wire_writer {
    unsigned char *bytes;
    size_t size;
    size_t used;
    uint32_t version;
    uint32_t count;
    size_t count_at;
};

/* buffer must have at least WIRE_HEADER_ROOM bytes, and is borrowed until the end. version is
 * WIRE_VERSION_OLDEST to WIRE_VERSION; fields that it does not have are left out. */
void wire_begin(struct wire_writer *writer, void *buffer, size_t size,
                const struct wire_header *header, uint32_t version);
/* Adds a message: its to, relayed, kind and body. The other header fields are the packet's. Returns
 * false, and leaves the packet as it was, if the message does not fit; an empty packet with room
 * for WIRE_HEADER_ROOM + WIRE_ITEM_MAX takes any message. A field that SCHEMA.md does not allow is
 * a bug of this program (HF_CHECK). */
bool wire_add(struct wire_writer *writer, const struct message *message)
    __attribute__((warn_unused_result));
/* Adds gossip for the receiver itself, 1 to WIRE_ITEM_MAX bytes. Returns as wire_add(). */
bool wire_add_gossip(struct wire_writer *writer, const void *bytes, size_t size)
    __attribute__((warn_unused_result));
/* Ends the packet, and returns its size. */
size_t wire_end(struct wire_writer *writer);

enum wire_error {
    WIRE_OK = 0,
    WIRE_MALFORMED, /* not what SCHEMA.md says */
    WIRE_TOO_LARGE,
    WIRE_OTHER_VERSION, /* of the protocol: header.from may be empty, *version says which */
    WIRE_OTHER_CELL,    /* header is filled in */
};

/* Returns a text for people, such as "it is malformed". */
const char *wire_error_text(enum wire_error error);

/* Returns the kind's name for people and logs, such as "ACCEPT"; "unknown" if there is no such
 * kind. */
const char *wire_kind_text(enum message_kind kind);

enum wire_item_kind { WIRE_MESSAGE = 1, WIRE_GOSSIP };

/* A packet that is being read from the caller's bytes. */
struct wire_reader {
    const unsigned char *bytes;
    size_t size;
    size_t at;
    uint32_t left;
    uint32_t version; /* 0: even the version could not be read */
    struct wire_header header;
    /* The malformed part: UINT32_MAX for the packet's own fields, else the item's number from 0.
     * bad_kind is the item's kind and bad_field the field; static strings, or NULL. */
    uint32_t bad_item;
    const char *bad_kind;
    const char *bad_field;
};

/* Checks the whole packet, with every item. cell is this agent's own. reader->header may be logged
 * even if the packet is refused. */
enum wire_error wire_open(struct wire_reader *reader, const void *bytes, size_t size,
                          const struct message_agent *cell) __attribute__((warn_unused_result));

/* Returns the next item of an opened packet; false if there is none. A message's header fields are
 * filled in. Fields that the packet's version lacks, or that were left out, are 0 or empty. Of a
 * value's shares only share_count are set. *gossip points into the packet. */
bool wire_next(struct wire_reader *reader, enum wire_item_kind *kind, struct message *message,
               const unsigned char **gossip, size_t *gossip_size);

#endif
