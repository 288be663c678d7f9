/*
 * The activity of processes since their start, from /proc and from the kernel's statistics of their
 * TCP sockets.
 */
#ifndef PEERS_ACTIVITY_H
#define PEERS_ACTIVITY_H

#include "peer.h"

struct activity {
    int64_t cpu_ns;
    uint64_t wakeups;    /* voluntary context switches of all their threads */
    uint64_t disk_bytes; /* bytes that they have written to disks */
    uint64_t segments;   /* TCP segments, in and out, of the sockets that are open now */
    bool segments_known; /* false: ss(8) is missing, or has no permission */
};

/* Reads the activity of these processes and all their children. `log` is an empty folder for the
 * output of ss(8). */
void activity_read(const pid_t *pids, size_t count, const char *log, struct activity *out);

#endif
