/*
 * Before the agent starts, another user of the host puts folders, links, files, sockets and regions
 * where the agent would make its own. The agent refuses each of them in a line that names it, or
 * does not use it. The agent follows no link, and the target of a link stays unchanged. The test
 * needs root, to act as the other users. The agent runs as a user of its own.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "require.h"

enum { AGENT_USER = 1, OTHER_USER = 65534, TEXT_MAX = 8192 };

/* the test uses only the folder of this agent, which agent_destroy() removes */
static struct agent_process place;
static char said[TEXT_MAX]; /* the output of the agent that ran last */
static char cell[32];       /* the cell's name, which is unique on this machine, so the test can
                       * recognise its regions */

static const char *path_of(const char *name)
{
    static char paths[4][256];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof(paths[0]), "%s/%s", place.folder, name);
    return path;
}

static void make_folder(const char *name, uid_t owner, mode_t mode)
{
    const char *path = path_of(name);
    ck_assert_msg(mkdir(path, 0700) == 0 && chown(path, owner, owner) == 0 &&
                      chmod(path, mode) == 0,
                  "%s: %s", path, strerror(errno));
}

static void make_file(const char *name, uid_t owner, mode_t mode)
{
    const char *path = path_of(name);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    ck_assert_msg(fd >= 0 && write(fd, "precious", 8) == 8 && fchown(fd, owner, owner) == 0 &&
                      fchmod(fd, mode) == 0,
                  "%s: %s", path, strerror(errno));
    close(fd);
}

static void make_link(const char *name, const char *to, uid_t owner)
{
    const char *path = path_of(name);
    ck_assert_msg(symlink(path_of(to), path) == 0 && lchown(path, owner, owner) == 0, "%s: %s",
                  path, strerror(errno));
}

static bool is_precious(const char *name)
{
    char text[16] = "";
    int fd = open(path_of(name), O_RDONLY);
    ssize_t size = read(fd, text, sizeof(text));
    close(fd);
    return size == 8 && memcmp(text, "precious", 8) == 0;
}

static void configure(const char *state_dir, const char *socket)
{
    char text[512];
    snprintf(text, sizeof(text),
             "[agent]\nname = host-a\ncell = %s\nstate_dir = %%D/%s\nsocket = %%D/%s\n", cell,
             state_dir, socket);
    agent_configure(&place, text);
}

/* Finds the previous agent's folder in /dev/shm; "" if there is none. */
static void find_folder(char *out, size_t size)
{
    char prefix[64];
    DIR *folder = opendir("/dev/shm");
    const struct dirent *entry;
    out[0] = '\0';
    snprintf(prefix, sizeof(prefix), "holdfast.%s.", cell);
    while ((entry = readdir(folder)) != NULL) {
        if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0) {
            snprintf(out, size, "/dev/shm/%s", entry->d_name);
        }
    }
    closedir(folder);
}

/* Returns how many regions are in the folder. */
static unsigned count_regions(const char *path)
{
    unsigned count = 0;
    DIR *folder = opendir(path);
    const struct dirent *entry;
    ck_assert_msg(folder != NULL, "%s: %s", path, strerror(errno));
    while ((entry = readdir(folder)) != NULL) {
        count += entry->d_name[0] != '.' && entry->d_type == DT_DIR;
    }
    closedir(folder);
    return count;
}

static void set_up(void)
{
    snprintf(cell, sizeof(cell), "planted-%d", (int)getpid());
    agent_create(&place, "");
    configure("own/state", "own/run/agent.sock");
    ck_assert_int_eq(chmod(place.folder, 0755), 0);
    ck_assert_int_eq(chmod(path_of("holdfast.conf"), 0644), 0);
    make_folder("own", AGENT_USER, 0755);
    make_folder("own/run", AGENT_USER, 0755);
    make_folder("shared", 0, 01777);
    make_file("victim", AGENT_USER, 0600);
}

static void tear_down(void)
{
    ck_assert(is_precious("victim"));
    agent_destroy(&place);
}

/* Makes the janitor remove the agent's objects in /dev/shm, however the test ends. Their names
 * contain the store's id. */
static void note_objects(void)
{
    char folder[300];
    find_folder(folder, sizeof(folder));
    const char *end = strrchr(folder, '.');
    if (end != NULL && strlen(end + 1) == 32) {
        REQUIRE(write(place.janitor_fd, end + 1, 32) == 32, "janitor");
    }
}

static void read_said(const char *path)
{
    int fd = open(path, O_RDONLY);
    ssize_t size = read(fd, said, sizeof(said) - 1);
    said[size > 0 ? size : 0] = '\0';
    close(fd);
}

/* Adds a namespace to the configuration. */
static void add_namespace(void)
{
    static const char second[] = "[namespace.second]\n";
    int fd = open(path_of("holdfast.conf"), O_WRONLY | O_APPEND | O_CLOEXEC);
    ck_assert_int_eq(write(fd, second, sizeof(second) - 1), sizeof(second) - 1);
    close(fd);
}

static void (*hobble)(void); /* called in an agent's process before exec(), to take kernel features
                              * away; NULL: takes none away */

/* Runs the agent as its own user. Ends the agent once it serves. Returns its exit code. */
static int run_agent(void)
{
    const char *log = path_of("said");
    bool served = false;
    int status = 0;
    unlink(log);
    pid_t pid = fork_tied();
    if (pid == 0) {
        int fd = open(log, O_WRONLY | O_CREAT | O_EXCL, 0644);
        dup2(fd, 2);
        dup2(fd, 1);
        REQUIRE(setgid(AGENT_USER) == 0 && setuid(AGENT_USER) == 0, "setuid");
        if (hobble != NULL) {
            hobble();
        }
        execl(binary_path("holdfastd"), "holdfastd", "--config", path_of("holdfast.conf"), NULL);
        _exit(127);
    }
    for (unsigned waited_ms = 0; waited_ms < GUARD_MS; waited_ms += 5) {
        if (waitpid(pid, &status, WNOHANG) == pid) {
            read_said(log);
            note_objects();
            if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) {
                return 128 + SIGSYS;
            }
            ck_assert_msg(WIFEXITED(status), "status %d: %s", status, said);
            return WEXITSTATUS(status);
        }
        read_said(log);
        if (!served && strstr(said, "event=serving") != NULL) {
            served = true;
            kill(pid, SIGTERM);
        }
        sleep_ms(5);
    }
    kill_process(pid);
    ck_abort_msg("it neither ends nor serves: %s", said);
    return 0;
}

/* Checks that the agent ends with that code, and that a line of its log has that text. */
static void refuses(int code, const char *text)
{
    int found = run_agent();
    ck_assert_msg(found == code && strstr(said, text) != NULL &&
                      strstr(said, "event=serving") == NULL,
                  "code %d, expected %d and \"%s\": %s", found, code, text, said);
}

START_TEST(nothing_is_planted)
{
    ck_assert_int_eq(run_agent(), 0);
    ck_assert_ptr_nonnull(strstr(said, "event=serving"));
}
END_TEST

/* A user that connects need not be able to list the socket's folder: see SECURITY.md, "Locks of the
 * kernel". */
START_TEST(the_folder_of_the_socket_is_not_listed)
{
    char text[512];
    struct stat status;
    snprintf(text, sizeof(text),
             "[agent]\nname = host-a\ncell = %s\nstate_dir = %%D/own/state\n"
             "socket = %%D/own/made/agent.sock\nusers = %d\n",
             cell, (int)OTHER_USER);
    agent_configure(&place, text);
    ck_assert_int_eq(run_agent(), 0);
    ck_assert_int_eq(stat(path_of("own/made"), &status), 0);
    ck_assert_uint_eq(status.st_mode & 07777, 0711);
}
END_TEST

START_TEST(a_link_for_the_state)
{
    make_folder("elsewhere", AGENT_USER, 0700);
    make_link("shared/state", "elsewhere", OTHER_USER);
    configure("shared/state", "own/run/agent.sock");
    refuses(69, "found a symbolic link of user 65534");
    ck_assert_int_eq(rmdir(path_of("elsewhere")), 0); /* the agent has put nothing there */
}
END_TEST

START_TEST(a_folder_for_the_state)
{
    make_folder("shared/state", OTHER_USER, 0777);
    configure("shared/state", "own/run/agent.sock");
    refuses(69, "shared/state: found");
    make_folder("everybodys", 0, 0777);
    configure("everybodys/state", "own/run/agent.sock");
    refuses(69, "everybodys: found a folder that every user may write to");
    make_folder("others", OTHER_USER, 0755); /* OTHER_USER could replace others/state */
    make_folder("others/state", AGENT_USER, 0700);
    configure("others/state", "own/run/agent.sock");
    refuses(69, "others: expected a folder of this agent's user or root");
}
END_TEST

/* Another user had write access to the state folder for a while, and put links into it. */
START_TEST(links_in_the_state)
{
    static const char *const names[] = {"holdfast.db", "lease", "lock", "clients"};
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char name[64];
        snprintf(name, sizeof(name), "own/state/%s", names[i]);
        if (i == 0) {
            make_folder("own/state", AGENT_USER, 0700);
        }
        (void)remove(path_of(name)); /* removes what the previous round left */
        make_link(name, i < 3 ? "victim" : "shared", OTHER_USER);
        int code = run_agent();
        ck_assert_msg(code == 69 || code == 70, "%s: code %d: %s", name, code, said);
        ck_assert_ptr_nonnull(strstr(said, names[i]));
        ck_assert(is_precious("victim"));
        ck_assert_int_eq(unlink(path_of(name)), 0);
    }
    ck_assert_int_eq(run_agent(), 0);
}
END_TEST

/* The lease is another user's file. Its content and its size stay unchanged. */
START_TEST(a_lease_of_somebody_else)
{
    struct stat status;
    make_folder("own/state", AGENT_USER, 0700);
    int fd = open(path_of("own/state/lease"), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fchown(fd, OTHER_USER, OTHER_USER), 0);
    ck_assert_int_eq(fchmod(fd, 0666), 0);
    int code = run_agent();
    ck_assert_msg(code == 69, "code %d: %s", code, said);
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_int_eq(status.st_size, 0);
    close(fd);
    ck_assert_int_eq(unlink(path_of("own/state/lease")), 0);
    ck_assert_int_eq(run_agent(), 0);
}
END_TEST

START_TEST(something_at_the_sockets_place)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    configure("own/state", "shared/agent.sock");
    make_link("shared/agent.sock", "victim", OTHER_USER);
    refuses(70, "found a file that is no socket");
    ck_assert_int_eq(unlink(path_of("shared/agent.sock")), 0);
    /* The socket belongs to another user, who could pretend to be the agent. */
    int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path_of("shared/agent.sock"));
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
    ck_assert_int_eq(chown(address.sun_path, OTHER_USER, OTHER_USER), 0);
    refuses(70, "found a socket of user 65534");
    ck_assert_int_eq(listen(fd, 1), 0);
    refuses(70, "found a socket of user 65534");
    close(fd);
    ck_assert_int_eq(unlink(path_of("shared/agent.sock")), 0);
    ck_assert_int_eq(unlink(path_of("shared/agent.sock.lock")), 0);
    make_file("shared/agent.sock.lock", OTHER_USER, 0666);
    refuses(70, "shared/agent.sock.lock: ");
    ck_assert_int_eq(unlink(path_of("shared/agent.sock.lock")), 0);
    make_link("shared/agent.sock.lock", "victim", OTHER_USER);
    refuses(70, "shared/agent.sock.lock: ");
}
END_TEST

START_TEST(a_folder_for_the_socket)
{
    make_folder("others", OTHER_USER, 0755);
    configure("own/state", "others/agent.sock");
    refuses(69, "others: expected a folder of this agent's user or root");
    /* the owner of a folder with the sticky bit may remove the socket */
    make_folder("sticky", OTHER_USER, 01777);
    configure("own/state", "sticky/agent.sock");
    refuses(69, "sticky: expected a folder of this agent's user or root");
    make_folder("everybodys", 0, 0777);
    configure("own/state", "everybodys/agent.sock");
    refuses(69, "everybodys: found a folder that every user may write to");
    make_folder("theirs", OTHER_USER, 0777);
    make_link("shared/run", "theirs", OTHER_USER);
    configure("own/state", "shared/run/agent.sock");
    refuses(69, "found a symbolic link of user 65534");
}
END_TEST

static void move_away(const char *path, char *kept, size_t size)
{
    snprintf(kept, size, "%s.kept", path);
    ck_assert_msg(rename(path, kept) == 0, "%s: %s", path, strerror(errno));
}

/* Another user's folder, file or link has the name of the agent's folder in /dev/shm. */
START_TEST(a_folder_in_shared_memory)
{
    char path[300];
    char kept[320];
    ck_assert_int_eq(run_agent(), 0);
    find_folder(path, sizeof(path));
    move_away(path, kept, sizeof(kept));
    ck_assert(mkdir(path, 0777) == 0 && chmod(path, 0777) == 0 &&
              chown(path, OTHER_USER, OTHER_USER) == 0);
    refuses(69, "expected a folder of user");
    ck_assert_int_eq(chmod(path, 0700), 0);
    refuses(69, "somebody else made it: remove it");
    ck_assert_int_eq(chown(path, AGENT_USER, AGENT_USER), 0);
    ck_assert_int_eq(chmod(path, 0750), 0); /* a folder that other users may list */
    refuses(69, "found owner 1 and mode 0750");
    ck_assert_int_eq(rmdir(path), 0);
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL, 0666);
    ck_assert(fd >= 0 && fchown(fd, OTHER_USER, OTHER_USER) == 0 && fchmod(fd, 0666) == 0);
    close(fd);
    refuses(69, "found no folder, expected one of this agent's user: remove it");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink(path_of("own"), path), 0);
    ck_assert_int_eq(lchown(path, OTHER_USER, OTHER_USER), 0);
    refuses(69, "found no folder, expected one of this agent's user: remove it");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(symlink("/dev/shm/nowhere", path), 0);
    refuses(69, "found no folder");
    ck_assert_int_eq(unlink(path), 0);
    ck_assert_int_eq(rename(kept, path), 0);
    ck_assert_int_eq(run_agent(), 0); /* the agent starts when the planted object is gone */
    ck_assert_ptr_nonnull(strstr(said, "event=session_"));
}
END_TEST

/* The agent removes the regions that an earlier agent left in the folder. It keeps the region that
 * it uses, and everything that does not have the name of a region. */
START_TEST(left_overs_in_shared_memory)
{
    char path[300];
    char inner[340];
    ck_assert_int_eq(run_agent(), 0);
    find_folder(path, sizeof(path));
    ck_assert_uint_eq(count_regions(path), 1);
    static const char *const names[] = {"default.0123456789abcdef", "gone.0123456789abcdef"};
    for (unsigned i = 0; i < 2; i++) {
        snprintf(inner, sizeof(inner), "%s/%s", path, names[i]);
        ck_assert(mkdir(inner, 0700) == 0 && chown(inner, AGENT_USER, AGENT_USER) == 0);
    }
    snprintf(inner, sizeof(inner), "%s/%s/region", path, names[0]);
    ck_assert_int_eq(symlink(path_of("victim"), inner), 0); /* the agent removes only the link
                                                             * itself */
    snprintf(inner, sizeof(inner), "%s/something", path);
    ck_assert_int_eq(mkdir(inner, 0700), 0);
    ck_assert_int_eq(run_agent(), 0);
    ck_assert_ptr_nonnull(strstr(said, "event=session_continued"));
    for (unsigned ms = 0; ms < GUARD_MS && count_regions(path) > 2; ms += 10) {
        sleep_ms(10);
    }
    ck_assert_uint_eq(count_regions(path), 2);
}
END_TEST

/* Another user fills /dev/shm before the agent starts, so the start fails. The failed start must
 * leave nothing there that takes up memory, not even the first namespace's region, for which there
 * was room. */
START_TEST(no_room_in_shared_memory)
{
    char object[300];
    ck_assert_msg(unshare(CLONE_NEWNS) == 0 &&
                      mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                      mount("tmpfs", "/dev/shm", "tmpfs", 0, "mode=1777,size=40M") == 0,
                  "mount namespace: %s", strerror(errno));
    configure("own/state", "own/run/agent.sock");
    add_namespace();
    refuses(69, "namespace second takes 28332032 bytes from the start");
    ck_assert_ptr_nonnull(strstr(said, "make room in /dev/shm"));
    find_folder(object, sizeof(object));
    ck_assert_uint_eq(count_regions(object), 0);
    refuses(69, "make room in /dev/shm"); /* a failed start uses up no session number */
    ck_assert_int_eq(mount("", "/dev/shm", "", MS_REMOUNT, "mode=1777,size=64M"), 0);
    ck_assert_int_eq(run_agent(), 0);
    REQUIRE(strstr(said, "event=session_new epoch=1 ") != NULL, "%s", said);
}
END_TEST

/* Makes the kernel kill the agent when it makes a region, as if memory were short. */
static void kill_at_a_region(void)
{
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fallocate, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])), /* the size
                                                                                     * of the
                                                                                     * region */
        BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, 16 << 20, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    struct sock_fprog program = {sizeof(filter) / sizeof(filter[0]), filter};
    REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
                prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
            "seccomp");
}

static rlim_t descriptors;

static void allow_descriptors(void)
{
    struct rlimit limit = {descriptors, descriptors};
    for (int fd = 3; fd < (int)descriptors; fd++) { /* closes all descriptors below the limit at
                                                     * exec() */
        (void)fcntl(fd, F_SETFD, FD_CLOEXEC);       /* fails for numbers without an open
                                                     * descriptor */
    }
    REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
}

/* A start that ends before another process knows its session must use up no session number,
 * wherever the start ends. systemd may start an agent eight times a second, for ever. */
START_TEST(starts_that_fail_use_up_no_session)
{
    unsigned late = 0;
    add_namespace(); /* with two regions the agent may run out of descriptors when it has made the
                      * first one */
    hobble = kill_at_a_region;
    for (unsigned i = 0; i < 3 && agent_can_be_without("an agent that is killed"); i++) {
        ck_assert_int_eq(run_agent(), 128 + SIGSYS);
    }
    hobble = allow_descriptors;
    for (descriptors = 8; run_agent() != 0; descriptors++) {
        ck_assert_uint_lt(descriptors, 100);
        REQUIRE(strstr(said, "event=session_new epoch=2 ") == NULL, "%s", said);
        /* counts a start that failed after the session was durable */
        late += strstr(said, "event=session_new epoch=1 ") != NULL;
    }
    REQUIRE(strstr(said, " epoch=1 ") != NULL, "%s", said);
    /* the last start has epoch 1, too, so the counted starts gave the session number back */
    ck_assert_uint_gt(late, 1);
}
END_TEST

static void number_sessions(unsigned epoch)
{
    char text[128];
    sqlite3 *database = NULL;
    snprintf(text, sizeof(text), "UPDATE meta SET value = %u WHERE key = 'session_epoch'", epoch);
    ck_assert_int_eq(sqlite3_open(path_of("own/state/holdfast.db"), &database), SQLITE_OK);
    ck_assert_int_eq(sqlite3_exec(database, text, NULL, NULL, NULL), SQLITE_OK);
    ck_assert_int_eq(sqlite3_changes(database), 1);
    sqlite3_close(database);
}

static void lose_regions(void)
{
    char path[300];
    const struct dirent *entry;
    unsigned lost = 0;
    find_folder(path, sizeof(path));
    DIR *folder = opendir(path);
    while ((entry = readdir(folder)) != NULL) {
        char object[600];
        snprintf(object, sizeof(object), "%s/%s/region", path, entry->d_name);
        lost += unlink(object) == 0;
    }
    closedir(folder);
    ck_assert_uint_eq(lost, 1);
}

/* The agent uses the last session number. After that it refuses to start, logs the reason, and
 * changes nothing. */
START_TEST(the_last_session)
{
    ck_assert_int_eq(run_agent(), 0);
    number_sessions((1U << 24) - 3);
    ck_assert_int_eq(run_agent(), 0); /* this voter is the cell's only one, so it accepts the
                                       * number from its own store */
    REQUIRE(strstr(said, "event=session_numbers_few number=1 ") != NULL, "%s", said);
    lose_regions();
    ck_assert_int_eq(run_agent(), 0);
    REQUIRE(strstr(said, "event=session_new epoch=16777215 ") != NULL, "%s", said);
    ck_assert_int_eq(run_agent(), 0); /* the same session continues */
    REQUIRE(strstr(said, "event=session_continued epoch=16777215 ") != NULL, "%s", said);
    lose_regions();
    for (unsigned i = 0; i < 2; i++) {
        refuses(78, "the name host-a is used up");
    }
}
END_TEST

int main(void)
{
    if (geteuid() != 0) {
        fprintf(stderr, "skipped: only root can lay what is another user's\n");
        return 77;
    }
    TCase *tests = tcase_create("planted");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, nothing_is_planted);
    tcase_add_test(tests, the_folder_of_the_socket_is_not_listed);
    tcase_add_test(tests, a_link_for_the_state);
    tcase_add_test(tests, a_folder_for_the_state);
    tcase_add_test(tests, links_in_the_state);
    tcase_add_test(tests, a_lease_of_somebody_else);
    tcase_add_test(tests, something_at_the_sockets_place);
    tcase_add_test(tests, a_folder_for_the_socket);
    tcase_add_test(tests, a_folder_in_shared_memory);
    tcase_add_test(tests, left_overs_in_shared_memory);
    tcase_add_test(tests, no_room_in_shared_memory);
    tcase_add_test(tests, starts_that_fail_use_up_no_session);
    tcase_add_test(tests, the_last_session);
    return suite_main("planted", tests);
}
