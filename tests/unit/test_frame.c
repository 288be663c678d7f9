/*
 * The frames: the bytes of each kind, each field wrong one at a time, packets that are cut or
 * damaged.
 *
 * In the program, the same tables drive the decoder and the encoder, so a round trip would not show
 * a wrong table. Therefore this file repeats, in bytes and in error texts, what SCHEMA.md says, and
 * msgpack-c unpacks what the encoder wrote.
 */
#include "frame_samples.h"

#include "holdfast/holdfast.h"
#include "proto/region.h"

#include <check.h>
#include <inttypes.h>
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"

static unsigned char packet[HFI_FRAME_MAX];
static unsigned char other[2 * HFI_FRAME_MAX];
static struct hfi_frame frame;
static struct hfi_listed_cursor cursor;
static struct hfi_frame_error error;

/* Decodes a copy of exactly that size, so that AddressSanitizer reports a read beyond it. */
static int decode(const void *bytes, size_t size)
{
    void *exact = malloc(size > 0 ? size : 1);
    int result;

    ck_assert_ptr_nonnull(exact);
    memcpy(exact, bytes, size);
    result = hfi_frame_decode(exact, size, &frame, &cursor, &error);
    free(exact);
    ck_assert_int_eq(result == 0, error.text[0] == '\0');
    return result;
}

/* ---- the bytes ---- */

#define BYTES(literal) (const unsigned char *)(literal), sizeof(literal) - 1

static const struct {
    const unsigned char *bytes;
    size_t size;
} golden[SAMPLE_KINDS + 2] = {
    {BYTES("\x98\x01\x07\x05\xcd\x10\x92\x03\x63\xa5"
           "0.1.0\xaa"
           "sh -c make")},
    {BYTES("\x9b\x02\x07\x04\x0a\x0b\x0c\x0d\x0e\x0f\x10\xa4"
           "db/x")},
    {BYTES("\x94\x03\x07\x09\x01")},
    {BYTES("\x93\x04\x07\x08")},
    {BYTES("\x93\x05\x07\xa1n")},
    {BYTES("\x93\x06\x07\xa1n")},
    {BYTES("\x94\x07\x07\xa1p\xa1q")},
    {BYTES("\x93\x08\x07\xa1n")},
    {BYTES("\x92\x09\x07")},
    {BYTES("\x94\x0a\x07\xa1k\x01")},
    {BYTES("\x93\x0b\x07\xa1n")},
    {BYTES("\x93\x0c\x07\xa1n")},
    {BYTES("\x92\x0d\x07")},
    {BYTES("\x92\x0e\x07")},
    {BYTES("\x92\x0f\x07")},
    {BYTES("\x92\x10\x07")},
    {BYTES("\x92\x11\x00")},
    {BYTES("\x93\x12\x07\xa1n")},
    {BYTES("\x97\x13\x07\x01\x02\x03\xa1"
           "d\xa9tcp://d:1")},
    {BYTES("\x92\x14\x07")},
    {BYTES("\x95\x15\x07\x09\x00\xa3job")},
    {BYTES("\x9c\x40\x07\x05\x05\x62\xc3\xcd\x01\x2c\xcd\x01\x2d\xcd\x01\x2e\xa3"
           "dev\xa6host-a"
           "\xd9\x20"
           "0123456789abcdef0123456789abcdef")},
    {BYTES("\x95\x41\x07\x01\x02\xa7"
           "default")},
    {BYTES("\x97\x42\x07\x01\x02\x03\x04\xce\xff\xff\xff\xff")},
    {BYTES("\x93\x43\x07\x06")},
    {BYTES("\x9d\x45\x07\xa1"
           "a\xa1"
           "c\xa5voter\xa5"
           "0.1.0\x01\x02\xfd\x04\x05\x06"
           "\x91\x93\xa1"
           "b\xa9tcp://b:1\x02")},
    {BYTES("\x93\x46\x07\xf6")},
    {BYTES("\x93\x47\x00\xa1n")},
    {BYTES("\x92\x48\x00")},
    {BYTES("\x98\x4b\x07\x01\x02\x03\x00\x00\xa0")},
    {BYTES("\x94\x44\x07\xc2\xdc\x00\x00")},
    {BYTES("\x94\x44\x07\xc2\xdc\x00\x01\x98\xa1n\x00\x00\xff\xa0\x00\xc2\x90")},
};

START_TEST(test_golden)
{
    size_t index = (size_t)_i;
    size_t size = index < SAMPLE_KINDS ? sample_packet(index, packet)
                                       : sample_page(index - SAMPLE_KINDS, packet);

    ck_assert_uint_eq(size, golden[index].size);
    ck_assert_mem_eq(packet, golden[index].bytes, size);
    ck_assert_msg(decode(golden[index].bytes, size) == 0, "%s", error.text);
    if (index < SAMPLE_KINDS) {
        /* decodes in place, because the texts point into the decoded bytes */
        ck_assert_int_eq(hfi_frame_decode(packet, size, &frame, NULL, &error), 0);
        ck_assert_uint_eq(hfi_frame_encode(&frame, other, sizeof other), size);
        ck_assert_mem_eq(other, packet, size);
    }
}
END_TEST

START_TEST(test_round_trip)
{
    size_t size = sample_packet((size_t)_i, packet);
    size_t offset = 0;
    msgpack_unpacked unpacked;

    ck_assert_uint_gt(size, 0);
    msgpack_unpacked_init(&unpacked);
    ck_assert_int_eq(msgpack_unpack_next(&unpacked, (const char *)packet, size, &offset),
                     MSGPACK_UNPACK_SUCCESS);
    ck_assert_uint_eq(offset, size);
    ck_assert_int_eq(unpacked.data.type, MSGPACK_OBJECT_ARRAY);
    msgpack_unpacked_destroy(&unpacked);
    ck_assert_msg(decode(packet, size) == 0, "%s", error.text);
    if (frame.kind == HFI_FRAME_LISTED || frame.kind == HFI_FRAME_TOLD ||
        frame.kind == HFI_FRAME_BROKEN) {
        return;
    }
    ck_assert_int_eq(hfi_frame_decode(packet, size, &frame, NULL, &error), 0);
    ck_assert_uint_eq(hfi_frame_encode(&frame, other, size), size);
    ck_assert_mem_eq(other, packet, size);
    for (size_t room = 0; room < size; room++) {
        ck_assert_uint_eq(hfi_frame_encode(&frame, other, room), 0);
    }
}
END_TEST

/* ---- damage ---- */

START_TEST(test_truncated)
{
    size_t size = sample_packet((size_t)_i, packet);
    size_t step = 1;

    /* A full page repeats one lock. The test cuts it at every byte of the first locks, then at
     * every 37th byte. */
    for (size_t cut = 0; cut < size; cut += step) {
        step = size > 2000 && cut > 1500 ? 37 : 1;
        ck_assert_msg(decode(packet, cut) == -1, "%zu of %zu bytes", cut, size);
        ck_assert_uint_eq(
            cursor.locks_left + cursor.facts_left + cursor.parties_left + cursor.agents_left, 0);
    }
    if (size < sizeof packet) {
        packet[size] = 0xc0;
        ck_assert_int_eq(decode(packet, size + 1), -1);
        ck_assert_ptr_nonnull(strstr(error.text, "expected the end of the packet"));
    }
}
END_TEST

/* Checks that the BROKEN in `frame` can be read to its end and that its encoder writes it again. */
static void check_broken(void)
{
    static struct hfi_party_frame holds[HFI_FRAME_BROKEN_HOLDS_MAX];
    struct hfi_text silent[HFI_FRAME_BROKEN_SILENT_MAX];
    uint32_t hold_count = 0;
    uint32_t silent_count = 0;

    while (hfi_listed_next_party(&cursor, &holds[hold_count % HFI_FRAME_BROKEN_HOLDS_MAX])) {
        hold_count++;
    }
    while (hfi_broken_next_silent(&cursor, &silent[silent_count % HFI_FRAME_BROKEN_SILENT_MAX])) {
        silent_count++;
    }
    ck_assert_uint_eq(hold_count, frame.broken.hold_count);
    ck_assert_uint_eq(silent_count, frame.broken.silent_count);
    ck_assert_uint_gt(
        hfi_broken_encode(&frame.broken, holds, silent, frame.request, other, sizeof other), 0);
    ck_assert_uint_eq(hfi_frame_encode(&frame, other, sizeof other), 0);
}

/* Checks that an accepted packet can be read to its end and that the encoder writes the same packet
 * again. */
static void check_accepted(const void *bytes, size_t size)
{
    struct hfi_lock_frame lock;
    struct hfi_party_frame party;
    struct hfi_behind_frame behind;
    struct hfi_fact_frame fact;
    uint32_t locks = 0;
    uint32_t facts = 0;

    ck_assert_int_eq(hfi_frame_decode(bytes, size, &frame, &cursor, &error), 0);
    while (frame.kind == HFI_FRAME_TOLD && hfi_facts_next(&cursor, &fact)) {
        facts++;
    }
    if (frame.kind == HFI_FRAME_TOLD) {
        ck_assert_uint_eq(facts, frame.fact_count);
        ck_assert_uint_eq(hfi_frame_encode(&frame, other, sizeof other),
                          0); /* a page is built lock by lock, not encoded */
        return;
    }
    if (frame.kind == HFI_FRAME_BROKEN) {
        check_broken();
        return;
    }
    if (frame.kind != HFI_FRAME_LISTED) {
        bool foreign = (frame.kind == HFI_FRAME_HELLO &&
                        frame.hello.version != HFI_PROTOCOL_VERSION) ||
                       (frame.kind == HFI_FRAME_WELCOME &&
                        frame.welcome.version != HFI_PROTOCOL_VERSION);

        ck_assert(foreign || hfi_frame_encode(&frame, other, sizeof other) > 0);
        return;
    }
    while (hfi_listed_next_lock(&cursor, &lock)) {
        locks++;
        while (hfi_listed_next_party(&cursor, &party)) {
            ck_assert_uint_le(party.mode, 1);
        }
        if (hfi_listed_behind(&cursor, &behind)) {
            ck_assert_uint_le(behind.ending, UINT8_MAX);
        }
    }
    ck_assert_uint_eq(locks, frame.listed.lock_count);
}

START_TEST(test_bit_flips)
{
    size_t size = sample_packet((size_t)_i, packet);
    size_t step = size > 2000 ? 101 : 1;

    for (size_t bit = 0; bit < size * 8; bit += step) {
        packet[bit / 8] ^= (unsigned char)(1u << bit % 8);
        if (decode(packet, size) == 0) {
            check_accepted(packet, size);
        }
        packet[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}
END_TEST

/* ---- each field wrong ---- */

enum { PATH_MAX_STEPS = 5, NO_STEP = -1 };

static size_t array_head_size(unsigned char lead)
{
    ck_assert(lead == 0xdc || (lead & 0xf0) == 0x90);
    return lead == 0xdc ? 3 : 1;
}

/* Finds the element of the packet to which the path of indexes leads. */
static void find_element(size_t size, const int *path, size_t *start, size_t *end)
{
    msgpack_unpacked unpacked;

    msgpack_unpacked_init(&unpacked);
    *start = 0;
    *end = size;
    for (int step = 0; step < PATH_MAX_STEPS && path[step] != NO_STEP; step++) {
        size_t at = *start + array_head_size(packet[*start]);

        for (int i = 0; i <= path[step]; i++) {
            *start = at;
            ck_assert_int_eq(msgpack_unpack_next(&unpacked, (const char *)packet, size, &at),
                             MSGPACK_UNPACK_SUCCESS);
        }
        *end = at;
    }
    msgpack_unpacked_destroy(&unpacked);
}

/* Decodes the packet with the element at `path` replaced. */
static int decode_with(size_t size, const int *path, const msgpack_sbuffer *replacement)
{
    size_t start;
    size_t end;

    find_element(size, path, &start, &end);
    memcpy(other, packet, start);
    memcpy(other + start, replacement->data, replacement->size);
    memcpy(other + start + replacement->size, packet + end, size - end);
    return decode(other, size - (end - start) + replacement->size);
}

enum what { U, I, S, N }; /* unsigned, signed, string, string of `number` times 'a' */

struct wrong {
    enum hfi_frame_kind kind;
    int path[PATH_MAX_STEPS];
    enum what what;
    uint64_t number;
    const char *string;
    const char *expected; /* the whole error text */
};

#define P1(a)                                                                                      \
    {                                                                                              \
        a, NO_STEP                                                                                 \
    }
#define P2(a, b)                                                                                   \
    {                                                                                              \
        a, b, NO_STEP                                                                              \
    }
#define P3(a, b, c)                                                                                \
    {                                                                                              \
        a, b, c, NO_STEP                                                                           \
    }
#define P5(a, b, c, d, e)                                                                          \
    {                                                                                              \
        a, b, c, d, e                                                                              \
    }
#define NAME255 "expected 1..255 bytes of UTF-8 without control characters"
#define NONE ((uint64_t)-1)

static const struct wrong wrongs[] = {
    {HFI_FRAME_HELLO, P1(0), U, 0, "", "frame: field 0 (kind): found 0, expected integer 1..127"},
    {HFI_FRAME_HELLO, P1(0), U, 22, "",
     "frame: field 0 (kind): found 22, expected a kind of frame"},
    {HFI_FRAME_HELLO, P1(0), U, 63, "",
     "frame: field 0 (kind): found 63, expected a kind of frame"},
    {HFI_FRAME_HELLO, P1(0), U, 76, "",
     "frame: field 0 (kind): found 76, expected a kind of frame"},
    {HFI_FRAME_HELLO, P1(1), U, 0, "",
     "HELLO: field 1 (request): found 0, expected integer 1..18446744073709551615"},
    {HFI_FRAME_CHANGED, P1(1), U, 1, "",
     "CHANGED: field 1 (request): found 1, expected integer 0..0"},
    {HFI_FRAME_POKE, P1(1), U, 1, "", "POKE: field 1 (request): found 1, expected integer 0..0"},
    {HFI_FRAME_HELLO, P1(2), U, 0, "",
     "HELLO: field 2 (version): found 0, expected integer 1..4294967295"},
    {HFI_FRAME_HELLO, P1(3), U, 0, "",
     "HELLO: field 3 (pid): found 0, expected integer 1..2147483647"},
    {HFI_FRAME_HELLO, P1(3), U, 1u << 31, "",
     "HELLO: field 3 (pid): found 2147483648, expected integer 1..2147483647"},
    {HFI_FRAME_HELLO, P1(4), U, 65535, "",
     "HELLO: field 4 (client): found 65535, expected integer 0..65534"},
    {HFI_FRAME_HELLO, P1(6), N, 65, "",
     "HELLO: field 6 (library): found a string of 65 bytes, "
     "expected 1..64 visible ASCII characters"},
    {HFI_FRAME_HELLO, P1(6), S, 0, "a b",
     "HELLO: field 6 (library): found a string of 3 bytes, "
     "expected 1..64 visible ASCII characters"},
    {HFI_FRAME_HELLO, P1(7), N, 161, "",
     "HELLO: field 7 (command): found a string of 161 bytes, "
     "expected 0..160 bytes of UTF-8 without control characters"},
    {HFI_FRAME_HELLO, P1(7), S, 0, "a\nb",
     "HELLO: field 7 (command): found a string of 3 bytes, "
     "expected 0..160 bytes of UTF-8 without control characters"},
    {HFI_FRAME_HELLO, P1(7), S, 0, "\xff",
     "HELLO: field 7 (command): found a string of 1 bytes, "
     "expected 0..160 bytes of UTF-8 without control characters"},
    {HFI_FRAME_HELLO, P1(7), U, 5, "",
     "HELLO: field 7 (command): found 5, "
     "expected 0..160 bytes of UTF-8 without control characters"},
    {HFI_FRAME_OPEN, P1(2), U, 8, "", "OPEN: field 2 (flags): found 8, expected integer 0..7"},
    {HFI_FRAME_OPEN, P1(3), U, 60000000001, "",
     "OPEN: field 3 (lock_delay_ns): found 60000000001, expected integer 0..60000000000"},
    {HFI_FRAME_OPEN, P1(3), S, 0, "soon",
     "OPEN: field 3 (lock_delay_ns): found a string of 4 bytes, expected integer 0..60000000000"},
    {HFI_FRAME_OPEN, P1(4), I, NONE, "",
     "OPEN: field 4 (lease_ns): found -1, expected integer 0..9223372036854775807"},
    {HFI_FRAME_OPEN, P1(5), U, (uint64_t)1 << 63, "",
     "OPEN: field 5 (max_stall_ns): "
     "found 9223372036854775808, expected integer 0..9223372036854775807"},
    {HFI_FRAME_OPEN, P1(6), U, 0, "",
     "OPEN: field 6 (holder): found 0, expected integer 1..65534 to resume"},
    {HFI_FRAME_OPEN, P1(6), U, 65535, "",
     "OPEN: field 6 (holder): found 65535, expected integer 0..65534"},
    {HFI_FRAME_OPEN, P1(7), U, 4194304, "",
     "OPEN: field 7 (slot): found 4194304, expected integer 0..4194303"},
    {HFI_FRAME_OPEN, P1(8), U, 7340032, "",
     "OPEN: field 8 (seat): found 7340032, expected integer 0..7340031 or 4294967295"},
    {HFI_FRAME_OPEN, P1(10), N, 256, "",
     "OPEN: field 10 (name): found a string of 256 bytes, " NAME255},
    {HFI_FRAME_OPEN, P1(10), S, 0, "",
     "OPEN: field 10 (name): found a string of 0 bytes, " NAME255},
    {HFI_FRAME_SEAT, P1(2), U, 1ull << 32, "",
     "SEAT: field 2 (handle): found 4294967296, expected integer 0..4294967295"},
    {HFI_FRAME_SEAT, P1(3), U, 2, "", "SEAT: field 3 (flags): found 2, expected integer 0..1"},
    {HFI_FRAME_NOTE, P1(3), U, 2, "", "NOTE: field 3 (flags): found 2, expected integer 0..1"},
    {HFI_FRAME_NOTE, P1(4), S, 0, "a\n",
     "NOTE: field 4 (note): found a string of 2 bytes, expected 0..256 bytes of UTF-8 without "
     "control characters"},
    {HFI_FRAME_CLOSE, P1(2), I, NONE, "",
     "CLOSE: field 2 (handle): found -1, expected integer 0..4294967295"},
    {HFI_FRAME_MAP, P1(2), S, 0, "\xff",
     "MAP: field 2 (name): found a string of 1 bytes, " NAME255},
    {HFI_FRAME_CHECK, P1(2), N, 1024, "",
     "CHECK: field 2 (sequencer): found a string of 1024 bytes, "
     "expected 1..1023 visible ASCII characters"},
    {HFI_FRAME_LIST, P1(2), N, 256, "",
     "LIST: field 2 (prefix): found a string of 256 bytes, "
     "expected 0..255 bytes of UTF-8 without control characters"},
    {HFI_FRAME_LIST, P1(3), S, 0, "\x7f",
     "LIST: field 3 (after): found a string of 1 bytes, "
     "expected 0..255 bytes of UTF-8 without control characters"},
    {HFI_FRAME_SHOW, P1(2), S, 0, "", "SHOW: field 2 (name): found a string of 0 bytes, " NAME255},
    {HFI_FRAME_BREAK, P1(2), S, 0, "",
     "BREAK: field 2 (name): found a string of 0 bytes, " NAME255},
    {HFI_FRAME_BREAK, P1(3), U, 2, "", "BREAK: field 3 (flags): found 2, expected integer 0..1"},
    {HFI_FRAME_RECALL, P1(2), S, 0, "\x01",
     "RECALL: field 2 (name): found a string of 1 bytes, " NAME255},
    {HFI_FRAME_WATCH, P1(2), S, 0, "\x01",
     "WATCH: field 2 (prefix): found a string of 1 bytes, "
     "expected 0..255 bytes of UTF-8 without control characters"},
    {HFI_FRAME_WELCOME, P1(3), U, 0, "",
     "WELCOME: field 3 (client): found 0, expected integer 1..65534"},
    {HFI_FRAME_WELCOME, P1(5), U, 1, "",
     "WELCOME: field 5 (resumed): found 1, expected true or false"},
    {HFI_FRAME_WELCOME, P1(6), I, NONE, "",
     "WELCOME: field 6 (boottime_ns): found -1, expected integer 0..9223372036854775807"},
    {HFI_FRAME_WELCOME, P1(7), U, 0, "",
     "WELCOME: field 7 (session_ttl_ns): found 0, expected integer 1..9223372036854775807"},
    {HFI_FRAME_WELCOME, P1(9), S, 0, "Dev",
     "WELCOME: field 9 (cell): found a string of 3 bytes, expected 1..32 of [a-z0-9_-]"},
    {HFI_FRAME_WELCOME, P1(10), S, 0, "",
     "WELCOME: field 10 (agent): found a string of 0 bytes, expected 1..32 of [a-z0-9_-]"},
    {HFI_FRAME_WELCOME, P1(11), N, 31, "",
     "WELCOME: field 11 (store): found a string of 31 bytes, expected 32 of [0-9a-f]"},
    {HFI_FRAME_WELCOME, P1(11), S, 0, "0123456789ABCDEF0123456789abcdef",
     "WELCOME: field 11 (store): found a string of 32 bytes, expected 32 of [0-9a-f]"},
    {HFI_FRAME_REGION, P1(4), N, 33, "",
     "REGION: field 4 (namespace): "
     "found a string of 33 bytes, expected 1..32 of [a-z0-9_-]"},
    {HFI_FRAME_OPENED, P1(5), U, 0, "",
     "OPENED: field 5 (holder): found 0, expected integer 1..65534"},
    {HFI_FRAME_OPENED, P1(6), U, 4294967294, "",
     "OPENED: field 6 (seat): found 4294967294, expected integer 0..7340031 or 4294967295"},
    {HFI_FRAME_SEATED, P1(2), U, 4294967295, "",
     "SEATED: field 2 (seat): found 4294967295, expected integer 0..7340031"},
    {HFI_FRAME_DONE, P1(2), U, 1, "", "DONE: field 2 (error): found 1, expected integer -99..0"},
    {HFI_FRAME_DONE, P1(2), I, (uint64_t)-100, "",
     "DONE: field 2 (error): found -100, expected integer -99..0"},
    {HFI_FRAME_CHANGED, P1(2), S, 0, "\x01",
     "CHANGED: field 2 (prefix): found a string of 1 bytes, "
     "expected 0..255 bytes of UTF-8 without control characters"},
    {HFI_FRAME_STATED, P1(6), U, 3, "",
     "STATED: field 6 (session_state): found 3, expected integer 0..2"},
    {HFI_FRAME_STATED, P1(12), U, 0, "",
     "STATED: field 12 (voters): found 0, expected an array of 0..7"},
    {HFI_FRAME_STATED, P3(12, 0, 0), S, 0, "B",
     "STATED: voter 0: field 0 (name): found a string of 1 bytes, expected 1..32 of [a-z0-9_-]"},
    {HFI_FRAME_STATED, P3(12, 0, 1), N, 128, "",
     "STATED: voter 0: field 1 (address): "
     "found a string of 128 bytes, expected 0..127 visible ASCII characters"},
    {HFI_FRAME_STATED, P3(12, 0, 2), U, 3, "",
     "STATED: voter 0: field 2 (state): found 3, expected integer 0..2"},
    {HFI_FRAME_LISTED, P1(2), U, 1, "", "LISTED: field 2 (more): found 1, expected true or false"},
    {HFI_FRAME_BROKEN, P1(2), U, 1, "",
     "BROKEN: field 2 (error): found 1, expected integer -99..0"},
    {HFI_FRAME_BROKEN, P1(3), I, (uint64_t)-1, "",
     "BROKEN: field 3 (closed_ns): found -1, expected integer 0..9223372036854775807"},
    {HFI_FRAME_BROKEN, P1(5), U, 33, "",
     "BROKEN: field 5 (hold_count): found 33, expected integer 0..32"},
    {HFI_FRAME_BROKEN, P1(6), U, 3, "",
     "BROKEN: field 7 (items): found an array of 5, expected an array of 6"},
    {HFI_FRAME_BROKEN, P3(7, 2, 5), U, 2, "",
     "BROKEN: item 2: field 5 (mode): found 2, expected integer 0..1"},
    {HFI_FRAME_BROKEN, P2(7, 3), S, 0, "A",
     "BROKEN: item 3: field 0 (agent): found a string of 1 bytes, expected 1..32 of [a-z0-9_-]"},
    {HFI_FRAME_LISTED, P1(3), U, 1, "",
     "LISTED: field 3 (locks): found 1, expected an array of 0..64"},
    {HFI_FRAME_LISTED, P3(3, 1, 0), S, 0, "",
     "LISTED: lock 1: field 0 (name): found a string of 0 bytes, " NAME255},
    {HFI_FRAME_LISTED, P3(3, 1, 1), U, 3, "",
     "LISTED: lock 1: field 1 (state): found 3, expected integer 0..2"},
    {HFI_FRAME_LISTED, P3(3, 1, 2), I, (uint64_t)-2, "",
     "LISTED: lock 1: field 2 (closed_ns): found -2, expected integer -1..9223372036854775807"},
    {HFI_FRAME_LISTED, P3(3, 1, 3), I, (uint64_t)-2, "",
     "LISTED: lock 1: field 3 (age_ns): found -2, expected integer -1..9223372036854775807"},
    {HFI_FRAME_LISTED, P3(3, 1, 4), S, 0, "A b",
     "LISTED: lock 1: field 4 (coordinator): found a string of 3 bytes, "
     "expected 0..32 of [a-z0-9_-]"},
    {HFI_FRAME_LISTED, P3(3, 1, 5), U, 65, "",
     "LISTED: lock 1: field 5 (holder_count): found 65, expected integer 0..64"},
    {HFI_FRAME_LISTED, P3(3, 1, 5), U, 4, "",
     "LISTED: lock 1: field 7 (parties): found an array of 3, expected an array of 4..68"},
    {HFI_FRAME_LISTED, P5(3, 1, 7, 2, 0), I, (uint64_t)-2, "",
     "LISTED: lock 1: party 2: field 0 (pid): found -2, expected integer -1..2147483647"},
    {HFI_FRAME_LISTED, P5(3, 1, 7, 2, 1), U, 1ull << 32, "",
     "LISTED: lock 1: party 2: field 1 (uid): found 4294967296, expected integer -1..4294967295"},
    {HFI_FRAME_LISTED, P5(3, 1, 7, 2, 5), U, 2, "",
     "LISTED: lock 1: party 2: field 5 (mode): found 2, expected integer 0..1"},
    {HFI_FRAME_LISTED, P5(3, 1, 7, 2, 6), N, 33, "",
     "LISTED: lock 1: party 2: field 6 (agent): "
     "found a string of 33 bytes, expected 0..32 of [a-z0-9_-]"},
    {HFI_FRAME_LISTED, P5(3, 1, 7, 2, 7), N, 161, "",
     "LISTED: lock 1: party 2: field 7 (command): "
     "found a string of 161 bytes, expected 0..160 bytes of UTF-8 without control characters"},
    {HFI_FRAME_LISTED, P5(3, 1, 7, 2, 7), S, 0, "\x1b[2J",
     "LISTED: lock 1: party 2: field 7 "
     "(command): found a string of 4 bytes, expected 0..160 bytes of UTF-8 without control "
     "characters"},
};

/* Writes the small frame of that kind; for LISTED and BROKEN, a page. */
static size_t small_packet(enum hfi_frame_kind kind)
{
    for (size_t i = 0; i < SAMPLE_KINDS; i++) {
        sample_small(i, &frame);
        if (frame.kind == kind) {
            return hfi_frame_encode(&frame, packet, sizeof packet);
        }
    }
    if (kind == HFI_FRAME_BROKEN) {
        return sample_page(4, packet);
    }
    ck_assert_int_eq(kind, HFI_FRAME_LISTED);
    return sample_page(2, packet);
}

START_TEST(test_wrong_value)
{
    const struct wrong *wrong = &wrongs[_i];
    size_t size = small_packet(wrong->kind);
    char many[2048];
    msgpack_sbuffer buffer;
    msgpack_packer packer;

    memset(many, 'a', sizeof many);
    msgpack_sbuffer_init(&buffer);
    msgpack_packer_init(&packer, &buffer, msgpack_sbuffer_write);
    if (wrong->what == U) {
        msgpack_pack_uint64(&packer, wrong->number);
    } else if (wrong->what == I) {
        msgpack_pack_int64(&packer, (int64_t)wrong->number);
    } else if (wrong->what == S) {
        msgpack_pack_str_with_body(&packer, wrong->string, strlen(wrong->string));
    } else {
        msgpack_pack_str_with_body(&packer, many, wrong->number);
    }
    ck_assert_int_eq(decode_with(size, wrong->path, &buffer), -1);
    if (strlen(wrong->expected) < sizeof error.text - 1) {
        ck_assert_str_eq(error.text, wrong->expected);
    } else {
        ck_assert_mem_eq(error.text, wrong->expected, sizeof error.text - 1);
    }
    msgpack_sbuffer_destroy(&buffer);
}
END_TEST

/* A field refuses an item of each msgpack type other than its own, and the error names that
 * type. */
static const struct {
    const char *bytes;
    size_t size;
    const char *name;
    char type; /* the type as type_of() returns it; 0: no field has it */
} items[] = {
    {"\xc0", 1, "nil", 0},
    {"\xc3", 1, "true", 'b'},
    {"\x05", 1, "5", 'i'},
    {"\xa1z", 2, "a string of 1 bytes", 't'},
    {"\x91\x01", 2, "an array of 1", 'a'},
    {"\x80", 1, "a map", 0},
    {"\xde\x00\x00", 3, "a map", 0},
    {"\xdf\x00\x00\x00\x00", 5, "a map", 0},
    {"\xc4\x01z", 3, "binary", 0},
    {"\xc5\x00\x01z", 4, "binary", 0},
    {"\xc6\x00\x00\x00\x01z", 6, "binary", 0},
    {"\xca\x3f\x80\x00\x00", 5, "a floating point number", 0},
    {"\xcb\x3f\xf0\x00\x00\x00\x00\x00\x00", 9, "a floating point number", 0},
    {"\xd4\x01z", 3, "an extension", 0},
    {"\xc7\x01\x01z", 4, "an extension", 0},
    {"\xc1", 1, "an extension", 0},
};

static char type_of(unsigned char lead)
{
    if (lead < 0x80 || lead >= 0xe0 || (lead >= 0xcc && lead <= 0xd3)) {
        return 'i';
    }
    if ((lead & 0xe0) == 0xa0 || (lead >= 0xd9 && lead <= 0xdb)) {
        return 't';
    }
    return lead == 0xc2 || lead == 0xc3 ? 'b' : 'a';
}

static void check_types(size_t size, const int *path, int last)
{
    char field[24];
    size_t start;
    size_t end;

    find_element(size, path, &start, &end);
    (void)snprintf(field, sizeof field, "field %d (", last);
    for (size_t i = 0; i < sizeof items / sizeof items[0]; i++) {
        msgpack_sbuffer item = {.data = (char *)(uintptr_t)items[i].bytes, .size = items[i].size};

        if (items[i].type == type_of(packet[start])) {
            continue;
        }
        ck_assert_int_eq(decode_with(size, path, &item), -1);
        ck_assert_msg(strstr(error.text, field) != NULL &&
                          strstr(error.text, items[i].name) != NULL,
                      "kind %d, %s: %s", packet[1], items[i].name, error.text);
    }
}

START_TEST(test_wrong_type)
{
    size_t size = sample_packet((size_t)_i, packet);
    int count = packet[0] & 0x0f;

    for (int i = 0; i < count; i++) {
        check_types(size, (const int[])P1(i), i);
    }
}
END_TEST

START_TEST(test_wrong_type_inside)
{
    size_t size = small_packet(HFI_FRAME_STATED);

    for (int i = 0; i < 3; i++) {
        check_types(size, (const int[])P3(12, 0, i), i);
    }
    size = sample_page(2, packet);
    for (int i = 0; i < 8; i++) {
        check_types(size, (const int[])P3(3, 1, i), i);
        check_types(size, (const int[])P5(3, 1, 7, 2, i), i);
    }
}
END_TEST

/* A frame with one field too many, or one too few, is refused. */
START_TEST(test_wrong_count)
{
    size_t size = sample_packet((size_t)_i, packet);
    unsigned char head = packet[0];

    packet[0] = (unsigned char)(head - 1);
    ck_assert_int_eq(decode(packet, size), -1);
    packet[0] = (unsigned char)(head + 1);
    ck_assert_int_eq(decode(packet, size), -1);
    packet[size] = 0x01;
    ck_assert_int_eq(decode(packet, size + 1), -1);
    ck_assert_ptr_nonnull(strstr(error.text, "expected an array of "));
}
END_TEST

/* Small packets whose heads announce much larger contents. */
static const struct {
    const unsigned char *bytes;
    size_t size;
    const char *expected;
} bombs[] = {
    {BYTES(""), "frame: found 0 bytes, expected 1..16384 bytes"},
    {BYTES("\xdd\xff\xff\xff\xff"),
     "frame: found an array of 4294967295, expected an array of 2..65535"},
    {BYTES("\xdd\xff\xff\xff"),
     "frame: found the end of the packet, expected an array of 2..65535"},
    {BYTES("\x91\x01"), "frame: found an array of 1, expected an array of 2..65535"},
    {BYTES("\x91\x91\x91\x91\x91\x91"),
     "frame: found an array of 1, expected an array of 2..65535"},
    {BYTES("\x92\x92\x92\x92\x92\x92"),
     "frame: field 0 (kind): found an array of 2, expected integer 1..127"},
    {BYTES("\xdc\xff\xff\x09\x01"), "STATUS: found an array of 65535, expected an array of 2"},
    {BYTES("\x93\x08\x07\xdb\xff\xff\xff\xff"
           "abc"),
     "SHOW: field 2 (name): found the end of the packet, " NAME255},
    {BYTES("\x93\x08\x07\xdb\xff\xff\xff"),
     "SHOW: field 2 (name): found the end of the packet, " NAME255},
    {BYTES("\x94\x44\x07\xc2\xdd\xff\xff\xff\xff"),
     "LISTED: field 3 (locks): found an array of 4294967295, expected an array of 0..64"},
    {BYTES("\x94\x44\x07\xc2\x91\x98\xa1n\x00\x00\xff\xa0\x00\xc2\xdd\xff\xff\xff\xff"),
     "LISTED: lock 0: field 7 (parties): found an array of 4294967295, expected an array of 0..64"},
    {BYTES("\x92\x81\x01\x01"), "frame: field 0 (kind): found a map, expected integer 1..127"},
    {BYTES("\x92\xcf\x00\x00\x00\x01\x00\x00\x00\x09\x07"),
     "frame: field 0 (kind): found 4294967305, expected integer 1..127"},
};

START_TEST(test_bombs)
{
    ck_assert_int_eq(decode(bombs[_i].bytes, bombs[_i].size), -1);
    ck_assert_str_eq(error.text, bombs[_i].expected);
}
END_TEST

START_TEST(test_too_large)
{
    memset(other, 0x01, sizeof other);
    ck_assert_int_eq(decode(other, HFI_FRAME_MAX + 1), -1);
    ck_assert_str_eq(error.text, "frame: found 16385 bytes, expected 1..16384 bytes");
}
END_TEST

/* msgpack has longer forms of a number, text or array; the decoder accepts them as the same
 * value. */
START_TEST(test_long_forms)
{
    static const unsigned char open[] =
        "\xdd\x00\x00\x00\x0b\xcc\x02\xcd\x00\x07\xce\x00\x00\x00\x04\xcf\x00\x00\x00\x00\x00\x00"
        "\x00\x0a\xd0\x0b\xd1\x00\x0c\xd2\x00\x00\x00\x0d\xd3\x00\x00\x00\x00\x00\x00\x00\x0e\x0f"
        "\x10\xdb\x00\x00\x00\x04"
        "db/x";
    size_t size = small_packet(HFI_FRAME_OPEN);

    ck_assert_msg(hfi_frame_decode(open, sizeof open - 1, &frame, NULL, &error) == 0, "%s",
                  error.text);
    ck_assert_uint_eq(hfi_frame_encode(&frame, other, sizeof other), size);
    ck_assert_mem_eq(other, packet, size);
    ck_assert_int_eq(decode("\x93\x46\x07\xd0\xf6", 5), 0);
    ck_assert_int_eq(frame.error, -10);
    ck_assert_int_eq(decode("\x93\x46\x07\xd1\xff\xf6", 6), 0);
    ck_assert_int_eq(frame.error, -10);
    ck_assert_int_eq(decode("\x93\x46\x07\xd2\xff\xff\xff\xf6", 8), 0);
    ck_assert_int_eq(frame.error, -10);
    ck_assert_int_eq(decode("\x93\x46\x07\xd3\xff\xff\xff\xff\xff\xff\xff\xf6", 12), 0);
    ck_assert_int_eq(frame.error, -10);
    ck_assert_int_eq(decode("\x93\x08\x07\xd9\x01n", 6), 0);
    ck_assert_int_eq(decode("\x93\x08\x07\xda\x00\x01n", 7), 0);
}
END_TEST

/* The HELLO or WELCOME of another version is decoded up to its version, whatever follows. */
START_TEST(test_other_version)
{
    static const unsigned char hello_1[] = "\x97\x01\x07\x01\xcd\x10\x92\x03\x63\xa5"
                                           "0.1.0"; /* the first libraries sent this as their
                                                     * version */

    ck_assert_int_eq(decode("\x94\x01\x07\x06\x80", 5), 0);
    ck_assert_int_eq(frame.kind, HFI_FRAME_HELLO);
    ck_assert_uint_eq(frame.request, 7);
    ck_assert_uint_eq(frame.hello.version, 6);
    ck_assert_int_eq(frame.hello.pid, 0);
    ck_assert_int_eq(decode("\x93\x40\x07\x09", 4), 0);
    ck_assert_uint_eq(frame.welcome.version, 9);
    ck_assert_int_eq(decode(hello_1, sizeof hello_1 - 1), 0);
    ck_assert_uint_eq(frame.hello.version, 1);
    ck_assert_int_eq(decode("\x93\x01\x07\x05", 4), -1);
    ck_assert_str_eq(error.text, "HELLO: found an array of 3, expected an array of 8");
    ck_assert_int_eq(decode("\x92\x01\x07", 3), -1);
}
END_TEST

/* A release whose frames differ from those of earlier releases needs a new version. Otherwise a new
 * client and an old agent would refuse each other's frames as damaged. */
START_TEST(test_a_change_moves_the_version)
{
    const int version = 5;
    const uint64_t sum = UINT64_C(0x9d0d4a3f3b2e706e);
    uint64_t found = HFI_REGION_VERSION;

    for (size_t index = 0; index < SAMPLE_COUNT; index++) {
        size_t size = sample_packet(index, packet);
        for (size_t i = 0; i < size; i++) {
            found = (found ^ packet[i]) * UINT64_C(0x100000001b3);
        }
    }
    ck_assert_msg(found == sum && HFI_PROTOCOL_VERSION == version,
                  "other frames than those of version %d, or another layout of regions: raise "
                  "HFI_PROTOCOL_VERSION (%d), write what changed into SCHEMA.md, and here the "
                  "version and 0x%" PRIx64,
                  version, HFI_PROTOCOL_VERSION, found);
}
END_TEST

/* A HELLO of a client that sends no command line decodes with an empty one. */
START_TEST(test_hello_command)
{
    static const unsigned char none[] = "\x98\x01\x07\x05\xcd\x10\x92\x03\x63\xa5"
                                        "0.1.0\xa0";
    size_t size = sizeof none - 1;

    ck_assert_msg(hfi_frame_decode(none, size, &frame, NULL, &error) == 0, "%s", error.text);
    ck_assert_uint_eq(frame.hello.pid, 4242);
    ck_assert_uint_eq(frame.hello.library.size, 5);
    ck_assert_uint_eq(frame.hello.command.size, 0);
    ck_assert_uint_eq(hfi_frame_encode(&frame, other, sizeof other), size);
    ck_assert_mem_eq(other, none, size);
    /* The encoder does not send what the decoder refuses. */
    sample_large(0, &frame);
    frame.hello.command.size = HFI_FRAME_COMMAND_MAX + 1;
    ck_assert_uint_eq(hfi_frame_encode(&frame, other, sizeof other), 0);
}
END_TEST

static void check_command(const char *words, size_t size, const char *expected)
{
    char cleaned[HFI_FRAME_COMMAND_MAX];
    struct hfi_text shown = hfi_command_of(words, size, cleaned);

    ck_assert_msg(shown.size == strlen(expected) && memcmp(shown.bytes, expected, shown.size) == 0,
                  "%.*s: expected %s", (int)shown.size, shown.bytes, expected);
    sample_small(0, &frame); /* a command line cut by hfi_command_of() can be sent */
    frame.hello.command = shown;
    ck_assert_uint_gt(hfi_frame_encode(&frame, other, sizeof other), 0);
}

START_TEST(test_command_of)
{
    static char most[HFI_FRAME_COMMAND_MAX + 40];
    char expected[HFI_FRAME_COMMAND_MAX + 1];

    check_command("", 0, "");
    check_command("\0\0", 2, "");
    check_command("sh\0-c\0make all\0", 15, "sh -c make all");
    check_command("a\0\0b \0", 6, "a  b");
    check_command("x\ny\x7f\xc2\x85\xffz\xc3", 9, "x?y????z?");
    memset(most, 'a', sizeof most);
    memset(expected, 'a', sizeof expected);
    expected[HFI_FRAME_COMMAND_MAX] = '\0';
    check_command(most, sizeof most, expected);
    /* the limit cuts the character in two, so the whole character is left out */
    memcpy(most + HFI_FRAME_COMMAND_MAX - 1, "\xc3\xa4", 2);
    expected[HFI_FRAME_COMMAND_MAX - 1] = '\0';
    check_command(most, sizeof most, expected);
    memcpy(most + HFI_FRAME_COMMAND_MAX - 2, "\xc3\xa4z", 3); /* the character fits */
    memcpy(expected + HFI_FRAME_COMMAND_MAX - 2, "\xc3\xa4", 3);
    check_command(most, sizeof most, expected);
}
END_TEST

/* A refused request still shows its kind and number, so the agent can answer it. */
START_TEST(test_request_of_refused)
{
    ck_assert_int_eq(decode("\x93\x08\x07\x01", 4), -1);
    ck_assert_int_eq(frame.kind, HFI_FRAME_SHOW);
    ck_assert_uint_eq(frame.request, 7);
    ck_assert_int_eq(decode("\x93\x7f\x07\x01", 4), -1);
    ck_assert_int_eq(frame.kind, 0);
    ck_assert_uint_eq(frame.request, 0);
}
END_TEST

/* The encoder refuses the frames that the decoder refuses. */
START_TEST(test_encoder_refuses)
{
    size_t refused = 0;

    for (size_t i = 0; i < SAMPLE_KINDS; i++) {
        sample_small(i, &frame);
        frame.request = frame.request == 0 ? 1 : 0;
        if (hfi_frame_encode(&frame, other, sizeof other) == 0) {
            refused++;
        }
    }
    /* all but DONE, in which the number 0 (of no request) is valid */
    ck_assert_uint_eq(refused, SAMPLE_KINDS - 1);
    memset(&frame, 0, sizeof frame);
    frame = (struct hfi_frame){.kind = 17, .request = 1};
    ck_assert_uint_eq(hfi_frame_encode(&frame, other, sizeof other), 0);
    frame = (struct hfi_frame){.kind = HFI_FRAME_LISTED, .request = 1};
    ck_assert_uint_eq(hfi_frame_encode(&frame, other, sizeof other), 0);
    frame = (struct hfi_frame){.kind = HFI_FRAME_TOLD, .request = 1};
    ck_assert_uint_eq(hfi_frame_encode(&frame, other, sizeof other), 0);
    frame = (struct hfi_frame){.kind = HFI_FRAME_BROKEN, .request = 1};
    ck_assert_uint_eq(hfi_frame_encode(&frame, other, sizeof other), 0);
    frame = (struct hfi_frame){.kind = HFI_FRAME_SHOW, .request = 1, .text = sample_text("\n")};
    ck_assert_uint_eq(hfi_frame_encode(&frame, other, sizeof other), 0);
    sample_small(1, &frame);
    frame.open.lease_ns = -1;
    ck_assert_uint_eq(hfi_frame_encode(&frame, other, sizeof other), 0);
    sample_small(1, &frame);
    frame.open.holder = 0;
    ck_assert_uint_eq(hfi_frame_encode(&frame, other, sizeof other), 0);
    frame.open.flags = 0;
    ck_assert_uint_gt(hfi_frame_encode(&frame, other, sizeof other), 0);
    sample_large(25, &frame);
    ck_assert_int_eq(frame.kind, HFI_FRAME_STATED);
    frame.stated.voter_count = HFI_FRAME_VOTERS_MAX + 1;
    ck_assert_uint_eq(hfi_frame_encode(&frame, other, sizeof other), 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("frame");
    TCase *tcase = tcase_create("frame");

    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, test_golden, 0, (int)(sizeof golden / sizeof golden[0]));
    tcase_add_loop_test(tcase, test_round_trip, 0, SAMPLE_COUNT);
    tcase_add_loop_test(tcase, test_truncated, 0, SAMPLE_COUNT);
    tcase_add_loop_test(tcase, test_bit_flips, 0, SAMPLE_COUNT);
    tcase_add_loop_test(tcase, test_wrong_value, 0, (int)(sizeof wrongs / sizeof wrongs[0]));
    tcase_add_loop_test(tcase, test_wrong_type, 0, SAMPLE_KINDS);
    tcase_add_test(tcase, test_wrong_type_inside);
    tcase_add_loop_test(tcase, test_wrong_count, 0, SAMPLE_COUNT);
    tcase_add_loop_test(tcase, test_bombs, 0, (int)(sizeof bombs / sizeof bombs[0]));
    tcase_add_test(tcase, test_too_large);
    tcase_add_test(tcase, test_hello_command);
    tcase_add_test(tcase, test_command_of);
    tcase_add_test(tcase, test_long_forms);
    tcase_add_test(tcase, test_other_version);
    tcase_add_test(tcase, test_a_change_moves_the_version);
    tcase_add_test(tcase, test_request_of_refused);
    tcase_add_test(tcase, test_encoder_refuses);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
