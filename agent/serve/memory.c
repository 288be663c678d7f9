/*
 * The agent's folder in /dev/shm: see serve/memory.h.
 *
 *   /dev/shm/holdfast.CELL.AGENT.STOREID/             0700
 *       lease                                         io/lease_file.h
 *       NAMESPACE.INCARNATION/region                  io/region.h
 *
 * The lease page, which no client maps, names the incarnation of each namespace's region. A folder
 * of another incarnation belongs to a region that was given up and could not be removed yet, or to
 * a region that an agent was making when it was killed. The next start orders the removal of such
 * folders.
 */
#include "serve/memory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fail.h"
#include "io/clock.h"
#include "io/region.h"
#include "observe/log.h"

enum {
    OPEN_FIRST_MS = 5000,  /* after this time the log names the cause of the wait */
    OPEN_LATER_MS = 10000, /* after this further time the agent exits, before TimeoutStartSec
                            * (systemd/) is over */
    LOCKED_MS = 5000,      /* after this time the agent exits, because the folder stays locked */
    PAUSE_MS = 20,         /* the pause between two tries to lock the folder */
    SWEEP_MAX = 1 << 16,
};

struct memory {
    int fd; /* the folder */
    char folder[REGION_FOLDER_MAX];
    bool removals_logged; /* it is already logged that files stay in /dev/shm */
};

/* ---- the folder ---- */

static void name_folder(struct agent *agent)
{
    struct hfi_region_identity identity = {.grace_ns = 0};
    memcpy(identity.store_id, agent->meta.store_id, sizeof(identity.store_id));
    snprintf(identity.cell, sizeof(identity.cell), "%s", agent->config.cell);
    snprintf(identity.agent, sizeof(identity.agent), "%s", agent->config.agent);
    region_folder_name(&identity, agent->memory->folder);
}

static int log_why_not(struct agent *agent, int error)
{
    switch (error) {
    case ETIMEDOUT:
        return agent_fail(
            agent, AGENT_EXIT_UNAVAILABLE,
            "/dev/shm%s: cannot be made: some process keeps /dev/shm locked, by a system "
            "call that does not end: find that process and end it (docs/SECURITY.md, "
            "\"Locks of the kernel that a client can keep\")",
            agent->memory->folder);
    case ENOTDIR:
    case ELOOP:
        return agent_fail(
            agent, AGENT_EXIT_UNAVAILABLE,
            "/dev/shm%s: found no folder, expected one of this agent's user: remove it",
            agent->memory->folder);
    case EACCES:
        return agent_fail(agent, AGENT_EXIT_UNAVAILABLE,
                          "/dev/shm%s: %s; if it is there, somebody else made it: remove it",
                          agent->memory->folder, strerror(error));
    default:
        return agent_fail(agent, AGENT_EXIT_UNAVAILABLE, "/dev/shm%s: cannot be made: %s",
                          agent->memory->folder, strerror(error));
    }
}

static int check_folder(struct agent *agent)
{
    struct stat status;
    if (fstat(agent->memory->fd, &status) != 0) {
        return log_why_not(agent, errno);
    }
    if (status.st_uid != agent->own || (status.st_mode & 0777) != 0700) {
        return agent_fail(
            agent, AGENT_EXIT_UNAVAILABLE,
            "/dev/shm%s: found owner %u and mode %04o, expected a folder of user %u, 0700: "
            "remove it",
            agent->memory->folder, (unsigned)status.st_uid, (unsigned)(status.st_mode & 07777),
            (unsigned)agent->own);
    }
    return AGENT_EXIT_OK;
}

/* Tries once to open the folder. */
static int try_open(struct agent *agent, int timeout_ms)
{
    char path[REMOVER_PATH_MAX];
    int lock = openat(agent->state_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (lock < 0) {
        return -1;
    }
    snprintf(path, sizeof(path), "/dev/shm%s", agent->memory->folder);
    int fd = remover_open_folder(agent->remover, path, lock, timeout_ms);
    int error = errno;
    close(lock);
    errno = error;
    return fd;
}

static void log_wait(const struct agent *agent)
{
    struct log_line line;
    char path[REMOVER_PATH_MAX];
    snprintf(path, sizeof(path), "/dev/shm%s", agent->memory->folder);
    log_begin(&line, LOG_LEVEL_WARN, "memory_locked");
    log_text(&line, "file", path);
    log_text(
        &line, "text",
        "some process keeps /dev/shm locked, so the folder cannot be made; the agent waits 10 s "
        "more, then it ends");
    log_end(&line);
}

/* Opens the folder, and waits if another process keeps /dev/shm locked. */
static int open_folder(struct agent *agent)
{
    agent->memory->fd = try_open(agent, OPEN_FIRST_MS);
    if (agent->memory->fd < 0 && errno == ETIMEDOUT) {
        log_wait(agent);
        agent->memory->fd = try_open(agent, OPEN_LATER_MS);
    } else if (agent->memory->fd < 0 && (errno == ETOOMANYREFS || errno == EAGAIN)) {
        agent->memory->fd = try_open(agent, OPEN_LATER_MS);
    }
    return agent->memory->fd < 0 ? log_why_not(agent, errno) : check_folder(agent);
}

/* Returns whether the folder still has a name. An agent with another store may have removed it
 * after this agent had opened it (serve/leftovers.h). A removed folder has no links. A lookup of
 * its name is no alternative: if the name is missing, the lookup takes the lock of /dev/shm, which
 * a stranger can hold.
 */
static bool is_named(const struct agent *agent)
{
    struct stat status;
    return fstat(agent->memory->fd, &status) == 0 && status.st_nlink > 0;
}

/* Opens the folder and locks it for the life of this agent. */
static int open_locked(struct agent *agent)
{
    int64_t end_ns = clock_boottime_ns() + LOCKED_MS * INT64_C(1000000);
    for (;;) {
        int code = open_folder(agent);
        if (code != AGENT_EXIT_OK ||
            (flock(agent->memory->fd, LOCK_EX | LOCK_NB) == 0 && is_named(agent))) {
            return code;
        }
        close(agent->memory->fd);
        agent->memory->fd = -1;
        if (clock_boottime_ns() > end_ns) {
            return agent_fail(
                agent, AGENT_EXIT_UNAVAILABLE,
                "/dev/shm%s: cannot be locked: another agent serves it or removes it, or "
                "an agent that was killed has not ended yet (fuser -v names the process)",
                agent->memory->folder);
        }
        (void)!poll(NULL, 0, PAUSE_MS);
    }
}

int memory_open(struct agent *agent)
{
    agent->memory = calloc(1, sizeof(*agent->memory));
    if (agent->memory == NULL) {
        return agent_fail(agent, AGENT_EXIT_UNAVAILABLE, "out of memory");
    }
    agent->memory->fd = -1;
    name_folder(agent);
    if (agent->remover == NULL) {
        return agent_fail(
            agent, AGENT_EXIT_UNAVAILABLE,
            "holdfastd-rm could not be started: allow this user more processes (TasksMax, "
            "ulimit -u), or give the agent more memory");
    }
    return open_locked(agent);
}

void memory_close(struct agent *agent)
{
    if (agent->memory != NULL) {
        if (agent->memory->fd >= 0) {
            close(agent->memory->fd);
        }
        free(agent->memory);
        agent->memory = NULL;
    }
}

int memory_fd(const struct agent *agent)
{
    return agent->memory != NULL ? agent->memory->fd : -1;
}

const char *memory_folder(const struct agent *agent)
{
    return agent->memory->folder;
}

bool memory_is_reached(struct agent *agent, uint32_t space, uint64_t incarnation, uint64_t size)
{
    char own_name[REGION_OWN_MAX];
    char path[REMOVER_PATH_MAX];
    region_own_name(agent->config.namespaces[space].name, incarnation, own_name);
    snprintf(path, sizeof(path), "/dev/shm%s/%s/region", agent->memory->folder, own_name);
    return remover_reaches(agent->remover, path, size);
}

/* ---- removing ---- */

static void remove_path(struct agent *agent, uint32_t space, enum remover_kind kind,
                        const char *path)
{
    const struct hfi_region_sizes sizes = {.slot_count = agent->config.limits.locks,
                                           .holder_count = agent->config.limits.holders + 1,
                                           .block_count = agent->config.limits.blocks};
    if (remover_remove(agent->remover, space, kind, path, hfi_region_size(&sizes)) ||
        agent->memory->removals_logged) {
        return;
    }
    struct log_line line;
    agent->memory->removals_logged = true;
    log_begin(&line, LOG_LEVEL_WARN, "region_not_removed");
    log_text(&line, "file", path);
    log_text(&line, "text",
             remover_ended(agent->remover)
                 ? "holdfastd-rm was killed: regions that are given up stay in /dev/shm until the "
                   "agent is started again"
                 : "too many regions wait to be removed: they stay in /dev/shm until the agent is "
                   "started again");
    log_end(&line);
}

void memory_remove(struct agent *agent, uint32_t space, enum remover_kind kind,
                   const char *own_name)
{
    char path[REMOVER_PATH_MAX];
    snprintf(path, sizeof(path), "/dev/shm%s/%.*s", agent->memory->folder, REGION_OWN_MAX,
             own_name);
    remove_path(agent, space, kind, path);
}

bool memory_is_flat(const char *shm_name)
{
    return shm_name[0] == '/' && strchr(shm_name + 1, '/') == NULL;
}

void memory_remove_flat(struct agent *agent, const char *shm_name)
{
    char path[REMOVER_PATH_MAX];
    snprintf(path, sizeof(path), "/dev/shm%s", shm_name);
    remove_path(agent, HOST_NAMESPACES_MAX, REMOVER_FLAT, path);
}

bool memory_is_stuck(const struct agent *agent, uint32_t space)
{
    return remover_waiting(agent->remover, space) >= REMOVER_PER_SPACE;
}

/* Returns the index of the namespace that a region's folder belongs to; HOST_NAMESPACES_MAX if the
 * namespace is not configured. */
static uint32_t space_of(const struct agent *agent, const char *own_name)
{
    size_t length = strcspn(own_name, ".");
    uint32_t space = 0;
    while (space < agent->config.namespace_count &&
           (strlen(agent->config.namespaces[space].name) != length ||
            memcmp(agent->config.namespaces[space].name, own_name, length) != 0)) {
        space++;
    }
    return space < agent->config.namespace_count ? space : HOST_NAMESPACES_MAX;
}

bool memory_is_region(const char *name)
{
    const char *dot = strchr(name, '.');
    return dot != NULL && dot != name && strspn(dot + 1, "0123456789abcdef") == 16 &&
           dot[1 + 16] == '\0';
}

void memory_remove_stale(struct agent *agent, enum remover_kind kind, memory_is_open_fn *is_open)
{
    const struct dirent *entry;
    int fd = openat(agent->memory->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = fd < 0 ? NULL : fdopendir(fd);
    if (folder == NULL) {
        close(fd);
        return;
    }
    for (unsigned i = 0; i < SWEEP_MAX && (entry = readdir(folder)) != NULL; i++) {
        uint32_t space = space_of(agent, entry->d_name);
        if (memory_is_region(entry->d_name) && !is_open(agent, space, entry->d_name)) {
            memory_remove(agent, space, kind, entry->d_name);
        }
    }
    closedir(folder);
}
