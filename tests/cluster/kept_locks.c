/*
 * Tests of kernel locks that a hostile process keeps for as long as it likes, by a system call on
 * memory that never comes (fuse_page.h). A client can keep the lock of its region. Any user can
 * keep the lock of /dev/shm, and of the folders above the agent's folder. The tests need root, and
 * make a /dev/shm of their own.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "actor.h"
#include "fuse_page.h"
#include "require.h"
#include "served_first.h"

enum { TTL_MS = 2000, DELAY_MS = 300, NOBODY = 65534, PAGE = 4096, PER_SPACE = 4, GIB = 1 << 30 };

/* More than REGION_SLACK (64 MiB), the most memory that an agent tolerates after the end of a
 * region. It is not much more, because the test allocates this memory while no agent runs, and the
 * next agent must start before the lease is over. */
enum { TOO_MUCH = 128 << 20 };

static struct fuse_page page;
static struct agent_process agent;
static struct actor holder; /* holds good/a */
static struct actor late;   /* wants bad/a */
static char memory[256];    /* the agent's folder in /dev/shm */
static pid_t culprits[8];
static unsigned culprit_count;

/* ---- processes that keep locks ---- */

static pid_t start_culprit(void (*act)(int), int fd)
{
    pid_t pid = fork_tied();
    if (pid == 0) {
        REQUIRE(setgid(NOBODY) == 0 && setuid(NOBODY) == 0, "setuid");
        act(fd);
        _exit(0);
    }
    culprits[culprit_count++] = pid;
    return pid;
}

/* Writes two pages after the region's end: a good page, which changes the region's size, and then a
 * page that never comes. The call waits for the second page, and so keeps the region's lock. */
static void write_behind(int fd)
{
    static char good[PAGE];
    struct stat status;
    struct iovec parts[] = {{good, PAGE}, {page.memory, PAGE}};
    (void)!fstat(fd, &status);
    (void)!pwritev(fd, parts, 2, (status.st_size + PAGE - 1) / PAGE * PAGE);
}

/* Writes memory that never comes into the region, which keeps the region's lock. The region's size
 * does not change. */
static void write_into(int fd)
{
    const struct iovec part = {page.memory, PAGE};
    (void)!pwritev(fd, &part, 1, PAGE);
}

static void list(int fd)
{
    (void)!syscall(SYS_getdents64, fd, page.memory, FUSE_PAGE_BYTES);
}

static void make_file(int folder)
{
    int fd = openat(folder, "wanted", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    (void)!close(fd);
}

static void end_culprits(void)
{
    fuse_page_abort(&page);
    for (unsigned i = 0; i < culprit_count; i++) {
        kill_process(culprits[i]);
    }
    culprit_count = 0;
}

static int open_region(const char *space)
{
    char path[300];
    agent_region_path(&agent, space, path, sizeof(path));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0, "%s: %s", path, strerror(errno));
    return fd;
}

/* A client of the namespace bad spoils its region and keeps the region's lock. */
static void spoil_and_keep(void)
{
    struct stat before;
    struct stat now;
    int fd = open_region("bad");
    ck_assert_int_eq(fstat(fd, &before), 0);
    start_culprit(write_behind, fd);
    for (unsigned ms = 0; ms < GUARD_MS; ms += 5) {
        ck_assert_int_eq(fstat(fd, &now), 0);
        if (now.st_size != before.st_size) {
            break;
        }
        sleep_ms(5);
    }
    ck_assert_int_ne(now.st_size, before.st_size);
    close(fd);
}

/* Keeps the lock of that folder. A second process waits for the lock, so that even a process that
 * only looks something up in the folder waits. */
static void keep_folder(const char *path)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_msg(fd >= 0, "%s: %s", path, strerror(errno));
    start_culprit(list, fd);
    fuse_page_await(&page);
    start_culprit(make_file, fd);
    sleep_ms(100);
    close(fd);
}

/* ---- what the test sees ---- */

static unsigned count_regions(const char *space)
{
    unsigned count = 0;
    DIR *folder = opendir(memory);
    const struct dirent *entry;
    ck_assert_msg(folder != NULL, "%s: %s", memory, strerror(errno));
    while ((entry = readdir(folder)) != NULL) {
        size_t length = strlen(space);
        count += strncmp(entry->d_name, space, length) == 0 &&
                 strspn(entry->d_name + length, ".0123456789abcdef") == 1 + 16;
    }
    closedir(folder);
    return count;
}

static void await_regions(const char *space, unsigned count)
{
    for (unsigned ms = 0; ms < GUARD_MS && count_regions(space) != count; ms += 10) {
        sleep_ms(10);
    }
    ck_assert_uint_eq(count_regions(space), count);
}

static void await_log(const char *text, unsigned count)
{
    for (unsigned ms = 0; ms < GUARD_MS && agent_logged(&agent, text) < count; ms += 10) {
        sleep_ms(10);
    }
    ck_assert_msg(agent_logged(&agent, text) >= count, "the agent does not say %s", text);
}

static void neighbour_is_well(void)
{
    ck_assert_int_gt(actor_remaining(&holder, 0), 0);
    ck_assert_uint_eq(agent_logged(&agent, "state=jeopardy"), 0);
}

static void bad_is_served(void)
{
    int error = HF_EUNSERVED;
    for (unsigned ms = 0; ms < GUARD_MS && error != 0; ms += 20) {
        error = actor_open(&late, 0, "bad/a", DELAY_MS);
        sleep_ms(20);
    }
    ck_assert_msg(error == 0, "%s", hf_strerror(error));
    ck_assert_int_eq(actor_acquire(&late, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_release(&late, 0), 0);
}

static void stop_and_start(bool killed)
{
    unsigned given_up = agent_logged(&agent, "event=region_rubbish");
    unsigned continued = agent_logged(&agent, "event=session_continued");
    if (killed) {
        agent_kill(&agent);
    } else {
        ck_assert_int_eq(agent_stop(&agent), 0);
    }
    agent_start(&agent);
    ck_assert_uint_eq(agent_logged(&agent, "event=session_continued"), continued + 1);
    ck_assert_uint_eq(agent_logged(&agent, "event=region_rubbish"), given_up);
    ck_assert_int_gt(actor_remaining(&holder, 0), 0);
}

/* Returns whether the process belongs to this test, which has a mount namespace of its own. */
static bool is_ours(const char *pid)
{
    char path[300];
    char own[64] = "";
    char its[64] = "";
    snprintf(path, sizeof(path), "/proc/%s/ns/mnt", pid);
    return readlink("/proc/self/ns/mnt", own, sizeof(own) - 1) > 0 &&
           readlink(path, its, sizeof(its) - 1) > 0 && strcmp(own, its) == 0;
}

/* Returns how many removers (processes holdfastd-rm) of this test's agents wait in the kernel for a
 * lock. */
static unsigned count_waiting(void)
{
    unsigned count = 0;
    DIR *processes = opendir("/proc");
    const struct dirent *entry;
    while ((entry = readdir(processes)) != NULL) {
        char path[300];
        char line[256] = "";
        snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
        FILE *file = fopen(path, "re");
        if (file != NULL && fgets(line, sizeof(line), file) != NULL &&
            strstr(line, " (holdfastd-rm) D ") != NULL && is_ours(entry->d_name)) {
            count++;
        }
        if (file != NULL) {
            fclose(file);
        }
    }
    closedir(processes);
    return count;
}

/* Waits until a remover waits for a lock. */
static void await_waiting(void)
{
    for (unsigned ms = 0; ms < GUARD_MS && count_waiting() == 0; ms += 20) {
        sleep_ms(20);
    }
    ck_assert_uint_gt(count_waiting(), 0);
}

/* Checks the number of waiting removers. A remover that works for its agent may wait for a moment,
 * so the test looks again for a while. */
static void expect_waiting_at_most(unsigned most)
{
    unsigned count = count_waiting();
    for (unsigned ms = 0; ms < GUARD_MS && count > most; ms += 20) {
        sleep_ms(20);
        count = count_waiting();
    }
    ck_assert_uint_le(count, most);
}

/* ---- a region's lock ---- */

START_TEST(a_region_is_given_up_whose_lock_is_kept)
{
    spoil_and_keep();
    await_log("event=region_rubbish namespace=bad", 1);
    await_log("event=region_begun_anew namespace=bad", 1);
    neighbour_is_well();
    bad_is_served();
    ck_assert_uint_eq(count_regions("bad"), 2); /* the old region cannot be removed yet */
    stop_and_start(_i == 1);
    bad_is_served();
    end_culprits();
    await_regions("bad", 1);
    bad_is_served();
    stop_and_start(false);
}
END_TEST

/* The region's lock is kept while no agent runs, and an unused page of the region is missing. The
 * next agent adopts the region, and allocates that page again. */
START_TEST(a_region_is_adopted_whose_lock_is_kept)
{
    struct stat before;
    struct stat now;
    int fd = open_region("bad");
    ck_assert_int_eq(fstat(fd, &before), 0);
    agent_kill(&agent);
    ck_assert_int_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               (before.st_size - 1) / PAGE * PAGE, PAGE),
                     0);
    start_culprit(write_into, fd);
    fuse_page_await(&page);
    agent_start(&agent);
    ck_assert_uint_eq(agent_logged(&agent, "event=session_continued"), 1);
    ck_assert_uint_eq(agent_logged(&agent, "event=region_rubbish"), 0);
    ck_assert_int_eq(fstat(fd, &now), 0);
    ck_assert_int_eq(now.st_blocks, before.st_blocks);
    bad_is_served();
    close(fd);
    end_culprits();
}
END_TEST

/* Each time the agent makes a new region for the namespace, a client spoils that region as well,
 * and keeps the kernel's lock of its file, so that the region cannot be removed. When PER_SPACE
 * regions wait for removal, the agent makes no further one. */
START_TEST(a_region_is_given_up_again_and_again)
{
    for (unsigned i = 1; i <= PER_SPACE; i++) {
        spoil_and_keep();
        await_log("event=region_rubbish namespace=bad", i);
        if (i < PER_SPACE) {
            await_log("event=region_begun_anew namespace=bad", i);
        }
    }
    await_log("its regions that were given up cannot be removed", 1);
    ck_assert_uint_eq(count_regions("bad"), PER_SPACE);
    ck_assert_uint_eq(agent_logged(&agent, "event=region_begun_anew"), PER_SPACE - 1);
    neighbour_is_well();
    for (unsigned i = 1; i <= 3; i++) {
        agent_kill(&agent);
        agent_start(&agent); /* the agent finds these regions and starts to remove each of them
                              * again */
        ck_assert_uint_eq(agent_logged(&agent, "event=session_continued"), i);
    }
    sleep_ms(TTL_MS + DELAY_MS);
    ck_assert_uint_eq(agent_logged(&agent, "event=region_begun_anew"), PER_SPACE - 1);
    await_waiting();
    expect_waiting_at_most(PER_SPACE);
    neighbour_is_well();
    end_culprits();
    await_log("event=region_begun_anew namespace=bad", PER_SPACE);
    bad_is_served();
    await_regions("bad", 1);
}
END_TEST

/* ---- memory after a region's end ---- */

START_TEST(memory_behind_the_end)
{
    struct stat status;
    int fd = open_region("bad");
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_int_eq(fallocate(fd, FALLOC_FL_KEEP_SIZE, status.st_size, GIB), 0);
    await_log("event=region_rubbish namespace=bad", 1);
    ck_assert_uint_eq(
        agent_logged(&agent,
                     "a process of this namespace allocated memory behind the end of its region"),
        1);
    await_log("event=region_begun_anew namespace=bad", 1);
    neighbour_is_well();
    for (unsigned ms = 0; ms < GUARD_MS && status.st_nlink > 0; ms += 10) {
        sleep_ms(10);
        ck_assert_int_eq(fstat(fd, &status), 0);
    }
    ck_assert_int_le(status.st_blocks * 512, PAGE); /* the agent has given all memory back */
    bad_is_served();
    close(fd);
}
END_TEST

/* A process puts memory after the region's end while no agent runs. The next agent does not touch
 * anything in such a region. */
START_TEST(memory_behind_the_end_before_a_start)
{
    struct stat status;
    int fd = open_region("bad");
    agent_kill(&agent);
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_int_eq(fallocate(fd, FALLOC_FL_KEEP_SIZE, status.st_size, TOO_MUCH), 0);
    agent_start(&agent);
    ck_assert_uint_eq(agent_logged(&agent, "event=session_continued"), 1);
    ck_assert_uint_eq(agent_logged(&agent, "of memory behind its end"), 1);
    await_log("event=region_begun_anew namespace=bad", 1);
    neighbour_is_well();
    bad_is_served();
    await_regions("bad", 1);
    close(fd);
}
END_TEST

/* ---- the lock of /dev/shm ---- */

START_TEST(somebody_lists_shared_memory)
{
    keep_folder("/dev/shm");
    int fd = open_region("bad");
    ck_assert_int_eq(ftruncate(fd, 0), 0);
    await_log("event=region_rubbish namespace=bad", 1);
    await_log("event=region_begun_anew namespace=bad", 1);
    neighbour_is_well();
    bad_is_served();
    close(fd);
    await_regions("bad", 1);
    stop_and_start(_i == 1);
    bad_is_served();
    end_culprits();
}
END_TEST

static void first_start_fails(void)
{
    int64_t began_ns = boottime_now();
    agent_launch(&agent);
    int status = wait_for(agent.pid);
    agent.pid = 0;
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 69);
    ck_assert_int_lt(boottime_now() - began_ns, GUARD_MS * MS);
}

/* While a process keeps the lock of /dev/shm, an agent that has no folder there waits for a while
 * and logs that. Then it ends and logs the reason. Many such starts leave only one waiting
 * process. */
START_TEST(somebody_lists_shared_memory_at_the_first_start)
{
    actor_end(&holder);
    ck_assert_int_eq(agent_stop(&agent), 0);
    char folder[300];
    snprintf(folder, sizeof(folder), "%s.moved", memory);
    ck_assert_int_eq(rename(memory, folder), 0); /* the agent finds no folder, as after a boot */
    keep_folder("/dev/shm");
    first_start_fails();
    ck_assert_uint_eq(agent_logged(&agent, "event=memory_locked"), 1);
    ck_assert_uint_eq(agent_logged(&agent, "locked, by a system call"), 1);
    first_start_fails();
    ck_assert_uint_eq(agent_logged(&agent, "event=memory_locked"), 2);
    ck_assert_uint_eq(agent_logged(&agent, "locked, by a system call"), 2);
    expect_waiting_at_most(1);
    agent_launch(&agent);
    await_log("event=memory_locked", 3);
    end_culprits();
    agent_await_socket(&agent);
    ck_assert_uint_eq(agent_logged(&agent, "locked, by a system call"), 2);
    ck_assert_uint_eq(agent_logged(&agent, "event=session_new"), 2);
    actor_ready(&holder, agent.socket);
}
END_TEST

/* ---- the lock of a folder above the agent's own ---- */

START_TEST(somebody_lists_what_the_folders_are_in)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/way", agent.folder);
    keep_folder(path);
    stop_and_start(_i == 1);
    bad_is_served();
    end_culprits();
}
END_TEST

static void start(void)
{
    char config[600];
    char path[128];
    /* a restarted agent must renew its session within TTL_MS, so it needs the processor first */
    be_served_first();
    REQUIRE(fuse_page_create(&page), "fuse");
    REQUIRE(unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777,size=4G") == 0,
            "mount namespace: %s", strerror(errno));
    snprintf(config, sizeof(config),
             "[agent]\nname = host-a\ncell = kept\nstate_dir = %%D/way/state\n"
             "socket = %%D/way/run/agent.sock\n[cell]\nsession_ttl = %dms\n"
             "[namespace.good]\n[namespace.bad]\n",
             TTL_MS);
    agent_create(&agent, config);
    agent_admit_all(&agent);
    snprintf(path, sizeof(path), "%s/way", agent.folder);
    REQUIRE(mkdir(path, 0755) == 0, "%s", path);
    snprintf(agent.socket, sizeof(agent.socket), "%s/way/run/agent.sock", agent.folder);
    agent_start(&agent);
    agent_memory_path(&agent, memory, sizeof(memory));
    actor_ready(&holder, agent.socket);
    ck_assert_int_eq(actor_open(&holder, 0, "good/a", DELAY_MS), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    actor_ready(&late, agent.socket);
}

static void stop(void)
{
    end_culprits();
    actor_end(&holder);
    actor_end(&late);
    agent_destroy(&agent);
    fuse_page_destroy(&page);
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
    TCase *tests = tcase_create("kept locks");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, a_region_is_given_up_whose_lock_is_kept, 0, 2);
    tcase_add_test(tests, a_region_is_adopted_whose_lock_is_kept);
    tcase_add_test(tests, a_region_is_given_up_again_and_again);
    tcase_add_test(tests, memory_behind_the_end);
    tcase_add_test(tests, memory_behind_the_end_before_a_start);
    tcase_add_loop_test(tests, somebody_lists_shared_memory, 0, 2);
    tcase_add_test(tests, somebody_lists_shared_memory_at_the_first_start);
    tcase_add_loop_test(tests, somebody_lists_what_the_folders_are_in, 0, 2);
    return suite_main("kept locks", tests);
}
