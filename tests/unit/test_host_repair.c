/*
 * The agent corrects entries of a region that contradict its own knowledge. Each test writes
 * rubbish as a client of the namespace could, and then stops. Other namespaces are not affected.
 * The namespace itself recovers within a quarter of session_ttl, or after a lock-delay that was
 * promised.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "host/handles.h"
#include "host/locks.h"
#include "host/ringing.h"
#include "host_rig.h"

static struct rig *rig;
static uint32_t client; /* this client may administer */
static uint32_t other;

static void setup(void)
{
    rig = rig_create(RIG_LOCKS, 16, 64, 8);
    rig_add_orders(rig);
    rig_begin(rig);
    client = rig_connect(rig, HOST_MAY_USE | HOST_MAY_ADMIN);
    other = rig_connect(rig, HOST_MAY_USE);
}

static void teardown(void)
{
    rig_destroy(rig);
}

/* ---- records of hand-overs ---- */

/* A process dies while it waits for that lock. The record of a living process, `culprit`, names the
 * id of the dead one. */
static void die_waiting(const char *name, struct hfi_region *culprits, uint32_t culprit)
{
    uint32_t victim = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(rig, victim, name, 0);
    opened.seat = rig_seat(rig, victim, opened.handle, false);
    struct hfi_region *region = opened.region == 0 ? &rig->region : &rig->orders;
    region->slots[opened.slot].ticket_next++;
    *hfi_seat_wait(region, opened.seat) = HFI_WAIT_WAITING;
    culprits->holders[culprit].handing_to[3] = opened.holder;
    rig_die(rig, victim);
}

START_TEST(records_of_a_namespace_pin_its_own_dead_alone)
{
    struct hfi_opened mine = rig_open_granted(rig, client, "a", 0);
    uint32_t handles = handles_count(rig->host);
    die_waiting("orders/a", &rig->region, mine.holder);
    rig_pass(rig, 3000 * RIG_MS);
    ck_assert_uint_eq(handles_count(rig->host), handles);
    ck_assert_uint_eq(rig->forgotten, 1);
    /* While a process lives, the ids in its record stay in use, but only ids of the record's own
     * region. */
    die_waiting("a", &rig->region, mine.holder);
    rig_pass(rig, 3000 * RIG_MS);
    ck_assert_uint_eq(handles_count(rig->host), handles + 1);
    rig_die(rig, client);
    rig_pass(rig, 3000 * RIG_MS);
    ck_assert_uint_eq(handles_count(rig->host), 0);
    ck_assert_uint_eq(rig->forgotten, 3);
}
END_TEST

/* ---- words ---- */

enum { HEAL_MS = 1250 }; /* a quarter of session_ttl */

static struct hfi_opened opened; /* the handle of `client` on "a" */
static struct hfi_opened others; /* the handle of `other` on "a" */

static void open_both(void)
{
    opened = rig_open_granted(rig, client, "a", 500 * RIG_MS);
    others = rig_open_granted(rig, other, "a", 0);
}

static _Atomic uint64_t *word_of_a(void)
{
    return &rig->region.words[opened.slot].word;
}

static struct hfi_slot *slot_of_a(void)
{
    return &rig->region.slots[opened.slot];
}

static void heal(void)
{
    rig_pass(rig, HEAL_MS * RIG_MS);
}

static enum hfi_outcome try_by(const struct hfi_opened *who, struct hfi_held *held)
{
    struct hfi_actor actor = rig_actor(rig, who->holder);
    struct hfi_request request = {.slot = who->slot, .seat = who->seat};
    return hfi_try_exclusive(&actor, &request, held);
}

/* Checks that the lock is free, and that the other client can take it. Returns the token. */
static uint64_t assert_free(void)
{
    struct hfi_held held = {0};
    int outcome = try_by(&others, &held);
    ck_assert_msg(outcome == HFI_HELD, "outcome %d, word %llx", outcome,
                  (unsigned long long)*word_of_a());
    struct hfi_actor actor = rig_actor(rig, others.holder);
    ck_assert_int_eq(hfi_release(&actor, others.slot, held.token), HFI_RELEASED);
    return held.token;
}

/* The rubbish has used up the grant's tokens. The host asks for more, and gets them. */
static void more_tokens(void)
{
    const struct message *amend = rig_sent(rig, MESSAGE_AMEND);
    ck_assert_ptr_nonnull(amend);
    rig_grant(rig, amend, 0, 0);
}

static void break_now(void)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    frame.break_lock.name = (struct hfi_text){"a", 1};
    frame.break_lock.flags = HFI_BREAK_FRAME_NOW;
    struct rig_reply *reply = rig_ask(rig, client, &frame);
    ck_assert_ptr_nonnull(reply);
    ck_assert_int_eq(reply->frame.error, 0);
}

/* A holder dies, and its lock is closed for 500 ms. A process writes "closed for ever" into the
 * slot. */
START_TEST(closed_for_ever_is_closed_for_the_lock_delay)
{
    open_both();
    rig_take(rig, &opened);
    rig_die(rig, client);
    slot_of_a()->closed_until_ns = UINT64_C(1) << 62;
    rig_pass(rig, 490 * RIG_MS);
    ck_assert_int_eq(try_by(&others, &(struct hfi_held){0}), HFI_CLOSED);
    rig_pass(rig, 20 * RIG_MS);
    assert_free();
    heal();
    ck_assert_uint_le(slot_of_a()->closed_until_ns, (uint64_t)rig->now_ns);
}
END_TEST

/* Another host waits. closed_until_ns has a time, but the word has no closed bit. So the lock is
 * not closed, and the grant goes back. */
START_TEST(a_time_without_the_closed_bit_keeps_no_grant)
{
    open_both();
    slot_of_a()->closed_until_ns = UINT64_C(1) << 62;
    struct rig_reply *shown = rig_text(rig, client, HFI_FRAME_SHOW, "a");
    struct hfi_lock_frame lock;
    ck_assert(hfi_listed_next_lock(&shown->cursor, &lock));
    ck_assert_int_le(lock.closed_ns, 0);
    rig_recall(rig, "a", rig->version);
    heal();
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_GIVE_BACK));
}
END_TEST

START_TEST(closed_by_nobody_is_open)
{
    open_both();
    slot_of_a()->closed_until_ns = UINT64_C(1) << 62;
    atomic_fetch_or(word_of_a(), HFI_W_CLOSED);
    heal();
    assert_free();
}
END_TEST

/* A process clears the closed bit: the lock still stays closed for the promised lock-delay. */
START_TEST(opened_by_nobody_is_closed)
{
    open_both();
    /* a second handle, with a longer lock-delay */
    opened = rig_open_granted(rig, client, "a", 5000 * RIG_MS);
    if (rig_sent(rig, MESSAGE_AMEND) != NULL) {
        rig_pass(rig, RIG_MS);
    }
    rig_take(rig, &opened);
    rig_die(rig, client);
    atomic_fetch_and(word_of_a(), ~HFI_W_CLOSED);
    slot_of_a()->closed_until_ns = 0;
    heal();
    ck_assert_int_eq(try_by(&others, &(struct hfi_held){0}), HFI_CLOSED);
    ck_assert_uint_gt(slot_of_a()->closed_until_ns, (uint64_t)rig->now_ns);
    rig_pass(rig, (5000 - HEAL_MS - 10) * RIG_MS);
    ck_assert_int_eq(try_by(&others, &(struct hfi_held){0}), HFI_CLOSED);
    rig_pass(rig, 20 * RIG_MS);
    assert_free();
}
END_TEST

/* Lets time pass, and renews the lease each second. */
static void live(int seconds)
{
    for (int i = 0; i < seconds; i++) {
        rig_lease(rig, 1, rig->now_ns + 10000 * RIG_MS, false);
        rig_pass(rig, 1000 * RIG_MS);
    }
}

/* A holder dies. Its lock-delay closes the lock once, and never again: the agent stores the end of
 * the lock-delay in units that wrap after 275 s. _i: with the default session_ttl; or with the
 * longest, of which a fifth is 720 s. */
START_TEST(a_lock_delay_that_is_over_stays_over)
{
    if (_i == 1) {
        rig->config.session_ttl_ns = 3600 * 1000 * RIG_MS;
        rig_restart(rig, 1);
        ck_assert_ptr_null(host_check_region(rig->host, 0));
        rig_begin(rig);
        client = rig_connect(rig, HOST_MAY_USE | HOST_MAY_ADMIN);
        other = rig_connect(rig, HOST_MAY_USE);
    }
    open_both();
    live(480);
    rig_take(rig, &opened);
    rig_die(rig, client);
    rig_pass(rig, 510 * RIG_MS);
    for (int i = 0; i < 600; i++) {
        live(1);
        ck_assert_msg(!(*word_of_a() & HFI_W_CLOSED), "closed again after %d s", i);
    }
    assert_free();
}
END_TEST

/* The next agent takes closed_until_ns from the region, but keeps the lock closed for at most the
 * lock-delay of the grant. */
START_TEST(closed_for_ever_over_a_restart)
{
    open_both();
    rig_take(rig, &opened);
    rig_die(rig, client);
    slot_of_a()->closed_until_ns = UINT64_C(1) << 62;
    struct message_name name;
    struct message_value value = {.mode = MESSAGE_MODE_EXCLUSIVE,
                                  .owner = rig->config.agent,
                                  .epoch = 1,
                                  .version = {1 << 16 | 1, rig->version},
                                  .lock_delay_ms = 500,
                                  .token_first = 1,
                                  .token_last = rig->token_next - 1};
    message_name_set(&name, "a", 1);
    rig_restart(rig, 1);
    ck_assert(host_load_slot(rig->host, 0, opened.slot, (const uint8_t *)"a", 1));
    host_load_grant(rig->host, &name, &value);
    ck_assert_ptr_null(host_check_region(rig->host, 0));
    rig_begin(rig);
    rig_pass(rig, 490 * RIG_MS);
    ck_assert(*word_of_a() & HFI_W_CLOSED);
    rig_pass(rig, 20 * RIG_MS);
    ck_assert(!(*word_of_a() & HFI_W_CLOSED));
}
END_TEST

/* The previous agent was killed within a break, which keeps the word closed while it looks for
 * holds. The next agent opens the lock, and does not count that as a repair. */
START_TEST(closed_by_an_agent_that_was_killed)
{
    open_both();
    rig_recall(rig, "a", rig->version);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    atomic_fetch_or(word_of_a(), HFI_W_CLOSED);
    rig_restart(rig, 1);
    ck_assert(host_load_slot(rig->host, 0, opened.slot, (const uint8_t *)"a", 1));
    ck_assert_ptr_null(host_check_region(rig->host, 0));
    rig_begin(rig);
    ck_assert(!(*word_of_a() & HFI_W_CLOSED));
    heal();
    ck_assert_uint_eq(host_counts(rig->host)->repairs, 0);
}
END_TEST

START_TEST(a_token_above_the_range)
{
    open_both();
    uint64_t last = rig->token_next - 1;
    uint64_t before = assert_free();
    for (int held = 0; held < 2; held++) {
        rig->send_count = rig->reply_count = 0;
        if (held) {
            rig_take(rig, &opened);
        }
        atomic_fetch_or(word_of_a(), HFI_W_TOKEN);
        heal();
        more_tokens();
        rig_pass(rig, held ? 500 * RIG_MS : 0); /* the lock-delay after the hold that ended */
        uint64_t token = assert_free();
        ck_assert_uint_gt(token, last);
        ck_assert_uint_gt(token, before);
        ck_assert_uint_le(token, rig->token_next - 1);
        last = rig->token_next - 1;
    }
}
END_TEST

START_TEST(a_token_below_what_was_seen)
{
    open_both();
    uint64_t token = 0;
    for (int i = 0; i < 5; i++) {
        token = assert_free();
    }
    heal();
    rig->send_count = 0;
    atomic_fetch_and(word_of_a(), ~HFI_W_TOKEN);
    heal();
    more_tokens();
    ck_assert_uint_gt(assert_free(), token);
    /* A recall comes before the agent has looked at the lock. The give-back counts all tokens that
     * were used, although the forged token is lower. */
    heal();
    token = assert_free();
    heal();
    atomic_fetch_and(word_of_a(), ~HFI_W_TOKEN);
    rig_recall(rig, "a", rig->version);
    const struct message *back = rig_sent(rig, MESSAGE_GIVE_BACK);
    ck_assert_ptr_nonnull(back);
    ck_assert_uint_ge(back->as.give_back.token_used, token);
}
END_TEST

START_TEST(another_top_of_the_range)
{
    open_both();
    slot_of_a()->token_top = 0;
    heal();
    assert_free();
    slot_of_a()->token_top = UINT64_MAX >> 1;
    heal();
    ck_assert_uint_eq(slot_of_a()->token_top, rig->token_next - 1);
    assert_free();
}
END_TEST

START_TEST(another_mode)
{
    static const enum hfi_grant modes[] = {HFI_GRANT_NONE, HFI_GRANT_SHARED, HFI_GRANT_RETIRED};
    open_both();
    atomic_fetch_and(word_of_a(), ~HFI_W_MODE);
    atomic_fetch_or(word_of_a(), (uint64_t)modes[_i] << HFI_W_MODE_SHIFT);
    heal();
    assert_free();
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_AMEND));
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
}
END_TEST

/* The word shows a grant that the host does not have. */
START_TEST(in_force_without_a_grant)
{
    open_both();
    rig_recall(rig, "a", rig->version);
    const struct message *back = rig_sent(rig, MESSAGE_GIVE_BACK);
    ck_assert_ptr_nonnull(back);
    for (int i = 0; i < 2; i++) {
        atomic_fetch_or(word_of_a(), (uint64_t)HFI_GRANT_EXCLUSIVE << HFI_W_MODE_SHIFT);
        struct hfi_held held;
        ck_assert_int_eq(try_by(&others, &held), HFI_HELD);
        heal();
        ck_assert_int_eq(try_by(&opened, &held), HFI_UNGRANTED);
        ck_assert_uint_eq(hfi_word_holder(*word_of_a()), 0);
        if (i == 0) {
            rig_returned(rig, back);
        }
    }
}
END_TEST

/* The word names a false holder: the agent, an id that no client has, a client without a handle, or
 * a dead client. */
START_TEST(held_by_nobody)
{
    open_both();
    uint32_t third = rig_connect(rig, HOST_MAY_USE);
    uint32_t dead = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened gone = rig_open_granted(rig, dead, "a", 0);
    rig_die(rig, dead);
    const uint32_t holders[] = {HFI_HOLDER_AGENT, 60000, third, gone.holder};
    atomic_fetch_or(word_of_a(), (uint64_t)holders[_i] << HFI_W_HOLDER_SHIFT);
    heal();
    rig_pass(rig, 500 * RIG_MS); /* closed as after the death of a holder */
    assert_free();
}
END_TEST

/* A forged recall bit costs the host the grant. The host then requests the grant again. */
START_TEST(recalled_by_nobody)
{
    open_both();
    rig->send_count = 0;
    atomic_fetch_or(word_of_a(), HFI_W_RECALL);
    heal();
    const struct message *back = rig_sent(rig, MESSAGE_GIVE_BACK);
    ck_assert_ptr_nonnull(back);
    rig_returned(rig, back);
    struct rig_reply *reply = rig_open(rig, other, "a", 0);
    ck_assert_ptr_null(reply);
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 0, 0);
    assert_free();
}
END_TEST

START_TEST(bits_that_went)
{
    open_both();
    opened.seat = rig_seat(rig, client, opened.handle, true);
    (void)rig_text(rig, client, HFI_FRAME_WATCH, "");
    ck_assert((*word_of_a() & (HFI_W_CELLS | HFI_W_WATCHED)) == (HFI_W_CELLS | HFI_W_WATCHED));
    atomic_fetch_and(word_of_a(), ~(HFI_W_CELLS | HFI_W_WATCHED));
    heal();
    ck_assert((*word_of_a() & (HFI_W_CELLS | HFI_W_WATCHED)) == (HFI_W_CELLS | HFI_W_WATCHED));
}
END_TEST

/* ---- seats ---- */

static void wait_in(struct hfi_region *region, uint32_t slot, uint32_t seat, uint32_t flags)
{
    uint64_t ticket = region->slots[slot].ticket_next++;
    *hfi_seat_wait(region, seat) = ticket << HFI_WAIT_TICKET_SHIFT | HFI_WAIT_WAITING | flags;
}

/* A reader's cell and a place in the queue are in a seat that belongs to no handle. Other processes
 * and other hosts can still get the lock. */
START_TEST(a_cell_in_a_free_seat)
{
    open_both();
    opened.seat = rig_seat(rig, client, opened.handle, true);
    uint32_t empty = opened.seat + 1;
    uint64_t epoch = 1;
    hfi_seat(&rig->region, empty)->reader = epoch << HFI_CELL_EPOCH_SHIFT | 1;
    wait_in(&rig->region, opened.slot, empty, _i == 0 ? 0 : HFI_WAIT_SHARED);
    atomic_fetch_or(word_of_a(), HFI_W_WAITERS);
    heal();
    ck_assert(!(hfi_seat(&rig->region, empty)->reader & HFI_CELL_COUNT));
    assert_free();
    rig_recall(rig, "a", rig->version);
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_GIVE_BACK));
}
END_TEST

/* The seat belongs to a handle, but the cell has a value that no reader writes. */
START_TEST(a_cell_that_is_no_readers)
{
    const uint64_t cells[] = {UINT64_C(1) << HFI_CELL_EPOCH_SHIFT | 2,
                              UINT64_C(7) << HFI_CELL_EPOCH_SHIFT | 1, UINT64_MAX};
    open_both();
    opened.seat = rig_seat(rig, client, opened.handle, true);
    hfi_seat(&rig->region, opened.seat)->reader = cells[_i];
    heal();
    rig_pass(rig, 500 * RIG_MS);
    assert_free();
}
END_TEST

/* The agent does not touch a valid reader's cell. */
START_TEST(a_reader_is_left_alone)
{
    open_both();
    opened.seat = rig_seat(rig, client, opened.handle, true);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    struct hfi_request request = {.slot = opened.slot, .seat = opened.seat};
    struct hfi_held held;
    ck_assert_int_eq(hfi_try_shared(&actor, &request, &held), HFI_HELD);
    uint64_t repairs = host_counts(rig->host)->repairs;
    rig_pass(rig, 10000 * RIG_MS);
    ck_assert_uint_eq(host_counts(rig->host)->repairs, repairs);
    ck_assert_int_eq(hfi_release_shared(&actor, opened.slot, opened.seat, held.cell), HFI_RELEASED);
}
END_TEST

/* A waiter is in the queue, but the word lacks the waiters bit, so the holder would not see it. */
START_TEST(a_waiter_without_its_bit)
{
    open_both();
    struct hfi_held held = rig_take(rig, &opened);
    others.seat = rig_seat(rig, other, others.handle, false);
    wait_in(&rig->region, opened.slot, others.seat, _i == 0 ? 0 : HFI_WAIT_BARGING);
    heal();
    ck_assert(*word_of_a() & (_i == 0 ? HFI_W_WAITERS : HFI_W_BARGERS));
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    ck_assert_int_eq(hfi_release(&actor, opened.slot, held.token), HFI_RELEASED);
    ck_assert_uint_eq(hfi_word_holder(*word_of_a()), _i == 0 ? others.holder : 0);
}
END_TEST

/* The waiters bit is set, but nobody waits. A try would never get the lock. */
START_TEST(waiters_that_there_are_not)
{
    open_both();
    atomic_fetch_or(word_of_a(), HFI_W_WAITERS | HFI_W_BARGERS);
    heal();
    assert_free();
}
END_TEST

START_TEST(tickets_that_were_not_drawn)
{
    open_both();
    rig_take(rig, &opened);
    slot_of_a()->ticket_next = 100;
    others.seat = rig_seat(rig, other, others.handle, false);
    wait_in(&rig->region, opened.slot, others.seat, 0);
    slot_of_a()->ticket_next = _i == 0 ? 5 : UINT32_C(0xf0000000);
    slot_of_a()->admit = 5000;
    heal();
    ck_assert_uint_eq(slot_of_a()->ticket_next, 101);
    ck_assert_uint_le(slot_of_a()->admit, 100);
    ck_assert(*hfi_seat_wait(&rig->region, others.seat) & HFI_WAIT_WAITING);
}
END_TEST

/* The deadline of a hold is changed to a time beyond its limit. */
START_TEST(a_deadline_beyond_the_limit)
{
    open_both();
    struct hfi_frame frame = {.kind = HFI_FRAME_OPEN};
    frame.open.name = (struct hfi_text){"a", 1};
    frame.open.lease_ns = 3000 * RIG_MS;
    struct hfi_opened limited = rig_ask(rig, client, &frame)->frame.opened;
    struct hfi_actor actor = rig_actor(rig, limited.holder);
    struct hfi_request request = {
        .slot = limited.slot, .seat = limited.seat, .limit_ns = 3000 * RIG_MS};
    struct hfi_held held;
    ck_assert_int_eq(hfi_try_exclusive(&actor, &request, &held), HFI_HELD);
    rig_ring(rig);
    rig_pass(rig, 2000 * RIG_MS);
    hfi_seat(&rig->region, limited.seat)->deadline_ns = _i == 0 ? UINT64_C(1) << 62 : UINT64_MAX;
    rig_pass(rig, (HEAL_MS + 3000) * RIG_MS);
    assert_free();
}
END_TEST

/* ---- chains, owners, the index, the header ---- */

START_TEST(what_the_agent_alone_writes)
{
    open_both();
    opened.seat = rig_seat(rig, client, opened.handle, true);
    struct hfi_block *block = &rig->region.blocks[opened.seat / HFI_BLOCK_SEATS];
    uint64_t lease = rig->region.header->lease;
    uint64_t hash = hfi_name_hash("a", 1);
    uint64_t token = assert_free();
    slot_of_a()->blocks = 77;
    block->slot = 5;
    block->next = 6;
    block->seats[opened.seat % HFI_BLOCK_SEATS].holder = others.holder;
    block->seats[(opened.seat + 1) % HFI_BLOCK_SEATS].holder = others.holder;
    slot_of_a()->name_hash = 12345;
    slot_of_a()->handovers_left = UINT32_MAX;
    atomic_fetch_or(word_of_a(), HFI_W_RECALL);
    for (uint32_t i = 0; i < rig->region.index_count; i++) {
        rig->region.index[i] = _i == 0 ? 0 : i % 2 == 0 ? opened.slot + 1 : opened.slot + 2;
    }
    rig->region.header->lease = UINT64_MAX;
    rig->region.header->abandoned = 1;
    heal();
    ck_assert_uint_eq(slot_of_a()->blocks, opened.seat / HFI_BLOCK_SEATS + 1);
    ck_assert_uint_eq(block->slot, opened.slot + 1);
    ck_assert_uint_eq(block->next, 0);
    ck_assert_uint_eq(block->seats[opened.seat % HFI_BLOCK_SEATS].holder, opened.holder);
    ck_assert_uint_eq(block->seats[(opened.seat + 1) % HFI_BLOCK_SEATS].holder, 0);
    ck_assert_uint_eq(hfi_index_token(&rig->region, hash) & HFI_W_TOKEN, token);
    ck_assert_uint_le(slot_of_a()->handovers_left, 16);
    ck_assert_uint_eq(rig->region.header->lease, lease);
    ck_assert_uint_eq(rig->region.header->abandoned, 0);
    ck_assert_uint_gt(host_counts(rig->host)->repairs, 5);
}
END_TEST

/* ---- an administrator's break ---- */

/* A forged hold, exclusive or shared, names a living process that never asked for the lock. The
 * agent cannot distinguish this hold from a real one, but a break ends it. */
START_TEST(a_break_ends_what_cannot_be_told)
{
    open_both();
    opened.seat = rig_seat(rig, client, opened.handle, true);
    if (_i == 0) {
        atomic_fetch_add(word_of_a(), (uint64_t)opened.holder << HFI_W_HOLDER_SHIFT);
    } else if (_i == 1) {
        hfi_seat(&rig->region, opened.seat)->reader = UINT64_C(1) << HFI_CELL_EPOCH_SHIFT | 1;
    } else {
        wait_in(&rig->region, opened.slot, opened.seat, 0);
        heal();
        ck_assert_uint_eq(hfi_word_holder(*word_of_a()), opened.holder);
    }
    break_now();
    assert_free();
}
END_TEST

/* A forged hold that looks like a real one ends at the latest with its handle. If the process of
 * that handle wants the lock, this process gets the lock. */
START_TEST(what_cannot_be_told_is_its_handles)
{
    open_both();
    opened.seat = rig_seat(rig, client, opened.handle, false);
    if (_i % 2 == 0) {
        atomic_fetch_add(word_of_a(), (uint64_t)opened.holder << HFI_W_HOLDER_SHIFT);
    } else {
        wait_in(&rig->region, opened.slot, opened.seat, 0);
    }
    heal();
    ck_assert_uint_eq(hfi_word_holder(*word_of_a()), opened.holder);
    if (_i < 2) {
        rig_close(rig, client, opened.handle);
        rig_pass(rig, 510 * RIG_MS);
        assert_free();
        return;
    }
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    struct hfi_request request = {.slot = opened.slot, .seat = opened.seat};
    struct hfi_wait_limit patience = {.deadline_ns = rig->now_ns + RIG_MS};
    struct hfi_held held;
    uint64_t place = 0;
    ck_assert_int_eq(hfi_wait_exclusive(&actor, &request, &patience, &place, &held), HFI_HELD);
    ck_assert_int_eq(hfi_release(&actor, opened.slot, held.token), HFI_RELEASED);
    assert_free();
}
END_TEST

/* A waiting process is stopped and continues later. Then either it has the lock, or it still
 * waits. */
START_TEST(a_stopped_waiter_keeps_its_place)
{
    open_both();
    struct hfi_held held = rig_take(rig, &opened);
    others.seat = rig_seat(rig, other, others.handle, false);
    wait_in(&rig->region, opened.slot, others.seat, 0);
    atomic_fetch_or(word_of_a(), HFI_W_WAITERS);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    ck_assert_int_eq(hfi_release(&actor, opened.slot, held.token), HFI_RELEASED);
    uint32_t wakes = rig->wakes;
    rig_pass(rig, 60000 * RIG_MS);
    ck_assert_uint_eq(hfi_word_holder(*word_of_a()), others.holder);
    ck_assert(*hfi_seat_wait(&rig->region, others.seat) & HFI_WAIT_WAITING);
    /* the waiter is woken again, because its wake-up may have been lost */
    ck_assert_uint_gt(rig->wakes, wakes);
}
END_TEST

/* A break frees the word at once, whatever was written there, without the agent's regular pass. */
START_TEST(a_break_frees_whatever_was_written)
{
    open_both();
    uint64_t state = (uint64_t)_i;
    opened.seat = rig_seat(rig, client, opened.handle, true);
    for (int i = 0; i < 40; i++) {
        state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t draws = state ^ state >> 29;
        _Atomic uint64_t *const fields[] = {
            word_of_a(),
            word_of_a(),
            &slot_of_a()->closed_until_ns,
            &slot_of_a()->token_top,
            hfi_seat_wait(&rig->region, opened.seat + 1),
            &hfi_seat(&rig->region, opened.seat)->reader,
            &hfi_seat(&rig->region, opened.seat + 2)->reader,
        };
        atomic_fetch_xor(fields[draws % 7], state);
    }
    rig->send_count = 0;
    break_now();
    for (int i = 0; i < 3; i++) { /* the quorum answers the requests that follow */
        const struct message *back = rig_sent(rig, MESSAGE_GIVE_BACK);
        if (rig_sent(rig, MESSAGE_AMEND) != NULL) {
            rig_grant(rig, rig_sent(rig, MESSAGE_AMEND), 0, 0);
        } else if (rig_sent(rig, MESSAGE_ACQUIRE) != NULL) {
            rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 0, 0);
        } else if (back != NULL) {
            struct message returned = *back;
            rig->send_count = rig->reply_count = 0;
            rig_returned(rig, &returned);
            if (rig_sent(rig, MESSAGE_ACQUIRE) == NULL) {
                (void)rig_open(rig, other, "a", 0);
            }
            continue;
        }
        rig->send_count = rig->reply_count = 0;
    }
    assert_free();
}
END_TEST

/* ---- the rate of upgrades ---- */

/* A handle reads under a shared grant, and rings because it also wants to write. Returns how many
 * requests for the exclusive grant follow. */
static uint32_t ring_to_upgrade(const char *name, uint32_t space)
{
    rig->reply_count = 0;
    ck_assert_ptr_null(rig_open(rig, client, name, 0));
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_SHARED, 5, 70, 70);
    struct hfi_opened opened = rig_find(rig, client, HFI_FRAME_OPENED)->frame.opened;
    const struct lock_ref at = {space, opened.slot};
    struct hfi_request request = {.slot = opened.slot,
                                  .seat = rig_seat(rig, client, opened.handle, true)};
    struct hfi_actor actor = *lock_actor(rig->host, at);
    struct hfi_held held;
    actor.holder = opened.holder;
    ck_assert_int_eq(hfi_try_shared(&actor, &request, &held), HFI_HELD);
    rig->send_count = 0;
    hfi_ask_upgrade(&actor, &request, &held);
    ringing_look_soon(rig->host, at);
    rig_ring(rig);
    return rig_sent_count(rig, MESSAGE_AMEND);
}

/* A process may ask for upgrades as often as it likes, so the host passes on only few of its
 * requests. Requests of one namespace do not delay those of another one. */
START_TEST(upgrades_of_one_namespace_do_not_delay_anothers)
{
    ck_assert_uint_eq(ring_to_upgrade("b", 0), 1);
    ck_assert_uint_eq(ring_to_upgrade("c", 0), 0);
    ck_assert_uint_eq(ring_to_upgrade("orders/a", 1), 1);
}
END_TEST

/* In a region with many locks each pass looks at a part of the index. After eight passes the whole
 * index is right again. */
START_TEST(the_index_of_many_locks)
{
    enum { MANY = 2200, PASSES = 8 };
    char name[16];
    rig_destroy(rig);
    rig = rig_create(MANY, 4, MANY + 8, 8);
    rig_begin(rig);
    client = rig_connect(rig, HOST_MAY_USE | HOST_MAY_ADMIN);
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof(name), "lock-%u", i);
        rig->send_count = rig->reply_count = 0;
        (void)rig_open_granted(rig, client, name, 0);
    }
    uint32_t wrong = rig->region.index_count - 1;
    while (rig->region.index[wrong] != 0) {
        wrong--;
    }
    for (uint32_t i = 0; i < rig->region.index_count; i++) {
        rig->region.index[i] = i == wrong ? MANY + 5 : 0;
    }
    for (uint32_t i = 0; i < PASSES; i++) {
        heal();
    }
    uint32_t found = 0;
    for (uint32_t i = 0; i < rig->region.index_count; i++) {
        uint32_t slot = 0;
        if (hfi_index_entry(&rig->region, i, &slot)) {
            ck_assert_uint_lt(slot, MANY);
            found++;
        }
    }
    ck_assert_uint_eq(found, MANY);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("repair");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, records_of_a_namespace_pin_its_own_dead_alone);
    tcase_add_test(tests, closed_for_ever_is_closed_for_the_lock_delay);
    tcase_add_test(tests, a_time_without_the_closed_bit_keeps_no_grant);
    tcase_add_test(tests, closed_by_nobody_is_open);
    tcase_add_test(tests, opened_by_nobody_is_closed);
    tcase_add_loop_test(tests, a_lock_delay_that_is_over_stays_over, 0, 2);
    tcase_add_test(tests, closed_for_ever_over_a_restart);
    tcase_add_test(tests, the_index_of_many_locks);
    tcase_add_test(tests, closed_by_an_agent_that_was_killed);
    tcase_add_test(tests, a_token_above_the_range);
    tcase_add_test(tests, a_token_below_what_was_seen);
    tcase_add_test(tests, another_top_of_the_range);
    tcase_add_loop_test(tests, another_mode, 0, 3);
    tcase_add_test(tests, in_force_without_a_grant);
    tcase_add_loop_test(tests, held_by_nobody, 0, 4);
    tcase_add_test(tests, recalled_by_nobody);
    tcase_add_test(tests, bits_that_went);
    tcase_add_loop_test(tests, a_cell_in_a_free_seat, 0, 2);
    tcase_add_loop_test(tests, a_cell_that_is_no_readers, 0, 3);
    tcase_add_test(tests, a_reader_is_left_alone);
    tcase_add_loop_test(tests, a_waiter_without_its_bit, 0, 2);
    tcase_add_test(tests, waiters_that_there_are_not);
    tcase_add_loop_test(tests, tickets_that_were_not_drawn, 0, 2);
    tcase_add_loop_test(tests, a_deadline_beyond_the_limit, 0, 2);
    tcase_add_loop_test(tests, what_the_agent_alone_writes, 0, 2);
    tcase_add_loop_test(tests, a_break_ends_what_cannot_be_told, 0, 3);
    tcase_add_loop_test(tests, what_cannot_be_told_is_its_handles, 0, 4);
    tcase_add_test(tests, a_stopped_waiter_keeps_its_place);
    tcase_add_loop_test(tests, a_break_frees_whatever_was_written, 0, 50);
    tcase_add_test(tests, upgrades_of_one_namespace_do_not_delay_anothers);
    return suite_main("host_repair", tests);
}
