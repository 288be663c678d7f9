/*
 * Prolongs the lease in the regions while the loop is held up (run/keeper.h), and finds out which
 * region holds it up.
 *
 * Writing the lease into the region that holds up the loop may be held up, too. So each namespace
 * has a thread of its own for this work, and a thread that is stuck keeps no other thread waiting.
 * The threads are made at the start, because a new thread needs memory, and getting it might wait.
 *
 * After a thread has written the lease, it touches each page of its region. The kernel may block
 * that touch (io/stuck.h). This happens if a process of the namespace makes all touches of the
 * region wait. Then prolong_held() returns the namespace's bit, and the loop abandons the region
 * (serve/regions.h).
 *
 * Rule: no lease is prolonged in a region that was given up. Its holds end with the last deadline
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

/* Starts a thread for each namespace. Returns NULL, with errno, if a thread cannot be started or
 * there is no memory. */
struct prolong *prolong_open(uint32_t namespace_count) __attribute__((warn_unused_result));
/* Ends the threads. Does not wait for a thread that is stuck: its memory stays until the process
 * ends. */
void prolong_close(struct prolong *prolong);

/* Gives each thread whose region is in use the job to prolong the lease until deadline_ns. Returns
 * at once. Only the thread that has the driver (run/keeper.h) may call prolong_leases() and
 * prolong_touch(). */
void prolong_leases(struct prolong *prolong, const struct prolong_regions *regions, uint32_t epoch,
                    int64_t deadline_ns);
/* Gives each thread the job to touch its region. Returns at once. Does nothing if the last call was
 * less than a fifth of a second ago. */
void prolong_touch(struct prolong *prolong, const struct prolong_regions *regions);

/* Looks which threads are stuck. The keeper calls this some 50 times a second while the loop is
 * held up, and for some seconds after a slow turn. */
void prolong_look(struct prolong *prolong);
/* Returns a set of namespaces. Bit i: a process of namespace i makes touches of its region wait. */
uint64_t prolong_held(struct prolong *prolong);

/* Returns whether the namespace's thread has a job or is stuck. In that case the region must stay
 * mapped. */
bool prolong_is_busy(struct prolong *prolong, uint32_t space);
/* Called when the namespace's region is given up: its thread stops at the next page of the
 * region. */
void prolong_leave(struct prolong *prolong, uint32_t space);

#endif
