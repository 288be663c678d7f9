/*
 * The addresses of agents (agent/peers/addresses.h). This file plays the links, which come up and
 * break. An agent that is connected keeps its address, whatever address others announce. False
 * addresses are forgotten, and cost a bounded number of links.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "../suite_main.h"
#include "peers/addresses.h"

enum { LINKS = 4096, LIAR = 1, HONEST = 2, OTHER = 3 };

#define MS INT64_C(1000000)

static struct addresses addresses;
static bool dialled[LINKS];
static bool ups[LINKS];
static uint32_t used;
static uint32_t dialled_count;
static struct message_agent agent;

static uint32_t dial(void *arg, const struct message_agent *name, const char *address)
{
    (void)arg;
    (void)name;
    (void)address;
    ck_assert_uint_lt(used, LINKS);
    dialled[used] = true;
    dialled_count++;
    return used++;
}

static void forget(void *arg, uint32_t link)
{
    (void)arg;
    ck_assert(dialled[link]);
    dialled[link] = false;
    ups[link] = false;
    dialled_count--;
}

static bool is_up(void *arg, uint32_t link)
{
    (void)arg;
    ck_assert(dialled[link]);
    return ups[link];
}

static void set_up(void)
{
    memset(&addresses, 0, sizeof(addresses));
    memset(dialled, 0, sizeof(dialled));
    memset(ups, 0, sizeof(ups));
    used = 0;
    dialled_count = 0;
    addresses.operations = (struct addresses_operations){
        .dial = dial, .forget = forget, .is_up = is_up};
    agent = (struct message_agent){.length = 8, .text = "observer"};
}

static void link_to(struct address_entry *entry, uint32_t link, bool up, int64_t now_ns)
{
    ups[link] = up;
    address_link(&addresses, entry, link, up, now_ns);
}

static enum address_verdict say(struct address_entry *entry, const char *address, uint64_t host,
                                int64_t now_ns)
{
    return address_announced(&addresses, entry, &agent, address, host, now_ns);
}

static const char *current(const struct address_entry *entry)
{
    return address_current(&addresses, entry)->text;
}

/* Checks that the table counts no guest, trial or home (addresses.h) of any host, and that nothing
 * is dialled. */
static void nothing_is_left(void)
{
    for (uint32_t i = 0; i < ADDRESSES_HOSTS; i++) {
        ck_assert_uint_eq(addresses.guests[i], 0);
        ck_assert_uint_eq(addresses.announced[i], 0);
    }
    ck_assert_uint_eq(dialled_count, 0);
}

/* Makes an agent that is connected; link 0 is to its address. */
static void make_known(struct address_entry *entry)
{
    address_init(entry);
    ck_assert_int_eq(say(entry, "home", HONEST, 0), ADDRESS_DIALLED);
    link_to(entry, 0, true, 1 * MS);
    ck_assert_str_eq(current(entry), "home");
    ck_assert_uint_eq(addresses.guests[HONEST], 0);
    ck_assert_uint_eq(addresses.announced[HONEST], 1);
}

START_TEST(what_is_connected_stays)
{
    struct address_entry entry;
    make_known(&entry);
    ck_assert_int_eq(say(&entry, "home", HONEST, 2 * MS), ADDRESS_KEPT);
    for (int64_t now_ms = 3; now_ms < 1000; now_ms++) {
        ck_assert_int_eq(say(&entry, "lie", LIAR, now_ms * MS), ADDRESS_CONTRADICTED);
        ck_assert(address_look(&addresses, &entry, now_ms * MS));
    }
    ck_assert_uint_eq(dialled_count, 1);
    ck_assert_str_eq(current(&entry), "home");
}
END_TEST

/* A removed voter keeps its link, as an ordinary agent. */
START_TEST(a_removed_voter_stays_where_it_is)
{
    struct address_entry entry;
    uint32_t link = addresses.operations.dial(NULL, &agent, "seat");
    ups[link] = true;
    address_take(&addresses, &entry, link, "seat", true, 5 * MS);
    ck_assert_str_eq(current(&entry), "seat");
    ck_assert(address_has(&entry, link));
    ck_assert_int_eq(say(&entry, "lie", LIAR, 6 * MS), ADDRESS_CONTRADICTED);
    ck_assert(address_look(&addresses, &entry, 1000000 * MS));
    link_to(&entry, link, false, 1000000 * MS);
    ck_assert(!address_look(&addresses, &entry, 1000001 * MS + ADDRESSES_FORGET_MS * MS));
    nothing_is_left();
}
END_TEST

/* When an agent becomes a voter, it is dialled at the address in the record, which may differ from
 * its earlier address. */
START_TEST(who_becomes_a_voter_leaves_nothing_behind)
{
    struct address_entry entry;
    make_known(&entry);
    ck_assert_uint_eq(address_leave(&addresses, &entry, "home"), 0);
    ck_assert_uint_eq(dialled_count, 1); /* the caller now owns this link */
    ck_assert(!address_has(&entry, 0));
    addresses.operations.forget(NULL, 0);
    nothing_is_left();
    make_known(&entry);
    ck_assert_uint_eq(address_leave(&addresses, &entry, "seat"), ADDRESSES_LINK_NONE);
    nothing_is_left();
    address_init(&entry); /* a guest, which has not answered yet */
    ck_assert_int_eq(say(&entry, "home", HONEST, 0), ADDRESS_DIALLED);
    addresses.operations.forget(NULL, address_leave(&addresses, &entry, "home"));
    nothing_is_left();
    make_known(&entry);
    link_to(&entry, used - 1, false, 10 * MS);
    ck_assert_int_eq(say(&entry, "seat", HONEST, 11 * MS), ADDRESS_DIALLED);
    uint32_t link = address_leave(&addresses, &entry, "seat");
    ck_assert_uint_ne(link, ADDRESSES_LINK_NONE);
    addresses.operations.forget(NULL, link);
    nothing_is_left();
}
END_TEST

/* The agent's connection broke. A liar announces another address for the agent, and some process
 * answers there. Messages go to that address until the old address answers again. */
START_TEST(home_comes_back)
{
    struct address_entry entry;
    make_known(&entry);
    link_to(&entry, 0, false, 10 * MS);
    ck_assert_int_eq(say(&entry, "lie", LIAR, 11 * MS), ADDRESS_DIALLED);
    ck_assert_str_eq(current(&entry), "home");
    link_to(&entry, 1, true, 12 * MS);
    ck_assert_str_eq(current(&entry), "lie");
    ck_assert(address_look(&addresses, &entry, 30000 * MS));
    ck_assert_int_eq(say(&entry, "third", OTHER, 30000 * MS), ADDRESS_CONTRADICTED);
    link_to(&entry, 0, true, 30001 * MS);
    ck_assert_str_eq(current(&entry), "home");
    ck_assert_uint_eq(dialled_count, 1);
    ck_assert_uint_eq(addresses.guests[LIAR], 0);
}
END_TEST

START_TEST(it_moves_when_home_has_gone)
{
    struct address_entry entry;
    make_known(&entry);
    link_to(&entry, 0, false, 10 * MS);
    ck_assert_int_eq(say(&entry, "new", HONEST, 11 * MS), ADDRESS_DIALLED);
    link_to(&entry, 1, true, 12 * MS);
    ck_assert(address_look(&addresses, &entry, (10 + ADDRESSES_MOVE_MS) * MS));
    ck_assert_uint_eq(dialled_count, 2);
    ck_assert(address_look(&addresses, &entry, (11 + ADDRESSES_MOVE_MS) * MS));
    ck_assert_uint_eq(dialled_count, 1);
    ck_assert_str_eq(current(&entry), "new");
    ck_assert_uint_eq(addresses.announced[HONEST], 1);
    ck_assert_uint_eq(addresses.guests[HONEST], 0);
    link_to(&entry, 1, false, 200000 * MS); /* this time the agent does not come back */
    ck_assert(address_look(&addresses, &entry, (200000 + ADDRESSES_FORGET_MS) * MS));
    ck_assert(!address_look(&addresses, &entry, (200001 + ADDRESSES_FORGET_MS) * MS));
    nothing_is_left();
}
END_TEST

/* While the agent is away, a liar announces addresses where no process answers, as fast as it can
 * send. These addresses cost one link at a time, and then no link for a while. Meanwhile another
 * host's announcement is accepted. */
START_TEST(lies_where_nobody_answers)
{
    struct address_entry entry;
    char address[32];
    make_known(&entry);
    link_to(&entry, 0, false, 10 * MS);
    for (int64_t now_ms = 20; now_ms < 20 + ADDRESSES_TRIAL_MS + ADDRESSES_AGAIN_MS / 2;
         now_ms += 100) {
        snprintf(address, sizeof(address), "lie %lld", (long long)now_ms);
        (void)!say(&entry, address, LIAR, now_ms * MS);
        ck_assert(address_look(&addresses, &entry, now_ms * MS));
        ck_assert_uint_le(dialled_count, 2);
    }
    ck_assert_uint_eq(used, 2);
    ck_assert_uint_eq(dialled_count, 1);
    ck_assert_int_eq(say(&entry, "new", HONEST, 50000 * MS), ADDRESS_DIALLED);
    link_to(&entry, 2, true, 50001 * MS);
    ck_assert_str_eq(current(&entry), "new");
}
END_TEST

/* A liar that announces an unknown agent first does not keep that agent away. */
START_TEST(the_first_that_answers_is_its_home)
{
    struct address_entry entry;
    address_init(&entry);
    ck_assert_int_eq(say(&entry, "lie", LIAR, 0), ADDRESS_DIALLED);
    ck_assert_int_eq(say(&entry, "lie 2", LIAR, 1 * MS), ADDRESS_KEPT);
    ck_assert_int_eq(say(&entry, "home", HONEST, 2 * MS), ADDRESS_DIALLED);
    link_to(&entry, 1, true, 3 * MS);
    ck_assert_str_eq(current(&entry), "home");
    ck_assert_uint_eq(dialled_count, 1);
    ck_assert_uint_eq(addresses.guests[LIAR] + addresses.guests[HONEST] + addresses.announced[LIAR],
                      0);
    ck_assert_uint_eq(addresses.announced[HONEST], 1);
}
END_TEST

START_TEST(a_host_has_so_many_guests)
{
    static struct address_entry many[ADDRESSES_GUESTS_MAX + 1];
    struct address_entry another;
    for (uint32_t i = 0; i <= ADDRESSES_GUESTS_MAX; i++) {
        address_init(&many[i]);
        ck_assert_int_eq(say(&many[i], "nowhere", LIAR, 0),
                         i < ADDRESSES_GUESTS_MAX ? ADDRESS_DIALLED : ADDRESS_FULL);
    }
    ck_assert_uint_eq(many[ADDRESSES_GUESTS_MAX].home.link, ADDRESSES_LINK_NONE);
    address_init(&another);
    ck_assert_int_eq(say(&another, "home", HONEST, 0), ADDRESS_DIALLED);
    link_to(&another, ADDRESSES_GUESTS_MAX, true, 1 * MS);
    for (uint32_t i = 0; i < ADDRESSES_GUESTS_MAX; i++) {
        ck_assert(address_look(&addresses, &many[i], ADDRESSES_TRIAL_MS * MS));
        ck_assert(!address_look(&addresses, &many[i], (ADDRESSES_TRIAL_MS + 1) * MS));
    }
    ck_assert_uint_eq(dialled_count, 1);
    ck_assert_uint_eq(addresses.guests[LIAR] + addresses.announced[LIAR], 0);
}
END_TEST

/* A liar at whose addresses processes do answer gets at most half of the entries. */
START_TEST(a_host_has_so_many_places)
{
    static struct address_entry many[ADDRESSES_ANNOUNCED_MAX + 1];
    for (uint32_t i = 0; i < ADDRESSES_ANNOUNCED_MAX; i++) {
        address_init(&many[i]);
        ck_assert_int_eq(say(&many[i], "his", LIAR, 0), ADDRESS_DIALLED);
        link_to(&many[i], i, true, 0);
    }
    address_init(&many[ADDRESSES_ANNOUNCED_MAX]);
    ck_assert_int_eq(say(&many[ADDRESSES_ANNOUNCED_MAX], "his", LIAR, 0), ADDRESS_FULL);
    ck_assert_int_eq(say(&many[ADDRESSES_ANNOUNCED_MAX], "home", HONEST, 0), ADDRESS_DIALLED);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("places");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, what_is_connected_stays);
    tcase_add_test(tests, a_removed_voter_stays_where_it_is);
    tcase_add_test(tests, who_becomes_a_voter_leaves_nothing_behind);
    tcase_add_test(tests, home_comes_back);
    tcase_add_test(tests, it_moves_when_home_has_gone);
    tcase_add_test(tests, lies_where_nobody_answers);
    tcase_add_test(tests, the_first_that_answers_is_its_home);
    tcase_add_test(tests, a_host_has_so_many_guests);
    tcase_add_test(tests, a_host_has_so_many_places);
    return suite_main("places", tests);
}
