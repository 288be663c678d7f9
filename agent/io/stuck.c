/* See io/stuck.h. */
#include "io/stuck.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int64_t stuck_ns = STUCK_MS * INT64_C(1000000);
static const int64_t look_ns_max = STUCK_LOOK_MS * INT64_C(1000000);

/* Its state is D. *disk_reads: pages that it had read from a disk. proc(5), stat. */
static bool waits(const char *stat, unsigned long *disk_reads)
{
    char line[512];
    char state = '?';
    int fd = open(stat, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, line, sizeof(line) - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    if (size <= 0) {
        return false;
    }
    line[size] = '\0';
    const char *behind_name = strrchr(line, ')');
    return behind_name != NULL &&
           sscanf(behind_name + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %lu", &state, disk_reads) ==
               2 &&
           state == 'D';
}

bool stuck_look(struct stuck *stuck, const char *stat, int64_t now_ns)
{
    unsigned long disk_reads = 0;
    int64_t since_ns = stuck->looked_ns != 0 ? now_ns - stuck->looked_ns : 0;
    bool waited = waits(stat, &disk_reads);
    /* While the thread that looks had no processor itself, the other one may have waited twice. */
    since_ns = since_ns < look_ns_max ? since_ns : look_ns_max;
    if (waited && stuck->waited && disk_reads == stuck->disk_reads) {
        stuck->stuck_ns += since_ns;
    } else if (!waited) {
        stuck->stuck_ns -= since_ns * (STUCK_MS / 10) / STUCK_FORGOTTEN_MS;
        stuck->stuck_ns = stuck->stuck_ns > 0 ? stuck->stuck_ns : 0;
    }
    stuck->looked_ns = now_ns;
    stuck->waited = waited;
    stuck->disk_reads = disk_reads;
    return stuck->stuck_ns >= stuck_ns;
}
