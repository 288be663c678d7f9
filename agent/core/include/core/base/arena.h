/*
 * An arena: one block of memory, cut into parts from its beginning. A core's layout function runs
 * twice: first without memory, to learn the size of the block, then with the block.
 *
 * Invariants: no two parts overlap. Each part begins at a multiple of ARENA_ALIGNMENT from the
 * beginning of the block.
 *
 * Pure. The caller owns the memory, and zeroes it.
 */
#ifndef CORE_BASE_ARENA_H
#define CORE_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

/* a cache line in bytes; each part is aligned to it, from the beginning of the block */
enum { ARENA_ALIGNMENT = 64 };

struct arena {
    uint8_t *base; /* NULL: only the size is wanted */
    size_t used;
};

/* Takes the next part, with room for count elements of that size. Returns NULL if the arena has no
 * memory. */
static inline void *arena_take(struct arena *arena, size_t count, size_t size)
{
    size_t at = (arena->used + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    arena->used = at + count * size;
    return arena->base != NULL ? arena->base + at : NULL;
}

/* Takes a part of count elements for owner->field, and points the field to it. Does not touch the
 * owner while only the size is wanted. */
#define ARENA_TAKE(arena, owner, field, count)                                                     \
    do {                                                                                           \
        void *part = arena_take(arena, count, sizeof(*(owner)->field));                            \
        if ((arena)->base != NULL) {                                                               \
            (owner)->field = part;                                                                 \
        }                                                                                          \
    } while (0)

#endif
