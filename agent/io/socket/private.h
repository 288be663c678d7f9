/*
 * Shared by the files of the Unix socket: socket.c carries packets, accept.c lets connections in,
 * costly.c handles those whose packets cost much. See io/socket.h.
 */
#ifndef IO_SOCKET_PRIVATE_H
#define IO_SOCKET_PRIVATE_H

#include <sys/un.h>

#include "io/socket.h"
#include "io/socket_share.h"
#include "proto/frame.h"

enum { NUMBER_SLOT_BITS = 16 }; /* of a connection's number: its slot */

struct packet {
    struct packet *next;
    size_t size;
    int fd;
    unsigned char bytes[];
};

struct connection {
    uv_poll_t poll;
    struct socket_server *server;
    struct connection *next; /* all that are open, newest first */
    struct connection *previous;
    struct socket_share *share; /* its user's */
    struct packet *first;       /* packets that wait to be sent */
    struct packet *last;
    size_t waiting_size;
    uint32_t waiting_count;
    uint32_t number;
    uint32_t round; /* in which it was served last */
    int fd;
    int unsent;          /* why connection_send() failed last, an errno; EAGAIN: it does not read */
    int64_t greet_by_ns; /* 0: it has greeted */
    struct connection *silent_older; /* of those that have not */
    struct connection *silent_newer;
    bool dropped; /* unasked packets; the handler is notified when it reads again */
    bool closed;
    int64_t held_ns;   /* nothing is received of it before; 0: see connection_hold() */
    bool parked;       /* not watched until its user's debt is over, or held_ns */
    bool costly;       /* nothing is received or sent any more, nor closed on the loop */
    bool aside;        /* closed and costly: its peer is waited for */
    bool aside_silent; /* and it had not greeted: it counts among those still */
    bool behind;       /* closed, and descriptors that it was sent are not received */
    uint32_t unread;   /* descriptors sent since all was known to be received */
    uint32_t strikes;  /* calls that cost much since one that did not */
    struct peer peer;
    struct connection_note note;
};

struct socket_server {
    uv_poll_t poll;
    struct socket_config config;
    int fd;
    bool takes_rights; /* this kernel has no option to refuse descriptors */
    bool full;         /* the closer was, and nobody is accepted */
    bool alone;        /* the end of the closer was reported */
    int64_t stuck_ns;  /* when the closer was last reported full; 0: never */
    int spare;         /* given up to accept a client that gets HF_EFULL; -1: none */
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    struct connection *connections;
    struct connection **slots; /* by the low bits of the number */
    uint32_t *generations;
    uint32_t *free_slots;
    uint32_t free_count;
    uint32_t greeting_count; /* all users; each has its own count, too */
    struct connection *silent_oldest;
    struct connection *silent_newest;
    int64_t resume_ns; /* accepts again then; 0: it does not pause */
    uint32_t handles;  /* poll handles that libuv still has */
    bool shut;
    uint32_t behind_count;
    int64_t look_behind_ns; /* when they are looked at next */
    uint32_t parked_count;
    int64_t unpark_ns;               /* no later than the earliest end of a debt of those */
    struct socket_share *served;     /* the user whose turn it is; NULL: nobody's */
    int64_t elsewhere_ns;            /* of that, what calls on others' sockets took */
    struct socket_shares *shares;    /* the account of all that users have of a turn */
    struct socket_shares own_shares; /* where the configuration has none */
    unsigned char buffer[HFI_FRAME_MAX];
};

static inline void socket_begins(struct socket_server *server)
{
    if (server->config.handler.begins != NULL) {
        server->config.handler.begins(server->config.handler.arg);
    }
}

/* ---- socket.c ---- */

/* Watches for what it may do now. */
void socket_update_poll(struct connection *connection);

/* Hangs up for that reason (NULL: the peer did), and notifies the handler. */
void socket_close_because(struct connection *connection, const char *why);

/* Closes the socket of a peer, which can still read what was sent and then finds the end. A socket
 * that is closed with packets unread would reset its peer, which then may never read the last
 * packet. */
void socket_dispose(struct socket_server *server, int fd, const struct peer *peer);

/* Says that there is no room for it. A peer that has not sent anything yet may miss it, and asks
 * again. */
void socket_send_refusal(const struct socket_server *server, int fd);

/* Frees what a connection has, when its descriptor is somebody else's to close. */
void socket_release(struct connection *connection);

/* Hands fd to the closer: a connection's, or with peer NULL the listener's. If there is no closer,
 * closes fd here; that may block. */
void socket_leave(struct socket_server *server, int fd, const struct peer *peer);

/* ---- unread.c ---- */

/* Returns whether one more descriptor may be sent there; the caller counts it in `unread`. */
bool socket_may_pass(struct connection *connection);

/* Returns whether descriptors that were sent there are not received yet. */
bool socket_is_unread(struct connection *connection);

/* It is closed and stays, until they are, or its peer has gone. */
void socket_leave_behind(struct connection *connection);
/* Closes one that was left behind. */
void socket_end_behind(struct connection *connection);
/* Closes those of which all was received. */
void socket_look_behind(struct socket_server *server, int64_t now_ns);

/* ---- costly.c ---- */

/* A call on this connection ends, which began at began_ns. worked: it was a packet that was sent.
 * false: it is costly from now on. */
bool socket_called(struct connection *connection, int64_t began_ns, bool worked);

/* As socket_called(), of a socket that is no connection's. false: it cost much. */
bool socket_called_once(struct socket_server *server, struct socket_share *share, int64_t began_ns);

/* Closes it without any call on the loop's thread. */
void socket_close_elsewhere(struct socket_server *server, int fd, const struct peer *peer);

/* Returns whether its user owes, or it is held; then it is not watched until that is over. */
bool socket_park(struct connection *connection);

/* It is closed and stays, until its peer has gone. */
void socket_set_aside(struct connection *connection);

/* Watches those again whose time is over. */
void socket_unpark(struct socket_server *server, int64_t now_ns);

/* ---- accept.c ---- */

/* Begins to accept. */
void socket_accept_start(struct socket_server *server);

/* It has greeted, or is about to be closed. */
void socket_is_not_silent(struct connection *connection);

/* Waiting connections go on waiting; polling on would only burn time. */
void socket_pause_accepting(struct socket_server *server);

#endif
