/*
 * A region's memory: either all of it is allocated from the start, or the agent can report what is
 * missing. The tests adopt regions with holes, and check the reported cause of a missing page.
 */
#include "io/region.h"

#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../emulation.h"
#include "../suite_main.h"

enum { PAGE = 4096, HOLE = 4 * PAGE, SLACK = REGION_SLACK };

static const struct hfi_region_sizes sizes = {
    .slot_count = 2048, .holder_count = 256, .block_count = 256};
static struct hfi_region_identity identity;
static char folder[48];
static int folder_fd;
static struct region_file file;
static char error[REGION_ERROR_MAX];

static void make_folder(void)
{
    snprintf(folder, sizeof(folder), "/dev/shm/holdfast-unit-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(folder_fd, 0);
}

static void setup(void)
{
    identity = (struct hfi_region_identity){
        .cell = "unit", .namespace_name = "space", .incarnation = 0xabc};
    snprintf(identity.agent, sizeof(identity.agent), "a-%d", (int)getpid());
    make_folder();
    ck_assert(region_file_guard());
    signal(SIGXFSZ, SIG_IGN);
}

static void teardown(void)
{
    region_file_drop(&file, folder_fd);
    region_file_close(&file);
    ck_assert_int_eq(close(folder_fd), 0);
    ck_assert_int_eq(rmdir(folder), 0); /* fails if anything else is in the folder */
}

static void create(void)
{
    bool made = region_file_create(&file, folder_fd, &sizes, &identity, error);
    ck_assert_msg(made, "%s", error);
}

static void adopt(void)
{
    region_file_close(&file);
    bool adopted = region_file_adopt(&file, folder_fd, &sizes, &identity, error);
    ck_assert_msg(adopted, "%s", error);
}

static void is_not_made(const char *why)
{
    char name[REGION_OWN_MAX];
    char bytes[64];
    ck_assert(!region_file_create(&file, folder_fd, &sizes, &identity, error));
    snprintf(bytes, sizeof(bytes), "namespace space takes %llu bytes",
             (unsigned long long)hfi_region_size(&sizes));
    ck_assert_msg(strstr(error, bytes) != NULL && strstr(error, why) != NULL, "%s", error);
    region_own_name("space", identity.incarnation, name);
    ck_assert_int_eq(faccessat(folder_fd, name, F_OK, 0), -1); /* no file is left */
    ck_assert_int_eq(errno, ENOENT);
}

/* Punches a hole into the last pages of the region, which no process has used yet. */
static void punch(void)
{
    off_t at = (off_t)(file.region.size - HOLE) & ~(off_t)(PAGE - 1);
    ck_assert_int_eq(fallocate(file.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, HOLE), 0);
}

static void touch(void)
{
    ((volatile char *)file.memory)[file.region.size - HOLE] = 1;
}

START_TEST(a_region_has_all_its_memory)
{
    struct stat status;
    create();
    ck_assert_int_eq(fstat(file.fd, &status), 0);
    ck_assert_uint_eq((uint64_t)status.st_size, hfi_region_size(&sizes));
    ck_assert_int_ge(status.st_blocks * 512, status.st_size);
    ck_assert_uint_eq(region_file_missing(&file), 0);
}
END_TEST

/* Each region is in its own folder, whose name contains the region's incarnation. */
START_TEST(each_region_has_a_folder)
{
    struct stat status;
    create();
    ck_assert_str_eq(file.own_name, "space.0000000000000abc");
    ck_assert_int_eq(fstatat(folder_fd, "space.0000000000000abc", &status, AT_SYMLINK_NOFOLLOW), 0);
    ck_assert_uint_eq(status.st_mode, S_IFDIR | 0700);
    ck_assert_int_eq(
        fstatat(folder_fd, "space.0000000000000abc/region", &status, AT_SYMLINK_NOFOLLOW), 0);
    ck_assert_uint_eq(status.st_mode, S_IFREG | 0600);
    region_file_close(&file);
    identity.incarnation++; /* the incarnation of another region */
    ck_assert(!region_file_adopt(&file, folder_fd, &sizes, &identity, error));
    identity.incarnation--;
    adopt();
}
END_TEST

/* More than SLACK of memory behind a region's end is found, whether an agent runs or not. */
START_TEST(a_region_that_swells)
{
    create();
    ck_assert_int_eq(fallocate(file.fd, FALLOC_FL_KEEP_SIZE, (off_t)file.region.size, SLACK / 2),
                     0);
    ck_assert_int_eq(region_file_fault(&file), REGION_SOUND);
    adopt();
    ck_assert_int_eq(
        fallocate(file.fd, FALLOC_FL_KEEP_SIZE, (off_t)file.region.size, SLACK + 2 * HOLE), 0);
    ck_assert_int_eq(region_file_fault(&file), REGION_SWOLLEN);
    region_file_close(&file);
    ck_assert(!region_file_adopt(&file, folder_fd, &sizes, &identity, error));
    ck_assert_ptr_nonnull(strstr(error, "of memory behind its end"));
}
END_TEST

START_TEST(holes_are_filled_when_it_is_adopted)
{
    create();
    atomic_store(&file.region.words[7].word, 77);
    punch();
    ck_assert_uint_ge(region_file_missing(&file), HOLE - PAGE);
    adopt();
    if (holes_can_be_filled("region_file")) {
        ck_assert_uint_eq(region_file_missing(&file), 0);
    }
    ck_assert_uint_eq(atomic_load(&file.region.words[7].word), 77);
    ck_assert(!region_file_is_rubbish(&file));
}
END_TEST

START_TEST(what_has_only_zeros_is_given_back)
{
    create();
    uint32_t slot = file.region.slot_count - 1;
    atomic_store(&file.region.words[slot].word, 77);
    static unsigned char before[HFI_HEADER_SIZE];
    memcpy(before, file.memory, sizeof(before));
    region_file_slim(&file);
    uint64_t missing = region_file_missing(&file);
    ck_assert_uint_gt(missing, 0);
    ck_assert_uint_lt(missing, file.region.size);
    ck_assert_int_eq(memcmp(before, file.memory, sizeof(before)), 0);
    ck_assert_uint_eq(atomic_load(&file.region.words[slot].word), 77);
    adopt();
    if (holes_can_be_filled("region_file")) {
        ck_assert_uint_eq(region_file_missing(&file), 0);
    }
    ck_assert_uint_eq(atomic_load(&file.region.words[slot].word), 77);
}
END_TEST

/* A read fills a hole with a page that the kernel counts as unchanged. When the kernel drops its
 * caches, it could take this page back, and the agent would blame a process for the hole. */
START_TEST(pages_that_reads_have_filled_stay)
{
    create();
    region_file_slim(&file);
    uint64_t size = file.region.size;
    volatile unsigned char *other = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file.fd,
                                         0);
    ck_assert_ptr_ne((void *)other, MAP_FAILED);
    for (uint64_t at = 0; at < size; at += PAGE) {
        (void)other[at];
    }
    ck_assert_uint_eq(region_file_missing(&file), 0);
    adopt();
    if (holes_can_be_filled("region_file")) {
        /* the kernel takes back all pages that only this mapping uses */
        (void)madvise((void *)other, size, MADV_PAGEOUT);
        ck_assert_int_eq(munmap((void *)other, size), 0);
        (void)madvise(file.memory, size, MADV_PAGEOUT);
        ck_assert_uint_eq(region_file_missing(&file), 0);
        ck_assert_int_eq(region_file_fault(&file), REGION_SOUND);
    }
}
END_TEST

START_TEST(a_limit_of_file_sizes_is_told)
{
    struct rlimit limit = {.rlim_cur = hfi_region_size(&sizes) - 1, .rlim_max = RLIM_INFINITY};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    is_not_made("LimitFSIZE");
    limit.rlim_cur = RLIM_INFINITY;
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    create();
}
END_TEST

START_TEST(a_limit_of_descriptors_is_told)
{
    struct rlimit before;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &before), 0);
    struct rlimit none = {.rlim_cur = 0, .rlim_max = before.rlim_max};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    bool made = region_file_create(&file, folder_fd, &sizes, &identity, error);
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &before), 0);
    ck_assert(!made);
    ck_assert_ptr_nonnull(strstr(error, "LimitNOFILE"));
    create();
}
END_TEST

/* Mounts a /dev/shm of this process's own. Returns false if the process may not do that. */
static bool own_shared_memory(const char *size)
{
    return unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("tmpfs", "/dev/shm", "tmpfs", 0, size) == 0;
}

/* Moves to a new /dev/shm, in which the test's first folder is not visible. */
static bool move_to_own_memory(const char *size)
{
    char before[48];
    memcpy(before, folder, sizeof(before));
    ck_assert_int_eq(rmdir(before), 0);
    ck_assert_int_eq(close(folder_fd), 0);
    bool own = own_shared_memory(size);
    make_folder();
    return own;
}

static void fill(void)
{
    static char bytes[PAGE];
    int fd = shm_open("/filler", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    ck_assert_int_ge(fd, 0);
    for (unsigned i = 0; i < 4096 && write(fd, bytes, sizeof(bytes)) > 0; i++) {
    }
    ck_assert_int_eq(write(fd, bytes, 1), -1);
    ck_assert_int_eq(errno, ENOSPC);
    close(fd);
}

START_TEST(no_room_is_told)
{
    if (move_to_own_memory("size=128k")) {
        is_not_made("make room in /dev/shm");
        ck_assert_ptr_nonnull(strstr(error, "131072 are free"));
    }
}
END_TEST

/* If there is no room to fill a hole, the region is adopted with the hole. */
START_TEST(a_hole_that_cannot_be_filled)
{
    if (!move_to_own_memory("size=8M")) {
        return;
    }
    create();
    atomic_store(&file.region.words[7].word, 77);
    punch();
    fill();
    adopt();
    ck_assert_uint_gt(region_file_missing(&file), 0);
    ck_assert_uint_eq(atomic_load(&file.region.words[7].word), 77);
    ck_assert(!region_file_is_rubbish(&file));
    touch();
    ck_assert(region_file_is_rubbish(&file));
    ck_assert_int_eq(region_file_fault(&file), REGION_ROOMLESS);
}
END_TEST

START_TEST(a_region_that_is_cut)
{
    create();
    ck_assert_int_eq(ftruncate(file.fd, PAGE), 0);
    touch();
    ck_assert(region_file_is_rubbish(&file));
    ck_assert_int_eq(region_file_fault(&file), REGION_CUT);
}
END_TEST

int main(void)
{
    TCase *tests = tcase_create("region files");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, a_region_has_all_its_memory);
    tcase_add_test(tests, holes_are_filled_when_it_is_adopted);
    tcase_add_test(tests, pages_that_reads_have_filled_stay);
    tcase_add_test(tests, what_has_only_zeros_is_given_back);
    tcase_add_test(tests, a_limit_of_file_sizes_is_told);
    tcase_add_test(tests, a_limit_of_descriptors_is_told);
    tcase_add_test(tests, no_room_is_told);
    tcase_add_test(tests, a_hole_that_cannot_be_filled);
    tcase_add_test(tests, a_region_that_is_cut);
    tcase_add_test(tests, each_region_has_a_folder);
    tcase_add_test(tests, a_region_that_swells);
    return suite_main("region files", tests);
}
