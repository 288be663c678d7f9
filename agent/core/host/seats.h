/*
 * Seats: the memory in the region by which a handle waits for its lock, and holds it as a reader.
 *
 * A handle gets a seat on demand. A seat consists of an entry in the queue, a reader's cell and a
 * deadline. Seats lie in blocks, which are chained to the lock's slot. This module knows which
 * chain a block is in, and which holder id a seat has. It reads the chains and the ids from the
 * region only once, at adoption.
 *
 * Invariants: a block is in the chain of one slot, or free. A seat is free (holder 0), or has one
 * holder id. A seat that has an id and no handle was given by the previous agent.
 */
#ifndef HOST_SEATS_H
#define HOST_SEATS_H

#include "core/base/arena.h"
#include "hub.h"

struct seats;

struct seats *seats_lay_out(struct arena *arena, const struct host_config *config);
/* Makes the region's own_... fields point to this module's record of the chains. */
void seats_attach(struct host *host, uint32_t space, struct hfi_region *region);
/* Reads the chains of an adopted region. Returns false if they contradict themselves. */
bool seats_adopt(struct host *host, uint32_t space);
/* For a region that was given up: forget all seats of the namespace, or of one slot. */
void seats_leave(struct host *host, uint32_t space);
void seats_forget_slot(struct host *host, struct lock_ref at);

/* A walk over the seats of a lock, free ones included. */
struct seat_walk {
    const struct host *host;
    uint32_t space;
    uint32_t seat;       /* where the walk is; HFI_SEAT_NONE: before the first seat */
    uint32_t next_block; /* the next block + 1; 0: there is none */
    uint32_t blocks_left;
};
struct seat_walk seats_of(const struct host *host, struct lock_ref at);
/* Moves the walk to the next seat. Returns false if there is none. */
bool seats_next(struct seat_walk *walk);

/* Returns the holder id that has the seat; 0: none. */
uint32_t seat_holder(const struct host *host, uint32_t space, uint32_t seat);
/* Return and set the handle that has the seat; NONE: no handle has it. */
uint32_t seat_handle(const struct host *host, uint32_t space, uint32_t seat);
void seat_set_handle(struct host *host, uint32_t space, uint32_t seat, uint32_t handle);
/* Returns whether `seat`, which may be any number, is a seat of the lock. */
bool seat_is_of(const struct host *host, struct lock_ref at, uint32_t seat);
/* Gives the handle a free seat of the lock. Returns the seat, or HFI_SEAT_NONE if none is free. */
uint32_t seat_give(struct host *host, struct lock_ref at, uint32_t holder, uint32_t handle);
/* Makes the seat free. */
void seat_take_back(struct host *host, uint32_t space, uint32_t seat);
/* Returns a seat of this lock that has that holder id but no handle, or HFI_SEAT_NONE. The previous
 * agent gave out such a seat. Its client has not opened the handle again, or never learned of the
 * seat. */
uint32_t seat_orphan(const struct host *host, struct lock_ref at, uint32_t holder);

/* Returns the first block of the lock's chain, plus 1; 0: the lock has no block. */
uint32_t seats_first_block(const struct host *host, struct lock_ref at);
/* Adds to host->walked the cost of `times` walks over all seats of the lock. */
void seats_count_walks(struct host *host, struct lock_ref at, uint32_t times);
/* Returns whether `block`, a block's number plus 1, is in the lock's chain. */
bool seats_block_is_of(const struct host *host, struct lock_ref at, uint32_t block);
/* Returns whether the slot has blocks, and all seats in them are free. */
bool seats_are_empty(const struct host *host, struct lock_ref at);
/* Frees the slot's blocks. No handle has a seat in them. */
void seats_release(struct host *host, struct lock_ref at);
/* Returns the number of blocks of the namespace's region that belong to no lock. */
uint64_t seats_free_blocks(const struct host *host, uint32_t space);
void seats_check(const struct host *host, uint32_t space);

#endif
