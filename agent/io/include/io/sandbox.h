/*
 * The agent gives up powers that it does not need, so that an attacker who takes it over gains
 * little.
 *
 * sandbox_drop() and sandbox_filter() are irreversible, and every later thread inherits their
 * effect. The agent calls each of them once, while the process has one thread: before libuv and NNG
 * are set up, and so before it reads a byte from a client or another agent. Opening files and
 * looking up host names still work.
 */
#ifndef IO_SANDBOX_H
#define IO_SANDBOX_H

#include <stdbool.h>

/*
 * Drops every capability, also from the bounding set, except the capability to listen on ports
 * below 1024. A program that the agent might start cannot regain them. An agent that is not root
 * has no capabilities to drop; the call then only ensures that the agent gains none. Returns NULL,
 * or what failed (a static text).
 */
const char *sandbox_drop(void) __attribute__((warn_unused_result));

/*
 * Installs a filter of system calls. Calls that a lock agent never makes end the process (SIGSYS):
 * starting a program, tracing or changing another process, mounting, loading code into the kernel,
 * changing the user. Making a process and signalling another process fail with EPERM.
 *
 * Any other call that the filter does not list fails with ENOSYS, as on an older kernel, so that a
 * newer libc falls back to the older call. So do sockets of other families than Unix, IP and
 * netlink, and unusual ioctls.
 *
 * Returns NULL, or why there is no filter (a static text): the kernel has none, or the program is
 * built with sanitizers, which need more calls.
 */
const char *sandbox_filter(void) __attribute__((warn_unused_result));

/* Installs the filter for the process of io/closer.h. That process may receive, fork and kill its
 * children. Returns false on failure. */
bool sandbox_filter_closer(void) __attribute__((warn_unused_result));

/* Installs the filter for the process of io/remover.h. That process may also open, make, cut, empty
 * and remove files. Returns false on failure. */
bool sandbox_filter_remover(void) __attribute__((warn_unused_result));

#endif
