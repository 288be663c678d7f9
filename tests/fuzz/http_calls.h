/*
 * Put in front of agent/io/http.c when it is built for its fuzzer: the kernel, libuv and memory are
 * fuzz_http.c's.
 */
#ifndef TESTS_FUZZ_HTTP_CALLS_H
#define TESTS_FUZZ_HTTP_CALLS_H

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

int fuzz_socket(int family, int type, int protocol);
int fuzz_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int fuzz_bind(int fd, const struct sockaddr *address, socklen_t size);
int fuzz_listen(int fd, int backlog);
int fuzz_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
ssize_t fuzz_recv(int fd, void *buffer, size_t size, int flags);
ssize_t fuzz_send(int fd, const void *buffer, size_t size, int flags);
int fuzz_shutdown(int fd, int how);
int fuzz_close(int fd);

int fuzz_uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd);
int fuzz_uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb callback);
int fuzz_uv_poll_stop(uv_poll_t *poll);
void fuzz_uv_close(uv_handle_t *handle, uv_close_cb callback);

int64_t fuzz_clock(void);
void *fuzz_malloc(size_t size);
void *fuzz_calloc(size_t count, size_t size);
void fuzz_free(void *memory);

#define socket fuzz_socket
#define setsockopt fuzz_setsockopt
#define bind fuzz_bind
#define listen fuzz_listen
#define accept4 fuzz_accept4
#define recv fuzz_recv
#define send fuzz_send
#define shutdown fuzz_shutdown
#define close fuzz_close
#define uv_poll_init fuzz_uv_poll_init
#define uv_poll_start fuzz_uv_poll_start
#define uv_poll_stop fuzz_uv_poll_stop
#define uv_close fuzz_uv_close
#define clock_boottime_ns fuzz_clock
#define malloc fuzz_malloc
#define calloc fuzz_calloc
#define free fuzz_free

#endif
