/*
 * Says what to do when no agent answers on this host. Without the service's configuration,
 * `systemctl start holdfastd` fails, so then `holdfast setup` comes first.
 */
#ifndef HOLDFAST_CLI_REMEDY_H
#define HOLDFAST_CLI_REMEDY_H

#include <stdbool.h>

/* The configuration that the service reads. */
#define SERVICE_CONFIGURATION "/etc/holdfast/holdfastd.ini"

/* Returns whether the file that the service reads is missing. If this process must not look for it,
 * it counts as there. */
bool configuration_missing(void);

/* Returns the step that brings an agent to this host: a static string such as "start it (...)". */
const char *remedy_no_agent(void);

#endif
