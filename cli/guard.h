/*
 * Watching over CMD while it runs under its holds.
 *
 * One loop waits for: CMD's end or stop, signals to pass on, the library's events, CMD's progress,
 * and one timer on CLOCK_BOOTTIME. While there is a hold, the timer is set to the last known
 * deadline. When it fires, hf_remaining_ns() says how far renewals have moved that deadline. That
 * needs no agent. When the hold has ended, CMD's group gets SIGTERM, and the timer is set to the
 * time of SIGKILL:
 *
 *   deadline          deadline + lock-delay x 9/10        deadline + lock-delay
 *   |- SIGTERM        |- SIGKILL at the latest            |- the next holder at the earliest
 *
 * The last tenth allows for clocks that differ, and is far more than a signal needs. The voter that
 * grants the lock next lengthens the lock-delay so that this is enough for any max_drift
 * (rules_closed_ns() in the agent).
 *
 * If holdfast is killed, a guard process ends CMD's group (guard_process.h). There are two.
 *
 * A stopped holdfast could do none of this. So a stop key stops CMD first, and holdfast stops only
 * after CMD. When holdfast is continued, it looks at the hold before it continues CMD.
 */
#ifndef HOLDFAST_CLI_GUARD_H
#define HOLDFAST_CLI_GUARD_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "environment.h"

struct guard_options {
    const struct held *held;
    char **argv;           /* CMD */
    const sigset_t *mask;  /* the signal mask that holdfast was started with, for CMD */
    int64_t kill_after_ns; /* from SIGTERM to SIGKILL */
    int64_t lock_delay_ns; /* 0: none */
    int64_t lease_ns;      /* --lease; 0: renewed */
    bool json;             /* the line about a lost hold is an object */
    int64_t max_stall_ns;  /* --max-stall: CMD gets a descriptor to report progress; 0: none */
};

/* The signals that the caller blocks before it takes the locks, so that none is lost on the way to
 * CMD. */
void guard_signals(sigset_t *out);

/*
 * Starts CMD and returns, when CMD has ended, the exit status of holdfast: CMD's own, 128+n, or
 * CLI_LOST if a hold ended meanwhile; 126, 127 or 70 if CMD could not be started. Releases nothing.
 * Must be called on the main thread.
 */
int guard_run(const struct guard_options *options) __attribute__((warn_unused_result));

#endif
