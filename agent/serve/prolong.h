/*
 * Prolongs the lease in the regions while the loop is held up (run/keeper.h), and finds out which
 * region holds it up.
 *
 * Writing the lease into that region may be held up, too. So each namespace has a thread of its own
 * that does nothing else; a thread that is stuck keeps no other one waiting. The threads are made
 * at the start, since the memory of a new thread might have to wait.
 *
 * After it has written the lease, the thread touches each page of its region. If the kernel blocks
 * it there (io/stuck.h), a process of that namespace makes all touches of the region wait. Then
 * prolong_held() returns the namespace's bit, and the loop abandons the region (serve/regions.h).
 *
 * Rule: no lease is prolonged in a region that was given up: its holds end with the last deadline
 * that was promised before (core/host/regions.c).
 */
#ifndef AGENT_SERVE_PROLONG_H
#define AGENT_SERVE_PROLONG_H

#include <stdbool.h>
#include <stdint.h>

#include "io/region.h"

struct prolong;

/* The regions of this agent, by namespace. */
struct prolong_regions {
    const struct region_file *files;
    uint64_t given_up; /* bit i: the region of namespace i was given up */
};

/* Starts a thread for each namespace. Returns NULL if there are no threads or no memory for them;
 * errno says why. */
struct prolong *prolong_open(uint32_t namespace_count) __attribute__((warn_unused_result));
/* Ends the threads. Never waits for a thread that is stuck: its memory stays until the process
 * ends. */
void prolong_close(struct prolong *prolong);

/* Only the thread that has the driver (run/keeper.h) may make these two calls. Both return at once.
 * The first prolongs the lease until deadline_ns in every region that is in use. */
void prolong_leases(struct prolong *prolong, const struct prolong_regions *regions, uint32_t epoch,
                    int64_t deadline_ns);
/* The second makes each thread touch its region. It does nothing if it was called less than a fifth
 * of a second ago. */
void prolong_touch(struct prolong *prolong, const struct prolong_regions *regions);

/* Looks which threads are stuck. The keeper calls it some 50 times a second while the loop is held
 * up, and for some seconds after a slow turn. */
void prolong_look(struct prolong *prolong);
/* Returns bits. Bit i: a process of namespace i makes touches of its region wait. */
uint64_t prolong_held(struct prolong *prolong);

/* Returns whether the thread of that namespace is busy or stuck; its region must then stay mapped.
 */
bool prolong_is_busy(struct prolong *prolong, uint32_t space);
/* To be called when the namespace is given up: its thread stops at the next page of the region. */
void prolong_leave(struct prolong *prolong, uint32_t space);

#endif
