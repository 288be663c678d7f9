/*
 * Polled waiters: no thread sleeps for them, so a process that lets such a waiter go on must ring
 * for the agent, and the agent must find the waiter. The lock word's code is built as for the
 * simulator (tests/sim/shim.h): it calls sim_point() before each atomic operation. The first test
 * lets the other process act before each operation of the waiter. The second test kills the other
 * process before each of its operations. Then the agent repairs the lock, as after any death.
 */
#include <check.h>
#include <setjmp.h>
#include <stdlib.h>

#include "../suite_main.h"
#include "proto/lockword.h"

void sim_point(void);

enum { POINTS_MAX = 300, OTHER = 1, WAITER = 2, OTHER_SEAT = 0, SEAT = 3 };
static const int64_t second_ns = INT64_C(1000000000);

static struct hfi_region region;
static int points; /* the number of operations so far; -1: do not count them */
static int at;     /* the number of the operation before which the test interferes */
static bool dies;  /* true: the running process dies there; false: the other process acts there */
static jmp_buf death;

/* One way in which a waiter may go on. */
struct turn {
    const char *name;
    void (*prepare)(void);
    void (*give)(void); /* what the other process does */
    bool shared;        /* the waiter waits for a shared hold */
};
static const struct turn *turn;

void sim_point(void)
{
    if (points < 0 || points++ != at) {
        return;
    }
    points = -1;
    if (dies) {
        longjmp(death, 1);
    }
    turn->give();
}

static void no_sleep(void *arg, _Atomic uint32_t *word, uint32_t expected, int64_t timeout_ns)
{
    (void)arg;
    (void)word;
    (void)expected;
    (void)timeout_ns;
    ck_abort_msg("%s: a sleep", turn->name);
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
static const struct hfi_actor other = {&region, &kernel, OTHER};
static const struct hfi_actor waiter = {&region, &kernel, WAITER};
static const struct hfi_request request = {.slot = 0, .seat = SEAT, .polled = true};
static const struct hfi_request other_request = {.slot = 0, .seat = OTHER_SEAT};
static const struct hfi_wait_limit patience = {.deadline_ns = INT64_MAX};
static struct hfi_held others_hold;
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
    hfi_seat(&region, OTHER_SEAT)->holder = OTHER;
    hfi_seat(&region, SEAT)->holder = WAITER;
    hfi_grant(&agent, 0, HFI_GRANT_EXCLUSIVE, 1, 1000);
    region.words[0].word |= HFI_W_CELLS;
    place = 0;
    return memory;
}

static void other_takes(void)
{
    ck_assert_int_eq(hfi_try_exclusive(&other, &other_request, &others_hold), HFI_HELD);
}

/* A reader with a later ticket was let in before the waiter joined the queue. So the waiter's
 * ticket is admitted already, and the release that lets the waiter go on need not raise `admit`. */
static void other_takes_after_a_reader(void)
{
    other_takes();
    region.slots[0].admit = region.slots[0].ticket_next;
}

static void other_reads(void)
{
    ck_assert_int_eq(hfi_try_shared(&other, &other_request, &others_hold), HFI_HELD);
}

static void other_releases(void)
{
    hfi_release(&other, 0, others_hold.token);
}

static void other_stops_reading(void)
{
    hfi_release_shared(&other, 0, OTHER_SEAT, others_hold.cell);
}

static void other_downgrades(void)
{
    hfi_downgrade(&other, &other_request, &others_hold);
}

static const struct turn turns[] = {
    {"a hand-over", other_takes, other_releases, false},
    {"a reader let in", other_takes, other_releases, true},
    {"a reader let in that was admitted before", other_takes_after_a_reader, other_releases, true},
    {"a reader let in by a downgrade", other_takes, other_downgrades, true},
    {"the last reader leaves", other_reads, other_stops_reading, false},
};
enum { TURNS = sizeof(turns) / sizeof(turns[0]) };

static enum hfi_outcome wait(void)
{
    return turn->shared ? hfi_wait_shared(&waiter, &request, &patience, &place, &held)
                        : hfi_wait_exclusive(&waiter, &request, &patience, &place, &held);
}

/* Checks that the waiter has the lock. Otherwise somebody must have rung, the agent must find the
 * waiter, and the waiter's next step must take the lock. */
static void check_turn(enum hfi_outcome outcome, bool rung)
{
    if (outcome != HFI_HELD) {
        ck_assert_int_eq(outcome, HFI_POLLED);
        ck_assert_msg(rung, "%s before operation %d: no ring", turn->name, at);
        ck_assert_msg(hfi_polled_may_go_on(&region, 0, SEAT),
                      "%s before operation %d: the agent does not find the waiter", turn->name, at);
        ck_assert_int_eq(wait(), HFI_HELD);
    }
    ck_assert_uint_eq(place, 0);
    ck_assert_uint_eq(
        *hfi_seat_wait(&region, SEAT) & (HFI_WAIT_JOINING | HFI_WAIT_WAITING | HFI_WAIT_PASSED), 0);
}

START_TEST(whoever_gives_a_polled_waiter_its_turn_rings)
{
    turn = &turns[_i];
    dies = false;
    for (at = 0; at < POINTS_MAX; at++) {
        points = -1;
        void *memory = region_make();
        turn->prepare();
        points = 0;
        enum hfi_outcome outcome = wait();
        bool acted = points < 0;
        points = -1;
        if (!acted) { /* the waiter's step ended first */
            ck_assert_int_eq(outcome, HFI_POLLED);

            region.dirty[0] = 0;
            turn->give();
        }
        check_turn(outcome, region.dirty[0] == 1);
        free(memory);
        if (!acted) {
            return;
        }
    }
    ck_abort_msg("%s: a wait never ends", turn->name);
}
END_TEST

/* The agent repairs the lock after the death of a process. */
static void agent_heals(void)
{
    hfi_bury_waiter(&agent, OTHER_SEAT);
    hfi_pass_on(&agent, 0, OTHER, OTHER_SEAT);
    hfi_evict(&agent, 0, OTHER, region.words[0].word & HFI_W_TOKEN, 0);
    hfi_evict_reader(&agent, 0, OTHER_SEAT, 0, 0);
    hfi_rouse(&agent, 0);
    hfi_serve(&agent, 0);
}

START_TEST(after_a_death_the_agent_finds_the_polled_waiter)
{
    turn = &turns[_i];
    for (at = 0; at < POINTS_MAX; at++) {
        points = -1;
        dies = false;
        void *memory = region_make();
        turn->prepare();
        ck_assert_int_eq(wait(), HFI_POLLED);
        dies = true;
        volatile bool died = true;
        if (setjmp(death) == 0) {
            points = 0;
            turn->give();
            died = false;
        }
        points = -1;
        agent_heals();
        check_turn(HFI_POLLED, true); /* heal_lock() finds polled waiters even without a ring */
        free(memory);
        if (!died) {
            return;
        }
    }
    ck_abort_msg("%s: never ends", turn->name);
}
END_TEST

/* The agent ends the waiter's hold before its program has read the event. (The hold's limit is
 * over, or an administrator breaks it.) Whatever the program does meanwhile, the waiter has lost
 * its place, and the lock goes to the next waiter. */
static void agent_ends_the_hold(void)
{
    if (hfi_word_holder(region.words[0].word) == WAITER) {
        uint64_t token = region.words[0].word & HFI_W_TOKEN;
        hfi_unseat(&agent, 0, SEAT, WAITER, token);
        hfi_evict(&agent, 0, WAITER, token, 0);
    }
}

START_TEST(a_hold_that_is_ended_unread_ends_with_its_place)
{
    static const struct turn ending = {"an eviction", NULL, agent_ends_the_hold, false};
    turn = &ending;
    dies = false;
    for (at = 0; at < POINTS_MAX; at++) {
        points = -1;
        void *memory = region_make();
        other_takes();
        ck_assert_int_eq(wait(), HFI_POLLED);
        other_releases();
        ck_assert_uint_eq(hfi_word_holder(region.words[0].word), WAITER);
        points = 0;
        enum hfi_outcome outcome = wait();
        bool acted = points < 0;
        points = -1;
        if (!acted) {
            ck_assert_int_eq(outcome, HFI_HELD);
            free(memory);
            return;
        }
        bool gone = true;
        if (outcome == HFI_HELD) {
            hfi_remaining_ns(&region, &request, WAITER, &held, second_ns, &gone);
        }
        /* either the hold has ended and the word is free, or the waiter has a later hold */
        ck_assert_msg(gone == (hfi_word_holder(region.words[0].word) != WAITER),
                      "evicted before operation %d", at);
        ck_assert_msg(outcome == HFI_HELD || outcome == HFI_GONE, "operation %d: outcome %d", at,
                      (int)outcome);
        free(memory);
    }
    ck_abort_msg("never ends");
}
END_TEST

/* The waiter notices its hold, ends it, and waits again behind another process. */
static void waiter_comes_again(void)
{
    ck_assert_int_eq(wait(), HFI_HELD);
    hfi_release(&waiter, 0, held.token);
    other_takes();
    ck_assert_int_eq(wait(), HFI_POLLED);
}

/* The agent is about to end a hold that its process has not noticed. If the process notices and
 * ends the hold meanwhile, and waits again, it keeps its new place. */
START_TEST(the_next_place_is_not_taken_away)
{
    static const struct turn coming = {"the next wait", NULL, waiter_comes_again, false};
    turn = &coming;
    dies = false;
    for (at = 0; at < POINTS_MAX; at++) {
        points = -1;
        void *memory = region_make();
        other_takes();
        ck_assert_int_eq(wait(), HFI_POLLED);
        other_releases();
        uint64_t token = region.words[0].word & HFI_W_TOKEN;
        points = 0;
        hfi_unseat(&agent, 0, SEAT, WAITER, token);
        bool acted = points < 0;
        points = -1;
        if (!acted) {
            ck_assert_int_gt(at, 2);
            ck_assert_uint_ne(*hfi_seat_wait(&region, SEAT) & HFI_WAIT_LEFT, 0);
            free(memory);
            return;
        }
        ck_assert_msg(*hfi_seat_wait(&region, SEAT) == place, "operation %d: place gone", at);
        free(memory);
    }
    ck_abort_msg("never ends");
}
END_TEST

static uint64_t passing; /* the token of the word that is about to be passed on; 0: none */

/* The agent begins to end the hold. The process that handed the lock over finds the place marked
 * LEFT. It passes the lock on, and stops before its last swap (rule 5). */
static void another_begins_to_pass_on(void)
{
    _Atomic uint64_t *cell = hfi_seat_wait(&region, SEAT);
    uint64_t word = region.words[0].word;
    passing = 0;
    hfi_unseat(&agent, 0, SEAT, WAITER, word & HFI_W_TOKEN);
    if (*cell & HFI_WAIT_LEFT) {
        *cell = (*cell & ~(uint64_t)HFI_WAIT_LEFT) | HFI_WAIT_PASSED;
        passing = hfi_token(0, word);
    }
}

/* A process passes the lock on: after its announcement it swaps the word. Before the swap the
 * waiter must not treat the word as its own hold. Such a hold would end without a lock-delay while
 * the program works. */
START_TEST(a_hold_that_is_being_passed_on_is_not_the_waiters)
{
    static const struct turn ending = {"an eviction", NULL, another_begins_to_pass_on, false};
    turn = &ending;
    dies = false;
    int passed = 0;
    for (at = 0; at < POINTS_MAX; at++) {
        points = -1;
        void *memory = region_make();
        other_takes();
        ck_assert_int_eq(wait(), HFI_POLLED);
        other_releases();
        passing = 0;
        points = 0;
        enum hfi_outcome outcome = wait();
        bool acted = points < 0;
        points = -1;
        if (passing != 0) {
            passed++;
            hfi_release(&waiter, 0, passing);
        }
        bool gone = false;
        if (outcome == HFI_HELD) {
            hfi_remaining_ns(&region, &request, WAITER, &held, second_ns, &gone);
        }
        ck_assert_msg(!gone, "evicted before operation %d", at);
        free(memory);
        if (!acted) {
            ck_assert_int_gt(passed, 0);
            return;
        }
    }
    ck_abort_msg("never ends");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("polled");
    tcase_add_loop_test(tests, whoever_gives_a_polled_waiter_its_turn_rings, 0, TURNS);
    tcase_add_loop_test(tests, after_a_death_the_agent_finds_the_polled_waiter, 0, TURNS);
    tcase_add_test(tests, a_hold_that_is_ended_unread_ends_with_its_place);
    tcase_add_test(tests, the_next_place_is_not_taken_away);
    tcase_add_test(tests, a_hold_that_is_being_passed_on_is_not_the_waiters);
    return suite_main("lockpolled", tests);
}
