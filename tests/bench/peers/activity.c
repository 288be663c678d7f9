/*
 * See activity.h. The count of segments is the sum of what `ss -i` shows for each socket of the
 * processes. A connection between two of these processes has two such sockets, and counts twice.
 */
#include "activity.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAMILIES_MAX = 1024 };

/* Returns the number after a word in a file of /proc. */
static uint64_t number_in(const char *path, const char *word)
{
    char line[256];
    uint64_t value = 0;
    FILE *file = fopen(path, "re");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (strncmp(line, word, strlen(word)) == 0) {
            value = strtoull(line + strlen(word), NULL, 10);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return value;
}

static uint64_t wakeups_of(pid_t pid)
{
    char directory[64];
    uint64_t sum = 0;
    snprintf(directory, sizeof(directory), "/proc/%d/task", (int)pid);
    DIR *threads = opendir(directory);
    const struct dirent *entry;
    while (threads != NULL && (entry = readdir(threads)) != NULL) {
        char path[sizeof(directory) + sizeof(entry->d_name) + 16];
        snprintf(path, sizeof(path), "%s/%s/status", directory, entry->d_name);
        sum += isdigit((unsigned char)entry->d_name[0])
                   ? number_in(path, "voluntary_ctxt_switches:")
                   : 0;
    }
    if (threads != NULL) {
        closedir(threads);
    }
    return sum;
}

/* Returns whether a line of ss names one of the processes, in the form
 * users:(("etcd",pid=7,fd=4)). */
static bool is_theirs(const char *line, const pid_t *pids, size_t count)
{
    for (const char *at = strstr(line, "pid="); at != NULL; at = strstr(at, "pid=")) {
        at += 4;
        long pid = strtol(at, NULL, 10);
        for (size_t i = 0; i < count; i++) {
            if (pids[i] == (pid_t)pid) {
                return true;
            }
        }
    }
    return false;
}

static uint64_t field(const char *line, const char *name)
{
    const char *at = strstr(line, name);
    return at == NULL ? 0 : strtoull(at + strlen(name), NULL, 10);
}

/* Makes the folder BELOW/ss, runs ss in it, sums the lines of its output, and removes the
 * folder. */
static bool read_segments(const pid_t *pids, size_t count, const char *below, uint64_t *out)
{
    struct server ss;
    char path[SERVER_PATH_MAX + 16];
    static char line[4096];
    if (!program_exists("ss") || server_prepare(&ss, below, "ss", NULL) != 0 ||
        server_arg(&ss, "ss") != 0 || server_arg(&ss, "-HtinpO") != 0 || server_run(&ss) != 0) {
        return false;
    }
    snprintf(path, sizeof(path), "%s/server.log", ss.directory);
    FILE *file = fopen(path, "re");
    bool any = false;
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        if (is_theirs(line, pids, count)) {
            *out += field(line, "segs_out:") + field(line, "segs_in:");
            any = true;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    directory_remove(ss.directory);
    return any;
}

void activity_read(const pid_t *pids, size_t count, const char *log, struct activity *out)
{
    static pid_t all[FAMILIES_MAX];
    size_t known = 0;
    *out = (struct activity){0};
    for (size_t i = 0; i < count; i++) {
        known += pids[i] == 0 ? 0 : process_family(pids[i], all + known, FAMILIES_MAX - known);
        out->cpu_ns += process_cpu_ns(pids[i]);
    }
    for (size_t i = 0; i < known; i++) {
        char path[64];
        snprintf(path, sizeof(path), "/proc/%d/io", (int)all[i]);
        out->disk_bytes += number_in(path, "write_bytes:");
        out->wakeups += wakeups_of(all[i]);
    }
    out->segments_known = read_segments(all, known, log, &out->segments);
}
