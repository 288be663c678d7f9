/*
 * Tries on a host: processes that wait only for an idle grant of another host. The tests check what
 * the host of these processes asks the quorum, and how the host answers them if the grant is in use
 * on another host. They also check the owner's host when other hosts only try. The test plays the
 * quorum.
 */
#include "host_cell.h"

#include <string.h>

#include "../suite_main.h"
#include "core/quorum.h"

/* A process in the queue, with its open handle. */
struct waiter {
    struct hfi_opened opened;
    uint64_t place;
    bool shared;
    bool trying;
};

/* The process looks at the lock again, and does not sleep. */
static enum hfi_outcome look(struct waiter *waiter, struct hfi_held *held)
{
    struct hfi_actor actor = rig_actor(rig, waiter->opened.holder);
    struct hfi_request request = {
        .slot = waiter->opened.slot, .seat = waiter->opened.seat, .trying = waiter->trying};
    struct hfi_wait_limit none = {.deadline_ns = waiter->trying ? rig->now_ns : INT64_MAX};
    return waiter->shared ? hfi_wait_shared(&actor, &request, &none, &waiter->place, held)
                          : hfi_wait_exclusive(&actor, &request, &none, &waiter->place, held);
}

static enum hfi_outcome outcome_of(struct waiter *waiter)
{
    struct hfi_held held;
    return look(waiter, &held);
}

/* Sends OPEN, which is answered although the grant has not come. */
static struct waiter opens(uint32_t who)
{
    if (rig_open(rig, who, "a", 0) == NULL) {
        rig_pass(rig, 50 * RIG_MS);
    }
    return (struct waiter){.opened = cell_opened_by(who)};
}

/* The waiter tries the lock. Its first call of hfi_wait_exclusive() or hfi_wait_shared() ends
 * without an answer. */
static void tries(struct waiter *waiter, uint32_t who, bool shared)
{
    waiter->opened.seat = rig_seat(rig, who, waiter->opened.handle, shared);
    waiter->shared = shared;
    waiter->trying = true;
    waiter->place = 0;
    ck_assert_int_eq(outcome_of(waiter), HFI_UNGRANTED);
    ck_assert_uint_ne(waiter->place, 0);
    struct hfi_actor actor = rig_actor(rig, waiter->opened.holder);
    hfi_ring(&actor, waiter->opened.slot);
    rig_ring(rig);
}

static void leaves(const struct waiter *waiter)
{
    struct hfi_actor actor = rig_actor(rig, waiter->opened.holder);
    struct hfi_request request = {.slot = waiter->opened.slot, .seat = waiter->opened.seat};
    uint64_t place = *hfi_seat_wait(&rig->region, waiter->opened.seat);
    hfi_leave(&actor, &request, &place);
}

static const struct message *acquire(void)
{
    return rig_sent(rig, MESSAGE_ACQUIRE);
}

/* The client's OPEN was refused at once, and the host's request has ended. */
static struct waiter opens_in_vain(uint32_t who)
{
    ck_assert_ptr_null(rig_open(rig, who, "a", 0));
    rig_refuse(rig, acquire(), MESSAGE_REFUSED_IN_USE);
    return (struct waiter){.opened = cell_opened_by(who)};
}

/* ---- the host whose processes try ---- */

START_TEST(an_open_is_answered_as_soon_as_the_lock_is_in_use)
{
    ck_assert_ptr_null(rig_open(rig, client, "a", 900 * RIG_MS));
    ck_assert_uint_eq(acquire()->as.acquire.tries, MESSAGE_TRIES_ONLY);
    rig_refuse(rig, acquire(), MESSAGE_REFUSED_IN_USE);
    (void)cell_opened_by(client);
    uint32_t count = rig->send_count; /* the host has nothing left to do for this OPEN */
    rig_pass(rig, 5000 * RIG_MS);
    ck_assert_uint_eq(rig->send_count, count);
}
END_TEST

START_TEST(a_try_is_refused_at_once)
{
    struct waiter waiter = opens_in_vain(client);
    uint32_t asked = rig_sent_count(rig, MESSAGE_ACQUIRE);
    tries(&waiter, client, _i == 1);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), asked + 1);
    ck_assert_uint_eq(acquire()->as.acquire.tries, MESSAGE_TRIES_ONLY);
    rig_refuse(rig, acquire(), MESSAGE_REFUSED_IN_USE);
    ck_assert_int_eq(outcome_of(&waiter), HFI_REFUSED);
    ck_assert_uint_eq(waiter.place, 0);
    uint32_t count = rig->send_count;
    rig_ring(rig);
    rig_pass(rig, 5000 * RIG_MS);
    ck_assert_uint_eq(rig->send_count, count);
}
END_TEST

START_TEST(a_try_has_the_grant_that_was_idle)
{
    struct waiter waiter = opens_in_vain(client);
    struct hfi_held held;
    tries(&waiter, client, false);
    rig_grant(rig, acquire(), 1, 100);
    ck_assert_int_eq(look(&waiter, &held), HFI_HELD);
}
END_TEST

/* A try keeps its place in the queue from one hfi_wait_exclusive() to the next, so the host sends
 * one request for all these calls. */
START_TEST(a_slow_answer_finds_the_try_that_it_is_for)
{
    struct waiter waiter = opens_in_vain(client);
    tries(&waiter, client, false);
    uint32_t asked = rig_sent_count(rig, MESSAGE_ACQUIRE);
    uint64_t place = waiter.place;
    for (uint32_t i = 0; i < 5; i++) {
        rig_pass(rig, 20 * RIG_MS);
        ck_assert_int_eq(outcome_of(&waiter), HFI_UNGRANTED);
        rig_ring(rig);
    }
    ck_assert_uint_eq(waiter.place, place);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), asked);
    rig_refuse(rig, acquire(), MESSAGE_REFUSED_IN_USE);
    ck_assert_int_eq(outcome_of(&waiter), HFI_REFUSED);
}
END_TEST

/* The second process's try gets its own request: the lock may have become free since the first
 * process tried. */
START_TEST(a_try_that_came_later_has_an_answer_of_its_own)
{
    struct waiter first = opens_in_vain(client);
    struct waiter second = opens_in_vain(other);
    tries(&first, client, false);
    uint32_t asked = rig_sent_count(rig, MESSAGE_ACQUIRE);
    tries(&second, other, false);
    rig_refuse(rig, acquire(), MESSAGE_REFUSED_IN_USE);
    ck_assert_int_eq(outcome_of(&first), HFI_REFUSED);
    ck_assert_int_eq(outcome_of(&second), HFI_UNGRANTED);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), asked + 1);
    ck_assert_uint_eq(acquire()->as.acquire.tries, MESSAGE_TRIES_ONLY);
    rig_refuse(rig, acquire(), MESSAGE_REFUSED_IN_USE);
    ck_assert_int_eq(outcome_of(&second), HFI_REFUSED);
}
END_TEST

/* A process that waits without a limit joins a try. The request goes on, with the same id, and
 * keeps its place in the coordinator's queue. */
START_TEST(who_waits_is_not_refused)
{
    struct waiter first = opens_in_vain(client);
    struct waiter second = opens_in_vain(other);
    tries(&first, client, false);
    uint64_t id = acquire()->as.acquire.request_id;
    cell_wait_in_queue(&second.opened, other, false);
    second.place = *hfi_seat_wait(&rig->region, second.opened.seat);
    ck_assert_uint_eq(acquire()->as.acquire.tries, MESSAGE_TRIES_ALSO);
    ck_assert_uint_eq(acquire()->as.acquire.request_id, id);
    uint32_t asked = rig_sent_count(rig, MESSAGE_ACQUIRE);
    rig_refuse(rig, acquire(), MESSAGE_REFUSED_IN_USE);
    ck_assert_int_eq(outcome_of(&first), HFI_REFUSED);
    /* The coordinator may have ended the request together with the try, so the host sends it
     * again. */
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), asked + 1);
    ck_assert_uint_eq(acquire()->as.acquire.tries, MESSAGE_TRIES_NONE);
    ck_assert_uint_eq(acquire()->as.acquire.request_id, id);
    rig_refuse(rig, acquire(), MESSAGE_REFUSED_IN_USE); /* a late repeat, or a false message */
    rig_grant(rig, acquire(), 1, 100);
    struct hfi_held held;
    ck_assert_int_eq(look(&second, &held), HFI_HELD);
}
END_TEST

/* A second process has joined the queue. Its ring has not arrived when the answer to the first
 * process comes. The request goes on for the second process. */
START_TEST(who_comes_with_the_answer_keeps_the_request)
{
    struct waiter first = opens_in_vain(client);
    struct waiter second = opens_in_vain(other);
    tries(&first, client, false);
    uint64_t id = acquire()->as.acquire.request_id;
    second.opened.seat = rig_seat(rig, other, second.opened.handle, false);
    second.place = (uint64_t)rig->region.slots[second.opened.slot].ticket_next++
                       << HFI_WAIT_TICKET_SHIFT |
                   HFI_WAIT_WAITING;
    *hfi_seat_wait(&rig->region, second.opened.seat) = second.place;
    rig_refuse(rig, acquire(), MESSAGE_REFUSED_IN_USE);
    ck_assert_int_eq(outcome_of(&first), HFI_REFUSED);
    ck_assert_uint_eq(acquire()->as.acquire.tries, MESSAGE_TRIES_NONE);
    ck_assert_uint_eq(acquire()->as.acquire.request_id, id);
}
END_TEST

/* A process that waited has left. The next copy of the request says that only tries wait. So the
 * coordinator refuses the request if the lock is in use. */
START_TEST(a_request_that_nobody_waits_for_any_more_ends)
{
    struct waiter waiter = opens_in_vain(client);
    cell_wait_in_queue(&waiter.opened, client, false);
    ck_assert_uint_eq(acquire()->as.acquire.tries, MESSAGE_TRIES_NONE);
    leaves(&waiter);
    rig_pass(rig, 251 * RIG_MS);
    ck_assert_uint_eq(acquire()->as.acquire.tries, MESSAGE_TRIES_ONLY);
    rig_refuse(rig, acquire(), MESSAGE_REFUSED_IN_USE);
    uint32_t count = rig->send_count;
    rig_pass(rig, 5000 * RIG_MS);
    ck_assert_uint_eq(rig->send_count, count);
}
END_TEST

/* A coordinator of an earlier release does not answer a try. The try then ends by its own
 * timeout. */
START_TEST(without_an_answer_a_try_stays_in_the_queue)
{
    struct waiter waiter = opens_in_vain(client);
    tries(&waiter, client, false);
    rig_pass(rig, 900 * RIG_MS);
    ck_assert_int_eq(outcome_of(&waiter), HFI_UNGRANTED);
    leaves(&waiter);
    rig_grant(rig, acquire(), 1, 100); /* the grant comes late, and the next try gets the lock */
    struct hfi_held held;
    ck_assert_int_eq(cell_try(&waiter.opened, &held), HFI_HELD);
}
END_TEST

/* ---- the host of the owner ---- */

static void recall_numbered(enum message_recall what, uint64_t version, uint64_t id)
{
    struct message message = {.kind = MESSAGE_RECALL, .from = rig->config.voters[owner]};
    message.as.version = (struct message_version){.agent = rig->config.agent,
                                                  .epoch = 1,
                                                  .request_id = id,
                                                  .version = {1 << 16 | 1, version},
                                                  .recall = (uint8_t)what};
    message_name_set(&message.as.version.name, "a", 1);
    rig_receive(rig, &message);
}

static void recall(enum message_recall what, uint64_t version)
{
    recall_numbered(what, version, UINT64_C(7) << 16 | 0xffff);
}

/* Checks how many answers "in use" the host has sent, and the version in the latest one. */
static void says_in_use(uint32_t count, uint64_t version)
{
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_AMEND), count);
    const struct message *answer = rig_sent(rig, MESSAGE_AMEND);
    ck_assert(answer->as.amend.in_use);
    ck_assert_uint_eq(answer->as.amend.request_id, UINT64_C(7) << 16 | 0xffff);
    ck_assert_uint_eq(answer->as.amend.version.sequence, version);
    ck_assert_uint_eq(answer->as.amend.mode, MESSAGE_MODE_NONE);
    ck_assert_uint_eq(answer->as.amend.token_last, 0);
    ck_assert_uint_eq(answer->as.amend.token_used, 0);
    ck_assert_uint_eq(answer->as.amend.lock_delay_ms, 0);
    ck_assert_uint_eq(cell_way()->to, owner);
}

START_TEST(an_idle_grant_goes_back_for_a_try)
{
    struct hfi_opened opened = cell_open_granted(client);
    struct hfi_held held = rig_take(rig, &opened);
    cell_release(&opened, &held);
    recall(MESSAGE_RECALL_IF_IDLE + (uint32_t)_i, 1);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_AMEND), 0);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 1);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.token_used, 1);
}
END_TEST

/* A recall for a try leaves no trace: no recall bit is set, and the grant stays when the hold
 * ends. */
START_TEST(a_grant_in_use_stays_as_it_is)
{
    struct hfi_opened opened = cell_open_granted(client);
    struct hfi_held held = rig_take(rig, &opened);
    uint64_t word = rig_word(rig, opened.slot);
    recall(MESSAGE_RECALL_IF_IDLE + (uint32_t)_i, 1);
    says_in_use(1, 1);
    ck_assert_uint_eq(rig_word(rig, opened.slot), word);
    cell_release(&opened, &held);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 0);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
}
END_TEST

/* The recall for an upgrade has no number, because the coordinator wants no answer. */
START_TEST(a_recall_without_a_number_gets_no_answer)
{
    struct hfi_opened opened = cell_open_granted(client);
    struct hfi_held held = rig_take(rig, &opened);
    recall_numbered(MESSAGE_RECALL_IF_IDLE, 1, 0);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_AMEND), 0);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 0);
    cell_release(&opened, &held);
    recall_numbered(MESSAGE_RECALL_IF_IDLE, 1, 0);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 1);
}
END_TEST

START_TEST(a_recall_for_one_that_waits_may_ask_to_be_told)
{
    struct hfi_opened opened = cell_open_granted(client);
    struct hfi_held held = rig_take(rig, &opened);
    recall(MESSAGE_RECALL_REPORTS, 1);
    says_in_use(1, 1);
    ck_assert_uint_ne(rig_word(rig, opened.slot) & HFI_W_RECALL, 0);
    recall(MESSAGE_RECALL_IF_IDLE, 1); /* this recall does not replace the earlier recall */
    says_in_use(2, 1);
    cell_release(&opened, &held);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 1);
    recall(MESSAGE_RECALL_REPORTS, 1);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_AMEND), 2);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 2); /* the give-back is repeated */
}
END_TEST

/* Only readers hold the lock. A process of another host that wants to read gets in beside them; one
 * that wants to write does not. */
START_TEST(readers_inside_let_only_readers_in)
{
    struct hfi_opened opened = cell_open_granted(client);
    opened.seat = rig_seat(rig, client, opened.handle, true);
    struct hfi_held held;
    ck_assert_int_eq(cell_read(&opened, &held), HFI_HELD);
    recall(MESSAGE_RECALL_IF_IDLE, 1);
    says_in_use(1, 1);
    recall(MESSAGE_RECALL_TO_READ, 1);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_AMEND), 2);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_AMEND)->as.amend.mode, MESSAGE_MODE_SHARED);
    ck_assert(!rig_sent(rig, MESSAGE_AMEND)->as.amend.in_use);
    recall(MESSAGE_RECALL_TO_READ, 1); /* the downgrade is still under way */
    says_in_use(3, 1);
}
END_TEST

/* A grant that has not arrived yet, and for which a process waits, counts as in use. The host keeps
 * its turn. */
START_TEST(a_grant_on_its_way_is_in_use)
{
    struct waiter waiter = opens(client);
    cell_wait_in_queue(&waiter.opened, client, false);
    waiter.place = *hfi_seat_wait(&rig->region, waiter.opened.seat);
    for (uint32_t i = 1; i <= 3; i++) {
        recall(MESSAGE_RECALL_IF_IDLE, 1);
        says_in_use(i, 1);
    }
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 0);
    rig_answer(rig, acquire(), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    struct hfi_held held;
    ck_assert_int_eq(look(&waiter, &held), HFI_HELD);
}
END_TEST

/* No process here wants the lock any more, so a grant on its way does not count as in use. After
 * the grant has come, the host decides whether it is idle. */
START_TEST(a_grant_on_its_way_to_nobody_is_not_in_use)
{
    (void)opens(client);
    recall(MESSAGE_RECALL_IF_IDLE, 1);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_AMEND), 0);
    rig_answer(rig, acquire(), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    recall(MESSAGE_RECALL_IF_IDLE, 1);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 1);
}
END_TEST

START_TEST(a_grant_of_before_is_none_of_its_concern)
{
    struct hfi_opened opened = cell_open_granted(client);
    (void)rig_take(rig, &opened);
    recall(MESSAGE_RECALL_IF_IDLE, 0); /* a version below that of the grant */
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_AMEND), 0);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 0);
}
END_TEST

/* Readers of this host use its share. A process of this host that tries to write is refused, and
 * the share stays. */
START_TEST(a_try_to_write_beside_own_readers_is_refused_here)
{
    struct waiter reader = opens_in_vain(client);
    struct waiter writer = opens_in_vain(other);
    tries(&reader, client, true);
    rig_answer(rig, acquire(), MESSAGE_MODE_SHARED, 1, 5, 5);
    struct hfi_held held;
    ck_assert_int_eq(look(&reader, &held), HFI_HELD);
    uint32_t count = rig->send_count;
    tries(&writer, other, false);
    ck_assert_int_eq(outcome_of(&writer), HFI_REFUSED);
    ck_assert_uint_eq(rig->send_count, count);
    ck_assert_uint_eq(rig_word(rig, reader.opened.slot) & HFI_W_RECALL, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host_tries");
    TCase *tests = cell_case(suite, "tries");
    tcase_add_test(tests, an_open_is_answered_as_soon_as_the_lock_is_in_use);
    tcase_add_loop_test(tests, a_try_is_refused_at_once, 0, 2);
    tcase_add_test(tests, a_try_has_the_grant_that_was_idle);
    tcase_add_test(tests, a_slow_answer_finds_the_try_that_it_is_for);
    tcase_add_test(tests, a_try_that_came_later_has_an_answer_of_its_own);
    tcase_add_test(tests, who_waits_is_not_refused);
    tcase_add_test(tests, who_comes_with_the_answer_keeps_the_request);
    tcase_add_test(tests, a_request_that_nobody_waits_for_any_more_ends);
    tcase_add_test(tests, without_an_answer_a_try_stays_in_the_queue);
    tests = cell_case(suite, "owner");
    tcase_add_loop_test(tests, an_idle_grant_goes_back_for_a_try, 0, 2);
    tcase_add_loop_test(tests, a_grant_in_use_stays_as_it_is, 0, 2);
    tcase_add_test(tests, a_recall_without_a_number_gets_no_answer);
    tcase_add_test(tests, a_recall_for_one_that_waits_may_ask_to_be_told);
    tcase_add_test(tests, readers_inside_let_only_readers_in);
    tcase_add_test(tests, a_grant_on_its_way_is_in_use);
    tcase_add_test(tests, a_grant_on_its_way_to_nobody_is_not_in_use);
    tcase_add_test(tests, a_grant_of_before_is_none_of_its_concern);
    tcase_add_test(tests, a_try_to_write_beside_own_readers_is_refused_here);
    return suite_run(suite);
}
