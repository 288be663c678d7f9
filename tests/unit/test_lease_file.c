/*
 * The lease record and what is kept behind it: what the next agent finds, whoever wrote last.
 */
#include "io/lease_file.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../suite_main.h"

enum { KEPT = 3, DEADLINE_OFFSET = 32 };

static char folder[32];
static char page[64];
static int folder_fd;
static struct lease_file file;
static struct lease_record found;

static void setup(void)
{
    snprintf(folder, sizeof(folder), "/tmp/hf-lease-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(folder_fd, 0);
    snprintf(page, sizeof(page), "/holdfast.unit.%d.LEASE", (int)getpid());
    shm_unlink(page); /* of a process that was killed and had this number */
}

static void teardown(void)
{
    ck_assert_int_eq(unlinkat(folder_fd, "lease", 0), 0);
    ck_assert_int_eq(shm_unlink(page), 0);
    ck_assert_int_eq(close(folder_fd), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

static void begin(void)
{
    ck_assert(lease_file_open(&file, folder_fd, &found));
    ck_assert(lease_file_share(&file, page, KEPT, &found));
    ck_assert_uint_eq(file.kept_count, KEPT);
}

static void promise(uint32_t epoch, int64_t deadline_ns)
{
    const struct lease_record record = {.boot_id = {7}, .epoch = epoch, .deadline_ns = deadline_ns};
    lease_file_write(&file, &record);
}

/* What an agent of another release writes: a deadline, in a file that it knows. */
static void write_deadline(int fd, int64_t deadline_ns)
{
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, &deadline_ns, sizeof(deadline_ns), DEADLINE_OFFSET),
                     sizeof(deadline_ns));
    ck_assert_int_eq(close(fd), 0);
}

/* An agent promises twice, keeps something, and is killed. */
static void live(void)
{
    begin();
    promise(3, 1000);
    promise(3, 2000);
    atomic_store(&file.kept[1].since_ns, 500);
    file.disk = NULL; /* no orderly end */
    lease_file_close(&file);
}

START_TEST(what_was_kept_is_found_by_the_next_one)
{
    live();
    begin();
    ck_assert_uint_eq(found.epoch, 3);
    ck_assert_int_eq(found.deadline_ns, 2000);
    ck_assert_int_eq(file.kept[1].since_ns, 500);
    ck_assert_int_eq(file.kept[0].since_ns, 0);
    lease_file_close(&file);
}
END_TEST

START_TEST(an_orderly_end_writes_the_last_deadline)
{
    live();
    ck_assert(lease_file_open(&file, folder_fd, &found));
    ck_assert_int_eq(found.deadline_ns, 1000); /* written once a session */
    lease_file_close(&file);
    begin();
    lease_file_close(&file);
    ck_assert(lease_file_open(&file, folder_fd, &found));
    ck_assert_uint_eq(found.epoch, 3);
    ck_assert_int_eq(found.deadline_ns, 2000);
    lease_file_close(&file);
}
END_TEST

/* It had this session in between, and knows the file alone: what it returned nobody noted. */
START_TEST(what_was_kept_before_one_that_knows_no_page_is_forgotten)
{
    live();
    write_deadline(openat(folder_fd, "lease", O_WRONLY | O_CLOEXEC), 3000);
    begin();
    ck_assert_int_eq(found.deadline_ns, 3000);
    ck_assert_int_eq(file.kept[1].since_ns, 0);
    lease_file_close(&file);
}
END_TEST

START_TEST(what_was_kept_before_one_that_keeps_nothing_is_forgotten)
{
    live();
    write_deadline(shm_open(page, O_WRONLY | O_CLOEXEC, 0), 3000);
    begin();
    ck_assert_int_eq(found.deadline_ns, 3000);
    ck_assert_int_eq(file.kept[1].since_ns, 0);
    lease_file_close(&file);
}
END_TEST

START_TEST(another_session_has_nothing_of_it)
{
    live();
    ck_assert_int_eq(unlinkat(folder_fd, "lease", 0), 0);
    begin();
    ck_assert_uint_eq(found.epoch, 0);
    ck_assert_int_eq(file.kept[1].since_ns, 0);
    promise(4, 100);
    lease_file_close(&file);
    begin();
    ck_assert_uint_eq(found.epoch, 4);
    ck_assert_int_eq(found.deadline_ns, 100);
    lease_file_close(&file);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("lease file");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_was_kept_is_found_by_the_next_one);
    tcase_add_test(tests, an_orderly_end_writes_the_last_deadline);
    tcase_add_test(tests, what_was_kept_before_one_that_knows_no_page_is_forgotten);
    tcase_add_test(tests, what_was_kept_before_one_that_keeps_nothing_is_forgotten);
    tcase_add_test(tests, another_session_has_nothing_of_it);
    return suite_main("lease_file", tests);
}
