/*
 * Names: the table stores each lock name once, and gives it a number (its id) while the name is in
 * use.
 *
 * The quorum core attaches its registers to names, the host core its locks. A name is removed when
 * neither core refers to it any more. Entries lie in one arena, each as long as its name needs: a
 * name of 32 bytes costs 48 bytes, and about 4 for its bucket. An id is the entry's position. So it
 * never changes while the name lives, and may belong to another name later.
 *
 * The table of buckets grows by one bucket for each name (linear hashing, Litwin 1980). So no
 * insertion takes long, and memory that is not needed is never touched.
 *
 * Invariants: no two ids have the same name. A name stays in the table as long as somebody has a
 * reference to it.
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

/* Returns how many bytes of memory names_init() needs for count_max names of any length. count_max
 * is at most NAMES_COUNT_MAX. Most of the memory is never touched. */
size_t names_size(uint32_t count_max);

/* Makes an empty table in `memory`, which must be zeroed, names_size() bytes long and aligned to 8.
 * The table borrows the memory for good. seed must be random, so that strangers cannot choose names
 * that share a bucket. Never fails. */
struct names *names_init(void *memory, uint32_t count_max, uint64_t seed);

/* Announces that `count` names will be added. If the table is empty, it gets all their buckets at
 * once, so later insertions need not move names. This is only a hint. An agent that starts knows
 * the number from its store. */
void names_expect(struct names *names, uint64_t count);

/* The id of that name; NAMES_NONE if it is not in the table. length is 1 to NAMES_LENGTH_MAX. */
uint32_t names_find(const struct names *names, const void *bytes, size_t length);

/* Returns the id of that name, and adds the name if it is new. The caller gets one more reference
 * to the name. If the table is full, changes nothing and returns NAMES_NONE. */
uint32_t names_hold(struct names *names, const void *bytes, size_t length)
    __attribute__((warn_unused_result));

/* Removes a reference. The name is removed with its last reference. */
void names_drop(struct names *names, uint32_t id);

/* The name's bytes, not terminated. They belong to the table, and are valid until the name is
 * removed. */
const uint8_t *names_bytes(const struct names *names, uint32_t id, size_t *length);

/* Each of the two cores attaches an index to a name (NAMES_NONE at first): the quorum core attaches
 * the index of the name's register, and the host core the index of the name's lock. */
uint32_t names_register(const struct names *names, uint32_t id);
void names_set_register(struct names *names, uint32_t id, uint32_t index);
uint32_t names_lock(const struct names *names, uint32_t id);
void names_set_lock(struct names *names, uint32_t id, uint32_t index);

/* Returns the name after id, or the first name if id is NAMES_NONE; NAMES_NONE at the end. The
 * order is arbitrary. Names may come and go during the walk. */
uint32_t names_next(const struct names *names, uint32_t id);

/* The partition of a name, 0 to 255. It is the same on every host. */
uint32_t names_partition(const void *bytes, size_t length);

#endif
