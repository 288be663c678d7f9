/*
 * Opens the store, and refuses to start while regions of another layout are in use.
 *
 * A client goes on with the layout that its region had when it was mapped, so a region cannot be
 * converted while a client uses it. If an agent that does not know the layout began a new session,
 * holders in that region would lose their locks. So while the old session may go on and one of its
 * processes lives, the agent does not start (exit 69) and changes nothing; it does not migrate the
 * store either. The release that made the regions can then be started again, and nobody has lost a
 * lock. A service manager that tries again succeeds with this release once the session is over, or
 * when none of its processes lives.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent.h"
#include "fail.h"
#include "io/client_record.h"
#include "io/clock.h"
#include "io/region.h"
#include "observe/files.h"
#include "observe/log.h"
#include "run/start.h"
#include "serve/memory.h"
#include "serve/processes.h"

/* ---- regions of another layout ---- */

struct living {
    struct agent *agent;
    uint32_t count;
    uint32_t first; /* the pid of one living process, as recorded; 0: not known */
};

/* Counts the process of a client record as living, unless it is known that the process has
 * ended. */
static void look_at(void *arg, uint32_t client)
{
    struct living *living = arg;
    struct client_record record;
    struct process *process;
    if (!client_record_read(living->agent->clients_fd, client, &record)) {
        return;
    }
    if (process_of_record(living->agent->processes, &record, &process) != PROCESS_ENDED) {
        living->count++;
        living->first = living->first == 0 ? (uint32_t)record.pid : living->first;
    }
    client_record_free(&record);
}

/* Reads the last deadline from the lease page in the regions' folder. */
static bool read_deadline(struct agent *agent, const char *shm_name)
{
    char page[REGION_NAME_MAX + 16];
    const bool flat = memory_is_flat(shm_name);
    const char *end = strrchr(shm_name, flat ? '.' : '/');
    const struct lease_file_room none = {0};
    snprintf(page, sizeof(page), "%.*s%s", end != NULL ? (int)(end - shm_name) : 0, shm_name,
             flat ? ".LEASE" : "/lease");
    int folder = open("/dev/shm", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool read = folder >= 0 &&
                lease_file_share(&agent->lease_file, folder, page + 1, &none, &agent->left);
    if (folder >= 0) {
        close(folder);
    }
    return read;
}

/* Opens the folder that the row names: this agent's folder, or that of an older release if the
 * store is not migrated yet. Returns -1 if the folder does not exist. */
static int open_folder_of(const struct agent *agent, const char *shm_name)
{
    char path[REGION_NAME_MAX + 16];
    const char *end = strrchr(shm_name, '/');
    const char *name = memory_fd(agent) >= 0 ? "." : path;
    snprintf(path, sizeof(path), "/dev/shm%.*s", (int)(end - shm_name), shm_name);
    return openat(memory_fd(agent) >= 0 ? memory_fd(agent) : AT_FDCWD, name,
                  O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

/* Returns the layout of a namespace's region if it is not the layout of this release; 0: no such
 * region exists. A region whose name has an older release's form has another layout too. */
static uint32_t other_layout(const struct agent *agent, const char *space, const char *shm_name)
{
    const struct dirent *entry;
    uint32_t layout = 0;
    if (memory_is_flat(shm_name)) {
        return region_flat_layout(shm_name);
    }
    int fd = open_folder_of(agent, shm_name);
    DIR *folder = fd >= 0 ? fdopendir(fd) : NULL;
    if (folder == NULL) {
        close(fd);
        return 0;
    }
    while (layout == 0 && (entry = readdir(folder)) != NULL) {
        size_t length = strlen(space);
        if (strncmp(entry->d_name, space, length) == 0 && entry->d_name[length] == '.') {
            layout = region_file_layout(fd, entry->d_name);
            layout = layout != HFI_REGION_VERSION ? layout : 0;
        }
    }
    closedir(folder);
    return layout;
}

/* Returns whether holds under the previous agent's session are still valid, or may become valid
 * again. */
static bool session_may_go_on(const struct agent *agent)
{
    return agent->left.epoch != 0 &&
           memcmp(agent->left.boot_id, agent->boot_id, sizeof(agent->boot_id)) == 0 &&
           clock_boottime_ns() <= agent->left.deadline_ns + agent->config.grace_ns;
}

static bool layout_allows(void *arg, const char *space, const char *shm_name)
{
    struct agent *agent = arg;
    struct living living = {.agent = agent};
    if (agent->left.epoch != 0 &&
        memcmp(agent->left.boot_id, agent->boot_id, sizeof(agent->boot_id)) != 0) {
        return true; /* no process of an earlier boot lives */
    }
    uint32_t layout = other_layout(agent, space, shm_name);
    if (layout == 0) {
        return true;
    }
    if (read_deadline(agent, shm_name) && !session_may_go_on(agent)) {
        return true;
    }
    if (!client_record_each(agent->clients_fd, look_at, &living)) {
        living.count = 1; /* the records cannot be read: some process may live */
    }
    if (living.count == 0) {
        return true;
    }
    int64_t left_ns = agent->left.deadline_ns + agent->config.grace_ns - clock_boottime_ns();
    snprintf(agent->error, sizeof(agent->error),
             "%s: found layout %" PRIu32 "%s, expected %d, and %" PRIu32
             " living processes (one is %" PRIu32 ") that may hold locks there: nothing was "
             "changed. They keep their locks if the release that made this layout is started again "
             "within %" PRId64 " ms",
             shm_name, layout, memory_is_flat(shm_name) ? " in no folder" : "",
             (int)HFI_REGION_VERSION, living.count, living.first, left_ns / 1000000);
    return false;
}

/* ---- the store ---- */

/* If the store is lost, the lease file may still have the last epoch. If the lease file is lost
 * too, a majority of the voters knows the epoch (renewal_config.asks_epoch). */
void agent_store_identity(const struct agent *agent, struct store_identity *identity)
{
    memset(identity, 0, sizeof(*identity));
    identity->epoch = agent->left.epoch;
    message_agent_set(&identity->cell, agent->config.cell, strlen(agent->config.cell));
    message_agent_set(&identity->agent, agent->config.agent, strlen(agent->config.agent));
}

static void log_migrated(const struct agent *agent, const char *path)
{
    char kept[PATH_MAX + 64];
    struct log_line line;
    if (agent->meta.migrated_from == 0) {
        return;
    }
    snprintf(kept, sizeof(kept), "%s.v%u.bak", path, agent->meta.migrated_from);
    log_begin(&line, LOG_LEVEL_INFO, "store_migrated");
    log_unsigned(&line, "from", agent->meta.migrated_from);
    log_unsigned(&line, "to", STORE_FORMAT);
    log_text(&line, "copy", kept);
    log_end(&line);
}

/* Checks the layouts of the regions. (A migration of the store makes the same check before it
 * changes the store.) */
static int check_layouts(struct agent *agent)
{
    struct store_reader reader = {.arg = agent, .region = layout_allows};
    agent->error[0] = '\0';
    if (store_load(agent->store, &reader)) {
        return AGENT_EXIT_OK;
    }
    return agent->error[0] != '\0'
               ? AGENT_EXIT_UNAVAILABLE
               : agent_fail(agent, AGENT_EXIT_SOFTWARE, "%s", store_error(agent->store));
}

int agent_open_store(struct agent *agent)
{
    char path[PATH_MAX + 32];
    char error[STORE_ERROR_MAX];
    struct store_identity identity = {.cell = {.length = 0}};
    if (!lease_file_open(&agent->lease_file, agent->state_fd, &agent->left)) {
        return agent_fail(agent, AGENT_EXIT_UNAVAILABLE, "%s/lease: %s", agent->config.state_dir,
                          strerror(errno));
    }
    if (!clock_boot_id(agent->boot_id)) {
        return agent_fail(agent, AGENT_EXIT_UNAVAILABLE,
                          "/proc/sys/kernel/random/boot_id: cannot be read");
    }
    agent_store_identity(agent, &identity);
    identity.arg = agent;
    identity.may_migrate = layout_allows;
    snprintf(path, sizeof(path), "%s/holdfast.db", agent->config.state_dir);
    agent->store = store_open(path, &identity, &agent->meta, error);
    if (agent->store == NULL && agent->meta.held) {
        return AGENT_EXIT_UNAVAILABLE; /* layout_allows() has written the error */
    }
    if (agent->store == NULL) {
        return agent_fail(agent,
                          agent->meta.foreign || agent->meta.backup ? AGENT_EXIT_CONFIG
                                                                    : AGENT_EXIT_SOFTWARE,
                          "%s", error);
    }
    log_migrated(agent, path);
    if (!files_open(agent)) {
        return agent_fail(agent, AGENT_EXIT_UNAVAILABLE, "out of memory");
    }
    int code = memory_open(agent);
    return code == AGENT_EXIT_OK ? check_layouts(agent) : code;
}

int agent_open_lease_page(struct agent *agent)
{
    const struct lease_file_room room = {
        .kept = AGENT_KEPT_MAX, .delays = HOST_DELAYS_MAX, .regions = HOST_NAMESPACES_MAX};
    if (!lease_file_share(&agent->lease_file, memory_fd(agent), "lease", &room, &agent->left)) {
        return agent_fail(agent, AGENT_EXIT_UNAVAILABLE,
                          "/dev/shm%s/lease: %s; expected room for a file of this user, mode 0600",
                          memory_folder(agent), strerror(errno));
    }
    agent->lease_file.grace_ns = agent->config.grace_ns;
    agent->lease_file.space = clock_space();
    return AGENT_EXIT_OK;
}
