/*
 * Tests a cell under load whose agents are of two builds: this build and $HOLDFAST_OTHER_AGENT. The
 * other build may come from another release of Debian with another NNG, SQLite and libc
 * (tests/platform/trixie.sh). The agents vote together, each can use a store that the other build
 * wrote, and no holder or waiter notices more than a restart. (tests/cluster/crowd.h has the record
 * and the check.)
 */
#include "actor.h"
#include "crowd.h"
#include "require.h"

#include <stdlib.h>
#include <unistd.h>

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
static const char *other;

/* Starts the cell and its workers. If bit i of `others` is set, host i begins with the other
 * build. */
static void begin(unsigned others)
{
    cell_make(&cell, OBSERVER, 1);
    for (unsigned i = 0; i < cell.hosts; i++) {
        cell.agents[i].program = (others >> i & 1) != 0 ? other : NULL;
    }
    cell_launch(&cell);
    cell_await(&cell);
    crowd_start(&crowd, &cell, &plan);
}

static void swap_build(unsigned host)
{
    agent_kill(&cell.agents[host]);
    cell.agents[host].program = cell.agents[host].program ? NULL : other;
    agent_start(&cell.agents[host]);
}

static void stop(void)
{
    cell_stop(&cell);
}

/* One voter and the observer start with the other build. Each host changes from its build to the
 * other of the two builds, and back. */
START_TEST(each_host_changes_its_build_under_load)
{
    begin(1u << 1 | 1u << OBSERVER);
    crowd_await_all(&crowd, 50);
    for (unsigned turn = 0; turn < 2; turn++) {
        for (unsigned host = 0; host < cell.hosts; host++) {
            swap_build(host);
            crowd_await_all(&crowd, 15);
        }
    }
    crowd_finish(&crowd, "builds changed");
}
END_TEST

/* A majority has the other build. The test kills the coordinator again and again, so coordinators
 * of both builds die. */
START_TEST(coordinators_of_both_builds_are_killed)
{
    begin(1u << 0 | 1u << 2);
    crowd_await_all(&crowd, 50);
    for (unsigned lock = 0; lock < 4; lock++) {
        unsigned victim = cell_coordinator(&cell, OBSERVER, crowd_lock(lock));
        agent_kill(&cell.agents[victim]);
        crowd_await_progress(&crowd, (victim + 1) % OBSERVER, 20);
        crowd_await_progress(&crowd, OBSERVER, 20);
        agent_start(&cell.agents[victim]);
        crowd_await_all(&crowd, 15);
    }
    crowd_finish(&crowd, "coordinators killed");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("cells of two builds");
    other = getenv("HOLDFAST_OTHER_AGENT");
    if (!other || access(other, X_OK) != 0) {
        puts("skipped: HOLDFAST_OTHER_AGENT is to name an agent of another build");
        return NETWORK_SKIPPED;
    }
    tcase_add_checked_fixture(tests, NULL, stop);
    tcase_add_test(tests, each_host_changes_its_build_under_load);
    tcase_add_test(tests, coordinators_of_both_builds_are_killed);
    return cell_main("cell_both", tests);
}
