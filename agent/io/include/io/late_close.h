/*
 * Closes descriptors on a thread of its own: those of files that clients can open too.
 *
 * When a process closes a descriptor the kernel looks through all POSIX locks of that file for the
 * process's own, and anybody who has a descriptor of the file can have a million there (0.4 s). A
 * client has the region's, and can have a pidfd of itself. So the agent's loop never
 * closes one of these, and leaves those that are open at its end to the end of the process.
 *
 * One thread gives. Without late_close_start(), or when too many wait, it is closed at once.
 */
#ifndef IO_LATE_CLOSE_H
#define IO_LATE_CLOSE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* Starts the thread, once in a process; it is never waited for. false: errno says why. */
bool late_close_start(void) __attribute__((warn_unused_result));

/* Takes fd; -1 is allowed. uid: whose processes can make that close a long one; -1: any. */
void late_close(int fd, uid_t uid);

/* Whether so many of that user's wait that nothing should be opened for it that must be closed. */
bool late_close_is_busy(uid_t uid);

#endif
