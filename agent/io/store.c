/*
 * The store (io/store.h) on SQLite.
 *
 * One connection with locking_mode=EXCLUSIVE: it owns the database until it is closed, keeps the
 * index of the log in its own memory, and no commit takes a file lock. A commit of one row is one
 * changed page, so one frame at the end of the log and one fdatasync; the page is small for that.
 * The log is checkpointed by store_idle(), or once it has grown very long; it is never truncated,
 * so that after the first checkpoint commits write over space that the file already has.
 *
 * Every row says in which commit it was written, so the number of the last commit needs no row of
 * its own; only a batch that deletes writes it to meta.
 *
 * Numbers beyond 2^63 - 1 (only the token after the very last) are stored as SQLite's negative
 * ones.
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

#include "proto/check.h"

enum {
    APPLICATION_ID = 0x48466c64, /* "HFld": what `file` and sqlite3 see */
    IDLE_FRAMES = 256,           /* store_idle leaves a shorter log alone */
    FRAMES_MAX = 32768,          /* a commit that finds a longer one checkpoints */
};

enum statement {
    BEGIN,
    COMMIT,
    ROLLBACK,
    PUT_META,
    PUT_PROMISE,
    PUT_REGISTER,
    PUT_MARK,
    PUT_REGION,
    PUT_SLOT,
    DEL_REGION,
    DEL_REGION_SLOTS,
    DEL_SLOT,
    STATEMENTS,
};

static const char *const STATEMENT_TEXT[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [PUT_META] = "REPLACE INTO meta(key, value, in_commit) VALUES(?1, ?2, ?3)",
    [PUT_PROMISE] = "REPLACE INTO promise(partition, ballot, in_commit) VALUES(?1, ?2, ?3)",
    [PUT_REGISTER] = "REPLACE INTO register(name, mode, owner, epoch, token_first, token_last, "
                     "lock_delay_ms, permits, successor, closing, version_ballot, "
                     "version_sequence, ballot, sequence, in_commit) "
                     "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)",
    [PUT_MARK] = "REPLACE INTO mark(agent, epoch, in_commit) VALUES(?1, ?2, ?3)",
    [PUT_REGION] = "REPLACE INTO region(namespace, shm_name, in_commit) VALUES(?1, ?2, ?3)",
    [PUT_SLOT] = "REPLACE INTO slot(namespace, slot, name, in_commit) VALUES(?1, ?2, ?3, ?4)",
    [DEL_REGION] = "DELETE FROM region WHERE namespace = ?1",
    [DEL_REGION_SLOTS] = "DELETE FROM slot WHERE namespace = ?1",
    [DEL_SLOT] = "DELETE FROM slot WHERE namespace = ?1 AND slot = ?2",
};

static const char SCHEMA[] =
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

static const char *const MODE_TEXT[] = {"free", "shared", "exclusive"};

struct store {
    sqlite3 *database;
    sqlite3_stmt *statements[STATEMENTS];
    uint64_t commit; /* of the last batch, or of the open one */
    bool open;       /* a batch is open */
    bool deleted;    /* it deletes */
    bool failed;     /* for good: what is durable is not known */
    int frames;      /* in the log */
    char path[PATH_MAX];
    char error[STORE_ERROR_MAX];
};

__attribute__((format(printf, 2, 3))) static bool fail(struct store *store, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int length = snprintf(store->error, sizeof(store->error), "%s: ", store->path);
    if (length > 0 && (size_t)length < sizeof(store->error)) {
        vsnprintf(store->error + length, sizeof(store->error) - (size_t)length, format, arguments);
    }
    va_end(arguments);
    return false;
}

static bool fail_sqlite(struct store *store, const char *what)
{
    int code = sqlite3_errcode(store->database);
    int system = sqlite3_system_errno(store->database);
    if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
        return fail(store, "in use by another agent (one agent a state_dir)");
    }
    if (code == SQLITE_NOTADB || code == SQLITE_CORRUPT) {
        return fail(store, "damaged: %s; %s; expected a Holdfast store of format %d", what,
                    sqlite3_errmsg(store->database), STORE_FORMAT);
    }
    return fail(store, "%s: %s%s%s", what, sqlite3_errmsg(store->database), system != 0 ? ": " : "",
                system != 0 ? strerror(system) : "");
}

static bool run(struct store *store, const char *sql, const char *what)
{
    return sqlite3_exec(store->database, sql, NULL, NULL, NULL) == SQLITE_OK ||
           fail_sqlite(store, what);
}

/* ---- Opening ---- */

/* The first column of the first row as a number. */
static bool query_number(struct store *store, const char *sql, sqlite3_int64 *out)
{
    sqlite3_stmt *statement = NULL;
    bool done = sqlite3_prepare_v2(store->database, sql, -1, &statement, NULL) == SQLITE_OK &&
                sqlite3_step(statement) == SQLITE_ROW;
    if (done) {
        *out = sqlite3_column_int64(statement, 0);
    } else {
        fail_sqlite(store, sql);
    }
    sqlite3_finalize(statement);
    return done;
}

/* Whether the first column of the first row is that text. */
static bool query_is(struct store *store, const char *sql, const char *expected)
{
    sqlite3_stmt *statement = NULL;
    bool same = false;
    if (sqlite3_prepare_v2(store->database, sql, -1, &statement, NULL) != SQLITE_OK ||
        sqlite3_step(statement) != SQLITE_ROW) {
        fail_sqlite(store, sql);
    } else {
        const char *text = (const char *)sqlite3_column_text(statement, 0);
        same = text != NULL && strcmp(text, expected) == 0;
        if (!same) {
            fail(store, "damaged: %s says \"%s\", expected \"%s\"", sql,
                 text != NULL ? text : "nothing", expected);
        }
    }
    sqlite3_finalize(statement);
    return same;
}

/* Makes the file, so that SQLite does not choose its mode. Closed before SQLite opens it: closing
 * it later would drop the locks of SQLite. */
static bool touch(struct store *store)
{
    int file = open(store->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (file < 0) {
        return fail(store, "cannot be opened: %s", strerror(errno));
    }
    close(file);
    return true;
}

/* Makes the names of the database and its log in their folder durable. */
static bool sync_folder(struct store *store)
{
    char folder[PATH_MAX];
    memcpy(folder, store->path, sizeof(folder));
    char *slash = strrchr(folder, '/');
    if (slash == NULL) {
        memcpy(folder, ".", 2);
    } else {
        slash[slash == folder ? 1 : 0] = 0;
    }
    int file = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool done = file >= 0 && fsync(file) == 0;
    if (!done) {
        fail(store, "its folder cannot be made durable: %s", strerror(errno));
    }
    if (file >= 0) {
        close(file);
    }
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
    if (sqlite3_open_v2(store->path, &store->database, flags, NULL) != SQLITE_OK) {
        return store->database == NULL ? fail(store, "no memory")
                                       : fail_sqlite(store, "cannot be opened");
    }
    sqlite3_extended_result_codes(store->database, 0);
    bool opened =
        run(store, "PRAGMA page_size=1024; PRAGMA locking_mode=EXCLUSIVE;", "cannot be opened") &&
        query_is(store, "PRAGMA journal_mode=WAL", "wal") &&
        run(store,
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
            return fail_sqlite(store, STATEMENT_TEXT[i]);
        }
    }
    return true;
}

/* Runs a prepared statement to its end. */
static bool finish(struct store *store, enum statement which)
{
    sqlite3_stmt *statement = store->statements[which];
    int result = sqlite3_step(statement);
    bool done = result == SQLITE_DONE || fail_sqlite(store, STATEMENT_TEXT[which]);
    sqlite3_reset(statement);
    sqlite3_clear_bindings(statement);
    return done;
}

static void bind_text(sqlite3_stmt *statement, int at, const void *text, size_t length)
{
    sqlite3_bind_text(statement, at, text, (int)length, SQLITE_STATIC);
}

static void bind_number(sqlite3_stmt *statement, int at, uint64_t number)
{
    sqlite3_bind_int64(statement, at, (sqlite3_int64)number);
}

static bool put_meta_text(struct store *store, const char *key, const char *text, size_t length)
{
    sqlite3_stmt *statement = store->statements[PUT_META];
    bind_text(statement, 1, key, strlen(key));
    bind_text(statement, 2, text, length);
    bind_number(statement, 3, store->commit);
    return finish(store, PUT_META);
}

static bool put_meta_number(struct store *store, const char *key, uint64_t number)
{
    sqlite3_stmt *statement = store->statements[PUT_META];
    bind_text(statement, 1, key, strlen(key));
    bind_number(statement, 2, number);
    bind_number(statement, 3, store->commit);
    return finish(store, PUT_META);
}

static bool create(struct store *store, const struct store_identity *identity)
{
    uint64_t id[2];
    char text[33];
    char versions[96];
    if (getrandom(id, sizeof(id), 0) != (ssize_t)sizeof(id)) {
        return fail(store, "no random number for the store id: %s", strerror(errno));
    }
    snprintf(text, sizeof(text), "%016" PRIx64 "%016" PRIx64, id[0], id[1]);
    snprintf(versions, sizeof(versions), "PRAGMA application_id=%d; PRAGMA user_version=%d;",
             (int)APPLICATION_ID, (int)STORE_FORMAT);
    store->commit = 1;
    return run(store, "BEGIN EXCLUSIVE", "cannot be made") &&
           run(store, SCHEMA, "cannot be made") && run(store, versions, "cannot be made") &&
           prepare(store) && put_meta_text(store, "store_id", text, 32) &&
           put_meta_text(store, "cell", identity->cell.text, identity->cell.length) &&
           put_meta_text(store, "agent", identity->agent.text, identity->agent.length) &&
           put_meta_number(store, "membership", 1) && put_meta_number(store, "session_epoch", 0) &&
           put_meta_number(store, "round", 0) && put_meta_number(store, "commit", 1) &&
           run(store, "COMMIT", "cannot be made") && sync_folder(store);
}

/* The value of a key in meta as text; NULL: it is not there. Belongs to *statement. */
static const char *meta_text(struct store *store, const char *key, sqlite3_stmt **statement)
{
    *statement = NULL;
    if (sqlite3_prepare_v2(store->database, "SELECT value FROM meta WHERE key = ?1", -1, statement,
                           NULL) != SQLITE_OK) {
        fail_sqlite(store, "meta");
        return NULL;
    }
    bind_text(*statement, 1, key, strlen(key));
    const char *text = sqlite3_step(*statement) == SQLITE_ROW
                           ? (const char *)sqlite3_column_text(*statement, 0)
                           : NULL;
    if (text == NULL) {
        fail(store, "damaged: meta has no %s", key);
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
            fail(store, "damaged: meta has %s \"%s\", expected a number up to %" PRIu64, key, text,
                 max);
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
        fail(store, "belongs to %s \"%s\", expected %s \"%.*s\"", key, text, key,
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
        done = strlen(text) == 32 && strspn(text, "0123456789abcdef") == 32 &&
               sscanf(text, "%16" SCNx64 "%16" SCNx64, &id[0], &id[1]) == 2;
        if (!done) {
            fail(store, "damaged: meta has store_id \"%s\", expected 32 hexadecimal digits", text);
        }
    }
    sqlite3_finalize(statement);
    return done;
}

/* The number of the last commit: the highest that a row has. */
static bool find_commit(struct store *store)
{
    sqlite3_int64 highest = 0;
    uint64_t written = 0;
    if (!meta_number(store, "commit", INT64_MAX, &written) ||
        !query_number(store,
                      "SELECT max(c) FROM (SELECT max(in_commit) AS c FROM meta"
                      " UNION ALL SELECT max(in_commit) FROM promise"
                      " UNION ALL SELECT max(in_commit) FROM register"
                      " UNION ALL SELECT max(in_commit) FROM mark"
                      " UNION ALL SELECT max(in_commit) FROM region"
                      " UNION ALL SELECT max(in_commit) FROM slot)",
                      &highest)) {
        return false;
    }
    store->commit = (uint64_t)highest > written ? (uint64_t)highest : written;
    return true;
}

static bool read_meta(struct store *store, const struct store_identity *identity,
                      struct store_meta *meta)
{
    uint64_t membership = 0;
    uint64_t epoch = 0;
    uint64_t round = 0;
    if (!meta_is(store, "cell", &identity->cell) || !meta_is(store, "agent", &identity->agent) ||
        !meta_store_id(store, meta->store_id) ||
        !meta_number(store, "membership", UINT32_MAX, &membership) ||
        !meta_number(store, "session_epoch", UINT32_MAX, &epoch) ||
        !meta_number(store, "round", UINT32_MAX, &round) || !find_commit(store)) {
        return false;
    }
    meta->membership = (uint32_t)membership;
    meta->session_epoch = (uint32_t)epoch;
    meta->round = (uint32_t)round;
    meta->commit = store->commit;
    return true;
}

static bool open_all(struct store *store, const struct store_identity *identity,
                     struct store_meta *meta)
{
    sqlite3_int64 application = 0;
    sqlite3_int64 format = 0;
    sqlite3_int64 tables = 0;
    if (!touch(store) || !open_database(store) ||
        !query_number(store, "PRAGMA application_id", &application) ||
        !query_number(store, "PRAGMA user_version", &format) ||
        !query_number(store, "SELECT count(*) FROM sqlite_master", &tables)) {
        return false;
    }
    if (tables == 0 && application == 0) {
        meta->created = true;
        return create(store, identity) && read_meta(store, identity, meta);
    }
    if (application != APPLICATION_ID) {
        return fail(store, "is no Holdfast store: application_id %lld, expected %d",
                    (long long)application, (int)APPLICATION_ID);
    }
    if (format != STORE_FORMAT) {
        return fail(store, "has format %lld, expected %d: it was written by %s Holdfast",
                    (long long)format, (int)STORE_FORMAT,
                    format > STORE_FORMAT ? "a newer" : "another");
    }
    return query_is(store, "PRAGMA quick_check(1)", "ok") && prepare(store) &&
           read_meta(store, identity, meta);
}

struct store *store_open(const char *path, const struct store_identity *identity,
                         struct store_meta *meta, char *error)
{
    memset(meta, 0, sizeof(*meta));
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
        store_close(store);
        return NULL;
    }
    return store;
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

/* ---- Reading ---- */

static bool column_number(sqlite3_stmt *row, int at, uint64_t max, uint64_t *out)
{
    *out = (uint64_t)sqlite3_column_int64(row, at);
    return sqlite3_column_type(row, at) == SQLITE_INTEGER && *out <= max;
}

static bool column_agent(sqlite3_stmt *row, int at, struct message_agent *out)
{
    memset(out, 0, sizeof(*out));
    if (sqlite3_column_type(row, at) == SQLITE_NULL) {
        return true;
    }
    const void *text = sqlite3_column_text(row, at);
    int length = sqlite3_column_bytes(row, at);
    if (text == NULL || length < 1 || length > MESSAGE_AGENT_MAX) {
        return false;
    }
    message_agent_set(out, text, (size_t)length);
    return true;
}

static bool column_name(sqlite3_stmt *row, int at, const uint8_t **name, size_t *length)
{
    *name = (const uint8_t *)sqlite3_column_text(row, at);
    *length = (size_t)sqlite3_column_bytes(row, at);
    return *name != NULL && *length > 0 && *length <= MESSAGE_NAME_MAX;
}

static bool column_mode(sqlite3_stmt *row, int at, uint8_t *out)
{
    const char *text = (const char *)sqlite3_column_text(row, at);
    for (uint8_t mode = 0; text != NULL && mode < 3; mode++) {
        if (strcmp(text, MODE_TEXT[mode]) == 0) {
            *out = mode;
            return true;
        }
    }
    return false;
}

/* Hands one row over; NULL: done. Else what was expected. */
typedef const char *row_fn(const struct store_reader *reader, sqlite3_stmt *row);

static const char NO_FIT[] = "a value that this agent writes and has room for";

static const char *read_promise(const struct store_reader *reader, sqlite3_stmt *row)
{
    struct quorum_promise promise = {.ballot = 0};
    uint64_t partition = 0;
    if (!column_number(row, 0, MESSAGE_PARTITIONS - 1, &partition) ||
        !column_number(row, 1, MESSAGE_BALLOT_LIMIT - 1, &promise.ballot)) {
        return "a partition from 0 to 255 and a ballot below 2^48";
    }
    message_partition_add(&promise.partitions, (uint32_t)partition);
    return reader->promise == NULL || reader->promise(reader->arg, &promise) ? NULL : NO_FIT;
}

static const char *read_register(const struct store_reader *reader, sqlite3_stmt *row)
{
    struct quorum_register reg;
    struct message_value *value = &reg.value;
    const uint8_t *name = NULL;
    size_t length = 0;
    uint64_t epoch = 0;
    uint64_t delay = 0;
    uint64_t permits = 0;
    uint64_t closing = 0;
    memset(&reg, 0, sizeof(reg));
    if (!column_name(row, 0, &name, &length)) {
        return "a name of 1 to 255 bytes";
    }
    message_name_set(&reg.name, name, length);
    if (!column_mode(row, 1, &value->mode) || !column_agent(row, 2, &value->owner)) {
        return "a mode free, shared or exclusive and an owner of at most 32 bytes";
    }
    if (!column_number(row, 3, UINT32_MAX, &epoch) ||
        !column_number(row, 4, MESSAGE_TOKEN_LIMIT, &value->token_first) ||
        !column_number(row, 5, MESSAGE_TOKEN_LIMIT - 1, &value->token_last) ||
        !column_number(row, 6, MESSAGE_LOCK_DELAY_MAX_MS, &delay) ||
        !column_number(row, 7, UINT16_MAX, &permits) || !column_agent(row, 8, &value->successor) ||
        !column_number(row, 9, UINT8_MAX, &closing)) {
        return "epoch, tokens, lock_delay_ms, permits and closing within their limits";
    }
    if (!column_number(row, 10, MESSAGE_BALLOT_LIMIT - 1, &value->version.ballot) ||
        !column_number(row, 11, MESSAGE_SEQUENCE_LIMIT - 1, &value->version.sequence) ||
        !column_number(row, 12, MESSAGE_BALLOT_LIMIT - 1, &reg.accepted.ballot) ||
        !column_number(row, 13, MESSAGE_SEQUENCE_LIMIT - 1, &reg.accepted.sequence)) {
        return "ballots below 2^48 and sequences below 2^40";
    }
    value->epoch = (uint32_t)epoch;
    value->lock_delay_ms = (uint16_t)delay;
    value->permits = (uint16_t)permits;
    value->closing = (uint8_t)closing;
    return reader->reg == NULL || reader->reg(reader->arg, &reg) ? NULL : NO_FIT;
}

static const char *read_mark(const struct store_reader *reader, sqlite3_stmt *row)
{
    struct message_session mark;
    uint64_t epoch = 0;
    if (!column_agent(row, 0, &mark.agent) || !column_number(row, 1, UINT32_MAX, &epoch)) {
        return "an agent of at most 32 bytes and an epoch below 2^32";
    }
    mark.epoch = (uint32_t)epoch;
    return reader->mark == NULL || reader->mark(reader->arg, &mark) ? NULL : NO_FIT;
}

static const char *read_region(const struct store_reader *reader, sqlite3_stmt *row)
{
    const char *space = (const char *)sqlite3_column_text(row, 0);
    const char *shm_name = (const char *)sqlite3_column_text(row, 1);
    if (space == NULL || shm_name == NULL) {
        return "a namespace and a shm_name";
    }
    return reader->region == NULL || reader->region(reader->arg, space, shm_name) ? NULL : NO_FIT;
}

static const char *read_slot(const struct store_reader *reader, sqlite3_stmt *row)
{
    struct store_slot slot = {.space = (const char *)sqlite3_column_text(row, 0)};
    uint64_t number = 0;
    if (slot.space == NULL || !column_number(row, 1, UINT32_MAX, &number) ||
        !column_name(row, 2, &slot.name, &slot.length)) {
        return "a namespace, a slot below 2^32 and a name of 1 to 255 bytes";
    }
    slot.slot = (uint32_t)number;
    return reader->slot == NULL || reader->slot(reader->arg, &slot) ? NULL : NO_FIT;
}

static bool load_table(struct store *store, const struct store_reader *reader, const char *table,
                       const char *columns, row_fn *read)
{
    char sql[256];
    sqlite3_stmt *row = NULL;
    snprintf(sql, sizeof(sql), "SELECT %s FROM %s ORDER BY 1, 2", columns, table);
    if (sqlite3_prepare_v2(store->database, sql, -1, &row, NULL) != SQLITE_OK) {
        return fail_sqlite(store, table);
    }
    bool done = true;
    uint64_t count = 0;
    int result = sqlite3_step(row);
    for (; done && result == SQLITE_ROW; result = done ? sqlite3_step(row) : SQLITE_DONE) {
        const char *expected = read(reader, row);
        count++;
        if (expected != NULL) {
            const char *key = (const char *)sqlite3_column_text(row, 0);
            done = fail(store, "table %s, row %" PRIu64 " (\"%.64s\"): does not fit; expected %s",
                        table, count, key != NULL ? key : "", expected);
        }
    }
    if (done && result != SQLITE_DONE) {
        done = fail_sqlite(store, table);
    }
    sqlite3_finalize(row);
    return done;
}

bool store_load(struct store *store, const struct store_reader *reader)
{
    return load_table(store, reader, "promise", "partition, ballot", read_promise) &&
           load_table(store, reader, "register",
                      "name, mode, owner, epoch, token_first, token_last, lock_delay_ms, permits,"
                      " successor, closing, version_ballot, version_sequence, ballot, sequence",
                      read_register) &&
           load_table(store, reader, "mark", "agent, epoch", read_mark) &&
           load_table(store, reader, "region", "namespace, shm_name", read_region) &&
           load_table(store, reader, "slot", "namespace, slot, name", read_slot);
}

/* ---- Writing ---- */

bool store_begin(struct store *store)
{
    HF_CHECK(!store->open);
    if (store->failed) {
        return fail(store, "an earlier batch failed: nothing is written any more");
    }
    if (!finish(store, BEGIN)) {
        return false;
    }
    store->open = true;
    store->deleted = false;
    store->commit++;
    return true;
}

/* A put or delete within a batch; after a failure the batch is over. */
static bool change(struct store *store, enum statement which)
{
    HF_CHECK(store->open);
    if (!store->failed && finish(store, which)) {
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
                finish(store, COMMIT);
    if (!done) {
        store->failed = true;
        /* The failure's text stays; a rollback that fails too changes nothing. */
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

static bool put_promise(struct store *store, const struct quorum_promise *promise)
{
    sqlite3_stmt *statement = store->statements[PUT_PROMISE];
    for (uint32_t partition = 0; partition < MESSAGE_PARTITIONS; partition++) {
        if (!message_partition_has(&promise->partitions, partition)) {
            continue;
        }
        bind_number(statement, 1, partition);
        bind_number(statement, 2, promise->ballot);
        bind_number(statement, 3, store->commit);
        if (!change(store, PUT_PROMISE)) {
            return false;
        }
    }
    return true;
}

static void bind_agent(sqlite3_stmt *statement, int at, const struct message_agent *agent)
{
    if (agent->length > 0) {
        bind_text(statement, at, agent->text, agent->length);
    }
}

static bool put_register(struct store *store, const struct quorum_register *reg)
{
    sqlite3_stmt *statement = store->statements[PUT_REGISTER];
    const struct message_value *value = &reg->value;
    HF_CHECK(value->mode < 3);
    bind_text(statement, 1, reg->name.bytes, reg->name.length);
    bind_text(statement, 2, MODE_TEXT[value->mode], strlen(MODE_TEXT[value->mode]));
    bind_agent(statement, 3, &value->owner);
    bind_number(statement, 4, value->epoch);
    bind_number(statement, 5, value->token_first);
    bind_number(statement, 6, value->token_last);
    bind_number(statement, 7, value->lock_delay_ms);
    bind_number(statement, 8, value->permits);
    bind_agent(statement, 9, &value->successor);
    bind_number(statement, 10, value->closing);
    bind_number(statement, 11, value->version.ballot);
    bind_number(statement, 12, value->version.sequence);
    bind_number(statement, 13, reg->accepted.ballot);
    bind_number(statement, 14, reg->accepted.sequence);
    bind_number(statement, 15, store->commit);
    return change(store, PUT_REGISTER);
}

static bool put_mark(struct store *store, const struct message_session *mark)
{
    sqlite3_stmt *statement = store->statements[PUT_MARK];
    bind_agent(statement, 1, &mark->agent);
    bind_number(statement, 2, mark->epoch);
    bind_number(statement, 3, store->commit);
    return change(store, PUT_MARK);
}

static bool change_meta(struct store *store, const char *key, uint32_t number)
{
    sqlite3_stmt *statement = store->statements[PUT_META];
    bind_text(statement, 1, key, strlen(key));
    bind_number(statement, 2, number);
    bind_number(statement, 3, store->commit);
    return change(store, PUT_META);
}

bool store_put_action(struct store *store, const struct action *action)
{
    switch (action->kind) {
    case ACTION_PERSIST_ROUND:
        return change_meta(store, "round", action->as.round);
    case ACTION_PERSIST_PROMISE:
        return put_promise(store, &action->as.promise);
    case ACTION_PERSIST_REGISTER:
        return put_register(store, &action->as.reg);
    case ACTION_PERSIST_MARK:
        return put_mark(store, &action->as.mark);
    case ACTION_PERSIST_DELETED:
    case ACTION_PERSIST_CHECKPOINT:
    case ACTION_PERSIST_MEMBER:
    case ACTION_PERSIST_SEEN:
    case ACTION_PERSIST_REJOINED:
    case ACTION_LOG:
    case ACTION_SEND:
        break;
    }
    HF_CHECK(!"only what is to be persisted is stored");
    return false;
}

bool store_put_session_epoch(struct store *store, uint32_t epoch)
{
    return change_meta(store, "session_epoch", epoch);
}

bool store_put_membership(struct store *store, uint32_t membership)
{
    return change_meta(store, "membership", membership);
}

bool store_put_region(struct store *store, const char *space, const char *shm_name)
{
    sqlite3_stmt *statement = store->statements[PUT_REGION];
    bind_text(statement, 1, space, strlen(space));
    bind_text(statement, 2, shm_name, strlen(shm_name));
    bind_number(statement, 3, store->commit);
    return change(store, PUT_REGION);
}

bool store_del_region(struct store *store, const char *space)
{
    store->deleted = true;
    bind_text(store->statements[DEL_REGION_SLOTS], 1, space, strlen(space));
    if (!change(store, DEL_REGION_SLOTS)) {
        return false;
    }
    bind_text(store->statements[DEL_REGION], 1, space, strlen(space));
    return change(store, DEL_REGION);
}

bool store_put_slot(struct store *store, const struct store_slot *slot)
{
    HF_CHECK(slot->length > 0 && slot->length <= MESSAGE_NAME_MAX);
    sqlite3_stmt *statement = store->statements[PUT_SLOT];
    bind_text(statement, 1, slot->space, strlen(slot->space));
    bind_number(statement, 2, slot->slot);
    bind_text(statement, 3, slot->name, slot->length);
    bind_number(statement, 4, store->commit);
    return change(store, PUT_SLOT);
}

bool store_del_slot(struct store *store, const char *space, uint32_t slot)
{
    store->deleted = true;
    bind_text(store->statements[DEL_SLOT], 1, space, strlen(space));
    bind_number(store->statements[DEL_SLOT], 2, slot);
    return change(store, DEL_SLOT);
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
        return fail_sqlite(store, "checkpoint");
    }
    store->frames = 0;
    return true;
}
