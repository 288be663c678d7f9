/*
 * Included before agent/io/http/http.c and agent/io/socket/socket.c when they are compiled for
 * their fuzzers. Calls of the kernel, of libuv and for memory then go to server_kernel.c and to the
 * fuzzer.
 */
#ifndef TESTS_FUZZ_SERVER_CALLS_H
#define TESTS_FUZZ_SERVER_CALLS_H

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uv.h>

struct peer;

/* defined in server_kernel.c */
int fuzz_listen(int fd, int backlog);
int fuzz_uv_poll_init(uv_loop_t *loop, uv_poll_t *poll, int fd);
int fuzz_uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb callback);
int fuzz_uv_poll_stop(uv_poll_t *poll);
void fuzz_uv_close(uv_handle_t *handle, uv_close_cb callback);
int64_t fuzz_clock(void);
void *fuzz_malloc(size_t size);
void *fuzz_calloc(size_t count, size_t size);
void fuzz_free(void *memory);

/* Each fuzzer defines the functions that its server calls. */
int fuzz_socket(int family, int type, int protocol);
int fuzz_setsockopt(int fd, int level, int name, const void *value, socklen_t size);
int fuzz_lstat(const char *path, struct stat *out);
int fuzz_unlink(const char *path);
int fuzz_fchmod(int fd, mode_t mode);
int fuzz_bind(int fd, const struct sockaddr *address, socklen_t size);
int fuzz_accept4(int fd, struct sockaddr *address, socklen_t *size, int flags);
ssize_t fuzz_recv(int fd, void *buffer, size_t size, int flags);
ssize_t fuzz_recvmsg(int fd, struct msghdr *message, int flags);
ssize_t fuzz_send(int fd, const void *buffer, size_t size, int flags);
ssize_t fuzz_sendmsg(int fd, const struct msghdr *message, int flags);
int fuzz_shutdown(int fd, int how);
int fuzz_ioctl(int fd, unsigned long request, ...);
int fuzz_fcntl(int fd, int command, int argument);
int fuzz_close(int fd);
bool fuzz_peer_of(int fd, struct peer *out);

#define listen fuzz_listen
#define uv_poll_init fuzz_uv_poll_init
#define uv_poll_start fuzz_uv_poll_start
#define uv_poll_stop fuzz_uv_poll_stop
#define uv_close fuzz_uv_close
#define clock_boottime_ns fuzz_clock
#define clock_thread_ns fuzz_clock
#define malloc fuzz_malloc
#define calloc fuzz_calloc
#define free fuzz_free
#define socket fuzz_socket
#define setsockopt fuzz_setsockopt
#define lstat fuzz_lstat
#define unlink fuzz_unlink
#define fchmod fuzz_fchmod
#define bind fuzz_bind
#define accept4 fuzz_accept4
#define recv fuzz_recv
#define recvmsg fuzz_recvmsg
#define send fuzz_send
#define sendmsg fuzz_sendmsg
#define shutdown fuzz_shutdown
#define ioctl fuzz_ioctl
#define fcntl fuzz_fcntl
#define close fuzz_close
#define peer_of fuzz_peer_of

#endif
