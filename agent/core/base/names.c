/*
 * The table of lock names (core/base/names.h).
 *
 * The table is one block: this header, the heads of the buckets, the arena. An entry's id is its
 * position in the arena, in units of 4 bytes. Free entries are never merged, so a position at which
 * an entry ever began stays the beginning of an entry. Therefore names_next() can walk while names
 * come and go. The space of a removed name is reused for a name of the same size, or split for a
 * shorter name if the remainder is large enough for an entry of its own.
 */
#include "core/base/names.h"

#include <string.h>

#include "proto/check.h"

enum {
    UNIT = 4,
    ENTRY_UNITS_MAX = (16 + NAMES_LENGTH_MAX + UNIT - 1) / UNIT,
    ENTRY_UNITS_MIN = (16 + 1 + UNIT - 1) / UNIT,
    REFERENCES_MAX = (1 << 24) - 1,
};

struct name_entry {
    uint32_t next; /* the next entry in the same bucket, or in the free list of this size */
    uint32_t reg;
    uint32_t lock;
    uint32_t references : 24; /* 0: free */
    uint32_t length : 8;      /* in a free entry: any length whose entry has this size */
    uint8_t bytes[];
};

_Static_assert(sizeof(struct name_entry) == 16, "a name of 32 bytes costs 48 and its bucket");
_Static_assert((uint64_t)NAMES_COUNT_MAX *ENTRY_UNITS_MAX < UINT32_MAX, "an id is 32 bits");

struct names {
    uint64_t seed;
    uint32_t count_max;
    uint32_t count;
    uint32_t bucket_count;
    uint32_t units_used; /* the first unit is never used, because id 0 means no name */
    uint32_t units_max;
    uint32_t free[ENTRY_UNITS_MAX + 1]; /* the free lists, by size in units */
    uint32_t heads[];
};

static size_t heads_size(uint32_t count_max)
{
    return ((size_t)count_max * sizeof(uint32_t) + 7) & ~(size_t)7;
}

static size_t header_size(void)
{
    return (sizeof(struct names) + 7) & ~(size_t)7;
}

static struct name_entry *entry_at(const struct names *names, uint32_t id)
{
    HF_CHECK(id != NAMES_NONE && id < names->units_used);
    uint8_t *base = (uint8_t *)(uintptr_t)names;
    return (struct name_entry *)(void *)(base + header_size() + heads_size(names->count_max) +
                                         (size_t)id * UNIT);
}

static struct name_entry *live_entry(const struct names *names, uint32_t id)
{
    struct name_entry *entry = entry_at(names, id);
    HF_CHECK(entry->references > 0);
    return entry;
}

static uint32_t units_of(size_t length)
{
    return (uint32_t)((sizeof(struct name_entry) + length + UNIT - 1) / UNIT);
}

static uint64_t mix(uint64_t hash)
{
    hash ^= hash >> 32;
    hash *= UINT64_C(0xd6e8feb86659fd93);
    hash ^= hash >> 29;
    hash *= UINT64_C(0xa0761d6478bd642f);
    return hash ^ hash >> 32;
}

/* Reads eight bytes as a little-endian number. Compilers turn this into one load. */
static uint64_t whole_word(const uint8_t *bytes)
{
    return (uint64_t)bytes[0] | (uint64_t)bytes[1] << 8 | (uint64_t)bytes[2] << 16 |
           (uint64_t)bytes[3] << 24 | (uint64_t)bytes[4] << 32 | (uint64_t)bytes[5] << 40 |
           (uint64_t)bytes[6] << 48 | (uint64_t)bytes[7] << 56;
}

/* The hash must not depend on the host's byte order, because a name has the same partition on every
 * host. */
static uint64_t hash_bytes(uint64_t seed, const uint8_t *bytes, size_t length)
{
    uint64_t hash = seed ^ length;
    size_t at = 0;
    for (; at + 8 <= length; at += 8) {
        hash = mix(hash ^ whole_word(bytes + at)) + seed;
    }
    if (at < length) {
        uint64_t word = 0;
        for (size_t i = 0; at + i < length; i++) {
            word |= (uint64_t)bytes[at + i] << (8 * i);
        }
        hash = mix(hash ^ word) + seed;
    }
    return mix(hash);
}

uint32_t names_partition(const void *bytes, size_t length)
{
    return (uint32_t)(hash_bytes(UINT64_C(0x486f6c6466617374), bytes, length) & 255);
}

size_t names_size(uint32_t count_max)
{
    HF_CHECK(count_max > 0 && count_max <= NAMES_COUNT_MAX);
    return header_size() + heads_size(count_max) + ((size_t)count_max * ENTRY_UNITS_MAX + 1) * UNIT;
}

struct names *names_init(void *memory, uint32_t count_max, uint64_t seed)
{
    HF_CHECK(memory != NULL && (uintptr_t)memory % 8 == 0);
    HF_CHECK(count_max > 0 && count_max <= NAMES_COUNT_MAX);
    struct names *names = memory;
    names->seed = seed;
    names->count_max = count_max;
    names->bucket_count = 1;
    names->units_used = 1;
    names->units_max = count_max * ENTRY_UNITS_MAX + 1;
    return names;
}

void names_expect(struct names *names, uint64_t count)
{
    if (names->count == 0 && count > names->bucket_count) {
        names->bucket_count = count < names->count_max ? (uint32_t)count : names->count_max;
    }
}

/* Returns the bucket of a hash. Its index is the low bits of the hash. If there is no bucket of
 * that index yet, the highest of these bits is dropped (linear hashing). */
static uint32_t *bucket_of(struct names *names, uint64_t hash)
{
    uint32_t top = names->bucket_count > 1
                       ? UINT32_C(0x80000000) >> __builtin_clz(names->bucket_count - 1)
                       : 1;
    uint32_t index = (uint32_t)hash & (2 * top - 1);
    if (index >= names->bucket_count) {
        index &= top - 1;
    }
    return &names->heads[index];
}

static uint64_t entry_hash(const struct names *names, const struct name_entry *entry)
{
    return hash_bytes(names->seed, entry->bytes, entry->length);
}

/* Adds a bucket. Its names come from one other bucket, whose index is the new bucket's index
 * without the highest bit. */
static void grow(struct names *names)
{
    if (names->bucket_count >= names->count_max || names->count <= names->bucket_count) {
        return;
    }
    uint32_t added = names->bucket_count;
    uint32_t source = added & ~(UINT32_C(0x80000000) >> __builtin_clz(added));
    uint32_t id = names->heads[source];
    names->heads[source] = NAMES_NONE;
    names->heads[added] = NAMES_NONE;
    names->bucket_count++;
    while (id != NAMES_NONE) {
        struct name_entry *entry = live_entry(names, id);
        uint32_t next = entry->next;
        uint32_t *head = bucket_of(names, entry_hash(names, entry));
        HF_CHECK(head == &names->heads[source] || head == &names->heads[added]);
        entry->next = *head;
        *head = id;
        id = next;
    }
}

static uint32_t find_in(const struct names *names, uint32_t head, const void *bytes, size_t length)
{
    for (uint32_t id = head; id != NAMES_NONE;) {
        const struct name_entry *entry = live_entry(names, id);
        if (entry->length == length && memcmp(entry->bytes, bytes, length) == 0) {
            return id;
        }
        id = entry->next;
    }
    return NAMES_NONE;
}

uint32_t names_find(const struct names *names, const void *bytes, size_t length)
{
    HF_CHECK(length > 0 && length <= NAMES_LENGTH_MAX);
    uint64_t hash = hash_bytes(names->seed, bytes, length);
    uint32_t head = *bucket_of((struct names *)(uintptr_t)names, hash);
    return find_in(names, head, bytes, length);
}

static void free_put(struct names *names, uint32_t id, uint32_t units)
{
    struct name_entry *entry = entry_at(names, id);
    entry->references = 0;
    entry->length = units * UNIT - (uint32_t)sizeof(struct name_entry) < NAMES_LENGTH_MAX
                        ? units * UNIT - (uint32_t)sizeof(struct name_entry)
                        : NAMES_LENGTH_MAX;
    HF_CHECK(units_of(entry->length) == units);
    entry->next = names->free[units];
    names->free[units] = id;
}

static uint32_t space_take(struct names *names, uint32_t units)
{
    uint32_t found = units;
    if (names->free[found] == NAMES_NONE) {
        if (names->units_max - names->units_used >= units) {
            uint32_t id = names->units_used;
            names->units_used += units;
            return id;
        }
        found = units + ENTRY_UNITS_MIN;
        while (found <= ENTRY_UNITS_MAX && names->free[found] == NAMES_NONE) {
            found++;
        }
        if (found > ENTRY_UNITS_MAX) {
            return NAMES_NONE;
        }
    }
    uint32_t id = names->free[found];
    names->free[found] = entry_at(names, id)->next;
    if (found > units) {
        free_put(names, id + units, found - units);
    }
    return id;
}

/* Adds a reference to a name that has at least one. */
static void names_hold_id(struct names *names, uint32_t id)
{
    struct name_entry *entry = live_entry(names, id);
    HF_CHECK(entry->references < REFERENCES_MAX);
    entry->references++;
}

uint32_t names_hold(struct names *names, const void *bytes, size_t length)
{
    HF_CHECK(length > 0 && length <= NAMES_LENGTH_MAX);
    uint64_t hash = hash_bytes(names->seed, bytes, length);
    uint32_t id = find_in(names, *bucket_of(names, hash), bytes, length);
    if (id != NAMES_NONE) {
        names_hold_id(names, id);
        return id;
    }
    if (names->count >= names->count_max) {
        return NAMES_NONE;
    }
    id = space_take(names, units_of(length));
    if (id == NAMES_NONE) {
        return NAMES_NONE;
    }
    struct name_entry *entry = entry_at(names, id);
    entry->reg = NAMES_NONE;
    entry->lock = NAMES_NONE;
    entry->references = 1;
    entry->length = (uint32_t)length & 255;
    memcpy(entry->bytes, bytes, length);
    uint32_t *head = bucket_of(names, hash);
    entry->next = *head;
    *head = id;
    names->count++;
    grow(names);
    return id;
}

void names_drop(struct names *names, uint32_t id)
{
    struct name_entry *entry = live_entry(names, id);
    if (entry->references > 1) {
        entry->references--;
        return;
    }
    HF_CHECK(entry->reg == NAMES_NONE && entry->lock == NAMES_NONE);
    uint32_t *link = bucket_of(names, entry_hash(names, entry));
    while (*link != id) {
        link = &live_entry(names, *link)->next;
    }
    *link = entry->next;
    names->count--;
    free_put(names, id, units_of(entry->length));
}

const uint8_t *names_bytes(const struct names *names, uint32_t id, size_t *length)
{
    const struct name_entry *entry = live_entry(names, id);
    *length = entry->length;
    return entry->bytes;
}

uint32_t names_register(const struct names *names, uint32_t id)
{
    return live_entry(names, id)->reg;
}

void names_set_register(struct names *names, uint32_t id, uint32_t index)
{
    live_entry(names, id)->reg = index;
}

uint32_t names_lock(const struct names *names, uint32_t id)
{
    return live_entry(names, id)->lock;
}

void names_set_lock(struct names *names, uint32_t id, uint32_t index)
{
    live_entry(names, id)->lock = index;
}

uint32_t names_next(const struct names *names, uint32_t id)
{
    uint32_t at = id == NAMES_NONE ? 1 : id + units_of(entry_at(names, id)->length);
    while (at < names->units_used) {
        const struct name_entry *entry = entry_at(names, at);
        if (entry->references > 0) {
            return at;
        }
        at += units_of(entry->length);
    }
    return NAMES_NONE;
}
