/*
 * Connections whose packets cost the agent much: see io/socket.h.
 *
 * A send to a Unix socket, a receive from it, a shutdown and a close all call the epoll entries
 * with which the peer watches its own end. The kernel makes these calls in this process's time,
 * 0.15 to 0.35 us each. A client can have millions of entries (fs.epoll.max_user_watches). The
 * agent can neither refuse them nor cut such a call short.
 *
 * The cost becomes a debt of the client's user (io/socket_share.h). After two such calls on a
 * connection, without a cheap packet between them, the connection is set aside: the agent neither
 * receives nor sends on it any more, and does not close it. One costly call is not enough: on a
 * virtual machine, the thread's processor time includes time in which the host took the processor
 * away.
 *
 * A connection that is set aside is still one of the connections that its user may have. When its
 * peer has gone, or has called shutdown(2), another thread closes it. When the peer has gone, the
 * kernel has removed the epoll entries with the last descriptor of the peer's end. A peer that only
 * called shutdown(2) still has them.
 */
#include <unistd.h>

#include "io/clock.h"
#include "io/late_close.h"
#include "private.h"
#include "proto/check.h"

enum { STRIKES = 2 };

static const int64_t dear_ns = SOCKET_CALL_MS * INT64_C(1000000);
static const int64_t cheap_ns = SOCKET_CALL_MS * INT64_C(1000000) / 8;

/* Notes the cost of a call. The call's time is charged to the user's share of the turn. It is not
 * charged if the call was made while this user was being served, because all of that time is
 * charged anyway. */
static int64_t account(struct socket_server *server, struct socket_share *share, int64_t began_ns)
{
    int64_t now_ns = clock_boottime_ns();
    if (share != server->served) {
        (void)socket_share_spend(share, now_ns - began_ns);
        server->elsewhere_ns += now_ns - began_ns;
    }
    return socket_share_call(share, began_ns, now_ns);
}

bool socket_called(struct connection *connection, int64_t began_ns, bool worked)
{
    struct socket_server *server = connection->server;
    struct socket_handler *handler = &server->config.handler;
    int64_t cost_ns = account(server, connection->share, began_ns);
    if (cost_ns > dear_ns) {
        connection->strikes++;
    } else if (worked && cost_ns < cheap_ns) {
        connection->strikes = 0; /* there are few epoll entries, because a send calls all of them
                                  * and was cheap */
    }
    if (connection->strikes < STRIKES) {
        return true;
    }
    connection->costly = true;
    if (handler->costly != NULL) {
        handler->costly(handler->arg, connection, cost_ns);
    }
    return false;
}

bool socket_called_once(struct socket_server *server, struct socket_share *share, int64_t began_ns)
{
    return share == NULL || account(server, share, began_ns) <= dear_ns;
}

void socket_close_elsewhere(struct socket_server *server, int fd, const struct peer *peer)
{
    if (server->takes_rights) { /* a close may block: io/closer.h */
        socket_leave(server, fd, peer);
    } else {
        late_close(fd, peer->account);
    }
}

void connection_hold(struct connection *connection, int64_t until_ns)
{
    connection->held_ns = until_ns;
}

bool connection_is_held(const struct connection *connection)
{
    return connection->held_ns != 0;
}

/* Returns until when the connection is not watched; 0: it is watched. */
static int64_t waits_until(struct connection *connection, int64_t now_ns)
{
    int64_t until_ns = socket_share_owes(connection->share, now_ns);
    if (connection->held_ns <= now_ns) {
        connection->held_ns = 0;
    }
    return until_ns > connection->held_ns ? until_ns : connection->held_ns;
}

bool socket_park(struct connection *connection)
{
    struct socket_server *server = connection->server;
    int64_t until_ns = waits_until(connection, clock_boottime_ns());
    if (until_ns == 0) {
        return false;
    }
    uv_poll_stop(&connection->poll);
    connection->parked = true;
    if (server->parked_count++ == 0 || until_ns < server->unpark_ns) {
        server->unpark_ns = until_ns;
    }
    return true;
}

void socket_unpark(struct socket_server *server, int64_t now_ns)
{
    if (server->parked_count == 0 || now_ns < server->unpark_ns) {
        return;
    }
    int64_t next_ns = INT64_MAX;
    for (struct connection *each = server->connections; each != NULL; each = each->next) {
        int64_t until_ns = each->parked ? waits_until(each, now_ns) : 0;
        if (until_ns != 0) {
            next_ns = until_ns < next_ns ? until_ns : next_ns;
        } else if (each->parked) {
            each->parked = false;
            server->parked_count--;
            socket_update_poll(each);
        }
    }
    server->unpark_ns = next_ns;
}

static void on_aside(uv_poll_t *poll, int status, int events)
{
    struct connection *connection = poll->data;
    struct socket_server *server = connection->server;
    int fd = connection->fd;
    (void)status;
    (void)events;
    socket_begins(server);
    if (socket_is_unread(connection)) { /* the peer has called shutdown(2), but has not gone */
        connection->share->greeting -= connection->aside_silent;
        connection->aside_silent = false;
        socket_leave_behind(connection);
        return;
    }
    socket_release(connection);
    socket_close_elsewhere(server, fd, &connection->peer);
}

void socket_set_aside(struct connection *connection)
{
    connection->aside = true;
    connection->aside_silent = connection->greet_by_ns != 0;
    socket_is_not_silent(connection);
    connection->share->greeting += connection->aside_silent;
    HF_CHECK(uv_poll_start(&connection->poll, UV_DISCONNECT, on_aside) == 0);
}
