/*
 * The files that `holdfast setup` writes: see setup_file.h.
 */
#include "setup_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "text.h"

enum { FILE_SIZE_MAX = 65536, BACKUPS_MAX = 1000 };

static void report(const char *path, const char *why)
{
    fputs("holdfast setup: ", stderr);
    (void)text_write_clean(stderr, path, 0);
    fprintf(stderr, ": %s\n", why);
}

int setup_file_failed(const char *path)
{
    int error = errno;
    bool forbidden = error == EACCES || error == EPERM;
    char why[256];

    snprintf(why, sizeof(why), "%s%s", strerror(error),
             forbidden ? ": run it as root (sudo holdfast setup), or give --output FILE and "
                         "--state-dir DIR for an agent of your own"
                       : "");
    report(path, why);
    return forbidden ? CLI_NOT_ALLOWED : CLI_FAILED;
}

int setup_folder_make(const char *path, mode_t mode)
{
    if (mkdir(path, mode) == 0) {
        /* the umask may have taken bits away */
        return chmod(path, mode) == 0 ? 0 : setup_file_failed(path);
    }
    return errno == EEXIST ? 0 : setup_file_failed(path);
}

int setup_folder_is_own(const char *path)
{
    struct stat status;

    if (stat(path, &status) != 0) {
        return setup_file_failed(path);
    }
    if (status.st_uid == geteuid() && (status.st_mode & 022) == 0) {
        return 0;
    }
    report(path, "expected a folder of your own, to which nobody else may write: it has keys");
    return CLI_FAILED;
}

char *setup_file_read(const char *path)
{
    FILE *in = fopen(path, "re");
    char *text = in != NULL ? calloc(1, FILE_SIZE_MAX) : NULL;
    int error = errno;

    if (text != NULL) {
        errno = 0;
        size_t size = fread(text, 1, FILE_SIZE_MAX - 1, in);
        error = size == FILE_SIZE_MAX - 1 ? EFBIG : errno;
        if (error != 0) {
            free(text);
            text = NULL;
        }
    }
    if (in != NULL) {
        fclose(in);
    }
    errno = error;
    return text;
}

int setup_file_absent(const char *path, bool force)
{
    struct stat status;

    if (force || (lstat(path, &status) != 0 && errno == ENOENT)) {
        return 0;
    }
    report(path, "the file exists, and nothing was written: --force replaces it, and keeps it as "
                 "FILE.bak-N");
    return CLI_FAILED;
}

/* Gives the file a second name, so that the file stays when a new file takes its first name. */
static int keep(const char *path, char *backup)
{
    for (int number = 1; number < BACKUPS_MAX; number++) {
        if (snprintf(backup, SETUP_PATH_MAX, "%s.bak-%d", path, number) >= SETUP_PATH_MAX) {
            break;
        }
        if (link(path, backup) == 0) {
            return 0;
        }
        if (errno != EEXIST) {
            break;
        }
    }
    int status = setup_file_failed(backup);
    backup[0] = '\0';
    return status;
}

static bool write_all(int fd, const struct setup_file *file)
{
    size_t size = strlen(file->text);
    size_t used = 0;

    while (used < size) {
        ssize_t put = write(fd, file->text + used, size - used);
        if (put < 0 && errno != EINTR) {
            return false;
        }
        used += put > 0 ? (size_t)put : 0;
    }
    return (file->owner == (uid_t)-1 || fchown(fd, file->owner, file->group) == 0) &&
           fchmod(fd, file->mode) == 0 && fsync(fd) == 0;
}

/* Flushes the folder, so that the new name survives a power failure. */
static bool flush_folder(const char *path)
{
    char folder[SETUP_PATH_MAX];
    const char *slash = strrchr(path, '/');

    snprintf(folder, sizeof(folder), "%.*s", slash == NULL ? 1 : (int)(slash - path + 1),
             slash == NULL ? "." : path);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool good = fd >= 0 && fsync(fd) == 0;
    if (fd >= 0) {
        close(fd);
    }
    return good;
}

/* Renames the file `written` to `path`. Without force this fails if a file has that path by now. */
static int name_file(const char *written, const char *path, bool force, char *backup)
{
    struct stat status;

    if (force && lstat(path, &status) == 0) {
        int code = keep(path, backup);
        return code != 0 ? code : rename(written, path) == 0 ? 0 : setup_file_failed(path);
    }
    if (link(written, path) != 0) {
        return errno == EEXIST ? setup_file_absent(path, false) : setup_file_failed(path);
    }
    (void)unlink(written);
    return 0;
}

int setup_file_write(const struct setup_file *file, bool force, char *backup)
{
    char written[SETUP_PATH_MAX];
    char *there = setup_file_read(file->path);
    bool same = there != NULL && strcmp(there, file->text) == 0;
    int status;

    free(there);
    backup[0] = '\0';
    if (same) {
        return 0;
    }
    status = setup_file_absent(file->path, force);
    if (status != 0) {
        return status;
    }
    if (snprintf(written, sizeof(written), "%s.new-XXXXXX", file->path) >= (int)sizeof(written)) {
        errno = ENAMETOOLONG;
        return setup_file_failed(file->path);
    }
    int fd = mkostemp(written, O_CLOEXEC);
    if (fd < 0) {
        return setup_file_failed(file->path);
    }
    status = write_all(fd, file) ? 0 : setup_file_failed(file->path);
    close(fd);
    status = status != 0 ? status : name_file(written, file->path, force, backup);
    if (status != 0) {
        (void)unlink(written);
        return status;
    }
    return flush_folder(file->path) ? 0 : setup_file_failed(file->path);
}
