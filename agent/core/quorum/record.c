/* Values as the core keeps them: see record.h. */
#include "record.h"

#include <string.h>

#include "proto/check.h"

enum { SHARES_RESERVE = 16 * MESSAGE_SHARES_MAX };

/* One host's part of a shared grant, packed. */
struct share_record {
    uint32_t next; /* the next share in its record's list, or in the free list */
    uint32_t epoch;
    uint32_t version_round;
    uint32_t version_sequence_low;
    uint16_t version_voter;
    uint16_t agent;
    uint8_t version_sequence_high;
};

struct records {
    struct share_record *shares; /* indexed from 1 */
    uint32_t share_top, share_free, share_used;
    uint32_t share_stored; /* how many of the used shares belong to registers */
    uint32_t *granted;     /* one entry for each agent: see records_granted_epoch() */
};

struct records *records_lay_out(struct arena *arena, const struct quorum_limits *limits)
{
    struct records *records = arena_take(arena, 1, sizeof(*records));
    ARENA_TAKE(arena, records, shares, (size_t)limits->shares + SHARES_RESERVE + 1);
    ARENA_TAKE(arena, records, granted, limits->agents);
    return records;
}

static uint64_t ballot_of(uint32_t round, uint16_t voter)
{
    return (uint64_t)round << 16 | voter;
}

struct message_order record_accepted(const struct record *record)
{
    return (struct message_order){
        .ballot = ballot_of(record->round, record->voter),
        .sequence = (uint64_t)record->sequence_high << 32 | record->sequence_low,
    };
}

struct message_order record_version(const struct record *record)
{
    return (struct message_order){
        .ballot = ballot_of(record->version_round, record->version_voter),
        .sequence = (uint64_t)record->version_sequence_high << 32 | record->version_sequence_low,
    };
}

static struct message_order share_version(const struct share_record *share)
{
    return (struct message_order){
        .ballot = ballot_of(share->version_round, share->version_voter),
        .sequence = (uint64_t)share->version_sequence_high << 32 | share->version_sequence_low,
    };
}

void record_set_accepted(struct record *record, struct message_order order)
{
    HF_CHECK(order.ballot < MESSAGE_BALLOT_LIMIT && order.sequence < MESSAGE_SEQUENCE_LIMIT);
    record->round = (uint32_t)(order.ballot >> 16);
    record->voter = (uint16_t)(order.ballot & 0xffff);
    record->sequence_low = (uint32_t)order.sequence;
    record->sequence_high = (uint8_t)(order.sequence >> 32);
}

void record_set_version(struct record *record, struct message_order order)
{
    HF_CHECK(order.ballot < MESSAGE_BALLOT_LIMIT && order.sequence < MESSAGE_SEQUENCE_LIMIT);
    record->version_round = (uint32_t)(order.ballot >> 16);
    record->version_voter = (uint16_t)(order.ballot & 0xffff);
    record->version_sequence_low = (uint32_t)order.sequence;
    record->version_sequence_high = (uint8_t)(order.sequence >> 32);
}

void record_blank(struct record *record, uint64_t floor)
{
    memset(record, 0, sizeof(*record));
    record->token_first = floor + 1;
    record->owner = AGENTS_NONE;
    record->successor = AGENTS_NONE;
    record->permits = 1;
}

uint64_t record_token_last(const struct record *record)
{
    return record->mode == MESSAGE_MODE_EXCLUSIVE ? record->token_first + record->token_extra
                                                  : record->token_first;
}

/* ---- The pool of shares ---- */

/* Takes a share from the pool and appends it to a list: *link becomes its index. */
static struct share_record *share_take(struct quorum *quorum, uint32_t *link)
{
    uint32_t at = quorum->records->share_free;
    if (at != NONE) {
        quorum->records->share_free = quorum->records->shares[at].next;
    } else {
        at = ++quorum->records->share_top;
    }
    HF_CHECK(at <= quorum->config->limits.shares + SHARES_RESERVE);
    quorum->records->share_used++;
    *link = at;
    quorum->records->shares[at].next = NONE;
    return &quorum->records->shares[at];
}

bool records_have_room(const struct quorum *quorum, uint32_t count)
{
    return quorum->records->share_used + count <= quorum->config->limits.shares + SHARES_RESERVE;
}

bool records_may_grow(const struct quorum *quorum, uint32_t count)
{
    return quorum->records->share_stored + count <= quorum->config->limits.shares;
}

void records_stored(struct quorum *quorum, int32_t shares)
{
    quorum->records->share_stored += (uint32_t)shares;
}

uint32_t records_granted_epoch(const struct quorum *quorum, uint32_t agent)
{
    return quorum->records->granted[agent];
}

void records_check_invariants(const struct quorum *quorum, uint32_t stored, uint32_t under_way)
{
    HF_CHECK(stored == quorum->records->share_stored);
    HF_CHECK(stored + under_way == quorum->records->share_used);
}

uint32_t record_share_count(const struct record *record)
{
    return record->mode == MESSAGE_MODE_SHARED ? record->share_count : 0;
}

void record_drop(struct quorum *quorum, struct record *record)
{
    if (record->mode != MESSAGE_MODE_SHARED) {
        return;
    }
    uint32_t count = 0;
    uint32_t at = record->shares;
    while (at != NONE) {
        struct share_record *share = &quorum->records->shares[at];
        uint32_t next = share->next;
        share->next = quorum->records->share_free;
        quorum->records->share_free = at;
        at = next;
        count++;
    }
    HF_CHECK(count == record->share_count && count <= quorum->records->share_used);
    quorum->records->share_used -= count;
    record->shares = NONE;
    record->share_count = 0;
    record->mode = MESSAGE_MODE_NONE;
}

uint32_t record_shares(const struct quorum *quorum, const struct record *record, struct share *out)
{
    uint32_t count = 0;
    if (record->mode != MESSAGE_MODE_SHARED) {
        return 0;
    }
    for (uint32_t at = record->shares; at != NONE; at = quorum->records->shares[at].next) {
        const struct share_record *share = &quorum->records->shares[at];
        HF_CHECK(count < MESSAGE_SHARES_MAX);
        out[count].version = share_version(share);
        out[count].epoch = share->epoch;
        out[count].agent = share->agent;
        count++;
    }
    return count;
}

bool record_set_shares(struct quorum *quorum, struct record *record, const struct share *shares,
                       uint32_t count)
{
    HF_CHECK(count > 0 && count <= MESSAGE_SHARES_MAX);
    if (!records_have_room(quorum, count)) {
        return false;
    }
    struct message_order newest = shares[0].version;
    uint32_t *link = &record->shares;
    for (uint32_t i = 0; i < count; i++) {
        struct message_order version = shares[i].version;
        struct share_record *share = share_take(quorum, link);
        link = &share->next;
        share->epoch = shares[i].epoch;
        share->agent = shares[i].agent;
        share->version_round = (uint32_t)(version.ballot >> 16);
        share->version_voter = (uint16_t)(version.ballot & 0xffff);
        share->version_sequence_low = (uint32_t)version.sequence;
        share->version_sequence_high = (uint8_t)(version.sequence >> 32);
        newest = message_order_before(newest, version) ? version : newest;
    }
    record->mode = MESSAGE_MODE_SHARED;
    record->share_count = count;
    record->owner = AGENTS_NONE;
    record_set_version(record, newest);
    return true;
}

struct message_order record_version_of(const struct quorum *quorum, const struct record *record,
                                       uint16_t agent)
{
    if (record->mode == MESSAGE_MODE_EXCLUSIVE) {
        HF_CHECK(record->owner == agent);
        return record_version(record);
    }
    HF_CHECK(record->mode == MESSAGE_MODE_SHARED);
    uint32_t at = record->shares;
    while (at != NONE && quorum->records->shares[at].agent != agent) {
        at = quorum->records->shares[at].next;
    }
    HF_CHECK(at != NONE);
    return share_version(&quorum->records->shares[at]);
}

/* ---- Values ---- */

void record_to_value(const struct quorum *quorum, const struct record *record,
                     struct message_value *value)
{
    memset(value, 0, offsetof(struct message_value, shares));
    value->version = record_version(record);
    value->token_first = record->token_first;
    value->lock_delay_ms = record->lock_delay_ms;
    value->permits = record->permits;
    value->mode = record->mode;
    value->closing = record->closing;
    if (record->mode == MESSAGE_MODE_EXCLUSIVE) {
        value->token_last = record_token_last(record);
        value->owner = *agents_name(quorum, record->owner);
        value->epoch = record->epoch;
    } else if (record->mode == MESSAGE_MODE_SHARED) {
        value->token_last = record->token_first;
        for (uint32_t at = record->shares; at != NONE; at = quorum->records->shares[at].next) {
            const struct share_record *share = &quorum->records->shares[at];
            struct message_share *out = &value->shares[value->share_count++];
            memset(out, 0, sizeof(*out));
            out->version = share_version(share);
            out->agent = *agents_name(quorum, share->agent);
            out->epoch = share->epoch;
        }
        HF_CHECK(value->share_count == record->share_count);
    }
}

static bool agents_of(struct quorum *quorum, const struct message_value *value,
                      struct share *shares, uint32_t *owner)
{
    if (value->mode == MESSAGE_MODE_EXCLUSIVE) {
        return agents_make(quorum, &value->owner, owner);
    }
    for (uint32_t i = 0; i < value->share_count; i++) {
        uint32_t agent = 0;
        if (!agents_make(quorum, &value->shares[i].agent, &agent)) {
            return false;
        }
        shares[i].agent = (uint16_t)agent;
        shares[i].epoch = value->shares[i].epoch;
        shares[i].version = value->shares[i].version;
    }
    return true;
}

/* Notes the epochs of a value's owners. An agent that lost its store asks the voters for its
 * highest epoch (sessions_renew()). */
static void note_epochs(struct quorum *quorum, const struct message_value *value,
                        const struct share *shares, uint32_t owner)
{
    for (uint32_t i = 0; value->mode == MESSAGE_MODE_SHARED && i < value->share_count; i++) {
        uint32_t *granted = &quorum->records->granted[shares[i].agent];
        *granted = shares[i].epoch > *granted ? shares[i].epoch : *granted;
    }
    if (value->mode == MESSAGE_MODE_EXCLUSIVE) {
        uint32_t *granted = &quorum->records->granted[owner];
        *granted = value->epoch > *granted ? value->epoch : *granted;
    }
}

bool record_from_value(struct quorum *quorum, const struct message_value *value,
                       struct record *record)
{
    struct share shares[MESSAGE_SHARES_MAX];
    uint32_t owner = AGENTS_NONE;
    uint32_t had = record_share_count(record);
    HF_CHECK(value->share_count <= MESSAGE_SHARES_MAX);
    if (!agents_of(quorum, value, shares, &owner) ||
        (value->share_count > had && !records_have_room(quorum, value->share_count - had))) {
        return false;
    }
    record_drop(quorum, record);
    record_blank(record, 0);
    record_set_version(record, value->version);
    note_epochs(quorum, value, shares, owner);
    record->token_first = value->token_first;
    record->lock_delay_ms = value->lock_delay_ms;
    record->permits = value->permits;
    record->closing = value->closing;
    if (value->mode == MESSAGE_MODE_SHARED) {
        bool made = record_set_shares(quorum, record, shares, value->share_count);
        HF_CHECK(made);
    } else if (value->mode == MESSAGE_MODE_EXCLUSIVE) {
        record->mode = value->mode;
        record->owner = (uint16_t)owner;
        record->epoch = value->epoch;
        record->token_extra = (uint32_t)(value->token_last - value->token_first);
    }
    return true;
}
