/*
 * The advice when no agent answers: see remedy.h.
 */
#include "remedy.h"

#include <errno.h>
#include <unistd.h>

bool configuration_missing(void)
{
    return access(SERVICE_CONFIGURATION, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR);
}

const char *remedy_no_agent(void)
{
    return configuration_missing()
               ? "this host has no /etc/holdfast/holdfastd.ini: write it (holdfast setup), or "
                 "start an agent without it (holdfastd --dev, or holdfastd --config FILE)"
               : "start it (systemctl start holdfastd)";
}
