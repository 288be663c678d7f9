/*
 * Endings: why the agent took a hold away, noted in the region for the hold's own process.
 *
 * The agent writes a note before the swap that takes the hold away. So a process that finds its
 * hold gone finds the note, too, without a message and also if the agent ends at that moment. The
 * note names the hold, by its token or its reader's cell: an older note is not taken for this one.
 * A note that is written over while it is read counts as none.
 *
 * A note is for people alone. Every process of the namespace can write it, so it may mislead them
 * about the reason. Whether a hold counts never depends on it. A region of an earlier release has
 * zeros there, which mean that nothing is noted.
 */
#ifndef PROTO_ENDING_H
#define PROTO_ENDING_H

#include "proto/region.h"

/* Why a hold was taken away. The numbers are in regions, so they never change. */
enum hfi_ending_kind {
    HFI_ENDING_NONE = 0, /* nothing is noted */
    HFI_ENDING_PROCESS,  /* its process ended, or dropped the hold without a release */
    HFI_ENDING_BROKEN,   /* an administrator broke it */
    HFI_ENDING_LEASE,    /* its fixed lease ended */
    HFI_ENDING_STALL,    /* its max_stall was exceeded */
    HFI_ENDING_SESSION,  /* the session of its host was over */
    HFI_ENDING_DAMAGE,   /* the region contradicted what the agent knows */
    HFI_ENDING_COUNT,
};

struct hfi_ending {
    enum hfi_ending_kind kind;
    int64_t at_ns; /* CLOCK_BOOTTIME */
    int64_t uid;   /* BROKEN: of the administrator, on that agent's host; -1: not known */
    char agent[HFI_LABEL_MAX + 1]; /* BROKEN: the administrator's agent; empty: not known */
};

/* Calls of the agent alone, before it takes the hold away. */

/* Notes the ending of the exclusive hold with that token. */
void hfi_ending_note(const struct hfi_region *region, uint32_t slot, uint64_t token,
                     const struct hfi_ending *ending);

/* Notes the ending of the shared hold that has that cell, in that seat. */
void hfi_ending_note_reader(const struct hfi_region *region, uint32_t slot, uint32_t seat,
                            uint64_t cell, const struct hfi_ending *ending);

/* Notes the same ending for each hold that the slot has now. */
void hfi_ending_note_all(const struct hfi_region *region, uint32_t slot,
                         const struct hfi_ending *ending);

/* Reads what is noted of an exclusive hold, or of the shared hold with that cell (not 0) in that
 * seat. Returns false, and sets all of *out to 0 but uid, if nothing is. */
bool hfi_ending_read(const struct hfi_region *region, uint32_t slot, uint32_t seat, uint64_t token,
                     uint64_t cell, struct hfi_ending *out);

/* Reads the last note of the slot, of whatever hold. Returns false as hfi_ending_read(). Notes of
 * two breaks by the same user that are written over one another at this moment may mix. */
bool hfi_ending_last(const struct hfi_region *region, uint32_t slot, struct hfi_ending *out);

#endif
