/*
 * The host core gives a region up. Until the namespace begins anew, the core sends no message about
 * its locks. Then the earlier grants go back. The test plays the quorum.
 */
#include "host_cell.h"

#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"

enum { DELAY_MS = 5000, DRIFT_PERCENT = 10 };

static struct hfi_opened opened;
static struct hfi_region fresh;
static void *fresh_memory;
static bool sound;

static void setup(void)
{
    cell_setup();
    opened = cell_open_granted(client);
}

static void teardown(void)
{
    cell_teardown();
    free(fresh_memory);
    fresh_memory = NULL;
}

static void make_fresh(void)
{
    struct hfi_region_sizes sizes = {rig->config.limits.locks, 65535, rig->config.limits.blocks};
    struct hfi_region_identity identity = {.incarnation = 100, .cell = "dev"};
    uint64_t size = hfi_region_size(&sizes);
    fresh_memory = calloc(1, size);
    ck_assert_ptr_nonnull(fresh_memory);
    hfi_region_format(fresh_memory, &sizes, &identity);
    ck_assert_ptr_null(hfi_region_attach(fresh_memory, size, &fresh));
}

static uint64_t told_lease(const struct hfi_region *region)
{
    return atomic_load(&region->header->lease);
}

/* Makes a step, which does the leftover work. */
static void pass(void)
{
    rig_pass(rig, RIG_MS);
    rig_lease(rig, 1, rig->now_ns + 10000 * RIG_MS, false);
}

static void begin_anew(void)
{
    (void)host_give_up_region(rig->host, 0, 0);
    pass();
    ck_assert(host_region_is_left(rig->host, 0));
    make_fresh();
    ck_assert_ptr_null(host_add_region(rig->host, 0, &fresh, false));
}

START_TEST(what_is_given_up_is_barred)
{
    uint32_t sent = rig->send_count;
    uint64_t lease = told_lease(&rig->region);
    int64_t deadline_ns = hfi_lease_deadline_ns(lease);
    int64_t until_ns = host_give_up_region(rig->host, 0, 0);
    ck_assert_int_ge(until_ns, deadline_ns + 1000 * RIG_MS / 100 * (100 + DRIFT_PERCENT));
    rig_recall(rig, "a", 1); /* a recall of a lock that the host knew */
    rig_recall(rig, "never seen", 7);
    pass();
    rig_recall(rig, "a", 1); /* a recall of a lock that the host does not know any more */
    ck_assert_uint_eq(rig->send_count, sent);
    ck_assert_uint_eq(told_lease(&rig->region), lease);
    ck_assert_uint_eq(rig->rows_gone, 1);
    ck_assert_int_eq(rig_open(rig, other, "a", 0)->frame.error, HF_EUNSERVED);
    ck_assert_int_eq(rig_open(rig, other, "b", 0)->frame.error, HF_EUNSERVED);
    struct hfi_frame seat = {.kind = HFI_FRAME_SEAT, .seat = {.handle = opened.handle}};
    ck_assert_int_eq(rig_ask(rig, client, &seat)->frame.error, HF_EUNSERVED);
    rig_close(rig, client, opened.handle);
    rig_hang_up(rig, client);
    rig_pass(rig, 5000 * RIG_MS);
}
END_TEST

/* No process uses the old region any more, but tokens of its grants may have been used. So these
 * grants go back. */
START_TEST(what_was_granted_before_goes_back)
{
    begin_anew();
    ck_assert_uint_ne(told_lease(&fresh), 0);
    ck_assert_ptr_null(rig_open(rig, other, "a", 0));
    const struct message *asked = rig_sent(rig, MESSAGE_ACQUIRE);
    rig->fresh = false;
    rig_answer(rig, asked, MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    const struct message *back = rig_sent(rig, MESSAGE_GIVE_BACK);
    ck_assert_ptr_nonnull(back);
    ck_assert_uint_eq(back->as.give_back.version.sequence, 1);
    ck_assert_uint_ge(back->as.give_back.token_used, 100);
    ck_assert_int_eq(hfi_word_mode(atomic_load(&fresh.words[0].word)), HFI_GRANT_NONE);
    uint32_t count = rig_sent_count(rig, MESSAGE_ACQUIRE);
    rig_returned(rig, back);
    /* the host asks for the lock anew */
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), count + 1);
    rig->fresh = true;
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_int_eq(hfi_word_mode(atomic_load(&fresh.words[0].word)), HFI_GRANT_EXCLUSIVE);
    ck_assert_uint_ge(atomic_load(&fresh.words[0].word) & HFI_W_TOKEN, 100);
}
END_TEST

START_TEST(a_recall_of_before_is_answered_afterwards)
{
    begin_anew();
    rig_recall(rig, "a", 1);
    const struct message *back = rig_sent(rig, MESSAGE_GIVE_BACK);
    ck_assert_ptr_nonnull(back);
    ck_assert_uint_ge(back->as.give_back.token_used, 100);
}
END_TEST

/* The voters have version 2, which the old region used. A message names the earlier version 1. */
static void check_still_doubtful(void)
{
    const struct message *back = rig_sent(rig, MESSAGE_GIVE_BACK);
    ck_assert_ptr_nonnull(back);
    ck_assert_uint_eq(back->as.give_back.version.sequence, 1);
    uint32_t count = rig_sent_count(rig, MESSAGE_ACQUIRE);
    rig_returned(rig, back);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), count + 1);
    rig->fresh = false;
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    back = rig_sent(rig, MESSAGE_GIVE_BACK);
    ck_assert_uint_eq(back->as.give_back.version.sequence, 2);
    ck_assert_uint_ge(back->as.give_back.token_used, 200);
    ck_assert_int_eq(hfi_word_mode(atomic_load(&fresh.words[0].word)), HFI_GRANT_NONE);
    rig_returned(rig, back);
    rig->fresh = true;
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 3, 201, 300);
    ck_assert_int_eq(hfi_word_mode(atomic_load(&fresh.words[0].word)), HFI_GRANT_EXCLUSIVE);
}

START_TEST(an_old_recall_does_not_end_the_doubt)
{
    begin_anew();
    ck_assert_ptr_null(rig_open(rig, other, "a", 0));
    rig_recall(rig, "a", 1);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 0);
    rig_recall(rig, "a", 1); /* a repeated recall is accepted */
    check_still_doubtful();
}
END_TEST

START_TEST(an_old_recall_of_a_lock_nobody_has_open)
{
    begin_anew();
    rig_recall(rig, "a", 1);
    ck_assert_ptr_null(rig_open(rig, other, "a", 0));
    check_still_doubtful();
}
END_TEST

/* A dead process held the lock, so no handle has the hold's lock-delay any more. The next region
 * still waits until that lock-delay is over. */
START_TEST(a_closed_lock_is_waited_for)
{
    struct hfi_opened long_delay = rig_open_granted(rig, other, "b", DELAY_MS * RIG_MS);
    (void)rig_take(rig, &long_delay);
    rig_die(rig, other);
    rig_pass(rig, RIG_MS);
    int64_t died_ns = rig->now_ns;
    rig_lease(rig, 1, rig->now_ns + RIG_MS, false);
    rig_pass(rig, 2 * RIG_MS);
    int64_t until_ns = host_give_up_region(rig->host, 0, 0);
    ck_assert_int_ge(until_ns, died_ns - RIG_MS + DELAY_MS * RIG_MS / 100 * (100 + DRIFT_PERCENT));
}
END_TEST

static bool is_sound(void *arg, uint32_t space)
{
    (void)arg;
    return space != 0 || sound;
}

/* If pages of the region are gone, the agent may read zeros where the holder sees its hold. So it
 * gives nothing back. */
START_TEST(nothing_goes_back_for_what_is_read_in_rubbish)
{
    rig_restart(rig, 1);
    host_set_sound(rig->host, is_sound, NULL);
    sound = true;
    rig->fresh = true; /* the next grants are fresh, as for a new request */
    rig_begin(rig);
    client = rig_connect(rig, HOST_MAY_USE);
    opened = cell_open_granted(client);
    (void)rig_take(rig, &opened);
    atomic_store(&rig->region.words[opened.slot].word, 0);
    sound = false;
    rig_recall(rig, "a", rig->version);
    rig_pass(rig, 100 * RIG_MS);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 0);
    ck_assert_int_eq(rig_open(rig, client, "b", 0)->frame.error, HF_EUNSERVED);
    (void)host_give_up_region(rig->host, 0, 0);
    pass();
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 0);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("given up");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_is_given_up_is_barred);
    tcase_add_test(tests, what_was_granted_before_goes_back);
    tcase_add_test(tests, a_recall_of_before_is_answered_afterwards);
    tcase_add_test(tests, an_old_recall_does_not_end_the_doubt);
    tcase_add_test(tests, an_old_recall_of_a_lock_nobody_has_open);
    tcase_add_test(tests, a_closed_lock_is_waited_for);
    tcase_add_test(tests, nothing_goes_back_for_what_is_read_in_rubbish);
    return suite_main("host_regions", tests);
}
