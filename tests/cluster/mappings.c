/*
 * Clients map their region a million times, and punch holes into the region again and again. For
 * each hole the kernel walks all mappings. Until it has finished, a thread that touches the page is
 * blocked. Here the agent's loop is such a thread. The session must go on, and no hold of another
 * process may end.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "actor.h"
#include "require.h"

enum {
    TTL_MS = 4000,
    DELAY_MS = 300,
    PAGE = 4096,
    MAPPINGS = 60000, /* mappings of each process, which the kernel limits to 65,530 */
    PROCESSES = 24,
    PUNCHERS = 4,
    ROUNDS_MS = 3 * TTL_MS / 2, /* longer than TTL_MS, because no session ends earlier */
};

static struct agent_process agent;
static struct actor holder;   /* holds good/a */
static struct actor stranger; /* wants good/b */
static pid_t culprits[PROCESSES + PUNCHERS];
static unsigned culprit_count;

static int open_region(const char *space)
{
    char path[300];
    agent_region_path(&agent, space, path, sizeof(path));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0, "%s: %s", path, strerror(errno));
    return fd;
}

static void punch(int fd)
{
    REQUIRE(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAGE) == 0, "punch: %s",
            strerror(errno));
}

/* Maps the header's page MAPPINGS times, and forks processes - 1 children, each of which gets a
 * copy of the mappings. Writes a byte to the pipe when all have started. Never returns. */
static void map_often(int fd, int pipe_fd, unsigned processes)
{
    for (unsigned i = 0; i < MAPPINGS; i++) {
        REQUIRE(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) != MAP_FAILED,
                "mapping %u: %s", i, strerror(errno));
    }
    for (unsigned i = 1; i < processes; i++) {
        pid_t pid = fork_tied();
        if (pid == 0) {
            for (;;) {
                pause();
            }
        }
        REQUIRE(pid > 0, "process %u: %s", i, strerror(errno));
    }
    REQUIRE(write(pipe_fd, "x", 1) == 1, "pipe");
    for (;;) {
        pause();
    }
}

static void start_mappings(int fd, unsigned processes)
{
    int ends[2];
    char ready;
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0, "pipe");
    pid_t pid = fork_tied();
    if (pid == 0) {
        map_often(fd, ends[1], processes);
    }
    culprits[culprit_count++] = pid;
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &ready, 1), 1);
    close(ends[0]);
}

/* Starts a process that punches one hole after the other, and returns when it has begun. It has the
 * scheduling policy SCHED_FIFO, if the test may set it. Otherwise other processes would run between
 * two holes on a busy machine, and the agent could touch the page then. */
static void start_steady_puncher(int fd)
{
    int ends[2];
    char ready;
    REQUIRE(pipe2(ends, O_CLOEXEC) == 0, "pipe");
    pid_t pid = fork_tied();
    if (pid == 0) {
        const struct sched_param first = {.sched_priority = 1};
        (void)sched_setscheduler(0, SCHED_FIFO, &first);
        punch(fd);
        REQUIRE(write(ends[1], "x", 1) == 1, "pipe");
        for (;;) {
            punch(fd);
        }
    }
    culprits[culprit_count++] = pid;
    close(ends[1]);
    ck_assert_int_eq(read(ends[0], &ready, 1), 1);
    close(ends[0]);
}

/* Starts all punchers. The first of them is the steady puncher. */
static void start_punchers(int fd)
{
    start_steady_puncher(fd);
    for (unsigned i = 1; i < PUNCHERS; i++) {
        pid_t pid = fork_tied();
        if (pid == 0) {
            for (;;) {
                punch(fd);
            }
        }
        culprits[culprit_count++] = pid;
    }
}

static void end_culprits(void)
{
    while (culprit_count > 0) { /* in reverse order, so that the punchers end first */
        kill_process(culprits[--culprit_count]);
    }
}

START_TEST(no_hold_of_another_namespace_ends)
{
    int fd = open_region("bad");
    start_mappings(fd, PROCESSES);
    start_punchers(fd);
    /* On a busy machine the punchers may not have run within ROUNDS_MS. Then the loop goes on until
     * the agent has found rubbish. */
    for (unsigned ms = 0;
         ms < ROUNDS_MS ||
         (ms < GUARD_MS && agent_logged(&agent, "event=region_rubbish namespace=bad") == 0);
         ms += 50) {
        ck_assert_int_gt(actor_remaining(&holder, 0), 0);
        sleep_ms(50);
    }
    ck_assert_uint_ge(agent_logged(&agent, "event=region_rubbish namespace=bad"), 1);
    ck_assert_uint_eq(agent_logged(&agent, "event=region_rubbish namespace=good"), 0);
    ck_assert_int_eq(actor_acquire(&stranger, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_release(&stranger, 0), 0);
    end_culprits();
    close(fd);
    ck_assert_int_eq(actor_acquire(&stranger, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_release(&stranger, 0), 0);
    ck_assert_int_gt(actor_remaining(&holder, 0), 0);
    ck_assert_uint_eq(agent_logged(&agent, "state=lost"), 0);
    ck_assert_uint_eq(agent_logged(&agent, "state=jeopardy"), 0);
    ck_assert_int_eq(agent_stop(&agent), 0);
}
END_TEST

/* The test punches holes while no agent runs, and goes on while the next agent starts. */
START_TEST(the_next_agent_starts_in_time)
{
    int fd = open_region("bad");
    start_mappings(fd, PROCESSES);
    agent_kill(&agent);
    start_steady_puncher(fd);
    agent_start(&agent);
    ck_assert_uint_eq(agent_logged(&agent, "event=session_continued"), 1);
    ck_assert_uint_eq(agent_logged(&agent, "makes each access to its region take long"), 1);
    for (unsigned ms = 0; ms < 2 * TTL_MS; ms += 50) {
        ck_assert_int_gt(actor_remaining(&holder, 0), 0);
        sleep_ms(50);
    }
    end_culprits();
    close(fd);
}
END_TEST

static void start(void)
{
    char config[600];
    snprintf(config, sizeof(config),
             "[agent]\nname = host-a\ncell = mapped\nstate_dir = %%D/state\n"
             "socket = %%D/agent.sock\n[cell]\nsession_ttl = %dms\n"
             "[namespace.good]\n[namespace.bad]\n",
             TTL_MS);
    agent_create(&agent, config);
    agent_start(&agent);
    actor_ready(&holder, agent.socket);
    actor_ready(&stranger, agent.socket);
    ck_assert_int_eq(actor_open(&holder, 0, "good/a", DELAY_MS), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_open(&stranger, 0, "good/b", DELAY_MS), 0);
}

static void stop(void)
{
    end_culprits();
    actor_end(&holder);
    actor_end(&stranger);
    agent_destroy(&agent);
}

int main(void)
{
    TCase *tests = tcase_create("mappings");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, no_hold_of_another_namespace_ends);
    tcase_add_test(tests, the_next_agent_starts_in_time);
    return suite_main("mappings", tests);
}
