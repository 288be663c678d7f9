/*
 * The files that `holdfast setup` writes. A file is complete or absent: it is written under another
 * name, flushed, and then gets its name. An existing file is never changed. With `force` it is kept
 * as NAME.bak-N, and the new file takes its name.
 *
 * The functions report a failure on stderr, and return an exit code.
 */
#ifndef HOLDFAST_CLI_SETUP_FILE_H
#define HOLDFAST_CLI_SETUP_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { SETUP_PATH_MAX = 4096 };

struct setup_file {
    const char *path;
    const char *text;
    mode_t mode;
    uid_t owner; /* (uid_t)-1: the user that runs this program; only root may set another owner */
    gid_t group; /* the same */
};

/* Writes a line about the path and errno to stderr. Returns the exit code: CLI_NOT_ALLOWED if a
 * right is missing. */
int setup_file_failed(const char *path);

/* Makes the folder if it is missing. Its parent must exist. */
int setup_folder_make(const char *path, mode_t mode) __attribute__((warn_unused_result));

/* Returns 0 if only the user that runs this program may write to the folder. */
int setup_folder_is_own(const char *path) __attribute__((warn_unused_result));

/* Returns the file's text, which the caller frees, or NULL with errno. */
char *setup_file_read(const char *path);

/*
 * Writes the file. A file with the same text stays as it is. If there is a file with another
 * text, returns CLI_FAILED, or with force keeps that file as NAME.bak-N and writes that name to
 * backup (SETUP_PATH_MAX bytes); otherwise backup becomes "".
 */
int setup_file_write(const struct setup_file *file, bool force, char *backup)
    __attribute__((warn_unused_result));

/* Returns 0 if no file has this path or force is set, else CLI_FAILED after a line on stderr. */
int setup_file_absent(const char *path, bool force) __attribute__((warn_unused_result));

#endif
