/*
 * A flush fails, and the kernel then treats the written pages in its cache as clean, so it never
 * reports the failure again. A commit that was called durable must still survive a loss of power.
 *
 * This program replaces libc's writes and flushes for SQLite. It knows which bytes of the log a
 * successful flush has made durable, and can lose all other bytes.
 */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../suite_main.h"
#include "store_fixture.h"

enum { DISK_MAX = 4 << 20 };

/* The log's file as the disk has it. All processes of the test share this struct. */
static struct disk {
    bool fail; /* the next flush fails */
    unsigned char bytes[DISK_MAX];
    bool dirty[DISK_MAX]; /* bytes written since the last flush */
} * disk;

static bool is_log(int fd)
{
    char link[64];
    char name[256];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    ssize_t length = readlink(link, name, sizeof(name) - 1);
    return disk && length > 4 && memcmp(name + length - 4, "-wal", 4) == 0;
}

#pragma GCC visibility push(default)

ssize_t pwrite64(int fd, const void *bytes, size_t size, off64_t offset)
{
    if (is_log(fd) && offset + (off64_t)size <= DISK_MAX) {
        memset(disk->dirty + offset, 1, size);
    }
    return syscall(SYS_pwrite64, fd, bytes, size, offset);
}

ssize_t pwrite(int fd, const void *bytes, size_t size, off_t offset)
{
    return pwrite64(fd, bytes, size, offset);
}

int fdatasync(int fd)
{
    if (is_log(fd)) {
        static unsigned char cache[DISK_MAX];
        ssize_t size = disk->fail ? 0 : pread(fd, cache, sizeof(cache), 0);
        for (ssize_t i = 0; i < size; i++) {
            disk->bytes[i] = disk->dirty[i] ? cache[i] : disk->bytes[i];
        }
        memset(disk->dirty, 0, sizeof(disk->dirty));
        if (disk->fail) {
            disk->fail = false;
            errno = EIO;
            return -1;
        }
    }
    return (int)syscall(SYS_fdatasync, fd);
}

#pragma GCC visibility pop

static void set_up(void)
{
    setup();
    disk = mmap(NULL, sizeof(*disk), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ck_assert_ptr_ne(disk, MAP_FAILED);
}

static void tear_down(void)
{
    char log[128];
    snprintf(log, sizeof(log), "%s-wal", path);
    unlink(log);
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0);
}

/* Acts like a loss of power: writes into the log only what is durable. */
static void lose_power(void)
{
    char log[128];
    struct disk *was = disk;
    snprintf(log, sizeof(log), "%s-wal", path);
    disk = NULL; /* from here on, calls reach libc directly */
    int fd = open(log, O_RDWR | O_CLOEXEC);
    off_t size = lseek(fd, 0, SEEK_END);
    ck_assert_int_le(size, DISK_MAX);
    ck_assert_int_eq(pwrite(fd, was->bytes, (size_t)size, 0), size);
    close(fd);
    disk = was;
}

static bool put_epochs(struct store *store, uint32_t first, uint32_t last)
{
    bool good = true;
    for (uint32_t epoch = first; epoch <= last && good; epoch++) {
        uint64_t commit = 0;
        good = store_begin(store) && store_put_session_epoch(store, epoch) &&
               store_commit(store, &commit);
    }
    return good;
}

/* A process opens the store, writes epochs, and is killed. Returns whether it reported all epochs
 * as durable. */
static bool write_and_die(uint32_t first, uint32_t last, bool fail)
{
    int status = 0;
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
        struct store *store = store_open(path, &identity, &meta, error);
        disk->fail = fail;
        _exit(store == NULL ? 2 : put_epochs(store, first, last) ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) < 2);
    return WEXITSTATUS(status) == 0;
}

static uint32_t epoch_in_store(void)
{
    struct store *store = open_store();
    uint32_t epoch = meta.session_epoch;
    store_close(store);
    return epoch;
}

START_TEST(what_is_durable_behind_a_failed_flush_stays)
{
    ck_assert(write_and_die(1, 5, false));
    ck_assert(!write_and_die(6, 6, true));
    ck_assert(write_and_die(7, 9, false));
    lose_power();
    ck_assert_uint_eq(epoch_in_store(), 9);
}
END_TEST

START_TEST(what_was_not_told_durable_may_be_lost)
{
    ck_assert(write_and_die(1, 5, false));
    ck_assert(!write_and_die(6, 6, true));
    lose_power();
    ck_assert_uint_eq(epoch_in_store(), 5); /* shows that lose_power() loses the failed write */
}
END_TEST

START_TEST(what_the_next_agent_read_stays)
{
    ck_assert(!write_and_die(6, 6, true));
    /* this process writes nothing, but an agent may act on the epoch that it read */
    ck_assert(write_and_die(1, 0, false));
    lose_power();
    ck_assert_uint_eq(epoch_in_store(), 6);
}
END_TEST

/* If the log cannot be written anew, the store is not opened. */
START_TEST(a_log_that_cannot_be_renewed_is_not_used)
{
    ck_assert(write_and_die(1, 5, false));
    disk->fail = true;
    struct store *store = store_open(path, &identity, &meta, error);
    ck_assert_ptr_null(store);
    ck_assert_ptr_nonnull(strstr(error, "cannot be made durable"));
    ck_assert_uint_eq(epoch_in_store(), 5); /* the next open tries again, and succeeds */
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("flush");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_test(tests, what_is_durable_behind_a_failed_flush_stays);
    tcase_add_test(tests, what_was_not_told_durable_may_be_lost);
    tcase_add_test(tests, what_the_next_agent_read_stays);
    tcase_add_test(tests, a_log_that_cannot_be_renewed_is_not_used);
    tcase_set_timeout(tests, 60);
    return suite_main("store_flush", tests);
}
