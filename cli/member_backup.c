/*
 * Makes a backup: see member_backup.h. The copy is written under another name, made durable and
 * then renamed, so a file under its final name is whole.
 */
#include "member_backup.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "json.h"

enum { ASK_AGAIN_MS = 50, PIECE_SIZE = 65536 };

static const int64_t backup_timeout_ns = 1000000000;

struct progress {
    struct hf_backup_info info; /* info.text points to the array below */
    char text[512];
    bool shown; /* a line about the progress stands on the terminal */
};

static void note(const struct hf_backup_info *info, void *arg)
{
    struct progress *progress = arg;

    progress->info = *info;
    snprintf(progress->text, sizeof progress->text, "%s", info->text != NULL ? info->text : "");
}

/* Shows how far the agent has come, in one line that is written over. */
static void show(struct progress *progress)
{
    if (!isatty(STDERR_FILENO)) {
        return;
    }
    progress->shown = true;
    if (progress->info.stage == HF_BACKUP_CHECKS) {
        fprintf(stderr, "\rholdfast member backup: checking the copy   ");
    } else if (progress->info.total > 0) {
        fprintf(stderr, "\rholdfast member backup: %" PRIu64 " of %" PRIu64 " pages   ",
                progress->info.done, progress->info.total);
    }
}

static int fail(const char *path, const char *what)
{
    return cli_fail_with(CLI_FAILED, "member backup", "%s: %s: %s", path, what, strerror(errno));
}

/* Waits until the agent has made the copy. Returns 0, or the exit status after a line on stderr. */
static int await_copy(struct cli *cli, struct progress *progress, int *copy)
{
    const struct timespec pause = {.tv_nsec = ASK_AGAIN_MS * 1000000L};
    hf_client *client = NULL;
    int error = 0;
    int status = cli_connect(cli, "member", backup_timeout_ns, &client);

    if (status != 0) {
        return status;
    }
    do {
        error = hf_backup(client, copy, note, progress);
        if (error == 0 && *copy < 0) {
            show(progress);
            nanosleep(&pause, NULL);
        }
    } while (error == 0 && progress->info.stage < HF_BACKUP_DONE);
    hf_disconnect(client);
    if (progress->shown) {
        fputc('\n', stderr);
    }
    if (error != 0) {
        return cli_fail_call("member", "asking the agent", error);
    }
    if (progress->info.stage == HF_BACKUP_FAILED) {
        return cli_fail_with(CLI_FAILED, "member backup", "the agent has made none: %s",
                             progress->text);
    }
    return 0;
}

/* Copies all bytes. Returns false with errno. */
static bool copy_bytes(int from, int to, uint64_t *bytes)
{
    static char piece[PIECE_SIZE];
    ssize_t got = 0;

    *bytes = 0;
    while ((got = read(from, piece, sizeof piece)) > 0) {
        for (ssize_t at = 0; at < got;) {
            ssize_t put = write(to, piece + at, (size_t)(got - at));

            if (put <= 0) {
                return false;
            }
            at += put;
        }
        *bytes += (uint64_t)got;
    }
    return got == 0;
}

/* Makes the names in the folder of that path durable. */
static bool sync_folder(const char *path)
{
    char folder[PATH_MAX];
    char *slash;

    snprintf(folder, sizeof folder, "%s", path);
    slash = strrchr(folder, '/');
    if (slash == NULL) {
        memcpy(folder, ".", 2);
    } else {
        slash[slash == folder ? 1 : 0] = '\0';
    }
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = file >= 0 && fsync(file) == 0;

    if (file >= 0) {
        close(file);
    }
    return done;
}

/* Writes the copy to `made`, which must not exist, and then gives it its name. */
static int write_file(int copy, const struct hf_backup_info *info, const char *made,
                      const char *path, bool force)
{
    uint64_t bytes = 0;
    int file = open(made, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);

    if (file < 0) {
        return fail(made, "cannot be made");
    }
    bool written = fchmod(file, 0600) == 0 && copy_bytes(copy, file, &bytes) && fsync(file) == 0;
    int status = written ? 0 : fail(made, "cannot be written");

    if (close(file) != 0 && status == 0) {
        status = fail(made, "cannot be written");
    }
    if (status == 0 && bytes != info->bytes) {
        status = cli_fail_with(CLI_FAILED, "member backup",
                               "%s: found %" PRIu64 " bytes, expected %" PRIu64, made, bytes,
                               info->bytes);
    }
    /* link(), unlike rename(), does not replace a file that somebody made meanwhile */
    if (status == 0 && (force ? rename(made, path) : link(made, path)) != 0) {
        status = fail(path, "cannot be made");
    }
    if (status != 0 || !force) {
        (void)unlink(made);
    }
    if (status == 0 && !sync_folder(path)) {
        status = fail(path, "its folder cannot be made durable");
    }
    return status;
}

static void report(const struct cli *cli, const char *path, const struct hf_backup_info *info)
{
    struct json json;

    if (!cli->json) {
        printf("%s: a backup as of commit %" PRIu64 ", with %" PRIu64
               " lock names; it was checked\n",
               path, info->commit, info->locks);
        return;
    }
    json_init(&json, stdout);
    json_open_object(&json, NULL);
    json_text(&json, "file", path);
    json_unsigned(&json, "commit", info->commit);
    json_unsigned(&json, "locks", info->locks);
    json_unsigned(&json, "bytes", info->bytes);
    json_close_object(&json);
    putchar('\n');
}

int member_backup(struct cli *cli, const char *path, bool force)
{
    struct progress progress = {.shown = false};
    char made[PATH_MAX];
    int copy = -1;

    if (snprintf(made, sizeof made, "%s.new-%ld", path, (long)getpid()) >= (int)sizeof made) {
        errno = ENAMETOOLONG;
        return fail(path, "cannot be made");
    }
    if (!force && access(path, F_OK) == 0) {
        return cli_fail_with(CLI_FAILED, "member backup",
                             "%s: exists, and is left as it is: expected a new file, or --force",
                             path);
    }
    int status = await_copy(cli, &progress, &copy);

    if (status == 0) {
        status = write_file(copy, &progress.info, made, path, force);
    }
    if (copy >= 0) {
        close(copy);
    }
    if (status == 0) {
        report(cli, path, &progress.info);
    }
    return status;
}
