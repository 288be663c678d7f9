/*
 * See sql_client.h.
 */
#include "sql_client.h"

#include <stdio.h>
#include <stdlib.h>

static const int64_t await_timeout_ns = INT64_C(60000000000);
static const int64_t look_ns = INT64_C(50000000);

struct sql_session {
    const struct sql_database *database;
    struct peer_run *run;
    /* a stack of idle connections; the client of session locks has one connection */
    struct sql_connection *idle;
    uint64_t made; /* how many connections the client has made */
};

struct lock {
    struct sql_session *client;
    struct sql_connection *held_by; /* the connection of a row lock, while the lock is held */
    uint64_t of; /* the number of the connection on which a session lock was taken */
    char name[PEER_NAME_MAX];
    enum peer_mode mode;
    bool known; /* the row is known to exist */
};

int sql_await(struct peer_run *run, const struct sql_database *database)
{
    const int64_t give_up_ns = now_ns() + await_timeout_ns;
    void *handle = NULL;
    while (handle == NULL && now_ns() < give_up_ns && !interrupted()) {
        handle = database->dial(run);
        if (handle == NULL) {
            if (!server_lives(&run->servers[0])) {
                return complain("the %s server has ended", database->title);
            }
            pause_ns(look_ns);
        }
    }
    if (handle == NULL) {
        return complain("%s does not answer in time", database->title);
    }
    database->hang_up(handle);
    return 0;
}

/* ---- connections ---- */

static struct sql_connection *connection_new(struct sql_session *client)
{
    struct sql_connection *connection = calloc(1, sizeof(*connection));
    if (connection != NULL) {
        connection->number = ++client->made;
        connection->handle = client->database->dial(client->run);
        if (connection->handle == NULL) {
            free(connection);
            connection = NULL;
        }
    }
    return connection;
}

static void connection_free(const struct sql_session *client, struct sql_connection *connection)
{
    client->database->hang_up(connection->handle);
    free(connection);
}

/* Returns an idle connection of the client, or a new connection. Returns NULL if the server accepts
 * no more. */
static struct sql_connection *take_connection(struct sql_session *client)
{
    struct sql_connection *connection = client->idle;
    if (connection == NULL) {
        return connection_new(client);
    }
    client->idle = connection->next;
    connection->next = NULL;
    return connection;
}

static void give_back(struct sql_session *client, struct sql_connection *connection)
{
    connection->next = client->idle;
    client->idle = connection;
}

/* Replaces the client's first connection. Repeats this until it succeeds or the time is over. */
static int reconnect(struct sql_session *client, int64_t until_ns)
{
    if (client->idle != NULL) {
        connection_free(client, client->idle);
        client->idle = NULL;
    }
    while (client->idle == NULL && now_ns() < until_ns) {
        client->idle = connection_new(client);
        if (client->idle == NULL) {
            pause_ns(look_ns);
        }
    }
    return client->idle != NULL ? PEER_OK : PEER_NOT_IN_TIME;
}

int sql_connect(struct peer_run *run, const struct sql_database *database, void **out_client)
{
    struct sql_session *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return complain("no memory");
    }
    client->database = database;
    client->run = run;
    client->idle = connection_new(client);
    if (client->idle == NULL) {
        free(client);
        return complain("no connection to %s", database->title);
    }
    *out_client = client;
    return 0;
}

void sql_disconnect(void *client)
{
    struct sql_session *mine = client;
    while (mine->idle != NULL) {
        struct sql_connection *next = mine->idle->next;
        connection_free(mine, mine->idle);
        mine->idle = next;
    }
    free(mine);
}

int sql_open(void *client, const char *name, void **out_lock)
{
    struct lock *lock = calloc(1, sizeof(*lock));
    if (lock == NULL) {
        return complain("no memory");
    }
    lock->client = client;
    snprintf(lock->name, sizeof(lock->name), "%s", name);
    *out_lock = lock;
    return 0;
}

void sql_close(void *lock)
{
    struct lock *mine = lock;
    if (mine->held_by != NULL) {
        connection_free(mine->client, mine->held_by);
    }
    free(mine);
}

static int64_t end_of(int64_t timeout_ns)
{
    return timeout_ns < 0 ? INT64_MAX : now_ns() + timeout_ns;
}

/* Runs a statement that may wait for a lock. */
static enum sql_outcome ask(const struct sql_database *database, struct sql_connection *connection,
                            int64_t timeout_ns, const char *text, bool *out_yes)
{
    enum sql_outcome outcome = SQL_DONE;
    if (database->set_timeout != NULL) {
        outcome = database->set_timeout(connection, timeout_ns);
    }
    return outcome == SQL_DONE ? database->run(connection->handle, text, out_yes) : outcome;
}

/* ---- a session lock ---- */

int sql_session_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    struct lock *mine = lock;
    struct sql_session *client = mine->client;
    const int64_t until_ns = end_of(timeout_ns);
    char text[SQL_STATEMENT_MAX];
    *out_token = 0;
    mine->mode = mode;
    client->database->acquire_text(mine->name, mode, timeout_ns, text);
    for (;;) { /* ends when the time is over, or at an error other than a broken connection */
        enum sql_outcome outcome = SQL_BROKEN;
        bool got = false;
        if (client->idle != NULL) {
            outcome = ask(client->database, client->idle, timeout_ns, text, &got);
        }
        if (outcome == SQL_DONE) {
            mine->of = client->idle->number;
            return got ? PEER_OK : PEER_NOT_IN_TIME;
        }
        if (outcome != SQL_BROKEN) {
            return outcome == SQL_FAILED ? -1 : PEER_NOT_IN_TIME;
        }
        if (reconnect(client, until_ns) != PEER_OK) {
            return PEER_NOT_IN_TIME;
        }
    }
}

static bool is_of_this_connection(const struct lock *lock)
{
    return lock->client->idle != NULL && lock->of == lock->client->idle->number;
}

int sql_session_release(void *lock)
{
    struct lock *mine = lock;
    const struct sql_session *client = mine->client;
    char text[SQL_STATEMENT_MAX];
    bool was_held = false;
    if (!is_of_this_connection(mine)) {
        return PEER_LOST;
    }
    client->database->release_text(mine->name, mine->mode, text);
    enum sql_outcome outcome = client->database->run(client->idle->handle, text, &was_held);
    if (outcome == SQL_BROKEN) {
        return PEER_LOST;
    }
    return outcome != SQL_DONE ? -1 : was_held ? PEER_OK : PEER_LOST;
}

int sql_session_held(void *lock)
{
    const struct lock *mine = lock;
    const struct sql_session *client = mine->client;
    return is_of_this_connection(mine) && client->database->lives(client->idle->handle) ? PEER_OK
                                                                                        : PEER_LOST;
}

/* ---- a row lock ---- */

int sql_row_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    struct lock *mine = lock;
    struct sql_session *client = mine->client;
    const struct sql_database *database = client->database;
    const int64_t until_ns = end_of(timeout_ns);
    *out_token = 0;
    do {
        char text[SQL_STATEMENT_MAX];
        bool got = false;
        struct sql_connection *connection = take_connection(client);
        if (connection == NULL) {
            pause_ns(timeout_ns == 0 ? 0 : look_ns);
            continue;
        }
        database->row_text(mine->name, !mine->known, mode, timeout_ns, text);
        enum sql_outcome outcome = ask(database, connection, timeout_ns, text, &got);
        if (outcome == SQL_DONE) {
            mine->held_by = connection;
            mine->known = true;
            return got ? PEER_OK : complain("%s: no row for %s", database->title, mine->name);
        }
        if (outcome == SQL_BROKEN) {
            connection_free(client, connection);
            continue;
        }
        if (outcome == SQL_NOT_HAD) {
            bool ignored;
            outcome = database->run(connection->handle, "ROLLBACK", &ignored) == SQL_DONE
                          ? SQL_UNDONE
                          : SQL_FAILED;
        }
        give_back(client, connection);
        if (outcome == SQL_FAILED) {
            return -1;
        }
    } while (now_ns() < until_ns);
    return PEER_NOT_IN_TIME;
}

int sql_row_release(void *lock)
{
    struct lock *mine = lock;
    struct sql_connection *connection = mine->held_by;
    bool ignored;
    mine->held_by = NULL;
    enum sql_outcome outcome = mine->client->database->run(connection->handle, "COMMIT", &ignored);
    if (outcome == SQL_BROKEN) {
        connection_free(mine->client, connection);
        return PEER_LOST;
    }
    give_back(mine->client, connection);
    return outcome == SQL_DONE ? PEER_OK : -1;
}

int sql_row_held(void *lock)
{
    const struct lock *mine = lock;
    return mine->held_by != NULL && mine->client->database->lives(mine->held_by->handle)
               ? PEER_OK
               : PEER_LOST;
}
