/*
 * Records: a lock's value as the core keeps it, packed, with its agents by their index; and the
 * pool that the shares of records in mode SHARED come from.
 *
 * A record is a plain value: registers keep one each, an operation has one under way. Invariants: a
 * record of mode SHARED owns a list of its own in the pool, so it is dropped before it is forgotten
 * or overwritten; a record that is assigned to another takes its list along, and only one of the
 * two is used from then on. Registers have as many shares as the limit says; the pool has a reserve
 * beyond it, for the lists of rounds on the way.
 *
 * A value keeps the version of each grant, the (ballot, sequence) of its first proposal, unchanged
 * when it is accepted again (docs/PROTOCOL.md, rule 9).
 */
#ifndef QUORUM_RECORD_H
#define QUORUM_RECORD_H

#include "agents.h"
#include "step.h"

/* A message_value and its acceptance, packed. 1 << 40 tokens are one block, see message.h. */
struct record {
    uint64_t token_first;
    union {
        uint32_t token_extra; /* EXCLUSIVE: token_last - token_first */
        uint32_t share_count; /* SHARED */
    };
    union {
        uint32_t epoch;  /* EXCLUSIVE */
        uint32_t shares; /* SHARED: the first of its list */
    };
    uint32_t round; /* accepted: ballot = round << 16 | voter */
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
/* A name never used, in a partition with that floor. What was in the record is not freed. */
void record_blank(struct record *record, uint64_t floor);
uint64_t record_token_last(const struct record *record);

void record_to_value(const struct quorum *quorum, const struct record *record,
                     struct message_value *value);
/* Replaces the record (a blank or zeroed one, if there is none yet). false: the table of agents or
 * the pool of shares is full; the record stays as it is. */
bool record_from_value(struct quorum *quorum, const struct message_value *value,
                       struct record *record);
/* Frees its shares, if it has any; its mode is NONE then. */
void record_drop(struct quorum *quorum, struct record *record);

uint32_t record_share_count(const struct record *record);
/* Its shares into out, which has room for MESSAGE_SHARES_MAX; returns how many there are. */
uint32_t record_shares(const struct quorum *quorum, const struct record *record, struct share *out);
/* Makes a record without shares one of mode SHARED; its version is the newest of theirs. false: the
 * pool is full. */
bool record_set_shares(struct quorum *quorum, struct record *record, const struct share *shares,
                       uint32_t count);
/* The version of what that agent has of it. It has something. */
struct message_order record_version_of(const struct quorum *quorum, const struct record *record,
                                       uint16_t agent);

/* Whether the pool has room for so many more now; whether registers may have so many more. */
bool records_have_room(const struct quorum *quorum, uint32_t shares);
bool records_may_grow(const struct quorum *quorum, uint32_t shares);
/* Registers have so many more, or less. */
void records_stored(struct quorum *quorum, int32_t shares);

/* The highest epoch of that agent's sessions that any value made into a record was granted to. */
uint32_t records_granted_epoch(const struct quorum *quorum, uint32_t agent);

/* HF_CHECK fails if registers have not so many shares, or operations. */
void records_check_invariants(const struct quorum *quorum, uint32_t stored, uint32_t under_way);

#endif
