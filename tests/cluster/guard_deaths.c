/*
 * The test kills `holdfast lock` (the holder) and its guard processes at random times, alone or
 * together. CMD and its children are a process group. At no time may the groups of two holders
 * work.
 *
 * CMD is a shell with children that ignore signals. A file lock (flock) that the whole group
 * inherits says whether any process of the group is alive. The next holder's CMD takes that lock
 * without waiting, and reports an overlap if it cannot. The next holder already waits when the test
 * kills, so its CMD starts as early as possible.
 *
 * There are two guards. So no process of the group may be left when one guard dies, with or without
 * `holdfast`, nor when `holdfast` dies while one guard is stopped. If the test kills `holdfast` and
 * both guards before any of them can act, CMD dies, but its children do not (guard_process.h). That
 * may happen in the rounds that kill all three. Then the test kills the group and counts that case.
 *
 * HOLDFAST_TEST_ROUNDS sets the number of rounds. If it is set, all processes have the ordinary
 * priority of a user's processes. HOLDFAST_TEST_SEED is the seed of the random times.
 */
#include "../emulation.h"
#include "../suite_main.h"
#include "actor.h"
#include "require.h"
#include "served_first.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    ROUNDS = 24,
    /* The group must be gone after half of the lock-delay. On a busy machine the guard and each
     * process of the group wait for a processor before they can act. */
    LOCK_DELAY_MS = 2000,
    INSTANT_US_MAX = 60000,
    GAP_US_MAX = 4000,
};

enum victim {
    HOLDER,
    GUARD,
    HOLDER_THEN_GUARD,
    GUARD_THEN_HOLDER,
    GUARD_STOPPED,
    ALL,
    VICTIM_COUNT
};

enum { GUARDS = 2 };

static const char *const victim_names[VICTIM_COUNT] = {
    "the holder",
    "a guard",
    "the holder, then a guard",
    "a guard, then the holder",
    "the holder, with a guard stopped",
    "all three",
};

/* The shell script that a group runs: $1 is the folder, $2 the number of the holder. */
static const char work[] =
    "exec 9>>\"$1/alive\"\n"
    "flock -n 9 || echo \"$2\" >>\"$1/overlaps\"\n"
    "(trap '' HUP INT QUIT TERM; sh -c 'sleep 1000 & sleep 1000' & sleep 1000) &\n"
    "sleep 1000 &\n"
    "echo $$ >\"$1/new.$2\"; mv \"$1/new.$2\" \"$1/group.$2\"\n"
    "wait\n";

static struct agent_process agent;
static unsigned left_count; /* the number of rounds that killed all three and left children of
                             * CMD */
static unsigned count[VICTIM_COUNT];

static void start(void)
{
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    /* `holdfast`, its guards and CMD inherit this priority, because the time in which a guard acts
     * must not depend on other work of the machine. */
    if (getenv("HOLDFAST_TEST_ROUNDS") == NULL) {
        be_served_first();
    }
    agent_create(&agent, NULL);
    agent_start(&agent);
}

static void stop(void)
{
    agent_destroy(&agent);
}

static unsigned setting(const char *name, unsigned otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : (unsigned)strtoul(text, NULL, 10);
}

static pid_t begin(unsigned number)
{
    char delay[32];
    char text[32];
    snprintf(delay, sizeof(delay), "%dms", LOCK_DELAY_MS);
    snprintf(text, sizeof(text), "%u", number);
    pid_t pid = fork_tied();
    if (pid == 0) {
        dup2(open("/dev/null", O_RDWR), 2);
        execl(binary_path("holdfast"), "holdfast", "-s", agent.socket, "lock", "--lock-delay",
              delay, "job", "--", "sh", "-c", work, "sh", agent.folder, text, (char *)NULL);
        _exit(125);
    }
    return pid;
}

static bool read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : read(fd, text, size - 1);
    text[got > 0 ? got : 0] = '\0';
    if (fd >= 0) {
        close(fd);
    }
    return got > 0;
}

/* Waits until that holder's group is at work. Returns its process group. */
static pid_t await_group(unsigned number)
{
    char path[128];
    char text[32];
    snprintf(path, sizeof(path), "%s/group.%u", agent.folder, number);
    for (int64_t end_ns = boottime_now() + 3 * GUARD_MS * MS; !read_text(path, text, sizeof(text));
         sleep_ms(2)) {
        REQUIRE(boottime_now() < end_ns, "holder %u does not start its command", number);
    }
    unlink(path);
    pid_t group = (pid_t)strtol(text, NULL, 10);
    REQUIRE(group > 1, "%s", text);
    return group;
}

/* Returns how many guards the holder has now. */
static unsigned look_for_guards(pid_t holder, pid_t guards[GUARDS])
{
    char path[64];
    char text[256];
    unsigned found = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)holder, (int)holder);
    read_text(path, text, sizeof(text));
    for (char *at = text; *at >= '0' && *at <= '9'; at += *at == ' ') {
        char name[32];
        char comm[64];
        long pid = strtol(at, &at, 10);
        snprintf(comm, sizeof(comm), "/proc/%ld/comm", pid);
        if (read_text(comm, name, sizeof(name)) && strcmp(name, "hf-guard\n") == 0 &&
            found < GUARDS) {
            guards[found++] = (pid_t)pid;
        }
    }
    return found;
}

static void find_guards(pid_t holder, pid_t guards[GUARDS])
{
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (look_for_guards(holder, guards) < GUARDS) {
        REQUIRE(boottime_now() < end_ns, "holder %d has too few guards", (int)holder);
        sleep_ms(2);
    }
}

static void sleep_us(long duration_us)
{
    const struct timespec nap = {.tv_sec = duration_us / 1000000,
                                 .tv_nsec = duration_us % 1000000 * 1000};
    nanosleep(&nap, NULL);
}

static void reap_orphans(pid_t waiter)
{
    siginfo_t info = {.si_pid = 0};
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid != 0 &&
           info.si_pid != waiter && info.si_pid != agent.pid && info.si_pid != agent.janitor) {
        waitpid(info.si_pid, NULL, 0);
        info.si_pid = 0;
    }
}

/* Returns whether any process of the group still lives at by_ns. */
static bool is_left(pid_t group, pid_t waiter, int64_t by_ns)
{
    while (kill(-group, 0) == 0) {
        reap_orphans(waiter);
        if (boottime_now() >= by_ns) {
            return kill(-group, 0) == 0;
        }
        sleep_ms(1);
    }
    return false;
}

static void kill_victims(enum victim victim, pid_t holder, const pid_t guards[GUARDS])
{
    unsigned chosen = (unsigned)random() % GUARDS;
    pid_t guard = guards[chosen];
    long gap_us = random() % 2 * (random() % GAP_US_MAX);
    if (victim == GUARD_STOPPED) {
        kill(guard, SIGSTOP);
    } else if (victim == GUARD || victim == GUARD_THEN_HOLDER || victim == ALL) {
        kill(guard, SIGKILL);
    }
    if (victim == ALL) {
        kill(guards[1 - chosen], SIGKILL);
    }
    if (victim == GUARD_THEN_HOLDER) {
        sleep_us(gap_us);
    }
    if (victim != GUARD) {
        kill(holder, SIGKILL);
    }
    if (victim == HOLDER_THEN_GUARD) {
        sleep_us(gap_us);
        kill(guard, SIGKILL);
    }
    if (victim == GUARD_STOPPED) { /* the stopped guard must not outlive the test */
        sleep_ms(LOCK_DELAY_MS / 2);
        kill(guard, SIGKILL);
    }
}

static void play_round(enum victim victim, pid_t holder, pid_t group, pid_t waiter)
{
    pid_t guards[GUARDS];
    find_guards(holder, guards);
    sleep_us(random() % INSTANT_US_MAX);
    kill_victims(victim, holder, guards);
    int64_t killed_ns = boottime_now();
    wait_for(holder);
    count[victim]++;
    /* A holder of which only a guard was killed has ended its group before it released the lock and
     * ended. In the other cases the group ends within half the lock-delay. */
    if (is_left(group, waiter, victim == GUARD ? killed_ns : killed_ns + LOCK_DELAY_MS / 2 * MS)) {
        kill(-group, SIGKILL);
        REQUIRE(victim == ALL, "the group is left: killed %s", victim_names[victim]);
        left_count++;
    }
}

START_TEST(never_two_groups)
{
    char path[128];
    char text[256];
    unsigned rounds = setting("HOLDFAST_TEST_ROUNDS", ROUNDS);
    unsigned seed = setting("HOLDFAST_TEST_SEED", 1);
    if (!orphans_are_adopted("cluster_guard_deaths",
                             "no process adopts what a killed one leaves")) {
        return;
    }
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    srandom(seed);
    snprintf(path, sizeof(path), "%s/overlaps", agent.folder);
    pid_t holder = begin(0);
    for (unsigned round = 0; round < rounds; round++) {
        snprintf(require_context, sizeof(require_context), "seed %u, round %u", seed, round);
        pid_t group = await_group(round);
        pid_t waiter = begin(round + 1);
        play_round(random() % VICTIM_COUNT, holder, group, waiter);
        holder = waiter;
        REQUIRE(!read_text(path, text, sizeof(text)), "two groups at work: %s", text);
    }
    pid_t group = await_group(rounds);
    REQUIRE(!read_text(path, text, sizeof(text)), "two groups at work: %s", text);
    kill(-group, SIGKILL);
    wait_for(holder);
    printf("%u rounds, seed %u, no two groups at work. Killed:", rounds, seed);
    for (unsigned victim = 0; victim < VICTIM_COUNT; victim++) {
        printf(" %s %u times;", victim_names[victim], count[victim]);
    }
    printf(" of all three, %u times CMD's children were left\n", left_count);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("deaths of the holder and its guard");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 20 + 10 * setting("HOLDFAST_TEST_ROUNDS", ROUNDS));
    tcase_add_test(tests, never_two_groups);
    return suite_main("guard_deaths", tests);
}
