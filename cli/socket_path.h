/*
 * The path at which this host's agent is looked for, and why there. The library makes the choice
 * (holdfast.h, hf_options). This code only shows it to people.
 */
#ifndef HOLDFAST_CLI_SOCKET_PATH_H
#define HOLDFAST_CLI_SOCKET_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "cli.h"

enum { SOCKET_PATH_TEXT_MAX = 256 };

struct socket_path {
    char path[SOCKET_PATH_TEXT_MAX]; /* cut if it is longer */
    size_t size;                     /* bytes of the whole path */
    size_t size_max;                 /* the longest path that a socket can have */
    const char *from;                /* why this path: static */
};

/* Finds the path at which no agent answered. Of the two default paths it is the one where a socket
 * is. */
void socket_path_find(const struct cli *cli, struct socket_path *out);

/* The same for a path at which an agent answered (hf_socket()). Returns true if that is not the
 * system's agent although the system's socket exists: the system's agent has ended. */
bool socket_path_used(const struct cli *cli, const char *path, struct socket_path *out);

#endif
