/*
 * What the files of serve/ share: the socket, and each user's share of a turn. serve.c creates
 * struct serve, and opens and shuts the socket.
 *
 * The agent counts each known process and connection in its user's share until it closes the
 * process's pidfd or the connection. So the shares exist before the socket is opened, and are freed
 * after it is closed.
 */
#ifndef AGENT_SERVE_PRIVATE_H
#define AGENT_SERVE_PRIVATE_H

#include "io/socket.h"
#include "observe/log.h"
#include "serve/misuses.h"

struct serve {
    struct socket_shares shares;  /* how much of the agent's time each user has used */
    struct socket_server *server; /* NULL: not open */
    int64_t rings_ns; /* rings.c: when the next waiting rings have to be answered; INT64_MAX: none
                       * wait */
    uint64_t costly;  /* how often a connection was logged as costly */
    /* when a client's record last could not be written; 0: never, or a record was written since */
    int64_t record_failed_ns;
    int record_failed_why; /* errno of the last failure to write a client's record */
    struct misuses *misuses;
    struct log_limit lock_limit;
};

#endif
