/*
 * The input is a packet for the decoder of gossip. The decoder refuses the packet, or every entry
 * is within bounds and means the same after it is encoded again. The packet is also given to an
 * agent, whose state must stay valid and which must not send without end.
 */
#include "../unit/gossip_samples.h"
#include "fuzz.h"

#include "core/gossip.h"
#include "proto/check.h"

#include <stdlib.h>
#include <string.h>

static size_t gossip_seed(size_t index, uint8_t *bytes, size_t size)
{
    HF_CHECK(size >= GOSSIP_PACKET_MAX);
    return gossip_sample((uint32_t)index, bytes);
}

static void check_items(struct gossip_reader *reader, struct gossip_writer *writer)
{
    struct gossip_stamp stamp;
    struct gossip_item item;
    unsigned char own[GOSSIP_BODY_MAX];
    const unsigned char *body;
    size_t size;

    while (gossip_next_item(reader, &stamp, &item, &body, &size)) {
        HF_CHECK(size <= GOSSIP_BODY_MAX);
        size_t again = gossip_body_encode(&item, own, sizeof own);
        HF_CHECK(again > 0 && again <= size); /* the encoder writes the shortest form, so the
                                               * entry does not grow */
        HF_CHECK(gossip_body_decode(own, again, &item));
        HF_CHECK(gossip_add_item(writer, &stamp, own, again));
    }
}

static void check_rest(struct gossip_reader *reader, struct gossip_writer *writer)
{
    static struct gossip_hashes hashes;
    struct gossip_digest digest;

    while (reader->kind == GOSSIP_DIGEST && gossip_next_digest(reader, &digest)) {
        HF_CHECK(gossip_add_digest(writer, &digest));
    }
    while (reader->kind == GOSSIP_HASHES && gossip_next_hashes(reader, &hashes)) {
        HF_CHECK(hashes.count <= GOSSIP_BUCKETS && gossip_add_hashes(writer, &hashes));
    }
}

static void give_to_agent(const uint8_t *bytes, size_t size)
{
    static struct gossip *gossip;
    static struct gossip_action items[GOSSIP_STEP_ACTIONS];
    static unsigned char output[GOSSIP_STEP_OUTPUT];
    static int64_t now_ns = 1000000000;
    struct gossip_actions actions = {.items = items,
                                     .capacity = GOSSIP_STEP_ACTIONS,
                                     .output = output,
                                     .output_size = sizeof output};
    struct gossip_event event = {.kind = GOSSIP_START, .as.epoch = 1};

    if (gossip == NULL) {
        struct gossip_config config = {
            .limits = {8, 64, 256}, .self = {1, "a"}, .silent_ns = 10000000000};
        void *memory = calloc(1, gossip_size(&config.limits));
        HF_CHECK(memory != NULL);
        gossip = gossip_init(memory, &config, 1);
        event.now_ns = now_ns;
        gossip_step(gossip, &event, &actions);
    }
    now_ns += 20000000;
    event = (struct gossip_event){.kind = GOSSIP_RECEIVED, .now_ns = now_ns, .agent = {1, "b"}};
    event.as.received.bytes = bytes;
    event.as.received.size = size;
    gossip_step(gossip, &event, &actions);
    HF_CHECK(actions.count <= 2 * (GOSSIP_REPAIR_PACKETS + 2) + GOSSIP_VIEW);
    if (gossip_next_tick_ns(gossip) <= now_ns) {
        event = (struct gossip_event){.kind = GOSSIP_TICK, .now_ns = now_ns};
        actions.count = 0;
        actions.output_used = 0;
        gossip_step(gossip, &event, &actions);
    }
    gossip_check_invariants(gossip);
}

static void gossip_entry(const uint8_t *bytes, size_t size)
{
    static unsigned char again[GOSSIP_PACKET_MAX];
    struct gossip_reader reader;
    struct gossip_writer writer;

    give_to_agent(bytes, size);
    if (!gossip_open(&reader, bytes, size)) {
        HF_CHECK(reader.left == 0);
        return;
    }
    bool answer = reader.answer;
    uint32_t left = reader.left;
    gossip_begin(&writer, again, sizeof again, reader.kind, reader.incarnation,
                 reader.heartbeat_ms);
    if (reader.kind == GOSSIP_ITEMS) {
        check_items(&reader, &writer);
    } else {
        check_rest(&reader, &writer);
    }
    HF_CHECK(reader.left == 0 && writer.count == left);
    size = gossip_end(&writer, answer);
    HF_CHECK(gossip_open(&reader, again, size) && reader.left == left);
}

const struct fuzz_target fuzz_target = {"gossip", gossip_entry, gossip_seed, 10000};
