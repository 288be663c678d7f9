/*
 * The declarations that the files of the store share: the connection, its statements, and the
 * reports of failures.
 *
 *   store.c    opening, meta, batches
 *   rows.c     the rows: reading them back, putting and deleting them
 *   voters.c   the record of voters, and the register of the next one
 *   replace.c  starting over
 *   backup.c   backups
 *   recover.c  how a cell begins anew with one store
 *   migrate.c  formats, and how a store of an older format is migrated
 *   log.c      how SQLite's log is written
 *   renew.c    flushing the log that an agent left
 */
#ifndef STORE_PRIVATE_H
#define STORE_PRIVATE_H

#include <limits.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>

#include "io/store.h"

enum {
    STORE_ID_TEXT = 33, /* bytes of a store id as text, with the final zero */
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
    uint64_t commit; /* the number of the last batch, or of the open one */
    bool open;       /* a batch is open */
    bool deleted;    /* the open batch deletes rows */
    bool changed;    /* the store is of format STORE_FORMAT_CHANGED */
    bool failed;     /* all later writes fail, because it is unknown what is durable */
    bool damaged;    /* the store cannot be read, and no other process has it open */
    int frames;      /* frames in the log */
    char path[PATH_MAX];
    char error[STORE_ERROR_MAX];
};

/* How replace.c replaces a database. store_clear() removes the files that an earlier attempt left.
 * store_choose_kept() finds a free name under which the old database is kept. store_put_in_place()
 * replaces the database at path by the one at `made`. */
bool store_clear(const char *path, char *error) __attribute__((warn_unused_result));
uint32_t store_choose_kept(const char *path, char *kept) __attribute__((warn_unused_result));
bool store_put_in_place(const char *path, const char *made, char *kept, char *error)
    __attribute__((warn_unused_result));

/* Flushes a file of SQLite to the disk (backup.c). */
bool store_flush_file(const char *path) __attribute__((warn_unused_result));

/* Runs SQL that has no results. `what` begins the error message, such as "cannot be made". */
bool store_run(struct store *store, const char *sql, const char *what)
    __attribute__((warn_unused_result));

/* Makes the tables of the present format. Called within a transaction. */
bool store_make_tables(struct store *store) __attribute__((warn_unused_result));

/* Migrates from that older format to the present one, after making a copy. On failure the store is
 * unchanged. */
bool store_migrate(struct store *store, int format) __attribute__((warn_unused_result));

/* Like store_open(). Sets *damaged if it failed because the database cannot be read. */
struct store *store_open_checked(const char *path, const struct store_identity *identity,
                                 struct store_meta *meta, char *error, bool *damaged)
    __attribute__((warn_unused_result));

/* Makes the store's log durable: what the previous agent wrote to it may never have reached the
 * disk. The caller must have locked the store. */
bool store_renew_log(struct store *store) __attribute__((warn_unused_result));

/* Makes the names in the folder of that path durable. On failure returns false with errno. */
bool store_sync_folder(const char *path) __attribute__((warn_unused_result));

/* Writes the error text, with the database's path before it. Returns false. */
bool store_fail(struct store *store, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Like store_fail(), with SQLite's own message. Returns false. */
bool store_fail_sqlite(struct store *store, const char *what);

/* Runs a put or a delete within a batch. A failure ends the batch. */
bool store_change(struct store *store, enum statement which) __attribute__((warn_unused_result));

/* Reads the first column of the first row as a number. */
bool store_query_number(struct store *store, const char *sql, sqlite3_int64 *out)
    __attribute__((warn_unused_result));

/* The text of a store id has 32 hexadecimal digits. */
void store_id_to_text(const uint64_t id[2], char text[STORE_ID_TEXT]);
bool store_id_from_text(const char *text, uint64_t id[2]) __attribute__((warn_unused_result));

/* Reads the number and the id of the store that this store replaced when it started over (struct
 * store_identity). Sets *number to 0 if there is none. */
bool store_kept(struct store *store, uint32_t *number, uint64_t id[2])
    __attribute__((warn_unused_result));

/* Finds the value of a key of meta. Sets *text to it, or to NULL if the key is missing. The text
 * belongs to *row, which the caller finalizes in every case. Returns false on an error. */
bool store_find_meta(struct store *store, const char *key, sqlite3_stmt **row, const char **text)
    __attribute__((warn_unused_result));

/* Puts the record of voters, or the register of the next one. */
bool store_put_change(struct store *store, const struct quorum_change *change)
    __attribute__((warn_unused_result));

/* text must stay valid until the statement has run. */
void store_bind_text(sqlite3_stmt *statement, int at, const void *text, size_t length);
void store_bind_number(sqlite3_stmt *statement, int at, uint64_t number);

#endif
