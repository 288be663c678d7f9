/* Gossip packets of every shape: see gossip_samples.h. */
#include "gossip_samples.h"

#include <string.h>

#include "holdfast/admin.h"
#include "proto/check.h"

static const struct message_agent small_name = {1, "a"};
static const struct message_agent large_name = {32, "abcdefghijklmnopqrstuvwxyz_01234"};

static void large_lock(struct gossip_lock *lock)
{
    lock->name.length = MESSAGE_NAME_MAX;
    memset(lock->name.bytes, 'n', MESSAGE_NAME_MAX);
    lock->state = HF_STATE_SHARED;
    lock->closed_ms = UINT32_MAX;
    lock->holder_total = 1000;
    lock->waiter_total = 2000;
    lock->holder_count = GOSSIP_HOLDERS_MAX;
    lock->waiter_count = GOSSIP_WAITERS_MAX;
    for (uint32_t i = 0; i < GOSSIP_HOLDERS_MAX; i++) {
        lock->holders[i] = (struct gossip_holder){.pid = INT32_MAX,
                                                  .uid = UINT32_MAX,
                                                  .token = UINT64_MAX,
                                                  .held_ms = INT64_MAX,
                                                  .remaining_ms = INT64_MAX};
        memset(lock->holders[i].command, 'c', GOSSIP_COMMAND_MAX);
    }
    for (uint32_t i = 0; i < GOSSIP_WAITERS_MAX; i++) {
        lock->waiters[i] = (struct gossip_waiter){INT32_MAX, HF_SHARED, INT64_MAX};
    }
}

static void large_last(struct gossip_lock *lock)
{
    lock->has_last = true;
    lock->last = (struct gossip_last){.agent = large_name,
                                      .pid = INT32_MAX,
                                      .uid = UINT32_MAX,
                                      .ended_ms = INT64_MAX,
                                      .ending = UINT8_MAX,
                                      .by_agent = large_name,
                                      .by_uid = UINT32_MAX};
    memset(lock->last.command, 'l', GOSSIP_COMMAND_MAX);
}

/* Adds the longest notes that an item with five notes has room for. */
static void large_notes(struct gossip_lock *lock)
{
    memset(lock->last.note, 'n', GOSSIP_NOTES_MAX / (GOSSIP_HOLDERS_MAX + 1));
    for (uint32_t i = 0; i < GOSSIP_HOLDERS_MAX; i++) {
        memset(lock->holders[i].note, 'n', GOSSIP_NOTES_MAX / (GOSSIP_HOLDERS_MAX + 1));
    }
}

static void small_lock(struct gossip_lock *lock, uint32_t state)
{
    lock->name.length = 3;
    memcpy(lock->name.bytes, "a/b", 3);
    lock->state = state;
    if (state != HF_STATE_FREE) {
        lock->holder_total = lock->holder_count = 1;
        lock->holders[0] = (struct gossip_holder){
            .pid = -1, .uid = -1, .token = 1, .held_ms = -1, .remaining_ms = -1, .command = "job"};
        lock->waiter_total = lock->waiter_count = 1;
        lock->waiters[0] = (struct gossip_waiter){77, HF_EXCLUSIVE, 1500};
    }
}

void gossip_sample_item(uint32_t index, struct gossip_item *item)
{
    HF_CHECK(index < GOSSIP_SAMPLE_ITEMS);
    memset(item, 0, sizeof(*item));
    item->kind = GOSSIP_LOCK;
    switch (index) {
    case 0:
        small_lock(&item->as.lock, HF_STATE_FREE);
        break;
    case 1:
        small_lock(&item->as.lock, HF_STATE_EXCLUSIVE);
        break;
    case 2:
        large_lock(&item->as.lock);
        break;
    case 3:
        item->kind = GOSSIP_AGENT;
        break;
    case 4:
        item->kind = GOSSIP_AGENT;
        memset(item->as.agent.address, 'x', MESSAGE_ADDRESS_MAX - 1);
        item->as.agent.voter = true;
        item->as.agent.epoch = UINT32_MAX;
        item->as.agent.state = GOSSIP_LOST;
        break;
    case 5:
        item->kind = GOSSIP_OWNED;
        break;
    case 6:
        item->kind = GOSSIP_OWNED;
        memset(&item->as.owned, 0xff, sizeof(item->as.owned));
        break;
    case 8:
        small_lock(&item->as.lock, HF_STATE_FREE);
        item->as.lock.closed_ms = 900;
        item->as.lock.has_last = true;
        item->as.lock.last = (struct gossip_last){
            .pid = -1, .uid = -1, .ended_ms = -1, .by_uid = -1, .command = "ls"};
        break;
    case 9:
        large_lock(&item->as.lock);
        large_last(&item->as.lock);
        break;
    case 10:
        small_lock(&item->as.lock, HF_STATE_EXCLUSIVE);
        memcpy(item->as.lock.holders[0].note, "trial", 5);
        break;
    case 11:
        large_lock(&item->as.lock);
        large_last(&item->as.lock);
        large_notes(&item->as.lock);
        break;
    default:
        item->kind = GOSSIP_EXPIRED;
        item->as.expired = (struct gossip_expired){large_name, 7};
        break;
    }
}

static void add_sample(struct gossip_writer *writer, uint32_t index)
{
    unsigned char body[GOSSIP_BODY_MAX];
    struct gossip_item item;
    struct gossip_stamp stamp = {.author = index % 2 ? large_name : small_name,
                                 .incarnation = index % 2 ? INT64_MAX : 1,
                                 .number = index % 2 ? INT64_MAX : index + 1,
                                 .age_ms = index % 2 ? UINT32_MAX : 0};
    gossip_sample_item(index, &item);
    size_t size = gossip_body_encode(&item, body, sizeof(body));
    HF_CHECK(size > 0 && gossip_add_item(writer, &stamp, body, size));
}

void gossip_sample_hashes(uint32_t count, struct gossip_hashes *hashes)
{
    *hashes = (struct gossip_hashes){.author = large_name, .incarnation = 1234567, .count = count};
    for (uint32_t i = 0; i < count; i++) {
        hashes->buckets[i].index = i * GOSSIP_BUCKETS / count;
        hashes->buckets[i].hash = UINT32_MAX - i;
    }
}

size_t gossip_sample(uint32_t index, unsigned char *bytes)
{
    struct gossip_writer writer;
    struct gossip_hashes hashes;
    enum gossip_packet_kind kind = index <= GOSSIP_SAMPLE_ITEMS       ? GOSSIP_ITEMS
                                   : index == GOSSIP_SAMPLE_ITEMS + 1 ? GOSSIP_DIGEST
                                                                      : GOSSIP_HASHES;
    if (index >= GOSSIP_SAMPLE_PACKETS) {
        return 0;
    }
    gossip_begin(&writer, bytes, GOSSIP_PACKET_MAX, kind, 99, 123456);
    for (uint32_t i = 0; i < GOSSIP_SAMPLE_ITEMS && kind == GOSSIP_ITEMS; i++) {
        if (i == index || index == GOSSIP_SAMPLE_ITEMS) {
            add_sample(&writer, i);
        }
    }
    for (uint32_t i = 0; i < 3 && kind == GOSSIP_DIGEST; i++) {
        struct gossip_digest digest = {.author = i ? large_name : small_name,
                                       .incarnation = 1 + i,
                                       .heartbeat_ms = i ? INT64_MAX : 0,
                                       .age_ms = i ? UINT32_MAX : 0,
                                       .hash = i ? UINT64_MAX : 0};
        HF_CHECK(gossip_add_digest(&writer, &digest));
    }
    for (uint32_t i = 0; i < 3 && kind == GOSSIP_HASHES; i++) {
        gossip_sample_hashes(i == 2 ? GOSSIP_BUCKETS : i, &hashes);
        HF_CHECK(gossip_add_hashes(&writer, &hashes));
    }
    return gossip_end(&writer, index % 2);
}
