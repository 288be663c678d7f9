/*
 * A heap of times: which of many items is due first. Items are small numbers of the caller's own,
 * its indexes; each stands in the heap at most once, under one time. A look at the first one costs
 * the same with tens of thousands in the heap.
 *
 * A binary heap (Williams 1964) that knows where each item stands: an item is moved or taken out
 * without a search.
 *
 * Pure; memory is the caller's, all 0 at first. One thread.
 */
#ifndef CORE_BASE_HEAP_H
#define CORE_BASE_HEAP_H

#include <stdbool.h>
#include <stdint.h>

enum { HEAP_NONE = UINT32_MAX };

struct heap_entry {
    int64_t when_ns;
    uint32_t item;
};

struct heap {
    struct heap_entry *entries; /* borrowed: room for as many items as are in at one time */
    uint32_t *indexes;          /* borrowed: by item, its index in entries and 1; 0: it is not in */
    uint32_t count;
};

/* Puts the item in, or moves it, under that time. */
void heap_set(struct heap *heap, uint32_t item, int64_t when_ns);

/* Takes the item out, if it is in. */
void heap_remove(struct heap *heap, uint32_t item);

static inline bool heap_has(const struct heap *heap, uint32_t item)
{
    return heap->indexes[item] != 0;
}

/* The item's time; INT64_MAX: it is not in. */
int64_t heap_when_ns(const struct heap *heap, uint32_t item);

/* The item that is due first, of several at one time any; HEAP_NONE: the heap is empty. */
uint32_t heap_first(const struct heap *heap);

/* When that is; INT64_MAX: the heap is empty. */
int64_t heap_first_ns(const struct heap *heap);

/* HF_CHECK fails if the heap contradicts itself. For tests. */
void heap_check_invariants(const struct heap *heap);

#endif
