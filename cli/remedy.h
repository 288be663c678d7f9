/*
 * Says what to do when no agent answers on this host, or when it refuses the user. Without the
 * service's configuration, `systemctl start holdfastd` fails, so then `holdfast setup` comes first.
 */
#ifndef HOLDFAST_CLI_REMEDY_H
#define HOLDFAST_CLI_REMEDY_H

#include <stdbool.h>

/* The configuration that the service reads. */
#define SERVICE_CONFIGURATION "/etc/holdfast/holdfastd.ini"

/* Returns whether the file that the service reads is missing. If this process may not look for it,
 * the file counts as present. */
bool configuration_missing(void);

/* Returns what to do about that error, which prevented a connection to the agent: a static string
 * such as "start it (...)". Returns NULL if there is no advice. */
const char *remedy_of(int error);

#endif
