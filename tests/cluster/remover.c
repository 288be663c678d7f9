/*
 * Tests the process that removes regions (io/remover.h). The test acts as the agent. It checks
 * which objects the remover makes, marks, empties, removes and leaves alone, and that the remover
 * ends with the agent.
 */
#include "io/remover.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
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
#include "proto/region.h"
#include "require.h"

enum { SIZE = 1 << 20, SPACE = 7 };

static struct remover *remover;
static char top[64];
static char path[128]; /* the folder of one region */
static struct hfi_header *header;
static int fd;

static int remove_entry(const char *entry, const struct stat *status, int type, struct FTW *walk)
{
    (void)status;
    (void)type;
    (void)walk;
    return remove(entry);
}

static void set_up(void)
{
    snprintf(top, sizeof(top), "/dev/shm/holdfast-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(top));
    remover = remover_open(NULL);
    ck_assert_ptr_nonnull(remover);
}

static void tear_down(void)
{
    remover_close(remover);
    nftw(top, remove_entry, 8, FTW_DEPTH | FTW_PHYS);
}

/* Makes a folder with a region that this process has mapped. */
static void make_region(off_t size)
{
    char object[160];
    snprintf(path, sizeof(path), "%s/space.0123456789abcdef", top);
    snprintf(object, sizeof(object), "%s/region", path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    fd = open(object, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ck_assert(fd >= 0 && fallocate(fd, 0, 0, SIZE) == 0);
    header = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    ck_assert_ptr_ne(header, MAP_FAILED);
    header->magic = HFI_REGION_MAGIC;
    header->version = HFI_REGION_VERSION;
    memset((char *)header + HFI_HEADER_SIZE, 'x', SIZE - HFI_HEADER_SIZE);
    ck_assert_int_eq(ftruncate(fd, size), 0);
}

static void await_gone(void)
{
    for (unsigned ms = 0; ms < GUARD_MS && access(path, F_OK) == 0; ms += 5) {
        sleep_ms(5);
    }
    ck_assert_int_eq(access(path, F_OK), -1);
    /* The remover may report the end of the order a little after it has removed the folder. */
    uint32_t waiting = remover_waiting(remover, SPACE);
    for (unsigned ms = 0; ms < GUARD_MS && waiting > 0; ms += 5) {
        sleep_ms(5);
        waiting = remover_waiting(remover, SPACE);
    }
    ck_assert_uint_eq(waiting, 0);
}

static void order(enum remover_kind kind)
{
    ck_assert(remover_remove(remover, SPACE, kind, path, SIZE));
}

START_TEST(a_folder_is_made_once)
{
    struct stat status;
    int lock = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(path, sizeof(path), "%s/mine", top);
    for (unsigned i = 0; i < 2; i++) {
        int folder = remover_open_folder(remover, path, lock, GUARD_MS);
        ck_assert_msg(folder >= 0, "%s", strerror(errno));
        ck_assert_int_eq(fstat(folder, &status), 0);
        ck_assert_uint_eq(status.st_mode, S_IFDIR | 0700);
        close(folder);
        close(lock); /* the remover has released the lock, or is about to */
        lock = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        for (unsigned ms = 0; ms < GUARD_MS && flock(lock, LOCK_EX | LOCK_NB) != 0; ms += 5) {
            sleep_ms(5);
        }
        flock(lock, LOCK_UN);
    }
    ck_assert_int_eq(rmdir(path), 0);
    ck_assert_int_eq(symlink(top, path), 0);
    ck_assert_int_eq(remover_open_folder(remover, path, lock, GUARD_MS), -1);
    ck_assert(errno == ENOTDIR || errno == ELOOP);
    close(lock);
}
END_TEST

/* A removal that an earlier start has begun still waits for a lock. The next start must not begin
 * it a second time. */
START_TEST(a_folder_that_another_start_waits_for)
{
    int lock = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int other = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(flock(other, LOCK_EX), 0);
    snprintf(path, sizeof(path), "%s/mine", top);
    ck_assert_int_eq(remover_open_folder(remover, path, lock, 100), -1);
    ck_assert_int_eq(errno, ETIMEDOUT);
    ck_assert_int_eq(access(path, F_OK), -1);
    close(other);
    close(lock);
}
END_TEST

/* Another agent may remove a folder right after the listing. The list keeps each folder open. So
 * the agent never looks up a missing name, for which it would need the lock of /dev/shm. */
START_TEST(a_list_has_the_folders_open)
{
    struct remover_list list = {.count = 0};
    struct stat status;
    char prefix[96];
    snprintf(prefix, sizeof(prefix), "%s.", top);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s%u", prefix, i);
        if (i == 0) { /* no folder */
            ck_assert_int_eq(symlink(top, path), 0);
        } else {
            ck_assert_int_eq(mkdir(path, 0700), 0);
        }
    }
    int listing = remover_list(remover, prefix);
    ck_assert_int_ge(listing, 0);
    int came = 0;
    for (unsigned ms = 0; ms < GUARD_MS && came == 0; ms += 5) {
        sleep_ms(5);
        came = remover_listed(listing, &list);
    }
    ck_assert_int_eq(came, 1);
    close(listing);
    for (unsigned i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), "%s%u", prefix, i);
        ck_assert_int_eq(remove(path), 0);
    }
    ck_assert_uint_eq(list.count, 2);
    for (uint32_t i = 0; i < list.count; i++) {
        ck_assert(strcmp(list.endings[i], "1") == 0 || strcmp(list.endings[i], "2") == 0);
        ck_assert_int_eq(fstat(list.folders[i], &status), 0);
        ck_assert_uint_eq(status.st_mode, S_IFDIR | 0700);
        ck_assert_uint_eq(status.st_nlink, 0); /* the agent recognizes a removed folder by this */
    }
    remover_list_end(&list);
    ck_assert_uint_eq(list.count, 0);
}
END_TEST

/* Processes that map an abandoned region learn that the agent has left it. They keep their
 * mapping. */
START_TEST(a_region_is_left)
{
    make_region(SIZE);
    order(REMOVER_FOLDER);
    await_gone();
    ck_assert_uint_eq(atomic_load(&header->abandoned), 1);
    ck_assert_int_eq(((char *)header)[SIZE - 1], 'x');
}
END_TEST

/* The region has a layout that the remover does not know. The remover removes the folder, and
 * writes nothing into the region. */
START_TEST(a_region_of_another_layout_is_left)
{
    make_region(SIZE);
    header->version++;
    order(REMOVER_FOLDER);
    await_gone();
    ck_assert_uint_eq(atomic_load(&header->abandoned), 0);
}
END_TEST

/* After REMOVER_EMPTIED a process that maps the region reads zeros, and the region takes up no
 * memory. This holds however a client has spoilt the region. */
START_TEST(a_region_is_emptied)
{
    static const off_t sizes[] = {SIZE, 0, SIZE / 2, 3 * SIZE};
    struct stat status;
    make_region(sizes[_i]);
    ck_assert_int_eq(fallocate(fd, FALLOC_FL_KEEP_SIZE, 4 * SIZE, SIZE), 0);
    order(REMOVER_EMPTIED);
    await_gone();
    ck_assert_int_eq(fstat(fd, &status), 0);
    ck_assert_int_eq(status.st_size, SIZE);
    ck_assert_int_le(status.st_blocks * 512, HFI_HEADER_SIZE);
    ck_assert_uint_eq(atomic_load(&header->abandoned), 1);
    ck_assert_int_eq(((char *)header)[SIZE - 1], 0);
}
END_TEST

/* A link, or a folder with anything else in it, is not a region of the agent. The remover removes a
 * link but not its target, and leaves such a folder alone. */
START_TEST(what_is_no_region_is_left_alone)
{
    char object[160];
    char victim[128];
    struct stat status;
    snprintf(victim, sizeof(victim), "%s/victim", top);
    int other = open(victim, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    ck_assert_int_eq(ftruncate(other, 5), 0);
    snprintf(path, sizeof(path), "%s/space.0123456789abcdef", top);
    snprintf(object, sizeof(object), "%s/region", path);
    ck_assert(mkdir(path, 0700) == 0 && symlink(victim, object) == 0);
    order(REMOVER_EMPTIED);
    await_gone();
    ck_assert_int_eq(fstat(other, &status), 0);
    ck_assert(status.st_size == 5 && status.st_nlink == 1);
    snprintf(object, sizeof(object), "%s/region/something", path);
    ck_assert_int_eq(mkdir(path, 0700), 0);
    object[strlen(path) + 7] = '\0';
    ck_assert_int_eq(mkdir(object, 0700), 0);
    order(REMOVER_EMPTIED);
    for (unsigned ms = 0; ms < 500 || remover_waiting(remover, SPACE) > 0; ms += 10) {
        sleep_ms(10);
    }
    ck_assert_int_eq(access(object, F_OK), 0);
}
END_TEST

/* The remover is killed. The agent notices that, and its later orders fail. */
START_TEST(it_is_killed)
{
    char children[128];
    char line[64] = "";
    snprintf(children, sizeof(children), "/proc/self/task/%d/children", (int)getpid());
    FILE *file = fopen(children, "re");
    ck_assert(file != NULL && fgets(line, sizeof(line), file) != NULL);
    fclose(file);
    ck_assert_int_eq(kill(atoi(line), SIGKILL), 0);
    for (unsigned ms = 0; ms < GUARD_MS && !remover_ended(remover); ms += 5) {
        (void)remover_waiting(remover, SPACE);
        sleep_ms(5);
    }
    ck_assert(remover_ended(remover));
    make_region(SIZE);
    ck_assert(!remover_remove(remover, SPACE, REMOVER_FOLDER, path, SIZE));
    int lock = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_eq(remover_open_folder(remover, top, lock, GUARD_MS), -1);
    close(lock);
}
END_TEST

/* The remover still carries out the orders that it got before the agent's end. */
START_TEST(the_agent_ends)
{
    int status;
    make_region(SIZE);
    order(REMOVER_EMPTIED);
    remover_close(remover);
    remover = NULL;
    ck_assert_int_gt(wait(&status), 0);
    ck_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    for (unsigned ms = 0; ms < GUARD_MS && access(path, F_OK) == 0; ms += 5) {
        sleep_ms(5);
    }
    ck_assert_int_eq(access(path, F_OK), -1);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("remover");
    tcase_add_checked_fixture(tests, set_up, tear_down);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_folder_is_made_once);
    tcase_add_test(tests, a_folder_that_another_start_waits_for);
    tcase_add_test(tests, a_list_has_the_folders_open);
    tcase_add_test(tests, a_region_is_left);
    tcase_add_test(tests, a_region_of_another_layout_is_left);
    tcase_add_loop_test(tests, a_region_is_emptied, 0, 4);
    tcase_add_test(tests, what_is_no_region_is_left_alone);
    tcase_add_test(tests, it_is_killed);
    tcase_add_test(tests, the_agent_ends);
    return suite_main("remover", tests);
}
