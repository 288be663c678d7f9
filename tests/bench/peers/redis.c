/*
 * One Redis on a Unix socket, used for locks as its documentation describes: SET name value NX PX
 * lease, and a script that deletes the key only if it still has the holder's value.
 */
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>

#include "kinds.h"
#include "redis_server.h"

struct redis_user {
    struct redis_client common;
    redisContext *context;
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
    struct redis_user *client = calloc(1, sizeof(*client));
    (void)host;
    if (client != NULL) {
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
    redisFree(((struct redis_user *)client)->context);
    free(client);
}

static redisContext *context_of(const struct redis_lock *lock)
{
    return ((struct redis_user *)lock->client)->context;
}

/* Waits for the answer to the last request. Returns NULL if the connection is broken. */
static redisReply *await_reply(redisContext *context)
{
    void *reply = NULL;
    return redisGetReply(context, &reply) == REDIS_OK ? reply : NULL;
}

/* Returns 0 if this client took the lock, PEER_NOT_IN_TIME if another client has it, or -1. */
static int try_once(struct redis_lock *lock)
{
    redisContext *context = context_of(lock);
    int64_t sent_ns = now_ns();
    redis_ask_set(context, lock);
    redisReply *reply = await_reply(context);
    int result = PEER_NOT_IN_TIME;
    if (reply == NULL || reply->type == REDIS_REPLY_ERROR) {
        result = complain("redis SET: %s", reply == NULL ? context->errstr : reply->str);
    } else if (reply->type == REDIS_REPLY_STATUS) {
        lock->until_ns = sent_ns + lock->client->lease_ns;
        result = PEER_OK;
    }
    freeReplyObject(reply);
    return result;
}

static int one_acquire(void *arg, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    struct redis_lock *lock = arg;
    const int64_t begin_ns = now_ns();
    (void)mode;
    *out_token = 0;
    redis_next_value(lock);
    int result = try_once(lock);
    while (result == PEER_NOT_IN_TIME && (timeout_ns < 0 || now_ns() - begin_ns < timeout_ns)) {
        redis_pause(lock->client);
        result = try_once(lock);
    }
    return result;
}

static int one_release(void *lock)
{
    redisContext *context = context_of(lock);
    redis_ask_delete(context, lock);
    redisReply *reply = await_reply(context);
    int result = PEER_LOST;
    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER) {
        result = complain("redis EVALSHA: %s", reply == NULL ? context->errstr : reply->str);
    } else if (reply->integer == 1) {
        result = PEER_OK;
    }
    freeReplyObject(reply);
    return result;
}

static int one_renew(void *arg)
{
    struct redis_lock *lock = arg;
    redisContext *context = context_of(lock);
    int64_t sent_ns = now_ns();
    redis_ask_renew(context, lock);
    redisReply *reply = await_reply(context);
    int result = PEER_LOST;
    if (reply == NULL) { /* the next renewal tries again, which is soon enough */
        result = redisReconnect(context) == REDIS_OK ? PEER_OK : -1;
    } else if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 1) {
        lock->until_ns = sent_ns + lock->client->lease_ns;
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
    .disconnect = one_disconnect, .open = redis_open, .close = redis_close,                        \
    .acquire = one_acquire, .release = one_release, .held = redis_held, .renew = one_renew

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
