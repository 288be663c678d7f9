/*
 * The HTTP server on a thread of its own.
 *
 * A client on this host can watch its end of a TCP connection with a million epoll entries. When a
 * process sends to the client or closes the connection, the kernel walks these entries in that
 * process's time (0.6 s for one answer), and the agent cannot know which user caused that. So a
 * separate thread makes all calls on the connections. The agent's loop only writes the answers, one
 * at a time.
 */
#ifndef IO_HTTP_THREAD_H
#define IO_HTTP_THREAD_H

#include "io/http.h"

struct http_thread;

/* Does what http_open() does, on a new thread. The handler is called on the thread of `loop`. On
 * failure returns NULL, and error says why. */
struct http_thread *http_thread_open(uv_loop_t *loop, const struct http_address *address,
                                     const struct http_handler *handler, char *error)
    __attribute__((warn_unused_result));

/* Closes all connections. The handler is not called any more. Only the loop's thread may call this.
 * NULL is allowed. */
void http_thread_shut(struct http_thread *self);

/* Frees the server. Called after `loop` has run its close callbacks. NULL is allowed. */
void http_thread_close(struct http_thread *self);

#endif
