/*
 * The host core in a cell of several voters. After a restart, an agent goes on waiting for the
 * locks for which the previous agent waited, at the same place in their queues. A host uses its
 * turn, whenever the next host's request arrives. The test plays the quorum.
 */
#include "host_cell.h"

#include <string.h>

#include "../suite_main.h"

enum { WAITED_MS = 1700 };

/* The agent ends, and the next agent continues the session. If `waits` is set, the next agent has
 * no lease yet. */
static void restart_until(const struct hfi_opened *opened, bool waits)
{
    static const uint8_t name[] = "a";
    struct host_peer peer = {.pid = 77, .rights = {HOST_MAY_USE | HOST_MAY_ADMIN}};
    rig_restart(rig, 1);
    ck_assert(host_load_slot(rig->host, 0, opened->slot, name, 1));
    ck_assert_ptr_null(host_check_region(rig->host, 0));
    ck_assert(host_load_survivor(rig->host, client, client, 4242, &peer));
    if (waits) {
        struct host_event event = {.kind = HOST_START, .as.lease.epoch = 1};
        rig_step(rig, event);
    } else {
        rig_begin(rig);
    }
}

static void restart(const struct hfi_opened *opened)
{
    restart_until(opened, false);
}

/* Makes the client wait in the queue of a lock whose grant, version 1, was given back. */
static struct hfi_opened wait_for_it(void)
{
    struct hfi_opened opened = cell_open_granted(client);
    rig_recall(rig, "a", 1);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    cell_wait_in_queue(&opened, client, false);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 2);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_ACQUIRE)->as.acquire.waited_ms, 0);
    return opened;
}

/* The process that got the lock leaves the queue and releases the lock. */
static void has_had_it(const struct hfi_opened *opened, uint64_t token)
{
    struct hfi_held held = {.token = token};
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened->slot)), opened->holder);
    atomic_store(hfi_seat_wait(&rig->region, opened->seat), 0);
    cell_release(opened, &held);
}

/* Recalls version 2, whose grant did not arrive. After the second recall the host gives this grant
 * back. */
static void recall_what_is_lost(void)
{
    rig_recall(rig, "a", 2);
    rig_recall(rig, "a", 2);
}

static const struct message_acquire *asked(void)
{
    const struct message *message = rig_sent(rig, MESSAGE_ACQUIRE);
    ck_assert_ptr_nonnull(message);
    return &message->as.acquire;
}

START_TEST(a_restarted_agent_asks_with_the_time_that_its_host_has_waited)
{
    struct hfi_opened opened = wait_for_it();
    uint64_t before = asked()->request_id;
    rig_pass(rig, WAITED_MS * RIG_MS);
    restart(&opened);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 1);
    ck_assert_uint_eq(asked()->waited_ms, WAITED_MS);
    ck_assert_uint_ne(asked()->request_id, before);
    ck_assert_int_eq(asked()->mode, MESSAGE_MODE_EXCLUSIVE);
    /* The next agent, too, asks with the whole time that its host has waited. */
    rig_pass(rig, WAITED_MS * RIG_MS);
    restart(&opened);
    ck_assert_uint_eq(asked()->waited_ms, 2 * WAITED_MS);
}
END_TEST

/* The only voter knows all grants from its own store. But the store does not have the locks for
 * which its host waited. */
START_TEST(the_only_voter_goes_on_waiting_too)
{
    rig_destroy(rig);
    rig = rig_create_cell(RIG_LOCKS, 1, 0, 0);
    rig_begin(rig);
    client = rig_connect(rig, HOST_MAY_USE | HOST_MAY_ADMIN);
    struct hfi_opened opened = wait_for_it();
    rig_pass(rig, WAITED_MS * RIG_MS);
    restart(&opened);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 1);
    ck_assert_uint_eq(asked()->waited_ms, WAITED_MS);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), opened.holder);
}
END_TEST

/* The grant was made while no agent ran. No agent can have given it back, so the host uses it. */
START_TEST(what_was_granted_to_the_one_before_is_taken)
{
    struct hfi_opened opened = wait_for_it();
    restart(&opened);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), opened.holder);
}
END_TEST

START_TEST(what_the_one_before_returned_is_not_taken)
{
    struct hfi_opened opened = wait_for_it();
    restart(&opened);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_NONE);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_EXCLUSIVE);
}
END_TEST

/* The next host already waits. The recall for that host overtakes the answer to this host. This
 * host still gets its turn. */
START_TEST(a_recall_before_the_answer_does_not_cost_the_turn)
{
    struct hfi_opened opened = wait_for_it();
    restart(&opened);
    rig_recall(rig, "a", 2);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), opened.holder);
    rig_recall(rig, "a", 2);
    has_had_it(&opened, 101);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.version.sequence, 2);
}
END_TEST

/* The agent gave a grant back that had not arrived, and ended. Its notes do not tell whether the
 * grant was given back, so the next agent gives the grant back, too. */
START_TEST(what_was_being_returned_stays_doubtful)
{
    struct hfi_opened opened = wait_for_it();
    recall_what_is_lost();
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.version.sequence, 2);
    restart(&opened);
    ck_assert_uint_eq(asked()->waited_ms, 0);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.version.sequence, 2);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_NONE);
}
END_TEST

/* The host does not know whether the previous agent gave the grant back. A recall before the answer
 * does not cost this host its turn: the answer tells whether the grant is fresh. */
START_TEST(a_recall_before_the_answer_leaves_a_doubtful_host_its_turn)
{
    struct hfi_opened opened = wait_for_it();
    recall_what_is_lost();
    restart(&opened);
    rig_recall(rig, "a", 3);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    rig->fresh = _i == 1;
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 3, 201, 300);
    if (_i == 1) {
        ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), opened.holder);
        ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    } else {
        ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.version.sequence, 3);
        ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_NONE);
    }
}
END_TEST

/* The second agent had no note of the grant, and got no answer. So the third agent, too, does not
 * know whether the grant was given back, unless the answer says that the grant was made for the
 * third agent's request. */
START_TEST(doubt_is_handed_on)
{
    struct hfi_opened opened = wait_for_it();
    recall_what_is_lost();
    restart(&opened);
    rig_pass(rig, WAITED_MS * RIG_MS);
    restart(&opened);
    ck_assert_uint_eq(asked()->waited_ms, WAITED_MS);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.version.sequence, 2);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_NONE);
}
END_TEST

/* An agent that does not know whether a grant was given back asks under the previous agent's id. A
 * grant made for that id was not given back by any agent, so the host uses it. */
START_TEST(doubt_ends_with_a_grant_that_was_made_for_what_was_asked_before)
{
    struct hfi_opened opened = wait_for_it();
    recall_what_is_lost();
    restart(&opened);
    uint64_t before = asked()->request_id;
    for (int i = 0; i < 2; i++) {
        rig_pass(rig, WAITED_MS * RIG_MS);
        restart(&opened);
        ck_assert_uint_eq(asked()->request_id, before);
    }
    ck_assert_uint_eq(asked()->waited_ms, 2 * WAITED_MS);
    rig->fresh = true;
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), opened.holder);
    ck_assert_int_eq(rig->kept[0].since_ns, 0);
}
END_TEST

/* A grant for a request of the earlier agent does not prove that another grant was made later. */
START_TEST(a_grant_for_what_was_asked_before_dispels_no_doubt)
{
    struct hfi_opened opened = wait_for_it();
    recall_what_is_lost();
    restart(&opened);
    rig_pass(rig, WAITED_MS * RIG_MS);
    restart(&opened);
    rig->fresh = true;
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    (void)rig_open(rig, rig_connect(rig, HOST_MAY_USE), "b", 0);
    rig->fresh = false;
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 3, 1, 100);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.version.sequence, 3);
}
END_TEST

/* An answer to the previous agent arrives before this agent has asked. A refusal of that request
 * does not concern this agent, which has not even chosen a mode. */
START_TEST(an_answer_to_the_one_before_finds_the_next_one)
{
    struct hfi_opened opened = wait_for_it();
    recall_what_is_lost();
    restart(&opened);
    const struct message before = *rig_sent(rig, MESSAGE_ACQUIRE);
    restart_until(&opened, true);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_ACQUIRE));
    struct message refused = {.kind = MESSAGE_REFUSED};
    refused.as.refused = (struct message_refused){.agent = before.as.acquire.agent,
                                                  .epoch = before.as.acquire.epoch,
                                                  .request_id = before.as.acquire.request_id,
                                                  .name = before.as.acquire.name,
                                                  .reason = MESSAGE_REFUSED_NOT_OWNER,
                                                  .owner = rig->config.voters[1]};
    rig_lease(rig, 1, rig->now_ns - 1, false); /* the host is in jeopardy */
    rig_receive(rig, &refused);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_ACQUIRE));
    rig->fresh = true;
    rig_answer(rig, &before, MESSAGE_MODE_EXCLUSIVE, 2, 101, 200);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), opened.holder);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
}
END_TEST

/* The note has no valid id, so the request gets a new one. Case 0: a note of an earlier release,
 * which writes no id; `ballot` is 0, although `sequence` is not. Case 1: the lower bits of the id
 * are not the note's index. */
START_TEST(a_note_without_an_id_gets_a_new_one)
{
    struct hfi_opened opened = wait_for_it();
    recall_what_is_lost();
    restart(&opened);
    uint64_t before = asked()->request_id;
    ck_assert_uint_eq(rig->kept[0].known, 0);
    rig->kept[0].ballot = _i == 0 ? 0 : rig->kept[0].ballot + 1;
    rig->kept[0].sequence = _i == 0 ? 1 : rig->kept[0].sequence;
    restart(&opened);
    ck_assert_uint_ne(asked()->request_id, before);
    ck_assert_uint_ne(asked()->request_id, UINT64_C(1) << 48);
    ck_assert_uint_eq(asked()->request_id & 0xffff, 0);
}
END_TEST

START_TEST(who_waits_no_more_has_no_place)
{
    struct hfi_opened opened = wait_for_it();
    rig_pass(rig, WAITED_MS * RIG_MS);
    atomic_fetch_and(&rig->region.words[opened.slot].word, ~HFI_W_WAITERS);
    restart(&opened);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_ACQUIRE));
    atomic_fetch_or(&rig->region.words[opened.slot].word, HFI_W_WAITERS);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    hfi_ring(&actor, opened.slot);
    rig_ring(rig);
    ck_assert_uint_eq(asked()->waited_ms, 0);
}
END_TEST

START_TEST(another_session_keeps_nothing)
{
    struct hfi_opened opened = wait_for_it();
    ck_assert_int_ne(rig->kept[0].since_ns, 0);
    rig_restart(rig, 0);
    rig_begin(rig);
    ck_assert_int_eq(rig->kept[0].since_ns, 0);
    (void)opened;
}
END_TEST

/* Only agents write the notes. Still, the host checks each value before it uses it. */
START_TEST(rubbish_in_what_was_kept_is_passed_over)
{
    struct hfi_opened opened = wait_for_it();
    uint64_t name_hash = rig->kept[0].name_hash;
    const struct host_kept rubbish[] = {
        {.since_ns = INT64_MAX, .name_hash = name_hash, .slot = opened.slot},
        {.since_ns = -1, .name_hash = name_hash, .slot = opened.slot},
        {.since_ns = 1, .name_hash = name_hash, .slot = 0x7fffff, .known = 1},
        {.since_ns = 1, .name_hash = name_hash, .slot = opened.slot, .space = UINT16_MAX},
        {.since_ns = 1, .name_hash = ~name_hash, .slot = opened.slot, .known = 1},
    };
    _Static_assert(sizeof(rubbish) == sizeof(rig->kept), "one each");
    memcpy((void *)rig->kept, rubbish, sizeof(rubbish));
    restart(&opened);
    ck_assert_uint_eq(asked()->waited_ms, 0);
    for (uint32_t i = 1; i < RIG_KEPT; i++) {
        ck_assert_int_eq(rig->kept[i].since_ns, 0);
    }
}
END_TEST

/* A grant must be amended before it is put in force, and meanwhile the recall for the next host
 * comes. The word must not get the recall bit: no process would get the lock then, and the grant
 * would go back unused. */
START_TEST(a_recall_while_a_grant_is_amended_does_not_cost_the_turn)
{
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_pass(rig, 60 * RIG_MS);
    struct hfi_opened opened = cell_opened_by(client);
    cell_wait_in_queue(&opened, client, false);
    const struct message first = *rig_sent(rig, MESSAGE_ACQUIRE);
    /* this OPEN has a longer lock-delay than the host's request has */
    ck_assert_ptr_null(rig_open(rig, other, "a", 5000 * RIG_MS));
    rig_answer(rig, &first, MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_NONE);
    rig_recall(rig, "a", 1);
    struct message amend = *rig_sent(rig, MESSAGE_AMEND);
    ck_assert_uint_eq(amend.as.amend.lock_delay_ms, 5000);
    rig_answer(rig, &amend, MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), opened.holder);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    has_had_it(&opened, 1);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 1);
}
END_TEST

/* A barger that is gone leaves its bit in the word. While another host wants the lock, this host
 * must not request the lock again and again for that bit. */
START_TEST(who_barged_once_does_not_bring_the_lock_back)
{
    struct hfi_opened opened = cell_open_granted(client);
    atomic_fetch_or(&rig->region.words[opened.slot].word, HFI_W_BARGERS);
    uint32_t wakes = rig->wakes;
    rig_recall(rig, "a", 1);
    /* the wake lets a barger that still waits set the bit again */
    ck_assert_uint_eq(rig->wakes, wakes + 1);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    rig_pass(rig, WAITED_MS * RIG_MS);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 1);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host_kept");
    TCase *next = cell_case(suite, "the next agent");
    TCase *turn = cell_case(suite, "a turn");

    tcase_add_test(next, a_restarted_agent_asks_with_the_time_that_its_host_has_waited);
    tcase_add_test(next, the_only_voter_goes_on_waiting_too);
    tcase_add_test(next, what_was_granted_to_the_one_before_is_taken);
    tcase_add_test(next, what_the_one_before_returned_is_not_taken);
    tcase_add_test(next, a_recall_before_the_answer_does_not_cost_the_turn);
    tcase_add_test(next, what_was_being_returned_stays_doubtful);
    tcase_add_test(next, a_grant_for_what_was_asked_before_dispels_no_doubt);
    tcase_add_loop_test(next, a_recall_before_the_answer_leaves_a_doubtful_host_its_turn, 0, 2);
    tcase_add_test(next, doubt_is_handed_on);
    tcase_add_test(next, doubt_ends_with_a_grant_that_was_made_for_what_was_asked_before);
    tcase_add_test(next, an_answer_to_the_one_before_finds_the_next_one);
    tcase_add_loop_test(next, a_note_without_an_id_gets_a_new_one, 0, 2);
    tcase_add_test(next, who_waits_no_more_has_no_place);
    tcase_add_test(next, another_session_keeps_nothing);
    tcase_add_test(next, rubbish_in_what_was_kept_is_passed_over);
    tcase_add_test(turn, a_recall_while_a_grant_is_amended_does_not_cost_the_turn);
    tcase_add_test(turn, who_barged_once_does_not_bring_the_lock_back);
    return suite_run(suite);
}
