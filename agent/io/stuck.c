/* Detects a blocked thread: see io/stuck.h. */
#include "io/stuck.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const int64_t stuck_ns = STUCK_MS * INT64_C(1000000);
static const int64_t look_ns_max = STUCK_LOOK_MS * INT64_C(1000000);

/* Reads the beginning of a file. Returns false if the file is missing or empty. */
static bool read_text(const char *path, char *text, size_t text_size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t size = fd >= 0 ? read(fd, text, text_size - 1) : -1;
    if (fd >= 0) {
        close(fd);
    }
    text[size > 0 ? size : 0] = '\0';
    return size > 0;
}

/* Returns whether the thread's state is D (uninterruptible). Sets *disk_reads to the number of
 * pages that it has read from a disk. See proc(5), stat. */
static bool waits(const char *stat, unsigned long *disk_reads)
{
    char line[512];
    char state = '?';
    if (!read_text(stat, line, sizeof(line))) {
        return false;
    }
    const char *behind_name = strrchr(line, ')');
    return behind_name != NULL &&
           sscanf(behind_name + 1, " %c %*d %*d %*d %*d %*d %*u %*u %*u %lu", &state, disk_reads) ==
               2 &&
           state == 'D';
}

/* Returns for how long, in us, at least one thread of the machine was stalled for memory; 0: the
 * kernel does not count that. See proc(5), pressure. */
static uint64_t memory_stalled_us(const char *pressure)
{
    char text[512];
    uint64_t stalled_us = 0;
    const char *total = read_text(pressure, text, sizeof(text)) ? strstr(text, "total=") : NULL;
    if (total != NULL && sscanf(total, "total=%" SCNu64, &stalled_us) != 1) {
        stalled_us = 0;
    }
    return stalled_us;
}

bool stuck_look(struct stuck *stuck, const char *stat, const char *pressure, int64_t now_ns)
{
    unsigned long disk_reads = 0;
    int64_t since_ns = stuck->looked_ns != 0 ? now_ns - stuck->looked_ns : 0;
    bool waited = waits(stat, &disk_reads);
    uint64_t stalled_us = waited ? memory_stalled_us(pressure) : stuck->stalled_us;
    bool stalled = (int64_t)(stalled_us - stuck->stalled_us) * 1000 > since_ns / 2;
    /* If the calling thread got no processor since the last look, the watched thread may have been
     * stuck twice, and not stuck in between. So the time that one look adds is bounded. */
    since_ns = since_ns < look_ns_max ? since_ns : look_ns_max;
    if (waited && stuck->waited && disk_reads == stuck->disk_reads && !stalled) {
        stuck->stuck_ns += since_ns;
    } else if (!waited) {
        stuck->stuck_ns -= since_ns * (STUCK_MS / 10) / STUCK_FORGOTTEN_MS;
        stuck->stuck_ns = stuck->stuck_ns > 0 ? stuck->stuck_ns : 0;
    }
    stuck->looked_ns = now_ns;
    stuck->waited = waited;
    stuck->disk_reads = disk_reads;
    stuck->stalled_us = stalled_us;
    return stuck->stuck_ns >= stuck_ns;
}
