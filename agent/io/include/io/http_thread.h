/*
 * The HTTP server on a thread of its own.
 *
 * A client on this host can watch its end of a TCP connection with a million epoll entries. The
 * kernel walks them in the process that sends to the client or closes the connection (0.6 s for one
 * answer), and the agent cannot know which user does that. So a separate thread makes all calls on
 * the connections. The agent's loop only writes the answers, one at a time.
 */
#ifndef IO_HTTP_THREAD_H
#define IO_HTTP_THREAD_H

#include "io/http.h"

struct http_thread;

/* Does what http_open() does, on a new thread; the handler is called on the thread of `loop`. On
 * failure returns NULL, and error says why. */
struct http_thread *http_thread_open(uv_loop_t *loop, const struct http_address *address,
                                     const struct http_handler *handler, char *error)
    __attribute__((warn_unused_result));

/* To be called on the loop's thread: closes all connections, and the handler is not called any
 * more. NULL is allowed. */
void http_thread_shut(struct http_thread *self);

/* Frees the server, after `loop` has run on. NULL is allowed. */
void http_thread_close(struct http_thread *self);

#endif
