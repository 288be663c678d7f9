/*
 * Polled waiters and the host core: the agent ends a client's hold, and the tests check what
 * becomes of the client's place in the queue.
 */
#include <check.h>

#include "../suite_main.h"
#include "host_rig.h"

enum { LIMIT_MS = 200 };

static struct rig *rig;
static uint32_t admin;
static struct hfi_opened mine;   /* the holds of this handle end after LIMIT_MS */
static struct hfi_opened theirs; /* this handle waits */
static struct hfi_request request;
static struct hfi_actor actor;
static const struct hfi_wait_limit patience = {.deadline_ns = INT64_MAX};
static struct hfi_held held;
static uint64_t place;

static void setup(void)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_OPEN};
    rig = rig_create(RIG_LOCKS, 8, 64, 8);
    rig_begin(rig);
    uint32_t other = rig_connect(rig, HOST_MAY_USE);
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    admin = rig_connect(rig, HOST_MAY_ADMIN);
    theirs = rig_open_granted(rig, other, "a", 0);
    theirs.seat = rig_seat(rig, other, theirs.handle, false);
    frame.open.name = (struct hfi_text){"a", 1};
    frame.open.lease_ns = LIMIT_MS * RIG_MS;
    mine = rig_ask(rig, client, &frame)->frame.opened;
    ck_assert_uint_ne(mine.seat, HFI_SEAT_NONE);
    actor = rig_actor(rig, mine.holder);
    request = (struct hfi_request){
        .slot = mine.slot, .seat = mine.seat, .limit_ns = LIMIT_MS * RIG_MS, .polled = true};
    place = 0;
}

static void teardown(void)
{
    rig_destroy(rig);
}

/* The other client joins the queue, and sleeps. */
static void let_other_wait(void)
{
    struct hfi_slot *slot = &rig->region.slots[theirs.slot];
    *hfi_seat_wait(&rig->region, theirs.seat) = (uint64_t)slot->ticket_next++
                                                    << HFI_WAIT_TICKET_SHIFT |
                                                HFI_WAIT_WAITING;
    hfi_seat(&rig->region, theirs.seat)->wake |= 1;
    rig->region.words[theirs.slot].word |= HFI_W_WAITERS;
}

static enum hfi_outcome wait(void)
{
    return hfi_wait_exclusive(&actor, &request, &patience, &place, &held);
}

static uint64_t own_cell(void)
{
    return *hfi_seat_wait(&rig->region, mine.seat);
}

/* Ends the first client's hold: its limit is over, or an administrator breaks it. */
static void end_hold(bool breaks)
{
    if (breaks) {
        struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
        frame.break_lock.name = (struct hfi_text){"a", 1};
        ck_assert_int_eq(rig_ask(rig, admin, &frame)->frame.broken.error, 0);
    } else {
        rig_pass(rig, (LIMIT_MS + 50) * RIG_MS);
    }
}

/* The program does not read its event until its hold has ended. The client has lost its place in
 * the queue, too, and the lock goes to the next client. */
START_TEST(an_unread_hold_ends_with_its_place)
{
    struct hfi_actor first = rig_actor(rig, theirs.holder);
    struct hfi_held their_hold = rig_take(rig, &theirs);
    ck_assert_int_eq(wait(), HFI_POLLED);
    ck_assert_int_eq(hfi_release(&first, theirs.slot, their_hold.token), HFI_RELEASED);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, mine.slot)), mine.holder);
    let_other_wait();
    rig_ring(rig);
    end_hold(_i == 1);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, mine.slot)), theirs.holder);
    ck_assert_uint_eq(own_cell() & (HFI_WAIT_WAITING | HFI_WAIT_JOINING), 0);
    ck_assert_int_eq(wait(), HFI_GONE);
}
END_TEST

static void wake_and_wait(void *arg, _Atomic uint32_t *word, int count)
{
    (void)arg;
    (void)word;
    (void)count;
    if (place == 0 && hfi_word_holder(rig_word(rig, mine.slot)) != mine.holder) {
        ck_assert_int_eq(wait(), HFI_POLLED);
    }
}

/* The program has read its event. It waits again as soon as its hold is over, while the agent is
 * still ending that hold. The agent must not take the new place away. */
START_TEST(the_next_place_of_a_client_stays)
{
    ck_assert_int_eq(hfi_try_exclusive(&actor, &request, &held), HFI_HELD);
    let_other_wait();
    rig_ring(rig);
    rig->kernel.wake = wake_and_wait;
    end_hold(_i == 1);
    ck_assert_uint_ne(place, 0);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, mine.slot)), theirs.holder);
    ck_assert_uint_eq(own_cell(), place);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host_polled");
    TCase *tests = tcase_create("polled");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_loop_test(tests, an_unread_hold_ends_with_its_place, 0, 2);
    tcase_add_loop_test(tests, the_next_place_of_a_client_stays, 0, 2);
    suite_add_tcase(suite, tests);
    return suite_run(suite);
}
