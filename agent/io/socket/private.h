/*
 * The declarations that the files of the Unix socket share: socket.c carries packets, accept.c
 * accepts connections, costly.c handles connections whose packets cost much, unread.c those with
 * unread descriptors. See io/socket.h.
 */
#ifndef IO_SOCKET_PRIVATE_H
#define IO_SOCKET_PRIVATE_H

#include <sys/types.h>
#include <sys/un.h>

#include "io/socket.h"
#include "io/socket_share.h"
#include "proto/frame.h"

enum { NUMBER_SLOT_BITS = 16 }; /* how many bits of a connection's number are its slot */

struct packet {
    struct packet *next;
    size_t size;
    bool owns_fd; /* fd belongs to the packet */
    int fd;
    unsigned char bytes[];
};

struct connection {
    uv_poll_t poll;
    struct socket_server *server;
    struct connection *next; /* the next in the list of all open connections, newest first */
    struct connection *previous;
    struct socket_share *share; /* the share of the connection's user in the loop's turns */
    struct packet *first;       /* packets that wait to be sent */
    struct packet *last;
    size_t waiting_size;
    uint32_t waiting_count;
    uint32_t number;
    uint32_t round; /* the round in which the connection was last served */
    int fd;
    int unsent;          /* why connection_send() failed last, as an errno; EAGAIN: the peer does
                          * not read */
    int64_t greet_by_ns; /* when the time limit for HELLO ends; 0: HELLO was sent */
    struct connection *silent_older; /* the next older connection in the list of those that have
                                      * sent no HELLO */
    struct connection *silent_newer;
    bool dropped; /* unasked packets were dropped; the handler is notified when the peer reads
                   * again */
    bool closed;
    int64_t held_ns;   /* nothing is received from the connection before this time; 0:
                        * connection_hold() has set no time */
    bool parked;       /* not watched by the loop until the user's debt and held_ns are over */
    bool costly;       /* nothing is received or sent on the connection any more, and the loop does
                        * not close it */
    bool aside;        /* the connection is closed and costly, and stays until its peer has gone */
    bool aside_silent; /* `aside` is set, and no HELLO was sent, so `greeting` of the user's share
                        * still counts the connection */
    bool behind;       /* the connection is closed, but descriptors sent on it are unread */
    uint32_t unread;   /* descriptors sent since the peer was last known to have received all
                        * descriptors */
    uint32_t strikes;  /* costly calls since the last cheap call */
    struct peer peer;
    struct connection_note note;
};

/* Identifies the file of a listener at a path. */
struct socket_file {
    dev_t device;
    ino_t number; /* 0: not known */
};

struct socket_server {
    uv_poll_t poll;
    struct socket_config config;
    int fd;
    bool takes_rights; /* this kernel cannot refuse descriptors */
    bool full;         /* the closer is full, so no connection is accepted */
    bool alone;        /* the end of the closer was reported */
    int64_t stuck_ns;  /* when the closer was last reported to be full; 0: never */
    int spare;         /* a spare descriptor, which is closed to accept a client that then gets
                        * HF_EFULL; -1: none is open */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    struct socket_file file; /* the listener's file at that path */
    struct connection *connections;
    struct connection **slots; /* the connections by slot (the low bits of their numbers) */
    uint32_t *generations;
    uint32_t *free_slots;
    uint32_t free_count;
    uint32_t greeting_count; /* connections of all users that have sent no HELLO; each user has a
                              * count of its own, too */
    struct connection *silent_oldest;
    struct connection *silent_newest;
    int64_t resume_ns; /* when accepting begins again; 0: it is not paused */
    uint32_t handles;  /* poll handles that libuv still uses */
    bool shut;
    uint32_t behind_count;
    int64_t look_behind_ns; /* when to look next at the closed connections with unread
                             * descriptors */
    uint32_t parked_count;
    int64_t unpark_ns;            /* when to look next at the parked connections: not later than
                                      * the earliest end of a debt or of held_ns */
    struct socket_share *served;  /* the share of the user that is being served; NULL: none */
    int64_t elsewhere_ns;         /* the part of the serving time that calls on other users'
                                      * sockets took */
    struct socket_shares *shares; /* the users' shares of a turn */
    unsigned char buffer[HFI_FRAME_MAX];
};

static inline void socket_begins(struct socket_server *server)
{
    if (server->config.handler.begins != NULL) {
        server->config.handler.begins(server->config.handler.arg);
    }
}

/* ---- socket.c ---- */

/* Makes libuv watch the connection for the events that its present state allows. */
void socket_update_poll(struct connection *connection);

/* Closes the connection for that reason (NULL: the peer closed it), and notifies the handler. */
void socket_close_because(struct connection *connection, const char *why);

/* Closes a socket so that the peer can still read the sent packets, and then finds the end of the
 * stream. Closing a socket with unread packets would reset the peer, which then might never read
 * the last packet. */
void socket_dispose(struct socket_server *server, int fd, const struct peer *peer);

/* Notifies a client that the agent has no room for it. A peer that has not sent anything yet may
 * miss this, and connects again. why: see refusal_reason() in struct socket_config. */
void socket_send_refusal(const struct socket_server *server, int fd, int why);

/* Frees the memory of a connection whose descriptor is closed elsewhere. */
void socket_release(struct connection *connection);

/* Passes a socket to the closer. fd: a connection's socket; the listener's if peer is NULL. If
 * there is no closer, closes fd here, which may block. */
void socket_leave(struct socket_server *server, int fd, const struct peer *peer);

/* ---- unread.c ---- */

/* Returns whether one more descriptor may be sent on the connection. The caller adds that
 * descriptor to `unread`. */
bool socket_may_pass(struct connection *connection);

/* Returns whether descriptors that were sent on the connection are still unread. */
bool socket_is_unread(struct connection *connection);

/* Keeps a closed connection in the tables until its peer has received the descriptors or has
 * gone. */
void socket_leave_behind(struct connection *connection);
/* Closes a connection that was kept for unread descriptors. */
void socket_end_behind(struct connection *connection);
/* Closes the kept connections whose descriptors have all been received. */
void socket_look_behind(struct socket_server *server, int64_t now_ns);

/* ---- costly.c ---- */

/* Charges the user for a call on this connection that began at began_ns. worked: the call sent a
 * packet. Returns false if the connection is costly from now on. */
bool socket_called(struct connection *connection, int64_t began_ns, bool worked);

/* Like socket_called(), for a socket that has no connection. Returns false if the call cost
 * much. */
bool socket_called_once(struct socket_server *server, struct socket_share *share, int64_t began_ns);

/* Has the descriptor closed by another thread or process, without a costly call on the loop's
 * thread. */
void socket_close_elsewhere(struct socket_server *server, int fd, const struct peer *peer);

/* If the connection's user has a debt, or the connection is held, stops watching the connection
 * until the debt and the hold are over, and returns true. */
bool socket_park(struct connection *connection);

/* Keeps a closed, costly connection in the tables until its peer has gone. */
void socket_set_aside(struct connection *connection);

/* Watches again those parked connections whose wait is over. */
void socket_unpark(struct socket_server *server, int64_t now_ns);

/* ---- accept.c ---- */

/* Begins to accept. */
void socket_accept_start(struct socket_server *server);

/* Takes the connection out of the list of those that have sent no HELLO: it has sent one, or is
 * about to be closed. */
void socket_is_not_silent(struct connection *connection);

/* Stops accepting for a while. Connections that wait go on waiting; polling for them would only
 * cost time. */
void socket_pause_accepting(struct socket_server *server);

#endif
