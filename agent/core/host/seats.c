/*
 * Seats: a handle's place to wait and read on its lock.
 *
 * A seat is given on demand: a queue place, a reader's cell and a deadline, in a block of seats
 * that is chained to the lock's slot. What chain a block is in and whose a seat is are kept here,
 * and read from the region only once, when it is adopted.
 */
#include "hub.h"
#include "state.h"

struct seats seats_of(const struct host *host, struct lock_ref at)
{
    const struct space *space = &host->spaces[at.space];
    return (struct seats){.space = space,
                          .seat = HFI_SEAT_NONE,
                          .next_block = space->slot_blocks[at.slot],
                          .blocks_left = space->blocks_used};
}

bool seats_next(struct seats *walk)
{
    if (walk->seat != HFI_SEAT_NONE && (walk->seat + 1) % HFI_BLOCK_SEATS != 0) {
        walk->seat++;
        return true;
    }
    if (walk->next_block == 0 || walk->blocks_left-- == 0) {
        return false;
    }
    walk->seat = (walk->next_block - 1) * HFI_BLOCK_SEATS;
    walk->next_block = walk->space->block_next[walk->next_block - 1];
    return true;
}

static void seat_clear(struct space *space, uint32_t seat)
{
    struct hfi_seat *shared = hfi_seat(&space->region, seat);
    uint64_t cell = atomic_load(&shared->reader);
    atomic_store(&shared->reader, cell & ~HFI_CELL_COUNT);
    atomic_store(&shared->deadline_ns, 0);
    atomic_store(&shared->limit_ns, 0);
    atomic_store(hfi_seat_wait(&space->region, seat), 0);
}

/* A block for the slot, at the head of its chain. NONE: none is free. */
static uint32_t block_add(struct space *space, uint32_t slot)
{
    uint32_t block = space->free_block - 1;
    if (space->free_block != 0) {
        space->free_block = space->block_next[block];
    } else if (space->blocks_used < space->region.block_count) {
        block = space->blocks_used++;
    } else {
        return NONE;
    }
    struct hfi_block *shared = &space->region.blocks[block];
    for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
        uint32_t seat = block * HFI_BLOCK_SEATS + place;
        seat_clear(space, seat);
        atomic_store(&shared->seats[place].holder, 0);
        space->seat_holder[seat] = 0;
        space->seat_handle[seat] = NONE;
    }
    space->block_slot[block] = slot + 1;
    space->block_next[block] = space->slot_blocks[slot];
    atomic_store(&shared->slot, slot + 1);
    atomic_store(&shared->next, space->slot_blocks[slot]);
    space->slot_blocks[slot] = block + 1;
    /* release (seq_cst): pairs with the acquire in first_block(); the block is filled in */
    atomic_store(&space->region.slots[slot].blocks, block + 1);
    return block;
}

uint32_t seat_give(struct host *host, uint32_t handle)
{
    struct handle *who = &host->handles[handle];
    struct space *space = &host->spaces[who->space];
    uint32_t seat = HFI_SEAT_NONE;
    struct seats walk = seats_of(host, (struct lock_ref){who->space, who->slot});
    while (seat == HFI_SEAT_NONE && seats_next(&walk)) {
        seat = space->seat_holder[walk.seat] == 0 ? walk.seat : HFI_SEAT_NONE;
    }
    if (seat == HFI_SEAT_NONE) {
        uint32_t block = block_add(space, who->slot);
        if (block == NONE) {
            return HFI_SEAT_NONE;
        }
        seat = block * HFI_BLOCK_SEATS;
    }
    seat_clear(space, seat);
    space->seat_holder[seat] = who->holder;
    space->seat_handle[seat] = handle;
    atomic_store(&hfi_seat(&space->region, seat)->holder, who->holder);
    who->seat = seat;
    return seat;
}

void seat_take_back(struct host *host, struct handle *who)
{
    struct space *space = &host->spaces[who->space];
    if (who->seat == HFI_SEAT_NONE) {
        return;
    }
    seat_clear(space, who->seat);
    atomic_store(&hfi_seat(&space->region, who->seat)->holder, 0);
    space->seat_holder[who->seat] = 0;
    space->seat_handle[who->seat] = NONE;
    who->seat = HFI_SEAT_NONE;
}

uint32_t seat_orphan(const struct host *host, struct lock_ref at, uint32_t holder)
{
    const struct space *space = &host->spaces[at.space];
    struct seats walk = seats_of(host, at);
    while (seats_next(&walk)) {
        if (space->seat_holder[walk.seat] == holder && space->seat_handle[walk.seat] == NONE) {
            return walk.seat;
        }
    }
    return HFI_SEAT_NONE;
}

bool blocks_are_empty(const struct host *host, struct lock_ref at)
{
    const struct space *space = &host->spaces[at.space];
    bool empty = space->slot_blocks[at.slot] != 0;
    struct seats walk = seats_of(host, at);
    while (empty && seats_next(&walk)) {
        empty = space->seat_holder[walk.seat] == 0;
    }
    return empty;
}

void blocks_release(struct host *host, struct lock_ref at)
{
    struct space *space = &host->spaces[at.space];
    uint32_t block = space->slot_blocks[at.slot];
    space->slot_blocks[at.slot] = 0;
    atomic_store(&space->region.slots[at.slot].blocks, 0);
    for (uint32_t i = 0; block != 0 && i <= space->blocks_used; i++) {
        uint32_t next = space->block_next[block - 1];
        space->block_slot[block - 1] = 0;
        atomic_store(&space->region.blocks[block - 1].slot, 0);
        space->block_next[block - 1] = space->free_block;
        space->free_block = block;
        block = next;
    }
}

bool blocks_adopt(struct host *host, uint32_t index)
{
    struct space *space = &host->spaces[index];
    const struct hfi_region *region = &space->region;
    for (uint32_t slot = 0; slot < space->slots_used; slot++) {
        uint32_t block = lock_is_named(&space->locks[slot])
                             ? atomic_load(&region->slots[slot].blocks)
                             : 0;
        space->slot_blocks[slot] = block;
        for (uint32_t i = 0; block != 0; i++) {
            /* every block once, in the chain of the slot that it says */
            if (i > region->block_count || block > region->block_count ||
                space->block_slot[block - 1] != 0 ||
                atomic_load(&region->blocks[block - 1].slot) != slot + 1) {
                return false;
            }
            space->block_slot[block - 1] = slot + 1;
            space->blocks_used = block > space->blocks_used ? block : space->blocks_used;
            for (uint32_t place = 0; place < HFI_BLOCK_SEATS; place++) {
                uint32_t seat = (block - 1) * HFI_BLOCK_SEATS + place;
                uint32_t holder = atomic_load(&hfi_seat(region, seat)->holder);
                space->seat_handle[seat] = NONE;
                space->seat_holder[seat] = holder < HUB_HOLDER_IDS ? (uint16_t)holder : 0;
            }
            space->block_next[block - 1] = atomic_load(&region->blocks[block - 1].next);
            block = space->block_next[block - 1];
        }
    }
    for (uint32_t block = 0; block < space->blocks_used; block++) {
        if (space->block_slot[block] == 0) {
            space->block_next[block] = space->free_block;
            space->free_block = block + 1;
        }
    }
    return true;
}
