/* Openings: see openings.h. */
#include "openings.h"

#include "core/base/heap.h"
#include "locks.h"

struct openings {
    /* the locks, as item_of() numbers them, by the time at which to look at them */
    struct heap heap;
};

struct openings *openings_lay_out(struct arena *arena, const struct host_config *config)
{
    struct openings *openings = arena_take(arena, 1, sizeof(*openings));
    size_t locks = (size_t)config->limits.locks * config->namespace_count;
    ARENA_TAKE(arena, openings, heap.entries, locks);
    ARENA_TAKE(arena, openings, heap.indexes, locks);
    return openings;
}

static uint32_t item_of(const struct host *host, struct lock_ref at)
{
    return at.space * host->config.limits.locks + at.slot;
}

static struct lock_ref lock_of(const struct host *host, uint32_t item)
{
    return (struct lock_ref){item / host->config.limits.locks, item % host->config.limits.locks};
}

bool opening_is_due(const struct host *host, struct lock_ref at)
{
    return heap_has(&host->openings->heap, item_of(host, at));
}

void opening_add(struct host *host, struct lock_ref at, int64_t due_ns)
{
    /* The lock may still have an entry from an earlier closing that ended before its time. The new
     * closing may be over before the time of that old entry. */
    if (due_ns < heap_when_ns(&host->openings->heap, item_of(host, at)) ||
        !opening_is_due(host, at)) {
        heap_set(&host->openings->heap, item_of(host, at), due_ns);
    }
}

/* Takes out of the heap each lock for which stays() returns false. It empties the heap, and puts
 * back the locks that stay. Each entry is read before an entry that is put back can overwrite
 * it. */
static void openings_filter(struct host *host,
                            bool stays(const struct host *, struct lock_ref, uint32_t),
                            uint32_t space)
{
    struct heap *heap = &host->openings->heap;
    uint32_t count = heap->count;
    heap->count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct heap_entry entry = heap->entries[i];
        heap->indexes[entry.item] = 0;
        if (stays(host, lock_of(host, entry.item), space)) {
            heap_set(heap, entry.item, entry.when_ns);
        }
    }
}

static bool is_closed(const struct host *host, struct lock_ref at, uint32_t space)
{
    (void)space;
    return atomic_load(lock_word(host, at)) & HFI_W_CLOSED;
}

static bool is_of_other_space(const struct host *host, struct lock_ref at, uint32_t space)
{
    (void)host;
    return at.space != space;
}

void openings_forget(struct host *host)
{
    openings_filter(host, is_closed, 0);
}

void openings_leave(struct host *host, uint32_t space)
{
    openings_filter(host, is_of_other_space, space);
}

int64_t openings_due_ns(const struct host *host)
{
    return heap_first_ns(&host->openings->heap);
}

struct lock_ref opening_take(struct host *host)
{
    uint32_t item = heap_first(&host->openings->heap);
    HF_CHECK(item != HEAP_NONE);
    heap_remove(&host->openings->heap, item);
    return lock_of(host, item);
}

void openings_check(const struct host *host)
{
    heap_check_invariants(&host->openings->heap);
}
