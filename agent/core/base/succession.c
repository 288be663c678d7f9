/* Maps the voters of one record to those of the next: see succession.h. */
#include "core/base/succession.h"

#include <string.h>

#include "proto/check.h"

void succession_make(struct succession *succession, const struct message_agent *voters,
                     uint32_t count, const struct message_voters *next)
{
    HF_CHECK(count <= MESSAGE_VOTERS_MAX && next->count <= MESSAGE_VOTERS_MAX);
    memset(succession, SUCCESSION_NONE, sizeof(*succession));
    succession->count = next->count;
    succession->old_count = count;
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < next->count; k++) {
            if (memcmp(&voters[i], &next->of[k].name, sizeof(voters[i])) == 0) {
                succession->to[i] = (uint8_t)k;
                succession->from[k] = (uint8_t)i;
            }
        }
    }
}

uint32_t succession_mask(const struct succession *succession, uint32_t mask, bool newcomers)
{
    uint32_t out = 0;
    for (uint32_t i = 0; i < succession->count; i++) {
        uint32_t from = succession->from[i];
        uint32_t in = from == SUCCESSION_NONE ? newcomers : mask >> from & 1;
        out |= in << i;
    }
    return out;
}

void succession_move(const struct succession *succession, void *array, size_t size, void *room)
{
    unsigned char *to = array;
    unsigned char *from = room;
    memcpy(from, to, size * MESSAGE_VOTERS_MAX);
    memset(to, 0, size * MESSAGE_VOTERS_MAX);
    for (uint32_t i = 0; i < succession->count; i++) {
        if (succession->from[i] != SUCCESSION_NONE) {
            memcpy(to + i * size, from + succession->from[i] * size, size);
        }
    }
}
