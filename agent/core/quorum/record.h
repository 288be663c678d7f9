/*
 * Records: a lock's value as the core keeps it, packed, with indexes in place of agents' names; and
 * the pool of shares, from which records of mode SHARED take theirs.
 *
 * A record is a plain value: each register keeps one, and each operation has one under way.
 * Invariants: a record of mode SHARED owns a list in the pool, so it must be dropped before it is
 * forgotten or overwritten. A copy of a record refers to the same list, so only one of the two
 * records may be used from then on. Registers have at most as many shares as the limit allows. The
 * pool has a reserve beyond that, for the lists of rounds under way.
 *
 * A value keeps the version of each grant: the (ballot, sequence) of the grant's first proposal.
 * The version stays the same when the value is accepted again (docs/PROTOCOL.md, rule 9).
 */
#ifndef QUORUM_RECORD_H
#define QUORUM_RECORD_H

#include "agents.h"
#include "step.h"

/* A message_value and the (ballot, sequence) under which it was accepted, packed. A range has at
 * most MESSAGE_TOKEN_RANGE tokens, so 32 bits hold the distance from its first token to its last
 * one. */
struct record {
    uint64_t token_first;
    union {
        uint32_t token_extra; /* EXCLUSIVE: token_last - token_first */
        uint32_t share_count; /* SHARED: how many shares it has */
    };
    union {
        uint32_t epoch;  /* EXCLUSIVE: the epoch of the owner's session */
        uint32_t shares; /* SHARED: the first share of its list */
    };
    uint32_t round; /* round << 16 | voter is the accepted ballot */
    uint32_t version_round;
    uint32_t sequence_low;
    uint32_t version_sequence_low;
    uint16_t voter;
    uint16_t version_voter;
    uint8_t sequence_high;
    uint8_t version_sequence_high;
    uint16_t owner; /* index of an agent, or AGENTS_NONE */
    uint16_t successor;
    uint16_t lock_delay_ms;
    uint16_t permits;
    uint8_t mode;
    uint8_t closing;
};

_Static_assert(sizeof(struct record) == 48, "256 bytes a lock: 48 of them are its register");

/* One host's part of a shared grant. */
struct share {
    struct message_order version;
    uint32_t epoch;
    uint16_t agent;
};

struct records;

struct records *records_lay_out(struct arena *arena, const struct quorum_limits *limits);

struct message_order record_accepted(const struct record *record);
struct message_order record_version(const struct record *record);
void record_set_accepted(struct record *record, struct message_order order);
void record_set_version(struct record *record, struct message_order order);
/* Gives the record the value of a name that was never used, in a partition with that floor. Does
 * not free the record's old shares. */
void record_blank(struct record *record, uint64_t floor);
uint64_t record_token_last(const struct record *record);

void record_to_value(const struct quorum *quorum, const struct record *record,
                     struct message_value *value);
/* Replaces the record, which may be blank or zeroed, by the value. Returns false if the table of
 * agents or the pool of shares is full; the record stays as it is. */
bool record_from_value(struct quorum *quorum, const struct message_value *value,
                       struct record *record);
/* If the record's mode is SHARED, gives its shares back to the pool and sets its mode to NONE. */
void record_drop(struct quorum *quorum, struct record *record);

uint32_t record_share_count(const struct record *record);
/* Writes the record's shares into out, which has room for MESSAGE_SHARES_MAX. Returns how many. */
uint32_t record_shares(const struct quorum *quorum, const struct record *record, struct share *out);
/* Gives a record without shares the mode SHARED, these shares, and the newest of their versions.
 * Returns false if the pool is full. */
bool record_set_shares(struct quorum *quorum, struct record *record, const struct share *shares,
                       uint32_t count);
/* Returns the version of that agent's share, or of its exclusive grant. The agent must have one. */
struct message_order record_version_of(const struct quorum *quorum, const struct record *record,
                                       uint16_t agent);

/* records_have_room() returns whether the pool has room for that many more shares.
 * records_may_grow() returns whether registers may have that many more shares. */
bool records_have_room(const struct quorum *quorum, uint32_t shares);
bool records_may_grow(const struct quorum *quorum, uint32_t shares);
/* Adds `shares` to the number of shares that registers have. `shares` may be negative. */
void records_stored(struct quorum *quorum, int32_t shares);

/* Returns the agent's highest epoch that owned a grant in any value given to
 * record_from_value(). */
uint32_t records_granted_epoch(const struct quorum *quorum, uint32_t agent);

/* Fails (HF_CHECK) unless registers have `stored` shares, and operations have `under_way`
 * shares. */
void records_check_invariants(const struct quorum *quorum, uint32_t stored, uint32_t under_way);

#endif
