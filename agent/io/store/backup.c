/*
 * Backups: see io/store.h.
 *
 * SQLite's backup function copies the pages, some at each step. The store has one connection, and
 * the copy is made through it: if a commit changes a page that is copied already, SQLite writes the
 * page to the copy too. So the copy is always that of one commit, the last one before the last
 * step. The copy is not flushed while it is made, because the thread that makes it also commits. It
 * is marked, checked and flushed afterwards.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "private.h"

enum { STEP_PAGES = 128 }; /* 256 KiB: copied in less time than a commit takes */

struct store_backup {
    sqlite3 *copy;
    sqlite3_backup *run;
    char path[STORE_KEPT_MAX];
};

static bool say(char *error, const char *path, const char *what, const char *why)
{
    snprintf(error, STORE_ERROR_MAX, "%.256s: %s: %s", path, what, why);
    return false;
}

static bool say_sqlite(char *error, const char *path, const char *what, sqlite3 *database)
{
    return say(error, path, what, database == NULL ? "no memory" : sqlite3_errmsg(database));
}

void store_backup_remove(const char *path)
{
    char ignored[STORE_ERROR_MAX];
    bool removed = store_clear(path, ignored);
    (void)removed;
}

bool store_flush_file(const char *path)
{
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    bool done = file >= 0 && fsync(file) == 0;
    int error = errno;
    if (file >= 0) {
        close(file);
    }
    errno = error;
    return done;
}

static bool open_copy(struct store_backup *backup, char *error)
{
    static const char fast[] = "PRAGMA synchronous=OFF; PRAGMA journal_mode=OFF;";
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    int file = open(backup->path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        return say(error, backup->path, "cannot be made", strerror(errno));
    }
    close(file);
    if (sqlite3_open_v2(backup->path, &backup->copy, flags, NULL) != SQLITE_OK ||
        sqlite3_exec(backup->copy, fast, NULL, NULL, NULL) != SQLITE_OK) {
        return say_sqlite(error, backup->path, "cannot be made", backup->copy);
    }
    return true;
}

struct store_backup *store_backup_open(struct store *store, const char *path, char *error)
{
    struct store_backup *backup = calloc(1, sizeof(*backup));
    if (backup == NULL || strlen(path) >= sizeof(backup->path)) {
        say(error, path, "cannot be made", backup == NULL ? "no memory" : "the path is too long");
        free(backup);
        return NULL;
    }
    memcpy(backup->path, path, strlen(path) + 1);
    bool done = open_copy(backup, error);
    if (done) {
        backup->run = sqlite3_backup_init(backup->copy, "main", store->database, "main");
        done = backup->run != NULL || say_sqlite(error, path, "cannot be made", backup->copy);
    }
    if (!done) {
        store_backup_close(backup);
        return NULL;
    }
    return backup;
}

enum store_backup_result store_backup_step(struct store_backup *backup, char *error)
{
    int result = sqlite3_backup_step(backup->run, STEP_PAGES);
    if (result == SQLITE_OK) {
        return STORE_BACKUP_MORE;
    }
    if (result == SQLITE_DONE) {
        return STORE_BACKUP_DONE;
    }
    say(error, backup->path, "cannot be written", sqlite3_errstr(result));
    return STORE_BACKUP_FAILED;
}

void store_backup_progress(const struct store_backup *backup, uint64_t *done, uint64_t *total)
{
    int count = sqlite3_backup_pagecount(backup->run);
    int left = sqlite3_backup_remaining(backup->run);
    *total = count > 0 ? (uint64_t)count : 0;
    *done = count > left ? (uint64_t)(count - left) : 0;
}

void store_backup_close(struct store_backup *backup)
{
    if (backup != NULL) {
        sqlite3_backup_finish(backup->run);
        sqlite3_close(backup->copy);
        free(backup);
    }
}

/* ---- Checking ---- */

static int first_text(void *arg, int count, char **values, char **names)
{
    (void)names;
    if (count > 0 && values[0] != NULL) {
        snprintf(arg, STORE_ERROR_MAX, "%.200s", values[0]);
    }
    return 0;
}

/* Looks for damage in the whole file, and writes the mark. */
static bool mark(const char *path, const struct store_identity *identity, char *error)
{
    static const char write[] = "REPLACE INTO meta(key, value, in_commit) VALUES('backup', 'of "
                                "%.*s in the cell %.*s', 0)";
    sqlite3 *copy = NULL;
    char found[STORE_ERROR_MAX] = "nothing";
    char sql[sizeof(write) + sizeof(identity->agent.text) + sizeof(identity->cell.text)];
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    snprintf(sql, sizeof(sql), write, (int)identity->agent.length, identity->agent.text,
             (int)identity->cell.length, identity->cell.text);
    bool done = sqlite3_open_v2(path, &copy, flags, NULL) == SQLITE_OK &&
                sqlite3_exec(copy, "PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=DELETE;",
                             NULL, NULL, NULL) == SQLITE_OK &&
                sqlite3_exec(copy, "PRAGMA integrity_check(1)", first_text, found, NULL) ==
                    SQLITE_OK;
    if (done && strcmp(found, "ok") != 0) {
        done = say(error, path, "the copy is damaged", found);
    } else {
        done = done && sqlite3_exec(copy, sql, NULL, NULL, NULL) == SQLITE_OK;
        done = done || say_sqlite(error, path, "the copy cannot be checked", copy);
    }
    if (sqlite3_close(copy) != SQLITE_OK && done) {
        done = say(error, path, "the copy cannot be checked", "it cannot be closed");
    }
    return done;
}

static bool see_promise(void *arg, const struct quorum_promise *promise)
{
    (void)arg;
    return promise->ballot < MESSAGE_BALLOT_LIMIT;
}

static bool see_register(void *arg, const struct quorum_register *reg)
{
    struct store_copied *copied = arg;
    copied->registers++;
    return reg->name.length > 0;
}

static bool see_mark(void *arg, const struct message_session *session)
{
    (void)arg;
    return session->agent.length > 0;
}

static bool see_checkpoint(void *arg, const struct quorum_checkpoint *row)
{
    (void)arg;
    return row->partition < MESSAGE_PARTITIONS;
}

static bool see_member(void *arg, const struct quorum_member *row)
{
    (void)arg;
    return row->voter.length > 0;
}

static bool see_seen(void *arg, const struct quorum_seen *row)
{
    (void)arg;
    return row->voter.length > 0;
}

/* Opens the copy as a store, and reads all that a recovery needs. */
static bool read_copy(const char *path, const struct store_identity *identity,
                      struct store_copied *copied, char *error)
{
    struct store_identity own = *identity;
    struct store_meta meta;
    struct message_voters voters;
    struct message_rules rules;
    bool found = false;
    struct store_reader reader = {.arg = copied,
                                  .promise = see_promise,
                                  .reg = see_register,
                                  .mark = see_mark,
                                  .checkpoint = see_checkpoint,
                                  .member = see_member,
                                  .seen = see_seen};
    own.takes_backup = true;
    struct store *store = store_open(path, &own, &meta, error);
    if (store == NULL) {
        return false;
    }
    bool done = store_load(store, &reader) && store_voters(store, &voters, &found) &&
                store_rules(store, &rules, &found);
    if (!done) {
        snprintf(error, STORE_ERROR_MAX, "%s", store_error(store));
    } else if (!meta.backup) {
        done = say(error, path, "the copy cannot be checked", "it is not marked as a backup");
    }
    copied->commit = meta.commit;
    store_close(store);
    return done;
}

bool store_backup_check(const char *path, const struct store_identity *identity,
                        struct store_copied *copied, char *error)
{
    struct stat status;
    *copied = (struct store_copied){.commit = 0};
    if (!mark(path, identity, error) || !read_copy(path, identity, copied, error)) {
        return false;
    }
    if (!store_flush_file(path) || stat(path, &status) != 0) {
        return say(error, path, "cannot be made durable", strerror(errno));
    }
    copied->bytes = (uint64_t)status.st_size;
    return true;
}

bool store_backup_place(const char *made, const char *path, bool replace, char *error)
{
    /* unlike rename(), link() does not replace a file that somebody made meanwhile */
    if (replace ? rename(made, path) != 0 : link(made, path) != 0 || unlink(made) != 0) {
        return say(error, path, "cannot be made", strerror(errno));
    }
    return store_sync_folder(path) ||
           say(error, path, "its folder cannot be made durable", strerror(errno));
}
