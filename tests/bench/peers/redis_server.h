/*
 * Redis servers of the bench's own, and what clients of one and of several share: the key's value,
 * the script that deletes only what is ours, the pause between tries.
 *
 * The program is redis-server, or, where only Debian's redis-tools is installed, redis-check-rdb
 * under that name: it is the same file, and installing it brings no service with it.
 */
#ifndef PEERS_REDIS_SERVER_H
#define PEERS_REDIS_SERVER_H

#include "peer.h"

struct redisContext;

enum { REDIS_NONCE_SIZE = 48, REDIS_SHA_SIZE = 48, REDIS_SOCKET_MAX = SERVER_PATH_MAX + 16 };

/* What every client has. */
struct redis_client {
    char sha[REDIS_SHA_SIZE]; /* of the script that compares and deletes */
    char nonce[REDIS_NONCE_SIZE];
    uint64_t random;
    uint64_t holds; /* makes each hold's value its own */
};

int redis_missing(char why[PEER_WHY_MAX]);

/* Starts that many, with a Unix socket or a TCP port each, and waits until they answer. */
int redis_start(struct peer_run *run, size_t count, bool append_always, bool tcp) MUST_CHECK;
void redis_stop(struct peer_run *run);
int redis_await(struct peer_run *run) MUST_CHECK;

/* NULL after complain(). Loads the script into it. */
struct redisContext *redis_reach(const struct peer_run *run, size_t server,
                                 struct redis_client *client);

/* A value that no other hold has; a pause of 0.5 to 1.5 ms before the next try. */
void redis_next_nonce(struct redis_client *client);
void redis_pause(struct redis_client *client);

#endif
