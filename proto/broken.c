/*
 * The frame BROKEN, with which an agent answers a BREAK: the holds that really ended, and the
 * agents that have not answered.
 *
 *   [kind, request, error, closed_ns, more, hold_count, silent_count, [hold..., agent...]]
 *
 * A hold is a party as in LISTED, and an agent is a label. All holds and agents fit into one frame.
 * That is so because notes are cut to half their length if there are many holds.
 */
#include "fields.h"

#include "proto/check.h"

#include <string.h>

static const struct hfi_field silent_fields[] = {
    {.name = "agent", .type = HFI_FIELD_TEXT, .rule = HFI_TEXT_LABEL, .offset = 0},
};

bool hfi_read_broken(struct hfi_reader *reader, uint32_t field_index,
                     const struct hfi_broken_frame *broken, struct hfi_listed_cursor *cursor)
{
    uint32_t all = broken->hold_count + broken->silent_count;
    uint32_t length;
    struct hfi_party_frame hold;
    struct hfi_text silent;

    if (!hfi_read_array(reader, field_index, "items", all, all, &length)) {
        return false;
    }
    if (cursor != NULL) {
        *cursor = (struct hfi_listed_cursor){.at = reader->at,
                                             .end = reader->end,
                                             .parties_left = broken->hold_count,
                                             .agents_left = broken->silent_count};
    }
    reader->item = "item";
    for (uint32_t i = 0; i < all; i++) {
        reader->item_index = i;
        if (i < broken->hold_count ? !hfi_read_party(reader, &hold)
                                   : !hfi_read_fields(reader, silent_fields, 1, 0, &silent)) {
            return false;
        }
    }
    reader->item = NULL;
    return true;
}

bool hfi_broken_next_silent(struct hfi_listed_cursor *cursor, struct hfi_text *out)
{
    struct hfi_party_frame skipped;
    struct hfi_reader reader;

    while (hfi_listed_next_party(cursor, &skipped)) {
        /* skips those holds that the caller has not read */
    }
    if (cursor->agents_left == 0) {
        return false;
    }
    reader = (struct hfi_reader){.at = cursor->at, .end = cursor->end, .party_index = UINT32_MAX};
    if (!hfi_read_fields(&reader, silent_fields, 1, 0, out)) {
        /* the caller has changed the packet since hfi_frame_decode() checked it */
        memset(cursor, 0, sizeof *cursor);
        return false;
    }
    cursor->at = reader.at;
    cursor->agents_left--;
    return true;
}

size_t hfi_broken_encode(const struct hfi_broken_frame *broken, const struct hfi_party_frame *holds,
                         const struct hfi_text *silent, uint64_t request, void *buffer, size_t size)
{
    struct hfi_writer writer = {.bytes = buffer,
                                .size = size < HFI_FRAME_MAX ? size : HFI_FRAME_MAX};
    struct hfi_frame frame = {.kind = HFI_FRAME_BROKEN, .request = request, .broken = *broken};

    HF_CHECK(broken->hold_count <= HFI_FRAME_BROKEN_HOLDS_MAX &&
             broken->silent_count <= HFI_FRAME_BROKEN_SILENT_MAX);
    uint32_t note_max = broken->hold_count > HFI_FRAME_BROKEN_HOLDS_MAX / 2 ? HFI_FRAME_NOTE_MAX / 2
                                                                            : HFI_FRAME_NOTE_MAX;
    hfi_write_frame_start(&writer, &frame);
    hfi_write_array(&writer, broken->hold_count + broken->silent_count);
    for (uint32_t i = 0; i < broken->hold_count; i++) {
        hfi_write_party(&writer, &holds[i], note_max);
    }
    for (uint32_t i = 0; i < broken->silent_count; i++) {
        hfi_write_fields(&writer, silent_fields, 1, &silent[i]);
    }
    return writer.failed ? 0 : writer.used;
}
