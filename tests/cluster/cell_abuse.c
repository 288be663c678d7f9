/*
 * Strangers and bad links disturb the port on which agents talk to each other: scans, thousands of
 * connections that send nothing or half a greeting, peers that are killed while they greet, links
 * that come and go. Workers use the cell's locks during the abuse (crowd.h). Afterwards every agent
 * runs and accepts connections, and no agent keeps a descriptor or memory of the abuse.
 *
 * HOLDFAST_TEST_MINUTES=N: the abuse lasts N minutes.
 */
#include "../emulation.h"
#include "../suite_main.h"
#include "crowd.h"
#include "require.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    VOTERS = 3,
    PORT = 7411, /* the port that cell.c configures */
    HALF_OPEN = 1500,
    ABUSE_MS = 6000,
    LONG_WAIT_MS = 10000,
    RSS_SLACK_KB = 8192,
    DESCRIPTORS_SLACK = 24,
};

static const struct crowd_plan plan = {.workers_per_host = 2,
                                       .locks = 6,
                                       .shared_percent = 25,
                                       .lock_delay_ms = 20,
                                       .hold_ms = 20,
                                       .long_ms = 300,
                                       .seed = 1};
static struct cell cell;
static struct crowd crowd;

struct counts {
    _Atomic uint64_t scans;
    _Atomic uint64_t half_open;
    _Atomic uint64_t greetings;
};
static struct counts *counts; /* shared with the abusers */

static void start(void)
{
    counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    REQUIRE(counts != MAP_FAILED, "mmap: %s", strerror(errno));
    cell_start(&cell, VOTERS, 0);
    crowd_start(&crowd, &cell, &plan);
}

static void stop(void)
{
    cell_stop(&cell);
}

/* ---- abusers: each is a process on a host and abuses the next host's agent ---- */

static int dial(unsigned host, int flags)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    inet_pton(AF_INET, network_address(host), &address.sin_addr);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0 &&
        errno != EINPROGRESS) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Closes the connection with a reset. */
static void slam(int fd)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
    close(fd);
}

static void scan(unsigned host, uint64_t *draws)
{
    for (;;) {
        int fd = dial(host, 0);
        if (fd >= 0) {
            atomic_fetch_add(&counts->scans, 1);
            if (crowd_draw(draws, 2) == 0) {
                slam(fd);
            } else {
                close(fd);
            }
        }
        sleep_ms(1);
    }
}

static void stay_half_open(unsigned host, uint64_t *draws)
{
    static int fds[HALF_OPEN];
    struct rlimit limit = {.rlim_cur = HALF_OPEN + 64, .rlim_max = HALF_OPEN + 64};
    setrlimit(RLIMIT_NOFILE, &limit);
    memset(fds, -1, sizeof(fds));
    for (unsigned i = 0;; i = (i + 1) % HALF_OPEN) {
        char byte;
        if (fds[i] >= 0 && recv(fds[i], &byte, 1, MSG_DONTWAIT) == 0) {
            close(fds[i]); /* recv() returned 0: the agent has closed the connection */
            fds[i] = -1;
        }
        if (fds[i] < 0) {
            fds[i] = dial(host, SOCK_NONBLOCK);
            atomic_fetch_add(&counts->half_open, fds[i] >= 0);
        } else if (crowd_draw(draws, 4) == 0) {
            send(fds[i], "holdfast", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
        }
        if (i % 64 == 0) {
            sleep_ms(5);
        }
    }
}

/* Sends a part of a greeting, a greeting with a wrong bit, or a good greeting and a frame that
 * stays incomplete. Then it hangs up. */
static void greet_badly(unsigned host, uint64_t *draws)
{
    static const char greeting[] = "holdfast\0\0\0\1\0\0\0\4\0\0\1\0frame";
    for (;;) {
        char bytes[sizeof(greeting) - 1];
        int fd = dial(host, 0);
        size_t size = 1 + (size_t)crowd_draw(draws, sizeof(bytes));
        memcpy(bytes, greeting, sizeof(bytes));
        bytes[crowd_draw(draws, size)] ^= (char)(crowd_draw(draws, 3) == 0);
        if (fd >= 0) {
            send(fd, bytes, size, MSG_NOSIGNAL);
            sleep_ms((int64_t)crowd_draw(draws, 4));
            atomic_fetch_add(&counts->greetings, 1);
            slam(fd);
        }
    }
}

static pid_t abuse(unsigned from, unsigned to, void (*how)(unsigned, uint64_t *))
{
    pid_t pid = fork_tied();
    if (pid == 0) {
        uint64_t draws = from * 7 + to + 1;
        network_enter(cell.network.keepers[from]);
        how(to, &draws);
        _exit(0);
    }
    return pid;
}

/* ---- what an agent uses ---- */

static void is_as_before(unsigned host, unsigned descriptors_before, unsigned long kb_before)
{
    int64_t end_ns = boottime_now() + 2 * GUARD_MS * MS;
    int status;
    REQUIRE(waitpid(cell.agents[host].pid, &status, WNOHANG) == 0, "agent %u has fallen", host);
    while (agent_descriptors(&cell.agents[host]) > descriptors_before + DESCRIPTORS_SLACK) {
        REQUIRE(boottime_now() < end_ns, "agent %u keeps %u descriptors, %u before", host,
                agent_descriptors(&cell.agents[host]), descriptors_before);
        sleep_ms(50);
    }
    printf("host %u: %u descriptors, %u before; %lu KiB, %lu before\n", host,
           agent_descriptors(&cell.agents[host]), descriptors_before,
           agent_private_kb(&cell.agents[host]), kb_before);
#ifndef HF_SANITIZED /* a sanitizer's allocator keeps freed memory */
    if (resident_is_its_own("an agent", cell.agents[host].pid, binary_path("holdfastd"))) {
        REQUIRE(agent_private_kb(&cell.agents[host]) <= kb_before + RSS_SLACK_KB,
                "agent %u has grown", host);
    }
#endif
}

static int64_t how_long_ms(void)
{
    const char *minutes = getenv("HOLDFAST_TEST_MINUTES");
    return minutes ? (int64_t)strtol(minutes, NULL, 10) * 60000 : ABUSE_MS;
}

/* Returns whether each kind of abuse has happened often enough. On a busy machine this takes
 * longer. */
static bool abused(void)
{
    return counts->scans > 20 && counts->half_open > 500 && counts->greetings > 20;
}

/* Cuts and heals the links of host 1 again and again, and kills host 2's agent shortly after each
 * start, while it may be greeting other agents. */
static unsigned flap(int64_t until_ns)
{
    uint64_t draws = 5;
    unsigned rounds = 0;
    int64_t end_ns = until_ns + GUARD_MS * MS;
    while (boottime_now() < until_ns || (!abused() && boottime_now() < end_ns)) {
        network_isolate(&cell.network, 1);
        sleep_ms((int64_t)crowd_draw(&draws, 200));
        network_heal(&cell.network);
        if (rounds++ % 4 == 0) {
            agent_kill(&cell.agents[2]);
            for (unsigned i = 0; i < 3; i++) {
                agent_launch(&cell.agents[2]);
                sleep_ms((int64_t)crowd_draw(&draws, 120));
                agent_kill(&cell.agents[2]);
            }
            agent_start(&cell.agents[2]);
        }
        sleep_ms(300 + (int64_t)crowd_draw(&draws, 300));
        crowd_tell_waiting(&crowd, LONG_WAIT_MS * MS);
    }
    return rounds;
}

/* Runs all kinds of abuse at once, for at least duration_ms and until abused() is true. */
static void abuse_all(int64_t duration_ms)
{
    pid_t abusers[4];
    abusers[0] = abuse(1, 0, scan);
    abusers[1] = abuse(2, 0, stay_half_open);
    abusers[2] = abuse(2, 1, greet_badly);
    abusers[3] = abuse(0, 1, stay_half_open);
    unsigned rounds = flap(boottime_now() + duration_ms * MS);
    for (unsigned i = 0; i < 4; i++) {
        kill_process(abusers[i]);
    }
    printf("%llu scans, %llu half-open, %llu bad greetings, %u times cut off, %u times a peer "
           "killed four times\n",
           (unsigned long long)counts->scans, (unsigned long long)counts->half_open,
           (unsigned long long)counts->greetings, rounds, (rounds + 3) / 4);
    crowd_await_all(&crowd, 30);
}

START_TEST(strangers_and_bad_links)
{
    unsigned descriptors_before[2];
    unsigned long kb_before[2];
    for (unsigned i = 0; i < 2; i++) {
        descriptors_before[i] = agent_descriptors(&cell.agents[i]);
    }
    abuse_all(how_long_ms() / 3);
    for (unsigned i = 0; i < 2; i++) { /* During the first abuse the agents also take memory that
                                        * they take only once. That memory is not a leak. So
                                        * kb_before is measured after the first abuse. */
        is_as_before(i, descriptors_before[i], agent_private_kb(&cell.agents[i]));
        kb_before[i] = agent_private_kb(&cell.agents[i]);
    }
    abuse_all(how_long_ms() * 2 / 3);
    ck_assert(abused());
    for (unsigned i = 0; i < 2; i++) {
        is_as_before(i, descriptors_before[i], kb_before[i]);
    }
    cell_restart(&cell, 2); /* Agents notice host 2's return only if they still accept
                             * connections. */
    crowd_await_all(&crowd, 30);
    crowd_finish(&crowd, "strangers and bad links");
    for (unsigned i = 0; i < 2; i++) { /* under AddressSanitizer a clean end also shows that no
                                        * memory leaked */
        int status = agent_stop(&cell.agents[i]);
        REQUIRE(status == 0, "agent %u ended with %x", i, (unsigned)status);
    }
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("abuse");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_add_test(tests, strangers_and_bad_links);
    network_need();
    /* the library Check stores a test's time-out as 31 bits of microseconds, so at most 35
     * minutes */
    if (how_long_ms() > 30 * 60000) {
        setenv("CK_FORK", "no", 1);
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    tcase_set_timeout(tests, 300 + (double)how_long_ms() / 500);
    return suite_main("cell_abuse", tests);
}
