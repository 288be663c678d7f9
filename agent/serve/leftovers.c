/*
 * Leftovers in /dev/shm: see serve/leftovers.h.
 *
 * No function here waits for a lock that a stranger can hold. Only this user can enter the folders,
 * and no client maps the lease page. A region is never opened here: only its size is read, by its
 * name. The helper process opens the folders, because a name in /dev/shm may vanish, and a lookup
 * of a missing name takes the lock of /dev/shm.
 */
#include "serve/leftovers.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "agent.h"
#include "io/clock.h"
#include "io/lease_file.h"
#include "io/region.h"
#include "io/remover.h"
#include "observe/log.h"
#include "serve/memory.h"

enum {
    LOOK_S = 60,           /* the pause between two looks */
    AGAIN_MS = 500,        /* the pause after a look that ordered a removal */
    CLEAR_MS = 5000,       /* the longest wait of an agent's start */
    LIST_MS = 2000,        /* the part of CLEAR_MS in which the list must arrive */
    PAUSE_MS = 5,          /* the pause between two steps while an agent's start waits */
    GRACE_MAX_S = 3600,    /* the longest grace period that a configuration may have */
    DELAY_LEAST_MS = 1000, /* a noted lock-delay counts as at least this */
    DELAY_TIMES = 3, /* a lock-delay is counted at most 2.7 times (docs/TIMEOUTS.md, "A hold") */
    ENTRIES_MAX = 1 << 16,
};

static const int64_t second_ns = 1000000000;

struct leftover {
    char ending[REMOVER_ENDING_MAX]; /* the end of the folder's name: the store's id */
    uint64_t bytes;                  /* the folder's memory at the first look, before any removal */
    int64_t due_ns;                  /* when the folder may be removed; INT64_MAX: not known */
};

struct leftovers {
    int listing;              /* the descriptor for remover_listed(); -1: no look is under way */
    struct remover_list list; /* the part of the list that has arrived */
    bool ordered;             /* the last look ordered the removal of a region */
    bool busy;       /* too many ordered removals are not done yet, so this look orders none */
    int64_t next_ns; /* when the next look begins */
    uint32_t count;
    struct leftover found[REMOVER_LISTED_MAX];
};

bool leftovers_create(struct agent *agent)
{
    agent->leftovers = calloc(1, sizeof(*agent->leftovers));
    if (agent->leftovers != NULL) {
        agent->leftovers->listing = -1;
    }
    return agent->leftovers != NULL;
}

void leftovers_destroy(struct agent *agent)
{
    if (agent->leftovers != NULL && agent->leftovers->listing >= 0) {
        close(agent->leftovers->listing);
        remover_list_end(&agent->leftovers->list);
    }
    free(agent->leftovers);
    agent->leftovers = NULL;
}

/* ---- the path of a folder ---- */

/* Returns the store's id in the name of this agent's folder. */
static const char *own_ending(const struct agent *agent)
{
    return strrchr(memory_folder(agent), '.') + 1;
}

static void path_of(const struct agent *agent, const char *ending, char path[REMOVER_PATH_MAX])
{
    const char *folder = memory_folder(agent);
    snprintf(path, REMOVER_PATH_MAX, "/dev/shm%.*s%s", (int)(own_ending(agent) - folder), folder,
             ending);
}

/* Returns whether `ending` is the end of a folder's name for an agent with another store. */
static bool is_other(const struct agent *agent, const char *ending)
{
    size_t length = strlen(own_ending(agent));
    return strlen(ending) == length && strspn(ending, "0123456789abcdef") == length &&
           strcmp(ending, own_ending(agent)) != 0;
}

/* ---- when may it be removed? ---- */

/* Returns when a folder that has no session may be removed. If the clock is set meanwhile, the
 * folder is removed earlier or later, which does no harm. */
static int64_t due_without_session(const struct agent *agent, int folder)
{
    struct stat status;
    struct timespec now;
    int64_t lasts_ns = agent->config.session_ttl_ns + agent->config.grace_ns +
                       DELAY_TIMES * MESSAGE_LOCK_DELAY_MAX_MS * (second_ns / 1000);
    if (fstat(folder, &status) != 0 || clock_gettime(CLOCK_REALTIME, &now) != 0) {
        return INT64_MAX;
    }
    int64_t age_s = (int64_t)now.tv_sec - (int64_t)status.st_mtim.tv_sec;
    int64_t left_ns = age_s < 0                       ? lasts_ns
                      : age_s >= lasts_ns / second_ns ? 0
                                                      : lasts_ns - age_s * second_ns;
    return clock_boottime_ns() + left_ns;
}

static int64_t due_of_session(const struct lease_file_past *past)
{
    int64_t grace_ns = past->grace_ns >= 0 && past->grace_ns <= GRACE_MAX_S * second_ns
                           ? past->grace_ns
                           : GRACE_MAX_S * second_ns;
    int64_t delay_ms = past->delay_ms < 0                ? MESSAGE_LOCK_DELAY_MAX_MS
                       : past->delay_ms < DELAY_LEAST_MS ? DELAY_LEAST_MS
                                                         : past->delay_ms;
    int64_t more_ns = grace_ns + DELAY_TIMES * delay_ms * (second_ns / 1000);
    int64_t deadline_ns = past->record.deadline_ns;
    return deadline_ns > INT64_MAX - more_ns ? INT64_MAX : deadline_ns + more_ns;
}

/* Returns when the folder may be removed. The caller has locked it. The removal of a region changes
 * the folder's time. So for a folder without a session, a time that an earlier look found still
 * counts if it is the earlier time. */
static int64_t due_of(const struct agent *agent, int folder, const struct leftover *before)
{
    struct lease_file_past past;
    if (!lease_file_read(folder, "lease", &agent->lease_file.room, &past) ||
        past.record.epoch == 0) {
        int64_t due_ns = due_without_session(agent, folder);
        return before != NULL && before->due_ns < due_ns ? before->due_ns : due_ns;
    }
    if (memcmp(past.record.boot_id, agent->boot_id, sizeof(agent->boot_id)) != 0) {
        return 0;
    }
    return past.space == agent->lease_file.space ? due_of_session(&past) : INT64_MAX;
}

/* ---- one folder ---- */

/* Locks the folder. Returns false if it does not belong to an agent of this user, or if an agent
 * serves it. */
static bool lock_unserved(const struct agent *agent, int folder)
{
    struct stat status;
    return fstat(folder, &status) == 0 && status.st_uid == agent->own &&
           (status.st_mode & 07777) == 0700 && flock(folder, LOCK_EX | LOCK_NB) == 0;
}

static uint64_t bytes_of(int folder, const char *name)
{
    struct stat status;
    bool found = fstatat(folder, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
    return found ? (uint64_t)status.st_blocks * 512 : 0;
}

/* Adds a region's memory, and orders its removal if `remove` is true. */
static void look_at_region(struct agent *agent, const char *path, int folder, const char *own_name,
                           bool remove, uint64_t *bytes)
{
    char name[REGION_OWN_MAX + 8];
    char region[REMOVER_PATH_MAX];
    snprintf(name, sizeof(name), "%.*s/region", REGION_OWN_MAX, own_name);
    *bytes += bytes_of(folder, name);
    int length = snprintf(region, sizeof(region), "%s/%s", path, own_name);
    if (remove && length < (int)sizeof(region)) {
        agent->leftovers->ordered |= remover_remove(agent->remover, HOST_NAMESPACES_MAX,
                                                    REMOVER_FOLDER, region, 0);
    }
}

/* Adds up the memory in the folder, and orders the removal of each region if `remove` is true.
 * Returns whether nothing but the lease page is there. */
static bool look_through(struct agent *agent, const char *path, int fd, bool remove,
                         uint64_t *bytes)
{
    const struct dirent *entry;
    bool empty = true;
    int listed = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *folder = listed < 0 ? NULL : fdopendir(listed);
    *bytes = bytes_of(fd, "lease");
    if (folder == NULL) {
        close(listed);
        return false;
    }
    for (unsigned i = 0; i < ENTRIES_MAX && (entry = readdir(folder)) != NULL; i++) {
        const char *name = entry->d_name;
        bool other = strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
                     strcmp(name, "lease") != 0;
        empty = empty && !other;
        if (memory_is_region(name)) {
            look_at_region(agent, path, fd, name, remove, bytes);
        }
    }
    closedir(folder);
    return empty;
}

static void log_removed(const char *path, uint64_t bytes)
{
    struct log_line line;
    log_begin(&line, LOG_LEVEL_INFO, "leftover_removed");
    log_text(&line, "file", path);
    log_unsigned(&line, "mib", (bytes + (1 << 20) - 1) >> 20);
    log_text(&line, "text",
             "an agent with another store left these regions, and their session is over: a process "
             "that still maps one of them keeps its memory until the process ends");
    log_end(&line);
}

/* Looks at a folder. If it may be removed, removes its regions, or the empty folder. `before`: what
 * the previous look found there; NULL: this is the first look at it. */
static void look_at(struct agent *agent, const char *ending, int fd, const struct leftover *before)
{
    struct leftovers *leftovers = agent->leftovers;
    char path[REMOVER_PATH_MAX];
    struct leftover seen = {.bytes = 0};
    path_of(agent, ending, path);
    if (!lock_unserved(agent, fd)) {
        return;
    }
    memcpy(seen.ending, ending, strlen(ending) + 1);
    seen.due_ns = due_of(agent, fd, before);
    bool due = seen.due_ns <= clock_boottime_ns();
    bool empty = look_through(agent, path, fd, due && !leftovers->busy, &seen.bytes);
    seen.bytes = before != NULL && before->bytes > seen.bytes ? before->bytes : seen.bytes;
    if (due && empty && remover_remove_agent(agent->remover, path, fd)) {
        log_removed(path, seen.bytes);
    } else {
        leftovers->found[leftovers->count++] = seen;
    }
}

/* ---- a look ---- */

static const struct leftover *find(const struct leftover *found, uint32_t count, const char *ending)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(found[i].ending, ending) == 0) {
            return &found[i];
        }
    }
    return NULL;
}

/* Sets the time of the next look. */
static void plan(struct leftovers *leftovers)
{
    int64_t now_ns = clock_boottime_ns();
    leftovers->next_ns = now_ns + LOOK_S * second_ns;
    for (uint32_t i = 0; i < leftovers->count; i++) {
        int64_t due_ns = leftovers->found[i].due_ns;
        if (due_ns > now_ns && due_ns < leftovers->next_ns) {
            leftovers->next_ns = due_ns;
        }
    }
    if (leftovers->ordered) {
        leftovers->next_ns = now_ns + AGAIN_MS * (second_ns / 1000);
    }
}

static void look(struct agent *agent, const struct remover_list *list)
{
    struct leftovers *leftovers = agent->leftovers;
    struct leftover before[REMOVER_LISTED_MAX];
    uint32_t count = leftovers->count;
    memcpy(before, leftovers->found, sizeof(before));
    leftovers->count = 0;
    leftovers->ordered = false;
    leftovers->busy = memory_is_stuck(agent, HOST_NAMESPACES_MAX);
    for (uint32_t i = 0; i < list->count; i++) {
        if (is_other(agent, list->endings[i])) {
            look_at(agent, list->endings[i], list->folders[i],
                    find(before, count, list->endings[i]));
        }
    }
    plan(leftovers);
}

static void begin(struct agent *agent)
{
    char prefix[REMOVER_PATH_MAX];
    path_of(agent, "", prefix);
    agent->leftovers->listing = remover_list(agent->remover, prefix);
    agent->leftovers->next_ns = clock_boottime_ns() + LOOK_S * second_ns;
}

/* Continues the look that has begun. Returns false if its list has not arrived yet. */
static bool go_on(struct agent *agent)
{
    struct leftovers *leftovers = agent->leftovers;
    int came = remover_listed(leftovers->listing, &leftovers->list);
    if (came == 0) {
        return false;
    }
    close(leftovers->listing);
    leftovers->listing = -1;
    if (came > 0) {
        look(agent, &leftovers->list);
    }
    remover_list_end(&leftovers->list);
    return true;
}

void leftovers_look(struct agent *agent, int64_t now_ns)
{
    if (agent->leftovers->listing >= 0) {
        (void)go_on(agent);
    } else if (now_ns >= agent->leftovers->next_ns) {
        begin(agent);
    }
}

/* Makes one look, and waits for the removals that it orders. Returns whether another look may find
 * more to remove. */
static bool look_now(struct agent *agent, int64_t end_ns)
{
    struct leftovers *leftovers = agent->leftovers;
    int64_t list_end_ns = clock_boottime_ns() + LIST_MS * (second_ns / 1000);
    begin(agent);
    while (leftovers->listing >= 0 && !go_on(agent)) {
        if (clock_boottime_ns() > list_end_ns) {
            return false;
        }
        (void)!poll(NULL, 0, PAUSE_MS);
    }
    bool waits = leftovers->ordered;
    while (waits && clock_boottime_ns() < end_ns) {
        (void)!poll(NULL, 0, PAUSE_MS);
        waits = remover_waiting(agent->remover, HOST_NAMESPACES_MAX) > 0;
    }
    return leftovers->ordered && clock_boottime_ns() < end_ns;
}

void leftovers_clear(struct agent *agent)
{
    int64_t end_ns = clock_boottime_ns() + CLEAR_MS * (second_ns / 1000);
    while (agent->leftovers->listing < 0 && look_now(agent, end_ns)) {
        /* the loop ends: look_now() returns false after CLEAR_MS */
    }
}

struct leftovers_view leftovers_view(const struct agent *agent)
{
    const struct leftovers *leftovers = agent->leftovers;
    struct leftovers_view view = {.first_ns = INT64_MAX, .last_ns = INT64_MIN};
    for (uint32_t i = 0; i < leftovers->count; i++) {
        const struct leftover *one = &leftovers->found[i];
        char path[REMOVER_PATH_MAX];
        view.count++;
        view.bytes += one->bytes;
        view.first_ns = one->due_ns < view.first_ns ? one->due_ns : view.first_ns;
        if (one->due_ns >= view.last_ns) {
            view.last_ns = one->due_ns;
            path_of(agent, one->ending, path);
            snprintf(view.folder, sizeof(view.folder), "%.199s", path);
        }
    }
    return view;
}

void leftovers_explain(struct agent *agent)
{
    const struct leftovers_view view = leftovers_view(agent);
    size_t used = strlen(agent->error);
    char when[64] = "";
    if (view.count == 0) {
        return;
    }
    if (view.first_ns != INT64_MAX) {
        int64_t left_ns = view.first_ns - clock_boottime_ns();
        snprintf(when, sizeof(when), "; a start in %" PRId64 " s removes them",
                 left_ns > 0 ? left_ns / second_ns + 1 : 0);
    }
    snprintf(agent->error + used, sizeof(agent->error) - used,
             "; %" PRIu64 " MiB there are regions of a replaced store (%s)%s",
             (view.bytes + (1 << 20) - 1) >> 20, view.folder, when);
}
