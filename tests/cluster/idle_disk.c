/*
 * An idle agent writes nothing to its disk, because embedded hosts have flash. Locks are held and
 * not used, in a cell of one host and in a cell of three, while sessions are renewed.
 *
 * The test counts the bytes that the kernel charges to the agent (write_bytes in /proc/PID/io,
 * which includes pages of mapped files), and looks for changes in the state folder. On a busy
 * machine a cell may rightly write now and then, because a host stood still or a coordinator was
 * suspected. So the test repeats windows of WINDOW_MS and passes when one of them has no write. A
 * write with each renewal would be in every window. With HOLDFAST_TEST_MINUTES=N the test counts
 * and prints all writes of N minutes, while a thousand locks are held.
 */
#include "../suite_main.h"
#include "agent_process.h"
#include "holdfast/holdfast.h"
#include "require.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HOSTS = 3,
    FILES = 16 * HOSTS,
    LOCKS = 50,
    LOCKS_LONG = 1000,
    WINDOW_MS = 3500,
    WINDOWS = 40,
    LOOK_MS = 5000,
    TTL_MS = 4000
};

/* A file in an agent's state folder. */
struct file {
    unsigned host;
    char name[256];
    ino_t inode;
    off_t size;
    int64_t changed_ns; /* wall-clock time */
};

struct written {
    uint64_t bytes[HOSTS]; /* write_bytes of each agent */
    unsigned count;
    struct file files[FILES];
};

static struct agent_process agents[HOSTS];
static unsigned hosts;

static unsigned minutes(void)
{
    const char *text = getenv("HOLDFAST_TEST_MINUTES");
    return text ? (unsigned)strtoul(text, NULL, 10) : 0;
}

static void start(unsigned count)
{
    unsigned ports[HOSTS];
    hosts = count;
    agent_free_ports(ports, count);
    for (unsigned i = 0; i < count; i++) {
        char text[1024];
        int used = snprintf(text, sizeof(text),
                            "[agent]\nname = host-%u\ncell = idle\nstate_dir = %%D/state\n"
                            "socket = %%D/agent.sock\n[cell]\nsession_ttl = %dms\n[voters]\n",
                            i, TTL_MS);
        for (unsigned k = 0; k < count; k++) {
            used += snprintf(text + used, sizeof(text) - (size_t)used,
                             "host-%u = tcp://127.0.0.1:%u\n", k, ports[k]);
        }
        agent_create(&agents[i], text);
        agent_launch(&agents[i]);
    }
    for (unsigned i = 0; i < count; i++) {
        agent_await_socket(&agents[i]);
    }
}

static void start_one(void)
{
    start(1);
}

static void start_cell(void)
{
    start(HOSTS);
}

static void stop(void)
{
    for (unsigned i = hosts; i-- > 0;) { /* in reverse order, because each janitor has inherited
                                          * the pipes of the earlier ones */
        agent_destroy(&agents[i]);
    }
}

static uint64_t charged(const struct agent_process *agent)
{
    char path[64];
    char line[128];
    unsigned long long bytes = 0;
    bool found = false;
    snprintf(path, sizeof(path), "/proc/%d/io", (int)agent->pid);
    FILE *file = fopen(path, "re");
    REQUIRE(file, "%s: %s", path, strerror(errno));
    while (!found && fgets(line, sizeof(line), file)) {
        found = sscanf(line, "write_bytes: %llu", &bytes) == 1;
    }
    fclose(file);
    REQUIRE(found, "no write_bytes in %s", path);
    return bytes;
}

/* Adds to *written the files that are directly in the state folder. Files in its subfolders change
 * only with clients. */
static void look_at_files(unsigned host, struct written *written)
{
    char path[96];
    struct dirent *entry;
    snprintf(path, sizeof(path), "%s/state", agents[host].folder);
    DIR *folder = opendir(path);
    REQUIRE(folder, "%s: %s", path, strerror(errno));
    while ((entry = readdir(folder)) != NULL) {
        struct stat status;
        if (fstatat(dirfd(folder), entry->d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
            S_ISREG(status.st_mode)) {
            REQUIRE(written->count < FILES, "too many files in %s", path);
            struct file *file = &written->files[written->count++];
            file->host = host;
            snprintf(file->name, sizeof(file->name), "%s", entry->d_name);
            file->inode = status.st_ino;
            file->size = status.st_size;
            file->changed_ns = (int64_t)status.st_mtim.tv_sec * 1000 * MS + status.st_mtim.tv_nsec;
        }
    }
    closedir(folder);
}

static void look(struct written *written)
{
    memset(written, 0, sizeof(*written));
    for (unsigned i = 0; i < hosts; i++) {
        written->bytes[i] = charged(&agents[i]);
        look_at_files(i, written);
    }
}

static const struct file *find(const struct written *written, const struct file *wanted)
{
    for (unsigned i = 0; i < written->count; i++) {
        const struct file *file = &written->files[i];
        if (file->host == wanted->host && strcmp(file->name, wanted->name) == 0) {
            return file;
        }
    }
    return NULL;
}

/* Returns whether the file is unchanged. Otherwise prints what has changed. */
static bool same_file(const struct file *before, const struct file *after)
{
    if (after == NULL) {
        printf("host %u: %s is gone\n", before->host, before->name);
        return false;
    }
    if (before->inode == after->inode && before->size == after->size &&
        before->changed_ns == after->changed_ns) {
        return true;
    }
    printf("host %u: %s: %lld bytes, %lld before; %s, changed %.3f s after its change before\n",
           after->host, after->name, (long long)after->size, (long long)before->size,
           before->inode == after->inode ? "the same file" : "another file",
           (double)(after->changed_ns - before->changed_ns) / 1e9);
    return false;
}

/* Returns whether nothing was written between the two looks. Otherwise prints what was written. */
static bool same(const struct written *before, const struct written *after)
{
    bool is_same = true;
    for (unsigned i = 0; i < hosts; i++) {
        if (before->bytes[i] != after->bytes[i]) {
            printf("host %u: %llu bytes written\n", i,
                   (unsigned long long)(after->bytes[i] - before->bytes[i]));
            is_same = false;
        }
    }
    for (unsigned i = 0; i < before->count; i++) {
        const struct file *file = &before->files[i];
        is_same = same_file(file, find(after, file)) && is_same;
    }
    for (unsigned i = 0; i < after->count; i++) {
        const struct file *file = &after->files[i];
        if (find(before, file) == NULL) {
            printf("host %u: %s is new, %lld bytes\n", file->host, file->name,
                   (long long)file->size);
            is_same = false;
        }
    }
    return is_same;
}

/* Makes the pages of mapped files clean, because only the first write to a clean page is charged
 * and changes the file's time. */
static void clean_pages(void)
{
    int fd = open(agents[0].folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(fd >= 0 && syncfs(fd) == 0, "syncfs: %s", strerror(errno));
    close(fd);
}

/* Looks for writes every LOOK_MS, so that a person can compare the time of each write with the
 * agents' logs. */
static void count_long(unsigned how_long)
{
    static struct written looks[2];
    unsigned changes = 0;
    unsigned long long bytes = 0;
    clean_pages();
    look(&looks[0]);
    for (unsigned i = 0; i < how_long * (60000 / LOOK_MS); i++) {
        struct written *before = &looks[i % 2];
        struct written *after = &looks[1 - i % 2];
        sleep_ms(LOOK_MS);
        look(after);
        for (unsigned host = 0; host < hosts; host++) {
            bytes += after->bytes[host] - before->bytes[host];
        }
        if (!same(before, after)) {
            changes++;
            printf("  at %.3f s of CLOCK_BOOTTIME, after %u s\n", (double)boottime_now() / 1e9,
                   (i + 1) * (LOOK_MS / 1000));
        }
    }
    printf("%u agents idle for %u minutes: %llu bytes written\n", hosts, how_long, bytes);
    ck_assert_msg(changes == 0, "something was written: see above");
}

static void nothing_is_written(void)
{
    static struct written before;
    static struct written after;
    unsigned windows = 0;
    if (minutes() > 0) {
        sleep_ms(10000); /* by then the writes of the start are over */
        count_long(minutes());
        return;
    }
    do {
        REQUIRE(windows++ < WINDOWS, "idle agents write to their disks all the time");
        look(&before); /* this look comes first, so that a write during clean_pages() is not
                        * missed */
        clean_pages();
        sleep_ms(WINDOW_MS); /* long enough for two renewals */
        look(&after);
    } while (!same(&before, &after));
    printf("%u agents idle: nothing written in window %u\n", hosts, windows);
}

/* A client of the first host holds the locks, and no other client wants them. */
static void with_locks_held(void)
{
    unsigned count = minutes() > 0 ? LOCKS_LONG : LOCKS;
    hf_lock **locks = calloc(count, sizeof(hf_lock *));
    hf_client *client = NULL;
    struct hf_options options = {.size = sizeof(options), .socket = agents[0].socket};
    REQUIRE(locks && hf_connect(&options, &client) == 0, "no connection");
    for (unsigned i = 0; i < count; i++) {
        char name[32];
        snprintf(name, sizeof(name), "rest/%u", i);
        int result = hf_open(client, name, NULL, &locks[i]);
        REQUIRE(result == 0, "open %s: %s", name, hf_strerror(result));
        result = hf_acquire(locks[i], HF_EXCLUSIVE, -1, NULL);
        REQUIRE(result == 0, "acquire %s: %s", name, hf_strerror(result));
    }
    nothing_is_written();
    for (unsigned i = 0; i < count; i++) {
        ck_assert_int_gt(hf_remaining_ns(locks[i]), 0);
        hf_close(locks[i]);
    }
    hf_disconnect(client);
    free(locks);
}

START_TEST(nobody_wants_anything)
{
    nothing_is_written();
}
END_TEST

START_TEST(locks_are_held)
{
    with_locks_held();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("idle_disk");
    TCase *one = tcase_create("one host");
    TCase *cell = tcase_create("three hosts");
    setvbuf(stdout, NULL, _IOLBF, 0); /* a test that fails ends its process without a flush */
    double guard_s = 240 + 120.0 * minutes();
    tcase_add_checked_fixture(one, start_one, stop);
    tcase_add_checked_fixture(cell, start_cell, stop);
    tcase_set_timeout(one, guard_s);
    tcase_set_timeout(cell, guard_s);
    tcase_add_test(one, locks_are_held);
    tcase_add_test(cell, locks_are_held);
    if (minutes() > 0) {
        tcase_add_test(one, nobody_wants_anything);
        tcase_add_test(cell, nobody_wants_anything);
    }
    suite_add_tcase(suite, one);
    suite_add_tcase(suite, cell);
    return suite_run(suite);
}
