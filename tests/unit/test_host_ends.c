/*
 * The host core: how holds, waits, handles, clients and sessions end, or outlast their agent.
 */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "host/handles.h"
#include "host/limits_private.h"
#include "host/locks.h"
#include "host/requests_private.h"
#include "host/ringing_private.h"
#include "host/spaces.h"
#include "host/watches_private.h"
#include "host_rig.h"

static struct rig *rig;
static uint32_t client;
static uint32_t other;
static struct hfi_opened opened;
static struct hfi_opened others;
static struct hfi_held held;

/* One client holds "a" with a lock-delay of 500 ms, and the other client has "a" open. */
static void setup(void)
{
    rig = rig_create(RIG_LOCKS, 8, 64, 8);
    rig_begin(rig);
    client = rig_connect(rig, HOST_MAY_USE | HOST_MAY_ADMIN);
    other = rig_connect(rig, HOST_MAY_USE);
    opened = rig_open_granted(rig, client, "a", 500 * RIG_MS);
    others = rig_open_granted(rig, other, "a", 0);
    held = rig_take(rig, &opened);
}

static void teardown(void)
{
    rig_destroy(rig);
}

static enum hfi_outcome try_other(void)
{
    struct hfi_actor actor = rig_actor(rig, others.holder);
    struct hfi_request request = {.slot = others.slot, .seat = others.seat};
    struct hfi_held ignored;
    return hfi_try_exclusive(&actor, &request, &ignored);
}

/* Makes the other client wait in its seat. The lock is held, so the client stays in the queue. */
static void wait_again(uint64_t *place)
{
    /* the same stores as in queue_join() */
    *place = (uint64_t)rig->region.slots[others.slot].ticket_next++ << HFI_WAIT_TICKET_SHIFT |
             HFI_WAIT_WAITING;
    *hfi_seat_wait(&rig->region, others.seat) = *place;
    rig->region.words[others.slot].word |= HFI_W_WAITERS;
}

static void wait_other(uint64_t *place)
{
    others.seat = rig_seat(rig, other, others.handle, false);
    wait_again(place);
}

static void assert_closed_for(int64_t delay_ns)
{
    ck_assert_int_eq(try_other(), HFI_CLOSED);
    rig_pass(rig, delay_ns - RIG_MS);
    ck_assert_int_eq(try_other(), HFI_CLOSED);
    rig_pass(rig, 2 * RIG_MS);
    ck_assert_int_eq(try_other(), HFI_HELD);
}

START_TEST(a_death_closes_the_lock_for_its_delay)
{
    rig_die(rig, client);
    assert_closed_for(500 * RIG_MS);
    ck_assert_uint_eq(rig->forgotten, 1);
}
END_TEST

START_TEST(a_hang_up_closes_too_but_keeps_the_id)
{
    rig_hang_up(rig, client);
    ck_assert_uint_eq(rig->forgotten, 0);
    ck_assert_uint_ne(rig_connect(rig, HOST_MAY_USE), client);
    assert_closed_for(500 * RIG_MS);
    rig_die(rig, client);
    rig_pass(rig, 3000 * RIG_MS);
    ck_assert_uint_eq(rig->forgotten, 1);
}
END_TEST

/* A client that opens its locks again keeps its waiting threads in the queues meanwhile. */
START_TEST(who_connects_again_keeps_its_place_until_it_has_opened_all_it_had)
{
    uint64_t place = 0;
    wait_other(&place);
    uint64_t nonce = rig_find(rig, other, HFI_FRAME_WELCOME)->frame.welcome.nonce;
    rig_hang_up(rig, other);
    rig_pass(rig, 2000 * RIG_MS);
    wait_again(&place); /* by another thread than the one that connects again */
    rig_connect_again(rig, other, nonce);
    rig_pass(rig, 2000 * RIG_MS);
    ck_assert_uint_eq(*hfi_seat_wait(&rig->region, others.seat), place);
    uint32_t third = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened its = rig_open_granted(rig, third, "a", 0);
    ck_assert_uint_ne(rig_seat(rig, third, its.handle, false), others.seat);
    const struct rig_reply *reply = rig_resume(rig, other, "a", &others);
    ck_assert_ptr_nonnull(reply);
    ck_assert_uint_eq(reply->frame.opened.holder, others.holder);
    ck_assert_uint_eq(reply->frame.opened.seat, others.seat);
}
END_TEST

START_TEST(a_goodbye_is_a_death)
{
    struct hfi_frame bye = {.kind = HFI_FRAME_BYE};
    (void)rig_ask(rig, client, &bye);
    assert_closed_for(500 * RIG_MS);
}
END_TEST

START_TEST(the_waiter_behind_a_dead_holder_is_served_after_the_delay)
{
    uint64_t place = 0;
    wait_other(&place);
    rig_die(rig, client);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), 0);
    rig_pass(rig, 501 * RIG_MS);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), others.holder);
}
END_TEST

START_TEST(a_dead_waiter_is_skipped)
{
    uint64_t place = 0;
    wait_other(&place);
    rig_die(rig, other);
    ck_assert(*hfi_seat_wait(&rig->region, others.seat) & HFI_WAIT_LEFT ||
              *hfi_seat_wait(&rig->region, others.seat) == 0);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    ck_assert_int_eq(hfi_release(&actor, opened.slot, held.token), HFI_RELEASED);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), 0);
}
END_TEST

/* A process that the agent treated as dead waits in a seat that belongs to no handle. */
START_TEST(who_waits_in_a_seat_of_nobody_keeps_nobody_out)
{
    uint64_t place = 0;
    uint32_t stray = rig_seat(rig, other, others.handle, false) + 1;
    ck_assert_uint_eq(hfi_seat(&rig->region, stray)->holder, 0);
    *hfi_seat_wait(&rig->region, stray) = (uint64_t)rig->region.slots[others.slot].ticket_next++
                                              << HFI_WAIT_TICKET_SHIFT |
                                          HFI_WAIT_WAITING | (_i > 0 ? HFI_WAIT_SHARED : 0);
    wait_other(&place);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    ck_assert_int_eq(hfi_release(&actor, opened.slot, held.token), HFI_RELEASED);
    rig_ring(rig);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), others.holder);
    /* The process sees that its cell was cleared, and can ask for a new seat. */
    ck_assert(!(*hfi_seat_wait(&rig->region, stray) & HFI_WAIT_WAITING));
}
END_TEST

/* Rule 5 of lockword.h: while the record of a living process names an id, no other handle gets that
 * id. */
START_TEST(a_named_id_waits_for_the_record)
{
    uint64_t place = 0;
    wait_other(&place);
    rig->region.holders[opened.holder].handing_to[0] = others.holder;
    rig_die(rig, other);
    rig_pass(rig, 5000 * RIG_MS);
    ck_assert_uint_eq(rig->forgotten, 0);
    rig->region.holders[opened.holder].handing_to[0] = 0;
    rig_pass(rig, 1500 * RIG_MS);
    ck_assert_uint_eq(rig->forgotten, 1);
}
END_TEST

/* Late events of a client that is gone (its socket closes, its frames are read, its process ends
 * after its BYE) must not count for another client. So the gone client's id stays unused until
 * FORGET is done. */
START_TEST(the_id_of_one_that_is_gone_is_nobodys_until_it_is_forgotten)
{
    struct hfi_frame bye = {.kind = HFI_FRAME_BYE};
    rig->forgets_late = true;
    rig_die(rig, client);
    rig_pass(rig, 3000 * RIG_MS);
    ck_assert_uint_eq(rig->forgotten, 1);
    uint32_t next = rig_connect(rig, HOST_MAY_USE);
    ck_assert_uint_ne(next, 0);
    ck_assert_uint_ne(next, client);
    rig_hang_up(rig, client);
    (void)rig_ask(rig, client, &bye);
    rig_die(rig, client);
    rig_pass(rig, 3000 * RIG_MS);
    ck_assert_uint_eq(rig->forgotten, 1);
    ck_assert_ptr_nonnull(rig_open(rig, next, "a", 0));
    rig_forget(rig, client);
    ck_assert_uint_eq(rig_connect(rig, HOST_MAY_USE), client);
}
END_TEST

START_TEST(a_recall_without_waiters_gives_back_at_once)
{
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    hfi_release(&actor, opened.slot, held.token);
    ck_assert_int_eq(rig_text(rig, client, HFI_FRAME_RECALL, "a")->frame.error, 0);
    const struct message *back = rig_sent(rig, MESSAGE_GIVE_BACK);
    ck_assert_ptr_nonnull(back);
    ck_assert_uint_eq(back->as.give_back.token_used, held.token);
    ck_assert_int_eq(try_other(), HFI_UNGRANTED);
    rig_returned(rig, back);
    /* the host did not ask the quorum */
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 1);
}
END_TEST

START_TEST(a_recall_waits_for_the_holder)
{
    ck_assert_int_eq(rig_text(rig, client, HFI_FRAME_RECALL, "a")->frame.error, 0);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    uint64_t place = 0;
    wait_other(&place);
    ck_assert_int_eq(hfi_release(&actor, opened.slot, held.token), HFI_RELEASED);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), others.holder);
    struct hfi_actor next = rig_actor(rig, others.holder);
    *hfi_seat_wait(&rig->region, others.seat) = 0;
    ck_assert_int_eq(hfi_release(&next, opened.slot, held.token + 1), HFI_RELEASED);
    rig_ring(rig);
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_GIVE_BACK));
}
END_TEST

/* The lock-delay is prolonged, because the clock of the next host may be slower. */
START_TEST(a_closed_lock_is_given_back_after_its_delay)
{
    rig_die(rig, client);
    uint32_t admin = rig_connect(rig, HOST_MAY_ADMIN);
    ck_assert_int_eq(rig_text(rig, admin, HFI_FRAME_RECALL, "a")->frame.error, 0);
    rig_pass(rig, 549 * RIG_MS);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert(!(rig_word(rig, opened.slot) & HFI_W_CLOSED));
    rig_pass(rig, 2 * RIG_MS);
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_GIVE_BACK));
}
END_TEST

START_TEST(a_break_closes_and_a_break_now_does_not)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    frame.break_lock.name = (struct hfi_text){"a", 1};
    ck_assert_int_eq(rig_ask(rig, other, &frame)->frame.error, HF_EACCES);
    ck_assert_int_eq(rig_ask(rig, client, &frame)->frame.error, 0);
    ck_assert_int_eq(try_other(), HFI_CLOSED);
    frame.break_lock.flags = HFI_BREAK_FRAME_NOW;
    ck_assert_int_eq(rig_ask(rig, client, &frame)->frame.error, 0);
    ck_assert_int_eq(try_other(), HFI_HELD);
}
END_TEST

/* A longer lock-delay that began earlier and is over keeps no client waiting. */
START_TEST(a_closed_lock_opens_in_time_though_it_was_closed_for_longer_before)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    frame.break_lock.name = (struct hfi_text){"a", 1};
    /* the break closes the lock for 500 ms */
    ck_assert_int_eq(rig_ask(rig, client, &frame)->frame.error, 0);
    frame.break_lock.flags = HFI_BREAK_FRAME_NOW;
    ck_assert_int_eq(rig_ask(rig, client, &frame)->frame.error, 0);
    uint32_t third = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened short_one = rig_open_granted(rig, third, "a", 100 * RIG_MS);
    (void)rig_take(rig, &short_one);
    rig_die(rig, third);
    assert_closed_for(100 * RIG_MS);
}
END_TEST

/* A lock-delay that began in an earlier session keeps no client waiting. */
START_TEST(a_lock_of_a_new_session_opens_in_time)
{
    rig_die(rig, client);
    rig_lease(rig, 1, rig->now_ns, true);
    rig_lease(rig, 2, rig->now_ns + 100000 * RIG_MS, false);
    uint32_t third = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened short_one = rig_open_granted(rig, third, "a", 100 * RIG_MS);
    (void)rig_take(rig, &short_one);
    rig_die(rig, third);
    assert_closed_for(100 * RIG_MS);
}
END_TEST

START_TEST(a_limit_ends_the_hold_in_time)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_OPEN};
    frame.open.name = (struct hfi_text){"b", 1};
    frame.open.lease_ns = 200 * RIG_MS;
    frame.open.lock_delay_ns = 100 * RIG_MS;
    frame.open.flags = HFI_OPEN_SEAT;
    ck_assert_ptr_null(rig_ask(rig, client, &frame));
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 1, 100);
    struct hfi_opened limited = rig_find(rig, client, HFI_FRAME_OPENED)->frame.opened;
    ck_assert_uint_ne(limited.seat, HFI_SEAT_NONE);
    struct hfi_actor actor = rig_actor(rig, limited.holder);
    struct hfi_request request = {limited.slot, limited.seat, 200 * RIG_MS, 0, 0, 0};
    struct hfi_held hold;
    ck_assert_int_eq(hfi_try_exclusive(&actor, &request, &hold), HFI_HELD);
    rig_ring(rig);
    rig_pass(rig, 199 * RIG_MS);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, limited.slot)), limited.holder);
    rig_pass(rig, 2 * RIG_MS);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, limited.slot)), 0);
    ck_assert(rig_word(rig, limited.slot) & HFI_W_CLOSED);
    rig_pass(rig, 101 * RIG_MS);
    ck_assert(!(rig_word(rig, limited.slot) & HFI_W_CLOSED));
}
END_TEST

enum { LIMITED = 20000, LIMITED_LOCKS = 199, LIMIT_MS = 200 };

/* Opens LIMITED handles with a limit on LIMITED_LOCKS locks. first: the first handle of each lock.
 * last: the last handle of all. */
static struct rig *rig_with_limits(struct hfi_opened first[LIMITED_LOCKS], struct hfi_opened *last)
{
    struct rig *large = rig_create(LIMITED_LOCKS + 1, 4, LIMITED, LIMITED / 6);
    char name[8];
    rig_begin(large);
    large->unchecked = true;
    uint32_t one = rig_connect(large, HOST_MAY_USE);
    for (uint32_t i = 0; i < LIMITED; i++) {
        struct hfi_frame frame = {.kind = HFI_FRAME_OPEN};
        snprintf(name, sizeof(name), "%u", i % LIMITED_LOCKS);
        frame.open.name = (struct hfi_text){name, (uint32_t)strlen(name)};
        frame.open.lease_ns = LIMIT_MS * RIG_MS;
        frame.open.lock_delay_ns = 1;
        large->reply_count = large->send_count = 0;
        if (rig_ask(large, one, &frame) == NULL) {
            rig_grant(large, rig_sent(large, MESSAGE_ACQUIRE), 0, 0);
        }
        const struct rig_reply *reply = rig_find(large, one, HFI_FRAME_OPENED);
        ck_assert_ptr_nonnull(reply);
        *last = reply->frame.opened;
        if (i < LIMITED_LOCKS) {
            first[i] = *last;
        }
    }
    return large;
}

/* Takes each lock by its first handle. */
static void take_limited(struct rig *large, const struct hfi_opened *handles, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct hfi_actor actor = rig_actor(large, handles[i].holder);
        struct hfi_request request = {
            .slot = handles[i].slot, .seat = handles[i].seat, .limit_ns = LIMIT_MS * RIG_MS};
        struct hfi_held hold;
        ck_assert_int_eq(hfi_try_exclusive(&actor, &request, &hold), HFI_HELD);
    }
    rig_ring(large);
}

/* Lets time pass. Returns the largest number of handles that one step looked at. */
static uint32_t most_walked(struct rig *large, int64_t duration_ms)
{
    int64_t end_ns = large->now_ns + duration_ms * RIG_MS;
    uint32_t most = 0;
    while (host_next_tick_ns(large->host) <= end_ns) {
        int64_t next_ns = host_next_tick_ns(large->host);
        large->now_ns = next_ns > large->now_ns ? next_ns : large->now_ns;
        large->send_count = large->reply_count = 0;
        rig_step(large, (struct host_event){.kind = HOST_TICK});
        most = large->host->walked > most ? large->host->walked : most;
    }
    large->now_ns = end_ns;
    return most;
}

/* A hold that ends among many handles with limits is found without a look at all of them. The agent
 * looks at all handles in pieces. */
START_TEST(many_limits)
{
    static struct hfi_opened first[LIMITED_LOCKS];
    struct hfi_opened last;
    struct rig *large = rig_with_limits(first, &last);
    take_limited(large, first, 1);
    ck_assert_uint_lt(most_walked(large, LIMIT_MS + 1), 1000);
    ck_assert_uint_eq(hfi_word_holder(rig_word(large, first[0].slot)), 0);
    uint32_t most = most_walked(large, LIMIT_IDLE_CHECK_MS);
    ck_assert_uint_ge(most, LIMITS_LOOK_MAX);
    ck_assert_uint_le(most, LIMITS_LOOK_MAX + LIMITED_GROUP);
    rig_lease(large, 1, large->now_ns + 100000 * RIG_MS, false);
    take_limited(large, first, LIMITED_LOCKS);
    (void)most_walked(large, LIMIT_MS + 1);
    for (uint32_t i = 0; i < LIMITED_LOCKS; i++) {
        ck_assert_uint_eq(hfi_word_holder(rig_word(large, first[i].slot)), 0);
    }
    rig_destroy(large);
}
END_TEST

/* At each instant very many limits of one user seem to be due. The agent still looks at a limit of
 * another user. */
START_TEST(limits_that_are_always_due)
{
    enum { STEPS = 10 };
    static struct hfi_opened first[LIMITED_LOCKS];
    struct hfi_opened last;
    struct rig *large = rig_with_limits(first, &last);
    take_limited(large, &last, 1);
    large->now_ns += (LIMIT_MS + 1) * RIG_MS;
    for (uint32_t step = 0; step < STEPS; step++) {
        for (uint32_t i = 0; i < LIMITS_LOOK_MAX / LIMITED_GROUP; i++) {
            /* as if a client had written into the region that a limit is due */
            large->host->limits->group_due_ns[i] = large->now_ns;
        }
        large->host->limits->due_ns = large->now_ns;
        rig_step(large, (struct host_event){.kind = HOST_TICK});
        large->now_ns++;
    }
    ck_assert_uint_eq(hfi_word_holder(rig_word(large, last.slot)), 0);
    rig_destroy(large);
}
END_TEST

/* A process that had a lock open very often dies. Many events come in the same turn of the loop.
 * Each event is a step, but all these steps together do no more leftover work than one tick. */
START_TEST(many_steps_do_the_work_of_one_tick)
{
    enum { HANDLES = 3000, STEPS = 100 };
    struct rig *large = rig_create(2, 4, HANDLES + 1, 1);
    large->unchecked = true;
    rig_begin(large);
    uint32_t many = rig_connect(large, HOST_MAY_USE);
    uint32_t second = rig_connect(large, HOST_MAY_USE);
    (void)rig_open_granted(large, many, "a", 0);
    for (uint32_t i = 1; i < HANDLES; i++) {
        large->reply_count = 0;
        ck_assert_ptr_nonnull(rig_open(large, many, "a", 0));
    }
    struct hfi_opened victim = rig_open_granted(large, second, "b", 0);
    (void)rig_take(large, &victim);
    rig_step(large, (struct host_event){.kind = HOST_DIED, .client = many});
    for (uint32_t i = 0; i < STEPS; i++) {
        rig_step(large, (struct host_event){.kind = HOST_DIED, .client = second});
    }
    ck_assert_uint_gt(handles_count(large->host), HANDLES / 2);
    /* A process that died later does not wait until the leftover work is done. */
    rig_step(large, (struct host_event){.kind = HOST_TICK});
    rig_step(large, (struct host_event){.kind = HOST_TICK});
    ck_assert_uint_eq(hfi_word_holder(rig_word(large, victim.slot)), 0);
    ck_assert_uint_gt(handles_count(large->host), HANDLES / 2);
    rig_pass(large, 2000 * RIG_MS);
    ck_assert_uint_eq(handles_count(large->host), 0);
    rig_destroy(large);
}
END_TEST

/* A dead process had one lock open very often, with a seat for each handle. For each of its handles
 * the agent looks through all seats of the lock, so one turn removes only few handles. */
START_TEST(a_turn_buries_few_handles_of_a_lock_with_many_seats)
{
    enum { HANDLES = 2000, A_TURN = 200, BLOCKS = HANDLES / HFI_BLOCK_SEATS + 1 };
    struct rig *large = rig_create(2, 4, HANDLES, BLOCKS);
    large->unchecked = true;
    rig_begin(large);
    uint32_t many = rig_connect(large, HOST_MAY_USE);
    (void)rig_open_granted(large, many, "a", 0);
    for (uint32_t i = 1; i < HANDLES; i++) {
        large->reply_count = 0;
        (void)rig_seat(large, many, rig_open(large, many, "a", 0)->frame.opened.handle, false);
    }
    rig_step(large, (struct host_event){.kind = HOST_DIED, .client = many});
    ck_assert_uint_gt(handles_count(large->host), HANDLES - A_TURN);
    rig_pass(large, 2000 * RIG_MS);
    ck_assert_uint_eq(handles_count(large->host), 0);
    rig_destroy(large);
}
END_TEST

/* A state that the table of transitions does not allow ends the agent: a grant ends only by a
 * give-back or with the session. */
START_TEST(a_state_that_cannot_follow_ends_the_agent)
{
    struct lock_ref at = {0, opened.slot};
    ck_assert_int_eq(lock_state(rig->host, at), LOCK_GRANTED);
    lock_set_state(rig->host, at, LOCK_FREE);
}
END_TEST

/* A namespace that opens thousands of held locks leaves room for requests of other namespaces. */
START_TEST(one_namespace_leaves_requests_to_others)
{
    uint32_t *asks = &rig->host->requests->asks[0];
    ck_assert_ptr_null(rig_open(rig, client, "b", 0));
    struct message first = *rig_sent(rig, MESSAGE_ACQUIRE);
    ck_assert_uint_eq(*asks, 1);
    *asks = REQUEST_ASKS_MAX; /* as if the namespace had all the requests that it may have */
    rig->send_count = 0;
    ck_assert_int_eq(rig_open(rig, client, "c", 0)->frame.error, HF_EFULL);
    ck_assert_uint_eq(rig->send_count, 0);
    rig_grant(rig, &first, 1, 9);
    ck_assert_uint_eq(*asks, REQUEST_ASKS_MAX - 1);
    /* the grant of "b" has made room for one request */
    rig_lease(rig, 1, rig->now_ns + 100000 * RIG_MS, false);
    ck_assert_ptr_null(rig_open(rig, client, "c", 0));
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 1);
    rig_lease(rig, 1, rig->now_ns, true);
    ck_assert_uint_eq(*asks, REQUEST_ASKS_MAX - 1); /* the request for "c" ended with the session */
}
END_TEST

/* There is no room for all notices of one change. Before the rest is sent, a lock in an earlier
 * slot changes: its watchers get that change, too. */
START_TEST(a_change_before_one_that_is_being_told)
{
    enum { WATCHERS = 4 };
    struct rig *small = rig_create(4, 8, 8, 1);
    uint32_t watchers[WATCHERS];
    struct hfi_opened opens[2];
    rig_begin(small);
    uint32_t user = rig_connect(small, HOST_MAY_USE);
    opens[0] = rig_open_granted(small, user, "a", 0);
    opens[1] = rig_open_granted(small, user, "b", 0);
    ck_assert_uint_lt(opens[0].slot, opens[1].slot);
    for (uint32_t i = 0; i < WATCHERS; i++) {
        watchers[i] = rig_connect(small, HOST_MAY_USE);
        ck_assert_int_eq(rig_text(small, watchers[i], HFI_FRAME_WATCH, "")->frame.error, 0);
    }
    rig_pass(small, RIG_MS);
    small->reply_count = 0;
    (void)rig_take(small, &opens[1]);
    small->host->watches->notified = HUB_PIECES_MAX - 2;
    rig_ring(small);
    ck_assert_uint_eq(small->reply_count, 2);
    (void)rig_take(small, &opens[0]);
    rig_ring(small);
    rig_pass(small, RIG_MS);
    uint32_t told[WATCHERS] = {0};
    for (uint32_t i = 0; i < small->reply_count; i++) {
        const struct rig_reply *reply = &small->replies[i];
        for (uint32_t k = 0; k < WATCHERS; k++) {
            bool first = reply->frame.kind == HFI_FRAME_CHANGED && *reply->frame.text.bytes == 'a';
            told[k] += first && reply->client == watchers[k];
        }
    }
    for (uint32_t i = 0; i < WATCHERS; i++) {
        ck_assert_uint_eq(told[i], 1);
    }
    rig_destroy(small);
}
END_TEST

/* The lock whose notices are being sent changes again: each watcher gets the second change, too. */
START_TEST(a_change_of_the_one_that_is_being_told)
{
    enum { WATCHERS = 4 };
    struct rig *small = rig_create(4, 8, 8, 1);
    uint32_t watchers[WATCHERS];
    rig_begin(small);
    uint32_t user = rig_connect(small, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(small, user, "a", 0);
    for (uint32_t i = 0; i < WATCHERS; i++) {
        watchers[i] = rig_connect(small, HOST_MAY_USE);
        ck_assert_int_eq(rig_text(small, watchers[i], HFI_FRAME_WATCH, "")->frame.error, 0);
    }
    rig_pass(small, RIG_MS);
    struct hfi_held held = rig_take(small, &opened);
    small->host->watches->notified = HUB_PIECES_MAX - 2;
    small->reply_count = 0;
    rig_ring(small);
    ck_assert_uint_eq(small->reply_count, 2);
    struct hfi_actor actor = rig_actor(small, opened.holder);
    hfi_release(&actor, opened.slot, held.token);
    small->reply_count = 0;
    rig_ring(small);
    rig_pass(small, RIG_MS);
    for (uint32_t i = 0; i < WATCHERS; i++) {
        ck_assert_uint_ge(rig_count(small, watchers[i], HFI_FRAME_CHANGED), 1);
    }
    ck_assert(!small->host->watches->spaces[0].notifying);
    rig_destroy(small);
}
END_TEST

/* A released lock loses its slot before all watchers have their notices. The watchers without a
 * notice get an overflow, which tells them to look at everything. */
START_TEST(a_change_of_one_that_is_gone_before_all_are_told)
{
    enum { WATCHERS = 4 };
    struct rig *small = rig_create(4, 8, 8, 1);
    uint32_t watchers[WATCHERS];
    struct lock_ref at;
    rig_begin(small);
    uint32_t user = rig_connect(small, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(small, user, "a", 0);
    for (uint32_t i = 0; i < WATCHERS; i++) {
        watchers[i] = rig_connect(small, HOST_MAY_USE);
        ck_assert_int_eq(rig_text(small, watchers[i], HFI_FRAME_WATCH, "")->frame.error, 0);
    }
    struct hfi_held held = rig_take(small, &opened);
    rig_pass(small, RIG_MS);
    small->reply_count = 0;
    small->host->watches->notified = HUB_PIECES_MAX - 2;
    struct hfi_actor actor = rig_actor(small, opened.holder);
    hfi_release(&actor, opened.slot, held.token);
    rig_close(small, user, opened.handle);
    rig_recall(small, "a", small->version);
    rig_returned(small, rig_sent(small, MESSAGE_GIVE_BACK));
    ck_assert(!lock_find(small->host, (const uint8_t *)"a", 1, &at));
    uint32_t told = 0;
    for (uint32_t i = 0; i < WATCHERS; i++) {
        told += rig_count(small, watchers[i], HFI_FRAME_CHANGED);
    }
    ck_assert_uint_eq(told, 2);
    rig_pass(small, RIG_MS);
    for (uint32_t i = 0; i < WATCHERS; i++) {
        ck_assert_uint_ge(rig_count(small, watchers[i], HFI_FRAME_CHANGED), 1);
    }
    rig_destroy(small);
}
END_TEST

/* A lock changes as often as its notices are sent, and has more watchers than a tick can notify.
 * Watchers of other locks still get their notices. */
START_TEST(a_lock_that_always_changes)
{
    struct rig *small = rig_create(4, 8, 8, 1);
    struct hfi_opened opens[2];
    rig_begin(small);
    uint32_t user = rig_connect(small, HOST_MAY_USE);
    uint32_t watcher = rig_connect(small, HOST_MAY_USE);
    opens[0] = rig_open_granted(small, user, "a", 0);
    opens[1] = rig_open_granted(small, user, "b", 0);
    ck_assert_uint_lt(opens[0].slot, opens[1].slot);
    ck_assert_int_eq(rig_text(small, watcher, HFI_FRAME_WATCH, "")->frame.error, 0);
    rig_pass(small, RIG_MS);
    (void)rig_take(small, &opens[1]);
    small->reply_count = 0;
    for (uint32_t i = 0; i < 3; i++) {
        watch_changed(small->host, (struct lock_ref){0, opens[0].slot});
        small->host->watches->notified = HUB_PIECES_MAX - 1;
        rig_ring(small);
    }
    bool told = false;
    for (uint32_t i = 0; i < small->reply_count; i++) {
        const struct hfi_frame *frame = &small->replies[i].frame;
        told = told || (frame->kind == HFI_FRAME_CHANGED && *frame->text.bytes == 'b');
    }
    ck_assert(told);
    rig_destroy(small);
}
END_TEST

/* A lock rings as often as the agent looks at it, and each look costs as much as a tick may cost.
 * Other locks still get their turns. */
START_TEST(a_ringing_that_never_stops)
{
    struct rig *small = rig_create(4, 8, 8, 1);
    struct hfi_opened opens[2];
    rig_begin(small);
    uint32_t user = rig_connect(small, HOST_MAY_USE);
    opens[0] = rig_open_granted(small, user, "a", 0);
    opens[1] = rig_open_granted(small, user, "b", 0);
    ck_assert_uint_lt(opens[0].slot, opens[1].slot);
    rig_pass(small, RIG_MS);
    const struct hfi_region *region = space_region(small->host, 0);
    ringing_look_later(small->host, (struct lock_ref){0, opens[1].slot});
    for (uint32_t i = 0; i < 3; i++) {
        ringing_look_later(small->host, (struct lock_ref){0, opens[0].slot});
        small->host->ringing->spaces[0].attended = HUB_PIECES_MAX - 1;
        rig_ring(small);
        rig_pass(small, 10 * RIG_MS); /* the ringing lock has to pause */
    }
    ck_assert_uint_eq(atomic_load(&region->dirty[0]) >> opens[1].slot & 1, 0);
    rig_destroy(small);
}
END_TEST

static struct hfi_opened hold_limited(struct rig *small, uint32_t user, const char *name)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_OPEN};
    frame.open.name = (struct hfi_text){name, (uint32_t)strlen(name)};
    frame.open.lease_ns = LIMIT_MS * RIG_MS;
    frame.open.lock_delay_ns = LIMIT_MS / 2 * RIG_MS;
    frame.open.flags = HFI_OPEN_SEAT;
    small->reply_count = 0;
    ck_assert_ptr_null(rig_ask(small, user, &frame));
    rig_grant(small, rig_sent(small, MESSAGE_ACQUIRE), 0, 0);
    struct hfi_opened opened = rig_find(small, user, HFI_FRAME_OPENED)->frame.opened;
    take_limited(small, &opened, 1);
    return opened;
}

/* Clients may set the times of closed locks. Looks at these locks do not use up looks at limits. */
START_TEST(limits_beside_closed_locks)
{
    struct rig *small = rig_create(4, 8, 8, 4);
    rig_begin(small);
    uint32_t user = rig_connect(small, HOST_MAY_USE);
    struct hfi_opened first = hold_limited(small, user, "a");
    rig_pass(small, LIMIT_MS / 2 * RIG_MS + 5 * RIG_MS);
    struct hfi_opened second = hold_limited(small, user, "b");
    rig_pass(small, (LIMIT_MS - 10) * RIG_MS);
    ck_assert(rig_word(small, first.slot) & HFI_W_CLOSED);
    ck_assert_uint_eq(hfi_word_holder(rig_word(small, second.slot)), second.holder);
    small->now_ns += 20 * RIG_MS;
    small->host->walked = HUB_WALK_MAX - 1;
    rig_ring(small);
    ck_assert(!(rig_word(small, first.slot) & HFI_W_CLOSED));
    ck_assert_uint_eq(hfi_word_holder(rig_word(small, second.slot)), 0);
    rig_destroy(small);
}
END_TEST

/* With the largest number as limit, the deadline does not wrap around. */
START_TEST(the_longest_limit_does_not_end_the_hold)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_OPEN};
    frame.open.name = (struct hfi_text){"a", 1};
    frame.open.lease_ns = INT64_MAX;
    frame.open.lock_delay_ns = 100 * RIG_MS;
    struct hfi_opened limited = rig_ask(rig, client, &frame)->frame.opened;
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    ck_assert_int_eq(hfi_release(&actor, opened.slot, held.token), HFI_RELEASED);
    actor = rig_actor(rig, limited.holder);
    struct hfi_request request = {limited.slot, limited.seat, INT64_MAX / 4, 0, 0, 0};
    ck_assert_int_eq(hfi_try_exclusive(&actor, &request, &held), HFI_HELD);
    rig_ring(rig);
    rig_pass(rig, 10000 * RIG_MS);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, limited.slot)), limited.holder);
}
END_TEST

START_TEST(a_lost_session_ends_every_hold)
{
    struct hfi_request request = {.slot = opened.slot, .seat = HFI_SEAT_NONE};
    struct hfi_frame events = {.kind = HFI_FRAME_EVENTS};
    bool gone = false;
    (void)rig_ask(rig, client, &events);
    rig_lease(rig, 1, rig->now_ns, true);
    (void)hfi_remaining_ns(&rig->region, &request, opened.holder, &held, rig->now_ns, &gone);
    ck_assert(gone);
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_POKE), 1);
    rig_lease(rig, 2, rig->now_ns + 1000 * RIG_MS, false);
    ck_assert_int_eq(try_other(), HFI_UNGRANTED);
    ck_assert_ptr_null(rig_open(rig, other, "a", 0));
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_ACQUIRE)->as.acquire.epoch, 2);
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 101, 200);
    ck_assert_int_eq(try_other(), HFI_HELD);
    ck_assert_uint_eq(rig_word(rig, opened.slot) & HFI_W_TOKEN, 101);
}
END_TEST

/* ---- the next agent ---- */

static void load(uint64_t first, uint64_t last)
{
    static const uint8_t name[] = "a";
    struct message_name full = {.length = 1, .bytes = "a"};
    struct message_value value = {.version = {1 << 16 | 1, rig->version},
                                  .token_first = first,
                                  .token_last = last,
                                  .owner = rig->config.agent,
                                  .epoch = 1,
                                  .lock_delay_ms = 500,
                                  .permits = 1,
                                  .mode = MESSAGE_MODE_EXCLUSIVE};
    ck_assert(host_load_slot(rig->host, 0, opened.slot, name, 1));
    host_load_grant(rig->host, &full, &value);
    ck_assert_ptr_null(host_check_region(rig->host, 0));
}

static void survive(uint32_t id)
{
    struct host_peer peer = {.pid = 77, .rights = {HOST_MAY_USE | HOST_MAY_ADMIN}};
    ck_assert(host_load_survivor(rig->host, id, id, 4242, &peer));
}

START_TEST(a_survivor_keeps_its_hold)
{
    struct hfi_request request = {.slot = opened.slot, .seat = HFI_SEAT_NONE};
    rig_restart(rig, 1);
    load(1, 100);
    survive(client);
    survive(other);
    rig_begin(rig);
    ck_assert_int_gt(
        hfi_remaining_ns(&rig->region, &request, opened.holder, &held, rig->now_ns, NULL), 0);
    rig_die(rig, client); /* the client dies before it has reported which locks it has open */
    ck_assert_int_eq(try_other(), HFI_CLOSED);
    rig_pass(rig, 501 * RIG_MS);
    ck_assert_int_eq(try_other(), HFI_HELD);
}
END_TEST

START_TEST(who_died_meanwhile_is_closed_behind)
{
    rig_restart(rig, 1);
    load(1, 100);
    survive(other);
    rig_begin(rig);
    ck_assert_int_eq(try_other(), HFI_CLOSED);
    rig_pass(rig, 501 * RIG_MS);
    ck_assert_int_eq(try_other(), HFI_HELD);
}
END_TEST

/* The previous agent died after the commit of the grant, before it put the grant into the word. */
START_TEST(an_adopted_grant_begins_at_its_range)
{
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    hfi_release(&actor, opened.slot, held.token);
    rig->region.words[opened.slot].word = 0;
    rig->region.slots[opened.slot].token_top = 0;
    rig_restart(rig, 1);
    load(5000, 5999);
    survive(other);
    rig_begin(rig);
    /* The living client's handles may have a longer lock-delay than the grant covers. */
    ck_assert_int_eq(try_other(), HFI_UNGRANTED);
    hfi_ring(&actor, opened.slot);
    rig_ring(rig);
    const struct message *amend = rig_sent(rig, MESSAGE_AMEND);
    ck_assert_ptr_nonnull(amend);
    ck_assert_uint_eq(amend->as.amend.lock_delay_ms, 1000);
    rig_grant(rig, amend, 5000, 5999);
    ck_assert_int_eq(try_other(), HFI_HELD);
    ck_assert_uint_eq(rig_word(rig, opened.slot) & HFI_W_TOKEN, 5000);
}
END_TEST

/* The client has a seat but does not know it. Its resumed handle gets that seat, and no second
 * one. */
START_TEST(a_resumed_handle_has_one_seat)
{
    (void)rig_seat(rig, other, others.handle, false);
    rig_restart(rig, 1);
    load(1, 100);
    survive(client);
    survive(other);
    rig_begin(rig);
    rig_connect_again(rig, other, 4242);
    others.seat = HFI_SEAT_NONE;
    const struct rig_reply *reply = rig_resume(rig, other, "a", &others);
    ck_assert_ptr_nonnull(reply);
    ck_assert_uint_eq(reply->frame.opened.holder, others.holder);
    ck_assert_uint_ne(reply->frame.opened.seat, HFI_SEAT_NONE);
    rig_die(rig, other);
    rig_pass(rig, 3000 * RIG_MS);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("host_ends");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_death_closes_the_lock_for_its_delay);
    tcase_add_test(tests, a_hang_up_closes_too_but_keeps_the_id);
    tcase_add_test(tests, who_connects_again_keeps_its_place_until_it_has_opened_all_it_had);
    tcase_add_test(tests, a_goodbye_is_a_death);
    tcase_add_test(tests, the_waiter_behind_a_dead_holder_is_served_after_the_delay);
    tcase_add_test(tests, a_dead_waiter_is_skipped);
    tcase_add_loop_test(tests, who_waits_in_a_seat_of_nobody_keeps_nobody_out, 0, 2);
    tcase_add_test(tests, a_named_id_waits_for_the_record);
    tcase_add_test(tests, the_id_of_one_that_is_gone_is_nobodys_until_it_is_forgotten);
    tcase_add_test(tests, a_recall_without_waiters_gives_back_at_once);
    tcase_add_test(tests, a_recall_waits_for_the_holder);
    tcase_add_test(tests, a_closed_lock_is_given_back_after_its_delay);
    tcase_add_test(tests, a_break_closes_and_a_break_now_does_not);
    tcase_add_test(tests, a_closed_lock_opens_in_time_though_it_was_closed_for_longer_before);
    tcase_add_test(tests, a_lock_of_a_new_session_opens_in_time);
    tcase_add_test(tests, a_limit_ends_the_hold_in_time);
    tcase_add_test(tests, many_limits);
    tcase_add_test(tests, limits_that_are_always_due);
    tcase_add_test(tests, many_steps_do_the_work_of_one_tick);
    tcase_add_test(tests, a_turn_buries_few_handles_of_a_lock_with_many_seats);
    tcase_add_test(tests, one_namespace_leaves_requests_to_others);
    tcase_add_test(tests, a_change_before_one_that_is_being_told);
    tcase_add_test(tests, a_change_of_the_one_that_is_being_told);
    tcase_add_test(tests, a_change_of_one_that_is_gone_before_all_are_told);
    tcase_add_test(tests, a_lock_that_always_changes);
    tcase_add_test(tests, a_ringing_that_never_stops);
    tcase_add_test_raise_signal(tests, a_state_that_cannot_follow_ends_the_agent, SIGABRT);
    tcase_add_test(tests, limits_beside_closed_locks);
    tcase_add_test(tests, the_longest_limit_does_not_end_the_hold);
    tcase_add_test(tests, a_lost_session_ends_every_hold);
    tcase_add_test(tests, a_survivor_keeps_its_hold);
    tcase_add_test(tests, who_died_meanwhile_is_closed_behind);
    tcase_add_test(tests, an_adopted_grant_begins_at_its_range);
    tcase_add_test(tests, a_resumed_handle_has_one_seat);
    return suite_main("host_ends", tests);
}
