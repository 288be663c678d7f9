/*
 * The numbers that all files of the gossip core use: hashes, random numbers, and ages at the step's
 * time. This file calls no other file of the gossip core.
 */
#include "state.h"

uint64_t gossip_mix(uint64_t hash)
{
    hash = (hash ^ hash >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    hash = (hash ^ hash >> 27) * UINT64_C(0x94d049bb133111eb);
    return hash ^ hash >> 31;
}

uint64_t gossip_hash(uint64_t seed, const void *bytes, size_t size)
{
    const uint8_t *at = bytes;
    uint64_t hash = gossip_mix(seed ^ size);
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return gossip_mix(hash);
}

uint64_t gossip_random(struct gossip *gossip)
{
    gossip->random += UINT64_C(0x9e3779b97f4a7c15);
    return gossip_mix(gossip->random);
}

uint64_t gossip_heartbeat_ms(const struct gossip *gossip)
{
    return (uint64_t)(gossip->now_ns - gossip->start_ns) / MS_NS;
}

uint32_t gossip_age_ms(int64_t now_ns, int64_t then_ns)
{
    int64_t age_ms = then_ns == NEVER_SEEN ? UINT32_MAX : (now_ns - then_ns) / MS_NS;
    return age_ms < 0 ? 0 : age_ms < UINT32_MAX ? (uint32_t)age_ms : UINT32_MAX;
}
