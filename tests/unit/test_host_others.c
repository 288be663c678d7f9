/*
 * The host core in a cell of several voters: requests between hosts (CHECK and BREAK), grants that
 * several hosts share, and lock words that the previous agent left. The test plays the quorum.
 */
#include "host_cell.h"

#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "core/quorum.h"
#include "proto/ending.h"

/* ---- requests to other hosts ---- */

static uint64_t ask_check(const char *agent)
{
    struct hfi_sequencer sequencer = {.cell = "dev",
                                      .token = 9,
                                      .epoch = 3,
                                      .holder = 4,
                                      .seat = HFI_SEAT_NONE,
                                      .name = "a",
                                      .name_size = 1};
    char text[HF_SEQUENCER_MAX];
    memcpy(sequencer.agent, agent, strlen(agent));
    ck_assert_uint_gt(hfi_sequencer_format(&sequencer, text, sizeof(text)), 0);
    ck_assert_ptr_null(rig_text(rig, client, HFI_FRAME_CHECK, text));
    return rig_sent(rig, MESSAGE_CHECK)->as.check.request_id;
}

static void tell_outcome_as(const char *from, bool relayed, enum message_kind kind, uint64_t id,
                            int32_t result)
{
    struct message message = {.kind = kind, .relayed = relayed};
    message_agent_set(&message.from, from, strlen(from));
    message.as.outcome = (struct message_outcome){
        .agent = rig->config.agent, .request_id = id, .result = result};
    rig_receive(rig, &message);
}

static void tell_outcome(enum message_kind kind, uint64_t id, int32_t result)
{
    tell_outcome_as("host-y", false, kind, id, result);
}

/* Returns the error in the client's latest DONE, or 1 if the client has got only `before` DONEs. */
static int32_t told(uint32_t before)
{
    return rig_count(rig, client, HFI_FRAME_DONE) == before
               ? 1
               : rig_find(rig, client, HFI_FRAME_DONE)->frame.error;
}

START_TEST(a_sequencer_of_another_host_is_asked_there)
{
    static const int32_t results[] = {0, HF_ESTALE, HF_EUNKNOWN};
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t before = rig_count(rig, client, HFI_FRAME_DONE);
        uint64_t id = ask_check("host-y");
        const struct message *check = rig_sent(rig, MESSAGE_CHECK);
        ck_assert_uint_eq(cell_way()->to, HOST_TO_AGENT);
        ck_assert_uint_eq(cell_way()->relay, HOST_NO_RELAY);
        ck_assert_str_eq(check->to.text, "host-y");
        ck_assert_uint_eq(check->as.check.token, 9);
        ck_assert_uint_eq(check->as.check.holder, 4);
        tell_outcome(MESSAGE_CHECKED, id + 1, 0); /* the answer has the id of another request */
        tell_outcome(MESSAGE_BROKEN, id, 0);
        ck_assert_int_eq(told(before), 1);
        tell_outcome(MESSAGE_CHECKED, id, results[i]);
        ck_assert_int_eq(told(before), results[i]);
    }
    uint32_t count = rig->send_count;
    rig_pass(rig, 5000 * RIG_MS);
    ck_assert_uint_eq(rig->send_count, count);
}
END_TEST

START_TEST(a_sequencer_is_answered_by_who_was_asked)
{
    uint64_t id = ask_check("host-y");
    tell_outcome_as("host-z", false, MESSAGE_CHECKED, id, 0);
    /* a voter that is not the asked host */
    tell_outcome_as("host-a", false, MESSAGE_CHECKED, id, 0);
    /* no request has gone through another voter yet */
    tell_outcome_as("host-a", true, MESSAGE_CHECKED, id, 0);
    ck_assert_int_eq(told(0), 1);
    rig_pass(rig, 301 * RIG_MS);
    ck_assert_uint_lt(cell_way()->relay, VOTERS);
    tell_outcome_as("host-z", true, MESSAGE_CHECKED, id, 0); /* host-z is no voter */
    ck_assert_int_eq(told(0), 1);
    tell_outcome_as("host-a", true, MESSAGE_CHECKED, id, HF_ESTALE);
    ck_assert_int_eq(told(0), HF_ESTALE);
}
END_TEST

START_TEST(a_host_that_does_not_answer_leaves_it_unknown)
{
    uint64_t id = ask_check("host-y");
    rig_pass(rig, 301 * RIG_MS);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_CHECK), 2);
    ck_assert_uint_lt(cell_way()->relay, VOTERS); /* another voter may reach the host */
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_CHECK)->as.check.request_id, id);
    rig_pass(rig, 698 * RIG_MS);
    ck_assert_int_eq(told(0), 1);
    rig_pass(rig, 2 * RIG_MS);
    ck_assert_int_eq(told(0), HF_EUNKNOWN);
    tell_outcome(MESSAGE_CHECKED, id, 0);
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_DONE), 1);
}
END_TEST

START_TEST(questions_are_bounded)
{
    for (uint32_t i = 0; i < 128; i++) { /* root may fill the table */
        (void)ask_check("host-y");
        rig->send_count = 1;
    }
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    frame.break_lock.name = (struct hfi_text){"a", 1};
    for (uint32_t i = 0; i < 24; i++) { /* breaks have their own part of the table */
        ck_assert_ptr_null(rig_ask(rig, client, &frame));
        rig->send_count = 1;
    }
    ck_assert_int_eq(rig_ask(rig, client, &frame)->frame.error, HF_EFULL);
    rig_hang_up(rig, client); /* the host sends no answer to a client that is gone */
    for (uint32_t i = 0; i < 20; i++) {
        rig->send_count = 0;
        rig_pass(rig, 100 * RIG_MS);
    }
    client = rig_connect(rig, HOST_MAY_USE | HOST_MAY_ADMIN);
    (void)ask_check("host-y");
}
END_TEST

/* One user asks about a host that does not answer. These requests take at most half of the
 * table. */
START_TEST(one_user_leaves_questions_to_others)
{
    rig->uid = 5;
    client = rig_connect(rig, HOST_MAY_USE);
    for (uint32_t i = 0; i < 64; i++) {
        (void)ask_check("host-y");
    }
    struct hfi_frame check = {.kind = HFI_FRAME_CHECK};
    const char text[] = "hf1/dev/x/9/host-y.3.4/a";
    check.text = (struct hfi_text){text, sizeof(text) - 1};
    ck_assert_int_eq(rig_ask(rig, client, &check)->frame.error, HF_EUNKNOWN);
    rig->uid = 6;
    client = rig_connect(rig, HOST_MAY_USE | HOST_MAY_ADMIN);
    tell_outcome(MESSAGE_CHECKED, ask_check("host-y"), HF_ESTALE);
    ck_assert_int_eq(told(0), HF_ESTALE);
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    frame.break_lock.name = (struct hfi_text){"a", 1};
    ck_assert_ptr_null(rig_ask(rig, client, &frame));
}
END_TEST

static void receive_check(const struct hfi_opened *opened, uint64_t token, bool relayed)
{
    struct message message = {.kind = MESSAGE_CHECK, .relayed = relayed};
    message_agent_set(&message.as.check.agent, "host-y", 6);
    message_agent_set(&message.from, relayed ? "host-b" : "host-y", 6);
    message_name_set(&message.as.check.name, "a", 1);
    message.as.check.request_id = 99;
    message.as.check.token = token;
    message.as.check.epoch = 1;
    message.as.check.holder = opened->holder;
    message.as.check.seat = HFI_SEAT_NONE;
    rig_receive(rig, &message);
}

START_TEST(another_host_is_told_whether_it_is_held)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    receive_check(&opened, held.token, false);
    const struct message *answer = rig_sent(rig, MESSAGE_CHECKED);
    ck_assert_ptr_nonnull(answer);
    ck_assert_uint_eq(cell_way()->to, HOST_TO_AGENT);
    ck_assert_uint_eq(cell_way()->relay, HOST_NO_RELAY);
    ck_assert_str_eq(answer->to.text, "host-y");
    ck_assert_uint_eq(answer->as.outcome.request_id, 99);
    ck_assert_int_eq(answer->as.outcome.result, 0);
    receive_check(&opened, held.token + 1, true);
    ck_assert_uint_eq(cell_way()->relay, 1); /* the answer goes back through host-b, too */
    ck_assert_int_eq(rig_sent(rig, MESSAGE_CHECKED)->as.outcome.result, HF_ESTALE);
    rig->now_ns += 200000 * RIG_MS; /* the host is in jeopardy */
    receive_check(&opened, held.token, false);
    ck_assert_int_eq(rig_sent(rig, MESSAGE_CHECKED)->as.outcome.result, HF_EUNKNOWN);
}
END_TEST

/* ---- grants that become shared for another host's readers ---- */

/* Makes an exclusive grant of tokens 1 to 100, with 1 and 2 used. One client reads. The recall for
 * a reader of another host makes the grant shared. */
static struct hfi_opened make_shared(struct hfi_opened *second)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    *second = cell_open_granted(other);
    opened.seat = rig_seat(rig, client, opened.handle, true);
    second->seat = rig_seat(rig, other, second->handle, true);
    for (uint32_t i = 0; i < 2; i++) {
        ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
        cell_release(&opened, &held);
    }
    ck_assert_int_eq(cell_read(&opened, &held), HFI_HELD);
    rig_recall(rig, "a", 1);
    return opened;
}

/* After a downgrade, a reader's token must not be lower than the token of an earlier reader on
 * another host. */
START_TEST(readers_show_one_token_before_and_after_a_downgrade_is_known)
{
    struct hfi_held held;
    struct hfi_opened second;
    (void)make_shared(&second);
    const struct message amend = *rig_sent(rig, MESSAGE_AMEND);
    /* readers of other hosts show this token, too, once the value is chosen */
    ck_assert_uint_eq(amend.as.amend.token_used, 2);
    ck_assert_int_eq(cell_read(&second, &held), HFI_HELD);
    ck_assert_uint_eq(held.token, 2);
    cell_release(&second, &held);
    rig_answer(rig, &amend, MESSAGE_MODE_SHARED, 1, 2, 2);
    ck_assert_int_eq(cell_read(&second, &held), HFI_HELD);
    ck_assert_uint_eq(held.token, 2);
    /* a late message about a grant that no host has any more */
    rig_answer(rig, &amend, MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, second.slot)), HFI_GRANT_SHARED);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_AMEND), 1);
}
END_TEST

/* A coordinator of an earlier release does not know token_used, and changes nothing. Then the host
 * asks for further tokens, and makes the grant shared by token_last. The first AMEND must not take
 * effect if it arrives late. */
START_TEST(a_downgrade_that_is_not_understood_is_asked_for_in_the_older_way)
{
    struct hfi_held held;
    struct hfi_opened second;
    (void)make_shared(&second);
    rig_answer(rig, rig_sent(rig, MESSAGE_AMEND), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_int_eq(cell_try(&second, &held), HFI_UNGRANTED);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_AMEND), 2);
    ck_assert_int_eq(rig_sent(rig, MESSAGE_AMEND)->as.amend.mode, MESSAGE_MODE_NONE);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_AMEND)->as.amend.token_last, 100);
    rig_answer(rig, rig_sent(rig, MESSAGE_AMEND), MESSAGE_MODE_EXCLUSIVE, 1, 101, 200);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, second.slot)), HFI_GRANT_EXCLUSIVE);
    rig_recall(rig, "a", 1);
    const struct message amend = *rig_sent(rig, MESSAGE_AMEND);
    ck_assert_int_eq(amend.as.amend.mode, MESSAGE_MODE_SHARED);
    ck_assert_uint_eq(amend.as.amend.token_used, 0);
    ck_assert_uint_eq(amend.as.amend.token_last, 200);
    /* readers get in before the quorum answers */
    ck_assert_int_eq(cell_read(&second, &held), HFI_HELD);
    ck_assert_uint_eq(held.token, 200);
    cell_release(&second, &held);
    rig_answer(rig, &amend, MESSAGE_MODE_SHARED, 1, 200, 200);
    ck_assert_int_eq(cell_read(&second, &held), HFI_HELD);
    ck_assert_uint_eq(held.token, 200);
}
END_TEST

/* The next range would need another slot. The lock cannot move to that slot while a process holds
 * it. */
START_TEST(a_downgrade_that_is_not_understood_asks_for_no_other_slot)
{
    const uint64_t last = (UINT64_C(1) << HFI_TOKEN_LOW_BITS) - 1;
    struct hfi_held held;
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), last - 99, last);
    struct hfi_opened opened = rig_find(rig, client, HFI_FRAME_OPENED)->frame.opened;
    opened.seat = rig_seat(rig, client, opened.handle, true);
    ck_assert_int_eq(cell_read(&opened, &held), HFI_HELD);
    rig_recall(rig, "a", 1);
    rig_answer(rig, rig_sent(rig, MESSAGE_AMEND), MESSAGE_MODE_EXCLUSIVE, 1, last - 99, last);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_AMEND), 1);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_SHARED);
    rig_recall(rig, "a", 1);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    cell_release(&opened, &held);
    rig_ring(rig);
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_GIVE_BACK));
}
END_TEST

/* The downgrade is refused, and another change of the grant is answered meanwhile. The word still
 * stays shared. */
START_TEST(a_word_that_was_made_shared_stays_so_until_its_tokens_are_passed)
{
    struct hfi_held held;
    struct hfi_opened second;
    (void)make_shared(&second);
    rig_refuse(rig, rig_sent(rig, MESSAGE_AMEND), MESSAGE_REFUSED_FULL);
    /* this OPEN has a longer lock-delay than the grant covers */
    ck_assert_ptr_null(rig_open(rig, other, "a", 5000 * RIG_MS));
    ck_assert_int_eq(rig_sent(rig, MESSAGE_AMEND)->as.amend.mode, MESSAGE_MODE_NONE);
    rig_answer(rig, rig_sent(rig, MESSAGE_AMEND), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, second.slot)), HFI_GRANT_SHARED);
    ck_assert_int_eq(rig_sent(rig, MESSAGE_AMEND)->as.amend.mode, MESSAGE_MODE_SHARED);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_AMEND)->as.amend.token_used, 2);
    rig_answer(rig, rig_sent(rig, MESSAGE_AMEND), MESSAGE_MODE_EXCLUSIVE, 1, 101, 200);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, second.slot)), HFI_GRANT_EXCLUSIVE);
    ck_assert_int_eq(cell_read(&second, &held), HFI_HELD);
    ck_assert_uint_eq(held.token, 100);
}
END_TEST

/* ---- the next agent ---- */

/* The agent dies, and the next agent continues the session. `lives` has the bits of the clients
 * that still live. */
static void restart(const struct hfi_opened *opened, uint32_t lives)
{
    static const uint8_t name[] = "a";
    struct host_peer peer = {.pid = 77, .rights = {HOST_MAY_USE | HOST_MAY_ADMIN}};
    rig_restart(rig, 1);
    ck_assert(host_load_slot(rig->host, 0, opened->slot, name, 1));
    ck_assert_ptr_null(host_check_region(rig->host, 0));
    if (lives != 0) {
        ck_assert(host_load_survivor(rig->host, lives, lives, 4242, &peer));
    }
    rig_begin(rig);
}

START_TEST(an_adopted_hold_goes_on_but_nobody_new_gets_in)
{
    struct hfi_held held;
    struct hfi_held second;
    struct hfi_opened opened = cell_open_granted(client);
    struct hfi_opened next = cell_open_granted(other);
    struct hfi_request request = {.slot = opened.slot, .seat = HFI_SEAT_NONE};
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    restart(&opened, client);
    ck_assert_int_gt(
        hfi_remaining_ns(&rig->region, &request, opened.holder, &held, rig->now_ns, NULL), 0);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 1);
    cell_release(&opened, &held);
    /* this agent does not know yet whether the host has the grant */
    ck_assert_int_eq(cell_try(&next, &second), HFI_UNGRANTED);
    rig_pass(rig, 300 * RIG_MS);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 2);
    ck_assert_int_eq(cell_try(&next, &second), HFI_UNGRANTED);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_int_eq(cell_try(&next, &second), HFI_HELD);
    ck_assert_uint_eq(second.token, 2);
}
END_TEST

/* A client opens again a lock that it holds. The agent does not refuse the OPEN, even if too many
 * other OPENs wait or the quorum has no room: a refusal would end the client's hold. The client
 * waits instead. */
START_TEST(who_opens_again_what_he_holds_is_not_refused_for_want_of_room)
{
    enum { PENDING = 1024 };
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    restart(&opened, client);
    uint32_t third = rig_connect(rig, HOST_MAY_USE);
    for (uint32_t i = 0; _i == 0 && i < PENDING; i++) {
        ck_assert_ptr_null(rig_open(rig, third, "b", 0));
    }
    rig_connect_again(rig, client, 4242);
    const struct rig_reply *reply = rig_resume(rig, client, "a", &opened);
    if (_i == 1) {
        ck_assert_ptr_null(reply);
        rig_refuse(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_REFUSED_FULL);
        reply = rig_find(rig, client, HFI_FRAME_OPENED);
    }
    ck_assert_ptr_nonnull(reply);
    ck_assert_int_eq(reply->frame.kind, HFI_FRAME_OPENED);
    ck_assert_uint_eq(reply->frame.opened.holder, opened.holder);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), opened.holder);
}
END_TEST

START_TEST(a_hold_that_goes_on_is_unknown_to_others_until_it_is_confirmed)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    restart(&opened, client);
    receive_check(&opened, held.token, false);
    ck_assert_int_eq(rig_sent(rig, MESSAGE_CHECKED)->as.outcome.result, HF_EUNKNOWN);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    receive_check(&opened, held.token, false);
    ck_assert_int_eq(rig_sent(rig, MESSAGE_CHECKED)->as.outcome.result, 0);
}
END_TEST

START_TEST(a_recall_of_an_adopted_lock_waits_for_its_holder)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    restart(&opened, client);
    rig_recall(rig, "a", 1);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), opened.holder);
    cell_release(&opened, &held);
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.token_used, 1);
}
END_TEST

/* No process holds the lock, so the host asks the quorum for nothing until a process wants the
 * lock. Tokens of the grant may have been used, so the host then uses only the range that the
 * quorum names. */
START_TEST(an_adopted_lock_that_is_free_gives_back_all_its_tokens)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    cell_release(&opened, &held);
    restart(&opened, 0);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_NONE);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_ACQUIRE));
    rig_recall(rig, "a", 1);
    ck_assert_uint_ge(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.token_used, 100);
}
END_TEST

START_TEST(an_adopted_lock_that_is_free_is_asked_for_when_it_is_wanted)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    cell_release(&opened, &held);
    restart(&opened, 0);
    client = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    opened = cell_opened_by(client);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    ck_assert_uint_eq(held.token, 2);
}
END_TEST

/* The agent made its grant shared for another host's readers. The agent dies before it knows
 * whether the quorum got its AMEND. If `reads`, a reader still holds the lock. */
static struct hfi_opened die_in_a_downgrade(bool reads)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    opened.seat = rig_seat(rig, client, opened.handle, true);
    struct hfi_request request = {.slot = opened.slot, .seat = opened.seat};
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    cell_release(&opened, &held);
    ck_assert_int_eq(hfi_try_shared(&actor, &request, &held), HFI_HELD);
    rig_recall(rig, "a", 1);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_SHARED);
    if (!reads) {
        cell_release(&opened, &held);
    }
    restart(&opened, client);
    return opened;
}

/* The AMEND of the previous agent may arrive late. Other hosts would then share the grant, so this
 * host must not write. */
START_TEST(a_downgrade_that_the_agent_before_began_is_completed)
{
    struct hfi_opened opened = die_in_a_downgrade(true);
    struct hfi_held held;
    ck_assert_int_eq(rig_sent(rig, MESSAGE_ACQUIRE)->as.acquire.mode, MESSAGE_MODE_SHARED);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_SHARED);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_UNGRANTED);
    ck_assert_int_eq(rig_sent(rig, MESSAGE_AMEND)->as.amend.mode, MESSAGE_MODE_SHARED);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_AMEND)->as.amend.token_used, 1);
}
END_TEST

START_TEST(a_grant_that_the_agent_before_made_shared_goes_back_if_nobody_reads)
{
    struct hfi_opened opened = die_in_a_downgrade(false);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_NONE);
    client = rig_connect(rig, HOST_MAY_USE);
    (void)rig_open(rig, client, "a", 0);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_NONE);
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_GIVE_BACK));
}
END_TEST

/* A holder died while no agent ran. Only the grant tells the agent how long the lock stays
 * closed. */
START_TEST(an_adopted_lock_closes_for_the_delay_of_its_grant)
{
    struct hfi_held held;
    struct hfi_opened opened = rig_open_granted(rig, client, "a", 500 * RIG_MS);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    restart(&opened, 0);
    rig_pass(rig, 2000 * RIG_MS);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_CLOSED);
    struct message acquire = *rig_sent(rig, MESSAGE_ACQUIRE);
    acquire.as.acquire.lock_delay_ms = 500;
    rig_answer(rig, &acquire, MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    rig_pass(rig, 499 * RIG_MS);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_CLOSED);
    rig_pass(rig, 2 * RIG_MS);
    ck_assert(!(rig_word(rig, opened.slot) & HFI_W_CLOSED));
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_EXCLUSIVE);
}
END_TEST

/* In a cell of several voters, the value of the host's own acceptor need not be the chosen value.
 * So a grant in that value is not put in force. */
START_TEST(a_voters_own_register_puts_nothing_in_force)
{
    cell_teardown();
    cell_start(0, 0);
    struct hfi_opened opened = cell_open_granted(client);
    rig_recall(rig, "a", 1);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    static const uint8_t name[] = "a";
    struct message_name full = {.length = 1, .bytes = "a"};
    struct message_value value = {.version = {1 << 16 | 1, 1},
                                  .token_first = 1,
                                  .token_last = 100,
                                  .owner = rig->config.agent,
                                  .epoch = 1,
                                  .permits = 1,
                                  .mode = MESSAGE_MODE_EXCLUSIVE};
    rig_restart(rig, 1);
    ck_assert(host_load_slot(rig->host, 0, opened.slot, name, 1));
    host_load_grant(rig->host, &full, &value);
    ck_assert_ptr_null(host_check_region(rig->host, 0));
    rig_begin(rig);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_NONE);
}
END_TEST

/* A give-back of the previous agent may still be on its way. This agent must not put the grant in
 * force: the late give-back would let another host get the lock, too. */
START_TEST(what_the_agent_before_may_have_given_back_goes_back)
{
    struct hfi_opened opened = cell_open_granted(client);
    rig_recall(rig, "a", 1);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 1);
    restart(&opened, 0);
    uint32_t next = rig_connect(rig, HOST_MAY_USE);
    (void)rig_open(rig, next, "a", 0);
    const struct message asked = *rig_sent(rig, MESSAGE_ACQUIRE);
    rig_answer(rig, &asked, MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_NONE);
    const struct message back = *rig_sent(rig, MESSAGE_GIVE_BACK);
    ck_assert_uint_eq(back.as.give_back.version.sequence, 1);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 1);
    rig_returned(rig, &back);
    const struct message *again = rig_sent(rig, MESSAGE_ACQUIRE);
    ck_assert_uint_ne(again->as.acquire.request_id, asked.as.acquire.request_id);
    /* version 2 shows that the previous agent's give-back was processed */
    rig_answer(rig, again, MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_EXCLUSIVE);
}
END_TEST

START_TEST(what_was_made_for_this_agent_is_taken)
{
    struct hfi_opened opened = cell_open_granted(client);
    rig_recall(rig, "a", 1);
    restart(&opened, 0);
    uint32_t next = rig_connect(rig, HOST_MAY_USE);
    (void)rig_open(rig, next, "a", 0);
    rig->fresh = true;
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_EXCLUSIVE);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 0);
}
END_TEST

/* This agent does not know the name. The previous agent may have given a grant of the name back as
 * an orphan (requests.h), so the first grant is doubtful. */
START_TEST(a_new_name_of_a_session_that_goes_on_is_doubtful_too)
{
    struct hfi_opened opened = cell_open_granted(client);
    restart(&opened, 0);
    uint32_t next = rig_connect(rig, HOST_MAY_USE);
    (void)rig_open(rig, next, "b", 0);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 7, 1, 100);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 1);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.version.sequence, 7);
}
END_TEST

static void open_and_answer(uint32_t by, const char *name, bool fresh, uint64_t version)
{
    (void)rig_open(rig, by, name, 0);
    rig->fresh = fresh;
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, version, 1, 100);
}

/* The voter made version 7 for a request of this agent. So version 8 was made later, and the
 * previous agent cannot have returned it. It may have returned version 6. */
START_TEST(what_was_made_after_a_grant_for_this_agent_is_not_doubtful)
{
    struct hfi_opened opened = cell_open_granted(client);
    restart(&opened, 0);
    uint32_t next = rig_connect(rig, HOST_MAY_USE);
    open_and_answer(next, "b", true, 7);
    open_and_answer(next, "c", false, 8);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 0);
    open_and_answer(next, "d", false, 6);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 1);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.version.sequence, 6);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("host_others");
    TCase *shared = cell_case(suite, "made shared");
    tcase_add_test(shared, readers_show_one_token_before_and_after_a_downgrade_is_known);
    tcase_add_test(shared, a_downgrade_that_is_not_understood_is_asked_for_in_the_older_way);
    tcase_add_test(shared, a_downgrade_that_is_not_understood_asks_for_no_other_slot);
    tcase_add_test(shared, a_word_that_was_made_shared_stays_so_until_its_tokens_are_passed);
    TCase *others = cell_case(suite, "other hosts");
    tcase_add_test(others, a_sequencer_of_another_host_is_asked_there);
    tcase_add_test(others, a_sequencer_is_answered_by_who_was_asked);
    tcase_add_test(others, a_host_that_does_not_answer_leaves_it_unknown);
    tcase_add_test(others, questions_are_bounded);
    tcase_add_test(others, one_user_leaves_questions_to_others);
    tcase_add_test(others, another_host_is_told_whether_it_is_held);
    TCase *adopted = cell_case(suite, "adopted");
    tcase_add_test(adopted, an_adopted_hold_goes_on_but_nobody_new_gets_in);
    tcase_add_loop_test(adopted, who_opens_again_what_he_holds_is_not_refused_for_want_of_room, 0,
                        2);
    tcase_add_test(adopted, a_hold_that_goes_on_is_unknown_to_others_until_it_is_confirmed);
    tcase_add_test(adopted, a_recall_of_an_adopted_lock_waits_for_its_holder);
    tcase_add_test(adopted, an_adopted_lock_that_is_free_gives_back_all_its_tokens);
    tcase_add_test(adopted, an_adopted_lock_that_is_free_is_asked_for_when_it_is_wanted);
    tcase_add_test(adopted, a_downgrade_that_the_agent_before_began_is_completed);
    tcase_add_test(adopted, a_grant_that_the_agent_before_made_shared_goes_back_if_nobody_reads);
    tcase_add_test(adopted, an_adopted_lock_closes_for_the_delay_of_its_grant);
    tcase_add_test(adopted, what_the_agent_before_may_have_given_back_goes_back);
    tcase_add_test(adopted, what_was_made_for_this_agent_is_taken);
    tcase_add_test(adopted, a_new_name_of_a_session_that_goes_on_is_doubtful_too);
    tcase_add_test(adopted, what_was_made_after_a_grant_for_this_agent_is_not_doubtful);
    tcase_add_test(adopted, a_voters_own_register_puts_nothing_in_force);
    return suite;
}

int main(void)
{
    return suite_run(make_suite());
}
