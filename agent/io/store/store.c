/*
 * The store (io/store.h) on SQLite.
 *
 * There is one connection with locking_mode=EXCLUSIVE. It owns the database until it is closed and
 * keeps the index of the log in its own memory, so no commit takes a file lock. A commit writes the
 * changed pages to the end of the log in one piece (log.h), and then needs one fdatasync. Pages
 * have 2 KiB: smaller pages make a start slower, and larger pages make a commit slower.
 * store_idle() checkpoints the log; store_commit() also checkpoints it if it is very long. The log
 * is never truncated, so that after the first checkpoint commits overwrite space that the file
 * already has.
 *
 * Every row has the number of the commit that wrote it, so the last commit's number needs no row of
 * its own. Only a batch that deletes writes its number to meta.
 *
 * A number beyond 2^63 - 1 (only the token after the very last one) is stored as a negative number.
 */
#include "io/store.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "private.h"
#include "proto/check.h"

enum {
    APPLICATION_ID = 0x48466c64, /* "HFld": the application id that `file` and sqlite3 show */
    IDLE_FRAMES = 256,           /* store_idle() does nothing about a shorter log */
    FRAMES_MAX = 4096,           /* 8 MiB: a commit that finds a longer log checkpoints it */
};

static const char *const STATEMENT_TEXT[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [PUT_META] = "REPLACE INTO meta(key, value, in_commit) VALUES(?1, ?2, ?3)",
    [PUT_PROMISE] = "REPLACE INTO promise(partition, ballot, in_commit) VALUES(?1, ?2, ?3)",
    [PUT_REGISTER] = "REPLACE INTO register(name, mode, owner, epoch, token_first, token_last, "
                     "lock_delay_ms, permits, successor, closing, version_ballot, "
                     "version_sequence, ballot, sequence, in_commit, shares) "
                     "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, "
                     "?16)",
    [PUT_MARK] = "REPLACE INTO mark(agent, epoch, in_commit) VALUES(?1, ?2, ?3)",
    [PUT_CHECKPOINT] = "REPLACE INTO checkpoint(partition, ballot, sequence, floor, in_commit) "
                       "VALUES(?1, ?2, ?3, ?4, ?5)",
    [PUT_MEMBER] = "REPLACE INTO member(voter, store_id, generation, in_commit) "
                   "VALUES(?1, ?2, ?3, ?4)",
    [PUT_SEEN] = "REPLACE INTO seen(voter, store_id, last_commit, in_commit) "
                 "VALUES(?1, ?2, ?3, ?4)",
    [PUT_REGION] = "REPLACE INTO region(namespace, shm_name, in_commit) VALUES(?1, ?2, ?3)",
    [PUT_SLOT] = "REPLACE INTO slot(namespace, slot, name, in_commit) VALUES(?1, ?2, ?3, ?4)",
    [DEL_REGISTER] = "DELETE FROM register WHERE name = ?1",
    [DEL_REGION] = "DELETE FROM region WHERE namespace = ?1",
    [DEL_REGION_SLOTS] = "DELETE FROM slot WHERE namespace = ?1",
    [DEL_SLOT] = "DELETE FROM slot WHERE namespace = ?1 AND slot = ?2",
};

bool store_fail(struct store *store, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = snprintf(store->error, sizeof(store->error), "%s: ", store->path);
    if (length > 0 && (size_t)length < sizeof(store->error)) {
        vsnprintf(store->error + length, sizeof(store->error) - (size_t)length, format, arguments);
    }
    /* SQLite's errors, and the text of a damaged row, may contain line ends. */
    for (char *at = store->error; *at != '\0'; at++) {
        *at = (unsigned char)*at < ' ' || *at == 0x7f ? ' ' : *at;
    }
    va_end(arguments);
    return false;
}

bool store_fail_sqlite(struct store *store, const char *what)
{
    int code = sqlite3_errcode(store->database);
    int system = sqlite3_system_errno(store->database);
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
        return store_fail(store, "in use by another agent (one agent a state_dir)");
    }
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) {
        store->damaged = true;
        return store_fail(store, "damaged: %s; %s; expected a Holdfast store of format %d", what,
                          sqlite3_errmsg(store->database), STORE_FORMAT);
    }
    return store_fail(store, "%s: %s%s%s", what, sqlite3_errmsg(store->database),
                      system != 0 ? ": " : "", system != 0 ? strerror(system) : "");
}

bool store_run(struct store *store, const char *sql, const char *what)
{
    return sqlite3_exec(store->database, sql, NULL, NULL, NULL) == SQLITE_OK ||
           store_fail_sqlite(store, what);
}

/* ---- Opening ---- */

bool store_query_number(struct store *store, const char *sql, sqlite3_int64 *out)
{
    sqlite3_stmt *statement = NULL;
    bool done = sqlite3_prepare_v2(store->database, sql, -1, &statement, NULL) == SQLITE_OK &&
                sqlite3_step(statement) == SQLITE_ROW;
    if (done) {
        *out = sqlite3_column_int64(statement, 0);
    } else {
        store_fail_sqlite(store, sql);
    }
    sqlite3_finalize(statement);
    return done;
}

/* Returns whether the first column of the first row is that text. */
static bool query_is(struct store *store, const char *sql, const char *expected)
{
    sqlite3_stmt *statement = NULL;
    bool same = false;
    if (sqlite3_prepare_v2(store->database, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        store_fail_sqlite(store, sql);
    } else {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        same = text != NULL && strcmp(text, expected) == 0;
        if (!same) {
            store->damaged = true;
            store_fail(store, "damaged: %s says \"%s\", expected \"%s\"", sql,
                       text != NULL ? text : "nothing", expected);
        }
    }
    sqlite3_finalize(statement);
    return same;
}

/* Makes the file, so that SQLite does not choose its mode. Closes it before SQLite opens it,
 * because a later close would release SQLite's locks on it. */
static bool touch(struct store *store)
{
    int file = open(store->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        return store_fail(store, "cannot be opened: %s", strerror(errno));
    }
    close(file);
    return true;
}

bool store_sync_folder(const char *path)
{
    char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%s", path);
    char *slash = strrchr(folder, '/');
    if (slash == NULL) {
        memcpy(folder, ".", 2);
    } else {
        slash[slash == folder ? 1 : 0] = 0;
    }
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = file >= 0 && fsync(file) == 0;
    int error = errno;
    if (file >= 0) {
        close(file);
    }
    errno = error;
    return done;
}

static int on_commit(void *arg, sqlite3 *database, const char *name, int frames)
{
    (void)database;
    (void)name;
    ((struct store *)arg)->frames = frames;
    return SQLITE_OK;
}

static bool open_database(struct store *store)
{
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE;
    if (sqlite3_open_v2(store->path, &store->database, flags, store_log_vfs()) != SQLITE_OK) {
        return store->database == NULL ? store_fail(store, "no memory")
                                       : store_fail_sqlite(store, "cannot be opened");
    }
    sqlite3_extended_result_codes(store->database, 0);
    bool opened =
        store_run(store, "PRAGMA page_size=2048; PRAGMA locking_mode=EXCLUSIVE;",
                  "cannot be opened") &&
        query_is(store, "PRAGMA journal_mode=WAL", "wal") &&
        store_run(store,
                  "PRAGMA synchronous=FULL; PRAGMA wal_autocheckpoint=0; PRAGMA cache_size=-256;"
                  "PRAGMA temp_store=MEMORY; PRAGMA journal_size_limit=-1; PRAGMA mmap_size=0;"
                  "BEGIN EXCLUSIVE; COMMIT;",
                  "cannot be locked");
    if (opened) {
        sqlite3_wal_hook(store->database, on_commit, store);
    }
    return opened;
}

static bool prepare(struct store *store)
{
    for (int i = 0; i < STATEMENTS; i++) {
        if (sqlite3_prepare_v3(store->database, STATEMENT_TEXT[i], -1, SQLITE_PREPARE_PERSISTENT,
                               &store->statements[i], NULL) != SQLITE_OK) {
            return store_fail_sqlite(store, STATEMENT_TEXT[i]);
        }
    }
    return true;
}

/* Runs a prepared statement to its end. */
static bool store_finish(struct store *store, enum statement which)
{
    sqlite3_stmt *statement = store->statements[which];
    int result = sqlite3_step(statement);
    bool done = result == SQLITE_DONE || store_fail_sqlite(store, STATEMENT_TEXT[which]);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return done;
}

void store_bind_text(sqlite3_stmt *statement, int at, const void *text, size_t length)
{
    sqlite3_bind_text(statement, at, text, (int)length, SQLITE_STATIC);
}

void store_bind_number(sqlite3_stmt *statement, int at, uint64_t number)
{
    sqlite3_bind_int64(statement, at, (sqlite3_int64)number);
}

static bool put_meta_text(struct store *store, const char *key, const char *text, size_t length)
{
    sqlite3_stmt *statement = store->statements[PUT_META];
    store_bind_text(statement, 1, key, strlen(key));
    store_bind_text(statement, 2, text, length);
    store_bind_number(statement, 3, store->commit);
    return store_finish(store, PUT_META);
}

static bool put_meta_number(struct store *store, const char *key, uint64_t number)
{
    sqlite3_stmt *statement = store->statements[PUT_META];
    store_bind_text(statement, 1, key, strlen(key));
    store_bind_number(statement, 2, number);
    store_bind_number(statement, 3, store->commit);
    return store_finish(store, PUT_META);
}

static bool put_kept(struct store *store, const struct store_identity *identity)
{
    char text[16 + STORE_ID_TEXT];
    char id[STORE_ID_TEXT];
    store_id_to_text(identity->kept_id, id);
    snprintf(text, sizeof(text), "%" PRIu32 " %s", identity->kept, id);
    return identity->kept == 0 || put_meta_text(store, "kept", text, strlen(text));
}

static bool put_voters(struct store *store, const struct store_identity *identity)
{
    if (identity->voters.number == 0) {
        return true;
    }
    store->open = true; /* the transaction of create() is open */
    bool done = store_put_voters(store, &identity->voters);
    store->open = false;
    return done;
}

static bool create(struct store *store, const struct store_identity *identity)
{
    uint64_t id[2];
    char text[STORE_ID_TEXT];
    char application[48];
    if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id)) {
        return store_fail(store, "no random number for the store id: %s", strerror(errno));
    }
    store_id_to_text(id, text);
    snprintf(application, sizeof(application), "PRAGMA application_id=%d;", (int)APPLICATION_ID);
    store->commit = 1;
    return store_run(store, "BEGIN EXCLUSIVE", "cannot be made") && store_make_tables(store) &&
           store_run(store, application, "cannot be made") && prepare(store) &&
           put_meta_text(store, "store_id", text, STORE_ID_TEXT - 1) &&
           put_meta_text(store, "cell", identity->cell.text, identity->cell.length) &&
           put_meta_text(store, "agent", identity->agent.text, identity->agent.length) &&
           put_meta_number(store, "membership", 1) &&
           put_meta_number(store, "session_epoch", identity->epoch) &&
           put_meta_number(store, "rejoin", identity->rejoin) && put_kept(store, identity) &&
           put_voters(store, identity) &&
           put_meta_text(store, "written_by", HF_VERSION, strlen(HF_VERSION)) &&
           put_meta_number(store, "round", 0) && put_meta_number(store, "commit", 1) &&
           store_run(store, "COMMIT", "cannot be made") &&
           (store_sync_folder(store->path) ||
            store_fail(store, "its folder cannot be made durable: %s", strerror(errno)));
}

/* Returns the value of a key in meta as text; NULL if it is missing. The text belongs to
 * *statement. */
static const char *meta_text(struct store *store, const char *key, sqlite3_stmt **statement)
{
    *statement = NULL;
    if (sqlite3_prepare_v2(store->database, "SELECT value FROM meta WHERE key = ?1", -1, statement,
                           NULL) != SQLITE_OK) {
        store_fail_sqlite(store, "meta");
        return NULL;
    }
    store_bind_text(*statement, 1, key, strlen(key));
    const char *text = sqlite3_step(*statement) == SQLITE_ROW
                           ? (const char *)sqlite3_column_text(*statement, 0)
                           : NULL;
    if (text == NULL) {
        store->damaged = true;
        store_fail(store, "damaged: meta has no %s", key);
    }
    return text;
}

static bool meta_number(struct store *store, const char *key, uint64_t max, uint64_t *out)
{
    sqlite3_stmt *statement = NULL;
    const char *text = meta_text(store, key, &statement);
    bool done = text != NULL;
    if (done) {
        char *end = NULL;
        errno = 0;
        *out = strtoull(text, &end, 10);
        done = errno == 0 && end != text && *end == 0 && text[0] != '-' && *out <= max;
        if (!done) {
            store->damaged = true;
            store_fail(store, "damaged: meta has %s \"%s\", expected a number up to %" PRIu64, key,
                       text, max);
        }
    }
    sqlite3_finalize(statement);
    return done;
}

static bool meta_is(struct store *store, const char *key, const struct message_agent *expected)
{
    sqlite3_stmt *statement = NULL;
    const char *text = meta_text(store, key, &statement);
    bool same = text != NULL && strlen(text) == expected->length &&
                memcmp(text, expected->text, expected->length) == 0;
    if (text != NULL && !same) {
        store_fail(store, "belongs to %s \"%s\", expected %s \"%.*s\"", key, text, key,
                   (int)expected->length, expected->text);
    }
    sqlite3_finalize(statement);
    return same;
}

static bool meta_store_id(struct store *store, uint64_t id[2])
{
    sqlite3_stmt *statement = NULL;
    const char *text = meta_text(store, "store_id", &statement);
    bool done = text != NULL;
    if (done) {
        done = store_id_from_text(text, id);
        if (!done) {
            store->damaged = true;
            store_fail(store, "damaged: meta has store_id \"%s\", expected 32 hexadecimal digits",
                       text);
        }
    }
    sqlite3_finalize(statement);
    return done;
}

/* Finds the number of the last commit: the highest number in any row. */
static bool find_commit(struct store *store)
{
    sqlite3_int64 highest = 0;
    uint64_t written = 0;
    if (!meta_number(store, "commit", INT64_MAX, &written) ||
        !store_query_number(store,
                            "SELECT max(c) FROM (SELECT max(in_commit) AS c FROM meta"
                            " UNION ALL SELECT max(in_commit) FROM promise"
                            " UNION ALL SELECT max(in_commit) FROM register"
                            " UNION ALL SELECT max(in_commit) FROM mark"
                            " UNION ALL SELECT max(in_commit) FROM checkpoint"
                            " UNION ALL SELECT max(in_commit) FROM member"
                            " UNION ALL SELECT max(in_commit) FROM seen"
                            " UNION ALL SELECT max(in_commit) FROM region"
                            " UNION ALL SELECT max(in_commit) FROM slot)",
                            &highest)) {
        return false;
    }
    store->commit = (uint64_t)highest > written ? (uint64_t)highest : written;
    return true;
}

/* Reads a number from meta. If an older store lacks the number, sets *out to 0. */
static bool find_number(struct store *store, const char *key, uint64_t max, uint64_t *out)
{
    sqlite3_stmt *row = NULL;
    const char *text;
    bool done = store_find_meta(store, key, &row, &text);
    bool found = text != NULL;
    sqlite3_finalize(row);
    *out = 0;
    return done && (!found || meta_number(store, key, max, out));
}

/* Refuses a backup. An agent that started with a backup would lack everything that the cell has
 * decided since the backup was made. */
static bool check_backup(struct store *store, const struct store_identity *identity,
                         struct store_meta *meta)
{
    sqlite3_stmt *row = NULL;
    const char *text;
    bool done = store_find_meta(store, "backup", &row, &text);
    meta->backup = text != NULL;
    if (meta->backup && !identity->takes_backup) {
        done = store_fail(store,
                          "is a backup (%.64s): no agent starts with it, because it has forgotten "
                          "what the cell decided since; it is only good for holdfastd --recover, "
                          "when a majority of the voters is lost for good",
                          text);
    }
    sqlite3_finalize(row);
    return done;
}

static bool read_meta(struct store *store, const struct store_identity *identity,
                      struct store_meta *meta)
{
    uint64_t membership = 0;
    uint64_t epoch = 0;
    uint64_t round = 0;
    uint64_t rejoin = 0;
    uint64_t wait_ms = 0;
    bool own = meta_is(store, "cell", &identity->cell) && meta_is(store, "agent", &identity->agent);
    meta->foreign = !own && !store->damaged;
    if (!own || !meta_store_id(store, meta->store_id) ||
        !meta_number(store, "membership", UINT32_MAX, &membership) ||
        !meta_number(store, "session_epoch", MESSAGE_EPOCH_LIMIT - 1, &epoch) ||
        !meta_number(store, "round", UINT32_MAX, &round) ||
        !meta_number(store, "rejoin", 1, &rejoin) || !find_commit(store) ||
        !find_number(store, "recovery_wait_ms", UINT32_MAX, &wait_ms) ||
        !check_backup(store, identity, meta)) {
        return false;
    }
    meta->membership = (uint32_t)membership;
    meta->session_epoch = (uint32_t)epoch;
    meta->round = (uint32_t)round;
    meta->rejoin = rejoin != 0;
    meta->recovery_wait_ms = (uint32_t)wait_ms;
    meta->commit = store->commit;
    return true;
}

/* Writes to `text` which release last had the store; "" if the store does not record that (format
 * 1). */
static void written_by(struct store *store, char *text, size_t size)
{
    sqlite3_stmt *statement = NULL;
    const char *found = meta_text(store, "written_by", &statement);
    store->damaged =
        false; /* a missing text is no sign of damage: the store may be of an unknown format, or
                * never had one */
    snprintf(text, size, "%.64s", found != NULL ? found : "");
    sqlite3_finalize(statement);
}

static bool fail_format(struct store *store, sqlite3_int64 format)
{
    char release[80];
    written_by(store, release, sizeof(release));
    return store_fail(store,
                      "has format %lld, expected at most %d: it was written by Holdfast %s, this "
                      "is %s; start that release again, or see docs/OPERATIONS.md, \"Going back\"",
                      (long long)format, (int)STORE_FORMAT_CHANGED,
                      release[0] != '\0' ? release : "of an unknown version", HF_VERSION);
}

/* Returns whether an older store may be migrated: it belongs to this agent, is undamaged, and
 * identity->may_migrate() allows it. */
static bool may_migrate(struct store *store, const struct store_identity *identity,
                        struct store_meta *meta)
{
    bool own = meta_is(store, "cell", &identity->cell) && meta_is(store, "agent", &identity->agent);
    meta->foreign = !own && !store->damaged;
    if (!own || !query_is(store, "PRAGMA quick_check(1)", "ok")) {
        return false;
    }
    struct store_reader reader = {.arg = identity->arg, .region = identity->may_migrate};
    if (identity->may_migrate != NULL && !store_load(store, &reader)) {
        meta->held = true;
        return store_fail(store, "is of an older format, and is left as it is: processes hold "
                                 "locks in regions of another layout");
    }
    return true;
}

/* Records which release has the store. An older release that does not know the store's format can
 * then name the release that does. */
static bool sign(struct store *store)
{
    char release[80];
    written_by(store, release, sizeof(release));
    sqlite3_stmt *statement = store->statements[PUT_META];
    if (strcmp(release, HF_VERSION) == 0) {
        return true;
    }
    store_bind_text(statement, 1, "written_by", strlen("written_by"));
    store_bind_text(statement, 2, HF_VERSION, strlen(HF_VERSION));
    store_bind_number(statement, 3, 0); /* no core made this commit, and nothing depends on its
                                         * number */
    return store_finish(store, PUT_META);
}

static bool open_all(struct store *store, const struct store_identity *identity,
                     struct store_meta *meta)
{
    sqlite3_int64 application = 0;
    sqlite3_int64 format = 0;
    sqlite3_int64 tables = 0;
    if (!touch(store) || !open_database(store) || !store_renew_log(store) ||
        !store_query_number(store, "PRAGMA application_id", &application) ||
        !store_query_number(store, "PRAGMA user_version", &format) ||
        !store_query_number(store, "SELECT count(*) FROM sqlite_master", &tables)) {
        return false;
    }
    if (tables == 0 && application == 0) {
        return create(store, identity) && read_meta(store, identity, meta);
    }
    if (application != APPLICATION_ID) {
        return store_fail(store, "is no Holdfast store: application_id %lld, expected %d",
                          (long long)application, (int)APPLICATION_ID);
    }
    if (format < 1 || format > STORE_FORMAT_CHANGED) {
        return fail_format(store, format);
    }
    store->changed = format == STORE_FORMAT_CHANGED;
    if (format < STORE_FORMAT) {
        if (!may_migrate(store, identity, meta) || !store_migrate(store, (int)format)) {
            return false;
        }
        meta->migrated_from = (uint32_t)format;
    }
    return query_is(store, "PRAGMA quick_check(1)", "ok") && prepare(store) &&
           read_meta(store, identity, meta) && sign(store);
}

struct store *store_open_checked(const char *path, const struct store_identity *identity,
                                 struct store_meta *meta, char *error, bool *damaged)
{
    memset(meta, 0, sizeof(*meta));
    *damaged = false;
    struct store *store = calloc(1, sizeof(*store));
    if (store == NULL || strlen(path) >= sizeof(store->path)) {
        snprintf(error, STORE_ERROR_MAX, "%s: %s", path,
                 store == NULL ? "no memory" : "the path is too long");
        free(store);
        return NULL;
    }
    memcpy(store->path, path, strlen(path) + 1);
    if (!open_all(store, identity, meta)) {
        memcpy(error, store->error, STORE_ERROR_MAX);
        *damaged = store->damaged;
        store_close(store);
        return NULL;
    }
    return store;
}

struct store *store_open(const char *path, const struct store_identity *identity,
                         struct store_meta *meta, char *error)
{
    bool damaged = false;
    return store_open_checked(path, identity, meta, error, &damaged);
}

void store_close(struct store *store)
{
    if (store == NULL) {
        return;
    }
    for (int i = 0; i < STATEMENTS; i++) {
        sqlite3_finalize(store->statements[i]);
    }
    sqlite3_close(store->database);
    free(store);
}

const char *store_error(const struct store *store)
{
    return store->error;
}

/* ---- Writing ---- */

bool store_begin(struct store *store)
{
    HF_CHECK(!store->open);
    if (store->failed) {
        return store_fail(store,
                          "an earlier write failed: nothing is written to this store any more");
    }
    if (!store_finish(store, BEGIN)) {
        return false;
    }
    store->open = true;
    store->deleted = false;
    store->commit++;
    return true;
}

bool store_change(struct store *store, enum statement which)
{
    HF_CHECK(store->open);
    if (!store->failed && store_finish(store, which)) {
        return true;
    }
    store->failed = true;
    return false;
}

bool store_commit(struct store *store, uint64_t *commit)
{
    HF_CHECK(store->open);
    store->open = false;
    bool done = !store->failed &&
                (!store->deleted || put_meta_number(store, "commit", store->commit)) &&
                store_finish(store, COMMIT);
    if (!done) {
        store->failed = true;
        /* The error text stays that of the first failure, even if the rollback fails as well. */
        sqlite3_step(store->statements[ROLLBACK]);
        sqlite3_reset(store->statements[ROLLBACK]);
        return false;
    }
    *commit = store->commit;
    if (store->frames > FRAMES_MAX) {
        return store_idle(store);
    }
    return true;
}

bool store_idle(struct store *store)
{
    HF_CHECK(!store->open);
    if (store->failed || store->frames < IDLE_FRAMES) {
        return true;
    }
    if (sqlite3_wal_checkpoint_v2(store->database, NULL, SQLITE_CHECKPOINT_PASSIVE, NULL, NULL) !=
        SQLITE_OK) {
        store->failed = true;
        return store_fail_sqlite(store, "checkpoint");
    }
    store->frames = 0;
    return true;
}
