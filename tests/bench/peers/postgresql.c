/*
 * One PostgreSQL server, used for locks in two ways: advisory locks of the session, and
 * SELECT ... FOR UPDATE of a row, a transaction a hold. Clients speak TCP on the loopback.
 *
 * A row lock is a transaction's, so each hold needs a connection of its own while it lasts: a
 * client keeps those that it made, and makes one more when it holds that many.
 */
#include <glob.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "kinds.h"

enum { STATEMENT_MAX = 320, PROGRAM_MAX = 160, CONNECTIONS = 100 };

static const char user[] = "postgres"; /* it refuses root; Debian's package has that user */
static const int64_t await_timeout_ns = INT64_C(60000000000);
static const int64_t look_ns = INT64_C(50000000);
static const int64_t unknown_timeout_ms = -1;

/* ---- the server ---- */

/* The highest of /usr/lib/postgresql/VERSION/bin/PROGRAM. */
static int find_program(const char *program, char path[PROGRAM_MAX])
{
    glob_t found;
    char pattern[PROGRAM_MAX];
    int result = -1;
    snprintf(pattern, sizeof(pattern), "/usr/lib/postgresql/*/bin/%s", program);
    if (glob(pattern, 0, NULL, &found) == 0) {
        snprintf(path, PROGRAM_MAX, "%s", found.gl_pathv[found.gl_pathc - 1]);
        globfree(&found);
        result = 0;
    }
    return result;
}

static int postgresql_missing(char why[PEER_WHY_MAX])
{
    char path[PROGRAM_MAX];
    if (find_program("postgres", path) != 0) {
        snprintf(why, PEER_WHY_MAX, "no server below /usr/lib/postgresql (postgresql)");
        return 1;
    }
    if (geteuid() == 0 && getpwnam(user) == NULL) {
        snprintf(why, PEER_WHY_MAX, "there is no user %s to run it as", user);
        return 1;
    }
    return 0;
}

/* A connection to the run's server; NULL without a word if there is none. */
static PGconn *dial(const struct peer_run *run)
{
    char how[STATEMENT_MAX];
    snprintf(how, sizeof(how),
             "host=127.0.0.1 port=%u user=postgres dbname=postgres connect_timeout=10",
             run->servers[0].port);
    PGconn *connection = PQconnectdb(how);
    if (PQstatus(connection) != CONNECTION_OK) {
        PQfinish(connection);
        return NULL;
    }
    return connection;
}

static int postgresql_await(struct peer_run *run)
{
    const int64_t give_up_ns = now_ns() + await_timeout_ns;
    PGconn *connection = NULL;
    while (connection == NULL && now_ns() < give_up_ns && !interrupted()) {
        connection = dial(run);
        if (connection == NULL) {
            if (!server_lives(&run->servers[0])) {
                return complain("the PostgreSQL server has ended");
            }
            pause_ns(look_ns);
        }
    }
    if (connection == NULL) {
        return complain("PostgreSQL does not answer in time");
    }
    PQfinish(connection);
    return 0;
}

static int make_cluster(struct peer_run *run)
{
    char program[PROGRAM_MAX];
    struct server *maker = &run->servers[0];
    if (find_program("initdb", program) != 0 ||
        server_prepare(maker, run->directory, "server", user) != 0) {
        return -1;
    }
    int error = 0;
    error |= server_arg(maker, "%s", program);
    error |= server_arg(maker, "--pgdata=%s/data", maker->directory);
    error |= server_arg(maker, "--username=postgres");
    error |= server_arg(maker, "--auth=trust");
    error |= server_arg(maker, "--encoding=UTF8");
    error |= server_arg(maker, "--locale=C");
    error |= server_arg(maker, "--no-sync");
    return error != 0 ? -1 : server_run(maker);
}

static int make_table(struct peer_run *run)
{
    PGconn *connection = dial(run);
    PGresult *result = PQexec(connection, "CREATE TABLE locks (name text PRIMARY KEY)");
    bool good = PQresultStatus(result) == PGRES_COMMAND_OK;
    PQclear(result);
    PQfinish(connection);
    return good ? 0 : complain("PostgreSQL makes no table");
}

static int postgresql_start(struct peer_run *run)
{
    char program[PROGRAM_MAX];
    struct server *server = &run->servers[0];
    unsigned port;
    run->server_count = 1;
    if (make_cluster(run) != 0 || ports_choose(&port, 1) != 0 ||
        find_program("postgres", program) != 0) {
        return -1;
    }
    server->port = port;
    server->arg_count = 0; /* the folder stays, the command is another */
    server->text_size = 0;
    int error = 0;
    error |= server_arg(server, "%s", program);
    error |= server_arg(server, "-D%s/data", server->directory);
    error |= server_arg(server, "-clisten_addresses=127.0.0.1");
    error |= server_arg(server, "-cport=%u", port);
    error |= server_arg(server, "-cunix_socket_directories=");
    error |= server_arg(server, "-cfsync=on");
    error |= server_arg(server, "-csynchronous_commit=on");
    error |= server_arg(server, "-cshared_buffers=32MB");
    error |= server_arg(server, "-cmax_connections=%d", CONNECTIONS);
    error |= server_arg(server, "-cmax_locks_per_transaction=2048"); /* 200,000 advisory locks */
    if (error != 0 || server_launch(server) != 0 || postgresql_await(run) != 0) {
        return -1;
    }
    return make_table(run);
}

static void postgresql_stop(struct peer_run *run)
{
    if (run->server_count > 0) {
        server_end(&run->servers[0], SIGQUIT); /* at once, and its children with it */
    }
}

static void postgresql_kill(struct peer_run *run, size_t server, bool clean)
{
    if (clean) {
        server_end(&run->servers[server], SIGINT); /* "fast": waits for no client */
    } else {
        server_kill(&run->servers[server]);
    }
}

/* ---- clients ---- */

struct connection {
    PGconn *pq;
    int64_t timeout_ms; /* that is set there */
    struct connection *next;
};

struct client {
    struct peer_run *run;
    struct connection *idle; /* for advisory locks: the one there is */
};

struct lock {
    struct client *client;
    struct connection *held_by; /* a row's: while it is held */
    PGconn *of;                 /* an advisory lock's: the connection that it was taken on */
    char name[PEER_NAME_MAX];
    int64_t key;
    enum peer_mode mode;
    bool known; /* the row is there */
};

static struct connection *connection_new(const struct client *client)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    if (connection != NULL) {
        connection->pq = dial(client->run);
        connection->timeout_ms = unknown_timeout_ms;
        if (connection->pq == NULL) {
            free(connection);
            connection = NULL;
        }
    }
    return connection;
}

static void connection_free(struct connection *connection)
{
    PQfinish(connection->pq);
    free(connection);
}

static int postgresql_connect(struct peer_run *run, uint32_t host, void **out_client)
{
    (void)host;
    struct client *client = calloc(1, sizeof(*client));
    if (client == NULL) {
        return complain("no memory");
    }
    client->run = run;
    client->idle = connection_new(client);
    if (client->idle == NULL) {
        free(client);
        return complain("no connection to PostgreSQL");
    }
    *out_client = client;
    return 0;
}

static void postgresql_disconnect(void *client)
{
    struct client *mine = client;
    while (mine->idle != NULL) {
        struct connection *next = mine->idle->next;
        connection_free(mine->idle);
        mine->idle = next;
    }
    free(mine);
}

/* FNV-1a, 64 bits: an advisory lock is a number. */
static int64_t key_of(const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (const char *at = name; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    }
    return (int64_t)hash;
}

static int postgresql_open(void *client, const char *name, void **out_lock)
{
    struct lock *lock = calloc(1, sizeof(*lock));
    if (lock == NULL) {
        return complain("no memory");
    }
    lock->client = client;
    lock->key = key_of(name);
    snprintf(lock->name, sizeof(lock->name), "%s", name);
    *out_lock = lock;
    return 0;
}

static void postgresql_close(void *lock)
{
    struct lock *mine = lock;
    if (mine->held_by != NULL) {
        connection_free(mine->held_by);
    }
    free(mine);
}

enum outcome { DONE, REFUSED, TIMED_OUT, BROKEN, FAILED };

/* Runs statements; *out_first is whether the first value of the last one's only row is true, or
 * whether it had a row at all. */
static enum outcome run_statement(PGconn *pq, const char *text, bool *out_row)
{
    enum outcome outcome = DONE;
    PGresult *result = PQexec(pq, text);
    ExecStatusType status = PQresultStatus(result);
    *out_row = status == PGRES_TUPLES_OK && PQntuples(result) > 0 &&
               strcmp(PQgetvalue(result, 0, 0), "f") != 0;
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        if (PQstatus(pq) != CONNECTION_OK) {
            outcome = BROKEN;
        } else if (state != NULL && strcmp(state, "55P03") == 0) { /* lock_not_available */
            outcome = TIMED_OUT;
        } else if (state != NULL && strcmp(state, "53200") == 0) { /* out_of_memory: of locks */
            outcome = REFUSED;
        } else {
            complain("PostgreSQL: %s", PQerrorMessage(pq));
            outcome = FAILED;
        }
    }
    PQclear(result);
    return outcome;
}

/* Sets the session's lock_timeout if it is another; for ever is 0. */
static enum outcome set_timeout(struct connection *connection, int64_t timeout_ns)
{
    int64_t timeout_ms = timeout_ns < 0 ? 0 : (timeout_ns + 999999) / 1000000;
    char text[STATEMENT_MAX];
    bool ignored;
    if (timeout_ns == 0 || timeout_ms == connection->timeout_ms) {
        return DONE;
    }
    snprintf(text, sizeof(text), "SET lock_timeout = %" PRId64, timeout_ms);
    connection->timeout_ms = timeout_ms;
    return run_statement(connection->pq, text, &ignored);
}

/* The client's first connection anew, until it can be had or the time is over. */
static int reconnect(struct client *client, int64_t until_ns)
{
    if (client->idle != NULL) {
        connection_free(client->idle);
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

static int64_t end_of(int64_t timeout_ns)
{
    return timeout_ns < 0 ? INT64_MAX : now_ns() + timeout_ns;
}

static int advisory_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns,
                            uint64_t *out_token)
{
    struct lock *mine = lock;
    const int64_t until_ns = end_of(timeout_ns);
    char text[STATEMENT_MAX];
    bool got = false;
    *out_token = 0;
    mine->mode = mode;
    snprintf(text, sizeof(text), "SELECT pg_%sadvisory_lock%s(%" PRId64 ")",
             timeout_ns == 0 ? "try_" : "", mode == PEER_SHARED ? "_shared" : "", mine->key);
    for (;;) { /* ends: by the time, or an error that is no lost connection */
        enum outcome outcome = BROKEN;
        if (mine->client->idle != NULL) {
            outcome = set_timeout(mine->client->idle, timeout_ns);
            if (outcome == DONE) {
                outcome = run_statement(mine->client->idle->pq, text, &got);
            }
        }
        if (outcome == DONE) {
            mine->of = mine->client->idle->pq;
            return got ? PEER_OK : PEER_NOT_IN_TIME;
        }
        if (outcome != BROKEN) {
            return outcome == FAILED ? -1 : PEER_NOT_IN_TIME;
        }
        if (reconnect(mine->client, until_ns) != PEER_OK) {
            return PEER_NOT_IN_TIME;
        }
    }
}

static int advisory_release(void *lock)
{
    struct lock *mine = lock;
    char text[STATEMENT_MAX];
    bool was_held = false;
    if (mine->client->idle == NULL || mine->of != mine->client->idle->pq) {
        return PEER_LOST;
    }
    snprintf(text, sizeof(text), "SELECT pg_advisory_unlock%s(%" PRId64 ")",
             mine->mode == PEER_SHARED ? "_shared" : "", mine->key);
    enum outcome outcome = run_statement(mine->of, text, &was_held);
    if (outcome == BROKEN) {
        return PEER_LOST;
    }
    return outcome != DONE ? -1 : was_held ? PEER_OK : PEER_LOST;
}

/* What has come from the server tells of its end, without a question. */
static int look_at(PGconn *pq)
{
    return PQconsumeInput(pq) == 1 && PQstatus(pq) == CONNECTION_OK ? PEER_OK : PEER_LOST;
}

static int advisory_held(void *lock)
{
    const struct lock *mine = lock;
    return mine->client->idle != NULL && mine->of == mine->client->idle->pq ? look_at(mine->of)
                                                                            : PEER_LOST;
}

/* An idle connection of the client, or a new one; NULL if the server has no more. */
static struct connection *take_connection(struct client *client)
{
    struct connection *connection = client->idle;
    if (connection == NULL) {
        return connection_new(client);
    }
    client->idle = connection->next;
    connection->next = NULL;
    return connection;
}

static void give_back(struct client *client, struct connection *connection)
{
    connection->next = client->idle;
    client->idle = connection;
}

/* A name's first lock brings its row along: an insert that meets another's waits for it. */
static void row_statement(const struct lock *lock, enum peer_mode mode, bool wait,
                          char text[STATEMENT_MAX])
{
    char insert[STATEMENT_MAX / 2] = "";
    if (!lock->known) {
        snprintf(insert, sizeof(insert), "INSERT INTO locks VALUES('%s') ON CONFLICT DO NOTHING;",
                 lock->name);
    }
    snprintf(text, STATEMENT_MAX, "BEGIN;%sSELECT 1 FROM locks WHERE name='%s' FOR %s%s", insert,
             lock->name, mode == PEER_SHARED ? "SHARE" : "UPDATE", wait ? "" : " NOWAIT");
}

static int row_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    struct lock *mine = lock;
    const int64_t until_ns = end_of(timeout_ns);
    *out_token = 0;
    do {
        char text[STATEMENT_MAX];
        bool got = false;
        struct connection *connection = take_connection(mine->client);
        if (connection == NULL) {
            pause_ns(timeout_ns == 0 ? 0 : look_ns);
            continue;
        }
        enum outcome outcome = set_timeout(connection, timeout_ns);
        row_statement(mine, mode, timeout_ns != 0, text);
        if (outcome == DONE) {
            outcome = run_statement(connection->pq, text, &got);
        }
        if (outcome == DONE) {
            mine->held_by = connection;
            mine->known = true;
            return got ? PEER_OK : complain("PostgreSQL: no row for %s", mine->name);
        }
        if (outcome == BROKEN) {
            connection_free(connection);
            continue;
        }
        bool ignored;
        outcome = outcome == TIMED_OUT ? run_statement(connection->pq, "ROLLBACK", &ignored)
                                       : outcome;
        give_back(mine->client, connection);
        return outcome == DONE || outcome == REFUSED ? PEER_NOT_IN_TIME : -1;
    } while (now_ns() < until_ns);
    return PEER_NOT_IN_TIME;
}

static int row_release(void *lock)
{
    struct lock *mine = lock;
    struct connection *connection = mine->held_by;
    bool ignored;
    mine->held_by = NULL;
    enum outcome outcome = run_statement(connection->pq, "COMMIT", &ignored);
    if (outcome == BROKEN) {
        connection_free(connection);
        return PEER_LOST;
    }
    give_back(mine->client, connection);
    return outcome == DONE ? PEER_OK : -1;
}

static int row_held(void *lock)
{
    const struct lock *mine = lock;
    return mine->held_by == NULL ? PEER_LOST : look_at(mine->held_by->pq);
}

#define POSTGRESQL_COMMON                                                                          \
    .packages = "postgresql libpq-dev", .hosts = 2,                                                \
    .features = PEER_HAS_SHARED | PEER_ACROSS_HOSTS | PEER_IS_SERVICE,                             \
    .missing = postgresql_missing, .start = postgresql_start, .stop = postgresql_stop,             \
    .kill_server = postgresql_kill, .await = postgresql_await, .connect = postgresql_connect,      \
    .disconnect = postgresql_disconnect, .open = postgresql_open, .close = postgresql_close

const struct peer_kind peer_pg_advisory = {
    .name = "pg-advisory",
    .title = "PostgreSQL 15, advisory lock",
    .durability = "none: in the server's memory",
    .fairness = "TCP on the loopback, one server, one round trip a call; the server wakes its "
                "waiters. A lock ends with its connection: no lease, no token.",
    .acquire = advisory_acquire,
    .release = advisory_release,
    .held = advisory_held,
    POSTGRESQL_COMMON,
};

const struct peer_kind peer_pg_row = {
    .name = "pg-row",
    .title = "PostgreSQL 15, SELECT FOR UPDATE",
    .durability = "the commit is flushed (fsync, synchronous_commit on); the hold itself is not",
    .fairness = "A transaction and so a connection a hold, BEGIN and SELECT in one message; a new "
                "name's row is inserted with it. The server wakes its waiters. No lease, no token.",
    .acquire = row_acquire,
    .release = row_release,
    .held = row_held,
    POSTGRESQL_COMMON,
};
