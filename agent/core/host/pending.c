/* OPENs that are not answered yet: see pending.h. */
#include "pending.h"

#include "handles.h"
#include "locks.h"

struct pending_entry {
    struct pending_open open;
    bool used;
};

struct pending {
    uint32_t count;
    uint32_t end; /* one more than the index of the last used entry */
    struct pending_entry table[PENDING_MAX];
};

struct pending *pending_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct pending));
}

uint32_t pending_end(const struct host *host)
{
    return host->pending->end;
}

bool pending_read(const struct host *host, uint32_t index, struct pending_open *out)
{
    *out = host->pending->table[index].open;
    return host->pending->table[index].used;
}

void pending_set_due(struct host *host, uint32_t index, int64_t due_ns)
{
    host->pending->table[index].open.due_ns = due_ns;
}

void pending_set_ready(struct host *host, uint32_t index, int32_t error)
{
    host->pending->table[index].open.ready = true;
    host->pending->table[index].open.error = error;
}

void pending_forget(struct host *host, uint32_t handle)
{
    for (uint32_t i = 0; i < host->pending->end; i++) {
        if (host->pending->table[i].used && host->pending->table[i].open.handle == handle) {
            pending_drop(host, i);
        }
    }
}

/* Returns whether the entry has an OPEN of that lock. */
static bool waits_for(const struct host *host, const struct pending_entry *entry,
                      struct lock_ref at)
{
    struct lock_ref its = handle_lock(host, entry->open.handle);
    return entry->used && its.space == at.space && its.slot == at.slot;
}

bool pending_is_for(const struct host *host, struct lock_ref at)
{
    for (uint32_t i = 0; i < host->pending->end; i++) {
        const struct pending_entry *entry = &host->pending->table[i];
        if (!entry->open.ready && waits_for(host, entry, at)) {
            return true;
        }
    }
    return false;
}

void pending_check(const struct host *host)
{
    uint32_t count = 0;
    /* a used entry behind `end` is not counted here, so the counts differ */
    for (uint32_t i = 0; i < host->pending->end; i++) {
        const struct pending_entry *entry = &host->pending->table[i];
        if (entry->used) {
            count++;
            HF_CHECK(entry->open.handle < handles_end(host));
            HF_CHECK(handle_flags(host, entry->open.handle) & HANDLE_USED);
        }
    }
    HF_CHECK(count == host->pending->count);
    HF_CHECK(host->pending->end == 0 || host->pending->table[host->pending->end - 1].used);
}

void pending_drop(struct host *host, uint32_t index)
{
    struct pending *pending = host->pending;
    pending->table[index].used = false;
    pending->count--;
    while (pending->end > 0 && !pending->table[pending->end - 1].used) {
        pending->end--;
    }
}

bool pending_add(struct host *host, uint32_t handle, uint64_t request)
{
    struct pending *pending = host->pending;
    for (uint32_t i = 0; i < PENDING_MAX; i++) {
        if (!pending->table[i].used) {
            pending->table[i].used = true;
            pending->table[i].open = (struct pending_open){
                .request = request,
                .due_ns = host->now_ns + PENDING_ANSWER_MS * MS,
                .handle = handle,
            };
            pending->count++;
            pending->end = i < pending->end ? pending->end : i + 1;
            return true;
        }
    }
    return false;
}

void pending_resolve(struct host *host, struct lock_ref at, int32_t error)
{
    for (uint32_t i = 0; i < host->pending->end; i++) {
        const struct pending_entry *entry = &host->pending->table[i];
        if (waits_for(host, entry, at) &&
            (error != 0 ||
             handle_delay_ms(host, entry->open.handle) <= lock_covered_ms(host, at))) {
            pending_set_ready(host, i, error);
            if (error == HF_EFULL) {
                host->pending->table[i].open.full = *full_last(host);
            }
        }
    }
}

void pending_give_up(struct host *host, struct lock_ref at)
{
    for (uint32_t i = 0; i < host->pending->end; i++) {
        struct pending_entry *entry = &host->pending->table[i];
        entry->open.ready = entry->open.ready || waits_for(host, entry, at);
    }
}
