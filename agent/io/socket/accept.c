/*
 * Accepts connections at the agent's Unix socket: see io/socket.h and private.h.
 *
 * The user of a connection is known only when it has been accepted. So a turn accepts connections
 * until it has kept SOCKET_ACCEPTS_PER_TURN of them or SOCKET_ACCEPTS_MS are over. If a user
 * connects without end, all its slots are soon full, and its further connections are refused
 * cheaply. So they do not delay connections of other users that are behind them in the kernel's
 * queue. The time is charged to the user's share. The first packet of a connection is served in the
 * connection's own turn, like every other packet.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/clock.h"
#include "private.h"
#include "proto/check.h"

enum {
    ACCEPT_PAUSE_MS = 100, /* the pause of accepting when the system has no descriptor or memory
                            * left */
    SILENT_PER_TICK = 64,  /* how many connections without a HELLO are closed in one tick */
};

static const int64_t millisecond_ns = 1000000;
static const int64_t minute_ns = 60000000000;

static void on_listener(uv_poll_t *poll, int status, int events);

static void silent_add(struct connection *connection)
{
    struct socket_server *server = connection->server;
    connection->greet_by_ns = clock_boottime_ns() + SOCKET_GREETING_MS * millisecond_ns;
    connection->silent_older = server->silent_newest;
    *(server->silent_newest != NULL ? &server->silent_newest->silent_newer
                                    : &server->silent_oldest) = connection;
    server->silent_newest = connection;
    server->greeting_count++;
    connection->share->greeting++;
}

void socket_is_not_silent(struct connection *connection)
{
    struct socket_server *server = connection->server;
    if (connection->greet_by_ns == 0) {
        return;
    }
    *(connection->silent_older != NULL ? &connection->silent_older->silent_newer
                                       : &server->silent_oldest) = connection->silent_newer;
    *(connection->silent_newer != NULL ? &connection->silent_newer->silent_older
                                       : &server->silent_newest) = connection->silent_older;
    connection->greet_by_ns = 0;
    server->greeting_count--;
    connection->share->greeting--;
}

/*
 * Makes room for a new connection if all SOCKET_GREETING_MAX slots are taken. (One user cannot take
 * them all, but many users together can.) For that, closes the oldest connection that has sent no
 * HELLO. An honest client sends HELLO at once, so its connection is not the oldest.
 */
static bool make_room(struct socket_server *server)
{
    const int64_t sure_ns = (SOCKET_GREETING_MS - SOCKET_GREETING_SURE_MS) * millisecond_ns;
    struct connection *oldest = server->silent_oldest;
    if (server->greeting_count >= SOCKET_GREETING_MAX &&
        oldest->greet_by_ns <= clock_boottime_ns() + sure_ns) {
        socket_close_because(oldest, "found no HELLO, and other processes want to connect");
    }
    return server->greeting_count < SOCKET_GREETING_MAX;
}

static const char *why_refused(struct socket_server *server, uid_t account)
{
    const struct socket_share *share = socket_share_find(server->shares, account);
    if (server->free_count == 0) {
        return "too many connections";
    }
    if (share != NULL && share->greeting >= SOCKET_GREETING_MAX_PER_USER) {
        return "too many connections of this user that have sent no HELLO yet";
    }
    if (share != NULL && share->behind >= SOCKET_BEHIND_MAX_PER_USER) {
        return "too many connections of this user that ended with unread descriptors";
    }
    return make_room(server) ? NULL : "too many connections that have sent no HELLO yet";
}

static struct connection *connection_create(struct socket_server *server, int fd,
                                            const struct peer *peer)
{
    struct connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL) {
        return NULL;
    }
    connection->share = socket_share_join(server->shares, peer->account, &connection->round);
    if (connection->share == NULL || uv_poll_init(server->poll.loop, &connection->poll, fd) != 0) {
        socket_share_leave(connection->share);
        free(connection);
        return NULL;
    }
    server->handles++;
    connection->poll.data = connection;
    connection->server = server;
    connection->fd = fd;
    connection->peer = *peer;
    uint32_t slot = server->free_slots[--server->free_count];
    connection->number = ++server->generations[slot] << NUMBER_SLOT_BITS | slot;
    if (connection->number == 0) { /* 0 is not a valid number */
        connection->number = ++server->generations[slot] << NUMBER_SLOT_BITS | slot;
    }
    server->slots[slot] = connection;
    connection->next = server->connections;
    if (connection->next != NULL) {
        connection->next->previous = connection;
    }
    server->connections = connection;
    silent_add(connection);
    return connection;
}

/* Accepts a connection. On failure returns -1 with errno. Sets *full if no descriptor was left, so
 * that the connection has the spare one and cannot stay. */
static int accept_socket(struct socket_server *server, bool *full)
{
    int fd = accept4(server->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    *full = fd < 0 && (errno == EMFILE || errno == ENFILE);
    if (*full && server->spare >= 0) {
        close(server->spare);
        server->spare = -1;
        fd = accept4(server->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    }
    return fd;
}

/* Makes the spare. It is a copy of the listener's descriptor, which needs neither a path nor memory
 * of the agent. */
static void spare_make(struct socket_server *server)
{
    if (server->spare < 0) {
        server->spare = fcntl(server->fd, F_DUPFD_CLOEXEC, 0);
    }
}

void socket_pause_accepting(struct socket_server *server)
{
    uv_poll_stop(&server->poll);
    server->resume_ns = clock_boottime_ns() + ACCEPT_PAUSE_MS * millisecond_ns;
}

/* Called after a pause: returns whether the closer has room again. */
static bool closer_has_room(struct socket_server *server, int64_t now_ns)
{
    struct socket_handler *handler = &server->config.handler;
    if (!server->full || closer_push(server->config.closer)) {
        server->full = false;
        return true;
    }
    if (server->stuck_ns == 0 || now_ns - server->stuck_ns >= minute_ns) {
        uint32_t count;
        uid_t uid = closer_most(server->config.closer, &count);
        server->stuck_ns = now_ns;
        handler->stuck(handler->arg, uid, count);
    }
    return false;
}

/* Refuses a connection that cannot be kept, because of a limit or for want of memory. */
static void turn_away(struct socket_server *server, int fd, const struct peer *peer,
                      const char *why, int error)
{
    uint32_t round;
    struct socket_share *share = socket_share_join(server->shares, peer->account, &round);
    int64_t now_ns = clock_boottime_ns();
    server->served = share;
    server->config.handler.refused(server->config.handler.arg, peer, why);
    if (share == NULL || socket_share_owes(share, now_ns) == 0) {
        socket_send_refusal(server, fd, error);
        (void)socket_called_once(server, share, now_ns);
    }
    socket_dispose(server, fd, peer);
    server->served = NULL;
    socket_share_leave(share); /* the share stays if the user has a debt */
    spare_make(server);
}

/* The result of an attempt to accept a connection. */
enum accepted { NOBODY_THERE, TURNED_AWAY, LET_IN };

/* Tries to accept one connection. Returns NOBODY_THERE if no connection waits, or if accepting is
 * not possible now. *peer: the process that connected. */
static enum accepted accept_one(struct socket_server *server, struct peer *peer)
{
    struct socket_handler *handler = &server->config.handler;
    bool full = false;
    *peer = (struct peer){.uid = (uid_t)-1, .account = (uid_t)-1};
    if (server->full) {
        return NOBODY_THERE;
    }
    int fd = accept_socket(server, &full);
    if (fd < 0) {
        bool again = errno == ECONNABORTED || errno == EINTR;
        bool pause = errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS;
        spare_make(server);
        if (pause) {
            socket_pause_accepting(server);
            handler->refused(handler->arg, NULL, full ? socket_no_descriptors : "out of memory");
        }
        return again ? TURNED_AWAY : NOBODY_THERE;
    }
    if (!peer_of(fd, peer)) {
        socket_dispose(server, fd, peer);
        spare_make(server);
        return TURNED_AWAY;
    }
    const char *why = full ? socket_no_descriptors : why_refused(server, peer->account);
    int error = full ? EMFILE : why == NULL ? ENOMEM : server->free_count == 0 ? EUSERS : EAGAIN;
    struct connection *connection = why == NULL ? connection_create(server, fd, peer) : NULL;
    if (connection == NULL) {
        turn_away(server, fd, peer, why != NULL ? why : "out of memory", error);
        return TURNED_AWAY;
    }
    socket_update_poll(connection);
    return LET_IN;
}

static void on_listener(uv_poll_t *poll, int status, int events)
{
    struct socket_server *server = poll->data;
    socket_begins(server);
    int64_t began_ns = clock_boottime_ns();
    int64_t now_ns = began_ns;
    (void)events;
    for (unsigned in = 0; in < SOCKET_ACCEPTS_PER_TURN && status >= 0 && !server->shut &&
                          now_ns - began_ns < SOCKET_ACCEPTS_MS * millisecond_ns;) {
        struct peer peer;
        enum accepted accepted = accept_one(server, &peer);
        if (accepted == NOBODY_THERE) {
            break;
        }
        in += accepted == LET_IN;
        int64_t before_ns = now_ns;
        now_ns = clock_boottime_ns();
        struct socket_share *share = socket_share_find(server->shares, peer.account);
        if (share != NULL) { /* a user without connections, processes and debts has no share */
            (void)socket_share_spend(share, now_ns - before_ns);
        }
    }
}

void socket_accept_start(struct socket_server *server)
{
    spare_make(server);
    HF_CHECK(uv_poll_start(&server->poll, UV_READABLE, on_listener) == 0);
}

int64_t socket_next_tick_ns(const struct socket_server *server)
{
    int64_t due_ns = server->silent_oldest != NULL ? server->silent_oldest->greet_by_ns : INT64_MAX;
    due_ns = server->parked_count > 0 && server->unpark_ns < due_ns ? server->unpark_ns : due_ns;
    due_ns = server->behind_count > 0 && server->look_behind_ns < due_ns ? server->look_behind_ns
                                                                         : due_ns;
    return server->resume_ns != 0 && server->resume_ns < due_ns ? server->resume_ns : due_ns;
}

void socket_tick(struct socket_server *server, int64_t now_ns)
{
    if (server->resume_ns != 0 && server->resume_ns <= now_ns && !closer_has_room(server, now_ns)) {
        server->resume_ns = now_ns + ACCEPT_PAUSE_MS * millisecond_ns;
    } else if (server->resume_ns != 0 && server->resume_ns <= now_ns) {
        server->resume_ns = 0;
        socket_accept_start(server);
    }
    socket_unpark(server, now_ns);
    socket_look_behind(server, now_ns);
    for (uint32_t i = 0; i < SILENT_PER_TICK && server->silent_oldest != NULL &&
                         server->silent_oldest->greet_by_ns <= now_ns;
         i++) {
        struct connection *oldest = server->silent_oldest;
        /* while the user has a debt, the agent does not receive the HELLO */
        if (socket_share_owes(oldest->share, now_ns) != 0) {
            socket_is_not_silent(oldest);
            silent_add(oldest);
        } else {
            socket_close_because(oldest, "found no HELLO within 5 s");
        }
    }
}
