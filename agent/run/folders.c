/*
 * The folders that the agent works in, and the locks that keep a second agent out of them.
 *
 * Whoever may write to a folder can put something else in the place of what the agent made there,
 * between any two of its calls. So the state's folder and the socket's must be the agent's own (or
 * root's), writable by nobody else; and on the way to them nobody else may exchange a folder
 * either. What is in them is then opened without following links, and looked at after it was
 * opened, never before. A folder of root's with the sticky bit (/tmp, /dev/shm) will do for a
 * socket: the agent recognises what others put there by its owner, and refuses it. The owner of a
 * folder may exchange everything in it, sticky or not. docs/SECURITY.md has the table.
 */
#include "run/folders.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent.h"

__attribute__((format(printf, 3, 4))) static int fail(struct agent *agent, int code,
                                                      const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(agent->error, sizeof(agent->error), format, arguments);
    va_end(arguments);
    return code;
}

/* agent->own of folders_check() while nobody knows which user the agent will be. */
static const uid_t whoever = (uid_t)-1;

static bool is_own(const struct agent *agent, uid_t owner)
{
    return owner == agent->own || owner == 0 || agent->own == whoever;
}

/* Where root is not known by its number (a namespace of users), it owns the root folder. */
static bool is_trusted(const struct agent *agent, uid_t owner)
{
    struct stat top;
    return is_own(agent, owner) || (stat("/", &top) == 0 && owner == top.st_uid);
}

/* Whether somebody else could put another folder in the place of one in this. */
static bool is_open(const struct stat *status)
{
    return (status->st_mode & 0002) != 0 && (status->st_mode & S_ISVTX) == 0;
}

/* Whether it is the agent's alone, as state_dir and the folders in it must be. */
static bool check_folder(struct agent *agent, const struct stat *status, const char *shown)
{
    if (status->st_uid == agent->own && (status->st_mode & 022) == 0) {
        return true;
    }
    fail(agent, 0,
         "%s: found owner %u and mode %04o, expected owner %u and nobody else allowed to write",
         shown, (unsigned)status->st_uid, (unsigned)(status->st_mode & 07777),
         (unsigned)agent->own);
    return false;
}

/*
 * Looks at each folder on the way to path, and at the links: nobody but root and the agent's user
 * may have laid a link where others can write, nor may a folder be theirs or anybody's to write to.
 * The last one is left to check_folder() if it is to be the agent's alone. false: agent->error.
 */
static bool check_way(struct agent *agent, const char *path, bool alone)
{
    char upto[PATH_MAX];
    struct stat status;
    bool shared = false; /* the folder before is one that others can write to */
    for (size_t at = 1; path[0] == '/' && at < sizeof(upto); at++) {
        if (path[at] != '/' && path[at] != '\0') {
            continue;
        }
        const bool last = path[at + strspn(path + at, "/")] == '\0';
        memcpy(upto, path, at);
        upto[at] = '\0';
        if (lstat(upto, &status) != 0) {
            return true; /* the code that needs it reports the fault */
        }
        if (S_ISLNK(status.st_mode) && shared && !is_own(agent, status.st_uid)) {
            fail(agent, 0, "%s: found a link of user %u in a folder of everybody, expected none",
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
            fail(agent, 0,
                 "%s: found a folder that everybody may write to (mode %04o), expected one that "
                 "others may not write to, or the sticky bit",
                 upto, (unsigned)(status.st_mode & 07777));
            return false;
        }
        if (S_ISDIR(status.st_mode) && !is_trusted(agent, status.st_uid)) {
            fail(agent, 0, "%s: expected a folder of this agent's user or root, found user %u's",
                 upto, (unsigned)status.st_uid);
            return false;
        }
        shared = (status.st_mode & 0002) != 0;
        if (last) {
            break;
        }
    }
    return true;
}

/* Opens a folder, made 0700 if it is missing, that nobody else may write to. -1: agent->error. */
static int open_folder(struct agent *agent, int at, const char *path, const char *shown)
{
    struct stat status;
    const int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | (at == AT_FDCWD ? 0 : O_NOFOLLOW);
    /* A folder that is there is found without its parent's lock, which any user can keep that may
     * list the parent (docs/SECURITY.md, "Locks of the kernel that a client can keep"). */
    int fd = openat(at, path, flags);
    if (fd < 0 && errno == ENOENT) {
        if (mkdirat(at, path, 0700) != 0 && errno != EEXIST) {
            return fail(agent, -1, "%s: cannot make the folder: %s", shown, strerror(errno));
        }
        fd = openat(at, path, flags);
    }
    if (fd < 0 || fstat(fd, &status) != 0) {
        fail(agent, -1, "%s: %s", shown, strerror(errno));
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

/* A lock on a file, for the life of this process. -1: agent->error. */
static int take_lock(struct agent *agent, int at, const char *path, const char *what)
{
    struct stat status;
    int fd = openat(at, path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
    if (fd < 0) {
        return fail(agent, -1, "%s: cannot open the lock file: %s", path, strerror(errno));
    }
    if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode) || status.st_uid != agent->own ||
        status.st_nlink != 1) {
        close(fd);
        return fail(agent, -1, "%s: expected a file of this agent's user and nobody else's", path);
    }
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        int error = errno;
        close(fd);
        if (error == EWOULDBLOCK) {
            return fail(agent, -1, "%s: in use by another agent", what);
        }
        return fail(agent, -1, "%s: cannot lock it: %s", path, strerror(error));
    }
    return fd;
}

/* The folder of the socket, NULL: the root folder. */
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

/* Another user that may write to the socket's folder could take the socket's place. */
static bool check_socket_folder(struct agent *agent, const char *folder)
{
    struct stat status;
    if (!check_way(agent, folder, false)) {
        return false;
    }
    if (stat(folder, &status) != 0 || !S_ISDIR(status.st_mode) ||
        !is_trusted(agent, status.st_uid)) {
        fail(agent, 0, "%s: expected a folder of this agent's user or root", folder);
        return false;
    }
    return true;
}

/* It is made if it is missing; its parent must exist. */
static bool make_socket_folder(struct agent *agent)
{
    char buffer[CONFIG_SOCKET_MAX];
    const char *folder = socket_folder(agent, buffer);
    if (folder == NULL) {
        return true;
    }
    /* Not to be listed: a user that lists it can keep the kernel's lock on it as long as it likes
     * (by a buffer whose pages never come), and no agent removes and makes its socket meanwhile. */
    mode_t mode = config_admits_others(&agent->config, agent->own) ? 0711 : 0700;
    if (access(folder, F_OK) == 0) { /* as in open_folder() */
        return check_socket_folder(agent, folder);
    }
    if (mkdir(folder, mode) == 0) {
        (void)chmod(folder, mode); /* whatever the umask is */
    } else if (errno != EEXIST) {
        fail(agent, 0, "%s: cannot make the socket's folder: %s", folder, strerror(errno));
        return false;
    }
    return check_socket_folder(agent, folder);
}

/* The user that checks a file may be another one than the agent will be: the latter owns
 * state_dir. */
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
            continue; /* it is to be made, or not for this user's eyes */
        }
        if (!S_ISDIR(status.st_mode)) {
            fail(agent, 0, "%s: %s", path, strerror(ENOTDIR));
            return false;
        }
        if (!check_folder(agent, &status, path)) {
            return false;
        }
    }
    return folder == NULL || access(folder, F_OK) != 0 || check_socket_folder(agent, folder);
}

int folders_open(struct agent *agent)
{
    const struct config *config = &agent->config;
    char socket_lock[CONFIG_SOCKET_MAX + 8];
    char error[SOCKET_ERROR_MAX];
    if (!check_way(agent, config->state_dir, true)) {
        return AGENT_EXIT_UNAVAILABLE;
    }
    agent->state_fd = open_folder(agent, AT_FDCWD, config->state_dir, config->state_dir);
    if (agent->state_fd < 0) {
        return AGENT_EXIT_UNAVAILABLE;
    }
    agent->lock_fd = take_lock(agent, agent->state_fd, "lock", config->state_dir);
    if (agent->lock_fd < 0) {
        return AGENT_EXIT_SOFTWARE;
    }
    agent->clients_fd = open_folder(agent, agent->state_fd, "clients", "clients");
    if (agent->clients_fd < 0 || !make_socket_folder(agent)) {
        return AGENT_EXIT_UNAVAILABLE;
    }
    snprintf(socket_lock, sizeof(socket_lock), "%s.lock", config->socket);
    agent->socket_lock_fd = take_lock(agent, AT_FDCWD, socket_lock, config->socket);
    if (agent->socket_lock_fd < 0) {
        return AGENT_EXIT_SOFTWARE;
    }
    if (socket_path_error(config->socket, error) != NULL) {
        return fail(agent, AGENT_EXIT_SOFTWARE, "%s", error);
    }
    return AGENT_EXIT_OK;
}
