/*
 * The formats of the store: what each adds, and how a store of an older format is migrated.
 *
 * A new store goes through the same steps as an old one, so a format is described only once. A
 * migration first makes a copy, PATH.vN.bak (N: the old format), then takes all steps in one
 * transaction. The copy is written under another name, flushed, and then renamed, so a copy under
 * its final name is whole. If the agent is killed or finds no room, at any point, the store is of
 * the old format or of the new one, never in between. The next attempt removes the unfinished copy.
 *
 * The copy can be used only if the new release has not run with the store yet. A voter that has run
 * must not go back to the copy: see docs/OPERATIONS.md.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "private.h"

enum { BACKUP_PAGES = 1024 }; /* pages copied in one step */

/* The first format: cells of one host. */
static const char FIRST[] =
    "CREATE TABLE meta(key TEXT PRIMARY KEY, value, in_commit INTEGER) WITHOUT ROWID;"
    "CREATE TABLE promise(partition INTEGER PRIMARY KEY, ballot INTEGER NOT NULL,"
    " in_commit INTEGER);"
    "CREATE TABLE register(name TEXT PRIMARY KEY, mode TEXT NOT NULL, owner TEXT,"
    " epoch INTEGER NOT NULL, token_first INTEGER NOT NULL, token_last INTEGER NOT NULL,"
    " lock_delay_ms INTEGER NOT NULL, permits INTEGER NOT NULL, successor TEXT,"
    " closing INTEGER NOT NULL, version_ballot INTEGER NOT NULL,"
    " version_sequence INTEGER NOT NULL, ballot INTEGER NOT NULL, sequence INTEGER NOT NULL,"
    " in_commit INTEGER) WITHOUT ROWID;"
    "CREATE TABLE mark(agent TEXT PRIMARY KEY, epoch INTEGER NOT NULL, in_commit INTEGER)"
    " WITHOUT ROWID;"
    "CREATE TABLE region(namespace TEXT PRIMARY KEY, shm_name TEXT NOT NULL, in_commit INTEGER)"
    " WITHOUT ROWID;"
    "CREATE TABLE slot(namespace TEXT, slot INTEGER, name TEXT NOT NULL, in_commit INTEGER,"
    " PRIMARY KEY(namespace, slot)) WITHOUT ROWID;";

/* STEPS[n] leads from format n + 1 to n + 2. Format 2 adds cells of more than one voter. */
static const char *const STEPS[] = {
    "ALTER TABLE register ADD COLUMN shares TEXT;"
    "CREATE TABLE checkpoint(partition INTEGER PRIMARY KEY, ballot INTEGER NOT NULL,"
    " sequence INTEGER NOT NULL, floor INTEGER NOT NULL, in_commit INTEGER);"
    "CREATE TABLE member(voter TEXT PRIMARY KEY, store_id TEXT NOT NULL,"
    " generation INTEGER NOT NULL, in_commit INTEGER) WITHOUT ROWID;"
    "CREATE TABLE seen(voter TEXT PRIMARY KEY, store_id TEXT NOT NULL,"
    " last_commit INTEGER NOT NULL, in_commit INTEGER) WITHOUT ROWID;"
    "INSERT INTO meta(key, value, in_commit) VALUES('rejoin', 0, 0);",
};
_Static_assert(sizeof(STEPS) / sizeof(STEPS[0]) == STORE_FORMAT - 1, "a step to each format");

static bool take_steps(struct store *store, int from, const char *what)
{
    char version[48];
    snprintf(version, sizeof(version), "PRAGMA user_version=%d;", (int)STORE_FORMAT);
    for (int format = from; format < STORE_FORMAT; format++) {
        if (!store_run(store, STEPS[format - 1], what)) {
            return false;
        }
    }
    return store_run(store, version, what);
}

bool store_make_tables(struct store *store)
{
    return store_run(store, FIRST, "cannot be made") && take_steps(store, 1, "cannot be made");
}

/* ---- the copy ---- */

static bool fail_backup(struct store *store, const char *name, const char *what)
{
    return store_fail(store, "cannot be migrated: its copy %s %s", name, what);
}

/* Copies the database as this connection sees it, with the content of its log. */
static bool copy_pages(struct store *store, sqlite3 *copy, const char *name)
{
    sqlite3_backup *backup = sqlite3_backup_init(copy, "main", store->database, "main");
    int result = SQLITE_OK;
    while (backup != NULL && result == SQLITE_OK) { /* each step copies pages, so the loop ends */
        result = sqlite3_backup_step(backup, BACKUP_PAGES);
    }
    sqlite3_backup_finish(backup);
    return (backup != NULL && result == SQLITE_DONE) ||
           fail_backup(store, name, sqlite3_errmsg(copy));
}

/* Removes the copy, and the files that SQLite may have made beside it. */
static void remove_copy(const char *name)
{
    static const char *const SUFFIX[] = {"", "-journal", "-wal", "-shm"};
    char path[PATH_MAX + 32];
    for (size_t i = 0; i < sizeof(SUFFIX) / sizeof(SUFFIX[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", name, SUFFIX[i]);
        (void)unlink(path);
    }
}

/* Writes the copy under its temporary name, whole and flushed. */
static bool write_copy(struct store *store, const char *name)
{
    sqlite3 *copy = NULL;
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    int file = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        return fail_backup(store, name, strerror(errno));
    }
    close(file);
    bool done = sqlite3_open_v2(name, &copy, flags, NULL) == SQLITE_OK ||
                fail_backup(store, name, copy == NULL ? "no memory" : sqlite3_errmsg(copy));
    done = done && copy_pages(store, copy, name);
    if (sqlite3_close(copy) != SQLITE_OK && done) {
        done = fail_backup(store, name, "cannot be closed");
    }
    return done && (store_flush_file(name) || fail_backup(store, name, strerror(errno)));
}

static bool back_up(struct store *store, int format)
{
    char made[PATH_MAX + 24];
    char kept[PATH_MAX + 24];
    snprintf(kept, sizeof(kept), "%s.v%d.bak", store->path, format);
    snprintf(made, sizeof(made), "%s.v%d.new", store->path, format);
    remove_copy(made);
    if (!write_copy(store, made)) {
        remove_copy(made);
        return false;
    }
    if (rename(made, kept) != 0 || !store_sync_folder(store->path)) {
        return fail_backup(store, kept, strerror(errno));
    }
    return true;
}

bool store_migrate(struct store *store, int format)
{
    static const char what[] = "cannot be migrated";
    return back_up(store, format) && store_run(store, "BEGIN EXCLUSIVE", what) &&
           take_steps(store, format, what) && store_run(store, "COMMIT", what);
}
