/*
 * Detects that the kernel blocks a thread where nothing can interrupt it, and not for a disk.
 *
 * A thread that gets no processor is in another state. One that waits for memory (a page that is
 * swapped out, a control group at its limit) has read another page from a disk by the next look, or
 * the kernel counts the time as a stall of memory; such a look does not count. A process can cause
 * such stalls, and so hide: then nobody is blamed. Many short waits count like a long one. Any
 * thread.
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
    uint64_t stalled_us;      /* the machine's stalls of memory by then */
    int64_t stuck_ns;         /* for how long, by all looks */
};

/* The kernel's count of stalls; not there if the kernel does not count them. */
#define STUCK_PRESSURE "/proc/pressure/memory"

/* One look, now; some 50 of them a second. stat: "/proc/PID/task/TID/stat", or "/proc/PID/stat".
 * pressure: STUCK_PRESSURE. Returns whether the thread has been stuck for STUCK_MS; false also if
 * there is no such thread. */
bool stuck_look(struct stuck *stuck, const char *stat, const char *pressure, int64_t now_ns);

#endif
