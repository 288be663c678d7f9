/*
 * Whether the kernel keeps a thread waiting where nothing can interrupt it, and not for a disk.
 *
 * A thread that gets no processor is in another state, and one that waits for a page that is
 * swapped out has read another page from a disk by the next look. So a busy machine looks like
 * neither. Many short waits count like a long one. Any thread.
 */
#ifndef IO_STUCK_H
#define IO_STUCK_H

#include <stdbool.h>
#include <stdint.h>

/* How long a thread must have been stuck before a client is taken for the cause; the time in which
 * a tenth of that is forgotten while it is not stuck; and for how long one look counts at most. */
enum { STUCK_MS = 500, STUCK_FORGOTTEN_MS = 500, STUCK_LOOK_MS = 50 };

/* What the looks so far saw; all zeros at first. */
struct stuck {
    int64_t looked_ns;        /* the last look; 0: there was none */
    bool waited;              /* it saw the thread stuck */
    unsigned long disk_reads; /* by then */
    int64_t stuck_ns;         /* for how long, by all looks */
};

/* One look, now; some 50 of them a second. stat: "/proc/PID/task/TID/stat", or "/proc/PID/stat".
 * Whether it has been stuck for STUCK_MS; false also if there is no such thread. */
bool stuck_look(struct stuck *stuck, const char *stat, int64_t now_ns);

#endif
