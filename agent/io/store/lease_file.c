/* The lease file: see io/lease_file.h. */
#include "io/lease_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LEASE_MAGIC UINT64_C(0x3145534145444c48) /* the bytes "HLDEASE1" */

struct lease_file_content {
    uint64_t magic;
    uint8_t boot_id[16];
    _Atomic uint32_t epoch;
    uint32_t unused;
    _Atomic int64_t deadline_ns; /* 0: the other fields are not valid */
};

/* The page. In older releases it ends after the record. */
struct lease_file_shared {
    struct lease_file_content record;
    _Atomic int64_t noted_ns; /* kept[] is valid only if this equals record.deadline_ns */
    /* Releases that know these two fields write them before the deadline. In a page of another
     * release they are 0. */
    _Atomic int64_t lasting_ns; /* the grace period plus 1 */
    _Atomic uint64_t space;
    _Alignas(64) struct host_kept kept[];
};
_Static_assert(sizeof(struct host_kept) == 32, "what is kept of a request is 32 bytes");

/* Follows kept[] in the page. In some older releases the page ends before this. */
struct lease_file_delays {
    _Atomic int64_t
        noted_ns[2]; /* the deadlines for which these notes are valid: the last one and the next
                      * one */
    uint32_t count;
    uint32_t unused;
    _Atomic uint16_t delays_ms[];
};

/* Follows the lock-delays in the page. In older releases the page ends before this. */
struct lease_file_notes {
    _Atomic int64_t noted_ns[2]; /* the deadlines for which regions[] is valid: the last one and the
                                  * next one */
    _Atomic uint64_t commit;     /* the number of the store's last commit; valid for any session */
    uint32_t count;
    uint32_t unused;
    struct host_region_note regions[];
};
_Static_assert(sizeof(struct host_region_note) == 32, "what is noted of a region is 32 bytes");

/* Maps size bytes of fd, and closes fd. A file without the magic number becomes blank. Returns NULL
 * with errno on failure. */
static void *map_record(int fd, size_t size)
{
    struct stat status;
    struct lease_file_content *content = MAP_FAILED;
    int error = fstat(fd, &status) != 0 ? errno : 0;
    if (error == 0 && (!S_ISREG(status.st_mode) || status.st_uid != geteuid() ||
                       (status.st_mode & 07777) != 0600)) {
        error = EPERM; /* another user's file is not changed */
    }
    if (error == 0) {
        /* Reserves the room, because otherwise a full disk would end the process when it writes to
         * the mapping. */
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
        memset(content, 0, status.st_size > 0 ? size : 0); /* a new page is blank already */
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

static bool same_session(const struct lease_record *a, const struct lease_record *b)
{
    return a->epoch == b->epoch && memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id)) == 0;
}

bool lease_file_open(struct lease_file *file, int directory, struct lease_record *found)
{
    *file = (struct lease_file){.disk = NULL};
    *found = (struct lease_record){.epoch = 0};
    int fd = openat(directory, "lease", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    file->disk = fd < 0 ? NULL : map_record(fd, sizeof(*file->disk));
    if (file->disk == NULL) {
        return false;
    }
    read_record(file->disk, found);
    return true;
}

static size_t delays_offset(const struct lease_file_room *room)
{
    return sizeof(struct lease_file_shared) + room->kept * sizeof(struct host_kept);
}

static size_t notes_offset(const struct lease_file_room *room)
{
    const size_t unit = _Alignof(struct lease_file_notes);
    size_t delays = sizeof(struct lease_file_delays) + room->delays * sizeof(uint16_t);
    size_t end = delays_offset(room) + (room->delays > 0 ? delays : 0);
    return (end + unit - 1) / unit * unit;
}

static size_t shared_size(const struct lease_file_room *room)
{
    size_t notes = sizeof(struct lease_file_notes) +
                   room->regions * sizeof(struct host_region_note);
    return notes_offset(room) + (room->regions > 0 ? notes : 0);
}

static void leave_page(struct lease_file *file)
{
    if (file->shared != NULL) {
        munmap(file->shared, shared_size(&file->room));
    }
    file->shared = NULL;
    file->kept = NULL;
    file->noted = NULL;
    file->delays_ms = NULL;
    file->notes = NULL;
    file->regions = NULL;
    file->counts = false;
    file->regions_count = false;
    file->room = (struct lease_file_room){0};
}

/* Returns whether the agent that wrote that deadline also wrote the part with these stamps.
 * deadline_ns: 0 if no deadline is valid. seq_cst: see write_record(). */
static bool is_stamped(_Atomic int64_t noted_ns[2], int64_t deadline_ns)
{
    return deadline_ns > 0 &&
           (atomic_load(&noted_ns[0]) == deadline_ns || atomic_load(&noted_ns[1]) == deadline_ns);
}

/* Finds the lock-delays in the page, and clears them if an agent of another release wrote the last
 * deadline. deadline_ns: the page's deadline; 0 if it is not valid. */
static void find_delays(struct lease_file *file, int64_t deadline_ns)
{
    struct lease_file_delays *noted = (void *)((char *)file->shared + delays_offset(&file->room));
    file->noted = noted;
    file->delays_ms = noted->delays_ms;
    if (noted->count != file->room.delays || !is_stamped(noted->noted_ns, deadline_ns)) {
        memset((void *)noted, 0, sizeof(*noted) + file->room.delays * sizeof(uint16_t));
        noted->count = file->room.delays;
        /* With this stamp, delays that are noted before the next deadline are valid even after a
         * kill. */
        atomic_store(&noted->noted_ns[0], deadline_ns); /* seq_cst: see write_record() */
    }
}

/* Finds the notes of the regions, and clears them if an agent of another release wrote the last
 * deadline. The commit stays, because it belongs to the store. */
static void find_notes(struct lease_file *file, int64_t deadline_ns)
{
    struct lease_file_notes *notes = (void *)((char *)file->shared + notes_offset(&file->room));
    file->notes = notes;
    file->regions = notes->regions;
    file->regions_count = notes->count == file->room.regions &&
                          is_stamped(notes->noted_ns, deadline_ns);
    if (!file->regions_count) {
        /* The next agent uses these notes only after the caller has written the missing ones and
         * has called lease_file_count_notes(). */
        atomic_store(&notes->noted_ns[0], 0); /* both seq_cst: see write_record() */
        atomic_store(&notes->noted_ns[1], 0);
        memset((void *)notes->regions, 0, file->room.regions * sizeof(struct host_region_note));
        notes->count = file->room.regions;
    }
}

void lease_file_count_notes(struct lease_file *file)
{
    struct lease_record last;
    read_record(&file->shared->record, &last);
    /* seq_cst: see write_record() */
    if (file->counts && !file->regions_count) {
        atomic_store(&file->notes->noted_ns[0], last.deadline_ns);
    }
}

bool lease_file_share(struct lease_file *file, int folder, const char *name,
                      const struct lease_file_room *room, struct lease_record *found)
{
    struct lease_record shared;
    leave_page(file);
    int fd = openat(folder, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    file->shared = fd < 0 ? NULL : map_record(fd, shared_size(room));
    if (file->shared == NULL) {
        return false;
    }
    file->room = *room;
    file->kept = room->kept > 0 ? file->shared->kept : NULL;
    read_record(&file->shared->record, &shared);
    bool counts = same_session(&shared, found) && shared.deadline_ns >= found->deadline_ns;
    /* If an older release wrote the deadline (in the page, or only in the file), the kept requests
     * are older than the deadline, and are dropped. seq_cst: see write_record(). */
    if (room->kept > 0 && (!counts || atomic_load(&file->shared->noted_ns) != shared.deadline_ns)) {
        memset((void *)file->kept, 0, room->kept * sizeof(struct host_kept));
    }
    if (room->delays > 0) {
        find_delays(file, counts ? shared.deadline_ns : 0);
    }
    if (room->regions > 0) {
        find_notes(file, counts ? shared.deadline_ns : 0);
    }
    file->counts = counts;
    if (counts) {
        found->deadline_ns = shared.deadline_ns;
    }
    return true;
}

static void write_record(struct lease_file_content *content, const struct lease_record *record)
{
    struct lease_record before;
    read_record(content, &before);
    /* No other process reads the page while this process lives. seq_cst keeps the order of the
     * stores, so that a kill between any two of them leaves a valid page. */
    if (!same_session(&before, record)) {
        atomic_store(&content->deadline_ns, 0);
        atomic_store(&content->epoch, record->epoch);
        memcpy(content->boot_id, record->boot_id, sizeof(content->boot_id));
    }
    atomic_store(&content->deadline_ns, record->deadline_ns);
}

/* Stamps a part for the coming deadline. The other stamp still has the last deadline, so the part
 * is valid even if a kill comes before the new deadline is stored. */
static void stamp(const struct lease_file *file, _Atomic int64_t noted_ns[2], int64_t deadline_ns)
{
    struct lease_record last;
    read_record(&file->shared->record, &last);
    /* seq_cst: see write_record() */
    bool first_is_last = atomic_load(&noted_ns[0]) == last.deadline_ns;
    atomic_store(&noted_ns[first_is_last], deadline_ns);
}

void lease_file_write(struct lease_file *file, const struct lease_record *record)
{
    struct lease_record begun;
    read_record(file->disk, &begun);
    if (!same_session(&begun, record)) {
        write_record(file->disk, record);
    }
    /* seq_cst for these stores and the later ones: see write_record() */
    atomic_store(&file->shared->lasting_ns, file->grace_ns + 1);
    atomic_store(&file->shared->space, file->space);
    if (file->kept != NULL) {
        atomic_store(&file->shared->noted_ns, record->deadline_ns);
    }
    if (file->noted != NULL) {
        stamp(file, file->noted->noted_ns, record->deadline_ns);
    }
    if (file->notes != NULL) {
        stamp(file, file->notes->noted_ns, record->deadline_ns);
    }
    write_record(&file->shared->record, record);
}

/* ---- the page of another agent ---- */

/* Opens the page for reading. Returns -1 if it is not a file of this user alone. */
static int open_page(int folder, const char *name)
{
    struct stat status;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd >= 0 && (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) ||
                    status.st_uid != geteuid() || (status.st_mode & 07777) != 0600)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* Returns the longest lock-delay that the page notes for that deadline; -1: the page has no notes
 * for that deadline. */
static int64_t longest_delay_ms(int fd, const struct lease_file_room *room, int64_t deadline_ns)
{
    struct lease_file_delays noted;
    uint16_t delays_ms[512];
    int64_t longest_ms = 0;
    size_t done = 0;
    off_t at = (off_t)delays_offset(room);
    if (pread(fd, &noted, sizeof(noted), at) != (ssize_t)sizeof(noted) ||
        noted.count != room->delays || !is_stamped(noted.noted_ns, deadline_ns)) {
        return -1;
    }
    at += (off_t)sizeof(noted);
    while (done < room->delays) {
        size_t left = room->delays - done;
        size_t count = left < sizeof(delays_ms) / sizeof(delays_ms[0])
                           ? left
                           : sizeof(delays_ms) / sizeof(delays_ms[0]);
        ssize_t size = (ssize_t)(count * sizeof(delays_ms[0]));
        if (pread(fd, delays_ms, (size_t)size, at + (off_t)(done * sizeof(delays_ms[0]))) != size) {
            return -1;
        }
        for (size_t i = 0; i < count; i++) {
            longest_ms = delays_ms[i] > longest_ms ? delays_ms[i] : longest_ms;
        }
        done += count;
    }
    return longest_ms;
}

bool lease_file_read(int folder, const char *name, const struct lease_file_room *room,
                     struct lease_file_past *past)
{
    struct lease_file_shared page;
    int fd = open_page(folder, name);
    bool read = fd >= 0 && pread(fd, &page, sizeof(page), 0) == (ssize_t)sizeof(page);
    *past = (struct lease_file_past){.grace_ns = -1, .delay_ms = -1};
    if (read && page.record.magic == LEASE_MAGIC) {
        read_record(&page.record, &past->record);
        past->grace_ns = atomic_load(&page.lasting_ns) - 1;
        past->space = atomic_load(&page.space);
        past->delay_ms = longest_delay_ms(fd, room, past->record.deadline_ns);
    }
    if (fd >= 0) {
        close(fd);
    }
    return read;
}

/* ---- the number of the last commit ---- */

uint64_t lease_file_commit(const struct lease_file *file)
{
    /* seq_cst: pairs with lease_file_note_commit() */
    return file->notes != NULL ? atomic_load(&file->notes->commit) : 0;
}

void lease_file_note_commit(struct lease_file *file, uint64_t commit)
{
    if (file->notes != NULL) {
        atomic_store(&file->notes->commit, commit); /* seq_cst: see write_record() */
    }
}

void lease_file_close(struct lease_file *file)
{
    struct lease_record begun = {.epoch = 0};
    struct lease_record last = {.epoch = 0};
    if (file->disk != NULL && file->shared != NULL) {
        read_record(file->disk, &begun);
        read_record(&file->shared->record, &last);
    }
    if (last.epoch != 0 && same_session(&begun, &last) && begun.deadline_ns != last.deadline_ns) {
        write_record(file->disk, &last);
    }
    if (file->disk != NULL) {
        munmap(file->disk, sizeof(*file->disk));
        file->disk = NULL;
    }
    leave_page(file);
}
