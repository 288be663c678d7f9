/*
 * Breaks of locks in a cell of several voters: how the host that asks for a break counts the
 * owners' answers, and which holds an owner ends and reports. The test simulates the quorum and the
 * other hosts.
 */
#include "host_cell.h"

#include <stdio.h>
#include <string.h>

#include "../suite_main.h"
#include "core/quorum.h"
#include "proto/ending.h"

/* ---- the asking host ---- */

/* Breaks the lock "a". Returns the id of the host's request. */
static uint64_t ask_break(bool now)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    frame.break_lock.name = (struct hfi_text){"a", 1};
    frame.break_lock.flags = now ? HFI_BREAK_FRAME_NOW : 0;
    ck_assert_ptr_null(rig_ask(rig, client, &frame));
    return rig_sent(rig, MESSAGE_BREAK)->as.break_lock.request_id;
}

static struct message begin(const char *from, uint64_t id, enum message_broken_part part)
{
    struct message message = {.kind = MESSAGE_BROKEN};
    message_agent_set(&message.from, from, strlen(from));
    message.as.broken.agent = rig->config.agent;
    message.as.broken.request_id = id;
    message.as.broken.part = (uint8_t)part;
    return message;
}

/* A voter names the owners. The first `has` of them still have their grants. */
static void tell_owners(uint64_t id, const char *const *names, uint32_t count, uint32_t has)
{
    struct message message = begin("host-a", id, MESSAGE_BROKEN_OWNERS);
    message.as.broken.count = (uint8_t)count;
    message.as.broken.total = has;
    message.as.broken.meant = (struct message_order){5 << 16, 7};
    for (uint32_t i = 0; i < count; i++) {
        message_agent_set(&message.as.broken.items.owners[i], names[i], strlen(names[i]));
    }
    rig_receive(rig, &message);
}

/* An owner reports `total` holds, and describes the first `count`. */
static struct message holds_of(const char *name, uint64_t id, uint32_t total, uint32_t count)
{
    struct message message = begin(name, id, MESSAGE_BROKEN_HOLDS);
    message.as.broken.owner = message.from;
    message.as.broken.total = total;
    for (uint32_t i = 0; i < count; i++) {
        const struct message_hold hold = {.pid = 100 + i,
                                          .uid = 1000,
                                          .held_ms = 2000,
                                          .token = 9,
                                          .shared = true,
                                          .command_size = 3,
                                          .note_size = 2,
                                          .command = "job"};
        message_broken_add(&message.as.broken, &hold, "no");
    }
    return message;
}

static void tell_holds(const char *name, uint64_t id, uint32_t total, uint32_t count)
{
    struct message message = holds_of(name, id, total, count);
    rig_receive(rig, &message);
}

static bool answered(void)
{
    return rig_count(rig, client, HFI_FRAME_BROKEN) > 0;
}

static struct rig_reply *outcome(void)
{
    ck_assert_uint_eq(rig_count(rig, client, HFI_FRAME_BROKEN), 1);
    return rig_find(rig, client, HFI_FRAME_BROKEN);
}

static void assert_silent(struct rig_reply *reply, const char *name)
{
    struct hfi_text text;
    ck_assert(hfi_broken_next_silent(&reply->cursor, &text));
    ck_assert_uint_eq(text.size, strlen(name));
    ck_assert_mem_eq(text.bytes, name, text.size);
}

START_TEST(a_break_of_what_is_elsewhere_goes_to_the_coordinator)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    frame.break_lock.name = (struct hfi_text){"a", 1};
    ck_assert_int_eq(rig_ask(rig, other, &frame)->frame.error, HF_EACCES);
    uint64_t id = ask_break(true);
    const struct message_break *breaking = &rig_sent(rig, MESSAGE_BREAK)->as.break_lock;
    ck_assert_uint_eq(cell_way()->to, owner);
    ck_assert(breaking->now && breaking->counts);
    ck_assert_uint_eq(breaking->user, 1);
    ck_assert_uint_eq(breaking->meant.ballot, 0);
    tell_owners(id, NULL, 0, 0); /* nobody has the lock */
    ck_assert_int_eq(outcome()->frame.broken.error, 0);
    ck_assert_uint_eq(outcome()->frame.broken.hold_count, 0);
    ck_assert_uint_eq(outcome()->frame.broken.silent_count, 0);
    uint32_t count = rig->send_count;
    rig_pass(rig, 5000 * RIG_MS);
    ck_assert_uint_eq(rig->send_count, count);
}
END_TEST

/* In jeopardy this host cannot know whether another host has the lock by now, so it asks. */
START_TEST(a_break_in_jeopardy_asks_the_coordinator)
{
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    struct hfi_opened opened = cell_open_granted(client);
    frame.break_lock.name = (struct hfi_text){"a", 1};
    (void)opened;
    rig_lease(rig, 1, rig->now_ns - RIG_MS, false);
    ck_assert_ptr_null(rig_ask(rig, client, &frame));
    ck_assert(!answered());
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_BREAK), 1);
}
END_TEST

START_TEST(every_owner_has_to_answer)
{
    static const char *const names[] = {"host-y", "host-z"};
    uint64_t id = ask_break(false);
    tell_holds("host-y", id, 1, 1); /* this report comes before the list of owners */
    ck_assert(!answered());
    tell_owners(id, names, 2, 2);
    tell_holds("host-y", id, 1, 1); /* a repeated report counts once */
    ck_assert(!answered());
    rig_pass(rig, 301 * RIG_MS);
    /* the version keeps another coordinator from ending newer grants */
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_BREAK)->as.break_lock.meant.sequence, 7);
    struct message last = holds_of("host-z", id, 40, MESSAGE_HOLDS_MAX);
    last.as.broken.closed_ms = 500;
    rig_receive(rig, &last);
    const struct hfi_broken_frame *broken = &outcome()->frame.broken;
    ck_assert_int_eq(broken->error, 0);
    ck_assert_int_eq(broken->closed_ns, 500 * RIG_MS);
    ck_assert_uint_eq(broken->hold_count, 17);
    ck_assert_uint_eq(broken->more, 24);
    struct hfi_party_frame hold;
    struct rig_reply *reply = outcome();
    ck_assert(hfi_listed_next_party(&reply->cursor, &hold));
    ck_assert_mem_eq(hold.agent.bytes, "host-y", 6);
    ck_assert_mem_eq(hold.command.bytes, "job", 3);
    ck_assert_uint_eq(hold.note.size, 2);
    ck_assert_mem_eq(hold.note.bytes, "no", 2);
    ck_assert_int_eq(hold.elapsed_ns, 2000 * RIG_MS);
    ck_assert_uint_eq(hold.token, 9);
    ck_assert_uint_eq(hold.mode, HF_SHARED);
}
END_TEST

/* An owner never answers. The client learns which holds the other owner ended, and which owner is
 * silent. */
START_TEST(a_silent_owner_leaves_the_break_in_doubt)
{
    static const char *const names[] = {"host-y", "host-z"};
    uint64_t id = ask_break(false);
    tell_owners(id, names, 2, 2);
    tell_holds("host-y", id, 1, 1);
    rig_pass(rig, 1990 * RIG_MS);
    ck_assert(!answered());
    rig_pass(rig, 20 * RIG_MS);
    ck_assert_int_eq(outcome()->frame.broken.error, HF_ETIMEDOUT);
    ck_assert_uint_eq(outcome()->frame.broken.hold_count, 1);
    ck_assert_uint_eq(outcome()->frame.broken.silent_count, 1);
    assert_silent(outcome(), "host-z");
    ck_assert_uint_gt(rig_sent_count(rig, MESSAGE_BREAK), 4);
    tell_holds("host-z", id, 1, 1);
    (void)outcome();
}
END_TEST

/* The session of an owner ends, so the coordinator no longer names it. */
START_TEST(an_owner_whose_session_ended_is_not_waited_for)
{
    static const char *const names[] = {"host-y", "host-z"};
    uint64_t id = ask_break(false);
    tell_owners(id, names, 2, 2);
    tell_holds("host-y", id, 1, 1);
    ck_assert(!answered());
    tell_owners(id, names, 1, 1);
    ck_assert_int_eq(outcome()->frame.broken.error, 0);
    ck_assert_uint_eq(outcome()->frame.broken.silent_count, 1);
    assert_silent(outcome(), "host-z");
}
END_TEST

/* An owner has given its grant back, and only its report is missing. The break counts as done
 * without the report, but the host waits for it. */
START_TEST(a_missing_report_leaves_no_doubt)
{
    static const char *const names[] = {"host-y", "host-z"};
    uint64_t id = ask_break(true);
    tell_owners(id, names, 2, 1);
    tell_holds("host-y", id, 1, 1);
    ck_assert(!answered());
    rig_pass(rig, 2010 * RIG_MS);
    ck_assert_int_eq(outcome()->frame.broken.error, 0);
    ck_assert_uint_eq(outcome()->frame.broken.silent_count, 1);
    assert_silent(outcome(), "host-z");
}
END_TEST

/* Agents guess the request's id, or send answers that they may not send. */
START_TEST(others_do_not_answer_for_an_owner)
{
    static const char *const names[] = {"host-y"};
    uint64_t id = ask_break(false);
    struct message forged = begin("host-y", id, MESSAGE_BROKEN_OWNERS); /* host-y is no voter */
    rig_receive(rig, &forged);
    ck_assert(!answered());
    tell_owners(id, names, 1, 1);
    tell_owners(id + 1, NULL, 0, 0);
    forged = holds_of("host-z", id, 1, 1);
    message_agent_set(&forged.as.broken.owner, "host-y", 6);
    rig_receive(rig, &forged);
    forged.relayed = true; /* host-z is no voter either */
    rig_receive(rig, &forged);
    tell_holds("host-z", id, 1, 1);
    ck_assert(!answered());
    message_agent_set(&forged.from, "host-b", 6); /* a voter passes the answer on */
    rig_receive(rig, &forged);
    ck_assert_int_eq(outcome()->frame.broken.error, 0);
}
END_TEST

/* An agent that the coordinator never names reports holds, an error, a long lock-delay, and a
 * version that no grant has. The host ignores this report, although it came first. */
START_TEST(what_an_agent_says_counts_once_it_is_named)
{
    static const char *const names[] = {"host-y", "host-z"};
    uint64_t id = ask_break(false);
    for (uint32_t i = 0; i < HFI_FRAME_BROKEN_HOLDS_MAX / MESSAGE_HOLDS_MAX; i++) {
        char name[16];
        snprintf(name, sizeof(name), "rogue-%u", i);
        struct message rogue = holds_of(name, id, 100, MESSAGE_HOLDS_MAX);
        rogue.as.broken.result = HF_EFULL;
        rogue.as.broken.closed_ms = 60000;
        rogue.as.broken.meant = (struct message_order){1 << 16, 1};
        rig_receive(rig, &rogue);
    }
    struct message early = holds_of("host-y", id, 3, 2);
    early.as.broken.closed_ms = 1000;
    rig_receive(rig, &early);
    rig_pass(rig, 301 * RIG_MS);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_BREAK)->as.break_lock.meant.ballot, 0);
    tell_owners(id, names, 2, 2);
    struct message late = holds_of("host-z", id, 4, 4);
    late.as.broken.meant = (struct message_order){9 << 16, 1};
    ck_assert(!answered());
    rig_pass(rig, 301 * RIG_MS);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_BREAK)->as.break_lock.meant.sequence, 7);
    rig_receive(rig, &late);
    const struct hfi_broken_frame *broken = &outcome()->frame.broken;
    ck_assert_int_eq(broken->error, 0);
    ck_assert_int_eq(broken->closed_ns, 398 * RIG_MS);
    ck_assert_uint_eq(broken->hold_count, 4); /* no room was left for descriptions */
    ck_assert_uint_eq(broken->more, 3);
    ck_assert_uint_eq(broken->silent_count, 0);
}
END_TEST

/* Agents that the coordinator has not named fill the table. Those that it names later replace
 * them. */
START_TEST(agents_without_a_name_keep_no_owner_out)
{
    char texts[MESSAGE_SHARES_MAX][16];
    const char *names[MESSAGE_SHARES_MAX];
    uint64_t id = ask_break(false);
    for (uint32_t i = 0; i < MESSAGE_SHARES_MAX; i++) {
        snprintf(texts[i], sizeof(texts[i]), "rogue-%u", i);
        tell_holds(texts[i], id, 1, 1);
        snprintf(texts[i], sizeof(texts[i]), "host-%u", i);
        names[i] = texts[i];
    }
    tell_holds(names[0], id, 1, 1);
    tell_owners(id, names, MESSAGE_SHARES_MAX, MESSAGE_SHARES_MAX);
    tell_holds("rogue-1", id, 1, 1);
    for (uint32_t i = 1; i < MESSAGE_SHARES_MAX; i++) {
        ck_assert(!answered());
        tell_holds(names[i], id, 1, 1);
    }
    ck_assert_int_eq(outcome()->frame.broken.error, 0);
    ck_assert_uint_eq(outcome()->frame.broken.hold_count, HFI_FRAME_BROKEN_HOLDS_MAX);
    ck_assert_uint_eq(outcome()->frame.broken.more,
                      MESSAGE_SHARES_MAX - HFI_FRAME_BROKEN_HOLDS_MAX);
}
END_TEST

/* An agent answers before the coordinator names it. Its answer is dropped to make room for other
 * answers, and comes again. */
START_TEST(an_answer_that_comes_again_counts_once)
{
    static const char *const names[] = {"early"};
    uint64_t id = ask_break(false);
    tell_holds("early", id, 1, 1);
    for (uint32_t i = 0; i < MESSAGE_SHARES_MAX; i++) {
        char name[16];
        snprintf(name, sizeof(name), "rogue-%u", i);
        tell_holds(name, id, 1, 0);
    }
    tell_holds("early", id, 1, 1);
    tell_owners(id, names, 1, 1);
    ck_assert_int_eq(outcome()->frame.broken.error, 0);
    ck_assert_uint_eq(outcome()->frame.broken.hold_count, 1);
    ck_assert_uint_eq(outcome()->frame.broken.more, 0);
}
END_TEST

/* In a cell that is being upgraded, an owner of an earlier release does not describe its holds. A
 * coordinator of an earlier release names no owners, so the host never knows that the break is
 * done. */
START_TEST(earlier_releases_answer_without_names)
{
    static const char *const names[] = {"host-y", "host-z"};
    uint64_t id = ask_break(false);
    tell_owners(id, names, 2, 2);
    tell_holds("host-y", id, 1, 1);
    struct message plain = begin("host-z", id, MESSAGE_BROKEN_PLAIN);
    plain.relayed = true; /* a relayed answer does not name its owner */
    rig_receive(rig, &plain);
    ck_assert(!answered());
    plain.relayed = false;
    plain.as.broken.result = HF_EFULL;
    rig_receive(rig, &plain);
    ck_assert_int_eq(outcome()->frame.broken.error, HF_EFULL);
    rig->reply_count = 0;
    id = ask_break(false);
    plain.as.broken.request_id = id;
    rig_receive(rig, &plain);
    ck_assert(!answered());
    rig_pass(rig, 2010 * RIG_MS);
    ck_assert_int_eq(outcome()->frame.broken.error, HF_ETIMEDOUT);
    ck_assert_uint_eq(outcome()->frame.broken.silent_count, 0);
}
END_TEST

/* Two coordinators each name the maximum number of owners. All these owners are different. */
START_TEST(the_last_names_count)
{
    char texts[2 * MESSAGE_SHARES_MAX][16];
    const char *names[2 * MESSAGE_SHARES_MAX];
    for (uint32_t i = 0; i < 2 * MESSAGE_SHARES_MAX; i++) {
        snprintf(texts[i], sizeof(texts[i]), "host-%u", i);
        names[i] = texts[i];
    }
    uint64_t id = ask_break(false);
    tell_owners(id, names, MESSAGE_SHARES_MAX, MESSAGE_SHARES_MAX);
    for (uint32_t i = 0; i < MESSAGE_SHARES_MAX / 2; i++) {
        tell_holds(names[i], id, 1, 1);
    }
    tell_owners(id, names + MESSAGE_SHARES_MAX, MESSAGE_SHARES_MAX, MESSAGE_SHARES_MAX);
    for (uint32_t i = MESSAGE_SHARES_MAX; i < 2 * MESSAGE_SHARES_MAX; i++) {
        ck_assert(!answered());
        tell_holds(names[i], id, 1, 1);
    }
    ck_assert_int_eq(outcome()->frame.broken.error, 0);
    ck_assert_uint_eq(outcome()->frame.broken.hold_count, HFI_FRAME_BROKEN_HOLDS_MAX);
    ck_assert_uint_eq(outcome()->frame.broken.more, 96 - HFI_FRAME_BROKEN_HOLDS_MAX);
}
END_TEST

/* ---- the owner ---- */

/* from: "host-b" stands for a voter that passes the message on, any other name for the
 * coordinator. */
static void receive_break_from(const char *from, uint64_t id, struct message_order version)
{
    struct message message = {.kind = MESSAGE_BREAK_HOLD};
    message_agent_set(&message.from, from, 6);
    message.relayed = strcmp(from, "host-b") == 0;
    message_agent_set(&message.as.break_lock.agent, "host-y", 6);
    message_name_set(&message.as.break_lock.name, "a", 1);
    message.as.break_lock.request_id = id;
    message.as.break_lock.now = true;
    message.as.break_lock.version = version;
    message.as.break_lock.user = 1001;
    message.as.break_lock.meant = version;
    rig_receive(rig, &message);
}

static void receive_break(uint64_t id, struct message_order version)
{
    receive_break_from("host-a", id, version);
}

START_TEST(a_repeated_break_does_not_end_the_next_hold)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    struct hfi_opened next = cell_open_granted(other);
    const struct message_order grant = {1 << 16 | 1, rig->version};
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    receive_break(7, grant);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), 0);
    struct hfi_ending ending;
    ck_assert(hfi_ending_read(&rig->region, opened.slot, HFI_SEAT_NONE, held.token, 0, &ending));
    ck_assert_int_eq(ending.kind, HFI_ENDING_BROKEN);
    ck_assert_int_eq(ending.uid, 1000);
    ck_assert_str_eq(ending.agent, "host-y");
    const struct message_broken broken = rig_sent(rig, MESSAGE_BROKEN)->as.broken;
    ck_assert_int_eq(broken.result, 0);
    ck_assert_int_eq(broken.part, MESSAGE_BROKEN_HOLDS);
    ck_assert_str_eq(broken.owner.text, "host-x");
    ck_assert(message_order_equal(broken.meant, grant));
    ck_assert(broken.total == 1 && broken.count == 1 && broken.closed_ms == 0);
    ck_assert_uint_eq(broken.items.holds[0].token, held.token);
    ck_assert(!broken.items.holds[0].shared);
    ck_assert_int_eq(cell_try(&next, &held), HFI_HELD);
    receive_break(7, grant);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_BROKEN)->as.broken.items.holds[0].token,
                      broken.items.holds[0].token);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_BROKEN), 2);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), next.holder);
    receive_break(8, grant);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), 0);
}
END_TEST

/* The answer goes back through the voter that passed the break on, because the link to the
 * coordinator may be broken. */
START_TEST(the_answer_takes_the_way_of_the_break)
{
    (void)cell_open_granted(client);
    const struct message_order grant = {1 << 16 | 1, rig->version};
    receive_break_from("host-a", 7, grant);
    ck_assert_uint_eq(cell_way()->to, HOST_TO_AGENT);
    ck_assert_uint_eq(cell_way()->relay, HOST_NO_RELAY);
    receive_break_from("host-b", 7, grant);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_BROKEN), 2);
    ck_assert_uint_eq(cell_way()->relay, 1);
}
END_TEST

static const struct hfi_opened *upgrader; /* this reader upgrades its hold when the agent wakes
                                           * sleepers */
static struct hfi_held upgraded;
static enum hfi_outcome upgrade_outcome;

static void wake_and_upgrade(void *arg, _Atomic uint32_t *word, int count)
{
    const struct hfi_opened *by = upgrader;
    (void)word;
    (void)count;
    if (by != NULL) {
        struct rig *in = arg;
        struct hfi_actor actor = rig_actor(in, by->holder);
        struct hfi_request request = {.slot = by->slot, .seat = by->seat};
        struct hfi_wait_limit limit = {.deadline_ns = in->now_ns};
        upgrader = NULL;
        upgrade_outcome = hfi_upgrade(&actor, &request, &limit, &upgraded);
    }
}

/* Two readers have the lock. The agent ends the first one's hold. Before it ends the second hold,
 * the second reader upgrades this hold to an exclusive one. The agent ends this hold, too, and a
 * waiting process gets the lock. _i: with --now, or without a lock-delay. */
START_TEST(an_upgrade_does_not_save_a_hold_from_the_break)
{
    struct hfi_held held;
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    struct hfi_opened opened[3];
    for (uint32_t i = 0; i < 3; i++) {
        int64_t delay_ns = _i == 0 ? 500 * RIG_MS : 0;
        opened[i] = i == 0 ? rig_open_granted(rig, other, "a", delay_ns)
                           : rig_open(rig, other, "a", delay_ns)->frame.opened;
        opened[i].seat = rig_seat(rig, other, opened[i].handle, true);
        if (i < 2) {
            ck_assert_int_eq(cell_read(&opened[i], &held), HFI_HELD);
        }
    }
    /* this process has a place in the queue, but no process has looked at the queue yet */
    struct hfi_slot *slot = &rig->region.slots[opened[2].slot];
    *hfi_seat_wait(&rig->region, opened[2].seat) = (uint64_t)slot->ticket_next++
                                                       << HFI_WAIT_TICKET_SHIFT |
                                                   HFI_WAIT_WAITING;
    rig->region.words[opened[2].slot].word |= HFI_W_WAITERS;
    upgrader = &opened[1];
    upgraded = held;
    upgrade_outcome = HFI_HELD;
    rig->kernel.wake = wake_and_upgrade;
    frame.break_lock.name = (struct hfi_text){"a", 1};
    frame.break_lock.flags = _i == 0 ? HFI_BREAK_FRAME_NOW : 0;
    uint64_t repairs = host_counts(rig->host)->repairs;
    struct rig_reply *reply = rig_ask(rig, client, &frame);
    ck_assert_ptr_null(upgrader);
    ck_assert_uint_eq(host_counts(rig->host)->repairs, repairs);
    ck_assert_int_ne(upgrade_outcome, HFI_HELD);
    ck_assert_uint_eq(reply->frame.broken.hold_count, 2);
    ck_assert_int_eq(reply->frame.broken.closed_ns, 0);
    ck_assert(!hfi_has_readers(&rig->region, opened[0].slot, HFI_SEAT_NONE));
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened[0].slot)), opened[2].holder);
    ck_assert_uint_eq(rig_word(rig, opened[0].slot) & HFI_W_CLOSED, 0);
}
END_TEST

/* Two readers have the lock, and the first one is upgrading: its id is in the word, and it waits
 * until the second one has left. The break reports each of the two once, as a reader. */
START_TEST(a_reader_that_upgrades_is_reported_once)
{
    struct hfi_held held;
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    struct hfi_opened opened[2];
    for (uint32_t i = 0; i < 2; i++) {
        opened[i] = i == 0 ? rig_open_granted(rig, other, "a", 0)
                           : rig_open(rig, other, "a", 0)->frame.opened;
        opened[i].seat = rig_seat(rig, other, opened[i].handle, true);
        ck_assert_int_eq(cell_read(&opened[i], &held), HFI_HELD);
    }
    rig->region.words[opened[0].slot].word += 1 +
                                              ((uint64_t)opened[0].holder
                                               << HFI_W_HOLDER_SHIFT); /* upgrade_take() does the
                                                                        * same */
    frame.break_lock.name = (struct hfi_text){"a", 1};
    struct rig_reply *reply = rig_ask(rig, client, &frame);
    ck_assert_uint_eq(reply->frame.broken.hold_count, 2);
    ck_assert_uint_eq(reply->frame.broken.more, 0);
    for (uint32_t i = 0; i < 2; i++) {
        struct hfi_party_frame hold;
        ck_assert(hfi_listed_next_party(&reply->cursor, &hold));
        ck_assert_uint_eq(hold.mode, HF_SHARED);
    }
    ck_assert(!hfi_has_readers(&rig->region, opened[0].slot, HFI_SEAT_NONE));
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened[0].slot)), 0);
}
END_TEST

/* A reader has the lock, and the word names a process in the queue, which waits until the reader
 * has left. The break ends only the reader's hold. The process keeps its place, and has the lock as
 * soon as the lock opens. _i: with --now, or with the reader's lock-delay. */
START_TEST(a_writer_that_waits_for_readers_keeps_its_place)
{
    struct hfi_held held;
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    struct hfi_opened reader = rig_open_granted(rig, other, "a", 500 * RIG_MS);
    reader.seat = rig_seat(rig, other, reader.handle, true);
    ck_assert_int_eq(cell_read(&reader, &held), HFI_HELD);
    uint64_t read_token = held.token;
    struct hfi_opened writer = rig_open(rig, other, "a", 500 * RIG_MS)->frame.opened;
    ck_assert_int_eq(cell_try(&writer, &held), HFI_DRAINING);
    cell_wait_in_queue(&writer, other, false);
    uint64_t place = atomic_load(hfi_seat_wait(&rig->region, writer.seat));
    frame.break_lock.name = (struct hfi_text){"a", 1};
    frame.break_lock.flags = _i == 0 ? HFI_BREAK_FRAME_NOW : 0;
    struct rig_reply *reply = rig_ask(rig, client, &frame);
    ck_assert_uint_eq(reply->frame.broken.hold_count, 1);
    struct hfi_party_frame hold;
    ck_assert(hfi_listed_next_party(&reply->cursor, &hold));
    ck_assert_uint_eq(hold.mode, HF_SHARED);
    ck_assert_uint_eq(hold.token, read_token);
    ck_assert(!hfi_has_readers(&rig->region, reader.slot, HFI_SEAT_NONE));
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, writer.slot)), writer.holder);
    ck_assert_uint_eq(atomic_load(hfi_seat_wait(&rig->region, writer.seat)), place);
    ck_assert_uint_eq(!(rig_word(rig, writer.slot) & HFI_W_CLOSED), _i == 0);
    rig_pass(rig, 510 * RIG_MS);
    struct hfi_actor actor = rig_actor(rig, writer.holder);
    struct hfi_request request = {.slot = writer.slot, .seat = writer.seat};
    struct hfi_wait_limit limit = {.deadline_ns = rig->now_ns};
    place = (place & ~(uint64_t)HFI_WAIT_JOINING) | HFI_WAIT_WAITING;
    ck_assert_int_eq(hfi_wait_exclusive(&actor, &request, &limit, &place, &held), HFI_HELD);
    /* Now the process has a hold, which the next break ends. The hold began when the readers had
     * left, and not when the word first named the process. */
    reply = rig_ask(rig, client, &frame);
    ck_assert_uint_eq(reply->frame.broken.hold_count, 1);
    ck_assert(hfi_listed_next_party(&reply->cursor, &hold));
    ck_assert_uint_eq(hold.token, held.token);
    ck_assert_uint_gt(hold.token, read_token);
    ck_assert_int_le(hold.elapsed_ns, 2 * RIG_MS);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, writer.slot)), 0);
}
END_TEST

/* The word names a process in the queue, and no reader has the lock. So the process has a hold,
 * although it has not noticed it yet. The break ends the hold and its place in the queue. */
START_TEST(a_hold_that_its_process_has_not_noticed_ends)
{
    struct hfi_held held;
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    struct hfi_opened writer = rig_open_granted(rig, other, "a", 0);
    ck_assert_int_eq(cell_try(&writer, &held), HFI_HELD);
    cell_wait_in_queue(&writer, other, false);
    frame.break_lock.name = (struct hfi_text){"a", 1};
    struct rig_reply *reply = rig_ask(rig, client, &frame);
    ck_assert_uint_eq(reply->frame.broken.hold_count, 1);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, writer.slot)), 0);
    ck_assert(!hfi_is_queued(&rig->region, writer.seat));
}
END_TEST

/* A process has the lock and no place in the queue. A reader came too late, and its cell shows a
 * hold until the reader clears the cell. The break still ends the process's hold. */
START_TEST(a_reader_that_came_too_late_does_not_save_a_hold)
{
    struct hfi_held held;
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    struct hfi_opened reader = rig_open_granted(rig, other, "a", 0);
    reader.seat = rig_seat(rig, other, reader.handle, true);
    ck_assert_int_eq(cell_read(&reader, &held), HFI_HELD);
    uint64_t cell = held.cell;
    struct hfi_actor actor = rig_actor(rig, reader.holder);
    ck_assert_int_eq(hfi_release_shared(&actor, reader.slot, reader.seat, cell), HFI_RELEASED);
    struct hfi_opened writer = rig_open(rig, other, "a", 0)->frame.opened;
    writer.seat = rig_seat(rig, other, writer.handle, false);
    ck_assert_int_eq(cell_try(&writer, &held), HFI_HELD);
    atomic_store(&hfi_seat(&rig->region, reader.seat)->reader, cell);
    frame.break_lock.name = (struct hfi_text){"a", 1};
    ck_assert(hfi_has_readers(&rig->region, writer.slot, writer.seat));
    (void)rig_ask(rig, client, &frame);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, writer.slot)), 0);
}
END_TEST

/* A break ends at most as many holds as one step can end. It then leaves the lock open. */
START_TEST(a_break_of_too_many_readers_has_to_be_repeated)
{
    enum { READERS = 200 };
    struct hfi_held held;
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    rig_destroy(rig);
    rig = rig_create(4, 4, READERS + 4, READERS);
    rig_begin(rig);
    client = rig_connect(rig, HOST_MAY_USE | HOST_MAY_ADMIN);
    uint32_t slot = 0;
    for (uint32_t i = 0; i < READERS; i++) {
        struct hfi_opened opened = i == 0 ? rig_open_granted(rig, client, "a", 0)
                                          : rig_open(rig, client, "a", 0)->frame.opened;
        opened.seat = rig_seat(rig, client, opened.handle, true);
        ck_assert_int_eq(cell_read(&opened, &held), HFI_HELD);
        slot = opened.slot;
        rig->reply_count = 0;
    }
    rig->actions.capacity = HOST_STEP_ACTIONS;
    frame.break_lock.name = (struct hfi_text){"a", 1};
    struct rig_reply *reply = rig_ask(rig, client, &frame);
    uint32_t ended = reply->frame.broken.hold_count + reply->frame.broken.more;
    ck_assert_int_eq(reply->frame.broken.error, HF_EFULL);
    ck_assert(ended > 0 && ended < READERS);
    ck_assert_uint_eq(rig_word(rig, slot) & HFI_W_CLOSED, 0);
    ck_assert(hfi_has_readers(&rig->region, slot, HFI_SEAT_NONE));
    rig->reply_count = 0;
    reply = rig_ask(rig, client, &frame);
    ck_assert_int_eq(reply->frame.broken.error, 0);
    ck_assert_uint_eq(reply->frame.broken.hold_count + reply->frame.broken.more, READERS - ended);
    ck_assert(!hfi_has_readers(&rig->region, slot, HFI_SEAT_NONE));
}
END_TEST

/* A break arrives after the grant that it names was given back. The host now has another grant,
 * which the break does not end. */
START_TEST(a_late_break_does_not_end_a_later_grant)
{
    struct hfi_held held;
    struct hfi_opened opened = cell_open_granted(client);
    const struct message_order before = {1 << 16 | 1, rig->version - 1};
    const struct message_order grant = {1 << 16 | 1, rig->version};
    ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    receive_break(7, before);
    ck_assert_int_eq(rig_sent(rig, MESSAGE_BROKEN)->as.broken.result, 0);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_BROKEN)->as.broken.total, 0);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), opened.holder);
    receive_break(8, grant);
    ck_assert_uint_eq(hfi_word_holder(rig_word(rig, opened.slot)), 0);
}
END_TEST

/* This agent does not know the earlier session of its host. In that session's region, a process may
 * hold the lock until the lease there ends. */
START_TEST(a_new_agent_answers_no_break_of_an_unknown_grant_while_an_old_hold_may_last)
{
    const struct message_order grant = {1 << 16 | 1, 1};
    if (_i == 1) { /* the name is known, but has no grant */
        (void)rig_open(rig, client, "a", 0);
    }
    receive_break(7, grant);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_BROKEN), 0);
    rig_pass(rig, rig->config.session_ttl_ns - RIG_MS - (rig->now_ns - 1000 * RIG_MS));
    receive_break(7, grant);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_BROKEN), 0);
    rig_pass(rig, 100 * RIG_MS);
    receive_break(7, grant);
    ck_assert_uint_eq(rig_sent_count(rig, MESSAGE_BROKEN), 1);
    ck_assert_int_eq(rig_sent(rig, MESSAGE_BROKEN)->as.broken.result, 0);
    ck_assert_uint_eq(rig_sent(rig, MESSAGE_BROKEN)->as.broken.total, 0);
}
END_TEST

/* This host has an exclusive grant, so there is no other owner. The lock has more readers than the
 * report has room for. */
START_TEST(a_break_of_this_host_s_own_readers_is_reported_at_once)
{
    struct hfi_held held;
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    frame.break_lock.name = (struct hfi_text){"a", 1};
    for (uint32_t i = 0; i < MESSAGE_HOLDS_MAX + 3; i++) {
        struct hfi_opened opened = i == 0 ? rig_open_granted(rig, other, "a", 500 * RIG_MS)
                                          : rig_open(rig, other, "a", 500 * RIG_MS)->frame.opened;
        opened.seat = rig_seat(rig, other, opened.handle, true);
        struct hfi_frame note = {.kind = HFI_FRAME_NOTE,
                                 .note = {.handle = opened.handle, .note = {"reads", 5}}};
        ck_assert_int_eq(rig_ask(rig, other, &note)->frame.error, 0);
        ck_assert_int_eq(cell_read(&opened, &held), HFI_HELD);
    }
    rig->now_ns += 3000 * RIG_MS;
    struct rig_reply *reply = rig_ask(rig, client, &frame);
    ck_assert_int_eq(reply->frame.kind, HFI_FRAME_BROKEN);
    ck_assert_int_eq(reply->frame.broken.error, 0);
    ck_assert_uint_eq(reply->frame.broken.hold_count, MESSAGE_HOLDS_MAX);
    ck_assert_uint_eq(reply->frame.broken.more, 3);
    ck_assert_int_ge(reply->frame.broken.closed_ns, 500 * RIG_MS);
    ck_assert_int_le(reply->frame.broken.closed_ns, 502 * RIG_MS); /* times in a word are coarse */
    struct hfi_party_frame hold;
    ck_assert(hfi_listed_next_party(&reply->cursor, &hold));
    ck_assert_uint_eq(hold.mode, HF_SHARED);
    ck_assert_mem_eq(hold.agent.bytes, "host-x", 6);
    ck_assert_uint_eq(hold.note.size, 5);
    ck_assert_mem_eq(hold.note.bytes, "reads", 5);
    ck_assert_uint_eq(hold.token, held.token);
    ck_assert_int_ge(hold.elapsed_ns, 2990 * RIG_MS);
    ck_assert_int_le(hold.elapsed_ns, 3010 * RIG_MS);
    reply = rig_ask(rig, client, &frame);
    ck_assert_uint_eq(reply->frame.broken.hold_count + reply->frame.broken.more, 0);
    ck_assert_int_gt(reply->frame.broken.closed_ns, 0); /* the lock-delay still runs */
}
END_TEST

/* The agent may lose its processor in the middle of the step that ends the hold. The hold only ends
 * when the agent goes on, so the lock-delay begins then. */
START_TEST(the_lock_delay_begins_when_the_hold_ends)
{
    struct hfi_held held;
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    frame.break_lock.name = (struct hfi_text){"a", 1};
    struct hfi_opened opened = rig_open_granted(rig, other, "a", 500 * RIG_MS);
    if (_i == 0) {
        ck_assert_int_eq(cell_try(&opened, &held), HFI_HELD);
    } else {
        opened.seat = rig_seat(rig, other, opened.handle, true);
        ck_assert_int_eq(cell_read(&opened, &held), HFI_HELD);
    }
    rig->slow_ns = 200 * RIG_MS;
    struct rig_reply *reply = rig_ask(rig, client, &frame);
    rig->slow_ns = 0;
    ck_assert_uint_eq(reply->frame.broken.hold_count, 1);
    ck_assert_int_ge(reply->frame.broken.closed_ns, 700 * RIG_MS);
    int64_t end_ns = rig->now_ns + 699 * RIG_MS;
    rig_pass(rig, 699 * RIG_MS);
    ck_assert_int_le(rig->now_ns, end_ns);
    ck_assert(rig_word(rig, opened.slot) & HFI_W_CLOSED);
    rig_pass(rig, 3 * RIG_MS);
    ck_assert(!(rig_word(rig, opened.slot) & HFI_W_CLOSED));
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("host_breaks");
    TCase *asking = cell_case(suite, "asking");
    tcase_add_test(asking, a_break_of_what_is_elsewhere_goes_to_the_coordinator);
    tcase_add_test(asking, a_break_in_jeopardy_asks_the_coordinator);
    tcase_add_test(asking, every_owner_has_to_answer);
    tcase_add_test(asking, a_silent_owner_leaves_the_break_in_doubt);
    tcase_add_test(asking, an_owner_whose_session_ended_is_not_waited_for);
    tcase_add_test(asking, a_missing_report_leaves_no_doubt);
    tcase_add_test(asking, others_do_not_answer_for_an_owner);
    tcase_add_test(asking, what_an_agent_says_counts_once_it_is_named);
    tcase_add_test(asking, agents_without_a_name_keep_no_owner_out);
    tcase_add_test(asking, an_answer_that_comes_again_counts_once);
    tcase_add_test(asking, earlier_releases_answer_without_names);
    tcase_add_test(asking, the_last_names_count);
    TCase *owning = cell_case(suite, "owning");
    tcase_add_test(owning, a_repeated_break_does_not_end_the_next_hold);
    tcase_add_loop_test(owning, an_upgrade_does_not_save_a_hold_from_the_break, 0, 2);
    tcase_add_test(owning, a_reader_that_upgrades_is_reported_once);
    tcase_add_loop_test(owning, a_writer_that_waits_for_readers_keeps_its_place, 0, 2);
    tcase_add_test(owning, a_hold_that_its_process_has_not_noticed_ends);
    tcase_add_test(owning, a_reader_that_came_too_late_does_not_save_a_hold);
    tcase_add_test(owning, a_break_of_too_many_readers_has_to_be_repeated);
    tcase_add_test(owning, the_answer_takes_the_way_of_the_break);
    tcase_add_test(owning, a_late_break_does_not_end_a_later_grant);
    tcase_add_loop_test(
        owning, a_new_agent_answers_no_break_of_an_unknown_grant_while_an_old_hold_may_last, 0, 2);
    tcase_add_test(owning, a_break_of_this_host_s_own_readers_is_reported_at_once);
    tcase_add_loop_test(owning, the_lock_delay_begins_when_the_hold_ends, 0, 2);
    return suite_run(suite);
}
