/*
 * One MariaDB server, used for locks in two ways: GET_LOCK() of the session, and
 * SELECT ... FOR UPDATE of an InnoDB row, a transaction a hold. Clients speak TCP on the loopback.
 *
 * As with PostgreSQL a row's hold needs a connection of its own while it lasts.
 */
#include <inttypes.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <mariadb/errmsg.h>
#include <mariadb/mysql.h>
#include <mariadb/mysqld_error.h>

#include "kinds.h"

enum { STATEMENT_MAX = 384, CONNECTIONS = 100, WAIT_FOR_EVER_S = 31536000 };

static const char user[] = "nobody"; /* it refuses root, and needs nothing but its folder */
static const int64_t await_timeout_ns = INT64_C(60000000000);
static const int64_t look_ns = INT64_C(50000000);
static const int64_t second_ns = INT64_C(1000000000);

/* ---- the server ---- */

static int server_missing(char why[PEER_WHY_MAX])
{
    if (access("/usr/sbin/mariadbd", X_OK) != 0) {
        snprintf(why, PEER_WHY_MAX, "/usr/sbin/mariadbd is not there (mariadb-server-core)");
        return 1;
    }
    return peer_needs_program("my_print_defaults", "mariadb-client-core", why);
}

/* A connection to the run's server; NULL without a word if there is none. */
static MYSQL *dial(const struct peer_run *run, const char *database)
{
    static const char begin[] = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    const unsigned timeout_s = 10;
    MYSQL *connection = mysql_init(NULL);
    if (connection == NULL) {
        return NULL;
    }
    mysql_options(connection, MYSQL_OPT_CONNECT_TIMEOUT, &timeout_s);
    mysql_options(connection, MYSQL_INIT_COMMAND, begin);
    if (mysql_real_connect(connection, "127.0.0.1", "root", "", database, run->servers[0].port,
                           NULL, CLIENT_MULTI_STATEMENTS) == NULL) {
        mysql_close(connection);
        return NULL;
    }
    return connection;
}

static int server_await(struct peer_run *run)
{
    const int64_t give_up_ns = now_ns() + await_timeout_ns;
    MYSQL *connection = NULL;
    while (connection == NULL && now_ns() < give_up_ns && !interrupted()) {
        connection = dial(run, NULL);
        if (connection == NULL) {
            if (!server_lives(&run->servers[0])) {
                return complain("the MariaDB server has ended");
            }
            pause_ns(look_ns);
        }
    }
    if (connection == NULL) {
        return complain("MariaDB does not answer in time");
    }
    mysql_close(connection);
    return 0;
}

static int make_database(struct peer_run *run)
{
    struct server *maker = &run->servers[0];
    if (server_prepare(maker, run->directory, "server", user) != 0) {
        return -1;
    }
    int error = 0;
    error |= server_arg(maker, "mariadb-install-db");
    error |= server_arg(maker, "--no-defaults");
    error |= server_arg(maker, "--datadir=%s/data", maker->directory);
    error |= server_arg(maker, "--auth-root-authentication-method=normal");
    error |= server_arg(maker, "--skip-test-db");
    return error != 0 ? -1 : server_run(maker);
}

static int make_table(struct peer_run *run)
{
    MYSQL *connection = dial(run, NULL);
    if (connection == NULL || mysql_query(connection, "CREATE DATABASE peers") != 0 ||
        mysql_query(connection, "CREATE TABLE peers.locks (name VARCHAR(96) CHARACTER SET ascii "
                                "PRIMARY KEY) ENGINE=InnoDB") != 0) {
        complain("MariaDB makes no table: %s", connection == NULL ? "" : mysql_error(connection));
        mysql_close(connection);
        return -1;
    }
    mysql_close(connection);
    return 0;
}

static int server_start(struct peer_run *run)
{
    struct server *server = &run->servers[0];
    unsigned port;
    run->server_count = 1;
    if (make_database(run) != 0 || ports_choose(&port, 1) != 0) {
        return -1;
    }
    server->port = port;
    server->arg_count = 0; /* the folder stays, the command is another */
    server->text_size = 0;
    int error = 0;
    error |= server_arg(server, "/usr/sbin/mariadbd");
    error |= server_arg(server, "--no-defaults");
    error |= server_arg(server, "--datadir=%s/data", server->directory);
    error |= server_arg(server, "--bind-address=127.0.0.1");
    error |= server_arg(server, "--port=%u", port);
    error |= server_arg(server, "--socket=%s/sock", server->directory);
    error |= server_arg(server, "--pid-file=%s/pid", server->directory);
    error |= server_arg(server, "--skip-name-resolve");
    error |= server_arg(server, "--skip-log-bin");
    error |= server_arg(server, "--innodb-flush-log-at-trx-commit=1");
    error |= server_arg(server, "--innodb-buffer-pool-size=64M");
    error |= server_arg(server, "--innodb-log-file-size=32M");
    error |= server_arg(server, "--max-connections=%d", CONNECTIONS);
    if (error != 0 || server_launch(server) != 0 || server_await(run) != 0) {
        return -1;
    }
    return make_table(run);
}

static void server_stop(struct peer_run *run)
{
    if (run->server_count > 0) {
        server_kill(&run->servers[0]);
    }
}

/* ---- clients ---- */

struct connection {
    MYSQL *mysql;
    struct connection *next;
};

struct client {
    struct peer_run *run;
    struct connection *idle; /* for GET_LOCK: the one there is */
};

struct lock {
    struct client *client;
    struct connection *held_by; /* a row's: while it is held */
    MYSQL *of;                  /* of GET_LOCK: the connection that it was taken on */
    char name[PEER_NAME_MAX];
    bool known; /* the row is there */
};

static struct connection *connection_new(const struct client *client)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    if (connection != NULL) {
        connection->mysql = dial(client->run, "peers");
        if (connection->mysql == NULL) {
            free(connection);
            connection = NULL;
        }
    }
    return connection;
}

static void connection_free(struct connection *connection)
{
    mysql_close(connection->mysql);
    free(connection);
}

static int client_connect(struct peer_run *run, uint32_t host, void **out_client)
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
        return complain("no connection to MariaDB");
    }
    *out_client = client;
    return 0;
}

static void client_disconnect(void *client)
{
    struct client *mine = client;
    while (mine->idle != NULL) {
        struct connection *next = mine->idle->next;
        connection_free(mine->idle);
        mine->idle = next;
    }
    free(mine);
}

static int client_open(void *client, const char *name, void **out_lock)
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

static void client_close(void *lock)
{
    struct lock *mine = lock;
    if (mine->held_by != NULL) {
        connection_free(mine->held_by);
    }
    free(mine);
}

enum outcome { DONE, TIMED_OUT, DEADLOCK, BROKEN, FAILED };

static enum outcome outcome_of(MYSQL *mysql)
{
    switch (mysql_errno(mysql)) {
    case CR_SERVER_GONE_ERROR:
    case CR_SERVER_LOST:
    case ER_SERVER_SHUTDOWN:
    case ER_CONNECTION_KILLED:
        return BROKEN;
    case ER_LOCK_WAIT_TIMEOUT:
        return TIMED_OUT;
    case ER_LOCK_DEADLOCK: /* the transaction has been rolled back */
        return DEADLOCK;
    default:
        complain("MariaDB: %s", mysql_error(mysql));
        return FAILED;
    }
}

/* Runs statements; *out_value is the first value of the last one that had a row: '1', '0', or 0
 * for NULL or none. */
static enum outcome run_statement(MYSQL *mysql, const char *text, char *out_value)
{
    *out_value = 0;
    int more = mysql_real_query(mysql, text, strlen(text));
    while (more == 0) {
        MYSQL_RES *result = mysql_store_result(mysql);
        if (result != NULL) {
            MYSQL_ROW row = mysql_fetch_row(result);
            *out_value = (char)(row != NULL && row[0] != NULL ? row[0][0] : 0);
            mysql_free_result(result);
        }
        more = mysql_next_result(mysql); /* -1: no more */
    }
    return more < 0 ? DONE : outcome_of(mysql);
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

static int getlock_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    struct lock *mine = lock;
    const int64_t until_ns = end_of(timeout_ns);
    char text[STATEMENT_MAX];
    (void)mode; /* exclusive alone */
    *out_token = 0;
    snprintf(text, sizeof(text), "SELECT GET_LOCK('%s', %.3f)", mine->name,
             timeout_ns < 0 ? (double)WAIT_FOR_EVER_S : (double)timeout_ns / 1e9);
    for (;;) { /* ends: by the time, or an error that is no lost connection */
        enum outcome outcome = BROKEN;
        char value = 0;
        if (mine->client->idle != NULL) {
            outcome = run_statement(mine->client->idle->mysql, text, &value);
        }
        if (outcome == DONE) {
            mine->of = mine->client->idle->mysql;
            return value == '1' ? PEER_OK : PEER_NOT_IN_TIME;
        }
        if (outcome != BROKEN) {
            return outcome == FAILED ? -1 : PEER_NOT_IN_TIME;
        }
        if (reconnect(mine->client, until_ns) != PEER_OK) {
            return PEER_NOT_IN_TIME;
        }
    }
}

static int getlock_release(void *lock)
{
    struct lock *mine = lock;
    char text[STATEMENT_MAX];
    char value = 0;
    if (mine->client->idle == NULL || mine->of != mine->client->idle->mysql) {
        return PEER_LOST;
    }
    snprintf(text, sizeof(text), "SELECT RELEASE_LOCK('%s')", mine->name);
    enum outcome outcome = run_statement(mine->of, text, &value);
    if (outcome == BROKEN) {
        return PEER_LOST;
    }
    return outcome != DONE ? -1 : value == '1' ? PEER_OK : PEER_LOST;
}

/* An idle connection has nothing to say, unless the server has closed it. */
static int look_at(MYSQL *mysql)
{
    struct pollfd socket = {.fd = mysql_get_socket(mysql), .events = POLLIN};
    return poll(&socket, 1, 0) == 0 ? PEER_OK : PEER_LOST;
}

static int getlock_held(void *lock)
{
    const struct lock *mine = lock;
    return mine->client->idle != NULL && mine->of == mine->client->idle->mysql ? look_at(mine->of)
                                                                               : PEER_LOST;
}

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
static void row_statement(const struct lock *lock, enum peer_mode mode, int64_t timeout_ns,
                          char text[STATEMENT_MAX])
{
    char insert[STATEMENT_MAX / 2] = "";
    char wait[32] = "NOWAIT";
    if (!lock->known) {
        snprintf(insert, sizeof(insert), "INSERT IGNORE INTO locks VALUES('%s');", lock->name);
    }
    if (timeout_ns != 0) {
        snprintf(wait, sizeof(wait), "WAIT %" PRId64,
                 timeout_ns < 0 ? (int64_t)WAIT_FOR_EVER_S
                                : (timeout_ns + second_ns - 1) / second_ns);
    }
    snprintf(text, STATEMENT_MAX, "BEGIN;%sSELECT '1' FROM locks WHERE name='%s' %s %s", insert,
             lock->name, mode == PEER_SHARED ? "LOCK IN SHARE MODE" : "FOR UPDATE", wait);
}

static int row_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    struct lock *mine = lock;
    const int64_t until_ns = end_of(timeout_ns);
    *out_token = 0;
    do {
        char text[STATEMENT_MAX];
        char value;
        struct connection *connection = take_connection(mine->client);
        if (connection == NULL) {
            pause_ns(timeout_ns == 0 ? 0 : look_ns);
            continue;
        }
        row_statement(mine, mode, timeout_ns, text);
        enum outcome outcome = run_statement(connection->mysql, text, &value);
        if (outcome == DONE) {
            mine->held_by = connection;
            mine->known = true;
            return value == '1' ? PEER_OK : complain("MariaDB: no row for %s", mine->name);
        }
        if (outcome == BROKEN) {
            connection_free(connection);
            continue;
        }
        if (outcome == TIMED_OUT) { /* which rolls back the statement alone */
            outcome = run_statement(connection->mysql, "ROLLBACK", &value) == DONE ? TIMED_OUT
                                                                                   : FAILED;
        }
        give_back(mine->client, connection);
        if (outcome == FAILED) {
            return -1;
        }
    } while (now_ns() < until_ns);
    return PEER_NOT_IN_TIME;
}

static int row_release(void *lock)
{
    struct lock *mine = lock;
    struct connection *connection = mine->held_by;
    char ignored;
    mine->held_by = NULL;
    enum outcome outcome = run_statement(connection->mysql, "COMMIT", &ignored);
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
    return mine->held_by == NULL ? PEER_LOST : look_at(mine->held_by->mysql);
}

#define MARIADB_COMMON                                                                             \
    .packages = "mariadb-server-core mariadb-client-core libmariadb-dev", .hosts = 2,              \
    .missing = server_missing, .start = server_start, .stop = server_stop, .await = server_await,  \
    .connect = client_connect, .disconnect = client_disconnect, .open = client_open,               \
    .close = client_close

const struct peer_kind peer_mariadb_lock = {
    .name = "mariadb-lock",
    .title = "MariaDB 10.11, GET_LOCK",
    .durability = "none: in the server's memory",
    .fairness = "TCP on the loopback, one server, one round trip a call; the server wakes its "
                "waiters. A lock ends with its connection: no lease, no token.",
    .features = PEER_ACROSS_HOSTS | PEER_IS_SERVICE,
    .acquire = getlock_acquire,
    .release = getlock_release,
    .held = getlock_held,
    MARIADB_COMMON,
};

const struct peer_kind peer_mariadb_row = {
    .name = "mariadb-row",
    .title = "MariaDB 10.11, SELECT FOR UPDATE",
    .durability = "a new row's insert is flushed (innodb_flush_log_at_trx_commit 1); a hold is not",
    .fairness = "A transaction and so a connection a hold, BEGIN and SELECT in one message; a new "
                "name's row is inserted with it. The server wakes its waiters. No lease, no token.",
    .features = PEER_HAS_SHARED | PEER_ACROSS_HOSTS | PEER_IS_SERVICE,
    .acquire = row_acquire,
    .release = row_release,
    .held = row_held,
    MARIADB_COMMON,
};
