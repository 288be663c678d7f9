/*
 * The encoding of messages between agents. An agent sends messages to another agent in packets.
 *
 * A packet is one msgpack array. First it has the fields that all its messages share (protocol
 * version, cell, sender, membership, store, commit, and the record of voters). Then it has the
 * items. An item is a message of proto/message.h (an array), or gossip (binary, see
 * proto/gossip.h). SCHEMA.md has every field. An agent puts everything that it sends to a peer in
 * one turn of its loop into one packet.
 *
 * An agent can write and read three versions, so that a cell can be upgraded agent by agent. It
 * writes a packet in the version that the receiver's greeting names (io/transport.h), and the
 * packet contains its version. SCHEMA.md says what may change within a version.
 *
 * The decoder checks all sizes, kinds, types and ranges, and accepts a packet whole or not at all.
 * It allocates no memory. It copies names and texts into the fixed fields of struct message, and
 * pads them with zeros.
 */
#ifndef PROTO_WIRE_H
#define PROTO_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/message.h"

enum {
    WIRE_VERSION = 5,
    WIRE_VERSION_OLDEST = 3,   /* the oldest version that an agent still writes and reads */
    WIRE_VERSION_OPTIONAL = 4, /* from this version on, messages may have further fields */
    WIRE_VERSION_GROWN = 5,    /* from this version on, items of gossip may have further fields */
    WIRE_PACKET_MAX = 256 * 1024, /* bytes; a larger packet is refused */
    WIRE_ITEM_MAX = 16 * 1024,
    WIRE_HEADER_ROOM = 256, /* larger than any header */
};

/* These two functions convert between the number in a greeting (io/transport.h) and the version of
 * packets. An agent before version 4 always greets with the number 1. */
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
    /* The record of voters that the sender uses, as in struct message; not in a version before
     * 5. */
    uint32_t number;
    uint64_t digest;
};

/* Returns whether the version has messages of that kind. */
static inline bool wire_has_kind(uint32_t version, enum message_kind kind)
{
    return version >= 5 || !message_is_of_version_5(kind);
}

/* The state of writing a packet into the caller's buffer. */
struct wire_writer {
    unsigned char *bytes;
    size_t size;
    size_t used;
    uint32_t version;
    uint32_t count;
    size_t count_at;
};

/* Begins a packet. The buffer must have at least WIRE_HEADER_ROOM bytes, and belongs to the writer
 * until wire_end(). version is WIRE_VERSION_OLDEST to WIRE_VERSION; the packet leaves out fields
 * that this version does not have. */
void wire_begin(struct wire_writer *writer, void *buffer, size_t size,
                const struct wire_header *header, uint32_t version);
/* Adds the kind, `to`, `relayed` and the body of a message. Its other members are those of the
 * packet's header. If the message does not fit, returns false and does not change the packet. Any
 * message fits into an empty packet of WIRE_HEADER_ROOM + WIRE_ITEM_MAX bytes. A field that
 * SCHEMA.md does not allow is a bug of this program (HF_CHECK). If the packet's version has no such
 * kind, returns true and adds nothing: the message is lost, as any message may be. */
bool wire_add(struct wire_writer *writer, const struct message *message)
    __attribute__((warn_unused_result));
/* Adds 1 to WIRE_ITEM_MAX bytes of gossip, without further fields of its items if the packet's
 * version has none. Returns false like wire_add() if they do not fit. */
bool wire_add_gossip(struct wire_writer *writer, const void *bytes, size_t size)
    __attribute__((warn_unused_result));
/* Ends the packet, and returns its size. */
size_t wire_end(struct wire_writer *writer);

enum wire_error {
    WIRE_OK = 0,
    WIRE_MALFORMED, /* the packet does not follow SCHEMA.md */
    WIRE_TOO_LARGE,
    /* another version of the protocol, in reader->version; header.from may be empty */
    WIRE_OTHER_VERSION,
    WIRE_OTHER_CELL, /* another cell, in reader->header */
};

/* Returns a text for people, such as "it is malformed". */
const char *wire_error_text(enum wire_error error);

/* Returns the kind's name for people and logs, such as "ACCEPT", or "unknown" if there is no such
 * kind. */
const char *wire_kind_text(enum message_kind kind);

enum wire_item_kind { WIRE_MESSAGE = 1, WIRE_GOSSIP };

/* The state of reading a packet from the caller's bytes. */
struct wire_reader {
    const unsigned char *bytes;
    size_t size;
    size_t at;
    uint32_t left;
    uint32_t version; /* 0: the version could not be read */
    struct wire_header header;
    /* The malformed part of the packet. bad_item is the item's number from 0, or UINT32_MAX for the
     * packet's own fields. bad_kind is the item's kind and bad_field the field; both are static
     * strings or NULL. */
    uint32_t bad_item;
    const char *bad_kind;
    const char *bad_field;
};

/* Checks the whole packet with every item. `cell` is this agent's cell. reader->header can be
 * logged even if the packet is refused. */
enum wire_error wire_open(struct wire_reader *reader, const void *bytes, size_t size,
                          const struct message_agent *cell) __attribute__((warn_unused_result));

/* Reads the next item of an opened packet. Returns false if there is none. Fills in all members of
 * a message, also those of the packet's header. A field that the packet does not have is 0 or
 * empty. Of a value's shares only the first share_count are set. *gossip points into the packet. */
bool wire_next(struct wire_reader *reader, enum wire_item_kind *kind, struct message *message,
               const unsigned char **gossip, size_t *gossip_size);

#endif
