/*
 * Redlock with three or five Redis servers on TCP ports of the loopback, as fast as its rules
 * allow. A request goes to all servers at once, and the call returns when a majority has answered.
 * The client reads the other answers before those of its next request. A hold counts only if a
 * majority said OK within the hold's validity time. This time begins when the client sends the
 * request, and is the lease less the drift (1 % and 2 ms). A client that did not get the lock
 * deletes its key on all servers, pauses and tries again.
 *
 * Each server answers in the order of its requests. So the number of an answer shows to which
 * request the answer belongs.
 */
#include <errno.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kinds.h"
#include "redis_server.h"

enum { REDLOCK_MAX = 5 };

static const int64_t answer_timeout_ns = INT64_C(2000000000);

struct link {
    redisContext *context;
    uint64_t asked;
    uint64_t answered;
};

struct redlock_user {
    struct redis_client common;
    const struct peer_run *run;
    struct link links[REDLOCK_MAX];
    size_t count;
};

static int start3(struct peer_run *run)
{
    return redis_start(run, 3, false, true);
}

static int start3_append(struct peer_run *run)
{
    return redis_start(run, 3, true, true);
}

static int start5(struct peer_run *run)
{
    return redis_start(run, 5, false, true);
}

static int start5_append(struct peer_run *run)
{
    return redis_start(run, 5, true, true);
}

static void redlock_disconnect(void *arg)
{
    struct redlock_user *client = arg;
    for (size_t i = 0; i < client->count; i++) {
        if (client->links[i].context != NULL) {
            redisFree(client->links[i].context);
        }
    }
    free(client);
}

static int redlock_connect(struct peer_run *run, uint32_t host, void **out_client)
{
    struct redlock_user *client = calloc(1, sizeof(*client));
    (void)host;
    if (client == NULL) {
        return complain("no memory");
    }
    client->run = run;
    client->count = run->server_count;
    for (size_t i = 0; i < client->count; i++) {
        client->links[i].context = redis_reach(run, i, &client->common);
        if (client->links[i].context == NULL) {
            redlock_disconnect(client);
            return -1;
        }
    }
    *out_client = client;
    return 0;
}

static struct redlock_user *client_of(const struct redis_lock *lock)
{
    return (struct redlock_user *)lock->client;
}

/* ---- one request to all servers ---- */

struct count {
    size_t yes;
    size_t no;
};

/* Ends the connection to a server that cannot be reached. A server without a connection counts as a
 * refusal, and gets no further request. */
static void lose(struct link *link)
{
    redisFree(link->context);
    link->context = NULL;
}

/* Passes the appended requests to the kernel. */
static void send_all(struct redlock_user *client)
{
    for (size_t i = 0; i < client->count; i++) {
        struct link *link = &client->links[i];
        int done = 0;
        while (link->context != NULL && done == 0) {
            if (redisBufferWrite(link->context, &done) != REDIS_OK) {
                lose(link);
            }
        }
        link->asked++;
    }
}

static bool is_yes(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_STATUS ||
           (reply->type == REDIS_REPLY_INTEGER && reply->integer == 1);
}

/* Reads what a server sent. Counts its answer to the latest request. */
static void read_answers(struct link *link, struct count *count)
{
    void *reply = NULL;
    if (redisBufferRead(link->context) != REDIS_OK) {
        lose(link);
        count->no++;
        return;
    }
    while (redisGetReplyFromReader(link->context, &reply) == REDIS_OK && reply != NULL) {
        link->answered++;
        if (link->answered == link->asked) {
            count->yes += is_yes(reply) ? 1 : 0;
            count->no += is_yes(reply) ? 0 : 1;
        }
        freeReplyObject(reply);
        reply = NULL;
    }
}

/* Waits until a majority has said yes, or until no majority can say yes any more. */
static struct count await_majority(struct redlock_user *client)
{
    const size_t majority = client->count / 2 + 1;
    const int64_t give_up_ns = now_ns() + answer_timeout_ns;
    struct count count = {0, 0};
    for (size_t i = 0; i < client->count; i++) {
        count.no += client->links[i].context == NULL ? 1 : 0;
    }
    while (count.yes < majority && count.no < client->count - majority + 1 &&
           now_ns() < give_up_ns) {
        struct pollfd polls[REDLOCK_MAX];
        struct link *links[REDLOCK_MAX];
        nfds_t waiting = 0;
        for (size_t i = 0; i < client->count; i++) {
            struct link *link = &client->links[i];
            if (link->context != NULL && link->answered < link->asked) {
                polls[waiting] = (struct pollfd){.fd = link->context->fd, .events = POLLIN};
                links[waiting++] = link;
            }
        }
        if (poll(polls, waiting, 100) <= 0) {
            continue;
        }
        for (nfds_t i = 0; i < waiting; i++) {
            if (polls[i].revents != 0) {
                read_answers(links[i], &count);
            }
        }
    }
    return count;
}

/* Sends the same request to each reachable server (see redis_server.h), and counts the answers. */
static struct count ask_all(const struct redis_lock *lock,
                            void (*ask)(redisContext *context, const struct redis_lock *lock))
{
    struct redlock_user *client = client_of(lock);
    for (size_t i = 0; i < client->count; i++) {
        if (client->links[i].context != NULL) {
            ask(client->links[i].context, lock);
        }
    }
    send_all(client);
    return await_majority(client);
}

/* ---- the lock ---- */

static int64_t validity_ns(const struct redis_client *client)
{
    return client->lease_ns - (client->lease_ns / 100 + 2000000);
}

static int redlock_acquire(void *arg, enum peer_mode mode, int64_t timeout_ns, uint64_t *out_token)
{
    struct redis_lock *lock = arg;
    struct redis_client *common = lock->client;
    const int64_t begin_ns = now_ns();
    (void)mode;
    *out_token = 0;
    do {
        redis_next_value(lock);
        int64_t asked_ns = now_ns();
        struct count count = ask_all(lock, redis_ask_set);
        lock->until_ns = asked_ns + validity_ns(common);
        if (count.yes > client_of(lock)->count / 2 && now_ns() < lock->until_ns) {
            return PEER_OK;
        }
        ask_all(lock, redis_ask_delete);
        if (timeout_ns != 0) {
            redis_pause(common);
        }
    } while (timeout_ns < 0 || now_ns() - begin_ns < timeout_ns);
    return PEER_NOT_IN_TIME;
}

static int redlock_release(void *lock)
{
    return ask_all(lock, redis_ask_delete).yes > client_of(lock)->count / 2 ? PEER_OK : PEER_LOST;
}

/* Extends the lease on a majority. Connects again to servers that were gone. */
static int redlock_renew(void *arg)
{
    struct redis_lock *lock = arg;
    struct redlock_user *client = client_of(lock);
    int64_t asked_ns = now_ns();
    for (size_t i = 0; i < client->count; i++) {
        struct link *link = &client->links[i];
        if (link->context == NULL) {
            *link = (struct link){.context = redis_reach(client->run, i, &client->common)};
        }
    }
    if (ask_all(lock, redis_ask_renew).yes <= client->count / 2) {
        return PEER_LOST;
    }
    lock->until_ns = asked_ns + validity_ns(lock->client);
    return PEER_OK;
}

#define REDLOCK                                                                                    \
    .fairness = "All are asked at once; acquire and release are over with a majority's answers. "  \
                "Nobody is told of a release: a waiter tries again after 0.5 to 1.5 ms, in no "    \
                "order. No fencing token.",                                                        \
    .packages = "redis-tools libhiredis-dev",                                                      \
    .features = PEER_ACROSS_HOSTS | PEER_HAS_LEASE | PEER_IS_SERVICE, .hosts = 2,                  \
    .missing = redis_missing, .stop = redis_stop, .await = redis_await,                            \
    .connect = redlock_connect, .disconnect = redlock_disconnect, .open = redis_open,              \
    .close = redis_close, .acquire = redlock_acquire, .release = redlock_release,                  \
    .held = redis_held, .renew = redlock_renew

const struct peer_kind peer_redlock3 = {
    .name = "redlock3",
    .title = "Redlock, 3 Redis in memory",
    .durability = "none: a restart forgets all",
    .start = start3,
    REDLOCK,
};

const struct peer_kind peer_redlock3_aof = {
    .name = "redlock3-aof",
    .title = "Redlock, 3 Redis, appendfsync always",
    .durability = "flushed by two of three",
    .start = start3_append,
    REDLOCK,
};

const struct peer_kind peer_redlock5 = {
    .name = "redlock5",
    .title = "Redlock, 5 Redis in memory",
    .durability = "none: a restart forgets all",
    .start = start5,
    REDLOCK,
};

const struct peer_kind peer_redlock5_aof = {
    .name = "redlock5-aof",
    .title = "Redlock, 5 Redis, appendfsync always",
    .durability = "flushed by three of five",
    .start = start5_append,
    REDLOCK,
};
