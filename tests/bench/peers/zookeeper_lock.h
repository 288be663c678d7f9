/*
 * ZooKeeper's lock recipe with its C client, for one thread of a worker. These are functions of
 * struct peer_kind (peer.h).
 */
#ifndef PEERS_ZOOKEEPER_LOCK_H
#define PEERS_ZOOKEEPER_LOCK_H

#include "peer.h"

/* `hosts` is "address:port,...", tried in that order. The session ends after session_ms without
 * contact. */
int zookeeper_lock_connect(const char *hosts, int session_ms, void **out_client) MUST_CHECK;
void zookeeper_lock_disconnect(void *client);
int zookeeper_lock_open(void *client, const char *name, void **out_lock) MUST_CHECK;
void zookeeper_lock_close(void *lock);
int zookeeper_lock_acquire(void *lock, enum peer_mode mode, int64_t timeout_ns,
                           uint64_t *out_token) MUST_CHECK;
int zookeeper_lock_release(void *lock) MUST_CHECK;
int zookeeper_lock_held(void *lock) MUST_CHECK;

#endif
