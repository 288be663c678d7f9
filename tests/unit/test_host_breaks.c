/*
 * Breaks of locks in a cell of several voters: how the asking host counts the owners' answers, and
 * what an owner ends and reports. The test plays the quorum and the other hosts.
 */
#include "host_cell.h"

#include <stdio.h>
#include <string.h>

#include "../suite_main.h"
#include "core/quorum.h"
#include "proto/ending.h"

/* ---- the asking host ---- */

/* Breaks the lock "a". Returns the question's id. */
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

/* A voter names the owners, of which the first `has` still have their grants. */
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
    message.as.broken.count = (uint8_t)count;
    for (uint32_t i = 0; i < count; i++) {
        message.as.broken.items.holds[i] = (struct message_hold){.pid = 100 + i,
                                                                 .uid = 1000,
                                                                 .held_ms = 2000,
                                                                 .token = 9,
                                                                 .shared = true,
                                                                 .command_size = 3,
                                                                 .command = "job"};
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
    tell_holds("host-y", id, 1, 1); /* it comes before the names */
    ck_assert(!answered());
    tell_owners(id, names, 2, 2);
    tell_holds("host-y", id, 1, 1); /* a repeat counts once */
    ck_assert(!answered());
    rig_pass(rig, 301 * RIG_MS);
    /* another coordinator must not end grants that are newer than those the first one meant */
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
    ck_assert_int_eq(hold.elapsed_ns, 2000 * RIG_MS);
    ck_assert_uint_eq(hold.token, 9);
    ck_assert_uint_eq(hold.mode, HF_SHARED);
}
END_TEST

/* An owner never answers. The client learns what the other one ended, and which one is silent. */
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

/* An owner has given its grant back, and only its report is missing. The break is done without it,
 * but the report is waited for. */
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

/* Agents guess the question's number, or say what they may not say. */
START_TEST(others_do_not_answer_for_an_owner)
{
    static const char *const names[] = {"host-y"};
    uint64_t id = ask_break(false);
    struct message forged = begin("host-y", id, MESSAGE_BROKEN_OWNERS); /* it is no voter */
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

/* A cell that is being upgraded. An owner of an earlier release does not describe its holds. A
 * coordinator of an earlier release names no owners, so its break is never known to be done. */
START_TEST(earlier_releases_answer_without_names)
{
    static const char *const names[] = {"host-y", "host-z"};
    uint64_t id = ask_break(false);
    tell_owners(id, names, 2, 2);
    tell_holds("host-y", id, 1, 1);
    struct message plain = begin("host-z", id, MESSAGE_BROKEN_PLAIN);
    plain.relayed = true; /* it does not say whose answer it is */
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

/* Two coordinators name different owners, as many as a lock can have. */
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

static void receive_break(uint64_t id, struct message_order version)
{
    struct message message = {.kind = MESSAGE_BREAK_HOLD};
    message_agent_set(&message.as.break_lock.agent, "host-y", 6);
    message_name_set(&message.as.break_lock.name, "a", 1);
    message.as.break_lock.request_id = id;
    message.as.break_lock.now = true;
    message.as.break_lock.version = version;
    message.as.break_lock.user = 1001;
    message.as.break_lock.meant = version;
    rig_receive(rig, &message);
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

/* An exclusive grant is here, so this host needs no other one. More readers than the report has
 * room for hold the lock. */
START_TEST(a_break_of_this_host_s_own_readers_is_reported_at_once)
{
    struct hfi_held held;
    struct hfi_frame frame = {.kind = HFI_FRAME_BREAK};
    frame.break_lock.name = (struct hfi_text){"a", 1};
    for (uint32_t i = 0; i < MESSAGE_HOLDS_MAX + 3; i++) {
        struct hfi_opened opened = i == 0 ? rig_open_granted(rig, other, "a", 500 * RIG_MS)
                                          : rig_open(rig, other, "a", 500 * RIG_MS)->frame.opened;
        opened.seat = rig_seat(rig, other, opened.handle, true);
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
    ck_assert_uint_eq(hold.token, held.token);
    ck_assert_int_ge(hold.elapsed_ns, 2990 * RIG_MS);
    ck_assert_int_le(hold.elapsed_ns, 3010 * RIG_MS);
    reply = rig_ask(rig, client, &frame);
    ck_assert_uint_eq(reply->frame.broken.hold_count + reply->frame.broken.more, 0);
    ck_assert_int_gt(reply->frame.broken.closed_ns, 0); /* the lock-delay still runs */
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
    tcase_add_test(asking, earlier_releases_answer_without_names);
    tcase_add_test(asking, the_last_names_count);
    TCase *owning = cell_case(suite, "owning");
    tcase_add_test(owning, a_repeated_break_does_not_end_the_next_hold);
    tcase_add_test(owning, a_late_break_does_not_end_a_later_grant);
    tcase_add_test(owning, a_break_of_this_host_s_own_readers_is_reported_at_once);
    return suite_run(suite);
}
