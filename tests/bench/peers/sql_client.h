/*
 * Clients of a database server that is used for locks in two ways: a lock of the session, and
 * SELECT ... FOR UPDATE of a row, with one transaction for each hold. A table of functions has the
 * differences between databases.
 *
 * A row lock belongs to a transaction, so each hold has a connection of its own until it ends. A
 * client keeps its connections, and makes another connection if holds use all of them.
 */
#ifndef PEERS_SQL_CLIENT_H
#define PEERS_SQL_CLIENT_H

#include "peer.h"

/* SQL_CONNECTIONS: how many connections the server accepts */
enum { SQL_STATEMENT_MAX = 384, SQL_CONNECTIONS = 100 };

enum sql_outcome {
    SQL_DONE,
    /* the wait was too long, or there was no room for the lock; the transaction must be rolled
     * back */
    SQL_NOT_HAD,
    SQL_UNDONE, /* the transaction has been rolled back */
    SQL_BROKEN, /* the connection is broken */
    SQL_FAILED, /* another error, after complain() */
};

struct sql_connection {
    void *handle;       /* the handle of the database's library */
    int64_t timeout_ms; /* the limit that set_timeout() has set; 0: none */
    uint64_t number;    /* the number of this connection among all that the client made */
    struct sql_connection *next;
};

struct sql_database {
    const char *title; /* the name in error messages */

    /* dial() connects to the run's server. It returns NULL without a message if no server answers.
     * hang_up() ends a connection. */
    void *(*dial)(const struct peer_run *run);
    void (*hang_up)(void *handle);
    /* Returns, without a message to the server, whether the server still keeps the connection. */
    bool (*lives)(void *handle);

    /* Runs the statements of the text. *out_yes is whether the single value of the last statement
     * is 1 or true. */
    enum sql_outcome (*run)(void *handle, const char *text, bool *out_yes);
    /* Limits how long later statements wait for a lock. NULL: each statement has its own limit. */
    enum sql_outcome (*set_timeout)(struct sql_connection *connection, int64_t timeout_ns);

    /* These functions write the statement that takes or releases a session lock. The value of the
     * statement is whether it succeeded. */
    void (*acquire_text)(const char *name, enum peer_mode mode, int64_t timeout_ns,
                         char text[SQL_STATEMENT_MAX]);
    void (*release_text)(const char *name, enum peer_mode mode, char text[SQL_STATEMENT_MAX]);
    /* Writes statements that begin a transaction and lock the name's row. For a new name they first
     * insert the row; this waits for another transaction that inserts the same row. */
    void (*row_text)(const char *name, bool is_new, enum peer_mode mode, int64_t timeout_ns,
                     char text[SQL_STATEMENT_MAX]);
};

/* Waits, for a bounded time, until the run's server answers. */
int sql_await(struct peer_run *run, const struct sql_database *database) MUST_CHECK;

/* Functions for struct peer_kind. The database is a static struct. */
int sql_connect(struct peer_run *run, const struct sql_database *database,
                void **out_client) MUST_CHECK;
void sql_disconnect(void *client);
int sql_open(void *client, const char *name, void **out_lock) MUST_CHECK;
void sql_close(void *lock);
int sql_session_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns,
                        uint64_t *out_token) MUST_CHECK;
int sql_session_release(void *lock) MUST_CHECK;
int sql_session_held(void *lock);
int sql_row_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns,
                    uint64_t *out_token) MUST_CHECK;
int sql_row_release(void *lock) MUST_CHECK;
int sql_row_held(void *lock);

/* Initializers that are the same for every database: of all clients, of session locks, and of row
 * locks. */
#define SQL_CLIENT .hosts = 2, .disconnect = sql_disconnect, .open = sql_open, .close = sql_close
#define SQL_SESSION                                                                                \
    .durability = "none: in the server's memory",                                                  \
    .fairness = "TCP on the loopback, one server, one round trip a call; the server wakes its "    \
                "waiters. A lock ends with its connection: no lease, no token.",                   \
    .acquire = sql_session_acquire, .release = sql_session_release, .held = sql_session_held
#define SQL_ROW                                                                                    \
    .fairness = "A transaction and so a connection a hold, BEGIN and SELECT in one message; a "    \
                "new name's row is inserted with it. The server wakes its waiters. No lease, no "  \
                "token.",                                                                          \
    .acquire = sql_row_acquire, .release = sql_row_release, .held = sql_row_held

#endif
