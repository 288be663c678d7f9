/*
 * The encoding of gossip, by which agents report to each other about the cell, so that people can
 * see it. SCHEMA.md has every field; core/gossip.h describes how gossip spreads.
 *
 * A packet is one msgpack array of at most GOSSIP_PACKET_MAX bytes. It is sent as one item of a
 * packet of proto/wire.h:
 *
 *   [kind, answer, incarnation, beat_ms, [entry...]]
 *
 * The entries of a packet are items, digests, or buckets. An author publishes items. A digest is
 * one hash of all items that the sender has of one author. Buckets are up to 256 hashes of parts of
 * one author's items.
 *
 * The body of an item is a kind and that kind's fields. An item may have further fields at its end
 * (wire.h, WIRE_VERSION_GROWN). A reader skips those that it does not know. An agent stores a body
 * and passes it on exactly as it arrived, so it also passes on fields that it does not know.
 * gossip_narrow() takes them away for an agent that reads only the fields of the beginning.
 *
 * Times are ages in milliseconds, never readings of a clock.
 *
 * The decoder checks a whole packet before it returns any part of it, and accepts the packet whole
 * or not at all. It allocates no memory. Any thread may call these functions.
 */
#ifndef PROTO_GOSSIP_H
#define PROTO_GOSSIP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/message.h"

enum {
    GOSSIP_PACKET_MAX = 8192,
    GOSSIP_ENTRIES_MAX = 256, /* in one packet */
    GOSSIP_BODY_MAX = 2048,   /* larger than every item */
    GOSSIP_BUCKETS = 256,
    GOSSIP_HOLDERS_MAX = 4, /* the most holders in one item; holder_total may be higher */
    GOSSIP_WAITERS_MAX = 8,
    GOSSIP_COMMAND_MAX = 160,
    GOSSIP_NOTE_MAX = 256,  /* bytes of a note */
    GOSSIP_NOTES_MAX = 512, /* bytes of all notes in one item; longer ones are cut, so that the item
                             * is not larger than GOSSIP_BODY_MAX */
};

enum gossip_packet_kind { GOSSIP_ITEMS = 1, GOSSIP_DIGEST, GOSSIP_HASHES };

enum gossip_item_kind {
    GOSSIP_AGENT = 1, /* an item about the author itself */
    GOSSIP_OWNED,     /* a voter's item: the partitions that it coordinates */
    GOSSIP_EXPIRED,   /* a voter's item: a session that has expired */
    GOSSIP_LOCK,      /* a lock with holders or waiters on the author's host */
};

enum gossip_session { GOSSIP_SAFE = 0, GOSSIP_JEOPARDY, GOSSIP_LOST };

struct gossip_agent {
    char address[MESSAGE_ADDRESS_MAX]; /* "": none */
    bool voter;
    uint32_t epoch; /* the epoch of the author's session; 0: none yet */
    uint32_t state; /* enum gossip_session */
};

struct gossip_expired {
    struct message_agent agent;
    uint32_t epoch; /* this epoch and all earlier ones have expired */
};

struct gossip_holder {
    int64_t pid; /* -1: unknown, here and in the fields below */
    int64_t uid;
    uint64_t token;
    int64_t held_ms;
    int64_t remaining_ms; /* the time until the hold's own limit ends it; -1: no limit ends it
                           * before the lease does */
    char command[GOSSIP_COMMAND_MAX + 1];
    char note[GOSSIP_NOTE_MAX + 1]; /* a further field: agents of earlier releases do not send it */
};

struct gossip_waiter {
    int64_t pid;
    uint32_t mode; /* enum hf_mode */
    int64_t waited_ms;
};

/* The ended hold for which a lock is closed, or which was broken without a lock-delay, as far as it
 * is known: see struct hfi_behind_frame. */
struct gossip_last {
    struct message_agent agent; /* the agent of the hold's host; length 0: unknown, also below */
    int64_t pid;                /* -1: unknown, here and in the numbers below */
    int64_t uid;
    int64_t ended_ms;              /* how long ago the hold ended */
    uint32_t ending;               /* enum hfi_ending_kind, or the number of a later release */
    struct message_agent by_agent; /* the agent of the administrator that broke the hold */
    int64_t by_uid;
    char command[GOSSIP_COMMAND_MAX + 1];
    char note[GOSSIP_NOTE_MAX + 1];
};

/* A lock without holders and waiters that is not closed is a tombstone. */
struct gossip_lock {
    struct message_name name;
    uint32_t state; /* enum hf_state */
    int64_t closed_ms;
    uint32_t holder_total; /* the number of holders on the author's host */
    uint32_t waiter_total;
    uint32_t holder_count; /* the number of holders in this item */
    uint32_t waiter_count;
    struct gossip_holder holders[GOSSIP_HOLDERS_MAX];
    struct gossip_waiter waiters[GOSSIP_WAITERS_MAX];
    bool has_last; /* a further field: agents of earlier releases do not send it */
    struct gossip_last last;
};

struct gossip_item {
    uint32_t kind; /* enum gossip_item_kind */
    union {
        struct gossip_agent agent;
        struct message_partitions owned;
        struct gossip_expired expired;
        struct gossip_lock lock;
    } as;
};

/* The author and the number of an item. The items of a higher incarnation replace all items of a
 * lower one. An item with a higher number replaces the same item with a lower number. */
struct gossip_stamp {
    struct message_agent author;
    uint64_t incarnation; /* the incarnation of the author's process */
    uint64_t number;
    uint32_t age_ms;
};

struct gossip_digest {
    struct message_agent author;
    uint64_t incarnation;
    /* For how long the author's process had run when it published its newest known heartbeat. */
    uint64_t heartbeat_ms;
    uint32_t age_ms; /* the age of that heartbeat */
    uint64_t hash;   /* a hash of all items of the author */
};

/* Those hashes of an author's buckets that are not 0, in ascending order of the buckets' index. */
struct gossip_hashes {
    struct message_agent author;
    uint64_t incarnation;
    uint32_t count;
    struct {
        uint32_t index;
        uint32_t hash;
    } buckets[GOSSIP_BUCKETS];
};

/* ---- bodies ---- */

/* Writes an item's body. In a command or a note, '?' replaces what is not text. Notes are cut if
 * there are several: each has an equal part of GOSSIP_NOTES_MAX. Returns the body's size, or 0 if
 * it does not fit or a field is out of its range. */
size_t gossip_body_encode(const struct gossip_item *item, void *buffer, size_t size)
    __attribute__((warn_unused_result));
/* Returns false if the bytes are not a valid body. */
bool gossip_body_decode(const void *bytes, size_t size, struct gossip_item *out)
    __attribute__((warn_unused_result));

/* Copies a packet to `out`, which has room for GOSSIP_PACKET_MAX bytes, without the further fields
 * of its items. Returns the copy's size; or 0 if the bytes are not a packet of this writer. */
size_t gossip_narrow(const void *bytes, size_t size, void *out) __attribute__((warn_unused_result));

/* ---- writing a packet, into the caller's buffer ---- */

struct gossip_writer {
    unsigned char *bytes;
    size_t size;
    size_t used;
    size_t answer_at;
    size_t count_at;
    uint32_t count;
};

/* size must be at least 64; at most GOSSIP_PACKET_MAX bytes are used. */
void gossip_begin(struct gossip_writer *writer, void *buffer, size_t size,
                  enum gossip_packet_kind kind, uint64_t incarnation, uint64_t heartbeat_ms);
/* Returns false, and leaves the packet as it was, if the entry does not fit. */
bool gossip_add_item(struct gossip_writer *writer, const struct gossip_stamp *stamp,
                     const void *body, size_t size) __attribute__((warn_unused_result));
bool gossip_add_digest(struct gossip_writer *writer, const struct gossip_digest *digest)
    __attribute__((warn_unused_result));
bool gossip_add_hashes(struct gossip_writer *writer, const struct gossip_hashes *hashes)
    __attribute__((warn_unused_result));
/* Returns the packet's size. answer: in a packet of items, more items are available; in a packet of
 * digests, the packet is an answer and gets no answer. */
size_t gossip_end(struct gossip_writer *writer, bool answer);

/* ---- reading ---- */

struct gossip_reader {
    const unsigned char *at;
    const unsigned char *end;
    uint32_t left;
    enum gossip_packet_kind kind;
    bool answer;
    uint64_t incarnation; /* the sender's */
    uint64_t heartbeat_ms;
};

/* Checks the whole packet. Returns false if SCHEMA.md does not allow it. */
bool gossip_open(struct gossip_reader *reader, const void *bytes, size_t size)
    __attribute__((warn_unused_result));
/* These functions return the next entry, for a packet of their kind. They return false if there is
 * none. *body points into the packet. */
bool gossip_next_item(struct gossip_reader *reader, struct gossip_stamp *stamp,
                      struct gossip_item *item, const unsigned char **body, size_t *size);
bool gossip_next_digest(struct gossip_reader *reader, struct gossip_digest *out);
bool gossip_next_hashes(struct gossip_reader *reader, struct gossip_hashes *out);

#endif
