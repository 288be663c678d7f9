/*
 * The agent gives up powers that it does not need, so that an attacker that takes it over gets
 * little.
 *
 * Both are for good, inherited by every thread that is made later, and called once, while the
 * process has one thread: before libuv and NNG are set up, and so before anything from a client or
 * another agent is read. Files and the resolver of names go on working.
 */
#ifndef IO_SANDBOX_H
#define IO_SANDBOX_H

#include <stdbool.h>

/*
 * Started as root: drops every capability, from the bounding set too, but for the one to listen on
 * ports below 1024. No program that it might start could get any back. Started as anybody else
 * there is nothing to drop, and only that is ensured. NULL, or what failed (static).
 */
const char *sandbox_drop(void) __attribute__((warn_unused_result));

/*
 * A filter of system calls. Calls that a lock agent never makes end the process (SIGSYS): to start
 * a program, to trace or change another process, to mount, to load code into the kernel, to become
 * somebody else. To make a process and to signal another one are refused with EPERM. All else that
 * is not listed, sockets but of Unix and IP and unusual ioctls among it, is answered with ENOSYS,
 * as by an older kernel: a newer libc then goes the older way. NULL, or why there is no filter
 * (static): the kernel has none, or the program carries sanitizers, which need more.
 */
const char *sandbox_filter(void) __attribute__((warn_unused_result));

/* The same for the process that closes (io/closer.h): it may receive, fork and kill its children.
 * false: there is none. */
bool sandbox_filter_closer(void) __attribute__((warn_unused_result));

/* The same for the process that removes (io/remover.h): besides, it may open, make, cut, empty and
 * remove files. */
bool sandbox_filter_remover(void) __attribute__((warn_unused_result));

#endif
