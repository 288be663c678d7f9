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

/* Maps the record in fd, which is taken; blank if it never was one. NULL: errno. */
static struct lease_file_content *map_record(int fd)
{
    struct stat status;
    const size_t size = sizeof(struct lease_file_content);
    struct lease_file_content *content = MAP_FAILED;
    int error = fstat(fd, &status) != 0 ? errno : 0;
    if (error == 0 && (!S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
                       (status.st_mode & 07777) != 0600)) {
        error = EPERM; /* another's: nothing of it is changed */
    }
    if (error == 0) {
        /* Room is reserved now: a full disk must not show when the mapping is written. */
        error = posix_fallocate(fd, 0, (off_t)size);
    }
    if (error == 0) {
        content = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        error = errno;
    }
    close(fd);
    if (content == MAP_FAILED) {
        errno = error;
        return NULL;
    }
    if (content->magic != LEASE_MAGIC) {
        memset(content, 0, size);
        content->magic = LEASE_MAGIC;
    }
    return content;
}

static void read_record(struct lease_file_content *content, struct lease_record *found)
{
    memcpy(found->boot_id, content->boot_id, sizeof(found->boot_id));
    found->deadline_ns = atomic_load(&content->deadline_ns);
    found->epoch = found->deadline_ns > 0 ? atomic_load(&content->epoch) : 0;
}

static void unmap_record(struct lease_file_content **content)
{
    if (*content != NULL) {
        munmap(*content, sizeof(**content));
        *content = NULL;
    }
}

static bool same_session(const struct lease_record *a, const struct lease_record *b)
{
    return a->epoch == b->epoch && memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id)) == 0;
}

bool lease_file_open(struct lease_file *file, int directory, struct lease_record *found)
{
    *file = (struct lease_file){.disk = NULL};
    *found = (struct lease_record){.epoch = 0};
    int fd = openat(directory, "lease", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    file->disk = fd < 0 ? NULL : map_record(fd);
    if (file->disk == NULL) {
        return false;
    }
    read_record(file->disk, found);
    return true;
}

bool lease_file_share(struct lease_file *file, const char *shm_name, struct lease_record *found)
{
    struct lease_record shared;
    unmap_record(&file->shared);
    int fd = shm_open(shm_name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    file->shared = fd < 0 ? NULL : map_record(fd);
    if (file->shared == NULL) {
        return false;
    }
    read_record(file->shared, &shared);
    if (same_session(&shared, found) && shared.deadline_ns > found->deadline_ns) {
        found->deadline_ns = shared.deadline_ns;
    }
    return true;
}

void lease_file_close(struct lease_file *file)
{
    unmap_record(&file->disk);
    unmap_record(&file->shared);
}

static void write_record(struct lease_file_content *content, const struct lease_record *record)
{
    struct lease_record before;
    read_record(content, &before);
    /* seq_cst: nobody else reads it while this process lives; what counts is that the stores reach
     * the page in this order, whichever of them is the last one before a kill. */
    if (!same_session(&before, record)) {
        atomic_store(&content->deadline_ns, 0);
        atomic_store(&content->epoch, record->epoch);
        memcpy(content->boot_id, record->boot_id, sizeof(content->boot_id));
    }
    atomic_store(&content->deadline_ns, record->deadline_ns);
}

void lease_file_write(struct lease_file *file, const struct lease_record *record)
{
    struct lease_record begun;
    read_record(file->disk, &begun);
    if (!same_session(&begun, record)) {
        write_record(file->disk, record);
    }
    write_record(file->shared, record);
}
