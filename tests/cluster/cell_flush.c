/*
 * A voter's disk stalls, or a flush fails, while workers on every host use the cell's locks. The
 * other voters go on. On SIGTERM the voter ends as soon as its disk allows, and after a failed
 * flush it ends at once. No other host acts on a value that the voter has not flushed. (faults.h
 * makes the faults; crowd.h has the check.) In another test a voter's clock runs at a wrong rate:
 * the other voters log a line about that voter, and that voter logs lines about them.
 */
#include "crowd.h"
#include "require.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { VICTIM = 1, EXIT_FAILED = 70, ASTRAY_PPM = 150000 };

static struct crowd_plan plan = {.workers_per_host = 2,
                                 .locks = 8,
                                 .shared_percent = 25,
                                 .lock_delay_ms = 50,
                                 .hold_ms = 30,
                                 .long_ms = 1500,
                                 .seed = 4};
static struct cell cell;
static struct crowd crowd;
static char faults_path[96];
static struct faults_host *disk;

static void start(void)
{
    /* The other voters report the victim as silent while its disk stalls. The long session_ttl
     * keeps them from reporting an agent that is only slow because the machine is busy. */
    cell_options = (struct cell_options){.ttl_ms = 3000, .grace_ms = 2000};
    cell_make(&cell, 3, 0);
    struct agent_process *agent = &cell.agents[VICTIM];
    snprintf(faults_path, sizeof(faults_path), "%s/faults", agent->folder);
    plan.faults = faults_create(faults_path);
    REQUIRE(plan.faults, "%s: %s", faults_path, strerror(errno));
    disk = &plan.faults->hosts[VICTIM];
    agent->faults = faults_path;
    agent->host = VICTIM;
    cell_launch(&cell);
    cell_await(&cell);
    crowd_start(&crowd, &cell, &plan);
    /* faults.c counted flushes, so the victim flushes through it */
    ck_assert_uint_gt(atomic_load(&disk->flushes), 0);
}

static void stop(void)
{
    cell_stop(&cell);
}

/* Checks that the victim's store is intact. The victim must not run at that time. */
static void look_at_store(void)
{
    char path[128];
    sqlite3 *database = NULL;
    sqlite3_stmt *statement = NULL;
    snprintf(path, sizeof(path), "%s/state/holdfast.db", cell.agents[VICTIM].folder);
    ck_assert_int_eq(sqlite3_open(path, &database), SQLITE_OK);
    ck_assert_int_eq(sqlite3_prepare_v2(database, "PRAGMA integrity_check", -1, &statement, NULL),
                     SQLITE_OK);
    ck_assert_int_eq(sqlite3_step(statement), SQLITE_ROW);
    ck_assert_str_eq((const char *)sqlite3_column_text(statement, 0), "ok");
    sqlite3_finalize(statement);
    sqlite3_close(database);
}

/* Stalls the victim's disk, and waits until a flush waits for the disk. */
static void stall(void)
{
    uint64_t before = atomic_load(&disk->slow);
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    atomic_store(&disk->stalled, 1);
    while (atomic_load(&disk->slow) == before) {
        REQUIRE(boottime_now() < end_ns, "nothing is flushed");
        sleep_ms(1);
    }
}

/* Starts the victim, and checks that it votes again: the test kills another voter, and without the
 * victim's vote the cell would have no majority. */
static void goes_on(void)
{
    agent_start(&cell.agents[VICTIM]);
    crowd_await_all(&crowd, 5);
    ck_assert(!agent_logged(&cell.agents[VICTIM], "event=voter_refused"));
    agent_kill(&cell.agents[0]);
    crowd_await_progress(&crowd, VICTIM, 5);
    agent_start(&cell.agents[0]);
}

START_TEST(told_to_end_while_the_disk_stands_still)
{
    struct agent_process *agent = &cell.agents[VICTIM];
    stall();
    kill(agent->pid, SIGTERM);
    /* the agent logs this although its disk stalls, so its loop still runs */
    cell_await_logged(&cell, VICTIM, "event=stopping");
    crowd_await_progress(&crowd, 0, 5);
    crowd_await_progress(&crowd, 2, 5);
    ck_assert_int_eq(waitpid(agent->pid, NULL, WNOHANG), 0); /* the agent waits for the stalled
                                                              * flush */
    atomic_store(&disk->stalled, 0);
    int status = wait_for(agent->pid);
    agent->pid = 0;
    REQUIRE(status == 0, "it ended with %x", (unsigned)status);
    look_at_store();
    goes_on();
    crowd_finish(&crowd, "told to end, disk still");
}
END_TEST

START_TEST(killed_while_the_disk_stands_still)
{
    stall();
    crowd_await_progress(&crowd, 0, 5);
    agent_kill(&cell.agents[VICTIM]);
    atomic_store(&disk->stalled, 0);
    look_at_store();
    goes_on();
    crowd_finish(&crowd, "killed, disk still");
}
END_TEST

START_TEST(a_flush_that_fails_ends_the_agent)
{
    struct agent_process *agent = &cell.agents[VICTIM];
    atomic_store(&disk->flush_error, EIO);
    int status = wait_for(agent->pid);
    agent->pid = 0;
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILED, "it ended with %x",
            (unsigned)status);
    ck_assert(agent_logged(agent, "event=failed"));
    ck_assert_uint_gt(atomic_load(&disk->failed), 0);
    crowd_await_progress(&crowd, 0, 5);
    crowd_await_progress(&crowd, 2, 5);
    agent_launch(agent); /* this start must fail, too, because the disk still fails */
    status = wait_for(agent->pid);
    agent->pid = 0;
    REQUIRE(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILED, "it ended with %x",
            (unsigned)status);
    atomic_store(&disk->flush_error, 0);
    look_at_store();
    goes_on();
    crowd_finish(&crowd, "flush failed");
}
END_TEST

START_TEST(a_clock_that_is_off_is_told)
{
    crowd_finish(&crowd, "before the clock is off");
    REQUIRE(agent_stop(&cell.agents[VICTIM]) == 0, "it ended badly");
    disk->rate_ppm = ASTRAY_PPM; /* more than max_drift, which is 10 % */
    disk->base_ns = boottime_now();
    agent_start(&cell.agents[VICTIM]);
    cell_await_logged(&cell, 0, "level=warn event=clock_differs agent=host-b");
    cell_await_logged(&cell, 0, "its clock runs faster than this host's, by 1");
    cell_await_logged(&cell, VICTIM, "event=clock_differs agent=host-a");
    cell_await_logged(&cell, VICTIM, "its clock runs slower than this host's, by 1");
    ck_assert(!agent_logged(&cell.agents[0], "event=clock_differs agent=host-c"));
    REQUIRE(agent_stop(&cell.agents[VICTIM]) == 0, "it ended badly");
    disk->rate_ppm = 0;
    agent_start(&cell.agents[VICTIM]);
    cell_await_logged(&cell, 0, "level=info event=clock_differs agent=host-b");
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("flush");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, told_to_end_while_the_disk_stands_still);
    tcase_add_test(tests, killed_while_the_disk_stands_still);
    tcase_add_test(tests, a_flush_that_fails_ends_the_agent);
    tcase_add_test(tests, a_clock_that_is_off_is_told);
    return cell_main("flush", tests);
}
