/*
 * A thread that closes descriptors of files that clients can open too.
 *
 * When a process closes a file, the kernel searches all POSIX locks of the file for locks of that
 * process. A process that has a descriptor of the file can place a million locks on it, and each
 * close then takes 0.4 s. A client has its region's descriptor, and any user can get a pidfd of a
 * client. So the agent's loop closes no such descriptor. The kernel closes the descriptors that are
 * still open when the agent ends.
 *
 * The loop also leaves a socket to this thread if the socket has many unread packets, or if its
 * peer watches it with many epoll entries. The thread empties the socket packet by packet, and then
 * closes it.
 *
 * If late_close_start() was not called, or too many descriptors wait, late_close() closes the
 * descriptor at once. Any thread may call these functions.
 */
#ifndef IO_LATE_CLOSE_H
#define IO_LATE_CLOSE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Starts the thread. May be called once in a process. No call waits for the thread's end. On
 * failure returns false with errno. */
bool late_close_start(void) __attribute__((warn_unused_result));

/* Closes fd later; -1 is allowed. `uid` is the user whose processes can make the close slow; -1:
 * any user. */
void late_close(int fd, uid_t uid);

/* Does what late_close() does, for a pidfd that is in an epoll set (io/deaths.h). */
void late_close_watched(int pidfd, uid_t uid);

/* Returns whether so many closes of that user wait that the agent should open no further
 * descriptors for that user. */
bool late_close_is_busy(uid_t uid);

#endif
