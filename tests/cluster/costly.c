/*
 * One user makes each packet on its connection costly. The kernel walks, on the agent's thread, all
 * epoll entries that watch the client's end of the connection, here as many as keep the kernel busy
 * for CALL_MS. Each connection that was prepared in this way may stall the agent twice, and take a
 * twentieth of the agent's time. These stalls are the longest waits for another user's new locks.
 * The test needs root, for two users.
 */
#include <check.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../emulation.h"
#include "../suite_main.h"
#include "agent_process.h"
#include "hello.h"
#include "holdfast/holdfast.h"
#include "require.h"

enum {
    NOBODY = 65534,
    /* how many copies of a descriptor an epoll set gets, because it takes each descriptor only
     * once */
    COPIES = 1000,
    ENTRIES_TRIED = 50000, /* how many entries weigh() tries */
    ENTRIES_MAX = 200000,
    CALLS_WEIGHED = 5,
    CALL_MS = 20, /* the processor time of a call for which the kernel walks all entries */
    HONEST_MAX_MS = CALL_MS / 2,
    ENTRIES_FEW = 12000, /* a walk over so many entries takes less than 2 ms */
    CLOSES = 3,
    ALONE_MS = 3000,
    BESIDE_MS = 4000,
    PREPARED_AT_LEAST = 1,
    COST_MAX_MS = 50,
    STALLS = 2, /* how often each prepared connection may stall the agent */
    SAMPLES = 100000,
};

static struct agent_process agent;

/* what the test shares with its attackers */
static struct shared {
    atomic_uint prepared; /* connections whose entries are added */
    unsigned entries;     /* how many entries the attacker adds for each connection */
} * shared;

/* ---- the attacker ---- */

static int enter(void)
{
    int fd = hello_enter(agent.socket, NULL);
    REQUIRE(fd >= 0, "not welcomed");
    return fd;
}

static void watch_often(int fd, uint32_t events, unsigned entries)
{
    int copies[COPIES];
    for (unsigned i = 0; i < COPIES; i++) {
        copies[i] = dup(fd);
        REQUIRE(copies[i] >= 0, "no descriptors");
    }
    for (unsigned i = 0; i < entries; i++) {
        static int set;
        struct epoll_event event = {.events = events | EPOLLET};
        if (i % COPIES == 0) {
            set = epoll_create1(EPOLL_CLOEXEC);
        }
        REQUIRE(epoll_ctl(set, EPOLL_CTL_ADD, copies[i % COPIES], &event) == 0, "epoll_ctl");
    }
    atomic_fetch_add(&shared->prepared, 1);
}

/* Returns the processor time in which the kernel receives a packet for that connection. */
static int64_t packet_cost_ns(const int ends[2])
{
    struct timespec before = {0};
    struct timespec after = {0};
    char packet;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &before);
    REQUIRE(send(ends[1], "?", 1, 0) == 1, "send");
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &after);
    REQUIRE(recv(ends[0], &packet, 1, 0) == 1, "recv");
    return (after.tv_sec - before.tv_sec) * 1000 * MS + after.tv_nsec - before.tv_nsec;
}

/* Finds how many entries make a call cost CALL_MS. On a slower machine fewer entries are enough, so
 * that the same limit for the agent's share of a processor fits every machine. The costliest of
 * some calls counts, because a busy machine may be slower than it was for one call. */
static void weigh(void)
{
    int ends[2];
    int64_t cost_ns = 0;
    REQUIRE(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) == 0, "socketpair");
    watch_often(ends[0], EPOLLIN | EPOLLOUT, ENTRIES_TRIED);
    for (unsigned i = 0; i < CALLS_WEIGHED; i++) {
        int64_t call_ns = packet_cost_ns(ends);
        cost_ns = call_ns > cost_ns ? call_ns : cost_ns;
    }
    int64_t entries = ENTRIES_TRIED * (CALL_MS * MS) / (cost_ns > 0 ? cost_ns : 1);
    shared->entries = (unsigned)(entries < ENTRIES_MAX ? entries : ENTRIES_MAX);
    printf("%-24s %.1f ms for %d entries: %u for an attacker\n", "a packet", (double)cost_ns / 1e6,
           ENTRIES_TRIED, shared->entries);
    fflush(stdout);
    atomic_store(&shared->prepared, 0);
    _exit(0);
}

/* Sends requests again and again, and never reads an answer. */
static void ask_dearly(void)
{
    int fd = enter();
    watch_often(fd, EPOLLIN | EPOLLOUT, shared->entries);
    for (;;) {
        struct hfi_frame frame = {.kind = HFI_FRAME_STATUS, .request = 2};
        if (!hello_say(fd, &frame, MSG_DONTWAIT)) {
            usleep(1000);
        }
    }
}

/* Attacks with one connection after another. Each lives for lives_ms, or longer if the machine is
 * so slow that it has not added all entries by then. */
static void again(void (*attacker)(void), unsigned lives_ms)
{
    for (;;) {
        unsigned before = atomic_load(&shared->prepared);
        pid_t pid = fork();
        REQUIRE(pid >= 0, "fork");
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            attacker();
        }
        usleep(lives_ms * 1000);
        while (atomic_load(&shared->prepared) == before) {
            REQUIRE(waitpid(pid, NULL, WNOHANG) == 0, "the connection ended");
            usleep(1000);
        }
        kill(pid, SIGKILL);
        REQUIRE(waitpid(pid, NULL, 0) == pid, "waitpid");
    }
}

/* Each connection lives 2.5 s: by then the agent has set it aside (io/socket.h). */
static void ask_dearly_again(void)
{
    again(ask_dearly, 2500);
}

/* Shuts its end down without closing it, so the agent has to hang up. */
static void leave_dearly(void)
{
    int fd = enter();
    watch_often(fd, EPOLLIN | EPOLLOUT, shared->entries);
    (void)shutdown(fd, SHUT_RDWR);
    pause();
}

static void leave_dearly_again(void)
{
    again(leave_dearly, 1500);
}

/* Sends RING, which has no answer. So only the receiving of RING is costly for the agent. */
static void ring_dearly(void)
{
    int fd = enter();
    watch_often(fd, EPOLLOUT, shared->entries);
    for (;;) {
        struct hfi_frame frame = {.kind = HFI_FRAME_RING};
        if (!hello_say(fd, &frame, MSG_DONTWAIT)) {
            usleep(100);
        }
    }
}

/*
 * Fills the agent's end of a connection with packets while the agent is stopped. The agent hangs up
 * because of the first packet, and closes its end with all other packets unread. A single packet
 * costs the agent less than 2 ms, because there are only few epoll entries. But the close frees the
 * last packets, and for each of them the kernel walks the entries again.
 */
static void be_closed_full(void)
{
    const int room = INT32_MAX; /* the kernel reduces it to what net.core.wmem_max allows */
    int fd = hello_dial(agent.socket);
    struct pollfd ended = {.fd = fd};
    REQUIRE(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)) == 0, "dial");
    while (send(fd, "?", 1, MSG_DONTWAIT | MSG_NOSIGNAL) == 1) {
    }
    watch_often(fd, EPOLLIN | EPOLLOUT, ENTRIES_FEW);
    REQUIRE(poll(&ended, 1, 2 * GUARD_MS) == 1 && (ended.revents & POLLHUP) != 0, "no hang-up");
    _exit(0);
}

static pid_t attack(void (*run)(void))
{
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        struct rlimit limit = {8192, 8192};
        REQUIRE(setpgid(0, 0) == 0 && setrlimit(RLIMIT_NOFILE, &limit) == 0 &&
                    setresgid(NOBODY, NOBODY, NOBODY) == 0 &&
                    setresuid(NOBODY, NOBODY, NOBODY) == 0 &&
                    prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && getppid() != 1,
                "cannot become nobody");
        run();
    }
    (void)setpgid(pid, pid);
    return pid;
}

static void end(pid_t pid)
{
    ck_assert_int_eq(waitpid(pid, NULL, WNOHANG), 0); /* the attacker ends if a call fails
                                                       * unexpectedly */
    kill(-pid, SIGKILL);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

/* ---- what the attack costs the agent ---- */

static int64_t agent_cpu_ns(void)
{
    clockid_t clock;
    struct timespec spent = {0};
    ck_assert_int_eq(clock_getcpuclockid(agent.pid, &clock), 0);
    ck_assert_int_eq(clock_gettime(clock, &spent), 0);
    return spent.tv_sec * 1000 * MS + spent.tv_nsec;
}

static void await_prepared(unsigned count)
{
    for (int64_t end_ns = boottime_now() + 2 * GUARD_MS * MS;
         atomic_load(&shared->prepared) < count;) {
        ck_assert_int_lt(boottime_now(), end_ns);
        usleep(1000);
    }
}

static void expect_percent(const char *what, int64_t began_ns, int64_t cpu_ns, int64_t most)
{
    int64_t took_ns = boottime_now() - began_ns;
    int64_t percent = (agent_cpu_ns() - cpu_ns) * 100 / took_ns;
    printf("%-24s %lld %% of a processor\n", what, (long long)percent);
    fflush(stdout);
    ck_assert_int_lt(percent, most);
}

static int compare(const void *a, const void *b)
{
    int64_t first = *(const int64_t *)a;
    int64_t second = *(const int64_t *)b;
    return (first > second) - (first < second);
}

/* Opens and takes new locks for lasts_ms, and for longer on a busy machine, until they are so many
 * that the few locks that a stall delays do not count. Checks that nearly all of them cost the
 * agent at most HONEST_MAX_MS. */
static void expect_served(const char *what, int64_t lasts_ms)
{
    static int64_t costs_ns[SAMPLES];
    static unsigned locks;
    unsigned count = 0;
    unsigned stalls = STALLS * (1 + atomic_load(&shared->prepared));
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    hf_client *honest;
    ck_assert_int_eq(hf_connect(&options, &honest), 0);
    int64_t end_ns = boottime_now() + lasts_ms * MS;
    while (boottime_now() < end_ns ||
           (count / 2 <= stalls + STALLS * atomic_load(&shared->prepared) &&
            boottime_now() < end_ns + GUARD_MS * MS)) {
        char name[32];
        hf_lock *lock;
        snprintf(name, sizeof(name), "honest/%u", locks++);
        int64_t cpu_ns = agent_cpu_ns();
        ck_assert_int_eq(hf_open(honest, name, NULL, &lock), 0);
        ck_assert_int_eq(hf_acquire(lock, HF_EXCLUSIVE, 60000 * MS, NULL), 0);
        if (count < SAMPLES) {
            costs_ns[count++] = agent_cpu_ns() - cpu_ns;
        }
        ck_assert_int_eq(hf_release(lock), 0);
        hf_close(lock);
        usleep(2000);
    }
    hf_disconnect(honest);
    stalls += STALLS * atomic_load(&shared->prepared);
    ck_assert_uint_gt(count / 2, stalls);
    qsort(costs_ns, count, sizeof(int64_t), compare);
    unsigned half = count / 2;
    unsigned most = (count - stalls) * 99 / 100;
    printf("%-24s %u new locks: agent's time p50 %.2f p99 %.2f, at most %.2f ms\n", what, count,
           (double)costs_ns[half] / 1e6, (double)costs_ns[most] / 1e6,
           (double)costs_ns[count - 1] / 1e6);
    fflush(stdout);
    ck_assert_int_le(costs_ns[most], HONEST_MAX_MS * MS);
}

static void start(void)
{
    agent_create(&agent, "[agent]\nname = host-a\ncell = costly\nstate_dir = %D/state\n"
                         "socket = %D/agent.sock\n[voters]\nhost-a = tcp://127.0.0.1:7411\n"
                         "[namespace.open]\nusers = nobody\n[namespace.honest]\nusers = root\n");
    agent_admit_all(&agent);
    agent_start(&agent);
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(shared, MAP_FAILED);
    ck_assert_int_eq(wait_for(attack(weigh)), 0);
}

enum told { TOLD, UNTOLD, EITHER };

static void run(const char *what, void (*attacker)(void), int64_t percent, enum told told)
{
    start();
    pid_t pid = attack(attacker);
    await_prepared(PREPARED_AT_LEAST);
    int64_t began_ns = boottime_now();
    int64_t cpu_ns = agent_cpu_ns();
    usleep(ALONE_MS * 1000);
    expect_percent(what, began_ns, cpu_ns, percent);
    expect_served(what, BESIDE_MS);
    ck_assert_uint_eq(agent_logged(&agent, "state=jeopardy"), 0);
    if (told != EITHER) {
        ck_assert_int_eq(agent_logged(&agent, "client_costly") > 0, told == TOLD);
    }
    end(pid);
    agent_destroy(&agent);
}

START_TEST(who_makes_packets_dear_has_few)
{
    if (geteuid() == 0) {
        run("packets", ask_dearly_again, 25, TOLD);
    }
}
END_TEST

START_TEST(who_leaves_dearly_does_so_seldom)
{
    if (geteuid() == 0) {
        run("hang-ups", leave_dearly_again, 25, UNTOLD);
    }
}
END_TEST

START_TEST(who_makes_rings_dear_has_few)
{
    if (geteuid() == 0) {
        /* The agent reads few of these packets. The socket stays too full for the kernel to wake a
         * sender that waits. */
        run("rings", ring_dearly, 12, EITHER);
    }
}
END_TEST

START_TEST(who_is_closed_full_is_not_closed_on_the_loop)
{
    if (geteuid() != 0 ||
        !orphans_are_adopted("cluster_costly", "the emulator's time is in that of the loop")) {
        return;
    }
    start();
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    for (unsigned i = 1; i <= CLOSES; i++) {
        hf_client *honest;
        agent_pause(&agent);
        pid_t pid = attack(be_closed_full);
        await_prepared(i);
        int64_t before_ns = agent_loop_ns(&agent);
        agent_continue(&agent);
        ck_assert_int_eq(wait_for(pid), 0);
        /* Once the agent's loop serves another client, the loop has finished the close. */
        ck_assert_int_eq(hf_connect(&options, &honest), 0);
        hf_disconnect(honest);
        sleep_ms(50);
        int64_t took_ns = agent_loop_ns(&agent) - before_ns;
        printf("closed full              %.2f ms of the loop\n", (double)took_ns / 1e6);
        fflush(stdout);
        ck_assert_int_lt(took_ns, COST_MAX_MS * MS);
    }
    agent_destroy(&agent);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("costly");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, who_makes_packets_dear_has_few);
    tcase_add_test(tests, who_leaves_dearly_does_so_seldom);
    tcase_add_test(tests, who_makes_rings_dear_has_few);
    tcase_add_test(tests, who_is_closed_full_is_not_closed_on_the_loop);
    return suite_main("costly", tests);
}
