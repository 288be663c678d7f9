/*
 * Calls the lock word's code, for the library and for the agent, on a hostile region. Another
 * process writes rubbish into the region before each call, and before any atomic operation within a
 * call. Each call must end, and must read, write and wake only inside the region.
 *
 * An input is a sequence of calls with their arguments, and of rubbish values with their offsets.
 */
#include "draw.h"
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "proto/check.h"
#include "proto/lockword.h"

enum { WORD_BYTES_MAX = 1024, CALLS_MAX = 100, STRIKES = 8, SLOTS = 3, HOLDERS = 6, BLOCKS = 3 };
enum { SEATS = BLOCKS * HFI_BLOCK_SEATS, SLEEPS_MAX = 2000, MS = 1000000 };

void sim_point(void);

struct strike {
    uint32_t offset;
    uint32_t width;
    uint64_t value;
};

static struct {
    struct draw draw;
    uint8_t *memory;
    struct hfi_region region;
    struct hfi_region agents; /* the region as the agent sees it, with its own copy of the chains */
    uint32_t own_slot_blocks[SLOTS];
    uint32_t own_block_next[BLOCKS];
    uint16_t own_seat_holder[SEATS];
    struct hfi_kernel kernel;
    int64_t now_ns;
    uint32_t sleeps;
    _Atomic uint32_t cancel;
    struct strike strikes[STRIKES];
    uint32_t strike_count;
    struct hfi_held held[HOLDERS];
    uint64_t place[SEATS];
} world;

static void strike(const struct strike *what)
{
    memcpy(world.memory + what->offset / what->width * what->width, &what->value, what->width);
}

void sim_point(void)
{
    if (world.strike_count > 0) {
        strike(&world.strikes[--world.strike_count]);
    }
}

static void check_inside(const void *at)
{
    const uint8_t *byte = at;
    HF_CHECK(byte >= world.memory && byte < world.memory + world.region.size);
}

static void kernel_sleep(void *arg, _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    (void)arg;
    (void)expected;
    check_inside(word);
    /* Time passes as if the process slept. No input may sleep SLEEPS_MAX times. */
    HF_CHECK(++world.sleeps < SLEEPS_MAX);
    world.now_ns += timeout_ns > 0 && timeout_ns < 1000 * (int64_t)MS ? timeout_ns : 10 * MS;
}

static void kernel_wake(void *arg, _Atomic uint32_t *word, int count)
{
    (void)arg;
    check_inside(word);
    HF_CHECK(count > 0);
}

static int64_t kernel_now(void *arg)
{
    (void)arg;
    return world.now_ns += MS; /* time passes, so that a loop that only spins reaches its
                                * deadline */
}

static void kernel_ring(void *arg)
{
    (void)arg;
}

static void make_world(struct draw draw)
{
    static const struct hfi_region_sizes sizes = {SLOTS, HOLDERS, BLOCKS};
    struct hfi_region_identity identity = {.cell = "f", .agent = "f", .namespace_name = "default"};
    uint64_t size = hfi_region_size(&sizes);
    memset(&world, 0, sizeof(world));
    world.draw = draw;
    world.memory = aligned_alloc(HFI_HEADER_SIZE, (size + 4095) / 4096 * 4096);
    HF_CHECK(world.memory != NULL);
    memset(world.memory, 0, size);
    hfi_region_format(world.memory, &sizes, &identity);
    HF_CHECK(hfi_region_attach(world.memory, size, &world.region) == NULL);
    world.now_ns = INT64_C(1) << 40;
    world.kernel = (struct hfi_kernel){kernel_sleep, kernel_wake, kernel_now, kernel_ring, NULL};
    world.agents = world.region;
    world.agents.own_slot_blocks = world.own_slot_blocks;
    world.agents.own_block_next = world.own_block_next;
    world.agents.own_seat_holder = world.own_seat_holder;
    for (uint32_t slot = 0; slot < SLOTS; slot++) { /* each slot has one block, whose seats
                                                     * belong to all holders */
        world.own_slot_blocks[slot] = slot + 1;
        atomic_store(&world.region.slots[slot].blocks, slot + 1);
        atomic_store(&world.region.blocks[slot].slot, slot + 1);
        for (uint32_t i = 0; i < HFI_BLOCK_SEATS; i++) {
            uint32_t seat = slot * HFI_BLOCK_SEATS + i;
            world.own_seat_holder[seat] = (uint16_t)(i < HOLDERS - 1 ? i + 1 : 0);
            atomic_store(&hfi_seat(&world.region, seat)->holder, world.own_seat_holder[seat]);
        }
    }
    struct hfi_actor agent = {&world.agents, &world.kernel, HFI_HOLDER_AGENT};
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        hfi_grant(&agent, slot, HFI_GRANT_EXCLUSIVE, 1, 1000000);
    }
    hfi_publish(&agent, world.now_ns + INT64_C(3600000000000), 1, 0);
}

static struct strike draw_strike(void)
{
    const struct hfi_region *region = &world.region;
    const uint8_t *parts[] = {
        (const uint8_t *)region->words,  (const uint8_t *)region->slots,
        (const uint8_t *)region->blocks, (const uint8_t *)region->holders,
        (const uint8_t *)region->dirty,  (const uint8_t *)&region->header->lease};
    static const uint32_t sizes[] = {SLOTS * 64, SLOTS * 48, BLOCKS * 512, HOLDERS * 64, 8, 80};
    uint8_t what = draw_byte(&world.draw);
    uint8_t part = what % 6;
    uint32_t at = draw_below(&world.draw, sizes[part]);
    struct strike made = {.width = what & 64 ? 4 : 8, .value = draw_number(&world.draw)};
    if (part == 0) {
        at = at / 64 * 64;
        made.width = 8;
        made.value = what & 128 ? made.value << 40 | draw_byte(&world.draw) : made.value;
    }
    made.offset = (uint32_t)(parts[part] - world.memory) + at;
    return made;
}

static void scribble(uint8_t what)
{
    uint32_t count = 1 + what % STRIKES;
    world.strike_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct strike made = draw_strike();
        if (what & 16) {
            world.strikes[world.strike_count++] = made;
        } else {
            strike(&made);
        }
    }
}

/* The region may show any number of waiting processes. The answer must name only seats of the
 * region. */
static void look_at_queue(const struct hfi_region *region, uint32_t slot)
{
    uint32_t seats[4];
    size_t count = hfi_queue(region, slot, seats, 4);
    for (size_t i = 0; i < count && i < 4; i++) {
        HF_CHECK(seats[i] < region->block_count * HFI_BLOCK_SEATS);
    }
}

static void call_client(uint8_t what)
{
    uint32_t holder = 1 + what % (HOLDERS - 1);
    uint8_t more = draw_byte(&world.draw);
    uint32_t slot = more % SLOTS;
    uint32_t seat = slot * HFI_BLOCK_SEATS + holder - 1;
    struct hfi_actor actor = {&world.region, &world.kernel, holder};
    struct hfi_request request = {
        .slot = slot, .seat = seat, .limit_ns = more & 64 ? 50 * MS : 0, .barging = more & 128};
    struct hfi_wait_limit patience = {.deadline_ns = world.now_ns + 100 * (int64_t)MS,
                                      .cancel = &world.cancel};
    struct hfi_held *held = &world.held[holder];
    bool gone;
    switch (more / 4 % 16) {
    case 0:
        (void)hfi_try_exclusive(&actor, &request, held);
        break;
    case 1:
        (void)hfi_try_shared(&actor, &request, held);
        break;
    case 2:
    case 3:
        (void)hfi_wait_exclusive(&actor, &request, &patience, &world.place[seat], held);
        break;
    case 4:
        (void)hfi_wait_shared(&actor, &request, &patience, &world.place[seat], held);
        break;
    case 5:
        hfi_leave(&actor, &request, &world.place[seat]);
        break;
    case 6:
        (void)hfi_release(&actor, slot, held->token);
        break;
    case 7:
        (void)hfi_release_shared(&actor, slot, seat, held->cell);
        break;
    case 8:
        (void)hfi_downgrade(&actor, &request, held);
        break;
    case 9:
        (void)hfi_upgrade(&actor, &request, &patience, held);
        break;
    case 10:
        (void)hfi_remaining_ns(&world.region, &request, holder, held, world.now_ns, &gone);
        break;
    case 11:
        hfi_serve(&actor, slot);
        break;
    case 12:
        hfi_ring(&actor, slot);
        break;
    case 13:
        look_at_queue(&world.region, slot);
        (void)hfi_wanted(&world.region, slot);
        break;
    case 14:
        (void)hfi_has_readers(&world.region, slot, seat);
        hfi_ask_upgrade(&actor, &request, held);
        (void)hfi_index_token(&world.region, draw_number(&world.draw));
        break;
    default:
        atomic_fetch_add(&world.cancel, 1);
    }
}

static void call_agent(uint8_t what)
{
    struct hfi_actor agent = {&world.agents, &world.kernel, HFI_HOLDER_AGENT};
    uint8_t more = draw_byte(&world.draw);
    uint32_t slot = what % SLOTS;
    uint32_t holder = 1 + more % (HOLDERS - 1);
    uint32_t seat = slot * HFI_BLOCK_SEATS + holder - 1;
    int64_t until_ns = more & 128 ? 0 : world.now_ns + 10 * MS;
    uint64_t word = atomic_load(&world.region.words[slot].word);
    switch (more / 8 % 16) {
    case 0:
        (void)hfi_evict(&agent, slot, hfi_word_holder(word), word & HFI_W_TOKEN, until_ns);
        break;
    case 1:
        (void)hfi_evict_reader(&agent, slot, seat, more & 1 ? 0 : world.held[holder].cell,
                               until_ns);
        break;
    case 2:
        hfi_open(&agent, slot);
        break;
    case 3:
        hfi_bury_waiter(&agent, seat);
        break;
    case 4:
        (void)hfi_pass_on(&agent, slot, holder, seat);
        break;
    case 5:
        hfi_rouse(&agent, slot);
        break;
    case 6:
        hfi_recall(&agent, slot, more & 3);
        break;
    case 7:
        hfi_forget_waiters(&agent, slot);
        break;
    case 8:
        (void)hfi_share(&agent, slot, 1);
        break;
    case 9:
        (void)hfi_retract(&agent, slot);
        break;
    case 10:
        hfi_grant(&agent, slot, more & 1 ? HFI_GRANT_SHARED : HFI_GRANT_EXCLUSIVE, 1 + more, 5000);
        break;
    case 11:
        hfi_revoke(&agent, slot, more & 1 ? HFI_GRANT_RETIRED : HFI_GRANT_NONE);
        break;
    case 12:
        hfi_publish(&agent, world.now_ns + 1000 * (int64_t)MS, 1 + (more & 1), 0);
        break;
    case 13:
        hfi_serve(&agent, slot);
        break;
    case 14:
        look_at_queue(&world.agents, slot);
        (void)hfi_wanted(&world.agents, slot);
        break;
    default:
        (void)hfi_has_readers(&world.agents, slot, HFI_SEAT_NONE);
        (void)hfi_has_upgrades(&world.agents, slot);
    }
}

static size_t word_seed(size_t index, uint8_t *bytes, size_t size)
{
    uint64_t state = 4242 + index;
    size_t used = 20 + 20 * index;
    if (index >= 24 || used > size) {
        return 0;
    }
    for (size_t i = 0; i < used; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        bytes[i] = (uint8_t)(state >> 56);
    }
    return used;
}

static void word_entry(const uint8_t *bytes, size_t size)
{
    make_world((struct draw){bytes, size});
    for (uint32_t i = 0; i < CALLS_MAX && world.draw.left > 0; i++) {
        uint8_t what = draw_byte(&world.draw);
        world.sleeps = 0;
        if (what < 128) {
            call_client(what);
        } else if (what < 192) {
            call_agent(what);
        } else {
            scribble(what);
        }
    }
    world.strike_count = 0;
    free(world.memory);
    world.memory = NULL;
}

const struct fuzz_target fuzz_target = {"word", word_entry, word_seed, WORD_BYTES_MAX};
