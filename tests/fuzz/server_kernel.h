/*
 * The kernel, libuv and memory of a server between hostile clients, for the fuzzers of
 * agent/io/http/http.c and agent/io/socket/socket.c. It has one listener, connections that the
 * server accepts and polls, and memory that is counted and may fail. Each fuzzer has the bytes of
 * the connections itself.
 */
#ifndef TESTS_FUZZ_SERVER_KERNEL_H
#define TESTS_FUZZ_SERVER_KERNEL_H

#include "server_calls.h"
#undef malloc /* the fuzzers themselves use the real functions */
#undef calloc
#undef free

#include "draw.h"

enum {
    KERNEL_CLIENTS_MAX = 96,
    LISTENER = 1000,
    FIRST_FD = 2000, /* the first connection's descriptor; the next connections have the next
                      * numbers */
};

/* how the server polls a connection */
struct kernel_end {
    uv_poll_t *poll;
    uv_poll_cb callback;
    int events; /* 0: the server does not poll */
};

struct kernel {
    struct draw draw;
    int64_t now_ns;
    uv_poll_t *listener;
    uv_poll_cb on_listener;
    bool listens; /* the server polls the listener */
    bool listener_open;
    bool memory_fails; /* the next allocation fails */
    int accept_error;
    uint32_t waiting;  /* how many connections wait to be accepted */
    uint32_t accepted; /* how many connections the server has accepted so far */
    uint32_t blocks;   /* how many blocks of memory are in use */
    uint32_t closing_count;
    struct {
        uv_handle_t *handle;
        uv_close_cb callback;
    } closing[KERNEL_CLIENTS_MAX + 1];
};

extern struct kernel kernel;

/* Returns the `end` of an open connection. The fuzzer defines this function. */
struct kernel_end *kernel_end_of(int fd);

/* Returns 0, or sometimes -1 with an errno. */
int kernel_fails(void);
/* Accepts a connection and returns its number, which is below `clients`. Returns -1 with errno on
 * failure. */
int kernel_accept(uint32_t clients);
/* Calls the callbacks of all handles that were closed. */
void kernel_finish_closing(void);

#endif
