/*
 * What the files of serve/ share: the socket and the users' shares of a turn. serve.c makes it, and
 * opens and shuts the socket.
 *
 * A process and a connection count in their user's share from when they become known until they are
 * closed. So the shares are there before the socket is, and go after it.
 */
#ifndef AGENT_SERVE_PRIVATE_H
#define AGENT_SERVE_PRIVATE_H

#include "io/socket.h"
#include "observe/log.h"
#include "serve/misuses.h"

struct serve {
    struct socket_shares shares;  /* how much of the agent's time each user costs */
    struct socket_server *server; /* NULL: not open */
    int64_t rings_ns; /* rings.c: when rings that wait are to be answered; INT64_MAX: none wait */
    uint64_t costly;  /* how often a connection was logged as costly */
    int64_t record_failed_ns; /* when a client's file could not be written; 0: the last one was
                               * written */
    int record_failed_why;    /* errno of that */
    struct misuses *misuses;
    struct log_limit lock_limit;
};

#endif
