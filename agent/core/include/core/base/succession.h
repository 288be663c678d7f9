/*
 * Which voter of one record of voters is which voter of the next record.
 *
 * Voters are counted by their index in the record, and their order is that of their names. So a
 * voter that joins or leaves may change the index of every other voter. Whatever is kept by index
 * has to follow the voter's name.
 *
 * Pure. One thread.
 */
#ifndef CORE_SUCCESSION_H
#define CORE_SUCCESSION_H

#include <stdint.h>

#include "proto/voters.h"

enum { SUCCESSION_NONE = 0xff };

struct succession {
    uint32_t count;     /* voters of the next record */
    uint32_t old_count; /* voters of the record before it */
    /* by the index in the next record: the index before; SUCCESSION_NONE: the voter is new */
    uint8_t from[MESSAGE_VOTERS_MAX];
    /* by the index before: the index in the next record; SUCCESSION_NONE: the voter is removed */
    uint8_t to[MESSAGE_VOTERS_MAX];
};

/* Compares the names of the voters with those of the next record. */
void succession_make(struct succession *succession, const struct message_agent *voters,
                     uint32_t count, const struct message_voters *next);

/* Returns the set of voters (bit by index before) as a set of the next record's voters. The new
 * voters are in it if `newcomers` is set. */
uint32_t succession_mask(const struct succession *succession, uint32_t mask, bool newcomers);

/* Moves an array that has an element for each voter (MESSAGE_VOTERS_MAX elements of that size) to
 * the next record's order. The elements of new voters, and those above the last voter, become
 * zeros. `room` has space for the whole array. */
void succession_move(const struct succession *succession, void *array, size_t size, void *room);

#endif
