/* Places to wait and read, in blocks chained to slots: see seats.h. */
#include "seats.h"

#include "locks.h"
#include "spaces.h"

/* The agent's own record of one namespace's chains of blocks, see struct hfi_region. */
struct seats_space {
    uint32_t *slot_blocks; /* by slot: its first block + 1; 0: none */
    uint32_t *block_next;
    uint32_t *block_slot; /* by block: its slot + 1; 0: the block is free */
    uint16_t *seat_holder;
    uint32_t *seat_handle; /* by seat: its handle, or NONE */
    uint32_t blocks_used;
    uint32_t free_block; /* the first free block + 1; 0: none is free */
};

struct seats {
    struct seats_space spaces[HOST_NAMESPACES_MAX];
};

struct seats *seats_lay_out(struct arena *arena, const struct host_config *config)
{
    struct seats *seats = arena_take(arena, 1, sizeof(*seats));
    size_t count = (size_t)config->limits.blocks * HFI_BLOCK_SEATS;
    for (uint32_t i = 0; i < config->namespace_count; i++) {
        ARENA_TAKE(arena, seats, spaces[i].slot_blocks, config->limits.locks);
        ARENA_TAKE(arena, seats, spaces[i].block_next, config->limits.blocks);
        ARENA_TAKE(arena, seats, spaces[i].block_slot, config->limits.blocks);
        ARENA_TAKE(arena, seats, spaces[i].seat_holder, count);
        ARENA_TAKE(arena, seats, spaces[i].seat_handle, count);
    }
    return seats;
}

void seats_attach(struct host *host, uint32_t space, struct hfi_region *region)
{
    const struct seats_space *own = &host->seats->spaces[space];
    region->own_slot_blocks = own->slot_blocks;
    region->own_block_next = own->block_next;
    region->own_seat_holder = own->seat_holder;
}

void seats_leave(struct host *host, uint32_t space)
{
    struct seats_space *own = &host->seats->spaces[space];
    uint32_t seats = own->blocks_used * HFI_BLOCK_SEATS;
    memset(own->block_next, 0, own->blocks_used * sizeof(*own->block_next));
    memset(own->block_slot, 0, own->blocks_used * sizeof(*own->block_slot));
    memset(own->seat_holder, 0, seats * sizeof(*own->seat_holder));
    memset(own->seat_handle, 0, seats * sizeof(*own->seat_handle));
    own->blocks_used = 0;
    own->free_block = 0;
}

void seats_forget_slot(struct host *host, struct lock_ref at)
{
    host->seats->spaces[at.space].slot_blocks[at.slot] = 0;
}

struct seat_walk seats_of(const struct host *host, struct lock_ref at)
{
    const struct seats_space *own = &host->seats->spaces[at.space];
    return (struct seat_walk){.host = host,
                              .space = at.space,
                              .seat = HFI_SEAT_NONE,
                              .next_block = own->slot_blocks[at.slot],
                              .blocks_left = own->blocks_used};
}

bool seats_next(struct seat_walk *walk)
{
    if (walk->seat != HFI_SEAT_NONE && (walk->seat + 1) % HFI_BLOCK_SEATS != 0) {
        walk->seat++;
        return true;
    }
    if (walk->next_block == 0 || walk->blocks_left-- == 0) {
        return false;
    }
    walk->seat = (walk->next_block - 1) * HFI_BLOCK_SEATS;
    walk->next_block = walk->host->seats->spaces[walk->space].block_next[walk->next_block - 1];
    return true;
}

uint32_t seat_holder(const struct host *host, uint32_t space, uint32_t seat)
{
    return host->seats->spaces[space].seat_holder[seat];
}

uint32_t seat_handle(const struct host *host, uint32_t space, uint32_t seat)
{
    return host->seats->spaces[space].seat_handle[seat];
}

void seat_set_handle(struct host *host, uint32_t space, uint32_t seat, uint32_t handle)
{
    host->seats->spaces[space].seat_handle[seat] = handle;
}

uint32_t seats_first_block(const struct host *host, struct lock_ref at)
{
    return host->seats->spaces[at.space].slot_blocks[at.slot];
}

void seats_count_walks(struct host *host, struct lock_ref at, uint32_t times)
{
    const struct seats_space *own = &host->seats->spaces[at.space];
    uint32_t blocks = 0;
    for (uint32_t block = own->slot_blocks[at.slot]; block != 0 && blocks < own->blocks_used;
         blocks++) {
        block = own->block_next[block - 1];
    }
    hub_walk(host, blocks * HFI_BLOCK_SEATS * times);
}

bool seats_block_is_of(const struct host *host, struct lock_ref at, uint32_t block)
{
    const struct seats_space *own = &host->seats->spaces[at.space];
    return block != 0 && block <= own->blocks_used && own->block_slot[block - 1] == at.slot + 1;
}

bool seat_is_of(const struct host *host, struct lock_ref at, uint32_t seat)
{
    return seat != HFI_SEAT_NONE && seats_block_is_of(host, at, seat / HFI_BLOCK_SEATS + 1);
}

static void seat_clear(const struct hfi_region *region, uint32_t seat)
{
    struct hfi_seat *shared = hfi_seat(region, seat);
    uint64_t cell = atomic_load(&shared->reader);
    atomic_store(&shared->reader, cell & ~HFI_CELL_COUNT);
    atomic_store(&shared->deadline_ns, 0);
    atomic_store(&shared->limit_ns, 0);
    atomic_store(hfi_seat_wait(region, seat), 0);
}

/* Puts a free block at the head of the slot's chain. Returns NONE if none is free. */
static uint32_t block_add(struct host *host, struct lock_ref at)
{
    struct seats_space *own = &host->seats->spaces[at.space];
    const struct hfi_region *region = space_region(host, at.space);
    uint32_t slot = at.slot;
    uint32_t block = own->free_block - 1;
    if (own->free_block != 0) {
        own->free_block = own->block_next[block];
    } else if (own->blocks_used < region->block_count) {
        block = own->blocks_used++;
    } else {
        return NONE;
    }
    struct hfi_block *shared = &region->blocks[block];
    for (uint32_t i = 0; i < HFI_BLOCK_SEATS; i++) {
        uint32_t seat = block * HFI_BLOCK_SEATS + i;
        seat_clear(region, seat);
        atomic_store(&shared->seats[i].holder, 0);
        own->seat_holder[seat] = 0;
        own->seat_handle[seat] = NONE;
    }
    own->block_slot[block] = slot + 1;
    own->block_next[block] = own->slot_blocks[slot];
    atomic_store(&shared->slot, slot + 1);
    atomic_store(&shared->next, own->slot_blocks[slot]);
    own->slot_blocks[slot] = block + 1;
    /* seq_cst (at least release): pairs with the acquire in first_block(); the block is filled in
     * before */
    atomic_store(&region->slots[slot].blocks, block + 1);
    return block;
}

uint32_t seat_give(struct host *host, struct lock_ref at, uint32_t holder, uint32_t handle)
{
    struct seats_space *own = &host->seats->spaces[at.space];
    const struct hfi_region *region = space_region(host, at.space);
    uint32_t seat = HFI_SEAT_NONE;
    struct seat_walk walk = seats_of(host, at);
    while (seat == HFI_SEAT_NONE && seats_next(&walk)) {
        seat = own->seat_holder[walk.seat] == 0 ? walk.seat : HFI_SEAT_NONE;
    }
    if (seat == HFI_SEAT_NONE) {
        uint32_t block = block_add(host, at);
        if (block == NONE) {
            return HFI_SEAT_NONE;
        }
        seat = block * HFI_BLOCK_SEATS;
    }
    seat_clear(region, seat);
    own->seat_holder[seat] = (uint16_t)holder;
    own->seat_handle[seat] = handle;
    atomic_store(&hfi_seat(region, seat)->holder, holder);
    return seat;
}

void seat_take_back(struct host *host, uint32_t space, uint32_t seat)
{
    struct seats_space *own = &host->seats->spaces[space];
    const struct hfi_region *region = space_region(host, space);
    if (seat != HFI_SEAT_NONE) {
        seat_clear(region, seat);
        atomic_store(&hfi_seat(region, seat)->holder, 0);
        own->seat_holder[seat] = 0;
        own->seat_handle[seat] = NONE;
    }
}

uint32_t seat_orphan(const struct host *host, struct lock_ref at, uint32_t holder)
{
    const struct seats_space *own = &host->seats->spaces[at.space];
    struct seat_walk walk = seats_of(host, at);
    while (seats_next(&walk)) {
        if (own->seat_holder[walk.seat] == holder && own->seat_handle[walk.seat] == NONE) {
            return walk.seat;
        }
    }
    return HFI_SEAT_NONE;
}

bool seats_are_empty(const struct host *host, struct lock_ref at)
{
    const struct seats_space *own = &host->seats->spaces[at.space];
    bool empty = own->slot_blocks[at.slot] != 0;
    struct seat_walk walk = seats_of(host, at);
    while (empty && seats_next(&walk)) {
        empty = own->seat_holder[walk.seat] == 0;
    }
    return empty;
}

void seats_release(struct host *host, struct lock_ref at)
{
    struct seats_space *own = &host->seats->spaces[at.space];
    const struct hfi_region *region = space_region(host, at.space);
    uint32_t block = own->slot_blocks[at.slot];
    own->slot_blocks[at.slot] = 0;
    atomic_store(&region->slots[at.slot].blocks, 0);
    for (uint32_t i = 0; block != 0 && i <= own->blocks_used; i++) {
        uint32_t next = own->block_next[block - 1];
        own->block_slot[block - 1] = 0;
        atomic_store(&region->blocks[block - 1].slot, 0);
        own->block_next[block - 1] = own->free_block;
        own->free_block = block;
        block = next;
    }
}

bool seats_adopt(struct host *host, uint32_t index)
{
    struct seats_space *own = &host->seats->spaces[index];
    const struct hfi_region *region = space_region(host, index);
    for (uint32_t slot = 0; slot < locks_end(host, index); slot++) {
        uint32_t block = lock_is_named(host, (struct lock_ref){index, slot})
                             ? atomic_load(&region->slots[slot].blocks)
                             : 0;
        own->slot_blocks[slot] = block;
        for (uint32_t i = 0; block != 0; i++) {
            /* a block is in one chain only, and names the slot of that chain */
            if (i > region->block_count || block > region->block_count ||
                own->block_slot[block - 1] != 0 ||
                atomic_load(&region->blocks[block - 1].slot) != slot + 1) {
                return false;
            }
            own->block_slot[block - 1] = slot + 1;
            own->blocks_used = block > own->blocks_used ? block : own->blocks_used;
            for (uint32_t k = 0; k < HFI_BLOCK_SEATS; k++) {
                uint32_t seat = (block - 1) * HFI_BLOCK_SEATS + k;
                uint32_t holder = atomic_load(&hfi_seat(region, seat)->holder);
                own->seat_handle[seat] = NONE;
                own->seat_holder[seat] = holder < HUB_HOLDER_IDS ? (uint16_t)holder : 0;
            }
            own->block_next[block - 1] = atomic_load(&region->blocks[block - 1].next);
            block = own->block_next[block - 1];
        }
    }
    for (uint32_t block = 0; block < own->blocks_used; block++) {
        if (own->block_slot[block] == 0) {
            own->block_next[block] = own->free_block;
            own->free_block = block + 1;
        }
    }
    return true;
}

uint64_t seats_free_blocks(const struct host *host, uint32_t space)
{
    const struct seats_space *own = &host->seats->spaces[space];
    uint64_t count = space_region(host, space)->block_count - own->blocks_used;
    uint32_t block = own->free_block;
    for (uint32_t i = 0; block != 0 && i < own->blocks_used; i++) {
        count++;
        block = own->block_next[block - 1];
    }
    return count;
}

void seats_check(const struct host *host, uint32_t index)
{
    const struct seats_space *own = &host->seats->spaces[index];
    uint32_t chained = 0;
    uint32_t free = 0;
    for (uint32_t slot = 0; slot < locks_end(host, index); slot++) {
        for (uint32_t block = own->slot_blocks[slot]; block != 0;
             block = own->block_next[block - 1]) {
            HF_CHECK(block <= own->blocks_used && own->block_slot[block - 1] == slot + 1);
            HF_CHECK(++chained <= own->blocks_used);
        }
    }
    for (uint32_t block = own->free_block; block != 0; block = own->block_next[block - 1]) {
        HF_CHECK(block <= own->blocks_used && own->block_slot[block - 1] == 0);
        HF_CHECK(++free <= own->blocks_used);
    }
    HF_CHECK(own->blocks_used <= space_region(host, index)->block_count);
    HF_CHECK(chained + free == own->blocks_used);
}
