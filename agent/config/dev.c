/*
 * The configuration of --dev: see config.h. It makes a cell of this host alone, which keeps
 * everything in one folder and reads no file.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/config.h"

/* Makes the DIR of --state-dir absolute, so that the check of owners covers every folder on the way
 * to it. Returns the length of the path; 0 if DIR is empty or there is no current folder. */
static size_t dev_state_dir(const char *given, char *out, size_t size)
{
    char here[PATH_MAX];
    if (given[0] == '/' || given[0] == '\0') {
        return (size_t)snprintf(out, size, "%s", given);
    }
    if (getcwd(here, sizeof(here)) == NULL || here[0] != '/') {
        return 0;
    }
    return (size_t)snprintf(out, size, "%s/%s", strcmp(here, "/") == 0 ? "" : here, given);
}

enum config_result config_dev(struct config *config, const char *state_dir, const char *profile,
                              char *error)
{
    char chosen[PATH_MAX];
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    size_t length;
    config_defaults(config);
    config->dev = true;
    config->grace_ns = config->session_ttl_ns;
    snprintf(config->agent, sizeof(config->agent), "%s", "dev");
    snprintf(config->cell, sizeof(config->cell), "%s", "dev");
    config_finish_voters(config);
    config->profile = profile != NULL ? profile_find(profile) : &profile_standard;
    if (config->profile == NULL) {
        snprintf(error, CONFIG_ERROR_MAX, "--profile: found \"%.80s\", expected standard or small",
                 profile);
        return CONFIG_WRONG;
    }
    config_finish_limits(config);
    if (state_dir != NULL) {
        length = dev_state_dir(state_dir, chosen, sizeof(chosen));
    } else if (runtime != NULL && runtime[0] == '/') {
        length = (size_t)snprintf(chosen, sizeof(chosen), "%s/holdfast", runtime);
    } else if (geteuid() == 0) {
        length = (size_t)snprintf(chosen, sizeof(chosen), "/run/holdfast");
    } else {
        snprintf(error, CONFIG_ERROR_MAX,
                 "--dev: found no XDG_RUNTIME_DIR in the environment, expected it or "
                 "--state-dir DIR");
        return CONFIG_WRONG;
    }
    while (length > 1 && length < sizeof(chosen) && chosen[length - 1] == '/') {
        chosen[--length] = '\0';
    }
    if (length == 0 || length + strlen("/agent.sock.lock") >= CONFIG_SOCKET_MAX) {
        snprintf(error, CONFIG_ERROR_MAX,
                 "--state-dir: found a path of %zu bytes, expected 1 to %zu (a socket's path is "
                 "short)",
                 length, CONFIG_SOCKET_MAX - strlen("/agent.sock.lock") - 1);
        return CONFIG_WRONG;
    }
    memcpy(config->state_dir, chosen, length + 1);
    memcpy(config->socket, chosen, length);
    snprintf(config->socket + length, sizeof(config->socket) - length, "/agent.sock");
    return CONFIG_OK;
}
