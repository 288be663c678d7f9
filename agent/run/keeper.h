/*
 * The keeper: a thread that keeps the session while the loop is held up in memory that clients
 * share.
 *
 * A client can punch a hole in its region, and a touch of the region then waits until the kernel
 * has punched the hole. The kernel works mapping by mapping, and a user can have millions of
 * mappings. Nothing interrupts such a touch. The loop's thread touches regions in the host core,
 * and when it checks whether a region is sound. Around these touches it lends the driver
 * (agent_lend, agent_take_back).
 *
 * If a renewal is overdue while the driver is lent, the keeper takes the driver. Until the loop's
 * thread is back, the keeper sends and answers renewals (driver_keep), notes the promised deadline,
 * has the deadline written into the regions (serve/prolong.h), and answers systemd's watchdog. So a
 * client that holds up the loop delays other clients, but ends none of their holds.
 *
 * Rule: the semaphore `turn` belongs to the loop's thread or to the keeper's thread. Only the
 * thread that has the semaphore may call the driver, the peers or the lease file. The loop's thread
 * has the semaphore except while it lends the driver.
 */
#ifndef AGENT_RUN_KEEPER_H
#define AGENT_RUN_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

struct agent;

/* Starts the keeper's thread and the threads that prolong leases. On failure returns false with
 * errno. Only the thread that runs the loop may call the functions of this header. */
bool keeper_open(struct agent *agent) __attribute__((warn_unused_result));
void keeper_close(struct agent *agent);

/* Notifies the keeper by which time the loop will have renewed the session. The keeper renews
 * nothing before due_ns. */
void keeper_expect(struct agent *agent, int64_t due_ns);

/* Called when a turn took so long that a client may have held it up. For the next seconds, the
 * threads that prolong leases touch their regions, and the keeper looks which of these threads is
 * stuck. */
void keeper_suspect(struct agent *agent, int64_t now_ns);
/* Called at the end of each turn: while a client is suspected, has the regions touched again. */
void keeper_turned(struct agent *agent, int64_t now_ns);

/* Functions for driver_operations. Other parts make the first two calls through turn.h. */
void keeper_lend(void *arg);
void keeper_take_back(void *arg);
void keeper_prolong(void *arg, uint32_t epoch, int64_t deadline_ns);

#endif
