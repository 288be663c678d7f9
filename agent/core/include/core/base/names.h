/*
 * Names: each lock name is kept once, and known by a number while it is.
 *
 * The quorum core hangs its registers on names, the host core its locks; a name goes when both
 * have let go of it. Entries lie in one arena, each as long as its name needs: a name of 32 bytes
 * costs 52 bytes and about 4 for its bucket. An id is the entry's place, so it never changes while
 * the name lives and may be given to another name afterwards.
 *
 * The table of buckets grows by one bucket for each name (linear hashing, Litwin 1980), so memory
 * that nobody used is never touched and no insertion takes long.
 *
 * Relies on nothing but the caller's memory. One thread.
 */
#ifndef CORE_NAMES_H
#define CORE_NAMES_H

#include <stddef.h>
#include <stdint.h>

struct names;

enum {
    NAMES_LENGTH_MAX = 255,
    NAMES_NONE = 0, /* no name; no register; no lock */
    NAMES_COUNT_MAX = 1 << 25,
};

/* The bytes of memory that names_init needs for so many names, at most NAMES_COUNT_MAX, however
 * long. Most of it is never touched. */
size_t names_size(uint32_t count_max);

/* Makes an empty table in memory (zeroed, names_size() bytes, aligned to 8; borrowed for good).
 * seed is random: it keeps strangers from choosing names that share a bucket. Never fails. */
struct names *names_init(void *memory, uint32_t count_max, uint64_t seed);

/* So many names are about to come: an empty table has buckets for them at once, where each name
 * would else move others. A hint; an agent that starts has it from its store. */
void names_expect(struct names *names, uint64_t count);

/* The id of that name, NAMES_NONE if it is not there. length 1 to NAMES_LENGTH_MAX. */
uint32_t names_find(const struct names *names, const void *bytes, size_t length);

/* The id of that name, made if it is not there, with one more reference for the caller.
 * NAMES_NONE: the table is full; nothing was changed. */
uint32_t names_hold(struct names *names, const void *bytes, size_t length)
    __attribute__((warn_unused_result));

/* One more reference to a name that has one. */
void names_hold_id(struct names *names, uint32_t id);

/* One reference less; the last one takes the name away. */
void names_drop(struct names *names, uint32_t id);

/* The name's bytes (not terminated); theirs is the table, until the name goes. */
const uint8_t *names_bytes(const struct names *names, uint32_t id, size_t *length);

/* The two cores' own indexes on a name, NAMES_NONE at first. */
uint32_t names_register(const struct names *names, uint32_t id);
void names_set_register(struct names *names, uint32_t id, uint32_t index);
uint32_t names_lock(const struct names *names, uint32_t id);
void names_set_lock(struct names *names, uint32_t id, uint32_t index);

/* How many names there are. */
uint32_t names_count(const struct names *names);

/* The name after id (from NAMES_NONE: the first), in no order that means anything; NAMES_NONE at
 * the end. Names may come and go meanwhile. */
uint32_t names_next(const struct names *names, uint32_t id);

/* The same on every host: decides the partition of a name, 0 to 255. */
uint32_t names_partition(const void *bytes, size_t length);

#endif
