/*
 * The input is a packet for the frame decoder. The decoder refuses the packet with a text.
 * Otherwise the values are within bounds and lie inside the packet, and the frame means the same
 * after it is encoded and decoded again.
 */
#include "../unit/frame_samples.h"
#include "fuzz.h"

#include "proto/check.h"
#include "proto/region.h"

#include <string.h>

static size_t frame_seed(size_t index, uint8_t *bytes, size_t size)
{
    if (index >= SAMPLE_COUNT || size < HFI_FRAME_MAX) {
        return 0;
    }
    return sample_packet(index, bytes);
}

static void check_inside(struct hfi_text text, const uint8_t *bytes, size_t size)
{
    const uint8_t *start = (const uint8_t *)text.bytes;

    HF_CHECK(text.size == 0 || (start >= bytes && start + text.size <= bytes + size));
}

/* Decodes a page of listed locks and encodes it again. No lock may be lost, because the page has
 * fitted into a packet before. */
static void check_page(struct hfi_listed_cursor *cursor, const struct hfi_frame *frame,
                       const uint8_t *bytes, size_t size)
{
    static struct hfi_party_frame parties[2 * HFI_FRAME_PARTIES_MAX];
    static uint8_t again[HFI_FRAME_MAX];
    struct hfi_listed_builder builder;
    struct hfi_lock_frame lock;
    struct hfi_behind_frame behind;
    uint32_t locks = 0;

    hfi_listed_begin(&builder, again, sizeof again, frame->request);
    while (hfi_listed_next_lock(cursor, &lock)) {
        uint32_t count = 0;

        HF_CHECK(lock.holder_count <= HFI_FRAME_PARTIES_MAX);
        HF_CHECK(lock.waiter_count <= HFI_FRAME_PARTIES_MAX);
        check_inside(lock.name, bytes, size);
        check_inside(lock.coordinator, bytes, size);
        while (hfi_listed_next_party(cursor, &parties[count])) {
            check_inside(parties[count].agent, bytes, size);
            check_inside(parties[count].command, bytes, size);
            check_inside(parties[count].note, bytes, size);
            count++;
        }
        HF_CHECK(count == lock.holder_count + lock.waiter_count);
        if (hfi_listed_behind(cursor, &behind)) {
            check_inside(behind.agent, bytes, size);
            check_inside(behind.command, bytes, size);
            check_inside(behind.by_agent, bytes, size);
            check_inside(behind.note, bytes, size);
            lock.behind = &behind;
        }
        /* only a full page can be too large now, because the builder's array head may be two bytes
         * longer */
        HF_CHECK(hfi_listed_add(&builder, &lock, parties) || size > HFI_FRAME_MAX - 4);
        locks++;
    }
    HF_CHECK(locks == frame->listed.lock_count);
    HF_CHECK(hfi_listed_finish(&builder, frame->listed.more) > 0);
}

/* Decodes a page of facts and encodes it again. */
static void check_facts(struct hfi_listed_cursor *cursor, const struct hfi_frame *frame,
                        const uint8_t *bytes, size_t size)
{
    static uint8_t again[HFI_FRAME_MAX];
    struct hfi_facts_builder builder;
    struct hfi_fact_frame fact;
    uint32_t facts = 0;

    hfi_facts_begin(&builder, again, sizeof again, frame->request);
    while (hfi_facts_next(cursor, &fact)) {
        HF_CHECK(fact.subject.size <= HFI_LABEL_MAX && fact.key.size > 0);
        HF_CHECK(fact.text.size <= HFI_FRAME_COMMAND_MAX);
        check_inside(fact.subject, bytes, size);
        check_inside(fact.key, bytes, size);
        check_inside(fact.text, bytes, size);
        HF_CHECK(hfi_facts_add(&builder, &fact) || size > HFI_FRAME_MAX - 4);
        facts++;
    }
    HF_CHECK(facts == frame->fact_count && facts <= HFI_FRAME_FACTS_MAX);
    HF_CHECK(hfi_facts_finish(&builder) > 0);
}

/* Reads a BROKEN to its end and encodes it again. The encoder writes the shortest form, so the
 * packet does not grow. */
static void check_broken(struct hfi_listed_cursor *cursor, const struct hfi_frame *frame,
                         size_t size)
{
    static struct hfi_party_frame holds[HFI_FRAME_BROKEN_HOLDS_MAX];
    static struct hfi_text silent[HFI_FRAME_BROKEN_SILENT_MAX];
    static uint8_t again[HFI_FRAME_MAX];
    uint32_t hold_count = 0;
    uint32_t silent_count = 0;

    while (hold_count < frame->broken.hold_count &&
           hfi_listed_next_party(cursor, &holds[hold_count])) {
        hold_count++;
    }
    while (silent_count < frame->broken.silent_count &&
           hfi_broken_next_silent(cursor, &silent[silent_count])) {
        silent_count++;
    }
    HF_CHECK(hold_count == frame->broken.hold_count && silent_count == frame->broken.silent_count);
    HF_CHECK(cursor->parties_left == 0 && cursor->agents_left == 0);
    size_t written = hfi_broken_encode(&frame->broken, holds, silent, frame->request, again,
                                       sizeof again);
    HF_CHECK(written > 0 && written <= size);
}

static void frame_entry(const uint8_t *bytes, size_t size)
{
    static uint8_t first[HFI_FRAME_MAX];
    static uint8_t second[HFI_FRAME_MAX];
    struct hfi_frame frame;
    struct hfi_listed_cursor cursor;
    struct hfi_frame_error error;
    size_t first_size;

    if (hfi_frame_decode(bytes, size, &frame, &cursor, &error) != 0) {
        HF_CHECK(error.text[0] != '\0' && memchr(error.text, '\0', sizeof error.text) != NULL);
        HF_CHECK(cursor.locks_left == 0 && cursor.facts_left == 0 && cursor.parties_left == 0 &&
                 cursor.agents_left == 0);
        return;
    }
    if (frame.kind == HFI_FRAME_LISTED) {
        check_page(&cursor, &frame, bytes, size);
        return;
    }
    if (frame.kind == HFI_FRAME_TOLD) {
        check_facts(&cursor, &frame, bytes, size);
        return;
    }
    if (frame.kind == HFI_FRAME_BROKEN) {
        check_broken(&cursor, &frame, size);
        return;
    }
    if ((frame.kind == HFI_FRAME_HELLO && frame.hello.version != HFI_PROTOCOL_VERSION) ||
        (frame.kind == HFI_FRAME_WELCOME && frame.welcome.version != HFI_PROTOCOL_VERSION)) {
        return;
    }
    first_size = hfi_frame_encode(&frame, first, sizeof first);
    HF_CHECK(first_size > 0 && first_size <= size); /* this encoder writes the shortest form, so
                                                     * the packet does not grow */
    HF_CHECK(hfi_frame_decode(first, first_size, &frame, NULL, &error) == 0);
    HF_CHECK(hfi_frame_encode(&frame, second, sizeof second) == first_size);
    HF_CHECK(memcmp(first, second, first_size) == 0);
}

const struct fuzz_target fuzz_target = {"frame", frame_entry, frame_seed, HFI_FRAME_MAX + 16};
