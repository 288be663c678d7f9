/*
 * Finds the path at which the library looks for this host's agent: see socket_path.h.
 */
#include "socket_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "remedy.h"

enum { PATH_SIZE_MAX = sizeof(((struct sockaddr_un *)0)->sun_path) - 1 };

static void path_set(struct socket_path *out, const char *path, const char *from)
{
    snprintf(out->path, sizeof(out->path), "%s", path);
    out->size = strlen(path);
    out->size_max = PATH_SIZE_MAX;
    out->from = from;
    out->own = false;
}

/* Returns whether the user chose a socket, by -s or by HOLDFAST_SOCKET. */
static bool path_named(const struct cli *cli, struct socket_path *out)
{
    const char *set = secure_getenv("HOLDFAST_SOCKET");

    if (cli->socket != NULL) {
        path_set(out, cli->socket, "from --socket");
    } else if (set != NULL && *set != '\0') {
        path_set(out, set, "from HOLDFAST_SOCKET");
    } else {
        return false;
    }
    out->own = strcmp(out->path, SYSTEM_SOCKET) != 0;
    return true;
}

/* Writes the path below XDG_RUNTIME_DIR. Returns false if the library does not look for an agent at
 * such a path. */
static bool path_runtime(char path[PATH_SIZE_MAX + 1])
{
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");

    return runtime != NULL && *runtime == '/' &&
           snprintf(path, PATH_SIZE_MAX + 1, "%s/holdfast/agent.sock", runtime) <= PATH_SIZE_MAX;
}

void socket_path_find(const struct cli *cli, struct socket_path *out)
{
    char runtime[PATH_SIZE_MAX + 1];

    if (path_named(cli, out)) {
        return;
    }
    if (!path_runtime(runtime) || access(SYSTEM_SOCKET, F_OK) == 0) {
        path_set(out, SYSTEM_SOCKET, "the default");
    } else if (access(runtime, F_OK) == 0) {
        path_set(out, runtime, "by XDG_RUNTIME_DIR, as there is no /run/holdfast/agent.sock");
    } else {
        path_set(out, SYSTEM_SOCKET,
                 "the default; there is no holdfast/agent.sock below XDG_RUNTIME_DIR either");
    }
}

bool socket_path_used(const struct cli *cli, const char *path, struct socket_path *out)
{
    bool passed_over = false;

    if (path_named(cli, out)) {
        return false;
    }
    if (strcmp(path, SYSTEM_SOCKET) == 0) {
        path_set(out, path, "the default");
    } else {
        const bool there = access(SYSTEM_SOCKET, F_OK) == 0;
        passed_over = there || !configuration_missing();
        path_set(out, path,
                 there ? "by XDG_RUNTIME_DIR, as the agent of /run/holdfast/agent.sock has ended"
                       : "by XDG_RUNTIME_DIR, as there is no /run/holdfast/agent.sock");
    }
    return passed_over;
}
