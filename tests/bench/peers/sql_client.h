/*
 * Clients of a database server that is used for locks in two ways: a lock of the session, and
 * SELECT ... FOR UPDATE of a row, a transaction a hold. The differences between databases are a
 * table of functions.
 *
 * A row lock belongs to a transaction, so each hold needs a connection of its own while it lasts. A
 * client keeps the connections that it made, and makes one more when a hold uses each of them.
 */
#ifndef PEERS_SQL_CLIENT_H
#define PEERS_SQL_CLIENT_H

#include "peer.h"

enum { SQL_STATEMENT_MAX = 384, SQL_CONNECTIONS = 100 /* that a server takes */ };

enum sql_outcome {
    SQL_DONE,
    SQL_NOT_HAD, /* not in time, or no room for it; a transaction waits to be rolled back */
    SQL_UNDONE,  /* the transaction has been rolled back */
    SQL_BROKEN,  /* the connection */
    SQL_FAILED,  /* after complain() */
};

struct sql_connection {
    void *handle;       /* of the database's library */
    int64_t timeout_ms; /* that set_timeout() has set there; 0: none */
    uint64_t number;    /* of all that its client made */
    struct sql_connection *next;
};

struct sql_database {
    const char *title; /* for complaints */

    /* dial() returns a connection to the run's server, or NULL without a message if there is none.
     * hang_up() ends it. */
    void *(*dial)(const struct peer_run *run);
    void (*hang_up)(void *handle);
    /* Returns whether the server still keeps the connection, without a message to it. */
    bool (*lives)(void *handle);

    /* Runs statements. *out_yes: the last one's only value is 1 or true. */
    enum sql_outcome (*run)(void *handle, const char *text, bool *out_yes);
    /* Bounds how long later statements wait for a lock. NULL: each statement has its own bound. */
    enum sql_outcome (*set_timeout)(struct sql_connection *connection, int64_t timeout_ns);

    /* Take a lock of the session, and release it: yes, if so. */
    void (*acquire_text)(const char *name, enum peer_mode mode, int64_t timeout_ns,
                         char text[SQL_STATEMENT_MAX]);
    void (*release_text)(const char *name, enum peer_mode mode, char text[SQL_STATEMENT_MAX]);
    /* Begins a transaction and locks the name's row. Inserts the row of a new name first; such an
     * insert waits for another transaction that inserts the same row. */
    void (*row_text)(const char *name, bool is_new, enum peer_mode mode, int64_t timeout_ns,
                     char text[SQL_STATEMENT_MAX]);
};

/* Waits, for a bounded time, until the run's server answers. */
int sql_await(struct peer_run *run, const struct sql_database *database) MUST_CHECK;

/* The kind's functions. The database is static. */
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

/* A kind's part that is the same for every database: of clients, of a session's locks, of rows. */
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
