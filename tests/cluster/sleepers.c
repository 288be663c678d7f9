/*
 * Processes sleep on words on which no honest client sleeps. Thousands sleep on one futex word of a
 * region, which makes each wake of that word costly. Others sleep on the lease while it is valid.
 * The agent's loop makes at most two costly wakes, and leaves all other wakes to another thread. A
 * lease that is renewed in time wakes no thread.
 */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../suite_main.h"
#include "agent_process.h"
#include "holdfast/holdfast.h"
#include "proto/lockword.h"
#include "require.h"

enum {
    NOBODY = 65534,
    SLEEPERS = 700, /* sleeping threads */
    ENTRIES = 128,  /* the entries of each thread: FUTEX_WAITV_MAX */
    STACK = 16384,
    REPAIRS = 12,
    PUBLICATIONS = 3,
};

static struct agent_process agent;
static struct hfi_region region; /* the region of "bad" */
static uint32_t slot;            /* the slot of "bad/lock" */
static hf_client *client;
static hf_lock *lock;

static void start(void)
{
    char path[512];
    struct stat status;
    struct hf_options options = {.size = sizeof(options), .socket = agent.socket};
    agent_create(&agent, "[agent]\nname = host-a\ncell = sleepers\nstate_dir = %D/state\n"
                         "socket = %D/agent.sock\n[cell]\nsession_ttl = 4s\n"
                         "[voters]\nhost-a = tcp://127.0.0.1:7411\n"
                         "[namespace.good]\n[namespace.bad]\n");
    agent_start(&agent);
    options.socket = agent.socket;
    ck_assert_int_eq(hf_connect(&options, &client), 0);
    ck_assert_int_eq(hf_open(client, "bad/lock", NULL, &lock), 0);
    agent_region_path(&agent, "bad", path, sizeof(path));
    int fd = open(path, O_RDWR | O_CLOEXEC);
    ck_assert(fd >= 0 && fstat(fd, &status) == 0);
    void *memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    ck_assert_ptr_ne(memory, MAP_FAILED);
    ck_assert_ptr_null(hfi_region_attach(memory, (uint64_t)status.st_size, &region));
    uint64_t hash = hfi_name_hash("bad/lock", strlen("bad/lock"));
    for (slot = 0; slot < region.slot_count && region.slots[slot].name_hash != hash; slot++) {
    }
    ck_assert_uint_lt(slot, region.slot_count);
}

static void stop(void)
{
    hf_disconnect(client);
    ck_assert(!agent_logged(&agent, "state=jeopardy"));
    ck_assert(!agent_logged(&agent, "event=bug"));
    agent_destroy(&agent);
}

/* ---- costly wakes ---- */

/* Sleeps with many entries on one word. A wake removes the entries of one thread, so the thread
 * starts again after each wake. */
static void *sleep_on(void *arg)
{
    struct futex_waitv entries[ENTRIES];
    _Atomic uint32_t *word = arg;
    for (;;) {
        uint32_t seen = atomic_load(word);
        for (unsigned i = 0; i < ENTRIES; i++) {
            entries[i] = (struct futex_waitv){
                .val = seen, .uaddr = (uintptr_t)word, .flags = FUTEX_32};
        }
        (void)syscall(SYS_futex_waitv, entries, ENTRIES, 0, NULL, 0);
    }
    return NULL;
}

static pid_t fill(_Atomic uint32_t *word)
{
    pid_t pid = fork_tied();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        pthread_attr_t attributes;
        pthread_t thread;
        REQUIRE(setresgid(NOBODY, NOBODY, NOBODY) == 0 && setresuid(NOBODY, NOBODY, NOBODY) == 0,
                "cannot become nobody");
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, STACK);
        for (unsigned i = 0; i < SLEEPERS; i++) {
            REQUIRE(pthread_create(&thread, &attributes, sleep_on, word) == 0, "no thread");
        }
        for (;;) {
            pause();
        }
    }
    return pid;
}

/* Returns the processor time of the agent's thread with that name, in ns, or -1 if there is
 * none. */
static int64_t spent_by(const char *name)
{
    char path[64];
    char text[64];
    int64_t spent_ns = -1;
    snprintf(path, sizeof(path), "/proc/%d/task", (int)agent.pid);
    DIR *tasks = opendir(path);
    ck_assert_ptr_nonnull(tasks);
    for (struct dirent *task; spent_ns < 0 && (task = readdir(tasks)) != NULL;) {
        long long ran_ns;
        snprintf(path, sizeof(path), "/proc/%d/task/%.10s/comm", (int)agent.pid, task->d_name);
        FILE *file = fopen(path, "re");
        bool same = file != NULL && fgets(text, sizeof(text), file) != NULL &&
                    strncmp(text, name, strlen(name)) == 0;
        if (file != NULL) {
            fclose(file);
        }
        snprintf(path, sizeof(path), "/proc/%d/task/%.10s/schedstat", (int)agent.pid, task->d_name);
        file = same ? fopen(path, "re") : NULL;
        if (file != NULL) {
            ck_assert_int_eq(fscanf(file, "%lld", &ran_ns), 1);
            spent_ns = ran_ns;
            fclose(file);
        }
    }
    closedir(tasks);
    return spent_ns;
}

/* Writes an impossible token into the word. The agent repairs the word, which wakes the
 * sleepers. */
static void have_it_repaired(void)
{
    _Atomic uint64_t *word = &region.words[slot].word;
    uint32_t wakes = atomic_load(&region.slots[slot].wake);
    atomic_fetch_or(word, HFI_W_TOKEN);
    for (int64_t end_ns = boottime_now() + GUARD_MS * MS;
         atomic_load(&region.slots[slot].wake) == wakes;) {
        ck_assert_int_lt(boottime_now(), end_ns);
        usleep(1000);
    }
}

/* Waits until each thread of the process sleeps, because on a busy machine that takes time. */
static void await_asleep(pid_t pid)
{
    bool asleep = false;
    for (int64_t end_ns = boottime_now() + GUARD_MS * MS; !asleep;) {
        char path[64];
        unsigned sleeping = 0;
        unsigned threads = 0;
        ck_assert_int_lt(boottime_now(), end_ns);
        snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
        DIR *tasks = opendir(path);
        ck_assert_ptr_nonnull(tasks);
        for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
            char state = '?';
            snprintf(path, sizeof(path), "/proc/%d/task/%.10s/stat", (int)pid, task->d_name);
            FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "re");
            if (file != NULL) {
                threads += fscanf(file, "%*d (%*[^)]) %c", &state) == 1;
                sleeping += state == 'S';
                fclose(file);
            }
        }
        closedir(tasks);
        asleep = threads == SLEEPERS + 1 && sleeping == threads;
        usleep(10000);
    }
}

START_TEST(the_loop_makes_two_dear_wakes)
{
    if (geteuid() != 0) {
        return;
    }
    if (syscall(SYS_futex_waitv, NULL, 0, 0, NULL, 0) != 0 && errno == ENOSYS) {
        printf("left out: cluster_sleepers: no futex_waitv here\n");
        return;
    }
    start();
    pid_t pid = fill(&region.slots[slot].wake);
    int64_t end_ns = boottime_now() + GUARD_MS * MS;
    while (agent_logged(&agent, "event=wake_costly") == 0) {
        ck_assert_int_lt(boottime_now(), end_ns);
        await_asleep(pid);
        have_it_repaired();
    }
    int64_t before_ns = spent_by("holdfastd-wake");
    for (unsigned i = 0; i < REPAIRS; i++) {
        int64_t last_ns = spent_by("holdfastd-wake");
        await_asleep(pid);
        have_it_repaired();
        /* On a busy machine the thread may run later. Then it would make one wake for several
         * repairs. */
        for (end_ns = boottime_now() + GUARD_MS * MS; spent_by("holdfastd-wake") == last_ns;) {
            ck_assert_int_lt(boottime_now(), end_ns);
            usleep(1000);
        }
    }
    int64_t spent_ns = spent_by("holdfastd-wake") - before_ns;
    printf("%d dear wakes: %.1f ms of the thread's processor time\n", REPAIRS,
           (double)spent_ns / 1e6);
    ck_assert_int_gt(spent_ns, REPAIRS / 2 * MS);
    kill_process(pid);
    stop();
}
END_TEST

/* ---- the lease ---- */

START_TEST(a_lease_that_is_renewed_in_time_wakes_nobody)
{
    struct hfi_header *header;
    start();
    header = region.header;
    atomic_fetch_add(&header->lease_sleepers, 1);
    for (unsigned i = 0; i < PUBLICATIONS; i++) {
        uint32_t seen = atomic_load(&header->lease_wake);
        struct timespec pause = {.tv_nsec = 20 * MS};
        int64_t end_ns = boottime_now() + GUARD_MS * MS;
        while (atomic_load(&header->lease_wake) == seen) { /* until the agent renews the lease */
            ck_assert_int_lt(boottime_now(), end_ns);
            long woken = syscall(SYS_futex, &header->lease_wake, FUTEX_WAIT, seen, &pause, NULL, 0);
            ck_assert_msg(woken != 0, "woken by publication %u", i);
        }
    }
    stop();
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("sleepers");
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, the_loop_makes_two_dear_wakes);
    tcase_add_test(tests, a_lease_that_is_renewed_in_time_wakes_nobody);
    return suite_main("sleepers", tests);
}
