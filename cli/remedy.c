/*
 * The advice when there is no connection to the agent: see remedy.h.
 */
#include "remedy.h"

#include <errno.h>
#include <stdio.h>
#include <unistd.h>

#include "holdfast/holdfast.h"
#include "socket_path.h"

bool configuration_missing(void)
{
    return access(SERVICE_CONFIGURATION, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

void remedy_write_own(char *out, size_t size, const char *path)
{
    snprintf(out, size,
             "`ss -xlp src %s`, as root, shows which process listens there, if any; start the "
             "agent that has this path as `socket` in its configuration, or the socket's folder as "
             "--state-dir (holdfastd --dev)",
             path);
}

bool remedy_write(char *out, size_t size, int error, const struct socket_path *path)
{
    if (error == HF_ENOAGENT && path->own) {
        remedy_write_own(out, size, path->path);
    } else if (error == HF_ENOAGENT && configuration_missing()) {
        snprintf(out, size,
                 "this host has no /etc/holdfast/holdfastd.ini: write it (holdfast setup), or "
                 "start an agent without it (holdfastd --dev, or holdfastd --config FILE)");
    } else if (error == HF_ENOAGENT) {
        snprintf(out, size, "start it (systemctl start holdfastd)");
    } else if (error == HF_EACCES) {
        snprintf(out, size, "name this user in `users` of that configuration");
    } else {
        out[0] = '\0';
    }
    return out[0] != '\0';
}
