/*
 * The store's log as a file of SQLite's virtual file system: see log.h.
 *
 * The buffer is one run of bytes. It is written out before a write that does not continue it, and
 * before any call that needs the file. That call returns the error if this late write fails. A
 * flush is such a call, so a commit succeeds only if its bytes are durable.
 */
#include "log.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum {
    BUFFER_SIZE = 64 * 1024, /* room for most batches; SQLite's own file system writes 128 KiB at a
                              * time */
    AHEAD = 64 * 1024,       /* the file is longer than its content by at least this */
    STEP = 64 * 1024,
    STEPS = 4, /* how many steps the file grows by at once; together they exceed BUFFER_SIZE + AHEAD
                * */
};

struct log_file {
    sqlite3_file file;
    sqlite3_file *real; /* the system's file, behind this struct in memory */
    unsigned char *buffer;
    sqlite3_int64 start; /* the offset in the file of the buffered bytes */
    int used;
    sqlite3_int64 size; /* the size of the system's file, as far as it is known; 0: not known */
};

static struct log_file *log_of(sqlite3_file *file)
{
    return (struct log_file *)(void *)file;
}

static int write_real(struct log_file *log, const void *bytes, int amount, sqlite3_int64 offset)
{
    int result = log->real->pMethods->xWrite(log->real, bytes, amount, offset);
    if (result == SQLITE_OK && offset + amount > log->size) {
        log->size = offset + amount;
    }
    return result;
}

/* Writes the buffer out. After an error its bytes are lost, and SQLite abandons the commit. */
static int write_out(struct log_file *log)
{
    int used = log->used;
    log->used = 0;
    return used > 0 ? write_real(log, log->buffer, used, log->start) : SQLITE_OK;
}

/* Makes the file longer if little unused room is left in it. A failure is ignored: the write that
 * needs the room reports it. */
static void grow(struct log_file *log)
{
    static const unsigned char zeros[STEP];
    sqlite3_int64 wanted = log->start + log->used + AHEAD;
    if (wanted <= log->size || log->real->pMethods->xFileSize(log->real, &log->size) != SQLITE_OK ||
        wanted <= log->size) {
        return;
    }
    for (int i = 0; i < STEPS && write_real(log, zeros, STEP, log->size) == SQLITE_OK; i++) {
    }
}

static int log_close(sqlite3_file *file)
{
    struct log_file *log = log_of(file);
    int written = write_out(log); /* no commit depends on the buffered bytes, because they were not
                                   * flushed */
    int closed = log->real->pMethods->xClose(log->real);
    free(log->buffer);
    log->buffer = NULL;
    return written != SQLITE_OK ? written : closed;
}

static int log_read(sqlite3_file *file, void *bytes, int amount, sqlite3_int64 offset)
{
    struct log_file *log = log_of(file);
    int result = SQLITE_OK;
    if (offset < log->start + log->used && log->start < offset + amount) {
        result = write_out(log);
    }
    return result != SQLITE_OK ? result
                               : log->real->pMethods->xRead(log->real, bytes, amount, offset);
}

static int log_write(sqlite3_file *file, const void *bytes, int amount, sqlite3_int64 offset)
{
    struct log_file *log = log_of(file);
    if (offset != log->start + log->used || amount > BUFFER_SIZE - log->used) {
        int result = write_out(log);
        if (result != SQLITE_OK) {
            return result;
        }
        log->start = offset;
    }
    if (amount > BUFFER_SIZE) {
        log->start = offset + amount;
        return write_real(log, bytes, amount, offset);
    }
    memcpy(log->buffer + log->used, bytes, (size_t)amount);
    log->used += amount;
    return SQLITE_OK;
}

static int log_truncate(sqlite3_file *file, sqlite3_int64 size)
{
    struct log_file *log = log_of(file);
    int result = write_out(log);
    log->size = 0; /* the size is read again when it is needed */
    return result != SQLITE_OK ? result : log->real->pMethods->xTruncate(log->real, size);
}

static int log_sync(sqlite3_file *file, int flags)
{
    struct log_file *log = log_of(file);
    grow(log);
    int result = write_out(log);
    return result != SQLITE_OK ? result : log->real->pMethods->xSync(log->real, flags);
}

static int log_size(sqlite3_file *file, sqlite3_int64 *size)
{
    struct log_file *log = log_of(file);
    int result = write_out(log);
    return result != SQLITE_OK ? result : log->real->pMethods->xFileSize(log->real, size);
}

static int log_control(sqlite3_file *file, int what, void *arg)
{
    struct log_file *log = log_of(file);
    return log->real->pMethods->xFileControl(log->real, what, arg);
}

static int log_sector_size(sqlite3_file *file)
{
    struct log_file *log = log_of(file);
    return log->real->pMethods->xSectorSize(log->real);
}

static int log_characteristics(sqlite3_file *file)
{
    struct log_file *log = log_of(file);
    return log->real->pMethods->xDeviceCharacteristics(log->real);
}

/* Has no functions for locks: SQLite never locks a log, only the database. */
static const sqlite3_io_methods methods = {.iVersion = 1,
                                           .xClose = log_close,
                                           .xRead = log_read,
                                           .xWrite = log_write,
                                           .xTruncate = log_truncate,
                                           .xSync = log_sync,
                                           .xFileSize = log_size,
                                           .xFileControl = log_control,
                                           .xSectorSize = log_sector_size,
                                           .xDeviceCharacteristics = log_characteristics};

/* ---- the file system ---- */

enum { REAL_AT = (sizeof(struct log_file) + 15) / 16 * 16 };

static sqlite3_vfs *system_vfs;
static sqlite3_vfs own_vfs;
static pthread_once_t registered = PTHREAD_ONCE_INIT;
static bool usable;

static int vfs_open(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags,
                    int *out_flags)
{
    (void)vfs;
    if ((flags & SQLITE_OPEN_WAL) == 0) {
        return system_vfs->xOpen(system_vfs, name, file, flags, out_flags);
    }
    struct log_file *log = log_of(file);
    memset(log, 0, sizeof(*log));
    log->real = (sqlite3_file *)(void *)((unsigned char *)file + REAL_AT);
    log->buffer = malloc(BUFFER_SIZE);
    if (log->buffer == NULL) {
        return SQLITE_NOMEM;
    }
    int result = system_vfs->xOpen(system_vfs, name, log->real, flags, out_flags);
    if (result == SQLITE_OK) {
        log->file.pMethods = &methods;
        return SQLITE_OK;
    }
    if (log->real->pMethods != NULL) {
        log->real->pMethods->xClose(log->real);
    }
    free(log->buffer);
    return result;
}

/* The file system is a copy of SQLite's own with another function to open files. The system's other
 * functions also work on the copy. */
static void register_vfs(void)
{
    system_vfs = sqlite3_vfs_find(NULL);
    if (system_vfs == NULL) {
        return;
    }
    own_vfs = *system_vfs;
    own_vfs.zName = "holdfast";
    own_vfs.szOsFile += REAL_AT;
    own_vfs.xOpen = vfs_open;
    usable = sqlite3_vfs_register(&own_vfs, 0) == SQLITE_OK;
}

const char *store_log_vfs(void)
{
    pthread_once(&registered, register_vfs);
    return usable ? own_vfs.zName : NULL;
}
