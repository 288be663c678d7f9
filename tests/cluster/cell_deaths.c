/*
 * While workers on every host use a cell's locks, agents die or are stopped, one at a time or all
 * at once. (tests/cluster/crowd.h says what is recorded and checked.)
 */
#include "actor.h"
#include "crowd.h"
#include "require.h"

#include <signal.h>
#include <string.h>

enum { OBSERVER = 3 }; /* the observer's host; hosts 0 to 2 are the voters */

static const struct crowd_plan plan = {.workers_per_host = 2,
                                       .locks = 8,
                                       .shared_percent = 25,
                                       .lock_delay_ms = 50,
                                       .hold_ms = 30,
                                       .long_ms = 1500,
                                       .seed = 1};
static struct cell cell;
static struct crowd crowd;

static void start(void)
{
    cell_start(&cell, OBSERVER, 1);
    crowd_start(&crowd, &cell, &plan);
}

static void stop(void)
{
    cell_stop(&cell);
}

START_TEST(the_coordinator_is_killed_under_load)
{
    for (int round = 0; round < 2; round++) {
        unsigned victim = cell_coordinator(&cell, 0, crowd_lock(0));
        agent_kill(&cell.agents[victim]);
        crowd_await_progress(&crowd, (victim + 1) % cell.hosts, 20);
        crowd_await_progress(&crowd, (victim + 2) % cell.hosts, 20);
        agent_start(&cell.agents[victim]);
        crowd_await_all(&crowd, 10);
    }
    crowd_finish(&crowd, "coordinator killed");
}
END_TEST

START_TEST(a_voter_is_away_for_long)
{
    agent_kill(&cell.agents[1]);
    /* after this time the session of the paused host has ended, and other hosts have its locks */
    sleep_ms(CELL_TTL_MS + CELL_GRACE_MS + 1500);
    crowd_await_progress(&crowd, 0, 20);
    crowd_await_progress(&crowd, 2, 20);
    agent_start(&cell.agents[1]);
    crowd_await_all(&crowd, 20);
    crowd_finish(&crowd, "voter away");
}
END_TEST

START_TEST(all_are_killed_at_once)
{
    for (int round = 0; round < 3; round++) {
        cell_kill_all(&cell);
        sleep_ms(round * 1200); /* 0, 1.2 and 2.4 s; the lease and the grace period are 1 s each */
        cell_launch(&cell);
        cell_await(&cell);
        crowd_await_all(&crowd, 10);
    }
    crowd_finish(&crowd, "all killed");
}
END_TEST

START_TEST(an_agent_stands_still_beyond_its_lease)
{
    for (unsigned victim = 0; victim < cell.hosts; victim++) {
        cell_pause(&cell, victim);
        sleep_ms(CELL_TTL_MS + CELL_GRACE_MS + 700);
        crowd_await_progress(&crowd, (victim + 1) % cell.hosts, 10);
        cell_continue(&cell, victim);
        crowd_await_all(&crowd, 10);
    }
    crowd_finish(&crowd, "agent stopped");
}
END_TEST

START_TEST(a_whole_host_stands_still)
{
    cell_pause(&cell, 2);
    for (unsigned i = 0; i < crowd.count; i++) {
        if (crowd.workers[i].host == 2) {
            kill(crowd.workers[i].pid, SIGSTOP);
        }
    }
    sleep_ms(CELL_TTL_MS + 1500);
    crowd_await_progress(&crowd, 0, 10);
    for (unsigned i = 0; i < crowd.count; i++) {
        kill(crowd.workers[i].pid, SIGCONT); /* the workers wake up before their agent does */
    }
    sleep_ms(50);
    cell_continue(&cell, 2);
    crowd_await_all(&crowd, 10);
    crowd_finish(&crowd, "host stopped");
}
END_TEST

/* An observer's host is cut off and its agent is killed. The host's session ends, so processes of
 * other hosts get its locks. When the agent is back, the processes of the observer's host wait and
 * hold as before. */
START_TEST(an_observers_host_dies)
{
    network_isolate(&cell.network, OBSERVER);
    agent_kill(&cell.agents[OBSERVER]);
    sleep_ms(CELL_TTL_MS + CELL_GRACE_MS + 700);
    for (unsigned host = 0; host < OBSERVER; host++) {
        crowd_await_progress(&crowd, host, 10);
    }
    network_heal(&cell.network);
    agent_start(&cell.agents[OBSERVER]);
    crowd_await_all(&crowd, 10);
    crowd_finish(&crowd, "observer's host died");
}
END_TEST

START_TEST(workers_die_holding)
{
    uint64_t random = plan.seed;
    for (int round = 0; round < 30; round++) {
        sleep_ms(20 + (int64_t)crowd_draw(&random, 50));
        crowd_replace(&crowd, (unsigned)crowd_draw(&random, crowd.count));
    }
    crowd_await_all(&crowd, 5);
    crowd_finish(&crowd, "workers killed");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("deaths");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, the_coordinator_is_killed_under_load);
    tcase_add_test(tests, a_voter_is_away_for_long);
    tcase_add_test(tests, all_are_killed_at_once);
    tcase_add_test(tests, an_agent_stands_still_beyond_its_lease);
    tcase_add_test(tests, a_whole_host_stands_still);
    tcase_add_test(tests, an_observers_host_dies);
    tcase_add_test(tests, workers_die_holding);
    return cell_main("deaths", tests);
}
