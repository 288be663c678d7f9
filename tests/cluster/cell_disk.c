/*
 * A voter's store is lost, is an old copy, or cannot be written any more, while workers on every
 * host use the cell's locks. (crowd.h has the record and the check.)
 */
#include "crowd.h"
#include "require.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { DISK_KILOBYTES = 8192, VICTIM = 1 };

static const struct crowd_plan plan = {.workers_per_host = 2,
                                       .locks = 8,
                                       .shared_percent = 25,
                                       .lock_delay_ms = 50,
                                       .hold_ms = 30,
                                       .long_ms = 2500,
                                       .seed = 3};
static struct cell cell;
static struct crowd crowd;

/* Starts a cell in which the victim's state is on a small file system of its own. */
static void start(void)
{
    char folder[128];
    cell_make(&cell, 3, 0);
    snprintf(folder, sizeof(folder), "%s/state", cell.agents[VICTIM].folder);
    network_small_disk(&cell.network, VICTIM, folder, DISK_KILOBYTES);
    cell_launch(&cell);
    cell_await(&cell);
    crowd_start(&crowd, &cell, &plan);
}

static void stop(void)
{
    cell_stop(&cell);
}

/* Runs a shell command in the victim's folder `state`. The command must succeed. */
static void in_state(const char *words)
{
    char command[512];
    snprintf(command, sizeof(command), "cd %s && %s", cell_state_path(&cell, VICTIM, ""), words);
    int status = system(command);
    REQUIRE(status == 0, "%s: %x", command, (unsigned)status);
}

/* Runs `holdfast member rejoin` on that host, like an administrator. Returns the command's exit
 * status. */
static int rejoin(int host, const char *yes, const char *undo)
{
    char config[96];
    struct agent_process *agent = &cell.agents[host];
    snprintf(config, sizeof(config), "%s/holdfast.conf", agent->folder);
    pid_t pid = fork_tied();
    if (pid == 0) {
        int log = open(agent->log, O_WRONLY | O_APPEND);
        dup2(log, 1);
        dup2(log, 2);
        network_enter(agent->keeper);
        execl(binary_path("holdfast"), "holdfast", "member", "rejoin", "--config", config, yes,
              undo, (char *)NULL);
        _exit(127);
    }
    return WEXITSTATUS(wait_for(pid));
}

/* Makes the victim start over. Then kills the agent of host 0, so that the cell can grant locks
 * only if the victim votes again. */
static void start_over(void)
{
    ck_assert_int_eq(rejoin(VICTIM, "--yes", NULL), 70); /* refused: the agent runs */
    agent_kill(&cell.agents[VICTIM]);
    ck_assert_int_eq(rejoin(VICTIM, NULL, NULL), 64); /* refused: it lacks --yes */
    ck_assert_int_eq(rejoin(VICTIM, "--yes", NULL), 0);
    agent_start(&cell.agents[VICTIM]);
    cell_await_logged(&cell, VICTIM, "event=voter_votes number=1");
    crowd_await_all(&crowd, 10);
    agent_kill(&cell.agents[0]);
    crowd_await_progress(&crowd, 1, 10);
    crowd_await_progress(&crowd, 2, 10);
    agent_start(&cell.agents[0]);
    crowd_await_all(&crowd, 10);
}

/* Checks that the victim logs that its vote is refused, with the reason `why`, and that it serves
 * its host without a vote. */
static void is_refused(const char *why)
{
    cell_await_logged(&cell, VICTIM, "event=voter_refused");
    cell_await_logged(&cell, VICTIM, why);
    crowd_await_all(&crowd, 10);
    agent_kill(&cell.agents[0]); /* one voter alone is no majority, so no lock is granted if the
                                  * victim does not vote */
    sleep_ms(CELL_TTL_MS + CELL_GRACE_MS + 500);
    uint64_t before = crowd_holds(&crowd, 2);
    sleep_ms(1000);
    uint64_t after = crowd_holds(&crowd, 2);
    REQUIRE(after == before, "%llu holds without a majority", (unsigned long long)(after - before));
    agent_start(&cell.agents[0]);
    crowd_await_all(&crowd, 10);
}

START_TEST(the_disk_is_full)
{
    struct agent_process *agent = &cell.agents[VICTIM];
    char command[256];
    snprintf(command, sizeof(command), "cat /dev/zero >%s 2>/dev/null",
             cell_state_path(&cell, VICTIM, "ballast"));
    int status = system(command);
    REQUIRE(WEXITSTATUS(status) == 1, "the disk is not full");
    status = wait_for(agent->pid); /* the agent logs the reason, and ends */
    agent->pid = 0;
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == 70, "it ended with %x", (unsigned)status);
    ck_assert(agent_logged(agent, "event=failed"));
    crowd_await_progress(&crowd, 0, 10);
    crowd_await_progress(&crowd, 2, 10);
    in_state("rm ballast");
    agent_start(agent);
    crowd_await_all(&crowd, 10);
    ck_assert(!agent_logged(agent, "event=voter_refused"));
    /* Without host 0 the cell needs the victim's vote. Progress shows that the victim votes again
     * and has forgotten nothing. */
    agent_kill(&cell.agents[0]);
    crowd_await_progress(&crowd, 1, 10);
    agent_start(&cell.agents[0]);
    crowd_finish(&crowd, "disk full");
}
END_TEST

START_TEST(the_store_is_lost)
{
    agent_kill(&cell.agents[VICTIM]);
    in_state("rm -r ./*");
    agent_start(&cell.agents[VICTIM]);
    is_refused("is not the one that the cell knows");
    start_over();
    crowd_finish(&crowd, "store lost");
}
END_TEST

START_TEST(the_store_is_an_old_copy)
{
    agent_kill(&cell.agents[VICTIM]);
    in_state("mkdir ../copy && cp -p holdfast.db* ../copy");
    agent_start(&cell.agents[VICTIM]);
    crowd_await_all(&crowd, 40);
    agent_kill(&cell.agents[VICTIM]);
    in_state("rm holdfast.db* && cp -p ../copy/* . && rm -r ../copy");
    agent_start(&cell.agents[VICTIM]);
    is_refused("is an old copy");
    start_over();
    crowd_finish(&crowd, "store rolled back");
}
END_TEST

/* Two voters that start over wait for each other, and the cell cannot grant locks in that time. The
 * wait ends when one of the two gets its old store back. */
START_TEST(two_voters_start_over_at_the_same_time)
{
    for (int host = VICTIM; host < 3; host++) {
        agent_kill(&cell.agents[host]);
        ck_assert_int_eq(rejoin(host, "--yes", NULL), 0);
    }
    agent_start(&cell.agents[VICTIM]);
    agent_start(&cell.agents[2]);
    cell_await_logged(&cell, VICTIM, "no answer yet from: host-c (starts over as well");
    cell_await_logged(&cell, 2, "no answer yet from: host-b (starts over as well");
    cell_await_logged(&cell, 0, "event=voter_starts_over agent=host-b");
    cell_await_logged(&cell, 0, "event=voter_starts_over agent=host-c");
    /* A voter is reported as silent if it sends no answer within session_ttl after it has
     * connected. A voter that gets no processor time cannot answer. */
    int64_t unserved_ns = process_unserved_ns(cell.agents[VICTIM].pid) +
                          process_unserved_ns(cell.agents[2].pid);
    ck_assert(!agent_logged(&cell.agents[0], "event=voter_silent") ||
              unserved_ns > CELL_TTL_MS / 2 * MS);
    ck_assert_int_eq(rejoin(VICTIM, "--yes", "--undo"), 70); /* refused: the agent runs */
    agent_kill(&cell.agents[VICTIM]);
    /* refused: without --yes the command only explains what it would do */
    ck_assert_int_eq(rejoin(VICTIM, "--undo", NULL), 64);
    ck_assert_int_eq(rejoin(VICTIM, "--yes", "--undo"), 0);
    agent_start(&cell.agents[VICTIM]);
    cell_await_logged(&cell, 2, "event=voter_votes number=2");
    crowd_await_all(&crowd, 10);
    ck_assert(!agent_logged(&cell.agents[VICTIM], "event=voter_refused"));
    agent_kill(&cell.agents[2]);
    ck_assert_int_eq(rejoin(2, "--yes", "--undo"), 70); /* refused: the voter has finished its
                                                         * start-over, and votes */
    crowd_await_progress(&crowd, 0, 10);                /* hosts 0 and 1 are a majority without host
                                                         * 2 */
    crowd_await_progress(&crowd, 1, 10);
    agent_start(&cell.agents[2]);
    crowd_await_all(&crowd, 10);
    crowd_finish(&crowd, "two start over");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("disk");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, the_disk_is_full);
    tcase_add_test(tests, the_store_is_lost);
    tcase_add_test(tests, the_store_is_an_old_copy);
    tcase_add_test(tests, two_voters_start_over_at_the_same_time);
    return cell_main("disk", tests);
}
