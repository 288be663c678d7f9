/*
 * One Redis on a Unix socket, as its documentation has locks: SET name value NX PX lease, and a
 * script that deletes the key only if the value is the holder's own.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "kinds.h"
#include "redis_server.h"

struct client {
    struct redis_client common;
    redisContext *context;
    int64_t lease_ns;
};

struct lock {
    struct client *client;
    char name[PEER_NAME_MAX];
    char value[REDIS_NONCE_SIZE];
    int64_t until_ns; /* it cannot be taken by others before; the client's own clock */
};

static int memory_start(struct peer_run *run)
{
    return redis_start(run, 1, false, false);
}

static int append_start(struct peer_run *run)
{
    return redis_start(run, 1, true, false);
}

static int one_connect(struct peer_run *run, uint32_t host, void **out_client)
{
    struct client *client = calloc(1, sizeof(*client));
    (void)host;
    if (client != NULL) {
        client->lease_ns = run->lease_ns;
        client->context = redis_reach(run, 0, &client->common);
    }
    if (client == NULL || client->context == NULL) {
        free(client);
        return complain("no client of redis");
    }
    *out_client = client;
    return 0;
}

static void one_disconnect(void *client)
{
    redisFree(((struct client *)client)->context);
    free(client);
}

static int one_open(void *client, const char *name, void **out_lock)
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

static void one_close(void *lock)
{
    free(lock);
}

/* 0 had, PEER_NOT_IN_TIME if somebody has it, -1. */
static int try_once(struct lock *lock)
{
    struct client *client = lock->client;
    int64_t sent_ns = now_ns();
    redisReply *reply = redisCommand(client->context, "SET %s %s NX PX %lld", lock->name,
                                     lock->value, (long long)(client->lease_ns / 1000000));
    int result = PEER_NOT_IN_TIME;
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        result = complain("redis SET: %s", reply == NULL ? client->context->errstr : reply->str);
    } else if (reply->type == REDIS_REPLY_STATUS) {
        lock->until_ns = sent_ns + client->lease_ns;
        result = PEER_OK;
    }
    freeReplyObject(reply);
    return result;
}

static int one_acquire(void *arg, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    struct lock *lock = arg;
    struct redis_client *common = &lock->client->common;
    const int64_t begin_ns = now_ns();
    (void)mode;
    *out_token = 0;
    redis_next_nonce(common);
    snprintf(lock->value, sizeof(lock->value), "%s", common->nonce);
    int result = try_once(lock);
    while (result == PEER_NOT_IN_TIME && (timeout_ns < 0 || now_ns() - begin_ns < timeout_ns)) {
        redis_pause(common);
        result = try_once(lock);
    }
    return result;
}

static int one_release(void *arg)
{
    struct lock *lock = arg;
    struct client *client = lock->client;
    redisReply *reply = redisCommand(client->context, "EVALSHA %s 1 %s %s", client->common.sha,
                                     lock->name, lock->value);
    int result = PEER_LOST;
    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER) {
        result = complain("redis EVALSHA: %s",
                          reply == NULL ? client->context->errstr : reply->str);
    } else if (reply->integer == 1) {
        result = PEER_OK;
    }
    freeReplyObject(reply);
    return result;
}

static int one_held(void *lock)
{
    return now_ns() < ((struct lock *)lock)->until_ns ? PEER_OK : PEER_LOST;
}

/* The watchdog's part, as Redisson has one: a longer life, if the key is still the own. */
static int one_renew(void *arg)
{
    static const char script[] = "if redis.call('get',KEYS[1])==ARGV[1] then "
                                 "return redis.call('pexpire',KEYS[1],ARGV[2]) end return 0";
    struct lock *lock = arg;
    struct client *client = lock->client;
    int64_t sent_ns = now_ns();
    redisReply *reply = redisCommand(client->context, "EVAL %s 1 %s %s %lld", script, lock->name,
                                     lock->value, (long long)(client->lease_ns / 1000000));
    int result = PEER_LOST;
    if (reply == NULL) { /* the next renewal is soon enough */
        result = redisReconnect(client->context) == REDIS_OK ? PEER_OK : -1;
    } else if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 1) {
        lock->until_ns = sent_ns + client->lease_ns;
        result = PEER_OK;
    }
    freeReplyObject(reply);
    return result;
}

#define ONE_REDIS                                                                                  \
    .fairness = "One server on a Unix socket. Nobody is told of a release: a waiter tries again "  \
                "after 0.5 to 1.5 ms, in no order. No fencing token.",                             \
    .packages = "redis-tools libhiredis-dev",                                                      \
    .features = PEER_ACROSS_HOSTS | PEER_HAS_LEASE | PEER_IS_SERVICE, .hosts = 2,                  \
    .missing = redis_missing, .stop = redis_stop, .await = redis_await, .connect = one_connect,    \
    .disconnect = one_disconnect, .open = one_open, .close = one_close, .acquire = one_acquire,    \
    .release = one_release, .held = one_held, .renew = one_renew

const struct peer_kind peer_redis = {
    .name = "redis",
    .title = "Redis, in memory",
    .durability = "none: a restart forgets all",
    .start = memory_start,
    ONE_REDIS,
};

const struct peer_kind peer_redis_aof = {
    .name = "redis-aof",
    .title = "Redis, appendfsync always",
    .durability = "each change flushed by one",
    .start = append_start,
    ONE_REDIS,
};
