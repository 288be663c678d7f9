/*
 * A heap of times: which of many items is due first. An item is a small number that the caller
 * chooses, for example an index. A look at the first item costs the same however many items there
 * are.
 *
 * Invariants: each item is in the heap at most once, with one time. No item is due before the item
 * above it, so the item at the top is due first.
 *
 * This is a binary heap (Williams 1964) that knows the position of each item, so an item is moved
 * or removed without a search.
 *
 * Pure. The caller owns the memory, which is all 0 at first. One thread. struct heap is in this
 * header because callers embed it; they read and write it only by the calls below.
 */
#ifndef CORE_BASE_HEAP_H
#define CORE_BASE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/arena.h"

enum { HEAP_NONE = UINT32_MAX };

struct heap_entry {
    int64_t when_ns;
    uint32_t item;
};

struct heap {
    /* borrowed; has room for all items that are in the heap at one time */
    struct heap_entry *entries;
    /* borrowed; by item: its index in entries plus one; 0: the heap does not have it */
    uint32_t *indexes;
    uint32_t count;
};

/* Takes the memory of owner->heap from an arena, for the items 0 to items - 1. */
#define HEAP_TAKE(arena, owner, heap, items)                                                       \
    do {                                                                                           \
        ARENA_TAKE(arena, owner, heap.entries, items);                                             \
        ARENA_TAKE(arena, owner, heap.indexes, items);                                             \
    } while (0)

/* Adds the item with that time, or changes its time. */
void heap_set(struct heap *heap, uint32_t item, int64_t when_ns);

/* Removes the item, if the heap has it. */
void heap_remove(struct heap *heap, uint32_t item);

/* Removes each item for which stays() returns false. */
void heap_filter(struct heap *heap, bool stays(const void *arg, uint32_t item), const void *arg);

/* Returns the number of items that the heap has. */
uint32_t heap_count(const struct heap *heap);

static inline bool heap_has(const struct heap *heap, uint32_t item)
{
    return heap->indexes[item] != 0;
}

/* Returns the item's time; INT64_MAX if the heap does not have the item. */
int64_t heap_when_ns(const struct heap *heap, uint32_t item);

/* Returns an item with the earliest time; HEAP_NONE if the heap is empty. */
uint32_t heap_first(const struct heap *heap);

/* The earliest time; INT64_MAX if the heap is empty. */
int64_t heap_first_ns(const struct heap *heap);

/* Fails (HF_CHECK) if the heap contradicts itself. For tests. */
void heap_check_invariants(const struct heap *heap);

#endif
