/*
 * The kernel, libuv and memory of a server between hostile clients, for the fuzzers of
 * agent/io/http/http.c and agent/io/socket/socket.c: one listener, connections that are accepted
 * and polled, memory that is counted and may fail. The bytes on a connection are the fuzzer's own.
 */
#ifndef TESTS_FUZZ_SERVER_KERNEL_H
#define TESTS_FUZZ_SERVER_KERNEL_H

#include "server_calls.h"
#undef malloc /* the fuzzers use the real ones */
#undef calloc
#undef free

#include "draw.h"

enum {
    KERNEL_CLIENTS_MAX = 96,
    LISTENER = 1000,
    FIRST_FD = 2000, /* the first descriptor of a connection; they are numbered in the order of
                      * accepting */
};

/* How a connection is polled. */
struct kernel_end {
    uv_poll_t *poll;
    uv_poll_cb callback;
    int events; /* 0: not polled */
};

struct kernel {
    struct draw draw;
    int64_t now_ns;
    uv_poll_t *listener;
    uv_poll_cb on_listener;
    bool listens; /* the listener's handle is polled */
    bool listener_open;
    bool memory_fails; /* the next allocation fails */
    int accept_error;
    uint32_t waiting;  /* how many connections wait to be accepted */
    uint32_t accepted; /* so far */
    uint32_t blocks;   /* how many blocks of memory are in use */
    uint32_t closing_count;
    struct {
        uv_handle_t *handle;
        uv_close_cb callback;
    } closing[KERNEL_CLIENTS_MAX + 1];
};

extern struct kernel kernel;

/* The fuzzer defines this function. It returns the `end` of an open connection. */
struct kernel_end *kernel_end_of(int fd);

/* Sometimes returns -1, with an errno. */
int kernel_fails(void);
/* Accepts a connection and returns its number, below `clients`; -1 with errno. */
int kernel_accept(uint32_t clients);
/* Calls the callbacks of all handles that were closed. */
void kernel_finish_closing(void);

#endif
