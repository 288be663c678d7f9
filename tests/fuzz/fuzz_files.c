/*
 * The small files that an agent reads after its predecessor: the lease, the records of clients, and
 * the region to adopt, which may have any size. The agent refuses each file, or the values that it
 * reads are within bounds. The first byte of an input selects the file. The other bytes are its
 * content.
 */
#include "fuzz.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/client_record.h"
#include "io/lease_file.h"
#include "io/region.h"
#include "proto/check.h"

enum { FILE_BYTES_MAX = 1400, CLIENT = 7 };

static const struct hfi_region_sizes sizes = {2, 4, 1};
static struct hfi_region_identity identity = {
    .cell = "fuzz", .namespace_name = "default", .grace_ns = 5, .incarnation = 9};
static char folder[64];
static int folder_fd = -1;
static char own_name[REGION_OWN_MAX];
static char object[REGION_OWN_MAX + 16];

static const char page[] = "page"; /* the name of the lease's page, which is in shared memory; here
                                    * the page is a file in the folder */

static void remove_folder(void)
{
    unlinkat(folder_fd, object, 0);
    unlinkat(folder_fd, own_name, AT_REMOVEDIR);
    unlinkat(folder_fd, page, 0);
    unlinkat(folder_fd, "lease", 0);
    unlinkat(folder_fd, "7", 0);
    rmdir(folder);
}

static void make_folder(void)
{
    if (folder_fd >= 0) {
        return;
    }
    snprintf(folder, sizeof(folder), "/tmp/holdfast-fuzz.XXXXXX");
    HF_CHECK(mkdtemp(folder) != NULL);
    folder_fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    snprintf(identity.agent, sizeof(identity.agent), "fuzz-%ld", (long)getpid());
    HF_CHECK(folder_fd >= 0 && atexit(remove_folder) == 0 && region_file_guard());
    region_own_name(identity.namespace_name, identity.incarnation, own_name);
    snprintf(object, sizeof(object), "%s/region", own_name);
    HF_CHECK(mkdirat(folder_fd, own_name, 0700) == 0);
}

/* Writes the first bytes of a new region, which are the seeds for adopt_region(). Returns their
 * number. */
static size_t region_bytes(uint8_t *bytes)
{
    uint64_t size = hfi_region_size(&sizes);
    void *memory = aligned_alloc(HFI_HEADER_SIZE, (size + 4095) / 4096 * 4096);
    HF_CHECK(memory != NULL);
    memset(memory, 0, size);
    hfi_region_format(memory, &sizes, &identity);
    memcpy(bytes, memory, 512);
    free(memory);
    return 512;
}

static size_t files_seed(size_t index, uint8_t *bytes, size_t size)
{
    static const char *const lines =
        "pid 4711\nuid 1000\nnonce 00f1e2d3c4b5a697\ncommand sh -c make\nholder 7\nholder 9\n";
    static const uint64_t lease[] = {UINT64_C(0x3145534145444c48), 1, 2, 3, 1000,
                                     UINT64_C(0x3145534145444c48), 1, 2, 3, 2000};
    bytes[0] = (uint8_t)index;
    make_folder();
    HF_CHECK(size >= FILE_BYTES_MAX);
    switch (index) {
    case 0:
        memcpy(bytes + 1, lease, sizeof(lease));
        return 1 + sizeof(lease);
    case 1:
        memcpy(bytes + 1, lines, strlen(lines));
        return 1 + strlen(lines);
    case 2: /* seed 2 is a whole region; seed 3 is the same region, which shrinks */
    case 3:
        return 1 + region_bytes(bytes + 1);
    default:
        return 0;
    }
}

static void write_file(const char *name, const uint8_t *bytes, size_t size)
{
    int fd = openat(folder_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    HF_CHECK(fd >= 0 && write(fd, bytes, size) == (ssize_t)size && close(fd) == 0);
}

/* Reads a lease. The first half of the input is the file, the second half is the page of shared
 * memory. */
static void read_lease(const uint8_t *bytes, size_t size)
{
    struct lease_file file;
    struct lease_record found;
    struct lease_record again = {.epoch = 5, .deadline_ns = 77};
    const struct lease_file_room none = {0};
    const struct lease_file_room room = {.kept = 4, .delays = 3};
    write_file("lease", bytes, size / 2);
    int fd = openat(folder_fd, page, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    HF_CHECK(fd >= 0 && write(fd, bytes + size / 2, size - size / 2) >= 0 && close(fd) == 0);
    HF_CHECK(lease_file_open(&file, folder_fd, &found));
    uint32_t epoch = found.epoch;
    HF_CHECK(lease_file_share(&file, folder_fd, page, &none, &found) && found.epoch == epoch);
    HF_CHECK(found.epoch == 0 || found.deadline_ns > 0);
    lease_file_write(&file, &again);
    lease_file_close(&file);
    HF_CHECK(lease_file_open(&file, folder_fd, &found) && found.epoch == 5);
    HF_CHECK(lease_file_share(&file, folder_fd, page, &room, &found) && found.deadline_ns == 77);
    lease_file_close(&file);
}

static void read_record(const uint8_t *bytes, size_t size)
{
    struct client_record record;
    write_file("7", bytes, size);
    if (!client_record_read(folder_fd, CLIENT, &record)) {
        return;
    }
    HF_CHECK(record.client == CLIENT && record.holder_count > 0);
    HF_CHECK(record.holder_count <= size && record.holders[0] == CLIENT);
    HF_CHECK(memchr(record.command, 0, sizeof(record.command)) != NULL);
    for (uint32_t i = 0; i < record.holder_count; i++) {
        HF_CHECK(record.holders[i] >= 1 && record.holders[i] <= HFI_HOLDER_MAX);
    }
    HF_CHECK(client_record_add(folder_fd, CLIENT, 3));
    client_record_free(&record);
}

/* Adopts a region. If `cut` is set, the file shrinks to `size` bytes after the adoption, and then
 * the agent reads it. */
static void adopt_region(const uint8_t *bytes, size_t size, bool cut)
{
    struct region_file file;
    char error[REGION_ERROR_MAX];
    uint64_t whole = hfi_region_size(&sizes);
    int fd = openat(folder_fd, object, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    HF_CHECK(fd >= 0 && fchmod(fd, 0600) == 0 && pwrite(fd, bytes, size, 0) == (ssize_t)size);
    bool odd = size > 700; /* the file does not have the size that its header implies */
    HF_CHECK(ftruncate(fd, odd ? (off_t)size * 8 : (off_t)whole) == 0);
    memset(error, 'x', sizeof(error));
    if (!region_file_adopt(&file, folder_fd, &sizes, &identity, error)) {
        HF_CHECK(memchr(error, 0, sizeof(error)) != NULL && error[0] != 0);
    } else {
        HF_CHECK(file.region.slot_count == sizes.slot_count && !odd);
        if (cut) {
            HF_CHECK(ftruncate(fd, size > 520 ? (off_t)(size - 520) * 32 : 0) == 0);
        }
        for (uint32_t i = 0; i < file.region.slot_count; i++) {
            atomic_store(&file.region.words[i].word, HFI_W_CLOSED);
            (void)hfi_index_token(&file.region, hfi_name_hash("a", 1));
            atomic_fetch_add(&file.region.blocks[0].next, 1);
        }
        HF_CHECK(!region_file_is_rubbish(&file) || cut);
        region_file_close(&file);
    }
    close(fd);
    HF_CHECK(unlinkat(folder_fd, object, 0) == 0);
}

static void files_entry(const uint8_t *bytes, size_t size)
{
    if (size == 0) {
        return;
    }
    make_folder();
    switch (bytes[0] % 4) {
    case 0:
        read_lease(bytes + 1, size - 1);
        break;
    case 1:
        read_record(bytes + 1, size - 1);
        break;
    default:
        adopt_region(bytes + 1, size - 1, bytes[0] % 4 == 3);
    }
}

const struct fuzz_target fuzz_target = {"files", files_entry, files_seed, FILE_BYTES_MAX};
