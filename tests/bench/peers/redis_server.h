/*
 * Redis servers of the bench's own. Also the part that a client of one server and a client of
 * several servers have in common: the lock and its key's value, the requests about the lock, and
 * the pause between tries.
 *
 * The program is redis-server. Where only Debian's redis-tools is installed, the bench starts
 * redis-check-rdb under the name redis-server: it is the same file, and the package installs no
 * service.
 */
#ifndef PEERS_REDIS_SERVER_H
#define PEERS_REDIS_SERVER_H

#include "peer.h"

struct redisContext;

enum { REDIS_NONCE_SIZE = 48, REDIS_SHA_SIZE = 48, REDIS_SOCKET_MAX = SERVER_PATH_MAX + 16 };

/* What the clients of all Redis peers have in common. It is the first member of each peer's own
 * client struct, so redis_lock.client can be cast to that struct. */
struct redis_client {
    char sha[REDIS_SHA_SIZE]; /* names the script that compares the value and deletes the key */
    uint64_t random;
    uint64_t holds; /* rises with each new value and each pause; makes each hold's value unique */
    int64_t lease_ns;
};

struct redis_lock {
    struct redis_client *client;
    char name[PEER_NAME_MAX];
    char value[REDIS_NONCE_SIZE];
    int64_t until_ns; /* no other client can take the lock before this time of this client's
                       * clock */
};

int redis_missing(char why[PEER_WHY_MAX]);

/* Starts `count` servers, each with a Unix socket or a TCP port, and waits until they answer. */
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

/* redis_next_value() gives the lock a value that no other hold has. redis_pause() waits 0.5 to 1.5
 * ms before the next try. */
void redis_next_value(struct redis_lock *lock);
void redis_pause(struct redis_client *client);

/* These functions append a request about the lock to the context's output. redis_ask_set() sets the
 * key for a lease if there is no such key. redis_ask_delete() deletes the key, and
 * redis_ask_renew() renews its lease, if the key has the lock's value. */
void redis_ask_set(struct redisContext *context, const struct redis_lock *lock);
void redis_ask_delete(struct redisContext *context, const struct redis_lock *lock);
void redis_ask_renew(struct redisContext *context, const struct redis_lock *lock);

#endif
