/*
 * Maps the voters of one record of voters to the voters of the next record.
 *
 * A voter's index is its position in the record, which lists the voters in the order of their
 * names. So a voter that joins or leaves may change the index of every other voter. A table that is
 * indexed by voter must then be reordered, so that each entry stays with its voter's name.
 *
 * Invariant: `from` and `to` are inverse to each other: to[i] is k if and only if from[k] is i.
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
    uint32_t old_count; /* voters of the previous record */
    /* by new index: the old index; SUCCESSION_NONE: the voter is new */
    uint8_t from[MESSAGE_VOTERS_MAX];
    /* by old index: the new index; SUCCESSION_NONE: the voter is removed */
    uint8_t to[MESSAGE_VOTERS_MAX];
};

/* Compares the names of the voters with those of the next record. */
void succession_make(struct succession *succession, const struct message_agent *voters,
                     uint32_t count, const struct message_voters *next);

/* Converts a set of voters from bits by old index to bits by new index, and returns it. Adds the
 * new voters if `newcomers` is set. */
uint32_t succession_mask(const struct succession *succession, uint32_t mask, bool newcomers);

/* Reorders an array by the next record. It has an element for each voter (MESSAGE_VOTERS_MAX
 * elements of that size). The elements of new voters, and those above the last voter, become zeros.
 * `room` has space for the whole array. */
void succession_move(const struct succession *succession, void *array, size_t size, void *room);

#endif
