/*
 * The agent's store is replaced. Then the agent's old folder in /dev/shm is left over, because its
 * name is derived from the old store (agent/serve/leftovers.h). The tests check when the next agent
 * removes the folder, and which folders it leaves alone. If root runs them, they have a small
 * /dev/shm of their own.
 */
#include <check.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "require.h"

enum {
    TTL_MS = 500,
    GRACE_MS = 500,
    LATER_MS = 4000,      /* a grace period that leaves time for other steps */
    LATEST_MS = 8000,     /* a grace period that leaves time for other steps and a start */
    DELAY_MS = 3000,      /* three times the lock-delay that an agent assumes for such a folder */
    SPACE_OFFSET = 56,    /* the offset of the time namespace in the lease page */
    DEADLINE_OFFSET = 32, /* the offset of the deadline in the lease page */
    NOBODY = 65534,
    SMALL = 1000, /* `locks` in [limits]: the region is then smaller than a MiB */
    EXIT_UNAVAILABLE = 69,
};

static struct agent_process agent;
static char cell[32];
static char left[256]; /* the folder in /dev/shm that is left over */

static int remove_entry(const char *entry, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(entry);
}

static void remove_all(const char *path)
{
    (void)nftw(path, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* locks: the value of `locks` in [limits]; 0: the default. */
static void create(struct agent_process *one, unsigned locks, int grace_ms)
{
    char config[400];
    int length = snprintf(config, sizeof(config),
                          "[agent]\nname = host-a\ncell = %s\nstate_dir = %%D/state\n"
                          "socket = %%D/agent.sock\n[cell]\nsession_ttl = %dms\n"
                          "grace_period = %dms\n",
                          cell, (int)TTL_MS, grace_ms);
    if (locks > 0) {
        snprintf(config + length, sizeof(config) - (size_t)length, "[limits]\nlocks = %u\n", locks);
    }
    agent_create(one, config);
}

static bool is_there(const char *path)
{
    struct stat status;
    return lstat(path, &status) == 0;
}

/* Returns the deadline in the lease page of the folder that is left over. */
static int64_t deadline_left(void)
{
    char path[300];
    int64_t deadline_ns = 0;
    snprintf(path, sizeof(path), "%s/lease", left);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ck_assert_int_eq(pread(fd, &deadline_ns, sizeof(deadline_ns), DEADLINE_OFFSET), 8);
    close(fd);
    return deadline_ns;
}

/* Starts an agent, kills it, and removes its store. Returns the time at which an agent may first
 * remove the folder that is left over. */
static int64_t leave_folder(unsigned locks, int grace_ms)
{
    char state[128];
    create(&agent, locks, grace_ms);
    agent_start(&agent);
    agent_memory_path(&agent, left, sizeof(left));
    agent_kill(&agent);
    snprintf(state, sizeof(state), "%s/state", agent.folder);
    remove_all(state);
    ck_assert(!is_there(state) && is_there(left));
    return deadline_left() + (grace_ms + DELAY_MS) * MS;
}

static void await_logged(const struct agent_process *one, const char *text)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (agent_logged(one, text) == 0) {
        ck_assert_msg(boottime_now() < end_ns, "not logged: %s", text);
        sleep_ms(10);
    }
}

static void await_gone(const char *path)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (is_there(path)) {
        ck_assert_msg(boottime_now() < end_ns, "%s stays", path);
        sleep_ms(10);
    }
}

/* Writes the path of the folder in /dev/shm that an agent with store `number` would have. */
static void name_one(unsigned number, char path[256])
{
    snprintf(path, 256, "/dev/shm/holdfast.%s.host-a.%032x", cell, number);
}

/* Makes the folder of store `number`, with a region and without a lease page. The folder's age is
 * an hour. */
static void make_one(unsigned number, char path[256])
{
    char part[300];
    const struct timespec old[2] = {{.tv_sec = time(NULL) - 3600}, {.tv_sec = time(NULL) - 3600}};
    name_one(number, path);
    snprintf(part, sizeof(part), "%s/default.0123456789abcdef", path);
    REQUIRE(mkdir(path, 0700) == 0 && mkdir(part, 0700) == 0, "mkdir");
    snprintf(part, sizeof(part), "%s/default.0123456789abcdef/region", path);
    close(open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(is_there(part) && utimensat(AT_FDCWD, path, old, 0) == 0, "%s", part);
}

/* Runs `holdfast doctor`. Returns its output. */
static const char *doctor(void)
{
    static char output[16384];
    char command[256];
    snprintf(command, sizeof(command), "%s doctor -s %s 2>&1", binary_path("holdfast"),
             agent.socket);
    FILE *pipe = popen(command, "r");
    REQUIRE(pipe != NULL, "popen");
    output[fread(output, 1, sizeof(output) - 1, pipe)] = '\0';
    (void)pclose(pipe);
    return output;
}

START_TEST(it_goes_in_its_time)
{
    char own[256];
    int64_t due_ns = leave_folder(SMALL, LATER_MS);
    agent_start(&agent);
    agent_memory_path(&agent, own, sizeof(own));
    ck_assert_str_ne(own, left);
    ck_assert(is_there(left));
    const char *told = doctor();
    ck_assert_msg(strstr(told, left) != NULL &&
                      strstr(told, "the agent removes these regions in") != NULL,
                  "%s", told);
    await_gone(left);
    ck_assert_int_ge(boottime_now(), due_ns);
    await_logged(&agent, "event=leftover_removed");
    ck_assert_uint_eq(agent_logged(&agent, left), 1);
    ck_assert_ptr_null(strstr(doctor(), left));
    ck_assert(is_there(own) && agent_takes_connections(&agent));
    agent_destroy(&agent);
}
END_TEST

/* The agent that left the folder ran with another clock, so this agent does not know whether the
 * session is over. */
START_TEST(the_folder_of_another_time_namespace_stays)
{
    char path[300];
    const uint64_t space = 44;
    int64_t due_ns = leave_folder(SMALL, GRACE_MS);
    snprintf(path, sizeof(path), "%s/lease", left);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    ck_assert_int_eq(pwrite(fd, &space, sizeof(space), SPACE_OFFSET), sizeof(space));
    close(fd);
    agent_start(&agent);
    sleep_ms((due_ns - boottime_now()) / MS + TTL_MS);
    ck_assert(is_there(left));
    const char *told = doctor();
    ck_assert_msg(strstr(told, "the agent cannot know whether an agent goes on with them") != NULL,
                  "%s", told);
    agent_destroy(&agent);
    remove_all(left);
}
END_TEST

/* Another agent of the same name is stopped, and its lease ended long ago. So only its flock(2) on
 * its folder protects the folder. A folder without such a lock is removed. */
START_TEST(the_folder_of_an_agent_that_lives_stays)
{
    struct agent_process stopped = {.pid = 0};
    struct stat before;
    struct stat after;
    char other[256];
    create(&stopped, SMALL, GRACE_MS);
    agent_start(&stopped);
    agent_memory_path(&stopped, left, sizeof(left));
    agent_pause(&stopped);
    sleep_ms((deadline_left() - boottime_now()) / MS + GRACE_MS + DELAY_MS + 1);
    ck_assert_int_eq(stat(left, &before), 0);
    make_one(1, other);
    create(&agent, SMALL, GRACE_MS);
    /* at its start the agent searches until no folder is left that it may remove */
    agent_start(&agent);
    await_gone(other);
    await_logged(&agent, "event=leftover_removed"); /* the agent logs a removal when it is done */
    ck_assert_int_eq(stat(left, &after), 0);
    /* the folders of the regions are still there */
    ck_assert_uint_eq(after.st_nlink, before.st_nlink);
    ck_assert_uint_eq(agent_logged(&agent, "event=leftover_removed"), 1);
    ck_assert_uint_eq(agent_logged(&agent, left), 0);
    agent_continue(&stopped);
    sleep_ms(TTL_MS);
    ck_assert(is_there(left) && agent_takes_connections(&stopped));
    agent_destroy(&agent);
    agent_destroy(&stopped);
}
END_TEST

/* An agent is down for a while and then starts with its own store. Nothing is left over. */
START_TEST(its_own_folder_stays)
{
    create(&agent, SMALL, GRACE_MS);
    agent_start(&agent);
    agent_memory_path(&agent, left, sizeof(left));
    agent_kill(&agent);
    agent_start(&agent);
    sleep_ms(TTL_MS + GRACE_MS + DELAY_MS + TTL_MS);
    ck_assert(is_there(left));
    ck_assert_uint_eq(agent_logged(&agent, "leftover"), 0);
    agent_destroy(&agent);
}
END_TEST

/* An agent starts with the old store while its folder is being removed. It waits until the folder
 * is gone, and makes a new one. */
START_TEST(a_start_during_the_removal)
{
    struct stat before;
    struct stat after;
    create(&agent, SMALL, GRACE_MS);
    agent_start(&agent);
    agent_memory_path(&agent, left, sizeof(left));
    agent_kill(&agent);
    int removal = open(left, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert(removal >= 0 && flock(removal, LOCK_EX | LOCK_NB) == 0);
    agent_launch(&agent);
    sleep_ms(2 * TTL_MS);
    ck_assert(!agent_takes_connections(&agent));
    remove_all(left);
    agent_await_socket(&agent);
    ck_assert(fstat(removal, &before) == 0 && stat(left, &after) == 0);
    ck_assert_uint_ne(before.st_ino, after.st_ino);
    close(removal);
    agent_destroy(&agent);
}
END_TEST

/* ---- folders that others made ---- */

START_TEST(only_what_is_surely_left_over_goes)
{
    enum { GOES, OPEN, NEW, LINK, FULL, NAMED, FOREIGN, COUNT };
    char paths[COUNT][256];
    char part[300];
    char target[256];
    bool stays[COUNT];
    for (unsigned i = 0; i < COUNT; i++) {
        stays[i] = i != GOES;
        if (i != LINK) {
            make_one(i, paths[i]);
        }
    }
    REQUIRE(chmod(paths[OPEN], 0755) == 0, "chmod");
    REQUIRE(utimensat(AT_FDCWD, paths[NEW], NULL, 0) == 0, "utimensat");
    /* a link to a folder that could be removed */
    make_one(COUNT, target);
    snprintf(part, sizeof(part), "%s.target", target);
    REQUIRE(rename(target, part) == 0, "rename");
    name_one(LINK, paths[LINK]);
    REQUIRE(symlink(part, paths[LINK]) == 0, "symlink");
    snprintf(target, sizeof(target), "%.255s", part);
    /* a file that no agent makes, so the folder stays */
    snprintf(part, sizeof(part), "%s/precious", paths[FULL]);
    close(open(part, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(utimensat(AT_FDCWD, paths[FULL],
                      (const struct timespec[2]){{.tv_sec = 1}, {.tv_sec = 1}}, 0) == 0,
            "utimensat");
    /* no store gives a folder this name */
    snprintf(part, sizeof(part), "%s0", paths[NAMED]);
    REQUIRE(rename(paths[NAMED], part) == 0, "rename");
    snprintf(paths[NAMED], sizeof(paths[NAMED]), "%.255s", part);
    if (geteuid() == 0) {
        REQUIRE(chown(paths[FOREIGN], NOBODY, NOBODY) == 0, "chown");
    } else {
        stays[FOREIGN] = false;
    }
    create(&agent, SMALL, GRACE_MS);
    agent_start(&agent);
    await_gone(paths[GOES]);
    await_logged(&agent, "event=leftover_removed");
    sleep_ms(2 * TTL_MS);
    for (unsigned i = 0; i < COUNT; i++) {
        ck_assert_msg(is_there(paths[i]) == stays[i], "%s", paths[i]);
    }
    snprintf(part, sizeof(part), "%s/default.0123456789abcdef/region", target);
    ck_assert(is_there(part));
    snprintf(part, sizeof(part), "%s/precious", paths[FULL]);
    ck_assert(is_there(part));
    agent_destroy(&agent);
    for (unsigned i = 0; i < COUNT; i++) {
        remove_all(paths[i]);
    }
    remove_all(target);
}
END_TEST

/* ---- no room ---- */

/* There is room for the regions of one agent, not of two. */
START_TEST(a_start_needs_its_room)
{
    if (geteuid() != 0) {
        printf("left out: a_start_needs_its_room: only root can have a /dev/shm of its own\n");
        return;
    }
    int64_t due_ns = leave_folder(0, LATEST_MS);
    agent_launch(&agent);
    int status = wait_for(agent.pid);
    agent.pid = 0;
    ck_assert_int_eq(WEXITSTATUS(status), EXIT_UNAVAILABLE);
    ck_assert_uint_eq(agent_logged(&agent, "MiB there are regions of a replaced store"), 1);
    ck_assert(agent_logged(&agent, left) >= 1);
    ck_assert(is_there(left));
    sleep_ms((due_ns - boottime_now()) / MS + 1);
    agent_start(&agent); /* the first start after due_ns succeeds */
    await_gone(left);
    await_logged(&agent, "event=leftover_removed");
    ck_assert_uint_eq(agent_logged(&agent, "event=leftover_removed"), 1);
    agent_destroy(&agent);
}
END_TEST

int main(void)
{
    if (geteuid() == 0) {
        REQUIRE(unshare(CLONE_NEWNS) == 0 &&
                    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                    mount("shm", "/dev/shm", "tmpfs", 0, "size=40m,mode=1777") == 0,
                "mount");
    }
    snprintf(cell, sizeof(cell), "left-%d", (int)getpid());
    TCase *tests = tcase_create("leftovers");
    tcase_set_timeout(tests, 90);
    tcase_add_test(tests, it_goes_in_its_time);
    tcase_add_test(tests, the_folder_of_another_time_namespace_stays);
    tcase_add_test(tests, the_folder_of_an_agent_that_lives_stays);
    tcase_add_test(tests, its_own_folder_stays);
    tcase_add_test(tests, a_start_during_the_removal);
    tcase_add_test(tests, only_what_is_surely_left_over_goes);
    tcase_add_test(tests, a_start_needs_its_room);
    return suite_main("leftovers", tests);
}
