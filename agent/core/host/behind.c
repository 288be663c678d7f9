/* Records whose hold ended, for each lock that was closed or broken: see behind.h. */
#include "behind.h"

#include "core/gossip.h"
#include "proto/ending.h"
#include "proto/region.h"

enum { VIEWS_MAX = 256 }; /* the most items of gossip that are read for one note */

struct behind_entry {
    struct message_name name; /* length 0: the entry is free */
    struct behind_note note;
};

struct behind {
    struct behind_entry entries[BEHIND_MAX];
};

struct behind *behind_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct behind));
}

/* hfi_name_hash() mixes all characters into the low bits. */
static uint32_t index_of(const uint8_t *name, size_t size)
{
    return (uint32_t)(hfi_name_hash((const char *)name, size) % BEHIND_MAX);
}

static bool is_of(const struct behind_entry *entry, const uint8_t *name, size_t size)
{
    return size > 0 && entry->name.length == size && memcmp(entry->name.bytes, name, size) == 0;
}

void behind_keep(struct host *host, const struct message_name *name, const struct behind_note *note)
{
    struct behind_entry *entry = &host->behind->entries[index_of(name->bytes, name->length)];
    entry->name = *name;
    entry->note = *note;
}

/* Fills in the process: the first holder in the agent's last report, if there is one. */
static void add_process(const struct host *host, const struct message_name *name,
                        struct gossip_last *last)
{
    struct gossip_view view;
    uint32_t at = 0;
    for (uint32_t i = 0; host->gossip != NULL && i < VIEWS_MAX; i++) {
        if (!gossip_lock_next(host->gossip, name->bytes, name->length, host->now_ns, &at, &view)) {
            return;
        }
        if (memcmp(&view.agent, &last->agent, sizeof(view.agent)) == 0) {
            if (view.lock.holder_count > 0) {
                const struct gossip_holder *holder = &view.lock.holders[0];
                last->pid = holder->pid;
                last->uid = holder->uid;
                memcpy(last->command, holder->command, sizeof(last->command));
                memcpy(last->note, holder->note, sizeof(last->note));
            }
            return;
        }
    }
}

void behind_keep_elsewhere(struct host *host, const struct message_name *name,
                           const struct message_agent *agent, uint32_t closed_ms)
{
    struct behind_note note = {
        .until_ns = host->now_ns + (int64_t)closed_ms * MS,
        .at_ns = -1,
        .elsewhere = true,
        .last = {.agent = *agent, .pid = -1, .uid = -1, .ending = HFI_ENDING_SESSION, .by_uid = -1},
    };
    add_process(host, name, &note.last);
    behind_keep(host, name, &note);
}

void behind_forget(struct host *host, const struct message_name *name)
{
    struct behind_entry *entry = &host->behind->entries[index_of(name->bytes, name->length)];
    if (is_of(entry, name->bytes, name->length)) {
        entry->name.length = 0;
    }
}

const struct behind_note *behind_find(const struct host *host, const uint8_t *name, size_t size)
{
    const struct behind_entry *entry = &host->behind->entries[index_of(name, size)];
    return is_of(entry, name, size) && entry->note.until_ns > host->now_ns ? &entry->note : NULL;
}

void behind_last(const struct host *host, const struct behind_note *note, struct gossip_last *out)
{
    *out = note->last;
    out->ended_ms = note->at_ns < 0 ? -1 : (host->now_ns - note->at_ns) / MS;
}
