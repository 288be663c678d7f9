/* The judgement about an agent, computed from facts. One thing is wrong at a time, then many
 * things. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../suite_main.h"
#include "observe/judgement.h"

enum { VOTERS = 3, MIB = 1024 * 1024, DAY_S = 86400 };

static const int64_t now_s = 1800000000;
static const char *const spaces[] = {"default", "orders"};
static struct judgement_facts facts;
static struct judgement judgement;
static char text[8192];

static void set_up(void)
{
    judgement_facts_init(&facts);
    facts.session_ttl_ns = 5000000000;
    facts.max_drift_percent = 10;
    facts.remaining_ns = 4000000000;
    facts.voter_count = VOTERS;
    for (uint32_t i = 0; i < VOTERS; i++) {
        static const char *const names[] = {"a", "b", "c"};
        facts.voters[i] = (struct judgement_voter){.name = names[i],
                                                   .self = i == 0,
                                                   .up = true,
                                                   .connected = i != 0,
                                                   .why_down = "",
                                                   .round_trip_worst_ns = 1000000};
    }
    facts.namespace_count = 2;
    facts.namespaces = spaces;
    facts.socket = "/run/a.sock";
    facts.state_dir = "/srv/a";
    facts.now_s = now_s;
    facts.disk_free = INT64_C(1000) * MIB;
    facts.disk_inodes = 100000;
    facts.descriptors_used = 20;
    facts.descriptors_max = 1000;
    facts.clients = 3;
    facts.clients_max = 8;
}

static void set_nothing(void)
{
}
static void set_unknown(void)
{
    facts.disk_free = facts.disk_inodes = facts.descriptors_used = facts.clients = -1;
}
static void set_jeopardy(void)
{
    facts.session = RENEWAL_JEOPARDY;
    facts.remaining_ns = -1500000000;
}
static void set_lost(void)
{
    facts.session = RENEWAL_LOST;
}
static void set_next_session(void) /* a new session has not begun after one was lost */
{
    facts.session = RENEWAL_JEOPARDY;
    facts.was_safe = false;
    facts.session_ended = true;
}
static void set_none(void)
{
    facts.session = RENEWAL_JEOPARDY;
    facts.was_safe = false;
}
static void set_astray(void)
{
    facts.session = RENEWAL_JEOPARDY;
    facts.astray = true;
}
static void set_astray_alone(void)
{
    facts.astray = true;
}
static void set_namespace(void)
{
    facts.down = 2;
}
static void set_no_namespace(void)
{
    facts.down = 3;
}

static void set_hole(void)
{
    facts.down = facts.roomless = 1;
}
static void set_socket(void)
{
    facts.socket_gone = true;
}
static void set_record(void)
{
    facts.record_failed_age_ns = 59999999999;
    facts.record_failed = "No space left on device";
}
static void set_record_before(void)
{
    facts.record_failed_age_ns = 60000000000;
}
static void set_refused(void)
{
    facts.voters[2].refused = true;
    facts.voters[2].up = false;
}
static void set_refused_self(void)
{
    facts.voters[0].refused = true;
    facts.not_vote = "refused";
}
static void set_listed(void)
{
    facts.not_vote = "listed";
}
static void set_starts_over(void)
{
    set_refused();
    facts.voters[2].starts_over = true;
}
static void set_rules(void)
{
    set_refused();
    facts.voters[2].rules_differ = true;
}
static void set_silent(void)
{
    facts.voters[1].up = false;
}
static void set_unreachable(void)
{
    facts.voters[1].up = facts.voters[1].connected = false;
    facts.voters[1].why_down = "Connection\x1b refused";
}
static void set_two_silent(void)
{
    facts.voters[1].up = facts.voters[2].up = false;
}
static void set_one_silent_one_refused(void)
{
    set_silent();
    set_refused();
}
static void set_no_vote_and_silent(void)
{
    set_silent();
    set_listed();
}
static void set_two_silent_in_jeopardy(void)
{
    set_two_silent();
    set_jeopardy();
}
static void set_slow(void)
{
    facts.voters[1].round_trip_worst_ns = facts.voters[2].round_trip_worst_ns = 1700000000;
}
static void set_one_slow(void)
{
    facts.voters[1].round_trip_worst_ns = 1700000000;
}
static void set_clock(void)
{
    facts.voters[1].clock_least_ppm = 100001;
}
static void set_clock_within(void)
{
    facts.voters[1].clock_least_ppm = 100000;
}
static void set_flush(void)
{
    facts.flush_worst_ns = 1700000000;
}
static void set_flush_pending(void)
{
    facts.flush_worst_ns = 1;
    facts.flush_pending_ns = 2000000000;
}
static void set_disk(void)
{
    facts.disk_free = 15 * MIB;
}
static void set_inodes(void)
{
    facts.disk_inodes = 63;
}
static void set_open(void)
{
    facts.state_dir_open = true;
}
static void set_files(void)
{
    facts.files_gone = "/srv/a/holdfast.db";
}
static void set_deaf(void)
{
    facts.deaf = true;
}
static void set_certificate(int64_t begin_s, int64_t soon_s, int64_t end_s)
{
    facts.tls_begin_s = now_s + begin_s;
    facts.tls_soon_s = now_s + soon_s;
    facts.tls_end_s = facts.tls_soon_end_s = now_s + end_s;
}
static void set_certificate_good(void)
{
    set_certificate(-300 * DAY_S, 0, 14 * DAY_S);
}
static void set_certificate_ends(void)
{
    set_certificate(-300 * DAY_S, -1, 14 * DAY_S - 1);
}
static void set_certificate_over(void)
{
    set_certificate(-300 * DAY_S, -14 * DAY_S, 0);
}
/* This agent's certificate lives for a week, and a new one is made each day. The CA ends in ten
 * days. */
static void set_ca_ends(void)
{
    set_certificate(-1 * DAY_S, -4 * DAY_S, 6 * DAY_S);
    facts.tls_soon_end_s = now_s + 10 * DAY_S;
    facts.tls_soon_ca = true;
}
static void set_ca_over(void)
{
    set_certificate(-300 * DAY_S, -14 * DAY_S, 0);
    facts.tls_soon_ca = facts.tls_end_ca = true;
}
static void set_certificate_early(void)
{
    set_certificate(1, 286 * DAY_S, 300 * DAY_S);
}
static void set_kept(void)
{
    set_certificate_good();
    facts.tls_kept = "host-a.key: found mode 0644";
}
static void set_http(void)
{
    facts.http_down = "address already in use";
}
static void set_descriptors(void)
{
    facts.descriptors_used = 950;
}
static void set_descriptors_near(void)
{
    facts.descriptors_used = 949;
}
static void set_clients(void)
{
    facts.clients = 8;
}

static const struct {
    void (*set)(void);
    const char *expected; /* the expected text of judgement_text() */
} cases[] = {
    {set_nothing, "well\n"},
    {set_unknown, "well\n"},
    {set_jeopardy, "failing\nsession_jeopardy: in jeopardy: no majority of the voters has renewed "
                   "the lease, which ran out 1.5 s ago\n"},
    {set_lost, "failing\nsession_lost: the session is lost; a new one begins when a majority "
               "answers\n"},
    {set_next_session, "failing\nsession_lost: the session is lost; a new one begins when a "
                       "majority answers\n"},
    {set_none, "failing\nsession_none: no majority of the voters has answered since the start\n"},
    {set_astray, "failing\nsession_jeopardy: the kernel adjusts the clock by more than max_drift: "
                 "no hold of this host counts\n"},
    {set_astray_alone, "degraded\nclock_astray: the kernel adjusts the clock by more than "
                       "max_drift: the holds of this host go on, but no session of another host "
                       "ends until the clock is well\n"},
    {set_namespace, "degraded\nnamespace_down orders: its region was damaged: its locks are not "
                    "served until the agent has made a new region\n"},
    {set_no_namespace,
     "failing\nnamespace_down default: its region was damaged: its locks are not served until the "
     "agent has made a new region\nnamespace_down orders: its region was damaged: its locks are "
     "not served until the agent has made a new region\n"},
    {set_hole, "degraded\nnamespace_down default: its region had a hole when /dev/shm was full: "
               "its locks are not served until the agent has made a new region\n"},
    {set_socket, "failing\nsocket_gone: /run/a.sock was removed: no new process finds this "
                 "agent\n"},
    {set_record, "failing\nrecords_fail: no file could be made for a new process, which was "
                 "refused: No space left on device\n"},
    {set_record_before, "well\n"},
    {set_refused, "degraded\nvoter_refused c: it does not vote: its store is not the one that the "
                  "cell knows, or an old copy\n"},
    {set_refused_self, "degraded\nnot_voting: this voter does not vote: its store is refused\n"},
    {set_listed, "degraded\nnot_voting: this voter does not vote yet: it waits until a majority "
                 "of the voters has reported which commit of this voter's store it saw last\n"},
    {set_starts_over, "degraded\nvoter_starts_over c: it starts over, and does not vote before it "
                      "has read what the other voters know\n"},
    {set_rules, "degraded\nrules_differ c: it has other voters or times in its configuration than "
                "this agent\n"},
    {set_silent, "degraded\nvoter_down b: connected, but it answers nothing\n"},
    {set_unreachable, "degraded\nvoter_down b: it cannot be reached: Connection? refused\n"},
    {set_two_silent, "failing\nno_majority: no majority of the voters answers (1 of 3): this host "
                     "gets no lock that it does not have already\nvoter_down b: connected, but it "
                     "answers nothing\nvoter_down c: connected, but it answers nothing\n"},
    {set_one_silent_one_refused,
     "failing\nno_majority: no majority of the voters answers (1 of 3): this host gets no lock "
     "that it does not have already\nvoter_refused c: it does not vote: its store is not the one "
     "that the cell knows, or an old copy\nvoter_down b: connected, but it answers nothing\n"},
    {set_no_vote_and_silent,
     "failing\nno_majority: no majority of the voters answers (1 of 3): this host gets no lock "
     "that it does not have already\nnot_voting: this voter does not vote yet: it waits until a "
     "majority of the voters has reported which commit of this voter's store it saw last\n"
     "voter_down b: connected, but it answers nothing\n"},
    {set_two_silent_in_jeopardy,
     "failing\nsession_jeopardy: in jeopardy: no majority of the voters has renewed the lease, "
     "which ran out 1.5 s ago\nvoter_down b: connected, but it answers nothing\nvoter_down c: "
     "connected, but it answers nothing\n"},
    {set_slow, "degraded\nrenewals_slow: a majority took longer for an acknowledgement than the "
               "time between two renewals\n"},
    {set_one_slow, "well\n"},
    {set_clock, "degraded\nclock_differs b: its clock's rate differs from this host's by 100001 "
                "ppm at least; max_drift allows for 100000, and leases rest on that\n"},
    {set_clock_within, "well\n"},
    {set_flush, "degraded\nflush_slow: a flush of the last minutes took 1.7 s, more than a third "
                "of session_ttl\n"},
    {set_flush_pending, "degraded\nflush_slow: a flush of the last minutes took 2.0 s, more than a "
                        "third of session_ttl\n"},
    {set_disk, "degraded\ndisk_full: 15 MiB are free under /srv/a: an agent that cannot write its "
               "store ends\n"},
    {set_inodes, "degraded\ndisk_full: 63 more files can be made under /srv/a: a new process needs "
                 "one\n"},
    {set_open, "degraded\nstate_dir_open: users other than the agent's may write to /srv/a\n"},
    {set_files, "degraded\nfiles_gone: moved or removed: /srv/a/holdfast.db\n"},
    {set_deaf, "degraded\ninbox_deaf: this agent's inbox takes no connections\n"},
    {set_certificate_good, "well\n"},
    {set_certificate_ends, "degraded\ncertificate_ends: this agent's certificate ([tls] cert) ends "
                           "in 335 h\n"},
    {set_ca_ends, "degraded\ncertificate_ends: the CA's certificate ([tls] ca) ends in 240 h\n"},
    {set_ca_over, "degraded\ncertificate_over: the CA's certificate ([tls] ca) has ended: no new "
                  "connection to another agent comes up\n"},
    {set_certificate_over, "degraded\ncertificate_over: this agent's certificate ([tls] cert) has "
                           "ended: no new connection to another agent comes up\n"},
    {set_certificate_early, "degraded\ncertificate_early: by this host's clock a certificate is "
                            "not valid yet\n"},
    {set_kept, "degraded\ncertificate_kept: the files of [tls] cannot be used now: host-a.key: "
               "found mode 0644\n"},
    {set_http, "degraded\nhttp_down: [http] does not listen: address already in use\n"},
    {set_descriptors, "degraded\ndescriptors_full: 950 of 1000 descriptors in use\n"},
    {set_descriptors_near, "well\n"},
    {set_clients, "degraded\nclients_full: 8 of 8 clients are connected\n"},
};

enum { CASES = sizeof(cases) / sizeof(cases[0]) };

START_TEST(each_fact_has_its_reason)
{
    cases[_i].set();
    judgement_make(&facts, &judgement);
    size_t size = judgement_text(&judgement, text, sizeof(text));
    ck_assert_str_eq(text, cases[_i].expected);
    ck_assert_uint_eq(size, strlen(text));
}
END_TEST

/* Each kind of reason has a case above and a name. The kinds in the enum are in the order of their
 * levels, the worst first. */
START_TEST(each_kind_has_a_case)
{
    bool seen[REASON_KINDS] = {false};
    for (size_t i = 0; i < CASES; i++) {
        set_up();
        cases[i].set();
        judgement_make(&facts, &judgement);
        for (uint32_t j = 0; j < judgement.count; j++) {
            seen[judgement.reasons[j].kind] = true;
        }
    }
    for (unsigned kind = 0; kind < REASON_KINDS; kind++) {
        ck_assert_msg(seen[kind], "%u", kind);
        const char *name = reason_name((enum reason_kind)kind);
        ck_assert_ptr_nonnull(name);
        ck_assert_uint_eq(strspn(name, "abcdefghijklmnopqrstuvwxyz_"), strlen(name));
        for (unsigned other = 0; other < kind; other++) {
            ck_assert_str_ne(name, reason_name((enum reason_kind)other));
            ck_assert_int_ge(reason_level((enum reason_kind)other),
                             reason_level((enum reason_kind)kind));
        }
    }
}
END_TEST

START_TEST(the_worst_comes_first)
{
    for (size_t i = 0; i < CASES; i++) {
        cases[i].set();
    }
    judgement_make(&facts, &judgement);
    ck_assert_int_eq(judgement.level, JUDGEMENT_FAILING);
    ck_assert_uint_gt(judgement.count, 10);
    for (uint32_t i = 1; i < judgement.count; i++) {
        ck_assert_int_le(judgement.reasons[i - 1].kind, judgement.reasons[i].kind);
    }
}
END_TEST

/* A text that does not fit is cut off, with a final zero. */
START_TEST(a_long_text_is_cut)
{
    char small[24];
    set_http();
    judgement_make(&facts, &judgement);
    ck_assert_uint_eq(judgement_text(&judgement, small, sizeof(small)), sizeof(small) - 1);
    ck_assert_str_eq(small, "degraded\nhttp_down: [ht");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("judgement");
    tcase_add_checked_fixture(tests, set_up, NULL);
    tcase_add_loop_test(tests, each_fact_has_its_reason, 0, CASES);
    tcase_add_test(tests, each_kind_has_a_case);
    tcase_add_test(tests, the_worst_comes_first);
    tcase_add_test(tests, a_long_text_is_cut);
    return suite_main("judgement", tests);
}
