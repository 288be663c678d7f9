/*
 * Prolongs the lease in the regions while the loop is held up (run/keeper.h), and finds out in
 * which region that is.
 *
 * The write may itself be held up, in the region of whoever holds up the loop. So each namespace
 * has a thread of its own that does nothing else; one that is stuck keeps no other one waiting.
 * They are made before anything is held up, since the memory of a new thread might have to wait.
 *
 * After the lease the thread touches each page of its region. If the kernel keeps it from going on
 * (io/stuck.h), a process of that namespace holds everybody up there: prolong_held() has its bit,
 * and the loop abandons the region (serve/regions.h).
 *
 * Rule: no lease is prolonged in a region that was given up: its holds end with the last deadline
 * that was promised before (core/host/regions.c).
 */
#ifndef AGENT_SERVE_PROLONG_H
#define AGENT_SERVE_PROLONG_H

#include <stdbool.h>
#include <stdint.h>

struct agent;
struct prolong;

/* A thread for each namespace. NULL: no thread or no memory can be had, errno says why. */
struct prolong *prolong_open(uint32_t namespace_count) __attribute__((warn_unused_result));
/* Never waits for a thread that is stuck: what it has stays until the process ends. */
void prolong_close(struct prolong *prolong);

/* Both calls are for the thread that has the driver (run/keeper.h), and return at once. The first
 * has the lease prolonged until deadline_ns in every region that is in use. */
void prolong_leases(struct agent *agent, uint32_t epoch, int64_t deadline_ns);
/* Has each thread touch its region; called more often than five times a second, it does nothing. */
void prolong_touch(struct agent *agent);

/* Looks which threads are stuck. The keeper calls it some 50 times a second while the loop is held
 * up, and for some seconds after a slow turn. */
void prolong_look(struct prolong *prolong);
/* Bit i: a process of namespace i holds up whoever touches its region. */
uint64_t prolong_held(struct prolong *prolong);

/* Returns whether the thread of that namespace is at work, or stuck: its region must stay mapped.
 */
bool prolong_is_busy(struct prolong *prolong, uint32_t space);
/* The namespace is given up: its thread stops at the next page of the region. */
void prolong_leave(struct prolong *prolong, uint32_t space);

#endif
