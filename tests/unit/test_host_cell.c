/*
 * The host core in a cell of several voters: requests that get lost, answers that come late, twice
 * or in the wrong order, and grants that several hosts share. The test plays the quorum.
 */
#include "host_cell.h"

#include <stdlib.h>

#include "../suite_main.h"
#include "core/quorum.h"

/* ---- what clients do ---- */

/* A waiting reader looks at the lock again, takes it, and leaves the queue. */
static struct hfi_held enter(struct hfi_opened *opened)
{
    struct hfi_actor actor = rig_actor(rig, opened->holder);
    struct hfi_request request = {.slot = opened->slot, .seat = opened->seat};
    struct hfi_wait_limit none = {.deadline_ns = rig->now_ns};
    uint64_t place = *hfi_seat_wait(&rig->region, opened->seat);
    struct hfi_held held = {0};
    ck_assert_int_eq(hfi_wait_shared(&actor, &request, &none, &place, &held), HFI_HELD);
    return held;
}

static uint32_t swapped;
static uint32_t at_the_swap;

/* Replaces the kernel's wake. Stores how many hand-overs were left when the next holder was
 * woken. */
static void look_at_the_count(void *arg, _Atomic uint32_t *word, int count)
{
    (void)arg;
    (void)word;
    (void)count;
    at_the_swap = rig->region.slots[swapped].handovers_left;
}

/* ---- messages ---- */

static uint64_t sent_id(enum message_kind kind)
{
    const struct message *sent = rig_sent(rig, kind);
    ck_assert_ptr_nonnull(sent);
    return kind == MESSAGE_ACQUIRE ? sent->as.acquire.request_id
           : kind == MESSAGE_AMEND ? sent->as.amend.request_id
                                   : sent->as.give_back.request_id;
}

static void say_owner(uint32_t voter)
{
    struct message message = {.kind = MESSAGE_OWNER};
    message.from = rig->config.voters[voter];
    message.as.owner.ballot = 1 << 16 | (voter + 1);
    message_partition_add(&message.as.owner.partitions, names_partition("a", 1));
    rig_receive(rig, &message);
}

static void refuse_not_owner(const struct message *acquire, uint32_t from, uint32_t hint)
{
    struct message message = {.kind = MESSAGE_REFUSED};
    message.from = rig->config.voters[from];
    message.as.refused = (struct message_refused){.agent = rig->config.agent,
                                                  .epoch = 1,
                                                  .request_id = acquire->as.acquire.request_id,
                                                  .name = acquire->as.acquire.name,
                                                  .reason = MESSAGE_REFUSED_NOT_OWNER,
                                                  .owner = rig->config.voters[hint]};
    rig_receive(rig, &message);
}

static void voters_up(uint32_t up)
{
    struct host_event event = {.kind = HOST_VOTERS};
    event.as.voters.up = event.as.voters.answering = up;
    rig_step(rig, event);
}

/* ---- requests and their ways ---- */

/* Checks that the host sends a request again with the same id, on different ways: directly, through
 * another voter, and to another voter. */
static void assert_sent_again(enum message_kind kind)
{
    uint64_t id = sent_id(kind);
    uint32_t count = rig_sent_count(rig, kind);
    ck_assert_uint_eq(cell_way()->to, owner);
    ck_assert_uint_eq(cell_way()->relay, HOST_NO_RELAY);
    rig_pass(rig, 249 * RIG_MS);
    ck_assert_uint_eq(rig_sent_count(rig, kind), count);
    rig_pass(rig, 2 * RIG_MS);
    ck_assert_uint_eq(rig_sent_count(rig, kind), count + 1);
    ck_assert_uint_eq(cell_way()->to, owner);
    ck_assert_uint_lt(cell_way()->relay, VOTERS);
    ck_assert_uint_ne(cell_way()->relay, owner);
    rig_pass(rig, 500 * RIG_MS);
    ck_assert_uint_eq(rig_sent_count(rig, kind), count + 2);
    ck_assert_uint_ne(cell_way()->to, owner);
    ck_assert_uint_eq(cell_way()->relay, HOST_NO_RELAY);
    ck_assert_uint_eq(sent_id(kind), id);
}

START_TEST(a_lost_acquire_is_asked_again)
{
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    assert_sent_again(MESSAGE_ACQUIRE);
    ck_assert_uint_ge(rig_sent(rig, MESSAGE_ACQUIRE)->as.acquire.waited_ms, 700);
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 0, 0);
    uint32_t count = rig->send_count;
    rig_pass(rig, 5000 * RIG_MS);
    ck_assert_uint_eq(rig->send_count, count);
}
END_TEST

static bool asks_only(const char *text)
{
    struct message_name name;
    message_name_set(&name, text, strlen(text));
    return host_asks_only(rig->host, &name);
}

START_TEST(it_knows_whether_it_asks_for_one_name_only)
{
    ck_assert(asks_only("a") && asks_only("b"));
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    ck_assert(asks_only("a") && !asks_only("b") && !asks_only("none"));
    struct message first = *rig_sent(rig, MESSAGE_ACQUIRE);
    ck_assert_ptr_null(rig_open(rig, client, "b", 0));
    ck_assert(!asks_only("a") && !asks_only("b"));
    rig_grant(rig, &first, 0, 0);
    ck_assert(!asks_only("a") && asks_only("b"));
}
END_TEST

START_TEST(a_lost_amendment_is_asked_again)
{
    (void)cell_open_granted(client);
    ck_assert_ptr_null(rig_open(rig, client, "a", 900 * RIG_MS));
    assert_sent_again(MESSAGE_AMEND);
    rig_answer(rig, rig_sent(rig, MESSAGE_AMEND), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_OPENED), 2);
}
END_TEST

START_TEST(a_lost_give_back_is_sent_again)
{
    struct hfi_opened opened = cell_open_granted(client);
    rig_recall(rig, "a", 1);
    assert_sent_again(MESSAGE_GIVE_BACK);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    uint32_t count = rig->send_count;
    rig_pass(rig, 5000 * RIG_MS);
    ck_assert_uint_eq(rig->send_count, count);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_NONE);
}
END_TEST

START_TEST(a_new_coordinator_is_asked_at_once)
{
    uint32_t next = (owner + 1) % VOTERS;
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    uint64_t id = sent_id(MESSAGE_ACQUIRE);
    say_owner(next);
    rig_pass(rig, 0);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 2);
    ck_assert_uint_eq(cell_way()->to, next);
    ck_assert_uint_eq(sent_id(MESSAGE_ACQUIRE), id);
}
END_TEST

START_TEST(a_hint_is_followed_at_once_but_not_in_circles)
{
    uint32_t next = (owner + 1) % VOTERS;
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    for (uint32_t i = 0; i < 50; i++) {
        uint32_t from = i % 2 == 0 ? owner : next;
        refuse_not_owner(rig_sent(rig, MESSAGE_ACQUIRE), from, i % 2 == 0 ? next : owner);
    }
    ck_assert_uint_gt(rig_sent_count(rig, MESSAGE_ACQUIRE), 2);
    ck_assert_uint_lt(rig_sent_count(rig, MESSAGE_ACQUIRE), 10);
    rig_pass(rig, 1000 * RIG_MS); /* the host still repeats the request, at its usual pace */
    ck_assert_uint_gt(rig_sent_count(rig, MESSAGE_ACQUIRE), 6);
}
END_TEST

START_TEST(a_voter_that_is_down_is_not_asked)
{
    voters_up(((1U << VOTERS) - 1) & ~(1U << owner));
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    ck_assert_uint_ne(cell_way()->to, owner);
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 0, 0);
    ck_assert_ptr_nonnull(rig_find(rig, client, HFI_FRAME_OPENED));
}
END_TEST

/* A broken connection loses the messages on their way, and a restarted voter does not know them. So
 * the host asks a voter again as soon as the voter is connected. */
START_TEST(a_voter_that_is_back_is_asked_at_once)
{
    const uint32_t all = (1U << VOTERS) - 1;
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    uint64_t id = sent_id(MESSAGE_ACQUIRE);
    rig_pass(rig, 3000 * RIG_MS); /* by now the host sends the request once a second */
    voters_up(all & ~(1U << owner) & ~(1U << (owner + 1) % VOTERS));
    rig_pass(rig, 50 * RIG_MS);
    uint32_t count = rig_sent_count(rig, MESSAGE_ACQUIRE);
    voters_up(all & ~(1U << owner));
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), count);
    voters_up(all);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), count + 1);
    ck_assert_uint_eq(sent_id(MESSAGE_ACQUIRE), id);
    ck_assert_uint_eq(cell_way()->to, owner);
    ck_assert_uint_eq(cell_way()->relay, HOST_NO_RELAY);
    struct host_event linked = {.kind = HOST_VOTERS, .as.voters = {all, all, 0, 1U << owner}};
    rig_pass(rig, 500 * RIG_MS);
    count = rig_sent_count(rig, MESSAGE_ACQUIRE);
    rig_step(rig, linked); /* its link came up again: it may have been restarted */
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), count + 1);
}
END_TEST

/* The link to one voter breaks again and again, and each request on it may be lost. The other ways
 * still get their turns. */
START_TEST(a_link_that_comes_and_goes_leaves_other_ways_their_turns)
{
    const uint32_t all = (1U << VOTERS) - 1;
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_pass(rig, 3000 * RIG_MS);
    uint32_t before = rig_sent_count(rig, MESSAGE_ACQUIRE);
    uint32_t other_ways = 0;
    for (uint32_t i = 0; i < 100; i++) {
        uint32_t count = rig_sent_count(rig, MESSAGE_ACQUIRE);
        voters_up(all);
        rig_pass(rig, 80 * RIG_MS);
        bool straight = cell_way()->to == owner && cell_way()->relay == HOST_NO_RELAY;
        other_ways += rig_sent_count(rig, MESSAGE_ACQUIRE) > count && !straight;
        voters_up(all & ~(1U << owner));
        rig_pass(rig, 20 * RIG_MS);
    }
    ck_assert_uint_gt(other_ways, 20);
    ck_assert_uint_lt(rig_sent_count(rig, MESSAGE_ACQUIRE) - before, 90);
}
END_TEST

/* A voter that is connected but never answered is shown as down. This agent itself is shown as
 * up. */
START_TEST(a_voter_that_never_answered_is_not_reported_as_up)
{
    struct hfi_frame status = {.kind = HFI_FRAME_STATUS};
    struct host_event event = {.kind = HOST_VOTERS};
    for (uint32_t answering = 0; answering < 1U << VOTERS; answering++) {
        event.as.voters.up = (1U << VOTERS) - 1;
        event.as.voters.answering = answering;
        rig_step(rig, event);
        const struct hfi_stated *stated = &rig_ask(rig, client, &status)->frame.stated;
        for (uint32_t i = 0; i < VOTERS; i++) {
            bool is_up = i == rig->config.self || (answering >> i & 1) != 0;
            ck_assert_uint_eq(stated->voters[i].state, is_up ? HF_VOTER_UP : HF_VOTER_DOWN);
        }
    }
}
END_TEST

START_TEST(who_answers_is_asked_next)
{
    uint32_t next = (owner + 1) % VOTERS;
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    struct message message = {.kind = MESSAGE_GRANT};
    const struct message_acquire *acquire = &rig_sent(rig, MESSAGE_ACQUIRE)->as.acquire;
    message.from = rig->config.voters[next];
    message.as.grant = (struct message_grant){.agent = acquire->agent,
                                              .epoch = 1,
                                              .request_id = acquire->request_id,
                                              .name = acquire->name,
                                              .version = {1 << 16 | 1, 1},
                                              .mode = MESSAGE_MODE_EXCLUSIVE,
                                              .token_first = 1,
                                              .token_last = 100};
    rig_receive(rig, &message);
    rig_recall(rig, "a", 1);
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(cell_way()->to, next);
}
END_TEST

START_TEST(what_finds_no_room_is_asked_when_there_is)
{
    cell_teardown();
    cell_start(HOST_OBSERVER, 1);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    ck_assert_ptr_null(rig_open(rig, client, "b", 0));
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 1);
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 0, 0);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 2);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_ACQUIRE)->as.acquire.name.bytes[0], 'b');
    /* A give-back needs room in the table of requests, too. Until there is room, no process gets
     * the lock. */
    struct hfi_opened opened = cell_opened_by(client);
    struct hfi_held held;
    rig_recall(rig, "a", 1);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_int_eq(cell_try(&opened, &held), HFI_UNGRANTED);
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 0, 0);
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_GIVE_BACK));
}
END_TEST

START_TEST(a_lost_session_asks_for_nothing_more)
{
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_lease(rig, 1, rig->now_ns, true);
    uint32_t count = rig->send_count;
    rig_pass(rig, 5000 * RIG_MS);
    ck_assert_uint_eq(rig->send_count, count);
    /* The host does not give back a grant of an earlier session. That grant ends with its session,
     * after the lock-delay. */
    rig_recall(rig, "a", 1);
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 0, 0);
    rig_lease(rig, 2, rig->now_ns + 10000 * RIG_MS, false);
    rig->epoch = 1;
    rig_recall(rig, "a", 1);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
}
END_TEST

/* ---- versions ---- */

/* A repeated grant must not be given back: the give-back would free the lock while its holder has
 * it. */
START_TEST(a_repeat_of_the_grant_is_ignored)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), opened.holder);
}
END_TEST

/* The host gives a late grant back. The host's next request must not overtake the give-back:
 * otherwise the answer would be the same grant. */
START_TEST(a_late_grant_is_given_back_before_anything_is_asked)
{
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    struct message late = *rig_sent(rig, MESSAGE_ACQUIRE);
    rig_refuse(rig, &late, MESSAGE_REFUSED_FULL);
    rig_answer(rig, &late, MESSAGE_MODE_EXCLUSIVE, 7, 1, 100);
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.version.sequence, 7);
    uint32_t count = rig_sent_count(rig, MESSAGE_ACQUIRE);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), count);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), count + 1);
    /* A grant that was given back does not count any more, whatever request it answers. */
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 7, 1, 100);
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_OPENED), 0);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 8, 1, 100);
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_OPENED), 1);
}
END_TEST

/* A late grant for a name that has no lock on this host is given back, before the host asks for the
 * name again. */
START_TEST(an_orphan_is_given_back_before_its_name_is_asked_for)
{
    struct message stray = {.kind = MESSAGE_ACQUIRE};
    stray.as.acquire = (struct message_acquire){
        .agent = rig->config.agent, .epoch = 1, .request_id = 4711};
    message_name_set(&stray.as.acquire.name, "a", 1);
    rig_answer(rig, &stray, MESSAGE_MODE_EXCLUSIVE, 7, 1, 100);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 1);
    rig_answer(rig, &stray, MESSAGE_MODE_EXCLUSIVE, 7, 1, 100);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 1);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_ACQUIRE));
    rig_pass(rig, 10 * RIG_MS);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_ACQUIRE));
    rig_grant(rig, rig_sent(rig, MESSAGE_ACQUIRE), 0, 0);
    /* version 1 is not above the version that was given back */
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_OPENED), 0);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 8, 1, 100);
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_OPENED), 1);
}
END_TEST

START_TEST(a_grant_under_another_id_is_not_taken)
{
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    struct message stray = *rig_sent(rig, MESSAGE_ACQUIRE);
    stray.as.acquire.request_id += 1 << 16;
    rig_answer(rig, &stray, MESSAGE_MODE_EXCLUSIVE, 1, 1, 100);
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_OPENED), 0);
    /* The host keeps this grant: the answer to its own request will have the same grant, which a
     * give-back would make invalid. */
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
}
END_TEST

/* After the loss of a store, the new epoch may equal the epoch of an earlier session. Processes may
 * still hold locks of that session in the region. So the host gives nothing back in such an epoch
 * before a majority has renewed the session. */
START_TEST(an_epoch_that_nobody_renewed_gives_nothing_back)
{
    rig_destroy(rig);
    rig = rig_create_cell(RIG_LOCKS, VOTERS, HOST_OBSERVER, 0);
    rig->epoch = 1;
    struct host_event start = {.kind = HOST_START, .now_ns = rig->now_ns};
    start.as.lease.epoch = 1;
    rig_step(rig, start);
    rig_recall(rig, "a", 3);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 0);
    rig_lease(rig, 1, rig->now_ns + 1000 * RIG_MS, false);
    rig_recall(rig, "a", 3);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 1);
}
END_TEST

/* A grant that arrives in jeopardy and does not cover a handle's lock-delay is not put in force,
 * even if that handle is closed later. When an AMEND puts the grant in force, the word's next token
 * is the first one of the grant. */
START_TEST(a_grant_that_was_never_in_force_is_opened_above_its_tokens)
{
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    struct message asked = *rig_sent(rig, MESSAGE_ACQUIRE);
    ck_assert_ptr_null(rig_open(rig, other, "a", 5000 * RIG_MS));
    rig_lease(rig, 1, rig->now_ns + 100 * RIG_MS, false);
    rig_pass(rig, 200 * RIG_MS);
    rig_grant(rig, &asked, 5000, 5099);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_AMEND));
    struct hfi_opened its = cell_opened_by(other);
    cell_wait_in_queue(&its, other, false);
    rig_die(rig, other);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, its.slot)), HFI_GRANT_NONE);
    rig_lease(rig, 1, rig->now_ns + 10000 * RIG_MS, false);
    struct hfi_opened opened = cell_opened_by(client);
    cell_wait_in_queue(&opened, client, false);
    const struct message *amend = rig_sent(rig, MESSAGE_AMEND);
    ck_assert_ptr_nonnull(amend);
    rig_answer(rig, amend, MESSAGE_MODE_EXCLUSIVE, 1, 5000, 5099);
    ck_assert_uint_ge(rig_word(rig, opened.slot) & HFI_W_TOKEN, 4999);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_EXCLUSIVE);
}
END_TEST

/* A grant does not cover a handle's lock-delay. The quorum has no room for the AMEND, and another
 * host waits. So the grant goes back; otherwise the host would repeat the AMEND for ever. */
START_TEST(a_recalled_grant_that_cannot_be_put_in_force_goes_back)
{
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    struct message asked = *rig_sent(rig, MESSAGE_ACQUIRE);
    ck_assert_ptr_null(rig_open(rig, other, "a", 5000 * RIG_MS));
    rig_grant(rig, &asked, 0, 0);
    struct message amend = *rig_sent(rig, MESSAGE_AMEND);
    rig_recall(rig, "a", 1);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    rig_refuse(rig, &amend, MESSAGE_REFUSED_FULL);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_AMEND), 1);
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.version.sequence, 1);
}
END_TEST

/* A recall overtakes its grant, and is repeated. The host then gives the grant back, and does not
 * take the grant when it arrives. */
START_TEST(a_recall_that_overtakes_its_grant_retires_it)
{
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    struct message asked = *rig_sent(rig, MESSAGE_ACQUIRE);
    rig_recall(rig, "a", 3);
    /* the host does not answer: the grant may still be on its way */
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    rig_recall(rig, "a", 3);
    const struct message *give_back = rig_sent(rig, MESSAGE_GIVE_BACK);
    ck_assert_ptr_nonnull(give_back);
    ck_assert_uint_eq(give_back->as.give_back.version.sequence, 3);
    ck_assert_uint_ge(give_back->as.give_back.token_used, 100);
    rig_answer(rig, &asked, MESSAGE_MODE_EXCLUSIVE, 3, 1, 100);
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_OPENED), 0);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 1);
    rig_returned(rig, give_back);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_ACQUIRE), 2);
    ck_assert_uint_ne(sent_id(MESSAGE_ACQUIRE), asked.as.acquire.request_id);
}
END_TEST

/* A recall overtakes its grant, which arrives before the recall is repeated. The host uses its
 * turn. */
START_TEST(a_grant_that_its_recall_has_overtaken_is_used)
{
    const struct hfi_held held = {.token = 1};
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    struct message asked = *rig_sent(rig, MESSAGE_ACQUIRE);
    rig_recall(rig, "a", 3);
    rig_pass(rig, 60 * RIG_MS); /* by now the OPEN has been answered */
    struct hfi_opened opened = cell_opened_by(client);
    cell_wait_in_queue(&opened, client, false);
    rig_answer(rig, &asked, MESSAGE_MODE_EXCLUSIVE, 3, 1, 100);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), opened.holder);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_RECALL);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    atomic_store(hfi_seat_wait(&rig->region, opened.seat), 0);
    cell_release(&opened, &held);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.version.sequence, 3);
}
END_TEST

/* The recall was for a grant whose request was refused afterwards. It does not count for the grant
 * of the next request. */
START_TEST(a_recall_is_of_no_later_request)
{
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_recall(rig, "a", 3);
    rig_refuse(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_REFUSED_FULL);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 4, 1, 100);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert(!(rig_word(rig, cell_opened_by(client).slot) & HFI_W_RECALL));
}
END_TEST

START_TEST(a_recall_of_what_was_given_back_is_old)
{
    (void)cell_open_granted(client);
    rig_recall(rig, "a", 1);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    rig_recall(rig, "a", 1);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 1);
    rig_recall(rig, "nothing", 1); /* a recall of an unknown name is answered */
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_GIVE_BACK), 2);
}
END_TEST

START_TEST(a_repeated_recall_grants_no_more_hand_overs)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    rig_recall(rig, "a", 1);
    uint32_t left = rig->region.slots[opened.slot].handovers_left;
    ck_assert_uint_gt(left, 0);
    rig->region.slots[opened.slot].handovers_left = left - 3;
    rig_recall(rig, "a", 1);
    ck_assert_uint_eq(rig->region.slots[opened.slot].handovers_left, left - 3);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    cell_release(&opened, &held);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.token_used, 1);
}
END_TEST

/* A recall of a lock that is already recalled, by the previous agent or an administrator, allows no
 * more hand-overs. */
START_TEST(a_recall_of_what_is_recalled_grants_no_more_hand_overs)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    struct hfi_frame frame = {.kind = HFI_FRAME_RECALL, .text = {"a", 1}};
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    (void)rig_ask(rig, client, &frame);
    uint32_t left = rig->region.slots[opened.slot].handovers_left;
    ck_assert_uint_gt(left, 0);
    rig->region.slots[opened.slot].handovers_left = left - 3;
    rig_recall(rig, "a", 1);
    ck_assert_uint_eq(rig->region.slots[opened.slot].handovers_left, left - 3);
    cell_release(&opened, &held);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.token_used, 1);
}
END_TEST

/* A process counts a hand-over before it makes the hand-over, because the next holder may hand the
 * lock over before this process runs again. */
START_TEST(a_hand_over_is_counted_before_it_is_made)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    struct hfi_opened next = rig_open(rig, other, "a", 0)->frame.opened;
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    rig_recall(rig, "a", 1);
    cell_wait_in_queue(&next, other, false);
    at_the_swap = rig->region.slots[opened.slot].handovers_left;
    swapped = opened.slot;
    rig->kernel.wake = look_at_the_count;
    hfi_seat(&rig->region, next.seat)->wake = 1; /* the next holder sleeps */
    cell_release(&opened, &held);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), next.holder);
    ck_assert_uint_eq(at_the_swap, 15);
}
END_TEST

/* Another host waits for the lock. This host's processes hand it over 16 times among themselves,
 * even if more processes of this host wait. */
START_TEST(a_recalled_lock_is_handed_on_sixteen_times)
{
    enum { HAND_OVERS = 16 };
    struct hfi_opened both[] = {cell_open_granted(client),
                                rig_open(rig, other, "a", 0)->frame.opened};
    uint32_t who[] = {client, other};
    struct hfi_held held;
    ck_assert_int_eq(cell_try(&both[0], &held), HFI_HELD);
    rig_recall(rig, "a", 1);
    for (uint32_t i = 0; i < HAND_OVERS; i++) {
        struct hfi_opened *next = &both[(i + 1) % 2];
        cell_wait_in_queue(next, who[(i + 1) % 2], false);
        cell_release(&both[i % 2], &held);
        ck_assert_uint_eq(hfi_word_holder(rig_word(rig, next->slot)), next->holder);
        ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
        /* the process has seen that it holds the lock */
        atomic_store(hfi_seat_wait(&rig->region, next->seat), 0);
        held.token++;
    }
    cell_wait_in_queue(&both[1], other, false);
    cell_release(&both[0], &held);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, both[1].slot)), 0);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.token_used, HAND_OVERS + 1);
}
END_TEST

/* ---- shared grants ---- */

/* An OPEN asks for an exclusive grant. When the host sees that only a reader waits, it changes the
 * request: it asks for a shared grant. */
START_TEST(a_waiting_reader_asks_to_read)
{
    /* this OPEN gives `other` the region of the namespace, before the test begins */
    (void)rig_open(rig, other, "b", 0);
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_pass(rig, 60 * RIG_MS);
    struct hfi_opened opened = cell_opened_by(client);
    uint64_t id = sent_id(MESSAGE_ACQUIRE);
    ck_assert_int_eq(rig_sent(rig, MESSAGE_ACQUIRE)->as.acquire.mode, MESSAGE_MODE_EXCLUSIVE);
    cell_wait_in_queue(&opened, client, true);
    ck_assert_int_eq(rig_sent(rig, MESSAGE_ACQUIRE)->as.acquire.mode, MESSAGE_MODE_SHARED);
    ck_assert_uint_eq(sent_id(MESSAGE_ACQUIRE), id);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_SHARED, 5, 70, 70);
    struct hfi_held held = enter(&opened);
    ck_assert_uint_eq(held.token, 70);
    struct hfi_opened second = *&rig_open(rig, other, "a", 0)->frame.opened;
    second.seat = rig_seat(rig, other, second.handle, true);
    struct hfi_held also;
    enum hfi_outcome outcome = cell_read(&second, &also);
    if (outcome != HFI_HELD) { /* the waiters bit is still set, so the reader has to queue */
        cell_wait_in_queue(&second, other, true);
        also = enter(&second);
    }
    ck_assert_uint_eq(also.token, 70);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_AMEND));
}
END_TEST

/* Under a shared grant no process is the holder in the word, so no process clears the waiters bit.
 * The agent must clear the bit. Otherwise bargers and tries would stay out although nobody
 * waits. */
START_TEST(a_shared_grant_forgets_that_somebody_waited)
{
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_pass(rig, 60 * RIG_MS);
    struct hfi_opened opened = cell_opened_by(client);
    cell_wait_in_queue(&opened, client, true);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_SHARED, 5, 70, 70);
    struct hfi_opened second = rig_open(rig, other, "a", 0)->frame.opened;
    second.seat = rig_seat(rig, other, second.handle, true);
    struct hfi_held held;
    rig_ring(rig);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_WAITERS); /* a process does wait now */
    ck_assert_int_eq(cell_read(&second, &held), HFI_OCCUPIED);
    (void)enter(&opened);
    rig_ring(rig);
    ck_assert(!(rig_word(rig, opened.slot) & (HFI_W_WAITERS | HFI_W_RECALL)));
    ck_assert_int_eq(cell_read(&second, &held), HFI_HELD);
}
END_TEST

/* Under a shared grant one client reads, and another client waits to write. The host exchanges its
 * grant for an exclusive one. */
START_TEST(a_writer_gets_in_behind_the_readers_of_a_shared_grant)
{
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_SHARED, 5, 70, 70);
    struct hfi_opened opened = cell_opened_by(client);
    struct hfi_opened writer = cell_open_granted(other);
    struct hfi_held held;
    opened.seat = rig_seat(rig, client, opened.handle, true);
    ck_assert_int_eq(cell_read(&opened, &held), HFI_HELD);
    cell_wait_in_queue(&writer, other, false);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_RECALL);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    cell_release(&opened, &held);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.version.sequence, 5);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.token_used, 70);
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_int_eq(rig_sent(rig, MESSAGE_ACQUIRE)->as.acquire.mode, MESSAGE_MODE_EXCLUSIVE);
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_EXCLUSIVE, 6, 71, 99);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), writer.holder);
    ck_assert_uint_eq(rig_word(rig, opened.slot) & HFI_W_TOKEN, 71);
}
END_TEST

/* Another host waits, perhaps only to read. So the grant becomes shared at once, and does not wait
 * until all readers here have left. */
START_TEST(an_exclusive_grant_with_readers_becomes_shared_when_it_is_recalled)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    opened.seat = rig_seat(rig, client, opened.handle, true);
    ck_assert_int_eq(cell_read(&opened, &held), HFI_HELD);
    rig_recall(rig, "a", 1);
    const struct message *amend = rig_sent(rig, MESSAGE_AMEND);
    ck_assert_ptr_nonnull(amend);
    ck_assert_int_eq(amend->as.amend.mode, MESSAGE_MODE_SHARED);
    /* the first token of the range, because no token was used */
    ck_assert_uint_eq(amend->as.amend.token_used, 1);
    ck_assert_uint_eq(amend->as.amend.token_last, 0);
    struct hfi_opened writer = cell_open_granted(other);
    struct hfi_held none;
    /* the writer is kept out before the quorum has the message */
    ck_assert_int_eq(cell_try(&writer, &none), HFI_UNGRANTED);
    rig_answer(rig, amend, MESSAGE_MODE_SHARED, 1, 1, 1);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_SHARED);
    ck_assert_int_eq(
        hfi_remaining_ns(&rig->region,
                         &(struct hfi_request){.slot = opened.slot, .seat = opened.seat},
                         opened.holder, &held, rig->now_ns, NULL) > 0,
        1);
    /* The other host waits to write: no reader gets in any more. When the readers have left, the
     * grant goes back. */
    rig_recall(rig, "a", 1);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_RECALL);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_AMEND), 1);
    cell_release(&opened, &held);
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_GIVE_BACK));
}
END_TEST

START_TEST(a_writer_keeps_its_exclusive_grant_from_a_recall)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    rig_recall(rig, "a", 1);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_AMEND));
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_EXCLUSIVE);
}
END_TEST

/* A reader that also wants to write cannot release its hold first, so the host asks for an
 * exclusive grant. */
START_TEST(a_reader_that_upgrades_changes_the_grant)
{
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_SHARED, 5, 70, 70);
    struct hfi_opened opened = cell_opened_by(client);
    struct hfi_held held;
    opened.seat = rig_seat(rig, client, opened.handle, true);
    ck_assert_int_eq(cell_read(&opened, &held), HFI_HELD);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    struct hfi_request request = {.slot = opened.slot, .seat = opened.seat};
    struct hfi_wait_limit none = {.deadline_ns = rig->now_ns};
    ck_assert_int_eq(hfi_upgrade(&actor, &request, &none, &held), HFI_UNGRANTED);
    hfi_ask_upgrade(&actor, &request, &held);
    rig_ring(rig);
    const struct message *amend = rig_sent(rig, MESSAGE_AMEND);
    ck_assert_ptr_nonnull(amend);
    ck_assert_int_eq(amend->as.amend.mode, MESSAGE_MODE_EXCLUSIVE);
    /* another host shares the grant, so this host keeps its share */
    rig_refuse(rig, amend, MESSAGE_REFUSED_VERSION);
    ck_assert_int_eq(hfi_word_mode(rig_word(rig, opened.slot)), HFI_GRANT_SHARED);
    rig_pass(rig, 50 * RIG_MS);
    hfi_ask_upgrade(&actor, &request, &held);
    rig_ring(rig);
    rig_answer(rig, rig_sent(rig, MESSAGE_AMEND), MESSAGE_MODE_EXCLUSIVE, 5, 71, 99);
    ck_assert_int_eq(hfi_upgrade(&actor, &request, &none, &held), HFI_HELD);
    ck_assert_uint_eq(held.token, 71);
}
END_TEST

static uint32_t amends_after_a_ring(const struct hfi_actor *actor, uint32_t slot)
{
    rig->send_count = 0;
    rig_pass(rig, 50 * RIG_MS);
    hfi_ring(actor, slot);
    rig_ring(rig);
    return rig_sent_count(rig, MESSAGE_AMEND);
}

/* Each reader that comes or leaves rings the agent of a watched lock. Such a ring does not cost
 * other hosts their shares. */
START_TEST(a_ring_without_an_upgrade_asks_for_nothing)
{
    ck_assert_ptr_null(rig_open(rig, client, "a", 0));
    rig_answer(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_MODE_SHARED, 5, 70, 70);
    struct hfi_opened opened = cell_opened_by(client);
    struct hfi_held held;
    opened.seat = rig_seat(rig, client, opened.handle, true);
    ck_assert_int_eq(cell_read(&opened, &held), HFI_HELD);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    struct hfi_request request = {.slot = opened.slot, .seat = opened.seat};
    ck_assert_uint_eq(amends_after_a_ring(&actor, opened.slot), 0);

    hfi_ask_upgrade(&actor, &request, &held);
    hfi_ask_no_upgrade(&actor, &request, &held);
    ck_assert_uint_eq(amends_after_a_ring(&actor, opened.slot), 0);

    /* The note asks for an upgrade, but the reader's hold has ended, for example because the reader
     * was killed. */
    hfi_ask_upgrade(&actor, &request, &held);
    cell_release(&opened, &held);
    struct hfi_held later;
    ck_assert_int_eq(cell_read(&opened, &later), HFI_HELD);
    ck_assert_uint_eq(amends_after_a_ring(&actor, opened.slot), 0);
    hfi_ask_upgrade(&actor, &request, &later);
    hfi_ask_no_upgrade(&actor, &request, &held);
    ck_assert_uint_eq(amends_after_a_ring(&actor, opened.slot), 1);
}
END_TEST

/* ---- idle grants ---- */

static void pass_minutes(uint32_t minutes)
{
    for (uint32_t i = 0; i < minutes * 12; i++) {
        rig_pass(rig, 5000 * RIG_MS);
        rig_lease(rig, 1, rig->now_ns + 10000 * RIG_MS, false);
    }
}

START_TEST(a_grant_that_nobody_has_open_goes_back_after_a_while)
{
    struct hfi_opened opened = cell_open_granted(client);
    (void)rig_open_granted(rig, client, "b", 0);
    rig_close(rig, client, opened.handle);
    pass_minutes(9);
    ck_assert_ptr_null(rig_sent(rig, MESSAGE_GIVE_BACK));
    pass_minutes(3);
    ck_assert_ptr_nonnull(rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_GIVE_BACK)->as.give_back.name.bytes[0], 'a');
    rig_returned(rig, rig_sent(rig, MESSAGE_GIVE_BACK));
    ck_assert_uint_eq(rig->rows_gone, 1);
    rig->send_count = 0;
    pass_minutes(30);
    ck_assert_uint_eq(rig->send_count, 0);
}
END_TEST

static Suite *make_suite(void)
{
    Suite *suite = suite_create("host_cell");
    TCase *asks = cell_case(suite, "requests");
    tcase_add_test(asks, a_lost_acquire_is_asked_again);
    tcase_add_test(asks, it_knows_whether_it_asks_for_one_name_only);
    tcase_add_test(asks, a_lost_amendment_is_asked_again);
    tcase_add_test(asks, a_lost_give_back_is_sent_again);
    tcase_add_test(asks, a_new_coordinator_is_asked_at_once);
    tcase_add_test(asks, a_hint_is_followed_at_once_but_not_in_circles);
    tcase_add_test(asks, a_voter_that_is_down_is_not_asked);
    tcase_add_test(asks, a_voter_that_is_back_is_asked_at_once);
    tcase_add_test(asks, a_link_that_comes_and_goes_leaves_other_ways_their_turns);
    tcase_add_test(asks, a_voter_that_never_answered_is_not_reported_as_up);
    tcase_add_test(asks, who_answers_is_asked_next);
    tcase_add_test(asks, what_finds_no_room_is_asked_when_there_is);
    tcase_add_test(asks, a_lost_session_asks_for_nothing_more);
    TCase *versions = cell_case(suite, "versions");
    tcase_add_test(versions, a_repeat_of_the_grant_is_ignored);
    tcase_add_test(versions, a_late_grant_is_given_back_before_anything_is_asked);
    tcase_add_test(versions, an_orphan_is_given_back_before_its_name_is_asked_for);
    tcase_add_test(versions, a_grant_under_another_id_is_not_taken);
    tcase_add_test(versions, an_epoch_that_nobody_renewed_gives_nothing_back);
    tcase_add_test(versions, a_grant_that_was_never_in_force_is_opened_above_its_tokens);
    tcase_add_test(versions, a_recalled_grant_that_cannot_be_put_in_force_goes_back);
    tcase_add_test(versions, a_recall_that_overtakes_its_grant_retires_it);
    tcase_add_test(versions, a_grant_that_its_recall_has_overtaken_is_used);
    tcase_add_test(versions, a_recall_is_of_no_later_request);
    tcase_add_test(versions, a_recall_of_what_was_given_back_is_old);
    tcase_add_test(versions, a_repeated_recall_grants_no_more_hand_overs);
    tcase_add_test(versions, a_recall_of_what_is_recalled_grants_no_more_hand_overs);
    tcase_add_test(versions, a_hand_over_is_counted_before_it_is_made);
    tcase_add_test(versions, a_recalled_lock_is_handed_on_sixteen_times);
    TCase *shared = cell_case(suite, "shared");
    tcase_add_test(shared, a_waiting_reader_asks_to_read);
    tcase_add_test(shared, a_shared_grant_forgets_that_somebody_waited);
    tcase_add_test(shared, a_writer_gets_in_behind_the_readers_of_a_shared_grant);
    tcase_add_test(shared, an_exclusive_grant_with_readers_becomes_shared_when_it_is_recalled);
    tcase_add_test(shared, a_writer_keeps_its_exclusive_grant_from_a_recall);
    tcase_add_test(shared, a_reader_that_upgrades_changes_the_grant);
    tcase_add_test(shared, a_ring_without_an_upgrade_asks_for_nothing);
    tcase_add_test(shared, a_grant_that_nobody_has_open_goes_back_after_a_while);
    return suite;
}

int main(void)
{
    return suite_run(make_suite());
}
