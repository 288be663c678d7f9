/*
 * The path at which this host's agent is looked for: see socket_path.h.
 */
#include "socket_path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

static const char system_path[] = "/run/holdfast/agent.sock";

static void path_set(struct socket_path *out, const char *path, const char *from)
{
    snprintf(out->path, sizeof(out->path), "%s", path);
    out->size = strlen(path);
    out->from = from;
}

/* Returns false if the library does not look there. */
static bool path_runtime(struct socket_path *out)
{
    const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    bool there;

    if (runtime == NULL || *runtime != '/' ||
        snprintf(path, sizeof(path), "%s/holdfast/agent.sock", runtime) >= (int)sizeof(path)) {
        return false;
    }
    there = access(path, F_OK) == 0;
    if (!there && access(system_path, F_OK) == 0) {
        return false;
    }
    path_set(out, path,
             there ? "the default, by XDG_RUNTIME_DIR"
                   : "the default, by XDG_RUNTIME_DIR; /run/holdfast/agent.sock is not there "
                     "either");
    return true;
}

void socket_path_find(const struct cli *cli, struct socket_path *out)
{
    const char *set = secure_getenv("HOLDFAST_SOCKET");

    out->size_max = sizeof(((struct sockaddr_un *)0)->sun_path) - 1;
    if (cli->socket != NULL) {
        path_set(out, cli->socket, "from --socket");
    } else if (set != NULL && *set != '\0') {
        path_set(out, set, "from HOLDFAST_SOCKET");
    } else if (!path_runtime(out)) {
        path_set(out, system_path, "the default");
    }
}
