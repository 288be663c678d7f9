/*
 * The HTTP server: see io/http.h.
 *
 * The server reads a connection until the request's head is whole, answers, and shuts the
 * connection for writing. Then it reads until the client closes the connection. If the server
 * closed first, unread bytes would make the kernel reset the connection, and the client might never
 * read the answer. One deadline bounds the whole exchange.
 */
#include "io/http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "io/clock.h"
#include "proto/check.h"

enum {
    BACKLOG = 64,
    ACCEPTS_PER_TURN = 8,
    PAUSE_MS = 100,  /* how long accepting pauses when the system has no descriptors or memory */
    HEAD_MAX = 1024, /* room for the header lines of an answer, in bytes */
    LINGER_READS_MAX = 16,
};

static const int64_t millisecond_ns = 1000000;

enum state { READING, WRITING, LINGERING };

struct http_connection {
    uv_poll_t poll;
    struct http_server *server;
    struct http_connection *next; /* the next newer connection */
    struct http_connection *previous;
    int fd;
    enum state state;
    int64_t end_ns;
    size_t used; /* bytes of the request that were received so far */
    char request[HTTP_REQUEST_MAX + 1];
    unsigned char *output; /* NULL: there is no answer yet */
    size_t output_size;
    size_t output_sent;
};

struct http_server {
    uv_poll_t poll;
    struct http_handler handler;
    int fd;
    struct http_connection *first;
    struct http_connection *last;
    uint32_t count;
    uint32_t handles;  /* poll handles that libuv has not closed yet */
    int64_t second_ns; /* the start of the second whose connections `accepted` counts */
    uint32_t accepted;
    int64_t resume_ns; /* when to accept again after a pause; 0: there is no pause */
    bool shut;
    bool named; /* only requests whose Host passes is_own_name() are answered */
    char name[HTTP_NAME_MAX];
};

/* ---- addresses ---- */

static bool read_port(const char *text, in_port_t *port)
{
    unsigned long value = 0;
    size_t length = strspn(text, "0123456789");
    if (length == 0 || length > 5 || text[length] != '\0') {
        return false;
    }
    value = strtoul(text, NULL, 10);
    *port = htons((in_port_t)value);
    return value > 0 && value < 65536;
}

static bool read_ipv4(const char *host, in_port_t port, struct http_address *out)
{
    struct sockaddr_in *address = (struct sockaddr_in *)&out->address;
    if (inet_pton(AF_INET, strcmp(host, "localhost") == 0 ? "127.0.0.1" : host,
                  &address->sin_addr) != 1) {
        return false;
    }
    address->sin_family = AF_INET;
    address->sin_port = port;
    out->size = sizeof(*address);
    out->loopback = ntohl(address->sin_addr.s_addr) >> 24 == 127;
    return true;
}

static bool read_ipv6(const char *host, in_port_t port, struct http_address *out)
{
    struct sockaddr_in6 *address = (struct sockaddr_in6 *)&out->address;
    if (inet_pton(AF_INET6, host, &address->sin6_addr) != 1) {
        return false;
    }
    address->sin6_family = AF_INET6;
    address->sin6_port = port;
    out->size = sizeof(*address);
    out->loopback = IN6_IS_ADDR_LOOPBACK(&address->sin6_addr);
    return true;
}

bool http_address_read(const char *text, struct http_address *out)
{
    static const char scheme[] = "http://";
    char host[64];
    in_port_t port;
    memset(out, 0, sizeof(*out));
    if (strncmp(text, scheme, strlen(scheme)) != 0) {
        return false;
    }
    text += strlen(scheme);
    const char *colon = strrchr(text, ':');
    size_t length = colon != NULL ? (size_t)(colon - text) : 0;
    if (length == 0 || length >= sizeof(host) || !read_port(colon + 1, &port)) {
        return false;
    }
    memcpy(host, text, length);
    host[length] = '\0';
    if (host[0] == '[' && host[length - 1] == ']') {
        host[length - 1] = '\0';
        return read_ipv6(host + 1, port, out);
    }
    return read_ipv4(host, port, out);
}

/* ---- closing ---- */

static void handle_gone(struct http_server *server)
{
    HF_CHECK(server->handles > 0);
    server->handles--;
    if (server->handles == 0 && server->shut) {
        free(server);
    }
}

static void on_connection_gone(uv_handle_t *handle)
{
    struct http_connection *connection = handle->data;
    struct http_server *server = connection->server;
    free(connection);
    handle_gone(server);
}

static void on_listener_gone(uv_handle_t *handle)
{
    handle_gone(handle->data);
}

static void close_connection(struct http_connection *connection)
{
    struct http_server *server = connection->server;
    if (connection->previous != NULL) {
        connection->previous->next = connection->next;
    } else {
        server->first = connection->next;
    }
    if (connection->next != NULL) {
        connection->next->previous = connection->previous;
    } else {
        server->last = connection->previous;
    }
    server->count--;
    uv_poll_stop(&connection->poll);
    uv_close((uv_handle_t *)&connection->poll, on_connection_gone);
    close(connection->fd);
    connection->fd = -1;
    free(connection->output);
    connection->output = NULL;
}

/* ---- answering ---- */

static void on_ready(uv_poll_t *poll, int status, int events);

/* Reads and drops the bytes that follow the request. Returns false if the connection is gone. */
static bool linger(struct http_connection *connection)
{
    char rubbish[1024];
    ssize_t size = 1;
    for (unsigned i = 0; i < LINGER_READS_MAX && size > 0; i++) {
        size = recv(connection->fd, rubbish, sizeof(rubbish), MSG_DONTWAIT);
    }
    if (size > 0 || (size < 0 && (errno == EAGAIN || errno == EINTR))) {
        return true;
    }
    close_connection(connection);
    return false;
}

static void write_on(struct http_connection *connection)
{
    /* each iteration sends at least one byte, so the loop ends */
    while (connection->output_sent < connection->output_size) {
        ssize_t sent = send(connection->fd, connection->output + connection->output_sent,
                            connection->output_size - connection->output_sent,
                            MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent < 0 && (errno == EAGAIN || errno == EINTR)) {
            connection->state = WRITING;
            uv_poll_start(&connection->poll, UV_WRITABLE, on_ready);
            return;
        }
        if (sent <= 0) {
            close_connection(connection);
            return;
        }
        connection->output_sent += (size_t)sent;
    }
    (void)shutdown(connection->fd, SHUT_WR);
    connection->state = LINGERING;
    uv_poll_start(&connection->poll, UV_READABLE, on_ready);
    (void)linger(connection);
}

static const char *status_text(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 400:
        return "Bad Request";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 421:
        return "Misdirected Request: call this agent by an address, localhost or its name";
    case 431:
        return "Request Header Fields Too Large";
    default:
        return "Service Unavailable";
    }
}

/* Sends the answer. head_only: the request was HEAD, whose answer has the body's size but not the
 * body. */
static void answer(struct http_connection *connection, const struct http_answer *answer,
                   bool head_only)
{
    size_t body = head_only ? 0 : answer->size;
    char head[HEAD_MAX];
    int size = snprintf(head, sizeof(head),
                        "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %zu\r\n%s"
                        "Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n"
                        "Referrer-Policy: no-referrer\r\n"
                        "Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'; "
                        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n"
                        "Connection: close\r\n\r\n",
                        answer->status, status_text(answer->status), answer->type, answer->size,
                        answer->status == 405 ? "Allow: GET, HEAD\r\n" : "");
    HF_CHECK(size > 0 && (size_t)size < sizeof(head));
    connection->output = malloc((size_t)size + body);
    if (connection->output == NULL) {
        close_connection(connection);
        return;
    }
    memcpy(connection->output, head, (size_t)size);
    if (body > 0) {
        memcpy(connection->output + size, answer->body, body);
    }
    connection->output_size = (size_t)size + body;
    write_on(connection);
}

static void refuse(struct http_connection *connection, int status, bool head_only)
{
    const char *text = status_text(status);
    char body[128];
    int size = snprintf(body, sizeof(body), "%s\n", text);
    const struct http_answer out = {
        .status = status, .type = "text/plain; charset=utf-8", .body = body, .size = (size_t)size};
    answer(connection, &out, head_only);
}

/* Returns whether the Host field names this server by an address, localhost or its own name. This
 * stops DNS rebinding: a foreign web page whose name was made to resolve to this host sends that
 * name as Host, and must not read the answer. host: HOST, HOST:PORT or [ADDRESS]:PORT; this call
 * changes the text. */
static bool is_own_name(const struct http_server *server, char *host)
{
    struct in6_addr six;
    struct in_addr four;
    if (host[0] == '[') {
        host[strcspn(host, "]")] = '\0';
        return inet_pton(AF_INET6, host + 1, &six) == 1;
    }
    host[strcspn(host, ":")] = '\0';
    return inet_pton(AF_INET, host, &four) == 1 || strcasecmp(host, "localhost") == 0 ||
           strcasecmp(host, server->name) == 0;
}

/* Returns whether the header lines name this server as the host. A request without Host (HTTP/1.0)
 * passes too, because no browser sends it. */
static bool is_for_here(const struct http_server *server, const char *head)
{
    static const char field[] = "Host:";
    char host[HTTP_NAME_MAX + 16];
    const char *end = strchr(head, '\n');
    while (end != NULL && end[1] != '\r' && end[1] != '\n' && end[1] != '\0') {
        const char *at = end + 1;
        end = strchr(at, '\n');
        if (strncasecmp(at, field, sizeof(field) - 1) != 0) {
            continue;
        }
        at += sizeof(field) - 1;
        at += strspn(at, " \t");
        size_t size = strcspn(at, " \t\r\n");
        if (size >= sizeof(host)) {
            return false;
        }
        memcpy(host, at, size);
        host[size] = '\0';
        if (!is_own_name(server, host)) {
            return false;
        }
    }
    return true;
}

/* Handles a request whose head is complete: METHOD PATH HTTP/1.x, and header lines. Of these lines
 * only Host matters. */
static void serve(struct http_connection *connection)
{
    struct http_handler *handler = &connection->server->handler;
    char *line = connection->request;
    bool here = !connection->server->named || is_for_here(connection->server, line);
    line[strcspn(line, "\r\n")] = '\0';
    char *path = strchr(line, ' ');
    char *version = path != NULL ? strchr(path + 1, ' ') : NULL;
    if (version == NULL || path[1] != '/' || strncmp(version + 1, "HTTP/1.", 7) != 0) {
        refuse(connection, 400, false);
        return;
    }
    *path++ = '\0';
    *version = '\0';
    path[strcspn(path, "?")] = '\0';
    bool head_only = strcmp(line, "HEAD") == 0;
    if (!here) {
        refuse(connection, 421, head_only);
        return;
    }
    if (!head_only && strcmp(line, "GET") != 0) {
        refuse(connection, 405, false);
        return;
    }
    struct http_answer out = {.status = 404, .type = "text/plain; charset=utf-8"};
    handler->answer(handler->arg, path, &out);
    if (out.status == 404) {
        refuse(connection, 404, head_only);
    } else {
        answer(connection, &out, head_only);
    }
}

static bool is_whole(const struct http_connection *connection)
{
    return strstr(connection->request, "\r\n\r\n") != NULL ||
           strstr(connection->request, "\n\n") != NULL;
}

static void read_on(struct http_connection *connection)
{
    size_t room = HTTP_REQUEST_MAX - connection->used;
    ssize_t size = recv(connection->fd, connection->request + connection->used, room, MSG_DONTWAIT);
    if (size < 0 && (errno == EAGAIN || errno == EINTR)) {
        return;
    }
    if (size <= 0) {
        close_connection(connection);
        return;
    }
    connection->used += (size_t)size;
    connection->request[connection->used] = '\0';
    if (memchr(connection->request, '\0', connection->used) != NULL) {
        refuse(connection, 400, false);
    } else if (is_whole(connection)) {
        serve(connection);
    } else if (connection->used == HTTP_REQUEST_MAX) {
        refuse(connection, 431, false);
    }
}

static void on_ready(uv_poll_t *poll, int status, int events)
{
    struct http_connection *connection = poll->data;
    (void)events;
    connection->server->handler.turn(connection->server->handler.arg);
    if (status < 0) {
        close_connection(connection);
    } else if (connection->state == READING) {
        read_on(connection);
    } else if (connection->state == WRITING) {
        write_on(connection);
    } else {
        (void)linger(connection);
    }
}

/* ---- accepting ---- */

static void pause_until(struct http_server *server, int64_t resume_ns)
{
    server->resume_ns = resume_ns;
    uv_poll_stop(&server->poll);
}

/* Makes a connection of an accepted socket. */
static void begin(struct http_server *server, int fd, int64_t now_ns)
{
    struct http_connection *connection = calloc(1, sizeof(*connection));
    if (connection == NULL || uv_poll_init(server->poll.loop, &connection->poll, fd) != 0) {
        free(connection);
        close(fd);
        return;
    }
    if (server->count == HTTP_CONNECTIONS_MAX) {
        close_connection(server->first); /* the oldest connection makes room */
    }
    connection->poll.data = connection;
    connection->server = server;
    connection->fd = fd;
    connection->end_ns = now_ns + HTTP_TIMEOUT_MS * millisecond_ns;
    connection->previous = server->last;
    if (server->last != NULL) {
        server->last->next = connection;
    } else {
        server->first = connection;
    }
    server->last = connection;
    server->count++;
    server->handles++;
    uv_poll_start(&connection->poll, UV_READABLE, on_ready);
}

/* Returns whether the server may accept one more connection in this second. */
static bool may_accept(struct http_server *server, int64_t now_ns)
{
    const int64_t second_ns = 1000 * millisecond_ns;
    if (now_ns - server->second_ns >= second_ns) {
        server->second_ns = now_ns;
        server->accepted = 0;
    }
    if (server->accepted == HTTP_ACCEPTS_PER_SECOND) {
        pause_until(server, server->second_ns + second_ns);
        return false;
    }
    return true;
}

static void on_connect(uv_poll_t *poll, int status, int events)
{
    struct http_server *server = poll->data;
    int64_t now_ns = clock_boottime_ns();
    (void)status;
    (void)events;
    server->handler.turn(server->handler.arg);
    for (unsigned i = 0; i < ACCEPTS_PER_TURN && may_accept(server, now_ns); i++) {
        int fd = accept4(server->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd >= 0) {
            server->accepted++;
            begin(server, fd, now_ns);
        } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
            pause_until(server, now_ns + PAUSE_MS * millisecond_ns);
            return;
        } else if (errno != EINTR && errno != ECONNABORTED) {
            return; /* no connection waits to be accepted */
        }
    }
}

int64_t http_next_tick_ns(const struct http_server *server)
{
    int64_t due_ns = server->first != NULL ? server->first->end_ns : INT64_MAX;
    bool sooner = server->resume_ns != 0 && server->resume_ns < due_ns;
    return sooner ? server->resume_ns : due_ns;
}

void http_tick(struct http_server *server, int64_t now_ns)
{
    while (server->first != NULL && server->first->end_ns <= now_ns) {
        close_connection(server->first);
    }
    if (server->resume_ns != 0 && server->resume_ns <= now_ns) {
        server->resume_ns = 0;
        uv_poll_start(&server->poll, UV_READABLE, on_connect);
    }
}

/* ---- opening ---- */

static int listen_at(const struct http_address *address)
{
    const int on = 1;
    int family = address->address.ss_family;
    int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    bool good = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 &&
                (family != AF_INET6 ||
                 setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on)) == 0) &&
                bind(fd, (const struct sockaddr *)&address->address, address->size) == 0 &&
                listen(fd, BACKLOG) == 0;
    if (!good) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}

struct http_server *http_open(uv_loop_t *loop, const struct http_address *address,
                              const struct http_handler *handler, char *error)
{
    struct http_server *server = calloc(1, sizeof(*server));
    int fd = server != NULL ? listen_at(address) : -1;
    if (fd < 0 || uv_poll_init(loop, &server->poll, fd) != 0) {
        snprintf(error, HTTP_ERROR_MAX, "%s", server != NULL ? strerror(errno) : "out of memory");
        if (fd >= 0) {
            close(fd);
        }
        free(server);
        return NULL;
    }
    server->handler = *handler;
    server->named = address->loopback;
    snprintf(server->name, sizeof(server->name), "%s", handler->name);
    server->fd = fd;
    server->handles = 1;
    server->poll.data = server;
    uv_poll_start(&server->poll, UV_READABLE, on_connect);
    return server;
}

void http_shut(struct http_server *server)
{
    if (server == NULL) {
        return;
    }
    while (server->first != NULL) {
        close_connection(server->first);
    }
    server->shut = true;
    uv_poll_stop(&server->poll);
    uv_close((uv_handle_t *)&server->poll, on_listener_gone);
    close(server->fd);
    server->fd = -1;
}
