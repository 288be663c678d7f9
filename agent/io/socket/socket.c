/*
 * The agent's Unix socket: see io/socket.h.
 *
 * Descriptors. Closing a descriptor may wait for as long as its maker likes (io/closer.h). The
 * kernel itself closes descriptors in two cases: they come with a packet for which the receiver
 * gave no room for descriptors, or they are unread when their socket is closed. So the listener
 * refuses descriptors (SO_PASSRIGHTS, an option that connections inherit). On a kernel without that
 * option, the agent peeks at each packet before it receives it. The peek gives no room for a
 * descriptor, so none is installed. But the kernel reports that there are some (MSG_CTRUNC), and
 * the agent does not receive such a packet.
 *
 * Each packet comes with its sender (SO_PASSCRED), which also distinguishes an empty packet from
 * the end of the stream.
 */
#include "io/socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/clock.h"
#include "private.h"
#include "proto/check.h"
#include "proto/frame.h"

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83 /* Linux 6.16 */
#endif

/* ---- freeing ---- */

static void server_free(struct socket_server *server)
{
    free(server->slots);
    free(server->generations);
    free(server->free_slots);
    free(server);
}

static void handle_gone(struct socket_server *server)
{
    HF_CHECK(server->handles > 0);
    server->handles--;
    if (server->handles == 0 && server->shut) {
        server_free(server);
    }
}

static void on_connection_gone(uv_handle_t *handle)
{
    struct connection *connection = handle->data;
    struct socket_server *server = connection->server;
    socket_share_leave(connection->share);
    free(connection);
    handle_gone(server);
}

static void on_listener_gone(uv_handle_t *handle)
{
    handle_gone(handle->data);
}

/* ---- closing ---- */

enum { DRAIN_MAX = 64, QUEUED_PACKETS_MAX = 1024 };

struct received {
    ssize_t size; /* negative: the call failed, with errno */
    bool there;   /* a packet was read; false, and size is 0: the peer closed the connection */
    bool rights;  /* the packet has descriptors, and was not received */
    pid_t sender;
};

static struct received receive_or_peek(int fd, void *buffer, size_t room, int flags)
{
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(struct ucred))]; /* room for the sender alone, and none for a
                                                       * descriptor */
    } control;
    struct iovec part = {.iov_base = buffer, .iov_len = room};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = room > 0 ? 1 : 0,
                             .msg_control = control.space,
                             .msg_controllen = sizeof(control.space)};
    struct received received = {.size = recvmsg(fd, &message, flags | MSG_TRUNC | MSG_DONTWAIT)};
    if (received.size >= 0) {
        const struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        received.there = received.size > 0 || header != NULL;
        received.rights = (message.msg_flags & MSG_CTRUNC) != 0;
        if (header != NULL && header->cmsg_type == SCM_CREDENTIALS) {
            struct ucred sender;
            memcpy(&sender, CMSG_DATA(header), sizeof(sender));
            received.sender = sender.pid;
        }
    }
    return received;
}

/* Receives the next packet. If packets may have descriptors, peeks first. If the peek finds an
 * error or a packet with descriptors, returns that result. So no packet is received unseen, not
 * even one that is behind an error of the socket. */
static struct received receive(const struct socket_server *server, int fd, void *buffer,
                               size_t room)
{
    if (server->takes_rights) {
        struct received look = receive_or_peek(fd, NULL, 0, MSG_PEEK);
        if (look.size < 0 || look.rights) {
            return look;
        }
    }
    return receive_or_peek(fd, buffer, room, 0);
}

/* Receives the packets that are left in a socket to which nothing more can be sent. Returns whether
 * the socket is empty; otherwise the caller has another thread or process close it.
 *
 * A receive can be slow: once the packets that are left fill a quarter of the peer's SO_SNDBUF or
 * less, the kernel calls, at each receive, all epoll entries with which the peer watches its end.
 * So drain() stops when its time is over. A close would make the calls for all of these packets at
 * once. */
static bool drain(const struct socket_server *server, int fd)
{
    const int64_t until_ns = clock_boottime_ns() + SOCKET_CALL_MS * INT64_C(1000000);
    for (unsigned i = 0; i < DRAIN_MAX && clock_boottime_ns() < until_ns; i++) {
        struct received received = receive(server, fd, NULL, 0);
        if (received.rights) {
            return false;
        }
        if (received.size >= 0 && !received.there) { /* a socket returns its error only once, so
                                                      * this is the end */
            return true;
        }
    }
    return false;
}

void socket_leave(struct socket_server *server, int fd, const struct peer *peer)
{
    struct closer *closer = server->config.closer;
    if (closer == NULL) {
        close(fd);
        return;
    }
    if (peer != NULL) {
        closer_give(closer, fd, peer->account);
    } else {
        closer_keep(closer, fd);
    }
    if (!closer_push(closer) && !server->full && !server->shut) {
        server->full = true;
        socket_pause_accepting(server);
    }
    if (closer_ended(closer) && !server->alone) {
        server->alone = true;
        server->config.handler.alone(server->config.handler.arg);
    }
}

void socket_dispose(struct socket_server *server, int fd, const struct peer *peer)
{
    struct socket_share *share = socket_share_find(server->shares, peer->account);
    int64_t now_ns = clock_boottime_ns();
    if (share != NULL && socket_share_owes(share, now_ns) != 0) {
        socket_close_elsewhere(server, fd, peer);
        return;
    }
    (void)shutdown(fd, SHUT_RDWR); /* if this fails, the peer has gone */
    if (!socket_called_once(server, share, now_ns)) {
        socket_close_elsewhere(server, fd, peer);
    } else if (drain(server, fd)) {
        now_ns = clock_boottime_ns();
        close(fd);
        (void)socket_called_once(server, share, now_ns);
    } else {
        socket_close_elsewhere(server, fd, peer);
    }
}

static void drop_first(struct connection *connection)
{
    struct packet *packet = connection->first;
    connection->first = packet->next;
    connection->waiting_size -= packet->size;
    connection->waiting_count--;
    if (packet->owns_fd) {
        close(packet->fd);
    }
    free(packet);
}

void socket_release(struct connection *connection)
{
    struct socket_server *server = connection->server;
    socket_is_not_silent(connection);
    connection->share->greeting -= connection->aside_silent;
    if (connection->next != NULL) {
        connection->next->previous = connection->previous;
    }
    if (connection->previous != NULL) {
        connection->previous->next = connection->next;
    } else {
        server->connections = connection->next;
    }
    uint32_t slot = connection->number & ((1U << NUMBER_SLOT_BITS) - 1);
    server->slots[slot] = NULL;
    server->free_slots[server->free_count++] = slot;
    uv_poll_stop(&connection->poll);
    uv_close((uv_handle_t *)&connection->poll, on_connection_gone);
    connection->fd = -1;
}

void socket_close(struct connection *connection)
{
    struct socket_server *server = connection->server;
    int fd = connection->fd;
    if (connection->closed) {
        return;
    }
    connection->closed = true;
    server->parked_count -= connection->parked;
    connection->parked = false;
    while (connection->first != NULL) {
        drop_first(connection);
    }
    if (connection->costly && !server->shut) {
        socket_set_aside(connection);
        return;
    }
    if (!server->shut && socket_is_unread(connection)) {
        socket_leave_behind(connection);
        return;
    }
    bool costly = connection->costly;
    socket_release(connection);
    if (costly) {
        socket_close_elsewhere(server, fd, &connection->peer);
    } else {
        socket_dispose(server, fd, &connection->peer);
    }
}

void socket_close_because(struct connection *connection, const char *why)
{
    struct socket_handler *handler = &connection->server->config.handler;
    if (!connection->closed) {
        handler->closed(handler->arg, connection, why);
        socket_close(connection);
    }
}

/* ---- sending ---- */

/* Returns 1: sent; 0: the call would block; -1: it failed. */
static int send_packet(int to, const void *bytes, size_t size, int fd)
{
    struct iovec part = {.iov_base = (void *)(uintptr_t)bytes, .iov_len = size};
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (fd >= 0) {
        memset(&control, 0, sizeof(control));
        message.msg_control = control.space;
        message.msg_controllen = sizeof(control.space);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &fd, sizeof(int));
    }
    for (unsigned tries = 0; tries < 8; tries++) {
        if (sendmsg(to, &message, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)size) {
            return 1;
        }
        if (errno != EINTR) {
            break;
        }
    }
    return errno == EAGAIN || errno == EINTR || errno == ENOBUFS ? 0 : -1;
}

void socket_send_refusal(const struct socket_server *server, int fd, int why)
{
    unsigned char reason[SOCKET_REFUSAL_MAX];
    const struct socket_config *config = &server->config;
    if (send_packet(fd, config->refusal, config->refusal_size, -1) == 1 &&
        config->refusal_reason != NULL) {
        size_t size = config->refusal_reason(reason, sizeof(reason), why);
        (void)!send_packet(fd, reason, size, -1);
    }
}

/* Returns 0, EAGAIN (too much waits already), ENOMEM or EMFILE. */
static int queue_packet(struct connection *connection, const struct connection_output *output)
{
    if (connection->waiting_size + output->size > SOCKET_OUTPUT_MAX ||
        connection->waiting_count >= QUEUED_PACKETS_MAX) {
        return EAGAIN;
    }
    struct packet *packet = malloc(sizeof(*packet) + output->size);
    if (packet == NULL) {
        return ENOMEM;
    }
    packet->next = NULL;
    packet->size = output->size;
    packet->owns_fd = output->fd >= 0 && output->lends_fd;
    packet->fd = packet->owns_fd ? fcntl(output->fd, F_DUPFD_CLOEXEC, 0) : output->fd;
    if (packet->owns_fd && packet->fd < 0) {
        free(packet);
        return EMFILE;
    }
    memcpy(packet->bytes, output->bytes, output->size);
    if (connection->first == NULL) {
        connection->first = packet;
    } else {
        connection->last->next = packet;
    }
    connection->last = packet;
    connection->waiting_size += output->size;
    connection->waiting_count++;
    return 0;
}

bool connection_send(struct connection *connection, const struct connection_output *output)
{
    HF_CHECK(!connection->closed && output->size > 0);
    int sent = 0;
    int64_t now_ns = clock_boottime_ns();
    if (connection->costly) {
        connection->unsent = EPIPE;
        return false;
    }
    if (output->fd >= 0 && !socket_may_pass(connection)) {
        connection->unsent = EAGAIN;
        return false;
    }
    connection->unread += output->fd >= 0; /* `unread` includes the descriptor of a packet that has
                                            * to wait */
    if (connection->first == NULL && socket_share_owes(connection->share, now_ns) == 0) {
        sent = send_packet(connection->fd, output->bytes, output->size, output->fd);
        connection->unsent = errno;
        if (!socket_called(connection, now_ns, sent == 1)) {
            connection->unsent = EPIPE;
            return false;
        }
    }
    if (sent == 0) {
        connection->unsent = queue_packet(connection, output);
        if (connection->unsent == 0) {
            if (!connection->parked) {
                socket_update_poll(connection);
            }
            return true;
        }
        if (output->unasked) {
            connection->dropped = true;
            sent = 1;
        }
    }
    return sent == 1;
}

const char *connection_unsent(const struct connection *connection)
{
    switch (connection->unsent) {
    case EAGAIN:
        return "it does not read its answers";
    case EPIPE:
    case ECONNRESET:
    case ENOTCONN:
        return NULL;
    default:
        return strerror(connection->unsent);
    }
}

static void on_writable(struct connection *connection)
{
    while (connection->first != NULL) { /* the queue is bounded, so the loop ends */
        struct packet *packet = connection->first;
        int64_t now_ns = clock_boottime_ns();
        if (socket_share_owes(connection->share, now_ns) != 0) {
            return;
        }
        int sent = send_packet(connection->fd, packet->bytes, packet->size, packet->fd);
        if (!socket_called(connection, now_ns, sent == 1) || sent < 0) {
            socket_close_because(connection, NULL);
            return;
        }
        if (sent == 0) {
            return;
        }
        drop_first(connection);
    }
    socket_update_poll(connection);
    if (connection->dropped) {
        connection->dropped = false;
        struct socket_handler *handler = &connection->server->config.handler;
        handler->drained(handler->arg, connection);
    }
}

/* ---- receiving ---- */

const char socket_no_descriptors[] =
    "no descriptors are left: raise LimitNOFILE, or find the process that has so many connections";

/* Receives one packet and gives it to the handler. Returns false if no other packet waits, or the
 * connection is closed. */
static bool receive_packet(struct connection *connection)
{
    struct socket_server *server = connection->server;
    struct socket_handler *handler = &server->config.handler;
    int64_t began_ns = clock_boottime_ns();
    struct received received = receive(server, connection->fd, server->buffer,
                                       sizeof(server->buffer));
    int why = errno;
    if (!socket_called(connection, began_ns, false)) {
        socket_close_because(connection, NULL);
        return false;
    }
    errno = why;
    if (received.size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return false;
    }
    if (received.rights) {
        socket_close_because(connection, "found a descriptor with a packet, expected none");
    } else if (received.size <= 0) { /* no client sends empty packets, so the peer closed the
                                      * connection */
        socket_close_because(connection, NULL);
    } else if (received.size > HFI_FRAME_MAX) {
        socket_close_because(connection,
                             "found a packet larger than a frame, expected at most 16384 bytes");
    } else {
        handler->packet(handler->arg, connection, server->buffer, (size_t)received.size,
                        received.sender);
    }
    return !connection->closed;
}

/* Charges the time since *since_ns to this connection's user, except the time of calls on other
 * users' sockets, which is charged to those users. Returns false if the user has no time left. */
static bool spend(struct connection *connection, int64_t *since_ns)
{
    struct socket_server *server = connection->server;
    int64_t now_ns = clock_boottime_ns();
    int64_t took_ns = now_ns - *since_ns - server->elsewhere_ns;
    *since_ns = now_ns;
    server->elsewhere_ns = 0;
    return socket_share_spend(connection->share, took_ns) &&
           socket_share_owes(connection->share, now_ns) == 0;
}

/* Serves a connection. status below 0: the socket has an error, because the peer closed it with
 * packets unread. */
static void serve(struct connection *connection, int status, int events)
{
    struct socket_server *server = connection->server;
    int64_t since_ns = clock_boottime_ns();
    bool left = true;
    server->served = connection->share;
    server->elsewhere_ns = 0;
    if (status < 0) {
        socket_close_because(connection, NULL);
    } else if (events & UV_WRITABLE) {
        on_writable(connection);
    }
    if (connection->closed || (events & UV_WRITABLE) != 0) {
        left = spend(connection, &since_ns);
    }
    for (unsigned i = 0; i < SOCKET_PACKETS_PER_TURN && !connection->closed && left; i++) {
        bool more = receive_packet(connection);
        left = spend(connection, &since_ns) && more;
    }
    if (!connection->closed && connection->held_ns != 0) {
        (void)socket_park(connection);
    }
    server->served = NULL;
}

static void on_connection(uv_poll_t *poll, int status, int events)
{
    struct connection *connection = poll->data;
    socket_begins(connection->server);
    if (socket_park(connection)) {
        return;
    }
    if (socket_share_turn(connection->share, &connection->round)) {
        serve(connection, status, events);
    } else if (status < 0) { /* libuv reports the error once and stops watching the socket */
        socket_update_poll(connection);
    }
}

void socket_update_poll(struct connection *connection)
{
    int events = UV_READABLE | (connection->first != NULL ? UV_WRITABLE : 0);
    HF_CHECK(uv_poll_start(&connection->poll, events, on_connection) == 0);
}

/* ---- the listener ---- */

static bool fill_address(const char *path, struct sockaddr_un *address)
{
    memset(address, 0, sizeof(*address));
    address->sun_family = AF_UNIX;
    if (strlen(path) >= sizeof(address->sun_path)) {
        return false;
    }
    memcpy(address->sun_path, path, strlen(path) + 1);
    return true;
}

const char *socket_path_error(const char *path, char *error)
{
    struct sockaddr_un address;
    struct stat status;
    if (!fill_address(path, &address)) {
        snprintf(error, SOCKET_ERROR_MAX, "socket path of %zu bytes: expected at most %zu",
                 strlen(path), sizeof(address.sun_path) - 1);
        return error;
    }
    if (lstat(path, &status) != 0) {
        if (errno == ENOENT) {
            return NULL;
        }
        snprintf(error, SOCKET_ERROR_MAX, "%s: %s", path, strerror(errno));
        return error;
    }
    if (!S_ISSOCK(status.st_mode)) {
        snprintf(error, SOCKET_ERROR_MAX, "%s: found a file that is no socket", path);
        return error;
    }
    if (status.st_uid != geteuid()) {
        snprintf(error, SOCKET_ERROR_MAX, "%s: found a socket of user %u, expected none", path,
                 (unsigned)status.st_uid);
        return error;
    }
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        snprintf(error, SOCKET_ERROR_MAX, "cannot make a socket: %s", strerror(errno));
        return error;
    }
    int result = connect(fd, (struct sockaddr *)&address, sizeof(address));
    int why = errno;
    close(fd);
    if (result != 0 && why == ECONNREFUSED) {
        return NULL; /* no process listens any more */
    }
    if (result == 0 || why == EAGAIN || why == EPROTOTYPE) {
        snprintf(error, SOCKET_ERROR_MAX, "%s: in use: another agent listens there", path);
    } else {
        snprintf(error, SOCKET_ERROR_MAX, "%s: %s", path, strerror(why));
    }
    return error;
}

static bool refuse_descriptors(int fd)
{
    const int off = 0;
    return setsockopt(fd, SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof(off)) == 0;
}

bool socket_needs_closer(void)
{
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    bool needed = fd >= 0 && !refuse_descriptors(fd);
    if (fd >= 0) {
        close(fd);
    }
    return needed;
}

/* Makes a listener at the path. Returns its descriptor, or -1 with error. */
static int make_listener(const struct socket_config *config, char *error)
{
    struct sockaddr_un address;
    if (socket_path_error(config->path, error) != NULL) {
        return -1;
    }
    HF_CHECK(fill_address(config->path, &address));
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    unlink(config->path);
    /* Linux gives the bound file the descriptor's mode. So the agent need not set the mode by the
     * file's name afterwards, when the name may belong to another file. */
    const mode_t mode = config->for_all ? 0666 : 0600;
    const int on = 1;
    mode_t mask = umask(0777 & ~mode);
    bool bound = fd >= 0 && fchmod(fd, mode) == 0 &&
                 setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) == 0 &&
                 bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    int why = errno;
    umask(mask);
    if (bound) {
        (void)!refuse_descriptors(fd); /* done before any process can connect */
    }
    if (!bound || listen(fd, SOMAXCONN) != 0) {
        snprintf(error, SOCKET_ERROR_MAX, "%s: cannot listen: %s", config->path,
                 strerror(bound ? errno : why));
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    return fd;
}

/* Returns the identity of the file at the path; number 0 if there is none. */
static struct socket_file file_at(const char *path)
{
    struct stat status;
    struct socket_file file = {.number = 0};
    if (lstat(path, &status) == 0) {
        file = (struct socket_file){.device = status.st_dev, .number = status.st_ino};
    }
    return file;
}

/*
 * Removes a listener's file. The listener must still be open: until its close the kernel gives the
 * number of its file to no other file. Another file at the path stays: if somebody removed this
 * agent's socket and the lock beside it, another agent may listen at the path now. Linux cannot
 * compare and remove in one step. So the other agent still loses its socket if it makes its file
 * between lstat() and unlink().
 */
static void remove_file(const char *path, struct socket_file own)
{
    struct socket_file found = file_at(path);
    if (own.number != 0 && found.number == own.number && found.device == own.device) {
        unlink(path);
    }
}

static bool listen_at(struct socket_server *server, char *error)
{
    server->fd = make_listener(&server->config, error);
    if (server->fd < 0) {
        return false;
    }
    snprintf(server->path, sizeof(server->path), "%s", server->config.path);
    server->takes_rights = !refuse_descriptors(server->fd); /* make_listener() has refused them
                                                             * already; this call only returns
                                                             * whether the kernel can */
    server->file = file_at(server->path);
    return true;
}

bool socket_listen_again(struct socket_server *server, char *error)
{
    int fresh = make_listener(&server->config, error);
    struct socket_file file = file_at(server->path);
    int old = fresh >= 0 ? fcntl(server->fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (old < 0) {
        if (fresh >= 0) {
            snprintf(error, SOCKET_ERROR_MAX, "%s: %s", server->path, strerror(errno));
            remove_file(server->path, file);
            close(fresh);
        }
        return false;
    }
    bool accepts = server->resume_ns == 0;
    uv_poll_stop(&server->poll);
    if (server->spare >= 0) { /* the spare is a copy of the old listener, too */
        close(server->spare);
        server->spare = -1;
    }
    HF_CHECK(dup3(fresh, server->fd, O_CLOEXEC) == server->fd);
    close(fresh);
    server->file = file;
    if (accepts) {
        socket_accept_start(server);
    }
    if (server->takes_rights) { /* connections that were not accepted may have sent descriptors */
        socket_leave(server, old, NULL);
    } else {
        close(old);
    }
    return true;
}

struct socket_server *socket_open(uv_loop_t *loop, const struct socket_config *config, char *error)
{
    struct socket_server *server = calloc(1, sizeof(*server));
    uint32_t room = config->connections_max;
    HF_CHECK(room > 0 && room <= SOCKET_CONNECTIONS_MAX && config->shares != NULL);
    snprintf(error, SOCKET_ERROR_MAX, "out of memory");
    if (server == NULL) {
        return NULL;
    }
    server->config = *config;
    server->shares = config->shares;
    server->spare = -1;
    server->slots = calloc(room, sizeof(struct connection *));
    server->generations = calloc(room, sizeof(uint32_t));
    server->free_slots = calloc(room, sizeof(uint32_t));
    if (server->slots == NULL || server->generations == NULL || server->free_slots == NULL ||
        !listen_at(server, error)) {
        server_free(server);
        return NULL;
    }
    for (uint32_t i = 0; i < room; i++) {
        server->free_slots[i] = room - 1 - i;
    }
    server->free_count = room;
    if (uv_poll_init(loop, &server->poll, server->fd) != 0) {
        snprintf(error, SOCKET_ERROR_MAX, "%s: cannot poll it", config->path);
        remove_file(server->path, server->file);
        close(server->fd);
        server_free(server);
        return NULL;
    }
    server->handles = 1;
    server->poll.data = server;
    socket_accept_start(server);
    return server;
}

void socket_shut(struct socket_server *server)
{
    if (server == NULL) {
        return;
    }
    server->shut = true;
    remove_file(server->path, server->file);
    uv_poll_stop(&server->poll);
    uv_close((uv_handle_t *)&server->poll, on_listener_gone);
    if (server->spare >= 0) {
        close(server->spare); /* The spare is closed before the listener, so that this close is not
                               * the last close of the listening socket. */
    }
    while (server->connections != NULL) { /* each iteration removes a connection from the list */
        struct connection *connection = server->connections;
        int fd = connection->fd;
        if (connection->behind) {
            socket_end_behind(connection);
        } else if (connection->aside) {
            socket_release(connection);
            socket_close_elsewhere(server, fd, &connection->peer);
        } else {
            socket_close(connection);
        }
    }
    if (server->takes_rights) { /* connections that were not accepted may have sent descriptors */
        socket_leave(server, server->fd, NULL);
    } else {
        close(server->fd);
    }
}

/* ---- facts about a connection ---- */

struct connection *socket_find(struct socket_server *server, uint32_t number)
{
    uint32_t slot = number & ((1U << NUMBER_SLOT_BITS) - 1);
    if (server == NULL || slot >= server->config.connections_max) {
        return NULL;
    }
    struct connection *connection = server->slots[slot];
    return connection != NULL && connection->number == number && !connection->closed ? connection
                                                                                     : NULL;
}

uint32_t connection_number(const struct connection *connection)
{
    return connection->number;
}

const struct peer *connection_peer(const struct connection *connection)
{
    return &connection->peer;
}

struct socket_share *connection_share(const struct connection *connection)
{
    return connection->share;
}

int connection_socket(const struct connection *connection)
{
    return connection->fd;
}

struct connection_note *connection_note(struct connection *connection)
{
    return &connection->note;
}

void connection_greeted(struct connection *connection)
{
    socket_is_not_silent(connection);
}
