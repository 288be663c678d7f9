/*
 * The host core: a grant always covers the lock-delay of each client that may take the lock, even
 * if this agent does not know the client's handle. The test plays the quorum.
 */
#include "host_cell.h"

#include <stdio.h>
#include <string.h>

#include "../suite_main.h"

/* DEFAULT_MS: the lock-delay that the agent assumes at least for unknown handles */
enum { DELAY_MS = 5000, DEFAULT_MS = 1000 };

static struct hfi_opened opened; /* the handle of `client` on "a" */

static void setup(void)
{
    cell_setup();
    opened = rig_open_granted(rig, client, "a", DELAY_MS * RIG_MS);
}

/* The agent dies, and the next agent continues the session. The arguments tell which clients still
 * live. */
static void restart(bool client_lives, bool other_lives)
{
    static const uint8_t name[] = "a";
    struct host_peer peer = {.pid = 77, .rights = {HOST_MAY_USE | HOST_MAY_ADMIN}};
    rig_restart(rig, 1);
    ck_assert(host_load_slot(rig->host, 0, opened.slot, name, 1));
    ck_assert_ptr_null(host_check_region(rig->host, 0));
    ck_assert(!client_lives || host_load_survivor(rig->host, client, client, 4242, &peer));
    ck_assert(!other_lives || host_load_survivor(rig->host, other, other, 4242, &peer));
    rig_begin(rig);
}

/* The host gives the grant back, because another host wants it. */
static void lose_grant(void)
{
    rig_recall(rig, "a", rig->version);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
}

static void renew(void)
{
    rig_pass(rig, RIG_MS);
    rig_lease(rig, 1, rig->now_ns + 100000 * RIG_MS, false);
}

static uint32_t asked_ms(void)
{
    const struct message *message = rig_sent(rig, MESSAGE_ACQUIRE);
    ck_assert_ptr_nonnull(message);
    return message->as.acquire.lock_delay_ms;
}

/* Returns the lock-delay in the host's request when a new client opens the lock. */
static uint32_t asked_by_new_ms(void)
{
    uint32_t newcomer = rig_connect(rig, HOST_MAY_USE);
    uint32_t count = rig_sent_count(rig, MESSAGE_ACQUIRE);
    (void)rig_open(rig, newcomer, "a", 0);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), count + 1);
    return asked_ms();
}

START_TEST(who_is_granted_the_lock_before_he_opened_it_again_is_closed_behind_for_as_long)
{
    lose_grant();
    cell_wait_in_queue(&opened, client, false);
    restart(true, false);
    ck_assert_uint_eq(asked_ms(), DELAY_MS);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), opened.holder);
    /* the waiter has read that it holds the lock */
    atomic_store(hfi_seat_wait(&rig->region, opened.seat), 0);
    rig_die(rig, client);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_CLOSED);
    rig_pass(rig, (DELAY_MS - 1) * RIG_MS);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_CLOSED);
    rig_pass(rig, 2 * RIG_MS);
    ck_assert(!(rig_word(rig, opened.slot) & HFI_W_CLOSED));
}
END_TEST

/* The host notes the lock-delay of an OPEN even before the quorum answers. */
START_TEST(it_is_noted_before_the_client_has_its_answer)
{
    uint32_t third = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, third, "a", 2LL * DELAY_MS * RIG_MS));
    restart(true, false);
    ck_assert_uint_eq(asked_by_new_ms(), 2 * DELAY_MS);
}
END_TEST

/* A client without its connection can still take the lock by a swap, so a grant covers its
 * lock-delay until the client is dead. */
START_TEST(who_hung_up_is_covered_by_what_is_granted_meanwhile)
{
    rig_hang_up(rig, client);
    lose_grant();
    ck_assert_uint_eq(asked_by_new_ms(), DELAY_MS);
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 0, 0);
    lose_grant();
    rig_die(rig, client);
    rig_pass(rig, 2000 * RIG_MS); /* the host forgets dead handles within a second */
    ck_assert_uint_eq(asked_by_new_ms(), 0);
}
END_TEST

static void reconnect(void)
{
    rig_connect_again(rig, client, rig_find(rig, client, HFI_FRAME_WELCOME)->frame.welcome.nonce);
}

/* A client that connects again opens its locks again, one by one. Until it reports by RESUMED that
 * it has opened all of them, the host asks for grants with the client's earlier lock-delays. */
START_TEST(who_opens_his_locks_again_is_covered_until_he_has_said_that_it_is_all)
{
    struct hfi_frame resumed = {.kind = HFI_FRAME_RESUMED};
    rig_hang_up(rig, client);
    lose_grant();
    rig_pass(rig, 2000 * RIG_MS);
    reconnect();
    rig_pass(rig, 2000 * RIG_MS); /* the client has not opened all its locks yet */
    ck_assert_uint_eq(asked_by_new_ms(), DELAY_MS);
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 0, 0);
    lose_grant();
    /* the client had closed this lock, so it did not open it again */
    ck_assert_ptr_nonnull(rig_ask(rig, client, &resumed));
    rig_pass(rig, 2000 * RIG_MS);
    ck_assert_uint_eq(asked_by_new_ms(), 0);
}
END_TEST

/* If a seat's handle is gone, the agent does not know that handle's lock-delay. While the client of
 * the seat is away, the agent uses the lock-delay in its notes, not the longest possible one. */
START_TEST(a_seat_that_was_given_up_asks_for_no_more_than_is_noted)
{
    struct hfi_frame resumed = {.kind = HFI_FRAME_RESUMED};
    struct hfi_opened waiting = rig_open_granted(rig, other, "a", 0);
    lose_grant();
    cell_wait_in_queue(&waiting, other, false);
    restart(false, true);
    rig_connect_again(rig, other, 4242);
    ck_assert_ptr_nonnull(rig_ask(rig, other, &resumed)); /* the client does not open "a" again */
    rig_hang_up(rig, other);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_AMEND));
    renew(); /* the agent counts the lock-delays of the notes anew */
    rig_recall(rig, "a", 2);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(asked_by_new_ms(), DELAY_MS);
}
END_TEST

/* The client closed this handle while it was in the queue. The host does not forget the handle at
 * once, but no thread can take the lock by it, so its lock-delay does not count. */
START_TEST(a_closed_handle_is_not_counted_with)
{
    lose_grant();
    cell_wait_in_queue(&opened, client, false);
    rig_close(rig, client, opened.handle);
    rig_refuse(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_REFUSED_FULL);
    ck_assert_uint_eq(asked_by_new_ms(), 0);
}
END_TEST

START_TEST(a_handle_that_is_gone_is_not_counted_with)
{
    (void)rig_open_granted(rig, other, "a", 0);
    rig_close(rig, client, opened.handle);
    lose_grant();
    renew();
    restart(true, true);
    ck_assert_uint_eq(asked_by_new_ms(), DEFAULT_MS);
}
END_TEST

/* A note stays while a process may have the lock open, even if several agents end meanwhile. */
START_TEST(a_note_stays_until_every_handle_is_known)
{
    (void)rig_open_granted(rig, other, "a", 0);
    lose_grant();
    for (uint32_t i = 0; i < 3; i++) {
        restart(true, true);
        renew();
        rig_die(rig, other);
        renew();
    }
    ck_assert_uint_eq(asked_by_new_ms(), DELAY_MS);
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 0, 0);
    lose_grant();
    rig_die(rig, client); /* after this, no client from before the restart lives */
    renew();
    restart(false, true);
    ck_assert_uint_eq(asked_by_new_ms(), DEFAULT_MS);
}
END_TEST

START_TEST(another_session_has_nothing_of_it)
{
    const struct host_peer peer = {.pid = 77, .rights = {HOST_MAY_USE}};
    ck_assert_uint_ne(rig->delays_ms[hfi_name_hash("a", 1) % RIG_DELAYS], 0);
    rig_restart(rig, 0);
    ck_assert(host_load_survivor(rig->host, client, client, 4242, &peer));
    ck_assert_ptr_null(host_check_region(rig->host, 0));
    rig_begin(rig);
    for (uint32_t i = 0; i < RIG_DELAYS; i++) {
        ck_assert_uint_eq(rig->delays_ms[i], 0);
    }
}
END_TEST

/* If several locks share a note, the note has the longest of their lock-delays. */
START_TEST(locks_share_a_note_and_none_has_less)
{
    uint32_t at = (uint32_t)(hfi_name_hash("a", 1) % RIG_DELAYS);
    char name[16];
    uint32_t number = 0;
    do {
        snprintf(name, sizeof(name), "b%u", number++);
    } while (hfi_name_hash(name, strlen(name)) % RIG_DELAYS != at);
    struct hfi_opened beside = rig_open_granted(rig, other, name, 3LL * DELAY_MS * RIG_MS);
    ck_assert_uint_eq(rig->delays_ms[at], 3 * DELAY_MS);
    rig_close(rig, other, beside.handle);
    ck_assert_uint_eq(rig->delays_ms[at], 3 * DELAY_MS);
    renew();
    ck_assert_uint_eq(rig->delays_ms[at], DELAY_MS);
    rig_close(rig, client, opened.handle);
    renew();
    ck_assert_uint_eq(rig->delays_ms[at], 0);
}
END_TEST

/* The bytes of the notes may have any value; a lock-delay is at most the longest one allowed. */
START_TEST(a_note_says_no_more_than_a_lock_delay_can_be)
{
    lose_grant();
    restart(true, false);
    rig->delays_ms[hfi_name_hash("a", 1) % RIG_DELAYS] = UINT16_MAX;
    ck_assert_uint_eq(asked_by_new_ms(), MESSAGE_LOCK_DELAY_MAX_MS);
}
END_TEST

/* After a restart the agent asks the quorum for the state of a lock. Meanwhile another client opens
 * the lock with a longer lock-delay, and its OPEN is answered. The quorum's grant does not cover
 * that lock-delay, so the client does not get the lock. */
START_TEST(who_opens_an_adopted_lock_is_not_let_in_before_he_is_covered)
{
    struct hfi_held held = rig_take(rig, &opened);
    restart(true, false);
    ck_assert_uint_eq(asked_ms(), DELAY_MS);
    uint32_t newcomer = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, newcomer, "a", 2LL * DELAY_MS * RIG_MS));
    rig_pass(rig, 60 * RIG_MS);
    struct hfi_opened longer = cell_opened_by(newcomer);
    struct message asked;
    message_copy(&asked, rig_sent(rig, MESSAGE_ACQUIRE));
    ck_assert_uint_eq(asked.as.acquire.lock_delay_ms, DELAY_MS);
    rig_answer(rig, &asked, MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_AMEND)->as.amend.lock_delay_ms, 2 * DELAY_MS);
    cell_release(&opened, &held);
    ck_assert_int_ne(cell_try(&longer, &held), HFI_HELD);
    rig_answer(rig, rig_sent(rig, MESSAGE_AMEND), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    cell_wait_in_queue(&longer, newcomer, false);
    ck_assert_uint_eq(asked_ms(), 2 * DELAY_MS);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), longer.holder);
}
END_TEST

/*
 * After a restart, the process of a hold with a limit has not opened its lock again. When the hold
 * ends, the lock is closed for the lock-delay of the grant. Until the agent knows the grant, it
 * assumes the longest possible lock-delay. If bit 0 of _i is set, the hold is shared; if bit 1 is
 * set, the limit of the hold passes before the quorum has answered.
 */
START_TEST(a_found_hold_closes_for_what_its_grant_covers)
{
    enum { LIMIT_MS = 200 };
    struct hfi_frame frame = {.kind = HFI_FRAME_OPEN};
    frame.open.name = (struct hfi_text){"a", 1};
    frame.open.lease_ns = LIMIT_MS * RIG_MS;
    frame.open.lock_delay_ns = DELAY_MS * RIG_MS;
    frame.open.flags = HFI_OPEN_SEAT;
    rig_close(rig, client, opened.handle);
    opened = rig_ask(rig, client, &frame)->frame.opened;
    ck_assert_uint_eq(rig_seat(rig, client, opened.handle, _i & 1), opened.seat);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    struct hfi_request request = {
        .slot = opened.slot, .seat = opened.seat, .limit_ns = LIMIT_MS * RIG_MS};
    struct hfi_held held;
    ck_assert_int_eq(_i & 1 ? hfi_try_shared(&actor, &request, &held)
                            : hfi_try_exclusive(&actor, &request, &held),
                     HFI_HELD);
    restart(true, false);
    if (_i & 2) {
        rig_pass(rig, (LIMIT_MS + 1) * RIG_MS);
        rig_pass(rig, 2 * DELAY_MS * RIG_MS); /* the agent still assumes a longer lock-delay */
        ck_assert(rig_word(rig, opened.slot) & HFI_W_CLOSED);
    }
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_AMEND), 0);
    rig_pass(rig, _i & 2 ? 0 : (LIMIT_MS + 1) * RIG_MS);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_CLOSED);
    rig_pass(rig, (DELAY_MS - 2) * RIG_MS);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_CLOSED);
    rig_pass(rig, 3 * RIG_MS);
    ck_assert(!(rig_word(rig, opened.slot) & HFI_W_CLOSED));
}
END_TEST

/* The agent stands still in the step in which it sees that the holder has died. The longest
 * lock-delay then ends more than a minute after the step began, and is kept nevertheless. */
START_TEST(a_standstill_in_a_step_ends_no_lock_delay)
{
    const int64_t delay_ns = (int64_t)MESSAGE_LOCK_DELAY_MAX_MS * RIG_MS;
    const int64_t still_ns = 2000 * RIG_MS;
    struct hfi_opened longest = rig_open_granted(rig, client, "b", delay_ns);
    rig_take(rig, &longest);
    rig_lease(rig, 1, rig->now_ns + 2 * delay_ns, false);
    rig->slow_ns = still_ns;
    rig_die(rig, client);
    rig->slow_ns = 0;
    ck_assert(rig_word(rig, longest.slot) & HFI_W_CLOSED);
    rig_pass(rig, delay_ns);
    ck_assert(rig_word(rig, longest.slot) & HFI_W_CLOSED);
    rig_pass(rig, still_ns + RIG_MS);
    ck_assert(!(rig_word(rig, longest.slot) & HFI_W_CLOSED));
}
END_TEST

/* The agent counts the handles in pieces. A handle that is opened meanwhile, in a piece that was
 * already counted, is counted, too. */
START_TEST(many_handles_are_counted_in_pieces)
{
    enum { LOCKS = 199, HANDLES = 2 * HOST_DELAYS_PIECE + 2 };
    struct rig *large = rig_create(LOCKS + 1, 4, HANDLES, 8);
    const _Atomic uint16_t *note = &large->delays_ms[hfi_name_hash("a", 1) % RIG_DELAYS];
    char name[8];
    rig_begin(large);
    large->unchecked = true;
    uint32_t one = rig_connect(large, HOST_MAY_USE);
    uint32_t first = rig_open_granted(large, one, "a", DELAY_MS * RIG_MS).handle;
    for (uint32_t i = 1; i < HANDLES; i++) {
        large->reply_count = large->send_count = 0;
        snprintf(name, sizeof(name), "%u", i % LOCKS);
        rig_open_granted(large, one, name, 0);
    }
    rig_close(large, one, first);
    int64_t lease_ns = large->now_ns + 100000 * RIG_MS;
    for (uint32_t piece = 0; piece < 3; piece++) {
        ck_assert_uint_eq(*note, DELAY_MS);
        rig_lease(large, 1, lease_ns += RIG_MS, false);
    }
    ck_assert_uint_eq(*note, 0);
    large->reply_count = large->send_count = 0;
    first = rig_open_granted(large, one, "a", DELAY_MS * RIG_MS).handle;
    rig_close(large, one, first);
    rig_lease(large, 1, lease_ns += RIG_MS, false);
    ck_assert_uint_eq(*note, DELAY_MS);
    large->reply_count = large->send_count = 0;
    ck_assert_uint_eq(rig_open_granted(large, one, "a", (DELAY_MS - 1) * RIG_MS).handle, first);
    rig_lease(large, 1, lease_ns += RIG_MS, false);
    rig_lease(large, 1, lease_ns += RIG_MS, false);
    ck_assert_uint_eq(*note, DELAY_MS - 1);
    rig_destroy(large);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("host_delays");
    tcase_add_checked_fixture(tests, setup, cell_teardown);
    tcase_add_test(tests,
                   who_is_granted_the_lock_before_he_opened_it_again_is_closed_behind_for_as_long);
    tcase_add_test(tests, it_is_noted_before_the_client_has_its_answer);
    tcase_add_test(tests, who_hung_up_is_covered_by_what_is_granted_meanwhile);
    tcase_add_test(tests, who_opens_his_locks_again_is_covered_until_he_has_said_that_it_is_all);
    tcase_add_test(tests, a_closed_handle_is_not_counted_with);
    tcase_add_test(tests, a_seat_that_was_given_up_asks_for_no_more_than_is_noted);
    tcase_add_test(tests, a_handle_that_is_gone_is_not_counted_with);
    tcase_add_test(tests, a_note_stays_until_every_handle_is_known);
    tcase_add_test(tests, another_session_has_nothing_of_it);
    tcase_add_test(tests, locks_share_a_note_and_none_has_less);
    tcase_add_test(tests, a_note_says_no_more_than_a_lock_delay_can_be);
    tcase_add_test(tests, many_handles_are_counted_in_pieces);
    tcase_add_test(tests, a_standstill_in_a_step_ends_no_lock_delay);
    tcase_add_test(tests, who_opens_an_adopted_lock_is_not_let_in_before_he_is_covered);
    tcase_add_loop_test(tests, a_found_hold_closes_for_what_its_grant_covers, 0, 4);
    return suite_main("host_delays", tests);
}
