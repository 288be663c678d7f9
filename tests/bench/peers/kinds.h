/*
 * The peers, one or a few in each file. A peer whose client library was missing at build time is in
 * the list too; it reports what is missing (absent.c).
 */
#ifndef PEERS_KINDS_H
#define PEERS_KINDS_H

#include "peer.h"

/* Peers in the kernel or in memory, which need no package. */
extern const struct peer_kind peer_flock; /* files.c */
extern const struct peer_kind peer_ofd;
extern const struct peer_kind peer_mutex; /* mutex.c */

extern const struct peer_kind peer_redis; /* redis.c: libhiredis */
extern const struct peer_kind peer_redis_aof;
extern const struct peer_kind peer_redlock3; /* redlock.c: libhiredis */
extern const struct peer_kind peer_redlock3_aof;
extern const struct peer_kind peer_redlock5;
extern const struct peer_kind peer_redlock5_aof;

extern const struct peer_kind peer_etcd1; /* etcd.c */
extern const struct peer_kind peer_etcd3;
extern const struct peer_kind peer_zookeeper3;  /* zookeeper.c: libzookeeper_mt */
extern const struct peer_kind peer_pg_advisory; /* postgresql.c: libpq */
extern const struct peer_kind peer_pg_row;
extern const struct peer_kind peer_mariadb_lock; /* mariadb.c: libmariadb */
extern const struct peer_kind peer_mariadb_row;

extern const struct peer_kind peer_holdfast1; /* holdfast.c */
extern const struct peer_kind peer_holdfast3;

#endif
