/* The rules of a cell: their digest, and what differs between two of them. See message.h. */
#include "proto/message.h"

#include <stdio.h>

static uint64_t mix(uint64_t hash, const void *bytes, size_t size)
{
    const unsigned char *at = bytes;
    for (size_t i = 0; i < size; i++) {
        hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static uint64_t mix_number(uint64_t hash, uint64_t number)
{
    unsigned char bytes[8];
    for (uint32_t i = 0; i < 8; i++) { /* the same on every machine */
        bytes[i] = (unsigned char)(number >> (8 * i));
    }
    return mix(hash, bytes, sizeof(bytes));
}

uint64_t message_rules_digest(const struct message_rules *rules)
{
    uint64_t hash = mix_number(UINT64_C(0xcbf29ce484222325), rules->voter_count);
    for (uint32_t i = 0; i < rules->voter_count && i < MESSAGE_VOTERS_MAX; i++) {
        hash = mix_number(hash, rules->voters[i].length);
        hash = mix(hash, rules->voters[i].text, rules->voters[i].length);
    }
    hash = mix_number(hash, (uint64_t)rules->session_ttl_ns);
    hash = mix_number(hash, (uint64_t)rules->grace_ns);
    return mix_number(hash, rules->max_drift_percent);
}
