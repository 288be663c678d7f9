/*
 * Shared by the files of the Unix socket: socket.c carries packets, accept.c lets connections in,
 * costly.c handles those whose packets cost much. See io/socket.h.
 */
#ifndef IO_SOCKET_PRIVATE_H
#define IO_SOCKET_PRIVATE_H

#include <sys/types.h>
#include <sys/un.h>

#include "io/socket.h"
#include "io/socket_share.h"
#include "proto/frame.h"

enum { NUMBER_SLOT_BITS = 16 }; /* bits of a connection's number that are its slot */

struct packet {
    struct packet *next;
    size_t size;
    int fd;
    unsigned char bytes[];
};

struct connection {
    uv_poll_t poll;
    struct socket_server *server;
    struct connection *next; /* all open connections, newest first */
    struct connection *previous;
    struct socket_share *share; /* its user's share */
    struct packet *first;       /* packets that wait to be sent */
    struct packet *last;
    size_t waiting_size;
    uint32_t waiting_count;
    uint32_t number;
    uint32_t round; /* the round in which it was last served */
    int fd;
    int unsent;          /* why connection_send() failed last, as an errno; EAGAIN: the peer does
                          * not read */
    int64_t greet_by_ns; /* when its time for HELLO is over; 0: it has sent its HELLO */
    struct connection *silent_older; /* list of connections that have sent no HELLO */
    struct connection *silent_newer;
    bool dropped; /* unasked packets were dropped; the handler is notified when the peer reads
                   * again */
    bool closed;
    int64_t held_ns;   /* nothing is received from it before this time; 0: see connection_hold() */
    bool parked;       /* it is not watched until its user's debt, or held_ns, is over */
    bool costly;       /* nothing is received or sent on it any more, and the loop does not close
                        * it */
    bool aside;        /* closed and costly: it waits for its peer to go */
    bool aside_silent; /* likewise, and it had sent no HELLO: it still counts among those */
    bool behind;       /* closed while descriptors that were sent on it are unread */
    uint32_t unread;   /* descriptors that were sent since the peer was last known to have received
                        * all */
    uint32_t strikes;  /* costly calls since the last cheap one */
    struct peer peer;
    struct connection_note note;
};

/* Which file at a path is a listener's. */
struct socket_file {
    dev_t device;
    ino_t number; /* 0: not known */
};

struct socket_server {
    uv_poll_t poll;
    struct socket_config config;
    int fd;
    bool takes_rights; /* this kernel has no option to refuse descriptors */
    bool full;         /* the closer is full, and no connection is accepted */
    bool alone;        /* the end of the closer was reported */
    int64_t stuck_ns;  /* when the closer was last reported to be full; 0: never */
    int spare;         /* a spare descriptor, closed to accept a client that then gets HF_EFULL; -1:
                        * none is open */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    struct socket_file file; /* the listener's, at that path */
    struct connection *connections;
    struct connection **slots; /* hashed by the low bits of the number */
    uint32_t *generations;
    uint32_t *free_slots;
    uint32_t free_count;
    uint32_t greeting_count; /* connections of all users that have sent no HELLO; each user has its
                              * own count, too */
    struct connection *silent_oldest;
    struct connection *silent_newest;
    int64_t resume_ns; /* when accepting begins again; 0: it is not paused */
    uint32_t handles;  /* poll handles that libuv still uses */
    bool shut;
    uint32_t behind_count;
    int64_t look_behind_ns; /* when the closed connections with unread descriptors are looked at
                             * next */
    uint32_t parked_count;
    int64_t unpark_ns;               /* when the parked connections are looked at next: no later
                                      * than the earliest end of a debt */
    struct socket_share *served;     /* the user that is being served; NULL: none */
    int64_t elsewhere_ns;            /* of that time, the part that calls on other users' sockets
                                      * took */
    struct socket_shares *shares;    /* the users' shares of a turn */
    struct socket_shares own_shares; /* used if the configuration has none */
    unsigned char buffer[HFI_FRAME_MAX];
};

static inline void socket_begins(struct socket_server *server)
{
    if (server->config.handler.begins != NULL) {
        server->config.handler.begins(server->config.handler.arg);
    }
}

/* ---- socket.c ---- */

/* Watches the connection for the events that it may have now. */
void socket_update_poll(struct connection *connection);

/* Closes the connection for that reason (NULL: the peer closed it), and notifies the handler. */
void socket_close_because(struct connection *connection, const char *why);

/* Closes a socket so that the peer can still read the sent packets, and then finds the end. Closing
 * a socket with unread packets would reset the peer, which then might never read the last
 * packet. */
void socket_dispose(struct socket_server *server, int fd, const struct peer *peer);

/* Notifies a client that the agent has no room for it. A peer that has not sent anything yet may
 * miss this, and connects again. */
void socket_send_refusal(const struct socket_server *server, int fd);

/* Frees the memory of a connection whose descriptor is closed elsewhere. */
void socket_release(struct connection *connection);

/* Passes fd to the closer: a connection's, or with peer NULL the listener's. If there is no closer,
 * closes fd here; that may block. */
void socket_leave(struct socket_server *server, int fd, const struct peer *peer);

/* ---- unread.c ---- */

/* Returns whether one more descriptor may be sent on the connection; the caller counts it in
 * `unread`. */
bool socket_may_pass(struct connection *connection);

/* Returns whether descriptors that were sent on it are still unread. */
bool socket_is_unread(struct connection *connection);

/* The connection is closed, but stays in the tables until its peer has received the descriptors or
 * has gone. */
void socket_leave_behind(struct connection *connection);
/* Closes a connection that stayed for unread descriptors. */
void socket_end_behind(struct connection *connection);
/* Closes those connections whose descriptors have all been received. */
void socket_look_behind(struct socket_server *server, int64_t now_ns);

/* ---- costly.c ---- */

/* Ends the account of a call on this connection, which began at began_ns. worked: the call was a
 * packet that was sent. Returns false if the connection is costly from now on. */
bool socket_called(struct connection *connection, int64_t began_ns, bool worked);

/* Does the same for a socket that has no connection. Returns false if the call cost much. */
bool socket_called_once(struct socket_server *server, struct socket_share *share, int64_t began_ns);

/* Closes the connection without any call on the loop's thread. */
void socket_close_elsewhere(struct socket_server *server, int fd, const struct peer *peer);

/* Returns whether the connection's user has a debt, or the connection is held; it is not watched
 * until that is over. */
bool socket_park(struct connection *connection);

/* The connection is closed, but stays in the tables until its peer has gone. */
void socket_set_aside(struct connection *connection);

/* Watches those connections again whose time is over. */
void socket_unpark(struct socket_server *server, int64_t now_ns);

/* ---- accept.c ---- */

/* Begins to accept. */
void socket_accept_start(struct socket_server *server);

/* The connection has sent its HELLO, or is about to be closed. */
void socket_is_not_silent(struct connection *connection);

/* Stops accepting for a while. Connections that wait go on waiting; polling for them would only
 * cost time. */
void socket_pause_accepting(struct socket_server *server);

#endif
