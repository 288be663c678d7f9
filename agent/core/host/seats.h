/*
 * Seats: a handle's place to wait and read on its lock.
 *
 * A seat is given on demand: a place in the queue, a reader's cell and a deadline, in a block of
 * seats that is chained to the lock's slot. Which chain a block is in and whose a seat is are kept
 * here, and read from the region only once, when it is adopted.
 *
 * Invariants: a block is in the chain of one slot, or free. A seat is nobody's (holder 0), or one
 * holder id's; a seat that has an id and no handle is of the agent before this one.
 */
#ifndef HOST_SEATS_H
#define HOST_SEATS_H

#include "core/base/arena.h"
#include "hub.h"

struct seats;

struct seats *seats_lay_out(struct arena *arena, const struct host_config *config);
/* Has the region's own_... point at what is kept here. */
void seats_attach(struct host *host, uint32_t space, struct hfi_region *region);
/* Rebuilds the chains of an adopted region. false: they make no sense. */
bool seats_adopt(struct host *host, uint32_t space);
/* The namespace's region, or that slot, is left: nothing is known of it. */
void seats_leave(struct host *host, uint32_t space);
void seats_forget_slot(struct host *host, struct lock_ref at);

/* A walk over the seats of a lock, those of nobody too: as many as its chain of blocks has when it
 * begins. */
struct seat_walk {
    const struct host *host;
    uint32_t space;
    uint32_t seat;       /* where it is; HFI_SEAT_NONE: before the first */
    uint32_t next_block; /* block + 1, 0 none */
    uint32_t blocks_left;
};
struct seat_walk seats_of(const struct host *host, struct lock_ref at);
/* Goes on to the next. false: there is none. */
bool seats_next(struct seat_walk *walk);

/* The holder id that has the seat; 0: none. */
uint32_t seat_holder(const struct host *host, uint32_t space, uint32_t seat);
/* The handle that has it; NONE. */
uint32_t seat_handle(const struct host *host, uint32_t space, uint32_t seat);
void seat_set_handle(struct host *host, uint32_t space, uint32_t seat, uint32_t handle);
/* Whether that is a seat of the lock: any number may be asked about. */
bool seat_is_of(const struct host *host, struct lock_ref at, uint32_t seat);
/* A free seat of the lock, from now on that handle's. HFI_SEAT_NONE: none. */
uint32_t seat_give(struct host *host, struct lock_ref at, uint32_t holder, uint32_t handle);
void seat_take_back(struct host *host, uint32_t space, uint32_t seat);
/* A seat of this lock that is that holder id's and no handle's: of the agent before this one, whose
 * client has not resumed it, or never heard of it. HFI_SEAT_NONE: none. */
uint32_t seat_orphan(const struct host *host, struct lock_ref at, uint32_t holder);

/* The first block of the lock's chain, block + 1; 0: it has none. */
uint32_t seats_first_block(const struct host *host, struct lock_ref at);
/* Whether that block (block + 1) is one of the lock's. */
bool seats_block_is_of(const struct host *host, struct lock_ref at, uint32_t block);
/* Whether the slot has blocks, and no seat in them is anybody's. */
bool seats_are_empty(const struct host *host, struct lock_ref at);
/* Drops the slot's blocks; no handle has it. */
void seats_release(struct host *host, struct lock_ref at);
/* Blocks of the namespace's region that are no lock's. */
uint64_t seats_free_blocks(const struct host *host, uint32_t space);
void seats_check(const struct host *host, uint32_t space);

#endif
