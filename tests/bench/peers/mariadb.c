/*
 * One MariaDB server, used for locks in two ways: GET_LOCK() of the session, and SELECT ... FOR
 * UPDATE of an InnoDB row, with one transaction for each hold. Clients use TCP on the loopback.
 * (sql_client.h has the part that is the same for PostgreSQL.)
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <mariadb/errmsg.h>
#include <mariadb/mysql.h>
#include <mariadb/mysqld_error.h>

#include "kinds.h"
#include "sql_client.h"

enum { WAIT_FOR_EVER_S = 31536000 };

/* the server refuses to run as root, and needs access only to its folder */
static const char user[] = "nobody";
static const int64_t second_ns = INT64_C(1000000000);

/* ---- the functions for sql_client.c ---- */

/* Connects to the run's server. Returns NULL without a message if no server answers. */
static void *dial(const struct peer_run *run)
{
    static const char begin[] = "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED";
    const unsigned timeout_s = 10;
    MYSQL *connection = mysql_init(NULL);
    if (connection == NULL) {
        return NULL;
    }
    mysql_options(connection, MYSQL_OPT_CONNECT_TIMEOUT, &timeout_s);
    mysql_options(connection, MYSQL_INIT_COMMAND, begin);
    if (mysql_real_connect(connection, "127.0.0.1", "root", "", NULL, run->servers[0].port, NULL,
                           CLIENT_MULTI_STATEMENTS) == NULL) {
        mysql_close(connection);
        return NULL;
    }
    return connection;
}

static void hang_up(void *handle)
{
    mysql_close(handle);
}

/* Returns whether the connection, which must be idle, is still open. Only its end can arrive on an
 * idle connection. */
static bool lives(void *handle)
{
    struct pollfd socket = {.fd = mysql_get_socket(handle), .events = POLLIN};
    return poll(&socket, 1, 0) == 0;
}

static enum sql_outcome outcome_of(MYSQL *mysql)
{
    switch (mysql_errno(mysql)) {
    case CR_SERVER_GONE_ERROR:
    case CR_SERVER_LOST:
    case ER_SERVER_SHUTDOWN:
    case ER_CONNECTION_KILLED:
        return SQL_BROKEN;
    case ER_LOCK_WAIT_TIMEOUT: /* this error rolls back only the statement */
        return SQL_NOT_HAD;
    case ER_LOCK_DEADLOCK:
        return SQL_UNDONE;
    default:
        complain("MariaDB: %s", mysql_error(mysql));
        return SQL_FAILED;
    }
}

/* Runs the statements. *out_yes is the value of the last statement that returned a row. */
static enum sql_outcome run_statement(void *handle, const char *text, bool *out_yes)
{
    *out_yes = false;
    int more = mysql_real_query(handle, text, strlen(text));
    while (more == 0) {
        MYSQL_RES *result = mysql_store_result(handle);
        if (result != NULL) {
            MYSQL_ROW row = mysql_fetch_row(result);
            *out_yes = row != NULL && row[0] != NULL && row[0][0] == '1';
            mysql_free_result(result);
        }
        more = mysql_next_result(handle); /* -1: no further result */
    }
    return more < 0 ? SQL_DONE : outcome_of(handle);
}

static void getlock_text(const char *name, enum peer_mode mode, int64_t timeout_ns,
                         char text[SQL_STATEMENT_MAX])
{
    (void)mode; /* GET_LOCK() has no shared mode */
    snprintf(text, SQL_STATEMENT_MAX, "SELECT GET_LOCK('%s', %.3f)", name,
             timeout_ns < 0 ? (double)WAIT_FOR_EVER_S : (double)timeout_ns / 1e9);
}

static void releaselock_text(const char *name, enum peer_mode mode, char text[SQL_STATEMENT_MAX])
{
    (void)mode;
    snprintf(text, SQL_STATEMENT_MAX, "SELECT RELEASE_LOCK('%s')", name);
}

static void row_text(const char *name, bool is_new, enum peer_mode mode, int64_t timeout_ns,
                     char text[SQL_STATEMENT_MAX])
{
    char insert[SQL_STATEMENT_MAX / 2] = "";
    char wait[32] = "NOWAIT";
    if (is_new) {
        snprintf(insert, sizeof(insert), "INSERT IGNORE INTO peers.locks VALUES('%s');", name);
    }
    if (timeout_ns != 0) {
        snprintf(wait, sizeof(wait), "WAIT %" PRId64,
                 timeout_ns < 0 ? (int64_t)WAIT_FOR_EVER_S
                                : (timeout_ns + second_ns - 1) / second_ns);
    }
    snprintf(text, SQL_STATEMENT_MAX, "BEGIN;%sSELECT '1' FROM peers.locks WHERE name='%s' %s %s",
             insert, name, mode == PEER_SHARED ? "LOCK IN SHARE MODE" : "FOR UPDATE", wait);
}

static const struct sql_database mariadb = {
    .title = "MariaDB",
    .dial = dial,
    .hang_up = hang_up,
    .lives = lives,
    .run = run_statement,
    .acquire_text = getlock_text,
    .release_text = releaselock_text,
    .row_text = row_text,
};

static int client_connect(struct peer_run *run, uint32_t host, void **out_client)
{
    (void)host;
    return sql_connect(run, &mariadb, out_client);
}

static int server_await(struct peer_run *run)
{
    return sql_await(run, &mariadb);
}

/* ---- the server ---- */

static int server_missing(char why[PEER_WHY_MAX])
{
    if (access("/usr/sbin/mariadbd", X_OK) != 0) {
        snprintf(why, PEER_WHY_MAX, "/usr/sbin/mariadbd is not there (mariadb-server-core)");
        return 1;
    }
    return peer_needs_program("my_print_defaults", "mariadb-client-core", why);
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
    MYSQL *connection = dial(run);
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
    server->arg_count = 0; /* `server` is used again, for a second command in the same folder */
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
    error |= server_arg(server, "--max-connections=%d", SQL_CONNECTIONS);
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

#define MARIADB                                                                                    \
    .packages = "mariadb-server-core mariadb-client-core libmariadb-dev",                          \
    .missing = server_missing, .start = server_start, .stop = server_stop, .await = server_await,  \
    .connect = client_connect, SQL_CLIENT

const struct peer_kind peer_mariadb_lock = {
    .name = "mariadb-lock",
    .title = "MariaDB 10.11, GET_LOCK",
    .features = PEER_ACROSS_HOSTS | PEER_IS_SERVICE,
    MARIADB,
    SQL_SESSION,
};

const struct peer_kind peer_mariadb_row = {
    .name = "mariadb-row",
    .title = "MariaDB 10.11, SELECT FOR UPDATE",
    .durability = "a new row's insert is flushed (innodb_flush_log_at_trx_commit 1); a hold is not",
    .features = PEER_HAS_SHARED | PEER_ACROSS_HOSTS | PEER_IS_SERVICE,
    MARIADB,
    SQL_ROW,
};
