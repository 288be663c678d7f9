/*
 * Shared by the files of the store: the connection, its statements, and how failures are reported.
 *
 *   store.c          opening, meta, batches
 *   rows.c     the rows: reading them back, putting and deleting them
 *   replace.c  starting over
 *   migrate.c  formats, and how a store of an older one is brought up to date
 *   log.c      how SQLite's log is written
 *   renew.c    what is done with the log of an agent that ended
 */
#ifndef STORE_PRIVATE_H
#define STORE_PRIVATE_H

#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/store.h"

enum {
    STORE_ID_TEXT = 33, /* bytes of a store id as text, its final zero included */
};

enum statement {
    BEGIN,
    COMMIT,
    ROLLBACK,
    PUT_META,
    PUT_PROMISE,
    PUT_REGISTER,
    PUT_MARK,
    PUT_CHECKPOINT,
    PUT_MEMBER,
    PUT_SEEN,
    PUT_REGION,
    PUT_SLOT,
    DEL_REGISTER,
    DEL_REGION,
    DEL_REGION_SLOTS,
    DEL_SLOT,
    STATEMENTS,
};

struct store {
    sqlite3 *database;
    sqlite3_stmt *statements[STATEMENTS];
    uint64_t commit; /* of the last batch, or of the open one */
    bool open;       /* a batch is open */
    bool deleted;    /* it deletes */
    bool failed;     /* for good: nobody knows what is durable */
    bool damaged;    /* it cannot be read, and nobody has it open */
    int frames;      /* in the log */
    char path[PATH_MAX];
    char error[STORE_ERROR_MAX];
};

/* Runs SQL without results; what it is about, for the error: "cannot be made". */
bool store_run(struct store *store, const char *sql, const char *what)
    __attribute__((warn_unused_result));

/* The tables of the present format, within a transaction. */
bool store_make_tables(struct store *store) __attribute__((warn_unused_result));

/* From that older format to the present one, a copy first. false: it is as it was. */
bool store_migrate(struct store *store, int format) __attribute__((warn_unused_result));

/* store_open(); *damaged: it failed because the database cannot be read. */
struct store *store_open_checked(const char *path, const struct store_identity *identity,
                                 struct store_meta *meta, char *error, bool *damaged)
    __attribute__((warn_unused_result));

/* Makes the log of the store durable, which this process has locked: what was left there may never
 * have reached the disk. */
bool store_renew_log(struct store *store) __attribute__((warn_unused_result));

/* Makes the names in the folder of that path durable. false: errno. */
bool store_sync_folder(const char *path) __attribute__((warn_unused_result));

/* Writes the failure's text, after the database's path; returns false. */
bool store_fail(struct store *store, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same with what SQLite says. */
bool store_fail_sqlite(struct store *store, const char *what);

/* Runs a prepared statement to its end. */
bool store_finish(struct store *store, enum statement which) __attribute__((warn_unused_result));
/* A put or delete within a batch; after a failure the batch is over. */
bool store_change(struct store *store, enum statement which) __attribute__((warn_unused_result));

/* The first column of the first row as a number. */
bool store_query_number(struct store *store, const char *sql, sqlite3_int64 *out)
    __attribute__((warn_unused_result));

/* 32 hexadecimal digits. */
void store_id_to_text(const uint64_t id[2], char text[STORE_ID_TEXT]);
bool store_id_from_text(const char *text, uint64_t id[2]) __attribute__((warn_unused_result));

/* The store that one that starts over replaces, see struct store_identity; *number is 0: none. */
bool store_kept(struct store *store, uint32_t *number, uint64_t id[2])
    __attribute__((warn_unused_result));

/* text lives until the statement has run. */
void store_bind_text(sqlite3_stmt *statement, int at, const void *text, size_t length);
void store_bind_number(sqlite3_stmt *statement, int at, uint64_t number);

#endif
