/*
 * What people see of other hosts: the host core of host-a with its gossip, and the gossip of
 * host-b. The connection between them loses nothing.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "core/base/message_check.h"
#include "core/gossip.h"
#include "host_rig.h"

enum { MINE = 0, OTHER = 1, STRANGER_LOCKS = 40 };

static struct rig *rig;
static struct gossip *gossips[2];
static void *memories[2];
static struct message_agent names[2] = {{6, "host-a"}, {6, "host-b"}};

static void gossip_event(uint32_t who, struct gossip_event event);

/* Delivers each agent's messages to the other at once. The recursion ends because an answer gets no
 * answer (spread.c). */
static void deliver(uint32_t who, const struct gossip_actions *actions, const unsigned char *bytes)
{
    for (uint32_t i = 0; i < actions->count; i++) {
        if (actions->items[i].kind == GOSSIP_SEND) {
            struct gossip_event event = {.kind = GOSSIP_RECEIVED, .agent = names[who]};
            event.as.received.bytes = bytes + actions->items[i].as.send.offset;
            event.as.received.size = actions->items[i].as.send.size;
            gossip_event(1 - who, event);
        }
    }
}

static void gossip_event(uint32_t who, struct gossip_event event)
{
    struct gossip_action *mine = calloc(GOSSIP_STEP_ACTIONS, sizeof(*mine));
    unsigned char *bytes = malloc(GOSSIP_STEP_OUTPUT);
    struct gossip_actions actions = {.items = mine,
                                     .capacity = GOSSIP_STEP_ACTIONS,
                                     .output = bytes,
                                     .output_size = GOSSIP_STEP_OUTPUT};
    event.now_ns = rig->now_ns;
    event.random = (uint64_t)rig->now_ns * 2654435761u + who;
    gossip_step(gossips[who], &event, &actions);
    deliver(who, &actions, bytes);
    free(mine);
    free(bytes);
}

/* Lets time pass for both agents. */
static void pass(int64_t ms)
{
    for (int64_t end_ns = rig->now_ns + ms * RIG_MS; rig->now_ns < end_ns;) {
        rig_pass(rig, 10 * RIG_MS);
        for (uint32_t i = 0; i < 2; i++) {
            if (gossip_next_tick_ns(gossips[i]) <= rig->now_ns) {
                gossip_event(i, (struct gossip_event){.kind = GOSSIP_TICK});
            }
        }
    }
}

static void setup(void)
{
    rig = rig_create(256, 8, 512, 16);
    for (uint32_t i = 0; i < 2; i++) {
        struct gossip_config config = {.limits = {40, 1024, 4096},
                                       .self = names[i],
                                       .address = "tcp://10.0.0.1:7411",
                                       .silent_ns = 10000 * RIG_MS};
        memories[i] = calloc(1, gossip_size(&config.limits));
        gossips[i] = gossip_init(memories[i], &config, 5 + i);
        gossip_event(i, (struct gossip_event){.kind = GOSSIP_START, .as.epoch = 1});
    }
    host_set_gossip(rig->host, gossips[MINE]);
    rig_begin(rig);
    for (uint32_t i = 0; i < 2; i++) {
        struct gossip_event event = {.kind = GOSSIP_PEER, .agent = names[1 - i]};
        event.as.peer.up = true;
        gossip_event(i, event);
    }
    pass(1000);
}

/* Replaces the other agent by one with that name. */
static void other_becomes(const char *name)
{
    struct gossip_config config = {
        .limits = {40, 1024, 4096}, .address = "tcp://10.0.0.1:7411", .silent_ns = 10000 * RIG_MS};
    names[OTHER] = (struct message_agent){.length = (uint8_t)strlen(name)};
    memcpy(names[OTHER].text, name, names[OTHER].length);
    config.self = names[OTHER];
    memset(memories[OTHER], 0, gossip_size(&config.limits));
    gossips[OTHER] = gossip_init(memories[OTHER], &config, 7);
    gossip_event(OTHER, (struct gossip_event){.kind = GOSSIP_START, .as.epoch = 1});
    for (uint32_t i = 0; i < 2; i++) {
        struct gossip_event event = {.kind = GOSSIP_PEER, .agent = names[1 - i]};
        event.as.peer.up = true;
        gossip_event(i, event);
    }
}

static void teardown(void)
{
    gossip_check_invariants(gossips[MINE]);
    rig_destroy(rig);
    free(memories[0]);
    free(memories[1]);
}

/* Publishes host-b's item for a lock: an exclusive hold with that token, and that many waiters. */
static void other_says(const char *name, uint64_t token, uint32_t waiters)
{
    struct gossip_lock lock = {.state = token ? HF_STATE_EXCLUSIVE : HF_STATE_FREE};
    lock.name.length = (uint8_t)strlen(name);
    memcpy(lock.name.bytes, name, lock.name.length);
    lock.holder_total = lock.holder_count = token != 0;
    lock.holders[0] = (struct gossip_holder){
        .pid = 5, .uid = 6, .token = token, .held_ms = 70, .remaining_ms = -1, .command = "job b"};
    lock.waiter_total = lock.waiter_count = waiters;
    for (uint32_t i = 0; i < waiters; i++) {
        lock.waiters[i] = (struct gossip_waiter){.pid = 50 + i, .waited_ms = 1000 - i};
    }
    ck_assert(gossip_put_lock(gossips[OTHER], &lock, rig->now_ns));
}

static struct rig_reply *show(uint32_t client, const char *name, struct hfi_lock_frame *lock)
{
    struct rig_reply *reply = rig_text(rig, client, HFI_FRAME_SHOW, name);
    ck_assert(hfi_listed_next_lock(&reply->cursor, lock));
    rig->reply_count = 0;
    return reply;
}

static bool text_is(struct hfi_text text, const char *expected)
{
    return text.size == strlen(expected) && memcmp(text.bytes, expected, text.size) == 0;
}

/* Sends LIST for each page. Returns the names, joined by spaces. */
static const char *list(uint32_t client, const char *prefix, uint32_t *pages)
{
    static char all[8192];
    char last[256] = "";
    size_t used = 0;
    bool more = true;
    all[0] = '\0';
    for (*pages = 0; more && *pages < 64; ++*pages) {
        struct hfi_frame frame = {.kind = HFI_FRAME_LIST};
        struct hfi_lock_frame lock;
        frame.list.prefix = (struct hfi_text){prefix, (uint32_t)strlen(prefix)};
        frame.list.after = (struct hfi_text){last, (uint32_t)strlen(last)};
        struct rig_reply *reply = rig_ask(rig, client, &frame);
        more = reply->frame.listed.more;
        while (hfi_listed_next_lock(&reply->cursor, &lock)) {
            memcpy(last, lock.name.bytes, lock.name.size);
            last[lock.name.size] = '\0';
            ck_assert_uint_lt(used + lock.name.size + 1, sizeof(all));
            used += (size_t)snprintf(all + used, sizeof(all) - used, "%s%s", used ? " " : "", last);
        }
        rig->reply_count = 0;
    }
    ck_assert(!more);
    return all;
}

START_TEST(other_hosts_locks_are_listed_in_order)
{
    uint32_t pages;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    uint32_t stranger = rig_connect(rig, 0);
    (void)rig_open_granted(rig, client, "a", 0);
    (void)rig_open_granted(rig, client, "c", 0);
    (void)rig_open_granted(rig, client, "o/2", 0);
    other_says("b", 3, 0);
    other_says("c", 0, 1);
    other_says("orders/1", 9, 0);
    other_says("gone", 9, 0);
    other_says("gone", 0, 0);
    pass(1000);
    ck_assert_str_eq(list(client, "", &pages), "a b c o/2 orders/1");
    ck_assert_str_eq(list(client, "o", &pages), "o/2 orders/1");
    ck_assert_str_eq(list(client, "orders/1", &pages), "orders/1");
    ck_assert_str_eq(list(client, "x", &pages), "");
    ck_assert_str_eq(list(stranger, "", &pages), "");
}
END_TEST

START_TEST(pages_go_on_where_the_last_one_ended)
{
    char expected[8192] = "";
    char name[16];
    uint32_t pages;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    for (uint32_t i = 0; i < 2 * STRANGER_LOCKS; i++) {
        uint32_t shuffled = i * 27 % (2 * STRANGER_LOCKS);
        snprintf(name, sizeof(name), "n%03u", shuffled);
        if (shuffled % 2) {
            other_says(name, 1, 0);
        } else {
            (void)rig_open_granted(rig, client, name, 0);
            rig->reply_count = 0;
        }
        snprintf(expected + strlen(expected), sizeof(expected) - strlen(expected), "%sn%03u",
                 i ? " " : "", i);
    }
    pass(1000);
    ck_assert_str_eq(list(client, "n", &pages), expected);
    ck_assert_uint_eq(pages, 3);
}
END_TEST

START_TEST(another_hosts_holder_is_shown)
{
    struct hfi_lock_frame lock;
    struct hfi_party_frame party;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    other_says("x", 3, 2);
    pass(1000);
    struct rig_reply *reply = show(client, "x", &lock);
    ck_assert_uint_eq(lock.state, HF_STATE_EXCLUSIVE);
    ck_assert_uint_eq(lock.holder_count, 1);
    ck_assert_uint_eq(lock.waiter_count, 2);
    ck_assert_int_ge(lock.age_ns, 0);
    ck_assert_int_lt(lock.age_ns, 1000 * RIG_MS);
    ck_assert(text_is(lock.coordinator, "host-a"));
    ck_assert(hfi_listed_next_party(&reply->cursor, &party));
    ck_assert(text_is(party.agent, "host-b"));
    ck_assert(text_is(party.command, "job b"));
    ck_assert_int_eq(party.pid, 5);
    ck_assert_int_eq(party.uid, 6);
    ck_assert_uint_eq(party.token, 3);
    ck_assert_int_eq(party.remaining_ns, -1);
    ck_assert_int_ge(party.elapsed_ns, 1070 * RIG_MS);
    ck_assert_int_le(party.elapsed_ns, 1071 * RIG_MS);
    ck_assert(hfi_listed_next_party(&reply->cursor, &party));
    ck_assert_int_eq(party.pid, 50);
    ck_assert_int_ge(party.elapsed_ns, 2000 * RIG_MS);
    (void)show(client, "unknown", &lock);
    ck_assert_uint_eq(lock.state, HF_STATE_FREE);
    ck_assert_int_ge(lock.age_ns, 0); /* the age of the item */
    ck_assert_int_lt(lock.age_ns, 1000 * RIG_MS);
}
END_TEST

/* Two exclusive holders are known. The holder with the lower token does not hold any more. */
START_TEST(the_higher_token_holds)
{
    struct hfi_lock_frame lock;
    struct hfi_party_frame party;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(rig, client, "x", 0);
    struct hfi_held held = rig_take(rig, &opened);
    other_says("x", held.token - 1, 1);
    pass(1000);
    struct rig_reply *reply = show(client, "x", &lock);
    ck_assert_uint_eq(lock.holder_count, 1);
    ck_assert_uint_eq(lock.waiter_count, 1);
    ck_assert(hfi_listed_next_party(&reply->cursor, &party));
    ck_assert(text_is(party.agent, "host-a"));
    ck_assert(hfi_listed_next_party(&reply->cursor, &party));
    ck_assert(text_is(party.agent, "host-b"));
    other_says("x", held.token + 1, 0);
    pass(1000);
    reply = show(client, "x", &lock);
    ck_assert_uint_eq(lock.holder_count, 1);
    ck_assert(hfi_listed_next_party(&reply->cursor, &party));
    ck_assert(text_is(party.agent, "host-b"));
}
END_TEST

/* Publishes the items of twenty hosts: on each, four processes read and eight wait. */
static void crowd_says(const char *name, const char *command)
{
    struct gossip_lock lock = {.state = HF_STATE_SHARED,
                               .holder_total = 4,
                               .holder_count = 4,
                               .waiter_total = 8,
                               .waiter_count = 8};
    char host[40];
    lock.name.length = (uint8_t)strlen(name);
    memcpy(lock.name.bytes, name, lock.name.length);
    for (uint32_t i = 0; i < 20; i++) {
        snprintf(host, sizeof(host), "a-host-whose-name-is-that-long-%c", 'a' + i);
        other_becomes(host);
        for (uint32_t k = 0; k < 4; k++) {
            lock.holders[k] = (struct gossip_holder){.pid = 4000000 + i,
                                                     .uid = UINT32_MAX,
                                                     .token = UINT64_C(1) << 50,
                                                     .held_ms = 1000000000000,
                                                     .remaining_ms = 1000000000000};
            snprintf(lock.holders[k].command, sizeof(lock.holders[k].command), "%s", command);
        }
        for (uint32_t k = 0; k < 8; k++) {
            lock.waiters[k] = (struct gossip_waiter){.pid = 4000000 + k,
                                                     .waited_ms = 1000000 + (i * 7 + k * 3) % 160};
        }
        ck_assert(gossip_put_lock(gossips[OTHER], &lock, rig->now_ns));
        pass(200);
    }
}

/* There are more parties than an item of a lock, or a packet, has room for. The item and the packet
 * each have as many parties as fit, and say that there are more. */
START_TEST(a_crowd_is_told_as_far_as_there_is_room)
{
    char command[GOSSIP_COMMAND_MAX + 1];
    struct hfi_lock_frame lock;
    struct hfi_party_frame party;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    memset(command, 'c', sizeof(command) - 1);
    command[_i ? GOSSIP_COMMAND_MAX : 3] = '\0';
    crowd_says("x", command);
    struct rig_reply *reply = show(client, "x", &lock);
    ck_assert(lock.more_parties);
    ck_assert_uint_eq(lock.state, HF_STATE_SHARED);
    ck_assert_uint_eq(lock.holder_count, HFI_FRAME_PARTIES_MAX);
    if (_i) { /* the holders' command lines take the room of some waiters */
        ck_assert_uint_lt(lock.waiter_count, HFI_FRAME_PARTIES_MAX);
        ck_assert_uint_gt(lock.waiter_count, 0);
    } else {
        ck_assert_uint_eq(lock.waiter_count, HFI_FRAME_PARTIES_MAX);
    }
    int64_t last_ns = INT64_MAX;
    for (uint32_t i = 0; i < lock.holder_count + lock.waiter_count; i++) {
        ck_assert(hfi_listed_next_party(&reply->cursor, &party));
        ck_assert(party.agent.size == 32);
        ck_assert(i >= lock.holder_count || text_is(party.command, command));
        /* in the order of their waits, the longest first */
        ck_assert(i < lock.holder_count || party.elapsed_ns <= last_ns);
        last_ns = i < lock.holder_count ? INT64_MAX : party.elapsed_ns;
    }
    ck_assert(!hfi_listed_next_party(&reply->cursor, &party));
}
END_TEST

/* host-b falls silent: its items are shown for at most ttl and grace. */
START_TEST(the_silent_are_unknown)
{
    struct hfi_lock_frame lock;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    other_says("x", 3, 0);
    pass(1000);
    rig_pass(rig, 9000 * RIG_MS);
    (void)show(client, "x", &lock);
    ck_assert_uint_eq(lock.state, HF_STATE_EXCLUSIVE);
    ck_assert_int_ge(lock.age_ns, 8000 * RIG_MS);
    rig_pass(rig, 2000 * RIG_MS);
    (void)show(client, "x", &lock);
    ck_assert_uint_eq(lock.holder_count, 0);
    ck_assert_int_eq(lock.age_ns, -1);
}
END_TEST

/* Reads host-b's item about a lock of host-a. Returns false if there is no valid item. */
static bool told(const char *name, struct gossip_lock *out)
{
    struct gossip_view view;
    uint32_t at = 0;
    if (!gossip_lock_next(gossips[OTHER], name, strlen(name), rig->now_ns, &at, &view)) {
        return false;
    }
    *out = view.lock;
    return view.valid && (view.lock.holder_total > 0 || view.lock.closed_ms > 0);
}

START_TEST(what_is_held_here_is_told)
{
    struct gossip_lock lock;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(rig, client, "x", 5000 * RIG_MS);
    pass(500);
    ck_assert(!told("x", &lock)); /* nobody holds the lock */
    struct hfi_held held = rig_take(rig, &opened);
    pass(500);
    ck_assert(told("x", &lock));
    ck_assert_uint_eq(lock.state, HF_STATE_EXCLUSIVE);
    ck_assert_uint_eq(lock.holders[0].token, held.token);
    ck_assert_int_eq(lock.holders[0].pid, 77);
    ck_assert_str_eq(lock.holders[0].command, "test");
    ck_assert_int_ge(lock.holders[0].held_ms, 400);
    ck_assert_int_eq(lock.holders[0].remaining_ms, -1);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    hfi_release(&actor, opened.slot, held.token);
    pass(500);
    ck_assert(!told("x", &lock));
    held = rig_take(rig, &opened);
    pass(500);
    ck_assert(told("x", &lock));
    rig_die(rig, client);
    pass(500);
    ck_assert(told("x", &lock));
    ck_assert_uint_eq(lock.holder_total, 0);
    ck_assert_int_gt(lock.closed_ms, 4000);
}
END_TEST

/* Gets the `behind` of a lock from SHOW. Returns false if there is none. */
static bool show_behind(uint32_t client, const char *name, struct hfi_lock_frame *lock,
                        struct hfi_behind_frame *behind)
{
    struct rig_reply *reply = show(client, name, lock);
    return hfi_listed_behind(&reply->cursor, behind);
}

/* This host has closed a lock behind a process. It shows that process, and sends it to other
 * hosts. */
START_TEST(behind_whom_it_is_closed_here)
{
    struct gossip_lock lock;
    struct hfi_lock_frame shown;
    struct hfi_behind_frame behind;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    uint32_t looker = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(rig, client, "x", 5000 * RIG_MS);
    (void)rig_take(rig, &opened);
    pass(500);
    ck_assert(told("x", &lock));
    ck_assert(!lock.has_last);
    ck_assert(!show_behind(looker, "x", &shown, &behind));
    rig_die(rig, client);
    pass(1000);
    ck_assert(show_behind(looker, "x", &shown, &behind));
    ck_assert_int_gt(shown.closed_ns, 3000 * RIG_MS);
    ck_assert_int_le(shown.closed_ns, 4002 * RIG_MS); /* times in the region are rounded */
    ck_assert_uint_eq(behind.ending, HF_ENDING_PROCESS);
    ck_assert_int_eq(behind.pid, 77);
    ck_assert(text_is(behind.agent, "host-a") && text_is(behind.command, "test"));
    ck_assert_int_ge(behind.elapsed_ns, 1000 * RIG_MS);
    ck_assert_int_lt(behind.elapsed_ns, 1200 * RIG_MS);
    ck_assert(told("x", &lock));
    ck_assert(lock.has_last);
    ck_assert_uint_eq(lock.last.agent.length, 6);
    ck_assert_mem_eq(lock.last.agent.text, "host-a", 6);
    ck_assert_int_eq(lock.last.pid, 77);
    ck_assert_str_eq(lock.last.command, "test");
    ck_assert_uint_eq(lock.last.ending, HF_ENDING_PROCESS);
    ck_assert_int_ge(lock.last.ended_ms, 900); /* the time grows with the item's age */
    pass(5000);
    ck_assert(!told("x", &lock));
    ck_assert(!show_behind(looker, "x", &shown, &behind));
    ck_assert_int_eq(shown.closed_ns, 0);
}
END_TEST

/* Sends NOTE. Returns the error in the answer. */
static int32_t set_note(uint32_t client, uint32_t handle, uint32_t flags, const char *text)
{
    struct hfi_frame frame = {
        .kind = HFI_FRAME_NOTE,
        .note = {.handle = handle, .flags = flags, .note = {text, (uint32_t)strlen(text)}}};
    int32_t error = rig_ask(rig, client, &frame)->frame.error;
    rig->reply_count = 0;
    return error;
}

/* Returns whether this host and the other one show the lock with that note on its first holder. */
static bool noted(uint32_t looker, const char *name, const char *text)
{
    struct gossip_lock lock;
    struct hfi_lock_frame shown;
    struct hfi_party_frame party;
    pass(500);
    struct rig_reply *reply = show(looker, name, &shown);
    ck_assert_uint_ge(shown.holder_count, 1);
    ck_assert(hfi_listed_next_party(&reply->cursor, &party));
    ck_assert(told(name, &lock));
    return text_is(party.note, text) && strcmp(lock.holders[0].note, text) == 0;
}

/* A note counts from the handle's next hold on. The hold that is there keeps its note, also in what
 * is shown after its end. */
START_TEST(a_note_belongs_to_the_next_hold)
{
    struct hfi_lock_frame shown;
    struct hfi_behind_frame behind;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    uint32_t looker = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(rig, client, "x", 5000 * RIG_MS);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    ck_assert_int_eq(set_note(client, opened.handle, 0, "one"), 0);
    struct hfi_held held = rig_take(rig, &opened);
    ck_assert(noted(looker, "x", "one"));
    ck_assert_int_eq(set_note(client, opened.handle, 0, "two"), 0);
    ck_assert_int_eq(set_note(client, opened.handle, 0, "three"), 0);
    ck_assert(noted(looker, "x", "one"));
    hfi_release(&actor, opened.slot, held.token);
    held = rig_take(rig, &opened);
    ck_assert(noted(looker, "x", "three"));
    ck_assert_int_eq(set_note(client, opened.handle, 0, ""), 0);
    ck_assert(noted(looker, "x", "three"));
    hfi_release(&actor, opened.slot, held.token);
    held = rig_take(rig, &opened);
    ck_assert(noted(looker, "x", ""));
    /* the process opened the handle again with this agent, and its hold goes on */
    ck_assert_int_eq(set_note(client, opened.handle, HFI_NOTE_NOW, "again"), 0);
    ck_assert(noted(looker, "x", "again"));
    ck_assert_int_eq(set_note(client, opened.handle, 0, "later"), 0);
    rig_die(rig, client);
    pass(1000);
    ck_assert(show_behind(looker, "x", &shown, &behind));
    ck_assert(text_is(behind.note, "again"));
    struct gossip_lock lock;
    ck_assert(told("x", &lock));
    ck_assert_str_eq(lock.last.note, "again");
}
END_TEST

START_TEST(a_reader_has_a_note)
{
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    uint32_t looker = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(rig, client, "x", 0);
    opened.seat = rig_seat(rig, client, opened.handle, true);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    struct hfi_held held;
    const struct hfi_request request = {.slot = opened.slot, .seat = opened.seat};
    ck_assert_int_eq(set_note(client, opened.handle, 0, "one"), 0);
    ck_assert_int_eq(hfi_try_shared(&actor, &request, &held), HFI_HELD);
    ck_assert(noted(looker, "x", "one"));
    ck_assert_int_eq(set_note(client, opened.handle, 0, "two"), 0);
    ck_assert(noted(looker, "x", "one"));
    hfi_release_shared(&actor, opened.slot, opened.seat, held.cell);
    ck_assert_int_eq(hfi_try_shared(&actor, &request, &held), HFI_HELD);
    ck_assert(noted(looker, "x", "two"));
}
END_TEST

START_TEST(another_hosts_note_is_shown)
{
    struct hfi_lock_frame lock;
    struct hfi_party_frame party;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    struct gossip_lock says = {.state = HF_STATE_EXCLUSIVE, .holder_total = 1, .holder_count = 1};
    says.name = (struct message_name){1, "x"};
    says.holders[0] = (struct gossip_holder){
        .pid = 5, .uid = 6, .token = 3, .held_ms = 70, .remaining_ms = -1, .note = "theirs"};
    ck_assert(gossip_put_lock(gossips[OTHER], &says, rig->now_ns));
    pass(1000);
    struct rig_reply *reply = show(client, "x", &lock);
    ck_assert(hfi_listed_next_party(&reply->cursor, &party));
    ck_assert(text_is(party.agent, "host-b") && text_is(party.note, "theirs"));
}
END_TEST

/* Names that differ only in their last character are usual. A process that held several such locks
 * ends: each of them shows behind whom it is closed. */
START_TEST(behind_whom_each_of_several_locks_is_closed)
{
    static const char *const held[] = {"job-1", "job-2", "job-3"};
    enum { HELD = sizeof(held) / sizeof(held[0]) };
    struct hfi_lock_frame shown;
    struct hfi_behind_frame behind;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    uint32_t looker = rig_connect(rig, HOST_MAY_USE);
    for (uint32_t i = 0; i < HELD; i++) {
        struct hfi_opened opened = rig_open_granted(rig, client, held[i], 5000 * RIG_MS);
        (void)rig_take(rig, &opened);
    }
    rig_die(rig, client);
    pass(1000);
    for (uint32_t i = 0; i < HELD; i++) {
        ck_assert_msg(show_behind(looker, held[i], &shown, &behind), "%s", held[i]);
        ck_assert_uint_eq(behind.ending, HF_ENDING_PROCESS);
        ck_assert_int_eq(behind.pid, 77);
    }
}
END_TEST

/* Publishes host-b's item about a lock that is closed, with `last`, or without it, as a host of an
 * earlier release does. */
static void other_closes(const char *name, int64_t closed_ms, const struct gossip_last *last)
{
    struct gossip_lock lock = {.state = HF_STATE_FREE, .closed_ms = closed_ms};
    lock.name.length = (uint8_t)strlen(name);
    memcpy(lock.name.bytes, name, lock.name.length);
    lock.has_last = last != NULL;
    lock.last = last != NULL ? *last : lock.last;
    ck_assert(gossip_put_lock(gossips[OTHER], &lock, rig->now_ns));
    pass(500);
}

START_TEST(behind_whom_another_host_says)
{
    const struct gossip_last last = {.agent = {6, "host-c"},
                                     .pid = 5,
                                     .uid = 6,
                                     .ended_ms = 100,
                                     .ending = HF_ENDING_BROKEN,
                                     .by_agent = {6, "host-d"},
                                     .by_uid = 7,
                                     .command = "job"};
    struct hfi_lock_frame shown;
    struct hfi_behind_frame behind;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    other_closes("x", 3000, NULL);
    ck_assert(show_behind(client, "x", &shown, &behind));
    ck_assert_int_le(shown.closed_ns, 2600 * RIG_MS);
    ck_assert(text_is(behind.agent, "host-b") && behind.command.size == 0);
    ck_assert(behind.pid == -1 && behind.uid == -1 && behind.elapsed_ns == -1);
    ck_assert_uint_eq(behind.ending, HF_ENDING_UNKNOWN);
    other_closes("x", 3000, &last);
    ck_assert(show_behind(client, "x", &shown, &behind));
    ck_assert(text_is(behind.agent, "host-c") && text_is(behind.command, "job"));
    ck_assert(behind.pid == 5 && behind.uid == 6 && behind.by_uid == 7);
    ck_assert(text_is(behind.by_agent, "host-d"));
    ck_assert_uint_eq(behind.ending, HF_ENDING_BROKEN);
    ck_assert_int_ge(behind.elapsed_ns, 500 * RIG_MS);
    ck_assert_int_le(behind.elapsed_ns, 700 * RIG_MS);
}
END_TEST

/* Delivers a coordinator's message that host-b's session has ended. */
static void closed_elsewhere(const char *name, uint32_t closed_ms)
{
    struct message message;
    memset(&message, 0, sizeof(message));
    message.kind = MESSAGE_REFUSED;
    message.as.refused.agent = names[MINE];
    message.as.refused.epoch = 1;
    message.as.refused.name.length = (uint8_t)strlen(name);
    memcpy(message.as.refused.name.bytes, name, strlen(name));
    message.as.refused.reason = MESSAGE_REFUSED_IN_USE;
    message.as.refused.owner = names[OTHER];
    message.as.refused.closed_ms = closed_ms;
    rig_receive(rig, &message);
}

/* An administrator on host-y breaks the hold here, with --now. */
static void break_now(const char *name)
{
    struct message message;
    memset(&message, 0, sizeof(message));
    message.kind = MESSAGE_BREAK_HOLD;
    message_agent_set(&message.from, "host-a", 6);
    message_agent_set(&message.as.break_lock.agent, "host-y", 6);
    message_name_set(&message.as.break_lock.name, name, strlen(name));
    message.as.break_lock.request_id = 7;
    message.as.break_lock.now = true;
    message.as.break_lock.version = (struct message_order){1 << 16 | 1, rig->version};
    message.as.break_lock.user = 1001;
    message.as.break_lock.meant = message.as.break_lock.version;
    rig_receive(rig, &message);
}

static void expect_broken(const struct hfi_behind_frame *behind)
{
    ck_assert_uint_eq(behind->ending, HF_ENDING_BROKEN);
    ck_assert(behind->pid == 77 && text_is(behind->agent, "host-a"));
    ck_assert(text_is(behind->command, "test"));
    ck_assert(behind->by_uid == 1000 && text_is(behind->by_agent, "host-y"));
}

/* No lock-delay follows the break, so the lock is free at once. For a while this host still shows
 * whose hold was broken, and by whom, and sends that to other hosts. The next hold does not hide
 * it. */
START_TEST(whose_hold_was_broken_without_a_lock_delay)
{
    struct gossip_lock lock;
    struct hfi_lock_frame shown;
    struct hfi_behind_frame behind;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    uint32_t looker = rig_connect(rig, HOST_MAY_USE);
    struct hfi_opened opened = rig_open_granted(rig, client, "x", 5000 * RIG_MS);
    struct hfi_opened next = rig_open_granted(rig, looker, "x", 0);
    (void)rig_take(rig, &opened);
    pass(500);
    ck_assert(told("x", &lock));
    ck_assert(!lock.has_last);
    break_now("x");
    ck_assert(show_behind(looker, "x", &shown, &behind));
    ck_assert_uint_eq(shown.state, HF_STATE_FREE);
    ck_assert_int_eq(shown.closed_ns, 0);
    ck_assert_int_eq(behind.elapsed_ns, 0);
    expect_broken(&behind);
    pass(500);
    ck_assert(!told("x", &lock)); /* it is free there, too */
    ck_assert(lock.has_last);
    ck_assert_uint_eq(lock.last.ending, HF_ENDING_BROKEN);
    ck_assert(lock.last.pid == 77 && lock.last.by_uid == 1000);
    ck_assert_int_ge(lock.last.ended_ms, 500);
    (void)rig_take(rig, &next);
    ck_assert(show_behind(looker, "x", &shown, &behind));
    ck_assert_uint_eq(shown.state, HF_STATE_EXCLUSIVE);
    expect_broken(&behind);
    pass(500);
    ck_assert(told("x", &lock));
    ck_assert(lock.has_last);
    pass(8900);
    ck_assert(show_behind(looker, "x", &shown, &behind));
    pass(200);
    ck_assert(!show_behind(looker, "x", &shown, &behind));
}
END_TEST

/* Another host reports a hold that was broken. If a coordinator reports a lock-delay, that is shown
 * instead. */
START_TEST(whose_hold_was_broken_on_another_host)
{
    const struct gossip_last last = {.agent = {6, "host-b"},
                                     .pid = 5,
                                     .uid = 6,
                                     .ended_ms = 100,
                                     .ending = HF_ENDING_BROKEN,
                                     .by_agent = {6, "host-d"},
                                     .by_uid = 7};
    struct gossip_last process = last;
    struct hfi_lock_frame shown;
    struct hfi_behind_frame behind;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    process.ending = HF_ENDING_PROCESS;
    other_closes("x", 3000, NULL);
    other_closes("x", 0, &process);
    ck_assert(!show_behind(client, "x", &shown, &behind));
    other_closes("x", 3000, NULL);
    other_closes("x", 0, &last);
    ck_assert(show_behind(client, "x", &shown, &behind));
    ck_assert_int_eq(shown.closed_ns, 0);
    ck_assert_uint_eq(behind.ending, HF_ENDING_BROKEN);
    ck_assert(behind.pid == 5 && behind.by_uid == 7 && text_is(behind.by_agent, "host-d"));
    closed_elsewhere("x", 1000);
    ck_assert(show_behind(client, "x", &shown, &behind));
    ck_assert_int_eq(shown.closed_ns, 1000 * RIG_MS);
    ck_assert_uint_eq(behind.ending, HF_ENDING_SESSION);
    pass(1500);
    ck_assert(show_behind(client, "x", &shown, &behind));
    ck_assert_uint_eq(behind.ending, HF_ENDING_BROKEN);
    pass(9000);
    ck_assert(!show_behind(client, "x", &shown, &behind));
}
END_TEST

/* host-b held the lock, and its session has ended. A coordinator reports how long the lock stays
 * closed, and host-b's last gossip has the holder. While a process waits here, this host passes
 * both on. */
START_TEST(behind_a_host_that_vanished)
{
    struct gossip_lock lock;
    struct hfi_lock_frame shown;
    struct hfi_behind_frame behind;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    struct gossip_lock held = {.state = HF_STATE_EXCLUSIVE, .name = {1, "x"}};
    held.holder_total = held.holder_count = 1;
    held.holders[0] = (struct gossip_holder){
        .pid = 8, .uid = 9, .token = 3, .held_ms = 1, .remaining_ms = -1, .command = "job"};
    ck_assert(gossip_put_lock(gossips[OTHER], &held, rig->now_ns));
    pass(500);
    closed_elsewhere("x", 3000);
    rig_pass(rig, 500 * RIG_MS);
    ck_assert(show_behind(client, "x", &shown, &behind));
    ck_assert_int_eq(shown.closed_ns, 2500 * RIG_MS);
    ck_assert(text_is(behind.agent, "host-b") && text_is(behind.command, "job"));
    ck_assert(behind.pid == 8 && behind.uid == 9 && behind.elapsed_ns == -1);
    ck_assert_uint_eq(behind.ending, HF_ENDING_SESSION);
    ck_assert(!show_behind(client, "other", &shown, &behind));
    pass(500);
    ck_assert(!told("x", &lock)); /* no process waits here */
    rig_pass(rig, 2000 * RIG_MS);
    ck_assert(!show_behind(client, "x", &shown, &behind));
    ck_assert_int_eq(shown.closed_ns, 0);
    closed_elsewhere("y", 3000);
    ck_assert(show_behind(client, "y", &shown, &behind));
    (void)rig_open_granted(rig, client, "y", 0); /* this host has the lock now */
    ck_assert(!show_behind(client, "y", &shown, &behind));
    ck_assert_int_eq(shown.closed_ns, 0);
}
END_TEST

/* While a process waits here, this host sends other hosts the process behind which the lock is
 * closed elsewhere. It does not do so before or after. */
START_TEST(a_waiting_host_passes_on_behind_whom)
{
    struct gossip_lock lock;
    uint32_t client = rig_connect(rig, HOST_MAY_USE);
    ck_assert_ptr_null(rig_open(rig, client, "z", 0));
    rig_refuse(rig, rig_sent(rig, MESSAGE_ACQUIRE), MESSAGE_REFUSED_IN_USE);
    struct rig_reply *reply = rig_find(rig, client, HFI_FRAME_OPENED);
    ck_assert_ptr_nonnull(reply);
    struct hfi_opened opened = reply->frame.opened;
    closed_elsewhere("z", 9000);
    pass(500);
    ck_assert(!told("z", &lock));
    opened.seat = rig_seat(rig, client, opened.handle, false);
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    struct hfi_request request = {.slot = opened.slot, .seat = opened.seat, .trying = true};
    struct hfi_wait_limit now = {.deadline_ns = rig->now_ns};
    struct hfi_held held;
    uint64_t place = 0;
    ck_assert_int_eq(hfi_wait_exclusive(&actor, &request, &now, &place, &held), HFI_UNGRANTED);
    pass(500);
    ck_assert(told("z", &lock));
    ck_assert_uint_eq(lock.waiter_total, 1);
    ck_assert_int_gt(lock.closed_ms, 7500);
    ck_assert_int_le(lock.closed_ms, 8000);
    ck_assert(lock.has_last);
    ck_assert_mem_eq(&lock.last.agent, &names[OTHER], sizeof(names[OTHER]));
    ck_assert_uint_eq(lock.last.ending, HF_ENDING_SESSION);
    hfi_leave(&actor, &request, &place);
    pass(500);
    ck_assert(!told("z", &lock));
}
END_TEST

/* A name whose slot is freed right after its hold does not stay held in host-b's view. */
START_TEST(a_name_that_goes_is_told)
{
    struct gossip_lock lock;
    uint32_t client = rig_connect(rig, HOST_MAY_USE | HOST_MAY_ADMIN);
    struct hfi_opened opened = rig_open_granted(rig, client, "x", 0);
    struct hfi_held held = rig_take(rig, &opened);
    pass(500);
    ck_assert(told("x", &lock));
    struct hfi_actor actor = rig_actor(rig, opened.holder);
    hfi_release(&actor, opened.slot, held.token);
    rig_close(rig, client, opened.handle);
    (void)rig_text(rig, client, HFI_FRAME_RECALL, "x");
    const struct message *give_back = rig_sent(rig, MESSAGE_GIVE_BACK);
    ck_assert_ptr_nonnull(give_back);
    rig_returned(rig, give_back);
    ck_assert_uint_eq(rig->rows_gone, 1); /* the name has no slot any more */
    pass(500);
    ck_assert(!told("x", &lock));
}
END_TEST

START_TEST(watchers_are_told_of_other_hosts)
{
    uint32_t watcher = rig_connect(rig, HOST_MAY_USE);
    uint32_t stranger = rig_connect(rig, HOST_MAY_ADMIN);
    ck_assert_int_eq(rig_text(rig, watcher, HFI_FRAME_WATCH, "a/")->frame.error, 0);
    ck_assert_int_eq(rig_text(rig, stranger, HFI_FRAME_WATCH, "b/")->frame.error, 0);
    rig->reply_count = 0;
    other_says("a/x", 3, 0);
    other_says("c/x", 3, 0);
    pass(500);
    ck_assert_uint_eq(rig_count(rig, watcher, HFI_FRAME_CHANGED), 1);
    ck_assert(text_is(rig_find(rig, watcher, HFI_FRAME_CHANGED)->frame.text, "a/x"));
    ck_assert(rig_find(rig, watcher, HFI_FRAME_CHANGED)->unasked);
    ck_assert_uint_eq(rig_count(rig, stranger, HFI_FRAME_CHANGED), 0);
    ck_assert(!gossip_has_changed(gossips[MINE]));
    other_says("a/x", 0, 0);
    pass(500);
    ck_assert_uint_eq(rig_count(rig, watcher, HFI_FRAME_CHANGED), 2);
    rig_hang_up(rig, watcher);
    rig_hang_up(rig, stranger);
    other_says("a/x", 7, 0);
    pass(500);
    /* nobody watches the lock, so no change is recorded */
    ck_assert(!gossip_has_changed(gossips[MINE]));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("host_gossip");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, other_hosts_locks_are_listed_in_order);
    tcase_add_test(tests, pages_go_on_where_the_last_one_ended);
    tcase_add_test(tests, another_hosts_holder_is_shown);
    tcase_add_test(tests, the_higher_token_holds);
    tcase_add_loop_test(tests, a_crowd_is_told_as_far_as_there_is_room, 0, 2);
    tcase_add_test(tests, the_silent_are_unknown);
    tcase_add_test(tests, what_is_held_here_is_told);
    tcase_add_test(tests, behind_whom_it_is_closed_here);
    tcase_add_test(tests, a_note_belongs_to_the_next_hold);
    tcase_add_test(tests, a_reader_has_a_note);
    tcase_add_test(tests, another_hosts_note_is_shown);
    tcase_add_test(tests, behind_whom_each_of_several_locks_is_closed);
    tcase_add_test(tests, behind_whom_another_host_says);
    tcase_add_test(tests, behind_a_host_that_vanished);
    tcase_add_test(tests, a_waiting_host_passes_on_behind_whom);
    tcase_add_test(tests, whose_hold_was_broken_without_a_lock_delay);
    tcase_add_test(tests, whose_hold_was_broken_on_another_host);
    tcase_add_test(tests, a_name_that_goes_is_told);
    tcase_add_test(tests, watchers_are_told_of_other_hosts);
    return suite_main("host_gossip", tests);
}
