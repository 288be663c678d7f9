/*
 * Gossip as bytes: what agents report to each other about the cell, so that people can see it.
 * SCHEMA.md has every field; core/gossip.h describes how it spreads.
 *
 * A packet is one msgpack array, at most GOSSIP_PACKET_MAX bytes, carried as one item of a packet
 * of proto/wire.h:
 *
 *   [kind, answer, incarnation, beat_ms, [entry...]]
 *
 * Its entries are items (what an author publishes), digests (one hash for each author of all that
 * the sender has from it), or buckets (up to 256 hashes for one author).
 *
 * The body of an item is a kind and that kind's fields. It is stored and passed on as it arrived,
 * so an agent need not understand everything that it passes on.
 *
 * Times are ages in milliseconds, never readings of a clock.
 *
 * Decoding trusts nothing. Everything is checked before anything is used, a packet is accepted
 * whole or not at all, and nothing is allocated. May be called from any thread.
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
    GOSSIP_HOLDERS_MAX = 4, /* an item has at most so many holders of a lock; the totals may be
                             * higher */
    GOSSIP_WAITERS_MAX = 8,
    GOSSIP_COMMAND_MAX = 160,
};

enum gossip_packet_kind { GOSSIP_ITEMS = 1, GOSSIP_DIGEST, GOSSIP_HASHES };

enum gossip_item_kind {
    GOSSIP_AGENT = 1, /* the author itself */
    GOSSIP_OWNED,     /* by a voter: the partitions that it coordinates */
    GOSSIP_DEAD,      /* by a voter: a session that has expired */
    GOSSIP_LOCK,      /* a lock with holders or waiters on the author's host */
};

enum gossip_session { GOSSIP_SAFE = 0, GOSSIP_JEOPARDY, GOSSIP_LOST };

struct gossip_agent {
    char address[MESSAGE_ADDRESS_MAX]; /* "": none */
    bool voter;
    uint32_t epoch; /* of its session; 0: none yet */
    uint32_t state; /* enum gossip_session */
};

struct gossip_dead {
    struct message_agent agent;
    uint32_t epoch; /* this epoch and all before it */
};

struct gossip_holder {
    int64_t pid; /* -1: unknown, as below */
    int64_t uid;
    uint64_t token;
    int64_t held_ms;
    int64_t remaining_ms; /* time until the hold ends by itself; -1: the hold is renewed */
    char command[GOSSIP_COMMAND_MAX + 1];
};

struct gossip_waiter {
    int64_t pid;
    uint32_t mode; /* enum hf_mode */
    int64_t waited_ms;
};

/* A lock without holders and waiters that is not closed is a tombstone. */
struct gossip_lock {
    struct message_name name;
    uint32_t state; /* enum hf_state */
    int64_t closed_ms;
    uint32_t holder_total; /* how many holders the lock has */
    uint32_t waiter_total;
    uint32_t holder_count; /* how many of them the item has */
    uint32_t waiter_count;
    struct gossip_holder holders[GOSSIP_HOLDERS_MAX];
    struct gossip_waiter waiters[GOSSIP_WAITERS_MAX];
};

struct gossip_item {
    uint32_t kind; /* enum gossip_item_kind */
    union {
        struct gossip_agent agent;
        struct message_partitions owned;
        struct gossip_dead dead;
        struct gossip_lock lock;
    } as;
};

/* An item's author and number. A higher incarnation replaces all items of a lower one; a higher
 * number replaces the same item with a lower one. */
struct gossip_stamp {
    struct message_agent author;
    uint64_t incarnation; /* of the author's process */
    uint64_t number;
    uint32_t age_ms;
};

struct gossip_digest {
    struct message_agent author;
    uint64_t incarnation;
    /* How long the author's process had run when it last gave a sign of life. */
    uint64_t heartbeat_ms;
    uint32_t age_ms; /* how long ago that sign was */
    uint64_t hash;   /* a hash of all its items */
};

/* The hashes of an author's buckets that are not 0, in ascending order of their index. */
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

/* Writes an item's body; a command that is not clean UTF-8 is cleaned. Returns its size, or 0 if it
 * does not fit or a field is out of its range. */
size_t gossip_body_encode(const struct gossip_item *item, void *buffer, size_t size)
    __attribute__((warn_unused_result));
/* Returns false if the bytes are no valid body. */
bool gossip_body_decode(const void *bytes, size_t size, struct gossip_item *out)
    __attribute__((warn_unused_result));

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
/* Returns the packet's size. answer on ITEMS means that more items are available; on DIGEST it
 * means that this digest is an answer and gets none. */
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

/* Checks the whole packet. Returns false if it is not what SCHEMA.md allows. */
bool gossip_open(struct gossip_reader *reader, const void *bytes, size_t size)
    __attribute__((warn_unused_result));
/* These return the next entry of the packet's kind; false if there is none. body points into the
 * packet. */
bool gossip_next_item(struct gossip_reader *reader, struct gossip_stamp *stamp,
                      struct gossip_item *item, const unsigned char **body, size_t *size);
bool gossip_next_digest(struct gossip_reader *reader, struct gossip_digest *out);
bool gossip_next_hashes(struct gossip_reader *reader, struct gossip_hashes *out);

#endif
