/*
 * The frame TOLD, which has an agent's facts about itself and its cell for `holdfast doctor`. The
 * agent builds it fact by fact, and the client reads it with a cursor.
 *
 *   [kind, request, [fact...]]
 *   fact = [subject, key, value, text]
 *
 * Facts have names instead of positions, so that an agent may send facts that a client does not
 * know, and may lack facts that a client asks for. The number of facts is known only at the end. So
 * the head of their array always has the form with a 16-bit count, and can be overwritten at the
 * end. A fact's text is cut like a command line of LISTED, and '?' replaces bytes that are not
 * text.
 */
#include "fields.h"

#include "proto/check.h"

#include <string.h>

enum {
    TOLD_FIELDS = 3,
    FACT_ELEMENTS = 4,
    TOLD_SIZE_MIN = 1024,
};

static const struct hfi_field fact_fields[] = {
    HFI_TEXT(hfi_fact_frame, subject, HFI_TEXT_LABEL_OR_NONE),
    HFI_TEXT(hfi_fact_frame, key, HFI_TEXT_WORD),
    HFI_INTEGER(hfi_fact_frame, value, -INT64_MAX, INT64_MAX),
    HFI_TEXT(hfi_fact_frame, text, HFI_TEXT_COMMAND),
};

_Static_assert(sizeof fact_fields / sizeof fact_fields[0] == FACT_ELEMENTS, "a fact's fields");

bool hfi_read_fact(struct hfi_reader *reader, struct hfi_fact_frame *out)
{
    uint32_t length;

    return hfi_read_array(reader, 0, NULL, FACT_ELEMENTS, FACT_ELEMENTS, &length) &&
           hfi_read_fields(reader, fact_fields, FACT_ELEMENTS, 0, out);
}

bool hfi_facts_next(struct hfi_listed_cursor *cursor, struct hfi_fact_frame *out)
{
    struct hfi_reader reader = {.at = cursor->at, .end = cursor->end, .party_index = UINT32_MAX};

    if (cursor->facts_left == 0) {
        return false;
    }
    if (!hfi_read_fact(&reader, out)) {
        /* the caller has changed the packet since hfi_frame_decode() checked it */
        memset(cursor, 0, sizeof *cursor);
        return false;
    }
    cursor->at = reader.at;
    cursor->facts_left--;
    return true;
}

static void write_head(struct hfi_writer *writer, uint64_t request, uint32_t count)
{
    const unsigned char facts[] = {0xdc, (unsigned char)(count >> 8), (unsigned char)count};

    hfi_write_array(writer, TOLD_FIELDS);
    hfi_write_unsigned(writer, HFI_FRAME_TOLD);
    hfi_write_unsigned(writer, request);
    hfi_write_raw(writer, facts, sizeof facts);
}

void hfi_facts_begin(struct hfi_facts_builder *builder, void *buffer, size_t size, uint64_t request)
{
    struct hfi_writer writer = {.bytes = buffer,
                                .size = size < HFI_FRAME_MAX ? size : HFI_FRAME_MAX};

    HF_CHECK(size >= TOLD_SIZE_MIN);
    HF_CHECK(request > 0);
    write_head(&writer, request, 0);
    HF_CHECK(!writer.failed);
    *builder = (struct hfi_facts_builder){
        .buffer = buffer, .size = writer.size, .used = writer.used, .request = request};
}

bool hfi_facts_add(struct hfi_facts_builder *builder, const struct hfi_fact_frame *fact)
{
    char cleaned[HFI_FRAME_COMMAND_MAX];
    struct hfi_fact_frame shown = *fact;
    struct hfi_writer writer = {
        .bytes = builder->buffer, .size = builder->size, .used = builder->used};

    HF_CHECK(hfi_text_fits(HFI_TEXT_LABEL_OR_NONE, fact->subject) &&
             hfi_text_fits(HFI_TEXT_WORD, fact->key));
    shown.text = hfi_command_shown(fact->text, cleaned);
    shown.value = fact->value == INT64_MIN ? -INT64_MAX : fact->value;
    hfi_write_array(&writer, FACT_ELEMENTS);
    hfi_write_fields(&writer, fact_fields, FACT_ELEMENTS, &shown);
    if (writer.failed || builder->count == HFI_FRAME_FACTS_MAX) {
        return false;
    }
    builder->used = writer.used;
    builder->count++;
    return true;
}

size_t hfi_facts_finish(struct hfi_facts_builder *builder)
{
    struct hfi_writer writer = {.bytes = builder->buffer, .size = builder->size};

    write_head(&writer, builder->request, builder->count);
    HF_CHECK(!writer.failed);
    return builder->used;
}
