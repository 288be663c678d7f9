/*
 * Finds the `holdfast lock` commands that wait within the CMD of another one: see top_nested.h.
 */
#include "top_nested.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { WAITERS_MAX = 1024, ANCESTORS_MAX = 32, STAT_SIZE = 512 };

/* Returns the parent of the process, or 0 if it is not known. *is_holdfast: whether the process is
 * one of `holdfast`. */
static int64_t parent_of(int64_t pid, bool *is_holdfast)
{
    char path[64];
    char stat[STAT_SIZE];
    ssize_t size;
    int fd;

    *is_holdfast = false;
    snprintf(path, sizeof(path), "/proc/%lld/stat", (long long)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return 0;
    }
    size = read(fd, stat, sizeof(stat) - 1);
    close(fd);
    stat[size > 0 ? size : 0] = '\0';

    /* "PID (NAME) STATE PARENT ...": the name may contain anything, so the last ')' ends it */
    const char *name = strchr(stat, '(');
    const char *end = strrchr(stat, ')');
    if (name == NULL || end == NULL || strlen(end) < 5) {
        return 0;
    }
    *is_holdfast = (size_t)(end - name) == sizeof("holdfast") &&
                   strncmp(name + 1, "holdfast", sizeof("holdfast") - 1) == 0;
    return strtoll(end + 4, NULL, 10);
}

static int find_outer(struct top_reading *reading, size_t lock, const struct hf_party *waiter)
{
    bool is_holdfast;
    int64_t pid = parent_of(waiter->pid, &is_holdfast);
    int error = 0;

    if (!is_holdfast) {
        return 0;
    }
    for (int step = 0; step < ANCESTORS_MAX && pid > 1 && error == 0; step++) {
        int64_t parent = parent_of(pid, &is_holdfast);

        error = is_holdfast ? top_reading_nested(reading, lock, waiter, pid) : 0;
        pid = parent;
    }
    return error;
}

void top_nested_find(struct top_reading *reading)
{
    const char *here = reading->status.agent;
    int looked = 0;
    int error = 0;

    for (size_t lock = 0; lock < reading->lock_count && here != NULL; lock++) {
        const struct hf_lock_info *info = &reading->locks[lock].info;

        for (size_t index = 0; index < info->waiter_count && error == 0; index++) {
            const struct hf_party *waiter = info->waiters[index];

            if (waiter->pid > 0 && waiter->agent != NULL && strcmp(waiter->agent, here) == 0 &&
                looked++ < WAITERS_MAX) {
                error = find_outer(reading, lock, waiter);
            }
        }
    }
    reading->took_ns = top_now_ns() - reading->at_ns;
}
