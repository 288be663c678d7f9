/* Valid frames of every kind: see frame_samples.h. */
#include "frame_samples.h"

#include "proto/check.h"
#include "proto/region.h"

#include <string.h>

static const enum hfi_frame_kind kinds[SAMPLE_KINDS] = {
    HFI_FRAME_HELLO,  HFI_FRAME_OPEN,    HFI_FRAME_SEAT,    HFI_FRAME_CLOSE,  HFI_FRAME_MAP,
    HFI_FRAME_CHECK,  HFI_FRAME_LIST,    HFI_FRAME_SHOW,    HFI_FRAME_STATUS, HFI_FRAME_BREAK,
    HFI_FRAME_RECALL, HFI_FRAME_WATCH,   HFI_FRAME_EVENTS,  HFI_FRAME_BYE,    HFI_FRAME_RESUMED,
    HFI_FRAME_FACTS,  HFI_FRAME_RING,    HFI_FRAME_UNWATCH, HFI_FRAME_MEMBER, HFI_FRAME_BACKUP,
    HFI_FRAME_NOTE,   HFI_FRAME_WELCOME, HFI_FRAME_REGION,  HFI_FRAME_OPENED, HFI_FRAME_SEATED,
    HFI_FRAME_STATED, HFI_FRAME_DONE,    HFI_FRAME_CHANGED, HFI_FRAME_POKE,   HFI_FRAME_MEMBERED,
};

enum { SLOT_TOP = (1 << 22) - 1, SEAT_TOP = (1 << 20) * HFI_BLOCK_SEATS - 1 };

/* A text of 1023 bytes. */
#define A10 "aaaaaaaaaa"
#define A50 A10 A10 A10 A10 A10
#define A250 A50 A50 A50 A50 A50
static const char long_text[] = A250 A250 A250 A250 A10 A10 "aaa";

struct hfi_text sample_text(const char *string)
{
    return (struct hfi_text){.bytes = string, .size = (uint32_t)strlen(string)};
}

static struct hfi_text long_of(uint32_t size)
{
    HF_CHECK(size < sizeof long_text);
    return (struct hfi_text){.bytes = long_text, .size = size};
}

static void small_hello_or_welcome(struct hfi_frame *out)
{
    if (out->kind == HFI_FRAME_HELLO) {
        out->hello = (struct hfi_hello){.version = HFI_PROTOCOL_VERSION,
                                        .pid = 4242,
                                        .client = 3,
                                        .nonce = 99,
                                        .library = sample_text("0.1.0"),
                                        .command = sample_text("sh -c make")};
        return;
    }
    out->welcome = (struct hfi_welcome){.version = HFI_PROTOCOL_VERSION,
                                        .client = 5,
                                        .nonce = 98,
                                        .resumed = true,
                                        .boottime_ns = 300,
                                        .session_ttl_ns = 301,
                                        .grace_ns = 302,
                                        .cell = sample_text("dev"),
                                        .agent = sample_text("host-a"),
                                        .store = sample_text("0123456789abcdef0123456789abcdef")};
}

static void small_stated(struct hfi_stated *out)
{
    *out = (struct hfi_stated){.agent = sample_text("a"),
                               .cell = sample_text("c"),
                               .role = sample_text("voter"),
                               .version = sample_text("0.1.0"),
                               .session_state = 1,
                               .session_epoch = 2,
                               .session_remaining_ns = -3,
                               .clients = 4,
                               .locks_held = 5,
                               .waiters = 6,
                               .voter_count = 1};
    out->voters[0] = (struct hfi_voter_frame){
        .name = sample_text("b"), .address = sample_text("tcp://b:1"), .state = 2};
}

void sample_small(size_t index, struct hfi_frame *out)
{
    memset(out, 0, sizeof *out);
    out->kind = kinds[index];
    bool unasked = out->kind == HFI_FRAME_RING || out->kind == HFI_FRAME_CHANGED ||
                   out->kind == HFI_FRAME_POKE;
    out->request = unasked ? 0 : 7;
    switch (out->kind) {
    case HFI_FRAME_HELLO:
    case HFI_FRAME_WELCOME:
        small_hello_or_welcome(out);
        break;
    case HFI_FRAME_OPEN:
        out->open = (struct hfi_open){.flags = HFI_OPEN_RESUME,
                                      .lock_delay_ns = 10,
                                      .lease_ns = 11,
                                      .max_stall_ns = 12,
                                      .holder = 13,
                                      .slot = 14,
                                      .seat = 15,
                                      .incarnation = 16,
                                      .name = sample_text("db/x")};
        break;
    case HFI_FRAME_REGION:
        out->region = (struct hfi_region_frame){
            .region = 1, .incarnation = 2, .namespace_name = sample_text("default")};
        break;
    case HFI_FRAME_OPENED:
        out->opened = (struct hfi_opened){
            .handle = 1, .region = 2, .slot = 3, .holder = 4, .seat = HFI_SEAT_NONE};
        break;
    case HFI_FRAME_SEAT:
        out->seat = (struct hfi_seat_frame){.handle = 9, .flags = HFI_SEAT_SHARED};
        break;
    case HFI_FRAME_NOTE:
        out->note = (struct hfi_note_frame){.handle = 9, .note = sample_text("job")};
        break;
    case HFI_FRAME_CLOSE:
        out->handle = 8;
        break;
    case HFI_FRAME_SEATED:
        out->seated = 6;
        break;
    case HFI_FRAME_BREAK:
        out->break_lock.name = sample_text("k");
        out->break_lock.flags = HFI_BREAK_FRAME_NOW;
        break;
    case HFI_FRAME_LIST:
        out->list = (struct hfi_list){.prefix = sample_text("p"), .after = sample_text("q")};
        break;
    case HFI_FRAME_STATED:
        small_stated(&out->stated);
        break;
    case HFI_FRAME_DONE:
        out->error = -10;
        break;
    case HFI_FRAME_MEMBER:
        out->member = (struct hfi_member_frame){.act = 1,
                                                .number = 2,
                                                .id = 3,
                                                .name = sample_text("d"),
                                                .address = sample_text("tcp://d:1")};
        break;
    case HFI_FRAME_MEMBERED:
        out->membered = (struct hfi_membered_frame){.stage = 1, .reason = 2, .number = 3};
        break;
    case HFI_FRAME_STATUS:
    case HFI_FRAME_EVENTS:
    case HFI_FRAME_BYE:
    case HFI_FRAME_RESUMED:
    case HFI_FRAME_FACTS:
    case HFI_FRAME_BACKUP:
    case HFI_FRAME_RING:
    case HFI_FRAME_POKE:
        break;
    default:
        out->text = sample_text("n");
        break;
    }
}

static void large_stated(struct hfi_stated *out)
{
    *out = (struct hfi_stated){.agent = long_of(32),
                               .cell = long_of(32),
                               .role = long_of(64),
                               .version = long_of(64),
                               .session_state = 2,
                               .session_epoch = UINT64_MAX,
                               .session_remaining_ns = INT64_MAX,
                               .clients = UINT64_MAX,
                               .locks_held = UINT64_MAX,
                               .waiters = UINT64_MAX,
                               .voter_count = HFI_FRAME_VOTERS_MAX};
    for (size_t i = 0; i < HFI_FRAME_VOTERS_MAX; i++) {
        out->voters[i] = (struct hfi_voter_frame){
            .name = long_of(32), .address = long_of(127), .state = 2};
    }
}

void sample_large(size_t index, struct hfi_frame *out)
{
    sample_small(index, out);
    out->request = out->request != 0 ? UINT64_MAX : 0;
    switch (out->kind) {
    case HFI_FRAME_HELLO:
        out->hello = (struct hfi_hello){HFI_PROTOCOL_VERSION, INT32_MAX,
                                        HFI_HOLDER_MAX,       UINT64_MAX,
                                        long_of(64),          long_of(HFI_FRAME_COMMAND_MAX)};
        break;
    case HFI_FRAME_WELCOME:
        out->welcome = (struct hfi_welcome){HFI_PROTOCOL_VERSION,
                                            HFI_HOLDER_MAX,
                                            UINT64_MAX,
                                            false,
                                            INT64_MAX,
                                            INT64_MAX,
                                            INT64_MAX,
                                            long_of(32),
                                            long_of(32),
                                            long_of(32)};
        break;
    case HFI_FRAME_OPEN:
        out->open = (struct hfi_open){7,         INT64_C(60000000000), INT64_MAX,
                                      INT64_MAX, HFI_HOLDER_MAX,       SLOT_TOP,
                                      SEAT_TOP,  UINT64_MAX,           long_of(255)};
        break;
    case HFI_FRAME_REGION:
        out->region = (struct hfi_region_frame){UINT32_MAX, UINT64_MAX, long_of(32)};
        break;
    case HFI_FRAME_OPENED:
        out->opened = (struct hfi_opened){UINT32_MAX, UINT32_MAX, SLOT_TOP, HFI_HOLDER_MAX,
                                          SEAT_TOP};
        break;
    case HFI_FRAME_SEAT:
        out->seat = (struct hfi_seat_frame){UINT32_MAX, HFI_SEAT_SHARED};
        break;
    case HFI_FRAME_NOTE:
        out->note = (struct hfi_note_frame){UINT32_MAX, HFI_NOTE_NOW, long_of(HFI_FRAME_NOTE_MAX)};
        break;
    case HFI_FRAME_MEMBER:
        out->member = (struct hfi_member_frame){3, UINT32_MAX, UINT64_MAX, long_of(32),
                                                long_of(127)};
        break;
    case HFI_FRAME_MEMBERED:
        out->membered = (struct hfi_membered_frame){5,          255,        UINT32_MAX,
                                                    UINT32_MAX, UINT32_MAX, long_of(32)};
        break;
    case HFI_FRAME_CLOSE:
        out->handle = UINT32_MAX;
        break;
    case HFI_FRAME_SEATED:
        out->seated = SEAT_TOP;
        break;
    case HFI_FRAME_BREAK:
        out->break_lock.name = long_of(255);
        break;
    case HFI_FRAME_LIST:
        out->list = (struct hfi_list){long_of(255), long_of(255)};
        break;
    case HFI_FRAME_STATED:
        large_stated(&out->stated);
        break;
    case HFI_FRAME_DONE:
        out->error = -13;
        out->full = (struct hfi_full){.table = UINT8_MAX,
                                      .share = true,
                                      .room = UINT64_MAX,
                                      .pid = INT32_MAX,
                                      .handles = UINT64_MAX,
                                      .voter = sample_text("a-label-of-32-bytes-for-a-voter-")};
        break;
    case HFI_FRAME_STATUS:
    case HFI_FRAME_EVENTS:
    case HFI_FRAME_BYE:
    case HFI_FRAME_RESUMED:
    case HFI_FRAME_FACTS:
    case HFI_FRAME_BACKUP:
    case HFI_FRAME_RING:
    case HFI_FRAME_POKE:
        break;
    case HFI_FRAME_CHECK:
        out->text = long_of(1023);
        break;
    default:
        out->text = long_of(255);
        break;
    }
}

static size_t sample_told(unsigned char *buffer)
{
    struct hfi_facts_builder builder;
    const struct hfi_fact_frame facts[] = {
        {.key = sample_text("k")},
        {.subject = sample_text("b"),
         .key = sample_text("c"),
         .value = -5,
         .text = sample_text("t")},
        {.subject = long_of(32), .key = long_of(64), .value = INT64_MAX, .text = long_of(160)},
    };

    hfi_facts_begin(&builder, buffer, HFI_FRAME_MAX, 7);
    for (size_t i = 0; i < sizeof facts / sizeof facts[0]; i++) {
        HF_CHECK(hfi_facts_add(&builder, &facts[i]));
    }
    return hfi_facts_finish(&builder);
}

size_t sample_page(size_t index, unsigned char *buffer)
{
    struct hfi_listed_builder builder;
    struct hfi_party_frame parties[3] = {
        {.pid = 100,
         .uid = 101,
         .elapsed_ns = 102,
         .remaining_ns = 103,
         .token = 104,
         .mode = 0,
         .agent = sample_text("a"),
         .command = sample_text("ls -l"),
         .note = sample_text("job")},
        {.pid = -1, .uid = -1, .elapsed_ns = -1, .remaining_ns = -1, .mode = 1},
        {.pid = INT32_MAX,
         .uid = UINT32_MAX,
         .elapsed_ns = INT64_MAX,
         .remaining_ns = INT64_MAX,
         .token = UINT64_MAX,
         .mode = 1,
         .agent = long_of(32),
         .command = long_of(160),
         .note = long_of(HFI_FRAME_NOTE_MAX)},
    };
    const struct hfi_behind_frame behind = {.ending = UINT8_MAX,
                                            .elapsed_ns = INT64_MAX,
                                            .pid = INT32_MAX,
                                            .uid = -1,
                                            .agent = long_of(32),
                                            .command = long_of(160),
                                            .by_uid = UINT32_MAX,
                                            .note = long_of(HFI_FRAME_NOTE_MAX)};
    struct hfi_lock_frame lock = {.name = sample_text("n"), .state = 0, .age_ns = -1};

    if (index == 3) {
        return sample_told(buffer);
    }
    if (index == 4) {
        const struct hfi_text silent[] = {sample_text("b"), long_of(32)};
        const struct hfi_broken_frame broken = {.error = -2,
                                                .closed_ns = INT64_MAX,
                                                .more = UINT32_MAX,
                                                .hold_count = 3,
                                                .silent_count = 2};
        return hfi_broken_encode(&broken, parties, silent, 7, buffer, HFI_FRAME_MAX);
    }
    hfi_listed_begin(&builder, buffer, HFI_FRAME_MAX, 7);
    if (index == 1) {
        HF_CHECK(hfi_listed_add(&builder, &lock, NULL));
    }
    if (index == 2) {
        lock = (struct hfi_lock_frame){.name = long_of(255),
                                       .state = 1,
                                       .closed_ns = INT64_MAX,
                                       .age_ns = INT64_MAX,
                                       .coordinator = long_of(32),
                                       .holder_count = 1,
                                       .waiter_count = 2,
                                       .behind = &behind};
        while (hfi_listed_add(&builder, &lock, parties)) {
            /* adds locks until the page is full */
        }
    }
    return hfi_listed_finish(&builder, index == 2);
}

size_t sample_packet(size_t index, unsigned char *buffer)
{
    struct hfi_frame frame;

    if (index >= 2 * SAMPLE_KINDS) {
        return sample_page(index - 2 * SAMPLE_KINDS, buffer);
    }
    if (index < SAMPLE_KINDS) {
        sample_small(index, &frame);
    } else {
        sample_large(index - SAMPLE_KINDS, &frame);
    }
    return hfi_frame_encode(&frame, buffer, HFI_FRAME_MAX);
}
