/*
 * A process keeps the kernel's locks of its own folders in /proc. A child of it lists a folder into
 * memory that never comes (fuse_page.h), and another child wants to make a file in the folder. So
 * every process that looks something up in the folder waits. The agent must not block when the
 * process connects. A restarted agent must not block either, if the process was a client of its
 * predecessor. The test needs root. It has a /proc of its own, because any other program that looks
 * at all processes would wait, too.
 */
#include <check.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "actor.h"
#include "fuse_page.h"
#include "hello.h"
#include "require.h"
#include "served_first.h"

/* In a test that restarts its agent, session_ttl is RESTART_TTL_MS, because on a busy machine the
 * restart takes seconds and must end before the lease. */
enum { NOBODY = 65534, SETTLED_MS = 100, TTL_MS = 2000, RESTART_TTL_MS = 10000 };

static struct fuse_page page;
static struct agent_process agent;
static struct actor holder; /* holds good/a */
static pid_t culprit;
static int slow_ms; /* a twentieth of session_ttl: the agent logs turns that take longer */

static const char *const folders[] = {"", "/task"}; /* folders below /proc/PID */

enum { FOLDERS = sizeof(folders) / sizeof(folders[0]) };

/* Starts a child that lists the folder into memory that never comes, and a child that wants to make
 * a file in it. */
static void keep_folder(pid_t pid, const char *folder)
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d%s", (int)pid, folder);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(fd >= 0, "%s", path);
    if (fork_tied() == 0) {
        (void)!syscall(SYS_getdents64, fd, page.memory, FUSE_PAGE_BYTES);
        _exit(0);
    }
    fuse_page_await(&page);
    if (fork_tied() == 0) {
        (void)mkdirat(fd, "wanted", 0700);
        _exit(0);
    }
    close(fd);
    sleep_ms(SETTLED_MS);
}

/* Acts as a client that sends no command line, and keeps the kernel's lock of its own folder in
 * /proc. It takes that lock before it connects, or afterwards if `late` is set. */
static void be_culprit(const char *folder, bool late, int told)
{
    REQUIRE(setgid(NOBODY) == 0 && setuid(NOBODY) == 0, "setuid");
    if (!late) {
        keep_folder(getpid(), folder);
    }
    struct hello_as as = {.client = 0};
    int fd = hello_enter(agent.socket, &as);
    if (late) {
        REQUIRE(fd >= 0, "not welcomed");
        keep_folder(getpid(), folder);
    }
    (void)!write(told, "", 1);
    for (;;) {
        pause();
    }
}

static void start_culprit(const char *folder, bool late)
{
    int ends[2];
    char byte;
    REQUIRE(pipe(ends) == 0, "pipe");
    culprit = fork_tied();
    if (culprit == 0) {
        be_culprit(folder, late, ends[1]);
    }
    close(ends[1]);
    struct timeval until = {.tv_sec = GUARD_MS / 1000};
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    int ready = select(ends[0] + 1, &set, NULL, NULL, &until);
    ck_assert_msg(ready == 1 && read(ends[0], &byte, 1) == 1, "the agent does not answer");
    close(ends[0]);
}

/* The number of slow turns that the agent had logged, and the time that it had waited for a
 * processor, when the client began. */
static unsigned slow_before;
static int64_t unserved_before_ns;

static void all_is_well(void)
{
    struct actor other;
    actor_ready(&other, agent.socket);
    ck_assert_int_eq(actor_open(&other, 0, "good/b", 0), 0);
    ck_assert_int_eq(actor_acquire(&other, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    actor_end(&other);
    ck_assert_int_gt(actor_remaining(&holder, 0), 0);
    ck_assert_uint_eq(agent_logged(&agent, "state=jeopardy"), 0);
    /* On a busy machine a turn can be slow because the agent waits for a processor for most of the
     * turn's time. Such a turn does not count as slow here. */
    bool had_processor = process_unserved_ns(agent.pid) - unserved_before_ns < slow_ms * MS / 2;
    ck_assert(agent_logged(&agent, "turn_slow") == slow_before || !had_processor);
}

START_TEST(a_client_keeps_its_own_folder)
{
    slow_before = agent_logged(&agent, "turn_slow");
    unserved_before_ns = process_unserved_ns(agent.pid);
    start_culprit(folders[_i], false);
    all_is_well();
}
END_TEST

/* Makes the kernel forget the folders that were looked up before. It also does so when memory is
 * short. */
static void forget_folders(void)
{
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    ck_assert(fd >= 0 && write(fd, "2", 1) == 1);
    close(fd);
}

/* The next agent looks for the client's process by the pid in the client's record. */
START_TEST(a_client_of_before_keeps_its_own_folder)
{
    start_culprit(folders[_i], true);
    agent_kill(&agent);
    slow_before = agent_logged(&agent, "turn_slow");
    unserved_before_ns = 0;
    forget_folders();
    agent_start(&agent);
    ck_assert_uint_eq(agent_logged(&agent, "event=session_continued"), 1);
    all_is_well();
}
END_TEST

static void start_with(int ttl_ms)
{
    char config[300];
    be_served_first(); /* the agent must renew its session within TTL_MS */
    REQUIRE(fuse_page_create(&page), "fuse");
    snprintf(config, sizeof(config),
             "[agent]\nname = host-a\ncell = own\nstate_dir = %%D/state\n"
             "socket = %%D/agent.sock\n[cell]\nsession_ttl = %dms\n"
             "[namespace.good]\n[namespace.bad]\nusers = nobody\n",
             ttl_ms);
    slow_ms = ttl_ms / 20;
    agent_create(&agent, config);
    agent_admit_all(&agent);
    agent_start(&agent);
    actor_ready(&holder, agent.socket);
    ck_assert_int_eq(actor_open(&holder, 0, "good/a", 0), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
}

static void start(void)
{
    start_with(TTL_MS);
}

static void start_for_restart(void)
{
    start_with(RESTART_TTL_MS);
}

static void stop(void)
{
    fuse_page_abort(&page);
    kill_process(culprit);
    actor_end(&holder);
    agent_destroy(&agent);
    fuse_page_destroy(&page);
}

static int run(void)
{
    REQUIRE(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                mount("proc", "/proc", "proc", 0, NULL) == 0,
            "mount");
    TCase *tests = tcase_create("own folder");
    TCase *restarts = tcase_create("own folder, restart");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_checked_fixture(restarts, start_for_restart, stop);
    tcase_set_timeout(tests, 60);
    tcase_set_timeout(restarts, 60);
    tcase_add_loop_test(tests, a_client_keeps_its_own_folder, 0, FOLDERS);
    tcase_add_loop_test(restarts, a_client_of_before_keeps_its_own_folder, 0, FOLDERS);
    Suite *suite = suite_create("own folder");
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, restarts);
    return suite_run(suite);
}

int main(void)
{
    if (geteuid() != 0) {
        fprintf(stderr, "skipped: only root can have memory of a FUSE server of its own\n");
        return 77;
    }
    if (!fuse_page_create(&page)) {
        return 77;
    }
    fuse_page_destroy(&page);
    REQUIRE(unshare(CLONE_NEWPID | CLONE_NEWNS) == 0, "unshare");
    pid_t pid = fork();
    REQUIRE(pid >= 0, "fork");
    if (pid == 0) {
        /* fork_tied() would fail, because getppid() returns 0 in a new pid namespace */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        exit(run());
    }
    int status = 0;
    REQUIRE(waitpid(pid, &status, 0) == pid, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
