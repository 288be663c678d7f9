/* A heap of times: see core/base/heap.h. */
#include "core/base/heap.h"

#include "proto/check.h"

static void put(struct heap *heap, uint32_t index, struct heap_entry entry)
{
    heap->entries[index] = entry;
    heap->indexes[entry.item] = index + 1;
}

/* Puts the entry into the heap. Starts at the free index `index`, and moves other entries until the
 * heap is in order again. */
static void settle(struct heap *heap, uint32_t index, struct heap_entry entry)
{
    while (index > 0 && heap->entries[(index - 1) / 2].when_ns > entry.when_ns) {
        put(heap, index, heap->entries[(index - 1) / 2]);
        index = (index - 1) / 2;
    }
    for (uint32_t child = 2 * index + 1; child < heap->count; child = 2 * index + 1) {
        if (child + 1 < heap->count &&
            heap->entries[child + 1].when_ns < heap->entries[child].when_ns) {
            child++;
        }
        if (heap->entries[child].when_ns >= entry.when_ns) {
            break;
        }
        put(heap, index, heap->entries[child]);
        index = child;
    }
    put(heap, index, entry);
}

void heap_set(struct heap *heap, uint32_t item, int64_t when_ns)
{
    uint32_t index = heap_has(heap, item) ? heap->indexes[item] - 1 : heap->count++;
    settle(heap, index, (struct heap_entry){when_ns, item});
}

void heap_remove(struct heap *heap, uint32_t item)
{
    if (!heap_has(heap, item)) {
        return;
    }
    uint32_t index = heap->indexes[item] - 1;
    struct heap_entry last = heap->entries[--heap->count];
    heap->indexes[item] = 0;
    if (last.item != item) {
        settle(heap, index, last);
    }
}

/* Empties the heap, and puts back the items that stay. Each entry is read before an entry that is
 * put back can overwrite it. */
void heap_filter(struct heap *heap, bool stays(const void *arg, uint32_t item), const void *arg)
{
    uint32_t count = heap->count;
    heap->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct heap_entry entry = heap->entries[i];
        heap->indexes[entry.item] = 0;
        if (stays(arg, entry.item)) {
            heap_set(heap, entry.item, entry.when_ns);
        }
    }
}

uint32_t heap_count(const struct heap *heap)
{
    return heap->count;
}

int64_t heap_when_ns(const struct heap *heap, uint32_t item)
{
    return heap_has(heap, item) ? heap->entries[heap->indexes[item] - 1].when_ns : INT64_MAX;
}

uint32_t heap_first(const struct heap *heap)
{
    return heap->count == 0 ? HEAP_NONE : heap->entries[0].item;
}

int64_t heap_first_ns(const struct heap *heap)
{
    return heap->count == 0 ? INT64_MAX : heap->entries[0].when_ns;
}

void heap_check_invariants(const struct heap *heap)
{
    for (uint32_t i = 0; i < heap->count; i++) {
        const struct heap_entry *entry = &heap->entries[i];
        HF_CHECK(heap->indexes[entry->item] == i + 1);
        HF_CHECK(i == 0 || heap->entries[(i - 1) / 2].when_ns <= entry->when_ns);
    }
}
