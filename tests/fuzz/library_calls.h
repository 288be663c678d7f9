/*
 * Included before the sources of libclient when they are compiled for the fuzzer. Their system
 * calls that use the socket of the agent, read the clock or sleep then go to fuzz_library.c.
 */
#ifndef TESTS_FUZZ_LIBRARY_CALLS_H
#define TESTS_FUZZ_LIBRARY_CALLS_H

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int fuzz_connect(int fd, const struct sockaddr *address, socklen_t size);
ssize_t fuzz_send(int fd, const void *bytes, size_t size, int flags);
ssize_t fuzz_recvmsg(int fd, struct msghdr *message, int flags);
int fuzz_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout,
               const sigset_t *mask);
int fuzz_clock_gettime(clockid_t clock, struct timespec *out);
int fuzz_clock_nanosleep(clockid_t clock, int flags, const struct timespec *until,
                         struct timespec *left);
long fuzz_syscall(long number, ...);

#define connect fuzz_connect
#define send fuzz_send
#define recvmsg fuzz_recvmsg
#define ppoll fuzz_ppoll
#define clock_gettime fuzz_clock_gettime
#define clock_nanosleep fuzz_clock_nanosleep
#define syscall fuzz_syscall

#endif
