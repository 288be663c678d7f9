/*
 * The host core: opening locks, seats, requests to the quorum and its answers, full tables, and
 * what people see.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "host_rig.h"

static struct rig *rig;

static void setup(void)
{
    rig = rig_create(RIG_LOCKS, 8, 64, 8);
    rig_begin(rig);
}

static void teardown(void)
{
    rig_destroy(rig);
}

START_TEST(an_open_is_answered_with_the_grant)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    ck_assert_uint_eq(rig->rows, 1);
    const struct message *acquire = rig_sent(rig, MESSAGE_ACQUIRE);
    ck_assert_ptr_nonnull(acquire);
    rig_grant(rig, acquire, 5, 9);
    const struct rig_reply *reply = rig_find(rig, client, HFI_FRAME_OPENED);
    ck_assert_ptr_nonnull(reply);
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_REGION), 1);
    struct hfi_held held = rig_take(rig, &reply->frame.opened);
    ck_assert_uint_eq(held.token, 5);
    ck_assert_uint_eq(held.epoch, 1);
    /* this OPEN is answered at once, and without a second REGION */
    ck_assert_ptr_nonnull(rig_open(rig, client, "a", 0));
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_REGION), 1);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 1);
}
END_TEST

START_TEST(an_open_does_not_wait_for_ever)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_pass(rig, 100 * RIG_MS);
    const struct rig_reply *reply = rig_find(rig, client, HFI_FRAME_OPENED);
    ck_assert_ptr_nonnull(reply);
    struct hfi_actor actor = rig_actor(rig, reply->frame.opened.holder);
    struct hfi_request request = {.slot = reply->frame.opened.slot, .seat = HFI_SEAT_NONE};
    struct hfi_held held;
    ck_assert_int_eq(hfi_try_exclusive(&actor, &request, &held), HFI_UNGRANTED);
}
END_TEST

START_TEST(handles_of_one_lock_have_different_ids)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened a = rig_open_granted(rig, client, "a", 0);
    struct hfi_opened b = rig_open_granted(rig, client, "a", 0);
    struct hfi_opened c = rig_open_granted(rig, client, "other", 0);
    ck_assert_uint_eq(a.slot, b.slot);
    ck_assert_uint_ne(a.holder, b.holder);
    ck_assert_uint_eq(a.holder, c.holder);
    rig_close(rig, client, a.handle);
    ck_assert_uint_eq(rig_open_granted(rig, client, "a", 0).holder, a.holder);
}
END_TEST

START_TEST(a_longer_lock_delay_is_asked_for_before_the_answer)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    (void)rig_open_granted(rig, client, "a", 100 * RIG_MS);
    ck_assert_ptr_null(rig_open(rig, client, "a", 900 * RIG_MS));
    const struct message *amend = rig_sent(rig, MESSAGE_AMEND);
    ck_assert_ptr_nonnull(amend);
    ck_assert_uint_eq(amend->as.amend.lock_delay_ms, 900);
    /* still no answer: the grant does not cover this lock-delay */
    rig_pass(rig, 500 * RIG_MS);
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_OPENED), 1);
    rig_grant(rig, amend, 1, 100);
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_OPENED), 2);
}
END_TEST

START_TEST(an_open_without_a_lease_is_amended_later)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    (void)rig_open_granted(rig, client, "a", 100 * RIG_MS);
    rig->now_ns += 200000 * RIG_MS; /* after the deadline the host may ask the quorum for nothing */
    ck_assert_ptr_null(rig_open(rig, client, "a", 900 * RIG_MS));
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_AMEND));
    rig_lease(rig, 1, rig->now_ns + 10000 * RIG_MS, false);
    rig_pass(rig, 200 * RIG_MS);
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_AMEND));
}
END_TEST

/* A client whose OPEN was answered before the grant came may already wait. It does not get the lock
 * before the grant covers every client's lock-delay. */
START_TEST(a_grant_is_not_in_force_before_it_covers_the_longest_lock_delay)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    const struct message *acquire = rig_sent(rig, MESSAGE_ACQUIRE);
    ck_assert_ptr_null(rig_open(rig, client, "a", 900 * RIG_MS));
    rig_pass(rig, 500 * RIG_MS);
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_OPENED), 2);
    struct hfi_opened opened = rig_find(rig, client, HFI_FRAME_OPENED)->frame.opened;
    rig_grant(rig, acquire, 1, 100);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_NONE);
    rig_refuse(rig, rig_sent(rig, MESSAGE_AMEND), MESSAGE_REFUSED_FULL);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    hfi_ring(&actor, opened.slot);
    rig_ring(rig);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_NONE);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_AMEND), 2);
    rig_grant(rig, rig_sent(rig, MESSAGE_AMEND), 1, 100);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_EXCLUSIVE);
}
END_TEST

START_TEST(a_refusal_ends_the_open)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_refuse(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_REFUSED_FULL);
    const struct rig_reply *reply = rig_find(rig, client, HFI_FRAME_DONE);
    ck_assert_ptr_nonnull(reply);
    ck_assert_int_eq(reply->frame.error, HF_EFULL);
    ck_assert_uint_eq(reply->frame.full.table, HFI_TABLE_VOTER_VALUES);
    ck_assert_uint_eq(reply->frame.full.room, 1024);
    ck_assert_uint_eq(reply->frame.full.voter.size, 6);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0)); /* the client can ask for "a" again */
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 2);
}
END_TEST

START_TEST(a_late_grant_is_given_back)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    struct message acquire = *rig_sent(rig, MESSAGE_ACQUIRE);
    rig_refuse(rig, &acquire, MESSAGE_REFUSED_FULL);
    rig_grant(rig, &acquire, 1, 100);
    const struct message *back = rig_sent(rig, MESSAGE_GIVE_BACK);
    ck_assert_ptr_nonnull(back);
    ck_assert_uint_eq(back->as.give_back.token_used, MESSAGE_TOKEN_LIMIT - 1);
    ck_assert_uint_eq(hfi_word_mode(rig_word(rig, 0)), HFI_GRANT_NONE);
}
END_TEST

START_TEST(a_grant_told_twice_is_one_grant)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    struct message acquire = *rig_sent(rig, MESSAGE_ACQUIRE);
    rig_grant(rig, &acquire, 1, 100);
    rig->version--; /* the quorum repeats the grant: the same version */
    rig_grant(rig, &acquire, 1, 100);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(hfi_word_mode(rig_word(rig, 0)), HFI_GRANT_EXCLUSIVE);
}
END_TEST

START_TEST(used_up_tokens_are_asked_for)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 1, 1);
    struct hfi_opened opened = rig_find(rig, client, HFI_FRAME_OPENED)->frame.opened;
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    struct hfi_request request = {.slot = opened.slot, .seat = HFI_SEAT_NONE};
    struct hfi_held held = rig_take(rig, &opened);
    hfi_release(&actor, opened.slot, held.token);
    ck_assert_int_eq(hfi_try_exclusive(&actor, &request, &held), HFI_UNGRANTED);
    hfi_ring(&actor, opened.slot);
    rig_ring(rig);
    const struct message *amend = rig_sent(rig, MESSAGE_AMEND);
    ck_assert_ptr_nonnull(amend);
    ck_assert_uint_eq(amend->as.amend.token_last, 1);
    rig_grant(rig, amend, 2, 100);
    ck_assert_uint_eq(rig_take(rig, &opened).token, 2);
}
END_TEST

/* The next token does not fit the slot's high bits. The grant goes back, and the lock moves to
 * another slot. */
START_TEST(a_slot_is_left_when_its_tokens_end)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_TOKEN_BLOCK - 1,
              MESSAGE_TOKEN_BLOCK - 1);
    struct hfi_opened opened = rig_find(rig, client, HFI_FRAME_OPENED)->frame.opened;
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    struct hfi_request request = {.slot = opened.slot, .seat = HFI_SEAT_NONE};
    struct hfi_held held = rig_take(rig, &opened);
    hfi_ring(&actor, opened.slot);
    rig_ring(rig);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_AMEND));
    ck_assert_int_gt(
        hfi_remaining_ns(&rig->region, &request, opened.holder, &held, rig->now_ns, NULL),
        0); /* no process loses its hold by the move */
    hfi_release(&actor, opened.slot, held.token);
    rig_ring(rig);
    struct message back = *rig_sent(rig, MESSAGE_GIVE_BACK);
    ck_assert_uint_eq(back.as.give_back.token_used, MESSAGE_TOKEN_BLOCK - 1);
    rig_returned(rig, &back);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_TOKEN_BLOCK, MESSAGE_TOKEN_BLOCK + 9);
    ck_assert_int_eq(hfi_try_exclusive(&actor, &request, &held), HFI_RETIRED);
    /* the new slot's row is stored before the grant goes back */
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    struct hfi_opened again = rig_open_granted(rig, client, "a", 0);
    ck_assert_uint_ne(again.slot, opened.slot);
    ck_assert_uint_gt(rig->rows, 1);
    ck_assert_uint_eq(rig->rows - rig->rows_gone, 1);
}
END_TEST

/* The watcher of a lock that moves gets the lock's changes from the new slot, too. */
START_TEST(a_lock_that_moves_stays_watched)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    uint32_t watcher = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_TOKEN_BLOCK - 1,
              MESSAGE_TOKEN_BLOCK - 1);
    struct hfi_opened opened = rig_find(rig, client, HFI_FRAME_OPENED)->frame.opened;
    ck_assert_int_eq(rig_text(rig, watcher, HFI_FRAME_WATCH, "a")->frame.error, 0);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    struct hfi_held held = rig_take(rig, &opened);
    hfi_release(&actor, opened.slot, held.token);
    hfi_ring(&actor, opened.slot);
    rig_ring(rig);
    struct message back = *rig_sent(rig, MESSAGE_GIVE_BACK);
    rig_returned(rig, &back);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_TOKEN_BLOCK, MESSAGE_TOKEN_BLOCK + 9);
    uint32_t other = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, other, "a", 0)); /* the lock is in the new slot already */
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_TOKEN_BLOCK, MESSAGE_TOKEN_BLOCK + 9);
    struct hfi_opened again = rig_find(rig, other, HFI_FRAME_OPENED)->frame.opened;
    ck_assert_uint_ne(again.slot, opened.slot);
    ck_assert(rig_word(rig, again.slot) & HFI_W_WATCHED);
    uint32_t told = rig_count(rig, watcher, HFI_FRAME_CHANGED);
    (void)rig_take(rig, &again);
    rig_ring(rig);
    ck_assert_uint_eq(rig_count(rig, watcher, HFI_FRAME_CHANGED), told + 1);
}
END_TEST

START_TEST(no_user_but_root_takes_every_client)
{
    struct rig *small = rig_create(2, 4, 3, 1);
    rig_begin(small);
    small->uid = 5;
    uint32_t first = rig_connect(small, HOST_MAY_USE);
    ck_assert_uint_ne(first, 0);
    ck_assert_uint_ne(rig_connect(small, HOST_MAY_USE), 0);
    /* one user gets at most half of the four clients */
    ck_assert_uint_eq(rig_connect(small, HOST_MAY_USE), 0);
    small->uid = 6;
    ck_assert_uint_ne(rig_connect(small, HOST_MAY_USE), 0);
    small->uid = 0;
    ck_assert_uint_ne(rig_connect(small, HOST_MAY_USE), 0);
    rig_destroy(small);
}
END_TEST

/* One user cannot take every handle, every watch, or every id that repeated opens of a lock
 * need. */
START_TEST(no_user_but_root_takes_every_handle)
{
    struct rig *small = rig_create(4, 4, 4, 1);
    rig_begin(small);
    small->uid = 5;
    uint32_t one = rig_connect(small, HOST_MAY_USE);
    uint32_t two = rig_connect(small, HOST_MAY_USE);
    uint32_t handle = rig_open_granted(small, one, "a", 0).handle;
    rig_open_granted(small, two, "b", 0);
    const struct rig_reply *refused = rig_open(small, one, "c", 0);
    ck_assert_ptr_nonnull(refused);
    ck_assert_int_eq(refused->frame.kind, HFI_FRAME_DONE);
    ck_assert_int_eq(refused->frame.error, HF_EFULL);
    ck_assert_uint_eq(refused->frame.full.table, HFI_TABLE_HANDLES);
    ck_assert(refused->frame.full.share && refused->frame.full.room == 2);
    ck_assert_uint_eq(refused->frame.full.handles, 1); /* one handle belongs to this user's own
                                                        * process */
    ck_assert_uint_eq(small->rows, 2);                 /* an OPEN that is refused takes no slot */
    small->uid = 6;
    uint32_t three = rig_connect(small, HOST_MAY_USE);
    rig_open_granted(small, three, "c", 0);
    rig_close(small, one, handle); /* a closed handle is free for another open */
    rig_open_granted(small, two, "a", 0);
    ck_assert_int_eq(rig_text(small, one, HFI_FRAME_WATCH, "a")->frame.error, 0);
    /* one user gets at most half of the four watches */
    ck_assert_int_eq(rig_text(small, two, HFI_FRAME_WATCH, "a")->frame.error, 0);
    refused = rig_text(small, two, HFI_FRAME_WATCH, "b");
    ck_assert_int_eq(refused->frame.error, HF_EFULL);
    ck_assert_uint_eq(refused->frame.full.table, HFI_TABLE_WATCHES);
    ck_assert(refused->frame.full.share && refused->frame.full.room == 2);
    ck_assert_int_eq(rig_text(small, three, HFI_FRAME_WATCH, "b")->frame.error, 0);
    small->uid = 0;
    rig_open_granted(small, rig_connect(small, HOST_MAY_USE), "d", 0);
    rig_destroy(small);
}
END_TEST

/* A process that opens one lock several times has an id for each time. A host has 65,534 ids. */
START_TEST(no_user_but_root_takes_every_id)
{
    enum { CLIENTS = 128, EACH = 32767 / CLIENTS };
    struct rig *large = rig_create(2 * CLIENTS, 3 * CLIENTS, 80000, 1);
    char name[16];
    rig_begin(large);
    large->unchecked = true;
    large->uid = 5;
    uint32_t last = 0;
    for (uint32_t i = 0; i <= CLIENTS; i++) {
        last = rig_connect(large, HOST_MAY_USE);
        snprintf(name, sizeof(name), "lock-%u", i);
        rig_open_granted(large, last, name, 0);
        for (uint32_t j = 1; j < (i < CLIENTS ? EACH : 32767 % CLIENTS); j++) {
            large->reply_count = 0;
            ck_assert_int_eq(rig_open(large, last, name, 0)->frame.kind, HFI_FRAME_OPENED);
        }
        large->reply_count = 0;
    }
    const struct rig_reply *refused = rig_open(large, last, name, 0);
    ck_assert_int_eq(refused->frame.error, HF_EFULL);
    ck_assert_uint_eq(refused->frame.full.table, HFI_TABLE_HOLDERS);
    ck_assert(refused->frame.full.share && refused->frame.full.room == 32767);
    ck_assert_uint_eq(rig_connect(large, HOST_MAY_USE), 0);
    large->uid = 6;
    uint32_t other = rig_connect(large, HOST_MAY_USE);
    ck_assert_uint_ne(other, 0);
    ck_assert_int_eq(rig_open(large, other, name, 0)->frame.kind, HFI_FRAME_OPENED);
    ck_assert_int_eq(rig_open(large, other, name, 0)->frame.kind, HFI_FRAME_OPENED);
    host_check_invariants(large->host);
    rig_destroy(large);
}
END_TEST

/* Each handle has its own id. The agent does not search all ids for each new one, which would delay
 * all other clients, and would take minutes in this test. */
START_TEST(one_process_may_open_a_lock_thousands_of_times)
{
    enum { TIMES = 6000 };
    struct rig *large = rig_create(2, 2, TIMES, 1);
    rig_begin(large);
    large->unchecked = true;
    uint32_t one = rig_connect(large, HOST_MAY_USE);
    uint32_t last = rig_open_granted(large, one, "a", 0).holder;
    for (uint32_t i = 1; i < TIMES; i++) {
        large->reply_count = 0;
        const struct rig_reply *reply = rig_open(large, one, "a", 0);
        ck_assert_int_eq(reply->frame.kind, HFI_FRAME_OPENED);
        ck_assert_uint_gt(reply->frame.opened.holder, last);
        last = reply->frame.opened.holder;
    }
    host_check_invariants(large->host);
    rig_destroy(large);
}
END_TEST

static uint32_t handle_count(const struct rig *of)
{
    struct host_survey survey;
    host_survey(of->host, of->now_ns, &survey);
    return survey.handles;
}

/* A process that had one lock open very often is dead. Its handles are removed in pieces, a few in
 * each step. If _i is 1, its connection ended before the process did. */
START_TEST(one_process_with_a_lock_thousands_of_times_is_buried_in_pieces)
{
    enum { TIMES = 6000, A_STEP = 1500 };
    struct rig *large = rig_create(2, 2, TIMES, 1);
    rig_begin(large);
    large->unchecked = true;
    uint32_t one = rig_connect(large, HOST_MAY_USE);
    for (uint32_t i = 0; i < TIMES; i++) {
        large->reply_count = 0;
        if (i == 0) {
            rig_open_granted(large, one, "a", 0);
        } else {
            rig_open(large, one, "a", 0);
        }
    }
    ck_assert_uint_eq(handle_count(large), TIMES);
    if (_i == 1) {
        rig_hang_up(large, one);
        rig_pass(large, 10 * RIG_MS);
        ck_assert_uint_eq(handle_count(large), TIMES);
    }
    rig_die(large, one);
    uint32_t left = TIMES;
    while (left > 0) { /* Check's timeout bounds this loop */
        large->now_ns = host_next_tick_ns(large->host);
        rig_step(large, (struct host_event){.kind = HOST_TICK});
        uint32_t now = handle_count(large);
        ck_assert_uint_le(left - now, A_STEP);
        left = now;
    }
    host_check_invariants(large->host);
    rig_destroy(large);
}
END_TEST

START_TEST(full_tables_say_so_and_lose_nothing)
{
    struct rig *small = rig_create(2, 2, 3, 1);
    rig_begin(small);
    uint32_t one = rig_connect(small, HOST_MAY_USE);
    uint32_t two = rig_connect(small, HOST_MAY_USE);
    ck_assert_uint_eq(rig_connect(small, HOST_MAY_USE), 0);
    ck_assert_uint_eq(small->hang_ups, 1);
    struct hfi_opened a = rig_open_granted(small, one, "a", 0);
    struct hfi_opened b = rig_open_granted(small, two, "b", 0);
    struct hfi_held held = rig_take(small, &a);
    const struct rig_reply *reply = rig_open(small, one, "c", 0); /* there is no free slot */
    ck_assert_ptr_nonnull(reply);
    ck_assert_int_eq(reply->frame.error, HF_EFULL);
    ck_assert_uint_eq(reply->frame.full.table, HFI_TABLE_LOCKS);
    ck_assert_uint_eq(reply->frame.full.room, 2);
    (void)rig_open_granted(small, two, "a", 0);
    reply = rig_open(small, two, "a", 0); /* there is no free handle */
    ck_assert_ptr_nonnull(reply);
    ck_assert_int_eq(reply->frame.error, HF_EFULL);
    ck_assert_uint_eq(reply->frame.full.table, HFI_TABLE_HANDLES);
    ck_assert(!reply->frame.full.share && reply->frame.full.room == 3);
    ck_assert_uint_eq(reply->frame.full.handles, 2);
    ck_assert_uint_ne(rig_seat(small, one, a.handle, false), HFI_SEAT_NONE);
    /* there is no free block of seats */
    ck_assert_uint_eq(rig_seat(small, two, b.handle, false), HFI_SEAT_NONE);
    struct hfi_request request = {.slot = a.slot, .seat = HFI_SEAT_NONE};
    ck_assert_int_gt(
        hfi_remaining_ns(&small->region, &request, a.holder, &held, small->now_ns, NULL), 0);
    rig_destroy(small);
}
END_TEST

START_TEST(an_idle_slot_is_taken_back_for_another_name)
{
    struct rig *small = rig_create(2, 2, 8, 1);
    rig_begin(small);
    uint32_t client = rig_connect(small, HOST_MAY_USE);
    struct hfi_opened a = rig_open_granted(small, client, "a", 0);
    (void)rig_open_granted(small, client, "b", 0);
    rig_close(small, client, a.handle);
    const struct rig_reply *reply = rig_open(small, client, "c", 0);
    ck_assert_int_eq(reply->frame.error, HF_EFULL); /* the grant of "a" is on its way back */
    rig_returned(small, rig_sent(small, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(small->rows_gone, 1);
    ck_assert_uint_eq(rig_open_granted(small, client, "c", 0).slot, a.slot);
    rig_destroy(small);
}
END_TEST

/* There are fewer seats than names, so a name that no process has open must return its seats. */
START_TEST(seats_come_back_when_the_last_handle_goes)
{
    rig_destroy(rig);
    rig = rig_create(RIG_LOCKS, 2, 8, 2);
    rig_begin(rig);
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    for (unsigned i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof(name), "n%u", i);
        struct hfi_opened opened = rig_open_granted(rig, client, name, 0);
        ck_assert_uint_ne(rig_seat(rig, client, opened.handle, i % 2), HFI_SEAT_NONE);
        rig_close(rig, client, opened.handle);
    }
}
END_TEST

/* If a namespace's region is given up, an OPEN is refused. A client without rights to the namespace
 * gets the same answer as from a sound region. */
START_TEST(a_region_that_is_given_up_opens_nothing)
{
    uint32_t user = rig_connect(rig, HOST_MAY_USE);
    uint32_t stranger = rig_connect(rig, 0);
    (void)rig_open_granted(rig, user, "a", 0);
    (void)host_give_up_region(rig->host, 0, 0);
    ck_assert_int_eq(rig_open(rig, user, "a", 0)->frame.error, HF_EUNSERVED);
    ck_assert_int_eq(rig_open(rig, user, "b", 0)->frame.error, HF_EUNSERVED);
    ck_assert_int_eq(rig_text(rig, user, HFI_FRAME_MAP, "a")->frame.error, HF_EUNSERVED);
    ck_assert_int_eq(rig_open(rig, stranger, "a", 0)->frame.error, HF_EACCES);
}
END_TEST

START_TEST(rights_decide)
{
    uint32_t user = rig_connect(rig, HOST_MAY_USE);
    uint32_t stranger = rig_connect(rig, 0);
    uint32_t admin = rig_connect(rig, HOST_MAY_ADMIN);
    ck_assert_int_eq(rig_open(rig, stranger, "a", 0)->frame.error, HF_EACCES);
    ck_assert_int_eq(rig_open(rig, admin, "a", 0)->frame.error, HF_EACCES);
    (void)rig_open_granted(rig, user, "a", 0);
    struct hfi_frame list = {.kind = HFI_FRAME_LIST};
    ck_assert_uint_eq(rig_ask(rig, stranger, &list)->frame.listed.lock_count, 0);
    ck_assert_uint_eq(rig_ask(rig, user, &list)->frame.listed.lock_count, 1);
    ck_assert_int_eq(rig_text(rig, stranger, HFI_FRAME_SHOW, "a")->frame.error, HF_EACCES);
    ck_assert_int_eq(rig_text(rig, stranger, HFI_FRAME_WATCH, "")->frame.error, HF_EACCES);
    ck_assert_int_eq(rig_text(rig, user, HFI_FRAME_RECALL, "a")->frame.error, HF_EACCES);
    ck_assert_int_eq(rig_text(rig, admin, HFI_FRAME_RECALL, "a")->frame.error, 0);
}
END_TEST

START_TEST(a_list_is_sorted_and_paged)
{
    struct rig *large = rig_create(64, 2, 128, 1);
    rig_begin(large);
    uint32_t client = rig_connect(large, HOST_MAY_USE);
    for (uint32_t i = 0; i < 40; i++) {
        char name[16];
        snprintf(name, sizeof(name), "n%02u", (i * 7) % 40);
        (void)rig_open_granted(large, client, name, 0);
        large->reply_count = 0;
    }
    char last[16] = "";
    uint32_t seen = 0;
    bool more = true;
    for (uint32_t page = 0; more && page < 8; page++) {
        struct hfi_frame list = {.kind = HFI_FRAME_LIST};
        list.list.prefix = (struct hfi_text){"n", 1};
        list.list.after = (struct hfi_text){last, (uint32_t)strlen(last)};
        struct rig_reply *reply = rig_ask(large, client, &list);
        struct hfi_lock_frame lock;
        more = reply->frame.listed.more;
        while (hfi_listed_next_lock(&reply->cursor, &lock)) {
            struct hfi_party_frame party;
            char expected[16];
            snprintf(expected, sizeof(expected), "n%02u", seen++);
            ck_assert_uint_eq(lock.name.size, 3);
            ck_assert_int_eq(memcmp(lock.name.bytes, expected, 3), 0);
            memcpy(last, expected, 4);
            while (hfi_listed_next_party(&reply->cursor, &party)) {
                ck_abort_msg("nobody holds or waits");
            }
        }
    }
    ck_assert_uint_eq(seen, 40);
    rig_destroy(large);
}
END_TEST

START_TEST(show_tells_the_holder_and_check_the_hold)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(rig, client, "a", 0);
    struct hfi_held held = rig_take(rig, &opened);
    struct rig_reply *reply = rig_text(rig, client, HFI_FRAME_SHOW, "a");
    struct hfi_lock_frame lock;
    struct hfi_party_frame party;
    ck_assert(hfi_listed_next_lock(&reply->cursor, &lock));
    ck_assert_uint_eq(lock.state, HF_STATE_EXCLUSIVE);
    ck_assert_uint_eq(lock.holder_count, 1);
    ck_assert(hfi_listed_next_party(&reply->cursor, &party));
    ck_assert_int_eq(party.pid, 77);
    ck_assert_uint_eq(party.token, held.token);
    struct hfi_sequencer sequencer = {.cell = "dev",
                                      .agent = "host-a",
                                      .token = held.token,
                                      .epoch = 1,
                                      .holder = opened.holder,
                                      .name = "a",
                                      .name_size = 1,
                                      .seat = HFI_SEAT_NONE};
    char text[HF_SEQUENCER_MAX];
    ck_assert_uint_gt(hfi_sequencer_format(&sequencer, text, sizeof(text)), 0);
    ck_assert_int_eq(rig_text(rig, client, HFI_FRAME_CHECK, text)->frame.error, 0);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    hfi_release(&actor, opened.slot, held.token);
    ck_assert_int_eq(rig_text(rig, client, HFI_FRAME_CHECK, text)->frame.error, HF_ESTALE);
    reply = rig_text(rig, client, HFI_FRAME_SHOW, "never-used");
    ck_assert(hfi_listed_next_lock(&reply->cursor, &lock));
    ck_assert_uint_eq(lock.state, HF_STATE_FREE);
}
END_TEST

/* Checks how many processes are shown as holding and as waiting, and the user of the last entry. */
static void check_shown(uint32_t client, uint32_t holders, uint32_t waiters, int64_t uid)
{
    struct rig_reply *reply = rig_text(rig, client, HFI_FRAME_SHOW, "a");
    struct hfi_lock_frame lock;
    struct hfi_party_frame party;
    ck_assert(hfi_listed_next_lock(&reply->cursor, &lock));
    ck_assert_uint_eq(lock.holder_count, holders);
    ck_assert_uint_eq(lock.waiter_count, waiters);
    for (uint32_t i = 0; i < holders + waiters; i++) {
        ck_assert(hfi_listed_next_party(&reply->cursor, &party));
    }
    ck_assert(waiters == 0 || party.uid == uid);
}

/* A process is shown as waiting only if no later process can overtake it. A process that tries
 * beside a reader, or that has not stored its ticket yet, may be overtaken. */
START_TEST(who_is_not_in_the_queue_yet_is_not_shown_as_waiting)
{
    uint32_t third = rig_connect(rig, HOST_MAY_USE);
    rig->uid = 1001;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    rig->uid = 1002;
    uint32_t other = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened reads = rig_open_granted(rig, client, "a", 0);
    struct hfi_opened writes = rig_open(rig, other, "a", 0)->frame.opened;
    struct hfi_request reader = {.slot = reads.slot,
                                 .seat = rig_seat(rig, client, reads.handle, true)};
    struct hfi_request writer = {.slot = writes.slot,
                                 .seat = rig_seat(rig, other, writes.handle, false)};
    struct hfi_actor one = rig_actor(rig, reads.holder);
    struct hfi_actor two = rig_actor(rig, writes.holder);
    _Atomic uint64_t *wait = hfi_seat_wait(&rig->region, writer.seat);
    const uint64_t ticket = UINT64_C(1) << HFI_WAIT_TICKET_SHIFT;
    struct hfi_held shared;
    struct hfi_held tried;
    ck_assert_int_eq(hfi_try_shared(&one, &reader, &shared), HFI_HELD);
    ck_assert_int_eq(hfi_try_exclusive(&two, &writer, &tried), HFI_DRAINING);
    check_shown(client, 1, 0, 0);
    ck_assert_int_eq(hfi_release(&two, writer.slot, tried.token), HFI_RELEASED);
    check_shown(client, 1, 0, 0);
    /* The writer joins the queue in three steps: it stores its ticket, it sets the waiters bit, and
     * it is named in the word. The writer is shown as waiting from the second step on. */
    atomic_store(wait, ticket | HFI_WAIT_JOINING);
    check_shown(client, 1, 0, 0);
    atomic_fetch_or(&rig->region.words[writer.slot].word, HFI_W_WAITERS);
    atomic_store(wait, ticket | HFI_WAIT_WAITING);
    check_shown(client, 1, 1, 1002);
    hfi_serve(&two, writer.slot);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, writer.slot)), writes.holder);
    check_shown(client, 1, 1, 1002);
    uint64_t place = ticket | HFI_WAIT_WAITING;
    hfi_leave(&two, &writer, &place);
    check_shown(client, 1, 0, 0);
    /* A reader that wants to write waits for the other readers, without a place in the queue. */
    struct hfi_opened also = rig_open(rig, third, "a", 0)->frame.opened;
    struct hfi_request second = {.slot = also.slot,
                                 .seat = rig_seat(rig, third, also.handle, true)};
    struct hfi_actor three = rig_actor(rig, also.holder);
    struct hfi_held too;
    struct hfi_held upgraded;
    ck_assert_int_eq(hfi_try_shared(&three, &second, &too), HFI_HELD);
    ck_assert_int_eq(hfi_try_exclusive(&one, &reader, &upgraded), HFI_DRAINING);
    check_shown(client, 2, 1, 1001);
    ck_assert_int_eq(hfi_release(&one, reader.slot, upgraded.token), HFI_RELEASED);
    ck_assert_int_eq(hfi_release_shared(&three, second.slot, second.seat, too.cell), HFI_RELEASED);
    ck_assert_int_eq(hfi_release_shared(&one, reader.slot, reader.seat, shared.cell), HFI_RELEASED);
    /* After the readers have left, the writer takes the lock by a try, without a place in the
     * queue. The writer is shown as the holder. */
    atomic_store(wait, 0);
    ck_assert_int_eq(hfi_try_exclusive(&two, &writer, &tried), HFI_HELD);
    check_shown(client, 1, 0, 0);
}
END_TEST

START_TEST(changes_are_told_once_for_many)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    uint32_t watcher = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(rig, client, "a/x", 0);
    (void)rig_open_granted(rig, client, "b", 0);
    ck_assert_int_eq(rig_text(rig, watcher, HFI_FRAME_WATCH, "a/")->frame.error, 0);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_WATCHED);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    for (uint32_t i = 0; i < 3; i++) {
        struct hfi_held held = rig_take(rig, &opened);
        hfi_release(&actor, opened.slot, held.token);
    }
    ck_assert_uint_ge(rig->rings, 3);
    rig_ring(rig);
    ck_assert_uint_eq(rig_count(rig, watcher, HFI_FRAME_CHANGED), 1);
    ck_assert(rig_find(rig, watcher, HFI_FRAME_CHANGED)->unasked);
    rig_step(rig, (struct host_event){.kind = HOST_DRAINED, .client = watcher});
    ck_assert_uint_eq(rig_find(rig, watcher, HFI_FRAME_CHANGED)->frame.text.size, 0);
    /* The end of a watcher does not make the agent go through all locks: each lock loses its
     * watched bit at its next change. */
    rig_hang_up(rig, watcher);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_WATCHED);
    struct hfi_held held = rig_take(rig, &opened);
    rig_ring(rig);
    ck_assert(!(rig_word(rig, opened.slot) & HFI_W_WATCHED));
    hfi_release(&actor, opened.slot, held.token);
    /* A client that begins to watch later sets the bit again, and the end of another watcher does
     * not clear it. */
    uint32_t first = rig_connect(rig, HOST_MAY_USE);
    uint32_t second = rig_connect(rig, HOST_MAY_USE);
    ck_assert_int_eq(rig_text(rig, first, HFI_FRAME_WATCH, "a/")->frame.error, 0);
    ck_assert_int_eq(rig_text(rig, second, HFI_FRAME_WATCH, "")->frame.error, 0);
    rig_hang_up(rig, first);
    held = rig_take(rig, &opened);
    rig_ring(rig);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_WATCHED);
    ck_assert_uint_eq(rig_count(rig, second, HFI_FRAME_CHANGED), 1);
}
END_TEST

/* After UNWATCH, changes that were not sent yet are not sent. The watch's entry in the table is
 * free again. */
START_TEST(an_ended_watch_is_told_no_more)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    uint32_t watcher = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(rig, client, "a/x", 0);
    ck_assert_int_eq(rig_text(rig, watcher, HFI_FRAME_WATCH, "a/")->frame.error, 0);
    ck_assert_int_eq(rig_text(rig, watcher, HFI_FRAME_WATCH, "a/x")->frame.error, 0);
    ck_assert_int_eq(rig_text(rig, watcher, HFI_FRAME_UNWATCH, "a/x")->frame.error, 0);
    struct hfi_held held = rig_take(rig, &opened);
    rig_ring(rig);
    /* the watcher got one event, for its watch of "a/" */
    ck_assert_uint_eq(rig_count(rig, watcher, HFI_FRAME_CHANGED), 1);
    /* this client has no such watch */
    ck_assert_int_eq(rig_text(rig, client, HFI_FRAME_UNWATCH, "a/")->frame.error, 0);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_WATCHED);
    ck_assert_int_eq(rig_text(rig, watcher, HFI_FRAME_UNWATCH, "a/")->frame.error, 0);
    /* a second UNWATCH does no harm */
    ck_assert_int_eq(rig_text(rig, watcher, HFI_FRAME_UNWATCH, "a/")->frame.error, 0);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    hfi_release(&actor, opened.slot, held.token);
    rig_ring(rig);
    /* no further event has come */
    ck_assert_uint_eq(rig_count(rig, watcher, HFI_FRAME_CHANGED), 1);
    ck_assert(!(rig_word(rig, opened.slot) & HFI_W_WATCHED));
}
END_TEST

START_TEST(status_counts)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(rig, client, "a", 0);
    (void)rig_take(rig, &opened);
    struct hfi_frame status = {.kind = HFI_FRAME_STATUS};
    const struct hfi_stated *stated = &rig_ask(rig, client, &status)->frame.stated;
    ck_assert_uint_eq(stated->locks_held, 1);
    ck_assert_uint_eq(stated->clients, 1);
    ck_assert_uint_eq(stated->session_state, HF_SESSION_SAFE);
    rig->now_ns += 200000 * RIG_MS;
    ck_assert_uint_eq(rig_ask(rig, client, &status)->frame.stated.session_state,
                      HF_SESSION_JEOPARDY);
}
END_TEST

/* Processes sleep only on a lease that has run out, so only the lease that follows it wakes them. A
 * wake may be costly for the agent, because other processes can fill the futex's hash bucket. */
START_TEST(a_lease_wakes_sleepers_if_the_one_before_had_run_out)
{
    const int64_t second_ns = 1000 * RIG_MS;
    atomic_store(&rig->region.header->lease_sleepers, 1);
    for (int64_t i = 1; i <= 3; i++) { /* the lease is renewed before it has run out */
        uint32_t wakes = rig->wakes;
        uint32_t count = rig->region.header->lease_wake;
        rig->now_ns += 2 * second_ns;
        rig_lease(rig, 1, rig->now_ns + 5 * second_ns, false);
        ck_assert_uint_eq(rig->wakes, wakes);
        ck_assert_uint_eq(rig->region.header->lease_wake, count + 1);
    }
    uint32_t wakes = rig->wakes;
    rig->now_ns += 5 * second_ns; /* the lease ends at this very instant */
    rig_lease(rig, 1, rig->now_ns + 5 * second_ns, false);
    ck_assert_uint_eq(rig->wakes, wakes + 1);
    atomic_store(&rig->region.header->lease_sleepers, 0);
    rig->now_ns += 6 * second_ns;
    rig_lease(rig, 1, rig->now_ns + 5 * second_ns, false);
    ck_assert_uint_eq(rig->wakes, wakes + 1);
    /* The thread that prolongs a lease beside the loop (the keeper) follows the same rule. */
    struct hfi_header *header = rig->region.header;
    wakes = rig->wakes;
    atomic_store(&header->lease_sleepers, 1);
    hfi_prolong(header, &rig->kernel, rig->now_ns + 6 * second_ns, 1);
    ck_assert_uint_eq(rig->wakes, wakes);
    rig->now_ns += 6 * second_ns;
    hfi_prolong(header, &rig->kernel, rig->now_ns + 6 * second_ns, 1);
    ck_assert_uint_eq(rig->wakes, wakes + 1);
    atomic_store(&header->lease_sleepers, 0);
}
END_TEST

START_TEST(a_frame_of_an_agent_ends_the_connection)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    struct hfi_frame frame = {.kind = HFI_FRAME_POKE};
    (void)rig_ask(rig, client, &frame);
    ck_assert_uint_eq(rig->hang_ups, 1);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("host");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, an_open_is_answered_with_the_grant);
    tcase_add_test(tests, an_open_does_not_wait_for_ever);
    tcase_add_test(tests, handles_of_one_lock_have_different_ids);
    tcase_add_test(tests, a_longer_lock_delay_is_asked_for_before_the_answer);
    tcase_add_test(tests, an_open_without_a_lease_is_amended_later);
    tcase_add_test(tests, a_grant_is_not_in_force_before_it_covers_the_longest_lock_delay);
    tcase_add_test(tests, a_refusal_ends_the_open);
    tcase_add_test(tests, a_late_grant_is_given_back);
    tcase_add_test(tests, a_grant_told_twice_is_one_grant);
    tcase_add_test(tests, used_up_tokens_are_asked_for);
    tcase_add_test(tests, a_slot_is_left_when_its_tokens_end);
    tcase_add_test(tests, a_lock_that_moves_stays_watched);
    tcase_add_test(tests, no_user_but_root_takes_every_client);
    tcase_add_test(tests, no_user_but_root_takes_every_handle);
    tcase_add_test(tests, no_user_but_root_takes_every_id);
    tcase_add_test(tests, one_process_may_open_a_lock_thousands_of_times);
    tcase_add_loop_test(tests, one_process_with_a_lock_thousands_of_times_is_buried_in_pieces, 0,
                        2);
    tcase_add_test(tests, full_tables_say_so_and_lose_nothing);
    tcase_add_test(tests, an_idle_slot_is_taken_back_for_another_name);
    tcase_add_test(tests, seats_come_back_when_the_last_handle_goes);
    tcase_add_test(tests, a_region_that_is_given_up_opens_nothing);
    tcase_add_test(tests, rights_decide);
    tcase_add_test(tests, a_list_is_sorted_and_paged);
    tcase_add_test(tests, show_tells_the_holder_and_check_the_hold);
    tcase_add_test(tests, who_is_not_in_the_queue_yet_is_not_shown_as_waiting);
    tcase_add_test(tests, changes_are_told_once_for_many);
    tcase_add_test(tests, an_ended_watch_is_told_no_more);
    tcase_add_test(tests, status_counts);
    tcase_add_test(tests, a_lease_wakes_sleepers_if_the_one_before_had_run_out);
    tcase_add_test(tests, a_frame_of_an_agent_ends_the_connection);
    return suite_main("host", tests);
}
