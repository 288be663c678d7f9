/*
 * Redis servers of the bench's own, and what clients of one and of several share: the lock and its
 * key's value, the requests about it, the pause between tries.
 *
 * The program is redis-server, or, where only Debian's redis-tools is installed, redis-check-rdb
 * under that name: it is the same file, and installing it brings no service with it.
 */
#ifndef PEERS_REDIS_SERVER_H
#define PEERS_REDIS_SERVER_H

#include "peer.h"

struct redisContext;

enum { REDIS_NONCE_SIZE = 48, REDIS_SHA_SIZE = 48, REDIS_SOCKET_MAX = SERVER_PATH_MAX + 16 };

/* The common part of every client; its first member, so that a lock's client can be found from
 * it. */
struct redis_client {
    char sha[REDIS_SHA_SIZE]; /* of the script that compares and deletes */
    uint64_t random;
    uint64_t holds; /* the count makes the value of each hold unique */
    int64_t lease_ns;
};

struct redis_lock {
    struct redis_client *client;
    char name[PEER_NAME_MAX];
    char value[REDIS_NONCE_SIZE];
    int64_t until_ns; /* no other client can take the lock before, by this client's clock */
};

int redis_missing(char why[PEER_WHY_MAX]);

/* Starts that many, with a Unix socket or a TCP port each, and waits until they answer. */
int redis_start(struct peer_run *run, size_t count, bool append_always, bool tcp) MUST_CHECK;
void redis_stop(struct peer_run *run);
int redis_await(struct peer_run *run) MUST_CHECK;

/* Connects, loads the script into the server, and fills in the client. Returns NULL after
 * complain(). */
struct redisContext *redis_reach(const struct peer_run *run, size_t server,
                                 struct redis_client *client);

/* The functions open, close and held of the peer's table. */
int redis_open(void *client, const char *name, void **out_lock) MUST_CHECK;
void redis_close(void *lock);
int redis_held(void *lock);

/* Gives the lock a value that no other hold has. A pause of 0.5 to 1.5 ms before the next try. */
void redis_next_value(struct redis_lock *lock);
void redis_pause(struct redis_client *client);

/* Append a request about the lock to what the server is sent: to set the key for a lease if it is
 * not there; to delete it, or to renew its lease, if its value is the lock's. */
void redis_ask_set(struct redisContext *context, const struct redis_lock *lock);
void redis_ask_delete(struct redisContext *context, const struct redis_lock *lock);
void redis_ask_renew(struct redisContext *context, const struct redis_lock *lock);

#endif
