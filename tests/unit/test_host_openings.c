/*
 * The host core: very many locks are closed after their holder died, and another host wants them.
 * Each lock is given back when its lock-delay is over, and not before.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "../suite_main.h"
#include "host_rig.h"

enum { LOCKS = 20000, DELAY_MS = 1000, DELAYS = 50 };

static struct rig *large;
static uint32_t slots[LOCKS];

static void name_of(uint32_t lock, char name[static 8])
{
    snprintf(name, 8, "%u", lock);
}

/* Neighbouring locks have different lock-delays, and the last locks have the shortest ones. */
static int64_t delay_ms(uint32_t lock)
{
    return DELAY_MS + DELAYS - lock % DELAYS - lock / (LOCKS / DELAYS);
}

/* Opens all locks. The versions of their grants are 1 to LOCKS. */
static void setup(void)
{
    char name[8];
    large = rig_create(LOCKS + 1, 4, LOCKS + 1, 8);
    large->unchecked = true;
    rig_begin(large);
    uint32_t holder = rig_connect(large, HOST_MAY_USE);
    for (uint32_t i = 0; i < LOCKS; i++) {
        large->reply_count = large->send_count = 0;
        name_of(i, name);
        struct hfi_opened opened = rig_open_granted(large, holder, name, delay_ms(i) * RIG_MS);
        (void)rig_take(large, &opened);
        slots[i] = opened.slot;
    }
    large->reply_count = large->send_count = 0;
    rig_die(large, holder);
    rig_pass(large, 0);
}

static void teardown(void)
{
    rig_destroy(large);
}

static void recall_all(uint32_t first, uint32_t step)
{
    char name[8];
    for (uint32_t i = first; i < LOCKS; i += step) {
        name_of(i, name);
        rig_recall(large, name, i + 1);
        ck_assert_uint_eq(large->send_count, 0);
    }
}

static bool is_closed(uint32_t lock)
{
    return rig_word(large, slots[lock]) & HFI_W_CLOSED;
}

/* Checks the time of a give-back: the host sends it after the lock-delay by the slowest clock,
 * which takes a tenth longer, and at most 1 ms later. */
static void note_given_back(const struct message *message, int64_t closed_ns, int64_t given_ns[])
{
    ck_assert_int_eq(message->kind, MESSAGE_GIVE_BACK);
    uint64_t version = message->as.give_back.version.sequence;
    ck_assert(version >= 1 && version <= LOCKS);
    int64_t least_ns = delay_ms((uint32_t)version - 1) * RIG_MS / 10 * 11;
    int64_t after_ns = large->now_ns - closed_ns;
    ck_assert_int_eq(given_ns[version - 1], 0);
    ck_assert(after_ns >= least_ns && after_ns <= least_ns + RIG_MS);
    given_ns[version - 1] = large->now_ns;
}

/* Answers all give-backs, also those that are sent only after an answer has made room for them.
 * Returns their number. */
static uint32_t answer_all(int64_t closed_ns, int64_t given_ns[])
{
    static struct message sent[RIG_SENDS];
    uint32_t count = 0;
    while (large->send_count > 0) {
        uint32_t sends = large->send_count;
        for (uint32_t i = 0; i < sends; i++) {
            message_copy(&sent[i], &large->sends[i]);
        }
        large->send_count = large->reply_count = 0;
        for (uint32_t i = 0; i < sends; i++) {
            note_given_back(&sent[i], closed_ns, given_ns);
            rig_returned(large, &sent[i]);
        }
        count += sends;
    }
    return count;
}

/* Lets time pass until the longest lock-delay is over by the slowest clock. Returns the number of
 * give-backs. */
static uint32_t give_back_all(int64_t closed_ns)
{
    static int64_t given_ns[LOCKS];
    uint32_t count = 0;
    int64_t end_ns = closed_ns + (DELAY_MS + DELAYS) * RIG_MS / 10 * 11 + RIG_MS;
    memset(given_ns, 0, sizeof(given_ns));
    while (host_next_tick_ns(large->host) <= end_ns) {
        int64_t next_ns = host_next_tick_ns(large->host);
        large->now_ns = next_ns > large->now_ns ? next_ns : large->now_ns;
        rig_step(large, (struct host_event){.kind = HOST_TICK});
        count += answer_all(closed_ns, given_ns);
    }
    return count;
}

/* Each recall asks the agent to look at a lock that it has to look at anyway. */
START_TEST(closed_locks_that_are_recalled_go_back_when_their_delays_are_over)
{
    int64_t closed_ns = large->now_ns;
    for (uint32_t i = 0; i < LOCKS; i++) {
        ck_assert(is_closed(i));
    }
    recall_all(1, 2);
    recall_all(0, 1); /* half of the locks are recalled a second time */
    host_check_invariants(large->host);
    rig_pass(large, (DELAY_MS - DELAYS) * RIG_MS);
    ck_assert_uint_eq(large->send_count, 0);
    ck_assert_uint_eq(give_back_all(closed_ns), LOCKS);
    host_check_invariants(large->host);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("host_openings");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, closed_locks_that_are_recalled_go_back_when_their_delays_are_over);
    return suite_main("host_openings", tests);
}
