/* Makes the socket's file again: see run/door.h. */
#include "run/door.h"

#include <errno.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>

#include "observe/files.h"
#include "observe/log.h"
#include "run/start.h"
#include "serve/serve.h"

/* Returns why the file cannot be made without the risk of a wait; NULL: it can be made. */
static const char *why_unsafe(const struct agent *agent)
{
    struct stat status;
    struct statfs system;
    int folder = files_socket_folder(agent);
    if (fstat(folder, &status) != 0 || fstatfs(folder, &system) != 0) {
        return strerror(errno);
    }
    if (status.st_nlink == 0) {
        return "its folder was removed, too: restart the agent";
    }
    if (system.f_type != TMPFS_MAGIC && system.f_type != RAMFS_MAGIC) {
        return "its folder is on a disk, for which the agent would have to wait: restart the agent";
    }
    if ((status.st_mode & 066) != 0) {
        return "others may list its folder, and could make the agent wait: restart the agent";
    }
    return NULL;
}

/* Makes the socket's file again. Returns why that failed; NULL: the file exists again. */
static const char *make_again(struct agent *agent)
{
    const char *why = why_unsafe(agent);
    if (why != NULL) {
        return why;
    }
    if (!agent_lock_socket_again(agent) || !serve_listen_again(agent, agent->error)) {
        return agent->error;
    }
    files_open_socket(agent);
    return NULL;
}

void door_look(struct agent *agent, bool *logged)
{
    if (!serve_is_open(agent)) {
        return;
    }
    if (!files_socket_known(agent) && why_unsafe(agent) == NULL) {
        files_open_socket_late(agent);
    }
    if (!files_socket_gone(agent)) {
        return;
    }
    const char *why = make_again(agent);
    struct log_line line;
    if (why == NULL) {
        log_begin(&line, LOG_LEVEL_WARN, "socket_made_again");
        log_text(&line, "socket", agent->config.socket);
        log_text(&line, "text", "somebody had removed it; new processes find the agent again");
        log_end(&line);
    } else if (!*logged) {
        log_begin(&line, LOG_LEVEL_ERROR, "socket_gone");
        log_text(&line, "socket", agent->config.socket);
        log_text(&line, "text", why);
        log_end(&line);
    }
    *logged = why != NULL;
}
