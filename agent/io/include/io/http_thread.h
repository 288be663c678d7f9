/*
 * The HTTP server on a thread of its own.
 *
 * A client of this host can watch its end of a TCP connection by a million epoll entries, which the
 * kernel walks in whoever sends to it or closes it (0.6 s for one answer), and whose it is nobody
 * knows here. So all calls on its connections are made by a thread; the agent's loop only makes the
 * answers, one at a time.
 */
#ifndef IO_HTTP_THREAD_H
#define IO_HTTP_THREAD_H

#include "io/http.h"

struct http_thread;

/* As http_open(): the handler is called on that loop's thread. NULL: error says why. */
struct http_thread *http_thread_open(uv_loop_t *loop, const struct http_address *address,
                                     const struct http_handler *handler, char *error)
    __attribute__((warn_unused_result));

/* On the loop's thread: closes everything; the handler is not called any more. NULL is allowed. */
void http_thread_shut(struct http_thread *self);

/* When the loop has run on since: frees it. NULL is allowed. */
void http_thread_close(struct http_thread *self);

#endif
