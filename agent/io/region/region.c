/* Region upkeep: see io/region.h. */
#include "io/region.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "io/late_close.h"
#include "proto/check.h"

enum { HUSH_READS_MAX = 32, RESERVE_TRIES_MAX = 100, SLIM_PIECE = 4096 };

/* ---- pages that are gone ---- */

struct watched {
    _Atomic uintptr_t begin; /* 0: a free place */
    _Atomic uintptr_t end;
    _Atomic bool rubbish;
};

/* One thread writes it; the handler interrupts that thread and reads. So every order would do;
 * seq_cst is used since none of it is hot. */
static struct watched watched[REGION_FILES_MAX];

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    (void)context;
    int error = errno;
    uintptr_t at = (uintptr_t)info->si_addr;
    for (size_t i = 0; i < REGION_FILES_MAX; i++) {
        uintptr_t begin = atomic_load(&watched[i].begin);
        uintptr_t end = atomic_load(&watched[i].end);
        if (begin == 0 || at < begin || at >= end || atomic_load(&watched[i].rubbish)) {
            continue;
        }
        atomic_store(&watched[i].rubbish, true);
        /* mmap is no more than a system call here, and so as safe as those that POSIX lists. */
        if (mmap((void *)begin, end - begin, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED) {
            errno = error;
            return;
        }
    }
    signal(number, SIG_DFL); /* the access is repeated, and ends the process */
}

bool region_file_guard(void)
{
    struct sigaction action = {.sa_sigaction = on_sigbus, .sa_flags = SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    return sigaction(SIGBUS, &action, NULL) == 0;
}

static void watch_mapping(struct region_file *file, uint64_t size)
{
    for (int i = 0; i < REGION_FILES_MAX; i++) {
        if (atomic_load(&watched[i].begin) == 0) {
            atomic_store(&watched[i].rubbish, false);
            atomic_store(&watched[i].end, (uintptr_t)file->memory + size);
            atomic_store(&watched[i].begin, (uintptr_t)file->memory);
            file->watched = i;
            return;
        }
    }
    HF_CHECK(!"more regions than namespaces");
}

bool region_file_is_rubbish(const struct region_file *file)
{
    return file->watched >= 0 && atomic_load(&watched[file->watched].rubbish);
}

/* ---- objects ---- */

void region_file_init(struct region_file *file)
{
    *file = (struct region_file){.fd = -1, .bell_fd = -1, .bell_client_fd = -1, .watched = -1};
}

void region_file_name(const struct hfi_region_identity *identity, char out[REGION_NAME_MAX])
{
    char id[2 * sizeof(identity->store_id) + 1];
    for (size_t i = 0; i < sizeof(identity->store_id); i++) {
        snprintf(id + 2 * i, 3, "%02x", identity->store_id[i]);
    }
    snprintf(out, REGION_NAME_MAX, "/holdfast.%s.%s.%s.%s", identity->cell, identity->agent, id,
             identity->namespace_name);
}

/* Clients have the same files. */
static void close_fd(int *fd)
{
    late_close(*fd, (uid_t)-1);
    *fd = -1;
}

void region_file_leave(struct region_file *file)
{
    if (file->watched >= 0) {
        atomic_store(&watched[file->watched].begin, 0);
        file->watched = -1;
    }
    if (file->memory != NULL) {
        munmap(file->memory, file->region.size);
        file->memory = NULL;
    }
    close_fd(&file->fd);
}

void region_file_close(struct region_file *file)
{
    region_file_leave(file);
    close_fd(&file->bell_fd);
    close_fd(&file->bell_client_fd);
}

/* What helps against that errno, wherever it comes from; "": nothing that is known here. */
static const char *limit_remedy(int error)
{
    switch (error) {
    case EMFILE:
        return ": raise LimitNOFILE (ulimit -n)";
    case ENFILE:
        return ": the whole machine has no descriptors left (fs.file-max)";
    case ENOMEM:
        return ": give the agent more memory (MemoryMax, ulimit -v)";
    default:
        return "";
    }
}

static bool fail(char *error, const char *what, const char *where)
{
    int reason = errno;
    snprintf(error, REGION_ERROR_MAX, "%s: %s: %s%s", where, what, strerror(reason),
             limit_remedy(reason));
    return false;
}

/* Memory for all of it now, which is its size at least afterwards. 0, or an errno. */
static int reserve(int fd, uint64_t size)
{
    int error = EINTR;
    for (unsigned i = 0; error == EINTR && i < RESERVE_TRIES_MAX; i++) {
        error = fallocate(fd, 0, 0, (off_t)size) == 0 ? 0 : errno;
    }
    if (error == EOPNOTSUPP) { /* a ramfs: it has no size that others could fill */
        error = ftruncate(fd, (off_t)size) == 0 ? 0 : errno;
    }
    return error;
}

/* What helps if there is not room enough, up to the other thing that always does. */
static const char *room_remedy(int error)
{
    switch (error) {
    case ENOSPC:
        return "make room in /dev/shm, or make it larger (mount -o remount,size=...), or ";
    case EDQUOT:
        return "raise this user's quota in /dev/shm, or ";
    case EFBIG:
        return "raise the limit of a file's size (LimitFSIZE, ulimit -f), or ";
    case ENOMEM:
        return "give the agent more memory (MemoryMax), or ";
    case EINTR:
        return "start it again (signals kept interrupting it), or ";
    default:
        return "";
    }
}

static bool fail_room(const struct region_file *file, uint64_t size, int reason, char *error)
{
    struct statvfs room;
    char free_bytes[64] = "";
    if (fstatvfs(file->fd, &room) == 0) {
        snprintf(free_bytes, sizeof(free_bytes), ", %llu are free",
                 (unsigned long long)room.f_bavail * room.f_frsize);
    }
    snprintf(error, REGION_ERROR_MAX,
             "/dev/shm%s: %s: the region of namespace %s takes %llu bytes from the start%s: %s"
             "lower `locks` and `blocks` in [limits]",
             file->shm_name, strerror(reason), file->bell_name, (unsigned long long)size,
             free_bytes, room_remedy(reason));
    return false;
}

uint64_t region_file_missing(const struct region_file *file)
{
    struct stat status;
    if (fstat(file->fd, &status) != 0) {
        return 0;
    }
    uint64_t size = (uint64_t)status.st_size;
    uint64_t there = (uint64_t)status.st_blocks * 512;
    return there < size ? size - there : 0;
}

/* Maps size bytes of the descriptor and watches over them. */
static bool map(struct region_file *file, uint64_t size, char *error)
{
    void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
    if (memory == MAP_FAILED) {
        return fail(error, "cannot map it", file->shm_name);
    }
    file->memory = memory;
    file->region.size = size;
    watch_mapping(file, size);
    return true;
}

enum { BELL_PATH_MAX = REGION_NAME_MAX + 32 };

/* No namespace's name has capitals. */
static void bell_path(const char *shm_name, char out[BELL_PATH_MAX])
{
    snprintf(out, BELL_PATH_MAX, "/dev/shm%s.BELL", shm_name);
}

static void bell_remove(const char *shm_name)
{
    char path[BELL_PATH_MAX];
    bell_path(shm_name, path);
    unlink(path);
}

static int open_bell_end(const struct region_file *file, int bells)
{
    const int flags = O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW;
    char path[BELL_PATH_MAX];
    bell_path(file->shm_name, path);
    int fd = open(path, flags);
    return fd < 0 && errno == ENOENT ? openat(bells, file->bell_name, flags) : fd;
}

static bool open_bell(struct region_file *file, int bells, bool fresh, char *error)
{
    struct stat status;
    if (fresh) {
        char path[BELL_PATH_MAX];
        bell_path(file->shm_name, path);
        unlinkat(bells, file->bell_name, 0);
        bell_remove(file->shm_name);
        if (mkfifo(path, 0600) != 0) {
            return fail(error, "cannot make the bell", path);
        }
    }
    file->bell_fd = open_bell_end(file, bells);
    file->bell_client_fd = open_bell_end(file, bells);
    if (file->bell_fd < 0 || file->bell_client_fd < 0 || fstat(file->bell_fd, &status) != 0) {
        return fail(error, "cannot open the bell", file->bell_name);
    }
    if (!S_ISFIFO(status.st_mode) || status.st_uid != geteuid() ||
        (status.st_mode & 0777) != 0600) {
        snprintf(error, REGION_ERROR_MAX, "bell %s: expected a FIFO of this user, mode 0600",
                 file->bell_name);
        return false;
    }
    return true;
}

/* What is in the header of such a region and never changes; and how much memory it has now. */
static void note_made(struct region_file *file, const struct hfi_region_sizes *sizes,
                      const struct hfi_region_identity *identity)
{
    struct hfi_header header = {0};
    struct stat status;
    hfi_region_format(&header, sizes, identity);
    memcpy(file->made, &header, sizeof(file->made));
    file->blocks = fstat(file->fd, &status) == 0 ? (uint64_t)status.st_blocks : 0;
}

bool region_file_create_again(struct region_file *file, int bells,
                              const struct hfi_region_sizes *sizes,
                              const struct hfi_region_identity *identity, char *error)
{
    region_file_leave(file);
    region_file_name(identity, file->shm_name);
    snprintf(file->bell_name, sizeof(file->bell_name), "%s", identity->namespace_name);
    uint64_t size = hfi_region_size(sizes);
    HF_CHECK(size > 0);
    shm_unlink(file->shm_name);
    file->fd = shm_open(file->shm_name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file->fd < 0 && errno == EEXIST) {
        snprintf(error, REGION_ERROR_MAX,
                 "/dev/shm%s: found an object of somebody else's there, expected none: remove it",
                 file->shm_name);
        return false;
    }
    if (file->fd < 0) {
        return fail(error, "cannot make it", file->shm_name);
    }
    if (fchmod(file->fd, 0600) != 0) {
        fail(error, "cannot set its mode", file->shm_name);
        goto failed;
    }
    int reason = reserve(file->fd, size);
    if (reason != 0) {
        fail_room(file, size, reason, error);
        goto failed;
    }
    if (!map(file, size, error)) {
        goto failed;
    }
    hfi_region_format(file->memory, sizes, identity);
    const char *wrong = hfi_region_attach(file->memory, size, &file->region);
    if (wrong != NULL || region_file_is_rubbish(file)) {
        snprintf(error, REGION_ERROR_MAX, "%s: cannot write it: %s", file->shm_name,
                 wrong != NULL ? wrong : "its memory is gone");
        goto failed;
    }
    if (file->bell_fd < 0 && !open_bell(file, bells, true, error)) {
        close_fd(&file->bell_fd);
        close_fd(&file->bell_client_fd);
        goto failed;
    }
    note_made(file, sizes, identity);
    return true;
failed:
    shm_unlink(file->shm_name);
    if (file->bell_fd < 0) {
        bell_remove(file->shm_name);
    }
    region_file_leave(file);
    return false;
}

bool region_file_create(struct region_file *file, int bells, const struct hfi_region_sizes *sizes,
                        const struct hfi_region_identity *identity, char *error)
{
    region_file_init(file);
    return region_file_create_again(file, bells, sizes, identity, error);
}

/* The owner, mode and size of what was left. */
static bool check_object(const struct region_file *file, uint64_t size, char *error)
{
    struct stat status;
    if (fstat(file->fd, &status) != 0) {
        return fail(error, "cannot look at it", file->shm_name);
    }
    if (status.st_uid != geteuid() || (status.st_mode & 07777) != 0600) {
        snprintf(error, REGION_ERROR_MAX, "%s: found owner %u, mode %04o, expected %u, 0600",
                 file->shm_name, (unsigned)status.st_uid, (unsigned)(status.st_mode & 07777),
                 (unsigned)geteuid());
        return false;
    }
    if ((uint64_t)status.st_size != size) {
        snprintf(error, REGION_ERROR_MAX,
                 "%s: found %lld bytes, expected %llu as the [limits] have it", file->shm_name,
                 (long long)status.st_size, (unsigned long long)size);
        return false;
    }
    return true;
}

/* One by one: what a region says of itself. NULL: all is as expected. */
static const char *identity_difference(const struct hfi_header *header,
                                       const struct hfi_region_identity *expected)
{
    if (memcmp(header->store_id, expected->store_id, sizeof(header->store_id)) != 0) {
        return "store id";
    }
    if (memcmp(header->boot_id, expected->boot_id, sizeof(header->boot_id)) != 0) {
        return "boot id";
    }
    if (memcmp(header->cell, expected->cell, sizeof(header->cell)) != 0) {
        return "cell";
    }
    if (memcmp(header->agent, expected->agent, sizeof(header->agent)) != 0) {
        return "agent";
    }
    if (memcmp(header->namespace_name, expected->namespace_name, sizeof(header->namespace_name)) !=
        0) {
        return "namespace";
    }
    return header->grace_ns == expected->grace_ns ? NULL : "grace period";
}

bool region_file_adopt(struct region_file *file, int bells, const struct hfi_region_sizes *sizes,
                       const struct hfi_region_identity *identity, char *error)
{
    region_file_init(file);
    region_file_name(identity, file->shm_name);
    snprintf(file->bell_name, sizeof(file->bell_name), "%s", identity->namespace_name);
    uint64_t size = hfi_region_size(sizes);
    HF_CHECK(size > 0);
    file->fd = shm_open(file->shm_name, O_RDWR | O_CLOEXEC, 0);
    if (file->fd < 0) {
        return fail(error, "cannot open it", file->shm_name);
    }
    if (!check_object(file, size, error)) {
        goto failed;
    }
    if (region_file_missing(file) > 0) {
        /* Before a page is touched. Without room it is as good as it was: nobody is to lose his
         * holds for it now. */
        (void)reserve(file->fd, size);
    }
    if (!map(file, size, error)) {
        goto failed;
    }
    const char *wrong = hfi_region_attach(file->memory, size, &file->region);
    const char *other = wrong == NULL ? identity_difference(file->region.header, identity) : NULL;
    if (wrong != NULL || other != NULL || file->region.slot_count != sizes->slot_count ||
        file->region.holder_count != sizes->holder_count ||
        file->region.block_count != sizes->block_count) {
        snprintf(error, REGION_ERROR_MAX, "%s: %s%s", file->shm_name,
                 other != NULL ? "made under another " : "",
                 wrong != NULL   ? wrong
                 : other != NULL ? other
                                 : "its parts are not as large as the [limits] have it");
        goto failed;
    }
    if (!open_bell(file, bells, false, error)) {
        goto failed;
    }
    struct hfi_region_identity made = *identity;
    if (made.incarnation == 0) {
        made.incarnation = file->region.header->incarnation;
    }
    note_made(file, sizes, &made);
    region_file_mend(file); /* who came first may have written another incarnation */
    return true;
failed:
    region_file_close(file);
    return false;
}

enum region_fault region_file_fault(const struct region_file *file)
{
    struct stat status;
    bool rubbish = region_file_is_rubbish(file);
    if (fstat(file->fd, &status) != 0 || (uint64_t)status.st_size != file->region.size) {
        return REGION_CUT;
    }
    if (rubbish) {
        return REGION_ROOMLESS;
    }
    if ((uint64_t)status.st_blocks < file->blocks) {
        return REGION_PUNCHED;
    }
    return memcmp(file->memory, file->made, sizeof(file->made)) != 0 ? REGION_HEADER : REGION_SOUND;
}

void region_file_mend(struct region_file *file)
{
    memcpy(file->memory, file->made, sizeof(file->made));
}

void region_file_slim(const struct region_file *file)
{
    static const unsigned char none[SLIM_PIECE];
    unsigned char bytes[SLIM_PIECE];
    /* Read, not looked at in the mapping: where that is rubbish it has zeros. */
    for (uint64_t at = 0; at < file->region.size; at += SLIM_PIECE) {
        if (pread(file->fd, bytes, SLIM_PIECE, (off_t)at) == SLIM_PIECE &&
            memcmp(bytes, none, SLIM_PIECE) == 0) {
            (void)!fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
                             SLIM_PIECE);
        }
    }
}

/* Those who map it are told. Its parts need not be where they were any more, the header is. */
static void tell_abandoned(int fd, const char *shm_name)
{
    struct region_file file;
    region_file_init(&file);
    file.fd = fd;
    snprintf(file.shm_name, sizeof(file.shm_name), "%s", shm_name);
    char error[REGION_ERROR_MAX];
    if (map(&file, HFI_HEADER_SIZE, error)) {
        struct hfi_header *header = file.memory;
        /* seq_cst, both: a waiter that sees the new count sees that it is abandoned */
        atomic_store(&header->abandoned, 1);
        atomic_fetch_add(&header->lease_wake, 1);
        syscall(SYS_futex, &header->lease_wake, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
    }
    file.fd = -1; /* the caller's */
    region_file_close(&file);
}

uint32_t region_file_layout(const char *shm_name)
{
    struct {
        uint64_t magic;
        uint32_t version; /* as in every layout's header */
    } seen = {.magic = 0};
    struct stat status;
    int fd = shm_open(shm_name, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) {
        return 0;
    }
    bool read_whole = fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
                      pread(fd, &seen, sizeof(seen), 0) == (ssize_t)sizeof(seen);
    late_close(fd, (uid_t)-1);
    return read_whole && seen.magic == HFI_REGION_MAGIC ? seen.version : 0;
}

void region_file_abandon(const char *shm_name)
{
    struct stat status;
    int fd = shm_open(shm_name, O_RDWR | O_CLOEXEC, 0);
    bell_remove(shm_name);
    if (fd < 0) {
        return;
    }
    /* Of another layout nothing is known, so nothing is written: its processes learn of the end of
     * their session by their own timers. */
    if (fstat(fd, &status) == 0 && status.st_uid == geteuid() &&
        status.st_size >= HFI_HEADER_SIZE && region_file_layout(shm_name) == HFI_REGION_VERSION) {
        tell_abandoned(fd, shm_name);
    }
    late_close(fd, (uid_t)-1);
    shm_unlink(shm_name);
}

void region_file_give_up(const char *shm_name, uint64_t size)
{
    struct stat status;
    int fd = shm_open(shm_name, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0) {
        return;
    }
    bool own = fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_uid == geteuid();
    /* As long as it was: who maps it is to read zeros, rather than to die of what is gone. */
    if (own && ((uint64_t)status.st_size >= size || ftruncate(fd, (off_t)size) == 0)) {
        tell_abandoned(fd, shm_name);
    }
    if (own) { /* nobody holds anything there any more, and a client may have it open for ever */
        late_close_emptied(fd, HFI_HEADER_SIZE);
    } else {
        late_close(fd, (uid_t)-1);
    }
    shm_unlink(shm_name);
}

/* In one read: each of a FIFO that was full may cost much (bells.h). */
void region_file_hush(const struct region_file *file)
{
    static char drained[1 << 16]; /* the rest, if any, is there in the next turn */
    (void)!read(file->bell_fd, drained, sizeof(drained));
}
