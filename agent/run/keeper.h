/*
 * The keeper: a thread that keeps the session while the loop is held up in memory that clients
 * share.
 *
 * A client can make a touch of its region wait until the kernel has punched a hole there. The
 * kernel does that mapping by mapping, and a user can have millions of mappings. Nothing interrupts
 * such a touch. The loop's thread touches regions in the host core and where it looks whether a
 * region is sound. Around that it lends the driver (agent_lend, agent_take_back). If a renewal is
 * overdue then, the keeper takes the driver: it sends and answers renewals (driver_keep), notes the
 * promised deadline, has it written into the regions (serve/prolong.h) and answers systemd's
 * watchdog, until the loop's thread is back. So a client that holds up the loop delays others, and
 * ends no hold of theirs.
 *
 * Rule: only the thread that has the semaphore, the loop's or the keeper's, may be in the driver,
 * the peers or the lease file. The loop has it except while it lends the driver.
 */
#ifndef AGENT_RUN_KEEPER_H
#define AGENT_RUN_KEEPER_H

#include <stdbool.h>
#include <stdint.h>

struct agent;

/* Starts the threads. On failure returns false with errno. Only the thread that has the loop may
 * call the functions of this header. */
bool keeper_open(struct agent *agent) __attribute__((warn_unused_result));
void keeper_close(struct agent *agent);

/* The keeper does nothing before due_ns: until then the loop itself is to renew the session. */
void keeper_expect(struct agent *agent, int64_t due_ns);

/* Called when a turn took so long that a client may have held it up. For some seconds, the threads
 * that prolong leases then touch their regions, and the keeper looks which of them is stuck. */
void keeper_suspect(struct agent *agent, int64_t now_ns);
/* To be called at the end of each turn. */
void keeper_turned(struct agent *agent, int64_t now_ns);

/* For driver_operations. turn.h has the first two calls for the other parts. */
void keeper_lend(void *arg);
void keeper_take_back(void *arg);
void keeper_prolong(void *arg, uint32_t epoch, int64_t deadline_ns);

#endif
