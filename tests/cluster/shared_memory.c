/*
 * Tests of processes and agents that have a /dev/shm of their own, and of a /dev/shm that a process
 * fills. The tests need root, to make a /dev/shm and to become another user. Otherwise they are
 * skipped.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "actor.h"
#include "holdfast/holdfast.h"
#include "require.h"

enum { NOBODY = 65534 };

#define CONFIG(TTL)                                                                                \
    "[agent]\nname = host-a\ncell = test\nstate_dir = %D/state\n"                                  \
    "socket = %D/agent.sock\n[cell]\nsession_ttl = " TTL "\n"                                      \
    "[voters]\nhost-a = tcp://127.0.0.1:7411\n"                                                    \
    "[namespace.open]\nusers = nobody\n"                                                           \
    "[namespace.both]\nusers = root, nobody\n"                                                     \
    "[namespace.other]\nusers = daemon\n"

static struct agent_process agent;

static void start_with(const char *config)
{
    agent_create(&agent, config);
    agent_admit_all(&agent);
    agent_start(&agent);
}

/* Starts the agent with a long session_ttl, so that no session ends on a busy machine. */
static void start(void)
{
    start_with(CONFIG("10s"));
}

/* Starts the agent with a short session_ttl, for a test that waits for the end of a session. */
static void start_short(void)
{
    start_with(CONFIG("1s"));
}

static void stop(void)
{
    agent_destroy(&agent);
}

static void become(unsigned user)
{
    REQUIRE(setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0, "user %u", user);
}

static hf_lock *open_lock(hf_client *client, const char *name, int expected)
{
    hf_lock *lock = NULL;
    int result = hf_open(client, name, NULL, &lock);
    REQUIRE(result == expected, "%s: %s, expected %s", name, hf_strerror(result),
            hf_strerror(expected));
    return lock;
}

/* ---- a process with another /dev/shm ---- */

/* Gives this process an empty /dev/shm of its own. */
static void leave_shared_memory(const char *options)
{
    REQUIRE(unshare(CLONE_NEWNS | CLONE_NEWNET) == 0 &&
                mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
                mount("tmpfs", "/dev/shm", "tmpfs", 0, options) == 0,
            "mount namespace: %s", strerror(errno));
}

/* A client with another /dev/shm uses the same lock as the others, because it gets the region over
 * the socket. */
START_TEST(a_client_with_a_shm_of_its_own)
{
    struct actor here;
    actor_ready(&here, agent.socket);
    ck_assert_int_eq(actor_open(&here, 0, "both/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&here, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    for (unsigned i = 0; i < 2; i++) {
        pid_t there = fork_tied();
        if (there == 0) {
            hf_client *client;
            struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
            leave_shared_memory(NULL);
            REQUIRE(hf_connect(&options, &client) == 0, "connect");
            hf_lock *lock = open_lock(client, "both/a", 0);
            int result = hf_acquire(lock, HF_EXCLUSIVE, i == 0 ? 0 : (int64_t)GUARD_MS * MS, NULL);
            REQUIRE(result == (i == 0 ? HF_EBUSY : 0), "%s", hf_strerror(result));
            hf_disconnect(client);
            _exit(0);
        }
        ck_assert_int_eq(wait_for(there), 0);
        if (i == 0) {
            ck_assert_int_eq(actor_release(&here, 0), 0);
        }
    }
    actor_end(&here);
}
END_TEST

/* An agent starts with another /dev/shm, so it cannot see the regions of its predecessor. It
 * grants no lock that a process holds in an old region, and the old holder learns that its hold
 * is lost. */
START_TEST(an_agent_with_a_shm_of_its_own)
{
    int ready[2];
    char byte;
    struct actor before;
    struct actor after;
    struct hf_hold old;
    struct hf_hold new;
    actor_ready(&before, agent.socket);
    ck_assert_int_eq(actor_open(&before, 0, "both/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&before, 0, HF_EXCLUSIVE, GUARD_MS, &old), 0);
    ck_assert_int_eq(pipe2(ready, O_CLOEXEC), 0);
    pid_t keeper = fork_tied();
    if (keeper == 0) {
        leave_shared_memory(NULL);
        REQUIRE(write(ready[1], "x", 1) == 1, "write");
        for (;;) {
            pause();
        }
    }
    ck_assert_int_eq(read(ready[0], &byte, 1), 1);
    agent_kill(&agent);
    int64_t asked_ns = boottime_now(); /* read before the call, because the answer may come late */
    int64_t end_ns = asked_ns + actor_remaining(&before, 0);
    agent.keeper = keeper;
    agent_start(&agent);
    actor_ready(&after, agent.socket);
    ck_assert_int_eq(actor_open(&after, 0, "both/a", 10), 0);
    struct actor_request acquire = {
        .kind = ACTOR_ACQUIRE, .mode = HF_EXCLUSIVE, .timeout_ns = (int64_t)3 * GUARD_MS * MS};
    struct actor_reply reply = actor_do(&after, &acquire);
    ck_assert_int_eq(reply.result, 0);
    new = reply.hold;
    ck_assert_int_ge(reply.time_ns, end_ns);
    ck_assert_uint_gt(new.token, old.token);
    ck_assert_int_le(actor_remaining(&before, 0), 0);
    ck_assert_int_eq(actor_release(&before, 0), HF_ELOST);
    actor_end(&after);
    actor_end(&before);
    agent_kill(&agent); /* the regions go away with the mount namespace */
    kill_process(keeper);
    agent.keeper = 0;
    close(ready[0]);
    close(ready[1]);
}
END_TEST

/* ---- a /dev/shm that a process fills ---- */

static pid_t keeper;  /* the process that keeps the agent's /dev/shm */
static int keeper_fd; /* the test writes 'f' to make the keeper fill /dev/shm, and 'e' to make it
                       * empty /dev/shm */

static void fill_shared_memory(void)
{
    static char bytes[1 << 16];
    size_t size = sizeof(bytes);
    become(NOBODY);
    int fd = open("/dev/shm/filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0, "filler: %s", strerror(errno));
    for (unsigned i = 0; size > 0 && i < 100000; i++) {
        size = write(fd, bytes, size) > 0 ? size : size / 2;
    }
    REQUIRE(size == 0, "it is not full");
    _exit(0);
}

static void keep_shared_memory(int fd)
{
    char order;
    leave_shared_memory("mode=1777,size=40M");
    REQUIRE(write(fd, "x", 1) == 1, "write");
    while (read(fd, &order, 1) == 1) {
        pid_t nobody = order == 'f' ? fork_tied() : 0;
        if (order == 'f' && nobody == 0) {
            fill_shared_memory();
        }
        REQUIRE(order == 'f' ? wait_for(nobody) == 0 : unlink("/dev/shm/filler") == 0, "%c", order);
        REQUIRE(write(fd, "x", 1) == 1, "write");
    }
    _exit(0);
}

static void have_keeper_do(const char *order)
{
    char byte;
    REQUIRE(*order == '\0' || write(keeper_fd, order, 1) == 1, "keeper");
    REQUIRE(read(keeper_fd, &byte, 1) == 1, "keeper");
}

static void start_in_little_room(void)
{
    int ends[2];
    agent_create(&agent, CONFIG("10s") "[limits]\nlocks = 4096\nblocks = 2048\n");
    agent_admit_all(&agent);
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    keeper = fork_tied();
    if (keeper == 0) {
        keep_shared_memory(ends[1]);
    }
    keeper_fd = ends[0];
    have_keeper_do("");
    agent.keeper = keeper;
    agent_start(&agent);
}

static void stop_in_little_room(void)
{
    agent_kill(&agent);
    kill_process(keeper);
    close(keeper_fd);
    agent_destroy(&agent);
}

static void take_many(const char *format, unsigned count)
{
    pid_t process = fork_tied();
    if (process == 0) {
        hf_client *client;
        char name[64];
        struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
        REQUIRE(hf_connect(&options, &client) == 0, "connect");
        for (unsigned i = 0; i < count; i++) {
            snprintf(name, sizeof(name), format, i);
            hf_lock *lock = open_lock(client, name, 0);
            int result = hf_acquire(lock, HF_EXCLUSIVE, (int64_t)GUARD_MS * MS, NULL);
            REQUIRE(result == 0, "%s: %s", name, hf_strerror(result));
        }
        hf_disconnect(client);
        _exit(0);
    }
    ck_assert_int_eq(wait_for(process), 0);
}

/* The agent reserves the memory of all pages of a region, also of pages that no process has
 * touched. So a full /dev/shm takes nothing from its clients. */
START_TEST(who_fills_shared_memory_harms_nobody)
{
    struct actor holder;
    actor_ready(&holder, agent.socket);
    ck_assert_int_eq(actor_open(&holder, 0, "both/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&holder, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    have_keeper_do("f");
    take_many("open/%u", 2000);
    take_many("both/%u", 100);
    ck_assert_int_eq(agent_stop(&agent), 0); /* the next agent adopts the regions */
    agent_start(&agent);
    take_many("open/after/%u", 100);
    ck_assert_int_gt(actor_remaining(&holder, 0), 0);
    ck_assert_int_eq(actor_release(&holder, 0), 0);
    ck_assert(!agent_logged(&agent, "region_rubbish") && !agent_logged(&agent, "region_has_holes"));
    actor_end(&holder);
}
END_TEST

/* Returns the exit status of `holdfast lock --no-wait NAME -- true`. */
static int run_lock(const char *name)
{
    pid_t process = fork_tied();
    if (process == 0) {
        execl(binary_path("holdfast"), "holdfast", "-s", agent.socket, "lock", "--no-wait", name,
              "--", "true", NULL);
        _exit(127);
    }
    int status = wait_for(process);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Punches a hole where the region's seats are. Regions of an older release have such a hole, and a
 * client can make one. */
static void punch_hole(const char *space)
{
    struct stat status;
    char region[300];
    char path[400];
    agent_region_path(&agent, space, region, sizeof(region));
    agent_kill(&agent);
    snprintf(path, sizeof(path), "/proc/%d/root%s", (int)keeper, region);
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_int_eq(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                               status.st_size - 2048 * 512, 2048 * 512),
                     0);
    close(fd);
}

/* The agent adopts a region with a hole, and logs the hole. When a process needs the missing page
 * and /dev/shm is full, the namespace of the region ends, and its clients learn of it. Other
 * namespaces go on. */
START_TEST(a_hole_that_is_wanted_when_shared_memory_is_full)
{
    struct actor both;
    hf_client *client;
    hf_lock *lock = NULL;
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    struct hf_lock_options limited = {.size = sizeof(limited), .lease_ns = 1000000000};
    actor_ready(&both, agent.socket);
    ck_assert_int_eq(actor_open(&both, 0, "both/a", 10), 0);
    ck_assert_int_eq(actor_open(&both, 1, "open/a", 10), 0);
    ck_assert_int_eq(actor_acquire(&both, 0, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    ck_assert_int_eq(actor_acquire(&both, 1, HF_EXCLUSIVE, GUARD_MS, NULL), 0);
    punch_hole("open");
    have_keeper_do("f");
    agent_start(&agent);
    ck_assert(agent_logged(&agent, "event=region_has_holes namespace=open number=1048576 "));
    ck_assert(agent_logged(&agent, "event=session_continued"));
    ck_assert_int_eq(run_lock("open/b"), 0);
    ck_assert_int_eq(hf_connect(&options, &client), 0);
    (void)hf_open(client, "open/c", &limited, &lock); /* a hold with a limit takes a seat */
    for (unsigned ms = 0; ms < GUARD_MS && !agent_logged(&agent, "region_rubbish"); ms += 10) {
        sleep_ms(10);
    }
    ck_assert(agent_logged(&agent, "a page of its region could not be allocated"));
    ck_assert_int_eq(hf_open(client, "open/d", NULL, &lock), HF_EUNSERVED);
    ck_assert_int_eq(run_lock("open/b"), 70);
    ck_assert_int_eq(run_lock("both/b"), 0);
    /* A process with locks of both namespaces goes on with those of the namespace "both". */
    ck_assert_int_eq(actor_open(&both, 2, "both/c", 10), 0);
    ck_assert_int_eq(actor_open(&both, 3, "open/c", 10), HF_EUNSERVED);
    ck_assert_int_gt(actor_remaining(&both, 0), 0);
    ck_assert_int_eq(actor_release(&both, 0), 0);
    ck_assert_int_eq(actor_remaining(&both, 1), 0); /* the hold is lost */
    hf_disconnect(client);
    actor_end(&both);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("shared memory");
    TCase *tests = tcase_create("shared memory");
    TCase *ends = tcase_create("a session ends");
    TCase *room = tcase_create("little room");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(ends, start_short, stop);
    tcase_set_timeout(ends, 120);
    tcase_add_checked_fixture(room, start_in_little_room, stop_in_little_room);
    tcase_set_timeout(room, 120);
    if (geteuid() == 0) {
        tcase_add_test(tests, a_client_with_a_shm_of_its_own);
        tcase_add_test(ends, an_agent_with_a_shm_of_its_own);
        tcase_add_test(room, who_fills_shared_memory_harms_nobody);
        tcase_add_test(room, a_hole_that_is_wanted_when_shared_memory_is_full);
    }
    suite_add_tcase(suite, tests);
    suite_add_tcase(suite, ends);
    suite_add_tcase(suite, room);
    return suite_run(suite);
}
