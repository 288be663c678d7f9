/*
 * The folders that the agent works in, and the locks that keep a second agent out of them.
 *
 * A user that may write to a folder can replace anything that the agent made in it, between any two
 * calls of the agent. So the folders of the state and of the socket must belong to the agent's user
 * (or root), nobody else may write to them, and nobody else may be able to replace a folder on the
 * way to them. The agent opens the files in these folders without following links, and checks each
 * file after it has opened it, never before.
 *
 * A folder of root with the sticky bit (/tmp, /dev/shm) is good enough for a socket: the agent
 * checks the owner of every file that it finds in it, and refuses files of other users. The owner
 * of a folder can replace everything in it, with or without the sticky bit. docs/SECURITY.md has
 * the table.
 */
#include "run/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"
#include "fail.h"
#include "io/socket.h"

/* The value of agent->own in folders_check() while it is unknown which user the agent will run
 * as. */
static const uid_t whoever = (uid_t)-1;

static bool is_own(const struct agent *agent, uid_t owner)
{
    return owner == agent->own || owner == 0 || agent->own == whoever;
}

/* In a user namespace root may have another number than 0. So the owner of the root folder is taken
 * for root. */
static bool is_trusted(const struct agent *agent, uid_t owner)
{
    struct stat top;
    return is_own(agent, owner) || (stat("/", &top) == 0 && owner == top.st_uid);
}

/* Returns whether every user may write to the folder, and so can replace a folder inside it. */
static bool is_open(const struct stat *status)
{
    return (status->st_mode & 0002) != 0 && (status->st_mode & S_ISVTX) == 0;
}

/* Returns whether the folder belongs to the agent's user and nobody else can write to it. state_dir
 * and the folders in it require that. */
static bool check_folder(struct agent *agent, const struct stat *status, const char *shown)
{
    if (status->st_uid == agent->own && (status->st_mode & 022) == 0) {
        return true;
    }
    agent_fail(
        agent, 0,
        "%s: found owner %u and mode %04o, expected owner %u and nobody else allowed to write",
        shown, (unsigned)status->st_uid, (unsigned)(status->st_mode & 07777), (unsigned)agent->own);
    return false;
}

/*
 * Checks each folder and link on the way to path. Each folder must belong to root or the agent's
 * user, and a folder that every user may write to must have the sticky bit. A link in a folder that
 * other users can write to must belong to root or the agent's user. If alone is true, the last
 * folder is left to check_folder(). On failure returns false with agent->error.
 */
static bool check_way(struct agent *agent, const char *path, bool alone)
{
    char upto[PATH_MAX];
    struct stat status;
    bool shared = false; /* other users can write to the previous folder */
    for (size_t at = 1; path[0] == '/' && at < sizeof(upto); at++) {
        if (path[at] != '/' && path[at] != '\0') {
            continue;
        }
        const bool last = path[at + strspn(path + at, "/")] == '\0';
        memcpy(upto, path, at);
        upto[at] = '\0';
        if (lstat(upto, &status) != 0) {
            return true; /* the code that needs the file reports the fault */
        }
        if (S_ISLNK(status.st_mode) && shared && !is_own(agent, status.st_uid)) {
            agent_fail(
                agent, 0,
                "%s: found a symbolic link of user %u in a folder that every user may write to, "
                "expected none",
                upto, (unsigned)status.st_uid);
            return false;
        }
        if (S_ISLNK(status.st_mode) && stat(upto, &status) != 0) {
            return true;
        }
        if (last && alone) {
            break;
        }
        if (S_ISDIR(status.st_mode) && is_open(&status)) {
            agent_fail(
                agent, 0,
                "%s: found a folder that every user may write to (mode %04o), expected one that "
                "others may not write to, or the sticky bit",
                upto, (unsigned)(status.st_mode & 07777));
            return false;
        }
        if (S_ISDIR(status.st_mode) && !is_trusted(agent, status.st_uid)) {
            agent_fail(agent, 0,
                       "%s: expected a folder of this agent's user or root, found user %u's", upto,
                       (unsigned)status.st_uid);
            return false;
        }
        shared = (status.st_mode & 0002) != 0;
        if (last) {
            break;
        }
    }
    return true;
}

/* Opens a folder that nobody else may write to. Makes it (0700) if it is missing. On failure
 * returns -1 with agent->error. */
static int open_folder(struct agent *agent, int at, const char *path, const char *shown)
{
    struct stat status;
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (at == AT_FDCWD ? 0 : O_NOFOLLOW);
    /* An existing folder is opened without a call of mkdirat(), because mkdirat() needs the
     * kernel's lock on the parent. Any user that may list the parent can keep that lock
     * (docs/SECURITY.md, "Locks of the kernel that a client can keep"). */
    int fd = openat(at, path, flags);
    if (fd < 0 && errno == ENOENT) {
        if (mkdirat(at, path, 0700) != 0 && errno != EEXIST) {
            return agent_fail(agent, -1, "%s: cannot make the folder: %s", shown, strerror(errno));
        }
        fd = openat(at, path, flags);
    }
    if (fd < 0 || fstat(fd, &status) != 0) {
        agent_fail(agent, -1, "%s: %s", shown, strerror(errno));
        if (fd >= 0) {
            close(fd);
        }
        return -1;
    }
    if (!check_folder(agent, &status, shown)) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Locks a file for the life of this process. On failure returns -1 with agent->error. */
static int take_lock(struct agent *agent, int at, const char *path, const char *what)
{
    struct stat status;
    int fd = openat(at, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) {
        return agent_fail(agent, -1, "%s: cannot open the lock file: %s", path, strerror(errno));
    }
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != agent->own ||
        status.st_nlink != 1) {
        close(fd);
        return agent_fail(agent, -1, "%s: expected a file of this agent's user and nobody else's",
                          path);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int error = errno;
        close(fd);
        if (error == EWOULDBLOCK) {
            return agent_fail(agent, -1, "%s: in use by another agent", what);
        }
        return agent_fail(agent, -1, "%s: cannot lock it: %s", path, strerror(error));
    }
    return fd;
}

/* Returns the folder of the socket; NULL if it is the root folder. */
static const char *socket_folder(const struct agent *agent, char folder[CONFIG_SOCKET_MAX])
{
    snprintf(folder, CONFIG_SOCKET_MAX, "%s", agent->config.socket);
    char *slash = strrchr(folder, '/');
    if (slash == NULL || slash == folder) {
        return NULL;
    }
    *slash = '\0';
    return folder;
}

/* Checks the socket's folder, because a user that may write to it could replace the socket. */
static bool check_socket_folder(struct agent *agent, const char *folder)
{
    struct stat status;
    if (!check_way(agent, folder, false)) {
        return false;
    }
    if (stat(folder, &status) != 0 || !S_ISDIR(status.st_mode) ||
        !is_trusted(agent, status.st_uid)) {
        agent_fail(agent, 0, "%s: expected a folder of this agent's user or root", folder);
        return false;
    }
    return true;
}

/* Makes the socket's folder if it is missing. Its parent must exist. */
static bool make_socket_folder(struct agent *agent)
{
    char buffer[CONFIG_SOCKET_MAX];
    const char *folder = socket_folder(agent, buffer);
    if (folder == NULL) {
        return true;
    }
    /* Other users may enter the folder but not list it (0711). A user that may list it can keep the
     * kernel's lock on it for as long as it likes (it lists into a buffer whose pages never
     * arrive). Meanwhile no agent could remove or make its socket. */
    mode_t mode = config_admits_others(&agent->config, agent->own) ? 0711 : 0700;
    if (access(folder, F_OK) == 0) { /* comes before mkdir() for the reason in open_folder() */
        return check_socket_folder(agent, folder);
    }
    if (mkdir(folder, mode) == 0) {
        (void)chmod(folder, mode); /* the umask may have cleared bits */
    } else if (errno != EEXIST) {
        agent_fail(agent, 0, "%s: cannot make the socket's folder: %s", folder, strerror(errno));
        return false;
    }
    return check_socket_folder(agent, folder);
}

void folders_init(struct agent *agent, struct folders_locks *locks)
{
    agent->state_fd = agent->clients_fd = locks->state_fd = locks->socket_fd = -1;
}

void folders_close(struct agent *agent, struct folders_locks *locks)
{
    /* The locks are closed last, so that a second agent starts only when everything else is
     * closed. */
    int *const fds[] = {&agent->clients_fd, &agent->state_fd, &locks->socket_fd, &locks->state_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++) {
        if (*fds[i] >= 0) {
            close(*fds[i]);
        }
        *fds[i] = -1;
    }
}

/* The user that runs --check-config need not be the user that the agent will run as. So the owner
 * of state_dir is taken for the agent's user. */
bool folders_check(struct agent *agent)
{
    static const char *const inner[] = {"", "/clients"};
    const char *state_dir = agent->config.state_dir;
    char path[PATH_MAX + 16];
    char buffer[CONFIG_SOCKET_MAX];
    const char *folder = socket_folder(agent, buffer);
    struct stat status;
    agent->own = stat(state_dir, &status) == 0 ? status.st_uid : whoever;
    if (!check_way(agent, state_dir, true)) {
        return false;
    }
    for (size_t i = 0; i < sizeof(inner) / sizeof(inner[0]); i++) {
        snprintf(path, sizeof(path), "%s%s", state_dir, inner[i]);
        if (stat(path, &status) != 0) {
            continue; /* the path does not exist yet, or this user may not see it */
        }
        if (!S_ISDIR(status.st_mode)) {
            agent_fail(agent, 0, "%s: %s", path, strerror(ENOTDIR));
            return false;
        }
        if (!check_folder(agent, &status, path)) {
            return false;
        }
    }
    return folder == NULL || access(folder, F_OK) != 0 || check_socket_folder(agent, folder);
}

int folders_lock_socket(struct agent *agent)
{
    char lock[CONFIG_SOCKET_MAX + 8];
    snprintf(lock, sizeof(lock), "%s.lock", agent->config.socket);
    return take_lock(agent, AT_FDCWD, lock, agent->config.socket);
}

int folders_open(struct agent *agent, struct folders_locks *locks)
{
    const struct config *config = &agent->config;
    char error[SOCKET_ERROR_MAX];
    if (!check_way(agent, config->state_dir, true)) {
        return AGENT_EXIT_UNAVAILABLE;
    }
    agent->state_fd = open_folder(agent, AT_FDCWD, config->state_dir, config->state_dir);
    if (agent->state_fd < 0) {
        return AGENT_EXIT_UNAVAILABLE;
    }
    locks->state_fd = take_lock(agent, agent->state_fd, "lock", config->state_dir);
    if (locks->state_fd < 0) {
        return AGENT_EXIT_SOFTWARE;
    }
    agent->clients_fd = open_folder(agent, agent->state_fd, "clients", "clients");
    if (agent->clients_fd < 0 || !make_socket_folder(agent)) {
        return AGENT_EXIT_UNAVAILABLE;
    }
    locks->socket_fd = folders_lock_socket(agent);
    if (locks->socket_fd < 0) {
        return AGENT_EXIT_SOFTWARE;
    }
    if (socket_path_error(config->socket, error) != NULL) {
        return agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", error);
    }
    return AGENT_EXIT_OK;
}
