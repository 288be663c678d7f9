/*
 * A store's log is made durable before the agent relies on it.
 *
 * After a failed flush the kernel keeps the written pages in its page cache, marks them as clean,
 * and shows them to the next process that opens the file. The next flush succeeds, although the
 * pages never reached the disk. An agent ends when a flush fails. The next agent would find that
 * batch in the log and act on it. A loss of power would then remove the batch and all later ones,
 * because SQLite reads a log only up to the first frame that is not whole.
 *
 * So an agent that opens a store reads the frames of its log, writes the same bytes once more, and
 * flushes them. The log is short, unless the previous agent ended during much work.
 *
 * The database file does not need this: after a failed checkpoint the pages are still in the log,
 * and the next checkpoint writes them again.
 *
 * The format: https://sqlite.org/fileformat2.html#the_write_ahead_log
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "private.h"

enum {
    LOG_HEADER = 32,
    FRAME_HEADER = 24,
    PAGE_SIZE_AT = 8, /* offset in the log's header, most significant byte first */
    SALTS_AT = 16,    /* offset in the log's header */
    FRAME_SALTS_AT = 8,
    SALTS = 8,
    PAGE_MIN = 512,
    PAGE_MAX = 65536,
};

/* Reads `size` bytes at `offset` and writes them back. On failure returns false with errno; errno
 * is 0 at the end of the file. */
static bool renew(int file, unsigned char *bytes, size_t size, off_t offset)
{
    ssize_t got = pread(file, bytes, size, offset);
    if (got != (ssize_t)size) {
        errno = got < 0 ? errno : 0;
        return false;
    }
    ssize_t written = pwrite(file, bytes, size, offset);
    if (written != (ssize_t)size) {
        errno = written < 0 ? errno : EIO;
        return false;
    }
    return true;
}

/* Renews the frames of the log that are in use. On failure returns false with errno. */
static bool renew_frames(int file)
{
    static unsigned char header[LOG_HEADER];
    static unsigned char frame[FRAME_HEADER + PAGE_MAX];
    if (!renew(file, header, sizeof(header), 0)) {
        return errno == 0; /* the log is empty */
    }
    const unsigned char *at = header + PAGE_SIZE_AT;
    uint32_t page = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    if (page < PAGE_MIN || page > PAGE_MAX) {
        return true; /* SQLite does not read such a log either */
    }
    size_t size = FRAME_HEADER + page;
    off_t offset = LOG_HEADER;
    bool current = true;
    while (current) { /* the loop stops at the end of the file at the latest */
        ssize_t got = pread(file, frame, FRAME_HEADER, offset);
        current = got == FRAME_HEADER &&
                  memcmp(frame + FRAME_SALTS_AT, header + SALTS_AT, SALTS) == 0;
        if (current && !renew(file, frame, size, offset)) {
            return errno == 0;
        }
        offset += (off_t)size;
    }
    return true;
}

bool store_renew_log(struct store *store)
{
    char path[PATH_MAX + 8];
    snprintf(path, sizeof(path), "%s-wal", store->path);
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) {
        return errno == ENOENT ||
               store_fail(store, "its log cannot be opened: %s", strerror(errno));
    }
    bool done = renew_frames(file) && fdatasync(file) == 0;
    int error = errno;
    close(file); /* SQLite keeps no locks on a log, so this close releases none */
    return done || store_fail(store, "its log cannot be made durable: %s", strerror(error));
}
