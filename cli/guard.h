/*
 * Watching over CMD while it runs under its holds.
 *
 * One loop waits for: CMD's end or stop, signals to pass on, the library's events, CMD's progress,
 * and one timer on CLOCK_BOOTTIME. Until the hold has ended the timer stands at the deadline as it
 * is known; when it fires, hf_remaining_ns() says how far renewal has moved the deadline. That
 * needs no agent. When the hold has ended, CMD's group gets SIGTERM, and the timer stands at the
 * instant of SIGKILL:
 *
 *   deadline          deadline + lock-delay x 9/10        deadline + lock-delay
 *   |- SIGTERM        |- SIGKILL at the latest            |- the next holder at the earliest
 *
 * A tenth is left because clocks differ, and it is far more than the time a signal takes. The voter
 * that grants the lock next waits the lock-delay out for so long that this is enough, whatever
 * max_drift is (rules_closed_ns() in the agent).
 *
 * A stopped holdfast could not do any of this. So a stop key stops CMD first, holdfast stops only
 * after it, and once continued it looks at the hold before it lets CMD go on.
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
    bool has_lease;        /* --lease was given; for the message */
    bool has_max_stall;    /* CMD gets a descriptor for its progress */
};

/* The signals that the caller blocks before it takes the locks, so that none is lost on the way to
 * CMD. */
void guard_signals(sigset_t *out);

/*
 * Starts CMD and returns when it has ended, with the exit status for it: that of CMD, 128+n, or
 * CLI_LOST if a hold ended meanwhile; or, if CMD could not be started, 126, 127 or 70. Releases
 * nothing. From the main thread.
 */
int guard_run(const struct guard_options *options) __attribute__((warn_unused_result));

#endif
