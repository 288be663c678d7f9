/*
 * Says what to do when no agent answers on this host, or when it refuses the user. Without the
 * service's configuration, `systemctl start holdfastd` fails, so then `holdfast setup` comes first.
 * But if the user named the socket of another agent, the service is not meant: then the advice is
 * how to find the agent of that socket.
 */
#ifndef HOLDFAST_CLI_REMEDY_H
#define HOLDFAST_CLI_REMEDY_H

#include <stdbool.h>
#include <stddef.h>

struct socket_path;

/* The configuration that the service reads. */
#define SERVICE_CONFIGURATION "/etc/holdfast/holdfastd.ini"

/* Returns whether the file that the service reads is missing. If this process may not look for it,
 * the file counts as present. */
bool configuration_missing(void);

/* Writes what to do about that error, which prevented a connection to the agent at that path: such
 * as "start it (...)". Returns false, and writes "", if there is no advice. */
bool remedy_write(char *out, size_t size, int error, const struct socket_path *path);

/* Writes how to find out which agent belongs to a socket that the user named, and that it is to be
 * started. */
void remedy_write_own(char *out, size_t size, const char *path);

#endif
