/*
 * An arena: one block of memory, cut into parts from its beginning. The function that lays out what
 * a core keeps runs twice: without memory, to learn how large the block has to be, and with it.
 *
 * Pure. The memory is the caller's, zeroed.
 */
#ifndef CORE_BASE_ARENA_H
#define CORE_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>

enum { ARENA_ALIGNMENT = 64 }; /* a cache line: of the distance from the beginning */

struct arena {
    uint8_t *base; /* NULL: only the size is wanted */
    size_t used;
};

/* The next part: so many of that size; NULL if the arena has no memory. */
static inline void *arena_take(struct arena *arena, size_t count, size_t size)
{
    size_t at = (arena->used + ARENA_ALIGNMENT - 1) / ARENA_ALIGNMENT * ARENA_ALIGNMENT;
    arena->used = at + count * size;
    return arena->base != NULL ? arena->base + at : NULL;
}

#endif
