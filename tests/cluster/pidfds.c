/*
 * A process watches its child, a client, by hundreds of thousands of epoll entries on pidfds of the
 * child, and kills the child. The kernel calls all these entries while it holds the lock of the
 * pidfd's queue. The agent's loop must never wait for that lock. The test also checks how soon the
 * agent notices an ordinary death. It needs root, for two users.
 */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "hello.h"
#include "holdfast/holdfast.h"
#include "require.h"

enum {
    NOBODY = 65534,
    COPIES = 1000, /* copies of a pidfd, because an epoll set takes each descriptor only once */
    ENTRIES = 1000000,
    DEATHS = 6,
    TTL_MS = 2000,
    TURN_MAX_MS = TTL_MS / 20,
    /* for at least this time after a death the loop's processor time is measured */
    AFTER_MS = 200,
    QUICK_DEATHS = 300,
    /* the limit for half of the deaths, without the time in which a process had no processor */
    QUICK_MAX_MS = 50,
};

static struct agent_process agent;

static void start(void)
{
    agent_create(&agent, "[agent]\nname = host-a\ncell = pidfds\nstate_dir = %D/state\n"
                         "socket = %D/agent.sock\n[cell]\nsession_ttl = 2s\n"
                         "[voters]\nhost-a = tcp://127.0.0.1:7411\n"
                         "[namespace.open]\nusers = nobody, root\n");
    agent_admit_all(&agent);
    agent_start(&agent);
}

/* Returns the processor time of the loop's thread. It includes time in which the thread spins for a
 * lock. */
static int64_t loop_cpu_ns(void)
{
    char path[64];
    long long ran_ns = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)agent.pid, (int)agent.pid);
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file, "%lld", &ran_ns), 1);
    fclose(file);
    return ran_ns;
}

/* ---- the attacker ---- */

static void watch_often(pid_t pid)
{
    int copies[COPIES];
    copies[0] = (int)syscall(SYS_pidfd_open, pid, 0);
    REQUIRE(copies[0] >= 0, "pidfd_open");
    for (unsigned i = 1; i < COPIES; i++) {
        copies[i] = dup(copies[0]);
        REQUIRE(copies[i] >= 0, "no descriptors");
    }
    for (unsigned i = 0; i < ENTRIES; i++) {
        static int set;
        struct epoll_event event = {.events = EPOLLIN | EPOLLET};
        if (i % COPIES == 0) {
            set = epoll_create1(EPOLL_CLOEXEC);
        }
        REQUIRE(epoll_ctl(set, EPOLL_CTL_ADD, copies[i % COPIES], &event) == 0, "epoll_ctl");
    }
}

static void byte_to(int fd)
{
    REQUIRE(write(fd, "", 1) == 1, "write");
}

static void byte_from(int fd)
{
    char byte;
    REQUIRE(read(fd, &byte, 1) == 1, "read");
}

/* The client connects only after the attacker watches it. The kernel calls newer entries first, so
 * it calls the agent's entry before the attacker's. */
static void be_attacker(int orders, int answers)
{
    int begin[2];
    int begun[2];
    REQUIRE(pipe(begin) == 0 && pipe(begun) == 0, "pipe");
    pid_t client = fork();
    REQUIRE(client >= 0, "fork");
    if (client == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        byte_from(begin[0]);
        REQUIRE(hello_enter(agent.socket, NULL) >= 0, "not welcomed");
        byte_to(begun[1]);
        for (;;) {
            pause();
        }
    }
    watch_often(client);
    byte_to(begin[1]);
    byte_from(begun[0]);
    byte_to(answers);
    byte_from(orders);
    kill(client, SIGKILL);
    REQUIRE(waitpid(client, NULL, 0) == client, "waitpid");
    byte_to(answers);
    _exit(0);
}

/* Waits until the agent has logged this number of deaths. */
static void await_deaths(unsigned deaths)
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (agent_logged(&agent, "event=client_died") < deaths) {
        ck_assert_msg(boottime_now() < end_ns, "death %u is not seen", deaths);
        sleep_ms(10);
    }
}

/* Lets one watched client die. Returns the processor time that the loop's thread used from just
 * before the death until AFTER_MS after it, or longer if the agent has not logged the death by
 * then. `deaths` counts all deaths, including this one. */
static int64_t die_watched(unsigned deaths)
{
    int orders[2];
    int answers[2];
    ck_assert(pipe(orders) == 0 && pipe(answers) == 0);
    pid_t pid = fork_tied();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct rlimit limit = {8192, 8192};
        REQUIRE(setrlimit(RLIMIT_NOFILE, &limit) == 0 && setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
                    setresuid(NOBODY, NOBODY, NOBODY) == 0,
                "cannot become nobody");
        be_attacker(orders[0], answers[1]);
    }
    close(answers[1]);
    byte_from(answers[0]);
    int64_t before_ns = loop_cpu_ns();
    byte_to(orders[1]);
    byte_from(answers[0]);
    usleep(AFTER_MS * 1000);
    await_deaths(deaths);
    int64_t took_ns = loop_cpu_ns() - before_ns;
    ck_assert_int_eq(wait_for(pid), 0);
    close(orders[0]);
    close(orders[1]);
    close(answers[0]);
    return took_ns;
}

START_TEST(the_loop_waits_for_no_queue_of_a_pidfd)
{
    int64_t most_ns = 0;
    if (geteuid() != 0) {
        return;
    }
    start();
    for (unsigned i = 0; i < DEATHS; i++) {
        unsigned before = agent_logged(&agent, "state=jeopardy");
        int64_t unserved_ns = process_unserved_ns(agent.pid);
        int64_t took_ns = die_watched(i + 1);
        most_ns = took_ns > most_ns ? took_ns : most_ns;
        /* On a busy machine the lease can end because the agent waits for a processor. */
        if (agent_logged(&agent, "state=jeopardy") > before) {
            ck_assert_int_ge(process_unserved_ns(agent.pid) - unserved_ns, TTL_MS / 3 * MS);
        }
    }
    printf("%d deaths with %d entries: the loop ran for %.1f ms at most\n", DEATHS, ENTRIES,
           (double)most_ns / 1e6);
    fflush(stdout);
    ck_assert_int_le(most_ns, TURN_MAX_MS * MS);
    ck_assert_uint_eq(agent_logged(&agent, "event=client_died"), DEATHS);
    agent_destroy(&agent);
}
END_TEST

/* ---- how soon the agent notices a death ---- */

static int compare(const void *a, const void *b)
{
    int64_t first = *(const int64_t *)a;
    int64_t second = *(const int64_t *)b;
    return (first > second) - (first < second);
}

/* Starts a client that takes the lock without a lock-delay and waits to be killed. */
static pid_t hold(int answers)
{
    pid_t pid = fork_tied();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
        struct hf_lock_options lock_options = {.size = sizeof(lock_options),
                                               .lock_delay_ns = HF_NO_LOCK_DELAY};
        hf_client *client;
        hf_lock *lock;
        REQUIRE(hf_connect(&options, &client) == 0 &&
                    hf_open(client, "open/quick", &lock_options, &lock) == 0 &&
                    hf_acquire(lock, HF_EXCLUSIVE, GUARD_MS * MS, NULL) == 0,
                "no lock");
        byte_to(answers);
        for (;;) {
            pause();
        }
    }
    return pid;
}

START_TEST(a_death_is_seen_at_once)
{
    static int64_t took_ns[QUICK_DEATHS];
    struct hf_options options = {.size = sizeof(options)};
    hf_client *client;
    hf_lock *lock;
    int answers[2];
    if (geteuid() != 0) {
        return;
    }
    start();
    options.socket = agent.socket;
    ck_assert_int_eq(pipe(answers), 0);
    ck_assert_int_eq(hf_connect(&options, &client), 0);
    ck_assert_int_eq(hf_open(client, "open/quick", NULL, &lock), 0);
    for (unsigned i = 0; i < QUICK_DEATHS; i++) {
        pid_t pid = hold(answers[1]);
        byte_from(answers[0]);
        /* On a busy machine the killed process waits for a processor before it can end, and this
         * process waits for one after it was woken. The test subtracts these times. */
        int64_t unserved_ns = process_unserved_ns(pid) + process_unserved_ns(getpid());
        int64_t began_ns = boottime_now();
        kill(pid, SIGKILL);
        ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, GUARD_MS * MS, NULL), 0);
        took_ns[i] = boottime_now() - began_ns;
        unserved_ns = process_unserved_ns(pid) + process_unserved_ns(getpid()) - unserved_ns;
        took_ns[i] -= unserved_ns > 0 ? unserved_ns : 0;
        ck_assert_int_eq(hf_release(lock), 0);
        (void)wait_for(pid);
    }
    qsort(took_ns, QUICK_DEATHS, sizeof(int64_t), compare);
    printf("kill -9 of a holder to the next hold: p50 %.2f p99 %.2f ms\n",
           (double)took_ns[QUICK_DEATHS / 2] / 1e6, (double)took_ns[QUICK_DEATHS * 99 / 100] / 1e6);
    fflush(stdout);
    ck_assert_int_le(took_ns[QUICK_DEATHS / 2], QUICK_MAX_MS * MS);
    hf_disconnect(client);
    agent_destroy(&agent);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("pidfds");
    tcase_set_timeout(tests, 120);
    tcase_add_test(tests, the_loop_waits_for_no_queue_of_a_pidfd);
    tcase_add_test(tests, a_death_is_seen_at_once);
    return suite_main("pidfds", tests);
}
