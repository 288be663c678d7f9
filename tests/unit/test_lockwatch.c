/*
 * Every change of a watched word rings for the agent, at whatever moment the agent sets the bit
 * "watched". The lock word's code is built as for the simulator (tests/sim/shim.h): it calls
 * sim_point() before each atomic operation. Each test repeats one change, and in each repetition
 * the agent sets the bit before a different operation. If it sets the bit before the change is
 * made, the process that makes the change must ring afterwards. If it sets the bit later, a client
 * that begins to watch finds the lock changed already, and no ring is necessary.
 */
#include <check.h>
#include <stdlib.h>

#include "../suite_main.h"
#include "proto/lockword.h"

void sim_point(void);

enum { POINTS_MAX = 300, ACTOR = 1, WAITER = 2, SEAT = 0, WAITER_SEAT = 3 };
static const int64_t second_ns = INT64_C(1000000000);

static struct hfi_region region;
static int points;       /* the number of operations so far; -1: do not count them */
static int set_at;       /* the agent sets the bit before the operation with this number */
static bool set_in_time; /* the agent set the bit before the change */

/* One change of the word by ACTOR. */
struct change {
    const char *name;
    void (*prepare)(void);
    void (*make)(void);
    bool (*is_made)(void);
};
static const struct change *change;

void sim_point(void)
{
    if (points >= 0 && points++ == set_at) {
        region.dirty[0] = 0; /* an earlier ring does not count, because the agent has looked */
        region.words[0].word |= HFI_W_WATCHED;
        set_in_time = !change->is_made();
    }
}

static void no_sleep(void *arg, _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    (void)arg;
    (void)word;
    (void)expected;
    (void)timeout_ns;
    ck_abort_msg("%s sleeps", change->name);
}

static void no_wake(void *arg, _Atomic uint32_t *word, int count)
{
    (void)arg;
    (void)word;
    (void)count;
}

static int64_t now(void *arg)
{
    (void)arg;
    return second_ns;
}

static void no_ring(void *arg)
{
    (void)arg;
}

static const struct hfi_kernel kernel = {
    .sleep = no_sleep, .wake = no_wake, .now_ns = now, .ring = no_ring};
static const struct hfi_actor agent = {&region, &kernel, HFI_HOLDER_AGENT};
static const struct hfi_actor actor = {&region, &kernel, ACTOR};
static const struct hfi_request request = {.slot = 0, .seat = SEAT};
static const struct hfi_request barging = {.slot = 0, .seat = SEAT, .barging = true};
static const struct hfi_wait_limit patience = {.deadline_ns = INT64_MAX};
static struct hfi_held held;
static uint64_t place;

static void *region_make(void)
{
    const struct hfi_region_sizes sizes = {.slot_count = 1, .holder_count = 8, .block_count = 1};
    const struct hfi_region_identity identity = {.cell = "c", .agent = "a"};
    uint64_t size = hfi_region_size(&sizes);
    void *memory = calloc(1, size);
    ck_assert_ptr_nonnull(memory);
    hfi_region_format(memory, &sizes, &identity);
    ck_assert_ptr_null(hfi_region_attach(memory, size, &region));
    region.header->lease = hfi_lease(100 * second_ns, 1);
    region.slots[0].blocks = 1;
    region.blocks[0].slot = 1;
    hfi_seat(&region, SEAT)->holder = ACTOR;
    hfi_seat(&region, WAITER_SEAT)->holder = WAITER;
    hfi_grant(&agent, 0, HFI_GRANT_EXCLUSIVE, 1, 1000);
    region.words[0].word |= HFI_W_CELLS;
    return memory;
}

static uint32_t holder(void)
{
    return hfi_word_holder(region.words[0].word);
}

static void join(uint32_t seat)
{
    uint64_t ticket = region.slots[0].ticket_next++;
    *hfi_seat_wait(&region, seat) = ticket << HFI_WAIT_TICKET_SHIFT | HFI_WAIT_WAITING;
    region.words[0].word |= HFI_W_WAITERS;
}

static void nothing(void)
{
}

/* A try fails if the agent sets the bit between the try's read and its swap. So the actor repeats
 * it. */
static void actor_takes(void)
{
    enum hfi_outcome outcome = hfi_try_exclusive(&actor, &request, &held);
    if (outcome == HFI_OCCUPIED) {
        outcome = hfi_try_exclusive(&actor, &request, &held);
    }
    ck_assert_int_eq(outcome, HFI_HELD);
}

static void actor_releases(void)
{
    ck_assert_int_eq(hfi_release(&actor, 0, held.token), HFI_RELEASED);
}

static bool is_actors(void)
{
    return holder() == ACTOR;
}

static bool is_not_actors(void)
{
    return holder() != ACTOR;
}

static bool is_waiters(void)
{
    return holder() == WAITER;
}

static void actor_takes_and_another_waits(void)
{
    actor_takes();
    join(WAITER_SEAT);
}

/* The bit HFI_W_WAITERS is set, but no process waits. So the release clears the bit before it frees
 * the word. */
static void actor_takes_and_the_waiter_has_left(void)
{
    actor_takes();
    region.words[0].word |= HFI_W_WAITERS;
}

/* Two processes wait for a free word. The actor leaves, and has to hand the word to the other
 * process. */
static void both_wait(void)
{
    join(SEAT);
    place = *hfi_seat_wait(&region, SEAT);
    join(WAITER_SEAT);
}

static void actor_leaves(void)
{
    hfi_leave(&actor, &request, &place);
}

static void actor_serves(void)
{
    hfi_serve(&actor, 0);
}

static void another_waits(void)
{
    join(WAITER_SEAT);
}

static void actor_waits(void)
{
    ck_assert_int_eq(hfi_wait_exclusive(&actor, &request, &patience, &place, &held), HFI_HELD);
}

static void actor_barges(void)
{
    ck_assert_int_eq(hfi_wait_exclusive(&actor, &barging, &patience, &place, &held), HFI_HELD);
}

static bool reads(void)
{
    return hfi_seat(&region, SEAT)->reader & HFI_CELL_COUNT;
}

static bool does_not_read(void)
{
    return !reads();
}

static void actor_takes_shared(void)
{
    ck_assert_int_eq(hfi_try_shared(&actor, &request, &held), HFI_HELD);
}

static void actor_releases_shared(void)
{
    ck_assert_int_eq(hfi_release_shared(&actor, 0, SEAT, held.cell), HFI_RELEASED);
}

static void actor_upgrades(void)
{
    ck_assert_int_eq(hfi_upgrade(&actor, &request, &patience, &held), HFI_HELD);
}

static void actor_downgrades(void)
{
    ck_assert_int_eq(hfi_downgrade(&actor, &request, &held), HFI_HELD);
}

static const struct change changes[] = {
    {"a take", nothing, actor_takes, is_actors},
    {"a take after a wait", nothing, actor_waits, is_actors},
    {"a barging take", nothing, actor_barges, is_actors},
    {"a shared take", nothing, actor_takes_shared, reads},
    {"a release", actor_takes, actor_releases, is_not_actors},
    {"a release without a waiter", actor_takes_and_the_waiter_has_left, actor_releases,
     is_not_actors},
    {"a hand-over", actor_takes_and_another_waits, actor_releases, is_waiters},
    {"a hand-over of a free word", another_waits, actor_serves, is_waiters},
    {"a hand-over by a waiter that leaves", both_wait, actor_leaves, is_waiters},
    {"a shared release", actor_takes_shared, actor_releases_shared, does_not_read},
    {"an upgrade", actor_takes_shared, actor_upgrades, does_not_read},
    {"a downgrade", actor_takes, actor_downgrades, is_not_actors},
};

START_TEST(a_watch_that_begins_at_any_moment_misses_no_change)
{
    int in_time = 0;
    change = &changes[_i];
    for (set_at = 0; set_at < POINTS_MAX; set_at++) {
        points = -1;
        place = 0;
        set_in_time = false;
        void *memory = region_make();
        change->prepare();
        points = 0;
        change->make();
        int reached = points;
        points = -1;
        ck_assert_msg(change->is_made(), "%s: not made", change->name);
        if (set_in_time) {
            in_time++;
            ck_assert_msg(region.dirty[0] == 1, "%s: watched before operation %d, and no ring",
                          change->name, set_at);
        }
        free(memory);
        if (reached <= set_at) { /* the change was complete before the agent set the bit */
            ck_assert_int_gt(in_time, 0);
            return;
        }
    }
    ck_abort_msg("%s never ends", change->name);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("watched");
    tcase_add_loop_test(tests, a_watch_that_begins_at_any_moment_misses_no_change, 0,
                        sizeof(changes) / sizeof(changes[0]));
    return suite_main("lockwatch", tests);
}
