/*
 * Detects that the kernel blocks a thread uninterruptibly, and not because of a disk.
 *
 * The caller looks at the thread's state again and again. A thread that only gets no processor has
 * another state. A thread that waits for memory (a page that is swapped out, a control group at its
 * limit) is also blocked. But by the next look, it has read another page from a disk, or the kernel
 * has counted the time as a stall of memory. The time before such a look is not added. A hostile
 * process can cause such stalls and so hide its attack; in that case no client is blamed. The times
 * of many short waits are added up like one long wait. Any thread may call this.
 */
#ifndef IO_STUCK_H
#define IO_STUCK_H

#include <stdbool.h>
#include <stdint.h>

/* STUCK_MS: how long a thread must have been stuck before the agent takes a client for the cause.
 * STUCK_FORGOTTEN_MS: for each such period in which the thread is not stuck, a tenth of STUCK_MS is
 * forgotten. STUCK_LOOK_MS: the longest time that one look adds. */
enum { STUCK_MS = 500, STUCK_FORGOTTEN_MS = 500, STUCK_LOOK_MS = 50 };

/* The results of the looks so far; all zeros at first. */
struct stuck {
    int64_t looked_ns;        /* when the last look was; 0: there was none */
    bool waited;              /* the last look saw the thread stuck */
    unsigned long disk_reads; /* the thread's count of disk reads at the last look */
    uint64_t stalled_us;      /* the machine's total of memory stalls at the last look */
    int64_t stuck_ns;         /* how long the thread was stuck: the sum of what the looks have
                               * added */
};

/* The kernel's count of memory stalls. The file is missing if the kernel does not count them. */
#define STUCK_PRESSURE "/proc/pressure/memory"

/* Looks at the thread once. Called some 50 times a second. stat: "/proc/PID/task/TID/stat", or
 * "/proc/PID/stat". pressure: STUCK_PRESSURE. Returns whether the thread has been stuck for
 * STUCK_MS; false also if the thread does not exist. */
bool stuck_look(struct stuck *stuck, const char *stat, const char *pressure, int64_t now_ns);

#endif
