/*
 * Gives any packet to the decoder of messages between agents. The decoder must refuse the packet,
 * or each message in it must be within bounds, and the same after an encoding and a decoding.
 * Gossip must lie inside the packet.
 */
#include "../unit/wire_samples.h"
#include "fuzz.h"

#include "proto/check.h"

#include <string.h>

enum { GOSSIP_SIZE = 40 };

static const struct message_agent cell = {.length = 4, .text = "prod"};

/* Makes a seed: one sample of each message, or several messages with gossip between them. */
static size_t wire_seed(size_t index, uint8_t *bytes, size_t size)
{
    static const uint8_t gossip[GOSSIP_SIZE] = {1, 2, 3};
    static struct message message;
    struct wire_header header;
    struct wire_writer writer;
    size_t last = index;

    uint32_t version = index <= WIRE_SAMPLE_SHAPES ? WIRE_VERSION : WIRE_VERSION_OLDEST;

    if (index > 2 * WIRE_SAMPLE_SHAPES + 1) {
        return 0;
    }
    index %= WIRE_SAMPLE_SHAPES + 1;
    last = index;
    wire_sample_header(&header);
    wire_begin(&writer, bytes, size, &header, version);
    if (index == WIRE_SAMPLE_SHAPES) {
        index = 0;
        last = 5;
    }
    for (; index <= last; index++) {
        wire_sample(index, &message);
        HF_CHECK(wire_add(&writer, &message));
        HF_CHECK(last != 5 || wire_add_gossip(&writer, gossip, sizeof gossip));
    }
    return wire_end(&writer);
}

static void check_message(const struct message *message)
{
    const struct message_value *value = message_value_of(message);

    HF_CHECK(message_kind_valid((unsigned)message->kind));
    HF_CHECK(message->to.length <= MESSAGE_AGENT_MAX && message->from.length > 0);
    HF_CHECK(message_size(message) <= sizeof *message);
    HF_CHECK(value == NULL || value->share_count <= MESSAGE_SHARES_MAX);
}

/* Decodes the whole packet and encodes it again. Returns the new size, or 0 if the decoder refused
 * the packet. */
static size_t wire_again(const uint8_t *bytes, size_t size, uint8_t *out, size_t room)
{
    static struct message message;
    struct wire_reader reader;
    struct wire_writer writer;
    enum wire_item_kind kind;
    const unsigned char *gossip;
    size_t gossip_size;
    uint32_t left;
    enum wire_error error = wire_open(&reader, bytes, size, &cell);

    if (error != WIRE_OK) {
        HF_CHECK(reader.left == 0 && wire_error_text(error) != NULL);
        HF_CHECK(!wire_next(&reader, &kind, &message, &gossip, &gossip_size));
        return 0;
    }
    wire_begin(&writer, out, room, &reader.header, reader.version);
    for (left = reader.left; wire_next(&reader, &kind, &message, &gossip, &gossip_size); left--) {
        if (kind == WIRE_MESSAGE) {
            check_message(&message);
            HF_CHECK(wire_add(&writer, &message));
        } else {
            HF_CHECK(gossip >= bytes && gossip + gossip_size <= bytes + size);
            HF_CHECK(wire_add_gossip(&writer, gossip, gossip_size));
        }
    }
    HF_CHECK(left == 0);
    return wire_end(&writer);
}

static void wire_entry(const uint8_t *bytes, size_t size)
{
    static uint8_t first[WIRE_PACKET_MAX];
    static uint8_t second[WIRE_PACKET_MAX];
    size_t first_size = wire_again(bytes, size, first, sizeof first);

    if (first_size == 0) {
        return;
    }
    HF_CHECK(first_size <= size + 2); /* the encoder always writes the full width of the items'
                                       * head */
    HF_CHECK(wire_again(first, first_size, second, sizeof second) == first_size);
    HF_CHECK(memcmp(first, second, first_size) == 0);
}

const struct fuzz_target fuzz_target = {"wire", wire_entry, wire_seed, 16 * 1024};
