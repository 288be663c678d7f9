/*
 * A process with write access to a region writes rubbish into it without end, while the agent runs.
 * It flips bits, forges holds and seats from values in the region, overwrites the header, truncates
 * and grows the object, and locks it by the file locks of the kernel. Clients of that namespace
 * keep trying.
 *
 * The agent lives, answers, logs no bug and little else, and uses a limited share of the processor.
 * In the other namespace workers take locks in all ways, and record their holds. They are served
 * all the time, no two exclusive holds overlap, and tokens rise. After a restart the agent serves
 * the spoilt namespace, too.
 *
 * HOLDFAST_TEST_MINUTES=N: the test lasts N minutes.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "history.h"
#include "holdfast/holdfast.h"
#include "require.h"

enum {
    WORKERS = 3,
    VICTIMS = 2,
    LOCKS = 3,
    HISTORY_MAX = 1 << 21, /* the record's events of one minute; each minute adds as many */
    BEFORE_MS = 1000,
    RUN_MS = 4000,
    BURST = 2000, /* words that are written between two looks at the clock */
    PAUSE_MS = 1, /* the pause after each burst, in which other processes run */
    MEMORY_MORE_MAX_KB = 64 * 1024,
    LOG_A_SECOND_MAX = 8 * 1024,
};

static struct agent_process agent;
static struct history *history;

static struct {
    _Atomic bool end;
    _Atomic bool truncate; /* the culprit may truncate the object from now on */
    _Atomic uint64_t written;
    _Atomic uint64_t truncated;
    _Atomic uint64_t turns[WORKERS];
    _Atomic uint64_t victims_had; /* holds in the spoilt namespace, including false ones */
    _Atomic uint64_t victims_told;
} * shared;

static uint64_t draw(uint64_t *state, uint64_t below)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state % below;
}

static int64_t run_ms(void)
{
    const char *minutes = getenv("HOLDFAST_TEST_MINUTES");
    return minutes != NULL ? (int64_t)atoi(minutes) * 60000 : RUN_MS;
}

/* ---- the other namespace ---- */

static void note(enum history_kind kind, unsigned lock, enum hf_mode mode,
                 const struct hf_hold *hold)
{
    history_add(history,
                (struct history_event){.kind = kind,
                                       .pid = (uint32_t)getpid(),
                                       .lock = lock,
                                       .mode = (enum history_mode)mode,
                                       .token = hold != NULL ? hold->token : 0,
                                       .deadline_ns = hold != NULL ? hold->deadline_ns : 0});
}

static void one_turn(hf_lock *lock, unsigned number, enum hf_mode mode)
{
    struct hf_hold hold;
    note(HISTORY_ATTEMPT, number, mode, NULL);
    int result = hf_acquire(lock, mode, (int64_t)GUARD_MS * MS, &hold);
    REQUIRE(result == 0, "acquire: %s", hf_strerror(result));
    note(HISTORY_ACQUIRED, number, mode, &hold);
    if (hf_remaining_ns(lock) > 0) {
        note(HISTORY_HELD, number, mode, &hold);
    }
    note(HISTORY_RELEASED, number, mode, NULL);
    if (hf_release(lock) != 0) {
        note(HISTORY_LOST, number, mode, NULL);
    }
}

static void work(unsigned worker)
{
    hf_client *client;
    hf_lock *locks[LOCKS];
    uint64_t random = 11 + worker;
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    REQUIRE(hf_connect(&options, &client) == 0, "connect");
    for (unsigned i = 0; i < LOCKS; i++) {
        char name[32];
        snprintf(name, sizeof(name), "good/%u", i);
        REQUIRE(hf_open(client, name, NULL, &locks[i]) == 0, "open");
    }
    while (!atomic_load(&shared->end)) {
        unsigned lock = (unsigned)draw(&random, LOCKS);
        one_turn(locks[lock], lock, draw(&random, 4) == 0 ? HF_SHARED : HF_EXCLUSIVE);
        /* The pause keeps the record short enough in a long run and on a fast machine. */
        if (atomic_fetch_add(&shared->turns[worker], 1) % 16 == 0 || run_ms() > RUN_MS) {
            sleep_ms(1);
        }
        if (draw(&random, 256) == 0) { /* a close makes the agent look at the region */
            hf_close(locks[lock]);
            char name[32];
            snprintf(name, sizeof(name), "good/%u", lock);
            REQUIRE(hf_open(client, name, NULL, &locks[lock]) == 0, "open again");
        }
    }
    _exit(0);
}

static uint64_t turns(void)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < WORKERS; i++) {
        sum += atomic_load(&shared->turns[i]);
    }
    return sum;
}

/* ---- the spoilt namespace ---- */

/* Works in the spoilt namespace without end. The rubbish may kill this process, and no other
 * one. */
static void be_a_victim(void)
{
    hf_client *client;
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    while (!atomic_load(&shared->end)) {
        if (hf_connect(&options, &client) != 0) {
            sleep_ms(20);
            continue;
        }
        for (unsigned i = 0; i < 40 && !atomic_load(&shared->end); i++) {
            hf_lock *lock;
            char name[32];
            snprintf(name, sizeof(name), "bad/%u", i % LOCKS);
            if (hf_open(client, name, NULL, &lock) != 0) {
                atomic_fetch_add(&shared->victims_told, 1);
                sleep_ms(5);
                continue;
            }
            if (hf_acquire(lock, i % 3 == 0 ? HF_SHARED : HF_EXCLUSIVE, 20 * MS, NULL) == 0) {
                atomic_fetch_add(&shared->victims_had, 1);
                (void)!hf_release(lock);
            }
            hf_close(lock);
        }
        hf_disconnect(client);
    }
    _exit(0);
}

/* Keeps VICTIMS processes running. */
static void mind_victims(void)
{
    pid_t pids[VICTIMS] = {0};
    while (!atomic_load(&shared->end)) {
        for (unsigned i = 0; i < VICTIMS; i++) {
            if (pids[i] == 0 || waitpid(pids[i], NULL, WNOHANG) == pids[i]) {
                pids[i] = fork_tied();
                if (pids[i] == 0) {
                    be_a_victim();
                }
            }
        }
        sleep_ms(20);
    }
    _exit(0); /* the victims die with this process */
}

/* Returns a value to write into a word: the old value with a flipped bit, a copy of another word of
 * the region, or a plausible value. */
static uint64_t forge(uint64_t *random, const _Atomic uint64_t *words, uint64_t count, uint64_t old)
{
    switch (draw(random, 5)) {
    case 0:
        return old ^ UINT64_C(1) << draw(random, 64);
    case 1:
        return atomic_load(&words[draw(random, count)]);
    case 2:
        return draw(random, 2) == 0 ? 0 : UINT64_MAX;
    case 3:
        return old + draw(random, 3) - 1;
    default:
        draw(random, 2);
        return *random;
    }
}

/* Writes mostly to the region's beginning, which has most of the used memory. */
static void write_some(uint64_t *random, _Atomic uint64_t *words, uint64_t count)
{
    for (unsigned i = 0; i < BURST; i++) {
        uint64_t within = draw(random, 4) == 0 ? count : count / 256;
        within = draw(random, 8) == 0 ? 512 : within; /* in the header */
        _Atomic uint64_t *word = &words[draw(random, within)];
        atomic_store(word, forge(random, words, count, atomic_load(word)));
    }
    atomic_fetch_add(&shared->written, BURST);
}

static void cut(uint64_t *random, int fd, off_t size)
{
    static const unsigned parts[] = {0, 1, 2, 3};
    off_t part = (off_t)parts[draw(random, 4)] * size / 2; /* three halves of the size make the
                                                            * object larger */
    (void)!ftruncate(fd, part);
    atomic_fetch_add(&shared->truncated, 1);
}

static void spoil(const char *path)
{
    uint64_t random = 4711;
    struct stat status;
    struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    int fd = open(path, O_RDWR | O_CLOEXEC);
    REQUIRE(fd >= 0 && fstat(fd, &status) == 0, "%s: %s", path, strerror(errno));
    _Atomic uint64_t *words = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED,
                                   fd, 0);
    REQUIRE(words != MAP_FAILED, "mmap");
    (void)flock(fd, LOCK_EX | LOCK_NB);
    (void)fcntl(fd, F_SETLK, &all);
    while (!atomic_load(&shared->end)) {
        if (atomic_load(&shared->truncate)) {
            cut(&random, fd, status.st_size);
        } else {
            write_some(&random, words, (uint64_t)status.st_size / sizeof(uint64_t));
        }
        sleep_ms(PAUSE_MS);
    }
    _exit(0);
}

/* Returns the processor time that the agent has used, in ms. */
static int64_t agent_time_ms(void)
{
    char path[64];
    unsigned long user = 0;
    unsigned long system = 0;
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)agent.pid);
    FILE *file = fopen(path, "re");
    ck_assert_ptr_nonnull(file);
    ck_assert_int_eq(fscanf(file,
                            "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
                            &user, &system),
                     2);
    fclose(file);
    return (int64_t)(user + system) * 1000 / sysconf(_SC_CLK_TCK);
}

/* Connects a new client and takes a lock. Returns the library's error. */
static int try_lock(const char *name)
{
    hf_client *client;
    hf_lock *lock;
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    int result = hf_connect(&options, &client);
    if (result != 0) {
        return result;
    }
    result = hf_open(client, name, NULL, &lock);
    if (result == 0) {
        result = hf_acquire(lock, HF_EXCLUSIVE, (int64_t)GUARD_MS * MS, NULL);
    }
    hf_disconnect(client);
    return result;
}

/* Waits for duration_ms, and checks every second that the agent serves the other namespace. */
static void pass(int64_t duration_ms)
{
    for (int64_t end_ns = boottime_now() + duration_ms * MS; boottime_now() < end_ns;) {
        uint64_t before = turns();
        int64_t late_ns = boottime_now() + (int64_t)GUARD_MS * MS;
        sleep_ms(duration_ms < 1000 ? duration_ms : 1000);
        while (turns() < before + 10) {
            ck_assert_msg(boottime_now() < late_ns, "the neighbours are not served");
            sleep_ms(10);
        }
        ck_assert_int_eq(waitpid(agent.pid, NULL, WNOHANG), 0);
    }
}

START_TEST(a_region_full_of_rubbish)
{
    char path[512];
    pid_t pids[WORKERS + 2];
    struct history_report report;
    agent_region_path(&agent, "bad", path, sizeof(path));
    for (unsigned i = 0; i < WORKERS; i++) {
        pids[i] = fork_tied();
        if (pids[i] == 0) {
            work(i);
        }
    }
    ck_assert_int_eq(try_lock("bad/0"), 0);
    pids[WORKERS] = fork_tied();
    if (pids[WORKERS] == 0) {
        mind_victims();
    }
    pass(BEFORE_MS);
    uint64_t turns_before = turns();
    unsigned long memory_before = agent_private_kb(&agent);
    int64_t time_before_ms = agent_time_ms();
    long log_before = agent_log_size(&agent);
    int64_t begin_ns = boottime_now();
    pids[WORKERS + 1] = fork_tied();
    if (pids[WORKERS + 1] == 0) {
        spoil(path);
    }
    pass(run_ms() / 4 * 3);
    atomic_store(&shared->truncate, true);
    pass(run_ms() / 4);
    int64_t passed_ms = (boottime_now() - begin_ns) / MS;
    int64_t used_ms = agent_time_ms() - time_before_ms;
    printf("%lld ms: %llu words written, truncated %llu times; the agent used %lld ms; %lu kB, "
           "before %lu; log %ld bytes; the neighbours' turns: %llu a second, before %llu; in the "
           "region itself %llu holds, %llu refusals\n",
           (long long)passed_ms, (unsigned long long)atomic_load(&shared->written),
           (unsigned long long)atomic_load(&shared->truncated), (long long)used_ms,
           agent_private_kb(&agent), memory_before, agent_log_size(&agent) - log_before,
           (unsigned long long)((turns() - turns_before) * 1000 / (uint64_t)passed_ms),
           (unsigned long long)(turns_before * 1000 / BEFORE_MS),
           (unsigned long long)atomic_load(&shared->victims_had),
           (unsigned long long)atomic_load(&shared->victims_told));
    fflush(stdout);
    ck_assert_int_eq(try_lock("good/new"), 0);
    atomic_store(&shared->end, true);
    for (unsigned i = 0; i < WORKERS + 2; i++) {
        ck_assert_int_eq(wait_for(pids[i]), 0);
    }
    int found = history_check(history, &report);
    ck_assert_msg(found == 0, "%s", report.first);
    ck_assert_uint_gt(report.holds, 100);
    ck_assert(!agent_logged(&agent, "event=bug"));
    ck_assert_int_lt(used_ms, passed_ms * 3 / 4);
    ck_assert_uint_lt(agent_private_kb(&agent), memory_before + MEMORY_MORE_MAX_KB);
    ck_assert_int_lt(agent_log_size(&agent) - log_before,
                     LOG_A_SECOND_MAX * (passed_ms / 1000 + 8));
    ck_assert_int_eq(agent_stop(&agent), 0);
    agent_start(&agent);
    ck_assert(agent_logged(&agent, "event=session_continued"));
    ck_assert_int_eq(try_lock("good/new"), 0);
    int64_t late_ns = boottime_now() + (int64_t)GUARD_MS * MS;
    int result; /* the next agent makes a new region */
    while ((result = try_lock("bad/new")) == HF_EUNSERVED && boottime_now() < late_ns) {
        sleep_ms(50);
    }
    ck_assert_int_eq(result, 0);
}
END_TEST

static void start(void)
{
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    history = history_create(NULL, HISTORY_MAX * (size_t)(1 + run_ms() / 60000));
    REQUIRE(shared != MAP_FAILED && history != NULL, "memory");
    agent_create(&agent, "[agent]\nname = host-a\ncell = rubbish\nstate_dir = %D/state\n"
                         "socket = %D/agent.sock\n[voters]\nhost-a = tcp://127.0.0.1:7411\n"
                         "[namespace.good]\n[namespace.bad]\n");
    agent_start(&agent);
}

static void stop(void)
{
    agent_destroy(&agent);
    history_destroy(history);
}

int main(void)
{
    TCase *tests = tcase_create("rubbish");
    tcase_add_checked_fixture(tests, start, stop);
    tcase_set_timeout(tests, 120 + (double)run_ms() / 1000);
    tcase_add_test(tests, a_region_full_of_rubbish);
    return suite_main("rubbish", tests);
}
