/*
 * An ending is a note in the region that tells a process why the agent took its hold away.
 *
 * The agent writes a note before the swap that takes the hold away. So a process that finds its
 * hold gone also finds the note, without a message, and even if the agent has died since. The note
 * identifies the hold by its token or by its reader's cell, so that an older note is not mistaken
 * for the note of this hold. A note that is overwritten while a process reads it counts as no note.
 *
 * A note is only for people. Every process of the namespace can write it, so the reason may be
 * wrong. Whether a hold counts never depends on a note. A region of an earlier release has zeros in
 * place of a note, which mean that there is no note.
 */
#ifndef PROTO_ENDING_H
#define PROTO_ENDING_H

#include "proto/region.h"

/* Why a hold was taken away. The numbers are in regions, so they never change. */
enum hfi_ending_kind {
    HFI_ENDING_NONE = 0, /* nothing is noted */
    HFI_ENDING_PROCESS,  /* the hold's process ended, or dropped the hold without a release */
    HFI_ENDING_BROKEN,   /* an administrator broke the hold */
    HFI_ENDING_LEASE,    /* the hold's fixed lease ended */
    HFI_ENDING_STALL,    /* the hold's max_stall was exceeded */
    HFI_ENDING_SESSION,  /* the session of the holder's host was over */
    HFI_ENDING_DAMAGE,   /* the region contradicted what the agent knows */
    HFI_ENDING_COUNT,
};

struct hfi_ending {
    enum hfi_ending_kind kind;
    int64_t at_ns; /* CLOCK_BOOTTIME */
    int64_t uid;   /* BROKEN: the administrator's user, on the host of `agent`; -1: not known */
    char agent[HFI_LABEL_MAX + 1]; /* BROKEN: the administrator's agent; empty: not known */
};

/* Only the agent calls these functions, each time before it takes a hold away. */

/* Notes the ending of the exclusive hold with that token. */
void hfi_ending_note(const struct hfi_region *region, uint32_t slot, uint64_t token,
                     const struct hfi_ending *ending);

/* Notes the ending of the shared hold with that cell in that seat. */
void hfi_ending_note_reader(const struct hfi_region *region, uint32_t slot, uint32_t seat,
                            uint64_t cell, const struct hfi_ending *ending);

/* Notes the same ending for each hold that the slot has now. */
void hfi_ending_note_all(const struct hfi_region *region, uint32_t slot,
                         const struct hfi_ending *ending);

/* Removes the slot's note, when another name gets the slot. The tokens of each name begin anew, so
 * the note could be taken for that of a hold of the new name. */
void hfi_ending_forget(const struct hfi_region *region, uint32_t slot);

/* Reads the note of an exclusive hold (cell is 0), or of the shared hold with that cell in that
 * seat. If there is no such note, returns false and sets out->uid to -1 and the rest of *out to
 * 0. */
bool hfi_ending_read(const struct hfi_region *region, uint32_t slot, uint32_t seat, uint64_t token,
                     uint64_t cell, struct hfi_ending *out);

/* Reads the last note of the slot, whatever hold it is about. If there is no note, sets *out and
 * returns as hfi_ending_read() does. If a note of a second break by the same user overwrites the
 * first note during this call, the call may return a mixture of both notes. */
bool hfi_ending_last(const struct hfi_region *region, uint32_t slot, struct hfi_ending *out);

#endif
