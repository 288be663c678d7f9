/* The notes on holds, by handle: see notes.h. */
#include "notes.h"

enum { HANDLES_PER_NOTE = 16 };

/* A note, in the list of its bucket or in the list of free entries. */
struct note_entry {
    uint32_t handle;
    uint32_t next; /* NONE: the last one */
    int64_t account;
    uint64_t mark; /* the hold that keeps the note before; 0: none */
    uint16_t size;
    uint16_t before_size;
    char text[HFI_FRAME_NOTE_MAX];
    char before[HFI_FRAME_NOTE_MAX]; /* the note of the hold that has the mark */
};

struct notes {
    struct note_entry *entries;
    uint32_t *buckets; /* by handle % room: the first entry, or NONE */
    uint32_t room;
    uint32_t free; /* the first free entry, or NONE */
    uint32_t end;  /* entries from this index on were never used */
    uint32_t count;
};

static uint32_t room_of(const struct host_config *config)
{
    uint32_t room = (config->limits.handles + HANDLES_PER_NOTE - 1) / HANDLES_PER_NOTE;
    return room < NOTES_MAX ? room : NOTES_MAX;
}

struct notes *notes_lay_out(struct arena *arena, const struct host_config *config)
{
    struct notes *notes = arena_take(arena, 1, sizeof(*notes));
    ARENA_TAKE(arena, notes, entries, room_of(config));
    ARENA_TAKE(arena, notes, buckets, room_of(config));
    return notes;
}

void notes_init(struct host *host)
{
    host->notes->room = room_of(&host->config);
    host->notes->free = NONE;
    for (uint32_t i = 0; i < host->notes->room; i++) {
        host->notes->buckets[i] = NONE;
    }
}

static uint32_t *bucket_of(const struct host *host, uint32_t handle)
{
    return &host->notes->buckets[handle % host->notes->room];
}

static struct note_entry *entry_of(const struct host *host, uint32_t handle)
{
    uint32_t at = *bucket_of(host, handle);
    for (uint32_t i = 0; at != NONE && i < host->notes->room; i++) {
        if (host->notes->entries[at].handle == handle) {
            return &host->notes->entries[at];
        }
        at = host->notes->entries[at].next;
    }
    return NULL;
}

uint32_t notes_room(const struct host *host)
{
    return host->notes->room;
}

uint32_t notes_share(const struct host *host)
{
    return (host->notes->room + 1) / 2;
}

uint32_t notes_count(const struct host *host)
{
    return host->notes->count;
}

/* Returns whether the account may have one more note. */
static bool may_have(const struct host *host, int64_t account)
{
    const struct notes *notes = host->notes;
    uint32_t has = 0;
    if (account == 0 || notes->count < notes_share(host)) {
        return true;
    }
    for (uint32_t i = 0; i < notes->end; i++) {
        has += notes->entries[i].handle != NONE && notes->entries[i].account == account;
    }
    return has < notes_share(host);
}

/* Makes an empty entry. Returns NULL if there is no room. */
static struct note_entry *entry_new(struct host *host, uint32_t handle, int64_t account)
{
    struct notes *notes = host->notes;
    uint32_t at = notes->free;
    if (!may_have(host, account) || (at == NONE && notes->end == notes->room)) {
        return NULL;
    }
    if (at != NONE) {
        notes->free = notes->entries[at].next;
    } else {
        at = notes->end++;
    }
    struct note_entry *entry = &notes->entries[at];
    entry->handle = handle;
    entry->account = account;
    entry->mark = 0;
    entry->size = 0;
    entry->before_size = 0;
    entry->next = *bucket_of(host, handle);
    *bucket_of(host, handle) = at;
    notes->count++;
    return entry;
}

void notes_drop(struct host *host, uint32_t handle)
{
    struct notes *notes = host->notes;
    uint32_t *link = bucket_of(host, handle);
    for (uint32_t i = 0; *link != NONE && i < notes->room; i++) {
        uint32_t at = *link;
        struct note_entry *entry = &notes->entries[at];
        if (entry->handle == handle) {
            *link = entry->next;
            entry->handle = NONE;
            entry->next = notes->free;
            notes->free = at;
            notes->count--;
            return;
        }
        link = &entry->next;
    }
}

bool notes_set(struct host *host, uint32_t handle, int64_t account, struct hfi_text text,
               uint64_t mark)
{
    struct note_entry *entry = entry_of(host, handle);
    HF_CHECK(text.size <= HFI_FRAME_NOTE_MAX);
    if (text.size == 0 && (entry == NULL || mark == 0)) {
        notes_drop(host, handle);
        return true;
    }
    entry = entry != NULL ? entry : entry_new(host, handle, account);
    if (entry == NULL) {
        return false;
    }
    if (mark == 0) {
        entry->mark = 0;
    } else if (mark != entry->mark) {
        /* the note was not changed yet since this hold began */
        entry->mark = mark;
        entry->before_size = entry->size;
        memcpy(entry->before, entry->text, entry->size);
    }
    entry->size = (uint16_t)text.size;
    if (text.size > 0) {
        memcpy(entry->text, text.bytes, text.size);
    }
    return true;
}

struct hfi_text notes_of(const struct host *host, uint32_t handle, uint64_t mark)
{
    const struct note_entry *entry = entry_of(host, handle);
    if (entry == NULL) {
        return (struct hfi_text){NULL, 0};
    }
    return mark != 0 && mark == entry->mark ? (struct hfi_text){entry->before, entry->before_size}
                                            : (struct hfi_text){entry->text, entry->size};
}
