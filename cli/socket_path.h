/*
 * The path at which this host's agent is looked for, and its source. The library chooses by itself
 * (holdfast.h, hf_options); this shows a person the choice.
 */
#ifndef HOLDFAST_CLI_SOCKET_PATH_H
#define HOLDFAST_CLI_SOCKET_PATH_H

#include <stddef.h>

#include "cli.h"

enum { SOCKET_PATH_TEXT_MAX = 256 };

struct socket_path {
    char path[SOCKET_PATH_TEXT_MAX]; /* cut if it is longer */
    size_t size;                     /* of the whole path, in bytes */
    size_t size_max;                 /* what a socket's path can have */
    const char *from;                /* what says so: static */
};

/* As of now: of the two default places the one where a socket is. */
void socket_path_find(const struct cli *cli, struct socket_path *out);

#endif
