/*
 * The agent gives up powers that it does not need, so that an attacker that takes it over gains
 * little.
 *
 * Both calls are irreversible, and every later thread inherits their effect. The agent makes each
 * call once, while the process has one thread: before libuv and NNG are set up, and so before it
 * reads a byte from a client or another agent. Files and the resolver go on working.
 */
#ifndef IO_SANDBOX_H
#define IO_SANDBOX_H

#include <stdbool.h>

/*
 * Drops every capability, from the bounding set, too, except the one to listen on ports below 1024.
 * A program that the agent might start cannot regain them. An agent that is not root has no
 * capabilities to drop; then the call only ensures that it gains none. Returns NULL, or what failed
 * (static).
 */
const char *sandbox_drop(void) __attribute__((warn_unused_result));

/*
 * Installs a filter of system calls. Calls that a lock agent never makes end the process (SIGSYS):
 * starting a program, tracing or changing another process, mounting, loading code into the kernel,
 * changing the user. Making a process and signalling another one fail with EPERM. Any other call
 * that is not listed fails with ENOSYS, as on an older kernel, so that a newer libc uses the older
 * call; sockets of other families than Unix and IP, and unusual ioctls, are among these. Returns
 * NULL, or why there is no filter (static): the kernel has none, or the program is built with
 * sanitizers, which need more calls.
 */
const char *sandbox_filter(void) __attribute__((warn_unused_result));

/* Installs the filter for the process of io/closer.h, which may receive, fork and kill its
 * children. Returns false on failure. */
bool sandbox_filter_closer(void) __attribute__((warn_unused_result));

/* Installs the filter for the process of io/remover.h, which may also open, make, cut, empty and
 * remove files. */
bool sandbox_filter_remover(void) __attribute__((warn_unused_result));

#endif
