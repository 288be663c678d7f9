/*
 * Where an agent listens (agent/peers/places.h), with links that this file makes come up and break:
 * what is there stays, whatever is said; lies are forgotten, and cost a bounded number of links.
 */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "../suite_main.h"
#include "peers/places.h"

enum { LINKS = 4096, LIAR = 1, HONEST = 2, OTHER = 3 };

#define MS INT64_C(1000000)

static struct places places;
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
    memset(&places, 0, sizeof(places));
    memset(dialled, 0, sizeof(dialled));
    memset(ups, 0, sizeof(ups));
    used = 0;
    dialled_count = 0;
    places.operations = (struct places_operations){.dial = dial, .forget = forget, .is_up = is_up};
    agent = (struct message_agent){.length = 8, .text = "observer"};
}

static void link_to(struct place *place, uint32_t link, bool up, int64_t now_ns)
{
    ups[link] = up;
    place_link(&places, place, link, up, now_ns);
}

static enum place_verdict say(struct place *place, const char *address, uint64_t host,
                              int64_t now_ns)
{
    return place_said(&places, place, &agent, address, host, now_ns);
}

static const char *current(const struct place *place)
{
    return place_current(&places, place)->text;
}

/* Nothing is counted of a host any more. */
static void nothing_is_left(void)
{
    for (uint32_t i = 0; i < PLACES_HOSTS; i++) {
        ck_assert_uint_eq(places.guests[i], 0);
        ck_assert_uint_eq(places.said[i], 0);
    }
    ck_assert_uint_eq(dialled_count, 0);
}

/* An agent that is there: its address is link 0. */
static void make_known(struct place *place)
{
    place_init(place);
    ck_assert_int_eq(say(place, "home", HONEST, 0), PLACE_DIALLED);
    link_to(place, 0, true, 1 * MS);
    ck_assert_str_eq(current(place), "home");
    ck_assert_uint_eq(places.guests[HONEST], 0);
    ck_assert_uint_eq(places.said[HONEST], 1);
}

START_TEST(what_is_connected_stays)
{
    struct place place;
    make_known(&place);
    ck_assert_int_eq(say(&place, "home", HONEST, 2 * MS), PLACE_KEPT);
    for (int64_t now_ms = 3; now_ms < 1000; now_ms++) {
        ck_assert_int_eq(say(&place, "lie", LIAR, now_ms * MS), PLACE_CONTRADICTED);
        ck_assert(place_look(&places, &place, now_ms * MS));
    }
    ck_assert_uint_eq(dialled_count, 1);
    ck_assert_str_eq(current(&place), "home");
}
END_TEST

/* Its connection broke, and somebody says that it is elsewhere, where somebody answers: it is sent
 * to, until home answers again. */
START_TEST(home_comes_back)
{
    struct place place;
    make_known(&place);
    link_to(&place, 0, false, 10 * MS);
    ck_assert_int_eq(say(&place, "lie", LIAR, 11 * MS), PLACE_DIALLED);
    ck_assert_str_eq(current(&place), "home");
    link_to(&place, 1, true, 12 * MS);
    ck_assert_str_eq(current(&place), "lie");
    ck_assert(place_look(&places, &place, 30000 * MS));
    ck_assert_int_eq(say(&place, "third", OTHER, 30000 * MS), PLACE_CONTRADICTED);
    link_to(&place, 0, true, 30001 * MS);
    ck_assert_str_eq(current(&place), "home");
    ck_assert_uint_eq(dialled_count, 1);
    ck_assert_uint_eq(places.guests[LIAR], 0);
}
END_TEST

START_TEST(it_moves_when_home_has_gone)
{
    struct place place;
    make_known(&place);
    link_to(&place, 0, false, 10 * MS);
    ck_assert_int_eq(say(&place, "new", HONEST, 11 * MS), PLACE_DIALLED);
    link_to(&place, 1, true, 12 * MS);
    ck_assert(place_look(&places, &place, (10 + PLACES_MOVE_MS) * MS));
    ck_assert_uint_eq(dialled_count, 2);
    ck_assert(place_look(&places, &place, (11 + PLACES_MOVE_MS) * MS));
    ck_assert_uint_eq(dialled_count, 1);
    ck_assert_str_eq(current(&place), "new");
    ck_assert_uint_eq(places.said[HONEST], 1);
    ck_assert_uint_eq(places.guests[HONEST], 0);
    link_to(&place, 1, false, 200000 * MS); /* and for good */
    ck_assert(place_look(&places, &place, (200000 + PLACES_FORGET_MS) * MS));
    ck_assert(!place_look(&places, &place, (200001 + PLACES_FORGET_MS) * MS));
    nothing_is_left();
}
END_TEST

/* Lies where nobody answers, as fast as they can be told, while home is away: one link at a time,
 * and then none for a while; another host is heard meanwhile. */
START_TEST(lies_where_nobody_answers)
{
    struct place place;
    char address[32];
    make_known(&place);
    link_to(&place, 0, false, 10 * MS);
    for (int64_t now_ms = 20; now_ms < 20 + PLACES_TRIAL_MS + PLACES_AGAIN_MS / 2; now_ms += 100) {
        snprintf(address, sizeof(address), "lie %lld", (long long)now_ms);
        (void)!say(&place, address, LIAR, now_ms * MS);
        ck_assert(place_look(&places, &place, now_ms * MS));
        ck_assert_uint_le(dialled_count, 2);
    }
    ck_assert_uint_eq(used, 2);
    ck_assert_uint_eq(dialled_count, 1);
    ck_assert_int_eq(say(&place, "new", HONEST, 50000 * MS), PLACE_DIALLED);
    link_to(&place, 2, true, 50001 * MS);
    ck_assert_str_eq(current(&place), "new");
}
END_TEST

/* Who lies first about an agent that nobody knows yet does not keep it away. */
START_TEST(the_first_that_answers_is_its_home)
{
    struct place place;
    place_init(&place);
    ck_assert_int_eq(say(&place, "lie", LIAR, 0), PLACE_DIALLED);
    ck_assert_int_eq(say(&place, "lie 2", LIAR, 1 * MS), PLACE_KEPT);
    ck_assert_int_eq(say(&place, "home", HONEST, 2 * MS), PLACE_DIALLED);
    link_to(&place, 1, true, 3 * MS);
    ck_assert_str_eq(current(&place), "home");
    ck_assert_uint_eq(dialled_count, 1);
    ck_assert_uint_eq(places.guests[LIAR] + places.guests[HONEST] + places.said[LIAR], 0);
    ck_assert_uint_eq(places.said[HONEST], 1);
}
END_TEST

START_TEST(a_host_has_so_many_guests)
{
    static struct place many[PLACES_GUESTS_MAX + 1];
    struct place another;
    for (uint32_t i = 0; i <= PLACES_GUESTS_MAX; i++) {
        place_init(&many[i]);
        ck_assert_int_eq(say(&many[i], "nowhere", LIAR, 0),
                         i < PLACES_GUESTS_MAX ? PLACE_DIALLED : PLACE_FULL);
    }
    ck_assert_uint_eq(many[PLACES_GUESTS_MAX].home.link, PLACES_LINK_NONE);
    place_init(&another);
    ck_assert_int_eq(say(&another, "home", HONEST, 0), PLACE_DIALLED);
    link_to(&another, PLACES_GUESTS_MAX, true, 1 * MS);
    for (uint32_t i = 0; i < PLACES_GUESTS_MAX; i++) {
        ck_assert(place_look(&places, &many[i], PLACES_TRIAL_MS * MS));
        ck_assert(!place_look(&places, &many[i], (PLACES_TRIAL_MS + 1) * MS));
    }
    ck_assert_uint_eq(dialled_count, 1);
    ck_assert_uint_eq(places.guests[LIAR] + places.said[LIAR], 0);
}
END_TEST

/* One that has somebody answer at all that he says has half of the places at most. */
START_TEST(a_host_has_so_many_places)
{
    static struct place many[PLACES_SAID_MAX + 1];
    for (uint32_t i = 0; i < PLACES_SAID_MAX; i++) {
        place_init(&many[i]);
        ck_assert_int_eq(say(&many[i], "his", LIAR, 0), PLACE_DIALLED);
        link_to(&many[i], i, true, 0);
    }
    place_init(&many[PLACES_SAID_MAX]);
    ck_assert_int_eq(say(&many[PLACES_SAID_MAX], "his", LIAR, 0), PLACE_FULL);
    ck_assert_int_eq(say(&many[PLACES_SAID_MAX], "home", HONEST, 0), PLACE_DIALLED);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("places");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_test(tests, what_is_connected_stays);
    tcase_add_test(tests, home_comes_back);
    tcase_add_test(tests, it_moves_when_home_has_gone);
    tcase_add_test(tests, lies_where_nobody_answers);
    tcase_add_test(tests, the_first_that_answers_is_its_home);
    tcase_add_test(tests, a_host_has_so_many_guests);
    tcase_add_test(tests, a_host_has_so_many_places);
    return suite_main("places", tests);
}
