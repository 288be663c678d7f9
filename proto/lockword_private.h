/* Declarations that only the files of the lock word's protocol (proto/lock*.c) share. */
#ifndef LOCKWORD_PRIVATE_H
#define LOCKWORD_PRIVATE_H

#include "proto/locktake.h"
#include "proto/probe.h"

/* A waiter that a scan of the queue found. */
struct pick {
    bool found;
    uint32_t seat;
    uint64_t value; /* the value of the waiter's cell when the scan read it */
};

/*
 * Bounds the compare-and-swap loops of the agent, because a hostile client must not keep the agent
 * busy. A client needs no bound: its swap fails only if another process made progress.
 */
static inline bool may_retry(const struct hfi_actor *actor, unsigned *tries)
{
    return ++*tries < 1000 || actor->holder != HFI_HOLDER_AGENT;
}

/*
 * Like may_retry(), for a loop that scans the queue in each try. The scan of a long queue takes far
 * longer than a swap, so a client that changes the word all the time makes each try fail. So the
 * agent gives up after fewer tries, and looks at the lock again later.
 */
static inline bool may_scan_again(const struct hfi_actor *actor, unsigned *tries)
{
    return ++*tries < 32 || actor->holder != HFI_HOLDER_AGENT;
}

/* These three functions read the chain of a slot's blocks and the owner of a seat. They use the
 * agent's own copies if the region has them. */
static inline uint32_t first_block(const struct hfi_region *region, uint32_t slot)
{
    if (region->own_slot_blocks) {
        return region->own_slot_blocks[slot];
    }
    /* acquire: pairs with the store by which the agent chains a block. The agent sets the block's
     * `slot` before that store. */
    return atomic_load_explicit(&region->slots[slot].blocks, memory_order_acquire);
}

static inline uint32_t next_block(const struct hfi_region *region, uint32_t block)
{
    if (region->own_block_next) {
        return region->own_block_next[block];
    }
    return atomic_load_explicit(&region->blocks[block].next, memory_order_acquire);
}

static inline uint32_t seat_holder(const struct hfi_region *region, uint32_t seat)
{
    if (region->own_seat_holder) {
        return region->own_seat_holder[seat];
    }
    return atomic_load_explicit(&hfi_seat(region, seat)->holder, memory_order_acquire);
}

/* Returns the waiter to serve first, or with writers_only the first one that waits for an exclusive
 * hold. */
struct pick queue_first(const struct hfi_region *region, uint32_t slot, bool writers_only);

/* Wakes the process that sleeps on the seat, if there is one. */
void wake_seat(const struct hfi_actor *actor, uint32_t seat);

/* Wakes at most `count` sleepers on slot.wake. */
void wake_slot(const struct hfi_actor *actor, uint32_t slot, int count);

/* Releases the word if it names `holder` with this token. The actor need not be `holder`. */
enum hfi_outcome release_as(const struct hfi_actor *actor, uint32_t slot, uint32_t holder,
                            uint64_t token);

/* Does the work of hfi_try_shared(), also for a reader that has a place in the queue. place 0: the
 * reader has none. */
enum hfi_outcome try_shared_from(const struct hfi_actor *actor, const struct hfi_request *request,
                                 uint64_t place, struct hfi_held *held);

/* Clears the cell of a counted reader. Returns false if the cell was not counted, or has
 * changed. */
bool clear_cell(struct hfi_seat *seat, uint64_t cell);

/* Returns whether ticket a comes before ticket b. Tickets wrap. */
static inline bool ticket_before(uint32_t a, uint32_t b)
{
    return (int32_t)(a - b) < 0;
}

/* Returns the value of seat.upgrade for a reader that waits for an upgrade. It identifies the
 * reader's hold, and is never 0. */
static inline uint32_t upgrade_note(uint64_t cell)
{
    return (uint32_t)(cell >> HFI_CELL_SEQUENCE_SHIFT) << 1 | 1;
}

static inline uint32_t wait_ticket(uint64_t value)
{
    return (uint32_t)(value >> HFI_WAIT_TICKET_SHIFT);
}

/* Returns whether a wait cell has a place in the queue, so that its waiter can be served. */
static inline bool wait_counts(uint64_t value)
{
    return value & (HFI_WAIT_JOINING | HFI_WAIT_WAITING);
}

#endif
