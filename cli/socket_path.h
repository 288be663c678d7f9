/*
 * The path at which the library looks for this host's agent, and why it looks there. The library
 * makes the choice (struct hf_options in holdfast.h). This code only shows the path to people.
 */
#ifndef HOLDFAST_CLI_SOCKET_PATH_H
#define HOLDFAST_CLI_SOCKET_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "cli.h"

/* Where the system's agent listens. */
#define SYSTEM_SOCKET "/run/holdfast/agent.sock"

enum { SOCKET_PATH_TEXT_MAX = 256 };

struct socket_path {
    char path[SOCKET_PATH_TEXT_MAX]; /* cut off if the path is longer */
    size_t size;                     /* bytes of the whole path */
    size_t size_max;                 /* the longest path that a socket can have */
    /* where the path comes from, such as an option: a static string */
    const char *from;
    /* the user chose the path, and it is not the path of the system's agent; so it may be that of
     * any agent */
    bool own;
};

/* Finds the path to name in a report that no agent answers: the path that the user chose, or else a
 * default path. Chooses the default below XDG_RUNTIME_DIR only if there is a socket at that path
 * and none at the system's path. */
void socket_path_find(const struct cli *cli, struct socket_path *out);

/* Fills in *out for `path`, at which an agent answered (hf_socket()). Returns true if that agent is
 * the user's own although this host has the socket or the configuration of a system's agent. In
 * this case the system's agent does not run. */
bool socket_path_used(const struct cli *cli, const char *path, struct socket_path *out);

#endif
