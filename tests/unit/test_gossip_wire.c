/* Gossip as bytes: the reader returns what the writer wrote, and refuses everything else. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "gossip_samples.h"
#include "holdfast/holdfast.h"

static unsigned char bytes[GOSSIP_PACKET_MAX];

START_TEST(test_items_come_back)
{
    struct gossip_reader reader;
    struct gossip_stamp stamp;
    struct gossip_item item;
    struct gossip_item sample;
    const unsigned char *body;
    size_t size;
    ck_assert(gossip_open(&reader, bytes, gossip_sample(GOSSIP_SAMPLE_ITEMS, bytes)));
    ck_assert_int_eq(reader.kind, GOSSIP_ITEMS);
    ck_assert_uint_eq(reader.incarnation, 99);
    ck_assert_uint_eq(reader.heartbeat_ms, 123456);
    ck_assert(!reader.answer);
    for (uint32_t i = 0; i < GOSSIP_SAMPLE_ITEMS; i++) {
        /* zeroes the padding too, so that memcmp() can compare whole structs */
        memset(&item, 0, sizeof(item));
        gossip_sample_item(i, &sample);
        ck_assert(gossip_next_item(&reader, &stamp, &item, &body, &size));
        ck_assert_uint_eq(stamp.number, i % 2 ? INT64_MAX : i + 1);
        ck_assert_uint_eq(stamp.age_ms, i % 2 ? UINT32_MAX : 0);
        ck_assert_uint_eq(stamp.author.length, i % 2 ? 32 : 1);
        ck_assert_uint_eq(item.kind, sample.kind);
        if (i == 2 || i == 9 || i == 11) { /* the largest items */
            ck_assert_uint_eq(item.as.lock.name.length, MESSAGE_NAME_MAX);
            ck_assert_uint_eq(item.as.lock.holder_count, GOSSIP_HOLDERS_MAX);
            ck_assert_uint_eq(item.as.lock.waiter_count, GOSSIP_WAITERS_MAX);
            ck_assert_uint_eq(strlen(item.as.lock.holders[3].command), GOSSIP_COMMAND_MAX);
            ck_assert_uint_eq(item.as.lock.holders[3].token, UINT64_MAX);
            ck_assert_int_eq(item.as.lock.waiters[7].waited_ms, INT64_MAX);
            ck_assert_uint_eq(item.as.lock.waiter_total, 2000);
            ck_assert_int_eq(item.as.lock.has_last, i >= 9);
            ck_assert_str_eq(item.as.lock.holders[3].note, sample.as.lock.holders[3].note);
            ck_assert_int_eq(
                memcmp(&item.as.lock.last, &sample.as.lock.last, sizeof(sample.as.lock.last)), 0);
        } else if (i != 1 && i != 10) {
            ck_assert_int_eq(memcmp(&item, &sample, sizeof(item)), 0);
        } else {
            ck_assert_str_eq(item.as.lock.holders[0].command, "job");
            ck_assert_int_eq(item.as.lock.holders[0].uid, -1);
            ck_assert_int_eq(item.as.lock.waiters[0].pid, 77);
            ck_assert_str_eq(item.as.lock.holders[0].note, i == 10 ? "trial" : "");
            ck_assert(!item.as.lock.has_last);
        }
        ck_assert(gossip_body_decode(body, size, &item));
        ck_assert(!gossip_body_decode(body, size - 1, &item));
    }
    ck_assert(!gossip_next_item(&reader, &stamp, &item, &body, &size));
}
END_TEST

START_TEST(test_digests_and_hashes_come_back)
{
    struct gossip_reader reader;
    struct gossip_digest digest;
    struct gossip_hashes hashes;
    struct gossip_hashes sample;
    ck_assert(gossip_open(&reader, bytes, gossip_sample(GOSSIP_SAMPLE_ITEMS + 1, bytes)));
    ck_assert(reader.answer);
    for (uint32_t i = 0; i < 3; i++) {
        ck_assert(gossip_next_digest(&reader, &digest));
        ck_assert_uint_eq(digest.incarnation, 1 + i);
        ck_assert_uint_eq(digest.hash, i ? UINT64_MAX : 0);
        ck_assert_uint_eq(digest.age_ms, i ? UINT32_MAX : 0);
    }
    ck_assert(!gossip_next_digest(&reader, &digest));
    ck_assert(gossip_open(&reader, bytes, gossip_sample(GOSSIP_SAMPLE_ITEMS + 2, bytes)));
    for (uint32_t i = 0; i < 3; i++) {
        gossip_sample_hashes(i == 2 ? GOSSIP_BUCKETS : i, &sample);
        ck_assert(gossip_next_hashes(&reader, &hashes));
        ck_assert_uint_eq(hashes.count, sample.count);
        ck_assert_int_eq(memcmp(hashes.buckets, sample.buckets, hashes.count * 8), 0);
    }
    ck_assert(!gossip_next_hashes(&reader, &hashes));
}
END_TEST

/* The reader refuses a packet that is cut off anywhere, or has an extra byte at its end. */
START_TEST(test_cut_and_longer)
{
    struct gossip_reader reader;
    for (uint32_t i = 0; i < GOSSIP_SAMPLE_PACKETS; i++) {
        size_t size = gossip_sample(i, bytes);
        ck_assert_uint_gt(size, 0);
        ck_assert(gossip_open(&reader, bytes, size));
        for (size_t cut = 0; cut < size; cut++) {
            ck_assert(!gossip_open(&reader, bytes, cut));
            ck_assert_uint_eq(reader.left, 0);
        }
        if (size < sizeof(bytes)) {
            bytes[size] = 0;
            ck_assert(!gossip_open(&reader, bytes, size + 1));
        }
    }
    ck_assert_uint_eq(gossip_sample(GOSSIP_SAMPLE_PACKETS, bytes), 0);
}
END_TEST

/* Reads the only item of a packet. Returns its body's size. */
static size_t only_item(const void *packet, size_t size, struct gossip_item *item,
                        const unsigned char **body)
{
    struct gossip_reader reader;
    struct gossip_stamp stamp;
    size_t body_size = 0;
    ck_assert(gossip_open(&reader, packet, size));
    ck_assert_uint_eq(reader.left, 1);
    ck_assert(gossip_next_item(&reader, &stamp, item, body, &body_size));
    return body_size;
}

/* An agent of an earlier release gets the items without `last` and notes, and otherwise
 * unchanged. */
START_TEST(test_narrow)
{
    unsigned char narrow[GOSSIP_PACKET_MAX];
    unsigned char again[GOSSIP_PACKET_MAX];
    for (uint32_t i = 0; i < GOSSIP_SAMPLE_PACKETS; i++) {
        size_t size = gossip_sample(i, bytes);
        size_t narrow_size = gossip_narrow(bytes, size, narrow);
        bool has_last = i >= 8 && i <= GOSSIP_SAMPLE_ITEMS;
        ck_assert_uint_gt(narrow_size, 0);
        ck_assert_int_eq(narrow_size < size, has_last);
        ck_assert(has_last || memcmp(bytes, narrow, size) == 0);
        ck_assert_uint_eq(gossip_narrow(narrow, narrow_size, again), narrow_size);
        ck_assert_mem_eq(narrow, again, narrow_size);
        if (has_last && i < GOSSIP_SAMPLE_ITEMS) {
            struct gossip_item sample;
            struct gossip_item item;
            const unsigned char *body;
            unsigned char own[GOSSIP_BODY_MAX];
            size_t body_size = only_item(narrow, narrow_size, &item, &body);
            ck_assert(!item.as.lock.has_last);
            gossip_sample_item(i, &sample);
            sample.as.lock.has_last = false;
            for (uint32_t k = 0; k < sample.as.lock.holder_count; k++) {
                sample.as.lock.holders[k].note[0] = '\0';
            }
            ck_assert_uint_eq(gossip_body_encode(&sample, own, sizeof(own)), body_size);
            ck_assert_mem_eq(own, body, body_size);
        }
    }
    ck_assert_uint_eq(gossip_narrow("abc", 3, narrow), 0);
}
END_TEST

/* In a packet of an earlier release, the bytes of an item without `last` are the same as today. */
START_TEST(test_bytes_of_an_earlier_release)
{
    static const char earlier[] = "\x95\x01\xc2\x63\xce\x00\x01\xe2\x40\xdc\x00\x01"
                                  "\x9c\xa1"
                                  "a\x01\x01\x00\x04\xa3"
                                  "a/b\x00\x00\x00\x00\x90\x90";
    struct gossip_item item;
    const unsigned char *body;
    ck_assert_uint_eq(gossip_sample(0, bytes), sizeof(earlier) - 1);
    ck_assert_mem_eq(bytes, earlier, sizeof(earlier) - 1);
    (void)only_item(earlier, sizeof(earlier) - 1, &item, &body);
    ck_assert(!item.as.lock.has_last);
}
END_TEST

/* A later release may add fields at the end of an item, and of `last`. A reader skips them, and an
 * agent passes them on. */
START_TEST(test_later_fields)
{
    unsigned char body[GOSSIP_BODY_MAX];
    struct gossip_writer writer;
    struct gossip_item item;
    const unsigned char *read;
    struct gossip_stamp stamp = {.author = {1, "a"}, .incarnation = 1, .number = 1};
    for (uint32_t i = 0; i < GOSSIP_SAMPLE_ITEMS; i++) {
        gossip_sample_item(i, &item);
        size_t size = gossip_body_encode(&item, body, sizeof(body));
        bool has_last = item.kind == GOSSIP_LOCK && item.as.lock.has_last;
        if (item.kind == GOSSIP_LOCK && i < 10) {
            continue; /* a field behind an item without notes would be read as `last` or notes */
        }
        memcpy(body + size, "\xa1x\x92\x01\xc3", 5);
        ck_assert(gossip_body_decode(body, size + 5, &item));
        ck_assert(!gossip_body_decode(body, size + 4, &item));
        memcpy(body + size, "\xc0", 1); /* a type that no item has */
        ck_assert(!gossip_body_decode(body, size + 1, &item));
        memcpy(body + size, "\xa1x\x92\x01\xc3", 5);
        gossip_begin(&writer, bytes, sizeof(bytes), GOSSIP_ITEMS, 1, 1);
        ck_assert(gossip_add_item(&writer, &stamp, body, size + 5));
        ck_assert_uint_eq(only_item(bytes, gossip_end(&writer, false), &item, &read), size + 5);
        ck_assert_mem_eq(read, body, size + 5);
        ck_assert_int_eq(item.kind == GOSSIP_LOCK && item.as.lock.has_last, has_last);
    }
    /* an item that ends with `last`, which has a note and one field more */
    gossip_sample_item(8, &item);
    size_t size = gossip_body_encode(&item, body, sizeof(body));
    item.as.lock.has_last = false;
    unsigned char before[GOSSIP_BODY_MAX];
    size_t at = gossip_body_encode(&item, before, sizeof(before));
    ck_assert_uint_eq(body[at], 0x98);
    body[at] += 2;
    memcpy(body + size, "\xa1n\x07", 3);
    ck_assert(gossip_body_decode(body, size + 3, &item));
    ck_assert(item.as.lock.has_last);
    ck_assert_str_eq(item.as.lock.last.command, "ls");
    ck_assert_str_eq(item.as.lock.last.note, "n");
    ck_assert(!gossip_body_decode(body, size + 2, &item));
    body[at] = 0x97; /* fewer fields than `last` has */
    ck_assert(!gossip_body_decode(body, size - 1, &item));
}
END_TEST

/* Replaces the first occurrence of `from` by `to`, which has the same length. Returns false if
 * there is none. */
static bool replace(size_t size, const char *from, const char *to, size_t length)
{
    for (size_t at = 0; at + length <= size; at++) {
        if (memcmp(bytes + at, from, length) == 0) {
            memcpy(bytes + at, to, length);
            return true;
        }
    }
    return false;
}

START_TEST(test_refused)
{
    static const struct {
        const char *what;
        uint32_t sample;
        uint32_t length;
        const char *from;
        const char *to;
    } bad[] = {
        {"a control character in a name", 1, 4, "\243a/b", "\243a\001b"},
        {"a command that is no UTF-8", 1, 4, "\243job", "\243j\377b"},
        {"no such state", 1, 6, "\004\243a/b\001", "\004\243a/b\003"},
        {"no such kind", 1, 5, "\004\243a/b", "\005\243a/b"},
        {"a kind with other fields", 1, 5, "\004\243a/b", "\001\243a/b"},
        {"more holders than there are", 1, 6, "a/b\001\000\001", "a/b\001\000\000"},
        {"a packet of no kind", 0, 3, "\225\001\302", "\225\004\302"},
        {"a packet with a field less", 0, 3, "\225\001\302", "\224\001\302"},
        {"epoch 0 is over", 7, 2, "4\007", "4\000"},
        {"an author with a capital", 0, 3, "\241a\001", "\241A\001"},
        {"an incarnation 0", GOSSIP_SAMPLE_ITEMS + 1, 3, "\241a\001", "\241a\000"},
    };
    struct gossip_reader reader;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        size_t size = gossip_sample(bad[i].sample, bytes);
        ck_assert_msg(replace(size, bad[i].from, bad[i].to, bad[i].length), "not there: %s",
                      bad[i].what);
        ck_assert_msg(!gossip_open(&reader, bytes, size), "is read: %s", bad[i].what);
    }
    unsigned char large[GOSSIP_PACKET_MAX + 1] = {0};
    ck_assert(!gossip_open(&reader, large, sizeof(large)));
}
END_TEST

/* The writer refuses a value out of range, and cleans a command line. */
START_TEST(test_not_written)
{
    unsigned char body[GOSSIP_BODY_MAX];
    struct gossip_item item;
    gossip_sample_item(1, &item);
    strcpy(item.as.lock.holders[0].command, "a\x1b[31m\xff");
    size_t size = gossip_body_encode(&item, body, sizeof(body));
    ck_assert_uint_gt(size, 0);
    ck_assert(gossip_body_decode(body, size, &item));
    ck_assert_str_eq(item.as.lock.holders[0].command, "a?[31m?");
    item.as.lock.state = 3;
    ck_assert_uint_eq(gossip_body_encode(&item, body, sizeof(body)), 0);
    gossip_sample_item(1, &item);
    item.as.lock.name.length = 0;
    ck_assert_uint_eq(gossip_body_encode(&item, body, sizeof(body)), 0);
    gossip_sample_item(2, &item);
    size = gossip_body_encode(&item, body, sizeof(body));
    ck_assert_uint_gt(size, 0);
    ck_assert_uint_eq(gossip_body_encode(&item, body, size - 1), 0);
}
END_TEST

/* Notes are cleaned, and cut if there are several, so that the item is not too large. An item whose
 * holders have notes has a `last` that says nothing, and a reader takes it as none. */
START_TEST(test_notes)
{
    unsigned char body[GOSSIP_BODY_MAX];
    struct gossip_item item;
    gossip_sample_item(10, &item);
    memset(item.as.lock.holders[0].note, 'n', GOSSIP_NOTE_MAX);
    item.as.lock.holders[0].note[1] = '\n';
    size_t size = gossip_body_encode(&item, body, sizeof(body));
    ck_assert_uint_gt(size, 0);
    ck_assert(gossip_body_decode(body, size, &item));
    ck_assert(!item.as.lock.has_last);
    ck_assert_uint_eq(strlen(item.as.lock.holders[0].note), GOSSIP_NOTE_MAX);
    ck_assert_int_eq(strncmp(item.as.lock.holders[0].note, "n?nn", 4), 0);
    gossip_sample_item(11, &item);
    for (uint32_t i = 0; i < GOSSIP_HOLDERS_MAX; i++) {
        memset(item.as.lock.holders[i].note, '0' + (int)i, GOSSIP_NOTE_MAX);
    }
    memset(item.as.lock.last.note, 'l', GOSSIP_NOTE_MAX);
    size = gossip_body_encode(&item, body, sizeof(body));
    ck_assert_uint_gt(size, 0);
    ck_assert(gossip_body_decode(body, size, &item));
    for (uint32_t i = 0; i < GOSSIP_HOLDERS_MAX; i++) {
        ck_assert_uint_eq(strlen(item.as.lock.holders[i].note), GOSSIP_NOTES_MAX / 5);
        ck_assert_int_eq(item.as.lock.holders[i].note[0], '0' + (int)i);
    }
    ck_assert(item.as.lock.has_last);
    ck_assert_uint_eq(strlen(item.as.lock.last.note), GOSSIP_NOTES_MAX / 5);
    /* another number of notes than of holders */
    gossip_sample_item(10, &item);
    size = gossip_body_encode(&item, body, sizeof(body));
    ck_assert_mem_eq(body + size - 7, "\x91\xa5trial", 7);
    body[size - 7] = 0x90;
    ck_assert(!gossip_body_decode(body, size - 6, &item));
}
END_TEST

/* A packet takes each item that fits, and stays unchanged when an item does not fit. */
START_TEST(test_full)
{
    unsigned char body[GOSSIP_BODY_MAX];
    struct gossip_writer writer;
    struct gossip_reader reader;
    struct gossip_item item;
    struct gossip_stamp stamp = {.author = {1, "a"}, .incarnation = 1, .number = 1};
    gossip_sample_item(2, &item);
    size_t size = gossip_body_encode(&item, body, sizeof(body));
    gossip_begin(&writer, bytes, sizeof(bytes), GOSSIP_ITEMS, 1, 1);
    uint32_t count = 0;
    while (count < 100 && gossip_add_item(&writer, &stamp, body, size)) {
        count++;
    }
    ck_assert_uint_ge(count, 4);
    ck_assert_uint_lt(count, 10);
    size_t packet = gossip_end(&writer, true);
    ck_assert_uint_le(packet, GOSSIP_PACKET_MAX);
    ck_assert(gossip_open(&reader, bytes, packet));
    ck_assert_uint_eq(reader.left, count);
    ck_assert(reader.answer);
    gossip_sample_item(0, &item);
    size = gossip_body_encode(&item, body, sizeof(body));
    gossip_begin(&writer, bytes, sizeof(bytes), GOSSIP_ITEMS, 1, 1);
    for (count = 0; count < 1000 && gossip_add_item(&writer, &stamp, body, size);) {
        count++;
    }
    ck_assert_uint_eq(count, GOSSIP_ENTRIES_MAX);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("gossip_wire");
    tcase_add_test(tests, test_items_come_back);
    tcase_add_test(tests, test_digests_and_hashes_come_back);
    tcase_add_test(tests, test_cut_and_longer);
    tcase_add_test(tests, test_narrow);
    tcase_add_test(tests, test_bytes_of_an_earlier_release);
    tcase_add_test(tests, test_later_fields);
    tcase_add_test(tests, test_refused);
    tcase_add_test(tests, test_not_written);
    tcase_add_test(tests, test_notes);
    tcase_add_test(tests, test_full);
    return suite_main("gossip_wire", tests);
}
