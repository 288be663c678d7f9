/*
 * The agent's Unix socket: SOCK_SEQPACKET, one frame a packet. This part carries packets and
 * descriptors and keeps every peer within its bounds. It does not know the contents of the packets.
 *
 * libuv has no SEQPACKET streams, so each socket is a uv_poll of its own. The left column has what
 * a peer can do; the right one has the bound:
 *
 *   packets faster than we serve     SOCKET_PACKETS_PER_TURN each turn, then the others' turn
 *   ... or that cost much each, on   all that one user's connections ask for has SOCKET_TURN_MS of
 *   many connections                 a turn; those that did not have theirs are the next turn's.
 *   ... and as many users            All users have SOCKET_TURN_ALL_MS, likewise
 *   packets that are too large       hang up
 *   descriptors                      the kernel refuses to send them (Linux 6.16). An older one
 *                                    leaves a packet that has any where it is, and its socket to a
 *                                    process that may wait for its close (io/closer.h). While that
 *                                    has no room nobody is accepted; connected clients do not
 *                                    notice
 *   not reading what we send         SOCKET_OUTPUT_MAX bytes wait; unasked packets beyond are
 *                                    dropped (drained() reports that it reads again), and an
 *                                    answer that does not fit ends the connection
 *   making each packet costly by     a call that cost much is paid back before the user is served
 *   watching its own end with very   again; a connection with two of them is set aside: not
 *   many epoll entries               touched until its peer has gone (costly.c)
 *   connecting and saying nothing    SOCKET_GREETING_MS, and a bounded number for each user
 *   connecting without end           accept.c: what is beyond that number is turned away,
 *                                    SOCKET_ACCEPTS_MS of a turn at most
 *   more than we have descriptors    one is kept free, by which the next is accepted, told so, and
 *                                    hung up on
 *
 * A connection is identified by a number, which is not used again for a long time. The event loop
 * makes the callbacks; each callback may close connections.
 */
#ifndef IO_SOCKET_H
#define IO_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "io/closer.h"
#include "io/peer.h"
#include "io/socket_share.h"

enum {
    SOCKET_PACKETS_PER_TURN = 16,
    SOCKET_TURN_MS = 10,          /* the part of a turn of the loop in which one user's packets are
                              * served */
    SOCKET_TURN_ALL_MS = 50,      /* and the part in which those of all users are served */
    SOCKET_ACCEPTS_PER_TURN = 64, /* connections that a turn accepts and keeps */
    SOCKET_ACCEPTS_MS = 10,       /* the part of a turn in which it may also turn connections
                                   * away */
    SOCKET_OUTPUT_MAX = 64 * 1024,
    /* How many descriptors may be in transit on one connection: the library receives each before it
     * asks for the next. For all connections together they are fewer than what RLIMIT_NOFILE is to
     * allow. */
    SOCKET_UNREAD_MAX = 2,
    SOCKET_BEHIND_MAX_PER_USER = 256, /* connections of one user that ended while descriptors were
                                       * unread */
    SOCKET_UNREAD_LOOK_MS = 1000,
    SOCKET_GREETING_MS = 5000,
    SOCKET_GREETING_MAX = 1024,         /* connections that have not greeted yet */
    SOCKET_GREETING_MAX_PER_USER = 128, /* how many of these one user may have */
    SOCKET_GREETING_SURE_MS = 100, /* how long a connection may send nothing before a new one may
                                    * take its slot */
    SOCKET_CONNECTIONS_MAX = 32768,
    SOCKET_CLOSER_ROOM = SOCKET_CONNECTIONS_MAX + 2, /* descriptors: all connections, one that is
                                                      * refused, the listener */
    SOCKET_ERROR_MAX = 256,
    SOCKET_REFUSAL_MAX = 64,
};

/* The reason that a refused client receives: the agent has no descriptors left. */
extern const char socket_no_descriptors[];

struct socket_server;
struct connection;

struct socket_handler {
    /* A packet arrived. sender: the process that sent it, as the kernel reports it (0: it has no
     * number here). */
    void (*packet)(void *arg, struct connection *connection, const unsigned char *bytes,
                   size_t size, pid_t sender);
    /* The connection was closed: by the peer (why is NULL), or by this part for the reason `why`.
     * socket_close() does not call this. */
    void (*closed)(void *arg, struct connection *connection, const char *why);
    /* Unasked packets of this connection were dropped; now the connection takes packets again. */
    void (*drained)(void *arg, struct connection *connection);
    /* The agent did not accept a connection, or closed it before HELLO. `why` is the agent's own
     * reason. peer: NULL if the peer is not known. */
    void (*refused)(void *arg, const struct peer *peer, const char *why);
    /* No connection is accepted at present, since the closer has no room. Called at most once a
     * minute. uid: the user that has most of the sockets that wait there (-1: not known). */
    void (*stuck)(void *arg, uid_t uid, uint32_t count);
    /* The closer has ended, and from now on closes may block. Called once. */
    void (*alone)(void *arg);
    void *arg;
    /* A callback of the loop begins in which time is spent for users, and in which most other
     * callbacks may be called. May be NULL. */
    void (*begins)(void *arg);
    /* Calls on the connection's socket cost the agent that much processor time, so the connection
     * was set aside. Next, closed() is called, or a connection_send() fails. May be NULL. */
    void (*costly)(void *arg, struct connection *connection, int64_t cost_ns);
};

struct socket_config {
    const char *path;
    bool for_all; /* mode 0666 (peer credentials decide), else 0600 */
    uint32_t connections_max;
    struct closer *closer;        /* made with SOCKET_CLOSER_ROOM; NULL: there is none, or none is
                                   * needed */
    struct socket_shares *shares; /* the users' shares of a turn; NULL: this socket makes its own */
    struct socket_handler handler;
    /* The last packet for a client that is refused. It is sent if that is still possible before the
     * connection ends. */
    unsigned char refusal[SOCKET_REFUSAL_MAX];
    size_t refusal_size;
};

/* Returns true if this kernel lacks the option to refuse descriptors. */
bool socket_needs_closer(void);

/*
 * Makes the socket and begins to accept. Replaces a socket file at which no process listens. The
 * caller must make sure that no two agents do this at once (with a lock beside the path). On
 * failure returns NULL, and error (SOCKET_ERROR_MAX bytes) says why.
 */
struct socket_server *socket_open(uv_loop_t *loop, const struct socket_config *config, char *error)
    __attribute__((warn_unused_result));

/* Returns NULL if a listener could be made at that path now: nothing is there, or a socket at which
 * no process listens. Otherwise returns error, which says why not. */
const char *socket_path_error(const char *path, char *error) __attribute__((warn_unused_result));

/*
 * Makes the socket's file again, after somebody removed it. Processes that connected at the old one
 * and were not accepted yet find the end, and connect again. Whoever calls this makes sure of the
 * same as for socket_open(). On failure returns false, error (SOCKET_ERROR_MAX bytes) says why, and
 * the old listener stays.
 */
bool socket_listen_again(struct socket_server *server, char *error)
    __attribute__((warn_unused_result));

/* Closes the listener and all connections, without callbacks. Removes the listener's path, unless
 * another file is there. Its memory is freed when the loop has run on. NULL is allowed. */
void socket_shut(struct socket_server *server);

/* Call this after each round of the loop, whatever happened in the round. NULL is allowed. */
void socket_turned(struct socket_server *server);

/* Returns when socket_tick() is due, which ends connections that send no HELLO; INT64_MAX:
 * never. */
int64_t socket_next_tick_ns(const struct socket_server *server);
void socket_tick(struct socket_server *server, int64_t now_ns);

/* Returns the connection with that number; NULL: it is closed. */
struct connection *socket_find(struct socket_server *server, uint32_t number);

uint32_t connection_number(const struct connection *connection);
const struct peer *connection_peer(const struct connection *connection);
int connection_socket(const struct connection *connection);
/* Notes that the connection has sent its HELLO, and ends its time limit. */
void connection_greeted(struct connection *connection);
/* The caller's data of a connection; 0 and NULL at first. */
struct connection_note {
    uint32_t client;
    bool refused;
    bool asked;
    uint64_t process; /* the process that connected, as the numbers of io/peer.h */
    uint64_t process_serial;
};
struct connection_note *connection_note(struct connection *connection);

struct connection_output {
    const void *bytes;
    size_t size;
    int fd;       /* a descriptor to send with the packet; -1: none */
    bool unasked; /* the packet may be dropped */
};

/* Sends the packet, or queues it. Returns false if it cannot be sent (connection_unsent() says
 * why). The caller then closes the connection. */
bool connection_send(struct connection *connection, const struct connection_output *output)
    __attribute__((warn_unused_result));

/* Returns why connection_send() failed last, as a static text for people; NULL: the other end is
 * closed, or its process has ended. */
const char *connection_unsent(const struct connection *connection);

/* Returns the share of the connection's user. */
struct socket_share *connection_share(const struct connection *connection);

/* Receives nothing more from the connection before that time, except what this turn receives
 * anyway. Packets are still sent to it. */
void connection_hold(struct connection *connection, int64_t until_ns);
bool connection_is_held(const struct connection *connection);

/* Closes the connection, without the callback. The peer can still read what was sent before. */
void socket_close(struct connection *connection);

#endif
