/*
 * Descriptors that were sent and are not received yet: see SOCKET_UNREAD_MAX in io/socket.h.
 *
 * The kernel counts all of them against RLIMIT_NOFILE of the user that sent them, and refuses
 * further ones (ETOOMANYREFS). So a client that receives none could prevent the agent from sending
 * regions to any client. Therefore each connection may have only a few descriptors in transit.
 *
 * When the agent closes its end, the descriptors stay in transit for as long as the client keeps
 * its own end. So such a connection stays in the tables until they are received or the client has
 * gone, and a user may have only a few such connections.
 */
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "io/clock.h"
#include "private.h"
#include "proto/check.h"

static const int64_t look_ns = SOCKET_UNREAD_LOOK_MS * INT64_C(1000000);

/* Returns whether the peer has received everything. SIOCOUTQ is 0 when no sent packet is unread. */
static bool all_received(struct connection *connection)
{
    int bytes = 0;
    if (connection->unread != 0 && ioctl(connection->fd, SIOCOUTQ, &bytes) == 0 && bytes == 0) {
        connection->unread = 0;
    }
    return connection->unread == 0;
}

bool socket_may_pass(struct connection *connection)
{
    return connection->unread < SOCKET_UNREAD_MAX || all_received(connection);
}

bool socket_is_unread(struct connection *connection)
{
    return !all_received(connection);
}

void socket_leave_behind(struct connection *connection)
{
    struct socket_server *server = connection->server;
    int64_t now_ns = clock_boottime_ns();
    uv_poll_stop(&connection->poll);
    socket_is_not_silent(connection);
    connection->behind = true;
    connection->share->behind++;
    if (server->behind_count++ == 0) {
        server->look_behind_ns = now_ns + look_ns;
    }
    if (!connection->costly && socket_share_owes(connection->share, now_ns) == 0) {
        (void)shutdown(connection->fd, SHUT_RDWR); /* the peer finds the end of the stream behind
                                                    * the packets that it reads */
        (void)socket_called_once(server, connection->share, now_ns);
    }
}

void socket_end_behind(struct connection *connection)
{
    struct socket_server *server = connection->server;
    int fd = connection->fd;
    HF_CHECK(connection->behind && connection->share->behind > 0 && server->behind_count > 0);
    connection->behind = false;
    connection->share->behind--;
    server->behind_count--;
    socket_release(connection);
    if (connection->costly) {
        socket_close_elsewhere(server, fd, &connection->peer);
    } else {
        socket_dispose(server, fd, &connection->peer);
    }
}

void socket_look_behind(struct socket_server *server, int64_t now_ns)
{
    if (server->behind_count == 0 || now_ns < server->look_behind_ns) {
        return;
    }
    server->look_behind_ns = now_ns + look_ns;
    struct connection *next;
    for (struct connection *each = server->connections; each != NULL; each = next) {
        next = each->next;
        if (each->behind && all_received(each)) {
            socket_end_behind(each);
        }
    }
}
