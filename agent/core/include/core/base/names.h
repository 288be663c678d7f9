/*
 * Names: each lock name is stored once, and has a number (its id) while it is in use.
 *
 * The quorum core attaches its registers to names, the host core its locks. A name is removed when
 * neither refers to it any more. Entries lie in one arena, each as long as its name needs: a name
 * of 32 bytes costs 52 bytes, and about 4 for its bucket. An id is the entry's position. So it
 * never changes while the name lives, and may belong to another name later.
 *
 * The table of buckets grows by one bucket for each name (linear hashing, Litwin 1980). So no
 * insertion takes long, and memory that is not needed is never touched.
 *
 * Uses only the caller's memory. One thread.
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

/* Returns how many bytes of memory names_init() needs for so many names of any length; count_max is
 * at most NAMES_COUNT_MAX. Most of the memory is never touched. */
size_t names_size(uint32_t count_max);

/* Makes an empty table in memory, which must be zeroed, names_size() bytes long and aligned to 8;
 * it is borrowed for good. seed must be random, so that strangers cannot choose names that share a
 * bucket. Never fails. */
struct names *names_init(void *memory, uint32_t count_max, uint64_t seed);

/* Announces that so many names will be added. An empty table then gets all their buckets at once,
 * so later insertions need not move names. Only a hint; an agent that starts knows the number from
 * its store. */
void names_expect(struct names *names, uint64_t count);

/* The id of that name; NAMES_NONE if it is not in the table. length is 1 to NAMES_LENGTH_MAX. */
uint32_t names_find(const struct names *names, const void *bytes, size_t length);

/* The id of that name, which is added if it is new. The caller gets one more reference to it.
 * Returns NAMES_NONE if the table is full; nothing has changed then. */
uint32_t names_hold(struct names *names, const void *bytes, size_t length)
    __attribute__((warn_unused_result));

/* Adds a reference to a name that has at least one. */
void names_hold_id(struct names *names, uint32_t id);

/* Removes a reference. When the last one goes, the name is removed. */
void names_drop(struct names *names, uint32_t id);

/* The name's bytes, not terminated. They belong to the table, and are valid until the name is
 * removed. */
const uint8_t *names_bytes(const struct names *names, uint32_t id, size_t *length);

/* For each of the two cores, the index that it has attached to a name; NAMES_NONE at first. */
uint32_t names_register(const struct names *names, uint32_t id);
void names_set_register(struct names *names, uint32_t id, uint32_t index);
uint32_t names_lock(const struct names *names, uint32_t id);
void names_set_lock(struct names *names, uint32_t id, uint32_t index);

/* Returns how many names there are. */
uint32_t names_count(const struct names *names);

/* The name after id, or the first one after NAMES_NONE, in an arbitrary order; NAMES_NONE at the
 * end. Names may come and go during the walk. */
uint32_t names_next(const struct names *names, uint32_t id);

/* The partition of a name, 0 to 255. It is the same on every host. */
uint32_t names_partition(const void *bytes, size_t length);

#endif
