/*
 * A small HTTP/1.1 server for people and their monitoring: it answers GET and HEAD of a few paths,
 * and closes. This part reads requests, sends answers and bounds the costs that clients can cause.
 * It does not know the contents of the answers.
 *
 * It runs on the thread of the loop that it is given, and does nothing while no client asks. The
 * left column has what a client can do, and the right column has the bound:
 *
 *   connecting and sending nothing,      HTTP_TIMEOUT_MS for the whole exchange
 *   sending very slowly, not reading
 *   many connections at once             HTTP_CONNECTIONS_MAX: a new one closes the oldest
 *   many connections in succession       HTTP_ACCEPTS_PER_SECOND; others wait in the kernel
 *   a long request                       HTTP_REQUEST_MAX bytes (431); a body is not read
 *   another method, path, nonsense       405, 404 (the handler's), 400
 *   being a foreign web page that        421: on the loopback, the request's Host must be an
 *   a browser of this host shows         address, localhost, or the name in http_handler
 *
 * NNG has an HTTP server too, which has none of these bounds: see docs/DECISIONS.md.
 */
#ifndef IO_HTTP_H
#define IO_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <uv.h>

enum {
    HTTP_TIMEOUT_MS = 5000,
    HTTP_CONNECTIONS_MAX = 32,
    HTTP_ACCEPTS_PER_SECOND = 200,
    HTTP_REQUEST_MAX = 4096,
    HTTP_ERROR_MAX = 256,
    HTTP_NAME_MAX = 64,
};

struct http_address {
    struct sockaddr_storage address;
    socklen_t size;
    bool loopback; /* only this host can reach the address */
};

/* Reads http://HOST:PORT, where HOST is an IPv4 address, an IPv6 address in brackets, or localhost
 * (127.0.0.1). Returns false for any other text. */
bool http_address_read(const char *text, struct http_address *out)
    __attribute__((warn_unused_result));

struct http_answer {
    int status;       /* 200, 404 or 503; the server itself sends all other statuses */
    const char *type; /* the type of the body, such as text/plain; static */
    const void *body; /* borrowed until the next call of answer() */
    size_t size;
};

struct http_handler {
    /* The name that a request's Host may have, besides the addresses. Copied. */
    const char *name;
    /* Answers a request for that path. A query, from `?` on, is cut off already. */
    void (*answer)(void *arg, const char *path, struct http_answer *out);
    /* Called first in each callback from the event loop. */
    void (*turn)(void *arg);
    void *arg;
};

struct http_server;

/* Begins to listen. On failure returns NULL, and error (HTTP_ERROR_MAX bytes) says why. */
struct http_server *http_open(uv_loop_t *loop, const struct http_address *address,
                              const struct http_handler *handler, char *error)
    __attribute__((warn_unused_result));
/* Closes all connections. The loop must run on afterwards, to free the memory. NULL is allowed. */
void http_shut(struct http_server *server);

/* Returns when http_tick() is due; INT64_MAX: never. */
int64_t http_next_tick_ns(const struct http_server *server);
void http_tick(struct http_server *server, int64_t now_ns);

#endif
