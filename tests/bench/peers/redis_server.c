/*
 * Redis servers: see redis_server.h.
 */
#include "redis_server.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char twin[] = "/usr/bin/redis-check-rdb";
static const char delete_script[] =
    "if redis.call('get',KEYS[1]) == ARGV[1] then return redis.call('del',KEYS[1]) "
    "else return 0 end";
/* Extends the lease if the key still has the client's value, as Redisson's watchdog does. */
static const char renew_script[] = "if redis.call('get',KEYS[1])==ARGV[1] then "
                                   "return redis.call('pexpire',KEYS[1],ARGV[2]) end return 0";
static const int64_t start_timeout_ns = INT64_C(10000000000);

int redis_missing(char why[PEER_WHY_MAX])
{
    return program_exists("redis-server") || program_exists(twin)
               ? 0
               : peer_needs_program("redis-server", "redis-tools", why);
}

/* Finds the path of the program to start: redis-server, or a link in the run's folder to
 * redis-check-rdb. */
static int program_of(const struct peer_run *run, char *path, size_t size)
{
    if (program_exists("redis-server")) {
        snprintf(path, size, "redis-server");
        return 0;
    }
    snprintf(path, size, "%s/redis-server", run->directory);
    return symlink(twin, path) == 0 || errno == EEXIST ? 0
                                                       : complain("%s: %s", path, strerror(errno));
}

static int add_args(struct server *server, const char *program, bool append_always, bool tcp)
{
    int result = server_arg(server, "%s", program);
    result |= server_arg(server, "--port");
    result |= server_arg(server, "%u", tcp ? server->port : 0);
    if (tcp) {
        result |= server_arg(server, "--bind");
        result |= server_arg(server, "127.0.0.1");
    } else {
        result |= server_arg(server, "--unixsocket");
        result |= server_arg(server, "redis.sock");
    }
    result |= server_arg(server, "--save");
    result |= server_arg(server, "%s", "");
    result |= server_arg(server, "--appendonly");
    result |= server_arg(server, append_always ? "yes" : "no");
    result |= server_arg(server, "--appendfsync");
    result |= server_arg(server, "always");
    return result == 0 ? 0 : -1;
}

int redis_start(struct peer_run *run, size_t count, bool append_always, bool tcp)
{
    unsigned ports[PEER_SERVERS_MAX];
    char program[SERVER_PATH_MAX + 16];
    if (ports_choose(ports, count) != 0 || program_of(run, program, sizeof(program)) != 0) {
        return -1;
    }
    for (size_t i = 0; i < count; i++) {
        struct server *server = &run->servers[i];
        char name[16];
        snprintf(name, sizeof(name), "redis%zu", i);
        if (server_prepare(server, run->directory, name, NULL) != 0) {
            return -1;
        }
        run->server_count = i + 1;
        server->port = tcp ? ports[i] : 0;
        if (add_args(server, program, append_always, tcp) != 0 || server_launch(server) != 0) {
            return -1;
        }
    }
    return redis_await(run);
}

void redis_stop(struct peer_run *run)
{
    for (size_t i = 0; i < run->server_count; i++) {
        server_kill(&run->servers[i]); /* SIGKILL is enough: the run's data are not needed any
                                        * more */
    }
}

static redisContext *connect_once(const struct server *server)
{
    char path[REDIS_SOCKET_MAX];
    if (server->port != 0) {
        return redisConnect("127.0.0.1", (int)server->port);
    }
    snprintf(path, sizeof(path), "%s/redis.sock", server->directory);
    return redisConnectUnix(path);
}

int redis_await(struct peer_run *run)
{
    const int64_t give_up_ns = now_ns() + start_timeout_ns;
    for (size_t i = 0; i < run->server_count;) {
        redisContext *context = connect_once(&run->servers[i]);
        redisReply *reply = NULL;
        if (context != NULL && context->err == 0) {
            reply = redisCommand(context, "PING");
        }
        bool answers = reply != NULL && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
        if (context != NULL) {
            redisFree(context);
        }
        if (answers) {
            i++;
        } else if (!server_lives(&run->servers[i]) || now_ns() > give_up_ns || interrupted()) {
            return complain("redis %zu does not answer", i);
        } else {
            pause_ns(5000000);
        }
    }
    return 0;
}

struct redisContext *redis_reach(const struct peer_run *run, size_t server,
                                 struct redis_client *client)
{
    redisContext *context = connect_once(&run->servers[server]);
    redisReply *reply = NULL;
    if (context != NULL && context->err == 0) {
        reply = redisCommand(context, "SCRIPT LOAD %s", delete_script);
    }
    if (reply == NULL || reply->type != REDIS_REPLY_STRING ||
        getrandom(&client->random, sizeof(client->random), 0) != sizeof(client->random)) {
        complain("redis %zu: %s", server, context == NULL ? "no memory" : context->errstr);
        freeReplyObject(reply);
        if (context != NULL) {
            redisFree(context);
        }
        return NULL;
    }
    snprintf(client->sha, sizeof(client->sha), "%s", reply->str);
    freeReplyObject(reply);
    client->random |= 1;
    client->lease_ns = run->lease_ns;
    return context;
}

int redis_open(void *client, const char *name, void **out_lock)
{
    struct redis_lock *lock = calloc(1, sizeof(*lock));
    if (lock == NULL) {
        return complain("no memory");
    }
    lock->client = client;
    snprintf(lock->name, sizeof(lock->name), "%s", name);
    *out_lock = lock;
    return 0;
}

void redis_close(void *lock)
{
    free(lock);
}

int redis_held(void *lock)
{
    return now_ns() < ((struct redis_lock *)lock)->until_ns ? PEER_OK : PEER_LOST;
}

void redis_next_value(struct redis_lock *lock)
{
    struct redis_client *client = lock->client;
    snprintf(lock->value, sizeof(lock->value), "%016llx%llx", (unsigned long long)client->random,
             (unsigned long long)++client->holds);
}

void redis_pause(struct redis_client *client)
{
    uint64_t mixed = (client->random + ++client->holds) * UINT64_C(0x9e3779b97f4a7c15);
    struct timespec nap = {0, 500000 + (long)((mixed >> 32) % 1000000)};
    nanosleep(&nap, NULL);
}

static long long lease_ms(const struct redis_lock *lock)
{
    return lock->client->lease_ns / 1000000;
}

void redis_ask_set(struct redisContext *context, const struct redis_lock *lock)
{
    redisAppendCommand(context, "SET %s %s NX PX %lld", lock->name, lock->value, lease_ms(lock));
}

void redis_ask_delete(struct redisContext *context, const struct redis_lock *lock)
{
    redisAppendCommand(context, "EVALSHA %s 1 %s %s", lock->client->sha, lock->name, lock->value);
}

void redis_ask_renew(struct redisContext *context, const struct redis_lock *lock)
{
    redisAppendCommand(context, "EVAL %s 1 %s %s %lld", renew_script, lock->name, lock->value,
                       lease_ms(lock));
}
