/*
 * The advice when there is no connection to the agent: see remedy.h.
 */
#include "remedy.h"

#include <errno.h>
#include <unistd.h>

#include "holdfast/holdfast.h"

bool configuration_missing(void)
{
    return access(SERVICE_CONFIGURATION, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

const char *remedy_of(int error)
{
    switch (error) {
    case HF_ENOAGENT:
        return configuration_missing()
                   ? "this host has no /etc/holdfast/holdfastd.ini: write it (holdfast setup), or "
                     "start an agent without it (holdfastd --dev, or holdfastd --config FILE)"
                   : "start it (systemctl start holdfastd)";
    case HF_EACCES:
        return "name this user in `users` of that configuration";
    default:
        return NULL;
    }
}
