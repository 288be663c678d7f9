/*
 * The host core while the voters change. The entries for a voter move with the voter to its new
 * index. Requests to a removed coordinator go to another voter. The test simulates the quorum.
 */
#include "host_cell.h"

#include <string.h>

#include "../suite_main.h"
#include "core/quorum.h"

static struct message_voters record;

/* Makes the host use a record with the voters host-X, one for each letter X. */
static void go_by(uint32_t number, const char *letters)
{
    static char addresses[MESSAGE_VOTERS_MAX][MESSAGE_ADDRESS_MAX];
    struct message_agent names[MESSAGE_VOTERS_MAX];
    for (uint32_t i = 0; letters[i] != '\0'; i++) {
        char text[] = "host-?";
        text[5] = letters[i];
        message_agent_set(&names[i], text, 6);
        memset(addresses[i], 0, sizeof(addresses[i]));
        memcpy(addresses[i], "tcp://10.0.0.1:7411", 20);
        addresses[i][13] = letters[i];
    }
    message_voters_begin(&record, names, (const char(*)[MESSAGE_ADDRESS_MAX])addresses,
                         (uint32_t)strlen(letters));
    record.number = number;
    struct host_event event = {.kind = HOST_RECORD, .as.record = &record};
    rig_step(rig, event);
}

static void set_up_voters(uint32_t up, uint32_t answering, uint32_t refused)
{
    struct host_event event = {.kind = HOST_VOTERS};
    event.as.voters.up = up;
    event.as.voters.answering = answering;
    event.as.voters.refused = refused;
    rig_step(rig, event);
}

/* Returns the content of STATUS. */
static const struct hfi_stated *status(void)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_STATUS};
    return &rig_ask(rig, client, &frame)->frame.stated;
}

static bool is_text(const struct hfi_text *text, const char *expected)
{
    return text->size == strlen(expected) && memcmp(text->bytes, expected, text->size) == 0;
}

/* The voters stay the same, but get other indexes: requests go to the same coordinator. */
START_TEST(a_coordinator_keeps_its_partitions_under_another_index)
{
    char before = rig->config.voters[owner].text[5];
    go_by(2, "0abc");
    (void)rig_open(rig, client, "a", 0);
    ck_assert_int_eq(rig_sent(rig, MESSAGE_ACQUIRE)->kind, MESSAGE_ACQUIRE);
    ck_assert_uint_eq(cell_way()->to, owner + 1);
    ck_assert_int_eq(record.of[cell_way()->to].name.text[5], before);
    go_by(3, "abc");
    for (uint32_t i = 0; i < 100 && rig_sent_count(rig, MESSAGE_ACQUIRE) == 1; i++) {
        rig_pass(rig, 10 * RIG_MS);
    }
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 2);
    ck_assert_uint_eq(cell_way()->to, owner); /* the second copy goes to the coordinator through
                                               * another voter */
}
END_TEST

/* A request that waits at a removed coordinator is sent to another voter at once. */
START_TEST(a_request_leaves_a_removed_coordinator)
{
    (void)rig_open(rig, client, "a", 0);
    uint32_t count = rig_sent_count(rig, MESSAGE_ACQUIRE);
    ck_assert_uint_eq(count, 1);
    ck_assert_uint_eq(cell_way()->to, owner);
    uint64_t id = rig_sent(rig, MESSAGE_ACQUIRE)->as.acquire.request_id;
    go_by(2, owner == 0 ? "bc" : owner == 1 ? "ac" : "ab");
    rig_pass(rig, RIG_MS);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 2);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_ACQUIRE)->as.acquire.request_id, id);
    ck_assert_uint_lt(cell_way()->to, 2);
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 1, 100);
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_OPENED), 1);
}
END_TEST

/* status shows the voters of the record with their addresses, and each voter's own state. */
START_TEST(people_see_the_voters_of_the_record)
{
    set_up_voters(5, 4, 2); /* c answers, b refuses */
    go_by(2, "0abc");
    const struct hfi_stated *stated = status();
    ck_assert_uint_eq(stated->voter_count, 4);
    ck_assert(is_text(&stated->voters[0].name, "host-0"));
    ck_assert(is_text(&stated->voters[0].address, "tcp://10.0.0.0:7411"));
    ck_assert_int_eq(stated->voters[0].state, HF_VOTER_DOWN);
    ck_assert_int_eq(stated->voters[1].state, HF_VOTER_DOWN);
    ck_assert_int_eq(stated->voters[2].state, HF_VOTER_REFUSED);
    ck_assert_int_eq(stated->voters[3].state, HF_VOTER_UP);
    ck_assert(is_text(&stated->role, "observer"));
    go_by(3, "ac");
    ck_assert_uint_eq(status()->voter_count, 2);
    ck_assert_int_eq(status()->voters[1].state, HF_VOTER_UP);
}
END_TEST

/* The host itself becomes a voter and is removed. Its own voter always counts as answering. */
START_TEST(the_own_host_joins_and_is_removed)
{
    set_up_voters(0, 0, 0);
    go_by(2, "abcx");
    ck_assert(is_text(&status()->role, "voter"));
    ck_assert_int_eq(status()->voters[3].state, HF_VOTER_UP);
    go_by(3, "abc");
    ck_assert(is_text(&status()->role, "observer"));
    ck_assert_int_eq(status()->voters[2].state, HF_VOTER_DOWN);
}
END_TEST

/* A voter's address moves. The host shows the new one, and nothing else changes. */
START_TEST(a_voter_moves)
{
    set_up_voters(7, 7, 0);
    go_by(2, "abc");
    memcpy(record.of[1].address, "tcp://10.0.0.9:7411", 20);
    record.number = 3;
    struct host_event event = {.kind = HOST_RECORD, .as.record = &record};
    rig_step(rig, event);
    ck_assert(is_text(&status()->voters[1].address, "tcp://10.0.0.9:7411"));
    ck_assert_int_eq(status()->voters[1].state, HF_VOTER_UP);
}
END_TEST

/* In a cell with one voter, a host knows every grant. The host does not know every grant any more
 * when the cell has more voters. */
START_TEST(from_one_voter_to_three_and_back)
{
    cell_teardown();
    cell_start(0, 0);
    go_by(2, "a");
    ck_assert_uint_eq(status()->voter_count, 1);
    struct hfi_opened opened = cell_open_granted(client);
    struct hfi_held held;
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    go_by(3, "ab");
    go_by(4, "abc");
    cell_release(&opened, &held);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    go_by(5, "ac");
    go_by(6, "a");
    cell_release(&opened, &held);
    rig_recall(rig, "a", 1);
    ck_assert_uint_eq(cell_way()->to, 0);
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_GIVE_BACK));
}
END_TEST

/* After a recovery of the cell, all grants have tokens of the new generation, which the lock's slot
 * cannot take. So the lock changes its slot before the host asks for the grant, and keeps the
 * grant. (Otherwise the host would give the grant back, and would ask again behind all other
 * hosts.) Case 0: a process waits. Case 1: another process opens the lock. */
START_TEST(a_lock_leaves_a_slot_of_an_older_generation_before_the_host_asks)
{
    struct hfi_opened opened = cell_open_granted(client);
    struct hfi_held held;
    rig_recall(rig, "a", 1);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    uint32_t asked = rig_sent_count(rig, MESSAGE_ACQUIRE);
    go_by(MESSAGE_NUMBERS, "abc");
    if (_i == 0) {
        cell_wait_in_queue(&opened, client, false);
        ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), asked);
        ck_assert_int_eq(cell_try(&opened, &held), HFI_RETIRED);
        ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    } else {
        ck_assert_ptr_null(rig_open(rig, other, "a", 0));
        ck_assert_int_eq(cell_try(&opened, &held), HFI_RETIRED);
    }
    ck_assert_uint_eq(rig->rows, 2);
    ck_assert_uint_eq(rig->rows_gone, 1);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), asked + 1);
    /* a sequencer of the older generation stays outdated on this host */
    uint64_t highest = hfi_index_token(&rig->region, hfi_name_hash("a", 1));
    ck_assert(highest > 100 && highest < MESSAGE_TOKEN_GENERATION + 1);
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_TOKEN_GENERATION + 1,
              MESSAGE_TOKEN_GENERATION + 100);
    struct hfi_opened again = cell_opened_by(_i == 0 ? client : other);
    ck_assert_uint_ne(again.slot, opened.slot);
    ck_assert_int_eq(cell_try(&again, &held), HFI_HELD);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 1);
}
END_TEST

/* A lock that had no token yet, or tokens of this generation, keeps its slot. */
START_TEST(a_lock_stays_in_a_slot_of_this_generation)
{
    struct hfi_opened opened = cell_open_granted(client);
    rig_recall(rig, "a", 1);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    go_by(MESSAGE_NUMBERS - 1, "abc");
    cell_wait_in_queue(&opened, client, false);
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 101, 200);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 1);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), opened.holder);
    ck_assert_uint_eq(rig->rows, 1);
}
END_TEST

/* ---- the slot that a lock has left ---- */

static void ask_for_another_generation(uint32_t who)
{
    go_by(MESSAGE_NUMBERS, "abc");
    ck_assert_ptr_null(rig_open(rig, who, "a", 0));
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_TOKEN_GENERATION + 1,
              MESSAGE_TOKEN_GENERATION + 100);
}

/* The next agent begins. The lock "a" is in `slot`. The process of `client` lives, but is not
 * connected yet. */
static void begin_again(uint32_t slot)
{
    const struct host_peer peer = {.pid = 77, .rights = {HOST_MAY_USE}};
    rig->config.voters_number = record.number;
    rig_restart(rig, 1);
    ck_assert(host_load_slot(rig->host, 0, slot, (const uint8_t *)"a", 1));
    ck_assert(host_load_survivor(rig->host, client, client, 4242, &peer));
    rig_begin(rig);
}

/* The client connects again, and has no handles to open again. */
static void resume_nothing(void)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_RESUMED};
    rig_connect_again(rig, client, 4242);
    ck_assert_int_eq(rig_ask(rig, client, &frame)->frame.error, 0);
}

/* Opens another lock, and returns its slot. */
static uint32_t slot_of_another_lock(const char *name)
{
    uint32_t who = rig_connect(rig, HOST_MAY_USE);
    rig->fresh = true;
    return rig_open_granted(rig, who, name, 0).slot;
}

/* A slot is retired while a client of the previous agent may have it open. When all handles of the
 * clients are known, and none is of that slot, the slot is free again. */
START_TEST(a_slot_that_is_left_before_all_handles_are_known_is_freed)
{
    struct hfi_opened opened = cell_open_granted(client);
    rig_recall(rig, "a", 1);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    begin_again(opened.slot);
    rig_lease(rig, 1, 0, true); /* the recovery ends the session */
    rig_lease(rig, 2, rig->now_ns + 100000 * RIG_MS, false);
    other = rig_connect(rig, HOST_MAY_USE);
    ask_for_another_generation(other);
    ck_assert_uint_ne(cell_opened_by(other).slot, opened.slot);
    ck_assert_uint_ne(slot_of_another_lock("b"), opened.slot);
    resume_nothing();
    ck_assert_uint_eq(slot_of_another_lock("c"), opened.slot);
}
END_TEST

/* The previous agent has retired a slot. Case 0: the lock's present slot is above the retired slot.
 * Cases 1 and 2: all slots in use are below the retired slot. In case 2, this agent takes no slot
 * before all handles are known. */
START_TEST(a_slot_that_the_agent_before_retired_is_freed)
{
    struct hfi_opened first = rig_open_granted(rig, client, "0", 0);
    struct hfi_opened opened = cell_open_granted(client);
    rig_recall(rig, "a", 2);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    if (_i != 0) { /* frees a slot below that of "a" */
        rig_close(rig, client, first.handle);
        rig_recall(rig, "0", 1);
        rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    }
    ask_for_another_generation(other);
    struct hfi_opened moved = cell_opened_by(other);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_RETIRED);
    ck_assert(_i == 0 ? moved.slot > opened.slot : moved.slot < opened.slot);
    begin_again(moved.slot);
    if (_i != 2) {
        ck_assert_uint_ne(slot_of_another_lock("b"), opened.slot);
    }
    resume_nothing();
    uint32_t slots[] = {slot_of_another_lock("c"), slot_of_another_lock("d")};
    ck_assert(slots[0] == opened.slot || slots[1] == opened.slot);
}
END_TEST

/* The agent is killed before the row of the new slot is durable, so the next agent adopts the old
 * slot. No process gets a token in the old slot. Case 0: the quorum says that the grant is not
 * fresh, so that the previous agent may have used it. Case 1: the grant is fresh. */
START_TEST(a_move_that_was_not_durable_is_made_again)
{
    struct hfi_opened opened = cell_open_granted(client);
    struct hfi_held held;
    rig_recall(rig, "a", 1);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    go_by(MESSAGE_NUMBERS, "abc");
    ck_assert_ptr_null(rig_open(rig, other, "a", 0)); /* the slot's row is lost */
    begin_again(opened.slot);
    other = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, other, "a", 0));
    rig->fresh = _i == 1;
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_TOKEN_GENERATION + 1,
              MESSAGE_TOKEN_GENERATION + 100);
    ck_assert_int_ne(cell_try(&opened, &held), HFI_HELD);
    const struct message *back = rig_sent(rig, MESSAGE_GIVE_BACK);
    ck_assert_uint_ge(back->as.give_back.token_used, MESSAGE_TOKEN_GENERATION + 100);
    rig_returned(rig, back);
    if (_i == 0) { /* the OPEN is answered without the grant, because the lock has moved */
        ck_assert_uint_eq(cell_opened_by(other).slot, opened.slot);
    }
    rig->fresh = true;
    ck_assert_ptr_null(rig_open(rig, other, "a", 0));
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_TOKEN_GENERATION + 101,
              MESSAGE_TOKEN_GENERATION + 200);
    struct hfi_opened again = cell_opened_by(other);
    ck_assert_uint_ne(again.slot, opened.slot);
    ck_assert_int_eq(cell_try(&again, &held), HFI_HELD);
    ck_assert_uint_eq(held.token, MESSAGE_TOKEN_GENERATION + 101);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_RETIRED);
}
END_TEST

/* A process writes old tokens into the region again and again, so that the lock moves at each OPEN.
 * The lock takes no more slots than it has handles. */
START_TEST(forged_tokens_use_up_no_slots)
{
    struct hfi_opened opened = cell_open_granted(client);
    rig_recall(rig, "a", 1);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    go_by(MESSAGE_NUMBERS, "abc");
    for (uint32_t i = 0; i < 3 * RIG_LOCKS; i++) {
        for (uint32_t slot = 0; slot < RIG_LOCKS; slot++) {
            rig->region.slots[slot].token_top = 1;
        }
        rig->reply_count = 0;
        rig->send_count = 0;
        ck_assert_ptr_null(rig_open(rig, other, "a", 0));
        ck_assert_uint_eq(rig->rows, 2 + i);
        rig_refuse(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_REFUSED_IN_USE);
        rig_close(rig, other, cell_opened_by(other).handle);
    }
    ck_assert_uint_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_RETIRED);
    ck_assert_uint_lt(slot_of_another_lock("b"), 4);
}
END_TEST

/* ---- an administrator changes the voters ---- */

static struct hfi_frame member(uint32_t act, const char *name, const char *address)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_MEMBER};
    frame.member = (struct hfi_member_frame){.act = act,
                                             .id = 4711,
                                             .name = {name, (uint32_t)strlen(name)},
                                             .address = {address, (uint32_t)strlen(address)}};
    return frame;
}

static void answer(uint64_t id, enum message_change_stage stage, enum message_change_reason reason)
{
    struct message message = {.kind = MESSAGE_MEMBERED, .from = rig->config.voters[0]};
    message.as.membered = (struct message_membered){
        .agent = rig->config.agent, .request_id = id, .stage = stage, .reason = reason};
    message.as.membered.done = 3;
    message.as.membered.total = 257;
    message_agent_set(&message.as.membered.subject, "host-d", 6);
    rig_receive(rig, &message);
}

/* The client of the rig's own user may not change the voters, because it has no right in the
 * cell. */
START_TEST(a_change_goes_to_a_voter_and_its_answer_to_the_client)
{
    struct hfi_frame add = member(HF_MEMBER_ADD, "host-d", "tcp://10.0.0.4:7411");
    const struct rig_reply *denied = rig_ask(rig, client, &add);
    ck_assert_int_eq(denied->frame.error, HF_EACCES);
    uint32_t governor = rig_connect(rig, HOST_MAY_USE | HOST_MAY_ADMIN | HOST_MAY_CHANGE_VOTERS);
    set_up_voters(7, 6, 0); /* host-a does not answer */
    ck_assert_ptr_null(rig_ask(rig, governor, &add));
    const struct message *asked = rig_sent(rig, MESSAGE_MEMBER);
    ck_assert_ptr_nonnull(asked);
    ck_assert_uint_eq(cell_way()->to, 1);
    ck_assert_int_eq(asked->as.member.act, MESSAGE_MEMBER_ADD);
    ck_assert_uint_eq(asked->as.member.request_id, 4711);
    ck_assert_mem_eq(asked->as.member.voter.text, "host-d", 6);
    ck_assert_str_eq(asked->as.member.address, "tcp://10.0.0.4:7411");
    answer(4712, MESSAGE_CHANGE_LEARNS, MESSAGE_CHANGE_NONE); /* the answer to another change */
    ck_assert_uint_eq(rig_count(rig, governor, HFI_FRAME_MEMBERED), 0);
    answer(4711, MESSAGE_CHANGE_LEARNS, MESSAGE_CHANGE_NONE);
    const struct hfi_membered_frame *membered =
        &rig_find(rig, governor, HFI_FRAME_MEMBERED)->frame.membered;
    ck_assert_uint_eq(membered->stage, HF_MEMBER_LEARNS);
    ck_assert_uint_eq(membered->done, 3);
    ck_assert_uint_eq(membered->total, 257);
    ck_assert(is_text(&membered->subject, "host-d"));
    answer(4711, MESSAGE_CHANGE_CHOSEN, MESSAGE_CHANGE_NONE); /* no client waits for this answer */
    ck_assert_uint_eq(rig_count(rig, governor, HFI_FRAME_MEMBERED), 1);
}
END_TEST

/* The host repeats a request, then sends it to other voters, and gives up after two seconds. It
 * asks all other voters before the voter that is to be removed. */
START_TEST(a_change_that_nobody_answers_ends)
{
    uint32_t governor = rig_connect(rig, HOST_MAY_CHANGE_VOTERS);
    struct hfi_frame remove = member(HF_MEMBER_REMOVE, "host-a", "");
    set_up_voters(7, 7, 0);
    ck_assert_ptr_null(rig_ask(rig, governor, &remove));
    ck_assert_uint_eq(cell_way()->to, 1);
    rig_pass(rig, 700 * RIG_MS);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_MEMBER), 3);
    ck_assert_uint_eq(cell_way()->to, 2);
    rig_pass(rig, 1500 * RIG_MS);
    ck_assert_int_eq(rig_find(rig, governor, HFI_FRAME_DONE)->frame.error, HF_ETIMEDOUT);
    uint32_t count = rig_sent_count(rig, MESSAGE_MEMBER);
    rig_pass(rig, 3000 * RIG_MS);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_MEMBER), count);
    remove = member(HF_MEMBER_REMOVE, "host-a", "tcp://10.0.0.1:7411");
    ck_assert_int_eq(rig_ask(rig, governor, &remove)->frame.error, HF_EINVAL);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host_record");
    TCase *tests = cell_case(suite, "host_record");
    tcase_add_test(tests, a_coordinator_keeps_its_partitions_under_another_index);
    tcase_add_test(tests, a_request_leaves_a_removed_coordinator);
    tcase_add_test(tests, people_see_the_voters_of_the_record);
    tcase_add_test(tests, the_own_host_joins_and_is_removed);
    tcase_add_test(tests, a_voter_moves);
    tcase_add_test(tests, from_one_voter_to_three_and_back);
    tcase_add_loop_test(tests, a_lock_leaves_a_slot_of_an_older_generation_before_the_host_asks, 0,
                        2);
    tcase_add_test(tests, a_lock_stays_in_a_slot_of_this_generation);
    tcase_add_test(tests, a_slot_that_is_left_before_all_handles_are_known_is_freed);
    tcase_add_loop_test(tests, a_slot_that_the_agent_before_retired_is_freed, 0, 3);
    tcase_add_loop_test(tests, a_move_that_was_not_durable_is_made_again, 0, 2);
    tcase_add_test(tests, forged_tokens_use_up_no_slots);
    tcase_add_test(tests, a_change_goes_to_a_voter_and_its_answer_to_the_client);
    tcase_add_test(tests, a_change_that_nobody_answers_ends);
    return suite_run(suite);
}
