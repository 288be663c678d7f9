/*
 * The agent's Unix socket: SOCK_SEQPACKET, one frame per packet. This part carries packets and
 * descriptors, and keeps every peer within its bounds. It does not know the contents of the
 * packets.
 *
 * libuv has no SEQPACKET streams, so each socket is a uv_poll of its own. The left column has what
 * a peer can do, and the right column has the bound:
 *
 *   sending packets faster than the  SOCKET_PACKETS_PER_TURN in a turn, then the other connections
 *   agent serves them                are served
 *   sending costly requests on       all connections of one user have SOCKET_TURN_MS of a turn;
 *   many connections                 connections that were not served come first in the next turn
 *   the same by many users           all users together have SOCKET_TURN_ALL_MS, likewise
 *   sending packets that are too     the agent hangs up
 *   large
 *   sending descriptors              the kernel refuses to send them (Linux 6.16). On an older
 *                                    kernel the agent leaves a packet with descriptors unread, and
 *                                    leaves the socket to a process that may wait for the close
 *                                    (io/closer.h). While that process has no room no connection is
 *                                    accepted; connected clients do not notice
 *   not reading packets              SOCKET_OUTPUT_MAX bytes wait; further unasked packets are
 *                                    dropped (drained() reports that the peer reads again), and an
 *                                    answer that does not fit ends the connection
 *   making each packet costly with   the user is not served until its debt for a costly call is
 *   very many epoll entries on the   over; a connection with two such calls is set aside: not
 *   peer's own end                   touched until its peer has gone (costly.c)
 *   connecting and sending nothing   SOCKET_GREETING_MS, and a bounded number for each user
 *   connecting without end           connections beyond that number are turned away, during
 *                                    SOCKET_ACCEPTS_MS of a turn at most (accept.c)
 *   connecting more often than the   one descriptor is kept free: with it the agent accepts a
 *   agent has descriptors            connection, sends the refusal and hangs up
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
    SOCKET_TURN_MS = 10,          /* how long a turn of the loop serves the packets of one user */
    SOCKET_TURN_ALL_MS = 50,      /* how long a turn serves the packets of all users */
    SOCKET_ACCEPTS_PER_TURN = 64, /* how many connections a turn accepts and keeps */
    SOCKET_ACCEPTS_MS = 10,       /* how long a turn accepts connections, whether it keeps or
                                   * refuses them */
    SOCKET_OUTPUT_MAX = 64 * 1024,
    /* How many descriptors may be in transit on one connection. A small number keeps the
     * descriptors in transit on all connections below RLIMIT_NOFILE (unread.c). It is enough,
     * because the library receives each descriptor before it makes the request that brings the next
     * one. */
    SOCKET_UNREAD_MAX = 2,
    SOCKET_BEHIND_MAX_PER_USER = 256, /* the most connections of one user that ended while
                                       * descriptors were unread */
    SOCKET_UNREAD_LOOK_MS = 1000,
    SOCKET_GREETING_MS = 5000,
    SOCKET_GREETING_MAX = 1024,         /* the most connections that have sent no HELLO yet */
    SOCKET_GREETING_MAX_PER_USER = 128, /* the most connections without a HELLO that one user may
                                         * have */
    SOCKET_GREETING_SURE_MS = 100, /* a connection that has sent nothing for this long may lose its
                                    * slot to a new one */
    SOCKET_CONNECTIONS_MAX = 32768,
    SOCKET_CLOSER_ROOM = SOCKET_CONNECTIONS_MAX + 2, /* descriptors: all connections, one that is
                                                      * refused, the listener */
    SOCKET_ERROR_MAX = 256,
    SOCKET_REFUSAL_MAX = 64,
};

/* The reason for a refusal when the agent has no descriptors left. */
extern const char socket_no_descriptors[];

struct socket_server;
struct connection;

struct socket_handler {
    /* Called when a packet has arrived. sender: the process that sent it, as the kernel reports it
     * (0: it has no number here). */
    void (*packet)(void *arg, struct connection *connection, const unsigned char *bytes,
                   size_t size, pid_t sender);
    /* Called when the connection was closed: by the peer (why is NULL), or by this part for the
     * reason `why`. socket_close() does not call this. */
    void (*closed)(void *arg, struct connection *connection, const char *why);
    /* Called when the connection takes packets again, after unasked packets for it were dropped. */
    void (*drained)(void *arg, struct connection *connection);
    /* Called when the agent did not accept a connection, or closed it before HELLO. `why` is the
     * agent's own reason. peer: NULL if it is not known. */
    void (*refused)(void *arg, const struct peer *peer, const char *why);
    /* Called at most once a minute while no connection is accepted because the closer has no room.
     * uid: the user that has most of the sockets that wait in the closer (-1: not known). */
    void (*stuck)(void *arg, uid_t uid, uint32_t count);
    /* Called once, when the closer has ended. From now on closes may block. */
    void (*alone)(void *arg);
    void *arg;
    /* Called when the loop begins a callback whose time is charged to users. Most of this struct's
     * other functions are called inside such a callback. May be NULL. */
    void (*begins)(void *arg);
    /* Called when calls on the connection's socket have cost the agent so much processor time that
     * the connection is set aside. Afterwards closed() is called, or a connection_send() fails. May
     * be NULL. */
    void (*costly)(void *arg, struct connection *connection, int64_t cost_ns);
};

struct socket_config {
    const char *path;
    bool for_all; /* mode 0666 (peer credentials decide); otherwise 0600 */
    uint32_t connections_max;
    struct closer *closer;        /* made with SOCKET_CLOSER_ROOM; NULL: there is no closer, or none
                                   * is needed */
    struct socket_shares *shares; /* the users' shares of a turn; borrowed */
    struct socket_handler handler;
    /* The packet for a client that is refused. It is sent if that is possible before the connection
     * ends. */
    unsigned char refusal[SOCKET_REFUSAL_MAX];
    size_t refusal_size;
    /* Writes the packet that follows the refusal, and returns its size. why: EMFILE or ENFILE,
     * ENOMEM, EUSERS (connections_max), or EAGAIN (too many connections without a HELLO). May be
     * NULL. */
    size_t (*refusal_reason)(unsigned char *bytes, size_t size, int why);
};

/* Returns true if this kernel lacks the option to refuse descriptors. */
bool socket_needs_closer(void);

/*
 * Makes the socket and begins to accept. Replaces a socket file at which no process listens. The
 * caller must ensure that no two agents do this at once (with a lock beside the path). On failure
 * returns NULL, and error (SOCKET_ERROR_MAX bytes) says why.
 */
struct socket_server *socket_open(uv_loop_t *loop, const struct socket_config *config, char *error)
    __attribute__((warn_unused_result));

/* Returns NULL if a listener could be made at that path now: nothing exists there, or a socket at
 * which no process listens. Otherwise returns error, which says why not. */
const char *socket_path_error(const char *path, char *error) __attribute__((warn_unused_result));

/*
 * Makes the socket's file again, after somebody removed it. Processes that connected to the old
 * listener and were not accepted yet lose their connections, and connect again. As for
 * socket_open(), the caller must ensure that no two agents do this at once. On failure returns
 * false, error (SOCKET_ERROR_MAX bytes) says why, and the old listener stays.
 */
bool socket_listen_again(struct socket_server *server, char *error)
    __attribute__((warn_unused_result));

/* Closes the listener and all connections, without callbacks. Removes the listener's path, unless
 * another file is there. The memory is freed once the loop has run its close callbacks. NULL is
 * allowed. */
void socket_shut(struct socket_server *server);

/* Returns when socket_tick() is due, which ends connections that send no HELLO; INT64_MAX:
 * never. */
int64_t socket_next_tick_ns(const struct socket_server *server);
void socket_tick(struct socket_server *server, int64_t now_ns);

/* Returns the connection with that number; NULL: it is closed. */
struct connection *socket_find(struct socket_server *server, uint32_t number);

uint32_t connection_number(const struct connection *connection);
const struct peer *connection_peer(const struct connection *connection);
int connection_socket(const struct connection *connection);
/* Notes that the connection has sent its HELLO, and ends the time limit for it. */
void connection_greeted(struct connection *connection);
/* The caller's data about a connection; all zeros at first. */
struct connection_note {
    uint32_t client;
    bool refused;
    bool asked;
    uint64_t process; /* the process that connected: the two numbers of struct process_name */
    uint64_t process_serial;
};
struct connection_note *connection_note(struct connection *connection);

struct connection_output {
    const void *bytes;
    size_t size;
    int fd;        /* a descriptor to send with the packet; -1: none */
    bool lends_fd; /* the caller closes fd after the call; otherwise fd outlives the connection */
    bool unasked;  /* the packet may be dropped */
};

/* Sends the packet, or queues it. Returns false if it cannot be sent (connection_unsent() says
 * why). The caller must then close the connection. */
bool connection_send(struct connection *connection, const struct connection_output *output)
    __attribute__((warn_unused_result));

/* Returns why connection_send() failed last, as a static text for people; NULL: the other end is
 * closed, or its process has ended. */
const char *connection_unsent(const struct connection *connection);

/* Returns the share of the connection's user. */
struct socket_share *connection_share(const struct connection *connection);

/* Stops receiving from the connection until until_ns, except for packets of the present turn.
 * Packets are still sent to it. */
void connection_hold(struct connection *connection, int64_t until_ns);
bool connection_is_held(const struct connection *connection);

/* Closes the connection without calling closed(). The peer can still read what was sent before. */
void socket_close(struct connection *connection);

#endif
