/*
 * Put in front of agent/io/socket.c when it is built for its fuzzer: the kernel, libuv and memory
 * are fuzz_socket.c's.
 */
#ifndef TESTS_FUZZ_SOCKET_CALLS_H
#define TESTS_FUZZ_SOCKET_CALLS_H

#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

struct peer;

int fuzz_socket(int family, int type, int protocol);
int fuzz_lstat(const char *path, struct stat *out);
int fuzz_unlink(const char *path);
int fuzz_fchmod(int fd, mode_t mode);
int fuzz_bind(int fd, const struct sockaddr *address, socklen_t size);
int fuzz_listen(int fd, int backlog);
int fuzz_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
ssize_t fuzz_recv(int fd, void *buffer, size_t size, int flags);
ssize_t fuzz_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t fuzz_sendmsg(int fd, const struct msghdr *message, int flags);
int fuzz_close(int fd);
bool fuzz_peer_of(int fd, struct peer *out);

int fuzz_uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd);
int fuzz_uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb callback);
int fuzz_uv_poll_stop(uv_poll_t *poll);
void fuzz_uv_close(uv_handle_t *handle, uv_close_cb callback);

int64_t fuzz_clock(void);
void *fuzz_malloc(size_t size);
void *fuzz_calloc(size_t count, size_t size);
void fuzz_free(void *memory);

#define socket fuzz_socket
#define lstat fuzz_lstat
#define unlink fuzz_unlink
#define fchmod fuzz_fchmod
#define bind fuzz_bind
#define listen fuzz_listen
#define accept4 fuzz_accept4
#define recv fuzz_recv
#define recvmsg fuzz_recvmsg
#define sendmsg fuzz_sendmsg
#define close fuzz_close
#define peer_of fuzz_peer_of
#define uv_poll_init fuzz_uv_poll_init
#define uv_poll_start fuzz_uv_poll_start
#define uv_poll_stop fuzz_uv_poll_stop
#define uv_close fuzz_uv_close
#define clock_boottime_ns fuzz_clock
#define malloc fuzz_malloc
#define calloc fuzz_calloc
#define free fuzz_free

#endif
