/*
 * The peers, in the order in which the tables show them.
 */
#include "kinds.h"

const struct peer_kind *const peer_kinds[] = {
    &peer_flock,
    &peer_ofd,
    &peer_mutex,
    &peer_redis,
    &peer_redis_aof,
    &peer_redlock3,
    &peer_redlock3_aof,
    &peer_redlock5,
    &peer_redlock5_aof,
    &peer_etcd1,
    &peer_etcd3,
    &peer_zookeeper3,
    &peer_pg_advisory,
    &peer_pg_row,
    &peer_mariadb_lock,
    &peer_mariadb_row,
    &peer_holdfast1,
    &peer_holdfast3,
    NULL,
};
