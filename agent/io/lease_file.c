/* The lease file: see io/lease_file.h. */
#include "io/lease_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEASE_MAGIC UINT64_C(0x3145534145444c48) /* "HLDEASE1" as bytes */

struct lease_file_content {
    uint64_t magic;
    uint8_t boot_id[16];
    _Atomic uint32_t epoch;
    uint32_t unused;
    _Atomic int64_t deadline_ns; /* 0: the rest does not count */
};

bool lease_file_open(struct lease_file *file, int directory, struct lease_record *found)
{
    struct stat status;
    const size_t size = sizeof(struct lease_file_content);
    void *memory = MAP_FAILED;
    *found = (struct lease_record){.epoch = 0};
    int fd = openat(directory, "lease", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        return false;
    }
    /* Blocks are reserved now: a full disk must not show when the mapping is written. */
    int error = posix_fallocate(fd, 0, (off_t)size);
    if (error == 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode)) {
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    error = error != 0 ? error : errno;
    close(fd);
    if (memory == MAP_FAILED) {
        errno = error;
        return false;
    }
    file->content = memory;
    if (file->content->magic != LEASE_MAGIC) {
        memset(memory, 0, size);
        file->content->magic = LEASE_MAGIC;
    }
    memcpy(found->boot_id, file->content->boot_id, sizeof(found->boot_id));
    found->deadline_ns = atomic_load(&file->content->deadline_ns);
    found->epoch = found->deadline_ns > 0 ? atomic_load(&file->content->epoch) : 0;
    return true;
}

void lease_file_close(struct lease_file *file)
{
    if (file->content != NULL) {
        munmap(file->content, sizeof(*file->content));
        file->content = NULL;
    }
}

void lease_file_write(struct lease_file *file, const struct lease_record *record)
{
    struct lease_file_content *content = file->content;
    /* seq_cst: nobody else reads it while this process lives; what counts is that the stores reach
     * the page in this order, whichever of them is the last one before a kill. */
    if (atomic_load(&content->epoch) != record->epoch ||
        memcmp(content->boot_id, record->boot_id, sizeof(content->boot_id)) != 0) {
        atomic_store(&content->deadline_ns, 0);
        atomic_store(&content->epoch, record->epoch);
        memcpy(content->boot_id, record->boot_id, sizeof(content->boot_id));
    }
    atomic_store(&content->deadline_ns, record->deadline_ns);
}
