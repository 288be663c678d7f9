/* Region upkeep: see io/region.h. */
#include "io/region.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "io/late_close.h"
#include "proto/check.h"

enum {
    RESERVE_TRIES_MAX = 100,
    SLIM_PIECE = 4096,
    OBJECT_PATH_MAX = REGION_OWN_MAX + 8, /* room for the object's name within the agent's folder */
};

/* ---- missing pages ---- */

struct watched {
    _Atomic bool taken;
    _Atomic uintptr_t begin; /* 0: no mapping is entered here */
    _Atomic uintptr_t end;
    _Atomic bool rubbish;
};

/* A thread writes only the entry that it took. The signal handler reads all entries. It may
 * interrupt the thread that writes an entry, or another thread, which has another entry. The
 * accesses are seq_cst, because none of them is frequent. */
static struct watched watched[REGION_FILES_MAX];

/* Where region_try() of this thread continues when a page is missing; NULL: the handler maps zero
 * pages. */
static _Thread_local sigjmp_buf *escape;

static void on_sigbus(int number, siginfo_t *info, void *context)
{
    (void)context;
    if (escape != NULL) {
        siglongjmp(*escape, 1);
    }
    int error = errno;
    uintptr_t at = (uintptr_t)info->si_addr;
    for (size_t i = 0; i < REGION_FILES_MAX; i++) {
        uintptr_t begin = atomic_load(&watched[i].begin);
        uintptr_t end = atomic_load(&watched[i].end);
        if (begin == 0 || at < begin || at >= end || atomic_load(&watched[i].rubbish)) {
            continue;
        }
        atomic_store(&watched[i].rubbish, true);
        /* mmap() is a plain system call, so it is as safe in a handler as the calls that POSIX
         * lists. */
        if (mmap((void *)begin, end - begin, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0) != MAP_FAILED) {
            errno = error;
            return;
        }
    }
    signal(number, SIG_DFL); /* the thread repeats the access, and that ends the process */
}

bool region_try(void (*touch)(void *arg), void *arg)
{
    sigjmp_buf here;
    if (sigsetjmp(here, 1) != 0) {
        escape = NULL;
        return false;
    }
    escape = &here;
    touch(arg);
    escape = NULL;
    return true;
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
        if (!atomic_exchange(&watched[i].taken, true)) {
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

static const char region_object[] = "region"; /* the object's name in its folder */

void region_file_init(struct region_file *file)
{
    *file = (struct region_file){.fd = -1, .watched = -1};
}

void region_folder_name(const struct hfi_region_identity *identity, char out[REGION_FOLDER_MAX])
{
    char id[2 * sizeof(identity->store_id) + 1];
    for (size_t i = 0; i < sizeof(identity->store_id); i++) {
        snprintf(id + 2 * i, 3, "%02x", identity->store_id[i]);
    }
    snprintf(out, REGION_FOLDER_MAX, "/holdfast.%s.%s.%s", identity->cell, identity->agent, id);
}

void region_own_name(const char *space, uint64_t incarnation, char out[REGION_OWN_MAX])
{
    snprintf(out, REGION_OWN_MAX, "%s.%016" PRIx64, space, incarnation);
}

static void name_file(struct region_file *file, const struct hfi_region_identity *identity)
{
    char top[REGION_FOLDER_MAX];
    region_folder_name(identity, top);
    region_own_name(identity->namespace_name, identity->incarnation, file->own_name);
    snprintf(file->shm_name, sizeof(file->shm_name), "%s/%s/%s", top, file->own_name,
             region_object);
    snprintf(file->namespace_name, sizeof(file->namespace_name), "%s", identity->namespace_name);
}

/* Closes a descriptor of a file that clients have open, too. */
static void close_fd(int *fd)
{
    late_close(*fd, (uid_t)-1);
    *fd = -1;
}

void region_file_leave(struct region_file *file)
{
    if (file->watched >= 0) {
        atomic_store(&watched[file->watched].begin, 0);
        atomic_store(&watched[file->watched].taken, false);
        file->watched = -1;
    }
    if (file->memory != NULL) {
        munmap(file->memory, file->region.size);
        file->memory = NULL;
    }
    close_fd(&file->fd);
}

bool region_file_abandon(struct region_file *file)
{
    struct hfi_region zeros;
    void *memory = mmap(NULL, file->region.size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
        return false;
    }
    memcpy(memory, file->made, sizeof(file->made));
    const char *wrong = hfi_region_attach(memory, file->region.size, &zeros);
    HF_CHECK(wrong == NULL); /* hfi_region_format() made these fields */
    file->region = zeros;
    file->memory = memory;
    /* The old mapping's entry in `watched` stays taken: another thread may still touch a missing
     * page of that mapping, and the SIGBUS handler must find the entry. */
    file->watched = -1;
    return true;
}

void region_file_close(struct region_file *file)
{
    region_file_leave(file);
}

/* Returns a remedy for that errno, whichever call failed; "" if this function knows none. */
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

/* Reserves memory for the whole file. The file has at least that size afterwards. Returns 0 or an
 * errno. */
static int reserve(int fd, uint64_t size)
{
    int error = EINTR;
    for (unsigned i = 0; error == EINTR && i < RESERVE_TRIES_MAX; i++) {
        error = fallocate(fd, 0, 0, (off_t)size) == 0 ? 0 : errno;
    }
    if (error == EOPNOTSUPP) { /* a ramfs: it has no limit that other files could use up */
        error = ftruncate(fd, (off_t)size) == 0 ? 0 : errno;
    }
    return error;
}

/* Returns a remedy for a lack of room that depends on the errno. The caller adds the remedy that
 * always helps. */
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
             file->shm_name, strerror(reason), file->namespace_name, (unsigned long long)size,
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

/* Maps size bytes of the file, and enters the mapping into the handler's list. */
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

/* Notes the constant fields of the region's header, and how much memory the region has now. */
static void note_made(struct region_file *file, const struct hfi_region_sizes *sizes,
                      const struct hfi_region_identity *identity)
{
    struct hfi_header header = {0};
    struct stat status;
    hfi_region_format(&header, sizes, identity);
    memcpy(file->made, &header, sizeof(file->made));
    file->blocks = fstat(file->fd, &status) == 0 ? (uint64_t)status.st_blocks : 0;
}

/* Removes a region that was just made. No other process has had it open. */
static void undo(const struct region_file *file, int folder)
{
    char object[OBJECT_PATH_MAX];
    snprintf(object, sizeof(object), "%s/%s", file->own_name, region_object);
    unlinkat(folder, object, 0);
    unlinkat(folder, file->own_name, AT_REMOVEDIR);
}

static bool make_object(struct region_file *file, int folder, char *error)
{
    char object[OBJECT_PATH_MAX];
    snprintf(object, sizeof(object), "%s/%s", file->own_name, region_object);
    if (mkdirat(folder, file->own_name, 0700) == 0) {
        file->fd = openat(folder, object, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    }
    if (file->fd < 0) {
        return fail(error, "cannot make it", file->shm_name);
    }
    return fchmod(file->fd, 0600) == 0 || fail(error, "cannot set its mode", file->shm_name);
}

static bool fill_object(struct region_file *file, const struct hfi_region_sizes *sizes,
                        const struct hfi_region_identity *identity, char *error)
{
    uint64_t size = hfi_region_size(sizes);
    HF_CHECK(size > 0);
    int reason = reserve(file->fd, size);
    if (reason != 0) {
        return fail_room(file, size, reason, error);
    }
    if (!map(file, size, error)) {
        return false;
    }
    hfi_region_format(file->memory, sizes, identity);
    const char *wrong = hfi_region_attach(file->memory, size, &file->region);
    if (wrong != NULL || region_file_is_rubbish(file)) {
        snprintf(error, REGION_ERROR_MAX, "%s: cannot write it: %s", file->shm_name,
                 wrong != NULL ? wrong : "its memory is gone");
        return false;
    }
    note_made(file, sizes, identity);
    return true;
}

bool region_file_make(struct region_file *made, int folder, const struct hfi_region_sizes *sizes,
                      const struct hfi_region_identity *identity, char *error)
{
    region_file_init(made);
    name_file(made, identity);
    if (make_object(made, folder, error) && fill_object(made, sizes, identity, error)) {
        return true;
    }
    region_file_drop(made, folder);
    return false;
}

void region_file_drop(struct region_file *made, int folder)
{
    undo(made, folder);
    region_file_leave(made);
}

void region_file_take(struct region_file *file, struct region_file *made)
{
    region_file_leave(file);
    *file = *made;
    region_file_init(made);
}

bool region_file_create(struct region_file *file, int folder, const struct hfi_region_sizes *sizes,
                        const struct hfi_region_identity *identity, char *error)
{
    struct region_file made;
    region_file_init(file);
    if (!region_file_make(&made, folder, sizes, identity, error)) {
        return false;
    }
    region_file_take(file, &made);
    return true;
}

/* Returns whether the object has much more memory than its size. No other check bounds the memory
 * behind the object's end. */
static bool is_swollen(const struct stat *status, uint64_t size)
{
    /* on a tmpfs with huge pages, st_blksize is the size of a huge page */
    uint64_t piece = status->st_blksize > 0 ? (uint64_t)status->st_blksize : 0;
    uint64_t slack = piece > REGION_SLACK ? piece : REGION_SLACK;
    return (uint64_t)status->st_blocks * 512 > size + slack;
}

/* Checks the owner, mode and size of an object that an earlier agent left. */
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
    if (is_swollen(&status, size)) {
        snprintf(error, REGION_ERROR_MAX, "%s: found %lld bytes of memory behind its end",
                 file->shm_name, (long long)status.st_blocks * 512 - (long long)size);
        return false;
    }
    return true;
}

/* Compares the identity in a region's header with the expected one, field by field. Returns the
 * field that differs; NULL: all are as expected. */
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

/*
 * Fills holes without the object's lock, for which fallocate(2) would wait. If there is no room, or
 * before Linux 5.14, the holes stay: a namespace does not lose its holds because of holes alone.
 *
 * Even if no page is missing, every page has to count as written. A hole that was only read
 * (holdfastd-rm reads each page before the agent starts) has a page of zeros that nobody wrote. The
 * kernel takes such a page back when it drops its caches, and leaves a hole, for which
 * region_file_fault() would blame a process.
 */
static void fill_holes(const struct region_file *file)
{
    (void)madvise(file->memory, file->region.size, MADV_POPULATE_WRITE);
}

static int open_left(int folder, const char *own_name)
{
    char object[OBJECT_PATH_MAX];
    snprintf(object, sizeof(object), "%s/%s", own_name, region_object);
    return openat(folder, object, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
}

bool region_file_adopt(struct region_file *file, int folder, const struct hfi_region_sizes *sizes,
                       const struct hfi_region_identity *identity, char *error)
{
    region_file_init(file);
    name_file(file, identity);
    uint64_t size = hfi_region_size(sizes);
    HF_CHECK(size > 0);
    file->fd = open_left(folder, file->own_name);
    if (file->fd < 0) {
        return fail(error, "cannot open it", file->shm_name);
    }
    if (!check_object(file, size, error) || !map(file, size, error)) {
        goto failed;
    }
    fill_holes(file); /* the holes are filled before a page is touched */
    const char *wrong = hfi_region_attach(file->memory, size, &file->region);
    const char *other = wrong == NULL ? identity_difference(file->region.header, identity) : NULL;
    if (wrong != NULL || other != NULL || file->region.slot_count != sizes->slot_count ||
        file->region.holder_count != sizes->holder_count ||
        file->region.block_count != sizes->block_count) {
        snprintf(error, REGION_ERROR_MAX, "%s: %s%s", file->shm_name,
                 other != NULL ? "made under another " : "",
                 wrong != NULL   ? wrong
                 : other != NULL ? other
                                 : "its parts have other sizes than the [limits] ask for");
        goto failed;
    }
    note_made(file, sizes, identity);
    region_file_mend(file); /* an earlier agent may have written another incarnation */
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
    if (is_swollen(&status, file->region.size)) {
        return REGION_SWOLLEN; /* this fault is found without touching a page of the region */
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
    /* Reads the file, not the mapping, because an unusable mapping has only zeros. */
    for (uint64_t at = 0; at < file->region.size; at += SLIM_PIECE) {
        if (pread(file->fd, bytes, SLIM_PIECE, (off_t)at) == SLIM_PIECE &&
            memcmp(bytes, none, SLIM_PIECE) == 0) {
            (void)!fallocate(file->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at,
                             SLIM_PIECE);
        }
    }
}

static uint32_t layout_of(int fd)
{
    struct {
        uint64_t magic;
        uint32_t version; /* every layout has its number at this offset of the header */
    } seen = {.magic = 0};
    struct stat status;
    bool read_whole = fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
                      status.st_uid == geteuid() &&
                      pread(fd, &seen, sizeof(seen), 0) == (ssize_t)sizeof(seen);
    return read_whole && seen.magic == HFI_REGION_MAGIC ? seen.version : 0;
}

uint32_t region_file_layout(int folder, const char *own_name)
{
    int fd = open_left(folder, own_name);
    uint32_t layout = layout_of(fd);
    late_close(fd, (uid_t)-1);
    return layout;
}

uint32_t region_flat_layout(const char *shm_name)
{
    int fd = shm_open(shm_name, O_RDONLY | O_CLOEXEC, 0);
    uint32_t layout = layout_of(fd);
    late_close(fd, (uid_t)-1);
    return layout;
}
