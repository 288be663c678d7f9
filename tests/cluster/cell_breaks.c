/*
 * `holdfast break` runs on a third host and breaks a lock that two hosts share. The tests check its
 * output. It must report success only when both holds have ended, even if the network loses
 * packets.
 */
#include "../suite_main.h"
#include "actor.h"
#include "cell.h"
#include "require.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { DELAY_MS = 2000, HOSTS = 4, VOTERS = 3, OUTPUT = 8192, HOLDERS = 2 };

static struct cell cell;
static struct actor holders[HOLDERS];
static unsigned hosts[HOLDERS]; /* the hosts of the holders */
static unsigned coordinator;
/* the host on which the command runs; at first neither the coordinator nor a holder's host */
static unsigned asker;
static char output[OUTPUT];

/* Runs `holdfast break job` on the asking host. Returns its exit status; `output` gets what the
 * command prints on stdout and stderr. */
static int break_job(const char *options)
{
    char line[512];
    snprintf(line, sizeof(line), "%s -s %s break %s job 2>&1", binary_path("holdfast"),
             cell.agents[asker].socket, options);
    FILE *pipe = popen(line, "re");
    REQUIRE(pipe != NULL, "popen");
    size_t size = fread(output, 1, sizeof(output) - 1, pipe);
    output[size] = '\0';
    int status = pclose(pipe);
    REQUIRE(WIFEXITED(status), "%d: %s", status, output);
    return WEXITSTATUS(status);
}

/* Starts a cell in which two hosts share the lock. */
static void start_with(unsigned ttl_ms)
{
    cell_options.ttl_ms = ttl_ms;
    cell_start(&cell, VOTERS, HOSTS - VOTERS);
    coordinator = cell_coordinator(&cell, 0, "job");
    asker = HOSTS - 1;
    for (unsigned host = 0, i = 0; host < HOSTS && i < HOLDERS; host++) {
        if (host != coordinator && host != asker) {
            hosts[i] = host;
            actor_ready(&holders[i], cell.agents[host].socket);
            ck_assert_int_eq(actor_open(&holders[i], 0, "job", DELAY_MS), 0);
            ck_assert_int_eq(actor_acquire(&holders[i], 0, HF_SHARED, GUARD_MS, NULL), 0);
            i++;
        }
    }
}

static void start(void)
{
    start_with(5000); /* a long session_ttl, so that no session ends because the machine is busy */
}

/* Starts the cell for a test that cuts off a host and waits for the end of a break. The break takes
 * seconds, and the host's session must not end before the break does. */
static void start_long(void)
{
    start_with(20000);
}

static void stop(void)
{
    for (unsigned i = 0; i < HOLDERS; i++) {
        actor_end(&holders[i]);
    }
    cell_stop(&cell);
}

/* Returns whether the command printed that the hold of this holder ended. */
static bool printed(unsigned i)
{
    char text[128];
    snprintf(text, sizeof(text), "ended        shared hold, pid %d, user ", (int)holders[i].pid);
    return strstr(output, text) != NULL;
}

START_TEST(what_ended_is_printed)
{
    char text[64];
    ck_assert_int_eq(break_job(""), 0);
    for (unsigned i = 0; i < HOLDERS; i++) {
        REQUIRE(printed(i), "%s", output);
        snprintf(text, sizeof(text), "agent host-%c, token ", 'a' + hosts[i]);
        REQUIRE(strstr(output, text) != NULL, "no %s in %s", text, output);
        ck_assert_int_eq(actor_remaining(&holders[i], 0), 0);
    }
    REQUIRE(strstr(output, "closed       for ") != NULL, "%s", output);
    ck_assert_int_eq(break_job("--now"), 0);
    REQUIRE(strstr(output, "ended        nothing: nobody held the lock\nopen         at once") !=
                NULL,
            "%s", output);
    ck_assert_int_eq(break_job("--json"), 0);
    REQUIRE(strstr(output, "\"done\":true,\"ended\":[],\"more\":0,\"closed_ms\":0,") != NULL, "%s",
            output);
}
END_TEST

/* The link between the coordinator and an owner, a host that has a share of the lock's grant, is
 * cut. The break reaches the owner through another voter. */
START_TEST(a_break_goes_around_a_cut_link)
{
    network_cut(&cell.network, coordinator, hosts[1]);
    ck_assert_int_eq(break_job("--now"), 0);
    REQUIRE(printed(0) && printed(1), "%s", output);
    for (unsigned i = 0; i < HOLDERS; i++) {
        ck_assert_int_eq(actor_remaining(&holders[i], 0), 0);
    }
}
END_TEST

/* The link between the coordinator and one of the hosts that share the lock's grant is cut. The
 * administrator runs the command on the coordinator's host. */
START_TEST(a_break_at_the_coordinator_goes_around_a_cut_link)
{
    asker = coordinator;
    network_cut(&cell.network, coordinator, hosts[1]);
    ck_assert_int_eq(break_job("--now"), 0);
    REQUIRE(printed(0) && printed(1), "%s", output);
    ck_assert_int_eq(actor_remaining(&holders[1], 0), 0);
}
END_TEST

/* No voter reaches one of the two hosts that share the lock's grant. The command must not report
 * the break as done, and names that host. */
START_TEST(an_owner_that_was_not_reached_is_named)
{
    char text[64];
    network_isolate(&cell.network, hosts[1]);
    ck_assert_int_eq(break_job(""), 75);
    REQUIRE(printed(0) && !printed(1), "%s", output);
    snprintf(text, sizeof(text), "no answer in time from host-%c: ", 'a' + hosts[1]);
    REQUIRE(strstr(output, text) != NULL, "no %s in %s", text, output);
    ck_assert_int_eq(actor_remaining(&holders[0], 0), 0);
    ck_assert_int_gt(actor_remaining(&holders[1], 0), 0);
    network_heal(&cell.network);
    int64_t end_ns = boottime_now() + GUARD_MS * INT64_C(1000000);
    while (break_job("") != 0) {
        REQUIRE(boottime_now() < end_ns, "%s", output);
    }
    ck_assert_int_eq(actor_remaining(&holders[1], 0), 0);
}
END_TEST

/* One of the two hosts that share the lock's grant is gone, and no process waits for the lock. At
 * first each break makes the voters end that host's session. When the session has ended, a break
 * succeeds. */
START_TEST(an_owner_that_is_gone_does_not_hinder_for_ever)
{
    network_isolate(&cell.network, hosts[1]);
    int64_t end_ns = boottime_now() + GUARD_MS * INT64_C(1000000);
    int status = break_job("");
    while (status != 0) {
        ck_assert_int_eq(status, 75);
        REQUIRE(boottime_now() < end_ns, "%s", output);
        status = break_job("");
    }
    for (unsigned i = 0; i < HOLDERS; i++) {
        ck_assert_int_eq(actor_remaining(&holders[i], 0), 0);
    }
}
END_TEST

/* A fifth of all packets is lost. */
START_TEST(success_means_that_no_hold_is_left)
{
    unsigned done = 0;
    network_lose_everywhere(&cell.network, 20);
    for (unsigned round = 0; round < 8; round++) {
        int status = break_job("--now");
        REQUIRE(status == 0 || status == 75, "%d: %s", status, output);
        done += status == 0;
        for (unsigned i = 0; i < HOLDERS; i++) {
            REQUIRE(status != 0 || actor_remaining(&holders[i], 0) == 0, "%s", output);
            int error = actor_release(&holders[i], 0);
            REQUIRE(error == 0 || error == HF_ELOST, "%d", error);
        }
        for (unsigned i = 0; i < HOLDERS; i++) {
            ck_assert_int_eq(actor_acquire(&holders[i], 0, HF_SHARED, GUARD_MS, NULL), 0);
        }
    }
    ck_assert_uint_gt(done, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("cell_breaks");
    TCase *tests = tcase_create("breaks");
    TCase *longer = tcase_create("a long session");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_checked_fixture(longer, start_long, stop);
    tcase_add_test(tests, what_ended_is_printed);
    tcase_add_test(tests, a_break_goes_around_a_cut_link);
    tcase_add_test(tests, a_break_at_the_coordinator_goes_around_a_cut_link);
    tcase_add_test(longer, an_owner_that_was_not_reached_is_named);
    tcase_add_test(tests, an_owner_that_is_gone_does_not_hinder_for_ever);
    tcase_add_test(tests, success_means_that_no_hold_is_left);
    network_need();
    tcase_set_timeout(tests, 240); /* guards against hanging; each test takes seconds */
    tcase_set_timeout(longer, 240);
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, longer);
    return suite_run(suite);
}
