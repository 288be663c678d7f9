/*
 * A set of holder ids, with one bit for every id that a client can have.
 *
 * Invariants: id 0 and numbers that are no id are never in a set, so a number from a region can be
 * added without a check. The id that is given to id_set_has() is an id of a client.
 */
#ifndef HOST_IDS_H
#define HOST_IDS_H

#include <string.h>

#include "hub.h"

struct id_set {
    uint64_t words[HUB_HOLDER_IDS / 64 + 1];
};

static inline void id_set_clear(struct id_set *set)
{
    memset(set, 0, sizeof(*set));
}

/* Adds an id. Ignores 0, and numbers that are no id. */
static inline void id_set_add(struct id_set *set, uint32_t id)
{
    if (id != 0 && id < HUB_HOLDER_IDS) {
        set->words[id / 64] |= UINT64_C(1) << (id % 64);
    }
}

static inline bool id_set_has(const struct id_set *set, uint32_t id)
{
    return set->words[id / 64] >> (id % 64) & 1;
}

#endif
