/*
 * The order of a lock's queue during a scan, in which a process looks through the seats for the
 * next waiter. The lock word's code is built as for the simulator (tests/sim/shim.h): it calls
 * sim_point() before each atomic operation. The test repeats the scan, and in each repetition lets
 * two other processes join at a different call of sim_point().
 */
#include <check.h>
#include <stdlib.h>

#include "../suite_main.h"
#include "proto/lockword.h"

void sim_point(void);

enum { POINTS_MAX = 200, RELEASER = 1, FIRST = 2, SECOND = 3, READER = 4 };
static const int64_t second_ns = INT64_C(1000000000);

static struct hfi_region region;
static int points;  /* the number of operations so far; -1: do not count them */
static int join_at; /* the two processes join before the operation with this number */
static uint32_t first_seat = 2, second_seat = 5;
static uint64_t second_kind; /* flags of the second process's cell */
/* before each operation, a process writes a deadline long past into seat 0 */
static bool spoils;
/* before each operation, a process clears the reader's cell in seat 0 */
static bool rewrites;
/* if not 0: before each operation, a process changes two flags of the word */
static uint64_t flips;
static uint64_t operations; /* how many operations there were */

static void join(uint32_t seat, uint32_t holder, uint64_t kind)
{
    uint64_t ticket = region.slots[0].ticket_next++;
    hfi_seat(&region, seat)->holder = holder;
    *hfi_seat_wait(&region, seat) = ticket << HFI_WAIT_TICKET_SHIFT | kind | HFI_WAIT_WAITING;
    region.words[0].word |= HFI_W_WAITERS;
}

void sim_point(void)
{
    if (spoils) {
        hfi_seat(&region, 0)->deadline_ns = UINT64_C(1) << 63;
    }
    if (rewrites) {
        hfi_seat(&region, 0)->reader = 0;
    }
    operations++;
    if (flips != 0) {
        uint64_t flags = flips++ % 4 << 62; /* the flags "bargers" and "watched" */
        region.words[0].word = (region.words[0].word & ~(HFI_W_BARGERS | HFI_W_WATCHED)) | flags;
    }
    if (points >= 0 && points++ == join_at) {
        join(first_seat, FIRST, 0);
        join(second_seat, SECOND, second_kind);
    }
}

static void no_sleep(void *arg, _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    (void)arg;
    (void)word;
    (void)expected;
    (void)timeout_ns;
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

static void *region_make_with(uint32_t blocks)
{
    const struct hfi_region_sizes sizes = {
        .slot_count = 1, .holder_count = 8, .block_count = blocks};
    const struct hfi_region_identity identity = {.cell = "c", .agent = "a"};
    uint64_t size = hfi_region_size(&sizes);
    void *memory = calloc(1, size);
    ck_assert_ptr_nonnull(memory);
    hfi_region_format(memory, &sizes, &identity);
    ck_assert_ptr_null(hfi_region_attach(memory, size, &region));
    region.header->lease = hfi_lease(100 * second_ns, 1);
    region.slots[0].blocks = 1;
    for (uint32_t i = 0; i < blocks; i++) {
        region.blocks[i].slot = 1;
        region.blocks[i].next = i + 1 < blocks ? i + 2 : 0;
    }
    return memory;
}

static void *region_make(void)
{
    return region_make_with(1);
}

/* Before whichever operation the two processes join, the scan never names a waiter before an
 * earlier waiter of the queue. */
START_TEST(who_joins_during_a_scan_is_not_served_before_the_one_before_him)
{
    int served = 0;
    for (join_at = 0; join_at < POINTS_MAX; join_at++) {
        void *memory = region_make();
        const struct hfi_actor agent = {&region, &kernel, HFI_HOLDER_AGENT};
        const struct hfi_actor releaser = {&region, &kernel, RELEASER};
        const struct hfi_request request = {.slot = 0, .seat = HFI_SEAT_NONE};
        struct hfi_held held;
        points = -1;
        hfi_grant(&agent, 0, HFI_GRANT_EXCLUSIVE, 1, 1000);
        ck_assert_int_eq(hfi_try_exclusive(&releaser, &request, &held), HFI_HELD);
        /* a waiter that has left the queue had set this bit */
        region.words[0].word |= HFI_W_WAITERS;
        points = 0;
        ck_assert_int_eq(hfi_release(&releaser, 0, held.token), HFI_RELEASED);
        uint32_t holder = hfi_word_holder(region.words[0].word);
        ck_assert_msg(holder != SECOND, "joined before operation %d", join_at);
        served += holder == FIRST;
        int reached = points;
        free(memory);
        if (reached <= join_at) { /* the scan ended before the processes joined */
            ck_assert_int_gt(served, 0);
            return;
        }
    }
    ck_abort_msg("a release never ends");
}
END_TEST

/* A waiting reader is let in. Meanwhile a writer and then another reader join, in any two seats.
 * The second reader is not let in, because it would pass the writer. */
START_TEST(who_reads_is_not_let_in_past_a_writer_who_joined_before_him)
{
    first_seat = _i == 0 ? 2 : 5;
    second_seat = _i == 0 ? 5 : 2;
    second_kind = HFI_WAIT_SHARED;
    for (join_at = 0; join_at < POINTS_MAX; join_at++) {
        void *memory = region_make();
        const struct hfi_actor agent = {&region, &kernel, HFI_HOLDER_AGENT};
        const struct hfi_actor releaser = {&region, &kernel, RELEASER};
        const struct hfi_request request = {.slot = 0, .seat = HFI_SEAT_NONE};
        struct hfi_held held;
        points = -1;
        hfi_grant(&agent, 0, HFI_GRANT_EXCLUSIVE, 1, 1000);
        ck_assert_int_eq(hfi_try_exclusive(&releaser, &request, &held), HFI_HELD);
        region.slots[0].ticket_next = 1;
        join(0, READER, HFI_WAIT_SHARED);
        points = 0;
        ck_assert_int_eq(hfi_release(&releaser, 0, held.token), HFI_RELEASED);
        ck_assert_uint_eq(hfi_word_holder(region.words[0].word), 0);
        ck_assert_msg(region.slots[0].admit == 1, "joined before operation %d: tickets up to %u",
                      join_at, (unsigned)region.slots[0].admit);
        int reached = points;
        free(memory);
        if (reached <= join_at) { /* the scan ended before the processes joined */
            ck_assert_int_gt(join_at, 0);
            return;
        }
    }
    ck_abort_msg("a release never ends");
}
END_TEST

/* A reader's cell has a ticket that nobody drew: a process wrote it there. This reader is first in
 * the queue and can never be let in. After a while the releasing process stops trying, and leaves
 * the lock to the agent although tokens are left. */
START_TEST(a_reader_that_nobody_can_let_in_does_not_keep_a_release_for_ever)
{
    void *memory = region_make();
    const struct hfi_actor agent = {&region, &kernel, HFI_HOLDER_AGENT};
    const struct hfi_actor releaser = {&region, &kernel, RELEASER};
    const struct hfi_request request = {.slot = 0, .seat = HFI_SEAT_NONE};
    struct hfi_held held;
    points = join_at = -1;
    hfi_grant(&agent, 0, HFI_GRANT_EXCLUSIVE, 1, 100000);
    ck_assert_int_eq(hfi_try_exclusive(&releaser, &request, &held), HFI_HELD);
    region.slots[0].ticket_next = 70;
    join(0, READER, HFI_WAIT_SHARED);
    region.slots[0].ticket_next = 60;
    region.dirty[0] = 0;
    ck_assert_int_eq(hfi_release(&releaser, 0, held.token), HFI_RELEASED);
    uint64_t word = region.words[0].word;
    ck_assert_uint_eq(hfi_word_holder(word), 0);
    ck_assert_uint_lt(word & HFI_W_TOKEN, 10000);
    ck_assert_uint_eq(region.dirty[0], 1);
    free(memory);
}
END_TEST

/* A process overwrites the deadline of a hold with a limit by a time long past. If it does so once,
 * the hand-over repairs the deadline. If it does so again and again, the waiter never gets a hold
 * that counts, and its wait ends at its timeout. */
START_TEST(a_deadline_written_over_does_not_keep_a_waiter_for_ever)
{
    void *memory = region_make();
    const struct hfi_actor agent = {&region, &kernel, HFI_HOLDER_AGENT};
    const struct hfi_actor waiter = {&region, &kernel, RELEASER};
    const struct hfi_request request = {.slot = 0, .seat = 0, .limit_ns = second_ns};
    const struct hfi_wait_limit patience = {.deadline_ns = second_ns};
    uint64_t place = 0;
    struct hfi_held held;
    points = join_at = -1;
    hfi_grant(&agent, 0, HFI_GRANT_EXCLUSIVE, 1, INT64_C(1) << 38);
    hfi_seat(&region, 0)->holder = RELEASER;
    hfi_seat(&region, 0)->deadline_ns = UINT64_C(1) << 63;
    spoils = _i > 0;
    region.words[0].word |= HFI_W_WAITERS;
    enum hfi_outcome outcome = hfi_wait_exclusive(&waiter, &request, &patience, &place, &held);
    spoils = false;
    ck_assert_int_eq(outcome, _i > 0 ? HFI_TIMED_OUT : HFI_HELD);
    ck_assert_uint_eq(place, 0);
    ck_assert_uint_eq(hfi_word_holder(region.words[0].word), _i > 0 ? 0 : RELEASER);
    free(memory);
}
END_TEST

/* A reader should be let in, but a process clears the reader's cell again and again. The reader
 * never gets in, and its wait ends at its timeout. */
START_TEST(a_cell_written_over_does_not_keep_a_reader_for_ever)
{
    void *memory = region_make();
    const struct hfi_actor agent = {&region, &kernel, HFI_HOLDER_AGENT};
    const struct hfi_actor waiter = {&region, &kernel, READER};
    const struct hfi_request request = {.slot = 0, .seat = 0};
    const struct hfi_wait_limit patience = {.deadline_ns = second_ns};
    uint64_t place = 0;
    struct hfi_held held;
    points = join_at = -1;
    hfi_grant(&agent, 0, HFI_GRANT_EXCLUSIVE, 1, 1000);
    hfi_seat(&region, 0)->holder = READER;
    region.words[0].word |= HFI_W_CELLS;
    rewrites = _i > 0;
    enum hfi_outcome outcome = hfi_wait_shared(&waiter, &request, &patience, &place, &held);
    rewrites = false;
    ck_assert_int_eq(outcome, _i > 0 ? HFI_TIMED_OUT : HFI_HELD);
    ck_assert_uint_eq(place, 0);
    free(memory);
}
END_TEST

/* The agent's calls that look for waiters and change the word. The agent makes each of them within
 * one step. */
static void evict_for_a_second(const struct hfi_actor *agent)
{
    hfi_evict(agent, 0, FIRST, 5, 2 * second_ns);
}

static void evict_at_once(const struct hfi_actor *agent)
{
    hfi_evict(agent, 0, FIRST, 5, 0);
}

static void use_up(const struct hfi_actor *agent)
{
    const struct hfi_range range = {.floor = 10, .last = 20};
    uint64_t before = 0;
    hfi_use_up(agent, 0, &range, 2 * second_ns, &before);
}

static void serve(const struct hfi_actor *agent)
{
    region.words[0].word &= ~HFI_W_HOLDER;
    hfi_serve(agent, 0);
}

static void (*const steps[])(const struct hfi_actor *) = {evict_for_a_second, evict_at_once, use_up,
                                                          serve};
enum { STEPS = sizeof(steps) / sizeof(steps[0]), BLOCKS = 200, STEP_MAX = 100000 };

/* The lock has 1,400 seats, and a process changes the word before each operation of the agent, so
 * that each of the agent's swaps fails. The agent does not look through the whole queue each time:
 * it leaves the lock after some tens of looks. */
START_TEST(a_word_that_always_changes_does_not_keep_the_agent)
{
    void *memory = region_make_with(BLOCKS);
    const struct hfi_actor agent = {&region, &kernel, HFI_HOLDER_AGENT};
    points = join_at = -1;
    hfi_grant(&agent, 0, HFI_GRANT_EXCLUSIVE, 1, 100000);
    join(BLOCKS * HFI_BLOCK_SEATS - 1, SECOND, 0);
    region.words[0].word = (region.words[0].word & ~HFI_W_TOKEN) | 5 |
                           (uint64_t)FIRST << HFI_W_HOLDER_SHIFT;
    flips = 1;
    operations = 0;
    steps[_i](&agent);
    flips = 0;
    ck_assert_uint_lt(operations, STEP_MAX);
    free(memory);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("order");
    tcase_add_test(tests, who_joins_during_a_scan_is_not_served_before_the_one_before_him);
    tcase_add_test(tests, a_reader_that_nobody_can_let_in_does_not_keep_a_release_for_ever);
    tcase_add_loop_test(tests, a_deadline_written_over_does_not_keep_a_waiter_for_ever, 0, 2);
    tcase_add_loop_test(tests, a_cell_written_over_does_not_keep_a_reader_for_ever, 0, 2);
    tcase_add_loop_test(tests, a_word_that_always_changes_does_not_keep_the_agent, 0, STEPS);
    tcase_add_loop_test(tests, who_reads_is_not_let_in_past_a_writer_who_joined_before_him, 0, 2);
    return suite_main("lockqueue", tests);
}
