/* The notes about requests that are kept for the next agent: see kept.h. */
#include "kept.h"

enum {
    SLOT_MASK = (1 << 23) - 1, /* host_kept.slot has 23 bits, and a slot's number fits into 22 */
    ID_LOWER_BITS = 48,
};
static const uint64_t ID_LOWER = (UINT64_C(1) << ID_LOWER_BITS) - 1;

struct kept {
    struct host_kept *notes; /* by a request's index; borrowed, in memory that outlives the agent */
    uint32_t count;
};

struct kept *kept_lay_out(struct arena *arena)
{
    return arena_take(arena, 1, sizeof(struct kept));
}

void host_set_kept(struct host *host, struct host_kept *kept, uint32_t count)
{
    HF_CHECK(!host->started);
    *host->kept = (struct kept){.notes = kept, .count = count};
}

void kept_write(struct host *host, uint32_t index, const struct kept_note *from)
{
    if (index >= host->kept->count) {
        return; /* there is no room for a note of this request */
    }
    struct host_kept *note = &host->kept->notes[index];
    /* seq_cst: this process may be killed at any point. If since_ns is not 0, the next agent must
     * find a complete note. No other process reads the note while this process lives. */
    atomic_store(&note->since_ns, 0);
    note->ballot = from->known ? from->returned.ballot : from->id & ID_LOWER;
    note->sequence = from->known ? from->returned.sequence : from->id >> ID_LOWER_BITS;
    note->space = (uint16_t)from->at.space;
    note->slot = from->at.slot & SLOT_MASK;
    note->name_hash = from->name_hash;
    note->known = from->known;
    atomic_store(&note->since_ns, from->since_ns);
}

void kept_forget(struct host *host, uint32_t index)
{
    if (index < host->kept->count) {
        atomic_store(&host->kept->notes[index].since_ns, 0); /* seq_cst: see kept_write() */
    }
}

uint32_t kept_count(const struct host *host)
{
    return host->kept->count;
}

bool kept_read(const struct host *host, uint32_t index, struct kept_note *out)
{
    const struct host_kept *note = &host->kept->notes[index];
    int64_t since_ns = atomic_load(&note->since_ns); /* seq_cst: see kept_write() */
    /* A note without `known` has an id, unless its `ballot`, which has the lower bits of the id, is
     * 0: an earlier release wrote no id. */
    bool has_id = !note->known && note->ballot != 0;
    *out = (struct kept_note){
        .since_ns = since_ns,
        .name_hash = note->name_hash,
        .at = {note->space, note->slot},
        .known = note->known,
        .returned = {note->ballot, note->sequence},
        .id = has_id ? (uint64_t)note->sequence << ID_LOWER_BITS | note->ballot : 0,
    };
    return since_ns != 0;
}
