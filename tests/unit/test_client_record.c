/* The records of clients: whatever fails, a record has exactly the lines that were written
 * completely. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../suite_main.h"
#include "io/client_record.h"

enum { CLIENT = 5 };

static char folder[64];
static int directory;

static void set_up(void)
{
    snprintf(folder, sizeof(folder), "%s/record-XXXXXX", suite_folder());
    ck_assert_ptr_nonnull(mkdtemp(folder));
    directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(directory, 0);
    /* the agent ignores this signal, too, so that a write fails with EFBIG */
    ck_assert(signal(SIGXFSZ, SIG_IGN) != SIG_ERR);
}

static void tear_down(void)
{
    client_record_remove(directory, CLIENT);
    close(directory);
    ck_assert_int_eq(rmdir(folder), 0);
}

static void create(void)
{
    struct client_record record = {.client = CLIENT, .pid = 4711, .nonce = 7, .command = "make"};
    ck_assert(client_record_create(directory, &record));
}

static off_t size_of_it(void)
{
    struct stat status;
    ck_assert_int_eq(fstatat(directory, "5", &status, 0), 0);
    return status.st_size;
}

/* Limits the size of this process's files, as if the disk were full beyond this size. */
static void make_room(rlim_t size)
{
    struct rlimit limit;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = size;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

static void expect(const uint32_t *holders, uint32_t count)
{
    struct client_record record;
    ck_assert(client_record_read(directory, CLIENT, &record));
    ck_assert_int_eq(record.pid, 4711);
    ck_assert_str_eq(record.command, "make");
    ck_assert_uint_eq(record.holder_count, count);
    ck_assert_mem_eq(record.holders, holders, count * sizeof(holders[0]));
    client_record_free(&record);
}

/* The disk is full after _i bytes of the line. */
START_TEST(a_line_that_is_not_whole_leaves_the_record_good)
{
    create();
    ck_assert(client_record_add(directory, CLIENT, 12));
    off_t before = size_of_it();
    make_room((rlim_t)before + (rlim_t)_i);
    ck_assert(!client_record_add(directory, CLIENT, 345));
    ck_assert(errno == ENOSPC || errno == EFBIG);
    make_room(RLIM_INFINITY);
    ck_assert_int_eq(size_of_it(), before);
    expect((const uint32_t[]){CLIENT, 12}, 2);
    ck_assert(client_record_add(directory, CLIENT, 6789));
    expect((const uint32_t[]){CLIENT, 12, 6789}, 3);
}
END_TEST

/* The agent was killed during the write, or could not remove its incomplete line. The next line
 * replaces the incomplete line. */
START_TEST(half_a_line_goes_with_the_next_one)
{
    create();
    int fd = openat(directory, "5", O_WRONLY | O_APPEND | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, "holder 34", 9), 9);
    close(fd);
    expect((const uint32_t[]){CLIENT}, 1);
    ck_assert(client_record_add(directory, CLIENT, 6));
    expect((const uint32_t[]){CLIENT, 6}, 2);
}
END_TEST

START_TEST(what_is_no_record_is_not_added_to)
{
    static const char rubbish[] =
        "a line without an end that is longer than any that is added here";
    ck_assert(!client_record_add(directory, CLIENT, 6)); /* there is no record yet */
    int fd = openat(directory, "5", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    ck_assert(!client_record_add(directory, CLIENT, 6)); /* the record is empty */
    ck_assert_int_eq(write(fd, rubbish, sizeof(rubbish)), sizeof(rubbish));
    close(fd);
    ck_assert(!client_record_add(directory, CLIENT, 6));
    ck_assert_int_eq(size_of_it(), sizeof(rubbish));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("client_record");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_add_loop_test(tests, a_line_that_is_not_whole_leaves_the_record_good, 0, 10);
    tcase_add_test(tests, half_a_line_goes_with_the_next_one);
    tcase_add_test(tests, what_is_no_record_is_not_added_to);
    return suite_main("client_record", tests);
}
