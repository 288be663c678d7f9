/*
 * The lease record and the notes behind it, as the next agent finds them. Their last writer may be
 * an agent of another release.
 */
#include "io/lease_file.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../suite_main.h"

enum { KEPT = 3, DELAYS = 5, REGIONS = 2, DEADLINE_OFFSET = 32 };

static char folder[48];
static const char page[] = "page";
static int folder_fd;
static struct lease_file file;
static struct lease_record found;

static void setup(void)
{
    snprintf(folder, sizeof(folder), "%s/lease-XXXXXX", suite_folder());
    ck_assert_ptr_nonnull(mkdtemp(folder));
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(folder_fd, 0);
}

static void teardown(void)
{
    ck_assert_int_eq(unlinkat(folder_fd, "lease", 0), 0);
    ck_assert_int_eq(unlinkat(folder_fd, page, 0), 0);
    ck_assert_int_eq(close(folder_fd), 0);
    ck_assert_int_eq(rmdir(folder), 0);
}

static void begin(void)
{
    const struct lease_file_room room = {.kept = KEPT, .delays = DELAYS, .regions = REGIONS};
    ck_assert(lease_file_open(&file, folder_fd, &found));
    ck_assert(lease_file_share(&file, folder_fd, page, &room, &found));
    ck_assert_uint_eq(file.room.kept, KEPT);
    ck_assert_uint_eq(file.room.delays, DELAYS);
}

static void promise(uint32_t epoch, int64_t deadline_ns)
{
    const struct lease_record record = {.boot_id = {7}, .epoch = epoch, .deadline_ns = deadline_ns};
    lease_file_write(&file, &record);
}

/* Writes a deadline as an agent of another release does, into one of the files. */
static void write_deadline(int fd, int64_t deadline_ns)
{
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(pwrite(fd, &deadline_ns, sizeof(deadline_ns), DEADLINE_OFFSET),
                     sizeof(deadline_ns));
    ck_assert_int_eq(close(fd), 0);
}

/* Ends the agent as a kill does. */
static void kill_it(void)
{
    file.disk = NULL;
    lease_file_close(&file);
}

/* Plays an agent that promises twice, writes notes, and is killed. */
static void live(void)
{
    begin();
    promise(3, 1000);
    promise(3, 2000);
    atomic_store(&file.kept[1].since_ns, 500);
    atomic_store(&file.delays_ms[DELAYS - 1], 7000);
    kill_it();
}

START_TEST(what_was_kept_is_found_by_the_next_one)
{
    live();
    begin();
    ck_assert_uint_eq(found.epoch, 3);
    ck_assert_int_eq(found.deadline_ns, 2000);
    ck_assert_int_eq(file.kept[1].since_ns, 500);
    ck_assert_int_eq(file.kept[0].since_ns, 0);
    ck_assert_uint_eq(file.delays_ms[DELAYS - 1], 7000);
    ck_assert_uint_eq(file.delays_ms[0], 0);
    lease_file_close(&file);
}
END_TEST

/* The notes about regions are valid only if the agent that wrote the last deadline wrote them, too.
 * The note of the commit is about the store, and is always valid. */
START_TEST(what_is_noted_of_regions)
{
    begin();
    promise(3, 1000);
    lease_file_note_commit(&file, 77);
    atomic_store(&file.regions[1].given_up, 1);
    kill_it();
    begin();
    ck_assert(file.counts && file.regions_count);
    ck_assert_uint_eq(file.regions[1].given_up, 1);
    promise(3, 2000);
    kill_it();
    begin(); /* the second deadline did not remove the note */
    ck_assert(file.regions_count);
    ck_assert_uint_eq(file.regions[1].given_up, 1);
    kill_it();
    /* Meanwhile an agent ran whose release does not know the notes. */
    write_deadline(openat(folder_fd, page, O_WRONLY | O_CLOEXEC), 3000);
    begin();
    ck_assert(file.counts && !file.regions_count);
    ck_assert_uint_eq(file.regions[1].given_up, 0);
    ck_assert_uint_eq(lease_file_commit(&file), 77);
    kill_it();
    begin(); /* the previous agent was killed before it wrote its own notes */
    ck_assert(file.counts && !file.regions_count);
    lease_file_count_notes(&file);
    kill_it();
    begin();
    ck_assert(file.counts && file.regions_count);
    lease_file_close(&file);
}
END_TEST

START_TEST(a_page_that_is_gone_does_not_count)
{
    live();
    ck_assert_int_eq(unlinkat(folder_fd, page, 0), 0);
    begin();
    ck_assert_uint_eq(found.epoch, 3); /* the epoch in the file `lease` */
    ck_assert(!file.counts && !file.regions_count);
    lease_file_close(&file);
}
END_TEST

START_TEST(an_orderly_end_writes_the_last_deadline)
{
    live();
    ck_assert(lease_file_open(&file, folder_fd, &found));
    ck_assert_int_eq(found.deadline_ns, 1000); /* the file gets one deadline in each session */
    lease_file_close(&file);
    begin();
    lease_file_close(&file);
    ck_assert(lease_file_open(&file, folder_fd, &found));
    ck_assert_uint_eq(found.epoch, 3);
    ck_assert_int_eq(found.deadline_ns, 2000);
    lease_file_close(&file);
}
END_TEST

/* In between, an agent of another release had this session. It writes only the file `lease`, not
 * the page, so its give-backs are not in the notes. */
START_TEST(what_was_kept_before_one_that_knows_no_page_is_forgotten)
{
    live();
    write_deadline(openat(folder_fd, "lease", O_WRONLY | O_CLOEXEC), 3000);
    begin();
    ck_assert_int_eq(found.deadline_ns, 3000);
    ck_assert_int_eq(file.kept[1].since_ns, 0);
    ck_assert_uint_eq(file.delays_ms[DELAYS - 1], 0);
    lease_file_close(&file);
}
END_TEST

START_TEST(what_was_kept_before_one_that_keeps_nothing_is_forgotten)
{
    live();
    write_deadline(openat(folder_fd, page, O_WRONLY | O_CLOEXEC), 3000);
    begin();
    ck_assert_int_eq(found.deadline_ns, 3000);
    ck_assert_int_eq(file.kept[1].since_ns, 0);
    ck_assert_uint_eq(file.delays_ms[DELAYS - 1], 0);
    lease_file_close(&file);
}
END_TEST

/* The agent is killed between two writes: it has stored unsaid_ns as the deadline for which the
 * notes are valid, but not as its last deadline. The notes must be kept. */
static void assert_kept_without(int64_t unsaid_ns, int64_t last_ns)
{
    begin();
    promise(3, last_ns);
    promise(3, unsaid_ns);
    kill_it();
    write_deadline(openat(folder_fd, page, O_WRONLY | O_CLOEXEC), last_ns);
    begin();
    ck_assert_int_eq(found.deadline_ns, last_ns);
    ck_assert_uint_eq(file.delays_ms[DELAYS - 1], 7000);
    kill_it();
}

/* An agent runs after an agent of another release, and is killed before its first promise. The next
 * agent still finds the lock-delay that the killed agent noted. */
START_TEST(lock_delays_are_not_lost_before_the_first_promise)
{
    live();
    write_deadline(openat(folder_fd, page, O_WRONLY | O_CLOEXEC), 3000);
    begin();
    ck_assert_uint_eq(file.delays_ms[DELAYS - 1], 0);
    atomic_store(&file.delays_ms[0], 9000);
    kill_it();
    begin();
    ck_assert_int_eq(found.deadline_ns, 3000);
    ck_assert_uint_eq(file.delays_ms[0], 9000);
    kill_it();
}
END_TEST

START_TEST(lock_delays_are_not_lost_between_two_promises)
{
    live();
    assert_kept_without(4000, 3000);
    assert_kept_without(5000, 4000);
    assert_kept_without(6000, 5000);
    assert_kept_without(8000, 7000);
}
END_TEST

/* The layout of the notes differs: an agent that keeps no requests has the notes at another offset,
 * and the notes of another release may have more fields. */
START_TEST(where_they_lie_elsewhere_nothing_is_found)
{
    const struct lease_file_room rooms[] = {{.kept = 0, .delays = DELAYS},
                                            {.kept = KEPT, .delays = DELAYS + 1}};
    live();
    ck_assert(lease_file_open(&file, folder_fd, &found));
    ck_assert(lease_file_share(&file, folder_fd, page, &rooms[_i], &found));
    ck_assert_int_eq(found.deadline_ns, 2000);
    for (uint32_t i = 0; i < rooms[_i].delays; i++) {
        ck_assert_uint_eq(file.delays_ms[i], 0);
    }
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
    ck_assert_uint_eq(file.delays_ms[DELAYS - 1], 0);
    promise(4, 100);
    lease_file_close(&file);
    begin();
    ck_assert_uint_eq(found.epoch, 4);
    ck_assert_int_eq(found.deadline_ns, 100);
    lease_file_close(&file);
}
END_TEST

/* ---- the page as another agent reads it ---- */

static bool read_past(struct lease_file_past *past)
{
    const struct lease_file_room room = {.kept = KEPT, .delays = DELAYS, .regions = REGIONS};
    return lease_file_read(folder_fd, page, &room, past);
}

START_TEST(what_another_agent_reads)
{
    struct lease_file_past past;
    begin();
    file.grace_ns = 600;
    file.space = 44;
    ck_assert(read_past(&past)); /* no session yet */
    ck_assert_uint_eq(past.record.epoch, 0);
    promise(3, 1000);
    atomic_store(&file.delays_ms[DELAYS - 1], 7000);
    promise(3, 2000);
    kill_it();
    ck_assert(read_past(&past));
    ck_assert_uint_eq(past.record.epoch, 3);
    ck_assert_uint_eq(past.record.boot_id[0], 7);
    ck_assert_int_eq(past.record.deadline_ns, 2000);
    ck_assert_int_eq(past.grace_ns, 600);
    ck_assert_uint_eq(past.space, 44);
    ck_assert_int_eq(past.delay_ms, 7000);
    /* Meanwhile an agent of an earlier release ran, which does not know the notes. */
    write_deadline(openat(folder_fd, page, O_WRONLY | O_CLOEXEC), 3000);
    ck_assert(read_past(&past));
    ck_assert_int_eq(past.record.deadline_ns, 3000);
    ck_assert_int_eq(past.delay_ms, -1);
    begin(); /* reading has changed nothing */
    ck_assert_int_eq(found.deadline_ns, 3000);
    kill_it();
}
END_TEST

START_TEST(what_another_agent_does_not_read)
{
    struct lease_file_past past;
    begin();
    promise(3, 1000);
    kill_it();
    ck_assert(read_past(&past));
    ck_assert_int_eq(fchmodat(folder_fd, page, 0644, 0), 0);
    ck_assert(!read_past(&past));
    ck_assert_int_eq(unlinkat(folder_fd, page, 0), 0);
    ck_assert(!read_past(&past));
    ck_assert_int_eq(symlinkat("lease", folder_fd, page), 0);
    ck_assert(!read_past(&past));
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("lease file");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, what_was_kept_is_found_by_the_next_one);
    tcase_add_test(tests, what_is_noted_of_regions);
    tcase_add_test(tests, a_page_that_is_gone_does_not_count);
    tcase_add_test(tests, an_orderly_end_writes_the_last_deadline);
    tcase_add_test(tests, what_was_kept_before_one_that_knows_no_page_is_forgotten);
    tcase_add_test(tests, what_was_kept_before_one_that_keeps_nothing_is_forgotten);
    tcase_add_test(tests, lock_delays_are_not_lost_before_the_first_promise);
    tcase_add_test(tests, lock_delays_are_not_lost_between_two_promises);
    tcase_add_loop_test(tests, where_they_lie_elsewhere_nothing_is_found, 0, 2);
    tcase_add_test(tests, another_session_has_nothing_of_it);
    tcase_add_test(tests, what_another_agent_reads);
    tcase_add_test(tests, what_another_agent_does_not_read);
    return suite_main("lease_file", tests);
}
