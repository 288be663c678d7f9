/*
 * One PostgreSQL server, used for locks in two ways: advisory locks of the session, and SELECT ...
 * FOR UPDATE of a row, with one transaction for each hold. Clients use TCP on the loopback.
 * (sql_client.h has the part that is the same for MariaDB.)
 */
#include <glob.h>
#include <inttypes.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <libpq-fe.h>

#include "kinds.h"
#include "sql_client.h"

enum { PROGRAM_MAX = 160 };

/* the server refuses to run as root; Debian's package makes this user */
static const char user[] = "postgres";

/* ---- the functions for sql_client.c ---- */

/* Returns a connection to the run's server. Returns NULL without a message if no server answers. */
static void *dial(const struct peer_run *run)
{
    char how[SQL_STATEMENT_MAX];
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

static void hang_up(void *handle)
{
    PQfinish(handle);
}

/* Reads what has arrived from the server, without a request: this shows whether the server
 * ended. */
static bool lives(void *handle)
{
    return PQconsumeInput(handle) == 1 && PQstatus(handle) == CONNECTION_OK;
}

/* Runs the statements. *out_yes is whether they return a row whose value is not the boolean
 * false. */
static enum sql_outcome run_statement(void *handle, const char *text, bool *out_yes)
{
    enum sql_outcome outcome = SQL_DONE;
    PGresult *result = PQexec(handle, text);
    ExecStatusType status = PQresultStatus(result);
    *out_yes = status == PGRES_TUPLES_OK && PQntuples(result) > 0 &&
               strcmp(PQgetvalue(result, 0, 0), "f") != 0;
    if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK) {
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        if (PQstatus(handle) != CONNECTION_OK) {
            outcome = SQL_BROKEN;
        } else if (state != NULL && (strcmp(state, "55P03") == 0 || /* lock_not_available */
                                     /* out_of_memory: no room for another lock */
                                     strcmp(state, "53200") == 0)) {
            outcome = SQL_NOT_HAD;
        } else {
            complain("PostgreSQL: %s", PQerrorMessage(handle));
            outcome = SQL_FAILED;
        }
    }
    PQclear(result);
    return outcome;
}

/* Sets the session's lock_timeout unless it has this value already. 0 means no limit. */
static enum sql_outcome set_timeout(struct sql_connection *connection, int64_t timeout_ns)
{
    int64_t timeout_ms = timeout_ns < 0 ? 0 : (timeout_ns + 999999) / 1000000;
    char text[SQL_STATEMENT_MAX];
    bool ignored;
    if (timeout_ns == 0 || timeout_ms == connection->timeout_ms) {
        return SQL_DONE;
    }
    snprintf(text, sizeof(text), "SET lock_timeout = %" PRId64, timeout_ms);
    connection->timeout_ms = timeout_ms;
    return run_statement(connection->handle, text, &ignored);
}

/* FNV-1a, 64 bits. PostgreSQL names an advisory lock by a number. */
static int64_t key_of(const char *name)
{
    uint64_t hash = UINT64_C(14695981039346656037);
    for (const char *at = name; *at != '\0'; at++) {
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    }
    return (int64_t)hash;
}

static void advisory_text(const char *name, enum peer_mode mode, int64_t timeout_ns,
                          char text[SQL_STATEMENT_MAX])
{
    snprintf(text, SQL_STATEMENT_MAX, "SELECT pg_%sadvisory_lock%s(%" PRId64 ")",
             timeout_ns == 0 ? "try_" : "", mode == PEER_SHARED ? "_shared" : "", key_of(name));
}

static void unlock_text(const char *name, enum peer_mode mode, char text[SQL_STATEMENT_MAX])
{
    snprintf(text, SQL_STATEMENT_MAX, "SELECT pg_advisory_unlock%s(%" PRId64 ")",
             mode == PEER_SHARED ? "_shared" : "", key_of(name));
}

static void row_text(const char *name, bool is_new, enum peer_mode mode, int64_t timeout_ns,
                     char text[SQL_STATEMENT_MAX])
{
    char insert[SQL_STATEMENT_MAX / 2] = "";
    if (is_new) {
        snprintf(insert, sizeof(insert), "INSERT INTO locks VALUES('%s') ON CONFLICT DO NOTHING;",
                 name);
    }
    snprintf(text, SQL_STATEMENT_MAX, "BEGIN;%sSELECT 1 FROM locks WHERE name='%s' FOR %s%s",
             insert, name, mode == PEER_SHARED ? "SHARE" : "UPDATE",
             timeout_ns != 0 ? "" : " NOWAIT");
}

static const struct sql_database postgresql = {
    .title = "PostgreSQL",
    .dial = dial,
    .hang_up = hang_up,
    .lives = lives,
    .run = run_statement,
    .set_timeout = set_timeout,
    .acquire_text = advisory_text,
    .release_text = unlock_text,
    .row_text = row_text,
};

static int postgresql_connect(struct peer_run *run, uint32_t host, void **out_client)
{
    (void)host;
    return sql_connect(run, &postgresql, out_client);
}

static int postgresql_await(struct peer_run *run)
{
    return sql_await(run, &postgresql);
}

/* ---- the server ---- */

/* Returns the path of PROGRAM in the highest version's /usr/lib/postgresql/VERSION/bin. */
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
    server->arg_count = 0; /* `server` is used again, for a second command in the same folder */
    server->text_size = 0;
    int error = 0;
    error |= server_arg(server, "%s", program);
    error |= server_arg(server, "-D%s/data", server->directory);
    error |= server_arg(server, "-clisten_addresses=127.0.0.1");
    error |= server_arg(server, "-cport=%u", port);
    error |= server_arg(server, "-cunix_socket_directories=");
    error |= server_arg(server, "-cfsync=on");
    /* this kind of shared memory is removed with the folder */
    error |= server_arg(server, "-cdynamic_shared_memory_type=mmap");
    error |= server_arg(server, "-csynchronous_commit=on");
    error |= server_arg(server, "-cshared_buffers=32MB");
    error |= server_arg(server, "-cmax_connections=%d", SQL_CONNECTIONS);
    /* room for 200,000 advisory locks */
    error |= server_arg(server, "-cmax_locks_per_transaction=2048");
    if (error != 0 || server_launch(server) != 0 || postgresql_await(run) != 0) {
        return -1;
    }
    return make_table(run);
}

static void postgresql_stop(struct peer_run *run)
{
    if (run->server_count > 0) {
        server_end(&run->servers[0], SIGQUIT); /* SIGQUIT ends the server and its children at
                                                * once */
    }
}

static void postgresql_kill(struct peer_run *run, size_t server, bool clean)
{
    if (clean) {
        server_end(&run->servers[server], SIGINT); /* the shutdown called "fast", which does not
                                                    * wait for clients */
    } else {
        server_kill(&run->servers[server]);
    }
}

#define POSTGRESQL                                                                                 \
    .packages = "postgresql libpq-dev",                                                            \
    .features = PEER_HAS_SHARED | PEER_ACROSS_HOSTS | PEER_IS_SERVICE,                             \
    .missing = postgresql_missing, .start = postgresql_start, .stop = postgresql_stop,             \
    .kill_server = postgresql_kill, .await = postgresql_await, .connect = postgresql_connect,      \
    SQL_CLIENT

const struct peer_kind peer_pg_advisory = {
    .name = "pg-advisory",
    .title = "PostgreSQL 15, advisory lock",
    POSTGRESQL,
    SQL_SESSION,
};

const struct peer_kind peer_pg_row = {
    .name = "pg-row",
    .title = "PostgreSQL 15, SELECT FOR UPDATE",
    .durability = "the commit is flushed (fsync, synchronous_commit on); the hold itself is not",
    POSTGRESQL,
    SQL_ROW,
};
