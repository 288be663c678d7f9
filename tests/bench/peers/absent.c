/*
 * An entry of the list for each peer whose client library was missing at build time. The missing()
 * of such an entry names the library. The macros PEERS_HAVE_* show which peers were built.
 */
#include <stdio.h>

#include "kinds.h"

#define ABSENT(symbol, word, text, library)                                                        \
    static int symbol##_missing(char why[PEER_WHY_MAX])                                            \
    {                                                                                              \
        snprintf(why, PEER_WHY_MAX, "built without " library);                                     \
        return 1;                                                                                  \
    }                                                                                              \
    const struct peer_kind symbol = {                                                              \
        .name = word,                                                                              \
        .title = text,                                                                             \
        .packages = library,                                                                       \
        .missing = symbol##_missing,                                                               \
    }

#ifndef PEERS_HAVE_HIREDIS
ABSENT(peer_redis, "redis", "Redis, in memory", "libhiredis-dev");
ABSENT(peer_redis_aof, "redis-aof", "Redis, appendfsync always", "libhiredis-dev");
ABSENT(peer_redlock3, "redlock3", "Redlock, 3 Redis in memory", "libhiredis-dev");
ABSENT(peer_redlock3_aof, "redlock3-aof", "Redlock, 3 Redis, appendfsync always", "libhiredis-dev");
ABSENT(peer_redlock5, "redlock5", "Redlock, 5 Redis in memory", "libhiredis-dev");
ABSENT(peer_redlock5_aof, "redlock5-aof", "Redlock, 5 Redis, appendfsync always", "libhiredis-dev");
#endif

#ifndef PEERS_HAVE_ZOOKEEPER
ABSENT(peer_zookeeper3, "zookeeper3", "ZooKeeper 3.8, three servers", "libzookeeper-mt-dev");
#endif

#ifndef PEERS_HAVE_LIBPQ
ABSENT(peer_pg_advisory, "pg-advisory", "PostgreSQL 15, advisory lock", "libpq-dev");
ABSENT(peer_pg_row, "pg-row", "PostgreSQL 15, SELECT FOR UPDATE", "libpq-dev");
#endif

#ifndef PEERS_HAVE_MARIADB
ABSENT(peer_mariadb_lock, "mariadb-lock", "MariaDB 10.11, GET_LOCK", "libmariadb-dev");
ABSENT(peer_mariadb_row, "mariadb-row", "MariaDB 10.11, SELECT FOR UPDATE", "libmariadb-dev");
#endif
