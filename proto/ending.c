/* Writes and reads the notes of endings: see ending.h. */
#include "proto/ending.h"

#include "lockword_private.h"
#include "proto/frame.h"

#include <string.h>

/*
 * The layout of the words `what` and `hold` of a note. `what` has the kind in the low 8 bits, then
 * a bit that is set if the user is known, and the user in the high 32 bits. `hold` has the low bits
 * of the token and HOLD_NOTED, so that it is never 0 for an exclusive hold. `hold` is 0 for a
 * shared hold, whose note is in its seat.
 */
enum { WHAT_KIND = 0xff, WHAT_USER_KNOWN = 0x100, WHAT_UID_SHIFT = 32 };
#define HOLD_NOTED (UINT64_C(1) << 63)

static uint64_t what_of(const struct hfi_ending *ending)
{
    bool known = ending->uid >= 0 && ending->uid <= UINT32_MAX;
    return (uint64_t)ending->kind |
           (known ? WHAT_USER_KNOWN | (uint64_t)ending->uid << WHAT_UID_SHIFT : 0);
}

/*
 * Writes the slot's note. The swap of the word or the cell, which follows, publishes the note to
 * the process that finds its hold gone. Such a process may read late, while the note of the next
 * hold overwrites the note of its own hold. So the note is a seqlock (Boehm, Can Seqlocks Get Along
 * With Programming Language Memory Models?, 2012). The writer first clears `hold`, which identifies
 * the note. The reader compares `hold` before and after it reads the other fields.
 */
static void write_note(const struct hfi_region *region, uint32_t slot, uint64_t hold,
                       const struct hfi_ending *ending)
{
    struct hfi_ending_note *note = &region->words[slot].ending;
    uint64_t name[HFI_LABEL_MAX / sizeof(uint64_t)] = {0};
    memcpy(name, ending->agent, strnlen(ending->agent, HFI_LABEL_MAX));
    /* relaxed, both: the release stores below publish these two stores */
    atomic_store_explicit(&note->hold, 0, memory_order_relaxed);
    atomic_store_explicit(&note->what, HFI_ENDING_NONE, memory_order_relaxed);
    /* release, all of them: pair with the acquires in hfi_ending_last() and read_rest(), so that a
     * thread that reads one of these values also sees the two stores above */
    atomic_store_explicit(&note->at_ns, (uint64_t)ending->at_ns, memory_order_release);
    for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
        atomic_store_explicit(&note->agent[i], name[i], memory_order_release);
    }
    atomic_store_explicit(&note->what, what_of(ending), memory_order_release);
    /* release: pairs with the acquire in hfi_ending_read() */
    atomic_store_explicit(&note->hold, hold, memory_order_release);
}

void hfi_ending_note(const struct hfi_region *region, uint32_t slot, uint64_t token,
                     const struct hfi_ending *ending)
{
    write_note(region, slot, (token & HFI_W_TOKEN) | HOLD_NOTED, ending);
}

void hfi_ending_forget(const struct hfi_region *region, uint32_t slot)
{
    write_note(region, slot, 0, &(struct hfi_ending){.kind = HFI_ENDING_NONE, .uid = -1});
}

static void note_seat(const struct hfi_region *region, uint32_t seat, uint64_t cell,
                      const struct hfi_ending *ending)
{
    struct hfi_seat *shared = hfi_seat(region, seat);
    /* a seqlock, as in write_note(); no hold has the cell 0 */
    atomic_store_explicit(&shared->ended, 0, memory_order_relaxed);
    atomic_store_explicit(&shared->ending, what_of(ending), memory_order_release);
    atomic_store_explicit(&shared->ended, cell, memory_order_release);
}

void hfi_ending_note_reader(const struct hfi_region *region, uint32_t slot, uint32_t seat,
                            uint64_t cell, const struct hfi_ending *ending)
{
    write_note(region, slot, 0, ending);
    note_seat(region, seat, cell, ending);
}

void hfi_ending_note_all(const struct hfi_region *region, uint32_t slot,
                         const struct hfi_ending *ending)
{
    uint64_t word = atomic_load(&region->words[slot].word);
    bool noted = (word & HFI_W_HOLDER) != 0;
    if (noted) {
        hfi_ending_note(region, slot, word, ending);
    }
    uint32_t block = word & HFI_W_CELLS ? first_block(region, slot) : 0;
    for (uint32_t steps = 0; block != 0 && steps <= region->block_count; steps++) {
        for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
            uint32_t seat = (block - 1) * HFI_BLOCK_SEATS + place;
            uint64_t cell = atomic_load(&hfi_seat(region, seat)->reader);
            if (cell & HFI_CELL_COUNT) {
                note_seat(region, seat, cell, ending);
                if (!noted) {
                    write_note(region, slot, 0, ending);
                }
                noted = true;
            }
        }
        block = next_block(region, block - 1);
    }
}

/* Decodes `what`. Any process can write it, so it may be invalid; in this case the function returns
 * false. */
static bool read_what(uint64_t what, struct hfi_ending *out)
{
    uint64_t kind = what & WHAT_KIND;
    if (kind == HFI_ENDING_NONE || kind >= HFI_ENDING_COUNT) {
        return false;
    }
    out->kind = (enum hfi_ending_kind)kind;
    out->uid = what & WHAT_USER_KNOWN ? (int64_t)(what >> WHAT_UID_SHIFT) : -1;
    return true;
}

static void read_rest(const struct hfi_ending_note *note, struct hfi_ending *out)
{
    uint64_t name[HFI_LABEL_MAX / sizeof(uint64_t)];
    /* acquire, all of them: pair with the release stores in write_note(). The caller's second look
     * at the note's identity stays behind these loads. */
    out->at_ns = (int64_t)(atomic_load_explicit(&note->at_ns, memory_order_acquire) & INT64_MAX);
    for (size_t i = 0; i < sizeof(name) / sizeof(name[0]); i++) {
        name[i] = atomic_load_explicit(&note->agent[i], memory_order_acquire);
    }
    memcpy(out->agent, name, sizeof(name));
    out->agent[HFI_LABEL_MAX] = '\0';
    size_t size = strlen(out->agent);
    if (size > 0 && !hfi_label_check(out->agent, size)) {
        out->agent[0] = '\0';
    }
}

static bool nothing_known(struct hfi_ending *out)
{
    *out = (struct hfi_ending){.uid = -1};
    return false;
}

bool hfi_ending_last(const struct hfi_region *region, uint32_t slot, struct hfi_ending *out)
{
    const struct hfi_ending_note *note = &region->words[slot].ending;
    *out = (struct hfi_ending){.uid = -1};
    /* acquire: pairs with the releases in write_note() */
    uint64_t what = atomic_load_explicit(&note->what, memory_order_acquire);
    if (!read_what(what, out)) {
        return false;
    }
    read_rest(note, out);
    /* relaxed: the acquire loads of read_rest() keep this load behind them; see write_note() */
    return atomic_load_explicit(&note->what, memory_order_relaxed) == what || nothing_known(out);
}

/* Reads the note of a shared hold in its seat. If the slot's note has the same kind and user, takes
 * the time and the administrator's agent from the slot's note. */
static bool read_reader(const struct hfi_region *region, uint32_t slot, uint32_t seat,
                        uint64_t cell, struct hfi_ending *out)
{
    const struct hfi_seat *shared = hfi_seat(region, seat);
    struct hfi_ending last;
    /* acquire, and relaxed below: as in hfi_ending_read() */
    if (atomic_load_explicit(&shared->ended, memory_order_acquire) != cell) {
        return false;
    }
    uint64_t what = atomic_load_explicit(&shared->ending, memory_order_acquire);
    if (atomic_load_explicit(&shared->ended, memory_order_relaxed) != cell ||
        !read_what(what, out)) {
        return false;
    }
    if (hfi_ending_last(region, slot, &last) && last.kind == out->kind && last.uid == out->uid) {
        *out = last;
    }
    return true;
}

bool hfi_ending_read(const struct hfi_region *region, uint32_t slot, uint32_t seat, uint64_t token,
                     uint64_t cell, struct hfi_ending *out)
{
    const struct hfi_ending_note *note = &region->words[slot].ending;
    uint64_t hold = (token & HFI_W_TOKEN) | HOLD_NOTED;
    *out = (struct hfi_ending){.uid = -1};
    if (cell != 0) {
        return seat != HFI_SEAT_NONE && read_reader(region, slot, seat, cell, out);
    }
    /* acquire: pairs with the release in write_note() */
    if (atomic_load_explicit(&note->hold, memory_order_acquire) != hold ||
        !hfi_ending_last(region, slot, out)) {
        return false;
    }
    /* relaxed: the acquire loads of hfi_ending_last() keep this load behind them. If these loads
     * read a field of another hold's note, the writer of that note had cleared `hold` before. */
    return atomic_load_explicit(&note->hold, memory_order_relaxed) == hold || nothing_known(out);
}
