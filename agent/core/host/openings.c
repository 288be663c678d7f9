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
    HEAP_TAKE(arena, openings, heap, locks);
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

static bool is_closed(const void *arg, uint32_t item)
{
    const struct host *host = arg;
    return atomic_load(lock_word(host, lock_of(host, item))) & HFI_W_CLOSED;
}

void openings_forget(struct host *host)
{
    heap_filter(&host->openings->heap, is_closed, host);
}

struct openings_left {
    const struct host *host;
    uint32_t space;
};

static bool is_of_other_space(const void *arg, uint32_t item)
{
    const struct openings_left *left = arg;
    return lock_of(left->host, item).space != left->space;
}

void openings_leave(struct host *host, uint32_t space)
{
    heap_filter(&host->openings->heap, is_of_other_space, &(struct openings_left){host, space});
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
