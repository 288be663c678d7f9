/* The host core writes into the region why a hold ended, and counts and logs it. */
#include <check.h>
#include <string.h>

#include "../suite_main.h"
#include "host_rig.h"
#include "proto/ending.h"

enum { BREAKER_UID = 1234 };

static struct rig *rig;
static uint32_t client;
static struct hfi_opened opened;

static void setup(void)
{
    rig = rig_create(RIG_LOCKS, 8, 64, 8);
    rig_begin(rig);
    client = rig_connect(rig, HOST_MAY_USE);
    opened = rig_open_granted(rig, client, "a", 500 * RIG_MS);
}

static void teardown(void)
{
    rig_destroy(rig);
}

/* Returns the region's note about that hold. The note of a shared hold is in its seat. */
static struct hfi_ending ending_of(const struct hfi_opened *of, const struct hfi_held *hold)
{
    struct hfi_ending ending;
    (void)hfi_ending_read(&rig->region, of->slot, of->seat, hold->token, hold->cell, &ending);
    return ending;
}

static uint64_t losses(enum host_loss why)
{
    return host_counts(rig->host)->losses[why];
}

/* Another user breaks the lock. */
static void break_lock(void)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    rig->uid = BREAKER_UID;
    frame.break_lock.name = (struct hfi_text){"a", 1};
    ck_assert_int_eq(rig_ask(rig, rig_connect(rig, HOST_MAY_ADMIN), &frame)->frame.error, 0);
}

static void assert_broken(const struct hfi_ending *ending)
{
    const struct message_agent *self = &rig->config.agent;
    ck_assert_int_eq(ending->kind, HFI_ENDING_BROKEN);
    ck_assert_int_eq(ending->at_ns, rig->now_ns);
    ck_assert_int_eq(ending->uid, BREAKER_UID);
    ck_assert_uint_eq(strlen(ending->agent), self->length);
    ck_assert_mem_eq(ending->agent, self->text, self->length);
    ck_assert_uint_eq(losses(HOST_LOSS_BREAK), 1);
}

START_TEST(a_dead_process)
{
    struct hfi_held held = rig_take(rig, &opened);
    ck_assert_int_eq(ending_of(&opened, &held).kind, HFI_ENDING_NONE);
    rig_die(rig, client);
    ck_assert_int_eq(ending_of(&opened, &held).kind, HFI_ENDING_PROCESS);
    ck_assert_uint_eq(losses(HOST_LOSS_DEATH), 1);
}
END_TEST

START_TEST(a_break_names_the_user_and_the_host)
{
    struct hfi_held held = rig_take(rig, &opened);
    break_lock();
    struct hfi_ending ending = ending_of(&opened, &held);
    assert_broken(&ending);
}
END_TEST

START_TEST(a_broken_reader_learns_the_same)
{
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    opened.seat = rig_seat(rig, client, opened.handle, true);
    struct hfi_request request = {.slot = opened.slot, .seat = opened.seat};
    struct hfi_held held;
    ck_assert_int_eq(hfi_try_shared(&actor, &request, &held), HFI_HELD);
    break_lock();
    struct hfi_ending ending = ending_of(&opened, &held);
    assert_broken(&ending);
}
END_TEST

START_TEST(a_limit)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_OPEN};
    frame.open.name = (struct hfi_text){"b", 1};
    *(_i == 0 ? &frame.open.lease_ns : &frame.open.max_stall_ns) = 200 * RIG_MS;
    frame.open.flags = HFI_OPEN_SEAT;
    ck_assert_ptr_null(rig_ask(rig, client, &frame));
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 1, 100);
    struct hfi_opened limited = rig_find(rig, client, HFI_FRAME_OPENED)->frame.opened;
    struct hfi_actor actor = rig_actor(rig, limited.holder);
    struct hfi_request request = {
        .slot = limited.slot, .seat = limited.seat, .limit_ns = 200 * RIG_MS};
    struct hfi_held hold;
    ck_assert_int_eq(hfi_try_exclusive(&actor, &request, &hold), HFI_HELD);
    rig_ring(rig);
    rig_pass(rig, 201 * RIG_MS);
    ck_assert_int_eq(ending_of(&limited, &hold).kind,
                     _i == 0 ? HFI_ENDING_LEASE : HFI_ENDING_STALL);
    ck_assert_uint_eq(losses(_i == 0 ? HOST_LOSS_LEASE : HOST_LOSS_STALL), 1);
}
END_TEST

START_TEST(a_lost_session)
{
    struct hfi_held held = rig_take(rig, &opened);
    rig_lease(rig, 1, rig->now_ns, true);
    ck_assert_int_eq(ending_of(&opened, &held).kind, HFI_ENDING_SESSION);
    ck_assert_uint_eq(losses(HOST_LOSS_LAPSE), 1);
}
END_TEST

/* A recovery of the cell ends a session before the deadline that the region shows. The agent
 * changes one word of the region after the other. In between, too, a process must not see a lost
 * hold in a session that seems to go on. */
START_TEST(a_session_that_ends_before_its_deadline)
{
    struct hfi_request request = {.slot = opened.slot, .seat = HFI_SEAT_NONE};
    struct hfi_held held = rig_take(rig, &opened);
    bool gone = false;
    ck_assert_int_gt(
        hfi_remaining_ns(&rig->region, &request, opened.holder, &held, rig->now_ns, &gone),
        1000 * RIG_MS);
    rig_lease(rig, 1, rig->now_ns, true);
    uint64_t lease = atomic_load(&rig->region.header->lease);
    ck_assert_uint_eq(hfi_lease_epoch(lease), 1);
    ck_assert_int_le(hfi_lease_deadline_ns(lease), rig->now_ns);
    ck_assert_int_le(
        hfi_remaining_ns(&rig->region, &request, opened.holder, &held, rig->now_ns, &gone), 0);
    ck_assert(gone);
    rig_pass(rig, 5000 * RIG_MS); /* a pass over the region finds nothing to put right */
    ck_assert_uint_eq(atomic_load(&rig->region.header->lease), lease);
    ck_assert_uint_eq(host_counts(rig->host)->repairs, 0);
    /* a process that waits for the lease is woken by the next session */
    atomic_store(&rig->region.header->lease_sleepers, 1);
    uint32_t wakes = rig->wakes;
    rig_lease(rig, 2, rig->now_ns + 1000 * RIG_MS, false);
    ck_assert_uint_gt(rig->wakes, wakes);
}
END_TEST

/* A process overwrites the word with a token that the agent never granted. */
START_TEST(a_damaged_word)
{
    struct hfi_held held = rig_take(rig, &opened);
    rig->region.words[opened.slot].word += 5000;
    held.token += 5000;
    rig_ring(rig);
    rig_pass(rig, 5000 * RIG_MS);
    ck_assert_int_eq(ending_of(&opened, &held).kind, HFI_ENDING_DAMAGE);
    ck_assert_uint_eq(losses(HOST_LOSS_DAMAGE), 1);
}
END_TEST

/* Tokens begin anew for each name. So the next name in the slot may have a hold with the same token
 * as the broken hold. */
START_TEST(a_note_stays_with_its_name)
{
    struct rig *small = rig_create(1, 2, 8, 1);
    rig_begin(small);
    uint32_t user = rig_connect(small, HOST_MAY_USE);
    struct hfi_opened a = rig_open_granted(small, user, "a", 0);
    const struct hfi_ending noted = {.kind = HFI_ENDING_BROKEN, .at_ns = 5, .uid = BREAKER_UID};
    struct hfi_ending ending;
    hfi_ending_note(&small->agents, a.slot, 1, &noted);
    ck_assert(hfi_ending_last(&small->region, a.slot, &ending));
    rig_close(small, user, a.handle);
    (void)rig_open(small, user, "b", 0);
    rig_returned(small, rig_sent(small, MESSAGE_GIVE_BACK));
    struct hfi_opened b = rig_open_granted(small, user, "b", 0);
    ck_assert_uint_eq(b.slot, a.slot);
    ck_assert(!hfi_ending_read(&small->region, b.slot, HFI_SEAT_NONE, 1, 0, &ending));
    ck_assert(!hfi_ending_last(&small->region, b.slot, &ending));
    rig_destroy(small);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("endings");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_dead_process);
    tcase_add_test(tests, a_note_stays_with_its_name);
    tcase_add_test(tests, a_break_names_the_user_and_the_host);
    tcase_add_test(tests, a_broken_reader_learns_the_same);
    tcase_add_loop_test(tests, a_limit, 0, 2);
    tcase_add_test(tests, a_lost_session);
    tcase_add_test(tests, a_session_that_ends_before_its_deadline);
    tcase_add_test(tests, a_damaged_word);
    return suite_main("host_endings", tests);
}
