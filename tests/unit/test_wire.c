/*
 * Packets between agents: every field of a message survives encoding and decoding, damaged packets
 * are refused, and the bytes are those of SCHEMA.md.
 */
#include "gossip_samples.h"
#include "wire_samples.h"

#include "hot_assert.h"

#include <check.h>
#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"

static const struct message_agent cell = {.length = 4, .text = "prod"};
static unsigned char packet[WIRE_PACKET_MAX + 16];
static unsigned char other[WIRE_PACKET_MAX + 16];
static struct message sent;
static struct message got;
static uint32_t speaks = WIRE_VERSION; /* the version in which the tests write packets */

/* Constants for loops over all samples in every version, the newest version first. */
enum { VERSIONS = WIRE_VERSION - WIRE_VERSION_OLDEST + 1, SAMPLES_ALL = VERSIONS * WIRE_SAMPLES };

/* If tests share a process, a test must not inherit a version from the one before. */
static void set_up(void)
{
    speaks = WIRE_VERSION;
}

static size_t choose_version(int round)
{
    speaks = WIRE_VERSION - (uint32_t)round / WIRE_SAMPLES;
    return (size_t)round % WIRE_SAMPLES;
}

static void begin(struct wire_writer *writer, size_t size)
{
    struct wire_header header;

    wire_sample_header(&header);
    wire_begin(writer, packet, size, &header, speaks);
}

/* Writes a packet with this one message. Returns its size. */
static size_t packet_of(const struct message *message)
{
    struct wire_writer writer;

    begin(&writer, sizeof packet);
    HOT_ASSERT(wire_add(&writer, message));
    return wire_end(&writer);
}

/* Returns the size of the packet, or 0 if the version does not have the sample's kind. */
static size_t sample(size_t index)
{
    wire_sample(index, &sent);
    if (!wire_has_kind(speaks, sent.kind)) {
        return 0;
    }
    wire_sample_of(&sent, speaks);
    return packet_of(&sent);
}

static enum wire_error open_bytes(struct wire_reader *reader, const void *bytes, size_t size)
{
    return wire_open(reader, bytes, size, &cell);
}

static enum wire_error open_only(const void *bytes, size_t size)
{
    struct wire_reader reader;
    enum wire_error error = open_bytes(&reader, bytes, size);
    enum wire_item_kind kind;
    const unsigned char *gossip;
    size_t gossip_size;

    if (error != WIRE_OK) {
        HOT_ASSERT(!wire_next(&reader, &kind, &got, &gossip, &gossip_size));
    }
    return error;
}

/* Reads the single message of a packet into `got`. */
static void read_one(size_t size)
{
    struct wire_reader reader;
    enum wire_item_kind kind;
    const unsigned char *gossip;
    size_t gossip_size;
    enum wire_error error = open_bytes(&reader, packet, size);

    if (error != WIRE_OK) {
        ck_abort_msg("item %u %s: %s", reader.bad_item,
                     reader.bad_kind != NULL ? reader.bad_kind : "",
                     reader.bad_field != NULL ? reader.bad_field : "");
    }
    memset(&got, 0, sizeof got); /* sets fields that the decoder leaves uninitialised */
    HOT_ASSERT(wire_next(&reader, &kind, &got, &gossip, &gossip_size));
    HOT_ASSERT(kind == WIRE_MESSAGE);
    HOT_ASSERT(!wire_next(&reader, &kind, &got, &gossip, &gossip_size));
}

START_TEST(test_round_trip)
{
    size_t size = sample(choose_version(_i));

    if (size == 0) {
        return;
    }
    read_one(size);
    ck_assert_int_eq(got.kind, sent.kind);
    ck_assert_uint_eq(message_size(&got), message_size(&sent));
    ck_assert_mem_eq(&got, &sent, message_size(&sent));
    memcpy(other, packet, size);
    ck_assert_uint_eq(packet_of(&got), size);
    ck_assert_mem_eq(other, packet, size);
}
END_TEST

/* The decoder does not touch a share that was not sent, and shares of an earlier, longer message do
 * not reappear. */
START_TEST(test_shares)
{
    struct wire_reader reader;
    enum wire_item_kind kind;
    const unsigned char *gossip;
    size_t gossip_size;
    size_t size;

    wire_sample(33, &sent);
    ck_assert_int_eq(sent.kind, MESSAGE_ACCEPT);
    ck_assert_uint_eq(sent.as.accept.value.share_count, 2);
    memset(&got, 0x5a, sizeof got);
    size = packet_of(&sent);
    ck_assert_int_eq(open_bytes(&reader, packet, size), WIRE_OK);
    ck_assert(wire_next(&reader, &kind, &got, &gossip, &gossip_size));
    ck_assert_mem_eq(&got, &sent, message_size(&sent));
    ck_assert_uint_eq(*(const unsigned char *)&got.as.accept.value.shares[40], 0x5a);
}
END_TEST

/* ---- the bytes ---- */

#define BYTES(text) (text), sizeof(text) - 1

START_TEST(test_golden)
{
    static const char empty[] = "\x98\x03\xa4prod\xa6host-a\x47\xcf\xff\xff\xff\xff\xff\xff\xff\xff"
                                "\x48\xcd\x01\x2c\xdc\x00\x00";
    static const char read[] = "\x98\x03\xa4prod\xa6host-a\x47\xcf\xff\xff\xff\xff\xff\xff\xff\xff"
                               "\x48\xcd\x01\x2c\xdc\x00\x01\x95\x03\xa0\xc2\xce\x00\x01\x00\x02"
                               "\xa3x/y";
    static const char gossip[] = "\x98\x03\xa4prod\xa6host-a\x47\xcf\xff\xff\xff\xff\xff\xff\xff"
                                 "\xff\x48\xcd\x01\x2c\xdc\x00\x01\xc4\x03"
                                 "abc";
    struct wire_writer writer;

    speaks = WIRE_VERSION_OLDEST;
    begin(&writer, sizeof packet);
    ck_assert_uint_eq(wire_end(&writer), sizeof empty - 1);
    ck_assert_mem_eq(packet, empty, sizeof empty - 1);
    ck_assert_int_eq(open_only(BYTES(empty)), WIRE_OK);

    memset(&sent, 0, sizeof sent);
    sent.kind = MESSAGE_READ;
    sent.as.read.ballot = 0x10002;
    sent.as.read.name = (struct message_name){.length = 3, .bytes = "x/y"};
    ck_assert_uint_eq(packet_of(&sent), sizeof read - 1);
    ck_assert_mem_eq(packet, read, sizeof read - 1);

    begin(&writer, sizeof packet);
    ck_assert(wire_add_gossip(&writer, "abc", 3));
    ck_assert_uint_eq(wire_end(&writer), sizeof gossip - 1);
    ck_assert_mem_eq(packet, gossip, sizeof gossip - 1);
}
END_TEST

/* A hash (FNV-1a) over all samples, for each version. If a sample changes by more than a new
 * optional field, older and newer agents do not understand each other. Such a change needs a new
 * WIRE_VERSION and a change of SCHEMA.md. The hashes of older versions stay. */
START_TEST(test_bytes_of_all_kinds)
{
    static const uint64_t hashes[] = {UINT64_C(0xd732a0b5e93de71e), UINT64_C(0x02aa88cc385aa700),
                                      UINT64_C(0xba9947804a3ee454)};
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    speaks = WIRE_VERSION_OLDEST + (uint32_t)_i;
    for (size_t i = 0; i < WIRE_SAMPLES; i++) {
        size_t size = sample(i);

        for (size_t at = 0; at < size; at++) {
            hash = (hash ^ packet[at]) * UINT64_C(0x100000001b3);
        }
    }
    ck_assert_uint_eq(sizeof hashes / sizeof hashes[0], VERSIONS);
    ck_assert_msg(hash == hashes[_i], "0x%016llx", (unsigned long long)hash);
}
END_TEST

/* Gossip has `last` only from version 5 on. Bytes that are not gossip are not changed. */
START_TEST(test_gossip_of_versions)
{
    static unsigned char gossip[GOSSIP_PACKET_MAX];
    static unsigned char narrow[GOSSIP_PACKET_MAX];
    struct wire_writer writer;
    struct wire_reader reader;
    enum wire_item_kind kind;
    const unsigned char *read;
    size_t size = gossip_sample(9, gossip);
    size_t read_size;

    speaks = WIRE_VERSION_OLDEST + (uint32_t)_i;
    begin(&writer, sizeof packet);
    ck_assert(wire_add_gossip(&writer, gossip, size));
    ck_assert_int_eq(open_bytes(&reader, packet, wire_end(&writer)), WIRE_OK);
    ck_assert(wire_next(&reader, &kind, &got, &read, &read_size));
    ck_assert_int_eq(kind, WIRE_GOSSIP);
    if (speaks < WIRE_VERSION_GROWN) {
        ck_assert_uint_eq(read_size, gossip_narrow(gossip, size, narrow));
        ck_assert_uint_lt(read_size, size);
        ck_assert_mem_eq(read, narrow, read_size);
    } else {
        ck_assert_uint_eq(read_size, size);
        ck_assert_mem_eq(read, gossip, size);
    }
}
END_TEST

/* A BROKEN with as many holds as possible, each with the highest values. Commands come from other
 * processes, so the writer replaces control characters. A reader of an older version gets the
 * outcome only. */
START_TEST(test_broken)
{
    wire_sample(29, &sent);
    ck_assert_int_eq(sent.kind, MESSAGE_BROKEN);
    char note[MESSAGE_NOTES_MAX];
    memset(note, 'n', sizeof(note));
    sent.as.broken.count = 0;
    for (uint32_t i = 0; i < MESSAGE_HOLDS_MAX; i++) {
        struct message_hold made;
        struct message_hold *hold = &made;
        memset(hold, 0, sizeof(*hold));
        hold->pid = INT32_MAX;
        hold->uid = UINT32_MAX;
        hold->held_ms = INT64_MAX;
        hold->token = MESSAGE_TOKEN_LIMIT - 1;
        hold->command_size = MESSAGE_COMMAND_MAX;
        memset(hold->command, 'c', MESSAGE_COMMAND_MAX);
        hold->note_size = MESSAGE_NOTES_MAX / MESSAGE_HOLDS_MAX;
        message_broken_add(&sent.as.broken, hold, note);
    }
    read_one(packet_of(&sent));
    ck_assert_uint_eq(message_size(&got), message_size(&sent));
    ck_assert_mem_eq(&got, &sent, message_size(&sent));
    sent.as.broken.items.holds[3].command[1] = '\x1b';
    sent.as.broken.items.holds[3].command[2] = '\xff';
    read_one(packet_of(&sent));
    ck_assert_mem_eq(got.as.broken.items.holds[3].command, "c??c", 4);
    speaks = WIRE_VERSION_GROWN - 1; /* which has no notes */
    read_one(packet_of(&sent));
    ck_assert_uint_eq(got.as.broken.count, MESSAGE_HOLDS_MAX);
    ck_assert_uint_eq(got.as.broken.items.holds[3].note_size, 0);
    speaks = WIRE_VERSION_OLDEST;
    read_one(packet_of(&sent));
    ck_assert_int_eq(got.as.broken.part, MESSAGE_BROKEN_PLAIN);
    ck_assert_uint_eq(got.as.broken.count, 0);
    ck_assert_int_eq(got.as.outcome.result, sent.as.outcome.result);
}
END_TEST

START_TEST(test_all_kinds_sampled)
{
    bool seen[MESSAGE_KIND_END] = {false};

    for (size_t i = 0; i < WIRE_SAMPLES; i++) {
        wire_sample(i, &sent);
        seen[sent.kind] = true;
    }
    for (unsigned kind = 0; kind < MESSAGE_KIND_END; kind++) {
        ck_assert_int_eq(seen[kind], message_kind_valid(kind));
        ck_assert_int_eq(strcmp(wire_kind_text((enum message_kind)kind), "unknown") != 0,
                         message_kind_valid(kind));
    }
}
END_TEST

/* ---- many items ---- */

START_TEST(test_many)
{
    struct wire_writer writer;
    struct wire_reader reader;
    enum wire_item_kind kind;
    const unsigned char *gossip;
    size_t gossip_size;
    size_t size;
    unsigned char rumour[300];

    begin(&writer, sizeof packet);
    for (size_t i = 0; i < WIRE_SAMPLES; i++) {
        memset(rumour, (int)i, sizeof rumour);
        wire_sample(i, &sent);
        ck_assert(wire_add(&writer, &sent));
        ck_assert(wire_add_gossip(&writer, rumour, i + 1));
    }
    size = wire_end(&writer);
    ck_assert_int_eq(open_bytes(&reader, packet, size), WIRE_OK);
    ck_assert_uint_eq(reader.left, 2 * WIRE_SAMPLES);
    for (size_t i = 0; i < WIRE_SAMPLES; i++) {
        memset(rumour, (int)i, sizeof rumour);
        wire_sample(i, &sent);
        ck_assert(wire_next(&reader, &kind, &got, &gossip, &gossip_size));
        ck_assert_int_eq(kind, WIRE_MESSAGE);
        ck_assert_mem_eq(&got, &sent, message_size(&sent));
        ck_assert(wire_next(&reader, &kind, &got, &gossip, &gossip_size));
        ck_assert_int_eq(kind, WIRE_GOSSIP);
        ck_assert_uint_eq(gossip_size, i + 1);
        ck_assert_mem_eq(gossip, rumour, i + 1);
        ck_assert(gossip >= packet && gossip + gossip_size <= packet + size);
    }
    ck_assert(!wire_next(&reader, &kind, &got, &gossip, &gossip_size));
}
END_TEST

/* A message that does not fit leaves the packet unchanged, so the packet can still be sent and
 * read. */
START_TEST(test_full)
{
    struct wire_writer writer;
    struct wire_reader reader;
    size_t whole;
    uint32_t count = 0;

    wire_sample(4, &sent);
    for (size_t room = WIRE_HEADER_ROOM; room < WIRE_HEADER_ROOM + 200; room++) {
        size_t before;

        begin(&writer, room);
        for (count = 0; wire_add(&writer, &sent); count++) {
        }
        before = writer.used;
        ck_assert(!wire_add_gossip(&writer, other, 300));
        ck_assert_uint_eq(writer.used, before);
        whole = wire_end(&writer);
        ck_assert_uint_le(whole, room);
        ck_assert_int_eq(open_bytes(&reader, packet, whole), WIRE_OK);
        ck_assert_uint_eq(reader.left, count);
    }
    ck_assert_uint_gt(count, 1);
    /* The writer's limits are those of the reader, and the largest item fits into an empty
     * packet. */
    begin(&writer, sizeof packet);
    while (wire_add_gossip(&writer, other, WIRE_ITEM_MAX)) {
    }
    while (wire_add_gossip(&writer, other, 1)) {
    }
    whole = wire_end(&writer);
    ck_assert_uint_le(whole, WIRE_PACKET_MAX);
    ck_assert_int_eq(open_only(packet, whole), WIRE_OK);
    begin(&writer, WIRE_HEADER_ROOM + WIRE_ITEM_MAX);
    ck_assert(wire_add_gossip(&writer, other, WIRE_ITEM_MAX));
    for (size_t i = 0; i < WIRE_SAMPLES; i++) {
        wire_sample(i, &sent);
        begin(&writer, WIRE_HEADER_ROOM + WIRE_ITEM_MAX);
        ck_assert(wire_add(&writer, &sent));
    }
}
END_TEST

START_TEST(test_too_large)
{
    memset(packet, 0, sizeof packet);
    ck_assert_int_eq(open_only(packet, WIRE_PACKET_MAX + 1), WIRE_TOO_LARGE);
    ck_assert_int_eq(open_only(packet, 0), WIRE_MALFORMED);
}
END_TEST

/* ---- damage ---- */

START_TEST(test_truncated)
{
    size_t size = sample((size_t)_i);

    for (size_t cut = 0; cut < size; cut++) {
        /* has exactly `cut` bytes, so that AddressSanitizer reports a read beyond them */
        unsigned char *exact = malloc(cut > 0 ? cut : 1);

        ck_assert_ptr_nonnull(exact);
        memcpy(exact, packet, cut);
        ck_assert_int_eq(open_only(exact, cut), WIRE_MALFORMED);
        free(exact);
    }
    packet[size] = 0xc0;
    ck_assert_int_eq(open_only(packet, size + 1), WIRE_MALFORMED);
}
END_TEST

#ifdef HF_SANITIZED
enum { FLIP_STEP = 3 }; /* every third bit, because a sanitizer takes four times as long */
#else
enum { FLIP_STEP = 1 };
#endif

/* A packet that the reader accepts is written again with the same bytes, except for longer forms of
 * numbers. */
START_TEST(test_bit_flips)
{
    size_t size = sample(choose_version(_i));
    size_t step = size > 1000 ? 5 : FLIP_STEP;

    if (size == 0) {
        return;
    }
    for (size_t bit = 0; bit < size * 8; bit += step) {
        packet[bit / 8] ^= (unsigned char)(1u << bit % 8);
        if (open_only(packet, size) == WIRE_OK) {
            memcpy(other, packet, size);
            speaks = packet[1]; /* the flipped bit may change the version: 4 becomes 5, or 5
                                 * becomes 4 */
            read_one(size);
            HOT_ASSERT_UINT(packet_of(&got), <=, size);
            memcpy(packet, other, size);
        }
        packet[bit / 8] ^= (unsigned char)(1u << bit % 8);
    }
}
END_TEST

/* ---- each element wrong ---- */

enum change { CHANGE_NIL, CHANGE_ARRAY, CHANGE_LESS, CHANGE_MORE, CHANGES };

/* Packs an object again, with its element number `victim` (in the order of packing) changed. */
struct repack {
    msgpack_packer packer;
    size_t index;
    size_t victim;
    enum change change;
    bool done;
};

enum { DEPTH_MAX = 8 };

static void repack_leaf(struct repack *repack, const msgpack_object *object)
{
    if (repack->index++ != repack->victim) {
        msgpack_pack_object(&repack->packer, *object);
        return;
    }
    if (repack->change == CHANGE_NIL || object->type == MSGPACK_OBJECT_ARRAY) {
        msgpack_pack_nil(&repack->packer);
        repack->done = true;
    } else if (repack->change == CHANGE_ARRAY) {
        msgpack_pack_array(&repack->packer, 0);
        repack->done = true;
    } else {
        msgpack_pack_object(&repack->packer, *object); /* the object is no array, so it cannot be
                                                        * shortened */
    }
}

/* Packs an array's head. Returns how many of its elements to pack. *more: one further element
 * follows. */
static uint32_t repack_head(struct repack *repack, const msgpack_object *object, bool *more)
{
    uint32_t size = object->via.array.size;

    *more = false;
    if (repack->index++ == repack->victim) {
        repack->done = true;
        if (repack->change == CHANGE_LESS && size > 0) {
            size--;
        } else {
            *more = true;
        }
    }
    msgpack_pack_array(&repack->packer, size + (*more ? 1 : 0));
    return size;
}

static void repack_all(struct repack *repack, const msgpack_object *root)
{
    struct level {
        const msgpack_object *array;
        uint32_t next, size;
        bool more;
    } levels[DEPTH_MAX];
    int depth = 0;

    levels[0] = (struct level){.array = root};
    levels[0].size = repack_head(repack, root, &levels[0].more);
    while (depth >= 0) {
        struct level *level = &levels[depth];
        const msgpack_object *object;

        if (level->next == level->size) {
            if (level->more) {
                msgpack_pack_nil(&repack->packer);
            }
            depth--;
            continue;
        }
        object = &level->array->via.array.ptr[level->next++];
        if (object->type != MSGPACK_OBJECT_ARRAY ||
            (repack->index == repack->victim && repack->change < CHANGE_LESS)) {
            repack_leaf(repack, object);
            continue;
        }
        ck_assert_int_lt(++depth, DEPTH_MAX);
        levels[depth] = (struct level){.array = object};
        levels[depth].size = repack_head(repack, object, &levels[depth].more);
    }
}

/* Returns whether the message has a field that may be absent. */
static bool has_optional(void)
{
    return sent.kind == MESSAGE_RENEW || sent.kind == MESSAGE_RENEW_ACK ||
           sent.kind == MESSAGE_AMEND || sent.kind == MESSAGE_ACQUIRE ||
           sent.kind == MESSAGE_RECALL || sent.kind == MESSAGE_REFUSED ||
           sent.kind == MESSAGE_BREAK || sent.kind == MESSAGE_BREAK_HOLD ||
           sent.kind == MESSAGE_BROKEN || (sent.kind == MESSAGE_HEARTBEAT && speaks >= 5);
}

static bool has_notes(void)
{
    return speaks >= WIRE_VERSION_GROWN && sent.as.broken.part == MESSAGE_BROKEN_HOLDS;
}

/* Returns how many arrays of the packet may have fewer elements. These are the items, a message
 * with an optional field, the voters (of a HELLO or a record), the shares, and the items of a
 * BROKEN without notes. */
static size_t flexible_arrays(void)
{
    const struct message_value *value = message_value_of(&sent);

    const struct message_voters *voters = message_voters_of(&sent);

    return 1u + (speaks > WIRE_VERSION_OLDEST && has_optional() ? 1 : 0) +
           (voters != NULL && voters->count > 1 ? 1 : 0) +
           (sent.kind == MESSAGE_HELLO || sent.kind == MESSAGE_HELLO_ACK ? 1 : 0) +
           (speaks > WIRE_VERSION_OLDEST && sent.kind == MESSAGE_BROKEN && !has_notes() ? 1 : 0) +
           (value != NULL && value->share_count > 0 ? 1 : 0);
}

START_TEST(test_each_element)
{
    size_t size = sample(choose_version(_i));
    size_t offset = 0;
    size_t tried = 0;
    size_t shorter = 0;
    msgpack_unpacked unpacked;
    msgpack_sbuffer buffer;

    if (size == 0) {
        return;
    }
    msgpack_unpacked_init(&unpacked);
    msgpack_sbuffer_init(&buffer);
    ck_assert_int_eq(msgpack_unpack_next(&unpacked, (const char *)packet, size, &offset),
                     MSGPACK_UNPACK_SUCCESS);
    ck_assert_uint_eq(offset, size);
    for (int change = 0; change < CHANGES; change++) {
        size_t count = 1;

        for (size_t victim = 0; victim < count; victim++) {
            struct repack repack = {.victim = victim, .change = (enum change)change};

            msgpack_sbuffer_clear(&buffer);
            msgpack_packer_init(&repack.packer, &buffer, msgpack_sbuffer_write);
            repack_all(&repack, &unpacked.data);
            /* the number of elements of the packet: a shortened array has fewer */
            count = repack.index > count ? repack.index : count;
            if (open_only(buffer.data, buffer.size) == WIRE_OK && repack.done) {
                ck_assert_int_eq(change, CHANGE_LESS);
                shorter++;
            } else if (!repack.done) {
                ck_assert_int_eq(open_only(buffer.data, buffer.size), WIRE_OK);
            }
            tried += repack.done ? 1 : 0;
        }
    }
    ck_assert_uint_gt(tried, 30);
    ck_assert_uint_eq(shorter, flexible_arrays());
    msgpack_sbuffer_destroy(&buffer);
    msgpack_unpacked_destroy(&unpacked);
}
END_TEST

/* ---- ranges ---- */

/* Opens a packet with one item of these bytes, for example a READ with a certain name. */
static enum wire_error open_item(const void *item, size_t item_size)
{
    struct wire_writer writer;
    size_t size;

    begin(&writer, sizeof packet);
    size = wire_end(&writer);
    memcpy(packet + size, item, item_size);
    packet[writer.count_at + 2] = 1;
    return open_only(packet, size + item_size);
}

static const struct {
    const char *bytes;
    size_t size;
    enum wire_error expected;
} items[] = {
    {BYTES("\x95\x03\xa0\xc2\x01\xa1x"), WIRE_OK},
    {BYTES("\x95\x03\xa0\xc2\xcf\x00\x00\xff\xff\xff\xff\xff\xff\xa1x"), WIRE_OK},
    /* 2^48, too large */
    {BYTES("\x95\x03\xa0\xc2\xcf\x00\x01\x00\x00\x00\x00\x00\x00\xa1x"), WIRE_MALFORMED},
    /* -1, negative */
    {BYTES("\x95\x03\xa0\xc2\xff\xa1x"), WIRE_MALFORMED},
    /* a longer form of 1 */
    {BYTES("\x95\x03\xa0\xc2\xd3\x00\x00\x00\x00\x00\x00\x00\x01\xa1x"), WIRE_OK},
    /* an empty name */
    {BYTES("\x95\x03\xa0\xc2\x01\xa0"), WIRE_MALFORMED},
    {BYTES("\x95\x03\xa0\xc2\x01\xa1\n"), WIRE_MALFORMED},
    {BYTES("\x95\x03\xa0\xc2\x01\xa1\xc3"), WIRE_MALFORMED},  /* half of a character */
    {BYTES("\x95\x03\xa0\xc2\x01\xc4\x01x"), WIRE_MALFORMED}, /* binary, not a string */
    {BYTES("\x95\x03\xa1-\xc3\x01\xa1x"), WIRE_OK},           /* relayed */
    {BYTES("\x95\x03\xa1"
           "A\xc3\x01\xa1x"),
     WIRE_MALFORMED},                                             /* this is no name of an agent */
    {BYTES("\x95\x1c\xa0\xc2\x01\xa1x"), WIRE_MALFORMED},         /* no kind 28 */
    {BYTES("\x95\x00\xa0\xc2\x01\xa1x"), WIRE_MALFORMED},         /* no kind 0 */
    {BYTES("\x95\x50\xa0\xc2\x01\xa1x"), WIRE_MALFORMED},         /* no kind 80 */
    {BYTES("\x95\xcd\x01\x03\xa0\xc2\x01\xa1x"), WIRE_MALFORMED}, /* no kind 259 */
    {BYTES("\x90"), WIRE_MALFORMED},
    {BYTES("\xdd\xff\xff\xff\xff"), WIRE_MALFORMED},
    {BYTES("\xc4\x00"), WIRE_MALFORMED}, /* gossip without bytes */
    {BYTES("\xc6\xff\xff\xff\xff"), WIRE_MALFORMED},
    /* BROKEN: the result must be from -99 to 0 */
    {BYTES("\x96\x48\xa0\xc2\xa1"
           "a\x01\x00"),
     WIRE_OK},
    {BYTES("\x96\x48\xa0\xc2\xa1"
           "a\x01\xd0\x9d"),
     WIRE_OK},
    {BYTES("\x96\x48\xa0\xc2\xa1"
           "a\x01\xd0\x9c"),
     WIRE_MALFORMED},
    {BYTES("\x96\x48\xa0\xc2\xa1"
           "a\x01\x01"),
     WIRE_MALFORMED},
    {BYTES("\x96\x48\xa0\xc2\xa1"
           "a\x01\xd3\x80\x00\x00\x00\x00\x00\x00\x00"),
     WIRE_MALFORMED},
};

START_TEST(test_items)
{
    speaks = WIRE_VERSION_OLDEST;
    ck_assert_int_eq(open_item(items[_i].bytes, items[_i].size), items[_i].expected);
    speaks = WIRE_VERSION;
    ck_assert_int_eq(open_item(items[_i].bytes, items[_i].size), items[_i].expected);
}
END_TEST

/* A later release may add fields at the end of a message. They are skipped, whatever they contain,
 * and the known fields before them are read. */
enum { LATER_FIELDS = 7 };

static void later_fields(uint32_t which)
{
    static const struct {
        /* bytes after READ's fields, or after RENEW_ACK's fields with `page` */
        const char *bytes;
        size_t size;
        uint32_t count;
        enum wire_error expected;
    } more[] = {
        {BYTES("\x07"), 1, WIRE_OK},
        {BYTES("\xa3"
               "abc\xc4\x02yz\x93\x01\x92\xa0\x90\x02"),
         3, WIRE_OK},
        {BYTES("\x07"), 2, WIRE_MALFORMED},                 /* fewer fields than announced */
        {BYTES("\x07\x08"), 1, WIRE_MALFORMED},             /* more fields than announced */
        {BYTES("\xdd\xff\xff\xff\xff"), 1, WIRE_MALFORMED}, /* an array of 2^32 - 1 */
        {BYTES("\xc0"), 1, WIRE_MALFORMED},                 /* a type that no message has */
        {BYTES("\x91\x91\x91\x81\x01\x02"), 1, WIRE_MALFORMED},
    };
    for (size_t index = 0; index < WIRE_SAMPLE_SHAPES; index++) {
        size_t size = sample(index);
        struct wire_writer writer;
        size_t head;

        if (sent.kind != MESSAGE_READ && sent.kind != MESSAGE_RENEW_ACK) {
            continue;
        }
        begin(&writer, sizeof packet);
        head = writer.used; /* the message's own array begins here */
        size = packet_of(&sent);
        ck_assert_uint_eq(packet[head] & 0xf0u, 0x90);
        ck_assert_uint_lt((packet[head] & 0xfu) + more[which].count, 16);
        packet[head] = (unsigned char)(packet[head] + more[which].count);
        memcpy(packet + size, more[which].bytes, more[which].size);
        ck_assert_int_eq(open_only(packet, size + more[which].size), more[which].expected);
        if (more[which].expected == WIRE_OK) {
            read_one(size + more[which].size);
            ck_assert_mem_eq(&got, &sent, message_size(&sent));
        }
    }
}

START_TEST(test_later_fields)
{
    speaks = _i < LATER_FIELDS ? WIRE_VERSION : 4;
    later_fields((uint32_t)_i % LATER_FIELDS);
}
END_TEST

/* Samples in which one field is made one larger than its limit. The field is found by its bytes,
 * searched from the packet's end. */
static const struct {
    size_t shape;
    const char *what;
    size_t what_size;
    const char *instead;
} above[] = {
    {4, BYTES("\xcf\x00\x00\xff\xff\xff\xff\xff\xff"), "\xcf\x00\x01\x00\x00\x00\x00\x00\x00"},
    {4, BYTES("\xcf\x00\x00\x00\xff\xff\xff\xff\xff"), "\xcf\x00\x00\x01\x00\x00\x00\x00\x00"},
    {4, BYTES("\xcf\x80\x00\x00\x00\x00\x00\x00\x00"), "\xcf\x80\x00\x00\x00\x00\x00\x00\x01"},
    /* lock-delay too large */
    {4, BYTES("\xcd\xea\x60\xcd\xff\xff\x02"), "\xcd\xea\x61\xcd\xff\xff\x02"},
    {4, BYTES("\xcd\xea\x60\xcd\xff\xff\x02"), "\xcd\xea\x60\xcd\xff\xff\x03"}, /* no such mode */
    {11, BYTES("\x02\xcd\xea\x60"), "\x03\xcd\xea\x60"},
    {11, BYTES("\x02\xcd\xea\x60"), "\x02\xcd\xea\x61"},
    {12, BYTES("\xcf\x80\x00\x00\x00\x00\x00\x00\x00"), "\xcf\x80\x00\x00\x00\x00\x00\x00\x01"},
    {13, BYTES("\xcf\x80\x00\x00\x00\x00\x00\x00\x00"), "\xcf\x80\x00\x00\x00\x00\x00\x00\x01"},
    {16, BYTES("\xc3\x05\xcf"), "\xc3\x08\xcf"}, /* no such status */
    {16, BYTES("\xcf\x7f\xff\xff\xff\xff\xff\xff\xff"), "\xcf\x80\x00\x00\x00\x00\x00\x00\x00"},
    {17, BYTES("\x02\xcc\xff\xcf"), "\x03\xcc\xff\xcf"}, /* no such value of `what` */
};

START_TEST(test_above)
{
    size_t size = sample(WIRE_SAMPLE_SHAPES + above[_i].shape);
    size_t at = size - above[_i].what_size;

    while (at > 0 && memcmp(packet + at, above[_i].what, above[_i].what_size) != 0) {
        at--;
    }
    ck_assert_uint_gt(at, 0);
    ck_assert_int_eq(open_only(packet, size), WIRE_OK);
    memcpy(packet + at, above[_i].instead, above[_i].what_size);
    ck_assert_int_eq(open_only(packet, size), WIRE_MALFORMED);
}
END_TEST

/* A packet has more shares than a message can have. */
START_TEST(test_share_bomb)
{
    struct wire_reader reader;
    size_t size = sample(WIRE_SAMPLE_SHAPES + 35);
    size_t share = 0;
    size_t head = 0;

    ck_assert_uint_eq(sent.as.value.value.share_count, MESSAGE_SHARES_MAX);
    for (size_t at = 0; at + 3 < size && head == 0; at++) {
        if (memcmp(packet + at, "\xdc\x00\x40\x94", 4) == 0) {
            head = at;
        }
    }
    ck_assert_uint_gt(head, 0);
    share = (size - head - 3) / MESSAGE_SHARES_MAX;
    memmove(packet + size, packet + size - share, share);
    packet[head + 2]++;
    ck_assert_int_eq(open_bytes(&reader, packet, size + share), WIRE_MALFORMED);
    ck_assert_uint_eq(reader.bad_item, 0);
    ck_assert_str_eq(reader.bad_kind, "VALUE");
    ck_assert_str_eq(reader.bad_field, "shares");
}
END_TEST

/* ---- strangers ---- */

START_TEST(test_other_version)
{
    struct wire_reader reader;
    static const char later[] = "\x94\x06\xa4prod\xa6host-z\xc0";
    static const char earlier[] = "\x94\x02\xa4prod\xa6host-z\xc0";
    static const char strange[] = "\x93\xcd\x01\x00\x01\x02";

    ck_assert_int_eq(open_bytes(&reader, BYTES(later)), WIRE_OTHER_VERSION);
    ck_assert_uint_eq(reader.version, 6);
    ck_assert_str_eq(reader.header.from.text, "host-z");
    ck_assert_int_eq(open_bytes(&reader, BYTES(earlier)), WIRE_OTHER_VERSION);
    ck_assert_uint_eq(reader.version, 2);
    ck_assert_int_eq(open_bytes(&reader, BYTES(strange)), WIRE_OTHER_VERSION);
    ck_assert_uint_eq(reader.version, 256);
    ck_assert_uint_eq(reader.header.from.length, 0);
    ck_assert_int_eq(open_only("\x93\x00\xa1x\xa1y", 6), WIRE_MALFORMED);
    ck_assert_int_eq(open_only("\x92\x03\xa1x", 4), WIRE_MALFORMED);
}
END_TEST

START_TEST(test_other_cell)
{
    static const struct message_agent others[] = {{.length = 4, .text = "proe"},
                                                  {.length = 3, .text = "pro"},
                                                  {.length = 5, .text = "prodx"}};
    struct wire_reader reader;
    size_t size = sample(0);

    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        ck_assert_int_eq(wire_open(&reader, packet, size, &others[i]), WIRE_OTHER_CELL);
        ck_assert_str_eq(reader.header.cell.text, "prod");
        ck_assert_str_eq(reader.header.from.text, "host-a");
        ck_assert_uint_eq(reader.left, 0);
    }
}
END_TEST

START_TEST(test_header)
{
    static const struct {
        const char *bytes;
        size_t size;
    } headers[] = {
        {BYTES("\x98\x03\xa0\xa1"
               "a\x00\x00\x00\x00\x90")}, /* no cell */
        {BYTES("\x98\x03\xa4prod\xa0\x00\x00\x00\x00\x90")},
        {BYTES("\x98\x03\xa4prod\xa1"
               /* membership 2^32 is too large */
               "a\xcf\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x90")},
        {BYTES("\x97\x03\xa4prod\xa1"
               "a\x00\x00\x00\x00")},
        {BYTES("\x99\x03\xa4prod\xa1"
               "a\x00\x00\x00\x00\x90\x00")},
        {BYTES("\x98\x03\xa4prod\xa1"
               "a\x00\x00\x00\x00\x00")}, /* the items are no array */
        {BYTES("\x98\x03\xa4prod\xa1"
               "a\x00\x00\x00\x00\xdd\x00\x01\x00\x00")}, /* 65,536 items are too many */
        {BYTES("\x81\x01\x01")},
    };
    static const char good[] = "\x98\x03\xa4prod\xa1"
                               "a\x00\x00\x00\x00\x90";

    ck_assert_int_eq(open_only(BYTES(good)), WIRE_OK);
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        ck_assert_msg(open_only(headers[i].bytes, headers[i].size) == WIRE_MALFORMED, "%zu", i);
    }
}
END_TEST

START_TEST(test_texts)
{
    for (int error = WIRE_OK; error <= WIRE_OTHER_CELL; error++) {
        ck_assert_str_ne(wire_error_text((enum wire_error)error), "unknown");
    }
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *tcase = tcase_create("wire");

    tcase_set_timeout(tcase, 60);
    tcase_add_checked_fixture(tcase, set_up, NULL);
    tcase_add_loop_test(tcase, test_round_trip, 0, SAMPLES_ALL);
    tcase_add_test(tcase, test_shares);
    tcase_add_test(tcase, test_golden);
    tcase_add_loop_test(tcase, test_gossip_of_versions, 0, VERSIONS);
    tcase_add_loop_test(tcase, test_bytes_of_all_kinds, 0, VERSIONS);
    tcase_add_test(tcase, test_broken);
    tcase_add_test(tcase, test_all_kinds_sampled);
    tcase_add_test(tcase, test_many);
    tcase_add_test(tcase, test_full);
    tcase_add_test(tcase, test_too_large);
    tcase_add_loop_test(tcase, test_truncated, 0, WIRE_SAMPLES);
    tcase_add_loop_test(tcase, test_bit_flips, 0, SAMPLES_ALL);
    tcase_add_loop_test(tcase, test_each_element, 0, SAMPLES_ALL);
    tcase_add_loop_test(tcase, test_items, 0, (int)(sizeof items / sizeof items[0]));
    tcase_add_loop_test(tcase, test_later_fields, 0, 2 * LATER_FIELDS);
    tcase_add_loop_test(tcase, test_above, 0, (int)(sizeof above / sizeof above[0]));
    tcase_add_test(tcase, test_share_bomb);
    tcase_add_test(tcase, test_other_version);
    tcase_add_test(tcase, test_other_cell);
    tcase_add_test(tcase, test_header);
    tcase_add_test(tcase, test_texts);
    suite_add_tcase(suite, tcase);
    return suite_run(suite);
}
